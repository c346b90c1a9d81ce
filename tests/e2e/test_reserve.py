# SPDX-License-Identifier: Apache-2.0
"""Reserve: while a latency program has requests, the others are kept off, and never for long."""
import signal
import time

import harness
from harness import alive, eventually
from programs import BEST_EFFORT, Daemon, Requests, Spinner, contexts, eager, hinter, kill, launch_bound, rests


def test_a_reserve_has_a_limit(s):
    """A latency program that never idles is not alone for ever."""
    p, q = Spinner(s, "--class", "latency"), Spinner(s, "--class", "normal")
    p.ask("go"), q.ask("go")
    eventually("kept off", lambda: s.is_off(q.pid))
    assert s.ps()[q.pid]["state"] == "waiting"
    eventually("let back", lambda: all(s.is_running(q.pid) for _ in range(5)))
    before = q.count()
    eventually("it works", lambda: q.count() > before + 2, 60)
    p.kill()
    eventually("nothing is left of it", lambda: s.is_default(q.pid))


def test_a_limit_of_its_own(s):
    """Of one that never idles: it keeps the others off for an hour, or for a moment; the configuration says 2 s."""
    p = Spinner(s, "--class", "latency", "--max-reserve-ms", "3600000")
    q = Spinner(s, *BEST_EFFORT, "--min-share", "0")
    p.ask("go"), q.ask("go")
    eventually("kept off", lambda: s.is_off(q.pid))
    time.sleep(2.5)
    assert all(s.is_off(q.pid) for _ in range(20)), "neither is over"
    done = s.rubato("renice", q.pid, "--min-share", "10 %")
    assert done.stdout == f"{q.pid}: best-effort, priority 2, min-share 10.0 %\n", done.stdout
    before = contexts(s)[q.pid]["instructions"]
    eventually("its share", lambda: contexts(s)[q.pid]["instructions"] > before)
    done = s.rubato("renice", p.pid, "--max-reserve-ms", 100)
    assert done.stdout == f"{p.pid}: latency, priority 13, max-reserve-ms 100\n", done.stdout
    eventually("let back, and stays", lambda: all(s.is_running(q.pid) for _ in range(20)))


def test_a_long_slice_for_one_of_its_kind(s):
    """Beside short slices, and not beside another: they would wait for each other. Nor for one of which it is not known
    whether it idles."""
    d = Daemon(s, text="latency_slice_us = 7000\n")
    p = Requests(s, "--class", "latency")
    assert s.is_default(p.pid)
    q = s.run(*BEST_EFFORT)
    eventually("longer", lambda: s.slices(p.pid) == [7000] and s.slices(q.pid) == [1])
    r = s.run("--class", "latency")
    eventually("there are two", lambda: s.is_default(p.pid) and s.is_default(r.pid))
    r.end()
    eventually("alone again", lambda: s.slices(p.pid) == [7000])
    d.reload("latency_slice_us = 0\n")
    eventually("not wanted", lambda: s.is_default(p.pid))
    d.reload("")
    eventually("by default", lambda: s.slices(p.pid) == [10000])
    kill(d.pid)
    eventually("as if we had not been there", lambda: s.is_released(p.pid) and s.is_released(q.pid))


def test_a_long_slice_is_put_back(s):
    """In all the ways in which a short one is."""
    p, q = Requests(s, "--class", "latency"), s.run(*BEST_EFFORT)

    def is_long():
        return s.slices(p.pid) == [10000] and s.slices(q.pid) == [1]

    eventually("longer", is_long)
    again = "renice", p.pid, "--class", "latency"
    for change, wanted, back in ((("renice", p.pid, "--class", "normal"), 2048, again),
                                 (("renice", p.pid, "--timeslice-us", 3000), 3000, again),
                                 (("renice", q.pid, "--class", "normal"), 2048, ("renice", q.pid, *BEST_EFFORT)),
                                 (("suspend", q.pid), 2048, ("resume", q.pid))):
        s.rubato(*change)
        eventually(f"after {change}", lambda: s.slices(p.pid) == [wanted])
        s.rubato(*back)
        eventually(f"after {back}", is_long)
    kill(s.hand())
    eventually("another hand", lambda: s.hand() and is_long())
    daemon, hand = s.daemon(), s.hand()
    kill(daemon, signal.SIGSTOP)
    kill(hand)
    q.kill()
    kill(daemon)
    eventually("both gone", lambda: not alive(daemon) and not alive(hand))
    s.rubato("resume", p.pid)
    eventually("healed", lambda: s.is_default(p.pid))


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


