# SPDX-License-Identifier: Apache-2.0
"""What programs get of the GPU. Measured, so nothing else runs meanwhile."""
import json
import os
import time

import harness
from harness import HERE, binary, measured
from programs import Requests, affine_ptx, cpu_seconds, eager, launch_bound, spinners, work


def time_on(s, programs, seconds):
    """How long each has had the GPU meanwhile: unlike work(), not what the machine was busy with besides."""
    first = s.ps()
    time.sleep(seconds)
    last = s.ps()
    return [last[p.pid]["on_us"] - first[p.pid]["on_us"] for p in programs]


@measured
def test_kernels_in_fair_turns(s):
    programs = spinners(s, (), (), ())
    done = time_on(s, programs, 4)
    jain = sum(done) ** 2 / (len(done) * sum(n * n for n in done))
    print(f"     {done}: Jain {jain:.3f}")
    assert jain > 0.98, done
    assert min(work(s, programs, 1)) > 0
    assert all(p.ask("check")["wrong_threads"] == 0 for p in programs)


@measured
def test_weights(s):
    programs = spinners(s, ("--weight", "1"), ("--weight", "2"))
    assert [s.ps()[p.pid]["weight"] for p in programs] == [1, 2]
    time.sleep(0.3)
    one, two = time_on(s, programs, 5)
    print(f"     1:2 makes {two / one:.2f}")
    assert 1.6 < two / one < 2.5, (one, two)
    s.rubato("renice", programs[0].pid, "--weight", 4)
    s.rubato("renice", programs[1].pid, "--weight", 1)
    assert [s.ps()[p.pid]["weight"] for p in programs] == [4, 1]
    assert all(s.ps()[p.pid]["priority"] == 2 for p in programs), "the priority is kept"
    time.sleep(0.3)
    four, one = time_on(s, programs, 5)
    print(f"     4:1 makes {four / one:.2f}")
    assert 3.2 < four / one < 5, (four, one)


def test_a_higher_priority_goes_first(s):
    low, high = spinners(s, ("--priority", "1"), ("--priority", "2"))
    time.sleep(0.5)
    lesser, greater = time_on(s, [low, high], 4)
    assert 0 < lesser < greater / 3, (lesser, greater)


@measured
def test_a_latency_program_beside_three(s):
    """Each gap between requests would let the others in; the reserve does not, and they go on afterwards."""
    requests = Requests(s, "--class", "latency")
    alone = requests.in_a_row()
    programs = spinners(s, (), (), ())
    reserved = requests.in_a_row()
    row = s.ps()[requests.pid]
    assert row["counted"] and row["reserves"] > 0 and row["reserved_us"] > 0, row
    before, since = cpu_seconds(s.daemon()) + cpu_seconds(s.hand()), time.monotonic()
    requests.ask("measure graph 60 20 1")
    used = (cpu_seconds(s.daemon()) + cpu_seconds(s.hand()) - before) / (time.monotonic() - since)
    print(f"     {used * 100:.2f} % of a core for 20 requests a second beside three in turns")
    assert used < 0.05, used
    assert min(work(s, programs, 2)) > 0
    for p in programs + [requests]:
        s.rubato("renice", p.pid, "--class", "normal")
    default = requests.in_a_row()
    print(f"     60 requests alone {alone:.0f} ms, in turns {reserved:.0f} ms, at the driver's slices {default:.0f} ms")
    assert reserved < default, (alone, reserved, default)
    assert requests.ask("check")["wrong_threads"] == 0
    assert all(p.ask("check")["wrong_threads"] == 0 for p in programs)


@measured
def test_a_reserve_that_is_not_worth_it(s):
    """Until the neighbour is off the request has ended, and then it is off for long: `ps` and `top` say so. Where
    lengths vary too much to tell, there is no verdict: then another program is tried."""
    launch_bound(s)
    s.softgpu("fault", "--cmd", "2080110b", "--delay-us", "15000")
    for i in range(60):
        if i % 10 == 0:
            p, serve = eager(s)
        row = serve()
        if row["no_reserve"] == "worthless":
            break
        if i % 10 == 9:
            p.end()
    assert row["no_reserve"] == "worthless", row
    assert row["note"].startswith("no reserve: its requests are as fast without one"), row
    assert "no reserve: its requests" in s.rubato("ps").stdout
    rows = {r["pid"]: r for r in json.loads(s.rubato("top", "--once", "-d", "0.1", "--json").stdout)["programs"]}
    assert rows[p.pid]["note"] == row["note"], rows


def two_clients(s, *options):
    """The median of high-priority requests in ms, and the number of best-effort kernels, of two threads of one process."""
    done = s.command("python3", os.path.join(HERE, "../progs/orion_two.py"), binary("libgpu_scheduler.so"), affine_ptx(s), "4",
                     *options, timeout=120)
    assert done.returncode == 0, done.stderr
    median, _, _, kernels, *counts = done.stdout.split()
    return float(median), int(kernels), [int(count) for count in counts]


@measured
def test_clients_of_one_process(s):
    """As users of Orion write it (tests/progs/orion_two.py), with the scheduler and without."""
    off, off_kernels, _ = two_clients(s, "off")
    on, on_kernels, counts = two_clients(s)
    print(f"     requests {off:.2f} ms, scheduled {on:.2f} ms; best-effort kernels {off_kernels}, scheduled {on_kernels}")
    assert counts[0] > 0 and counts[1] == 0, "high-priority launches are not held"
    assert on <= off / 3 and on_kernels >= off_kernels / 2, (off, on, off_kernels, on_kernels)


if __name__ == "__main__":
    harness.main()
