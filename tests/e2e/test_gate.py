# SPDX-License-Identifier: Apache-2.0
"""The first run of a task waits while a policy refuses it, and for nothing else; and interleave levels, which only
policies set."""
import json
import os
import signal
import subprocess
import time

from harness import BUILD, Program, alive, binary, eventually, main, skip
from programs import BEST_EFFORT, Spinner, result, suite

NOTE = "the policy refuses its first run"


def path(name):
    found = os.path.join(BUILD, "tests", "policies", name + ".bpf.o")
    if not os.path.exists(found):
        skip("no clang: there are no compiled policies")
    return found


def load(s, name, *settings):
    s.rubato("policy", "load", path(name), "--engine", "vm", *(word for setting in settings for word in ("--set", setting)))


def show(s):
    return json.loads(s.rubato("policy", "show", "--json").stdout)


def refuse(s):
    """From now on no task runs. The policy's timeout is a minute."""
    load(s, "steered", "refuse_all=true")


def allow(s, pid):
    s.rubato("policy", "map", "set", "orders", pid, "refuse=0,fail=0,slow=0,flip=0")


class Late:
    """A program under `rubato run` that may not get as far as to say that it is ready."""

    def __init__(self, s, argv, *options):
        self.process = subprocess.Popen(s.inside([binary("rubato"), "run", *options, "--", *argv]), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=s.env, start_new_session=True)
        self.pid = self.process.pid
        s.programs.append(self)

    end = Program.end
    kill = Program.kill


def waiting(s):
    """Pids of programs with a compute task that has its channels and was never scheduled, as the device has it."""
    return [t["pid"] for t in s.state()["tsgs"] if t["engine"] == "compute" and t["channels"] > 0 and not t["scheduled"]]


def waits(s, n=1):
    """Waits until as many programs wait at the gate, and says which."""
    return eventually("the gate is shut", lambda: (lambda found: found if len(found) == n else None)(waiting(s)))


