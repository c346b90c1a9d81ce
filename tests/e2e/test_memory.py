# SPDX-License-Identifier: Apache-2.0
"""Memory limits: one for all processes of a run, kept by their shims in a ledger that the daemon passes to them."""
import json
import mmap
import os
import random
import re
import select
import signal
import socket
import struct
import tempfile

from harness import LONG, MAGIC, Program, alive, binary, device, eventually, kill_all, main, treatment
from programs import may_unshare

MIB = 1 << 20
NO_MEMORY = 0x51
N_GPUS = 2


class Client:
    """memclient: takes memory as libcuda does."""

    def __init__(self, pid, say, answers):
        self.pid, self.out, self.answers = pid, say, answers

    def ask(self, line):
        self.out.write(line + "\n")
        self.out.flush()
        return self.answers.readline().strip()

    def take(self, mib, gpu=0, how="alloc"):
        """The handle, or None if the driver is out of memory."""
        word, number = self.ask(f"{how} {gpu} {int(mib * MIB)}").split()
        assert word == "handle" or int(number) == NO_MEMORY, (word, number)
        return int(number) if word == "handle" else None

    def free(self, handle):
        assert self.ask(f"free {handle}") == "ok"

    def has_ledger(self):
        self.ask("poke")
        return bool(ledger_of(self.pid))

    def fork(self, s):
        folder = tempfile.mkdtemp(dir=s.dir)
        names = [os.path.join(folder, name) for name in ("in", "out")]
        for name in names:
            os.mkfifo(name)
        pid = int(self.ask(f"fork {names[0]} {names[1]}").split()[1])
        say = open(names[0], "w")
        answers = open(names[1])
        return Client(pid, say, answers), answers.readline()


def client(s, *options, env=(), under=None):
    under = [binary("rubato"), "run", *map(str, options), "--"] if under is None else under
    p = Program(s, ["env", *env, *under, binary("memclient"), str(N_GPUS)])
    s.programs.append(p)
    return Client(p.pid, p.process.stdin, p.process.stdout)


def limited(s, *options, **more):
    c = client(s, *options, **more)
    eventually("it has the ledger", c.has_ledger)
    return c


def ledger_of(pid):
    """The file of its ledger, or None."""
    try:
        with open(f"/proc/{pid}/maps") as f:
            if "rubato-ledger" not in f.read():
                return None
        for fd in os.listdir(f"/proc/{pid}/fd"):
            if "rubato-ledger" in os.readlink(f"/proc/{pid}/fd/{fd}"):
                return f"/proc/{pid}/fd/{fd}"
    except OSError:
        pass
    return None


class Ledger:
    """struct rbt_ledger."""

    def __init__(self, pid):
        with open(ledger_of(pid), "rb") as f:
            self.map = mmap.mmap(f.fileno(), 32768, prot=mmap.PROT_READ)

    def totals(self):
        return list(struct.unpack_from(f"<{N_GPUS}Q", self.map, 64))

    def slots(self):
        found = {}
        for i in range(101):
            pid = struct.unpack_from("<I", self.map, 320 + 320 * i)[0]
            if pid:
                found[pid] = list(struct.unpack_from(f"<{N_GPUS}Q", self.map, 320 + 320 * i + 64))
        return found


def used(s):
    """By the driver's own count."""
    return [g["memory_used_bytes"] for g in s.state()["gpus"]]


@device("--gpus", "2", "--mem", "1024")
def test_an_allocation_beyond_the_limit_is_refused(s):
    c = limited(s, "--memory", "100M")
    first = c.take(60)
    assert first and not c.take(41) and used(s) == [60 * MIB, 0]
    assert c.take(40, how="old") and not c.take(1) and used(s) == [100 * MIB, 0]
    c.free(first)
    assert c.take(60) and used(s) == [100 * MIB, 0]
    # Each GPU has its limit.
    assert c.take(100, gpu=1) and not c.take(1, gpu=1) and used(s) == [100 * MIB, 100 * MIB]
    row = s.ps()[c.pid]
    assert (row["memory_bytes"], row["memory_limit_bytes"], row["memory_enforced"], row["memory_counted_bytes"],
            row["memory_run_bytes"], row["gpu_memory_bytes"]) == \
        (200 * MIB, 100 * MIB, True, 200 * MIB, 100 * MIB, 1024 * MIB), row
    assert "memory limit: 100MiB, its run has 100MiB, the GPU has 1024MiB\n" in s.rubato("ps").stdout


