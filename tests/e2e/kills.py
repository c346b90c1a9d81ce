# SPDX-License-Identifier: Apache-2.0
"""Daemon, hand, or both are killed before and after each of their messages, driver calls and changes of files.

tests/progs/killer.c does the killing. A scenario is first run without a kill, to count its points; then one run per point
asks the device, 3 s after the kill: no program is off, no setting is wrong, and what a tool was told with exit code 0 holds.

test_kill_points.py (NVIDIA) and test_kfd_kill_points.py (AMD) have the scenarios, and know how to ask their device. `./dev
test` runs a sample of the points, chosen by the commit, for RUBATO_TEST_SECONDS; --long runs all of them. One point again:
test_kill_points.py renice:daemon:before:self:17:none
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

WORKERS = int(os.environ.get("RUBATO_TEST_WORKERS", 10))
SETTLE_S = 3.0
OFF, WRONG, FORGOTTEN = "left off", "wrong", "forgotten"

Point = collections.namedtuple("Point", "scenario role when whom at variant")


class Fault(Exception):
    """What is not as it should be, 3 s after a kill."""

    def __init__(self, kind, text):
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Run:
    """A session whose first daemon has the killer inside."""

    def __init__(self, kind, point):
        self.kind, self.s = kind, Session(*kind.options(point.variant))
        self.arm_path, self.log_path = os.path.join(self.s.dir, "arm"), os.path.join(self.s.dir, "points")
        self.point, self.is_refused = point, False

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

    def tell(self, *args):
        """Whether this rubato command has succeeded."""
        is_done = self.s.rubato(*args, code=None, timeout=60).returncode == 0
        self.is_refused = self.is_refused or not is_done
        return is_done

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


class Scenario:
    """prepare(run), then act(run) while points count. Acting returns what must hold, by pid: a tuple of the class, whether the
    program is suspended, and whatever else the kind of device checks; or None if the command for that pid has failed."""

    def __init__(self, variant):
        self.variant = variant

    def go_on(self):
        """While the next daemon takes over."""

    def check(self, run):
        """Afterwards: raises a Fault if something else does not hold."""


class Kind:
    """A kind of device, with its scenarios by name. Each variant of each scenario is counted and run."""

    scenarios, seconds = {}, 0

    def variants(self, scenario):
        raise NotImplementedError

    def options(self, variant):
        """Of rubato-softgpu exec."""
        raise NotImplementedError

    def look(self, s, expected):
        """Raises the first Fault there is."""
        raise NotImplementedError

    def watch_turns(self, s, expected):
        """Raises a Fault unless each program that may run does so at some time."""
        raise NotImplementedError

    def check_names(self, names):
        """Raises an AssertionError if the names of all counted points lack one that this kind must have."""


def check(run, expected):
    """At some moment within a second all is as it should be, and nobody waits for longer than that. (A listing and a look at
    the device are not one moment: a turn may change in between.)"""
    end, last = time.monotonic() + 1.0, None
    while True:
        began = time.monotonic()
        try:
            return run.kind.look(run.s, expected)
        except Fault as e:
            if began > end and (str(e) == last or began > end + 2):
                raise
            last = str(e)
            time.sleep(0.05)


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
        if not alive(pid):
            raise Fault(WRONG, f"{pid} died of it")
    check(run, expected)
    scenario.check(run)
    run.kind.watch_turns(run.s, expected)


def one(kind, point):
    """What was counted, or the point that was reached; and whether a tool was told that it failed. Raises Fault."""
    run, scenario = Run(kind, point), kind.scenarios[point.scenario](point.variant)
    try:
        scenario.prepare(run)
        run.arm()
        expected = scenario.act(run)
        if point.at != 0:
            settle(run, scenario, expected)
        return run.points(), run.is_refused
    except Exception:
        print(f"rubatod.log of {':'.join(map(str, point))}: {run.s.log()}", flush=True)
        raise
    finally:
        run.close()


def count(kind, scenario, role, variant):
    """The points, and the names of what was counted."""
    lines = one(kind, Point(scenario, role, "before", "self", 0, variant))[0]
    return [Point(scenario, role, when, whom, at, variant) for at in range(1, len(lines) + 1)
            for when in ("before", "after") for whom in ("self", "both")], {line.split(" ", 1)[1] for line in lines}


def count_all(kind):
    pairs = [(kind, s, r, v) for s in kind.scenarios for v in kind.variants(s) for r in ("daemon", "hand")]
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        counted = list(pool.map(lambda a: count(*a), pairs))
    kind.check_names(set().union(*(names for _, names in counted)))
    return [p for points, _ in counted for p in points]


def commit():
    """A number that changes with the commit."""
    done = subprocess.run(["git", "-C", os.path.dirname(os.path.abspath(__file__)), "rev-parse", "HEAD"],
                          capture_output=True, text=True)
    return done.stdout.strip() or "none"


class Tally:
    def __init__(self, kind):
        self.kind, self.lock = kind, threading.Lock()
        self.n, self.n_reached, self.n_refused, self.faults, self.errors = 0, 0, 0, collections.Counter(), []

    def add(self, point):
        name = ":".join(map(str, point))
        try:
            reached, refused = one(self.kind, point)
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


def main(kind):
    if len(sys.argv) > 1:
        names = [p.split(":") for p in sys.argv[1:]]
        points = [Point(s, r, w, m, int(at), v) for s, r, w, m, at, v in names]
        n_all = len(points)
    else:
        points = count_all(kind)
        n_all = len(points)
        seed = os.environ.get("RUBATO_TEST_SEED", commit())
        print(f"     {n_all} points; sample by {seed}", flush=True)
        random.Random(seed).shuffle(points)
    seconds = int(os.environ.get("RUBATO_TEST_SECONDS", 7000 if LONG else kind.seconds))
    tally, end = Tally(kind), time.monotonic() + seconds

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
