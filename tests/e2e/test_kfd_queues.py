# SPDX-License-Identifier: Apache-2.0
"""`rubato suspend PID --queue ID`: one queue of an AMD program is off, whatever happens to the program and to the daemon."""
import json
import os
import random
import re
import signal
import time

from harness import Program, alive, binary, device, eventually, kill_all, main

AMD = ("--amd-gpus", "1")
BEST_EFFORT = ("--class", "best-effort")


def client(s, *args, under=()):
    p = Program(s, [*under, binary("kfdclient"), *map(str, args)])
    s.programs.append(p)
    return p


def run(s, *options, args=("--busy",)):
    p = client(s, *args, under=[binary("rubato"), "run", *map(str, options), "--"])
    eventually("known", lambda: is_linked(s, p))
    return p


def is_linked(s, p):
    row = s.ps().get(p.pid)
    return row is not None and row["managed"] and not row["attached"]


def queues(s, pid):
    return [q for q in s.state()["kfd"]["queues"] if q["pid"] == pid]


def off(s, pid):
    """The numbers of the queues that may not run, by the agent or by a debug session."""
    return [q["handle"] for q in queues(s, pid) if not q["enabled"]]


def exact(s, *programs):
    for p in programs:
        assert alive(p.pid)
        assert all(q["restarted"] == 0 for q in queues(s, p.pid)), queues(s, p.pid)
    assert s.state()["kfd"]["totals"]["oopses"] == 0


def refused(s, *args, code, says):
    done = s.rubato(*args, code=code)
    assert done.stderr.count("\n") == 1 and says in done.stderr, done.stderr


def both_ways(s):
    """A program under `rubato run`, and one that is attached."""
    return [run(s, "--class", "normal"), client(s, "--busy")]


@device(*AMD)
def test_one_queue(s):
    for p in both_ways(s):
        s.rubato("suspend", p.pid, "--queue", 1)
        assert off(s, p.pid) == [1]
        row = s.ps()[p.pid]
        assert row["state"] == "running" and row["suspended_queues"] == 1 and "1 queue suspended" in row["note"], row
        assert {t["id"]: t["state"] for t in row["tasks"]} == {0: "running", 1: "suspended", 2: "running", 3: "running"}
        before = {q["handle"]: q["completed"] for q in queues(s, p.pid)}
        eventually("the others go on", lambda: all(q["completed"] > before[q["handle"]]
                                                   for q in queues(s, p.pid) if q["handle"] == 0))
        assert [q["completed"] for q in queues(s, p.pid)][1] == before[1]
        s.rubato("suspend", p.pid, "--queue", 1)  # once more is no different
        s.rubato("suspend", p.pid, "--queue", "3,2", "--queue", 0)
        assert off(s, p.pid) == [0, 1, 2, 3]
        assert "4 queues suspended" in s.rubato("top", "--once", "--json", "-d", "0.1").stdout
        s.rubato("resume", p.pid, "--queue", 0, "--queue", 2)
        assert off(s, p.pid) == [1, 3]
        s.rubato("resume", p.pid, "--queue", 2)  # a queue that runs already
        time.sleep(2.5)  # it is renewed for as long as it is meant
        assert off(s, p.pid) == [1, 3]
        # All of it, also what was suspended alone.
        s.rubato("suspend", p.pid)
        assert off(s, p.pid) == [0, 1, 2, 3] and s.ps()[p.pid]["state"] == "suspended"
        refused(s, "resume", p.pid, "--queue", 1, code=1, says="suspended as a whole")
        s.rubato("resume", p.pid)
        eventually("all run", lambda: not off(s, p.pid))
        row = s.ps().get(p.pid, {})
        assert not row.get("suspended_queues") and "suspended" not in row.get("note", "")
        exact(s, p)


