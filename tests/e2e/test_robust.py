# SPDX-License-Identifier: Apache-2.0
"""The daemon, its hand and the tools in trouble: no limit, stop or race makes them hang, spin or lie."""
import ctypes
import json
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

from harness import LONG, MAGIC, Program, alive, binary, eventually, main, measured, renice_message
from programs import BEST_EFFORT, Asked, Spinner, rests, taking_turns

SET_TIMESLICE, DISABLE_CHANNELS = "a06c0103", "2080110b"


def connect(s):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(5)
    sock.connect(os.path.join(s.run_dir, "control.sock"))
    return sock


def started(s):
    """A best-effort program under `run`, and its daemon."""
    p = s.run("--class", "best-effort")
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    eventually("what has received its files has ended", lambda: not s.processes("rubato-porter"))
    return p, s.daemon()


def lowest_free(pid):
    """The number that its next file would have."""
    used = set(map(int, os.listdir(f"/proc/{pid}/fd")))
    return next(number for number in range(len(used) + 1) if number not in used)


def test_no_fds_left(s):
    p, daemon = started(s)
    old = resource.prlimit(daemon, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon, resource.RLIMIT_NOFILE, (lowest_free(daemon), old[1]))
    waiting = [connect(s) for _ in range(5)]
    eventually("it does not spin on a connection that it cannot take", lambda: rests(daemon))
    for sock in waiting:
        sock.close()
    done = s.rubato("renice", p.pid, "--class", "normal", code=None, timeout=20)
    assert done.returncode != 0 and done.stderr.count("\n") == 1, done
    resource.prlimit(daemon, resource.RLIMIT_NOFILE, old)
    s.rubato("renice", p.pid, "--class", "normal")
    assert s.is_default(p.pid) and s.daemon() == daemon


def test_the_hand_cannot_be_started(s):
    p, daemon = started(s)
    old = resource.prlimit(daemon, resource.RLIMIT_NOFILE)
    tool = connect(s)
    tool.send(struct.pack("<IIiI", MAGIC, 8, 0, 0))
    tool.recv(65536)
    resource.prlimit(daemon, resource.RLIMIT_NOFILE, (1, old[1]))  # no further fd
    os.kill(s.hand(), signal.SIGKILL)
    eventually("restored", lambda: s.is_default(p.pid))
    tool.send(renice_message(p.pid, 3))
    error = struct.unpack_from("<i", tool.recv(4096), 8)[0]
    assert error < 0, "nothing was set, so nothing may be reported as done"
    resource.prlimit(daemon, resource.RLIMIT_NOFILE, old)
    eventually("back at work", lambda: s.slices(p.pid) == [1])
    tool.close()


def test_a_stopped_daemon_with_a_full_queue(s):
    p, daemon = started(s)
    os.kill(daemon, signal.SIGSTOP)
    waiting = []
    for _ in range(400):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.setblocking(False)
        waiting.append(sock)
        try:
            sock.connect(os.path.join(s.run_dir, "control.sock"))
        except BlockingIOError:
            break
    done = s.rubato("run", "--", "echo", "fine")
    assert done.stdout == "fine\n" and done.stderr.count("\n") == 1, done
    for command in (["ps"], ["suspend", str(p.pid)]):
        done = s.rubato(*command, code=None, timeout=25)
        assert done.stderr.count("\n") <= 1, done
    q = s.run("--class", "best-effort")
    q.end()
    os.kill(daemon, signal.SIGCONT)
    for sock in waiting:
        sock.close()
    eventually("well again", lambda: s.ps()[p.pid]["managed"])


