# SPDX-License-Identifier: Apache-2.0
"""park_idle_s: idle programs leave the GPU by themselves, and any driver call brings them back."""
import json
import random
import time

import harness
from harness import LONG, device, eventually, kill_all
from test_checkpoint import CHECKPOINTED, LOCKED, RUNNING, Parkclient, checkpoint, free_mib
from test_park import ROOMY, helpers, state

IDLE_S = 0.3


def idle_client(s, mib, *options, idle_s=IDLE_S):
    return Parkclient(s, mib, "--park-idle-s", str(idle_s), *options)


def is_off(s, p):
    return state(s, p.pid) == "parked" and checkpoint(s, p.pid, "state") == [CHECKPOINTED]


@device(*ROOMY)
def test_an_idle_program_leaves_and_its_next_call_brings_it_back(s):
    p = idle_client(s, 20)
    before = free_mib(s)
    for name in "cuMemGetInfo", "cuEventQuery", "cuMemAlloc":
        eventually("it is parked", lambda: is_off(s, p))
        assert free_mib(s) >= before + 19
        note = s.ps()[p.pid]["note"]
        assert "because it was idle" in note, note
        assert p.ask(f"call {name}")["result"] == 0
        assert p.ask("check")["wrong"] == 0
    assert state(s, p.pid) == "running"
    eventually("it is parked", lambda: is_off(s, p))
    p.ask("step 3")
    assert p.ask("check")["wrong"] == 0


@device(*ROOMY)
def test_a_program_without_it_stays(s):
    p, q = Parkclient(s, 1, "--class", "normal"), idle_client(s, 1)
    s.rubato("renice", p.pid, "--park-idle-s", IDLE_S)
    eventually("the other one is parked", lambda: is_off(s, q))
    time.sleep(2 * IDLE_S)
    assert checkpoint(s, p.pid, "state") == [RUNNING], "its calls could wake nobody"
    s.rubato("renice", q.pid, "--park-idle-s", "default")
    q.ask("check")
    time.sleep(3 * IDLE_S)
    assert checkpoint(s, q.pid, "state") == [RUNNING]


def fastest_return(s, p, rounds=2):
    """The shortest time of a call that finds its program parked: a busy machine makes others longer."""
    times = []
    for _ in range(rounds):
        eventually("it is parked", lambda: is_off(s, p))
        times.append(p.ask("call cuMemGetInfo")["seconds"])
    return min(times)


@device(*ROOMY)
def test_the_call_returns_in_restore_time(s):
    p = idle_client(s, 1)
    base = fastest_return(s, p)
    assert base < 0.1, base
    s.softgpu("fault", "--process", "restore", "--delay-us", 300000)
    assert 0.3 <= fastest_return(s, p) < 0.3 + base + 0.1


@device(*ROOMY)
def test_calls_race_with_the_decision(s):
    """Calls at random times around the end of the idle time: all return, with right values."""
    p = idle_client(s, 2, idle_s=0.1)
    chance, n_slow = random.Random(7), 0
    for i in range(200 if LONG else 30):
        time.sleep(0.08 + chance.random() * 0.06)
        answer = p.ask(("call cuMemGetInfo", "call cuEventQuery", "call cuMemAlloc", "step 1")[i % 4])
        n_slow += answer.get("seconds", 0) > 0.002
    assert p.ask("check")["wrong"] == 0
    assert n_slow > 0, "none of the calls met the park"
    eventually("it is parked in the end", lambda: is_off(s, p))


@device(*ROOMY)
def test_a_call_cancels_the_park(s):
    """The call comes while the driver locks the program: the checkpoint, which would take a minute, is not made."""
    p = idle_client(s, 2, idle_s=1)
    s.softgpu("fault", "--process", "lock", "--delay-us", 1000000)
    s.softgpu("fault", "--process", "checkpoint", "--delay-us", 60000000)
    p.ask("step 1")
    eventually("a helper works", lambda: helpers(s))
    assert p.ask("call cuMemGetInfo")["result"] == 0
    eventually("the helper has ended", lambda: not helpers(s))
    assert checkpoint(s, p.pid, "state") == [RUNNING]
    assert p.ask("check")["wrong"] == 0


@device(*ROOMY)
def test_a_synchronisation_and_a_request_are_no_idleness(s):
    p = idle_client(s, 1, idle_s=0.2)
    p.ask("spin 400000000")
    p.process.stdin.write("sync\n")
    p.process.stdin.flush()
    time.sleep(1)
    assert not helpers(s) and checkpoint(s, p.pid, "state") == [RUNNING]
    p.kill()


@device("--mem", "1300")
def test_it_waits_for_memory(s):
    p, q = idle_client(s, 50), Parkclient(s, 1, "--class", "normal")
    eventually("it is parked", lambda: is_off(s, p))
    assert q.ask("reserve 300")["result"] == 0
    p.process.stdin.write("call cuMemGetInfo\n")
    p.process.stdin.flush()
    eventually("ps says for whom", lambda: f"held by {q.pid}" in s.ps()[p.pid]["note"])
    assert checkpoint(s, p.pid, "state") == [CHECKPOINTED], "a restore would lose it"
    q.end()
    assert json.loads(p.process.stdout.readline())["result"] == 0
    assert p.ask("check")["wrong"] == 0


@device(*ROOMY)
def test_an_order_takes_its_place(s):
    p = idle_client(s, 1)
    eventually("it is parked", lambda: is_off(s, p))
    s.rubato("park", p.pid)
    p.process.stdin.write("call cuMemGetInfo\n")
    p.process.stdin.flush()
    time.sleep(0.5)
    assert is_off(s, p), "it comes back by order only"
    s.rubato("unpark", p.pid)
    assert json.loads(p.process.stdout.readline())["result"] == 0


@device(*ROOMY)
def test_whoever_is_killed(s):
    both = [lambda: [s.daemon()], lambda: helpers(s)] if LONG else []
    for victims in (*both, lambda: [s.daemon(), *helpers(s)]):
        for call, wanted in (("checkpoint", [LOCKED]), ("restore", [CHECKPOINTED])):
            p = idle_client(s, 1)
            if call == "restore":
                eventually("it is parked", lambda: is_off(s, p))
            s.softgpu("fault", "--process", call, "--delay-us", 60000000)
            if call == "restore":
                p.process.stdin.write("call cuMemGetInfo\n")
                p.process.stdin.flush()
            eventually("a helper is inside the call", lambda: helpers(s) and checkpoint(s, p.pid, "state") == wanted)
            s.forget_deaths()
            kill_all(victims())
            s.softgpu("fault", "clear")
            if call == "restore":
                assert json.loads(p.process.stdout.readline())["result"] == 0
            assert p.ask("check")["wrong"] == 0
            p.end()


@device(*ROOMY)
def test_the_daemon_is_killed_while_it_is_parked(s):
    """The next daemon has no board that could wake it, so it brings the program back at once."""
    p = idle_client(s, 4, idle_s=1)
    eventually("it is parked", lambda: is_off(s, p))
    s.forget_deaths()
    kill_all([s.daemon()])
    eventually("it is back", lambda: checkpoint(s, p.pid, "state") == [RUNNING])
    assert p.ask("check")["wrong"] == 0
    eventually("it is parked again", lambda: is_off(s, p))
    assert p.ask("check")["wrong"] == 0


if __name__ == "__main__":
    harness.main()
