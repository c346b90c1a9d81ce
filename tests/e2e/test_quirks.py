# SPDX-License-Identifier: Apache-2.0
"""What an H200 was seen to do beside what its interface says (softgpu.md): with that too, everybody goes on.

Nobody is asked here which tasks may run: kernels have to end."""
import signal
import time

import harness
from harness import LONG, alive, device, eventually
from programs import BEST_EFFORT, Requests, Spinner, is_right, kill, start, taking_turns

NORMAL = "--class", "normal"
SET_CTXSW = "20801210"  # the last call before libcuda sets its slice
PREEMPT, SET_TIMESLICE = "a06c0105", "a06c0103"
quirky = device("--quirks", "all")


def plain(s, n):
    programs = [Spinner(s) for _ in range(n)]
    for p in programs:
        p.ask("go")
    return programs


def attached(s, n):
    programs = plain(s, n)
    if n > 0:
        s.rubato("renice", *[p.pid for p in programs], *BEST_EFFORT)
    return programs


def under_run(s, n):
    programs = [Spinner(s, *BEST_EFFORT) for _ in range(n)]
    for p in programs:
        p.ask("go")
    return programs


def go_on(programs, seconds=20):
    """All of them, from now on: by more than what each has in flight, which may be done and not counted."""
    before = [p.count() for p in programs]
    eventually("all go on", lambda: all(p.count() > n + 16 for p, n in zip(programs, before)), seconds)


def copies_are_right(programs):
    """Results come by copies, for which each waits."""
    assert all([p.ask("check")["wrong_threads"] == 0 for p in programs])


@quirky
def test_asleep(s):
    """One of the two remedies is enough; with neither, kernels do not run. (Programs that came later were fully suspended once.)"""
    s.softgpu("fault", "--cmd", PREEMPT, "--status", "1b")
    programs = under_run(s, 1)
    eventually("short", lambda: s.slices(programs[0].pid) == [1])
    programs += attached(s, 1)
    taking_turns(s, programs)
    go_on(programs)
    s.softgpu("fault", "--cmd", SET_TIMESLICE, "--status", "1b")
    eventually("asleep", lambda: s.tasks(programs[0].pid)[0]["asleep"])
    go_on(programs[1:])  # what was done is counted
    before = programs[0].count()
    go_on(programs[1:])
    assert programs[0].count() == before
    s.softgpu("fault", "clear")
    go_on(programs)
    copies_are_right(programs)


def is_overlooked(s, p):
    """And for longer than it takes to kick one that has just been let back."""
    if not s.tasks(p.pid)[0]["asleep"]:
        return False
    time.sleep(0.02)
    return s.tasks(p.pid)[0]["asleep"]


def overlooked(s):
    """One that is overlooked each time, also after those at which it is kicked anyway; off, in the turn of another."""
    s.softgpu("fault", "--cmd", PREEMPT, "--status", "1b")
    p, q = under_run(s, 2)
    taking_turns(s, [p, q])
    eventually("overlooked", lambda: is_overlooked(s, p), 20)
    go_on([p, q], 20)
    eventually("off", lambda: s.is_off(p.pid))
    return p, q


@quirky
def test_left_alone(s):
    p, q = overlooked(s)
    q.kill()
    go_on([p], 20)
    copies_are_right([p])


def is_seen_asleep(s, p):
    """False: it was kicked before somebody looked. On a busy machine that happens."""
    before = p.count()
    while p.count() < before + 16:
        if any(s.tasks(p.pid)[0]["asleep"] for _ in range(5)):
            return True
    return False


@quirky
def test_left_alone_by_the_daemon(s):
    """Which is stopped before it has seen that nothing is done."""
    p, q = overlooked(s)
    daemon = s.daemon()
    q.kill()
    while not is_seen_asleep(s, p):  # next time
        p.kill()
        p, q = overlooked(s)
        q.kill()
    kill(daemon, signal.SIGSTOP)
    go_on([p], 20)
    kill(daemon, signal.SIGCONT)
    copies_are_right([p])


