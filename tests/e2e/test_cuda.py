# SPDX-License-Identifier: Apache-2.0
"""CUDA programs on the software GPU: unmodified, several at once, preempted, suspended, killed."""
import json
import os
import random
import signal
import subprocess
import time

import harness
from harness import LONG, binary, device, eventually
from programs import KERNELS, Spinner, contexts, is_right, result, start, suite

FAULTS = ("illegal", 700), ("misaligned", 716), ("trap", 719), ("assert", 710)
REFUSED = ("fatbin", 209), ("cubin", 209), ("export", None)


def is_all_free(s, mib):
    """But for a little that the allocator keeps."""
    return [d["memory_free_bytes"] >> 12 for d in s.state()["devices"]] == [(mib << 8) - 1]


def test_the_suite_is_right(s):
    done = s.command(*suite(), timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 wrong" in done.stdout


def test_several_at_once(s):
    for n in (2, 8):
        programs = [start(s, "--seed", i) for i in range(n)]
        assert all([is_right(p) for p in programs])
    eventually("nothing is left of them", lambda: not s.state()["contexts"])
    assert is_all_free(s, 256), s.state()["devices"]


@device("--sms", "1")
def test_one_sm_is_enough(s):
    assert s.state()["devices"] == []  # it starts with its first program
    p = start(s)
    assert s.state()["devices"][0]["sms"] == 1
    assert is_right(p)


def test_commands_act_on_kernels(s):
    p = Spinner(s, "--class", "best-effort")
    p.ask("go")
    eventually("it is at 1 us", lambda: s.slices(p.pid) == [1])
    assert s.ps()[p.pid]["class"] == "best-effort"
    eventually("it works", lambda: p.count() > 2)
    s.rubato("suspend", p.pid)
    eventually("it is suspended", lambda: s.is_suspended(p.pid))
    before = p.count()
    time.sleep(0.5)
    assert p.count() == before, "a suspended program's kernels ran on"
    s.rubato("resume", p.pid)
    eventually("it goes on", lambda: p.count() > before)
    s.rubato("renice", p.pid, "--class", "normal")
    eventually("its own slice again", lambda: s.slices(p.pid) == [2048])
    assert p.ask("check")["wrong_threads"] == 0


def test_a_short_slice_gives_way(s):
    """Beside a neighbour at the driver's slice, a program at 1 us gets little; alone, all."""
    p, q = Spinner(s, "--class", "best-effort"), Spinner(s)
    p.ask("go"), q.ask("go")
    eventually("it is at 1 us", lambda: s.slices(p.pid) == [1])
    time.sleep(1.5)
    first = contexts(s)
    time.sleep(1.5)
    second = contexts(s)
    work = {pid: second[pid]["instructions"] - first[pid]["instructions"] for pid in (p.pid, q.pid)}
    assert work[p.pid] * 10 < work[q.pid], work
    q.ask("pause")
    before = p.count()
    eventually("alone it works", lambda: p.count() > before + 2)


def test_faults_kill_one_context(s):
    p = start(s, "--rounds", 3)
    for name, error in FAULTS:
        done = s.command(binary("cuda_refuse"), KERNELS, name, timeout=30)
        assert done.stdout.splitlines()[-1] == f"error {error}, then {error}", (name, done.stdout, done.stderr)
        # As on hardware: what a kernel prints is output, which assertion failed is not.
        assert ("Assertion" in done.stderr) == (name == "assert") and "Assertion" not in done.stdout, (name, done)
    assert is_right(p)


def test_what_is_not_taken_is_said(s):
    """Compiled code, and the tables that NVIDIA's runtime asks for: one line each, and the context lives."""
    for name, error in REFUSED:
        done = s.command(binary("cuda_refuse"), KERNELS, name, timeout=30)
        first, then = done.stdout.strip().split(", then ")
        assert then == "0" and first != "error 0" and (error is None or first == f"error {error}"), (name, done)
        said = done.stderr.splitlines()  # a fat binary is tried in two forms
        assert len(said) == (2 if name == "fatbin" else 1) and all("PTX" in line for line in said), (name, said)


def test_death_of_the_device(s):
    programs = [start(s, "--rounds", 1000, "--seed", i) for i in range(4)]
    spinner = Spinner(s, "--class", "best-effort")
    spinner.ask("go")
    time.sleep(0.5)
    s.softgpu("kill")
    for p in programs:
        code, _ = result(p, 10)
        assert code == 3, code  # the driver failed a call
    assert spinner.process.wait(10) == 1  # by itself, with one line


class Crowd:
    """Eight programs, of two kinds: those that end when they have checked every kernel of the suite, and those that
    go on until they are told to check theirs."""

    def __init__(self, s, seed):
        self.s, self.rng = s, random.Random(seed)
        self.suites, self.spinners = [], []
        self.n_right = self.n_killed = self.n_preempts = 0
        self.seen = {}

    def fill(self):
        while len(self.suites) < 4:
            self.suites.append(start(self.s, "--rounds", 2, "--seed", self.rng.randrange(1 << 30)))
        while len(self.spinners) < 4:
            self.spinners.append(Spinner(self.s))
            self.spinners[-1].ask("go")

    def count(self):
        for pid, c in contexts(self.s).items():
            self.n_preempts += c["preempts"] - self.seen.get(pid, 0)
            self.seen[pid] = c["preempts"]

    def kill_one(self):
        kind = self.rng.choice((self.suites, self.spinners))
        victim = kind.pop(self.rng.randrange(len(kind)))
        victim.kill()
        victim.end()
        self.n_killed += 1

    def disturb_one(self):
        victim = self.rng.choice(self.suites + self.spinners)
        self.s.rubato("suspend", victim.pid, "--for", self.rng.choice(("0.01", "0.05")), code=None)

    def reap(self):
        for p in [p for p in self.suites if p.process.poll() is not None]:
            assert is_right(p), "a survivor is wrong"
            self.suites.remove(p)
            self.n_right += 1

    def finish(self):
        for p in self.suites + self.spinners:
            self.s.rubato("resume", p.pid, code=None)
        for p in self.spinners:
            assert p.ask("check")["wrong_threads"] == 0, "a survivor is wrong"
            p.end()
        for p in self.suites:
            assert is_right(p), "a survivor is wrong"
        self.n_right += len(self.suites) + len(self.spinners)


@device("--mem", "64")
def test_ten_thousand_preemptions(s):
    """Eight programs at once, preempted by slice and by command, killed at random: the others are right."""
    wanted, limit_s = (10000, 900) if LONG else (500, 100)
    crowd = Crowd(s, 7)
    end = time.monotonic() + limit_s
    while crowd.n_preempts < wanted:
        assert time.monotonic() < end, f"{crowd.n_preempts} preemptions only"
        crowd.fill()
        crowd.disturb_one()
        if crowd.rng.random() < 0.1:
            crowd.kill_one()
        crowd.reap()
        crowd.count()
    crowd.finish()
    print(f"     {crowd.n_preempts} preemptions, {crowd.n_right} survivors, {crowd.n_killed} killed")
    eventually("nothing is left of them", lambda: not s.state()["contexts"])
    assert is_all_free(s, 64), s.state()["devices"]


def test_device_soft(s):
    """`rubato run --device soft` starts a device, other commands find it, and it goes with the last program."""
    env = dict(s.env, RUBATO_RUNTIME_DIR=os.path.join(s.dir, "own"))
    rubato = binary("rubato")
    done = subprocess.run([rubato, "run", "--device", "soft", "--sms", "2", "--class", "best-effort", "--", *suite()],
                          env=env, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode == 0 and " 0 wrong" in done.stdout, done.stdout + done.stderr
    p = subprocess.Popen([rubato, "run", "--device=soft", "--", *suite("--say", "--rounds", "200")], env=env,
                         stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        pid = int(p.stdout.readline().split("=")[1])
        listed = subprocess.run([rubato, "ps", "--json", "--device", "soft"], env=env, capture_output=True, text=True,
                                timeout=30)
        assert [q["pid"] for q in json.loads(listed.stdout)["programs"]] == [pid], listed
    finally:
        os.kill(pid, signal.SIGKILL)
        p.wait(10)
    sock = os.path.join(s.dir, "own", "softgpu", "device.sock")
    eventually("the device server goes", lambda: not os.path.exists(sock))
    for wrong in (["--device"], ["--device="], ["--device", "hard"], ["--sms", "4"], ["--device", "soft", "--sms", "0"]):
        done = subprocess.run([rubato, "run", *wrong, "--", "true"], env=env, capture_output=True, text=True, timeout=30)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, (wrong, done)


if __name__ == "__main__":
    harness.main()
