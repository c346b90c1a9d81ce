# SPDX-License-Identifier: Apache-2.0
"""park_idle_s: idle programs leave the GPU by themselves, and any driver call brings them back."""
import json
import random
import time

import harness
from harness import LONG, device, eventually, kill_all
from test_checkpoint import CHECKPOINTED, LOCKED, RUNNING, Parkclient, checkpoint, free_mib
from test_park import ROOMY, helpers, state

IDLE_S = 0.4


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


if __name__ == "__main__":
    harness.main()
