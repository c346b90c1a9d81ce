# SPDX-License-Identifier: Apache-2.0
"""A policy that refuses programs which take no turns: they are kept off, whatever they are and wherever they run."""
import json
import os

import harness
from harness import BUILD, Program, binary, device, eventually, skip
from programs import Spinner
from test_kfd_turns import AMD, is_off, is_on

DISABLE_CHANNELS = "2080110b"


def load(s):
    """The policy that does what the map `orders` says of each program."""
    path = os.path.join(BUILD, "tests", "policies", "steered.bpf.o")
    if not os.path.exists(path):
        skip("no clang: there are no compiled policies")
    s.rubato("policy", "load", path)


def is_loaded(s):
    return json.loads(s.rubato("policy", "show", "--json").stdout)["state"] == "loaded"


def order(s, p, refuse):
    s.rubato("policy", "map", "set", "orders", p.pid, f"refuse={refuse},fail=0,slow=0,flip=0")


def note(s, p):
    return s.ps()[p.pid]["note"] or ""


def refused_and_admitted(s, p, off, on):
    order(s, p, 1)
    eventually("it is kept off", lambda: off(p.pid))
    eventually("ps says so", lambda: note(s, p) == "kept off: the policy refuses it")
    # It still gets its share.
    before = s.ps()[p.pid]["owed_turns"]
    eventually("it has a guard turn", lambda: s.ps()[p.pid]["owed_turns"] > before)
    order(s, p, 0)
    eventually("it runs", lambda: on(p.pid) and "the policy refuses" not in note(s, p))
    assert is_loaded(s)


def test_attached(s):
    """Activity of programs without a board is unknown: they count as busy."""
    p = s.program()
    s.rubato("renice", p.pid, "--class", "latency")
    load(s)
    refused_and_admitted(s, p, s.is_off, s.is_running)
    # With the policy, all of it ends.
    order(s, p, 1)
    eventually("it is kept off", lambda: s.is_off(p.pid))
    s.rubato("policy", "unload")
    eventually("it runs", lambda: s.is_running(p.pid))


def test_under_run(s):
    programs = [Spinner(s, "--class", name) for name in ("normal", "latency")]
    for p in programs:
        p.ask("go")
    load(s)
    for p in programs:
        refused_and_admitted(s, p, s.is_off, s.is_running)
        did = p.count()
        eventually("it works", lambda: p.count() > did)


def test_not_to_be_suspended(s):
    """A program that the driver does not suspend runs on, and ps says why."""
    p = s.program()
    s.rubato("renice", p.pid, "--class", "latency")
    load(s)
    s.softgpu("fault", "--cmd", DISABLE_CHANNELS, "--status", "1b")
    order(s, p, 1)
    eventually("ps says so", lambda: "runs though the policy refuses it" in note(s, p))
    assert s.is_running(p.pid)
    s.softgpu("fault", "clear")
    eventually("it is kept off", lambda: s.is_off(p.pid))
    assert is_loaded(s)


@device(*AMD)
def test_amd(s):
    p = Program(s, [binary("rubato"), "run", "--class", "normal", "--", binary("kfdclient"), "--busy"])
    q = Program(s, [binary("kfdclient"), "--busy"])
    s.programs += [p, q]
    s.rubato("renice", q.pid, "--class", "latency")
    load(s)
    for one in (p, q):
        refused_and_admitted(s, one, lambda pid: is_off(s, pid), lambda pid: is_on(s, pid))
    # Both are heard of: packets are work.
    works = lambda: {e["value"]["works"] for e in json.loads(s.rubato("policy", "map", "dump", "lives", "--json").stdout)}
    eventually("work of both", lambda: len(works() - {0}) > 0)


if __name__ == "__main__":
    harness.main()