def test_a_stopped_daemon(s):
    p, daemon = started(s)
    os.kill(daemon, signal.SIGSTOP)
    q = s.run("--class", "best-effort")
    assert q.ask("slice"), "the program answers"
    for command in (["ps"], ["suspend", str(p.pid)]):
        before = time.monotonic()
        done = s.rubato(*command, code=None, timeout=25)
        assert done.stderr.count("\n") == 1 and time.monotonic() - before < 15, done
        assert "does not answer" in done.stderr, done.stderr
    doctor = s.rubato("doctor", code=None).stdout
    assert "does not answer" in next(line for line in doctor.splitlines() if "rubatod" in line), doctor
    os.kill(daemon, signal.SIGCONT)
    eventually("well again", lambda: s.ps()[p.pid]["managed"])
    assert "does not answer" not in s.rubato("doctor", code=None).stdout


def test_twenty_tools_start_it_at_once(s):
    programs = [s.program() for _ in range(5)]
    results = []

    def tool(pid):
        results.append(s.rubato("renice", pid, "--class", "best-effort", code=None))

    tools = [threading.Thread(target=tool, args=(programs[i % 5].pid,)) for i in range(20)]
    for t in tools:
        t.start()
    for t in tools:
        t.join()
    assert all(r.returncode == 0 for r in results), [r.stderr for r in results if r.returncode]
    assert len(s.processes("rubatod")) == 1


def test_tools_that_disagree(s):
    """Several tools attach one program at once; each is answered, none finds it gone."""
    p = s.program()
    s.program()
    failed = []

    def tool(name):
        for _ in range(8):
            done = s.rubato("renice", p.pid, "--class", name, code=None)
            if done.returncode != 0:
                failed.append(done.stderr)

    tools = [threading.Thread(target=tool, args=(name,)) for name in ("best-effort", "normal", "normal")]
    for t in tools:
        t.start()
    for t in tools:
        t.join()
    assert not failed, failed
    s.rubato("renice", p.pid, "--class", "normal")
    assert s.is_default(p.pid)


def test_a_hand_that_never_answers(s):
    """Neither the tool nor the daemon may wait for it, or start one after the other, for ever."""
    p = s.run("--class", "normal")
    daemon = s.daemon()
    s.softgpu("fault", "--cmd", SET_TIMESLICE, "--delay-us", 2200000)
    before = time.monotonic()
    done = s.rubato("renice", p.pid, "--class", "best-effort", code=1, timeout=60)
    assert time.monotonic() - before < 20 and done.stderr.count("\n") == 1, done
    s.softgpu("fault", "clear")
    eventually("back at work", lambda: s.rubato("renice", p.pid, "--class", "normal", code=None).returncode == 0, 20)
    assert s.is_default(p.pid) and s.daemon() == daemon


def test_a_refused_suspend_is_none(s):
    for p in (s.program(), s.run("--class", "normal")):
        s.softgpu("fault", "--cmd", DISABLE_CHANNELS, "--status", "1b")
        done = s.rubato("suspend", p.pid, code=None)
        assert done.returncode == 4 and "sudo" not in done.stderr, done
        s.softgpu("fault", "clear")
        assert s.ps()[p.pid]["state"] == "running"
        time.sleep(1)
        assert s.is_running(p.pid)
        s.rubato("suspend", p.pid)
        assert s.is_suspended(p.pid)
        s.rubato("resume", p.pid)


def test_a_refused_resume_is_tried_again(s):
    p = s.program()
    s.rubato("suspend", p.pid, "--for", "3")
    s.softgpu("fault", "--cmd", DISABLE_CHANNELS, "--status", "1b")
    time.sleep(3.5)
    assert s.is_suspended(p.pid)
    s.softgpu("fault", "clear")
    eventually("resumed all the same", lambda: s.is_running(p.pid))


def refuse_all(s):
    for command in (SET_TIMESLICE, DISABLE_CHANNELS):
        s.softgpu("fault", "--cmd", command, "--status", "65")


def test_a_lost_hand_and_a_refused_resume(s):
    """What could not be put back when the hand was lost is put back later, though nobody wants it off by then."""
    p = s.program()
    s.rubato("suspend", p.pid, "--for", "3")
    over = time.monotonic() + 3
    refuse_all(s)
    for _ in range(3):  # then there is none for 5 s
        hand = s.hand()
        os.kill(hand, signal.SIGKILL)
        eventually("gone", lambda: not alive(hand))
    assert s.is_suspended(p.pid)
    time.sleep(max(0.5, over + 0.5 - time.monotonic()))
    s.softgpu("fault", "clear")
    assert not s.processes("rubato-hand") and s.is_suspended(p.pid)
    eventually("resumed", lambda: s.is_running(p.pid))


