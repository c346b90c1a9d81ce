# SPDX-License-Identifier: Apache-2.0
"""Copy tasks have their program's short slice while no other short task is on their runlist; and their own otherwise."""
import os
import signal
import threading

from harness import device, eventually, main


def copies(s, pid):
    return s.slices(pid, "copy")


def short(s, pid):
    """All its tasks have the slice of class best-effort."""
    return s.slices(pid) == [1] and copies(s, pid) == [1] * 3


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def test_renice_there_and_back(s):
    p = s.program()
    for _ in range(2):
        s.rubato("renice", p.pid, "--class", "best-effort")
        assert short(s, p.pid)
        tasks = [t for t in s.ps()[p.pid]["tasks"] if t["kind"] == "copy"]
        assert [(t["timeslice_us"], t["own_timeslice_us"]) for t in tasks] == [(1, 1024)] * 3
        s.rubato("renice", p.pid, "--class", "normal")
        assert s.is_default(p.pid)


def test_lengths(s):
    """Copy tasks only ever get shorter: what is longer than their own slice is for compute tasks."""
    p = s.run("--class", "best-effort")
    eventually("short", lambda: short(s, p.pid))
    for options, compute, copy in ((("--priority", 5), 1000, 1000), (("--priority", 3), 50, 50),
                                   (("--timeslice-us", 1500), 1500, 1024), (("--timeslice-us", 100), 100, 100),
                                   (("--timeslice-us", 9000), 9000, 1024), (("--class", "latency"), 2048, 1024)):
        s.rubato("renice", p.pid, *options)
        assert (s.slices(p.pid), copies(s, p.pid)) == ([compute], [copy] * 3), options


def test_the_others_keep_their_own(s):
    p, q = s.run("--class", "best-effort"), s.run("--class", "latency")
    r = s.run("--class", "normal")
    eventually("short", lambda: short(s, p.pid))
    eventually("known", lambda: all(s.ps()[x.pid]["tasks"] for x in (q, r)))
    assert copies(s, q.pid) == copies(s, r.pid) == [1024] * 3 and s.slices(r.pid) == [2048]


def test_company(s):
    """Copy tasks go on while their program waits for its turn, so that no two may be short."""
    a = s.run("--class", "best-effort")
    eventually("alone", lambda: short(s, a.pid))
    b = s.run("--class", "best-effort")
    eventually("in turns", lambda: s.slices(a.pid) == s.slices(b.pid) == [1])
    eventually("their own", lambda: copies(s, a.pid) == copies(s, b.pid) == [1024] * 3)
    assert s.ps()[a.pid]["note"] == s.ps()[b.pid]["note"] == ""
    s.rubato("suspend", b.pid)
    assert copies(s, a.pid) == [1] * 3, "who is suspended is no company"
    s.rubato("resume", b.pid)
    assert copies(s, a.pid) == copies(s, b.pid) == [1024] * 3
    s.rubato("renice", a.pid, "--class", "normal")
    assert s.is_default(a.pid) and copies(s, b.pid) == [1] * 3
    b.kill()
    s.rubato("renice", a.pid, "--class", "best-effort")
    eventually("the other has gone", lambda: short(s, a.pid))


def test_never_two_at_once(s):
    """While programs come, go and change: the device is asked all the time."""
    done, found = threading.Event(), []

    def watch():
        while not done.is_set():
            found.extend(s.crowded())

    a = s.run("--class", "best-effort")
    eventually("alone", lambda: short(s, a.pid))
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for _ in range(3):
            b = s.run("--class", "best-effort")
            eventually("in turns", lambda: s.slices(a.pid) == s.slices(b.pid) == [1])
            s.rubato("suspend", a.pid)
            s.rubato("renice", b.pid, "--class", "normal")
            s.rubato("resume", a.pid)
            s.rubato("renice", b.pid, "--class", "best-effort")
            b.kill()
            eventually("alone again", lambda: short(s, a.pid))
    finally:
        done.set()
        watcher.join()
    assert found == [], found


