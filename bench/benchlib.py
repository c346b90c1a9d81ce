# SPDX-License-Identifier: Apache-2.0
"""What the benchmark scripts share: driving programs, calling rubato, statistics, and facts of the machine.

A benchmark program reads commands as lines on standard input and answers each with one line of JSON on standard
output; it prints {"ready": NAME, "pid": N, …} once it can be talked to, and ends at end of file.
"""
import datetime
import importlib.util
import json
import os
import pwd
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))


class Failure(Exception):
    """Ends a benchmark with one line."""


# --- statistics ---------------------------------------------------------------------------------------------


def percentile(values, p):
    """Nearest rank: always one of the values."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * p // 100) - 1)]


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def summary(values):
    return {"p50": percentile(values, 50), "p90": percentile(values, 90), "p99": percentile(values, 99),
            "max": max(values)}


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


# --- the machine --------------------------------------------------------------------------------------------


def first_line(argv):
    try:
        run = subprocess.run(argv, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = run.stdout.strip().splitlines()
    return lines[0] if run.returncode == 0 and lines else None


def driver_from_proc():
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8") as file:
            found = re.search(r"\b\d{3}\.\d+(\.\d+)?\b", file.readline())
    except OSError:
        return None
    return found and found.group()


def machine():
    """Date, GPU and driver; what is unknown is None."""
    line = first_line(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"])
    gpu, driver = ([part.strip() for part in line.split(",", 1)] if line and "," in line else (None, None))
    if driver is None:
        driver = driver_from_proc()
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            "gpu": gpu, "driver": driver, "kernel": os.uname().release, "cores": os.cpu_count()}


def machine_line(facts):
    return f"{facts['gpu'] or 'unknown GPU'}, driver {facts['driver'] or 'unknown'}, {facts['date']}"


def has_torch():
    return all(importlib.util.find_spec(name) for name in ("torch", "torchvision"))


def choose_programs(asked):
    return ("torch" if has_torch() else "c") if asked == "auto" else asked


def default_build():
    return os.environ.get("BUILD") or os.path.join(os.path.dirname(HERE), "build")


# --- programs -----------------------------------------------------------------------------------------------


def split_cpus():
    """Cores for the latency program and for its neighbours, so that the two meet on the GPU alone: what a
    process loses to another on its core is not what is measured. (None, None) where there are few."""
    cpus = sorted(os.sched_getaffinity(0))
    return (set(cpus[:4]), set(cpus[4:])) if len(cpus) >= 8 else (None, None)


class Program:
    def __init__(self, name, argv, env, cpus=None):
        self.name = name
        self.ready = None
        self.answers = queue.Queue()
        try:
            self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env,
                                            text=True, preexec_fn=cpus and
                                            (lambda: os.sched_setaffinity(0, cpus)))
        except OSError as error:
            raise Failure(f"cannot start {argv[0]}: {error.strerror}") from error
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            try:
                self.answers.put(json.loads(line))
            except ValueError:  # libraries print to standard output as they like
                sys.stderr.write(f"{self.name}: {line}")
        self.answers.put(None)

    def _answer(self, what, timeout_s):
        try:
            answer = self.answers.get(timeout=timeout_s)
        except queue.Empty:
            raise Failure(f"{self.name} did not answer to '{what}' within {timeout_s:.0f} s") from None
        if answer is None:
            raise Failure(f"{self.name} ended (exit status {self.process.wait()}) at '{what}'")
        if not isinstance(answer, dict) or "error" in answer:
            raise Failure(f"{self.name} answered to '{what}': {answer}")
        return answer

    def await_ready(self, timeout_s=150):
        self.ready = self._answer("start", timeout_s)
        return self.ready

    @property
    def pid(self):
        return self.ready["pid"]  # the program's own: `rubato run` may stand between us

    def ask(self, command, timeout_s=20):
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except OSError:
            pass  # it has ended: said below
        return self._answer(command, timeout_s)

    def await_count(self, at_least, timeout_s=90):
        """Until it has done that much work: past its slow first iterations."""
        end = time.monotonic() + timeout_s
        while self.ask("count")["count"] < at_least:
            if time.monotonic() > end:
                raise Failure(f"{self.name} did not come up to speed within {timeout_s} s")
            time.sleep(0.05)

    def stop(self):
        try:
            self.process.stdin.close()
            self.process.wait(timeout=5)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


def rate(before, after):
    """Work per second between two answers to `count`."""
    return (after["count"] - before["count"]) * 1e9 / (after["now_ns"] - before["now_ns"])


def at_edge(program, timeout_s=2):
    """The answer to `count` just after it has changed: a program that does 15 units of work a second is otherwise
    measured to 3 % in 2 s. As it is, if it does not change."""
    first = last = program.ask("count")
    end = time.monotonic() + timeout_s
    while last["count"] == first["count"] and time.monotonic() < end:
        time.sleep(0.005)
        last = program.ask("count")
    return last


def rates_over(programs, seconds):
    before = [at_edge(program) for program in programs]
    time.sleep(seconds)
    return [rate(b, at_edge(program)) for b, program in zip(before, programs)]


def argv_of(kind, role, build):
    """The program of that kind ("c", "torch") for that role ("latency", "besteffort")."""
    if kind == "c":
        return [os.path.join(build, "bench", role)]
    script = {"latency": "torch_latency.py", "besteffort": "torch_train.py"}[role]
    return [sys.executable, os.path.join(HERE, script)]


def name_process(name):
    """Policies tell programs apart by their names."""
    with open("/proc/self/comm", "w", encoding="utf-8") as comm:
        comm.write(name)


WARM_COUNT = {"c": 200, "torch": 20}


# --- rubato -------------------------------------------------------------------------------------------------


class Session:
    """Programs and a private rubato daemon that end with it. Drops to another user first, if one is named."""

    def __init__(self, build, user=None, env=None, config=None):
        self.programs = []
        self.daemon_pids = {}
        self.calls = []  # rubato's own times
        self.rubato_path = os.path.join(os.path.abspath(build), "rubato")
        if user is not None:
            become(user)
        self.dir = tempfile.mkdtemp(prefix="rubato-bench-")
        self.env = dict(os.environ, RUBATO_RUNTIME_DIR=self.dir, **(env or {}))
        if user is not None:
            self.env["HOME"] = self.dir
            self.env.pop("XDG_RUNTIME_DIR", None)
        if config is not None:
            self.start_daemon(build, config)

    def start_daemon(self, build, config):
        """With a configuration of its own; `rubato run` would start one with the user's."""
        ready, ready_too = os.pipe()
        try:
            subprocess.Popen([os.path.join(os.path.abspath(build), "rubatod"), "--config", config, "--ready-fd",
                              str(ready_too)], env=self.env, pass_fds=[ready_too], stdin=subprocess.DEVNULL)
        except OSError as error:
            raise Failure(f"cannot start rubatod: {error.strerror}") from error
        os.close(ready_too)
        if os.read(ready, 1) == b"":
            raise Failure(f"rubatod did not start with {config}")
        os.close(ready)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for program in self.programs:
            program.stop()
        end_processes_of(self.dir)
        shutil.rmtree(self.dir, ignore_errors=True)

    def start(self, name, argv, run_options=None, cpus=None):
        """Starts a program, under `rubato run` when options for it are given."""
        if run_options is not None:
            argv = [self.rubato_path, "run", *run_options, "--", *argv]
        self.programs.append(Program(name, argv, self.env, cpus))
        return self.programs[-1]

    def rubato(self, *args):
        """Calls the tool and returns what it printed; its time is kept, process start included."""
        start = time.monotonic()
        try:
            run = subprocess.run([self.rubato_path, *map(str, args)], env=self.env, capture_output=True,
                                 text=True, timeout=30)
        except OSError as error:
            raise Failure(f"cannot start {self.rubato_path}: {error.strerror}") from error
        except subprocess.TimeoutExpired:
            raise Failure(f"rubato {args[0]} did not end within 30 s") from None
        self.calls.append({"args": [str(a) for a in args], "ms": (time.monotonic() - start) * 1e3,
                           "said": (run.stdout + run.stderr).strip()})
        if run.returncode != 0:
            raise Failure(f"rubato {' '.join(map(str, args))} failed ({run.returncode}): {run.stderr.strip()}")
        return run.stdout

    def daemon_cpu_s(self):
        """(what the daemon has taken of the CPU so far, what its hand has); 0 while there is none."""
        if not self.daemon_pids:
            mark = f"RUBATO_RUNTIME_DIR={self.dir}".encode()
            named = {pid: name_of(pid) for pid in processes_with(mark)}
            self.daemon_pids = {pid: name for pid, name in named.items() if name in ("rubatod", "rubato-hand")}
        return tuple(sum(cpu_s(pid) for pid, name in self.daemon_pids.items() if name == one)
                     for one in ("rubatod", "rubato-hand"))

    def ps(self):
        """What the tool says of every program: evidence, so that a failure is kept and ends nothing."""
        try:
            return json.loads(self.rubato("ps", "--json"))
        except (Failure, ValueError) as error:
            return str(error)