def seize(hand):
    """Killed, it then stays until it is waited for, as one does that hangs in the driver. False: not here."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(0x4206, hand, None, None) != 0:  # PTRACE_SEIZE
        print("     the hand cannot be traced here:", os.strerror(ctypes.get_errno()))
        return False
    return True


def test_a_hand_that_does_not_go(s):
    p, daemon = started(s)
    hand = s.hand()
    if not seize(hand):
        return
    os.kill(hand, signal.SIGKILL)
    eventually("restored: the daemon does not wait for it", lambda: s.is_default(p.pid))
    assert s.is_default(p.pid) and not alive(hand) and os.path.exists(f"/proc/{hand}"), "none beside it, at first"
    eventually("nor spins", lambda: rests(daemon))
    os.waitpid(hand, 0)
    eventually("as before", lambda: s.slices(p.pid) == [1])
    assert s.daemon() == daemon and s.hand() != hand


def test_a_late_deed_beside_a_new_hand(s):
    """A hand hangs in the driver until there is another, and what it was asked for is carried out in the end."""
    if not LONG:
        return  # 10 s without a hand
    p = s.run("--class", "normal")
    s.rubato("suspend", p.pid)
    hand = s.hand()
    if not seize(hand):
        return
    os.kill(hand, signal.SIGKILL)
    eventually("restored", lambda: s.is_running(p.pid))
    eventually("suspended anew, by another", lambda: s.is_suspended(p.pid))
    with subprocess.Popen(s.inside([binary("ops"), str(p.pid)]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                          env=s.env) as late:  # what the first one was at
        late.stdin.write("off all\n")
        late.stdin.flush()
        assert [late.stdout.readline().split()[0] for _ in range(2)] == ["0", "0"]
        os.waitpid(hand, 0)
        eventually("the first is gone", lambda: not os.path.exists(f"/proc/{hand}"))
        s.rubato("resume", p.pid)
        assert s.is_running(p.pid), "disabled twice, enabled once"


def test_a_killed_daemon_and_a_refused_restore(s):
    """The hand could not put it back: the next daemon does, as soon as the driver lets it."""
    p, q = s.program(), s.program()
    s.rubato("renice", p.pid, "--class", "best-effort")
    s.rubato("suspend", q.pid)
    refuse_all(s)
    hand = s.hand()
    os.kill(s.daemon(), signal.SIGKILL)
    eventually("gone", lambda: not alive(hand))
    assert s.slices(p.pid) == [1] and s.is_suspended(q.pid)
    s.softgpu("fault", "clear")
    s.rubato("resume", q.pid)
    s.rubato("renice", p.pid, "--class", "normal")
    assert s.is_default(p.pid) and s.is_default(q.pid)
    eventually("nothing is left to do", lambda: not os.path.exists(os.path.join(s.run_dir, "state")))


def test_a_refused_release(s):
    """An attached program that is let go of, or a daemon that ends, while the driver refuses."""
    p = s.program()
    s.rubato("suspend", p.pid)
    refuse_all(s)
    os.kill(s.daemon(), signal.SIGTERM)
    eventually("gone", lambda: not s.processes("rubatod"))
    s.softgpu("fault", "clear")
    assert s.is_suspended(p.pid) and os.path.exists(os.path.join(s.run_dir, "state"))
    s.rubato("resume", p.pid)
    assert s.is_default(p.pid)


def test_a_program_that_starts_slowly(s):
    """The daemon that `run` started waits for the program's first task, however long that takes."""
    started_by_run = s.program(under=[binary("rubato"), "run", "--class", "best-effort", "--", "sh", "-c",
                                      'sleep 4; exec "$@"', "sh"])
    eventually("1 us", lambda: s.slices(started_by_run.pid) == [1])
    assert s.ps()[started_by_run.pid]["managed"]
    started_by_run.end()
    eventually("idle exit", lambda: not s.processes("rubatod"))


