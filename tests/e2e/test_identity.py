# SPDX-License-Identifier: Apache-2.0
"""Whose a program is, and which: users that change, processes that hide theirs, numbers and memory that are used twice."""
import os
import signal

from harness import alive, eventually, main, skip
from test_system import BEST_EFFORT, NOBODY, RULE, Machine, as_user, rubato_as, rule_of

OTHER = 4242


def needs_root():
    if os.geteuid() != 0:
        skip("only root can be two users")


def test_a_program_that_hides_its_user(s):
    """Its user's rule is for it, and root's is not."""
    needs_root()
    m = Machine(s, "[rule roots]\nuser = root\nclass = latency\n" + RULE)
    p = s.program("--contexts", 0, under=as_user(NOBODY))
    assert p.ask("hide") == "hide 0"
    p.ask("more")
    eventually("by the rule for its user", lambda: rule_of(s, p.pid) == "nobodies")
    row = s.ps()[p.pid]
    assert row["uid"] == NOBODY and row["class"] == "best-effort", row
    assert m.pids() == [m.pid]


def test_a_program_that_drops_its_rights_is_its_new_users(s):
    needs_root()
    Machine(s)
    for is_early in True, False:
        p = s.run(*BEST_EFFORT, args=["--contexts", 0] if is_early else [])
        if is_early:
            assert p.ask("user %d" % NOBODY) == "user 0"
            p.ask("more")
        eventually("managed", lambda: s.slices(p.pid) and s.ps().get(p.pid, {}).get("managed"))
        if not is_early:
            assert p.ask("user %d" % NOBODY) == "user 0"
        rubato_as(s, OTHER, "renice", p.pid, "--class", "normal", code=4)
        rubato_as(s, NOBODY, "renice", p.pid, "--class", "latency", code=4)
        rubato_as(s, NOBODY, "renice", p.pid, "--priority", 3)
        assert s.ps()[p.pid]["uid"] == NOBODY
        rubato_as(s, NOBODY, "suspend", p.pid)
        assert s.is_suspended(p.pid)
        rubato_as(s, NOBODY, "resume", p.pid)
        p.end()


def test_new_rights_and_a_new_daemon(s):
    """A program that has become another user finds the machine's daemon again, as that user."""
    needs_root()
    m = Machine(s)
    low, high = s.run(*BEST_EFFORT), s.run("--class", "latency")
    for p in low, high:
        eventually("managed", lambda: s.ps().get(p.pid, {}).get("managed"))
        assert p.ask("user %d" % NOBODY) == "user 0"
    assert s.ps()[high.pid]["class"] == "latency", "what root has said stays"
    hand = s.hand()
    os.kill(hand, signal.SIGSTOP)
    m.kill()
    os.kill(hand, signal.SIGKILL)
    m.start()
    eventually("both are back", lambda: low.ask("slice") and high.ask("slice") and
               all(s.ps().get(p.pid, {}).get("managed") and not s.ps()[p.pid]["attached"] for p in (low, high)))
    rows = s.ps()
    assert [rows[p.pid]["uid"] for p in (low, high)] == [NOBODY, NOBODY], rows
    assert rows[low.pid]["class"] == "best-effort" and rows[high.pid]["class"] == "normal", rows
    assert "above normal needs root" in rows[high.pid]["note"], rows
    eventually("nobody is off", lambda: s.is_running(low.pid) and s.is_running(high.pid))


def test_another_user_and_a_daemon_of_ones_own(s):
    """What root has said of other users' programs outlives a daemon of root's own, too. One of them was root's, and cannot
    find that daemon any more."""
    needs_root()
    mine, others = s.run(*BEST_EFFORT), s.program(under=as_user(NOBODY))
    eventually("1 us", lambda: s.slices(mine.pid) == [1])
    assert mine.ask("user %d" % NOBODY) == "user 0"
    s.rubato("suspend", mine.pid)
    s.rubato("renice", others.pid, "--priority", 3)
    old = s.kill_both(is_kept=True)
    eventually("another daemon runs", lambda: [pid for pid in s.processes("rubatod") if pid != old])
    eventually("suspended as before", lambda: s.is_suspended(mine.pid))
    eventually("reniced as before", lambda: s.ps()[others.pid].get("priority") == 3)
    s.rubato("resume", mine.pid)
    eventually("it runs", lambda: s.is_running(mine.pid))
    assert mine.ask("more").startswith("ready") and alive(others.pid)


def test_two_processes_in_one_memory(s):
    """clone(2) with CLONE_VM: the shim knows the tasks of the process that it speaks for. Those that the other one makes
    are missed, and that is told: nobody is said to be suspended who is so by halves."""
    p, q = s.run(*BEST_EFFORT), s.run(*BEST_EFFORT)
    eventually("turns", lambda: s.short() and s.is_off(p.pid) != s.is_off(q.pid))
    sibling = int(p.ask("sibling").split()[1])
    assert sibling > 0 and len(s.slices(p.pid)) == 2

    def refusal():
        done = s.rubato("suspend", p.pid, code=None)
        return done.returncode == 1 and done.stderr

    assert "more tasks than are known" in eventually("it is told", refusal)
    eventually("all of it runs", lambda: s.is_running(p.pid))
    p.kill()
    eventually("its memory is the other one's now", lambda: p.pid not in s.ps() and alive(sibling))
    eventually("and it has what it had", lambda: s.is_default(p.pid))
    eventually("it has ended", lambda: not alive(sibling))
    eventually("the neighbour is alone", lambda: s.short() == [q.pid])


main()
