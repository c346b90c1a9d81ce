# SPDX-License-Identifier: Apache-2.0
"""The KFD tools and the AMD backend on the software GPU's KFD: queues seen, suspended exactly, never left suspended."""
import json
import os
import random
import re
import select
import signal
import subprocess
import time

from harness import BUILD, LONG, Program, alive, binary, device, eventually, main
from programs import may_unshare

AMD = ("--amd-gpus", "1")


def client(s, *args, **options):
    p = Program(s, [binary("kfdclient"), *map(str, args)], **options)
    s.programs.append(p)
    return p


def tool(s, *args, code=0, says="", timeout=60):
    done = s.command(binary("rubato"), "kfd", *map(str, args), timeout=timeout)
    assert done.returncode == code, f"kfd {args}: exit {done.returncode}, not {code}: {done.stdout}{done.stderr}"
    if code != 0:
        assert done.stderr.count("\n") == 1, f"kfd {args}: {done.stderr!r}"
    assert says in done.stderr, f"kfd {args}: {done.stderr!r} does not say {says!r}"
    return done


def start(s, *args, stdout=subprocess.PIPE):
    return subprocess.Popen(s.inside([binary("rubato"), "kfd", *map(str, args)]), stdout=stdout,
                            stderr=subprocess.PIPE, text=True, env=s.env, start_new_session=True)


def tool_pid(s, pid):
    """The debugger of a process, as the device has it."""
    found = [p["debugger"] for p in s.state()["kfd"]["processes"] if p["pid"] == pid]
    return found[0] if found else 0


def queues(s, pid):
    return [q for q in s.state()["kfd"]["queues"] if q["pid"] == pid]


def suspended(s, pid):
    return [q["handle"] for q in queues(s, pid) if q["suspended"]]


def unharmed(s, p):
    """Runs, is nobody's target, and moves."""
    assert alive(p.pid) and not suspended(s, p.pid)
    eventually("nobody traces it", lambda: "TracerPid:\t0\n" in open(f"/proc/{p.pid}/status").read())
    before = [q["completed"] for q in queues(s, p.pid)]
    assert before and p.ask("submit 3").startswith("submitted")
    eventually("packets run", lambda: all(q["completed"] > n for q, n in zip(queues(s, p.pid), before)))
    assert all(q["restarted"] == 0 for q in queues(s, p.pid))
    assert s.state()["kfd"]["totals"]["oopses"] == 0


@device(*AMD)
def test_doorbell_starts_work(s):
    p = client(s, "--queues", 1, "--sdma", 0)
    assert p.ask("silent 5") == "silent"
    time.sleep(0.2)
    assert [q["completed"] for q in queues(s, p.pid)] == [0] and not queues(s, p.pid)[0]["running"]
    # The pointer says how many.
    p.ask("submit 1")
    assert p.ask("drain") == "drained"
    assert [q["completed"] for q in queues(s, p.pid)] == [6]


def rates(s, programs, seconds):
    """Packets that each has run meanwhile, by one clock: looks at the device are looks at all of them."""
    def look():
        found = s.state()["kfd"]["queues"]
        return [sum(q["completed"] for q in found if q["pid"] == p.pid and q["type"] == "aql") for p in programs]
    before = look()
    time.sleep(seconds)
    return [b - a for a, b in zip(before, look())]


@device(*AMD, "--packet-us", "5000")
def test_programs_share_a_gpu(s):
    """Equal parts, or by priority; one that is off leaves its part to the other."""
    programs = [client(s, "--queues", 1, "--sdma", 0) for _ in range(2)]
    for p in programs:
        p.ask("submit 1000")    # 5 s if it had the GPU for itself: rings do not run empty, whatever the machine does
    eventually("both run", lambda: all(queues(s, p.pid)[0]["share_percent"] == 50 for p in programs))
    a, b = rates(s, programs, 1)
    assert abs(a - b) <= 1 + a // 10 and a > 10, (a, b)
    assert programs[0].ask("set 100 15") == "set"
    eventually("its share is larger", lambda: queues(s, programs[0].pid)[0]["share_percent"] == 66)
    a, b = rates(s, programs, 1)
    assert 1.7 < a / b < 2.4, (a, b)
    assert programs[0].ask("set 0 7") == "set"
    eventually("all of it", lambda: queues(s, programs[1].pid)[0]["share_percent"] == 100)
    assert rates(s, programs, 0.3)[0] == 0
    assert all(q["restarted"] == 0 for p in programs for q in queues(s, p.pid))


