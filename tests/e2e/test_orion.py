# SPDX-License-Identifier: Apache-2.0
"""Clients of one process: libgpu_scheduler.so and rubato.Scheduler, on the software GPU. (Shares: test_shares.py.)"""
import os
import re
import shutil
import subprocess

import harness
from harness import HERE, LONG, binary
from programs import affine_ptx

PROGS = os.path.join(HERE, "../progs")
PACKAGES = os.path.join(HERE, "../../python")
LIBRARY = "libgpu_scheduler.so"
TIMEOUT = 120  # for a busy machine


def with_env(s, env):
    values = dict({"ORION": binary(LIBRARY), "RUBATO_ORION_LIBRARY": binary(LIBRARY), "PTX": affine_ptx(s),
                   "PYTHONPATH": f"{PROGS}:{PACKAGES}", "PYTHONDONTWRITEBYTECODE": "1"}, **env)
    return ["env", *(f"{name}={value}" for name, value in values.items())]


def script(s, text, *args, under=(), code=0, **env):
    """Runs Python inside the session and returns what it wrote: its output, and the lines of standard error."""
    done = s.command(*with_env(s, env), *under, "python3", "-c", text, *args, timeout=TIMEOUT)
    assert done.returncode == code, f"exit {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout, done.stderr.splitlines()


def only(lines, *words):
    assert len(lines) == 1, lines
    for word in words:
        assert word in lines[0], (word, lines[0])


NUMBERS = """
from orion_world import *
lib = open_scheduler()
for n in 0, -1, 65, 2**31 - 1:
    assert lib.orion_start_scheduler(n) == -1 and lib.orion_init(n) == -1 and not lib.orion_is_enabled(), n
assert lib.orion_init(64) == 0 and lib.orion_init(64) == 0 and lib.orion_is_enabled()
lib.orion_shutdown()
lib.orion_shutdown()
assert lib.orion_start_scheduler(2) == 0 and lib.orion_start_scheduler(2) == 0 and lib.orion_init(2) == 0
assert lib.orion_start_scheduler(65) == -1 and lib.orion_init(0) == -1 and lib.orion_is_enabled()
lib.orion_stop_scheduler()
assert not lib.orion_is_enabled()
"""


def test_numbers_of_clients(s):
    _, lines = script(s, NUMBERS)
    assert len(lines) == 10 and all("must be from 1 to 64, not" in line for line in lines), lines


NUMBER_CHANGES = """
from orion_world import *
lib = open_scheduler()
lib.orion_start_profiling(b"model")   # as under `rubato profile record`
assert lib.orion_start_scheduler(3) == 0 and stats(lib, 2).launches == 0
lib.orion_stop_scheduler()
assert lib.orion_init(2) == 0 and lib.orion_start_scheduler(4) == 0 and stats(lib, 3).launches == 0
lib.orion_stop_scheduler()
"""


def test_the_scheduler_has_the_number_it_was_started_with(s):
    assert script(s, NUMBER_CHANGES) == ("", [])


INDICES = """
from orion_world import *
lib = open_scheduler()
assert lib.orion_get_client_idx() == -1
assert lib.orion_start_scheduler(2) == 0
for idx in 0, 1:
    lib.orion_set_client_idx(idx)
    assert lib.orion_get_client_idx() == idx
    for wrong in 2, 63, 64, -1, -2, 2**31 - 1, -2**31:
        lib.orion_set_client_idx(idx)
        lib.orion_set_client_idx(wrong)
        assert lib.orion_get_client_idx() == -1, wrong
        assert lib.rubato_orion_stats(wrong, ctypes.byref(Stats())) == -1, wrong
assert lib.rubato_orion_stats(0, None) == -1
# A thread without a client passes, and is nobody's.
cuda = Cuda()
buffer = Buffer(cuda)
for _ in range(5):
    buffer.launch()
buffer.check()
lib.block(0)
assert stats(lib, 0).launches == stats(lib, 1).launches == 0
"""


def test_indices(s):
    assert script(s, INDICES) == ("", [])


DRIVER_FIRST = """
from orion_world import *
cuda = Cuda()
buffer = Buffer(cuda)
buffer.launch()
lib = open_scheduler()
started = lib.orion_start_scheduler(2)
lib.orion_set_client_idx(1)
for _ in range(5):
    buffer.launch()
buffer.check()
print(started, lib.orion_is_enabled(), stats(lib, 1).launches if started == 0 else 0)
lib.orion_stop_scheduler()
"""


