# SPDX-License-Identifier: Apache-2.0
"""Classes and priorities on AMD, where queues have no timeslices: lower programs are kept off."""
import json
import time

from harness import LONG, Program, alive, binary, device, eventually, main
from programs import Daemon

AMD = ("--amd-gpus", "1")
QUEUE = ("--queues", "1", "--sdma", "0")
# Enough packets in the queue that it does not run empty on a slow machine.
BUSY = (*QUEUE, "--busy", "--depth", "1000")
# The lower program is on for 4 % of the time, beside the upper one: min_share is 2 %. Few looks vary, and so does the
# length of a turn on a busy machine.
LOOKS, LEAST_OFF, MOST_PART = (100, 0.9, 0.04) if LONG else (30, 0.75, 0.08)
ROUNDS = 10 if LONG else 1


def client(s, *args, under=()):
    p = Program(s, [*under, binary("kfdclient"), *args])
    s.programs.append(p)
    return p


def run(s, *options, args=BUSY):
    return client(s, *args, under=[binary("rubato"), "run", *map(str, options), "--"])


def attach(s, priority, args=BUSY):
    p = client(s, *args)
    s.rubato("renice", p.pid, "--priority", priority)
    return p


def queues(s):
    """The compute queue of each program."""
    return {q["pid"]: q for q in s.state()["kfd"]["queues"] if q["type"] == "aql"}


def is_on(s, p):
    return queues(s)[p.pid]["enabled"] == 1


def watch(s, low, high):
    """How often the lower one is off, and its part of all packets."""
    before, n_off = queues(s), 0
    for i in range(LOOKS):
        time.sleep(0.05 + 0.037 * (i % 5))  # not in step with the turns for min_share
        n_off += not is_on(s, low)
    after = queues(s)
    done = {p.pid: after[p.pid]["completed"] - before[p.pid]["completed"] for p in (low, high)}
    off, part = n_off / LOOKS, done[low.pid] / max(1, sum(done.values()))
    print(f"     off in {off:.0%} of looks; {part:.1%} of {sum(done.values())} packets")
    return off, part


def check_kept_off(s, low, high):
    """Twice: also after max_reserve_ms, which is 2 s."""
    eventually("off", lambda: all(not is_on(s, low) for _ in range(3)))
    for _ in range(2):
        off, part = watch(s, low, high)
        assert off >= LEAST_OFF and part <= MOST_PART, (off, part)
    assert all(q["restarted"] == 0 for q in s.state()["kfd"]["queues"])
    assert alive(low.pid) and alive(high.pid)
    assert s.ps()[high.pid]["note"] == ""


@device(*AMD)
def test_normal_keeps_best_effort_off(s):
    low, high = run(s, "--priority", 5), run(s, "--priority", 8)
    check_kept_off(s, low, high)
    # Nobody is kept off for one that has no packets.
    idle = run(s, "--priority", 15, args=QUEUE)
    s.rubato("renice", high.pid, "--priority", 5)
    eventually("they take turns", lambda: is_on(s, low))
    eventually("they take turns", lambda: not is_on(s, low))
    assert is_on(s, idle)


@device(*AMD)
def test_attached_programs(s):
    check_kept_off(s, attach(s, 5), attach(s, 8))


@device(*AMD)
def test_either_order(s):
    """Two latency programs, always busy: what counts is their priorities, not who got one first, or how."""
    for _ in range(ROUNDS):
        for low_is_first in (True, False):
            low, high = run(s) if low_is_first else client(s, *BUSY), client(s, *BUSY)
            order = ((low, 11), (high, 15))
            for p, priority in order if low_is_first else reversed(order):
                s.rubato("renice", p.pid, "--priority", priority)
            check_kept_off(s, low, high)
            low.kill()
            high.kill()


@device(*AMD)
def test_policy_priority(s):
    Daemon(s, text="policy = priority\n")
    low, high = run(s, "--priority", 6), run(s, "--priority", 10)
    check_kept_off(s, low, high)
    s.rubato("renice", low.pid, "--priority", 10)
    eventually("equals share", lambda: is_on(s, low) and is_on(s, high))


