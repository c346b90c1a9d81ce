# SPDX-License-Identifier: Apache-2.0
"""`rubato renice` and `rubato ps` on programs that were started without Rubato."""
import os
import signal
import time

from harness import device, eventually, main


def test_renice_and_back(s):
    p = s.program()
    assert s.ps()[p.pid]["managed"] is False
    done = s.rubato("renice", p.pid, "--class", "best-effort")
    assert done.stdout == f"{p.pid}: best-effort, priority 2\n", done.stdout
    assert s.slices(p.pid) == [1]
    row = s.ps()[p.pid]
    assert row["managed"] and row["attached"] and row["class"] == "best-effort"
    s.rubato("renice", p.pid, "--class", "normal")
    assert s.is_default(p.pid)
    eventually("let go", lambda: s.ps()[p.pid]["managed"] is False)


def test_every_way_to_say_it(s):
    p = s.program()
    for args, us in ((["--priority", 3], 50), (["-p", 5], 1000), (["-t", 77], 77), (["-c", "best-effort"], 1),
                     (["--class", "best-effort", "--priority", 4], 200), (["-c", "latency"], 2048)):
        s.rubato("renice", p.pid, *args)
        assert s.slices(p.pid) == [us], args


def test_a_program_under_run_is_reniced_without_rights(s):
    p = s.run("--class", "best-effort")
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    before = s.state()["counters"]["log_lines"]
    s.rubato("renice", p.pid, "--class", "normal")
    assert s.is_default(p.pid)
    s.rubato("renice", p.pid, "--class", "best-effort")
    assert s.slices(p.pid) == [1]
    assert s.state()["counters"]["log_lines"] == before


@device("--first-client", "0x9a000")
def test_a_server_up_for_months(s):
    for _ in range(3):
        s.program()
    p = s.program("--contexts", 2, "--channels", 80)
    before = s.state()["counters"]["log_lines"]
    started = time.monotonic()
    s.rubato("renice", p.pid, "--timeslice-us", 4000)
    print(f"     attach and renice: {(time.monotonic() - started) * 1000:.0f} ms")
    assert s.slices(p.pid) == [4000, 4000]
    assert s.state()["counters"]["log_lines"] - before <= 8


def test_two_attached_programs_never_meet(s):
    a, b = s.program(), s.program()
    s.rubato("renice", a.pid, "--class", "best-effort")
    done = s.rubato("renice", b.pid, "--class", "best-effort")
    assert done.stdout == f"{b.pid}: best-effort, priority 2\n", done.stdout
    assert s.slices(a.pid) == s.slices(b.pid) == [1]
    assert all(len(s.short()) <= 1 for _ in range(20))
    s.rubato("renice", a.pid, "--class", "normal")
    assert s.slices(b.pid) == [1] and s.is_running(b.pid) and s.is_default(a.pid)


def test_it_exits_and_execs(s):
    p = s.program()
    s.rubato("renice", p.pid, "--class", "best-effort")
    p.kill()
    eventually("its memory is freed although we held its file", lambda: not s.tasks(p.pid, None))
    q = s.program("--exec")
    s.rubato("renice", q.pid, "--class", "best-effort")
    q.say("go")
    eventually("freed after exec too", lambda: not s.tasks(q.pid, None))
    eventually("and forgotten", lambda: q.pid not in s.ps())


def test_ps_for_people(s):
    p = s.run("--class", "best-effort", args=["--memory-mib", 64])
    eventually("known", lambda: s.ps().get(p.pid, {}).get("tasks"))
    text = s.rubato("ps", "--threads").stdout
    assert "PID" in text and str(p.pid) in text and "best-effort" in text and "compute" in text and "thread" in text
    assert s.ps()[p.pid]["memory_bytes"] >= 64 << 20
    p.end()
    eventually("gone", lambda: s.rubato("ps").stdout == "no program uses a GPU here\n")


def test_many_at_once(s):
    programs = [s.program() for _ in range(8)]
    done = s.rubato("renice", *[p.pid for p in programs], "--priority", 2)
    assert done.stdout.count("\n") == 8
    assert all(s.slices(p.pid) == [1] for p in programs)
    eventually("one at a time", lambda: len(s.short()) == 1)  # none, between two turns
    assert all(len(s.short()) <= 1 for _ in range(10))
    s.rubato("renice", *[p.pid for p in programs[1:]], "--class", "normal")
    assert s.slices(programs[0].pid) == [1] and s.is_running(programs[0].pid)
    assert all(s.is_default(p.pid) for p in programs[1:])