@quirky
def test_turns(s):
    """Among those under run, those attached, and those that come later."""
    assert s.state()["quirks"] == ["drowsy", "setup", "slow-calls"]
    programs = under_run(s, 1) + attached(s, 2)
    taking_turns(s, programs)
    go_on(programs)
    programs += under_run(s, 1)
    taking_turns(s, programs)
    go_on(programs)
    s.rubato("renice", *[p.pid for p in programs], *NORMAL)
    eventually("as ever", lambda: all(s.is_default(p.pid) for p in programs))
    go_on(programs)
    copies_are_right(programs)


@quirky
def test_reserve(s):
    programs = under_run(s, 1) + attached(s, 1)
    q = Requests(s, "--class", "latency")
    taking_turns(s, programs)
    for _ in range(3):
        before = [p.count() for p in programs]
        assert len(q.ask("measure graph 20 50 1")["service_us"]) == 20
        eventually("in the gaps", lambda: all(p.count() > n for p, n in zip(programs, before)))
    go_on(programs)
    copies_are_right(programs)


@quirky
def test_suspend_and_resume(s):
    """Of those in turns, and of one that nothing else is wanted of; kernels and copies go on."""
    for make in plain, lambda s, n: under_run(s, n) + attached(s, n):
        programs = make(s, 2 if LONG else 1)
        for p in programs * 2:
            s.rubato("suspend", p.pid)
            assert s.is_suspended(p.pid)
            s.rubato("resume", p.pid)
            go_on([p])
        s.rubato("suspend", *[p.pid for p in programs])
        assert all(s.is_suspended(p.pid) for p in programs)
        s.rubato("resume", *[p.pid for p in programs])
        go_on(programs)
        copies_are_right(programs)  # and they rest


@quirky
def test_the_suite(s):
    """All kernels of the suite, with copies before and after each, while it is suspended and resumed."""
    spinner = under_run(s, 1)[0]
    programs = [start(s, "--seed", 1), start(s, "--seed", 2)]
    s.rubato("renice", programs[0].pid, *BEST_EFFORT)
    for _ in range(3):
        s.rubato("suspend", *[p.pid for p in programs], code=None)
        s.rubato("resume", *[p.pid for p in programs], code=None)
    assert all([is_right(p) for p in programs])
    copies_are_right([spinner])


def crowd(s, n_run=2, n_attached=2):
    """In turns; the first and the last are suspended."""
    programs = under_run(s, n_run) + attached(s, n_attached)
    taking_turns(s, programs)
    go_on(programs)
    s.rubato("suspend", programs[0].pid, programs[-1].pid)
    return programs


@quirky
def test_the_daemon_is_killed(s):
    programs = crowd(s)
    kill(s.daemon())
    go_on(programs[1:-1])
    s.rubato("resume", programs[0].pid, programs[-1].pid)
    go_on(programs)
    copies_are_right(programs)


@quirky
def test_the_hand_is_killed(s):
    programs = crowd(s)
    kill(s.hand())
    go_on(programs[1:-1])
    s.rubato("resume", programs[0].pid, programs[-1].pid)
    go_on(programs)
    copies_are_right(programs)


@quirky
def test_both_are_killed(s):
    for numbers in (0, 3), (3, 0):
        programs = crowd(s, *numbers)
        daemon, hand = s.daemon(), s.hand()
        kill(daemon, signal.SIGSTOP)
        kill(hand)
        kill(daemon)
        eventually("both gone", lambda: not alive(daemon) and not alive(hand))
        go_on(programs[1:-1])
        s.rubato("resume", programs[0].pid, programs[-1].pid)
        go_on(programs)
        copies_are_right(programs)
        for p in programs:
            p.kill()


@quirky
def test_the_daemon_is_stopped(s):
    programs = crowd(s)
    daemon = s.daemon()
    kill(daemon, signal.SIGSTOP)
    go_on(programs, 8)
    kill(daemon, signal.SIGCONT)
    eventually("what was said is done", lambda: s.is_suspended(programs[0].pid) and s.is_suspended(programs[-1].pid))
    go_on(programs[1:-1])
    s.rubato("resume", programs[0].pid, programs[-1].pid)
    go_on(programs)
    copies_are_right(programs)


