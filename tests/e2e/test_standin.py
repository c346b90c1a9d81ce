# SPDX-License-Identifier: Apache-2.0
"""The stand-in for libcuda.so.1: programs see the driver as it is, and what they submit is counted on their board."""
import errno
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile

from harness import Program, alive, binary, eventually, main

FOLDER = os.path.dirname(binary("cudaclient"))
KINDS = ("launches", "graphs", "copies", "memsets")
N_SLOTS = 56
N_THREADS = 43  # slots that are in use; the lengths of requests come after them


DRIVER = {"LD_LIBRARY_PATH": FOLDER, "FAKE_DRIVER": os.path.join(FOLDER, "libcuda.so.1")}
# Inside a session, which has a libcuda.so.1 of its own and puts it first.
WITH_DRIVER = ["env", *(f"{name}={value}" for name, value in DRIVER.items())]


def use_driver(s):
    s.env.update(DRIVER)


def plain(s, *argv, **env):
    return subprocess.run(argv, capture_output=True, text=True, timeout=30, env=dict(s.env, **env),
                          stdin=subprocess.DEVNULL)


def alone(s, *argv, **env):
    return plain(s, binary("rubato"), "run", "--no-daemon", "--", *argv, **env)


def boards(pid):
    """inode: address of the boards that a process has mapped."""
    with open(f"/proc/{pid}/maps") as f:
        found = re.findall(r"^(\w+)-\w+ rw-s \w+ [\w:]+ (\d+) +/memfd:rubato-board", f.read(), re.M)
    return {int(inode): int(address, 16) for address, inode in found}


def read_board(pid):
    inode, address = list(boards(pid).items())[0]
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as f:
        f.seek(address)
        page = f.read(4096)
    board = dict(zip(("magic", "version", "size", "n_slots"), struct.unpack_from("4I", page, 0)))
    board.update(inode=inode, tick=struct.unpack_from("I", page, 64)[0])
    board.update(zip(("used", "open", "edges", "bursts", "requests", "late", "request_ns", "deadline_ns"),
                     struct.unpack_from("2I6Q", page, 128)))
    board["gaps"] = struct.unpack_from("16I", page, 192)
    board["times"] = struct.unpack_from("200I", page, 512 + 64 * N_THREADS)
    slots = [struct.unpack_from("6Q2I", page, 512 + 64 * i) for i in range(N_THREADS)]
    for i, kind in enumerate(KINDS):
        board[kind] = sum(slot[i] for slot in slots)
    board.update(syncs=sum(slot[4] for slot in slots), last_ns=max(slot[5] for slot in slots),
                 in_sync=sum(slot[6] for slot in slots))
    return board


def counts(pid):
    board = read_board(pid)
    return tuple(board[kind] for kind in KINDS) + (board["syncs"],)


def client(s, *options):
    p = Program(s, [*WITH_DRIVER, binary("rubato"), "run", *options, "--", binary("cudaclient"), "live"])
    s.programs.append(p)
    return p


def shared(s, p):
    """Whether program and daemon have the same board mapped."""
    return boards(p.pid) and set(boards(p.pid)) <= set(boards(s.daemon()))


def test_programs_see_the_driver_as_it_is(s):
    """Every symbol, argument, result and version that can be seen, with and without Rubato."""
    use_driver(s)
    expected = plain(s, binary("cudaclient"), "report", "libcuda.so.1")
    assert expected.returncode == 0 and expected.stdout.count("\n") > 1000
    assert "cuMemcpyBatchAsync: 0, errno 123, 1 call to cuMemcpyBatchAsync_v2_ptsz:" in expected.stdout
    assert "719" in expected.stdout and "cuLaunch is not there" in expected.stdout
    for name in "libcuda.so.1", "libcuda.so":
        for flags in "local", "global", "now", "deep":
            got = alone(s, binary("cudaclient"), "report", name, flags)
            assert got.stdout == expected.stdout and got.stderr == "", (name, flags, got.stderr)
    # And it was not the driver itself that they saw.
    assert alone(s, binary("cudaclient"), "pointers", "libcuda.so").stdout