@device(*AMD)
def test_queues(s):
    p = client(s, "--memory-mib", 32)
    text = tool(s, "queues", p.pid).stdout
    assert f"process {p.pid}: 4 queues" in text and "static const uint32_t queue_ids[] = {0, 1};" in text, text
    # Only sysfs was read: nobody became a KFD process for it.
    assert [q["pid"] for q in s.state()["kfd"]["processes"]] == [p.pid]
    facts = json.loads(tool(s, "queues", p.pid, "--json").stdout)
    assert [q["type"] for q in facts["snapshot"]["queues"]] == ["compute", "compute", "sdma", "sdma"]
    assert "ring_address" not in facts["snapshot"]["queues"][0]
    p.ask("submit 5")
    p.ask("drain")
    assert facts["latency_us"]["open"] is None and facts["latency_us"]["enable"] is None
    facts = json.loads(tool(s, "queues", p.pid, "--json", "--addresses").stdout)
    assert all(0 < facts["latency_us"][call] < 1e7 for call in ("open", "enable", "snapshot")), facts["latency_us"]
    first = facts["snapshot"]["queues"][0]
    assert first["type"] == "aql" and first["write_pointer"] == 5 and first["pending"] == 0, first
    assert first["save_size"] == 0x8000 and first["ring_size"] == 65536
    unharmed(s, p)


@device(*AMD)
def test_own_names(s):
    p = client(s)
    folder = os.path.dirname(binary("rubato"))
    done = s.command(os.path.join(folder, "get_queue_info"), str(p.pid))
    assert done.returncode == 0 and "4 queues" in done.stdout, done
    done = s.command(os.path.join(folder, "queue_monitor"), str(p.pid), "0.2", "0.1")
    assert done.returncode == 0 and "2 samples: 4 to 4 queues" in done.stdout, done
    done = s.command(os.path.join(folder, "kfd_preemption_poc"), str(p.pid), "3", "--hold-ms", "1")
    assert done.returncode == 0 and "3 preemptions, 3 complete" in done.stdout, done


@device(*AMD)
def test_check(s):
    """A report to be sent: figures, and nobody's names."""
    programs = [client(s, "--busy", "--queues", 1, "--depth", 200) for _ in range(2)]
    report = os.path.join(s.dir, "report")
    pids = [str(p.pid) for p in programs]
    check = os.path.join(os.path.dirname(binary("rubato")), "rubato-kfd-check")
    done = s.command(check, *pids, "--output", report, timeout=120)
    assert done.returncode == 0, done
    with open(report) as f:
        text = f.read()
    for call in "open", "enable", "snapshot", "suspend", "resume", "disable":
        assert re.search(rf"^  {call} +100 +\d+ +\d+ +\d+ +\d+ +\d+$", text, re.M), text
    assert "whole: 100 of 100" in text and "still while suspended: 100 of 100" in text, text
    assert "KFD 1.17, 1 GPU" in text and "  ok  amd" in text and "renice: done" in text, text
    rates = [[float(n) for n in re.findall(rf"^  {case} +([\d.]+) +([\d.]+)$", text, re.M)[0]]
             for case in ("as they are", "first normal, second best-effort", "first latency")]
    assert all(rate > 0 for rate in rates[0]) and all(second < first / 2 for first, second in rates[1:]), text
    # A kernel's release may end in a name, and PCI addresses tell machines apart.
    release = re.match(r"[\d.]+", os.uname().release).group()
    assert f"\nkernel {release} {os.uname().machine}, KFD" in text, text
    assert re.search(r"^  ok  gpu 0 .* MiB$", text, re.M) and not re.search(r"[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]", text), text
    assert " at 0000:" in s.rubato("doctor").stdout
    assert not any(word in text for word in ("kfdclient", os.uname().nodename, s.dir, BUILD, "/", "0x7")), text
    assert not any(re.search(rf"\b{pid}\b", text) for pid in pids), (pids, text)
    # It does not write over anything, nor hold up strangers.
    assert s.command(check, *pids, "--output", report).returncode == 1
    done = s.command(check, pids[0], "--output", report + "2")
    assert done.returncode == 1 and "--force" in done.stderr and not os.path.exists(report + "2"), done
    # The second one is checked first, and is another one.
    for other, code, says in ((os.getpid(), 3, f"process {os.getpid()}: "), (pids[0], 2, "is the first one")):
        done = s.command(check, pids[0], str(other), "--output", report + "2")
        assert done.returncode == code and says in done.stderr and not os.path.exists(report + "2"), done
    for p in programs:
        eventually("nobody debugs it", lambda: tool_pid(s, p.pid) == 0)
        unharmed(s, p)


