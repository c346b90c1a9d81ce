#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two PyTorch programs take turns on a GPU that has room for one of them beside ballast, by `rubato park` and `rubato unpark`.

Prints a table: seconds and GB/s each way, and whether both computed what they compute without parking. Ends after --limit seconds
in any case. --program and --ballast are in GB; --kill: the helper is killed inside a call at the end, and what happened is printed.
"""
import sys

sys.dont_write_bytecode = True

import argparse
import json
import os
import statistics
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))

WORKER = r"""
import hashlib, json, os, sys, time
import torch
gb, seed = float(sys.argv[1]), int(sys.argv[2])
torch.manual_seed(seed)
x = torch.randn(2048, 2048, device="cuda")
blocks = [torch.randint(0, 2**31 - 1, (1 << 28,), dtype=torch.int32, device="cuda") for _ in range(max(1, round(gb * 1e9 / (1 << 30))))]
torch.cuda.synchronize()
print(json.dumps({"pid": os.getpid(), "bytes": torch.cuda.memory_reserved()}), flush=True)
for line in sys.stdin:
    start, out = time.monotonic(), {}
    if line.strip() == "step":
        for _ in range(20):
            x = torch.nn.functional.normalize(x @ x)
        torch.cuda.synchronize()
    elif line.strip() == "state":  # of what it computes
        out["digest"] = hashlib.sha256(x.cpu().numpy().tobytes()).hexdigest()
    elif line.strip() == "memory":  # of what only lies there
        out["digest"] = [int(block.sum(dtype=torch.int64).item()) for block in blocks]
    else:
        torch.cuda.mem_get_info()
    out["seconds"] = time.monotonic() - start
    print(json.dumps(out), flush=True)
"""


class Worker:
    def __init__(self, gb, seed, under=()):
        self.process = subprocess.Popen([*under, sys.executable, "-c", WORKER, str(gb), str(seed)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        first = json.loads(self.process.stdout.readline())
        self.pid, self.bytes, self.seed, self.n_steps, self.memory = first["pid"], first["bytes"], seed, 0, None

    def send(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def receive(self):
        return json.loads(self.process.stdout.readline())

    def ask(self, word):
        self.send(word)
        return self.receive()

    def end(self):
        self.process.kill()
        self.process.wait()


def used_mib():
    try:
        out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], capture_output=True, text=True,
                             timeout=20)
        return int(out.stdout.split()[0])
    except (OSError, ValueError, IndexError):
        return -1


class Bench:
    def __init__(self, options):
        self.options, self.end = options, time.monotonic() + options.limit
        self.rows, self.workers = {"park": [], "unpark": []}, []

    def rubato(self, *args):
        left = self.end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        done = subprocess.run([self.options.rubato, *map(str, args)], capture_output=True, text=True, timeout=left)
        if done.returncode != 0:
            raise RuntimeError(f"rubato {args}: exit {done.returncode}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout)["programs"][0] if "--json" in args else done.stdout

    def move(self, what, worker):
        start = time.monotonic()
        told = self.rubato(what, "--json", worker.pid)
        seconds = time.monotonic() - start
        self.rows[what].append((told["bytes"] / 1e9, seconds))
        print(f"{what:7} {told['bytes'] / 1e9:6.1f} GB {seconds:6.2f} s {told['bytes'] / 1e9 / seconds:6.2f} GB/s, used {used_mib()} MiB",
              flush=True)

    def is_right(self, worker):
        """Whether it has computed what a program computes that is never parked, and its memory is as it was."""
        reference = Worker(1, worker.seed)
        for _ in range(worker.n_steps):
            reference.ask("step")
        wanted = reference.ask("state")["digest"]
        reference.end()
        return worker.ask("state")["digest"] == wanted and worker.ask("memory")["digest"] == worker.memory

    def run(self):
        o = self.options
        under = [o.rubato, "run", "--class", "best-effort", "--"]
        if o.ballast > 0:
            self.workers.append(Worker(o.ballast, 3))
        off = self.begin(Worker(o.program, 1, under))
        self.move("park", off)
        on = self.begin(Worker(o.program, 2, under))
        for i in range(o.switches):
            self.move("park", on)
            self.move("unpark", off)
            on, off = off, on
            on.ask("step")
            on.n_steps += 1
            print(f"switch {i + 1}: program {on.seed} after {on.n_steps} steps: results "
                  f"{'bit-equal' if self.is_right(on) else 'DIFFER'}", flush=True)
        if o.kill:
            self.kill_inside(on)

    def begin(self, worker):
        self.workers.append(worker)
        worker.ask("step")
        worker.n_steps += 1
        worker.memory = worker.ask("memory")["digest"]
        return worker

    def first_call(self):
        """A call that finds its program parked: how long after the order to come back does it return?"""
        worker = Worker(1, 4, [self.options.rubato, "run", "--class", "best-effort", "--"])
        self.workers.append(worker)
        worker.ask("step")
        self.move("park", worker)
        worker.send("info")
        time.sleep(0.5)
        self.move("unpark", worker)
        ended = time.monotonic()
        worker.receive()
        print(f"a call that waited returned {(time.monotonic() - ended) * 1e3:+.1f} ms after unpark did", flush=True)

    def kill_inside(self, worker):
        tool = subprocess.Popen([self.options.rubato, "park", str(worker.pid)], stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True)
        time.sleep(3)
        pids = subprocess.run(["pgrep", "-x", "rubato-park"], capture_output=True, text=True).stdout.split()
        for pid in pids:
            os.kill(int(pid), 9)
        print(f"killed helpers {pids} inside a call")
        try:
            print("park:", tool.communicate(timeout=max(1, self.end - time.monotonic()))[0].strip(), tool.returncode)
            print("\n".join(line[:120] for line in self.rubato("ps").splitlines() if "parked" in line or "note" in line))
            self.move("unpark", worker)
            print("its results:", "bit-equal" if self.is_right(worker) else "DIFFER")
        except (RuntimeError, subprocess.TimeoutExpired) as e:
            print("after the kill:", e)

    def table(self):
        print("\n| | moves | GB | median s | GB/s |\n|---|---|---|---|---|")
        for what, rows in self.rows.items():
            if rows:
                gb, seconds = statistics.median(r[0] for r in rows), statistics.median(r[1] for r in rows)
                print(f"| {what} | {len(rows)} | {gb:.1f} | {seconds:.2f} | {gb / seconds:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rubato", default=os.path.join(HERE, os.pardir, "build", "rubato"), help="(%(default)s)")
    parser.add_argument("--program", type=float, default=40, help="GB of each program (%(default)s)")
    parser.add_argument("--ballast", type=float, default=70, help="GB (%(default)s)")
    parser.add_argument("--switches", type=int, default=3, help="from one program to the other (%(default)s); each takes about 30 s with 40 GB")
    parser.add_argument("--limit", type=float, default=145, help="seconds in all (%(default)s)")
    parser.add_argument("--kill", action="store_true", help="at the end, kill the helper inside a call")
    bench = Bench(parser.parse_args())
    try:
        bench.first_call()
        bench.rows = {"park": [], "unpark": []}
        bench.run()
    except (TimeoutError, subprocess.TimeoutExpired):
        print(f"ended after {bench.options.limit:.0f} s: fewer --switches or a smaller --program fit")
    finally:
        for worker in bench.workers:
            worker.end()
    bench.table()


main()
