# SPDX-License-Identifier: Apache-2.0
"""Turns and reserve: best-effort programs run one at a time, by weight, and a latency program does not notice them."""
import json
import os
import signal
import subprocess
import time

import harness
from harness import Program, alive, binary, device, eventually
from test_cuda import Spinner, contexts, is_right, start

DISABLE_CHANNELS = "2080110b"
BEST_EFFORT = "--class", "best-effort"


def cpu_seconds(pid):
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as f:
            total += int(f.read().split()[0])
    return total / 1e9


def watch(s, seconds):
    """How often each pid was found runnable at a short slice; never two at once."""
    seen = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        short = s.short()
        assert len(short) <= 1, f"short slices meet: {short}"
        for pid in short:
            seen[pid] = seen.get(pid, 0) + 1
    return seen


def take_turns(s, programs, seconds=1.5):
    seen = watch(s, seconds)
    assert set(seen) == {p.pid for p in programs}, (seen, [p.pid for p in programs])
    return seen


def taking_turns(s, programs):
    """Once all are at their short slices."""
    eventually("all short", lambda: all(s.slices(p.pid) == [1] for p in programs), 10)


def work(s, programs, seconds):
    """Instructions that each has executed meanwhile."""
    first = contexts(s)
    time.sleep(seconds)
    last = contexts(s)
    return [last[p.pid]["instructions"] - first[p.pid]["instructions"] for p in programs]


def time_on(s, programs, seconds):
    """How long each has had the GPU meanwhile: unlike work(), not what the machine was busy with besides."""
    first = s.ps()
    time.sleep(seconds)
    last = s.ps()
    return [last[p.pid]["on_us"] - first[p.pid]["on_us"] for p in programs]


def spinners(s, *options):
    """One for each tuple of options of `rubato run`, at work."""
    programs = [Spinner(s, *BEST_EFFORT, *own) for own in options]
    for p in programs:
        p.ask("go")
    taking_turns(s, programs)
    return programs


def test_two_and_three_take_turns(s):
    programs = [s.run(*BEST_EFFORT), s.run(*BEST_EFFORT)]
    taking_turns(s, programs)
    take_turns(s, programs)
    programs.append(s.run(*BEST_EFFORT))
    taking_turns(s, programs)
    take_turns(s, programs)
    eventually("a copy goes on in any case", lambda: any(s.is_off(p.pid) for p in programs))
    programs.pop().end()
    take_turns(s, programs)
    programs.pop().end()
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


def test_kernels_in_fair_turns(s):
    programs = spinners(s, (), (), ())
    done = time_on(s, programs, 4)
    jain = sum(done) ** 2 / (len(done) * sum(n * n for n in done))
    print(f"     {done}: Jain {jain:.3f}")
    assert jain > 0.98, done
    assert min(work(s, programs, 1)) > 0
    assert all(p.ask("check")["wrong_threads"] == 0 for p in programs)


def test_weights(s):
    programs = spinners(s, ("--weight", "1"), ("--weight", "2"))
    assert [s.ps()[p.pid]["weight"] for p in programs] == [1, 2]
    time.sleep(0.3)
    one, two = time_on(s, programs, 5)
    print(f"     1:2 makes {two / one:.2f}")
    assert 1.6 < two / one < 2.5, (one, two)
    s.rubato("renice", programs[0].pid, "--weight", 4)
    s.rubato("renice", programs[1].pid, "--weight", 1)
    assert [s.ps()[p.pid]["weight"] for p in programs] == [4, 1]
    assert all(s.ps()[p.pid]["priority"] == 2 for p in programs), "the priority is kept"
    time.sleep(0.3)
    four, one = time_on(s, programs, 5)
    print(f"     4:1 makes {four / one:.2f}")
    assert 3.2 < four / one < 5, (four, one)


def test_who_is_idle_has_no_turns(s):
    a, b = spinners(s, (), ())
    b.ask("pause")
    eventually("found to be idle", lambda: all(s.short() == [a.pid] for _ in range(6)), 20)
    seen = watch(s, 1)
    assert seen.get(b.pid, 0) * 10 <= seen[a.pid], seen
    b.ask("go")
    eventually("back at once", lambda: s.short() == [b.pid], 1)
    take_turns(s, [a, b])