@device("--gpus", "2", "--mem", "1024")
def test_what_is_freed_with_a_device_or_client_is_given_back(s):
    c = limited(s, "--memory", "100M")
    for command, mib in (("device 0", 90), ("device 0", 90), ("client", 90)):
        assert c.take(mib) and c.take(10, gpu=1) and not c.take(20)
        assert c.ask(command) == "ok"
    assert used(s) == [0, 0] and Ledger(c.pid).totals() == [0, 0]
    assert c.take(100) and c.take(100, gpu=1)


@device("--gpus", "2", "--mem", "1024")
def test_the_processes_of_a_run_share_the_limit(s):
    a = limited(s, "--memory", "100M")
    b, ready = a.fork(s)
    assert ready == f"ready pid={b.pid}\n"
    eventually("it has the ledger", b.has_ledger)
    assert a.take(60) and not b.take(60) and b.take(40) and not a.take(1)
    assert Ledger(a.pid).slots() == {a.pid: [60 * MIB, 0], b.pid: [40 * MIB, 0]}
    # A killed process gives its part back, and so does one that becomes another program.
    os.kill(b.pid, signal.SIGKILL)
    eventually("given back", lambda: Ledger(a.pid).totals() == [60 * MIB, 0])
    assert a.ask("exec").startswith("ready")
    eventually("it has the ledger", a.has_ledger)
    eventually("nothing is left of it", lambda: Ledger(a.pid).slots() == {a.pid: [0, 0]})
    assert a.take(100)
    # Another run has a limit of its own.
    other = limited(s, "--memory", "200M")
    assert other.take(200) and not other.take(1)


@device("--gpus", "2", "--mem", "1024")
def test_without_a_daemon(s):
    c = client(s, "--no-daemon", "--memory", "100M")
    assert c.take(60) and not c.take(41) and c.take(40) and used(s)[0] == 100 * MIB
    assert ledger_of(c.pid) is None
    b, _ = c.fork(s)
    assert b.take(100) and not b.take(1)


@device("--gpus", "2", "--mem", "1024")
def test_counts_go_on_without_their_daemon(s):
    a = limited(s, "--memory", "100M")
    b, _ = a.fork(s)
    eventually("it has the ledger", b.has_ledger)
    idle, _ = a.fork(s)
    eventually("it has the ledger", idle.has_ledger)
    assert idle.take(30) and a.take(30)
    first = s.daemon()
    s.unkeep()
    kill_all([first])
    eventually("it has gone", lambda: not alive(first))
    assert b.take(30) and not b.take(11) and not a.take(11)
    ledger = Ledger(a.pid)
    assert ledger.totals() == [90 * MIB, 0]
    client(s)  # starts another one, and keeps it
    eventually("known to it", lambda: a.ask("poke") and s.ps().get(a.pid, {}).get("memory_run_bytes") == 90 * MIB)
    # Also what an idle process has, which has not spoken to this daemon; and it is given back when that ends.
    assert not a.take(11)
    os.kill(idle.pid, signal.SIGKILL)
    eventually("given back", lambda: ledger.totals() == [60 * MIB, 0])
    assert a.take(40) and not b.take(1)
    late, _ = a.fork(s)
    eventually("it has the ledger", late.has_ledger)
    assert not late.take(1) and set(Ledger(late.pid).slots()) == {a.pid, b.pid, late.pid}