@device(*AMD)
def test_monitor(s):
    p = client(s, "--busy")
    facts = json.loads(tool(s, "monitor", p.pid, "1", "0.1", "--json").stdout)
    n = facts["statistics"]["samples"]  # fewer where the machine is busy
    assert 2 <= n <= 11 and facts["statistics"]["stable"] is True, facts["statistics"]
    assert [i["seen"] for i in facts["statistics"]["ids"]] == [n] * 4
    lines = tool(s, "monitor", p.pid, "0.3", "0.1", "--csv", "--addresses").stdout.splitlines()
    assert lines[0].startswith("time_s,queue,gpu_id") and len(lines) % 4 == 1 and len(lines) > 4, lines
    assert all(len(line.split(",")) == 11 for line in lines)
    text = tool(s, "monitor", p.pid, "0.3", "0.1", "--addresses").stdout
    assert re.search(r"4 active, \d+ packets pending", text) and "advice: the queues did not change" in text, text
    # Queues that come and go are told from those that stay.
    q = client(s, "--churn-ms", 20)
    text = tool(s, "monitor", q.pid, "1.5", "0.05").stdout
    assert "dynamic" in text and "advice: queues come and go" in text and re.search(r"\{0, 1[,}]", text), text


@device(*AMD)
def test_monitor_ends_with_statistics(s):
    p = client(s)
    watcher = start(s, "monitor", p.pid, "0", "0.1")   # for ever
    assert watcher.stdout.readline(), "the first sample"
    victims = eventually("it watches", lambda: [
        int(pid) for pid in os.listdir("/proc") if pid.isdigit() and is_monitor(pid, p.pid)])
    assert len(victims) == 1, victims
    os.kill(victims[0], signal.SIGINT)
    out, err = watcher.communicate(timeout=20)
    assert watcher.returncode == 0 and re.search("samples?: 4 to 4 queues", out), (out, err)
    # From sysfs: nothing was opened.
    assert re.search(r"^snapshot: mean \d+ us, p50 \d+, .*max \d+$", out, re.M) and "latency: " not in out, out
    # The program's end ends it too.
    watcher = start(s, "monitor", p.pid, "60", "0.1", "--addresses")
    assert watcher.stdout.readline(), "the first sample"
    p.kill()
    out, err = watcher.communicate(timeout=20)
    assert watcher.returncode == 0 and re.search("samples?: [0-4] to 4 queues", out), (out, err)
    assert err.count("\n") == 1 and f"process {p.pid} has ended" in err, err


def is_monitor(pid, target):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            words = f.read().split(b"\0")
        return words[0].endswith(b"rubato") and words[1:4] == [b"kfd", b"monitor", str(target).encode()] or \
            (b"rubato: kfd monitor" in words[0:3] and str(target).encode() in words)
    except OSError:
        return False


@device(*AMD)
def test_preempt(s):
    p = client(s, "--busy")
    facts = json.loads(tool(s, "preempt", p.pid, "20", "--hold-ms", "2", "--interval-ms", "2", "--json").stdout)
    assert facts["iterations"] == facts["complete"] == 20
    assert all(i["queues"] == i["suspended"] == i["resumed"] == 4 for i in facts["preemptions"])
    assert facts["suspend_us"]["min"] <= facts["suspend_us"]["p50"] <= facts["suspend_us"]["max"]
    assert 0 < facts["snapshot_us"]["p50"] <= facts["snapshot_us"]["max"] < 1e7, facts["snapshot_us"]
    assert all(0 < facts["latency_us"][call] < 1e7 for call in ("open", "enable", "snapshot")), facts["latency_us"]
    # Exact: waves went on from where they were.
    assert sum(q["restored"] for q in queues(s, p.pid)) > 0
    unharmed(s, p)
    # Only what is named.
    tool(s, "preempt", p.pid, "2", "--type", "sdma", "--hold-ms", "1")
    assert [q["suspends"] for q in queues(s, p.pid)] == [20, 20, 22, 22]
    tool(s, "preempt", p.pid, "1", "--queue", "1", "--hold-ms", "1")
    assert [q["suspends"] for q in queues(s, p.pid)] == [20, 21, 22, 22]
    tool(s, "preempt", p.pid, "1", "--queue", "99", code=1, says="no such queue")
    unharmed(s, p)


