# SPDX-License-Identifier: Apache-2.0
"""Programs for tests: what they run, and what is seen of it."""
import json
import os
import re
import signal
import subprocess
import time

from harness import Program, binary, eventually

BEST_EFFORT = "--class", "best-effort"
# Where the .ptx files are.
KERNELS = os.environ.get("KERNELS", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kernels"))


def cpu_seconds(pid):
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/schedstat") as f:
                total += int(f.read().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            pass  # a thread that has just ended
    return total / 1e9


def rests(pid, seconds=1.0):
    """Whether it uses hardly any of a processor meanwhile: it does not spin."""
    before = cpu_seconds(pid)
    time.sleep(seconds)
    return cpu_seconds(pid) - before < seconds / 20


def kill(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def may_unshare(*options):
    """Whether this process may make such namespaces: not as an ordinary user, nor in some containers and chroots."""
    try:
        return subprocess.run(["unshare", *options, "true"], capture_output=True, timeout=20).returncode == 0
    except FileNotFoundError:
        return False


def affine_ptx(s):
    """The module of tests/progs/cuda_kernels.h as a file, for programs that are not written in C."""
    path = os.path.join(s.dir, "affine.ptx")
    if not os.path.exists(path):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../progs/cuda_kernels.h")) as f:
            text = re.sub(r"/\*.*?\*/", "", f.read().split("test_ptx[] =")[1], flags=re.S)
        with open(path, "w") as f:
            f.write("".join(re.findall(r'"(.*?)"', text)).replace(r"\n", "\n"))
    return path


def suite(*options):
    return [binary("cuda_suite"), KERNELS, *map(str, options)]


def start(s, *options, under=()):
    program = Program(s, [*under, *suite("--say", *options)])
    s.programs.append(program)
    return program


def result(program, seconds=120):
    """Exit code and last line of a program that ends by itself."""
    out, _ = program.process.communicate(timeout=seconds)
    lines = out.strip().splitlines()
    return program.process.returncode, lines[-1] if lines else ""


def is_right(program, seconds=120):
    code, last = result(program, seconds)
    return code == 0 and last.endswith(" 0 wrong")


def contexts(s):
    return {c["pid"]: c for c in s.state()["contexts"]}


def watch(s, seconds):
    """How often each pid was found runnable at a short slice; never two at once."""
    seen = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        short = s.short()
        assert len(short) <= 1, f"short slices meet: {short}"
        for pid in short:
            seen[pid] = seen.get(pid, 0) + 1
    return seen


def take_turns(s, programs, seconds=1.5):
    """Each of them has turns, and nobody else; on a busy machine it takes longer until all are seen."""
    wanted, end = {p.pid for p in programs}, time.monotonic() + 20
    seen = watch(s, seconds)
    while not wanted <= set(seen) and time.monotonic() < end:
        seen.update(watch(s, seconds))
    assert set(seen) == wanted, (seen, wanted)


def taking_turns(s, programs):
    """Once all are at their short slices."""
    eventually("all short", lambda: all(s.slices(p.pid) == [1] for p in programs))


def work(s, programs, seconds):
    """Instructions that each has executed meanwhile."""
    first = contexts(s)
    time.sleep(seconds)
    last = contexts(s)
    return [last[p.pid]["instructions"] - first[p.pid]["instructions"] for p in programs]


class Asked:
    """A program that answers a line with a line of JSON; the first tells its pid."""

    def __init__(self, s, argv, run_options, is_awaited=True):
        under = [binary("rubato"), "run", *run_options, "--"] if run_options else []
        self.process = subprocess.Popen(s.inside([*under, *argv]), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=s.env, start_new_session=True)
        self.pid = self.process.pid
        s.programs.append(self)
        if is_awaited:
            self.await_ready()

    def await_ready(self):
        self.ready = json.loads(self.process.stdout.readline())
        self.pid = self.ready["pid"]

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    end = Program.end
    kill = Program.kill


class Spinner(Asked):
    """bench/besteffort: kernels without end; counts those that are done."""

    def __init__(self, s, *run_options, is_awaited=True):
        super().__init__(s, [binary("besteffort"), "--steps", "300"], run_options, is_awaited)

    def count(self):
        return self.ask("count")["count"]


class Requests(Asked):
    """bench/latency: requests of a few small kernels each."""

    def __init__(self, s, *run_options):
        super().__init__(s, [binary("latency"), "--steps", "20", "--kernels", "3"], run_options)

    def in_a_row(self):
        """Milliseconds for 60 requests with a synchronisation after each, one after another: the best of three."""
        return min(sum(self.ask("measure graph 60 1000000 1")["service_us"]) / 1000 for _ in range(3))


def spinners(s, *options):
    """One for each tuple of options of `rubato run`, at work."""
    programs = [Spinner(s, *BEST_EFFORT, *own) for own in options]
    for p in programs:
        p.ask("go")
    taking_turns(s, programs)
    return programs


HINTING = """if True:
    import ctypes, os, sys
    cuda, rubato = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
    context = ctypes.c_void_p()
    assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
    rubato.rubato_request_begin.argtypes = [ctypes.c_uint64]
    print(f"ready pid={os.getpid()}", flush=True)
    for line in sys.stdin:
        word, ns = line.split()
        rubato.rubato_request_begin(int(ns)) if word == "begin" else rubato.rubato_request_end()
        print("done", flush=True)
"""


def hinter(s):
    """A latency program that announces its requests: `begin NS`, `end 0`."""
    program = Program(s, [binary("rubato"), "run", "--class", "latency", "--", "python3", "-c", HINTING])
    s.programs.append(program)
    return program


class Daemon:
    """rubatod with options of its own, and perhaps a configuration file."""

    def __init__(self, s, *options, text=None):
        self.s, self.path = s, os.path.join(s.dir, "conf")
        if text is not None:
            self.write(text)
            options += ("--config", self.path)
        self.process = subprocess.Popen(s.inside([binary("rubatod"), *map(str, options)]), env=s.env,
                                        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.pid = s.daemon()
        eventually("it listens", s.listens)
        s.programs.append(self)

    def write(self, text):
        with open(self.path, "w") as f:
            f.write(text)

    def reload(self, text):
        self.write(text)
        os.kill(self.pid, signal.SIGHUP)

    def end(self):
        if self.process.poll() is None:
            kill(self.pid)
        self.process.wait(10)


def launch_bound(s):
    """Many small kernels, eight of them in flight: it stands still whenever it is off."""
    q = Asked(s, [binary("besteffort"), "--steps", "3", "--depth", "8"], BEST_EFFORT)
    q.ask("go")
    return q


def eager(s):
    """A latency program, and what makes it serve some requests of 12 launches each, and then says how it fares. There are
    pauses between the requests, also where a request takes long."""
    p = Asked(s, [binary("latency"), "--steps", "200", "--kernels", "12"], ("--class", "latency"))
    rate = 1

    def serve(n=30):
        nonlocal rate
        got = p.ask(f"measure eager {n} {rate} 1")
        rate = min(50, 0.4e6 * len(got["service_us"]) / sum(got["service_us"]))
        return s.ps()[p.pid]
    serve(3)
    return p, serve