def one_in_setup(s, *run_options):
    """It, and its pid, while libcuda is about to set the slice of its compute task."""
    known = {t["pid"] for t in s.state()["tsgs"]}
    p = Spinner(s, *run_options, is_awaited=False)

    def found():
        tasks = [t for t in s.state()["tsgs"] if t["pid"] not in known and t["scheduled"]]
        return tasks[0]["pid"] if len(tasks) == 4 else None
    return p, eventually("in setup", found)


def is_stuck(s, pid):
    return any(t["stuck"] for t in s.tasks(pid))


@quirky
def test_while_it_is_set_up(s):
    """Whatever is asked for meanwhile, a program gets through its setup, and on."""
    others = under_run(s, 2)
    taking_turns(s, others)
    s.softgpu("fault", "--cmd", SET_CTXSW, "--delay-us", "300000")
    for options in (), BEST_EFFORT:
        for words in ("renice", *BEST_EFFORT), ("suspend",):
            p, pid = one_in_setup(s, *options)
            s.rubato(words[0], pid, *words[1:])
            assert not is_stuck(s, pid), (options, words)
            if words[0] == "suspend":
                eventually("it is done", lambda: s.is_suspended(pid))
                s.rubato("resume", pid)
            p.await_ready()
            p.ask("go")
            s.rubato("renice", pid, *BEST_EFFORT)
            go_on([p])
            copies_are_right([p])
            p.kill()
    go_on(others)


@quirky
def test_another_context(s):
    """Of one that is suspended, and of one in turns: it is set up first."""
    p, q = s.run(*BEST_EFFORT), s.run(*BEST_EFFORT)
    taking_turns(s, [p, q])
    s.rubato("suspend", p.pid)
    s.softgpu("fault", "--cmd", SET_CTXSW, "--delay-us", "300000")
    for program in p, q:
        program.say("more")
        eventually("in setup", lambda: len(s.tasks(program.pid)) == 2 and s.tasks(program.pid)[0]["scheduled"])
        assert program.process.stdout.readline().startswith("ready")
        assert not is_stuck(s, program.pid)
    eventually("it obeys", lambda: s.is_suspended(p.pid))
    s.rubato("resume", p.pid)
    eventually("both have turns", lambda: s.is_off(p.pid))
    eventually("both have turns", lambda: s.is_off(q.pid))
    assert not is_stuck(s, p.pid) and not is_stuck(s, q.pid)


@device("--quirks", "drowsy")
def test_setup_without_end(s):
    """A program that sets no slice is waited for, but not for ever."""
    s.softgpu("fault", "--cmd", SET_CTXSW, "--delay-us", "2000000")
    for options in (BEST_EFFORT, ()) if LONG else (BEST_EFFORT,):
        p, pid = one_in_setup(s, *options)
        s.rubato("suspend", pid)
        eventually("it is done", lambda: s.is_suspended(pid), 1.6)
        s.rubato("resume", pid)
        p.await_ready()
        p.ask("go")
        go_on([p])
        p.kill()


@quirky
def test_one_at_a_time(s):
    """Half of them attached: each is alone in turn, the others suspended by command."""
    programs = [p for _ in range(4 if LONG else 2) for p in under_run(s, 1) + attached(s, 1)]
    taking_turns(s, programs)
    for _ in range(3 if LONG else 1):
        for cls in (BEST_EFFORT, NORMAL):
            s.rubato("renice", *[p.pid for p in programs], *cls)
            for p in programs:
                others = [q.pid for q in programs if q is not p]
                s.rubato("resume", *[q.pid for q in programs])
                s.rubato("suspend", *others)
                assert all(s.is_suspended(pid) for pid in others)
                go_on([p])
    s.rubato("resume", *[p.pid for p in programs])
    go_on(programs)
    copies_are_right(programs)


if __name__ == "__main__":
    harness.main()