@device(*AMD, "--packet-us", "5000")
def test_held_means_held(s):
    """While it is off, nothing moves and the waves are in the save areas; then it goes on exactly."""
    p = client(s, "--sdma", "0")
    p.ask("submit 200")
    tool_process = start(s, "preempt", p.pid, "1", "--exec", "sleep 3")
    eventually("suspended", lambda: len(suspended(s, p.pid)) == 2)
    before = p.ask("queues")
    time.sleep(0.3)
    assert p.ask("queues") == before
    assert p.ask("saved") != "saved 0"
    out, err = tool_process.communicate(timeout=20)
    assert tool_process.returncode == 0, (out, err)
    assert p.ask("drain") == "drained"
    assert [(q["completed"], q["restored"], q["restarted"]) for q in queues(s, p.pid)] == [(200, 1, 0)] * 2


@device(*AMD)
def test_signals_reach_the_target(s):
    p = client(s, "--busy")
    watcher = start(s, "monitor", p.pid, "30", "0.1", "--addresses")
    eventually("attached", lambda: tool_pid(s, p.pid))
    for i in range(20):
        os.kill(p.pid, signal.SIGUSR1)
        eventually("a signal", lambda: p.ask("signals") == f"signals {i + 1}")
    # A stopped program stays stopped, and goes on when told.
    os.kill(p.pid, signal.SIGSTOP)
    eventually("stopped", lambda: open(f"/proc/{p.pid}/stat").read().rsplit(")")[1].split()[0] in "tT")
    os.kill(p.pid, signal.SIGCONT)
    assert p.ask("signals") == "signals 20"
    os.kill(tool_pid(s, p.pid), signal.SIGKILL)
    watcher.wait(10)
    unharmed(s, p)
    p.kill(signal.SIGTERM)
    eventually("gone", lambda: not alive(p.pid))


@device(*AMD)
def test_runtime_is_answered(s):
    p = client(s, "--no-runtime", "--queues", "0", "--sdma", "0")
    tool(s, "preempt", p.pid, "1", code=1, says="no such queue")
    watcher = start(s, "monitor", p.pid, "30", "0.1", "--addresses")
    eventually("attached", lambda: tool_pid(s, p.pid))
    assert p.ask("runtime") == "runtime"    # would wait for ever without an answer
    assert p.ask("more").endswith("queues=0")
    assert p.ask("stop") == "stop"
    os.kill(tool_pid(s, p.pid), signal.SIGTERM)
    out, err = watcher.communicate(timeout=20)
    assert watcher.returncode == 0, (out, err)
    assert not s.state()["kfd"]["processes"][0]["waits"]
    # Queues without a runtime can be seen, not suspended.
    tool(s, "queues", p.pid, "--addresses")
    tool(s, "preempt", p.pid, "1", code=1, says="runtime has not started")


@device(*AMD)
def test_runtime_is_answered_unread(s):
    """The driver does not say what has happened to the runtime. The tool answers all the same, and goes on."""
    p = client(s, "--queues", "0", "--sdma", "0")
    watcher = start(s, "monitor", p.pid, "30", "0.1", "--addresses")
    debugger = eventually("attached", lambda: tool_pid(s, p.pid))
    s.softgpu("fault", "--kfd-op", "query-info", "--errno", "5")
    assert p.ask("stop") == "stop"
    os.kill(debugger, signal.SIGTERM)
    out, err = watcher.communicate(timeout=20)
    assert watcher.returncode == 0, (out, err)
    s.softgpu("fault", "clear")
    assert p.ask("runtime") == "runtime"


def waits(s, pid):
    """Whether it stands in the handshake of its runtime."""
    return [p["waits"] for p in s.state()["kfd"]["processes"] if p["pid"] == pid] == [True]


def leave_in_handshake(s, p, debugger):
    """Kills the debugger between the program's question and the answer. (The first may have its answer already.)"""
    os.kill(debugger, signal.SIGSTOP)
    try:
        p.say("\n".join(["stop"] * 6))
        eventually("the program waits", lambda: waits(s, p.pid))
    finally:
        os.kill(debugger, signal.SIGKILL)


def leaves_handshake(p):
    assert [p.process.stdout.readline().strip() for _ in range(6)] == ["stop"] * 6


