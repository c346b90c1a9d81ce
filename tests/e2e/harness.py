# SPDX-License-Identifier: Apache-2.0
"""End-to-end tests: real programs, tools, daemon and hand on fake device nodes.

Every test gets a session of its own: a software GPU with its own daemon in a private directory. Nothing waits for
ever; what a test leaves behind is killed.
"""
import sys

sys.dont_write_bytecode = True

import atexit
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
LONG = os.environ.get("RUBATO_TEST_LONG", "0") == "1"
QUIRKS = os.environ.get("RUBATO_TEST_QUIRKS", "none")  # of the software GPU, where a test does not say
SKIP = 77


def everyone_may_enter(path):
    while os.stat(path).st_mode & 0o001:
        if path == "/":
            return True
        path = os.path.dirname(path)
    return False


def staged(build):
    """The build tree; or a copy that lasts as long as this process, if root runs tests in a tree that is closed to others.

    Some of root's tests run its programs as other users.
    """
    build = os.path.abspath(build)
    if os.geteuid() != 0 or everyone_may_enter(build):
        return build
    folder, owner = tempfile.mkdtemp(prefix="rbt-stage-", dir="/tmp"), os.getpid()
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(folder, ignore_errors=True))
    os.chmod(folder, 0o755)
    subprocess.run([os.path.join(HERE, "..", "stage"), build, folder], check=True, timeout=120)
    return folder


BUILD = staged(os.environ.get("BUILD", "build"))


MAGIC = 0x74627201


def treatment(size=100, said=0, reset=0, priority=8, weight=1, timeslice_us=0, group=b""):
    """struct rbt_treatment, as a tool or a shim sends it; longer ones have zeros at their end."""
    return struct.pack("<9I64s", size, said, reset, priority, weight, timeslice_us, 0, 0, 0, group).ljust(size, b"\0")[:size]


def renice_message(pid, priority, **fields):
    """As `rubato renice PID --priority`, for tests that speak to the daemon themselves."""
    return struct.pack("<IIiI", MAGIC, 5, pid, 0) + treatment(said=2, reset=4, priority=priority, **fields)


def binary(name):
    for folder in ("", "tests/progs", "tests/conformance", "tests/kernels", "tests/cudart", "tests/hw", "bench"):
        path = os.path.join(BUILD, folder, name)
        if os.path.isfile(path):
            return path
    raise SystemExit(f"{name} is not in {BUILD}")


def eventually(what, condition, seconds=20.0):
    """The condition's value once it is true; an AssertionError that says `what` if it never is.

    The limit is for a busy machine, where what takes milliseconds may take seconds. A shorter one is for what would come in any
    case, only too late.
    """
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"never: {what} (last: {value!r})")
        time.sleep(0.02)


def process_status(pid):
    """Name and further fields of /proc/PID/stat, state first; (None, None) if it has gone. In bytes: any may be in a name."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            name, rest = f.read().split(b"(", 1)[1].rsplit(b")", 1)
            return name, rest.split()
    except (OSError, IndexError):
        return None, None


def alive(pid):
    _, fields = process_status(pid)
    return fields is not None and fields[0] not in b"ZX"


def kill_all(pids, number=signal.SIGKILL):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def parent(pid):
    _, fields = process_status(pid)
    return int(fields[1]) if fields else 0


def in_process_session(leader):
    """Without the leader and its like: a sanitizer's helper that is killed leaves its process waiting for ever."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        name, fields = process_status(pid)
        if fields and int(fields[3]) == leader and name != b"rubato-softgpu":
            found.append(int(pid))
    return found


