# SPDX-License-Identifier: Apache-2.0
"""A task is made once and gone once, whatever becomes of its program: the daemon's debug log has its events."""
import re
import signal

from harness import Program, binary, device, eventually, main

LINE = re.compile(r"process (\d+): task (\d+) is (made|gone)")


def debug(s):
    """To be called before the daemon is started."""
    s.env["RUBATO_DEBUG"] = "1"


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


main()