def test_only_functions_with_a_role_are_in_between(s):
    use_driver(s)
    got = alone(s, binary("cudaclient"), "pointers", "libcuda.so.1").stdout.split("\n")
    for name in "cuLaunchKernel", "cuLaunchKernel_ptsz", "cuMemAllocAsync", "cuEventRecord_ptsz":
        assert name in got, name
    assert "getproc cuLaunchKernelEx" in got and "getproc cuEventRecord" in got
    for name in "cuDeviceGetCount", "cuGetExportTable", "cuInit", "cuParamSetf":
        assert name not in got and "getproc " + name not in got, name


def test_queue(s):
    """Another library intercepts functions whose pointers the program has already; what it holds back is not counted."""
    use_driver(s)
    p = client(s)
    eventually("known", lambda: shared(s, p))
    assert p.ask("call cuLaunchKernel 10") == "ok" and counts(p.pid)[0] == 10
    assert p.ask("queue on") == "0 ok"
    assert p.ask("queue on") == "0 ok" and p.ask("queue other") == f"{-errno.EBUSY} ok"
    assert p.ask("call cuLaunchKernel 10") == "ok" and counts(p.pid)[0] == 15
    assert p.ask("call cuGraphLaunch 3") == "ok" and counts(p.pid)[1] == 3
    assert p.ask("queue off") == "0 ok"
    assert p.ask("call cuLaunchKernel 10") == "ok" and counts(p.pid)[0] == 25
    assert p.ask("driver cuLaunchKernel") == "another ok" and p.ask("driver cuInit") == "the same ok"
    assert p.ask("threads 8 cuLaunchKernel 1000") == "ok" and p.ask("queue on") == "0 ok"
    assert p.ask("threads 8 cuLaunchKernel 1000") == "ok" and counts(p.pid)[0] == 25 + 8000 + 4000


def test_linked_programs(s):
    use_driver(s)
    for name in "cudalinked", "cudalinked_now":
        expected = plain(s, binary(name))
        got = alone(s, binary(name))
        assert expected.stdout and got.stdout == expected.stdout and got.stderr == expected.stderr == ""
        p = subprocess.Popen(s.inside([*WITH_DRIVER, binary("rubato"), "run", "--", binary(name), "stay"]),
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=s.env)
        while p.stdout.readline() != "ready\n":
            assert p.poll() is None
        found = eventually("known", lambda: [pid for pid, row in s.ps().items() if row["managed"]])
        # Those before the context were counted as well.
        assert counts(found[0]) == (102, 1, 1, 0, 1)
        p.stdin.close()
        p.wait(10)
        p.stdout.close()
        eventually("gone", lambda: not [row for row in s.ps().values() if row["managed"]])


def test_no_driver_no_stand_in(s):
    """Where there is no driver's library, a program that looks for one finds none."""
    if "libcuda.so.1" in plain(s, "/sbin/ldconfig", "-p").stdout:
        return
    expected = plain(s, binary("cudaclient"), "report", "libcuda.so.1")
    got = alone(s, binary("cudaclient"), "report", "libcuda.so.1")
    assert expected.returncode == got.returncode == 1 and got.stdout == expected.stdout
    assert alone(s, "sh", "-c", "echo $LD_LIBRARY_PATH").stdout == "\n"


def test_the_stand_in_without_a_driver(s):
    """It is there, but what it stood in for is not: every function says so."""
    if "libcuda.so.1" in plain(s, "/sbin/ldconfig", "-p").stdout:
        return
    script = "import ctypes; c = ctypes.CDLL('libcuda.so.1'); print(c.cuInit(0), c.cuGetProcAddress_v2(0, 0, 0, 0, 0))"
    got = plain(s, "python3", "-c", script, LD_LIBRARY_PATH=os.path.dirname(binary("standin/libcuda.so.1")))
    assert got.stdout == "34 34\n", got


def test_programs_without_cuda(s):
    use_driver(s)
    maps = alone(s, binary("cudaclient"), "maps").stdout
    assert "librubato.so" in maps and "libcuda" not in maps