@device("--gpus", "2", "--mem", "1024")
def test_renice(s):
    c = limited(s, "--memory", "100M")
    b, _ = c.fork(s)
    eventually("it has the ledger", b.has_ledger)
    assert c.take(90) and not b.take(20)
    done = s.rubato("renice", b.pid, "--memory", "150M")
    assert done.stdout == f"{b.pid}: normal, priority 8, memory 150M\n", done.stdout
    assert b.take(60) and not c.take(1)
    assert {s.ps()[p.pid]["memory_limit_bytes"] for p in (b, c)} == {150 * MIB}
    # What is there stays.
    s.rubato("renice", b.pid, "--memory", "10M")
    assert not c.take(1) and used(s)[0] == 150 * MIB
    s.rubato("renice", c.pid, "--memory", "default")
    assert c.take(500) and s.ps()[c.pid]["memory_limit_bytes"] is None
    # A program that was started without one gets its ledger then.
    free = client(s)
    handle = free.take(50)
    assert ledger_of(free.pid) is None
    eventually("known", lambda: free.pid in s.ps())
    s.rubato("renice", free.pid, "--memory", "60M")
    eventually("it has the ledger", free.has_ledger)
    assert not free.take(20) and free.take(10)
    free.free(handle)
    assert Ledger(free.pid).totals() == [10 * MIB, 0]


@device("--gpus", "2", "--mem", "1024")
def test_other_names_for_the_limit(s):
    c = limited(s, env=["CUDA_DEVICE_MEMORY_LIMIT=100m"])
    assert c.take(100) and not c.take(1)
    c = limited(s, "--memory", "50M", env=["CUDA_DEVICE_MEMORY_LIMIT=100m"])
    assert c.take(50) and not c.take(1)
    c = client(s, env=["CUDA_DEVICE_MEMORY_LIMIT_1=64m"])
    assert c.take(100) and c.take(64, gpu=1) and not c.take(1, gpu=1)
    c = client(s, env=["CUDA_DEVICE_MEMORY_LIMIT_0=64m", "CUDA_VISIBLE_DEVICES=1,0"])
    assert c.take(100) and c.take(64, gpu=1) and not c.take(1, gpu=1)
    c = limited(s, env=["RUBATO_TREAT_MEMORY=30M"])
    assert c.take(30) and not c.take(1)


def test_wrong_values(s):
    for value in ("0", "-5", "20X", "20", "", "1.5G", "9999999T"):
        for command in (("run", "--memory", value, "--", "true"), ("renice", 1, "--memory", value)):
            done = s.rubato(*command, code=2)
            assert done.stderr.startswith(f"rubato: {command[0]}: memory is a size from 1M to 1024T such as 20G, or default, "
                                          f"not {value} ") and done.stderr.count("\n") == 1, done.stderr


@device("--mem", "64")
def test_more_than_the_card(s):
    done = s.rubato("run", "--memory", "65M", "--", "true")
    assert done.stderr == "rubato: warning: run: memory 65M is more than any GPU here has: the largest has 64M\n", done.stderr
    assert s.rubato("run", "--memory", "64M", "--", "true").stderr == ""


@device("--gpus", "2", "--mem", "1024")
def test_programs_without_the_library_are_not_bound(s):
    plain = s.program("--memory-mib", 200)
    s.rubato("renice", plain.pid, "--memory", "100M")
    row = s.ps()[plain.pid]
    assert (row["memory_limit_bytes"], row["memory_enforced"], row["memory_bytes"]) == (100 * MIB, False, 200 * MIB), row
    assert "memory limit: 100MiB, not enforced, the GPU has 1024MiB\n" in s.rubato("ps").stdout


@device("--gpus", "2", "--mem", "1024")
def test_threads_and_processes_race_for_the_last_bytes(s):
    """Never more than the limit, and in the end nothing is left."""
    clients = [limited(s, "--memory", "10M")]
    while len(clients) < 3:
        clients.append(clients[0].fork(s)[0])
        eventually("it has the ledger", clients[-1].has_ledger)
    for c in clients:
        c.out.write(f"race 4 {200 if LONG else 40} {4 * MIB}\n")
        c.out.flush()
    ready, most = [], 0
    while len(ready) < len(clients):
        most = max(most, used(s)[0])
        ready = select.select([c.answers for c in clients], [], [], 0)[0]
    made, refused = zip(*(map(int, c.answers.readline().split()[1:]) for c in clients))
    assert sum(made) > 0 and sum(refused) > 0 and most <= 10 * MIB, (made, refused, most)
    assert used(s)[0] == 0 and Ledger(clients[0].pid).totals() == [0, 0]


