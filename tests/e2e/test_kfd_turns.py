# SPDX-License-Identifier: Apache-2.0
"""AMD programs under `rubato run`, and attached: turns, reserve and renice, by queues taken off exactly."""
import json
import os
import random
import re
import signal
import time

from harness import LONG, Program, alive, binary, device, eventually, main
from programs import rests

AMD = ("--amd-gpus", "1")
# Packets of 5 ms: what is in a ring lasts long enough to be looked at on a slow machine.
SLOW = (*AMD, "--packet-us", "5000")
BEST_EFFORT = ("--class", "best-effort")


def client(s, *args, under=()):
    p = Program(s, [*under, binary("kfdclient"), *map(str, args)])
    s.programs.append(p)
    return p


def run(s, *options, args=("--busy",)):
    return client(s, *args, under=[binary("rubato"), "run", *map(str, options), "--"])


def queues(s, pid, kind=None):
    return [q for q in s.state()["kfd"]["queues"] if q["pid"] == pid and kind in (None, q["type"])]


def is_off(s, pid):
    """Its compute queues may not run."""
    found = queues(s, pid, "aql")
    return bool(found) and all(q["enabled"] == 0 for q in found)


def is_on(s, pid):
    found = queues(s, pid)
    return bool(found) and all(q["enabled"] == 1 for q in found)


# What becomes of the client's own priority, 7, in each class.
LOW, HIGH = 2, 12


def is_own(s, pid, percentage=100, priority=7):
    """As the program itself has set them, but for a priority that is its class's."""
    return is_on(s, pid) and all((q["percentage"], q["priority"]) == (percentage, priority) for q in queues(s, pid))


def completed(s, pid):
    return sum(q["completed"] for q in queues(s, pid, "aql"))


def exact(s, *programs):
    for p in programs:
        assert alive(p.pid)
        assert all(q["restarted"] == 0 for q in queues(s, p.pid)), queues(s, p.pid)
    assert s.state()["kfd"]["totals"]["oopses"] == 0


def who_runs(s, programs):
    """Pids of those whose compute queues may run, at one moment."""
    state = s.state()["kfd"]["queues"]
    return [p.pid for p in programs
            if any(q["pid"] == p.pid and q["type"] == "aql" and q["enabled"] for q in state)]


def are_linked(s, *programs):
    """Their own shims have spoken: they are not merely seen from outside."""
    rows = s.ps()
    return all(p.pid in rows and rows[p.pid]["managed"] and not rows[p.pid]["attached"] for p in programs)


def stands_still(s, programs):
    """Off now and a moment later, with nothing run meanwhile."""
    pids = [p.pid for p in programs]
    before, after = ([(q["pid"], q["handle"], q["enabled"], q["completed"]) for q in s.state()["kfd"]["queues"]
                      if q["pid"] in pids and q["type"] == "aql"] for _ in range(2))
    return before == after and not any(enabled for _, _, enabled, _ in before)


@device(*AMD)
def test_run_suspend_resume(s):
    p = run(s, "--class", "normal")
    eventually("known", lambda: are_linked(s, p))
    row = s.ps()[p.pid]
    assert row["class"] == "normal" and len(row["tasks"]) == 4, row
    assert all(t["gpu"] == 0 and t["timeslice_us"] is None for t in row["tasks"]), row
    s.rubato("suspend", p.pid)
    assert all(q["percentage"] == 0 for q in queues(s, p.pid)) and s.ps()[p.pid]["state"] == "suspended"
    before = p.ask("queues")
    # Nobody debugs it, and what it makes meanwhile is off as well.
    assert not s.state()["kfd"]["processes"][0]["debugged"]
    p.ask("more")
    eventually("the new queue too", lambda: len(queues(s, p.pid)) == 5 and not any(q["enabled"] for q in queues(s, p.pid)))
    time.sleep(0.1)
    assert p.ask("queues").startswith(before.split()[0].split("/")[0]) and s.ps()[p.pid]["state"] == "suspended"
    # It is renewed for as long as it is meant.
    time.sleep(2.5)
    assert not any(q["enabled"] for q in queues(s, p.pid))
    s.rubato("resume", p.pid)
    assert is_own(s, p.pid)
    assert p.ask("free").endswith("queues=0,1,2,3")
    eventually("packets run", lambda: sum(q["restored"] for q in queues(s, p.pid)) > 0)
    exact(s, p)


