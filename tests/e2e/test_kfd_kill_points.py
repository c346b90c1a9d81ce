# SPDX-License-Identifier: Apache-2.0
"""Kills at every point on AMD; see kills.py. Programs under `rubato run` have an agent, attached ones a debug session.

No packet is restarted. Running queues have the program's own percentage, and the priority of its class.
"""
import collections
import time

from harness import Program, binary, eventually
from kills import FORGOTTEN, OFF, WRONG, Fault, Kind, Scenario, has_come, main
from programs import BEST_EFFORT, Asked

RUN, ATTACHED = "run", "attached"
# The client's own priority is 7. A debug session cannot change it.
OWN, LOW, HIGH = 7, 2, 12
Want = collections.namedtuple("Want", "cls is_suspended off on")


def client(run, under=()):
    """Its compute queues have the numbers 0 and 1, its copy queues 2 and 3. All have packets at all times."""
    p = Program(run.s, [*under, binary("kfdclient"), "--busy"])
    p.has_agent = under != ()
    run.s.programs.append(p)
    return p


def under_run(run, *options):
    return client(run, [binary("rubato"), "run", *options, "--"])


def is_linked(s, p):
    """The daemon has a record from the program's own shim."""
    row = s.ps().get(p.pid)
    return row is not None and row["managed"] and not row["attached"]


def queues(s, pid, kind=None):
    return [q for q in s.state()["kfd"]["queues"] if q["pid"] == pid and kind in (None, q["type"])]


def is_off(s, p):
    return not any(q["enabled"] for q in queues(s, p.pid, "aql"))


def want(name, is_suspended=False, off=(), on=(0, 1, 2, 3)):
    """Class, whether all of it is suspended, and which queues are suspended and which are not."""
    return Want(name, is_suspended, set(off), set() if is_suspended else set(on))


class Start(Scenario):
    """The daemon starts, and a program under it."""

    def prepare(self, run):
        run.start_daemon(is_armed=True)

    def act(self, run):
        p = under_run(run, *BEST_EFFORT)
        # Its agent speaks to the daemon while the program goes on.
        has_come(lambda: all(q["priority"] == LOW for q in queues(run.s, p.pid)), 5.0)
        return {p.pid: want("best-effort")}


class One(Scenario):
    """One normal program."""

    def prepare(self, run):
        run.start_daemon()
        self.p = under_run(run, "--class", "normal") if self.variant == RUN else client(run)
        if self.variant == RUN:
            eventually("managed", lambda: is_linked(run.s, self.p))


class Renice(One):
    def act(self, run):
        return {self.p.pid: want("best-effort") if run.tell("renice", self.p.pid, *BEST_EFFORT) else None}


class Suspend(One):
    def act(self, run):
        return {self.p.pid: want("normal", True) if run.tell("suspend", self.p.pid) else None}


class Resume(One):
    def prepare(self, run):
        super().prepare(run)
        run.s.rubato("suspend", self.p.pid)

    def act(self, run):
        is_done = run.tell("resume", self.p.pid)
        # A debug session ends a second after its last use.
        has_come(lambda: not any(p["debugged"] for p in run.s.state()["kfd"]["processes"]), 2.0)
        return {self.p.pid: want("normal") if is_done else None}


class SuspendQueue(One):
    """One queue is off already. It stays off, also if the order for the second one fails."""

    def prepare(self, run):
        super().prepare(run)
        run.s.rubato("suspend", self.p.pid, "--queue", 0)

    def act(self, run):
        is_done = run.tell("suspend", self.p.pid, "--queue", 1)
        return {self.p.pid: want("normal", off=(0, 1) if is_done else (0,), on=(2, 3))}


class ResumeQueue(One):
    """Two queues are off; one is resumed, and the other stays off."""

    def prepare(self, run):
        super().prepare(run)
        run.s.rubato("suspend", self.p.pid, "--queue", "0,1")

    def act(self, run):
        is_done = run.tell("resume", self.p.pid, "--queue", 1)
        return {self.p.pid: want("normal", off=(0,), on=(1, 2, 3) if is_done else (2, 3))}


class Attach(One):
    """The attached program then takes turns with one under `rubato run`."""

    def prepare(self, run):
        super().prepare(run)
        self.other = under_run(run, *BEST_EFFORT)
        eventually("managed", lambda: is_linked(run.s, self.other))

    def act(self, run):
        return {self.p.pid: want("best-effort") if run.tell("renice", self.p.pid, *BEST_EFFORT) else None,
                self.other.pid: want("best-effort")}


