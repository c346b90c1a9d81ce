# SPDX-License-Identifier: Apache-2.0
"""The daemon is killed: its programs run, are managed again, and what tools were told holds; nobody runs a command."""
import os
import resource
import signal
import struct
import subprocess
import time

from harness import alive, binary, eventually, kill_all, main

BEST_EFFORT = ("--class", "best-effort")


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(child) for child in f.read().split()]
    except OSError:
        return []


def comes_back(s, old):
    eventually("another daemon runs", lambda: [pid for pid in s.processes("rubatod") if pid != old], 10)


def test_the_daemon_comes_back(s):
    p = s.run(*BEST_EFFORT)
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    old = s.daemon()
    os.kill(old, signal.SIGKILL)
    comes_back(s, old)
    p.ask("slice")  # a driver call: the shim looks for its daemon
    eventually("managed again", lambda: s.slices(p.pid) == [1], 10)
    assert s.ps()[p.pid]["class"] == "best-effort"
    assert "was killed" in s.log()


def test_both_are_killed(s):
    """Suspended by command, kept off by turns, attached and reniced: all as before, without a command."""
    p, q = s.run(*BEST_EFFORT), s.program()
    r = s.program()
    s.rubato("renice", q.pid, *BEST_EFFORT)
    s.rubato("suspend", r.pid)
    eventually("turns", lambda: s.is_off(p.pid) != s.is_off(q.pid))
    old = s.kill_both(is_kept=True)
    comes_back(s, old)
    p.ask("slice")
    eventually("managed again", lambda: [s.ps()[x.pid]["class"] for x in (p, q, r)] == ["best-effort"] * 2 + ["normal"], 10)
    eventually("turns again", lambda: s.is_off(p.pid) != s.is_off(q.pid), 10)
    eventually("suspended again", lambda: s.is_suspended(r.pid) and s.ps()[r.pid]["state"] == "suspended", 10)
    s.rubato("resume", r.pid)
    assert s.is_running(r.pid)


def test_a_suspend_with_an_end(s):
    """It ends when it was said to, whichever daemon sees it."""
    p, q = s.program(), s.program()
    s.rubato("suspend", p.pid, "--for", "8")
    s.rubato("suspend", q.pid)
    comes_back(s, s.kill_both(is_kept=True))
    eventually("suspended again", lambda: s.is_suspended(p.pid) and s.is_suspended(q.pid) and len(s.processes("rubato-hand")), 7)
    eventually("that one runs", lambda: s.is_running(p.pid), 12)
    assert s.is_suspended(q.pid)


def test_an_orderly_end_is_one(s):
    for number in (signal.SIGTERM, signal.SIGINT):
        p = s.run(*BEST_EFFORT)
        eventually("1 us", lambda: s.slices(p.pid) == [1])
        daemon, keeper = s.daemon(), s.keeper()
        os.kill(daemon, number)
        eventually("gone", lambda: not alive(daemon) and not alive(keeper))
        time.sleep(0.5)
        assert not s.processes("rubatod") and not s.processes("rubato-keeper")
        assert s.is_released(p.pid)
        p.end()


def test_an_idle_daemon_takes_its_keeper_along(s):
    s.rubato("run", "--", "true")
    keeper = s.keeper()
    eventually("gone", lambda: not s.processes("rubatod") and not alive(keeper), 15)


def test_a_killed_keeper_is_replaced(s):
    p = s.run(*BEST_EFFORT)
    old = s.keeper()
    os.kill(old, signal.SIGKILL)
    eventually("another one", lambda: [pid for pid in s.processes("rubato-keeper") if pid != old])
    daemon = s.daemon()
    os.kill(daemon, signal.SIGKILL)
    comes_back(s, daemon)
    p.ask("slice")
    eventually("managed again", lambda: s.slices(p.pid) == [1], 10)


def test_a_keeper_that_cannot_be_started(s):
    """There is one as soon as it can."""
    p = s.run(*BEST_EFFORT)
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    daemon, old = s.daemon(), s.keeper()
    soft, hard = resource.prlimit(daemon, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon, resource.RLIMIT_NOFILE, (3, hard))
    os.kill(old, signal.SIGKILL)
    eventually("it is said", lambda: "nobody starts it again" in s.log())
    time.sleep(2.5)
    assert s.log().count("nobody starts it again") == 1, s.log()
    resource.prlimit(daemon, resource.RLIMIT_NOFILE, (soft, hard))
    eventually("another one", lambda: [pid for pid in s.processes("rubato-keeper") if pid != old])