@device("--gpus", "1", *AMD)
def test_vendors_count_their_own_gpus(s):
    p, q = run(s, *BEST_EFFORT), s.run(*BEST_EFFORT)
    outside = client(s)
    eventually("known", lambda: are_linked(s, p) and len(s.ps().get(q.pid, {}).get("tasks", [])) == 4)
    for pid, label in (p.pid, "amd0"), (q.pid, "0"), (outside.pid, "amd0"):
        assert {(t["gpu"], t["gpu_label"]) for t in s.ps()[pid]["tasks"]} == {(0, label)}, s.ps()[pid]
        assert re.search(rf"^ *{pid} \S+ +{label} ", s.rubato("ps").stdout, re.M), s.rubato("ps").stdout
    top = json.loads(s.rubato("top", "--once", "-d", "0.1", "--json").stdout)
    assert {g["gpu_label"]: g["programs"] for g in top["gpus"]} == {"0": 1, "amd0": 2}, top["gpus"]
    labels = {r["pid"]: r["gpu_labels"] for r in top["programs"]}
    assert labels == {p.pid: ["amd0"], q.pid: ["0"], outside.pid: ["amd0"]}, labels


@device("--gpus", "2", *AMD)
def test_gpus_may_be_met_in_any_order(s):
    """Indices are given out as GPUs are seen; what is done is done on the right one all the same."""
    amd = run(s, *BEST_EFFORT)
    eventually("it is known", lambda: are_linked(s, amd))
    programs = []
    for gpu in 1, 0:
        programs.append(s.run(*BEST_EFFORT, args=("--gpu", gpu)))
        eventually("its slice is short", lambda: s.slices(programs[-1].pid) == [1])
    rival = s.run(*BEST_EFFORT, args=("--gpu", 1))
    for p in programs[0], rival:
        eventually("it waits", lambda: s.is_off(p.pid))
        eventually("it runs", lambda: s.is_running(p.pid))
    assert s.is_running(programs[1].pid) and is_on(s, amd.pid), "GPUs have nothing to do with each other"
    for p in programs:
        s.rubato("renice", p.pid, "--class", "normal")
        eventually("its own slice again", lambda: s.is_default(p.pid))


@device("--gpus", "32", *AMD)
def test_more_gpus_than_are_scheduled(s):
    """The programs on a 33rd GPU are left alone, with a line each; the others do not notice."""
    others = [s.run(*BEST_EFFORT, args=("--gpu", gpu)) for gpu in range(32)]
    for p in others:
        eventually("its slice is short", lambda: s.slices(p.pid) == [1])
    beyond = [run(s, *BEST_EFFORT), run(s, *BEST_EFFORT)]
    for p in beyond:
        eventually("ps says so", lambda: s.ps().get(p.pid, {}).get("note") == "left alone: Rubato schedules 32 other GPUs already")
        line = (f"process {p.pid} is left alone: it uses GPU amd0, and Rubato schedules 32 other GPUs already, "
                "which is its maximum\n")
        assert s.log().count(line) == 1, s.log()
        s.rubato("renice", p.pid, "--priority", "1")
    rival = s.run(*BEST_EFFORT, args=("--gpu", 31))
    for p in others[31], rival:
        eventually("it waits", lambda: s.is_off(p.pid))
        assert all(is_own(s, q.pid) for q in beyond), "they take no turns, and keep their priority"
        eventually("it runs", lambda: s.is_running(p.pid))