class Program:
    """A running rmclient, perhaps under `rubato run`."""

    def __init__(self, session, argv, **options):
        self.process = subprocess.Popen(session.inside(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=session.env, start_new_session=True, **options)
        line = self.process.stdout.readline()
        found = re.match(r"ready pid=(\d+)", line)
        if not found:
            self.process.kill()
            raise AssertionError(f"{argv}: not ready: {line!r}")
        self.pid = int(found.group(1))

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line):
        self.say(line)
        return self.process.stdout.readline().strip()

    def kill(self, number=signal.SIGKILL):
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            pass

    def end(self):
        """Kills it and whatever it forked."""
        self.kill()
        for pid in in_process_session(self.process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            self.process.communicate(timeout=10)
        except (ValueError, BrokenPipeError):
            self.process.wait(10)


class Session:
    def __init__(self, *server_options):
        self.dir = tempfile.mkdtemp(prefix="rbt-")
        os.chmod(self.dir, 0o711)
        self.programs = []
        self.env = dict(os.environ, RUBATO_IDLE_EXIT_S="2")
        # A sanitized librubato is preloaded into programs whose own runtime comes later in their list.
        self.env["ASAN_OPTIONS"] = self.env.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        self.env["XDG_CONFIG_HOME"] = os.path.join(self.dir, "config")
        # (meson names the folders of all libraries that were built.)
        for name in ("RUBATO_SOFTGPU", "RUBATO_RUNTIME_DIR", "LD_PRELOAD", "LD_LIBRARY_PATH"):
            self.env.pop(name, None)
        self.server_options = server_options if "--quirks" in server_options else ("--quirks", QUIRKS, *server_options)
        # Keeps the device server alive while programs come and go.
        self.device_server = subprocess.Popen(self.inside(["cat"]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.env)
        self.device_server.stdin.write(b"up\n")
        self.device_server.stdin.flush()
        assert self.device_server.stdout.readline() == b"up\n"

    def inside(self, argv):
        return [binary("rubato-softgpu"), "exec", "--session", self.dir, *self.server_options, "--", *argv]

    @property
    def run_dir(self):
        return os.path.join(self.dir, "run")

    def command(self, *argv, timeout=30):
        return subprocess.run(self.inside(argv), capture_output=True, text=True, timeout=timeout, env=self.env,
                              stdin=subprocess.DEVNULL)

    def rubato(self, *args, code=0, timeout=30):
        """Runs a rubato command and checks its exit code. Output and errors come back together with it."""
        done = self.command(binary("rubato"), *map(str, args), timeout=timeout)
        if code is not None:
            assert done.returncode == code, f"rubato {args}: exit {done.returncode}, not {code}: {done.stdout}{done.stderr}"
        return done

    def program(self, *args, under=()):
        program = Program(self, [*under, binary("rmclient"), *map(str, args)])
        self.programs.append(program)
        return program

    def run(self, *options, args=()):
        """rmclient under `rubato run` with these options."""
        return self.program(*args, under=[binary("rubato"), "run", *map(str, options), "--"])

    def softgpu(self, *args):
        done = subprocess.run([binary("rubato-softgpu"), *map(str, args)], capture_output=True, text=True, timeout=20,
                              env=dict(self.env, RUBATO_SOFTGPU=self.dir))
        assert done.returncode == 0, f"rubato-softgpu {args}: {done.stdout}{done.stderr}"
        return done.stdout

    def state(self):
        """What `rubato-softgpu state --json` prints, without a process per look: tests look all the time while they wait.
        (src/softgpu/serve/link.h: struct link_state is answered by a struct link_result with a file.)"""
        fds = []
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
                sock.settimeout(20)
                sock.connect(os.path.join(self.dir, "device.sock"))
                sock.send(struct.pack("<IIQII", 0x53475501, 6, 0, 1, 0))
                _, fds, _, _ = socket.recv_fds(sock, 256, 1)
            assert len(fds) == 1, "the device server has no answer"
            return json.loads(os.pread(fds[0], os.fstat(fds[0]).st_size, 0))
        except OSError as e:
            raise AssertionError(f"no device server: {e}") from e
        finally:
            for fd in fds:
                os.close(fd)

    def tasks(self, pid, kind="compute"):
        """The device's own view of a program's tasks."""
        return [t for t in self.state()["tsgs"] if t["pid"] == pid and (kind is None or t["engine"] == kind)]

    def slices(self, pid, kind="compute"):
        return [t["timeslice_us"] for t in self.tasks(pid, kind)]

    def is_suspended(self, pid):
        tasks = self.tasks(pid, None)
        return bool(tasks) and all(t["enabled"] == 0 for t in tasks)

    def is_running(self, pid):
        tasks = self.tasks(pid, None)
        return bool(tasks) and all(t["enabled"] == t["channels"] and not t["asleep"] and not t["stuck"] for t in tasks)

    def is_off(self, pid):
        """Its compute tasks may not run, its others may: kept off by turns or a reserve."""
        tasks = self.tasks(pid, None)
        return bool(tasks) and all(t["enabled"] == (0 if t["engine"] == "compute" else t["channels"]) for t in tasks)

    def short(self):
        """The pids of runnable tasks with a slice shorter than the driver's, one per task."""
        return [t["pid"] for t in self.state()["tsgs"]
                if t["engine"] == "compute" and t["enabled"] > 0 and t["timeslice_us"] < 2048]

    def crowded(self):
        """Runlists on which several tasks may run at slices far shorter than any driver's: (GPU, runlist). At one look.
        (A compute task that is being set up has 1024 us.)"""
        short = [(t["gpu"], t["runlist"]) for t in self.state()["tsgs"] if t["enabled"] > 0 and t["timeslice_us"] < 1000]
        return sorted({place for place in short if short.count(place) > 1})

    def is_default(self, pid):
        return self.is_running(pid) and all(us == 2048 for us in self.slices(pid)) and \
            all(us == 1024 for us in self.slices(pid, "copy"))

    def is_released(self, pid):
        """As is_default, but for what a program's own shim may set once its daemon is gone: 1000 us."""
        return self.is_default(pid) or (self.is_running(pid) and self.slices(pid) == [1000] and
                                        all(us == 1024 for us in self.slices(pid, "copy")))

    def ps(self):
        return {p["pid"]: p for p in json.loads(self.rubato("ps", "--json").stdout)["programs"]}

    def processes(self, name):
        """Pids of this session's daemon or hand, by its process name; without children that have not got theirs yet."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if process_status(pid)[0] != name.encode():
                    continue
                with open(f"/proc/{pid}/environ", "rb") as f:
                    if f"RUBATO_RUNTIME_DIR={self.run_dir}".encode() in f.read().split(b"\0") and alive(int(pid)):
                        found.append(int(pid))
            except OSError:
                pass
        # A process without a parent has ended meanwhile: a child, most likely.
        return [pid for pid in found if parent(pid) not in (0, *found)]

    def keeper(self):
        return eventually("the keeper runs", lambda: self.processes("rubato-keeper"))[0]

    def unkeep(self):
        """From now on nobody starts the daemon again by itself, for a second at least."""
        kill_all([self.keeper()])

    def forget_deaths(self):
        """A daemon that a test kills on purpose is started again however often that happens."""
        try:
            os.unlink(os.path.join(self.run_dir, "deaths"))
        except FileNotFoundError:
            pass

    def kill_both(self, is_kept=False):
        """Kills daemon and hand at once, so that neither can put anything back; nor does a keeper start them again, unless
        is_kept. Returns the daemon's pid."""
        daemon, hand, keeper = self.daemon(), self.hand(), self.keeper()
        os.kill(daemon, signal.SIGSTOP)
        kill_all([hand, daemon] if is_kept else [keeper, hand, daemon])
        eventually("both have gone", lambda: not alive(daemon) and not alive(hand))
        return daemon

    def end_daemon(self):
        """Kills daemon, hand and keeper, whoever of them there is."""
        for name in ("rubato-keeper", "rubatod", "rubato-hand"):
            kill_all(self.processes(name))

    def listens(self):
        """A daemon accepts connections. (Its socket is there a moment before.)"""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            return sock.connect_ex(os.path.join(self.run_dir, "control.sock")) == 0

    def daemon(self):
        return eventually("rubatod runs", lambda: self.processes("rubatod"))[0]

    def hand(self):
        """After three quick deaths there is none for 5 s, and a second until somebody looks."""
        return eventually("the hand runs", lambda: self.processes("rubato-hand"))[0]

    def log(self):
        try:
            with open(os.path.join(self.run_dir, "rubatod.log")) as f:
                return f.read()
        except OSError:
            return ""

    def close(self):
        for program in self.programs:
            program.end()
        self.end_daemon()
        self.device_server.stdin.close()
        self.device_server.stdout.close()
        self.device_server.wait(10)
        shutil.rmtree(self.dir, ignore_errors=True)


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIP)


def attempt(function):
    """Runs one test in a fresh session; None, or the exception that it ends with. That is printed."""
    session = Session(*getattr(function, "server_options", ()))
    try:
        function(session)
        assert "Sanitizer" not in session.log() and "runtime error" not in session.log(), "rubatod misbehaved"
        return None
    except Exception as failure:
        traceback.print_exc()
        print("rubatod.log:", session.log())
        return failure
    finally:
        session.close()


def holds(name, function):
    """A test that fails has failed; a measurement that is not as wanted is repeated, and ./dev test names it at the end."""
    tries = getattr(function, "tries", 1)
    for i in range(1, tries + 1):
        failure = attempt(function)
        if not isinstance(failure, AssertionError):
            return failure is None
        if i < tries:
            print(f"repeated {name}: attempt {i} of {tries}: {' '.join(str(failure).split())[:200]}", flush=True)
    return False


def main(module="__main__"):
    """Runs every function test_* of the calling file, or those that are named."""
    wanted = sys.argv[1:]
    failures = 0
    for name, function in list(vars(sys.modules[module]).items()):
        if not name.startswith("test_") or (wanted and name not in wanted):
            continue
        started = time.monotonic()
        held = holds(name, function)
        failures += not held
        print(f"ok   {name} ({time.monotonic() - started:.1f} s)" if held else f"FAIL {name}", flush=True)
    sys.exit(1 if failures else 0)


def measured(function):
    """For a test that compares rates, latencies or costs, on a machine whose other work is not ours: it must hold once in three times.

    Only for these, and only in the suite `measured`, which runs alone. What a program does is no measurement.
    """
    function.tries = 3
    return function


def device(*options):
    """Options of the software GPU for one test."""
    def mark(function):
        function.server_options = options
        return function
    return mark