@device(*AMD)
def test_debugger_dies_in_the_handshake(s):
    """The next session heals it, whosever that is."""
    p = client(s, "--queues", "0", "--sdma", "0")
    watcher = start(s, "monitor", p.pid, "60", "0.1", "--addresses")
    leave_in_handshake(s, p, eventually("attached", lambda: tool_pid(s, p.pid)))
    watcher.communicate(timeout=20)
    eventually("nobody debugs it", lambda: tool_pid(s, p.pid) == 0)
    eventually("it waits for good", lambda: waits(s, p.pid))  # it may have had one more answer
    tool(s, "queues", p.pid, "--addresses")
    leaves_handshake(p)
    # Rubato's own hand.
    programs = [client(s, "--busy"), client(s, "--busy")]
    for q in programs:
        s.rubato("renice", q.pid, "--class", "best-effort")
    p = programs[0]
    eventually("attached", lambda: tool_pid(s, p.pid) == s.hand())
    leave_in_handshake(s, p, s.hand())
    eventually("the next hand answers", lambda: not waits(s, p.pid))
    leaves_handshake(p)


def toggle_under(s, tools_s):
    """A runtime that ends and starts without a pause, while debuggers come and go."""
    p = client(s, "--queues", "0", "--sdma", "0")
    p.say(f"toggle {60000 if LONG else 8000}")
    n, end = 0, time.monotonic() + tools_s
    while time.monotonic() < end and not select.select([p.process.stdout], [], [], 0)[0]:
        tool(s, "queues", p.pid, "--addresses")
        n += 1
    assert select.select([p.process.stdout], [], [], 150)[0], f"it waits for ever, after {n} tools"
    assert p.process.stdout.readline().strip() == "toggled"
    print(f"     {n} tools")


@device(*AMD)
def test_handshakes_without_a_pause(s):
    toggle_under(s, 20 if LONG else 3)


@device(*AMD, "--kfd-minor", "20", "--kfd-ptrace", "process")
def test_handshakes_without_a_pause_new(s):
    toggle_under(s, 20 if LONG else 2)


@device(*AMD)
def test_who_is_refused(s):
    p = client(s)
    tool(s, "queues", "4194303", code=3, says="no such process")
    tool(s, "queues", os.getpid(), code=3, says="does not use an AMD GPU")
    tool(s, "monitor", "4194303", code=3, says="no such process")
    tool(s, "preempt", os.getpid(), code=3, says="does not use an AMD GPU")
    tool(s, "check", code=2, says="no process named")
    tool(s, code=2, says="no tool named")
    tool(s, "frobnicate", code=2, says="no such tool")
    tool(s, "queues", code=2, says="no process named")
    tool(s, "queues", "abc", code=2, says="not a process id")
    tool(s, "monitor", p.pid, "soon", code=2, says="duration")
    tool(s, "monitor", p.pid, "1", "0", code=2, says="interval")
    tool(s, "monitor", p.pid, "--json", "--csv", code=2, says="one of --json, --csv and --live")
    tool(s, "preempt", p.pid, "0", code=2, says="iterations")
    tool(s, "preempt", p.pid, "--grace", "256", code=2, says="--grace")
    tool(s, "preempt", p.pid, "--type", "both", code=2, says="--type")
    # Two debuggers.
    watcher = start(s, "monitor", p.pid, "30", "0.1", "--addresses")
    eventually("attached", lambda: tool_pid(s, p.pid))
    tool(s, "preempt", p.pid, "1", code=1, says="another debugger")
    tool(s, "queues", p.pid)
    os.kill(tool_pid(s, p.pid), signal.SIGINT)
    watcher.communicate(timeout=20)
    unharmed(s, p)


@device(*AMD, "--kfd-minor", "11")
def test_old_kernel(s):
    p = client(s)
    assert "4 queues" in tool(s, "queues", p.pid).stdout
    tool(s, "queues", p.pid, "--addresses", code=1, says="older than 1.13")
    tool(s, "preempt", p.pid, code=1, says="older than 1.13")
    assert p.ask("submit 1").startswith("submitted")


@device(*AMD)
def test_doctor(s):
    """AMD support is called experimental, NVIDIA's is not."""
    def experimental():
        checks = json.loads(s.rubato("doctor", "--json").stdout)["checks"]
        return [(c["what"], c["verdict"]) for c in checks if "experimental" in c["text"]]

    assert experimental() == [("amd", "partly")], experimental()
    lines = [line.split(None, 2)[:2] for line in s.rubato("doctor").stdout.splitlines()]
    assert ["ok", "amd"] in lines and ["--", "amd"] in lines and ["ok", "nvidia"] in lines, lines
    # AMD's queues have no interleave levels, and nothing is said about them.
    assert [what for _, what in lines].count("interleave") == 1 and [what for _, what in lines].count("timeslice") == 2
    assert "--timeslice-us is the length of a turn" in s.rubato("doctor").stdout