def test_requests_that_are_announced(s):
    """From begin to end the GPU is kept, whether or not anything is submitted; no longer than the deadline."""
    q = Spinner(s, *BEST_EFFORT)
    q.ask("go")
    p = hinter(s)
    eventually("known", lambda: s.ps().get(p.pid, {}).get("counted") and s.slices(q.pid) == [1])
    for _ in range(3):
        eventually("not kept off", lambda: s.is_running(q.pid))
        assert p.ask("begin 0") == "done"
        eventually("kept off", lambda: s.is_off(q.pid))
        assert all(s.is_off(q.pid) for _ in range(5))
        assert p.ask("end 0") == "done"
        eventually("let back", lambda: s.is_running(q.pid))
    assert p.ask("begin 2000000000") == "done"
    eventually("kept off", lambda: s.is_off(q.pid))
    eventually("let back for good", lambda: all(s.is_running(q.pid) for _ in range(10)))
    eventually("no spinning for an end that never comes", lambda: rests(s.daemon()))
    p.kill()
    eventually("alone", lambda: s.short() == [q.pid])


def test_some_requests_are_tried_without(s):
    """Beside a neighbour whose pace is known, unless the configuration says otherwise."""
    d = Daemon(s, text="reserve = always\n")
    launch_bound(s)
    p, serve = eager(s)
    row = serve(40)
    assert row["unreserved"] == 0 and row["reserves"] > 0 and row["no_reserve"] is None, row
    d.reload("reserve = auto\n")
    eventually("some without", lambda: serve()["unreserved"] > 0, 200)
    tried = serve()["unreserved"]
    d.reload("reserve = always\n")
    s.rubato("renice", p.pid, "--class", "latency")  # answered after the file is read
    first = serve(1)["unreserved"]
    assert serve(40)["unreserved"] == first <= tried + 1, "none any more"


def test_a_neighbour_whose_pace_is_not_known(s):
    """It was attached: what a reserve costs it cannot be seen, so there is one, always."""
    q = Spinner(s)
    q.ask("go")
    s.rubato("renice", q.pid, *BEST_EFFORT)
    p, serve = eager(s)
    row = serve(40)
    assert row["unreserved"] == 0 and row["reserves"] > 0, row


def test_why_there_is_no_reserve(s):
    p = Spinner(s, "--class", "latency", "--max-reserve-ms", "100")
    assert s.ps()[p.pid]["no_reserve"] is None and s.ps()[p.pid]["note"] == ""
    p.ask("go")
    eventually("busy for longer", lambda: s.ps()[p.pid]["no_reserve"] == "overstayed")
    assert s.ps()[p.pid]["note"] == "no reserve: busy for longer than max_reserve_ms"
    p.ask("pause")
    eventually("it idles", lambda: s.ps()[p.pid]["no_reserve"] is None and s.ps()[p.pid]["note"] == "")
    q = s.program()
    done = s.rubato("renice", q.pid, "--class", "latency")
    assert done.stdout == f"{q.pid}: latency, priority 13\n", "not an error"
    row = s.ps()[q.pid]
    assert row["no_reserve"] == "unseen" and row["note"] == "no reserve: its submissions are not seen", row
    s.rubato("renice", q.pid, "--class", "normal")
    assert s.ps()[q.pid]["no_reserve"] is None


if __name__ == "__main__":
    harness.main()
