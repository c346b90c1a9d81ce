# SPDX-License-Identifier: Apache-2.0
"""Kills at every point on NVIDIA, with and without hardware quirks; see kills.py."""
import json
import os
import time

from harness import BUILD, eventually
from kills import FORGOTTEN, OFF, WRONG, Fault, Kind, Scenario, main
from programs import BEST_EFFORT, Requests


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
        return {self.p.pid: ("best-effort", False) if run.tell("renice", self.p.pid, *BEST_EFFORT) else None}


class Suspend(Renice):
    def act(self, run):
        return {self.p.pid: ("normal", True) if run.tell("suspend", self.p.pid) else None}


class Resume(Renice):
    def prepare(self, run):
        super().prepare(run)
        run.s.rubato("suspend", self.p.pid)

    def act(self, run):
        return {self.p.pid: ("normal", False) if run.tell("resume", self.p.pid) else None}


class Attach(Scenario):
    def prepare(self, run):
        run.start_daemon()
        self.p = run.s.program()

    def act(self, run):
        return {self.p.pid: ("best-effort", False) if run.tell("renice", self.p.pid, *BEST_EFFORT) else None}


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


LEVELS = os.path.join(BUILD, "tests", "policies", "levels.bpf.o")


def has_levels(s):
    """Whether the daemon keeps that policy for the next one."""
    try:
        with open(os.path.join(s.run_dir, "policy"), "rb") as file:
            return os.path.basename(LEVELS).encode() in file.read()
    except FileNotFoundError:
        return False


class Load(Renice):
    """A policy that gives all tasks interleave level 2."""

    def load(self, run):
        return run.tell("policy", "load", LEVELS, "--engine", "vm", "--set", "level=2")

    def act(self, run):
        is_loaded = self.load(run)
        return {self.p.pid: ("normal", False, 2) if is_loaded else None}


class Unload(Load):
    def prepare(self, run):
        super().prepare(run)
        self.load(run)
        eventually("its level", lambda: {t["interleave"] for t in run.s.tasks(self.p.pid, None)} == {2})

    def act(self, run):
        is_unloaded = run.tell("policy", "unload")
        return {self.p.pid: ("normal", False, 1) if is_unloaded else None}


POLICY = os.path.join(BUILD, "tests", "policies", "steered.bpf.o")


class Policy(Scenario):
    """A policy in eBPF is loaded while two programs take turns. Once that has succeeded, every daemon has it."""

    def prepare(self, run):
        run.start_daemon()
        self.programs = [run.s.run(*BEST_EFFORT), run.s.run(*BEST_EFFORT)]
        eventually("turns", lambda: all(run.s.slices(p.pid) == [1] for p in self.programs) and len(run.s.short()) == 1)

    def act(self, run):
        eventually("loaded", lambda: run.s.rubato("policy", "load", POLICY, "--engine", "vm", code=None).returncode == 0)
        time.sleep(0.25)
        return {p.pid: ("best-effort", False) for p in self.programs}

    def check(self, run):
        shown = json.loads(run.s.rubato("policy", "show", "--json").stdout)
        if (shown["state"], shown["name"]) != ("loaded", "steered"):
            raise Fault(FORGOTTEN, f"the policy: {shown}")


class Nvidia(Kind):
    # Without clang there is no policy to load.
    scenarios = {c.__name__.lower(): c for c in (Start, Renice, Suspend, Resume, Attach, Turns, Reserve) +
                 ((Load, Unload, Policy) if os.path.exists(POLICY) else ())}
    seconds = 50

    def variants(self, scenario):
        return "none", "all"

    def options(self, variant):
        return "--quirks", variant

    def look(self, s, expected):
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
            level = 2 if has_levels(s) else 1
            if any(t["interleave"] != level for t in mine):
                raise Fault(WRONG, f"interleave levels, not {level}: {mine}")
            if want is not None and len(want) > 2 and want[2] != level:
                raise Fault(FORGOTTEN, f"the policy: {seen}")
            if want is not None and (row.get("class") not in (want[0], None if want[0] == "normal" else want[0])
                                     or said_off != want[1]):
                raise Fault(FORGOTTEN, seen)
        short = s.short()
        if len(short) > 1:
            raise Fault(WRONG, f"short slices meet: {short}")

    def watch_turns(self, s, expected):
        """Each of the best-effort programs has the GPU at some time."""
        pids = {pid for pid, want in expected.items() if want is not None and want[0] == "best-effort"}
        end = time.monotonic() + 3.0
        left = set(pids)
        while left and time.monotonic() < end:
            left -= {t["pid"] for t in s.state()["tsgs"] if t["engine"] == "compute" and t["enabled"] > 0}
        if left:
            raise Fault(OFF, f"{left} never run")


main(Nvidia())