@device(*AMD)
def test_best_effort_requests(s):
    """Of the higher priority: they start at once, and end the other's turn. The program is on while it idles."""
    p = run(s, "--priority", 5, args=QUEUE)

    def measure():
        took = sorted(json.loads(p.ask("measure 10 40 15 7"))["latency_us"])
        return took[len(took) // 2] / 1e3, took[len(took) * 9 // 10] / 1e3

    alone = measure()
    busy = run(s, "--priority", 0)
    eventually("it has the GPU", lambda: is_on(s, busy))
    beside = measure()
    print(f"     p50 and p90, ms: alone {alone[0]:.1f}, {alone[1]:.1f}; beside {beside[0]:.1f}, {beside[1]:.1f}")
    assert beside[0] <= alone[0] + 20, (alone, beside)  # a turn is 100 ms
    for _ in range(3):
        eventually("idle", lambda: all(is_on(s, busy) for _ in range(3)))
        assert is_on(s, p)
        p.ask("submit 1000")
        eventually("the other's turn ends", lambda: not is_on(s, busy))
        assert p.ask("drain") == "drained"
    assert all(q["restarted"] == 0 for q in s.state()["kfd"]["queues"])


def check_times(s, p):
    """The times of a program's requests beside a busy one; the program itself knows how long they took."""
    eventually("polled closely", lambda: s.ps()[p.pid]["off_to_done"] is not None)
    took = []

    def measure():
        """On a busy machine, some polls are too far apart to time a request."""
        took.extend(json.loads(p.ask("measure 20 20 8 7"))["latency_us"])
        took.sort()
        mine = s.ps()[p.pid]
        return (mine["request"] or {"count": 0})["count"] >= 10 and mine["off_to_done"]["count"] >= 3 and mine
    mine = eventually("timed", measure)
    request, off, done = mine["request"], mine["seen_to_off"], mine["off_to_done"]
    print(f"     own p50 {took[len(took) // 2] / 1e3:.1f} ms, max {took[-1] / 1e3:.1f}; request {request}\n"
          f"     seen_to_off {off}\n     off_to_done {done}")
    # Requests with less than a poll between them count as one.
    assert took[0] / 3 < request["p50_us"] < 3 * took[-1], (took, request)
    assert request["p50_us"] <= request["p99_us"] <= request["max_us"], request
    assert request["p50_us"] < request["max_us"], request
    assert mine["requests_late"] is None, "none was announced"
    for times in off, done:
        assert times["count"] > 0 and 0 < times["p50_us"] <= times["max_us"] < 10e6, times
    assert off["p50_us"] < off["max_us"], off
    return mine


@device(*AMD)
def test_times(s):
    """From a packet that is seen to the others off, to the first packet done, to the end of the request."""
    p, busy = run(s, "--class", "latency", args=QUEUE), run(s, "--class", "best-effort")
    assert s.ps()[p.pid]["request"] is None, "no request yet"
    mine = check_times(s, p)
    # What it takes to suspend the other is a part of it.
    assert mine["seen_to_off"]["max_us"] >= s.ps()[busy.pid]["suspend_call"]["p50_us"] // 2
    assert s.ps()[busy.pid]["seen_to_off"]["count"] == 0, "it took nobody off"
    top = json.loads(s.rubato("top", "--once", "--json").stdout)
    assert {"seen_to_off_p99_us", "off_to_done_p99_us", "request_p99_us"} <= set(top["programs"][0])


@device(*AMD)
def test_times_of_turns(s):
    """The same for an attached program, whose queues the hand polls, and which takes turns."""
    p, _ = attach(s, 5, args=QUEUE), run(s, "--priority", 0)
    check_times(s, p)


def turns_per_second(s, p):
    before, start = s.ps()[p.pid]["turns"], time.monotonic()
    time.sleep(2)
    return (s.ps()[p.pid]["turns"] - before) / (time.monotonic() - start)


def run_true(s, *options, env=()):
    return s.command("env", *env, binary("rubato"), "run", *options, "--", "true")


@device("--gpus", "0", *AMD)
def test_too_short_a_turn(s):
    """Without another GPU. The variable is checked as the option, which overrides it."""
    short = ["RUBATO_TREAT_TIMESLICE_US=1"]
    for done in run_true(s, "--timeslice-us", "1"), run_true(s, env=short):
        assert done.returncode == 1 and "no timeslices, only turns of 5000 us and more" in done.stderr, done
    for done in run_true(s, env=["RUBATO_TREAT_TIMESLICE_US=20000"]), run_true(s, "--timeslice-us", "20000", env=short):
        assert done.returncode == 0 and done.stderr == "", done


@device("--gpus", "1", *AMD)
def test_a_slice_for_one_of_both_kinds(s):
    done = run_true(s, env=["RUBATO_TREAT_TIMESLICE_US=1"])
    assert done.returncode == 0, done


@device(*AMD)
def test_timed_turns(s):
    """A timeslice is the length of a turn."""
    a, b = run(s, "--priority", 2, "--timeslice-us", 20000), run(s, "--priority", 2)
    s.rubato("renice", b.pid, "--timeslice-us", 20000)
    eventually("50 turns a second together", lambda: turns_per_second(s, a) > 10)  # 5 by default
    s.rubato("renice", a.pid, b.pid, "--timeslice-us", 100000)
    eventually("10 again", lambda: turns_per_second(s, a) < 8)
    a.kill()
    b.kill()
    a, b = run(s), run(s)
    # Normal programs run side by side, and take turns if they are told how long.
    eventually("both run", lambda: all(is_on(s, a) and is_on(s, b) for _ in range(3)))
    s.rubato("renice", a.pid, b.pid, "--timeslice-us", 50000)
    for p, q in ((a, b), (b, a)):
        eventually("one at a time", lambda: is_on(s, p) and not is_on(s, q))
    assert s.ps()[a.pid]["note"] == "" and s.ps()[b.pid]["note"] == ""


if __name__ == "__main__":
    main()
