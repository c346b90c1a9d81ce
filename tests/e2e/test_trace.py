# SPDX-License-Identifier: Apache-2.0
"""rubato trace: the timeline of programs and GPUs, checked event by event, and how it ends."""
import json
import os
import re
import signal
import socket
import struct
import subprocess
import time

from harness import HERE, MAGIC, alive, binary, device, eventually, main
from programs import BEST_EFFORT, Requests, Spinner, hinter, may_unshare, spinners, taking_turns

STATES = {"running", "waiting", "off", "suspended"}
QUARTER_S = 7889238
AFRESH = 1


def message_type(name):
    """Its number in enum rbt_msg_type, which counts from 1."""
    with open(os.path.join(HERE, "../../src/proto/protocol.h")) as f:
        body = re.search(r"enum rbt_msg_type \{(.*?)\};", re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S), re.S)[1]
    return re.findall(r"RBT_MSG_(\w+)", body).index(name) + 1


TRACE, TRACE_EVENTS = message_type("TRACE"), message_type("TRACE_EVENTS")


class Tracer:
    """A running `rubato trace`, which has written its first event."""

    def __init__(self, s, *options, name="trace.json", under=(), is_awaited=True):
        self.path = os.path.join(s.dir, name)
        self.process = subprocess.Popen(s.inside([*under, binary("rubato"), "trace", "-o", self.path, *options]), env=s.env,
                                        stderr=subprocess.PIPE, text=True)
        s.programs.append(self)
        if is_awaited:
            eventually("the trace has begun", self.load)
            self.pid = eventually("it runs", lambda: [p for p in s.processes("rubato") if b"trace" in cmdline(p)])[0]

    def load(self):
        """The file, which is whole JSON at any time."""
        try:
            with open(self.path) as f:
                text = f.read()
        except FileNotFoundError:
            return None
        return json.loads(text) if text else None

    def stop(self, number=signal.SIGINT):
        os.kill(self.pid, number)
        return self.wait()

    def wait(self):
        """Exit code and messages."""
        _, errors = self.process.communicate(timeout=30)
        return self.process.returncode, errors

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate(timeout=10)