def test_run_without_a_gpu_is_not_listed(s):
    shell = subprocess.Popen(s.inside([binary("rubato"), "run", "--", "sleep", "5"]), env=s.env)
    daemon = s.daemon()
    time.sleep(0.5)
    assert s.ps() == {}
    shell.kill()
    shell.wait()
    eventually("idle exit", lambda: not alive(daemon))


def test_closed_standard_files(s):
    for closed in ("<&-", ">&-", "<&- >&-", "<&- >&- 2>&-", "2>&-"):
        done = s.command("sh", "-c", f"{binary('rubato')} run --class best-effort -- true {closed}")
        assert done.returncode == 0 and done.stderr == "", (closed, done)
        for daemon in s.processes("rubatod"):
            os.kill(daemon, signal.SIGKILL)
        eventually("gone", lambda: not s.processes("rubatod"))


def test_a_runtime_directory_that_cannot_be(s):
    p = s.program()
    for path in ("/proc/nowhere", s.dir + "/link", s.dir + "/" + "x" * 200):
        if path.endswith("link"):
            os.symlink("/tmp", path)
        done = s.command("env", "RUBATO_RUNTIME_DIR=" + path, binary("rubato"), "renice", str(p.pid), "-c", "best-effort")
        assert done.returncode in (1, 4) and done.stderr.count("\n") == 1, done
        assert "No child processes" not in done.stderr and "RUBATO_RUNTIME_DIR" in done.stderr, done.stderr
    assert s.is_default(p.pid)


def test_a_damaged_state_file(s):
    p = s.program()
    os.makedirs(s.run_dir, mode=0o700, exist_ok=True)
    entry = struct.pack("<IiQII", 0x31747362, p.pid, 0, 0xffffffff, 0)
    for content in (b"x", os.urandom(5000), entry, entry[:20], b"\0" * 100000):
        with open(os.path.join(s.run_dir, "state"), "wb") as f:
            f.write(content)
        s.rubato("renice", p.pid, "--class", "best-effort")
        assert s.slices(p.pid) == [1]
        daemon = s.daemon()
        os.kill(daemon, signal.SIGKILL)
        eventually("restored", lambda: s.is_default(p.pid) and not s.processes("rubato-hand"))


def test_a_hand_that_outlives_its_daemon(s):
    """A hand that was stopped restores everything when it goes on. The next daemon lets it, before it acts itself."""
    p = s.program()
    s.rubato("suspend", p.pid)
    daemon, hand = s.daemon(), s.hand()
    os.kill(hand, signal.SIGSTOP)
    os.kill(daemon, signal.SIGKILL)
    s.rubato("resume", p.pid)
    assert s.is_running(p.pid) and not alive(hand)
    s.rubato("suspend", p.pid)
    assert os.path.exists(os.path.join(s.run_dir, "state"))


def test_a_slow_hand_undoes_nothing_of_the_next_daemon(s):
    """It takes seconds to restore: what a tool is told meanwhile holds afterwards."""
    p, q = s.run("--class", "best-effort"), s.run("--class", "best-effort")
    eventually("turns", lambda: s.short() and s.is_off(p.pid) != s.is_off(q.pid))
    hand, daemon = s.hand(), s.daemon()
    for cmd in ("a06c0103", "2080110b"):
        s.softgpu("fault", "--cmd", cmd, "--delay-us", "120000")
    os.kill(daemon, signal.SIGKILL)
    s.rubato("suspend", p.pid)
    s.softgpu("fault", "clear")
    eventually("gone", lambda: not alive(hand), 20)
    time.sleep(0.5)
    assert s.is_suspended(p.pid), "the old hand has let it back"