def test_contexts_made_later(s):
    """Two contexts of a program have their copy tasks on the same runlists."""
    p = s.run("--class", "best-effort")
    eventually("short", lambda: short(s, p.pid))
    p.ask("more")
    eventually("all its own", lambda: s.slices(p.pid) == [2048] * 2 and copies(s, p.pid) == [1024] * 6)
    p.ask("free")
    eventually("one again", lambda: short(s, p.pid))


def test_unknown_runlists(s):
    """The runlists of a program that asks for no tokens are unknown."""
    p = s.run("--class", "best-effort", args=["--no-tokens"])
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    tasks = s.ps()[p.pid]["tasks"]
    assert all(t["runlist"] is None for t in tasks), tasks
    assert copies(s, p.pid) == [1024] * 3


@device("--gpus", "2")
def test_each_gpu_for_itself(s):
    a = s.run("--class", "best-effort")
    b = s.run("--class", "best-effort", args=["--gpu", 1])
    eventually("both alone", lambda: short(s, a.pid) and short(s, b.pid))


def test_without_a_daemon(s):
    p = s.run("--no-daemon", "--class", "best-effort")
    eventually("1000 us", lambda: s.slices(p.pid) == [1000])
    assert copies(s, p.pid) == [1024] * 3


def test_the_driver_refuses_to_restore(s):
    """What the hand could not put back is put back by the next start."""
    p, q = s.program(), s.program()
    s.rubato("renice", p.pid, "--class", "best-effort")
    s.softgpu("fault", "--cmd", "a06c0103", "--status", "65", "--count", "2")
    s.unkeep()
    kill(s.daemon())
    eventually("the hand has gone too", lambda: not s.processes("rubato-hand"))
    assert sorted(copies(s, p.pid)) == [1, 1024, 1024] and os.path.exists(os.path.join(s.run_dir, "state"))
    s.rubato("renice", q.pid, "--class", "latency")
    s.rubato("renice", p.pid, "--class", "normal")
    assert s.is_default(p.pid)


def test_the_daemon_is_killed(s):
    p, q = s.program(), s.run("--class", "best-effort")
    eventually("short", lambda: short(s, q.pid))
    s.unkeep()
    kill(s.daemon())
    eventually("restored", lambda: s.is_default(p.pid) and s.is_released(q.pid))


def test_the_daemon_is_killed_after_attach(s):
    p = s.program()
    s.rubato("renice", p.pid, "--class", "best-effort")
    assert short(s, p.pid)
    s.unkeep()
    kill(s.daemon())
    eventually("restored", lambda: s.is_default(p.pid))


def test_the_hand_is_killed(s):
    p = s.run("--class", "best-effort")
    eventually("short", lambda: short(s, p.pid))
    old = s.hand()
    kill(old)
    eventually("a new hand", lambda: s.processes("rubato-hand") not in ([], [old]))
    eventually("still meant", lambda: short(s, p.pid))
    s.rubato("renice", p.pid, "--class", "normal")
    assert s.is_default(p.pid)


def test_both_are_killed(s):
    """The next start finds them in the state file."""
    p, q = s.program(), s.program()
    s.rubato("renice", p.pid, "--class", "best-effort")
    s.kill_both()
    assert short(s, p.pid)
    s.rubato("renice", q.pid, "--class", "latency")
    eventually("as it was told", lambda: s.ps()[p.pid]["class"] == "best-effort" and short(s, p.pid))
    s.rubato("renice", p.pid, "--class", "normal")
    assert s.is_default(p.pid)


def test_what_a_dead_scheduler_left_is_not_its_own(s):
    """Without the state file, the next daemon finds a program whose copy tasks are short."""
    p = s.program()
    s.rubato("renice", p.pid, "--class", "best-effort")
    s.kill_both()
    os.unlink(os.path.join(s.run_dir, "state"))
    s.rubato("renice", p.pid, "--class", "best-effort")
    own = [t["own_timeslice_us"] for t in s.ps()[p.pid]["tasks"] if t["kind"] == "copy"]
    assert own == [1024] * 3, own
    s.rubato("renice", p.pid, "--class", "normal")
    assert s.is_default(p.pid)


main()