def test_a_higher_priority_goes_first(s):
    low, high = spinners(s, ("--priority", "1"), ("--priority", "2"))
    time.sleep(0.5)
    lesser, greater = work(s, [low, high], 3)
    assert 0 < lesser < greater / 5, (lesser, greater)


def test_refused_to_be_taken_off(s):
    """Nobody is let back in the place of one who stays: all keep the driver's slices."""
    a, b = s.run(*BEST_EFFORT), s.run(*BEST_EFFORT)
    taking_turns(s, [a, b])
    s.softgpu("fault", "--cmd", DISABLE_CHANNELS, "--status", "1b")
    watch(s, 1)
    s.softgpu("fault", "clear")
    eventually("turns again", lambda: s.slices(a.pid) == s.slices(b.pid) == [1], 10)
    take_turns(s, [a, b])


def test_turns_cost_little(s):
    programs = [s.run(*BEST_EFFORT) for _ in range(3)]
    taking_turns(s, programs)
    daemon, hand = s.daemon(), s.hand()
    before = cpu_seconds(daemon) + cpu_seconds(hand)
    time.sleep(5)
    used = (cpu_seconds(daemon) + cpu_seconds(hand) - before) / 5
    print(f"     {used * 100:.2f} % of a core")
    assert 0 < used < 0.02, used