def test_a_daemon_of_ones_own_refuses_others(s):
    """Whoever gets at its socket all the same: it serves its user and root. (The machine's daemon: test_system.py.)"""
    if os.geteuid() != 0:
        return print("     only root can drop privileges")
    _, _ = started(s)
    os.chmod(s.dir, 0o711)
    os.chmod(s.run_dir, 0o711)
    os.chmod(os.path.join(s.run_dir, "control.sock"), 0o666)
    code = f"""if True:
        import socket, struct
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.settimeout(10)
        sock.connect({os.path.join(s.run_dir, "control.sock")!r})
        try:
            sock.send(struct.pack("<IIiI", {MAGIC}, 8, 0, 0))
            print(len(sock.recv(65536)))
        except (BrokenPipeError, ConnectionResetError):
            print(0)"""
    user = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "/usr/bin/python3", "-c",
                           code], capture_output=True, text=True, timeout=20)
    assert user.stdout == "0\n", user


def test_any_bytes_in_a_command_line(s):
    p = s.program(under=["env", "python3", "-c",
                         "import os, sys; os.execv(sys.argv[1], [sys.argv[1].encode() + b'\\xff\\xc3'])"])
    done = subprocess.run(s.inside([binary("rubato"), "ps", "--json"]), capture_output=True, env=s.env, timeout=20)
    assert p.pid in [row["pid"] for row in json.loads(done.stdout.decode("utf-8"))["programs"]]


def test_the_runtime_directory_is_removed(s):
    """As with the last logout of its user: the daemon is found again, the same, and its programs with it."""
    p, q = s.run(*BEST_EFFORT), s.run(*BEST_EFFORT)
    taking_turns(s, [p, q])
    daemon = s.daemon()
    for what in s.run_dir, os.path.join(s.run_dir, "control.sock"):
        shutil.rmtree(what) if os.path.isdir(what) else os.unlink(what)
        eventually("there again", lambda: os.path.exists(os.path.join(s.run_dir, "control.sock")))
        eventually("and listens", lambda: all(s.ps()[pid]["class"] == "best-effort" for pid in (p.pid, q.pid)))
        assert s.processes("rubatod") == [daemon] and os.path.exists(os.path.join(s.run_dir, "state"))
    taking_turns(s, [p, q])


def test_the_runtime_directory_is_taken_over(s):
    """By another daemon, before the first can come back: that leaves, touches nothing there, and loses no program."""
    p = s.run(*BEST_EFFORT)
    eventually("short", lambda: s.slices(p.pid) == [1])
    first = s.daemon()
    os.kill(first, signal.SIGSTOP)
    shutil.rmtree(s.run_dir)
    q = s.run(*BEST_EFFORT)
    second = next(pid for pid in s.processes("rubatod") if pid != first)
    os.kill(first, signal.SIGCONT)
    eventually("one is left", lambda: s.processes("rubatod") == [second])
    eventually("with both", lambda: {p.pid, q.pid} <= {pid for pid, row in s.ps().items() if row["class"] == "best-effort"})
    taking_turns(s, [p, q])
    assert os.path.exists(os.path.join(s.run_dir, "state"))


def test_limits_of_a_shell(s):
    """What `rubato run` was started with is the program's: neither the program nor the daemon dies of a file that would
    be too long, or of a signal that was ignored."""
    p = s.program(under=["sh", "-c", "trap '' CHLD TERM; exec \"$@\"", "sh", "prlimit", "--fsize=100:100", "--cpu=1000:1000",
                         binary("rubato"), "run", *BEST_EFFORT, "--"])
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    daemon = s.daemon()
    for priority in 5, 4, 2:
        s.rubato("renice", p.pid, "--priority", priority)
    s.rubato("suspend", p.pid)
    s.rubato("resume", p.pid)
    os.kill(s.hand(), signal.SIGKILL)
    eventually("another hand", lambda: s.slices(p.pid) == [1])
    assert s.processes("rubatod") == [daemon] and alive(p.pid)
    p.kill()
    os.kill(daemon, signal.SIGTERM)
    eventually("it listens to signals", lambda: not alive(daemon))


