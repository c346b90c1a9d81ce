# SPDX-License-Identifier: Apache-2.0
"""Daemon, hand and keeper are killed together: a program's shim brings the daemon back, and the program does not notice."""
import ctypes
import os
import signal
import subprocess
import time

from harness import Program, alive, binary, device, eventually, in_process_session, kill_all, main, process_status
from test_standin import WITH_DRIVER, shared, use_driver

AMD = ("--amd-gpus", "1")
BEST_EFFORT = ("--class", "best-effort")
OURS = ("rubatod", "rubato-hand", "rubato-keeper")
# The shims wait for 3 s before they start a command, and for at least 0.5 s between two looks.
BACK_S = 10
LANDLOCK_CREATE_RULESET, LANDLOCK_VERSION = 444, 1


def kill_everything(s):
    """As when their cgroup is killed. Returns the daemon's pid."""
    daemon, hand, keeper = s.daemon(), s.hand(), s.keeper()
    os.kill(daemon, signal.SIGSTOP)
    kill_all([keeper, hand, daemon])
    eventually("all have gone", lambda: not any(alive(pid) for pid in (daemon, hand, keeper)))
    return daemon


def is_back(s, old, seconds=BACK_S):
    """Without a command."""
    return eventually("another daemon", lambda: [pid for pid in s.processes("rubatod") if pid != old], seconds)