def test_the_driver_first(s):
    """As after `import torch`: the library is too late, except under `rubato run`, where the pointers lead through the stand-in."""
    out, lines = script(s, DRIVER_FIRST)
    assert out == "-1 0 0\n", out
    only(lines, "the driver's library was loaded first", "before `import torch`", "`rubato run`")
    out, lines = script(s, DRIVER_FIRST, under=[binary("rubato"), "run", "--"])
    assert out == "0 1 5\n" and lines == [], (out, lines)


def test_no_driver(s):
    def plain(text):
        return subprocess.run([*with_env(s, {}), "python3", "-c", text], capture_output=True, text=True, timeout=TIMEOUT, env=s.env)

    if plain("import ctypes; ctypes.CDLL('libcuda.so.1')").returncode == 0:
        print("     this machine has a driver")
        return
    done = plain("from orion_world import *\n"
                 "lib = open_scheduler()\n"
                 "print(lib.orion_start_scheduler(2), lib.orion_is_enabled())\n"
                 "lib.orion_stop_scheduler()\n")
    assert done.stdout == "-1 0\n", done
    only(done.stderr.splitlines(), "there is no NVIDIA driver")
    done = plain("import rubato\n"
                 "try:\n"
                 "    rubato.Scheduler(2).start()\n"
                 "except RuntimeError as e:\n"
                 "    print(e)\n")
    only(done.stdout.splitlines(), "there is no NVIDIA driver")


# Prints how many launches of each of two clients were held. With one kernel of unknown length at a time, some are.
TWO = """
import sys
from orion_world import *
lib = open_scheduler()
assert lib.orion_start_scheduler(2) == 0
cuda = Cuda()

def work(idx):
    if idx >= 0:
        lib.orion_set_client_idx(idx)
    buffer = Buffer(cuda)
    for _ in range(30):
        buffer.launch(2000)
    buffer.check()

for idx in map(int, sys.argv[1:]):
    thread(work, idx)()
print(*(f"{stats(lib, i).launches}:{'some' if stats(lib, i).held else 'none'}" for i in (0, 1)))
lib.orion_stop_scheduler()
"""


def test_variables(s):
    assert script(s, TWO, "0", "1") == ("30:none 30:some\n", [])
    assert script(s, TWO, "0", "1", RUBATO_ORION_HP="1") == ("30:some 30:none\n", [])
    assert script(s, TWO, "0", "1", RUBATO_ORION_HP="1,0") == ("30:none 30:none\n", [])
    assert script(s, TWO, "0", "1", RUBATO_ORION_POLICY="priority") == ("30:none 30:none\n", [])
    assert script(s, TWO, "0", "1", RUBATO_ORION_POLICY="hold") == ("30:none 30:some\n", [])
    assert script(s, TWO, "-1", "-1") == ("0:none 0:none\n", [])
    assert script(s, TWO, "-1", "0", RUBATO_ORION_OTHERS="1") == ("30:none 30:some\n", [])


def test_wrong_variables(s):
    """One line each, and the default."""
    values = {"RUBATO_ORION_HP": ("", "x", "2", "0,", "1,2", "0 1", "-1", "99999999999999999999"),
              "RUBATO_ORION_OTHERS": ("", "2", "-1", "1x", "0,1"), "RUBATO_ORION_POLICY": ("", "fast", "HOLD"),
              "RUBATO_ORION_PARTITION": ("", "0", "-2", "2.5", "10000")}
    for name in values:
        for value in values[name]:
            out, lines = script(s, TWO, "0", "1", "-1", **{name: value})
            assert out == "30:none 30:some\n", (name, value, out)
            only(lines, f"{name}={value} is ignored")
    out, lines = script(s, TWO, "0", "1", **{name: "?" for name in values})
    assert out == "30:none 30:some\n" and len(lines) == len(values), (out, lines)


PROFILE = """
import sys
from orion_world import *
lib = open_scheduler()
lib.rubato_orion_why.restype = ctypes.c_char_p
result = lib.orion_load_profile(sys.argv[1].encode())
print(result, lib.rubato_orion_why().decode())
assert lib.orion_start_scheduler(2) == 0 and lib.rubato_orion_why() == b""
"""


def test_profiles_that_cannot_be_used(s):
    path = os.path.join(s.dir, "profile")
    good = "Name,Profile,Memory_footprint,SM_usage,Duration\naffine,1,0,4,1000\n"

    def load(content=None, size=None):
        if content is not None:
            with open(path, "wb") as f:
                f.write(content)
                f.truncate(len(content) if size is None else size)
        return script(s, PROFILE, path)

    out, lines = load()
    assert out.startswith(f"-1 {path}: No such file"), out
    only(lines, path)
    assert load(good.encode()) == ("0 \n", [])
    for content, size in ((good[:-10].encode(), None), (os.urandom(4096), None), (b"", None), (good.encode() + b"x\n", None),
                          (good.encode(), 100 << 20), (good.encode() + b"affine,1,0,4,1000\n" * 6000000, None)):
        out, lines = load(content, size)
        assert out.startswith(f"-1 {path}: "), (content[:100], out)
        only(lines, path)
    os.unlink(path)
    os.mkdir(path)
    out, lines = load()
    assert out == f"-1 {path}: not a file\n", out