@device(*AMD)
def test_two_take_turns(s):
    programs = [run(s, *BEST_EFFORT), run(s, *BEST_EFFORT)]
    for p in programs:
        eventually("it waits", lambda: is_off(s, p.pid))
        eventually("it runs", lambda: is_on(s, p.pid))
    both, seen, end = 0, set(), time.monotonic() + 1
    while time.monotonic() < end:
        now = who_runs(s, programs)
        both += len(now) > 1
        seen.update(now)
    assert both == 0 and len(seen) == 2, (both, seen)
    for p in programs:
        before = completed(s, p.pid)
        eventually("it makes progress", lambda: completed(s, p.pid) > before + 10)
    assert all(q["enabled"] for q in queues(s, programs[0].pid, "sdma")), "turns are for compute queues"
    rows = s.ps()
    assert all(rows[p.pid]["turns"] > 0 and rows[p.pid]["note"] == "" for p in programs), rows
    # Read pointers stand still out of turn.
    p = programs[0]
    eventually("off", lambda: is_off(s, p.pid))

    def look():
        """At one moment: whether it is off, how often it was put back, and how far it is."""
        found = queues(s, p.pid, "aql")
        return (all(q["enabled"] == 0 for q in found), [q["restored"] for q in found],
                sum(q["completed"] for q in found))
    first, compared = look(), 0
    for _ in range(200):
        now = look()
        if first[0] and first[:2] == now[:2]:
            assert now[2] == first[2], (first, now)
            compared += 1
        first = now
    assert compared > 0
    programs[1].kill()
    eventually("alone, it runs", lambda: is_own(s, p.pid, 100, LOW))
    assert all(is_own(s, p.pid, 100, LOW) for _ in range(10))
    exact(s, p)


@device(*SLOW)
def test_who_is_idle_has_no_turns(s):
    busy, idle = run(s, *BEST_EFFORT), run(s, *BEST_EFFORT, args=())
    eventually("the other is taken for idle", lambda: all(is_on(s, busy.pid) for _ in range(10)))
    idle.ask("submit 200")
    eventually("it has turns now", lambda: is_off(s, busy.pid))
    eventually("what waits is seen", lambda: (s.ps()[idle.pid]["pending"] or 0) > 0)
    assert "packets pending: " in s.rubato("ps", "--long").stdout
    eventually("top has it", lambda: {p["pid"]: p["pending"] or 0 for p in json.loads(
        s.rubato("top", "--once", "--json", "-d", "0.1").stdout)["programs"]}[busy.pid] > 0)
    s.env["COLUMNS"] = "160"
    assert "  PEND " in s.rubato("top", "--once", "-d", "0.1").stdout
    eventually("both do", lambda: is_on(s, busy.pid))
    assert idle.ask("drain") == "drained"
    eventually("nothing waits", lambda: s.ps()[idle.pid]["pending"] == 0)
    eventually("idle again", lambda: all(is_on(s, busy.pid) for _ in range(10)))
    exact(s, busy, idle)


@device(*SLOW)
def test_latency_program_stops_the_others(s):
    others = [run(s, *BEST_EFFORT), run(s, "--class", "normal")]
    urgent = run(s, "--class", "latency", args=("--queues", 1, "--sdma", 0))
    eventually("known", lambda: are_linked(s, urgent, *others))
    for _ in range(2):
        eventually("normal runs", lambda: is_on(s, others[1].pid))
        urgent.ask("submit 800")    # 4 s
        started = time.monotonic()
        eventually("both are off", lambda: not who_runs(s, others))
        took = time.monotonic() - started
        eventually("and stand still", lambda: stands_still(s, others))
        print(f"     seen off after {took * 1e3:.0f} ms")
        assert urgent.ask("drain") == "drained"
        eventually("they go on", lambda: all(is_on(s, p.pid) for p in others))
    assert s.ps()[urgent.pid]["reserves"] >= 2
    exact(s, urgent, *others)


@device(*SLOW)
def test_a_moment_of_silence(s):
    """A program that cannot answer for a moment is kept off as soon as it can."""
    p, urgent = run(s, *BEST_EFFORT), run(s, "--class", "latency", args=("--queues", 1, "--sdma", 0))
    eventually("known", lambda: are_linked(s, p, urgent) and is_on(s, p.pid))
    os.kill(p.pid, signal.SIGSTOP)
    urgent.ask("submit 1000")    # at least 5 s
    time.sleep(1)
    assert is_on(s, p.pid)
    os.kill(p.pid, signal.SIGCONT)
    eventually("off", lambda: is_off(s, p.pid), seconds=2)
    assert urgent.ask("drain") == "drained"
    eventually("on", lambda: is_on(s, p.pid))
    exact(s, p, urgent)


