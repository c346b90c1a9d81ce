# SPDX-License-Identifier: Apache-2.0
"""Drivers that are not known: they are tried on objects of Rubato's own, and used as far as the trial goes."""
import json
import subprocess

from harness import Program, binary, device, eventually, main

UNKNOWN = device("--driver", "999.10")
SET_SLICE, DISABLE_CHANNELS, CHANNEL_GROUP = "a06c0103", "2080110b", "a06c"


def checks(s, *options):
    found = json.loads(s.rubato("doctor", "--json", *options).stdout)["checks"]
    return {c["what"]: (c["verdict"], c["text"]) for c in found}


def one_line(done, *words):
    assert done.stderr.count("\n") == 1 and all(w in done.stderr for w in words), done.stderr


def warned(s, *options):
    """A program under `rubato run`, and what that said."""
    p = Program(s, [binary("rubato"), "run", *options, "--", binary("rmclient")], stderr=subprocess.PIPE)
    s.programs.append(p)
    p.say("quit")
    return p.process.communicate(timeout=20)[1]


@UNKNOWN
def test_all_is_as_known(s):
    said = checks(s)
    assert said["nvidia"][0] == "partly" and "999.10" in said["nvidia"][1], said
    assert said["tried slices"][0] == "ok" and "read back" in said["tried slices"][1], said
    assert said["tried suspends"][0] == "ok" and said["timeslice"][0] == said["suspend"][0] == "ok", said
    assert warned(s, "-c", "best-effort") == ""
    p = s.run("--class", "best-effort")
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    assert s.ps()[p.pid]["note"] == "" and not s.ps()[p.pid]["held_back"]
    s.rubato("suspend", p.pid)
    assert s.is_suspended(p.pid)
    s.rubato("resume", p.pid)
    assert s.is_running(p.pid)
    q = s.program()
    s.rubato("renice", q.pid, "--class", "best-effort")
    eventually("they take turns", lambda: s.is_off(p.pid))
    eventually("both of them", lambda: s.is_off(q.pid))
    s.rubato("renice", q.pid, "--class", "normal")
    eventually("back to its own", lambda: s.is_default(q.pid))


@UNKNOWN
def test_the_trial_leaves_nothing(s):
    s.rubato("doctor")
    state = s.state()
    assert state["tsgs"] == [] and state["counters"]["log_lines"] == 0, state
    p = s.run("--class", "best-effort")
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    assert {t["pid"] for t in s.state()["tsgs"]} == {p.pid}
    assert s.state()["counters"]["log_lines"] == 0


@UNKNOWN
def test_one_trial_in_the_daemons_life(s):
    p, q = s.run("--class", "best-effort"), s.program()
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    for priority in 3, 4, 5, 2:
        s.rubato("renice", p.pid, "--priority", priority)
    s.rubato("renice", q.pid, "--class", "normal")
    s.ps()
    # A trial makes three, and nobody was suspended.
    assert s.state()["controls"]["fifo_disable_channels"] == 3, s.state()["controls"]


def test_a_known_driver_is_tried_on_demand(s):
    assert "tried slices" not in checks(s)
    said = checks(s, "--try")
    assert said["nvidia"][0] == said["tried slices"][0] == said["tried suspends"][0] == "ok", said
    s.softgpu("fault", "--cmd", SET_SLICE, "--size", "any")
    said = checks(s, "--try")
    assert said["tried slices"][0] == "no" and said["timeslice"][0] == "ok", "a known one is as it is known"
    one_line(s.rubato("doctor", "--try", "--program", "/bin/true", code=2), "--program")


def refused_altogether(s, why):
    """p runs at the driver's slices whatever is asked for."""
    said = checks(s)
    assert said["tried slices"][0] == "no" and why in said["tried slices"][1], said
    assert said["tried suspends"][0] == "no" and "not tried" in said["tried suspends"][1], said
    assert said["timeslice"][0] == said["suspend"][0] == "partly" and "--force" in said["timeslice"][1], said


@UNKNOWN
def test_sizes_are_not_checked(s):
    s.softgpu("fault", "--cmd", SET_SLICE, "--size", "any")
    refused_altogether(s, "12 bytes in place of 8")
    # It is said where the class was asked for, once, and the program runs.
    said = warned(s, "-c", "best-effort")
    assert said.count("\n") == 1 and "999.10" in said and "doctor" in said, said
    assert warned(s, "-t", "100").count("\n") == 1
    assert warned(s) == warned(s, "-c", "normal") == ""
    done = s.rubato("run", "--class", "latency", "--", "sh", "-c", "exit 7", code=7)
    one_line(done, "999.10")
    p = s.run("--class", "best-effort")
    row = eventually("known", lambda: s.ps().get(p.pid) if s.ps().get(p.pid, {}).get("tasks") else None)
    assert row["class"] == "best-effort" and row["held_back"], row
    assert row["note"] == "driver 999.10 is not known, and the trial of its timeslices failed", row
    for command in ("renice", p.pid, "--priority", 3), ("suspend", p.pid), ("resume", p.pid):
        one_line(s.rubato(*command, code=1), "999.10", "doctor")
    assert s.is_default(p.pid)
    q = s.run()
    eventually("known", lambda: s.ps().get(q.pid, {}).get("managed"))
    assert s.ps()[q.pid]["note"] == "", "it has what it asked for"