@device("--gpus", "1", *AMD)
def test_wrong_usage(s):
    p, q, nvidia = run(s, "--class", "normal"), client(s), s.program()
    for x in p, q:
        for verb in "suspend", "resume":
            refused(s, verb, x.pid, "--queue", 99, code=3, says=f"process {x.pid}: has no queue 99")
        refused(s, "suspend", x.pid, "--queue", "1,99", code=3, says="has no queue 99")
        assert not off(s, x.pid), "all of them or none"
        refused(s, "suspend", x.pid, "--queue", "one", code=2, says="--queue takes the number of a queue")
        refused(s, "suspend", x.pid, "--queue", "", code=2, says="--queue takes the number of a queue")
    refused(s, "suspend", p.pid, q.pid, "--queue", 1, code=2, says="one process at a time")
    for verb in "suspend", "resume":
        refused(s, verb, nvidia.pid, "--queue", 0, code=1, says="cannot be suspended one by one")
    assert s.is_running(nvidia.pid)
    q.kill()
    eventually("gone", lambda: not alive(q.pid))
    refused(s, "suspend", q.pid, "--queue", 0, code=3, says="no such process")


@device(*AMD)
def test_for_a_while(s):
    for p in both_ways(s):
        before = time.monotonic()
        s.rubato("suspend", p.pid, "--queue", 0, "--for", 2)
        s.rubato("suspend", p.pid, "--queue", 1)
        assert off(s, p.pid) == [0, 1] and time.monotonic() < before + 2
        eventually("resumed by itself", lambda: off(s, p.pid) == [1])
        assert time.monotonic() - before >= 2, "not before its time"
        s.rubato("resume", p.pid)
        exact(s, p)


@device(*AMD)
def test_it_stays_off_in_turns(s):
    """Turns suspend and resume the program around it. Its packets do not make the program busy, and cost no turn."""
    for programs in [run(s, *BEST_EFFORT), run(s, *BEST_EFFORT)], [client(s, "--busy"), client(s, "--busy")]:
        a, b = programs
        for p in programs:
            s.rubato("renice", p.pid, *BEST_EFFORT)
        s.rubato("suspend", a.pid, "--queue", 1)
        for _ in range(2):
            eventually("the other's turn", lambda: {0, 1} <= set(off(s, a.pid)) and not off(s, b.pid))
            eventually("its turn", lambda: off(s, a.pid) == [1])
        assert all(1 in off(s, a.pid) for _ in range(20))
        # Without a queue that could run it has no turn to wait for.
        eventually("it has packets", lambda: s.ps()[a.pid]["pending"] > 0)
        s.rubato("suspend", a.pid, "--queue", "0,2,3")
        eventually("they do not count", lambda: s.ps()[a.pid]["pending"] == 0)
        eventually("the other has all turns", lambda: all(not off(s, b.pid) for _ in range(40)))
        s.rubato("resume", a.pid)
        eventually("turns again", lambda: 1 not in off(s, a.pid))
        exact(s, a, b)
        for p in programs:
            p.end()


def another(s, name, old):
    return eventually(f"another {name}", lambda: [pid for pid in s.processes(name) if pid != old])


@device(*AMD)
def test_the_hand_is_killed(s):
    for p in both_ways(s):
        s.rubato("suspend", p.pid, "--queue", 1)
        hand = s.hand()
        os.kill(hand, signal.SIGKILL)
        another(s, "rubato-hand", hand)
        eventually("still meant", lambda: off(s, p.pid) == [1] and s.ps()[p.pid]["suspended_queues"] == 1)
        s.rubato("resume", p.pid, "--queue", 1)
        assert not off(s, p.pid)
        exact(s, p)


@device(*AMD)
def test_the_daemon_is_killed(s):
    """Twice, so that the orders come from a file that was itself made from one."""
    for p in both_ways(s):
        s.rubato("suspend", p.pid, "--queue", 1)
        for _ in range(2):
            daemon = s.daemon()
            s.forget_deaths()
            os.kill(daemon, signal.SIGKILL)
            another(s, "rubatod", daemon)
            eventually("still meant", lambda: off(s, p.pid) == [1] and s.ps().get(p.pid, {}).get("suspended_queues") == 1)
        time.sleep(2.5)
        assert off(s, p.pid) == [1]
        s.rubato("resume", p.pid, "--queue", 1)
        assert not off(s, p.pid)
        exact(s, p)