@device("--gpus", "2", "--mem", "1024")
def test_killed_in_the_middle(s):
    """However often processes are killed while they allocate: what is left is what the driver has."""
    a = limited(s, "--memory", "100M")
    assert a.take(7)
    for i in range(40 if LONG else 8):
        b, _ = a.fork(s)
        eventually("it has the ledger", b.has_ledger)
        b.out.write(f"race 3 1000000 {MIB}\n")
        b.out.flush()
        eventually("it works", lambda: Ledger(a.pid).slots().get(b.pid) is not None)
        select.select([], [], [], random.random() * 0.02)
        os.kill(b.pid, signal.SIGKILL)
        eventually("given back", lambda: Ledger(a.pid).totals() == [7 * MIB, 0])


@device("--gpus", "2", "--mem", "1024")
def test_top(s):
    c, plain = limited(s, "--memory", "100M"), s.program("--memory-mib", 20)
    assert c.take(60)
    s.rubato("renice", plain.pid, "--memory", "50M")
    done = json.loads(s.rubato("top", "--once", "--json", "-d", "0.1").stdout)
    rows = {p["pid"]: (p["memory_bytes"], p["memory_limit_bytes"], p["memory_enforced"]) for p in done["programs"]}
    assert rows[plain.pid] == (20 * MIB, 50 * MIB, False) and rows[c.pid][1:] == (100 * MIB, True), rows
    assert {g["memory_bytes"] for g in done["gpus"]} == {1024 * MIB}, done["gpus"]
    s.env["COLUMNS"] = "160"
    screen = s.rubato("top", "--once", "-d", "0.1").stdout
    assert re.search(r" LIMIT ", screen) and re.search(r" 100M ", screen) and "(50.0M)" in screen, screen
    assert " of 1.0G" in screen, screen


def test_doctor_shows_what_the_kernel_can_limit(s):
    if os.geteuid() != 0 or not may_unshare("-m"):
        return
    script = 'mount -t tmpfs none /sys/fs/cgroup && echo "drm/0000:03:00.0/vram0 8589934592" > /sys/fs/cgroup/dmem.capacity && exec "$@"'
    done = s.command("unshare", "-m", "sh", "-c", script, "sh", binary("rubato"), "doctor")
    assert "ok  dmem           drm/0000:03:00.0/vram0, 8192 MiB: cgroups can limit it (dmem.max)\n" in done.stdout, done
    assert "dmem" not in s.rubato("doctor").stdout or os.path.exists("/sys/fs/cgroup/dmem.capacity")


RUN, HELLO, TREAT = 28, 1, 17


def run_message(name=b"x", slot=0, size=80):
    return struct.pack("<IIII64s", MAGIC, RUN, slot, 0, name)[:size]