def stays_away(s, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert not s.processes("rubatod")
        time.sleep(0.1)


class Starter:
    """A shell under `rubato run`, whose script prints what rmclient prints, later."""

    def __init__(self, s, script):
        self.process = subprocess.Popen(s.inside([binary("rubato"), "run", *BEST_EFFORT, "--", "sh", "-c", script]), text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=s.env, start_new_session=True)
        self.pid = None
        s.programs.append(self)

    def program(self):
        self.pid = int(self.process.stdout.readline().split("pid=")[1].split()[0])
        return self.pid

    def end(self):
        kill_all([self.pid] if self.pid else in_process_session(self.process.pid))
        self.process.stdout.close()
        self.process.wait(10)


def client(s, *args, under=()):
    p = Program(s, [*under, binary("kfdclient"), *map(str, args)])
    s.programs.append(p)
    return p


def amd_run(s, *options):
    return client(s, "--busy", under=[binary("rubato"), "run", *map(str, options), "--"])


def amd_off(s, p):
    return any(not q["enabled"] for q in s.state()["kfd"]["queues"] if q["pid"] == p.pid)


def is_managed(s, p):
    row = s.ps().get(p.pid)
    return row is not None and row["managed"] and not row["attached"]


def children(pid):
    """Processes whose parent it is, whatever their state."""
    return [int(child) for child in filter(str.isdigit, os.listdir("/proc"))
            if (process_status(child)[1] or [b"", b"0"])[1] == str(pid).encode()]


def test_turns(s):
    """One of two is kept off by turns when all are killed: nobody stays off, and both have turns again."""
    p, q = s.run(*BEST_EFFORT), s.run(*BEST_EFFORT)
    eventually("turns", lambda: s.is_off(p.pid) != s.is_off(q.pid))
    old = kill_everything(s)
    assert s.is_off(p.pid) != s.is_off(q.pid)
    is_back(s, old)
    seen = set()
    eventually("both have turns", lambda: seen.update(x.pid for x in (p, q) if s.is_off(x.pid)) or len(seen) == 2)
    eventually("both are managed", lambda: is_managed(s, p) and is_managed(s, q))


def test_a_suspended_program(s):
    """It stays suspended, as it was told to, under a daemon that resumes it."""
    p, q = s.run(), s.run(*BEST_EFFORT)
    eventually("1 us", lambda: s.slices(q.pid) == [1])
    s.rubato("suspend", p.pid)
    old = kill_everything(s)
    is_back(s, old)
    eventually("both are managed", lambda: is_managed(s, p) and is_managed(s, q))
    assert s.ps()[p.pid]["state"] == "suspended" and s.slices(q.pid) == [1]
    s.rubato("resume", p.pid)
    assert s.is_running(p.pid) and s.is_running(q.pid)


def test_a_program_that_only_waits(s):
    """It makes no driver call: its shim looks when a synchronisation returns."""
    use_driver(s)
    p = Program(s, [*WITH_DRIVER, binary("rubato"), "run", "--class", "latency", "--", binary("cudaclient"), "live"])
    s.programs.append(p)
    eventually("they share a board", lambda: shared(s, p))
    old = kill_everything(s)
    eventually("another daemon", lambda: p.ask("call cuStreamSynchronize 1") == "ok" and
               [pid for pid in s.processes("rubatod") if pid != old], BACK_S)
    eventually("they share another", lambda: p.ask("call cuStreamSynchronize 1") == "ok" and shared(s, p))


def test_nothing_to_restore(s):
    """A daemon whose programs all have their own slices was killed: they are managed again, too."""
    p = s.run("--class", "normal")
    eventually("managed", lambda: is_managed(s, p))
    is_back(s, kill_everything(s))
    eventually("managed again", lambda: is_managed(s, p))


def test_an_attached_program(s):
    """It has no shim: another program's brings its daemon back."""
    p, q = s.program(), s.run(*BEST_EFFORT)
    s.rubato("renice", p.pid, *BEST_EFFORT)
    eventually("turns", lambda: s.is_off(p.pid) != s.is_off(q.pid))
    is_back(s, kill_everything(s))
    eventually("both have turns", lambda: s.is_off(p.pid) and not s.is_off(q.pid))
    eventually("both have turns", lambda: s.is_off(q.pid) and not s.is_off(p.pid))


@device(*AMD)
def test_amd(s):
    """The agents bring the daemon back even if their programs make no call; what was ordered holds."""
    p, q = amd_run(s, *BEST_EFFORT), amd_run(s, "--class", "normal")
    eventually("managed", lambda: is_managed(s, p) and is_managed(s, q))
    s.rubato("suspend", p.pid)
    old = kill_everything(s)
    is_back(s, old)
    eventually("both are managed", lambda: is_managed(s, p) and is_managed(s, q))
    eventually("suspended again", lambda: amd_off(s, p) and s.ps()[p.pid]["state"] == "suspended")
    assert not amd_off(s, q)
    s.rubato("resume", p.pid)
    eventually("both run", lambda: not amd_off(s, p) and not amd_off(s, q))


def has_landlock():
    return ctypes.CDLL(None).syscall(LANDLOCK_CREATE_RULESET, None, 0, LANDLOCK_VERSION) > 0


@device(*AMD)
def test_a_restricted_program(s):
    """It may not debug others, and neither might a daemon that it starts: so it starts none."""
    if not has_landlock() or os.geteuid() != 0:
        # Without root, all programs of a session have given up new privileges: it filters their system calls.
        print("     left out: no landlock(7), or nothing that shows it")
        return
    p, q = client(s, "--queues", 0, "--sdma", 0, under=[binary("rubato"), "run", "--"]), client(s, "--busy")
    assert p.ask("landlock") == "done"
    p.ask("more")
    eventually("managed", lambda: is_managed(s, p))
    s.rubato("suspend", q.pid)
    kill_everything(s)
    stays_away(s, 6)
    s.rubato("suspend", q.pid)
    assert amd_off(s, q)
    s.rubato("resume", q.pid)
    eventually("managed again", lambda: is_managed(s, p))


def test_the_program_does_not_notice(s):
    """It gets no SIGCHLD, waits for no child but its own, runs no fork handler, and keeps its files and signals."""
    p = s.run(*BEST_EFFORT, args=["--count-children"])
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    own = children(p.pid)
    assert len(own) == 1
    n_files = len(os.listdir(f"/proc/{p.pid}/fd"))
    old = kill_everything(s)
    is_back(s, old)
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    assert children(p.pid) == own and p.ask("children") == "children signals=0 waited=0 forks=0"
    assert len(os.listdir(f"/proc/{p.pid}/fd")) == n_files
    # The count is one that counts.
    kill_all(own)
    eventually("its own child", lambda: p.ask("children") == "children signals=1 waited=1 forks=0")


def test_what_is_started(s):
    """A session, a directory and an environment of its own, none of the program's files."""
    p = s.run(*BEST_EFFORT)
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    daemon = is_back(s, kill_everything(s))[0]
    with open(f"/proc/{daemon}/environ", "rb") as f:
        names = {entry.split(b"=")[0].decode() for entry in f.read().split(b"\0") if entry}
    assert "RUBATO_RUNTIME_DIR" in names and not names & {"LD_PRELOAD", "LD_LIBRARY_PATH", "RUBATO_SOCKET", "RUBATO_TREAT"}, names
    assert os.readlink(f"/proc/{daemon}/cwd") == "/" and os.getsid(daemon) != os.getsid(p.pid)
    eventually("the command has ended", lambda: not s.processes("rubato"))


def test_an_orderly_end(s):
    p = s.run(*BEST_EFFORT)
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    daemon = s.daemon()
    os.kill(daemon, signal.SIGTERM)
    eventually("gone", lambda: not alive(daemon))
    stays_away(s, 6)
    assert s.is_released(p.pid)


def test_an_idle_end(s):
    """The daemon has ended for lack of programs; then one begins to use the GPU that had been started under it."""
    gate = os.path.join(s.dir, "gate")
    os.mkfifo(gate)
    late = Starter(s, f"(read line <{gate}; exec {binary('rmclient')}) &")
    daemon = s.daemon()
    eventually("idle", lambda: not alive(daemon))
    with open(gate, "w") as f:
        f.write("go\n")
    p = late.program()
    stays_away(s, 6)
    assert s.is_released(p)


def test_without_a_daemon(s):
    """A program that wants none starts none for others."""
    p, q = s.program(), s.run("--no-daemon")
    s.rubato("suspend", p.pid)
    kill_everything(s)
    stays_away(s, 6)
    q.ask("slice")
    assert s.is_suspended(p.pid)


def test_too_many_deaths(s):
    """The keeper has counted three: then nobody starts a daemon for a minute, unless somebody orders something."""
    p = s.run(*BEST_EFFORT)
    for _ in range(3):
        eventually("1 us", lambda: s.slices(p.pid) == [1])
        s.kill_both(is_kept=True)
    eventually("it is said in the log", lambda: "killed 3 times within 10 s" in s.log())
    kill_all([s.keeper()])
    stays_away(s, 8)
    s.rubato("renice", p.pid, *BEST_EFFORT)
    eventually("managed again", lambda: s.slices(p.pid) == [1])


def test_sixteen_programs(s):
    """All look at once: there is one daemon, and nothing is left of what they started."""
    programs = [s.run(*BEST_EFFORT) for _ in range(16)]
    eventually("turns", lambda: sum(not s.is_off(p.pid) for p in programs) == 1)
    old = kill_everything(s)
    is_back(s, old, 20)
    eventually("all are managed", lambda: all(is_managed(s, p) for p in programs), 30)
    eventually("no command is left", lambda: not s.processes("rubato"))
    assert [len(s.processes(name)) for name in OURS] == [1, 1, 1]
    assert not any(children(p.pid) for p in programs)
    eventually("turns", lambda: sum(not s.is_off(p.pid) for p in programs) == 1)


if __name__ == "__main__":
    main()
