# SPDX-License-Identifier: Apache-2.0
"""Somebody is killed at a random moment, again and again: nobody hangs, nothing stays suspended or short.

20 rounds; 500 in the long run; RUBATO_TEST_ROUNDS says otherwise. RUBATO_TEST_SEED repeats a run.
"""
import os
import random
import signal
import threading
import time

from harness import LONG, Session, alive, eventually, main

ROUNDS = int(os.environ.get("RUBATO_TEST_ROUNDS", 500 if LONG else 20))


def busy(s, programs, stop, rng):
    """Tools at work while somebody dies; whatever they answer, they must answer."""
    while not stop.is_set():
        pid = str(rng.choice(programs).pid)
        command = rng.choice([["suspend", pid, "--for", "0.3"], ["suspend", pid], ["resume", pid], ["ps"],
                              ["renice", pid, "--class", rng.choice(["best-effort", "normal", "latency"])]])
        done = s.rubato(*command, code=None, timeout=20)
        assert done.returncode in (0, 1, 3, 128 + signal.SIGKILL), (command, done.returncode, done.stderr)


def strike(s, victim, programs, rng):
    """Kills one of them; returns the programs that must have survived."""
    if victim == "program":
        dead = rng.choice(programs)
        dead.kill()
        return [p for p in programs if p is not dead]
    if victim == "tool":
        for pid in s.processes("rubato")[:1]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    for name in {"daemon": ["rubatod"], "hand": ["rubato-hand"], "both": ["rubatod", "rubato-hand"]}.get(victim, []):
        for pid in s.processes(name):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    if victim == "device":
        s.softgpu("kill")
    return programs


def one_round(s, rng):
    victim = rng.choice(["program", "tool", "daemon", "hand", "both", "device"])
    programs = [s.run("--class", "best-effort", args=["--survive"]), s.run("--class", "latency", args=["--survive"]),
                s.program("--survive")]
    stop = threading.Event()
    failures = []

    def work(seed):
        try:
            busy(s, programs, stop, random.Random(seed))
        except Exception as e:
            failures.append(e)

    workers = [threading.Thread(target=work, args=(rng.random(),)) for _ in range(2)]
    for w in workers:
        w.start()
    time.sleep(rng.uniform(0.0, 0.5))
    survivors = strike(s, victim, programs, rng)
    time.sleep(rng.uniform(0.0, 0.2))
    stop.set()
    for w in workers:
        w.join(30)
        assert not w.is_alive(), f"{victim}: a tool hangs"
    assert victim == "device" or not failures, (victim, failures)
    assert all(alive(p.pid) for p in survivors), f"{victim}: a program died of it"
    if victim == "device":
        return
    # Whoever is left ends too; what that cannot heal, the next command does.
    s.end_daemon()
    eventually("all have gone", lambda: not s.processes("rubatod") and not s.processes("rubato-hand"), 10)
    for p in survivors:
        s.rubato("resume", p.pid)
    for p in survivors:
        s.rubato("renice", p.pid, "--class", "normal")
    try:
        eventually(f"{victim}: all are at their default", lambda: all(s.is_default(p.pid) for p in survivors))
    except AssertionError as e:
        tasks = [(t["pid"], t["engine"], t["timeslice_us"], f"{t['enabled']}/{t['channels']}") for t in s.state()["tsgs"]]
        raise AssertionError(f"{e}: {tasks}; {[(row['pid'], row['class'], row['state']) for row in s.ps().values()]}") from e


def test_random_kills(_):
    seed = int(os.environ.get("RUBATO_TEST_SEED", time.time_ns() % 1000000))
    print(f"     seed {seed}, {ROUNDS} rounds")
    rng = random.Random(seed)
    for i in range(ROUNDS):
        s = Session()
        try:
            one_round(s, rng)
        except Exception as e:
            raise AssertionError(f"round {i} of seed {seed}: {e}; rubatod: {s.log()}") from e
        finally:
            s.close()


main()
