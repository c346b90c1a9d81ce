# SPDX-License-Identifier: Apache-2.0
"""Two PyTorch models in one process: a thread answers requests (ResNet-50, as a CUDA graph or eager), another one
trains. Measures each way to share the GPU in turn, several rounds, and prints a table: the requests' p99 by their
time alone, and the training's rate by its rate alone. The last column is what the lock of Python costs: the requests
beside a thread that launches as much, but has next to nothing to compute."""
import sys

sys.dont_write_bytecode = True

import argparse
import collections
import contextlib
import json
import os
import re
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, os.pardir, "python")]
import benchlib  # noqa: E402
import rubato  # noqa: E402

SETTLE_S = 0.5
# Name, environment; None: no scheduler.
REGIMES = {
    "one stream": None,
    "priorities": {"RUBATO_ORION_POLICY": "priority"},
    "default": {},
    "partition": {"RUBATO_ORION_POLICY": "priority", "RUBATO_ORION_PARTITION": "sms"},
    "default+partition": {"RUBATO_ORION_PARTITION": "sms"},
    "profiles": {},  # last: a profile stays
}
# What bounds a kernel, by its name: there are no hardware counters to ask.
COMPUTES = re.compile(r"gemm|conv|cutlass|xmma|wgrad|dgrad|flash|attention|nvjet", re.I)


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", required=True, help="libgpu_scheduler.so")
    parser.add_argument("--modes", default="graph,eager", help="(%(default)s)")
    parser.add_argument("--model", choices=("gpt", "resnet50", "tiny"), default="gpt", help="to train (%(default)s)")
    parser.add_argument("--batch", type=int, help="of the training")
    parser.add_argument("--requests", type=int, default=150, help="per cell and round (%(default)s)")
    parser.add_argument("--rate", type=float, default=25, help="requests per second (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--sms", type=int, default=72, help="of the partition (%(default)s)")
    parser.add_argument("--hp-latency", type=float, default=0, help="ms, for orion_set_hp_latency")
    parser.add_argument("--regimes", default=",".join(r for r in REGIMES), help="(all)")
    parser.add_argument("--json", help="file for all figures")
    return parser.parse_args()


class Sink:
    """What benchlib.answer() prints in the programs of other benchmarks."""

    def __init__(self):
        self.last = None

    def __call__(self, **fields):
        self.last = fields


class Bench:
    def __init__(self, args):
        self.args, self.scheduler = args, rubato.Scheduler(2)
        os.environ["RUBATO_ORION_LIBRARY"] = args.library
        self.scheduler.start()  # before `import torch`
        self.scheduler.stop()
        import torch
        import torch_latency
        import torch_train
        self.torch, self.answer = torch, Sink()
        benchlib.answer = self.answer
        self.server = torch_latency.Server(1, args.modes.split(","), False)
        tasks = {"gpt": torch_train.Words, "resnet50": torch_train.Pictures}
        self.worker = (torch_train.Trainer(tasks[args.model](args.batch)) if args.model in tasks
                       else torch_train.Tiny())
        self.lock = torch_train.Tiny()  # launches as much as a trainer
        for worker in (self.worker, self.lock):
            threading.Thread(target=self.work, args=(worker,), daemon=True).start()
            worker.idle.wait()

    def work(self, worker):
        step = worker.step

        def follow(i):
            # After a stop, a thread keeps the stream that it had as a client.
            if not self.scheduler.enabled:
                self.torch.cuda.set_stream(self.torch.cuda.default_stream())
            return step(i)

        worker.step = follow
        with rubato.client(1):
            worker.work()

    @contextlib.contextmanager
    def regime(self, name):
        settings = REGIMES[name]
        if settings is None:
            yield
            return
        for variable in ("RUBATO_ORION_POLICY", "RUBATO_ORION_PARTITION"):
            os.environ.pop(variable, None)
        os.environ.update({k: str(self.args.sms) if v == "sms" else v for k, v in settings.items()})
        with self.scheduler:
            if self.args.hp_latency:
                self.scheduler.set_hp_latency(self.args.hp_latency)
            if name == "profiles":
                self.scheduler.load_profile(self.profile())
            yield
            self.stats = self.scheduler.stats()

    def profile(self):
        """Recorded here, with kinds by the kernels' names."""
        path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"orion_torch.{os.getpid()}.csv")
        if not os.path.exists(path):
            self.scheduler.start_profiling("bench")
            self.rate_alone(2)
            self.server.serve_eagerly()
            self.scheduler.end_profiling(path)
            lines = open(path, encoding="utf-8").read().splitlines()
            kind = lines[0].split(",").index("Profile")
            with open(path, "w", encoding="utf-8") as f:
                for i, line in enumerate(lines):
                    fields = split(line)
                    if i > 0 and fields[0] and "graph" not in fields[0]:
                        fields[kind] = "1" if COMPUTES.search(fields[0]) else "0"
                    f.write(",".join(fields) + "\n")
        return path

    def rate_alone(self, seconds):
        worker = self.worker
        worker.go()
        time.sleep(SETTLE_S)
        rate = self.count_over(worker, lambda: time.sleep(seconds))
        worker.pause()
        return rate

    def count_over(self, worker, fn):
        done, since = worker.done, time.monotonic()
        fn()
        return (worker.done - done) / (time.monotonic() - since)

    def requests(self, mode, seed):
        with rubato.client(0):
            if not self.scheduler.enabled:
                self.torch.cuda.set_stream(self.torch.cuda.default_stream())
            self.server.measure(mode, self.args.requests, self.args.rate, seed)
        return self.answer.last

    def beside(self, worker, mode, seed):
        worker.go()
        time.sleep(SETTLE_S)
        got = {}
        rate = self.count_over(worker, lambda: got.update(self.requests(mode, seed)))
        worker.pause()
        return got, rate