@UNKNOWN
def test_another_slice_layout(s):
    p = s.program()
    s.softgpu("fault", "--cmd", SET_SLICE, "--size", 16)
    refused_altogether(s, "could not be set")
    one_line(s.rubato("renice", p.pid, "--class", "best-effort", code=1), "999.10")
    eventually("what failed has changed nothing", lambda: s.ps()[p.pid]["managed"] is False)
    assert s.is_default(p.pid)


@UNKNOWN
def test_no_channel_group(s):
    p = s.program()
    s.softgpu("fault", "--class", CHANNEL_GROUP, "--status", "56")
    refused_altogether(s, "channel group could not be made: RM status 0x56")
    one_line(s.rubato("renice", p.pid, "--class", "latency", code=1), "999.10")
    assert s.is_default(p.pid)


@UNKNOWN
def test_no_memory_is_no_verdict(s):
    """A daemon that could not try the driver tries it again later."""
    p = s.program()
    s.softgpu("fault", "--class", CHANNEL_GROUP, "--status", "1a")
    s.rubato("renice", p.pid, "--class", "best-effort", code=1)
    s.softgpu("fault", "clear")
    eventually("tried again",
               lambda: s.rubato("renice", p.pid, "--class", "best-effort", code=None).returncode == 0, 40)
    assert s.slices(p.pid) == [1]


def slices_alone(s):
    """What is left where suspends are not understood."""
    said = checks(s)
    assert said["tried slices"][0] == "ok" and said["tried suspends"][0] == "no", said
    assert said["timeslice"][0] == "ok" and said["suspend"][0] == "partly", said
    assert warned(s, "-c", "best-effort") == ""
    p = s.run("--class", "best-effort")
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    for command in "suspend", "resume":
        one_line(s.rubato(command, p.pid, code=1), "999.10", "suspends")
    assert s.is_running(p.pid) and s.ps()[p.pid]["state"] == "running"
    # Nobody can be taken off, so nobody takes turns: in company all keep the driver's slices.
    q = s.run("--class", "best-effort")
    eventually("default slices", lambda: s.is_default(p.pid) and s.is_default(q.pid))
    assert "run beside it" in s.ps()[p.pid]["note"], s.ps()[p.pid]
    q.end()
    eventually("alone again", lambda: s.slices(p.pid) == [1])
    latency = s.run("--class", "latency")
    eventually("says that nobody is kept off for it",
               lambda: "the trial of its suspends failed" in s.ps().get(latency.pid, {}).get("note", ""))
    assert all(t["suspends"] == 0 for t in s.state()["tsgs"]), s.state()
    s.rubato("renice", p.pid, "--class", "normal")
    eventually("back to its own", lambda: s.is_default(p.pid))


@UNKNOWN
def test_another_suspend_layout(s):
    s.softgpu("fault", "--cmd", DISABLE_CHANNELS, "--size", 544)
    slices_alone(s)


@UNKNOWN
def test_suspend_sizes_are_not_checked(s):
    s.softgpu("fault", "--cmd", DISABLE_CHANNELS, "--size", "any")
    slices_alone(s)


@UNKNOWN
def test_no_suspends_at_all(s):
    s.softgpu("fault", "--cmd", DISABLE_CHANNELS, "--status", "56")
    slices_alone(s)


@device("--driver", "999.10", "--gpus", "3")
def test_several_gpus(s):
    p, q = s.run("--class", "best-effort", args=("--gpu", 1)), s.program("--gpu", 2)
    s.rubato("renice", q.pid, "--class", "best-effort")
    eventually("1 us", lambda: s.slices(p.pid) == s.slices(q.pid) == [1])


@UNKNOWN
def test_no_daemon_does_not_try(s):
    """Nothing is tried inside a program."""
    p = Program(s, [binary("rubato"), "run", "--no-daemon", "-c", "best-effort", "--", binary("rmclient")],
                stderr=subprocess.PIPE)
    s.programs.append(p)
    assert s.is_default(p.pid)
    p.say("quit")
    assert "999.10 is unknown" in p.process.communicate(timeout=20)[1]


main()
