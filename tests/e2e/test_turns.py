# SPDX-License-Identifier: Apache-2.0
"""Turns: best-effort programs run one at a time, whatever happens to them or to us."""
import os
import signal
import time

import harness
from harness import Program, alive, binary, device, eventually
from programs import BEST_EFFORT, Spinner, is_right, kill, spinners, start, take_turns, taking_turns, watch

DISABLE_CHANNELS = "2080110b"


def end(s, program):
    """And waits until the device knows it, too."""
    program.end()
    eventually("it has gone", lambda: not s.tasks(program.pid, None))


def test_two_and_three_take_turns(s):
    programs = [s.run(*BEST_EFFORT), s.run(*BEST_EFFORT)]
    taking_turns(s, programs)
    take_turns(s, programs)
    programs.append(s.run(*BEST_EFFORT))
    taking_turns(s, programs)
    take_turns(s, programs)
    eventually("a copy goes on in any case", lambda: any(s.is_off(p.pid) for p in programs))
    end(s, programs.pop())
    take_turns(s, programs)
    end(s, programs.pop())
    eventually("alone it keeps the GPU", lambda: s.short() == [programs[0].pid])
    assert all(s.is_running(programs[0].pid) for _ in range(20))


def test_attached_ones_too(s):
    programs = [s.program(), s.run(*BEST_EFFORT), s.program()]
    s.rubato("renice", programs[0].pid, programs[2].pid, *BEST_EFFORT)
    taking_turns(s, programs)
    take_turns(s, programs)
    s.rubato("renice", programs[0].pid, "--class", "normal")
    eventually("out of turns", lambda: s.is_default(programs[0].pid))
    take_turns(s, programs[1:])
    assert s.is_default(programs[0].pid)


def test_ps_tells_waiting_from_suspended(s):
    programs = [s.run(*BEST_EFFORT), s.run(*BEST_EFFORT)]
    taking_turns(s, programs)
    states = {}
    for _ in range(20):
        rows = s.ps()
        for p in programs:
            states.setdefault(rows[p.pid]["state"], rows[p.pid])
            assert not rows[p.pid]["held_back"] and rows[p.pid]["note"] == "", rows[p.pid]
    assert set(states) == {"running", "waiting"}, set(states)
    tasks = {t["kind"]: t["state"] for t in states["waiting"]["tasks"]}
    assert tasks == {"compute": "waiting", "copy": "running"}, tasks
    eventually("for people too", lambda: "waiting" in s.rubato("ps").stdout)
    s.rubato("suspend", programs[0].pid)
    assert s.is_suspended(programs[0].pid) and s.ps()[programs[0].pid]["state"] == "suspended"
    watch(s, 0.3)
    assert s.is_suspended(programs[0].pid) and s.is_running(programs[1].pid)
    s.rubato("resume", programs[0].pid)
    taking_turns(s, programs)
    take_turns(s, programs)


def test_two_contexts_in_turns(s):
    """A program with two compute tasks cannot have short slices: it takes its turns at the driver's."""
    a, b = s.run(*BEST_EFFORT, args=["--contexts", 2]), s.run(*BEST_EFFORT)
    eventually("b is short", lambda: s.slices(b.pid) == [1])
    for _ in range(50):
        state = [t for t in s.state()["tsgs"] if t["engine"] == "compute" and t["enabled"] > 0]
        assert len({t["pid"] for t in state}) <= 1 and all(t["timeslice_us"] == 2048 or t["pid"] == b.pid for t in state)
    eventually("a runs", lambda: s.is_running(a.pid))
    eventually("b runs", lambda: s.is_running(b.pid))
    assert "several compute tasks" in s.ps()[a.pid]["note"]


def test_short_beside_turns(s):
    """A program without turns may have a short slice only while no other has one; and its note says so."""
    a, b = s.run("--timeslice-us", 500), s.run(*BEST_EFFORT)
    eventually("both keep the driver's, or one is short", lambda: s.short() == [b.pid])
    note = s.ps()[a.pid]["note"]
    assert s.slices(a.pid) == [2048] and "others with short slices" in note, (s.slices(a.pid), note)
    b.end()
    eventually("alone", lambda: s.slices(a.pid) == [500] and s.ps()[a.pid]["note"] == "")


def test_new_tasks_of_one_that_waits(s):
    a, b = s.run(*BEST_EFFORT), s.run(*BEST_EFFORT)
    taking_turns(s, [a, b])
    a.ask("more")
    eventually("both of them wait", lambda: len(s.tasks(a.pid)) == 2 and s.is_off(a.pid))
    watch(s, 0.5)


@device("--gpus", "2")
def test_gpus_have_turns_of_their_own(s):
    pairs = [[s.run(*BEST_EFFORT, args=["--gpu", gpu]) for _ in range(2)] for gpu in (0, 1)]
    taking_turns(s, pairs[0] + pairs[1])
    at_once = set()
    for _ in range(60):
        tasks = [t for t in s.state()["tsgs"] if t["engine"] == "compute" and t["enabled"] > 0]
        gpus = [t["gpu"] for t in tasks]
        assert len(gpus) == len(set(gpus)), tasks
        at_once.add(len(gpus))
    assert 2 in at_once