def is_shut_for(s, pid, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end and waiting(s) == [pid]:
        time.sleep(0.1)
    return time.monotonic() >= end


def stays_shut(s, pid, seconds):
    assert is_shut_for(s, pid, seconds), (waiting(s), s.log())


def test_a_refused_task_starts_late_and_is_right(s):
    refuse(s)
    for _ in range(3):  # a daemon that does not come to renew its answer for 2 s lets the task go
        p = Late(s, suite())
        pid, = waits(s)
        eventually("ps says why", lambda: s.ps()[pid]["note"] == NOTE)
        # For longer than a task counts as new, and than the lease.
        if is_shut_for(s, pid, 3.5):
            break
        p.end()
    assert s.ps()[pid]["note"] == NOTE, s.ps()[pid]
    assert p.process.poll() is None
    allow(s, pid)
    eventually("it runs", lambda: not waiting(s))
    code, last = result(p)
    assert code == 0 and last.endswith(" 0 wrong"), (code, last)
    assert show(s)["state"] == "loaded" and show(s)["overruled"] == 0, show(s)


def test_an_allowed_task_does_not_wait(s):
    load(s, "steered")
    p = Spinner(s, *BEST_EFFORT)
    p.ask("go")
    eventually("it works", lambda: p.count() > 0)
    assert not waiting(s)


def test_it_opens_when_the_policy_is_unloaded(s):
    refuse(s)
    p = Spinner(s, *BEST_EFFORT, is_awaited=False)
    pid, = waits(s)
    stays_shut(s, pid, 0.5)
    s.rubato("policy", "unload")
    # Before the lease runs out, which was renewed at most 100 ms ago.
    begin = time.monotonic()
    eventually("it runs", lambda: not waiting(s))
    assert time.monotonic() - begin < 1.8, time.monotonic() - begin
    p.await_ready()
    p.ask("go")
    eventually("it works", lambda: p.count() > 0)
    eventually("nothing is said", lambda: s.ps()[pid]["note"] != NOTE)


def test_it_opens_when_the_daemon_is_killed(s):
    refuse(s)
    p = Spinner(s, *BEST_EFFORT, is_awaited=False)
    pid, = waits(s)
    stays_shut(s, pid, 0.5)
    daemon = s.daemon()
    s.unkeep()
    os.kill(daemon, signal.SIGKILL)
    begin = time.monotonic()
    eventually("it runs", lambda: not waiting(s))
    # The lease is 2 s, and libcuda tries every 100 ms; the rest is for busy machines.
    assert time.monotonic() - begin < 3, time.monotonic() - begin
    p.await_ready()
    p.ask("go")
    eventually("it works", lambda: p.count() > 0)


def test_it_opens_when_the_daemon_is_stopped(s):
    refuse(s)
    p = Spinner(s, *BEST_EFFORT, is_awaited=False)
    waits(s)
    daemon = s.daemon()
    os.kill(daemon, signal.SIGSTOP)
    eventually("it runs", lambda: not waiting(s))
    os.kill(daemon, signal.SIGCONT)
    p.await_ready()
    # It has run, and the daemon hears of it: it is kept off now.
    eventually("the daemon knows", lambda: s.ps()[p.pid]["note"] != NOTE)


def test_it_opens_when_the_daemon_ends(s):
    refuse(s)
    p = Spinner(s, *BEST_EFFORT, is_awaited=False)
    waits(s)
    daemon = s.daemon()
    os.kill(daemon, signal.SIGTERM)
    eventually("it runs", lambda: not waiting(s))
    p.await_ready()
    eventually("it has ended", lambda: not alive(daemon))


def test_a_policy_is_overruled(s):
    """Its timeout is 300 ms."""
    load(s, "impatient", "refuse_all=true")
    p = Spinner(s, *BEST_EFFORT)
    assert show(s)["overruled"] == 1, show(s)
    p.ask("go")
    eventually("it works", lambda: p.count() > 0)


THREADS = """if True:
    import ctypes, os, sys, threading
    cuda = ctypes.CDLL("libcuda.so.1")
    assert cuda.cuInit(0) == 0
    wrong = []

    def work(value):
        context, memory, out = ctypes.c_void_p(), ctypes.c_uint64(), (ctypes.c_uint32 * 1000)()
        if cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) or cuda.cuMemAlloc_v2(ctypes.byref(memory), 4000) or \\
                cuda.cuMemsetD32_v2(memory, value, 1000) or cuda.cuMemcpyDtoH_v2(out, memory, 4000) or \\
                list(out) != [value] * 1000:
            wrong.append(value)

    threads = [threading.Thread(target=work, args=(i,)) for i in (7, 8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    print(f"{len(wrong)} wrong", flush=True)
"""


def test_two_threads(s):
    """Both make a context. One waits at the gate, and the other for the lock that it holds."""
    refuse(s)
    p = Late(s, ["python3", "-c", THREADS])
    pid, = waits(s)
    stays_shut(s, pid, 1)
    assert sum(t["pid"] == pid for t in s.state()["tsgs"]) == 1, s.state()["tsgs"]
    allow(s, pid)
    assert result(p) == (0, "0 wrong")


SECOND = """if True:
    import ctypes, os, sys
    cuda, context, memory = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
    print(f"ready pid={os.getpid()}", flush=True)
    for line in sys.stdin:
        print(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0), flush=True)
"""


def test_other_tasks_of_the_program_are_managed(s):
    """A second context waits. The first one obeys as before, and nothing touches the second."""
    p = Program(s, [binary("rubato"), "run", *BEST_EFFORT, "--", "env", "RUBATO_GATE=1", "python3", "-c", SECOND])
    s.programs.append(p)
    eventually("short", lambda: s.slices(p.pid) == [1])
    first = {t["handle"] for t in s.tasks(p.pid, None)}
    refuse(s)
    p.say("another")
    assert waits(s) == [p.pid]
    s.rubato("suspend", p.pid)

    def enabled(is_first):
        return {t["enabled"] for t in s.tasks(p.pid, None) if (t["handle"] in first) == is_first}

    eventually("suspended", lambda: enabled(True) == {0})
    stays_shut(s, p.pid, 1.5)
    assert enabled(True) == {0} and enabled(False) == {8}, s.state()["tsgs"]
    s.rubato("resume", p.pid)
    s.rubato("policy", "unload")
    assert p.process.stdout.readline() == "0\n"
    eventually("both run", lambda: s.is_running(p.pid))


def test_programs_without_a_policy_expect_nothing(s):
    def environment():
        return s.rubato("run", "--", "env").stdout.splitlines()

    assert "RUBATO_GATE=1" not in environment()
    load(s, "levels")  # has no hook `schedule`
    assert "RUBATO_GATE=1" not in environment()
    load(s, "steered")
    assert "RUBATO_GATE=1" in environment()
    # An outer `rubato run` may have been told otherwise.
    s.rubato("policy", "unload")
    s.env["RUBATO_GATE"] = "1"
    assert "RUBATO_GATE=1" not in environment()
    # A program that expects an answer gets one even if the policy is gone.
    assert result(Late(s, ["env", "RUBATO_GATE=1", *suite()]))[0] == 0


def test_programs_without_a_board_go_on(s):
    """rmclient counts nothing; and a library of version 0.1.0."""
    refuse(s)
    s.run(*BEST_EFFORT)
    s.program(under=["env", "LD_PRELOAD=" + binary("oldshim.so"), f"RUBATO_SOCKET={s.run_dir}/control.sock",
                     "RUBATO_PRIORITY=2"])
    assert not waiting(s)


def levels(s, pid):
    return [t["interleave"] for t in s.tasks(pid, None)]


def test_interleave_levels(s):
    p = s.run()
    assert levels(s, p.pid) == [1] * 4
    if os.geteuid() != 0:
        # Without CAP_SYS_NICE nothing is set, and nothing is said of it.
        load(s, "levels", "level=2")
        time.sleep(0.5)
        assert levels(s, p.pid) == [1] * 4 and s.ps()[p.pid]["note"] == "", s.ps()[p.pid]
        return
    for level in (2, 0, 1, 2):
        load(s, "levels", f"level={level}")
        eventually("its level", lambda: levels(s, p.pid) == [level] * 4)
    p.ask("more")
    eventually("new tasks, too", lambda: levels(s, p.pid) == [2] * 8)
    s.rubato("policy", "unload")
    eventually("put back", lambda: levels(s, p.pid) == [1] * 8)


def test_interleave_levels_after_kills(s):
    if os.geteuid() != 0:
        return
    p = s.run()
    load(s, "levels", "level=2")
    eventually("its level", lambda: levels(s, p.pid) == [2] * 4)
    # The daemon restores, and the next hand sets it again.
    hand = s.hand()
    os.kill(hand, signal.SIGKILL)
    eventually("another hand", lambda: not alive(hand) and s.processes("rubato-hand"))
    eventually("its level again", lambda: levels(s, p.pid) == [2] * 4)
    # The hand restores.
    s.unkeep()
    os.kill(s.daemon(), signal.SIGKILL)
    eventually("put back", lambda: levels(s, p.pid) == [1] * 4)
    # The shim finds the next daemon, which has the policy.
    s.rubato("ps")
    s.rubato("policy", "show")
    s.run()
    eventually("its level again", lambda: levels(s, p.pid) == [2] * 4)
    s.rubato("policy", "unload")
    eventually("put back", lambda: levels(s, p.pid) == [1] * 4)
    # Daemon and hand at once: the next daemon restores from the state file.
    load(s, "levels", "level=0")
    eventually("its level", lambda: levels(s, p.pid) == [0] * 4)
    os.unlink(os.path.join(s.run_dir, "policy"))
    s.kill_both()
    assert levels(s, p.pid) == [0] * 4
    s.run()
    eventually("put back", lambda: levels(s, p.pid) == [1] * 4)


main()