def test_what_is_there_is_no_file(s):
    """A daemon does not wait for whoever else has a pipe open where it keeps its files."""
    os.makedirs(s.run_dir, 0o700, exist_ok=True)
    for name in "state", "state.new", "by-hand", "by-hand.new":
        os.mkfifo(os.path.join(s.run_dir, name))
    p, _ = started(s)
    s.rubato("suspend", p.pid)
    assert os.path.isfile(os.path.join(s.run_dir, "state"))
    s.rubato("resume", p.pid)


def test_a_file_that_cannot_be_written_is_named_once(s):
    """However often it is tried."""
    p, _ = started(s)
    path = os.path.join(s.run_dir, "state.new")
    os.mkdir(path)
    for _ in range(3):
        s.rubato("renice", p.pid, "--priority", 5)
        s.rubato("renice", p.pid, "--priority", 2)
    assert s.log().count("state file") == 1, s.log()
    os.rmdir(path)
    s.rubato("renice", p.pid, "--priority", 5)
    assert os.path.exists(os.path.join(s.run_dir, "state"))
    os.mkdir(path)
    s.rubato("renice", p.pid, "--priority", 2)
    assert s.log().count("state file") == 2, s.log()


PARTIAL = """if True:
    import os, signal, socket, struct
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.connect(os.environ["RUBATO_RUNTIME_DIR"] + "/control.sock")
    sock.send(struct.pack("<IIIIQ", 0x74627201, 1, 2, 0, 0))
    node = os.open("/dev/nvidiactl", os.O_RDWR)
    def record(is_partial):
        socket.send_fds(sock, [struct.pack("<IIIIiIII", 0x74627201, 2, 1, 0xc1d00001, node, 0, 0, is_partial)], [node])
    for _ in range(40):
        record(0)
        sock.send(struct.pack("<IIiIQ", 0x74627201, 6, os.getpid(), 0, 0))
        assert struct.unpack_from("<i", sock.recv(4096), 8)[0] == 0
        record(1)
    print(f"ready pid={os.getpid()}", flush=True)
    signal.pause()
"""


def test_a_log_is_no_place_to_write_to(s):
    """A program that is resumed because it has more tasks than are known, again and again, is named a few times."""
    started(s)
    p = Program(s, ["python3", "-c", PARTIAL])
    s.programs.append(p)
    eventually("it is said", lambda: "it is resumed" in s.log())
    assert s.log().count("it is resumed") <= 6, s.log()


def test_names_of_strangers(s):
    """What a program calls itself does nothing to a terminal: no control characters, no changes of direction."""
    name = os.fsdecode(b"a\xe2\x80\xaeb\x9b31m\xff\xc2\x9b\xf0\x9f\x98\x80")
    p = Program(s, ["bash", "-c", "exec -a \"$1\" \"$2\"", "bash", name, binary("rmclient")])
    s.programs.append(p)
    line = next(line for line in s.rubato("ps").stdout.splitlines() if str(p.pid) in line)
    assert "a?b?31m? \U0001f600" in line, line
    assert s.ps()[p.pid]["command"].startswith("a?b?31m? \U0001f600")


@measured
def test_programs_that_have_ended_are_forgotten(s):
    """Also where there are no rules, so that nobody looks for them."""
    if not LONG:
        return print("     only in the long run")
    p, daemon = started(s)

    def renice_itself():
        with connect(s) as sock:
            sock.send(struct.pack("<IIIIQ", MAGIC, 1, 8, 0, 0))
            sock.send(renice_message(os.getpid(), 5))
            sock.recv(4096)

    def come_and_go(n):
        for _ in range(n):
            pid = os.fork()
            if pid == 0:
                renice_itself()
                os._exit(0)
            os.waitpid(pid, 0)
        with open(f"/proc/{daemon}/status") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))

    before = come_and_go(500)
    assert come_and_go(2000) < before + 100, "they are remembered"


