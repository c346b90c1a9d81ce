# SPDX-License-Identifier: Apache-2.0
"""Programs that mean ill: what they do to their boards, to the daemon's socket and to its files harms only themselves."""
import ctypes
import os
import platform
import re
import signal
import socket
import struct
import subprocess
import sys
import time

import harness
from harness import LONG, Program, alive, binary, device, eventually
from programs import BEST_EFFORT, Requests, cpu_seconds, may_unshare, spinners

MAGIC = 0x74627201
HELLO, AWAIT = 1, 11
SECONDS = 6 if LONG else 1.5


def connect(s):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(5)
    sock.connect(os.path.join(s.run_dir, "control.sock"))
    return sock


def hello(priority=2):
    return struct.pack("<IIIIQ", MAGIC, HELLO, priority, 0, 0)


def fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def rss_kib(pid):
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))


def is_closed(sock):
    sock.settimeout(2)
    try:
        return sock.recv(1) == b""
    except (ConnectionResetError, BrokenPipeError):
        return True
    except TimeoutError:
        return False


def hostile(s, *modes, under=()):
    program = Program(s, [*under, binary("hostile"), *modes])
    s.programs.append(program)
    return program


def rows(s, programs):
    """What the daemon says of them. A flood of its own user's connections can keep `ps` from asking it for a moment."""
    def answer():
        found = s.ps()
        return all(found.get(p.pid, {}).get("turns") is not None for p in programs) and found

    return eventually("the daemon answers", answer)