def test_a_keeper_that_cannot_write(s):
    """The limit of a shell (ulimit -f) is reached: neither the log nor the count of deaths can be written."""
    p = s.run(*BEST_EFFORT)
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    old = s.daemon()
    resource.prlimit(s.keeper(), resource.RLIMIT_FSIZE, (0, 0))
    os.kill(old, signal.SIGKILL)
    comes_back(s, old)
    eventually("managed again", lambda: p.ask("slice") == "slice 1", 10)


def test_the_keeper_holds_nothing(s):
    """Of a program's, a lock or the socket: it would keep memory, or look like a daemon."""
    p = s.run(*BEST_EFFORT)
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    keeper = s.keeper()
    files = sorted(os.readlink(f"/proc/{keeper}/fd/{fd}").split(":")[0] for fd in os.listdir(f"/proc/{keeper}/fd"))
    assert files == ["/dev/null", "/dev/null", os.path.join(s.run_dir, "rubatod.log"), "anon_inode", "pipe"], files
    assert os.getsid(keeper) == keeper


def test_too_many_deaths(s):
    p = s.run(*BEST_EFFORT)
    for _ in range(3):
        eventually("1 us", lambda: s.slices(p.pid) == [1], 10)
        assert not s.rubato("ps").stderr
        old = s.kill_both(is_kept=True)
        p.ask("slice")
    eventually("it is said in the log", lambda: "killed 3 times within 10 s" in s.log())
    time.sleep(1)
    assert not s.processes("rubatod")
    assert "it is started again in" in s.rubato("ps").stderr
    assert not s.processes("rubatod")
    # Whoever asks for something gets it.
    s.rubato("renice", p.pid, *BEST_EFFORT)
    assert s.daemon() != old
    eventually("managed again", lambda: p.ask("slice") == "slice 1")
    assert not s.rubato("ps").stderr


def test_killed_while_it_comes_back(s):
    """The new daemon is killed before it has a keeper of its own: the old keeper is still there."""
    p, q = s.program(), s.run(*BEST_EFFORT)
    s.rubato("suspend", p.pid)
    newcomer = None
    for _ in range(20):  # it is there for some milliseconds only, and a busy machine may not look meanwhile
        s.forget_deaths()
        daemon, hand, keeper = s.daemon(), s.hand(), s.keeper()
        os.kill(daemon, signal.SIGSTOP)
        kill_all([hand, daemon])
        while newcomer is None and alive(keeper):
            newcomer = next(iter(children(keeper)), None)
        if newcomer is not None:
            break
        eventually("the next daemon", lambda: s.processes("rubatod") and s.processes("rubato-hand"))
    os.kill(newcomer, signal.SIGKILL)
    eventually("another daemon", lambda: [pid for pid in s.processes("rubatod") if pid not in (daemon, newcomer)], 10)
    eventually("all is as it was", lambda: s.processes("rubato-hand") and s.is_suspended(p.pid) and q.ask("slice") == "slice 1")
    s.rubato("resume", p.pid)
    assert s.is_running(p.pid) and len(eventually("one keeper", lambda: s.processes("rubato-keeper"))) == 1


def test_an_orderly_end_during_the_minute(s):
    """A command has started a daemon before the minute was over, and it ends: the keeper that waits starts no other."""
    p = s.run(*BEST_EFFORT)
    for _ in range(3):
        eventually("1 us", lambda: s.slices(p.pid) == [1])
        s.kill_both(is_kept=True)
        p.ask("slice")
    eventually("it is said in the log", lambda: "killed 3 times within 10 s" in s.log())
    old = s.keeper()
    s.rubato("renice", p.pid, *BEST_EFFORT)
    eventually("the old keeper has gone", lambda: not alive(old))
    os.kill(s.daemon(), signal.SIGTERM)
    eventually("all have gone", lambda: not s.processes("rubatod") and not s.processes("rubato-keeper"))


def test_everything_is_killed_and_somebody_looks(s):
    """Also the keeper, as when a whole cgroup is: ps and top put right what is left."""
    for look in (["ps"], ["top", "--once"]):
        p = s.program()
        s.rubato("suspend", p.pid)
        s.kill_both()
        assert s.is_suspended(p.pid) and not s.processes("rubatod")
        s.rubato(*look)
        eventually("it was told to be suspended", lambda: s.is_suspended(p.pid) and s.processes("rubato-hand"))
        s.rubato("resume", p.pid)
        assert s.is_running(p.pid)
        s.end_daemon()
        p.end()