FILTERED = """if True:
    import ctypes, os, struct, sys
    # socket(), connect(), recvfrom(), sendmsg() and memfd_create() are answered with EPERM.
    numbers = [41, 42, 45, 46, 319]
    code = [(0x20, 0, 0, 0)] + [(0x15, len(numbers) - i, 0, n) for i, n in enumerate(numbers)]
    code += [(6, 0, 0, 0x7fff0000), (6, 0, 0, 0x50001)]
    program = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *c) for c in code))
    head = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(code), ctypes.addressof(program)))
    libc = ctypes.CDLL(None)
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, head) == 0
    os.execv(sys.argv[1], sys.argv[1:])
"""


def test_behind_a_filter(s):
    """A program that may not speak to anybody runs, as one without a daemon."""
    if os.uname().machine != "x86_64":
        return print("     the filter is for x86_64")
    p = s.program(under=[binary("rubato"), "run", *BEST_EFFORT, "--", "python3", "-c", FILTERED])
    assert p.ask("slice") == "slice 1000" and p.ask("more").startswith("ready") and alive(p.pid)
    assert not s.ps()[p.pid]["managed"]


LIBRARIES = """if True:
    import ctypes, os, sys
    libc = ctypes.CDLL(None)
    libc.dlmopen.restype = libc.dlsym.restype = ctypes.c_void_p
    libc.dlmopen.argtypes, libc.dlsym.argtypes = [ctypes.c_long, ctypes.c_char_p, ctypes.c_int], [ctypes.c_void_p, ctypes.c_char_p]
    handle = libc.dlmopen(-1, b"libcuda.so.1", 2)
    init = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint)(libc.dlsym(handle, b"cuInit"))
    print(f"ready pid={os.getpid()}", flush=True)
    sys.stdin.readline()
    print(init(0), flush=True)
"""


def test_another_set_of_libraries(s):
    """dlmopen(3): what is preloaded is not there, and nothing breaks."""
    with open(binary("rubatod"), "rb") as f:
        if b"__asan_init" in f.read():
            return print("     a sanitizer cannot be loaded twice")
    p = Program(s, [binary("rubato"), "run", *BEST_EFFORT, "--", "python3", "-c", LIBRARIES])
    s.programs.append(p)
    assert p.ask("go") == "0"


def test_while_it_is_traced(s):
    """By a debugger, which is neither asked nor disturbed."""
    p = s.program()
    (is_traced, say), (may_end, end) = os.pipe(), os.pipe()
    tracer = os.fork()
    if tracer == 0:
        os.write(say, b"%d" % ctypes.CDLL(None).ptrace(0x4206, p.pid, None, None))  # PTRACE_SEIZE
        os.read(may_end, 1)
        os._exit(0)
    if os.read(is_traced, 2) == b"0":
        s.rubato("renice", p.pid, *BEST_EFFORT)
        eventually("1 us", lambda: s.slices(p.pid) == [1])
        s.rubato("suspend", p.pid)
        assert s.is_suspended(p.pid)
        s.rubato("resume", p.pid)
        eventually("it runs", lambda: s.is_running(p.pid))
    os.write(end, b"x")
    os.waitpid(tracer, 0)
    assert p.ask("slice") in ("slice 1", "slice 2048")


