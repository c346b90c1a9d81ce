# SPDX-License-Identifier: Apache-2.0
"""Daemon, hand, or both are killed before and after each of their messages, driver calls and changes of files.

tests/progs/killer.c does the killing. A scenario is first run without a kill, to count its points; then one run per point
asks the device, 3 s after the kill: nobody is off, no slice is wrong, and what a tool was told with exit code 0 holds.

In `./dev test` a sample of the points, chosen by the commit, for RUBATO_TEST_SECONDS (90); with --long all of them, with
and without hardware quirks. One point again: test_kill_points.py renice:daemon:before:self:17:none
"""
import collections
import concurrent.futures
import os
import random
import subprocess
import sys
import threading
import time
import traceback

from harness import LONG, Session, alive, binary, eventually
from programs import BEST_EFFORT, Requests

SECONDS = int(os.environ.get("RUBATO_TEST_SECONDS", 7000 if LONG else 90))
WORKERS = int(os.environ.get("RUBATO_TEST_WORKERS", 10))
QUIRKS = ("none", "all")
SETTLE_S = 3.0
OFF, WRONG, FORGOTTEN = "left off", "wrong", "forgotten"

Point = collections.namedtuple("Point", "scenario role when whom at quirks")


class Fault(Exception):
    """What is not as it should be, 3 s after a kill."""

    def __init__(self, kind, text):
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Run:
    """A session whose first daemon has the killer inside."""

    def __init__(self, point):
        self.s = Session("--quirks", point.quirks)
        self.arm_path, self.log_path = os.path.join(self.s.dir, "arm"), os.path.join(self.s.dir, "points")
        self.point = point

    def start_daemon(self, is_armed=False):
        p = self.point
        plan = {"ROLE": p.role, "AT": p.at, "WHEN": p.when, "WHOM": p.whom, "LOG": self.log_path}
        if not is_armed:
            plan["ARM"] = self.arm_path
        env = dict(self.s.env, LD_PRELOAD=binary("killer.so"), **{f"KILLER_{k}": str(v) for k, v in plan.items()})
        # As `rubato` starts it: nobody's child here, and idle for longer than this test takes.
        argv = ["env", f"LD_PRELOAD={env.pop('LD_PRELOAD')}", binary("rubatod"), "--keep", "--idle-exit-s", "30"]
        log = os.path.join(self.s.run_dir, "rubatod.log")
        os.makedirs(self.s.run_dir, mode=0o700, exist_ok=True)
        with open(log, "a") as f:
            self.process = subprocess.Popen(self.s.inside(argv), env=env, stdin=subprocess.DEVNULL, stdout=f, stderr=f,
                                            start_new_session=True)
        if not is_armed:
            eventually("the socket is there", lambda: os.path.exists(os.path.join(self.s.run_dir, "control.sock")), 20)

    def arm(self):
        with open(self.arm_path, "w"):
            pass

    def disarm(self):
        """The questions of this test must not reach the point. Once there is a log, nobody is killed any more."""
        with open(self.log_path, "a"):
            pass

    def points(self):
        """As many as were counted, or the one of the kill."""
        try:
            with open(self.log_path) as f:
                return f.read().splitlines()
        except OSError:
            return []

    def close(self):
        self.s.close()
        self.process.kill()
        self.process.wait(10)


# Each scenario: prepare, then act while points count. Acting returns what must hold: {pid: (class, is_suspended)}, with
# None for a pid of which a tool was told that it failed.

def told(done, yes):
    return yes if done.returncode == 0 else None


class Scenario:
    def go_on(self):
        """While the next daemon takes over."""


class Start(Scenario):
    """The daemon starts, and a program under it."""

    def prepare(self, run):
        run.start_daemon(is_armed=True)

    def act(self, run):
        p = run.s.run(*BEST_EFFORT)
        return {p.pid: ("best-effort", False)}


class Renice(Scenario):
    def prepare(self, run):
        run.start_daemon()
        self.p = run.s.run("--class", "normal")
        eventually("managed", lambda: self.p.pid in run.s.ps())

    def act(self, run):
        done = run.s.rubato("renice", self.p.pid, *BEST_EFFORT, code=None, timeout=60)
        return {self.p.pid: told(done, ("best-effort", False))}