def test_without_the_preloaded_library(s):
    """Some program cleared LD_PRELOAD: trampolines lead to the driver's own functions."""
    use_driver(s)
    path = os.path.dirname(binary("standin/libcuda.so.1")) + ":" + FOLDER
    expected = plain(s, binary("cudaclient"), "report", "libcuda.so.1")
    assert plain(s, binary("cudaclient"), "report", "libcuda.so.1", LD_LIBRARY_PATH=path).stdout == expected.stdout


def test_search_path(s):
    use_driver(s)
    folder = os.path.dirname(binary("standin/libcuda.so.1"))
    shown = alone(s, "sh", "-c", "echo $LD_LIBRARY_PATH").stdout
    assert shown == f"{folder}:{FOLDER}\n"
    # Once, however often; and a copy in its place is not taken for the driver.
    again = alone(s, binary("rubato"), "run", "--no-daemon", "--", "sh", "-c", "echo $LD_LIBRARY_PATH").stdout
    assert again == shown
    with tempfile.TemporaryDirectory() as other:
        with open(binary("standin/libcuda.so.1"), "rb") as f, open(os.path.join(other, "libcuda.so.1"), "wb") as copy:
            copy.write(f.read())
        expected = plain(s, binary("cudaclient"), "report", "libcuda.so.1")
        got = alone(s, binary("cudaclient"), "report", "libcuda.so.1", LD_LIBRARY_PATH=f"{other}:{FOLDER}")
        assert got.stdout == expected.stdout


def test_counting(s):
    use_driver(s)
    p = client(s, "--class", "latency")
    eventually("the daemon has the board", lambda: shared(s, p))
    board = read_board(p.pid)
    assert (board["magic"], board["version"], board["size"], board["n_slots"]) == (0x64726F42, 2, 4096, N_SLOTS)
    assert counts(p.pid) == (0, 0, 0, 0, 0) and board["tick"] != 0
    for name, expected in (("cuLaunchKernel", (5, 0, 0, 0, 0)), ("cuLaunchKernel_ptsz", (10, 0, 0, 0, 0)),
                           ("cuLaunchKernelEx", (15, 0, 0, 0, 0)), ("cuLaunchCooperativeKernel_ptsz", (20, 0, 0, 0, 0)),
                           ("cuGraphLaunch", (20, 5, 0, 0, 0)), ("cuGraphLaunch_ptsz", (20, 10, 0, 0, 0)),
                           ("cuMemcpyHtoDAsync_v2", (20, 10, 5, 0, 0)),
                           ("cuMemcpyBatchAsync_v2_ptsz", (20, 10, 10, 0, 0)),
                           ("cuMemsetD8Async", (20, 10, 10, 5, 0)), ("cuMemsetD8_v2", (20, 10, 10, 10, 0)),
                           ("cuMemcpyDtoH_v2", (20, 10, 15, 10, 5)), ("cuStreamSynchronize", (20, 10, 15, 10, 10)),
                           ("cuStreamSynchronize_ptsz", (20, 10, 15, 10, 15)),
                           ("cuEventSynchronize", (20, 10, 15, 10, 20)),
                           ("cuCtxSynchronize", (20, 10, 15, 10, 25)), ("cuStreamQuery", (20, 10, 15, 10, 25))):
        assert p.ask(f"call {name} 5") == "ok"
        assert counts(p.pid) == expected, (name, counts(p.pid))
    before = read_board(p.pid)["last_ns"]
    assert before > 0
    p.ask("call cuLaunchKernel 1")
    p.ask("call cuStreamSynchronize 1")
    board = read_board(p.pid)
    assert board["last_ns"] > before and sum(board["gaps"]) >= 1


def test_waiting_is_seen(s):
    use_driver(s)
    p = client(s)
    eventually("the daemon has the board", lambda: shared(s, p))
    p.ask("wait_us 1000000")
    p.say("call cuStreamSynchronize 1")
    eventually("it waits", lambda: read_board(p.pid)["in_sync"] == 1)
    assert read_board(p.pid)["syncs"] == 0
    assert p.process.stdout.readline() == "ok\n"
    assert read_board(p.pid)["in_sync"] == 0 and read_board(p.pid)["syncs"] == 1