def test_no_device(s):
    tool(s, "queues", os.getpid(), code=5, says="no AMD compute driver")


@device(*AMD, "--kfd-one-debugger")
def test_busy_gpu(s):
    p, q = client(s), client(s)
    watcher = start(s, "monitor", p.pid, "30", "0.1", "--addresses")
    eventually("attached", lambda: tool_pid(s, p.pid))
    tool(s, "preempt", q.pid, "1", "--force", code=1, says="another debugger")
    os.kill(tool_pid(s, p.pid), signal.SIGINT)
    watcher.communicate(timeout=20)
    tool(s, "preempt", q.pid, "1", "--force")


@device(*AMD)
def test_others_on_the_gpu(s):
    p, q = client(s), client(s)
    tool(s, "preempt", p.pid, "1", code=1, says=f"process {q.pid} has queues on the same GPU")
    assert sum(x["suspends"] for x in queues(s, p.pid)) == 0
    tool(s, "preempt", p.pid, "1", "--force")
    q.ask("quit")
    eventually("alone", lambda: not queues(s, q.pid))
    tool(s, "preempt", p.pid, "1")


@device("--amd-gpus", "2", "--gfx", "110000", "--kfd-minor", "20", "--kfd-ptrace", "process")
def test_with_mes_others_do_not_matter(s):
    p, q = client(s), client(s, "--gpu", "1")
    client(s)
    tool(s, "preempt", p.pid, "1")
    facts = json.loads(tool(s, "queues", q.pid, "--json").stdout)
    assert facts["statistics"]["gpus"] == [{"gpu_id": 28851 + 1087, "seen": 4}]


@device(*AMD)
def test_cpp(s):
    p = client(s, "--busy")
    try:
        monitor = binary("kfdmonitor")
    except SystemExit:
        print("     no kfdmonitor: there was no C++ compiler")
        return
    done = s.command(monitor, str(p.pid))
    assert re.search(r"^latency: open \d+ us, enable \d+ us, snapshot \d+ us$", done.stdout, re.M), done
    assert done.returncode == 0 and "3 samples: 4 to 4 queues" in done.stdout, done
    unharmed(s, p)
    # As users write it: their text, unchanged.
    before = [q["suspends"] for q in queues(s, p.pid)]
    done = s.command(binary("kfdusers"), str(p.pid))
    assert done.returncode == 0, done
    assert [q["suspends"] for q in queues(s, p.pid)] == [n + 1 for n in before]
    unharmed(s, p)
    # Its printing is that of the monitor: the pointers move, and all else is the same.
    def still(text):
        varies = r"sample|^ *[\d.]+ s  |^advice|^latency: |^snapshot: "
        lines = [line for line in text.splitlines() if line and not re.search(varies, line)]
        return [re.sub(r" +(-|\d+( bytes)?)$", "", line) for line in lines]
    with_addresses = tool(s, "monitor", p.pid, "1", "0.5", "--addresses").stdout
    printed = done.stdout.split("process ", 1)[1]
    assert still("process " + printed) == still(with_addresses), (done.stdout, with_addresses)


@device(*AMD)
def test_faults(s):
    p = client(s, "--busy")
    s.softgpu("fault", "--kfd-op", "suspend", "--queue-error", "--count", "1")
    done = s.command(binary("rubato"), "kfd", "preempt", str(p.pid), "2", "--hold-ms", "1")
    assert done.returncode == 1 and "1: 0 of 4 suspended" in done.stdout and "50.0 %" in done.stdout, done
    s.softgpu("fault", "--kfd-op", "snapshot", "--errno", "5", "--count", "1")
    tool(s, "queues", p.pid, "--addresses", code=1, says="the GPU failed")
    s.softgpu("fault", "--kfd-op", "resume", "--errno", "5")
    tool(s, "preempt", p.pid, "1", code=1, says="the GPU failed")
    s.softgpu("fault", "clear")
    unharmed(s, p)    # the end of the session resumed what RESUME would not
    s.softgpu("fault", "--kfd-op", "enable", "--errno", "1", "--count", "1")
    tool(s, "preempt", p.pid, "1", code=4, says="may not debug it")
    unharmed(s, p)


@device(*AMD)
def test_target_ends_while_suspended(s):
    p = client(s, "--busy")
    process = start(s, "preempt", p.pid, "3", "--hold-ms", "1000")
    eventually("suspended", lambda: suspended(s, p.pid))
    p.kill()
    out, err = process.communicate(timeout=20)
    assert process.returncode == 3 and "no such process" in err, (process.returncode, out, err)