class Suspend(Renice):
    def act(self, run):
        done = run.s.rubato("suspend", self.p.pid, code=None, timeout=60)
        return {self.p.pid: told(done, ("normal", True))}


class Resume(Renice):
    def prepare(self, run):
        super().prepare(run)
        run.s.rubato("suspend", self.p.pid)

    def act(self, run):
        done = run.s.rubato("resume", self.p.pid, code=None, timeout=60)
        return {self.p.pid: told(done, ("normal", False))}


class Attach(Scenario):
    def prepare(self, run):
        run.start_daemon()
        self.p = run.s.program()

    def act(self, run):
        done = run.s.rubato("renice", self.p.pid, *BEST_EFFORT, code=None, timeout=60)
        return {self.p.pid: told(done, ("best-effort", False))}


class Turns(Scenario):
    """One program under `rubato run` and one attached: the GPU changes hands every 100 ms."""

    def prepare(self, run):
        run.start_daemon()
        self.programs = [run.s.run(*BEST_EFFORT), run.s.program()]
        run.s.rubato("renice", self.programs[1].pid, *BEST_EFFORT)
        eventually("turns", lambda: all(run.s.slices(p.pid) == [1] for p in self.programs) and len(run.s.short()) == 1)

    def act(self, run):
        time.sleep(0.25)
        return {p.pid: ("best-effort", False) for p in self.programs}


class Reserve(Scenario):
    """Requests of a latency program keep a best-effort program off, and let it back."""

    def prepare(self, run):
        run.start_daemon()
        self.requests = Requests(run.s, "--class", "latency")
        self.p = run.s.run(*BEST_EFFORT)
        eventually("1 us", lambda: run.s.slices(self.p.pid) == [1])

    def act(self, run):
        # Requests with gaps: reserved for from the first.
        self.requests.ask("measure gaps 6 40 1")
        return {self.p.pid: ("best-effort", False), self.requests.pid: ("latency", False)}

    def go_on(self):
        """A program that does nothing at all does not notice that its daemon is another."""
        self.requests.ask("measure graph 1 1000 1")


SCENARIOS = {c.__name__.lower(): c for c in (Start, Renice, Suspend, Resume, Attach, Turns, Reserve)}


def look(s, expected):
    """Raises the first Fault there is."""
    tasks = {}
    for t in s.state()["tsgs"]:
        tasks.setdefault(t["pid"], []).append(t)
    rows = s.ps()
    n_best_effort = sum(row["class"] == "best-effort" for row in rows.values())
    for pid, want in expected.items():
        mine, row = tasks[pid], rows.get(pid, {})
        seen = [(t["engine"], t["timeslice_us"], f"{t['enabled']}/{t['channels']}", t["asleep"], t["stuck"]) for t in mine]
        seen = f"{pid} {want}: {seen} {row.get('class')} {row.get('state')} managed {row.get('managed')} {row.get('note')}"
        is_off = [t["enabled"] < t["channels"] for t in mine]
        is_stuck = any(t["asleep"] or t["stuck"] for t in mine)
        said_off = row.get("state") == "suspended"
        waits = n_best_effort > 1 and row.get("class") == "best-effort" or row.get("state") == "waiting"
        if (any(is_off) and not said_off and not waits) or is_stuck or (said_off and not all(is_off)):
            raise Fault(OFF, seen)
        compute = {t["timeslice_us"] for t in mine if t["engine"] == "compute"}
        copies = {t["timeslice_us"] for t in mine if t["engine"] == "copy"}
        right = {"best-effort": {1}, "latency": {2048, 10000}}.get(row.get("class"), {2048})
        # Short copy tasks of two programs would meet: they do not take turns.
        right_copies = {1} if row.get("class") == "best-effort" and n_best_effort == 1 else {1024}
        if said_off:
            right, right_copies = right | {2048}, right_copies | {1024}
        if not compute <= right or not copies or not copies <= right_copies:
            raise Fault(WRONG, seen)
        if want is not None and (row.get("class") not in (want[0], None if want[0] == "normal" else want[0])
                                 or said_off != want[1]):
            raise Fault(FORGOTTEN, seen)
    short = s.short()
    if len(short) > 1:
        raise Fault(WRONG, f"short slices meet: {short}")