def split(line):
    """A CSV line's fields, as they stand."""
    return re.findall(r'(?:^|,)((?:"(?:[^"]|"")*")|[^,]*)', line)


def run(bench, args):
    cells = collections.defaultdict(lambda: {"latency": [], "service": [], "rate": [], "stats": []})

    def note(key, got, rate=None, stats=None):
        cell = cells[key]
        cell["latency"] += got["latency_us"]
        cell["service"] += got["service_us"]
        if rate is not None:
            cell["rate"].append(rate)
        if stats is not None:
            cell["stats"].append(stats)

    bench.rate_alone(4)  # warm
    for round_ in range(args.rounds):
        cells["alone"]["rate"].append(bench.rate_alone(3))
        for mode in args.modes.split(","):
            note(("alone", mode), bench.requests(mode, round_))
            note(("lock", mode), *bench.beside(bench.lock, mode, round_))
        for regime in args.regimes.split(","):
            with bench.regime(regime):
                for mode in args.modes.split(","):
                    got, rate = bench.beside(bench.worker, mode, round_)
                    note((regime, mode), got, rate, rubato.stats() if REGIMES[regime] is not None else None)
        cells["alone"]["rate"].append(bench.rate_alone(3))
    return cells


def report(cells, args):
    own = max(cells["alone"]["rate"])
    rows = []
    for (regime, mode), cell in ((k, c) for k, c in cells.items() if isinstance(k, tuple)):
        alone = cells["alone", mode]
        p = {k: benchlib.percentile(cell[k], 99) for k in ("latency", "service")}
        rows.append([mode, regime, f"{benchlib.percentile(cell['service'], 50) / 1e3:.2f}",
                     f"{p['service'] / 1e3:.2f}",
                     f"{p['service'] / benchlib.percentile(alone['service'], 99):.3f}",
                     f"{p['latency'] / benchlib.percentile(alone['latency'], 99):.3f}",
                     f"{benchlib.median(cell['rate']) / own:.3f}" if cell["rate"] and regime != "lock" else "–"])
    print(benchlib.table(["requests", "regime", "service p50 ms", "p99 ms", "service p99 ÷ alone", "latency p99 ÷ alone",
                          "training ÷ alone"], rows))
    print("training alone, iterations/s: " + ", ".join(f"{rate:.2f}" for rate in cells["alone"]["rate"]))
    for key, cell in cells.items():
        if isinstance(key, tuple) and cell["stats"]:
            print("stats", key, cell["stats"][-1])
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({" ".join(k) if isinstance(k, tuple) else k: c for k, c in cells.items()}, f)


def main():
    args = parse()
    bench = Bench(args)
    print(f"{bench.torch.cuda.get_device_name()}, torch {bench.torch.__version__}, {benchlib.machine_line(benchlib.machine())}, "
          f"training {args.model}, {args.requests} requests per cell and round, {args.rate:g}/s, {args.rounds} rounds")
    cells = run(bench, args)
    report(cells, args)
    sys.stdout.flush()
    os._exit(0)  # a trainer's thread never ends


if __name__ == "__main__":
    main()