@device(*AMD)
def test_target_execs(s):
    p = client(s, "--busy")
    process = start(s, "preempt", p.pid, "100000", "--hold-ms", "20")
    eventually("suspended", lambda: suspended(s, p.pid))
    p.say("exec")
    out, err = process.communicate(timeout=20)
    assert process.returncode == 3 and "another program (exec)" in err, (process.returncode, out, err)
    assert alive(p.pid)
    for options in (), ("--addresses",):
        p = client(s)
        watcher = start(s, "monitor", p.pid, "60", "0.1", *options)
        watcher.stdout.readline()
        p.say("exec")
        out, err = watcher.communicate(timeout=20)
        assert watcher.returncode == 0 and re.search("samples?: [0-4] to 4 queues", out), (out, err)
        assert err.count("\n") == 1 and "another program (exec)" in err and alive(p.pid), err


@device(*AMD)
def test_stops_are_not_obeyed(s):
    """Ctrl-Z on a debugger would keep queues off for as long as nobody remembers it."""
    p = client(s, "--busy")
    for more in (("--hold-ms", "400"), ("--exec", "sleep 0.4")):
        process = start(s, "preempt", p.pid, "1", *more)
        eventually("suspended", lambda: suspended(s, p.pid))
        for number in (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU):
            os.kill(tool_pid(s, p.pid), number)
        out, err = process.communicate(timeout=20)
        assert process.returncode == 0, (out, err)
        unharmed(s, p)


@device(*AMD)
def test_exec_fails(s):
    p = client(s, "--busy")
    for command, says in (("exit 3", "exit status 3"), ("/no/such/thing 2>&1", "exit status 127"), ("kill -9 $$", "signal 9")):
        done = s.command(binary("rubato"), "kfd", "preempt", str(p.pid), "2", "--exec", command)
        assert done.returncode == 1 and f"failed 2 of 2 times: {says}" in done.stderr, done
        assert "2 preemptions, 2 complete" in done.stdout
    done = s.command(binary("rubato"), "kfd", "preempt", str(p.pid), "2", "--json", "--exec", "false")
    assert done.returncode == 1 and json.loads(done.stdout)["command_failed"] == 2, done
    tool(s, "preempt", p.pid, "1", "--exec", "true")
    unharmed(s, p)


@device(*AMD)
def test_after_a_resume(s):
    """The hand keeps its session for a second: tools wait for that, and say who has it when it stays."""
    p = client(s, "--busy")
    s.rubato("suspend", p.pid)
    tool(s, "preempt", p.pid, "1", code=1, says="Rubato schedules it")
    s.rubato("resume", p.pid)
    assert tool_pid(s, p.pid) in (0, s.hand())
    tool(s, "preempt", p.pid, "1", "--hold-ms", "1")
    unharmed(s, p)


@device(*AMD)
def test_tool_killed_while_suspended(s):
    p = client(s, "--busy")
    for _ in range(5):
        process = start(s, "preempt", p.pid, "1", "--hold-ms", "60000")
        eventually("suspended", lambda: len(suspended(s, p.pid)) == 4)
        os.kill(tool_pid(s, p.pid), signal.SIGKILL)
        process.wait(10)
        eventually("resumed", lambda: not suspended(s, p.pid))
    unharmed(s, p)


@device(*AMD)
def test_queue_destroyed_while_suspended(s):
    p = client(s)
    process = start(s, "preempt", p.pid, "1", "--exec", "sleep 1")
    eventually("suspended", lambda: len(suspended(s, p.pid)) == 4)
    p.say("free")    # waits in the driver until the queue runs again
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0, (out, err)
    assert p.process.stdout.readline().strip().endswith("queues=0,1,2")
    unharmed(s, p)


@device(*AMD)
def test_suspend_through_the_daemon(s):
    """The backend: attach, suspend, new queues, resume, and a killed hand."""
    p = client(s, "--busy")
    s.rubato("suspend", p.pid)
    assert len(suspended(s, p.pid)) == 4
    assert s.ps()[p.pid]["state"] == "suspended"
    p.ask("more")
    eventually("the new queue too", lambda: len(suspended(s, p.pid)) == 5)
    s.rubato("resume", p.pid)
    assert not suspended(s, p.pid)
    s.rubato("suspend", p.pid)
    hand = s.hand()
    os.kill(hand, signal.SIGKILL)
    eventually("another hand holds it", lambda: tool_pid(s, p.pid) not in (0, hand) and len(suspended(s, p.pid)) == 5)
    s.rubato("resume", p.pid)
    unharmed(s, p)