RECORD = """
import sys
from orion_world import *
lib = open_scheduler()
assert lib.orion_start_scheduler(2) == 0
cuda = Cuda()
buffer = Buffer(cuda)
lib.orion_start_profiling(b"model")
for idx in 0, 1, -1:
    lib.orion_set_client_idx(idx)
    for _ in range(10):
        buffer.launch(50)
    cuda.sync()
lib.orion_end_profiling(sys.argv[1].encode())
buffer.check()
assert lib.orion_load_profile(sys.argv[1].encode()) == 0
lib.orion_end_profiling(b"/nowhere/profile")   # not begun: nothing is written
lib.orion_start_profiling(b"model")
lib.orion_end_profiling(b"/nowhere/profile")
"""


def test_a_profile_is_recorded(s):
    path = os.path.join(s.dir, "profile")
    _, lines = script(s, RECORD, path)
    only(lines, "/nowhere/profile: No such file")
    with open(path) as f:
        rows = [line.split(",") for line in f.read().splitlines()]
    columns = rows[0]
    assert columns[:5] == ["Name", "Profile", "Memory_footprint", "SM_usage", "Duration"], columns
    row = dict(zip(columns, rows[1]))
    assert row["Name"] == "affine" and row["Runs"] == "30" and int(row["Duration"]) > 0, rows


RECORD_STOP = """
import sys
from orion_world import *
lib = open_scheduler()
assert lib.orion_start_scheduler(2) == 0
cuda = Cuda()
buffer = Buffer(cuda)
if sys.argv[1:]:
    lib.orion_start_profiling(b"model")
lib.orion_set_client_idx(1)
for _ in range(10):
    buffer.launch(50)
lib.orion_stop_scheduler()
for _ in range(10):
    buffer.launch(50)
buffer.check()
if sys.argv[1:]:
    lib.orion_end_profiling(sys.argv[1].encode())
elif os.fork() == 0:
    sys.exit()   # the child writes no profile
else:
    assert os.wait()[1] == 0
"""


def runs(path):
    with open(path) as f:
        rows = [line.split(",") for line in f.read().splitlines()]
    return [int(dict(zip(rows[0], row))["Runs"]) for row in rows[1:]]


def test_a_profile_outlives_the_scheduler(s):
    """What was measured is written after the stop; `rubato profile record` also goes on measuring."""
    path, whole = os.path.join(s.dir, "profile"), os.path.join(s.dir, "whole")
    assert script(s, RECORD_STOP, path) == ("", []) and runs(path) == [10]
    assert script(s, RECORD_STOP, under=[binary("rubato"), "profile", "record", "-o", whole, "--"]) == ("", [])
    assert runs(whole) == [20], runs(whole)
    assert [name for name in os.listdir(s.dir) if name.startswith("whole")] == ["whole"]


DYING = """
from orion_world import *
import rubato
lib = open_scheduler()
assert lib.orion_start_scheduler(3) == 0
cuda = Cuda()
turns = turns_for(cuda, 0.05)

def dies(idx, how):
    lib.orion_set_client_idx(idx)
    buffer = Buffer(cuda)
    for _ in range(3):
        buffer.launch(turns)
    if how == "exit":
        raise SystemExit
    if how == "raise":
        with rubato.client(1 - idx):
            raise KeyError(how)

for how in "end", "exit", "raise":
    for idx in 0, 1:
        join = thread(dies, idx, how)
        try:
            join()
        except (SystemExit, KeyError):
            pass
# What they left on the GPU does not stop the others.
lib.orion_set_client_idx(2)
buffer = Buffer(cuda)
for _ in range(20):
    buffer.launch()
buffer.check()
assert stats(lib, 0).launches == stats(lib, 1).launches == 9
try:
    with rubato.client(1):
        assert lib.orion_get_client_idx() == 1
        raise KeyError
except KeyError:
    assert lib.orion_get_client_idx() == 2
lib.orion_stop_scheduler()
"""


def test_threads_that_die(s):
    assert script(s, DYING) == ("", [])