def cmdline(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read()
    except OSError:
        return b""


class Trace:
    """Slices by track, after every event was checked: {(pid, tid): [(begin, end, name, args)]}, times in us. A slice that is
    still open has no end."""

    def __init__(self, events, may_be_open=False):
        self.names, self.tracks, self.slices, self.counters, self.notes = {}, {}, {}, {}, []
        self.base_ns = None
        last = {}
        for e in events:
            assert isinstance(e["pid"], int) and isinstance(e["tid"], int), e
            track = e["pid"], e["tid"]
            if e["ph"] == "M":
                self.take_name(e, track)
                continue
            assert e["ts"] >= 0 and (e["ph"] == "C" or e["ts"] >= last.get(track, 0)), f"{e} goes back, before {last[track]}"
            last[track] = e["ts"] if e["ph"] != "C" else last.get(track, 0)
            if e["ph"] == "B":
                done = self.slices.setdefault(track, [])
                assert not done or done[-1][1] is not None, f"{e} overlaps {done[-1]}"
                done.append((e["ts"], None, e["name"], e.get("args")))
            elif e["ph"] == "E":
                begin, end, name, args = self.slices[track][-1]
                assert end is None and begin <= e["ts"], f"{e} ends {self.slices[track][-1]}"
                self.slices[track][-1] = begin, e["ts"], name, args
            elif e["ph"] == "C":
                (unit, value), = e["args"].items()
                self.counters.setdefault((e["pid"], e["name"], unit), []).append((e["ts"], value))
            else:
                assert e["ph"] == "i", e
                self.notes.append(e["name"])
        assert may_be_open or all(s[-1][1] is not None for s in self.slices.values()), "open slices"
        for track in self.slices:
            assert track in self.tracks and track[0] in self.names, f"{track} has no name"

    def take_name(self, e, track):
        if e["name"] == "process_name":
            self.names[e["pid"]] = e["args"]["name"]
        elif e["name"] == "thread_name":
            self.tracks[track] = e["args"]["name"]
        elif e["name"] == "process_labels":
            self.base_ns = e["args"]["baseTimeNanoseconds"]

    def of(self, pid, track="Rubato"):
        return [s for t, slices in sorted(self.slices.items()) if t[0] == pid and self.tracks[t] == track for s in slices]

    def runs(self, pid):
        """When it ran: a renice begins another slice, but interrupts nothing."""
        found = []
        for begin, end, name, _ in self.of(pid):
            if name == "running" and found and found[-1][1] == begin:
                found[-1] = found[-1][0], end
            elif name == "running":
                found.append((begin, end))
        return found

    def gpu(self, name="GPU 0"):
        return [s for t, slices in self.slices.items() if self.names[t[0]] == "Rubato" and self.tracks[t] == name for s in slices]

    def span(self):
        times = [t for slices in self.slices.values() for s in slices for t in s[:2]]
        return min(times), max(times)

    def on_monotonic(self, us):
        """In ns. Both clocks are read now, so this is right to some microseconds unless somebody sets the clock."""
        ahead = time.clock_gettime_ns(time.CLOCK_REALTIME) - time.monotonic_ns()
        return us * 1000 + self.base_ns - ahead


def check(trace, pids):
    """GPU and programs agree: a GPU's slice names those that run, and nobody else."""
    for pid in pids:
        for begin, end, name, args in trace.of(pid):
            assert name in STATES, name
            assert end > begin, (name, begin, end)  # ns of a clock that never stands still
            assert args["class"] in ("latency", "normal", "best-effort"), args
    changes = sorted({t for s in trace.gpu() for t in s[:2]} | {t for pid in pids for s in trace.of(pid) for t in s[:2]})
    for begin, end, name, args in trace.gpu():
        assert args["pids"] and name.count("(") == min(3, len(args["pids"])), (name, args)
        for pid in args["pids"]:
            assert len(args["pids"]) > 3 or f"{trace.names[pid]} ({pid})" in name, (name, args)
            assert any(a <= begin and end <= b for a, b in trace.runs(pid)), (pid, begin, end)
    for a, b in zip(changes, changes[1:]):
        running = {pid for pid in pids if any(x <= a and b <= y for x, y in trace.runs(pid))}
        said = [set(s[3]["pids"]) for s in trace.gpu() if s[0] <= a and b <= s[1]]
        assert said == ([running] if running else []), (a, b, running, said)


def switches(s, pid):
    """[(ns, is_on)], as the device has logged them."""
    with open(os.path.join(s.dir, "device.log")) as f:
        found = re.findall(rf"^\[ *(\d+)\.(\d+)\] GPU 0: compute group of pid {pid} is (on|off)$", f.read(), re.M)
    return [(int(sec) * 10**9 + int(us) * 1000, what == "on") for sec, us, what in found]


def agrees_with_device(s, trace, pid):
    """Each switch of the device is followed by the trace's own, before the device's next one of the program. Returns how many
    there were."""
    first, last = (trace.on_monotonic(t) for t in trace.span())
    slop = 2_000_000  # of the conversion between clocks
    seen, before = [], None
    for begin, end, name, _ in trace.of(pid):
        is_on = name == "running"
        if name != "suspended" and is_on != before and before is not None:
            seen.append((trace.on_monotonic(begin), is_on))
        before = is_on
    told = [x for x in switches(s, pid) if first + slop < x[0] < last - slop]
    seen = [x for x in seen if not told or x[0] > told[0][0] - slop]
    assert [x[1] for x in told[:len(seen)]] == [x[1] for x in seen[:len(told)]] and abs(len(told) - len(seen)) <= 1, (told, seen)
    for i, ((device_ns, _), (ns, _)) in enumerate(zip(told, seen)):
        assert device_ns <= ns + slop and (i + 1 == len(told) or ns <= told[i + 1][0] + slop), (i, told, seen)
    return len(seen)


@device("--log-switches")
def test_demo(s):
    """As ./dev demo: inference beside three training programs, which are reniced meanwhile."""
    inference = Requests(s, "--class", "latency")
    training = [Spinner(s) for _ in range(3)]
    for t in training:
        t.ask("go")
    tracer = Tracer(s)
    # Looking into a program that was not started by Rubato may take too long on a busy machine.
    eventually("reniced", lambda: s.rubato("renice", *(t.pid for t in training), *BEST_EFFORT, code=None).returncode == 0)
    taking_turns(s, training)
    inference.ask("measure graph 20 12 7")
    s.rubato("suspend", training[0].pid)
    s.rubato("resume", training[0].pid)
    assert tracer.stop() == (0, "")
    trace = Trace(tracer.load())
    pids = [p.pid for p in (inference, *training)]
    check(trace, pids)
    assert trace.names[inference.pid] == "latency" and all(trace.names[t.pid] == "besteffort" for t in training)
    assert {args["class"] for _, _, _, args in trace.of(training[1].pid)} <= {"normal", "best-effort"}
    assert "suspended" in {s[2] for s in trace.of(training[0].pid)} and "suspended" not in {s[2] for s in trace.of(training[1].pid)}
    assert all({"running", "waiting"} <= {s[2] for s in trace.of(t.pid)} for t in training)
    assert any(args["reserve"] and args["pids"] == [inference.pid] for _, _, _, args in trace.gpu())
    assert sum(agrees_with_device(s, trace, t.pid) for t in training[1:]) >= 4
    # PyTorch's exports have the same zero: see docs/tracing.md.
    assert trace.base_ns % (QUARTER_S * 10**9) == 0 and 0 <= time.time() - trace.base_ns / 1e9 < QUARTER_S
    assert abs(time.time() - (trace.base_ns / 1e9 + trace.span()[1] / 1e6)) < 60
    assert trace.counters[inference.pid, "memory", "MiB"] and not trace.notes


def test_requests_and_shares(s):
    p, q = hinter(s), Spinner(s, *BEST_EFFORT)
    q.ask("go")
    tracer = Tracer(s)
    pending = lambda: [e for e in tracer.load() if e["ph"] == "B" and e["name"] == "request"]
    for n in range(1, 4):
        p.ask("begin 0")
        eventually("the request is seen", lambda: len(pending()) == n)
        p.ask("end 0")
        eventually("its end, too", lambda: all(x[1] for x in Trace(tracer.load(), True).of(p.pid, "requests")))
    share = lambda: Trace(tracer.load(), True).counters.get((q.pid, "share", "%"), [])
    eventually("shares", lambda: len(share()) >= 2)
    assert all(0 <= value <= 100.001 for _, value in share()), share()
    assert tracer.stop(signal.SIGTERM) == (0, "")
    trace = Trace(tracer.load())
    check(trace, [p.pid, q.pid])
    assert len(trace.of(p.pid, "requests")) == 3


@device("--gpus", "2")
def test_programs_come_and_go(s):
    """Without a daemon at first; on a second GPU; a program that ends has no open slice."""
    tracer = Tracer(s)
    p = s.run(*BEST_EFFORT, args=("--gpu", "1"))
    eventually("it is there", lambda: Trace(tracer.load(), True).gpu("GPU 1"))
    p.end()
    eventually("it has ended", lambda: all(x[1] for x in Trace(tracer.load(), True).gpu("GPU 1")))
    trace = Trace(tracer.load(), True)
    assert trace.names[p.pid] == "rmclient" and all(x[1] for x in trace.of(p.pid))
    assert tracer.stop() == (0, "")


def test_seconds(s):
    started = time.monotonic()
    tracer = Tracer(s, "--seconds", "0.5", is_awaited=False)
    assert tracer.wait() == (0, "") and time.monotonic() - started >= 0.5
    Trace(tracer.load())


def test_tool_and_daemon_are_killed(s):
    a, b = spinners(s, (), ())
    tracer = Tracer(s)
    eventually("both", lambda: {a.pid, b.pid} <= {e["pid"] for e in tracer.load()})
    os.kill(tracer.pid, signal.SIGKILL)
    tracer.wait()
    assert Trace(tracer.load(), True).gpu(), "the file was whole before, and is so after"
    # The daemon records no more, and serves the next tool.
    tracer = Tracer(s, name="second.json")
    os.kill(s.daemon(), signal.SIGKILL)
    code, errors = tracer.wait()
    assert code == 1 and "rubatod has ended" in errors and errors.count("\n") == 1, errors
    Trace(tracer.load())
    assert eventually("another daemon", lambda: s.ps().get(a.pid))


def test_daemon_is_stopped(s):
    """A daemon that does not answer is no reason to hang; afterwards the trace goes on."""
    spinners(s, (), ())
    tracer = Tracer(s)
    daemon = s.daemon()
    os.kill(daemon, signal.SIGSTOP)
    try:
        eventually("it is noticed", lambda: not Trace(tracer.load(), True).gpu() or Trace(tracer.load(), True).gpu()[-1][1])
    finally:
        os.kill(daemon, signal.SIGCONT)
    eventually("it goes on", lambda: Trace(tracer.load(), True).gpu()[-1][1] is None)
    code, errors = tracer.stop()
    assert code == 0 and "does not answer" in errors, (code, errors)
    Trace(tracer.load())


def test_no_room(s):
    """A file that cannot grow ends the trace, and is whole; daemon and programs go on."""
    a, b = spinners(s, (), ())
    path = os.path.join(s.dir, "small.json")
    tracer = subprocess.run(s.inside(["sh", "-c", 'ulimit -f 16; exec "$@"', "sh", binary("rubato"), "trace", "-o", path]),
                            env=s.env, capture_output=True, text=True, timeout=60)
    assert tracer.returncode == 1 and "File too large" in tracer.stderr and tracer.stderr.count("\n") == 1, tracer
    assert os.path.getsize(path) <= 16 * 1024
    with open(path) as f:
        Trace(json.load(f), True)
    if may_unshare("-m"):
        full_disk(s)
    n = a.count() + b.count()
    eventually("they go on", lambda: a.count() + b.count() > n)
    assert {a.pid, b.pid} <= set(s.ps())


def full_disk(s):
    script = 'mkdir "$1" && mount -t tmpfs -o size=16k none "$1" && "$2" trace -o "$1/x.json"; code=$?; ' \
             'cat "$1/x.json" >"$1.json"; exit $code'
    folder = os.path.join(s.dir, "full")
    done = subprocess.run(s.inside(["unshare", "-m", "sh", "-c", script, "sh", folder, binary("rubato")]), env=s.env,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "No space left on device" in done.stderr, done
    with open(folder + ".json") as f:
        assert Trace(json.load(f), True).gpu()


def test_slow_reader(s):
    """A pipe that nobody empties stops the tool alone. What was lost is said."""
    a, b = spinners(s, (), ())
    fifo = os.path.join(s.dir, "fifo")
    os.mkfifo(fifo)
    tracer = subprocess.Popen(s.inside([binary("rubato"), "trace", "-o", fifo]), env=s.env, stderr=subprocess.PIPE, text=True)
    with open(fifo) as f:
        assert f.read(1) == "["
        before = a.count() + b.count()
        eventually("programs and daemon go on", lambda: a.count() + b.count() > before and len(s.ps()) == 2)
        os.kill(eventually("it runs", lambda: s.processes("rubato"))[0], signal.SIGINT)
        Trace(json.loads("[" + f.read()))
    assert tracer.communicate(timeout=30)[1] == "" and tracer.returncode == 0
    # A reader that goes away ends the trace.
    tracer = subprocess.Popen(s.inside([binary("rubato"), "trace", "-o", fifo]), env=s.env, stderr=subprocess.PIPE, text=True)
    with open(fifo) as f:
        f.read(1)
    _, errors = tracer.communicate(timeout=30)
    assert tracer.returncode == 1 and "Broken pipe" in errors, errors


def test_usage(s):
    for arguments, what in (((), "-o FILE"), (("-o",), "argument"), (("-o", "x", "y"), "unexpected"), (("-o", ""), "-o FILE"),
                            (("-o", "x", "--seconds", "0"), "--seconds"), (("-o", "x", "--seconds", "-1"), "--seconds"),
                            (("-o", "x", "--seconds", "soon"), "--seconds")):
        done = s.rubato("trace", *arguments, code=2)
        assert what in done.stderr and done.stderr.count("\n") == 1 and not os.path.exists("x"), done.stderr
    done = s.rubato("trace", "-o", "/nonexistent/x", code=1)
    assert "/nonexistent/x" in done.stderr and done.stderr.count("\n") == 1, done.stderr


def ask_raw(sock, next_number, flags, size=24):
    sock.send(struct.pack("<IIQII", MAGIC, TRACE, next_number, flags, 0)[:size])
    answer = sock.recv(1 << 17)
    return struct.unpack_from("<II", answer)[1], answer


def test_strange_requests(s):
    """Numbers that nobody told, a message that is too short: an answer, and nothing worse."""
    s.run(*BEST_EFFORT)
    daemon = s.daemon()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.settimeout(20)
        sock.connect(os.path.join(s.run_dir, "control.sock"))
        assert ask_raw(sock, 0, 0, size=16)[0] == 9  # RESULT
        for number in 0, 1, 2**63, 2**64 - 1:
            kind, answer = ask_raw(sock, number, 0)
            assert kind == TRACE_EVENTS and len(answer) == 32 + 8 * 32 + 48 * struct.unpack_from("<I", answer, 24)[0]
        kind, answer = ask_raw(sock, 2**64 - 1, AFRESH | 0xfffffff0)
        assert kind == TRACE_EVENTS and struct.unpack_from("<I", answer, 24)[0] == 1
    assert alive(daemon) and s.ps()


if __name__ == "__main__":
    main()
