# SPDX-License-Identifier: Apache-2.0
"""The identity of a program: users that change, processes that hide theirs, numbers and memory that are used twice."""
import os
import signal
import subprocess
import sys

from harness import Program, alive, binary, eventually, main, skip
from programs import may_unshare
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


# Runs rmclient under a number that is free again: "N" or "N run" on standard input.
SPAWNER = """if True:
    import os, sys
    print(f"ready pid={os.getpid()}", flush=True)
    for line in sys.stdin:
        number, *under = line.split()
        while True:
            with open("/proc/sys/kernel/ns_last_pid", "w") as f:
                f.write(str(int(number) - 1))
            pid = os.fork()
            if pid == 0:
                if os.getpid() != int(number):
                    os._exit(1)
                os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
                os.execv((under or sys.argv[1:])[0], [*under, sys.argv[1]])
            if pid == int(number):
                break
            os.waitpid(pid, 0)
"""
# Speaks for a process that has gone: it connects, and a child that it leaves behind says hello and asks for best effort.
MEDIUM = """if True:
    import os, socket, struct, sys, time
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.connect(sys.argv[1])
    pid = os.getpid()
    if os.fork() > 0:
        print(f"ready pid={pid}", flush=True)
        sys.stdin.readline()
        os._exit(0)
    sock.settimeout(10)
    while not os.path.exists(sys.argv[2]):
        time.sleep(0.01)
    try:
        sock.send(struct.pack("<IIIIQ", 0x74627201, 1, 2, 0, 0))
        sock.send(struct.pack("<IIiIIIQII", 0x74627201, 5, pid, 4, 0, 0, 0, 0, 0))
        answer = sock.recv(4096)
        print("answer", struct.unpack_from("<i", answer, 8)[0] if len(answer) > 12 else "none", flush=True)
    except OSError as e:
        print("answer none", flush=True)
"""


def in_own_numbers(test):
    """Runs a test in a pid namespace, where a number can be had again."""
    def run(s):
        if os.getpid() == 1:
            return test(s)
        options = "--pid", "--fork", "--kill-child", "--mount-proc"
        if os.geteuid() != 0 or not may_unshare(*options):
            return print("     no pid namespaces here")
        subprocess.run(["unshare", *options, sys.executable, os.path.abspath(__file__), test.__name__], check=True, timeout=120)
    return run


class Numbers:
    def __init__(self, s):
        self.s = s
        self.spawner = Program(s, ["python3", "-c", SPAWNER, binary("rmclient")])
        s.programs.append(self.spawner)

    def use_again(self, program, *under):
        """Another program under the number of one that has ended."""
        eventually("the number is free", lambda: not os.path.exists(f"/proc/{program.pid}"))
        line = self.spawner.ask(" ".join([str(program.pid), *under]))
        assert line.startswith(f"ready pid={program.pid} "), line


def is_fresh(s, pid):
    """Nothing was ever done to the one that has the number now."""
    row = s.ps().get(pid)
    return row is not None and not row["managed"] and s.is_default(pid)


@in_own_numbers
def test_a_number_that_is_used_again(s):
    """What was said of a process is not for the next one with its number: while the daemon sees its end, sleeps through
    it, or is dead meanwhile."""
    numbers = Numbers(s)
    p = s.program()
    s.rubato("renice", p.pid, *BEST_EFFORT)
    s.rubato("suspend", p.pid)
    p.end()
    numbers.use_again(p)
    eventually("as new", lambda: is_fresh(s, p.pid))

    q = s.program()
    s.rubato("renice", q.pid, *BEST_EFFORT)
    s.rubato("suspend", q.pid)
    daemon = s.daemon()
    os.kill(daemon, signal.SIGSTOP)
    q.end()
    numbers.use_again(q)
    tool = subprocess.Popen(s.inside([binary("rubato"), "resume", str(q.pid)]), env=s.env, stdin=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)
    os.kill(daemon, signal.SIGCONT)
    tool.communicate(timeout=30)
    eventually("as new", lambda: is_fresh(s, q.pid) or s.ps()[q.pid]["class"] == "normal" and s.is_default(q.pid))
    s.rubato("renice", q.pid, "--priority", 4)
    eventually("this one", lambda: s.ps()[q.pid]["priority"] == 4)

    r = s.program()
    s.rubato("suspend", r.pid)
    s.rubato("renice", r.pid, *BEST_EFFORT)
    old = s.kill_both()
    r.end()
    numbers.use_again(r)
    s.rubato("run", "--", "true")
    assert s.daemon() != old
    eventually("as new", lambda: is_fresh(s, r.pid))
    eventually("the other is as it was", lambda: s.ps()[q.pid].get("priority") == 4)