PER_THREAD_STREAM = """
from orion_world import *
lib = open_scheduler()
assert lib.orion_start_scheduler(2) == 0
cuda = Cuda()
is_done, may_end = threading.Event(), threading.Event()

def synchronizes():
    lib.orion_set_client_idx(0)
    Buffer(cuda).launch(1, PER_THREAD)
    must(cuda.lib.cuCtxSynchronize())
    is_done.set()
    may_end.wait()

def dies():
    lib.orion_set_client_idx(0)
    Buffer(cuda).launch(1, PER_THREAD)

lib.orion_set_client_idx(1)
buffer = Buffer(cuda)
join = thread(synchronizes)
is_done.wait()
for _ in range(3):
    buffer.launch()
may_end.set()
join()
thread(dies)()
for _ in range(3):
    buffer.launch()
buffer.check()
assert stats(lib, 1).overdue == 0, stats(lib, 1).overdue
lib.orion_stop_scheduler()
"""


def test_own_default_streams_of_threads(s):
    """High-priority work in them ends with a synchronisation of the context, or with the thread."""
    assert script(s, PER_THREAD_STREAM) == ("", [])


FORK = """
import signal
from orion_world import *
lib = open_scheduler()
assert lib.orion_start_scheduler(4) == 0
cuda = Cuda()
is_over = False

def work(idx):
    lib.orion_set_client_idx(idx)
    buffer = Buffer(cuda)
    while not is_over:
        for _ in range(10):
            buffer.launch(50)
        buffer.check()

joins = [thread(work, idx) for idx in range(4)]
for i in range(20):
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        lib.orion_set_client_idx(1)
        lib.block(0)
        was_enabled = lib.orion_is_enabled()
        lib.orion_set_enabled(1)
        lib.orion_stop_scheduler()
        os._exit(0 if not was_enabled and not lib.orion_is_enabled() else 1)
    assert os.waitpid(pid, 0)[1] == 0
    before = stats(lib, 2).launches
    while stats(lib, 2).launches == before:
        time.sleep(0.001)
assert lib.orion_is_enabled()
is_over = True
for join in joins:
    join()
lib.orion_stop_scheduler()
"""


def test_fork(s):
    """Children are disabled; the parent goes on."""
    assert script(s, FORK) == ("", [])


FORK_EARLY = """
from orion_world import *
lib = open_scheduler()
assert lib.orion_start_scheduler(2) == 0
pid = os.fork()
assert lib.orion_is_enabled() == (pid != 0)
if pid == 0:
    assert lib.orion_start_scheduler(3) == 0
cuda = Cuda()
lib.orion_set_client_idx(1)
buffer = Buffer(cuda)
for _ in range(20):
    buffer.launch(2000)
buffer.check()
assert stats(lib, 1).launches == 20 and stats(lib, 1).held > 0
lib.orion_stop_scheduler()
if pid != 0:
    assert os.waitpid(pid, 0)[1] == 0
"""


def test_fork_before_cuda(s):
    """A child that starts a scheduler of its own, as workers of a server do, before CUDA is used."""
    assert script(s, FORK_EARLY) == ("", [])


STOPS = """
from orion_world import *
lib = open_scheduler()
cuda = None
for round in range(6):
    assert lib.orion_start_scheduler(3) == 0 and lib.orion_is_enabled()
    cuda = cuda or Cuda()
    started = threading.Barrier(3)

    def work(idx):
        lib.orion_set_client_idx(idx)
        buffer = Buffer(cuda)
        for i in range(40):
            buffer.launch(100)
            if i == 10:
                started.wait()
                if idx == round % 3:
                    lib.orion_stop_scheduler()
                    lib.orion_stop_scheduler()
        buffer.check()

    for join in [thread(work, idx) for idx in range(3)]:
        join()
    assert not lib.orion_is_enabled()
    lib.orion_stop_scheduler()
"""


def test_stops(s):
    """From a client's thread, while the others work; again; and a new start."""
    assert script(s, STOPS) == ("", [])


# A stream and a context end while the scheduler is stopped, and others get their handles.
ENDS_MEANWHILE = """
from orion_world import *
lib = open_scheduler()
lib.orion_set_client_idx(1)
for round in range(3):
    assert lib.orion_start_scheduler(2) == 0
    cuda = Cuda()
    turns, buffer, stream = turns_for(cuda, 0.02), Buffer(cuda), cuda.stream(1)   # it does not block
    buffer.launch(1, stream)
    cuda.sync(stream)
    lib.orion_stop_scheduler()
    must(cuda.lib.cuStreamDestroy_v2(stream))
    stream = cuda.stream(0)   # it blocks
    assert lib.orion_start_scheduler(2) == 0
    for _ in range(5):
        buffer.launch(turns, stream)
        buffer.launch()
    buffer.check()
    lib.orion_stop_scheduler()
    must(cuda.lib.cuDevicePrimaryCtxRelease_v2(0))
"""