def check(s, expected):
    """At some moment within a second all is as it should be, and nobody waits for longer than that. (A listing and a look at
    the device are not one moment: a turn may change in between.)"""
    end, last = time.monotonic() + 1.0, None
    while True:
        began = time.monotonic()
        try:
            return look(s, expected)
        except Fault as e:
            if began > end and (str(e) == last or began > end + 2):
                raise
            last = str(e)
            time.sleep(0.05)


def has_turns(s, expected):
    """Each of the best-effort programs has the GPU at some time."""
    pids = {pid for pid, want in expected.items() if want is not None and want[0] == "best-effort"}
    end = time.monotonic() + 3.0
    left = set(pids)
    while left and time.monotonic() < end:
        left -= {t["pid"] for t in s.state()["tsgs"] if t["engine"] == "compute" and t["enabled"] > 0}
    if left:
        raise Fault(OFF, f"{left} never run")


def has_come(condition, seconds):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)


def settle(run, scenario, expected):
    """Waits, then looks."""
    has_come(run.points, 1.0)
    run.disarm()
    end = time.monotonic() + SETTLE_S
    while time.monotonic() < end:
        scenario.go_on()
        time.sleep(0.25)
    for pid in expected:
        assert alive(pid), f"{pid} died of it"
    check(run.s, expected)
    has_turns(run.s, expected)


def one(point):
    """What was counted, or the point that was reached; and whether a tool was told that it failed. Raises Fault."""
    run, scenario = Run(point), SCENARIOS[point.scenario]()
    try:
        scenario.prepare(run)
        run.arm()
        expected = scenario.act(run)
        if point.at != 0:
            settle(run, scenario, expected)
        return run.points(), None in expected.values()
    except Exception:
        print(f"rubatod.log of {':'.join(map(str, point))}: {run.s.log()}", flush=True)
        raise
    finally:
        run.close()


def count(scenario, role, quirks):
    n = len(one(Point(scenario, role, "before", "self", 0, quirks))[0])
    return [Point(scenario, role, when, whom, at, quirks) for at in range(1, n + 1)
            for when in ("before", "after") for whom in ("self", "both")]


def commit():
    """A number that changes with the commit."""
    done = subprocess.run(["git", "-C", os.path.dirname(os.path.abspath(__file__)), "rev-parse", "HEAD"],
                          capture_output=True, text=True)
    return done.stdout.strip() or "none"


class Tally:
    def __init__(self):
        self.lock = threading.Lock()
        self.n, self.n_reached, self.n_refused, self.faults, self.errors = 0, 0, 0, collections.Counter(), []

    def add(self, point):
        name = ":".join(map(str, point))
        try:
            reached, refused = one(point)
            with self.lock:
                self.n += 1
                self.n_reached += bool(reached)
                self.n_refused += refused
        except Fault as e:
            with self.lock:
                self.n += 1
                self.faults[e.kind] += 1
            print(f"{name}: {e}", flush=True)
        except Exception:
            with self.lock:
                self.n += 1
                self.errors.append(name)
            print(f"{name}: {traceback.format_exc()}", flush=True)


def main():
    if len(sys.argv) > 1:
        names = [p.split(":") for p in sys.argv[1:]]
        points = [Point(s, r, w, m, int(at), q) for s, r, w, m, at, q in names]
        n_all = len(points)
    else:
        pairs = [(s, r, q) for q in QUIRKS for s in SCENARIOS for r in ("daemon", "hand")]
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            points = [p for some in pool.map(lambda a: count(*a), pairs) for p in some]
        n_all = len(points)
        seed = os.environ.get("RUBATO_TEST_SEED", commit())
        print(f"     {n_all} points; sample by {seed}", flush=True)
        random.Random(seed).shuffle(points)
    tally, end = Tally(), time.monotonic() + SECONDS

    def work(point):
        if time.monotonic() < end:
            tally.add(point)

    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(work, points))
    f = tally.faults
    print(f"{tally.n} of {n_all} points, {f[OFF]} left off, {f[WRONG]} wrong, {f[FORGOTTEN]} forgotten "
          f"({tally.n_reached} killed; {tally.n_refused} tools failed; {len(tally.errors)} failed to run)", flush=True)
    # A run in which hardly anybody was killed, or tools were told nothing that could hold, shows nothing.
    is_empty = tally.n_reached < tally.n * 0.5 or tally.n_refused > max(1, tally.n * 0.1)
    sys.exit(1 if f or tally.errors or is_empty else 0)


main()