def test_a_renice_before_the_shim_is_back(s):
    """The program's shim finds the new daemon after a tool has spoken of the program to it."""
    p, q = s.run("--class", "normal"), s.run("--class", "normal")
    eventually("managed", lambda: {p.pid, q.pid} <= s.ps().keys())
    s.end_daemon()
    s.rubato("renice", p.pid, "--class", "latency", "--weight", "3")
    s.rubato("suspend", q.pid)
    for program in (p, q):
        eventually("its shim is back", lambda: program.ask("slice") and not s.ps()[program.pid]["attached"])
    row = s.ps()[p.pid]
    assert (row["class"], row["weight"]) == ("latency", 3), row
    assert s.is_suspended(q.pid) and s.ps()[q.pid]["state"] == "suspended"


def test_another_program_starts_afresh(s):
    """What was said was of the program that ran then, not of the one that its process executes later."""
    p = s.run(*BEST_EFFORT, args=["--exec"])
    s.rubato("renice", p.pid, "--class", "latency", "--weight", "3", "--max-reserve", "5")
    assert p.ask("go").startswith("ready")
    p.ask("more")
    eventually("as it was started", lambda: s.slices(p.pid) == [1] and s.ps()[p.pid]["class"] == "best-effort")
    row = s.ps()[p.pid]
    assert row["weight"] == 1 and row["max_reserve_ms"] != 5, row


def test_words_that_cannot_be_written(s):
    """An older file must not outlive them: a program that was resumed would be suspended again."""
    p = s.run("--class", "normal")
    eventually("managed", lambda: p.pid in s.ps())
    s.rubato("suspend", p.pid)
    os.makedirs(os.path.join(s.run_dir, "by-hand.new", "full"))
    s.rubato("resume", p.pid)
    comes_back(s, s.kill_both(is_kept=True))
    eventually("managed again", lambda: p.ask("slice") and s.ps()[p.pid]["managed"])
    assert s.is_running(p.pid) and s.ps()[p.pid]["state"] == "running"


def test_a_suspend_without_a_state_file(s):
    """The device counts suspends: the next daemon does not suspend the program a second time, so that one resume is enough."""
    p, q = s.program(), s.run("--class", "normal")
    eventually("managed", lambda: q.pid in s.ps())
    s.rubato("suspend", p.pid, q.pid)
    s.kill_both()
    os.unlink(os.path.join(s.run_dir, "state"))
    s.rubato("run", "--", "true")
    for program in p, q:
        eventually("suspended again", lambda: program.ask("slice") and s.ps()[program.pid]["state"] == "suspended")
        s.rubato("resume", program.pid)
        assert s.is_running(program.pid)


def test_killed_in_a_full_directory(s):
    """What was written there before makes room for what is written now: a suspend is not forgotten, nor is anybody left off."""
    if os.geteuid() != 0:
        return print("     only root can mount")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "full", s.run_dir], check=True)
    try:
        p, q = s.program(), s.run("--class", "normal")
        s.rubato("renice", p.pid, *BEST_EFFORT)
        with open(os.path.join(s.run_dir, "filler"), "wb", buffering=0) as f:
            try:
                while f.write(bytes(4096)):
                    pass
            except OSError:
                pass
        s.rubato("suspend", p.pid)
        comes_back(s, s.kill_both(is_kept=True))
        eventually("suspended again", lambda: s.is_suspended(p.pid) and s.ps()[p.pid]["state"] == "suspended", 10)
        assert s.is_running(q.pid)
        s.rubato("resume", p.pid)
        assert s.is_running(p.pid)
        s.end_daemon()
    finally:
        subprocess.run(["umount", "-l", s.run_dir], check=True)


def test_calls_fail_for_a_while(s):
    """An attached program cannot be looked into when the new daemon looks first: what was said of it still holds."""
    p = s.program()
    s.rubato("renice", p.pid, *BEST_EFFORT)
    s.softgpu("fault", "--cmd", "d02", "--errno", "5")  # which only a look makes
    comes_back(s, s.kill_both(is_kept=True))
    time.sleep(3)
    s.softgpu("fault", "clear")
    eventually("managed again", lambda: s.slices(p.pid) == [1] and s.ps()[p.pid]["class"] == "best-effort", 60)


def test_a_program_that_has_closed_the_device(s):
    """Nobody waits for it: a daemon without programs ends."""
    p = s.program("--exec")
    s.rubato("renice", p.pid, *BEST_EFFORT)
    assert p.ask("go").startswith("ready")
    eventually("let go", lambda: p.pid not in s.ps())
    old = s.daemon()
    os.kill(old, signal.SIGKILL)
    comes_back(s, old)
    eventually("idle", lambda: not s.processes("rubatod"), 40)