def test_what_ends_while_the_scheduler_is_stopped_is_forgotten(s):
    assert script(s, ENDS_MEANWHILE) == ("", [])


# A blocking stream is destroyed while its kernel runs, and the default stream comes after it.
DESTROYED_STREAM = """
from orion_world import *
lib = open_scheduler()
assert lib.orion_start_scheduler(2) == 0
cuda = Cuda()
turns = turns_for(cuda, 0.02)
for idx in -1, 0, 1:
    lib.orion_set_client_idx(idx)
    buffer = Buffer(cuda)
    for _ in range(3):
        stream = cuda.stream(0)
        buffer.launch()
        buffer.launch(turns, stream)
        must(cuda.lib.cuStreamDestroy_v2(stream))
        buffer.launch()
    buffer.check()
"""


def test_a_stream_is_destroyed_before_its_work_is_done(s):
    assert script(s, DESTROYED_STREAM) == ("", [])


# A thread's own default stream blocks, too.
OWN_AND_DEFAULT = """
from orion_world import *
lib = open_scheduler()
assert lib.orion_start_scheduler(3) == 0
cuda = Cuda()
turns = turns_for(cuda, 0.02)
for idx in -1, 0, 1:
    lib.orion_set_client_idx(idx)
    buffer = Buffer(cuda)

    def elsewhere():
        lib.orion_set_client_idx(idx)
        cuda.use()
        buffer.launch(turns, PER_THREAD)

    for _ in range(3):
        buffer.launch()
        buffer.launch(turns, PER_THREAD)
        buffer.launch()
        buffer.launch(1, PER_THREAD)
        buffer.launch()
        thread(elsewhere)()
        buffer.launch()
    buffer.check()
"""


def test_own_default_streams_are_ordered(s):
    assert script(s, OWN_AND_DEFAULT) == ("", [])


EARLY_CONTEXT = """
from orion_world import *
cuda = Cuda()
lib = open_scheduler()
assert lib.orion_start_scheduler(2) == 0
lib.orion_set_client_idx(1)
for round in range(3):
    buffer = Buffer(cuda)
    buffer.launch()
    buffer.check()
    must(cuda.lib.cuDevicePrimaryCtxRelease_v2(0))
    cuda = Cuda()   # another context, with the same handle
"""


def test_a_context_from_before_the_start_ends(s):
    assert script(s, EARLY_CONTEXT, under=[binary("rubato"), "run", "--"]) == ("", [])


# A library in the process retains and releases the context that clients use.
RETAINS = """
from orion_world import *
lib = open_scheduler()
assert lib.orion_start_scheduler(2) == 0
cuda = Cuda()
until = time.monotonic() + 1.5

def work(idx):
    lib.orion_set_client_idx(idx)
    buffer = Buffer(cuda)
    while time.monotonic() < until:
        for _ in range(20):
            buffer.launch()
        buffer.check()

def retain():
    while time.monotonic() < until:
        must(cuda.lib.cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), 0))
        must(cuda.lib.cuDevicePrimaryCtxRelease_v2(0))

for join in [thread(work, 0), thread(work, 1), thread(retain)]:
    join()
before = stats(lib, 1).overdue
lib.orion_set_client_idx(1)
buffer = Buffer(cuda)
for _ in range(5):
    buffer.launch()
print(stats(lib, 1).overdue - before, "overdue")
"""


def test_a_context_that_is_released_while_others_retain_it(s):
    assert script(s, RETAINS) == ("0 overdue\n", [])
    out, lines = script(s, RETAINS, RUBATO_ORION_PARTITION="2")
    assert out == "0 overdue\n", out
    only(lines, "run on 2 of 4 SMs")


# A high-priority kernel of a second, and a launch that is held meanwhile. argv: what ends the holding.
HELD = """
import sys
from orion_world import *
lib = open_scheduler()
assert lib.orion_start_scheduler(2) == 0
cuda = Cuda()
turns = turns_for(cuda, 1.0)
lib.orion_set_client_idx(0)
long, short = Buffer(cuda), Buffer(cuda)
free = cuda.stream(1)
is_there = threading.Event()

def held():
    lib.orion_set_client_idx(1)
    cuda.use()
    is_there.set()
    short.launch(1, free)
    cuda.sync(free)
    short.check()

cuda.sync()
long.launch(turns)
join = thread(held)
is_there.wait()
time.sleep(0.02)
if sys.argv[1] == "stop":
    lib.orion_stop_scheduler()
elif sys.argv[1] == "disable":
    lib.orion_set_enabled(0)
elif sys.argv[1] == "wait":
    time.sleep(0.3)
    assert not cuda.is_idle(), "the kernel was too short"
join()
s = stats(lib, 1)
print(s.launches, s.held, s.overdue, s.held_ns > 90e6)
long.check()
lib.orion_stop_scheduler()
"""