@device("--gpus", "2", "--mem", "1024")
def test_messages_that_are_wrong(s):
    """The sender is cut off, or its message has no effect; other runs count on, and nothing is left of it."""
    c = limited(s, "--memory", "100M")
    assert c.take(40)
    daemon = s.daemon()
    files = len(os.listdir(f"/proc/{daemon}/fd"))
    hello = struct.pack("<IIQ", MAGIC, HELLO, 0)
    treat = struct.pack("<II", MAGIC, TREAT) + treatment()

    def unsealed(size):
        fd = os.memfd_create("x")
        os.ftruncate(fd, size)
        return fd

    null = os.open("/dev/null", os.O_RDWR)
    ledger = os.open(ledger_of(c.pid), os.O_RDWR)
    for messages, fd, is_cut in (([run_message()], None, True), ([hello, run_message(size=79)], None, True),
                                 ([hello, run_message(b"x" * 64)], None, True), ([hello, run_message()], null, True),
                                 ([hello, run_message()], unsealed(32768), True), ([hello, run_message()], unsealed(5), True),
                                 ([hello, treat, run_message(b"", 1 << 31)], ledger, False),
                                 ([hello, treat, run_message(b"", 0)], ledger, False),
                                 ([hello, treat, run_message(bytes(range(1, 60)))], None, False)):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
            peer.settimeout(10)
            peer.connect(f"{s.run_dir}/control.sock")
            for message in messages[:-1]:
                peer.send(message)
            try:
                peer.send(messages[-1]) if fd is None else socket.send_fds(peer, [messages[-1]], [fd])
                cut = is_cut and peer.recv(100) == b""
            except OSError:
                cut = True
            assert cut == is_cut, messages
    assert Ledger(c.pid).slots() == {c.pid: [40 * MIB, 0]} and not c.take(61) and c.take(60)
    # Names by the dozen are not kept.
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as peer:
        peer.connect(f"{s.run_dir}/control.sock")
        peer.send(hello)
        peer.send(struct.pack("<II", MAGIC, TREAT) + treatment(size=112, said=256)[:104] + struct.pack("<Q", 5 * MIB))
        for i in range(100):
            peer.send(run_message(b"n%d" % i))
        eventually("all are read", lambda: os.getpid() in s.ps())
        eventually("names are dropped", lambda: len(os.listdir(f"/proc/{daemon}/fd")) < files + 20)
    eventually("forgotten", lambda: len(os.listdir(f"/proc/{daemon}/fd")) <= files + 2)
    assert s.daemon() == daemon


CUDA = """
import ctypes, json, sys
cuda = ctypes.CDLL("libcuda.so.1")
size, ptr, MIB = ctypes.c_size_t, ctypes.c_uint64, 1 << 20
def ok(r): assert r == 0, r
def info():
    free, total = size(), size()
    ok(cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)))
    return free.value // MIB, total.value // MIB
def total(device):
    n = size()
    ok(cuda.cuDeviceTotalMem_v2(ctypes.byref(n), device))
    return n.value // MIB
def by(name):
    def take(mib):
        p = ptr()
        if name == "alloc":
            r = cuda.cuMemAlloc_v2(ctypes.byref(p), size(mib * MIB))
        elif name == "async":
            r = cuda.cuMemAllocAsync(ctypes.byref(p), size(mib * MIB), None)
        else:
            pool = ctypes.c_void_p()
            ok(cuda.cuDeviceGetDefaultMemPool(ctypes.byref(pool), 0))
            r = cuda.cuMemAllocFromPoolAsync(ctypes.byref(p), size(mib * MIB), pool, None)
        assert r in (0, 2), r
        return p if r == 0 else None
    return take
ok(cuda.cuInit(0))
contexts = []
for device in range(2):
    contexts.append(ctypes.c_void_p())
    ok(cuda.cuCtxCreate_v2(ctypes.byref(contexts[-1]), 0, device))
ok(cuda.cuCtxSetCurrent(contexts[0]))
"""


def cuda(s, script, *options):
    done = s.command(binary("rubato"), "run", *options, "--", "python3", "-c", CUDA + script)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@device("--gpus", "2", "--mem", "200")
def test_cuda_is_out_of_memory_at_the_limit(s):
    """The same for all functions; the program goes on, and its values are right."""
    script = """
for name in ("alloc", "async", "pool"):
    take, taken = by(name), []
    while (p := take(8)) is not None:
        taken.append(p)
    print(name, len(taken) * 8, *info())
    for i, p in enumerate(taken):
        ok(cuda.cuMemsetD8_v2(p, ctypes.c_ubyte(i + 1), size(8 * MIB)))
    back = (ctypes.c_ubyte * MIB)()
    for i, p in enumerate(taken):
        ok(cuda.cuMemcpyDtoH_v2(back, p, size(MIB)))
        assert set(bytes(back)) == {i + 1}
        ok(cuda.cuMemFree_v2(p))
    print(*info())
"""
    assert cuda(s, script, "--memory", "60M") == \
        [line for name in ("alloc", "async", "pool") for line in (f"{name} 56 4 60", "60 60")]