def test_threads_lose_no_count(s):
    use_driver(s)
    p = client(s)
    eventually("the daemon has the board", lambda: shared(s, p))
    p.ask("threads 8 cuLaunchKernel 20000")
    assert counts(p.pid)[0] == 160000
    # More than there are slots, at once and one after the other.
    p.ask("threads 200 cuGraphLaunch 500")
    assert counts(p.pid)[1] == 100000
    for _ in range(70):
        p.ask("threads 1 cuMemcpyAsync 10")
    assert counts(p.pid)[2] == 700


def test_fork_and_exec(s):
    use_driver(s)
    p = client(s)
    eventually("the daemon has the board", lambda: shared(s, p))
    p.ask("call cuLaunchKernel 3")
    child = int(p.ask("fork context 7").split()[1])
    eventually("two boards", lambda: len(boards(s.daemon())) == 2)
    assert counts(child)[0] == 7 and counts(p.pid)[0] == 3
    assert set(boards(child)).isdisjoint(boards(p.pid))
    os.kill(child, signal.SIGKILL)
    eventually("one board", lambda: len(boards(s.daemon())) == 1)
    # A child that never tells the daemon of itself counts for itself.
    child = int(p.ask("fork none 9").split()[1])
    assert counts(p.pid)[0] == 3 and not boards(child)
    os.kill(child, signal.SIGKILL)
    p.ask("call cuLaunchKernel 1")
    assert counts(p.pid)[0] == 4
    q = Program(s, [*WITH_DRIVER, binary("rubato"), "run", "--", "sh", "-c",
                    f"{binary('cudaclient')} live && exec sleep 60"])
    s.programs.append(q)
    eventually("two boards", lambda: len(boards(s.daemon())) == 2)
    q.say("quit")
    eventually("one board", lambda: len(boards(s.daemon())) == 1)


def test_the_daemon_dies_and_comes_back(s):
    use_driver(s)
    p = client(s)
    eventually("the daemon has the board", lambda: shared(s, p))
    p.ask("call cuLaunchKernel 100")
    old = list(boards(p.pid))
    daemon = s.daemon()
    os.kill(daemon, signal.SIGKILL)
    eventually("it is gone", lambda: not alive(daemon))  # or who comes next may still be let in by it
    assert p.ask("call cuLaunchKernel 100") == "ok" and p.ask("call cuStreamSynchronize 2") == "ok"
    assert counts(p.pid)[0] == 200
    q = client(s)
    eventually("a new daemon", lambda: shared(s, q))

    def looked():
        p.ask("call cuDeviceGetUuid 1")
        return boards(p.pid) and list(boards(p.pid)) != old and shared(s, p)
    eventually("it has this program's board, too", looked)
    assert counts(p.pid) == (200, 0, 0, 0, 2)
    p.ask("threads 2 cuLaunchKernel 50")
    assert counts(p.pid)[0] == 300


def test_without_a_daemon(s):
    use_driver(s)
    p = client(s, "--no-daemon")
    for name in "cuLaunchKernel", "cuStreamSynchronize", "cuMemcpyHtoDAsync_v2":
        assert p.ask(f"call {name} 100") == "ok"
    assert not boards(p.pid) and p.ask("begin 5") == "1 ok" and p.ask("end") == "ok"


def test_hints(s):
    use_driver(s)
    p = client(s)
    eventually("the daemon has the board", lambda: shared(s, p))
    assert p.ask("begin 1000000000") == "1 ok"
    board = read_board(p.pid)
    assert board["open"] == 1 and board["deadline_ns"] > 0
    p.ask("begin 1")
    assert read_board(p.pid)["open"] == 2
    p.ask("end")
    p.ask("end")
    board = read_board(p.pid)
    assert (board["open"], board["requests"], board["late"], board["deadline_ns"]) == (0, 2, 1, 0)
    assert board["request_ns"] > 0 and sum(board["times"]) == 2
    p.ask("end")
    assert read_board(p.pid)["open"] == 0 and read_board(p.pid)["requests"] == 2
    q = Program(s, [*WITH_DRIVER, binary("cudaclient"), "live"])
    s.programs.append(q)
    assert q.ask("begin 5") == "0 ok" and q.ask("end") == "ok"