def test_no_call_is_held_for_long(s):
    """100 ms at most, even if the high-priority client's kernel goes on."""
    assert script(s, HELD, "wait") == ("1 1 1 True\n", [])


def test_stopping_and_disabling_let_calls_go(s):
    for how in "stop", "disable":
        out, lines = script(s, HELD, how)
        launches, held, overdue, _ = out.split()
        # (The stop may come before the launch on a busy machine.)
        assert launches in "01" and held in "01" and overdue == "0" and lines == [], out


BLOCK = """
from orion_world import *
lib = open_scheduler()
lib.block(0)
assert lib.orion_start_scheduler(3) == 0
lib.block(0)
cuda = Cuda()
turns = turns_for(cuda, 0.3)
for idx in 0, 1:
    lib.orion_set_client_idx(idx)
    lib.block(idx)
    buffer = Buffer(cuda)
    for stream in None, cuda.stream(0), cuda.stream(1), PER_THREAD:
        cuda.sync()
        buffer.launch(turns, stream)
        assert not cuda.is_idle(stream), (idx, stream)
        lib.block(0)
        assert cuda.is_idle(stream), (idx, stream)
        buffer.check()
# The work of another client does not matter.
lib.orion_set_client_idx(0)
free = cuda.stream(1)
buffer.launch(turns, free)
lib.orion_set_client_idx(2)
lib.block(0)
lib.orion_set_client_idx(-1)
lib.block(0)
assert not cuda.is_idle(free)
cuda.sync(free)
"""


def test_block(s):
    assert script(s, BLOCK) == ("", [])


BLOCK_CAPTURE = """
from orion_world import *
lib = open_scheduler()
assert lib.orion_start_scheduler(2) == 0
cuda = Cuda()
lib.orion_set_client_idx(1)
turns = turns_for(cuda, 0.1)
buffer, free, another, graph = Buffer(cuda), cuda.stream(1), cuda.stream(1), ctypes.c_void_p()
buffer.launch(1, free)
cuda.sync(free)
for mode in 0, 1, 2:
    buffer.launch(turns, another)
    must(cuda.lib.cuStreamBeginCapture_v2(free, mode))
    buffer.launch(1, free)
    lib.block(0)
    must(cuda.lib.cuStreamEndCapture(free, ctypes.byref(graph)))
    assert cuda.is_idle(another)
"""


def test_block_during_a_capture(s):
    """What is captured is not on the GPU, and waiting for it would spoil it."""
    assert script(s, BLOCK_CAPTURE) == ("", [])


STOP_CAPTURE = """
from orion_world import *
lib = open_scheduler()
assert lib.orion_start_scheduler(2) == 0
cuda = Cuda()
turns = turns_for(cuda, 0.5)
lib.orion_set_client_idx(1)
buffer = Buffer(cuda)

def stop_and_start():
    lib.orion_stop_scheduler()
    assert lib.orion_start_scheduler(2) == 0

def disable_and_enable():
    lib.orion_set_enabled(0)
    lib.orion_set_enabled(1)

for flags in 0, 1:
    for mode in 0, 1, 2:
        for change in stop_and_start, disable_and_enable, lib.orion_stop_scheduler:
            stream, graph, exec = cuda.stream(flags), ctypes.c_void_p(), ctypes.c_void_p()
            buffer.launch(500)
            must(cuda.lib.cuStreamBeginCapture_v2(stream, mode))
            buffer.launch(1, stream)
            thread(change)()
            must(cuda.lib.cuStreamEndCapture(stream, ctypes.byref(graph)))
            must(cuda.lib.cuGraphInstantiateWithFlags(ctypes.byref(exec), graph, ctypes.c_uint64(0)))
            must(cuda.lib.cuGraphLaunch(exec, None))
            assert lib.orion_start_scheduler(2) == 0
            buffer.check()
# Clients still have default streams of their own.
lib.orion_set_client_idx(0)
long = Buffer(cuda)
long.launch(turns)
lib.orion_set_client_idx(1)
buffer.launch()
cuda.sync()
lib.orion_set_client_idx(0)
assert not cuda.is_idle()
long.check()
lib.orion_stop_scheduler()
"""


def test_stopping_during_a_capture(s):
    assert script(s, STOP_CAPTURE, RUBATO_ORION_POLICY="priority") == ("", [])