def serve(s, programs, requests, seconds):
    """What decent programs get in a second: the least that one of them had of turns, requests; and what the daemon used."""
    daemon = s.daemon()
    before, cpu, since = rows(s, programs), cpu_seconds(daemon), time.monotonic()
    took = []
    while time.monotonic() - since < seconds:
        took += requests.ask("measure graph 20 40 1")["service_us"]
    passed = time.monotonic() - since
    after = rows(s, programs)

    def least(what):
        return min(after[p.pid][what] - before[p.pid][what] for p in programs) / passed

    return {"turns": least("turns"), "on": least("on_us") / 1e6, "requests": len(took) / passed,
            "p90_us": sorted(took)[len(took) * 9 // 10], "core": (cpu_seconds(daemon) - cpu) / passed}


def is_well(s, daemon, before, programs):
    """The daemon lives, holds no more than it should, and gives all of them their turns."""
    for p in programs:
        eventually("turns go on", lambda: rows(s, programs)[p.pid]["turns"] >= before[p.pid]["turns"] + 5)
    assert s.processes("rubatod") == [daemon], "the daemon has died of it"
    assert fds(daemon) < 100 and rss_kib(daemon) < 120 * 1024, (fds(daemon), rss_kib(daemon))


def scribblers():
    """One that scribbles over its board, one that wakes us for nothing, one that flips it; or all in one."""
    return (["board"], ["wake"], ["flip"], ["board", "wake", "flip"]) if LONG else (["board", "wake", "flip"],)


KINDS = "garbage", "hello", "records", "boards", "list", "connect"


def test_boards_and_floods(s):
    """What they do to their boards; then garbage, HELLOs, records, boards, questions: from one, and all at once."""
    requests = Requests(s, "--class", "latency")
    programs = spinners(s, (), ())
    daemon = s.daemon()

    def beside():
        before = rows(s, programs)
        serve(s, programs, requests, SECONDS)
        is_well(s, daemon, before, programs)

    for modes in scribblers():
        p = hostile(s, *modes, under=[binary("rubato"), "run", *BEST_EFFORT, "--"])
        eventually("known", lambda: p.pid in s.ps())
        beside()
        assert alive(p.pid)
        p.end()
    for mode in KINDS if LONG else ():
        p = hostile(s, mode)
        beside()
        p.end()
    everybody = [hostile(s, mode) for mode in KINDS]
    beside()
    assert len(s.log()) < 20000, "its log is no place to write to"
    for p in everybody:
        p.end()
    eventually("all is as before", lambda: fds(daemon) < 50)
    assert all(p.ask("check")["wrong_threads"] == 0 for p in [*programs, requests])


def test_an_end_that_is_none(s):
    """A program whose request never ends, and that wakes us as if it had: it is waited for now and then, and no more."""
    q, = spinners(s, ())
    daemon = s.daemon()
    p = hostile(s, "open", under=[binary("rubato"), "run", *BEST_EFFORT, "--"])

    def waits():
        return s.ps()[p.pid]["requests_late"] or 0

    eventually("its end is waited for", lambda: waits() > 0, 60)
    before, count, since = waits(), q.count(), time.monotonic()
    eventually("the other has its turns", lambda: q.count() > count + 5)
    time.sleep(1)
    rate = (waits() - before) / (time.monotonic() - since)
    print(f"     {rate:.0f} times a second")
    assert rate < 6000, "it spins"
    assert s.processes("rubatod") == [daemon]


def test_a_process_has_a_few_connections(s):
    p = s.run(*BEST_EFFORT)
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    before = fds(s.daemon())
    mine = [connect(s) for _ in range(60)]
    eventually("most are refused", lambda: fds(s.daemon()) <= before + 16)
    assert sum(map(is_closed, mine[-10:])) == 10
    assert s.log().count("connections") == 1, s.log()
    assert s.ps()[p.pid]["class"] == "best-effort", "others are served"
    for sock in mine:
        sock.close()
    eventually("all are closed", lambda: fds(s.daemon()) <= before)
    sock = connect(s)
    sock.send(struct.pack("<IIiI", MAGIC, 8, 0, 0))
    assert len(sock.recv(65536)) > 8, "and is served again"


AS_NOBODY = "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"
MANY = """if True:
    import os, socket, sys, time
    def hold(n):
        kept = []
        for _ in range(n):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            sock.connect(sys.argv[1])
            kept.append(sock)
        return kept
    for _ in range(40):
        if os.fork() == 0:
            kept = hold(8)
            time.sleep(20)
            os._exit(0)
    print("ready", flush=True)
    time.sleep(20)
"""


def test_a_user_cannot_have_all(s):
    """At a daemon for several users, one of them may have a quarter of its files."""
    if os.geteuid() != 0:
        return print("     only root can be two users")
    s.env["RUBATO_SYSTEM_DIR"] = os.path.join(s.dir, "system")
    path = os.path.join(s.dir, "system", "control.sock")
    daemon = subprocess.Popen(s.inside(["prlimit", "--nofile=256:256", binary("rubatod"), "--system"]), env=s.env,
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    pid = s.daemon()
    eventually("listens", lambda: os.path.exists(path))
    p = s.run(*BEST_EFFORT)
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    before = fds(pid)
    greedy = subprocess.Popen([*AS_NOBODY, sys.executable, "-c", MANY, path], stdout=subprocess.PIPE, text=True,
                              start_new_session=True)
    greedy.stdout.readline()
    eventually("it has many", lambda: fds(pid) >= before + 40)
    time.sleep(0.5)
    assert fds(pid) <= before + 64 + 4, (before, fds(pid))
    q = s.run(*BEST_EFFORT)
    eventually("others come and go", lambda: s.slices(q.pid) == [1])
    os.killpg(greedy.pid, signal.SIGKILL)
    greedy.communicate()
    q.end()
    eventually("all are closed", lambda: fds(pid) <= before)
    os.kill(pid, signal.SIGKILL)
    said = daemon.communicate(timeout=10)[1]
    assert said.count("user 65534 has") == 1, said


def test_numbers_of_ones_own_are_one_user(s):
    """A user who has more numbers, for containers, has no more files with them."""
    if os.geteuid() != 0:
        return print("     only root can be two users")
    s.env["RUBATO_SYSTEM_DIR"] = os.path.join(s.dir, "system")
    path, subuid = os.path.join(s.dir, "system", "control.sock"), os.path.join(s.dir, "subuid")
    with open(subuid, "w") as f:
        f.write("# of a user by name, and by number\nnobody:200000:65536\n1:900000:10\n")
    if not os.path.exists("/etc/subuid"):
        return print("     no /etc/subuid to put another in the place of")
    daemon = subprocess.Popen(s.inside(["unshare", "--mount", "sh", "-c", "mount --bind \"$1\" /etc/subuid && shift && exec \"$@\"",
                                        "sh", subuid, "prlimit", "--nofile=256:256", binary("rubatod"), "--system"]),
                              env=s.env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    pid = s.daemon()
    eventually("listens", lambda: os.path.exists(path))
    before = fds(pid)
    greedy = []
    for uid in 200000, 200001, 265535:
        one = subprocess.Popen(["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups", sys.executable, "-c",
                                MANY, path], stdout=subprocess.PIPE, text=True, start_new_session=True)
        one.stdout.readline()
        greedy.append(one)
    eventually("they have many", lambda: fds(pid) >= before + 40)
    time.sleep(0.5)
    assert fds(pid) <= before + 64 + 4, (before, fds(pid))
    for one in greedy:
        os.killpg(one.pid, signal.SIGKILL)
        one.communicate()
    eventually("all are closed", lambda: fds(pid) <= before)
    os.kill(pid, signal.SIGKILL)
    assert daemon.communicate(timeout=10)[1].count("user 65534 has") == 1


RECORDS = """if True:
    import os, signal, socket, struct, sys
    signal.alarm(20)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.connect(os.environ["RUBATO_RUNTIME_DIR"] + "/control.sock")
    sock.send(struct.pack("<IIIIQ", 0x74627201, 1, 2, 0, 0))
    node = os.open(sys.argv[1], os.O_RDWR)
    for client in range(int(sys.argv[2])):
        record = struct.pack("<IIIIiIII", 0x74627201, 2, 1, 0xc1d00001 + client, node, 0, 0, 0)
        socket.send_fds(sock, [record], [node])
    print(f"ready pid={os.getpid()}", flush=True)
    print("closed" if sock.recv(1) == b"" else "open", flush=True)
    signal.pause()
"""


def test_a_program_has_some_clients(s):
    p = s.run(*BEST_EFFORT)
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    daemon, hand = s.daemon(), s.hand()
    before = fds(daemon), fds(hand)
    many = Program(s, ["python3", "-c", RECORDS, "/dev/nvidiactl", "300"])
    s.programs.append(many)
    eventually("not all of them", lambda: "more tasks than are known" in s.ps().get(many.pid, {}).get("note", ""))
    assert fds(daemon) <= before[0] + 70 and fds(hand) <= before[1] + 65
    assert s.log().count("more clients") == 1, s.log()
    assert s.slices(p.pid) == [1]
    many.kill()
    eventually("all are closed", lambda: (fds(daemon), fds(hand)) <= before)


GHOST = """if True:
    import os, signal, socket, struct, sys
    signal.alarm(30)
    gpu, client, task, subdevice = (int(word, 0) for word in sys.argv[1:])
    node = os.open("/dev/nvidiactl", os.O_RDWR)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.connect(os.environ["RUBATO_RUNTIME_DIR"] + "/control.sock")
    sock.send(struct.pack("<IIIIQ", 0x74627201, 1, 2, 0, 0))
    task = struct.pack("<IIIIIIIIIIQ", task, subdevice, gpu, 0, 0, 7, os.getpid(), 15, 0, 1, 2048)
    record = struct.pack("<IIIIiIII", 0x74627201, 2, 1, client, node, 1, 1, 0) + task + struct.pack("<I", 0x5c000020)
    socket.send_fds(sock, [record], [node])
    print(f"ready pid={os.getpid()}", flush=True)
    signal.pause()
"""


def ghost(s, gpu, client=0xc1d00001):
    program = Program(s, ["python3", "-c", GHOST, str(gpu), str(client), "0x5c000010", "0x5c000003"])
    s.programs.append(program)
    return program


def never(what, condition, seconds=1.5):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert not condition(), what


def test_an_invented_task_has_no_turns(s):
    """Neither one of a client that is not there, nor one of another's client."""
    p = s.run(*BEST_EFFORT)
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    ghosts = [ghost(s, 0), ghost(s, 0), ghost(s, 0, 0xc1dfff00)]
    eventually("they are known", lambda: {g.pid for g in ghosts} <= set(s.ps()))
    never("it waits for a ghost", lambda: s.is_off(p.pid))
    assert s.slices(p.pid) == [1] and not any(s.ps()[g.pid]["tasks"] for g in ghosts), s.ps()


@device("--amd-gpus", "1")
def test_an_invented_gpu_is_nobodys(s):
    """GPU 31 of one vendor is no GPU of the other's."""
    from test_kfd_turns import are_linked, is_off, run
    p = run(s, *BEST_EFFORT)
    eventually("linked", lambda: are_linked(s, p), 20)
    g = ghost(s, 31)
    eventually("it is known", lambda: g.pid in s.ps())
    never("it waits for a ghost", lambda: is_off(s, p.pid))


NAMED = """mount -t tmpfs none /dev && touch /dev/nvidiactl && mount --bind "$1" /dev/nvidiactl &&
exec python3 -c "$2" /dev/nvidiactl 1"""


def test_a_name_makes_no_device(s):
    """What is called /dev/nvidiactl in somebody's own mount namespace is not touched."""
    if os.geteuid() != 0 or not may_unshare("--mount"):
        return print("     not tried: wants root and a mount namespace")
    p = s.run(*BEST_EFFORT)
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    # Not inside the session: the name means what the namespace says.
    done = subprocess.Popen(["unshare", "--mount", "sh", "-c", NAMED, "sh", os.path.abspath(__file__), RECORDS],
                            env=dict(s.env, RUBATO_RUNTIME_DIR=s.run_dir), stdout=subprocess.PIPE, text=True,
                            start_new_session=True)
    try:
        assert done.stdout.readline().startswith("ready")
        assert done.stdout.readline() == "closed\n"
    finally:
        os.killpg(done.pid, signal.SIGKILL)
        done.communicate()
    assert "cut off" in s.log()


def clone_as(pid):
    """A child with this very pid."""
    libc = ctypes.CDLL(None, use_errno=True)
    tids = (ctypes.c_int * 1)(pid)
    args = (ctypes.c_uint64 * 11)(0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, ctypes.addressof(tids), 1, 0)
    child = libc.syscall(435, args, ctypes.sizeof(args))
    if child == 0:
        time.sleep(20)
        os._exit(0)
    return child


OLDER = """if True:
    import ctypes, os, socket, struct, sys
    # getsockopt(…, SO_PEERPIDFD, …) is answered with ENOPROTOOPT.
    code = [(0x20, 0, 0, 0), (0x15, 0, 3, 55), (0x20, 0, 0, 32), (0x15, 0, 1, 77), (0x06, 0, 0, 0x50000 + 92),
            (0x06, 0, 0, 0x7fff0000)]
    program = b"".join(struct.pack("<HBBI", *c) for c in code)
    keep = ctypes.create_string_buffer(program)
    head = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(code), ctypes.addressof(keep)))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, head) == 0
    try:
        socket.socketpair()[0].getsockopt(socket.SOL_SOCKET, 77)
    except OSError as e:
        assert e.errno == 92
        os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_pid_that_is_used_again(s):
    """A peer that connected and died is not taken for the process that has its pid now."""
    use_pid_again(s)


def test_a_pid_that_is_used_again_before_6_5(s):
    """The same where the kernel gives no pidfd of who connected."""
    if platform.machine() != "x86_64":
        return print("     the filter is for x86_64")
    daemon = older_daemon(s, OLDER)
    pid = s.daemon()
    use_pid_again(s)
    assert s.daemon() == pid
    os.kill(pid, signal.SIGKILL)
    daemon.wait(10)


def test_who_has_ended_before_6_16(s):
    """Where the kernel has no pidfd of who connected and was waited for, it says EINVAL: nothing to speak of."""
    if platform.machine() != "x86_64":
        return print("     the filter is for x86_64")
    daemon = older_daemon(s, OLDER.replace("92", "22"))
    with connect(s) as sock:
        sock.send(hello())
        assert is_closed(sock)
    os.kill(s.daemon(), signal.SIGTERM)
    said = daemon.communicate(timeout=10)[1]
    assert said == b"", said


def older_daemon(s, script):
    daemon = subprocess.Popen(s.inside(["python3", "-c", script, binary("rubatod")]), env=s.env,
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    eventually("listens", s.listens)
    return daemon



def use_pid_again(s):
    p = s.run(*BEST_EFFORT)
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    if os.geteuid() != 0:
        return print("     only root can choose pids")
    for message in (hello(), struct.pack("<II", MAGIC, AWAIT)):
        sock = None
        read, write = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            sock = connect(s)
            socket.send_fds(write, [b"x"], [sock.fileno()])
            os._exit(0)
        _, (fd,), _, _ = socket.recv_fds(read, 10, 1)
        sock = socket.socket(fileno=fd)
        eventually("taken in", lambda: fds(s.daemon()))
        time.sleep(0.2)
        os.waitpid(pid, 0)
        other = clone_as(pid)
        assert other == pid, "its pid was taken"
        try:
            sock.send(message)
            assert is_closed(sock), "it spoke for somebody else"
            assert pid not in s.ps()
        finally:
            os.kill(other, signal.SIGKILL)
            os.waitpid(other, 0)
            sock.close()


def test_another_users_daemon(s):
    """Where one's own was, in a /tmp that somebody has tidied: programs hand their device to no stranger."""
    if os.geteuid() != 0:
        return print("     only root can be somebody else")
    p, path = s.run(*BEST_EFFORT), os.path.join(s.run_dir, "control.sock")
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    s.end_daemon()
    os.unlink(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
        stranger.bind(path)
        os.seteuid(65534)
        try:
            stranger.listen()
        finally:
            os.seteuid(0)
        stranger.settimeout(10)
        with stranger.accept()[0] as sock:
            sock.settimeout(5)
            assert sock.recv(4096) == b"", "it introduced itself"
    os.unlink(path)
    s.rubato("run", "--", "true")
    eventually("its own, again", lambda: s.ps()[p.pid]["class"] == "best-effort")


if __name__ == "__main__":
    harness.main()