@device(*AMD)
def test_both_are_killed(s):
    """The agent, or the kernel, resumes the queue at once; the next daemon suspends it again."""
    for p in both_ways(s):
        s.rubato("suspend", p.pid, "--queue", 1)
        s.kill_both()
        eventually("it runs", lambda: not off(s, p.pid))
        s.forget_deaths()
        s.rubato("suspend", p.pid, "--queue", 0)  # starts a daemon, which has both orders
        eventually("both are off", lambda: off(s, p.pid) == [0, 1])
        s.rubato("resume", p.pid)
        eventually("all run", lambda: not off(s, p.pid))
        exact(s, p)


@device(*AMD)
def test_the_daemon_is_stopped(s):
    """It continues right after its suspends have ended, and learns of that."""
    for p in both_ways(s):
        for what in ("--queue", 1), ():
            s.rubato("suspend", p.pid, *what)
            before = off(s, p.pid)
            daemon = s.daemon()
            os.kill(daemon, signal.SIGSTOP)
            eventually("the hand's deadline", lambda: not off(s, p.pid))
            os.kill(daemon, signal.SIGCONT)
            eventually("still meant", lambda: off(s, p.pid) == before)
            s.rubato("resume", p.pid)
            exact(s, p)


@device(*AMD)
def test_the_connection_is_lost(s):
    """The program closes files that it does not know. It runs until its next connection, and the queue is off again then."""
    p = run(s, "--class", "normal")
    s.rubato("suspend", p.pid, "--queue", 1)
    for _ in range(2):
        assert p.ask("close-from 100") == "done"
        eventually("known and off again", lambda: is_linked(s, p) and off(s, p.pid) == [1])
    s.rubato("resume", p.pid, "--queue", 1)
    assert not off(s, p.pid)
    exact(s, p)


@device(*AMD)
def test_the_queue_is_destroyed(s):
    """The order goes with it, and another queue with its number runs."""
    p = run(s, "--class", "normal")
    p.ask("more")
    eventually("known", lambda: len(s.ps()[p.pid]["tasks"]) == 5)
    s.rubato("suspend", p.pid, "--queue", 4, "--queue", 1)
    assert off(s, p.pid) == [1, 4]
    p.ask("free")
    eventually("one order is left", lambda: s.ps()[p.pid]["suspended_queues"] == 1)
    refused(s, "resume", p.pid, "--queue", 4, code=3, says="has no queue 4")
    p.ask("more")
    eventually("known", lambda: len(s.ps()[p.pid]["tasks"]) == 5)
    time.sleep(0.3)
    assert off(s, p.pid) == [1]
    daemon = s.daemon()
    os.kill(daemon, signal.SIGKILL)
    another(s, "rubatod", daemon)
    eventually("as before", lambda: off(s, p.pid) == [1])
    s.rubato("resume", p.pid)
    assert not off(s, p.pid)
    exact(s, p)