def become(user):
    """Gives up root for good."""
    try:
        entry = pwd.getpwuid(int(user)) if user.isdigit() else pwd.getpwnam(user)
        os.setgroups([])
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)
    except (KeyError, PermissionError) as error:
        raise Failure(f"cannot become user {user}: {error}") from error
    os.chdir("/")


def end_processes_of(runtime_dir):
    """Ends what the session started and did not wait for (daemons), known by the runtime directory they were given."""
    mark = f"RUBATO_RUNTIME_DIR={runtime_dir}".encode()
    for sig, patience_s in ((signal.SIGTERM, 2), (signal.SIGKILL, 1)):
        end = time.monotonic() + patience_s
        pids = processes_with(mark)
        for pid in pids:
            try:
                os.kill(pid, sig)
            except OSError:
                pass
        while pids and time.monotonic() < end:
            time.sleep(0.02)
            pids = processes_with(mark)
        if not pids:
            return


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None


def cpu_s(pid):
    """All its threads; what has ended has taken nothing."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def processes_with(mark):
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if mark in file.read().split(b"\0"):
                        found.append(int(name))
            except OSError:
                pass
    return found


# --- programs written in Python -----------------------------------------------------------------------------


def answer(**fields):
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def obey(handlers):
    """Runs handlers[command](*words) for each line until `quit` or end of file; each answers for itself."""
    for line in sys.stdin:
        words = line.split()
        if words == ["quit"]:
            break
        try:
            handlers[words[0]](*words[1:])
        except (KeyError, IndexError, TypeError, ValueError):
            answer(error="unknown command")