@device(*AMD)
def test_container_pids(s):
    """A container's number is found, also when a process here has it that is none of KFD's."""
    if os.geteuid() != 0 or not may_unshare("--pid", "--fork", "--mount-proc"):
        print("     not tried: wants root and a pid namespace")
        return
    inner = os.getpid()
    script = f"echo {inner - 1} > /proc/sys/kernel/ns_last_pid && {binary('kfdclient')}; true"
    process = subprocess.Popen(s.inside(["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", script]),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=s.env)
    try:
        line = process.stdout.readline()
        assert line.startswith(f"ready pid={inner} "), line
        outer = s.state()["kfd"]["processes"][0]["pid"]
        assert outer != inner
        assert f"process {outer}: 4 queues" in tool(s, "queues", outer).stdout
        done = tool(s, "queues", inner, says=f"is {outer} here")
        assert f"process {outer}: 4 queues" in done.stdout
        tool(s, "preempt", inner, "2", "--hold-ms", "1", says=f"is {outer} here")
        tool(s, "queues", 1, code=3, says="does not use an AMD GPU")
        # One of KFD's that has the number here is meant.
        other = client(s)
        assert f"process {other.pid}: 4 queues" in tool(s, "queues", other.pid).stdout
    finally:
        process.communicate("quit\n", timeout=10)


def snapshot_costs_little(s, p):
    """Of 1,024 queues: at most 1 ms of the tool's own time."""
    done = s.command(binary("kfdcost"), str(p.pid), "200")
    assert done.returncode == 0, done
    words = done.stdout.split()
    cost = dict(zip(words[::2], map(int, words[1::2])))
    whole = cost["list"] + cost["snapshot"]
    print(f"     1024 queues: listed and read {whole} us, from sysfs {cost['sysfs']} us of user time")
    with open(binary("kfdcost"), "rb") as f:
        bound = 20000 if re.search(rb"__[at]san_init", f.read()) else 1000
    assert cost["queues"] == 1024 and whole <= bound and cost["sysfs"] <= bound, cost


@device(*AMD)
def test_many_queues(s):
    p = client(s, "--queues", "1000", "--sdma", "24")
    facts = json.loads(tool(s, "queues", p.pid, "--json", "--addresses").stdout)
    assert len(facts["snapshot"]["queues"]) == 1024 and facts["snapshot"]["queues"][1023]["id"] == 1023
    assert all("pending" in q for q in facts["snapshot"]["queues"])
    done = tool(s, "preempt", p.pid, "3", "--hold-ms", "1")
    assert "3 preemptions, 3 complete" in done.stdout and "1024 of 1024" in done.stdout, done.stdout
    assert not suspended(s, p.pid)
    snapshot_costs_little(s, p)


@device(*AMD)
def test_storm(s):
    """Cycles over many queues while programs make, destroy and die; tools are killed at random."""
    cycles = 10000 if LONG else 1000
    p = client(s, "--queues", "24", "--sdma", "8", "--busy")
    churner = client(s, "--churn-ms", "3", "--busy")
    report = os.path.join(s.dir, "report")    # longer than a pipe is
    with open(report, "w") as f:
        runner = start(s, "preempt", p.pid, cycles, "--hold-ms", "0", "--interval-ms", "0", "--force", stdout=f)
    rounds = 0
    while runner.poll() is None:
        victim = start(s, "preempt", churner.pid, "100000", "--hold-ms", "1", "--interval-ms", "0", "--force",
                       stdout=subprocess.DEVNULL)
        time.sleep(random.uniform(0.05, 0.4))
        debugger = tool_pid(s, churner.pid)
        if debugger:
            try:
                os.kill(debugger, signal.SIGKILL)
            except ProcessLookupError:
                pass
        else:
            victim.kill()
        victim.communicate(timeout=20)
        eventually("no debugger", lambda: tool_pid(s, churner.pid) == 0)
        eventually("nothing left suspended", lambda: not suspended(s, churner.pid))
        rounds += 1
        if rounds % 3 == 0:
            churner.kill()
            churner = client(s, "--churn-ms", "3", "--busy")
    err = runner.communicate(timeout=60)[1]
    with open(report) as f:
        out = f.read()
    assert runner.returncode == 0 and f"{cycles} preemptions, {cycles} complete" in out, (out[-600:], err)
    print(f"     {cycles} cycles over 32 queues, {rounds} tools killed meanwhile")
    assert alive(churner.pid)
    unharmed(s, p)


main()