@device(*AMD)
def test_sixteen_priorities(s):
    """Whoever has the higher priority goes first, whichever two are taken."""
    low, high = run(s, "--priority", 0), run(s, "--priority", 5)
    eventually("the lower one is kept off", lambda: is_off(s, low.pid) and is_on(s, high.pid))
    for priority in (1, 4):
        s.rubato("renice", low.pid, "--priority", priority)
        assert s.ps()[low.pid]["priority"] == priority
    s.rubato("renice", low.pid, "--priority", 5)
    eventually("equals take turns", lambda: is_on(s, low.pid))
    eventually("and again", lambda: is_on(s, high.pid) and is_off(s, low.pid))
    for priority in range(6, 11):
        s.rubato("renice", low.pid, "--priority", priority)
        s.rubato("renice", high.pid, "--priority", priority)
        eventually("normal programs share", lambda: is_on(s, low.pid) and is_on(s, high.pid))
    for priority in range(11, 16):
        s.rubato("renice", low.pid, "--priority", priority)
        eventually("latency reserves", lambda: is_off(s, high.pid))
        eventually("and goes first", lambda: all(q["priority"] == HIGH for q in queues(s, low.pid)))
        s.rubato("renice", low.pid, "--priority", 8)
        eventually("shared", lambda: is_on(s, low.pid) and is_on(s, high.pid))
    assert is_own(s, low.pid) and is_own(s, high.pid)
    exact(s, low, high)


@device(*AMD)
def test_renice(s):
    p, q = run(s, "--class", "normal"), run(s, *BEST_EFFORT)
    done = s.rubato("renice", p.pid, *BEST_EFFORT)
    assert "note" not in done.stdout + done.stderr, done
    eventually("turns", lambda: is_off(s, p.pid))
    eventually("turns", lambda: is_off(s, q.pid))
    s.rubato("renice", p.pid, "--class", "normal")
    eventually("back", lambda: is_own(s, p.pid))
    assert s.ps()[p.pid]["note"] == ""
    done = s.rubato("renice", p.pid, "--timeslice-us", "500", code=1)
    assert done.stderr.count("\n") == 1 and "no timeslice" in done.stderr, done.stderr
    assert is_own(s, p.pid) and s.ps()[p.pid]["note"] == ""
    # `run` does not know yet which GPU its program will use, if there are others: it is said.
    r = run(s, "--timeslice-us", "500")
    eventually("noted", lambda: are_linked(s, r) and "no timeslice" in s.ps()[r.pid]["note"])


@device("--gpus", "0", *AMD)
def test_no_other_gpus(s):
    done = s.rubato("run", "--timeslice-us", "4999", "--", "true", code=1)
    assert done.stderr.count("\n") == 1 and "no timeslice" in done.stderr, done.stderr
    p = run(s, "--timeslice-us", "5000")
    eventually("known", lambda: are_linked(s, p) and s.ps()[p.pid]["note"] == "")
    # The length of its turns is what it wants; a class alone has no slice here.
    q = run(s, *BEST_EFFORT)
    eventually("known", lambda: are_linked(s, q))
    assert [s.ps()[x.pid]["wanted_timeslice_us"] for x in (p, q)] == [5000, None]


@device(*AMD)
def test_what_the_program_sets_is_kept(s):
    p = run(s, "--class", "normal")
    eventually("known", lambda: are_linked(s, p))
    s.rubato("suspend", p.pid)
    assert is_off(s, p.pid)
    # Its own calls while it is off are the driver's, and what comes back afterwards; it stays off.
    assert p.ask("set 50 12") == "set"
    eventually("off again", lambda: is_off(s, p.pid))
    ring = int(p.ask("ring").split()[1], 16)
    eventually("off again", lambda: is_off(s, p.pid))
    time.sleep(0.1)
    assert is_off(s, p.pid)
    s.rubato("resume", p.pid)
    found = {q["handle"]: (q["percentage"], q["priority"]) for q in queues(s, p.pid)}
    assert found == {0: (100, 7), 1: (50, 12), 2: (50, 12), 3: (50, 12)}, found
    assert queues(s, p.pid)[0]["ring"] == ring
    # One that the program itself has taken off stays so.
    assert p.ask("set 0 3") == "set"
    s.rubato("suspend", p.pid)
    s.rubato("resume", p.pid)
    assert all((q["percentage"], q["priority"]) == (0, 3) for q in queues(s, p.pid))
    assert p.ask("set 100 7") == "set"
    exact(s, p)