@in_own_numbers
def test_who_speaks_for_the_dead(s):
    """A connection outlives the process that made it. Its number is another's by now, for whom it does not speak."""
    numbers = Numbers(s)
    s.program("--for", 60, under=[binary("rubato"), "run", "--"])
    for is_late in False, True:
        go = os.path.join(s.dir, f"go-{is_late}")
        if is_late:  # the daemon lets it in when it has gone already
            os.kill(s.daemon(), signal.SIGSTOP)
        medium = Program(s, ["python3", "-c", MEDIUM, os.path.join(s.run_dir, "control.sock"), go])
        s.programs.append(medium)
        medium.say("end")
        numbers.use_again(medium)
        os.kill(s.daemon(), signal.SIGCONT)
        open(go, "w").close()
        assert medium.process.stdout.readline() == "answer none\n"
        assert is_fresh(s, medium.pid), s.ps()


def cgroup_mount():
    """Where a cgroup can be made: below what counts as the root here. None: nowhere."""
    with open("/proc/self/mounts") as f:
        mounts = [line.split()[1:3] for line in f]
    for path, kind in sorted(mounts, key=lambda mount: mount[1] != "cgroup2"):
        if kind in ("cgroup2", "cgroup") and os.access(path, os.W_OK) and os.path.exists(path + "/cgroup.procs"):
            return path
    return None


class Cgroups:
    """Cgroups of any names, and programs in them. All is done by names relative to each: no path is too long for that."""

    def __init__(self, s, mount):
        # Longer than the path in any other hierarchy: the longest one is the name of a group.
        self.s, self.top = s, os.path.join(mount, "rbt-test-%d-%s" % (os.getpid(), "x" * 200))
        os.mkdir(self.top)
        self.made = []  # (folder, name), those inside after those around them
        self.programs = []

    def make(self, *names):
        """One inside the other; a program of nobody's in the innermost."""
        folder = os.open(self.top, os.O_RDONLY)
        for name in names:
            try:
                os.mkdir(name, dir_fd=folder)
                self.made.append((folder, name))
            except FileExistsError:
                pass
            folder = os.open(name, os.O_RDONLY, dir_fd=folder)
        p = self.s.program(under=as_user(NOBODY))
        self.programs.append(p)
        with open(os.open("cgroup.procs", os.O_WRONLY, dir_fd=folder), "w") as f:
            f.write(str(p.pid))
        return p

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for p in self.programs:
            p.end()
        for folder, name in reversed(self.made):
            eventually("it is empty", lambda: self.is_removed(folder, name))
        os.rmdir(self.top)

    @staticmethod
    def is_removed(folder, name):
        try:
            os.rmdir(name, dir_fd=folder)
            return True
        except OSError:
            return False


def test_names_of_cgroups(s):
    """Users who manage cgroups of their own give them any names. None is a way round a rule, or breaks what is printed."""
    needs_root()
    mount = cgroup_mount()
    if mount is None:
        return print("     no cgroups can be made here")
    names = [b"a b", b"x (deleted)", b"...", b"n" * 255, b"\xff\xfe", b"a:b", b"\xe2\x80\xae\x1b[31m", b"%n%s", b"*[", b'"\\']
    with Cgroups(s, mount) as groups:
        try:
            os.mkdir(os.path.join(groups.top, "a\nb"))
            raise AssertionError("the kernel allows newlines in names: lines in /proc/PID/cgroup mean nothing")
        except OSError:
            pass
        Machine(s, "[rule boxes]\ncgroup = *rbt-test-%d-*/*\nclass = best-effort\ngroup = cgroup\n"
                "[rule rest]\nuser = *\nclass = normal\n" % os.getpid())
        one = [groups.make(name) for name in names]
        twin = groups.make(names[0])
        for p in one + [twin]:
            eventually("by the rule for its cgroup", lambda: rule_of(s, p.pid) == "boxes")
        rows = s.ps()
        assert len({rows[p.pid]["group"] for p in one}) == len(names), rows
        assert rows[twin.pid]["group"] == rows[one[0].pid]["group"], rows
        assert all(row["group"].isascii() and row["group"].isprintable() for row in rows.values())


def test_a_deep_cgroup_is_no_way_round_a_rule(s):
    needs_root()
    mount = cgroup_mount()
    if mount is None:
        return print("     no cgroups can be made here")
    with Cgroups(s, mount) as groups:
        deep = [groups.make(*[b"d" * 255] * depth) for depth in (3, 8, 17)]
        Machine(s, "[rule boxes]\ncgroup = *rbt-test-%d-*/*\nclass = best-effort\n"
                "[rule rest]\nuser = *\nclass = normal\n" % os.getpid())
        for p in deep:
            eventually("by the rule for its cgroup", lambda: rule_of(s, p.pid) is not None)
        assert [rule_of(s, p.pid) for p in deep] == ["boxes"] * 3, s.ps()


main()
