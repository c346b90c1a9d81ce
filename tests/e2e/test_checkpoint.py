# SPDX-License-Identifier: Apache-2.0
"""The driver's checkpoint calls on the software GPU, as driver 580 answers them."""
import json
import os
import signal
import subprocess
import sys
import time

import harness
from harness import HERE, device, eventually
from programs import Asked, affine_ptx, contexts

PROGS = os.path.join(HERE, "..", "progs")
ILLEGAL_STATE, NOT_READY, OPERATING_SYSTEM, OUT_OF_MEMORY = 401, 600, 304, 2
RUNNING, LOCKED, CHECKPOINTED, FAILED = (f"state {i}" for i in range(4))


class Parkclient(Asked):
    def __init__(self, s, mib, *run_options, more=()):
        s.env["PTX"] = affine_ptx(s)
        super().__init__(s, [sys.executable, os.path.join(PROGS, "parkclient.py"), str(mib), *map(str, more)], run_options)


def checkpoint(s, pid, *calls):
    done = s.command(sys.executable, os.path.join(PROGS, "checkpoint.py"), str(pid), *calls)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def free_mib(s):
    return s.state()["devices"][0]["memory_free_bytes"] >> 20


@device("--mem", "64")
def test_memory_leaves_and_comes_back(s):
    p, q = Parkclient(s, 25), Parkclient(s, 25)
    assert free_mib(s) < 15
    assert checkpoint(s, p.pid, "state", "lock", "state", "checkpoint", "state") == [RUNNING, 0, LOCKED, 0, CHECKPOINTED]
    assert free_mib(s) > 37, "its memory is free"
    assert q.ask("alloc 25")["result"] == 0, "another program can have it"
    assert q.ask("check")["wrong"] == 0
    q.end()
    eventually("its memory is free", lambda: free_mib(s) > 60)
    assert checkpoint(s, p.pid, "restore", "state", "unlock", "state") == [0, LOCKED, 0, RUNNING]
    assert p.ask("check")["wrong"] == 0
    p.ask("step 5")
    assert p.ask("check")["wrong"] == 0
    assert s.slices(p.pid) == [1024], "its slice is the default one, not libcuda's"


def test_calls_wait_while_it_is_off(s):
    p = Parkclient(s, 4)
    assert checkpoint(s, p.pid, "lock", "checkpoint") == [0, 0]
    for name in "cuMemGetInfo", "cuEventQuery", "cuMemAlloc":
        p.process.stdin.write(f"call {name}\n")
    p.process.stdin.flush()
    time.sleep(0.3)
    assert checkpoint(s, p.pid, "restore", "unlock") == [0, 0]
    first = json.loads(p.process.stdout.readline())
    assert first["result"] == 0 and first["seconds"] > 0.25, first
    assert json.loads(p.process.stdout.readline())["result"] == 0
    assert json.loads(p.process.stdout.readline())["result"] == 0


def test_wrong_order(s):
    p = Parkclient(s, 1)
    assert checkpoint(s, p.pid, "checkpoint", "restore", "unlock") == [ILLEGAL_STATE] * 3
    assert checkpoint(s, p.pid, "lock", "lock", "restore", "unlock") == [0, ILLEGAL_STATE, ILLEGAL_STATE, 0]
    assert checkpoint(s, p.pid, "lock", "checkpoint", "lock", "unlock") == [0, 0, ILLEGAL_STATE, ILLEGAL_STATE]
    assert checkpoint(s, p.pid, "restore", "unlock", "state") == [0, 0, RUNNING]
    assert checkpoint(s, os.getpid(), "state", "lock") == [1, 1], "no CUDA program"


def test_a_lock_waits_for_work(s):
    p = Parkclient(s, 1)
    p.ask("spin 200000000")  # longer than the test
    assert checkpoint(s, p.pid, "lock:200", "state") == [NOT_READY, RUNNING]
    s.rubato("suspend", p.pid)
    assert checkpoint(s, p.pid, "lock:200", "state") == [NOT_READY, RUNNING]
    p.kill()


def test_a_stopped_program_hangs_the_call(s):
    p = Parkclient(s, 1)
    p.kill(signal.SIGSTOP)
    call = subprocess.Popen(s.inside([sys.executable, os.path.join(PROGS, "checkpoint.py"), str(p.pid), "lock:100"]), env=s.env,
                            stdout=subprocess.PIPE, text=True)
    time.sleep(0.7)
    assert call.poll() is None
    p.kill(signal.SIGCONT)
    assert json.loads(call.communicate(timeout=20)[0]) in ([0], [NOT_READY])


@device("--mem", "64")
def test_a_failed_restore_is_for_good(s):
    p = Parkclient(s, 25)
    assert checkpoint(s, p.pid, "lock", "checkpoint") == [0, 0]
    q = Parkclient(s, 50)
    assert checkpoint(s, p.pid, "restore", "state") == [OUT_OF_MEMORY, FAILED]
    q.end()
    eventually("there is memory", lambda: free_mib(s) > 60)
    assert checkpoint(s, p.pid, "restore", "unlock", "state") == [OPERATING_SYSTEM, ILLEGAL_STATE, FAILED]
    p.kill()
    eventually("nothing is left of it", lambda: not contexts(s) and free_mib(s) == 63)


def test_a_caller_that_dies_inside_a_call(s):
    p = Parkclient(s, 20)
    s.softgpu("fault", "--process", "checkpoint", "--delay-us", 60000000)
    call = subprocess.Popen(s.inside([sys.executable, os.path.join(PROGS, "checkpoint.py"), str(p.pid), "lock", "checkpoint"]),
                            env=s.env, start_new_session=True)
    eventually("it is inside", lambda: checkpoint(s, p.pid, "state") == [LOCKED])
    os.killpg(call.pid, signal.SIGKILL)
    call.wait()
    s.softgpu("fault", "clear")
    eventually("the call goes on without it", lambda: free_mib(s) > 250)
    states = [checkpoint(s, p.pid, "state")[0] for _ in range(3)]
    assert ILLEGAL_STATE in states and states[-1] == CHECKPOINTED, f"one call is out of step: {states}"
    assert checkpoint(s, p.pid, "restore", "unlock") == [0, 0]
    assert p.ask("check")["wrong"] == 0


def test_another_user(s):
    if os.geteuid() != 0:
        harness.skip("only root can become another user")
    p = Parkclient(s, 1)
    os.chmod(s.dir, 0o777)
    done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", *s.inside(
        ["/usr/bin/python3", "-", str(p.pid), "state", "lock"])], env=s.env, capture_output=True,
        text=True, stdin=open(os.path.join(PROGS, "checkpoint.py")))
    assert done.stdout.strip() == json.dumps([OPERATING_SYSTEM] * 2), done


if __name__ == "__main__":
    harness.main()