@device("--gpus", "2", "--mem", "200")
def test_cuda_tells_the_limit(s):
    script = """
take = by("alloc")
assert take(20)
print(total(0), total(1), *info())
ok(cuda.cuCtxSetCurrent(contexts[1]))
print(*info())
assert take(30)
print(*info())
ok(cuda.cuCtxSetCurrent(contexts[0]))
print(*info())
"""
    assert cuda(s, script, "--memory", "60M") == ["60 60 40 60", "60 60", "30 60", "40 60"]
    # Without a limit, and with one above what there is, the driver's own numbers count.
    for options in (), ("--memory", "500M"):
        totals, *infos = [list(map(int, line.split())) for line in cuda(s, script, *options)]
        assert totals[:2] == [200, 200], totals
        for (free, total), expected in zip([totals[2:], *infos], (180, 200, 170, 180)):
            assert total == 200 and expected - 5 <= free <= expected, (free, total)


class Model:
    """What the processes of a run have, and what one more may get."""

    def __init__(self, limit):
        self.limit, self.has = limit, {}

    def total(self, gpu):
        return sum(mib for mine in self.has.values() for g, mib in mine.values() if g == gpu)

    def check(self, s, ledger):
        expected = [self.total(gpu) * MIB for gpu in range(N_GPUS)]
        eventually("as the driver counts", lambda: used(s) == expected)
        eventually("as the ledger counts", lambda: ledger.totals() == expected)
        slots = {pid: [sum(m for g, m in mine.values() if g == gpu) * MIB for gpu in range(N_GPUS)]
                 for pid, mine in self.has.items()}
        eventually("process by process", lambda: ledger.slots() == slots)


def step(s, model, clients, dice):
    """One random thing that happens to a run."""
    c = dice.choice(clients)
    mine = model.has[c.pid]
    what = dice.random()
    if what < 0.5:
        gpu, mib = dice.randrange(N_GPUS), dice.randint(1, 40)
        handle = c.take(mib, gpu, dice.choice(["alloc", "old"]))
        assert (handle is not None) == (model.total(gpu) + mib <= model.limit), (gpu, mib, model.total(gpu), model.limit)
        if handle:
            mine[handle] = gpu, mib
    elif what < 0.97:
        if mine:
            handle = dice.choice(list(mine))
            c.free(handle)
            del mine[handle]
    elif what < 0.98:
        gpu = dice.randrange(N_GPUS)
        assert c.ask(f"device {gpu}") == "ok"
        model.has[c.pid] = {h: m for h, m in mine.items() if m[0] != gpu}
    elif what < 0.985:
        assert c.ask("client") == "ok"
        mine.clear()
    elif what < 0.99:
        if len(clients) < 5:
            clients.append(c.fork(s)[0])
            eventually("it has the ledger", clients[-1].has_ledger)
            model.has[clients[-1].pid] = {}
    elif what < 0.994:
        assert c.ask("exec").startswith("ready")
        mine.clear()
        # As with every renice, that of a limit is for the program that it named.
        model.limit = 100 if len(clients) == 1 else model.limit
        eventually("it has the ledger", c.has_ledger)
    elif what < 0.997:
        if len(clients) > 1 and c is not clients[0]:
            os.kill(c.pid, signal.SIGKILL)
            clients.remove(c)
            del model.has[c.pid]
            return True
    else:
        model.limit = dice.randint(50, 300)
        s.rubato("renice", c.pid, "--memory", f"{model.limit}M")
    return what >= 0.97


@device("--gpus", "2", "--mem", "1024")
def test_random_steps(s):
    """10,000 of them with RUBATO_TEST_LONG. Allocations, frees, forks, execs, kills, new limits: the count is the driver's own, all the time."""
    seed = random.randrange(1 << 32)
    print("seed", seed)
    dice, clients, model = random.Random(seed), [limited(s, "--memory", "100M")], Model(100)
    model.has[clients[0].pid] = {}
    for i in range(10000 if LONG else 2500):
        if step(s, model, clients, dice) or i % 500 == 0:
            model.check(s, Ledger(clients[0].pid))
    model.check(s, Ledger(clients[0].pid))


main()
