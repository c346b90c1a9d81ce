# SPDX-License-Identifier: Apache-2.0
"""The wall clock jumps by hours, back and forth, with every look at it (tests/progs/wrongclock.c): nothing goes by it.

Turns, suspends for a while, deadlines, rates, counted deaths and what is kept in files are as ever.
"""
import json
import os
import subprocess
import time

from harness import binary, eventually, main
from programs import BEST_EFFORT, Spinner, take_turns, taking_turns


def wrong():
    return ["env", "LD_PRELOAD=" + binary("wrongclock.so")]


def has_wrong_clock(pid):
    with open(f"/proc/{pid}/maps") as f:
        return "wrongclock.so" in f.read()


def start_daemon(s):
    """With the clock, which its hand and its keeper inherit. The keeper's daemons are without it."""
    os.makedirs(s.run_dir, mode=0o700, exist_ok=True)
    with open(os.path.join(s.run_dir, "rubatod.log"), "a") as log:
        subprocess.Popen(s.inside([*wrong(), binary("rubatod"), "--keep", "--idle-exit-s", "30"]), env=s.env,
                         stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    eventually("it listens", s.listens)
    assert has_wrong_clock(s.daemon()) and has_wrong_clock(s.keeper())
    return s.daemon()


def rubato(s, *args, code=0):
    done = s.command(*wrong(), binary("rubato"), *map(str, args))
    assert done.returncode == code, f"{args}: exit {done.returncode}, not {code}: {done.stdout}{done.stderr}"
    assert "wall clock" not in done.stderr, done.stderr
    return done.stdout


def run(s, *args):
    return s.program(*args, under=[*wrong(), binary("rubato"), "run", *BEST_EFFORT, "--"])


def test_turns_and_suspends(s):
    daemon = start_daemon(s)
    p, q = run(s), run(s)
    taking_turns(s, [p, q])
    assert has_wrong_clock(p.pid) and has_wrong_clock(s.hand())
    take_turns(s, [p, q])
    began = time.monotonic()
    rubato(s, "suspend", p.pid, "--for", 1)
    assert s.is_suspended(p.pid)
    left_ms = json.loads(rubato(s, "ps", "--json"))["programs"]
    left_ms = next(row["suspended_left_ms"] for row in left_ms if row["pid"] == p.pid)
    assert left_ms is None or 0 <= left_ms <= 1000, left_ms
    eventually("it runs again by itself", lambda: not s.is_suspended(p.pid))
    assert time.monotonic() - began > 0.9
    rubato(s, "suspend", q.pid)
    # Longer than the hand lets it last unless the daemon says so again.
    time.sleep(3)
    assert s.is_suspended(q.pid) and s.processes("rubatod") == [daemon]
    rubato(s, "resume", q.pid)
    taking_turns(s, [p, q])
    assert "wall clock" not in s.log() and "hand is lost" not in s.log(), s.log()


def test_rates(s):
    """Those of `rubato top` and the accounts are of the time that has really gone by."""
    start_daemon(s)
    p = Spinner(s, *BEST_EFFORT)
    p.ask("go")
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    lines = [json.loads(line) for line in rubato(s, "top", "--json", "-n", 3, "-d", "0.5").splitlines()]
    assert len(lines) == 3
    for line in lines:
        assert 100000 <= line["interval_us"] < 20000000, line["interval_us"]
        row = next(row for row in line["programs"] if row["pid"] == p.pid)
        assert 0 <= row["share"] <= 1, row
    jumps = [abs(b["time_ms"] - a["time_ms"]) for a, b in zip(lines, lines[1:])]
    assert max(jumps) > 3600 * 1000, "the clock was meant to jump"
    known_us = s.ps()[p.pid]["known_us"]
    assert 0 < known_us < 120 * 1000000, known_us
    assert "wall clock" not in s.log(), s.log()


def test_what_is_kept(s):
    """The state file and what users have said are good for the next daemon, which has such a clock as well."""
    start_daemon(s)
    p, q = run(s), run(s)
    taking_turns(s, [p, q])
    rubato(s, "renice", p.pid, "--priority", 4)
    rubato(s, "suspend", q.pid)
    old = s.kill_both()
    os.unlink(os.path.join(s.run_dir, "control.sock"))
    assert start_daemon(s) != old
    eventually("as it was said", lambda: p.ask("slice") and q.ask("slice") and s.ps()[p.pid]["managed"] and
               s.ps()[p.pid]["priority"] == 4 and s.is_suspended(q.pid))
    rubato(s, "resume", q.pid)
    eventually("all runs", lambda: s.is_running(p.pid) or s.is_running(q.pid))


def test_deaths_are_counted(s):
    """The keeper and the daemons that it starts count as one, by a clock that does not jump."""
    start_daemon(s)
    p = run(s)
    for _ in range(3):
        eventually("1 us", lambda: s.slices(p.pid) == [1])
        s.kill_both(is_kept=True)
        p.ask("slice")
    eventually("it is said in the log", lambda: "killed 3 times within 10 s" in s.log())
    time.sleep(1)
    assert not s.processes("rubatod")
    done = s.command(*wrong(), binary("rubato"), "ps")
    assert "it is started again in" in done.stderr, done.stderr
    seconds = int("".join(filter(str.isdigit, done.stderr.split("again in")[1].split("s")[0])))
    assert 30 <= seconds <= 60, done.stderr


main()