SCHEDULER = """
import sys
import types
with open("/proc/self/maps") as f:
    before = f.read()
import rubato
with open("/proc/self/maps") as f:
    assert "libgpu_scheduler" not in before + f.read(), "it was loaded by the import"

def refused(kind, function, *words):
    try:
        function()
    except kind as e:
        assert all(word in str(e) for word in words), e
    else:
        raise AssertionError(f"no {kind.__name__}")

for n in 0, -1, 65, 2**32 + 2:
    refused(ValueError, lambda: rubato.Scheduler(n), "from 1 to 64")
scheduler = rubato.Scheduler(2)
assert scheduler.stats() == [] and not scheduler.enabled
with scheduler as same:
    from orion_world import *
    assert same is scheduler and scheduler.enabled and scheduler.start() is scheduler
    refused(RuntimeError, rubato.Scheduler(3).start, "another Scheduler", "stop it first")
    rubato.Scheduler(3).stop()  # never started
    assert scheduler.enabled
    lib = rubato.scheduler._library()
    idx = lib.orion_get_client_idx
    refused(ValueError, lambda: scheduler.client(2), "from 0 to 1")
    refused(ValueError, lambda: scheduler.client(-1), "from 0 to 1")
    assert idx() == -1
    with scheduler.client(1):
        assert idx() == 1
        with scheduler.client(0), rubato.client(1), scheduler.client(0):
            assert idx() == 0
        assert idx() == 1
    assert idx() == -1
    cuda = Cuda()

    @scheduler.client(1)
    def work(n):
        buffer = Buffer(cuda)
        for _ in range(n):
            buffer.launch(2000)
        scheduler.block()
        assert cuda.is_idle() or not scheduler.enabled
        buffer.check()

    thread(work, 30)()
    thread(work, 20)()
    with scheduler.client(0):
        Buffer(cuda).launch()
    hp, be = scheduler.stats()
    assert list(be) == ["launches", "held", "held_ns", "overdue", "partitioned"], be
    assert hp == dict(launches=1, held=0, held_ns=0, overdue=0, partitioned=0), hp
    assert be["launches"] == 50 and 0 < be["held"] <= 50 and be["held_ns"] > 0, be
    scheduler.enabled = False
    assert not scheduler.enabled
    work(5)
    scheduler.enabled = True
    assert scheduler.enabled and scheduler.stats()[1]["launches"] == 50
    scheduler.set_hp_latency(2.5)
    scheduler.set_hp_latency(0)
    refused(RuntimeError, lambda: scheduler.load_profile("/nowhere/profile"), "/nowhere/profile: No such file")
    scheduler.start_profiling("model")
    work(5)
    scheduler.end_profiling(sys.argv[1])
    scheduler.load_profile(sys.argv[1])
    scheduler.start_profiling()
    refused(RuntimeError, lambda: scheduler.end_profiling("/nowhere/profile"), "/nowhere/profile: No such file")
    # PyTorch, as far as it matters.
    log = []
    class setting:
        def __init__(self, value):
            log.append(value)
        def __enter__(self):
            log.append("in")
        def __exit__(self, *_):
            log.append("out")
    torch = sys.modules["torch"] = types.SimpleNamespace(autograd=types.SimpleNamespace(set_multithreading_enabled=setting))
    with scheduler.client(1):
        assert log == [False, "in"], log
    assert log == [False, "in", "out"], log
    del torch.autograd.set_multithreading_enabled
    with scheduler.client(1):
        assert idx() == 1
assert not scheduler.enabled and len(rubato.stats()) == 2
scheduler.stop()
with rubato.Scheduler(3) as another:
    assert [c["launches"] for c in another.stats()] == [0, 0, 0]
"""


def test_scheduler_in_python(s):
    _, lines = script(s, SCHEDULER, os.path.join(s.dir, "profile"))
    assert len(lines) == 2 and all("/nowhere/profile: No such file" in line for line in lines), lines


