# SPDX-License-Identifier: Apache-2.0
"""The policies that come with Rubato, with programs on the software GPU. What they decide, event by event, is tested in
tests/unit/test_policy_shipped.c."""
import json
import os
import re
import threading

import harness
from harness import BUILD, eventually, skip
from programs import BEST_EFFORT, Requests, Spinner


def load(s, name, *options):
    path = os.path.join(BUILD, "policies", name + ".bpf.o")
    if not os.path.exists(path):
        skip("no clang: there are no compiled policies")
    s.rubato("policy", "load", path, *options)


def dump(s, name):
    return {str(e["key"]): e["value"] for e in json.loads(s.rubato("policy", "map", "dump", name, "--json").stdout)}


def show(s):
    return json.loads(s.rubato("policy", "show", "--json").stdout)


def log(s):
    return s.rubato("policy", "log").stdout


def test_examples_of_the_manual(s):
    """What rubato-policy(1) tells users to type is accepted."""
    with open(os.path.join(harness.HERE, "..", "..", "docs", "man", "rubato-policy.1")) as f:
        examples = re.findall(r"^\.Dl [#$] rubato policy (load|map set) (.*)$", f.read(), re.M)
    assert {verb for verb, _ in examples} == {"load", "map set"}, examples
    for verb, rest in examples:
        if verb == "load":
            name, *options = rest.split()
            load(s, name.removesuffix(".bpf.o"), *(o for o in options if o != "--foreground"))
        else:
            s.rubato("policy", "map", "set", *rest.split())


def test_lc_be(s):
    """Entries are used by programs that start later, and by others after a reload, which keeps them."""
    load(s, "lc_be", "--set", "best_effort_us=300")
    s.rubato("policy", "map", "set", "task_type_map", "rmclient", "best_effort")
    p = s.run()
    eventually("short slices", lambda: s.slices(p.pid) == [300])
    s.rubato("policy", "map", "set", "task_type_map", "rmclient", "latency")
    load(s, "lc_be")
    assert list(dump(s, "task_type_map").values()) == ["latency"]
    eventually("the longest slices", lambda: s.slices(p.pid) == [1000000])
    s.rubato("policy", "unload")
    eventually("its own slice", lambda: s.is_default(p.pid))


class Asking(threading.Thread):
    """Requests until told to end: busy for a small part of the time."""

    def __init__(self, server):
        super().__init__()
        self.server, self.is_over = server, False

    def run(self):
        while not self.is_over:
            self.server.ask("measure graph 4 4 1")


def test_adaptive_by_duty(s):
    """A server and two trainers, none of which names a class. No trainer is ever taken for a server."""
    load(s, "adaptive", "--set", "by=duty", "--set", "warmup_s=1")
    server = Requests(s, "--class", "normal")
    trainers = [Spinner(s, "--class", "normal") for _ in range(2)]
    for t in trainers:
        t.ask("go")
    asking = Asking(server)
    asking.start()
    try:
        eventually("a latency program", lambda: f"pid {server.pid} is a latency program" in log(s), 60)
        for t in trainers:
            eventually("a best-effort program", lambda: f"pid {t.pid} is a best-effort program" in log(s), 60)
            eventually("it waits", lambda: s.is_off(t.pid))
            eventually("it has a turn", lambda: s.is_running(t.pid))
        assert not s.is_off(server.pid)
        assert not any(f"pid {t.pid} is a latency program" in log(s) for t in trainers), log(s)
    finally:
        asking.is_over = True
        asking.join()
    assert show(s)["state"] == "loaded", show(s)


def test_admission_by_rate(s):
    """A program that submits too often is kept off, but not for so long that the policy is ejected."""
    load(s, "admission", "--set", "default_rate=1")
    p, q = (Spinner(s, *BEST_EFFORT) for _ in range(2))
    for program in (p, q):
        program.ask("go")
    for _ in range(3):
        eventually("it is refused", lambda: "the policy refuses" in (s.ps()[p.pid]["note"] or ""))
        eventually("it may run again", lambda: s.is_running(p.pid))
    assert show(s)["state"] == "loaded", show(s)
    s.rubato("policy", "unload")
    for program in (p, q):
        eventually("it has a turn", lambda: s.is_running(program.pid))


def test_lifecycle(s):
    load(s, "lifecycle", "--set", "silence_s=1")
    p = Requests(s, "--class", "normal")
    p.ask("measure graph 10 1000 1")
    eventually("it is silent", lambda: f"of pid {p.pid}: no work for" in log(s))
    stats = dump(s, "global_stats")["0"]
    assert stats["submissions"] >= 10 and stats["n_silent"] == 1 and stats["gone"] == 0, stats
    p.kill()
    eventually("all tasks are gone", lambda: dump(s, "tasks") == {})
    stats = dump(s, "global_stats")["0"]
    assert stats["made"] == stats["gone"] > 0 and stats["n_silent"] == 0, stats
    eventually("the log says so", lambda: f"of pid {p.pid} is gone" in log(s))


harness.main()
