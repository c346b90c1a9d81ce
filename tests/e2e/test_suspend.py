# SPDX-License-Identifier: Apache-2.0
"""`rubato suspend` and `resume`; and that nothing stays suspended when somebody dies."""
import os
import signal
import time

from harness import alive, eventually, main

DISABLE_CHANNELS, GET_TSG_INFO = "2080110b", "a06c0106"


def kill(pid, number=signal.SIGKILL):
    os.kill(pid, number)


def test_suspend_and_resume(s):
    for p in (s.program(), s.run("--class", "best-effort")):
        s.rubato("suspend", p.pid)
        assert s.is_suspended(p.pid)
        assert s.ps()[p.pid]["state"] == "suspended"
        s.rubato("suspend", p.pid)
        s.rubato("resume", p.pid)
        assert s.is_running(p.pid)
        s.rubato("resume", p.pid)
        assert s.is_running(p.pid)


def test_for_a_while(s):
    p = s.program()
    before = time.monotonic()
    s.rubato("suspend", p.pid, "--for", "3")
    assert s.is_suspended(p.pid) and s.ps()[p.pid]["suspended_left_ms"] <= 3000
    eventually("resumed by itself", lambda: s.is_running(p.pid))
    assert time.monotonic() - before >= 3, "not before its time"


def test_it_outlasts_the_lease(s):
    """The hand's deadlines are renewed for as long as the daemon means it."""
    p = s.program()
    s.rubato("suspend", p.pid)
    time.sleep(4.5)
    assert s.is_suspended(p.pid)
    s.rubato("resume", p.pid)


def test_more_than_64_channels(s):
    p = s.program("--channels", 150)
    s.rubato("suspend", p.pid)
    assert s.is_suspended(p.pid)
    s.rubato("resume", p.pid)
    assert s.is_running(p.pid)


def test_more_than_a_record_holds(s):
    """Nothing is half suspended: one clear line, and the program goes on."""
    many = ("--contexts", 66)

    def is_refused():
        """Before, it may not be known yet, or looking into it may take too long on a busy machine; that is one line, too."""
        done = s.rubato("suspend", p.pid, code=None)
        assert done.stderr.count("\n") <= 1, done.stderr
        return done.returncode == 1 and "more tasks than are known" in done.stderr

    for p in (s.program(*many), s.run("--class", "normal", args=many)):
        eventually("refused", is_refused, 60)
        eventually("it goes on", lambda: s.is_running(p.pid), 60)  # a thousand calls of the driver


def test_it_comes_to_more_than_a_record_holds(s):
    """It is resumed then: all of it, also what the record has no room for any more."""
    p = s.run("--class", "normal", args=("--contexts", 63))
    s.rubato("suspend", p.pid)
    eventually("suspended", lambda: s.is_suspended(p.pid), 60)
    for _ in range(3):
        p.ask("more")
    eventually("it goes on", lambda: s.is_running(p.pid), 60)
    assert "it is resumed" in s.log()


def test_a_task_is_not_known_any_more(s):
    """The driver does not answer for it when the program's next record comes: nobody would let it back later."""
    p = s.run("--class", "normal")
    s.rubato("suspend", p.pid)
    p.ask("more")
    eventually("the new tasks too", lambda: len(s.tasks(p.pid, None)) == 8 and s.is_suspended(p.pid))
    s.softgpu("fault", "--cmd", GET_TSG_INFO, "--status", "65", "--count", "1")
    p.ask("free")
    eventually("it goes on", lambda: len(s.tasks(p.pid, None)) == 4 and s.is_running(p.pid))


def test_nor_does_the_driver_let_it_back(s):
    """Neither daemon nor hand forgets it."""
    p = s.run("--class", "normal")
    s.rubato("suspend", p.pid)
    p.ask("more")
    eventually("the new tasks too", lambda: len(s.tasks(p.pid, None)) == 8 and s.is_suspended(p.pid))
    s.softgpu("fault", "--cmd", GET_TSG_INFO, "--status", "65", "--count", "1")
    s.softgpu("fault", "--cmd", DISABLE_CHANNELS, "--status", "101", "--count", "2")
    p.ask("free")
    eventually("it goes on", lambda: len(s.tasks(p.pid, None)) == 4 and s.is_running(p.pid))


def test_new_tasks_of_a_suspended_program(s):
    p = s.run("--class", "best-effort")
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    s.rubato("suspend", p.pid)
    p.ask("more")
    eventually("the new tasks too", lambda: len(s.tasks(p.pid, None)) == 8 and s.is_suspended(p.pid))
    s.rubato("resume", p.pid)
    assert s.is_running(p.pid)


def test_suspended_is_no_company(s):
    a, b = s.run("--class", "best-effort"), s.run("--class", "best-effort")
    eventually("in turns", lambda: s.slices(a.pid) == s.slices(b.pid) == [1])
    s.rubato("suspend", a.pid)
    assert s.slices(b.pid) == [1] and s.slices(a.pid) == [2048] and s.is_suspended(a.pid)
    assert all(s.is_running(b.pid) for _ in range(15)), "the other has all turns"
    s.rubato("resume", a.pid)
    assert s.slices(a.pid) == [1] and not s.is_suspended(a.pid) and len(s.short()) == 1


def test_the_daemon_is_killed(s):
    p, q = s.program(), s.run("--class", "best-effort")
    eventually("1 us", lambda: s.slices(q.pid) == [1])
    s.rubato("suspend", p.pid)
    s.unkeep()
    kill(s.daemon())
    eventually("running, own slices", lambda: s.is_default(p.pid) and s.is_released(q.pid))
    eventually("the hand has gone too", lambda: not s.processes("rubato-hand"))


