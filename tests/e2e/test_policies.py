# SPDX-License-Identifier: Apache-2.0
"""The daemon's configuration, and the policies it chooses."""
import os
import signal
import time

import harness
from harness import alive, binary, eventually
from programs import Daemon, Spinner, kill


def check(s, text):
    path = os.path.join(s.dir, "checked")
    with open(path, "w") as f:
        f.write(text)
    done = s.command(binary("rubatod"), "--check", path)
    return done.returncode, done.stdout + done.stderr


def test_configuration_is_checked(s):
    full = ("# all of it\npolicy = fair\nturn_ms=100 # long\n\nmax_hold_us = 0\nlatency_slice_us = 0\nmax_reserve_ms = 1\n"
            "min_share = 2.5 %\nmax_latency = 0\namd_poll_us = 5000\nreserve = always")
    for text in ("", "\n", full):
        assert check(s, text) == (0, os.path.join(s.dir, "checked") + ": ok\n"), text
    for text, says in (("turn_ms = 59", ":1: turn_ms is a whole number from 60 to 100, not 59"),
                       ("\nturn_ms = ", ":2: turn_ms"), ("turn_ms = 80\nturn_ms = 80", ":2: given twice"),
                       ("policy = none", ":1: policy is turns, priority, fair, fifo or an absolute path, not: none"), ("min_share = 11", ":1: min_share"),
                       ("min_share = 1.55", ":1: min_share"), ("amd_poll_us = 5001", ":1: amd_poll_us"), ("min_share = %", ":1: min_share"),
                       ("latency_slice_us = 100001", ":1: latency_slice_us"),
                       ("reserve = never", ":1: reserve is auto or always, not: never"),
                       ("reserve = auto\nreserve = auto", ":2: given twice: reserve"),
                       ("turns", ":1: not of the form"), ("speed = 1", ":1: no such key: speed"),
                       ("policy = " + "x" * 600, ":1: line too long"), ("max_latency = -1", ":1: max_latency")):
        code, said = check(s, text)
        assert code == 1 and says in said and said.count("\n") == 1, (text, said)
    code, said = check(s, "turn_ms = 1\nspeed = 1\n[rule a]\nclass = fast\n")
    assert code == 1 and [line.split(":")[2] for line in said.splitlines()] == ["1", "2", "4"], said
    for path, says in ("/nowhere", "No such file"), ("/tmp", "Is a directory"):
        done = s.command(binary("rubatod"), "--check", path)
        assert done.returncode == 1 and done.stderr.count("\n") == 1 and says in done.stderr, done.stderr
    assert s.command(binary("rubatod"), "--check", "/nowhere", "/nowhere").returncode == 2
    done = s.command(binary("rubatod"), "--config", "/nowhere")
    assert done.returncode == 1 and done.stderr.count("\n") == 1


def test_policies(s):
    """`fair` makes normal programs take turns too; `turns`, after a reload, lets them be."""
    d = Daemon(s, text="policy = fair\nturn_ms = 60\n")
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


def test_options_go_before_the_file(s):
    """A program that never idles has the GPU alone for as long as the option says, also after a reload."""
    for wrong in ("--max-reserve-ms", "0"), ("--min-share", "11"):
        done = s.command(binary("rubatod"), *wrong)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    d = Daemon(s, "--max-reserve-ms", 3000, "--min-share", 0, text="max_reserve_ms = 3600000\nmin_share = 10\n")
    for _ in range(2):
        p, q = Spinner(s, "--class", "latency"), Spinner(s, "--class", "normal")
        p.ask("go"), q.ask("go")
        eventually("kept off", lambda: s.is_off(q.pid))
        eventually("let back, and stays", lambda: all(s.is_running(q.pid) for _ in range(20)))
        p.end(), q.end()
        d.reload("max_reserve_ms = 3000000\n")


def test_both_are_killed_where_all_take_turns(s):
    """Programs that asked for nothing are kept off too: the next start finds them."""
    d = Daemon(s, text="policy = fair\nturn_ms = 60\n")
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