def test_who_is_idle_has_no_turns(s):
    a, b = spinners(s, (), ())
    b.ask("pause")
    eventually("found to be idle", lambda: all(s.short() == [a.pid] for _ in range(6)))
    before = s.ps()[b.pid]["turns"]
    watch(s, 2)
    assert s.ps()[b.pid]["turns"] <= before + 3, "one in ten, to find out, and not every second one"
    b.ask("go")
    eventually("back", lambda: s.short() == [b.pid])
    take_turns(s, [a, b])


def test_refused_to_be_taken_off(s):
    """Nobody is let back in the place of one who stays: all keep the driver's slices."""
    a, b = s.run(*BEST_EFFORT), s.run(*BEST_EFFORT)
    taking_turns(s, [a, b])
    s.softgpu("fault", "--cmd", DISABLE_CHANNELS, "--status", "1b")
    watch(s, 1)
    s.softgpu("fault", "clear")
    eventually("turns again", lambda: s.slices(a.pid) == s.slices(b.pid) == [1])
    take_turns(s, [a, b])


def are_free(s, programs):
    return all(s.is_released(p.pid) for p in programs)


def test_the_daemon_is_killed_in_turns(s):
    programs = [s.run(*BEST_EFFORT), s.program(), s.program()]
    s.rubato("renice", programs[1].pid, programs[2].pid, *BEST_EFFORT)
    taking_turns(s, programs)
    s.unkeep()
    kill(s.daemon())
    eventually("nobody is off or short", lambda: are_free(s, programs))
    eventually("the hand has gone too", lambda: not s.processes("rubato-hand"))


def test_the_hand_is_killed_in_turns(s):
    programs = [s.run(*BEST_EFFORT) for _ in range(3)]
    for _ in range(3):
        taking_turns(s, programs)
        old = s.hand()
        kill(old)
        eventually("a new hand", lambda: s.processes("rubato-hand") not in ([], [old]))
        watch(s, 0.3)
    take_turns(s, programs)


def test_both_are_killed_in_turns(s):
    programs = [s.program(), s.program(), s.program()]
    s.rubato("renice", *[p.pid for p in programs], *BEST_EFFORT)
    taking_turns(s, programs)
    daemon, hand = s.daemon(), s.hand()
    kill(daemon, signal.SIGSTOP)
    kill(hand)
    kill(daemon)
    eventually("both gone", lambda: not alive(daemon) and not alive(hand))
    taking_turns(s, programs)
    watch(s, 0.3)


def test_one_of_them_is_killed(s):
    programs = [s.run(*BEST_EFFORT) for _ in range(4)]
    while len(programs) > 1:
        taking_turns(s, programs)
        programs.pop(0).kill()
        watch(s, 0.3)
    eventually("the last has it all", lambda: s.short() == [programs[0].pid])


def test_the_daemon_is_stopped_in_turns(s):
    """The hand's deadlines let everybody back, at the driver's slices; afterwards turns go on."""
    programs = [s.run(*BEST_EFFORT), s.program(), s.run(*BEST_EFFORT)]
    s.rubato("renice", programs[1].pid, *BEST_EFFORT)
    taking_turns(s, programs)
    daemon = s.daemon()
    kill(daemon, signal.SIGSTOP)
    end = time.monotonic() + 20
    while not all(s.is_default(p.pid) for p in programs):
        assert len(s.short()) <= 1 and time.monotonic() < end
    kill(daemon, signal.SIGCONT)
    taking_turns(s, programs)
    take_turns(s, programs)


def test_the_suite_is_right_in_turns(s):
    """Taken off and let back in the midst of every kernel of the suite."""
    spinner = Spinner(s, *BEST_EFFORT)
    spinner.ask("go")
    under = [binary("rubato"), "run", *BEST_EFFORT, "--"]
    programs = [start(s, "--seed", i, under=under) for i in range(2)]
    assert all([is_right(p) for p in programs])
    assert spinner.ask("check")["wrong_threads"] == 0


SYNCING = """if True:
    import ctypes, os, sys, time
    cuda = ctypes.CDLL("libcuda.so.1")
    context, event, memory = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
    assert cuda.cuEventCreate(ctypes.byref(event), 0) == 0
    print(f"ready pid={os.getpid()}", flush=True)
    for line in sys.stdin:
        began = time.monotonic()
        assert cuda.cuEventRecord(event, None) == 0 and cuda.cuEventSynchronize(event) == 0
        print(time.monotonic() - began, flush=True)
"""


def test_who_waits_without_submitting_gets_its_turn(s):
    """What it gave the GPU before it was taken for idle is waited for now; that is no submission."""
    q = Spinner(s, *BEST_EFFORT)
    q.ask("go")
    p = Program(s, [binary("rubato"), "run", *BEST_EFFORT, "--", "python3", "-c", SYNCING])
    s.programs.append(p)
    taking_turns(s, [p, q])
    for _ in range(4):
        eventually("taken for idle", lambda: all(s.short() == [q.pid] for _ in range(8)))
        took = float(p.ask("wait"))
        assert took < 5, f"{took:.1f} s"


if __name__ == "__main__":
    harness.main()