def kill(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def are_free(s, programs):
    return all(s.is_released(p.pid) for p in programs)


def test_the_daemon_is_killed_in_turns(s):
    programs = [s.run(*BEST_EFFORT), s.program(), s.program()]
    s.rubato("renice", programs[1].pid, programs[2].pid, *BEST_EFFORT)
    taking_turns(s, programs)
    kill(s.daemon())
    eventually("nobody is off or short", lambda: are_free(s, programs))
    eventually("the hand has gone too", lambda: not s.processes("rubato-hand"))
    assert not os.path.exists(os.path.join(s.run_dir, "state"))


def test_the_hand_is_killed_in_turns(s):
    programs = [s.run(*BEST_EFFORT) for _ in range(3)]
    for _ in range(3):
        taking_turns(s, programs)
        old = s.hand()
        kill(old)
        eventually("a new hand", lambda: s.processes("rubato-hand") not in ([], [old]), 10)
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
    s.rubato("resume", programs[0].pid)
    assert all(s.is_default(p.pid) for p in programs), "the next start heals all of them"


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
    end = time.monotonic() + 4
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


class Requests:
    """bench/latency: requests of a few small kernels each."""

    def __init__(self, s, *run_options):
        argv = [binary("rubato"), "run", *run_options, "--", binary("latency"), "--steps", "20", "--kernels", "3"]
        self.process = subprocess.Popen(s.inside(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=s.env, start_new_session=True)
        self.pid = json.loads(self.process.stdout.readline())["pid"]
        s.programs.append(self)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    end = Program.end
    kill = Program.kill


    def in_a_row(self):
        """Milliseconds for 60 requests with a synchronisation after each, one after another: the best of three."""
        return min(sum(self.ask("measure graph 60 1000000 1")["service_us"]) / 1000 for _ in range(3))


def test_a_latency_program_beside_three(s):
    """Each gap between requests would let the others in; the reserve does not, and they go on afterwards."""
    requests = Requests(s, "--class", "latency")
    alone = requests.in_a_row()
    programs = spinners(s, (), (), ())
    reserved = requests.in_a_row()
    row = s.ps()[requests.pid]
    assert row["counted"] and row["reserves"] > 0 and row["reserved_us"] > 0, row
    before, since = cpu_seconds(s.daemon()) + cpu_seconds(s.hand()), time.monotonic()
    requests.ask("measure graph 60 20 1")
    used = (cpu_seconds(s.daemon()) + cpu_seconds(s.hand()) - before) / (time.monotonic() - since)
    print(f"     {used * 100:.2f} % of a core for 20 requests a second beside three in turns")
    assert used < 0.05, used
    assert min(work(s, programs, 2)) > 0
    for p in programs + [requests]:
        s.rubato("renice", p.pid, "--class", "normal")
    default = requests.in_a_row()
    print(f"     60 requests alone {alone:.0f} ms, in turns {reserved:.0f} ms, at the driver's slices {default:.0f} ms")
    assert reserved < default, (alone, reserved, default)
    assert requests.ask("check")["wrong_threads"] == 0
    assert all(p.ask("check")["wrong_threads"] == 0 for p in programs)


def test_a_reserve_has_a_limit(s):
    """A latency program that never idles is not alone for ever."""
    p, q = Spinner(s, "--class", "latency"), Spinner(s, "--class", "normal")
    p.ask("go"), q.ask("go")
    eventually("kept off", lambda: s.is_off(q.pid))
    assert s.ps()[q.pid]["state"] == "waiting"
    eventually("let back", lambda: all(s.is_running(q.pid) for _ in range(5)), 8)
    before = q.count()
    eventually("it works", lambda: q.count() > before + 2)
    p.kill()
    eventually("nothing is left of it", lambda: s.is_default(q.pid))


def test_killed_in_a_reserve(s):
    """Also those who asked for nothing come back."""
    p, q, r = Spinner(s, "--class", "latency"), Spinner(s, "--class", "normal"), Spinner(s, *BEST_EFFORT)
    for program in (p, q, r):
        program.ask("go")
    eventually("kept off", lambda: s.is_off(q.pid) and s.is_off(r.pid))
    daemon, hand = s.daemon(), s.hand()
    kill(daemon, signal.SIGSTOP)
    kill(hand)
    kill(daemon)
    eventually("both gone", lambda: not alive(daemon) and not alive(hand))
    s.rubato("resume", r.pid)
    eventually("healed", lambda: s.is_running(q.pid) or s.ps()[q.pid]["state"] == "waiting")
    p.kill()
    eventually("all go on", lambda: s.is_default(q.pid) and s.is_running(r.pid))


HINTING = """if True:
    import ctypes, os, sys
    cuda, rubato = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
    context = ctypes.c_void_p()
    assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
    rubato.rubato_request_begin.argtypes = [ctypes.c_uint64]
    print(f"ready pid={os.getpid()}", flush=True)
    for line in sys.stdin:
        word, ns = line.split()
        rubato.rubato_request_begin(int(ns)) if word == "begin" else rubato.rubato_request_end()
        print("done", flush=True)
"""


def test_requests_that_are_announced(s):
    """From begin to end the GPU is kept, whether or not anything is submitted; no longer than the deadline."""
    q = Spinner(s, *BEST_EFFORT)
    q.ask("go")
    p = Program(s, [binary("rubato"), "run", "--class", "latency", "--", "python3", "-c", HINTING])
    s.programs.append(p)
    eventually("known", lambda: s.ps().get(p.pid, {}).get("counted") and s.slices(q.pid) == [1])
    for _ in range(3):
        eventually("not kept off", lambda: s.is_running(q.pid))
        assert p.ask("begin 0") == "done"
        eventually("kept off", lambda: s.is_off(q.pid), 0.5)
        assert all(s.is_off(q.pid) for _ in range(5))
        assert p.ask("end 0") == "done"
        eventually("let back", lambda: s.is_running(q.pid), 0.5)
    assert p.ask("begin 400000000") == "done"
    eventually("kept off", lambda: s.is_off(q.pid), 0.3)
    eventually("let back", lambda: s.is_running(q.pid), 1)
    daemon = s.daemon()
    before = cpu_seconds(daemon)
    time.sleep(2)
    assert cpu_seconds(daemon) - before <= 0.04, "an end that never comes"
    p.kill()
    eventually("alone", lambda: s.short() == [q.pid])


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
        eventually("taken for idle", lambda: all(s.short() == [q.pid] for _ in range(8)), 20)
        took = float(p.ask("wait"))
        assert took < 0.7, f"{took:.1f} s"


class Daemon:
    """rubatod with a configuration file."""

    def __init__(self, s, text):
        self.s, self.path = s, os.path.join(s.dir, "conf")
        self.write(text)
        self.process = subprocess.Popen(s.inside([binary("rubatod"), "--config", self.path]), env=s.env,
                                        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.pid = s.daemon()

    def write(self, text):
        with open(self.path, "w") as f:
            f.write(text)

    def reload(self, text):
        self.write(text)
        os.kill(self.pid, signal.SIGHUP)

    def end(self):
        kill(self.pid)
        self.process.wait(10)


def check(s, text):
    path = os.path.join(s.dir, "checked")
    with open(path, "w") as f:
        f.write(text)
    done = s.command(binary("rubatod"), "--check", path)
    return done.returncode, done.stdout + done.stderr


def test_configuration_is_checked(s):
    full = ("# all of it\npolicy = fair\nturn_ms=100 # long\n\nmax_hold_us = 0\nmax_reserve_ms = 1\n"
            "min_share = 2.5 %\nmax_latency = 0\namd_poll_us = 5000")
    for text in ("", "\n", full):
        assert check(s, text) == (0, os.path.join(s.dir, "checked") + ": ok\n"), text
    for text, says in (("turn_ms = 59", ":1: turn_ms is a whole number from 60 to 100, not 59"),
                       ("\nturn_ms = ", ":2: turn_ms"), ("turn_ms = 80\nturn_ms = 80", ":2: given twice"),
                       ("policy = none", ":1: no such policy: none"), ("min_share = 11", ":1: min_share"),
                       ("min_share = 1.55", ":1: min_share"), ("amd_poll_us = 5001", ":1: amd_poll_us"), ("min_share = %", ":1: min_share"),
                       ("turns", ":1: not of the form"), ("speed = 1", ":1: no such key: speed"),
                       ("policy = " + "x" * 600, ":1: line too long"), ("max_latency = -1", ":1: max_latency")):
        code, said = check(s, text)
        assert code == 1 and says in said and said.count("\n") == 1, (text, said)
    done = s.command(binary("rubatod"), "--check", "/nowhere")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    done = s.command(binary("rubatod"), "--config", "/nowhere")
    assert done.returncode == 1 and done.stderr.count("\n") == 1


def test_policies(s):
    """`fair` makes normal programs take turns too; `turns`, after a reload, lets them be."""
    d = Daemon(s, "policy = fair\nturn_ms = 60\n")
    s.programs.append(d)
    programs = [s.run("--class", "normal"), s.run("--class", "normal")]
    for p in programs:
        eventually("it waits", lambda: s.is_off(p.pid))
        eventually("it runs", lambda: s.is_running(p.pid))
    assert s.ps()[programs[0].pid]["policy"] == "fair"
    d.reload("policy = turns\nturn_ms = oops\n")
    time.sleep(0.3)
    assert s.ps()[programs[0].pid]["policy"] == "fair", "a file that is wrong changes nothing"
    d.reload("policy = turns\n")
    eventually("reloaded", lambda: s.ps()[programs[0].pid]["policy"] == "turns")
    eventually("both run", lambda: all(s.is_default(p.pid) for p in programs))
    assert all(s.is_default(p.pid) for p in programs * 10)
    assert s.daemon() == d.pid


def test_both_are_killed_where_all_take_turns(s):
    """Programs that asked for nothing are kept off too: the next start finds them."""
    d = Daemon(s, "policy = fair\nturn_ms = 60\n")
    s.programs.append(d)
    programs = [s.run("--class", "normal"), s.run("--class", "normal")]
    for p in programs:
        eventually("it waits", lambda: s.is_off(p.pid))
    hand = s.hand()
    kill(d.pid, signal.SIGSTOP)
    kill(hand)
    kill(d.pid)
    eventually("both gone", lambda: not alive(d.pid) and not alive(hand))
    assert any(s.is_off(p.pid) for p in programs), "nothing to heal"
    assert os.path.exists(os.path.join(s.run_dir, "state")), os.listdir(s.run_dir)
    s.run("--class", "normal")
    for p in programs:
        eventually("it runs again", lambda: s.is_running(p.pid))


if __name__ == "__main__":
    harness.main()