def test_a_directory_that_cannot_be_written_to(s):
    """All that was promised without it holds; a new daemon does not start there, and programs do."""
    if os.geteuid() != 0:
        return print("     only root can mount")
    p, daemon = started(s)
    subprocess.run(["mount", "--bind", s.run_dir, s.run_dir], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", s.run_dir], check=True)
        for priority in 5, 2:
            s.rubato("renice", p.pid, "--priority", priority)
        s.rubato("suspend", p.pid)
        assert s.is_suspended(p.pid)
        s.rubato("resume", p.pid)
        os.kill(s.hand(), signal.SIGKILL)
        eventually("another hand", lambda: s.slices(p.pid) == [1])
        assert s.daemon() == daemon and s.log().count("Read-only") == 1, s.log()
        os.kill(daemon, signal.SIGKILL)
        assert "runs without a daemon" in s.rubato("run", "--", "true").stderr
    finally:
        subprocess.run(["umount", "-l", s.run_dir], check=True)
    s.rubato("run", "--", "true")
    eventually("managed again", lambda: s.slices(p.pid) == [1], 10)


def test_killed_in_a_directory_that_cannot_be_written_to(s):
    """A new daemon cannot serve there, but it restores what the dead one has left."""
    if os.geteuid() != 0:
        return print("     only root can mount")
    p, q, r = s.program(), s.run(*BEST_EFFORT), s.run(*BEST_EFFORT)
    s.rubato("suspend", p.pid)
    taking_turns(s, [q, r])
    subprocess.run(["mount", "--bind", s.run_dir, s.run_dir], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", s.run_dir], check=True)
        s.kill_both(is_kept=True)
        eventually("all run", lambda: all(s.is_running(x.pid) for x in (p, q, r)), 10)
        eventually("it is said", lambda: "Read-only file system" in s.log())
        eventually("nobody is left", lambda: not s.processes("rubatod") and not s.processes("rubato-keeper"))
    finally:
        subprocess.run(["umount", "-l", s.run_dir], check=True)


def test_another_time(s):
    """In a time namespace the clock is days ahead: turns go on as with others."""
    if s.command("unshare", "--time", "--fork", "--monotonic", "100000", "true").returncode != 0:
        return print("     no time namespaces here")
    here, ahead = Spinner(s, *BEST_EFFORT), Ahead(s, *BEST_EFFORT)
    for p in here, ahead:
        p.ask("go")
    taking_turns(s, [here, ahead])
    before = here.count(), ahead.count()
    eventually("both go on", lambda: here.count() > before[0] + 20 and ahead.count() > before[1] + 20, 20)
    s.rubato("suspend", ahead.pid)
    assert s.is_suspended(ahead.pid)
    s.rubato("resume", ahead.pid)


def test_words_in_another_time(s):
    """What was said of a program whose clock is ahead holds when it finds another daemon."""
    if s.command("unshare", "--time", "--fork", "--monotonic", "100000", "true").returncode != 0:
        return print("     no time namespaces here")
    ahead = ["unshare", "--time", "--fork", "--monotonic", "100000"]
    p = s.program(under=[binary("rubato"), "run", "--class", "normal", "--", *ahead])
    eventually("managed", lambda: p.pid in s.ps())
    s.rubato("renice", p.pid, "--class", "latency")
    old = s.kill_both(is_kept=True)
    eventually("another daemon runs", lambda: [pid for pid in s.processes("rubatod") if pid != old])
    eventually("managed again", lambda: p.ask("slice") and s.ps()[p.pid]["managed"])
    assert s.ps()[p.pid]["class"] == "latency"


class Ahead(Asked):
    def __init__(self, s, *run_options):
        super().__init__(s, ["unshare", "--time", "--fork", "--monotonic", "100000", binary("besteffort"), "--steps", "300"],
                         run_options)

    count = Spinner.count


def test_the_shims_slice_is_not_the_programs(s):
    """While its daemon is gone, the shim sets 1000 us. A daemon that finds the program then does not take that for its own."""
    p = s.run(*BEST_EFFORT)
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    s.unkeep()
    os.kill(s.daemon(), signal.SIGKILL)  # its hand restores
    eventually("both have gone", lambda: not s.processes("rubatod") and not s.processes("rubato-hand"))
    eventually("the shim's", lambda: p.ask("slice") and s.slices(p.pid) == [1000])
    os.kill(p.pid, signal.SIGSTOP)    # the shim does not come back to say what the program's own is
    try:
        s.rubato("renice", p.pid, "--class", "normal", "--timeslice-us", 3000)
        eventually("3 ms", lambda: s.slices(p.pid) == [3000])
        s.rubato("renice", p.pid, "--class", "normal")
        eventually("its own", lambda: s.is_default(p.pid))
    finally:
        os.kill(p.pid, signal.SIGCONT)


main()
