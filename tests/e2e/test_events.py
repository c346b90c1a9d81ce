# SPDX-License-Identifier: Apache-2.0
"""A task is made once and gone once, whatever becomes of its program: the daemon's debug log has its events."""
import re
import signal

from harness import Program, binary, device, eventually, main
from programs import Spinner

WORK = re.compile(r"process (\d+): task (\d+): (\d+) launches, (\d+) graphs, (\d+) copies, (\d+) memsets in (\d+) us")
LINE = re.compile(r"process (\d+): task (\d+) is (made|gone)")


def debug(s, level="1"):
    """To be called before the daemon is started."""
    s.env["RUBATO_DEBUG"] = level


def work(s, pid):
    """The task and the numbers of each WORK event of the program."""
    return [tuple(map(int, line[1:])) for line in WORK.findall(s.log()) if int(line[0]) == pid]


def told(s, pid, what):
    return [int(task) for process, task, is_what in LINE.findall(s.log()) if int(process) == pid and is_what == what]


def living(s, pid):
    """Tasks of the program, of all engines, as the device has them."""
    state = s.state()
    return sum(t["pid"] == pid for t in state["tsgs"] + state.get("kfd", {}).get("queues", []))


def knows_all(s, p):
    """Waits until every task has been heard of, and those that are gone too."""
    eventually("every task has its events", lambda: living(s, p.pid) ==
               len(told(s, p.pid, "made")) - len(told(s, p.pid, "gone")))


def all_ended(s, pids):
    """Every task of these programs was made once and is gone once; no two have the same id."""
    for pid in pids:
        eventually("all are gone", lambda: sorted(told(s, pid, "gone")) == sorted(told(s, pid, "made")))
    made = [task for pid in pids for task in told(s, pid, "made")]
    assert made and len(set(made)) == len(made), made


def test_a_task_is_told_of_when_it_is_made(s):
    """It need not be scheduled for that, and is told of once."""
    debug(s)
    p = s.run("--class", "best-effort")
    knows_all(s, p)
    before = told(s, p.pid, "made")
    p.ask("group")
    eventually("the group is told of", lambda: len(told(s, p.pid, "made")) == len(before) + 1)
    knows_all(s, p)
    p.say("quit")
    all_ended(s, [p.pid])


def test_records_grow_and_shrink(s):
    debug(s)
    p = s.run("--class", "best-effort")
    knows_all(s, p)
    before = told(s, p.pid, "made")
    assert before and not told(s, p.pid, "gone"), s.log()
    p.ask("more")
    knows_all(s, p)
    assert len(told(s, p.pid, "made")) == 2 * len(before), s.log()
    p.ask("free")
    knows_all(s, p)
    assert sorted(told(s, p.pid, "gone")) == sorted(set(told(s, p.pid, "made")) - set(before)), s.log()
    # What is done to the program makes no tasks.
    s.rubato("renice", p.pid, "--class", "latency")
    s.rubato("suspend", p.pid)
    s.rubato("resume", p.pid)
    assert len(told(s, p.pid, "made")) == 2 * len(before), s.log()
    p.say("quit")
    all_ended(s, [p.pid])


def test_killed_programs(s):
    """Under `rubato run` and attached, running and suspended."""
    debug(s)
    programs = [s.run("--class", name) for name in ("best-effort", "latency", "best-effort")] + [s.program()]
    s.rubato("renice", programs[3].pid, "--class", "best-effort")
    s.rubato("suspend", programs[0].pid)
    for p in programs:
        eventually("it is known", lambda: told(s, p.pid, "made"))
    for p in programs:
        p.kill(signal.SIGKILL)
    all_ended(s, [p.pid for p in programs])


@device("--amd-gpus", "1")
def test_queues(s):
    debug(s)
    p = Program(s, [binary("rubato"), "run", "--class", "best-effort", "--", binary("kfdclient")])
    s.programs.append(p)
    knows_all(s, p)
    n = len(told(s, p.pid, "made"))
    p.ask("more")
    eventually("one more", lambda: len(told(s, p.pid, "made")) == n + 1)
    p.ask("free")
    eventually("one less", lambda: told(s, p.pid, "gone") == told(s, p.pid, "made")[-1:])
    p.kill(signal.SIGKILL)
    all_ended(s, [p.pid])


def test_launches_are_work(s):
    debug(s, "work")
    p = Spinner(s, "--class", "normal")
    p.ask("go")
    eventually("several events", lambda: len(work(s, p.pid)) >= 4)
    done = p.count()
    eventually("as many launches as are done", lambda: launches(s, p.pid) >= done)
    # The oldest compute task stands for the program, and no event comes sooner than 10 ms after the last.
    assert len({event[0] for event in work(s, p.pid)}) == 1, work(s, p.pid)
    assert all(event[5] >= 10000 for event in work(s, p.pid)[1:]), work(s, p.pid)


@device("--amd-gpus", "1")
def test_packets_are_work(s):
    """Under `rubato run` and attached, alone on the GPU and in company: the write pointer tells."""
    debug(s, "work")
    p = Program(s, [binary("rubato"), "run", "--class", "normal", "--", binary("kfdclient")])
    s.programs.append(p)
    knows_all(s, p)
    counts_packets(s, p)
    q = Program(s, [binary("kfdclient")])
    s.programs.append(q)
    s.rubato("renice", q.pid, "--class", "best-effort")
    knows_all(s, q)
    counts_packets(s, q)
    p.say("quit")
    all_ended(s, [p.pid])
    counts_packets(s, q)
    q.kill(signal.SIGKILL)
    all_ended(s, [q.pid])


def counts_packets(s, p):
    """Every compute queue's packets are told as launches, each of them once."""
    n_aql = sum(queue["type"] == "aql" for queue in s.state()["kfd"]["queues"] if queue["pid"] == p.pid)
    heard = launches(s, p.pid)
    n_more = 0

    def is_polled():
        nonlocal n_more
        p.ask("submit 1")
        n_more += 1
        return launches(s, p.pid) > heard

    # Packets from before the first poll of a queue count for nothing.
    eventually("it is polled", is_polled)
    p.ask("drain")
    p.ask("submit 100")
    p.ask("drain")
    eventually("all are told", lambda: launches(s, p.pid) >= heard + 100 * n_aql)
    assert n_aql > 0 and launches(s, p.pid) <= heard + (100 + n_more) * n_aql, (heard, n_more, work(s, p.pid))
    assert {event[0] for event in work(s, p.pid)} <= set(told(s, p.pid, "made")), work(s, p.pid)
    assert all(event[5] >= 10000 for event in work(s, p.pid)[1:]), work(s, p.pid)


def launches(s, pid):
    return sum(event[1] for event in work(s, pid))


main()