def test_a_refusal_is_not_remembered(s):
    for p in (s.program(), s.run("--class", "normal")):
        s.softgpu("fault", "--cmd", "a06c0103", "--status", "1b")
        done = s.rubato("renice", p.pid, "--class", "best-effort", code=4)
        assert done.stderr.count("\n") == 1 and "driver" in done.stderr and "sudo" not in done.stderr, done.stderr
        row = s.ps()[p.pid]
        assert row["class"] in (None, "normal"), "what failed has changed nothing"
        s.softgpu("fault", "clear")
        assert s.is_default(p.pid)
        s.rubato("renice", p.pid, "--class", "best-effort")
        assert s.slices(p.pid) == [1]
        s.rubato("renice", p.pid, "--class", "normal")
        assert s.is_default(p.pid)


def test_a_refusal_at_the_start_is_not_remembered(s):
    s.softgpu("fault", "--cmd", "a06c0103", "--status", "1b")
    p = s.run("--class", "best-effort", args=["--survive"])
    eventually("refused", lambda: s.ps().get(p.pid, {}).get("note"))
    s.softgpu("fault", "clear")
    s.rubato("renice", p.pid, "--class", "best-effort")
    assert s.slices(p.pid) == [1] and s.ps()[p.pid]["note"] == ""


def test_a_timeslice_alone_keeps_the_priority(s):
    p = s.program()
    s.rubato("renice", p.pid, "--class", "best-effort")
    done = s.rubato("renice", p.pid, "-t", 70)
    assert done.stdout == f"{p.pid}: best-effort, priority 2, timeslice 70 us\n", done.stdout
    assert s.slices(p.pid) == [70] and s.ps()[p.pid]["priority"] == 2
    s.rubato("renice", p.pid, "--weight", 7)
    assert s.slices(p.pid) == [70] and s.ps()[p.pid]["weight"] == 7, "and a weight alone keeps both"
    s.rubato("renice", p.pid, "--priority", 3)
    assert s.slices(p.pid) == [50] and s.ps()[p.pid]["weight"] == 7


def limits(s, p):
    row = s.ps()[p.pid]
    return row["max_reserve_ms"], row["min_share_permille"]


def test_limits(s):
    """Of programs under run and attached; what is not said stays, and what is refused changes nothing."""
    p, q = s.run("--class", "best-effort", "--max-reserve-ms", 77, "--min-share", "0.5"), s.program()
    eventually("known", lambda: p.pid in s.ps() and s.slices(p.pid) == [1])
    assert limits(s, p) == (77, 5)
    s.rubato("renice", p.pid, "-t", 70)
    s.rubato("renice", p.pid, "--min-share", 0)
    assert limits(s, p) == (77, 0) and s.slices(p.pid) == [70]
    s.rubato("renice", p.pid, "--max-reserve-ms", "default", "--min-share", "default")
    assert limits(s, p) == (2000, 20) and s.slices(p.pid) == [70]
    s.rubato("renice", q.pid, "--min-share", 3)
    assert limits(s, q) == (2000, 30), "attached, and kept for it"
    s.softgpu("fault", "--cmd", "a06c0103", "--status", "1b")
    s.rubato("renice", q.pid, "--class", "best-effort", "--min-share", 4, code=4)
    s.softgpu("fault", "clear")
    assert limits(s, q) == (2000, 30)
    s.rubato("renice", q.pid, "--min-share", "default")
    eventually("let go of", lambda: s.ps()[q.pid]["managed"] is False)
    for wrong in ("--max-reserve-ms", 0), ("--max-reserve-ms", 3600001), ("--min-share", 10.1), ("--min-share", "%"), \
                 ("--min-share", "0.55"), ("--max-reserve-ms", "-1"), ("--min-share", ""):
        for command in ("run", *wrong, "--", "true"), ("renice", p.pid, *wrong):
            done = s.rubato(*command, code=2)
            assert done.stderr.count("\n") == 1 and wrong[0][2:] in done.stderr, done.stderr


@device("--driver", "999.10")
def test_force_is_needed_once(s):
    s.softgpu("fault", "--cmd", "a06c0103", "--size", "any")  # its trial fails
    p = s.program()
    s.rubato("renice", p.pid, "--class", "best-effort", code=1)
    # The daemon lets go of the program when it has seen the end of the tool's connection.
    eventually("what failed has changed nothing", lambda: s.ps()[p.pid]["managed"] is False)
    s.rubato("renice", p.pid, "--class", "best-effort", "--force")
    assert s.slices(p.pid) == [1]
    s.rubato("suspend", p.pid)
    assert s.is_suspended(p.pid)
    s.rubato("renice", p.pid, "--priority", 3)
    s.rubato("resume", p.pid)
    assert s.is_running(p.pid) and s.slices(p.pid) == [50]
    first = s.daemon()
    os.kill(first, signal.SIGKILL)
    eventually("another daemon", lambda: s.daemon() != first)
    eventually("nor for the next daemon", lambda: s.slices(p.pid) == [50])
    s.rubato("renice", p.pid, "--class", "normal")
    assert s.is_default(p.pid), "and never to go back"


main()
