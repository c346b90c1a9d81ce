# SPDX-License-Identifier: Apache-2.0
"""Accounts: what programs have had, as ps tells it and as Prometheus reads it."""
import http.client
import math
import os
import re
import resource
import select
import signal
import socket
import stat
import subprocess
import time

import harness
from harness import Program, binary, eventually
from programs import BEST_EFFORT, Daemon, Requests, Spinner, cpu_seconds, hinter, rests, spinners

SAMPLE = re.compile(r'([a-z_]+)(?:\{(.*)\})? (\S+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=10)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(self.path)


def connection(at):
    """To a path, or to an address and a port."""
    return UnixConnection(at) if isinstance(at, str) else http.client.HTTPConnection(*at, timeout=10)


def request(at, method="GET", url="/metrics"):
    c = connection(at)
    try:
        c.request(method, url)
        answer = c.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        c.close()


def unescape(value):
    return re.sub(r"\\(.)", lambda m: "\n" if m.group(1) == "n" else m.group(1), value)


def parse_labels(text, line):
    labels, at = {}, 0
    while at < len(text or ""):
        m = LABEL.match(text, at)
        assert m and m.group(1) not in labels, line
        labels[m.group(1)] = unescape(m.group(2))
        at = m.end()
    return labels


def parse(text):
    """{(name, labels): value}, strictly: one group a family, its HELP and TYPE first, no sample twice."""
    families, samples, current = {}, {}, None
    assert text.endswith("\n")
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            _, _, name, said = line.split(" ", 3)
            assert name not in families and said, line
            families[name], current = None, name
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current and families[name] is None and kind in SUFFIXES, line
            families[name] = kind
        else:
            m = SAMPLE.fullmatch(line)
            assert m, line
            kind = families[current]
            assert m.group(1) in [current + end for end in SUFFIXES[kind]], line
            assert (kind == "counter") == current.endswith("_total"), line
            key = m.group(1), tuple(sorted(parse_labels(m.group(2), line).items()))
            assert key not in samples, line
            samples[key] = float(m.group(3))
            assert samples[key] >= 0 and math.isfinite(samples[key]), line
    for name, kind in families.items():
        assert name.startswith("rubato_")
        assert any(key[0].startswith(name) for key in samples), f"{name} has no sample"
        if kind == "histogram":
            check_histogram(name, samples)
    return samples


def check_histogram(name, samples):
    counts = {labels: v for (n, labels), v in samples.items() if n == name + "_count"}
    assert counts
    for labels, count in counts.items():
        buckets = [(float(dict(ls)["le"]), v) for (n, ls), v in samples.items()
                   if n == name + "_bucket" and tuple(p for p in ls if p[0] != "le") == labels]
        assert buckets == sorted(buckets) and len(buckets) > 10, (name, buckets)
        assert all(a[1] <= b[1] and a[0] < b[0] for a, b in zip(buckets, buckets[1:])), (name, buckets)
        assert buckets[-1] == (math.inf, count), (name, buckets, count)
        assert (samples[name + "_sum", labels] > 0) == (count > 0), name


def without_metrics(s):
    """Left out when it was built: nothing to test."""
    absent = "libmicrohttpd" in s.rubato("doctor").stdout
    if absent:
        print("     built without libmicrohttpd")
    return absent


def scrape(at):
    status, headers, text = request(at)
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4"), (status, headers)
    return parse(text)


def served(at):
    try:
        return scrape(at)
    except OSError:
        return None


def of(samples, pid=None, **labels):
    """{name: value} of one program, or of other labels; without buckets."""
    want = dict(labels, **({"pid": str(pid)} if pid is not None else {}))
    return {name: v for (name, ls), v in samples.items() if want.items() <= dict(ls).items() and "le" not in dict(ls)}


def adds_up(row):
    """Of ps --json."""
    assert row["known_us"] > 0 and row["on_us"] + row["waited_us"] <= row["known_us"], row
    if row["used_us"] is not None:
        assert row["used_us"] <= row["on_us"], row
    for name in "off", "suspend_call", "resume_call", "request":
        h = row[name]
        if h is not None and h["count"] > 0:
            assert 0 <= h["mean_us"] <= h["max_us"] and 0 <= h["p50_us"] <= h["p99_us"] <= h["max_us"], (name, h)
    return row


def suspends(s, pid):
    """How often the device was told to take the program's compute task off, and to let it on."""
    task, = s.tasks(pid)
    return task["suspends"], task["resumes"]


def test_two_in_turns_beside_requests(s):
    requests = Requests(s, "--class", "latency")
    a, b = spinners(s, (), ())
    attached = s.program()
    s.rubato("renice", attached.pid, *BEST_EFFORT)
    requests.ask("measure graph 20 20 1")

    def enough():
        rows = s.ps()
        return (all(rows[p.pid]["preemptions"] >= 3 for p in (a, b, attached)) and
                all(rows[p.pid]["used_us"] > 200000 for p in (a, b)) and rows)
    rows = eventually("each has had some turns", enough)
    for p in a, b, attached:
        row = adds_up(rows[p.pid])
        assert row["suspends"] == 0, row
        # It may be off now, and that does not count yet.
        assert row["preemptions"] - 1 <= row["off"]["count"] <= row["preemptions"], row
        assert row["suspend_call"]["count"] >= row["preemptions"] and row["suspend_call"]["max_us"] > 0, row
        assert row["resume_call"]["count"] >= row["off"]["count"], row
        assert row["request"] is None and row["requests_late"] is None, row
        # Off for most of the time that it waited: it waits when it is new, too.
        assert row["off"]["mean_us"] * row["off"]["count"] <= row["waited_us"] * 1.2 + 50000, row
    for p in a, b:
        row = rows[p.pid]
        assert row["submissions"] > 10, row
    assert rows[attached.pid]["used_us"] is None and rows[attached.pid]["submissions"] is None, "nobody knows"
    assert rows[attached.pid]["on_us"] > 0
    text = s.rubato("ps", "--long").stdout
    assert re.search(rf"^ *{a.pid} .*\n +time: [0-9.]+m?s used, [0-9.]+m?s waited, of [0-9.]+s; [0-9]+ turns, 0 reserves, "
                     r"0 suspends\n +preempted: [0-9]+, p50 [0-9.]+m?s, p99 ", text, re.M), text
    assert re.search(rf"^ *{attached.pid} .*\n +time: - used, ", text, re.M), text
    row = adds_up(rows[requests.pid])
    assert row["preemptions"] == 0 and row["submissions"] >= 20 and row["waited_us"] == 0, row
    assert 0 < row["used_us"] < row["known_us"] / 2, row


def test_calls_are_counted_as_the_device_does(s):
    a, b = spinners(s, (), ())
    for p in a, b:
        eventually("it has been off", lambda: s.ps()[p.pid]["preemptions"] >= 3)
    a.ask("pause")
    b.ask("pause")
    s.rubato("suspend", b.pid)
    s.rubato("suspend", b.pid)  # once more is no other
    s.rubato("resume", b.pid)
    s.rubato("suspend", b.pid)
    s.rubato("resume", b.pid)
    for p in a, b:
        def agrees():
            before, row, after = suspends(s, p.pid), s.ps()[p.pid], suspends(s, p.pid)
            # By command, the compute task of one that waited for its turn was off already; and stays so after it.
            spared = row["suspend_call"]["count"] - after[0]
            return (before == after and row["resume_call"]["count"] == after[1] and
                    0 <= spared <= 2 * row["suspends"] and row)
        row = adds_up(eventually("as many as the device counts", agrees))
        assert row["suspends"] == (2 if p is b else 0), row
        assert row["suspend_call"]["count"] >= 3, row


def test_a_resume_is_not_waited_for_longer_than_it_takes(s):
    """After it the device is made to look at the tasks again, by preempting them: that is another matter."""
    p = s.run(*BEST_EFFORT)
    s.rubato("suspend", p.pid)
    s.softgpu("fault", "--cmd", "a06c0105", "--delay-us", 300000)
    before = [t["preempts"] for t in s.tasks(p.pid, None)]
    s.rubato("resume", p.pid)
    assert s.is_running(p.pid)
    row = adds_up(s.ps()[p.pid])
    assert row["resume_call"]["count"] == 1 and row["resume_call"]["max_us"] < 300000, row
    eventually("done all the same", lambda: [t["preempts"] for t in s.tasks(p.pid, None)] == [n + 1 for n in before])


def test_requests_as_told(s):
    p = hinter(s)
    eventually("known", lambda: s.ps().get(p.pid, {}).get("counted"))
    assert s.ps()[p.pid]["request"] is None, "none yet is not zero of them"
    for ms in 5, 5, 30, 30, 30:
        p.ask("begin 0")
        time.sleep(ms / 1000)
        p.ask("end 0")
    p.ask("begin 1000000")
    time.sleep(0.01)
    p.ask("end 0")
    row = adds_up(s.ps()[p.pid])
    assert row["request"]["count"] == 6 and row["requests_late"] == 1, row
    # (A bucket's upper end; the machine may have had other things to do.)
    assert 10000 < row["request"]["p50_us"] < 2000000 and 18000 < row["request"]["mean_us"] < 1500000, row
    assert 30000 < row["request"]["p99_us"] <= row["request"]["max_us"], row
    assert row["used_us"] > 0 and row["reserves"] > 0, row


def test_from_seen_to_off(s):
    """A request that takes a program off has the time of that; only queues would show when its first packet is done."""
    p, (spinner, other) = hinter(s), spinners(s, (), ())
    assert s.ps()[p.pid]["seen_to_off"]["count"] == 0

    def request():
        p.ask("begin 0")
        eventually("both are off", lambda: all(s.ps()[q.pid]["state"] == "waiting" for q in (spinner, other)))
        p.ask("end 0")
        eventually("one is on", lambda: any(s.ps()[q.pid]["state"] == "running" for q in (spinner, other)))
        return s.ps()[p.pid]["seen_to_off"]["count"] >= 3
    eventually("three times", request)
    row = s.ps()[p.pid]
    assert 0 < row["seen_to_off"]["p50_us"] <= row["seen_to_off"]["max_us"] < 10e6, row
    assert row["off_to_done"] is None, row
    for q in spinner, other:
        assert s.ps()[q.pid]["off_to_done"] is None


def test_an_idle_program_uses_nothing(s):
    """Also where nobody else wants the GPU, so that the core has no reason to look."""
    p = Spinner(s, "--class", "normal")
    p.ask("go")
    eventually("it uses the GPU", lambda: adds_up(s.ps()[p.pid])["used_us"] > 500000)
    p.ask("pause")

    def grows():
        """What it has used and might have used in a second."""
        before = adds_up(s.ps()[p.pid])
        time.sleep(1)
        after = adds_up(s.ps()[p.pid])
        return after["used_us"] - before["used_us"], after["on_us"] - before["on_us"]

    eventually("it uses it no more", lambda: grows()[0] < 300000 < grows()[1])


def test_accounts_survive_a_renice_and_a_reload(s):
    d = Daemon(s, text="turn_ms = 60\n")
    a, b = spinners(s, (), ())
    eventually("it has been off", lambda: s.ps()[a.pid]["preemptions"] > 0)
    before = s.ps()[a.pid]
    s.rubato("renice", a.pid, "--class", "normal")
    d.reload("turn_ms = 100\n")
    s.rubato("renice", a.pid, *BEST_EFFORT)
    after = adds_up(s.ps()[a.pid])
    for key in "known_us", "used_us", "waited_us", "submissions", "preemptions":
        assert after[key] >= before[key] > 0, (key, before, after)
    c = s.run(*BEST_EFFORT)
    eventually("it has been off", lambda: s.ps()[c.pid]["preemptions"] > 2)
    os.kill(d.pid, signal.SIGTERM)
    d.process.wait(10)
    began = time.monotonic()
    Daemon(s)
    row = eventually("known to a new daemon", lambda: c.ask("slice") and s.ps()[c.pid]["managed"] and s.ps()[c.pid])
    assert row["known_us"] / 1e6 < time.monotonic() - began, ("it starts anew", row)


NAMED = r"""if True:
    import ctypes, os, sys
    cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
    ctypes.CDLL(None).prctl(15, b'a"b\\c\nd', 0, 0, 0)
    print(f"ready pid={os.getpid()}", flush=True)
    sys.stdin.read()
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_metrics_on_a_socket(s):
    if without_metrics(s):
        return
    path = os.path.join(s.dir, "metrics.sock")
    d = Daemon(s, "--metrics", path)
    eventually("it is served", lambda: os.path.exists(path) and served(path))
    mode = os.lstat(path).st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600, oct(mode)
    first = scrape(path)
    assert {name for name, _ in first} == {"rubato_info", "rubato_policy_overruled_total", "rubato_policy_ejections_total"}, \
        "nothing is known of no programs"
    a, b = spinners(s, (), ())
    attached = s.program()
    s.rubato("renice", attached.pid, *BEST_EFFORT)
    named = Program(s, [binary("rubato"), "run", "--class", "normal", "--", "python3", "-c", NAMED])
    s.programs.append(named)

    def enough():
        samples = scrape(path)
        return (of(samples, a.pid).get("rubato_program_preemptions_total", 0) > 0 and of(samples, attached.pid) and
                of(samples, named.pid) and of(samples, gpu="0")["rubato_gpu_used_seconds_total"] > 0.2 and samples)
    samples, rows = eventually("all of them are told of", enough), s.ps()
    assert of(samples, named.pid, program='a"b\\c\nd', **{"class": "normal"}).keys() == {"rubato_program_info"}, \
        "a name that is to be escaped"
    one = of(samples, a.pid)
    labels = next(dict(ls) for name, ls in samples if dict(ls).get("pid") == str(a.pid) and name == "rubato_program_info")
    assert labels["program"] == "besteffort" and labels["class"] == "best-effort" and labels["gpu"] == "0", labels
    assert re.fullmatch("GPU-[0-9a-f-]{36}", labels["gpu_uuid"]), labels
    assert {"pid", "program", "user", "gpu"} == next(set(dict(ls)) for name, ls in samples if name == "rubato_program_turns_total")
    assert one["rubato_program_memory_bytes"] == rows[a.pid]["memory_bytes"] and "rubato_program_memory_limit_bytes" not in one
    assert labels["user"] == rows[a.pid]["user"], labels
    assert 0 < one["rubato_program_preemptions_total"] <= rows[a.pid]["preemptions"]
    assert 0 < one["rubato_program_used_seconds_total"] * 1e6 <= rows[a.pid]["used_us"] + 1
    assert one["rubato_program_used_seconds_total"] + one["rubato_program_waited_seconds_total"] <= \
        one["rubato_program_known_seconds_total"]
    assert one["rubato_program_suspend_seconds_count"] >= one["rubato_program_preemptions_total"]
    assert one["rubato_program_waiting"] in (0, 1) and one["rubato_program_suspended"] == 0
    assert "rubato_program_request_seconds_count" not in one and "rubato_program_pending" not in one
    assert "rubato_program_off_to_done_seconds_count" not in one and "rubato_program_seen_to_off_seconds_count" in one
    unknown = of(samples, attached.pid)
    assert "rubato_program_used_seconds_total" not in unknown and "rubato_program_submissions_total" not in unknown
    assert unknown["rubato_program_known_seconds_total"] > 0
    gpu = of(samples, gpu="0")
    assert gpu["rubato_gpu_switches_total"] > 0, gpu
    assert of(samples, **{"gpu": "0", "class": "best-effort"})["rubato_gpu_programs"] == 3
    assert of(samples, **{"gpu": "0", "class": "latency"})["rubato_gpu_programs"] == 0
    a.end()
    b.end()
    eventually("gone", lambda: not of(scrape(path), a.pid))
    assert of(scrape(path), gpu="0")["rubato_gpu_used_seconds_total"] >= gpu["rubato_gpu_used_seconds_total"]
    assert request(path, url="/other")[0] == 404 and request(path, method="POST")[0] == 405
    status, _, text = request(path, method="HEAD")
    assert status == 200 and text == ""
    os.kill(d.pid, signal.SIGTERM)
    d.process.wait(10)
    assert not os.path.lexists(path), "a socket is left behind"


def test_metrics_on_a_port_and_reload(s):
    if without_metrics(s):
        return
    port, path = free_port(), os.path.join(s.dir, "metrics.sock")
    d = Daemon(s, text=f"metrics = {port}\n")
    eventually("it is served", lambda: served(("127.0.0.1", port)))
    assert of(scrape(("127.0.0.1", port)))["rubato_info"] == 1
    with open("/proc/net/if_inet6") as f:
        if any(line.startswith("0" * 31 + "1 ") for line in f):
            assert of(scrape(("::1", port)))["rubato_info"] == 1
    d.reload(f"metrics = {path}\npolicy = fair\n")
    eventually("moved", lambda: served(path))
    assert dict(next(ls for name, ls in scrape(path) if name == "rubato_info"))["policy"] == "fair"
    assert served(("127.0.0.1", port)) is None, "the port is still there"
    # Where something else is, nothing is removed, and all stays as it was.
    taken = os.path.join(s.dir, "taken")
    open(taken, "w").close()
    d.reload(f"metrics = {taken}\n")
    time.sleep(0.2)
    assert scrape(path) and os.path.isfile(taken)
    # One that a killed daemon has left is nobody's.
    left = os.path.join(s.dir, "left")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(left)
    d.reload(f"metrics = {left}\n")
    eventually("taken over", lambda: not os.path.lexists(path) and served(left))
    d.reload("metrics = none\n")
    eventually("off", lambda: not os.path.lexists(left))
    assert s.daemon() == d.pid


def test_wrong_places_for_metrics(s):
    def start(*options):
        done = s.command(binary("rubatod"), *map(str, options))
        assert done.stderr.count("\n") == 1, done.stderr
        return done.returncode
    for wrong in "relative", "0", "65536", "/" + "x" * 200, "":
        assert start("--metrics", wrong) == 2, wrong
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert start("--metrics", other.getsockname()[1]) == 1
    assert start("--metrics", "/nowhere/metrics") == 1
    path = os.path.join(s.dir, "checked")
    for text, code in ("metrics = none", 0), ("metrics = 9400", 0), ("metrics = /run/m", 0), ("metrics = x", 1):
        with open(path, "w") as f:
            f.write(text)
        assert s.command(binary("rubatod"), "--check", path).returncode == code, text


FLOOD = """if True:
    import select, socket, sys
    n = 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        with socket.socket(socket.AF_UNIX) as c:
            c.settimeout(1)
            try:
                c.connect(sys.argv[1])
                c.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
                while c.recv(65536):
                    pass
                n += 1
            except OSError:
                pass
    print(n)
"""


def test_who_asks_badly_delays_nobody(s):
    """More connections than are served, halves of requests, nonsense, and readers that do not read."""
    if without_metrics(s):
        return
    path = os.path.join(s.dir, "metrics.sock")
    d = Daemon(s, "--metrics", path)
    eventually("it is served", lambda: served(path))
    a, b = spinners(s, (), ())
    bad = []
    for i in range(40):
        c = socket.socket(socket.AF_UNIX)
        c.setblocking(False)
        try:
            c.connect(path)
            c.send((b"GET /metrics HTTP/1.1\r\n", b"\x00\xff" * 500, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b"")[i % 4])
        except OSError:
            pass
        bad.append(c)
    before = s.ps()
    for p in a, b:
        eventually("turns go on", lambda: s.ps()[p.pid]["turns"] >= before[p.pid]["turns"] + 5)
    for c in bad:
        c.close()
    eventually("served again", lambda: of(served(path) or {}, a.pid))
    # As fast as it goes, by three at once.
    used, since = cpu_seconds(d.pid), time.monotonic()
    crowd = [subprocess.Popen(["python3", "-c", FLOOD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
             for _ in range(3)]
    time.sleep(1)
    before = s.ps()
    for p in a, b:
        eventually("turns go on", lambda: s.ps()[p.pid]["turns"] >= before[p.pid]["turns"] + 5)
    used, passed = cpu_seconds(d.pid) - used, time.monotonic() - since
    n = sum(int(c.communicate(timeout=30)[0]) for c in crowd)
    print(f"     {n} scrapes in {passed:.1f} s, for {used:.2f} s")
    assert used < 0.3 + 0.25 * passed, "an eighth, as much for all else, and what is had at once"


def test_no_file_descriptor_left(s):
    """A connection that cannot be accepted does not keep the daemon busy, and is accepted later."""
    if without_metrics(s):
        return
    path = os.path.join(s.dir, "metrics.sock")
    d = Daemon(s, "--metrics", path)
    eventually("it is served", lambda: served(path))
    soft, hard = resource.prlimit(d.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(d.pid, resource.RLIMIT_NOFILE, (max(map(int, os.listdir(f"/proc/{d.pid}/fd"))) + 1, hard))
    filled = []
    try:  # in the gaps below the highest
        while len(filled) < 64:
            filled.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            filled[-1].setblocking(False)
            filled[-1].connect(os.path.join(s.run_dir, "control.sock"))
    except OSError:
        pass
    c = socket.socket(socket.AF_UNIX)
    c.settimeout(20)
    c.connect(path)
    c.sendall(b"GET / HTTP/1.0\r\n\r\n")
    eventually("it does not spin", lambda: rests(d.pid))
    resource.prlimit(d.pid, resource.RLIMIT_NOFILE, (soft, hard))
    assert c.recv(4096).startswith(b"HTTP/1."), "served in the end"
    for other in filled + [c]:
        other.close()
    assert scrape(path)


def slowly(path, n):
    slow = [socket.socket(socket.AF_UNIX) for _ in range(n)]
    for c in slow:
        c.connect(path)
        c.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: ")
    return slow


def go_on(slow):
    for c in slow:
        try:
            c.send(b"x")
        except OSError:
            pass


def test_slow_ones_make_room(s):
    """Those who take all places, a byte now and then, keep nobody waiting for long; not even if they come again."""
    if without_metrics(s):
        return
    path = os.path.join(s.dir, "metrics.sock")
    Daemon(s, "--metrics", path)
    eventually("it is served", lambda: served(path))
    slow = slowly(path, 20)
    waiting = socket.socket(socket.AF_UNIX)
    waiting.connect(path)
    waiting.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    began = time.monotonic()
    while not select.select([waiting], [], [], 0.5)[0]:
        # Without room being made for it, after four seconds and more.
        assert time.monotonic() - began < 3.5, "it is not served in time"
        go_on(slow)
    assert waiting.recv(4096).startswith(b"HTTP/1.")
    print(f"     after {time.monotonic() - began:.1f} s")
    for c in slow + [waiting]:
        c.close()


def test_slow_ones_are_cut_off(s):
    """A byte now and then does not buy a place for ever, even where there is room."""
    if without_metrics(s) or not harness.LONG:
        print("     only in the long run")
        return
    path = os.path.join(s.dir, "metrics.sock")
    Daemon(s, "--metrics", path)
    eventually("it is served", lambda: served(path))
    slow = slowly(path, 1)
    began = time.monotonic()
    while not select.select(slow, [], [], 1)[0]:
        assert time.monotonic() - began < 50
        go_on(slow)
    took = time.monotonic() - began
    assert slow[0].recv(15) == b"" and 25 < took, took
    slow[0].close()


if __name__ == "__main__":
    harness.main()