def test_resume_while_calls_are_slow(s):
    """The daemon that resume starts puts it back; looking at the program would take too long."""
    p = s.program()
    s.rubato("suspend", p.pid)
    s.kill_both()
    s.softgpu("fault", "--nr", "2a", "--delay-us", "300000")
    s.rubato("resume", p.pid, timeout=60)
    s.softgpu("fault", "clear")
    eventually("it runs", lambda: s.is_running(p.pid))
    s.rubato("resume", p.pid)
    assert s.is_default(p.pid)


def test_resume_while_calls_are_slow_after_too_many_deaths(s):
    """No daemon starts by itself for a minute, but the one that resume starts does not wait."""
    p = s.program()
    s.rubato("suspend", p.pid)
    for _ in range(3):
        eventually("suspended", lambda: s.is_suspended(p.pid) and s.processes("rubato-hand"))
        s.kill_both(is_kept=True)
    eventually("it is said in the log", lambda: "killed 3 times within 10 s" in s.log())
    s.softgpu("fault", "--nr", "2a", "--delay-us", "300000")
    s.rubato("resume", p.pid, timeout=60)
    s.softgpu("fault", "clear")
    eventually("it runs", lambda: s.is_running(p.pid))


def test_resume_does_not_undo_a_renice(s):
    """It was reniced and suspended; the new daemon resumes it before it could look at it."""
    p = s.program()
    s.rubato("renice", p.pid, *BEST_EFFORT)
    s.rubato("suspend", p.pid)
    s.kill_both()
    s.softgpu("fault", "--nr", "2a", "--delay-us", "300000")
    s.rubato("resume", p.pid, timeout=60)
    s.softgpu("fault", "clear")
    eventually("managed again", lambda: s.slices(p.pid) == [1] and s.ps()[p.pid]["class"] == "best-effort", 60)
    assert s.is_running(p.pid)


def test_killed_while_a_program_sets_up(s):
    """A record from before libcuda has set its slice must not be what is restored."""
    p = s.run("--class", "latency", args=["--setup-ms", "1500"])
    other = s.run(*BEST_EFFORT)
    eventually("1 us", lambda: s.slices(other.pid) == [1])
    p.say("more")
    eventually("a task is being set up, and in the state file", lambda: 1024 in s.slices(p.pid) and in_state(s) == 3)
    s.kill_both()
    assert p.process.stdout.readline().startswith("ready")
    s.rubato("ps")
    s.rubato("renice", p.pid, other.pid, "--class", "normal")
    eventually("its own slices", lambda: p.ask("slice") and s.is_default(p.pid))


def start_with_killer(s, **plan):
    """A daemon as `rubato` starts it, with tests/progs/killer.c inside."""
    os.makedirs(s.run_dir, mode=0o700, exist_ok=True)
    variables = [f"KILLER_{name.upper()}={value}" for name, value in plan.items()]
    with open(os.path.join(s.run_dir, "rubatod.log"), "a") as log:
        daemon = subprocess.Popen(s.inside(["env", f"LD_PRELOAD={binary('killer.so')}", *variables, binary("rubatod"), "--keep",
                                            "--idle-exit-s", "30"]),
                                  env=s.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    eventually("the socket is there", lambda: os.path.exists(os.path.join(s.run_dir, "control.sock")))
    return daemon


def test_a_hand_that_knew_of_nothing(s):
    """The driver refuses to let programs back when the first hand dies; the second has heard of none of them when the daemon
    dies, and has nothing to restore. The next daemon must not take its word for it. (Stopped programs do not come back.)"""
    arm = os.path.join(s.dir, "arm")
    start = start_with_killer(s, role="daemon", what="fork", at=1, when="after", whom="self", arm=arm,
                              log=os.path.join(s.dir, "points"))
    programs = [s.run(*BEST_EFFORT), s.run(*BEST_EFFORT)]
    eventually("turns", lambda: sum(s.is_off(p.pid) for p in programs) == 1)
    old, hand = s.daemon(), s.hand()
    for p in programs:
        p.kill(signal.SIGSTOP)
    s.softgpu("fault", "--cmd", "2080110b", "--status", "56")
    with open(arm, "w"):
        os.kill(hand, signal.SIGKILL)
    comes_back(s, old)
    time.sleep(1)
    s.softgpu("fault", "clear")
    eventually("both run", lambda: all(s.is_running(p.pid) for p in programs), 10)
    start.kill()
    start.wait()


def in_state(s):
    """How many compute tasks the state file names."""
    n = 0
    try:
        with open(os.path.join(s.run_dir, "state"), "rb") as f:
            while entry := f.read(24):
                record = f.read(struct.unpack_from("<IiQII", entry)[3])
                for i in range(struct.unpack_from("<8I", record)[5]):
                    n += struct.unpack_from("<4I", record, 32 + 48 * i)[3] == 0
    except OSError:
        pass
    return n


if __name__ == "__main__":
    main()