@device(*AMD)
def test_killed_while_off(s):
    """Whoever dies, and whoever is stopped: nobody stays off."""
    p = run(s, *BEST_EFFORT)
    eventually("known", lambda: are_linked(s, p))
    s.rubato("suspend", p.pid)
    hand = s.hand()
    os.kill(hand, signal.SIGKILL)
    eventually("another hand", lambda: s.processes("rubato-hand") not in ([], [hand]))
    eventually("off again", lambda: is_off(s, p.pid))
    os.kill(s.daemon(), signal.SIGKILL)
    eventually("restored by the hand", lambda: is_own(s, p.pid))
    # The agent finds the next daemon by itself; it need not make a call.
    s.rubato("ps")
    q = run(s, *BEST_EFFORT)
    eventually("both are known again", lambda: are_linked(s, p, q))
    s.rubato("suspend", p.pid)
    daemon, hand = s.daemon(), s.hand()
    os.kill(daemon, signal.SIGSTOP)
    os.kill(hand, signal.SIGKILL)
    os.kill(daemon, signal.SIGKILL)
    eventually("restored by the agent", lambda: is_own(s, p.pid), 2)
    # Both stopped: the agent has a deadline of its own.
    r = run(s, *BEST_EFFORT)
    eventually("all are known again", lambda: are_linked(s, p, q, r))
    s.rubato("suspend", p.pid)
    daemon, hand = s.daemon(), s.hand()
    os.kill(hand, signal.SIGSTOP)
    os.kill(daemon, signal.SIGSTOP)
    eventually("restored by the deadline", lambda: is_own(s, p.pid))
    os.kill(hand, signal.SIGKILL)
    os.kill(daemon, signal.SIGKILL)
    eventually("all run", lambda: all(is_own(s, x.pid) for x in (p, q, r)))
    exact(s, p, q, r)