def test_hints_from_python(s):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python")
    script = ("import rubato\n"
              "with rubato.request(0.5) as begun:\n"
              "    with rubato.request():\n"
              "        pass\n"
              "print(rubato.active(), begun, rubato.request_begin(1e30))\n"
              "rubato.request_end()\n"
              "try:\n"
              "    rubato.request_begin(-1)\n"
              "except ValueError:\n"
              "    print('refused')\n")
    env = dict(PYTHONPATH=path, PYTHONDONTWRITEBYTECODE="1")
    assert alone(s, "python3", "-c", script, **env).stdout == "True True True\nrefused\n"
    assert plain(s, "python3", "-c", script, **env).stdout == "False False False\n"


SOFT = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, memory, buf = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.create_string_buffer(4096)
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0 and cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4096)) == 0
for i in range(3):
    assert cuda.cuMemsetD8Async(memory, 7 + i, ctypes.c_size_t(4096), None) == 0
assert cuda.cuMemcpyDtoH_v2(buf, memory, ctypes.c_size_t(4096)) == 0 and cuda.cuCtxSynchronize() == 0
print("ready pid=%d" % __import__("os").getpid(), buf[4095][0], flush=True)
sys.stdin.readline()
"""


def test_on_the_software_gpu(s):
    """The same over a library that does something: the software GPU's."""
    p = Program(s, [binary("rubato"), "run", "--class", "latency", "--", "python3", "-c", SOFT])
    s.programs.append(p)
    eventually("the daemon has the board", lambda: shared(s, p))
    assert counts(p.pid) == (0, 0, 1, 3, 2)


def seal(fd):
    import fcntl
    fcntl.fcntl(fd, 1033, 0x1 | 0x2 | 0x4)  # F_ADD_SEALS: seal, shrink, grow


def memfd(size, content=b"", sealed=True):
    fd = os.memfd_create("rubato-board", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    os.pwrite(fd, content, 0)
    if sealed:
        seal(fd)
    return fd


def test_hostile_boards(s):
    """Whoever sends nonsense is cut off; the daemon and everybody else go on."""
    use_driver(s)
    p = client(s)
    eventually("the daemon has the board", lambda: shared(s, p))
    daemon = s.daemon()
    magic = 0x74627201
    good = struct.pack("4I", 0x64726F42, 1, 4096, N_SLOTS)
    null = os.open("/dev/null", os.O_RDWR)
    plain_file = tempfile.TemporaryFile()
    plain_file.truncate(4096)
    cases = [(memfd(4096, good), True), (memfd(4096, good, sealed=False), False), (memfd(8192, good), False),
             (memfd(0), False), (memfd(4096, b"\xff" * 4096), False), (memfd(4096), False), (null, False),
             (plain_file.fileno(), False), (None, False),
             (memfd(4096, struct.pack("4I", 0x64726F42, 2, 4096, N_SLOTS)), True)]
    for fd, kept in cases:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.connect(os.path.join(s.run_dir, "control.sock"))
        sock.send(struct.pack("4IQ", magic, 1, 8, 0, 0))
        fds = [] if fd is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))]
        sock.sendmsg([struct.pack("2I", magic, 12)], fds)
        sock.settimeout(0.3 if kept else 10)
        try:
            assert sock.recv(100) == b"" and not kept, (fd, kept)
        except (socket.timeout, TimeoutError):
            assert kept, fd
        sock.close()
    # Scribbled over all the while.
    fd = memfd(4096, good)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.connect(os.path.join(s.run_dir, "control.sock"))
    sock.send(struct.pack("4IQ", magic, 1, 8, 0, 0))
    sock.sendmsg([struct.pack("2I", magic, 12)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))])
    for i in range(200):
        os.pwrite(fd, os.urandom(4096), 0)
    s.ps()
    sock.close()
    eventually("only the program's", lambda: len(boards(s.daemon())) == 1)
    assert s.daemon() == daemon and p.ask("call cuLaunchKernel 1") == "ok" and counts(p.pid)[0] == 1


if __name__ == "__main__":
    main()