class Turns(Scenario):
    """One program under `rubato run` and one attached: the GPU changes hands every 100 ms."""

    def prepare(self, run):
        run.start_daemon()
        self.programs = [under_run(run, *BEST_EFFORT), client(run)]
        run.s.rubato("renice", self.programs[1].pid, *BEST_EFFORT)
        for p in self.programs:
            eventually("it waits", lambda: is_off(run.s, p))

    def act(self, run):
        time.sleep(0.25)
        return {p.pid: want("best-effort") for p in self.programs}


class Reserve(One):
    """Requests of a latency program keep a best-effort program off, and let it back."""

    def prepare(self, run):
        super().prepare(run)
        run.s.rubato("renice", self.p.pid, *BEST_EFFORT)
        self.requests = Asked(run.s, [binary("kfdclient"), "--json", "--queues", "1", "--sdma", "0"], ("--class", "latency"))
        self.requests.has_agent = True
        eventually("managed", lambda: is_linked(run.s, self.requests))

    def act(self, run):
        # Requests of 20 packets, 40 of them a second.
        self.requests.ask("measure 20 6 40 1")
        return {self.p.pid: want("best-effort"), self.requests.pid: want("latency", on=(0,))}


VARIANTS = {Start: (RUN,), Renice: (RUN,), Attach: (ATTACHED,), Turns: ("both",)}


class Amd(Kind):
    scenarios = {c.__name__.lower(): c for c in (Start, Renice, Suspend, Resume, SuspendQueue, ResumeQueue, Attach, Turns,
                                                 Reserve)}
    seconds = 45

    def variants(self, scenario):
        return VARIANTS.get(self.scenarios[scenario], (RUN, ATTACHED))

    def options(self, variant):
        return "--amd-gpus", "1"

    def check_names(self, names):
        # Messages to and from the agent; enable, disable, suspend and resume of a debug session; ptrace; the state file.
        missing = {"send", "recv", *(f"ioctl c0204b26 op {op}" for op in (0, 1, 6, 7)), "ptrace", "rename"} - names
        assert not missing, f"not counted: {missing}"

    def look(self, s, expected):
        state, rows = s.state()["kfd"], s.ps()
        n_best_effort = sum(row["class"] == "best-effort" for row in rows.values())
        for p in (p for p in s.programs if p.pid in expected):
            mine = {q["handle"]: q for q in state["queues"] if q["pid"] == p.pid}
            look_at(p, expected[p.pid], mine, rows.get(p.pid, {}), n_best_effort > 1)
        if state["totals"]["oopses"] != 0:
            raise Fault(WRONG, f"the kernel crashed: {state['totals']}")

    def watch_turns(self, s, expected):
        """Each program with packets makes progress, unless it is suspended."""
        left = {pid for pid, w in expected.items() if w is not None and not w.is_suspended and w.cls != "latency"}
        before, end = completed(s), time.monotonic() + 3.0
        while left and time.monotonic() < end:
            now = completed(s)
            left = {pid for pid in left if now[pid] == before[pid]}
        if left:
            raise Fault(OFF, f"{left} never run")


def completed(s):
    """Packets of each program that have run."""
    sums = collections.Counter()
    for q in s.state()["kfd"]["queues"]:
        sums[q["pid"]] += q["completed"]
    return sums


def look_at(p, wanted, mine, row, has_turns):
    """One program: what is wanted, its queues, and its row of `rubato ps`."""
    facts = [(i, q["type"], q["percentage"], q["priority"], q["enabled"], q["restarted"]) for i, q in mine.items()]
    said = {key: row.get(key) for key in ("class", "state", "managed", "attached", "suspended_queues", "note")}
    seen = f"{p.pid} {wanted}: {facts} {said}"
    off = {i for i, q in mine.items() if not q["enabled"]}
    said_off = row.get("state") == "suspended"
    ids = set(mine) if said_off else {t["id"] for t in row.get("tasks", []) if t["state"] == "suspended"}
    waits = has_turns and row.get("class") == "best-effort" or row.get("state") == "waiting"
    may_be_off = ids | {i for i, q in mine.items() if waits and q["type"] == "aql"}
    if off - may_be_off:
        raise Fault(OFF, seen)
    cls = row.get("class") or "normal"
    priority = {"best-effort": LOW, "latency": HIGH}.get(cls, OWN) if p.has_agent else OWN
    if ids - off or any(q["restarted"] for q in mine.values()) or any(
            (q["percentage"], q["priority"]) != (0 if p.has_agent and i in off else 100, priority) for i, q in mine.items()):
        raise Fault(WRONG, seen)
    if wanted is not None and (cls != wanted.cls or said_off != wanted.is_suspended
                               or not wanted.off <= ids or wanted.on & ids):
        raise Fault(FORGOTTEN, seen)


main(Amd())