def test_which_library(s):
    """The process's own; else the variable's; else the one beside the package."""
    start = ("import sys\n"
             "sys.path.insert(0, sys.argv[1])\n"
             "import rubato\n"
             "with rubato.Scheduler(2):\n"
             "    for line in open('/proc/self/maps'):\n"
             "        if 'libgpu_scheduler' in line:\n"
             "            print(line.split()[5])\n"
             "            break\n")
    own = "import ctypes, os\nlib = ctypes.CDLL(os.environ['ORION'])\n" + start
    assert script(s, own, PACKAGES, RUBATO_ORION_LIBRARY="/nowhere")[0] == binary(LIBRARY) + "\n"
    _, lines = script(s, start, PACKAGES, RUBATO_ORION_LIBRARY="/nowhere", code=1)
    assert lines[-1].startswith("RuntimeError: libgpu_scheduler.so cannot be loaded: /nowhere: "), lines
    assert lines[-1].endswith("correct RUBATO_ORION_LIBRARY"), lines
    # Installed: the package, the library and the stand-in in their folders.
    prefix = os.path.join(s.dir, "prefix")
    packages = os.path.join(prefix, "lib/python3/dist-packages")
    shutil.copytree(os.path.join(PACKAGES, "rubato"), os.path.join(packages, "rubato"))
    empty = {"RUBATO_ORION_LIBRARY": "", "PYTHONPATH": ""}
    _, lines = script(s, start, packages, code=1, **empty)
    assert lines[-1].startswith("RuntimeError: ") and "install Rubato, or set RUBATO_ORION_LIBRARY" in lines[-1], lines
    shutil.copy(binary(LIBRARY), os.path.join(prefix, "lib"))
    os.makedirs(os.path.join(prefix, "lib/rubato/standin"))
    shutil.copy(binary("standin/libcuda.so.1"), os.path.join(prefix, "lib/rubato/standin"))
    assert script(s, start, packages, **empty)[0] == os.path.join(prefix, "lib", LIBRARY) + "\n"
    # Orion's own library has the same name.
    shutil.copy(binary("ioctl_count.so"), os.path.join(prefix, "lib", LIBRARY))
    _, lines = script(s, start, packages, code=1, **empty)
    assert lines[-1].startswith("RuntimeError: ") and "it is not Rubato's" in lines[-1], lines


def mixed_calls(s, clients, calls, *options, under=(), timeout=TIMEOUT):
    """Random calls of every kind, whose results are checked. How many were held and partitioned, and standard error."""
    done = s.command(*under, binary("orion_mixed"), binary(LIBRARY), str(clients), str(calls), *options, timeout=timeout)
    assert done.returncode == 0, (clients, options, done.stdout, done.stderr)
    n_done, n_held, n_partitioned = (int(n) for n in re.findall(r"\d+", done.stdout))
    assert n_done == calls // clients * clients, done.stdout
    return n_held, n_partitioned, done.stderr


def mixed(s, *args, **options):
    n_held, n_partitioned, stderr = mixed_calls(s, *args, **options)
    assert stderr == "" and n_partitioned == 0, (stderr, n_partitioned)
    return n_held


def test_mixed_calls(s):
    for clients in 1, 2, 8:
        held = mixed(s, clients, 4000, "1")
        assert (held > 0) == (clients > 1), (clients, held)
        mixed(s, clients, 4000, "2", "stop")
    mixed(s, 8, 200000, "5", "stop")  # what is lost while it stops is lost seldom
    assert mixed(s, 8, 4000, "3", under=[binary("rubato"), "run", "--class", "best-effort", "--"]) > 0
    if LONG:
        print(f"     {mixed(s, 8, 1000000, '4', timeout=3000)} of a million held")
        mixed(s, 8, 1000000, "5", "stop", timeout=3000)


def test_partition(s):
    """Kernels on default streams of best-effort clients go into a green context, and their order is kept."""
    for sms, rounded in ("1", "2"), ("2", "2"), ("3", "4"), ("4", None):  # the GPU has four
        under = ["env", f"RUBATO_ORION_PARTITION={sms}"]
        n_held, n_partitioned, stderr = mixed_calls(s, 8, 4000, sms, under=under)
        assert n_held > 0 and (n_partitioned > 0) == (rounded is not None), (sms, n_held, n_partitioned)
        only(stderr.splitlines(), f"run on {rounded} of 4 SMs" if rounded else "this GPU cannot be divided so")
    mixed_calls(s, 8, 20000, "5", "stop", under=["env", "RUBATO_ORION_PARTITION=2"])
    out, lines = script(s, NO_PRIMARY, RUBATO_ORION_PARTITION="2")
    assert out == "0 of 30\n", out
    only(lines, "not the device's primary one")


NO_PRIMARY = """
from orion_world import *
lib = open_scheduler()
assert lib.orion_start_scheduler(2) == 0
cuda = Cuda()
must(cuda.lib.cuCtxCreate_v2(ctypes.byref(cuda.context), 0, 0))
must(cuda.lib.cuModuleLoadData(ctypes.byref(cuda.affine), open(os.environ["PTX"], "rb").read() + b"\\0"))
must(cuda.lib.cuModuleGetFunction(ctypes.byref(cuda.affine), cuda.affine, b"affine"))
lib.orion_set_client_idx(1)
buffer = Buffer(cuda)
for _ in range(30):
    buffer.launch(20)
buffer.check()
print(stats(lib, 1).partitioned, "of", stats(lib, 1).launches)
"""


if __name__ == "__main__":
    harness.main()