def kill_all(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


@device(*AMD)
def test_killed_at_random(s):
    programs = [run(s, *BEST_EFFORT), run(s, *BEST_EFFORT, args=("--busy", "--churn-ms", 20))]
    for _ in range(60 if LONG else 6):
        time.sleep(random.uniform(0.05, 0.4))
        victims = s.processes(random.choice(["rubatod", "rubato-hand"]))
        if random.random() < 0.3:
            victims = s.processes("rubatod") + s.processes("rubato-hand")
        kill_all(victims)
        if random.random() < 0.3:
            programs.pop(random.randrange(len(programs))).kill()
            programs.append(run(s, *BEST_EFFORT))
    kill_all(s.processes("rubatod") + s.processes("rubato-hand"))
    for p in programs:
        eventually("it runs as it was", lambda: is_own(s, p.pid))
    exact(s, *programs)


@device(*AMD)
def test_stopped_program(s):
    """Whoever does not answer is not waited for."""
    p, q = run(s, *BEST_EFFORT), run(s, *BEST_EFFORT)
    eventually("turns", lambda: is_off(s, p.pid))
    eventually("turns", lambda: is_off(s, q.pid))
    os.kill(p.pid, signal.SIGSTOP)
    time.sleep(1)
    eventually("the other runs", lambda: all(is_on(s, q.pid) for _ in range(5)))
    os.kill(p.pid, signal.SIGCONT)
    eventually("turns again", lambda: is_off(s, q.pid))
    eventually("turns again", lambda: is_off(s, p.pid))
    exact(s, p, q)


def tracer(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(f.read().split("TracerPid:")[1].split()[0])


@device(*AMD)
def test_attached_take_turns(s):
    """Without the shim, by debug sessions that stay between turns; queues are looked at from outside."""
    programs = [client(s, "--busy"), client(s, "--busy")]
    idle = client(s)
    for p in (*programs, idle):
        s.rubato("renice", p.pid, *BEST_EFFORT)
    for p in programs:
        eventually("it waits", lambda: is_off(s, p.pid))
        eventually("it runs", lambda: is_on(s, p.pid))
    tracers = [tracer(p.pid) for p in programs]
    assert all(tracers), tracers
    both = sum(len(who_runs(s, programs)) > 1 for _ in range(10))
    assert both == 0 and [tracer(p.pid) for p in programs] == tracers
    rows = s.ps()
    assert all(rows[p.pid]["attached"] and rows[p.pid]["counted"] for p in programs), rows
    turns = rows[idle.pid]["turns"]
    eventually("turns go on", lambda: s.ps()[programs[0].pid]["turns"] > rows[programs[0].pid]["turns"] + 3)
    assert s.ps()[idle.pid]["turns"] <= turns + 2, "the idle one has none"
    for p in (*programs, idle):
        s.rubato("renice", p.pid, "--class", "normal")
    for p in (*programs, idle):
        eventually("back, and nobody's", lambda: is_own(s, p.pid) and tracer(p.pid) == 0)
    exact(s, *programs, idle)


@device(*SLOW)
def test_attached_latency_program_reserves(s):
    trainer, urgent = run(s, *BEST_EFFORT), client(s, "--queues", 1, "--sdma", 0)
    s.rubato("renice", urgent.pid, "--class", "latency")
    eventually("it runs", lambda: is_on(s, trainer.pid))
    urgent.ask("submit 600")    # 3 s
    eventually("off", lambda: is_off(s, trainer.pid))
    assert urgent.ask("drain") == "drained"
    eventually("on", lambda: is_on(s, trainer.pid))
    hand = s.hand()
    os.kill(hand, signal.SIGKILL)
    eventually("another hand", lambda: tracer(urgent.pid) not in (0, hand))
    urgent.ask("submit 600")
    eventually("and it looks", lambda: is_off(s, trainer.pid))
    assert urgent.ask("drain") == "drained"
    eventually("on", lambda: is_on(s, trainer.pid))
    exact(s, trainer, urgent)


def thread_status(pid, name):
    """Of the thread with that name; None: there is none."""
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{tid}/status") as f:
                status = {key: value.strip() for key, _, value in (line.partition(":") for line in f)}
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        if status["Name"] == name:
            return status
    return None


AGENT = "rubato-agent"


@device(*AMD)
def test_agent_is_a_thread_of_the_program(s):
    """It has the rights of the other threads, no more and no less, also after the program has given up root."""
    p = run(s, "--class", "normal")
    eventually("known", lambda: are_linked(s, p))

    def rights(name):
        status = thread_status(p.pid, name)
        return {key: status[key] for key in ("Uid", "Gid", "Groups", "CapEff", "CapPrm", "NoNewPrivs", "Seccomp",
                                             "Seccomp_filters")}

    agent = thread_status(p.pid, AGENT)
    assert rights(AGENT) == rights("kfdclient")
    # All signals that a handler of the program's could be called for are blocked, but for a thread's own faults.
    blocked = int(agent["SigBlk"], 16)
    assert all(blocked >> n - 1 & 1 for n in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGPROF)), agent
    if os.geteuid() != 0:
        return  # it can become nobody else
    s.rubato("suspend", p.pid)
    assert is_off(s, p.pid)
    assert p.ask("nobody") == "done"
    assert rights(AGENT) == rights("kfdclient") and rights(AGENT)["Uid"].split() == ["65534"] * 4
    assert thread_status(p.pid, AGENT)["Pid"] == agent["Pid"]
    assert is_off(s, p.pid)
    s.rubato("resume", p.pid)
    eventually("it runs", lambda: is_own(s, p.pid))
    exact(s, p)


@device(*AMD)
def test_agent_ends_with_the_queues(s):
    """It keeps no program alive, and another is there for the next queues."""
    p = run(s, "--class", "normal", args=("--queues", 1, "--sdma", 0))
    eventually("known", lambda: are_linked(s, p))
    for _ in range(2):
        first = thread_status(p.pid, AGENT)["Pid"]
        p.ask("free")
        eventually("no agent", lambda: thread_status(p.pid, AGENT) is None)
        p.ask("more")
        eventually("another agent", lambda: thread_status(p.pid, AGENT) and are_linked(s, p))
        assert thread_status(p.pid, AGENT)["Pid"] != first
        s.rubato("suspend", p.pid)
        assert is_off(s, p.pid)
        s.rubato("resume", p.pid)
        eventually("it runs", lambda: is_own(s, p.pid))
    exact(s, p)
    p.ask("free")
    assert p.ask("leave") == "left"
    assert p.process.wait(timeout=60) == 0


def first_thread_state(pid):
    with open(f"/proc/{pid}/task/{pid}/stat") as f:
        return f.read().split(") ")[1][0]


@device(*AMD)
def test_the_first_thread_has_ended(s):
    """Other threads of the program go on, and their calls and packets are seen."""
    p, busy = run(s, "--class", "latency", args=("--queues", 1, "--sdma", 0)), run(s, *BEST_EFFORT)
    eventually("known", lambda: are_linked(s, p, busy))
    assert p.ask("outlive") == "left"
    eventually("it has ended", lambda: first_thread_state(p.pid) == "Z")
    p.ask("more")
    eventually("the new queue is known", lambda: len(s.ps()[p.pid]["tasks"]) == 2)
    assert s.ps()[p.pid]["request"] is None
    p.ask("submit 10")
    eventually("its request is timed", lambda: s.ps()[p.pid]["request"])
    assert s.ps()[p.pid]["seen_to_off"]["count"] > 0, "the other was off"


@device(*AMD)
def test_closes_what_it_does_not_know(s):
    """While it is off: it runs until its next connection, and is off again then, as its user has said."""
    p = run(s, "--class", "normal")
    eventually("known", lambda: are_linked(s, p))
    s.rubato("suspend", p.pid)
    assert is_off(s, p.pid)
    assert p.ask("close-from 100") == "done"
    eventually("known and off again", lambda: are_linked(s, p) and is_off(s, p.pid))
    s.rubato("resume", p.pid)
    assert is_own(s, p.pid)
    exact(s, p)


@device(*AMD)
def test_priority_comes_back(s):
    """The agent forgets its level with the connection. The daemon knows that, also if it found the program from outside first."""
    p = run(s, "--class", "normal")
    eventually("known", lambda: are_linked(s, p))
    s.rubato("renice", p.pid, *BEST_EFFORT)
    eventually("low", lambda: is_own(s, p.pid, 100, LOW))
    assert p.ask("close-from 100") == "done"
    eventually("its own, then low again", lambda: is_own(s, p.pid, 100, LOW) and are_linked(s, p))
    # Found from outside before its agent could speak to the next daemon.
    os.kill(p.pid, signal.SIGSTOP)
    os.kill(s.daemon(), signal.SIGKILL)
    s.rubato("renice", p.pid, *BEST_EFFORT)
    assert s.ps()[p.pid]["attached"]
    os.kill(p.pid, signal.SIGCONT)
    eventually("known again, and low again", lambda: are_linked(s, p) and is_own(s, p.pid, 100, LOW))
    exact(s, p)


@device(*AMD)
def test_last_number_is_the_programs(s):
    p = run(s, "--class", "normal", args=("--queues", 0, "--sdma", 0))
    p.ask("queues")
    files = sorted(map(int, os.listdir(f"/proc/{p.pid}/fd")))
    assert p.ask(f"files {files[-1] + 2}") == "done"
    p.ask("more")
    for _ in range(5):
        time.sleep(0.1)
        assert p.ask("set 100 7") == "set"
    # What the agent opens for a moment it does not keep.
    eventually("no more than it had", lambda: sorted(map(int, os.listdir(f"/proc/{p.pid}/fd"))) == files)
    exact(s, p)


PPOLL = 271  # on x86-64; elsewhere the client itself has no other


@device(*AMD)
def test_in_a_sandbox(s):
    """Which refuses what the agent needs: the program goes on, and nobody spins."""
    p = run(s, "--class", "normal", args=("--queues", 0, "--sdma", 0))
    assert p.ask("no-threads") == "done"
    assert p.ask("more").startswith("ready") and thread_status(p.pid, AGENT) is None
    assert is_own(s, p.pid)
    if os.uname().machine != "x86_64":
        return
    q = run(s, "--class", "normal", args=("--queues", 0, "--sdma", 0))
    assert q.ask(f"refuse {PPOLL}") == "done"
    assert q.ask("more").startswith("ready")
    eventually("known", lambda: are_linked(s, q))
    eventually("it does not spin", lambda: rests(q.pid))
    s.rubato("suspend", q.pid)
    assert is_off(s, q.pid)
    s.rubato("resume", q.pid)
    assert is_own(s, q.pid)
    exact(s, p, q)


if __name__ == "__main__":
    main()