def test_the_hand_is_killed(s):
    p, q = s.program(), s.run("--class", "best-effort")
    eventually("1 us", lambda: s.slices(q.pid) == [1])
    s.rubato("suspend", p.pid)
    old = s.hand()
    kill(old)
    eventually("a new hand", lambda: s.processes("rubato-hand") not in ([], [old]))
    eventually("still meant", lambda: s.is_suspended(p.pid) and s.slices(q.pid) == [1])
    s.rubato("resume", p.pid)
    assert s.is_running(p.pid)


def test_the_hand_is_killed_and_half_is_restored(s):
    """The driver refuses some of it: the next hand cannot know what is still off, and takes all of it off."""
    p = s.run("--class", "normal", args=("--channels", 150))
    s.rubato("suspend", p.pid)
    s.softgpu("fault", "--cmd", DISABLE_CHANNELS, "--status", "65", "--count", "1")
    old = s.hand()
    kill(old)
    eventually("a new hand", lambda: s.processes("rubato-hand") not in ([], [old]))
    eventually("still meant", lambda: s.is_suspended(p.pid))
    s.rubato("resume", p.pid)
    assert s.is_running(p.pid)


def test_a_stopped_program(s):
    """Stopped by its user while it is suspended: nobody waits for it, and it goes on where it was."""
    p, q = s.run("--class", "best-effort"), s.program()
    s.rubato("suspend", p.pid)
    kill(p.pid, signal.SIGSTOP)
    s.rubato("renice", q.pid, "--class", "best-effort")
    eventually("the other has the GPU", lambda: s.slices(q.pid) == [1] and s.is_running(q.pid))
    assert s.ps()[p.pid]["state"] == "suspended"
    s.rubato("resume", p.pid)
    eventually("it has turns", lambda: s.is_off(p.pid) != s.is_off(q.pid))
    kill(p.pid, signal.SIGCONT)
    assert p.ask("slice") == "slice 1"


def test_both_are_killed(s):
    p = s.program()
    s.rubato("suspend", p.pid)
    s.kill_both()
    assert s.is_suspended(p.pid)  # nobody is left to resume it…
    s.rubato("resume", p.pid)     # …but the way back is one command
    assert s.is_default(p.pid)


def test_the_next_start_heals(s):
    p, q = s.program(), s.program()
    s.rubato("suspend", p.pid)
    s.kill_both()
    s.rubato("renice", q.pid, "--class", "best-effort")  # about another program altogether
    assert s.slices(q.pid) == [1]
    eventually("as it was told", lambda: s.ps()[p.pid]["state"] == "suspended" and s.is_suspended(p.pid))
    s.rubato("resume", p.pid)
    assert s.is_default(p.pid)


def test_the_daemon_is_stopped(s):
    p = s.program()
    s.rubato("suspend", p.pid)
    daemon = s.daemon()
    kill(daemon, signal.SIGSTOP)
    eventually("the hand's deadline", lambda: s.is_running(p.pid))
    kill(daemon, signal.SIGCONT)
    eventually("still meant", lambda: s.is_suspended(p.pid))


def test_new_tasks_while_the_daemon_is_stopped(s):
    """It learns of them before it learns that the hand has let the program back: all of it is taken off anew."""
    p = s.run("--class", "normal")
    s.rubato("suspend", p.pid)
    daemon = s.daemon()
    kill(daemon, signal.SIGSTOP)
    p.ask("more")
    eventually("the hand's deadline", lambda: s.is_running(p.pid))
    kill(daemon, signal.SIGCONT)
    eventually("still meant", lambda: s.is_suspended(p.pid))
    s.rubato("resume", p.pid)
    assert s.is_running(p.pid)


def test_one_of_a_group_for_a_while(s):
    """When its time is over, whoever was kept off with it is let back too; a third stays suspended."""
    a, b = (s.run("--group", "g", "--class", "best-effort") for _ in range(2))
    c = s.run("--class", "normal")
    s.rubato("suspend", c.pid)
    for _ in range(2):
        s.rubato("suspend", a.pid, "--for", "0.1")
        eventually("both are back", lambda: s.is_running(a.pid) and s.is_running(b.pid))
    assert s.is_suspended(c.pid)


def test_the_hand_is_stopped(s):
    p = s.program()
    s.rubato("suspend", p.pid)
    hand = s.hand()
    kill(hand, signal.SIGSTOP)
    s.rubato("resume", p.pid)
    eventually("the daemon did it itself", lambda: s.is_running(p.pid))
    assert not alive(hand)


def test_the_daemon_ends_in_order(s):
    p, q = s.program(), s.run("--class", "best-effort")
    eventually("1 us", lambda: s.slices(q.pid) == [1])
    s.rubato("suspend", p.pid)
    daemon = s.daemon()
    kill(daemon, signal.SIGTERM)
    eventually("gone", lambda: not alive(daemon))
    assert s.is_default(p.pid) and s.is_released(q.pid)


def test_a_suspended_program_can_be_killed(s):
    p = s.program()
    s.rubato("suspend", p.pid)
    p.kill()
    eventually("gone from the device", lambda: not s.tasks(p.pid, None))


def test_the_daemon_leaves_when_idle(s):
    p = s.run("--class", "best-effort")
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    p.end()
    eventually("idle exit", lambda: not s.processes("rubatod") and not s.processes("rubato-hand"))


def test_the_device_server_dies(s):
    p = s.run("--class", "best-effort", args=["--survive"])
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    s.softgpu("kill")
    done = s.rubato("suspend", p.pid, code=None)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert s.rubato("ps", code=None).returncode == 0
    assert alive(p.pid)


main()