@device(*AMD)
def test_the_number_is_used_again(s):
    """The daemon hears of it late, in one record because its socket is full, or not at all because it is dead."""
    p = run(s, "--class", "normal", args=())
    p.ask("more")
    eventually("known", lambda: len(s.ps()[p.pid]["tasks"]) == 5)
    daemon = s.daemon()
    for n_records in 30, 400:
        s.rubato("suspend", p.pid, "--queue", 4, "--queue", 1)
        os.kill(daemon, signal.SIGSTOP)
        for _ in range(n_records // 2):
            p.ask("more")
            p.ask("free")
        p.ask("free")
        p.ask("more")
        os.kill(daemon, signal.SIGCONT)
        eventually("one order is left", lambda: s.ps()[p.pid]["suspended_queues"] == 1 and off(s, p.pid) == [1])
    s.rubato("suspend", p.pid, "--queue", 4)
    s.kill_both()
    p.ask("free")
    p.ask("more")
    s.forget_deaths()
    s.rubato("suspend", p.pid, "--queue", 0)  # starts a daemon, which has the orders from before
    eventually("the first two are off", lambda: off(s, p.pid) == [0, 1])
    assert s.ps()[p.pid]["suspended_queues"] == 2 and off(s, p.pid) == [0, 1]
    s.rubato("resume", p.pid)
    eventually("all run", lambda: not off(s, p.pid))
    exact(s, p)


@device(*AMD)
def test_a_new_queue_of_an_attached_program(s):
    """The daemon does not know it yet. While it is suspended, the kernel lets nobody destroy it."""
    p = client(s, "--busy")
    s.rubato("suspend", p.pid, "--queue", 0)
    p.ask("more")
    s.rubato("suspend", p.pid, "--queue", 4)
    assert off(s, p.pid) == [0, 4]
    p.say("free")
    time.sleep(0.3)
    assert len(queues(s, p.pid)) == 5
    s.rubato("resume", p.pid, "--queue", 4)
    assert p.process.stdout.readline().strip().endswith("queues=0,1,2,3")
    assert off(s, p.pid) == [0]
    s.rubato("resume", p.pid)
    eventually("all run", lambda: not off(s, p.pid))
    exact(s, p)


@device(*AMD)
def test_a_program_that_churns(s):
    """It makes or destroys a queue every 5 ms, and sends more records than the daemon will read. Orders hold all the same."""
    p = run(s, "--class", "normal", args=("--busy", "--churn-ms", 5))
    s.rubato("suspend", p.pid, "--queue", 0)
    wanted, random_order = {0}, random.Random(5)
    for _ in range(60):
        verb, queue = random_order.choice(("suspend", "resume")), random_order.randrange(1, 12)
        done = s.rubato(verb, p.pid, "--queue", queue, code=None)
        # The program keeps its first four queues; another one may have gone meanwhile.
        if queue < 4:
            assert done.returncode == 0, done.stderr
            wanted = wanted | {queue} if verb == "suspend" else wanted - {queue}
        else:
            assert done.returncode == 0 or (done.returncode == 3 and "has no queue" in done.stderr), done.stderr
        tasks = {t["id"]: t["state"] for t in s.ps()[p.pid]["tasks"]}
        assert {i for i in range(4) if tasks[i] == "suspended"} == wanted, (wanted, tasks)
        assert wanted == {i for i in off(s, p.pid) if i < 4}, (wanted, off(s, p.pid))
    s.rubato("resume", p.pid)
    eventually("all run", lambda: not off(s, p.pid))
    exact(s, p)


def requests(s):
    """What the hand was asked to do so far: an operation of proto/hand.h and an action of act/action.h for each request."""
    return re.findall(r"op (\d+) on \d+, action (\d+)", s.log())


@device(*AMD)
def test_records_are_taken_together(s):
    """Of the records that wait, the last one counts. It makes nobody suspend the same queues again."""
    put, act, suspend_task = "1", "3", "10"
    s.env["RUBATO_DEBUG"] = "1"
    p = run(s, "--class", "normal", args=())
    s.rubato("suspend", p.pid, "--queue", "0,1")
    assert requests(s).count((act, suspend_task)) == 2, requests(s)
    before = requests(s).count((put, "0"))
    daemon = s.daemon()
    os.kill(daemon, signal.SIGSTOP)
    for _ in range(15):
        p.ask("more")
        p.ask("free")
    p.ask("more")
    time.sleep(0.5)
    os.kill(daemon, signal.SIGCONT)
    eventually("known", lambda: len(s.ps()[p.pid]["tasks"]) == 5)
    assert 0 < requests(s).count((put, "0")) - before < 10, requests(s)
    for n in range(6, 16):
        p.ask("more")
        eventually("known", lambda: len(s.ps()[p.pid]["tasks"]) == n)
    assert requests(s).count((act, suspend_task)) == 2, requests(s)
    assert off(s, p.pid) == [0, 1]
    exact(s, p)


@device(*AMD)
def test_a_stopped_program(s):
    """Nobody can suspend its queues, and the daemon says why."""
    p = run(s, "--class", "normal")
    os.kill(p.pid, signal.SIGSTOP)
    refused(s, "suspend", p.pid, "--queue", 0, code=1, says="the program does not answer")
    os.kill(p.pid, signal.SIGCONT)
    eventually("it obeys again", lambda: s.rubato("suspend", p.pid, "--queue", 0, code=None).returncode == 0)
    assert off(s, p.pid) == [0]
    # More renewals wait for it than its agent reads at once.
    os.kill(p.pid, signal.SIGSTOP)
    time.sleep(6)
    os.kill(p.pid, signal.SIGCONT)
    assert all(off(s, p.pid) == [0] for _ in range(30))
    exact(s, p)


@device(*AMD)
def test_renewals_get_lost(s):
    """Its queue runs after a while, and the daemon learns of that."""
    p = run(s, "--class", "normal")
    s.rubato("suspend", p.pid, "--queue", 0)
    porters = s.processes("rubato-porter")
    kill_all(porters, signal.SIGSTOP)
    eventually("it runs", lambda: not off(s, p.pid))
    kill_all(porters, signal.SIGCONT)
    eventually("off again", lambda: off(s, p.pid) == [0])
    assert s.ps()[p.pid]["suspended_queues"] == 1
    s.rubato("resume", p.pid, "--queue", 0)
    assert not off(s, p.pid)
    exact(s, p)


def listed(s, p, *options):
    done = s.rubato("kfd", "queues", p.pid, *options)
    return done.stdout if "--json" not in options else json.loads(done.stdout)["snapshot"]["queues"]


def columns(s, p, *options):
    """Priority, percentage, suspended and new of each queue."""
    lines = listed(s, p, *options).splitlines()
    assert lines[1].split()[6:10] == ["PRIORITY", "PERCENT", "SUSPENDED", "NEW"], lines[1]
    return [line.split()[4:8] for line in lines[2:6]]


@device(*AMD)
def test_columns_of_kfd_queues(s):
    p, q = run(s, "--class", "normal"), client(s)
    assert columns(s, p) == [["7", "100", "no", "-"]] * 4 and columns(s, q) == [["-"] * 4] * 4
    assert p.ask("set 50 12") == "set"
    eventually("as it has set them", lambda: columns(s, p) == [["12", "50", "no", "-"]] * 4)
    s.rubato("suspend", p.pid, "--queue", 1)
    assert [c[2] for c in columns(s, p)] == ["no", "yes", "no", "no"]
    facts = listed(s, p, "--json")
    assert [f["suspended"] for f in facts] == [False, True, False, False] and facts[1]["state"] == "suspended"
    assert all((f["priority"], f["percentage"], f["new"]) == (12, 50, None) for f in facts), facts
    assert all(f[key] is None for f in listed(s, q, "--json") for key in ("priority", "percentage", "suspended", "state", "new"))
    # A debugger sees which queues none has listed before.
    assert columns(s, q, "--addresses") == [["-", "-", "-", "yes"]] * 4
    assert [f["new"] for f in listed(s, q, "--addresses", "--json")] == [False] * 4
    # Both tables are the same but for these four columns.
    plain = s.rubato("kfd", "monitor", q.pid, "0.1", "0.1", "--addresses").stdout.splitlines()
    rows = [line[:35] + line[70:] for line in listed(s, q, "--addresses").splitlines() if " QUEUE " in line or "  0x" in line]
    assert len(rows) == 5 and all(row in plain for row in rows), (rows, plain)
    tool = s.command(binary("get_queue_info"), str(p.pid))
    assert tool.returncode == 0 and "PRIORITY  PERCENT  SUSPENDED" in tool.stdout and "yes" in tool.stdout, tool
    s.rubato("suspend", p.pid)
    assert [c[2] for c in columns(s, p)] == ["yes"] * 4
    s.rubato("resume", p.pid)
    r = run(s, *BEST_EFFORT), run(s, *BEST_EFFORT)
    eventually("waiting", lambda: "waiting" in [c[2] for c in columns(s, r[0])])


@device(*AMD)
def test_what_the_program_sets_is_kept(s):
    p = run(s, "--class", "normal")
    s.rubato("suspend", p.pid, "--queue", 1)
    assert p.ask("set 50 12") == "set"
    eventually("off again", lambda: off(s, p.pid) == [1])
    s.rubato("resume", p.pid, "--queue", 1)
    found = {q["handle"]: (q["percentage"], q["priority"]) for q in queues(s, p.pid)}
    assert all(found[i] == (50, 12) for i in (1, 2, 3)), found
    exact(s, p)


if __name__ == "__main__":
    main()
