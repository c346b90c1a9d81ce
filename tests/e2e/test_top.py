# SPDX-License-Identifier: Apache-2.0
"""`rubato top`: what it shows and does on a real terminal, and without one."""
import json
import os
import signal
import subprocess
import time

import harness
from harness import Program, binary, eventually, skip
from terminal import Terminal

LATENCY, NORMAL, BEST_EFFORT = (("--class", name) for name in ("latency", "normal", "best-effort"))
DISABLE_CHANNELS = "2080110b"
SET_TIMESLICE = "a06c0103"


def mark(s):
    """In the command lines of our programs alone: others are tested at the same time, and root sees them too."""
    return os.path.basename(s.dir)


def top(s, *options, **terminal):
    t = Terminal(s.inside([binary("rubato"), "top", "--filter", mark(s), *options]), s.env, **terminal)
    s.programs.append(t)
    return t


def row_of(text, pid):
    """Its line, in words; empty when it is not there."""
    return next((line.split() for line in text.splitlines() if line.split()[:1] == [str(pid)]), [])


def is_class(text, pid, name):
    """Or the beginning of it: there may be no room for more."""
    return any(word.startswith(name) for word in row_of(text, pid))


def pids(text):
    """In the order of the table."""
    return [int(line.split()[0]) for line in text.splitlines() if line.strip()[:1].isdigit() and ":" not in line.split()[0]]


def start(s, name, *options):
    """rmclient by that name, under `rubato run` if there are options for it."""
    path = os.path.join(s.dir, name)
    os.symlink(binary("rmclient"), path)
    p = Program(s, [*([binary("rubato"), "run", *options, "--"] if options else []), path])
    s.programs.append(p)
    eventually("known", lambda: p.pid in s.ps())
    return p


def three(s):
    """A latency and a best-effort program, and one without Rubato."""
    return start(s, "first", *LATENCY), start(s, "second", *BEST_EFFORT), start(s, "third")


def plain(s, *options, columns=80, lines=None, locale="C.UTF-8", code=0):
    env = dict(s.env, COLUMNS=str(columns), LC_ALL=locale)
    if lines:
        env["LINES"] = str(lines)
    argv = [binary("rubato"), "top", "-d", "0.1", "--filter", mark(s), *options]
    done = subprocess.run(s.inside(argv), env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=30)
    assert done.returncode == code, (done.returncode, done.stderr)
    return done.stdout.decode("utf-8")


def test_without_a_terminal(s):
    p, q, r = three(s)
    text = plain(s, "--once")
    assert len(pids(text)) == 3 and max(map(len, text.splitlines())) <= 80, text
    assert "GPU 0" in text and "policy turns" in text and "programs" in text, text
    assert is_class(text, p.pid, "latency") and is_class(text, q.pid, "best-eff"), text
    assert row_of(text, r.pid)[2:4] == ["–", "–"], text
    filtered = plain(s, "--once", "--filter", mark(s).upper() + "/SECOND")
    assert pids(filtered) == [q.pid] and " 1 of " in filtered.splitlines()[0], filtered
    wide = plain(s, "--once", "--sort", "pid", columns=200)
    assert pids(wide) == sorted([p.pid, q.pid, r.pid])
    assert "best-effort" in row_of(wide, q.pid) and s.dir + "/second" in wide and "nvidia 580.159.04" in wide, wide
    small = plain(s, "--batch", "-n", "2", columns=40, lines=5, locale="C")
    assert small.isascii() and small.count("rubato top") == 2 and small.count("\n") == 11, small
    assert plain(s, "--once", columns=10).startswith("too small")


def test_json(s):
    p, q, r = three(s)
    one = json.loads(plain(s, "--once", "--json"))
    programs = {row["pid"]: row for row in one["programs"]}
    assert one["daemon"] == "runs" and one["policy"] == "turns" and one["interval_us"] >= 100000
    assert [g["gpu"] for g in one["gpus"]] == [0] and one["gpus"][0]["programs"] >= 3
    assert (programs[q.pid]["class"], programs[q.pid]["priority"], programs[q.pid]["gpus"]) == ("best-effort", 2, [0])
    assert 0 <= programs[q.pid]["share"] <= 1 and programs[q.pid]["wait"] == 0
    assert programs[r.pid]["managed"] is False
    assert all(programs[r.pid][key] is None for key in ("share", "wait", "class", "priority", "turns_per_s")), programs
    lines = plain(s, "--json", "-n", "3", "--filter", mark(s) + "/first").splitlines()
    assert len(lines) == 3 and all(json.loads(line)["programs"][0]["pid"] == p.pid for line in lines)


def test_wrong_use(s):
    for args, says in ((["-d", "0"], "--delay"), (["-d", "soon"], "--delay"), (["-n", "0"], "--count"),
                       (["--sort", "beauty"], "no such column"), (["extra"], "unexpected"), (["--once", "-n", "2"], "--once"),
                       (["--filter", "x" * 100], "--filter"), (["--frobnicate"], "")):
        done = s.rubato("top", *args, code=2)
        assert done.stderr.count("\n") == 1 and says in done.stderr and done.stdout == "", (args, done.stderr)
        assert done.stderr.count("--help") <= 1, done.stderr
    done = s.rubato("top", code=1)
    assert "terminal" in done.stderr and done.stderr.count("\n") == 1
    done = s.command("sh", "-c", binary("rubato") + " top --once -d 0.1 > /dev/full")
    assert done.returncode == 1 and "No space left" in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert s.rubato("top", "--help").stdout.startswith("Usage: rubato top")
    if not os.path.exists("/dev/nvidiactl"):
        env = {k: v for k, v in s.env.items() if not k.startswith("RUBATO_")}
        done = subprocess.run([binary("rubato"), "top", "--once"], capture_output=True, env=env, text=True)
        assert done.returncode == 5 and done.stderr.count("\n") == 1, done.stderr


def needs_screen(s):
    if "ncursesw" in s.rubato("doctor", code=None).stdout:
        skip("built without ncursesw")


def test_keys(s):
    needs_screen(s)
    p, q, r = three(s)
    order = sorted([p.pid, q.pid, r.pid])
    t = top(s, "-d", "0.2", width=120)
    t.until("all three", lambda text: len(pids(text)) == 3)
    t.until("a sparkline", lambda text: any(ch in text for ch in "▁▂▃▄▅▆▇█"))
    assert t.screen.alternate and not t.screen.cursor_visible and len(t.screen.text().splitlines()) == 24
    t.press("N")
    t.until("by pid", lambda text: pids(text) == order)
    t.press("R")
    t.until("the other way round", lambda text: pids(text) == order[::-1])
    t.press("F6", *["up"] * 30)
    t.until("the menu", "Sort by")
    t.press("escape")
    t.until("gone", lambda text: "Sort by" not in text and pids(text) == order[::-1])
    t.press("<")
    t.until("by command", lambda text: "COMMANDv" in text or "COMMAND↓" in text)
    t.press("/", "/fir")
    t.until("narrowed", lambda text: pids(text) == [p.pid] and "/fir" in text.splitlines()[-1])
    t.press("enter")
    t.until("it stays, with its note", lambda text: f"{mark(s)}/fir" in text and
            text.splitlines()[-1].startswith(f"{p.pid}: no reserve: its submissions are not seen"))
    t.press("/", *["backspace"] * 4, "enter")
    t.until("all three again", lambda text: len(pids(text)) == 3)
    t.press("h")
    t.until("help", "any key: back")
    t.press("x", "+", "+", " ")
    t.until("slower, paused", lambda text: "every 1.0 s" in text and "paused" in text)
    t.press(" ", "d", "0.3", "enter")
    t.until("as typed", lambda text: "every 0.3 s" in text and "paused" not in text)
    t.press("escape")
    t.until("whoever there is", lambda text: mark(s) not in text.splitlines()[0] and set(order) <= set(pids(text)))
    t.press("F10")
    assert t.wait() == 0


def selected(t):
    """The pid in the line that is shown in reverse, but not the head."""
    for row in t.screen.cells[3:-1]:
        if 7 in row[3][1] and "".join(ch for ch, _ in row[:7]).strip().isdigit():
            return int("".join(ch for ch, _ in row[:7]))
    return None


def choose(t, pid):
    """Moves the selection there, one key at a time."""
    t.press("home")
    for _ in range(5):
        if t.until("a selection", lambda text: selected(t)) == pid:
            return
        before = selected(t)
        t.press("down")
        t.until("it moves", lambda text: selected(t) != before)
    raise AssertionError(f"{pid} cannot be selected:\n{t.screen.text()}")


def test_programs_are_changed(s):
    needs_screen(s)
    p, q, r = three(s)
    t = top(s, "-d", "0.2", "--sort", "pid")
    t.until("all three", lambda text: len(pids(text)) == 3)
    choose(t, q.pid)
    t.press("n", "norm", "enter")
    t.until("what the daemon says", f"{q.pid}: normal, priority 8")
    t.until("its class has changed", lambda text: is_class(text, q.pid, "normal"))
    assert s.ps()[q.pid]["class"] == "normal" and s.is_default(q.pid) and selected(t) == q.pid
    t.press("F8", "enter")
    t.until("one less", f"{q.pid}: normal, priority 7")
    t.press("s", "n")
    t.until("not confirmed", lambda text: "(y/n)" not in text)
    assert s.is_running(q.pid)
    t.press("s")
    t.until("asked", f"Suspend {q.pid} second? (y/n)")
    t.press("y")
    t.until("suspended", lambda text: "susp" in row_of(text, q.pid) and " suspended" in text)
    assert s.is_suspended(q.pid)
    t.press("r")
    t.until("resumed", lambda text: "run" in row_of(text, q.pid))
    assert s.is_running(q.pid)
    # One that no daemon knows is attached for it, as `rubato renice` does.
    choose(t, r.pid)
    t.press("n", "b", "enter")
    t.until("attached", lambda text: is_class(text, r.pid, "best-eff"))
    eventually("at 1 us", lambda: s.slices(r.pid) == [1])
    t.press("n", "urgent", "enter")
    t.until("no such thing", "'urgent' is no class")
    s.softgpu("fault", "--cmd", SET_TIMESLICE, "--status", "1b")
    t.press("n", "5", "enter")
    t.until("the refusal", f"process {r.pid}: the driver refused it")
    t.press("q")
    assert t.wait() == 0
    assert s.slices(r.pid) == [1]


def test_every_size(s):
    needs_screen(s)
    p, q, r = three(s)
    t = top(s, "-d", "0.2")
    t.until("all three", lambda text: len(pids(text)) == 3)
    for width, height in ((200, 50), (40, 12), (8, 2), (132, 30), (20, 5)):
        t.resize(width, height)
        if width < 20:
            t.until("says so", lambda text: text.startswith("too smal"))
        else:
            t.until(f"{width}x{height}", lambda text: str(p.pid) in text or str(q.pid) in text or str(r.pid) in text)
        if width == 200:
            t.until("all columns", lambda text: "TURN/s" in text and "best-effort" in text)
            assert len(t.screen.text().splitlines()) == 50
    t.press("q")
    assert t.wait() == 0


def test_other_terminals(s):
    needs_screen(s)
    three(s)
    for options in ({"term": "vt100"}, {"term": "xterm", "locale": "C"}):
        t = top(s, "-d", "0.2", "--no-color", **options)
        t.until("all three", lambda text: len(pids(text)) == 3)
        if "locale" in options:
            assert t.screen.text().isascii()
        used = {n for row in t.screen.cells for _, attributes in row for n in attributes}
        assert not used & set(range(30, 50)), used
        t.press("q")
        assert t.wait() == 0
    for term in ("dumb", "no-such-terminal"):
        t = top(s, term=term)
        assert t.wait() == 1 and "set TERM" in t.screen.text(), t.screen.text()


def test_signals_and_a_terminal_that_goes(s):
    needs_screen(s)
    three(s)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        t = top(s)
        t.until("it is there", "rubato top")
        if number == signal.SIGINT:
            t.press("\x03")
        else:
            os.kill(eventually("top runs", lambda: s.processes("rubato"))[0], number)
        assert t.wait() == (0 if number == signal.SIGINT else 128 + number)
    t = top(s)
    t.until("it is there", "rubato top")
    pid = eventually("top runs", lambda: s.processes("rubato"))[0]
    # Without a hangup, too: the shell that would pass it on may be gone.
    os.close(t.master)
    t.master = os.open("/dev/null", os.O_RDWR)
    eventually("it ends", lambda: not harness.alive(pid))


def test_the_daemon_goes_and_comes(s):
    needs_screen(s)
    p = start(s, "first", *BEST_EFFORT)
    t = top(s, "-d", "0.2")
    t.until("managed", lambda text: is_class(text, p.pid, "best-eff"))
    daemon = s.daemon()
    os.kill(daemon, signal.SIGSTOP)
    time.sleep(0.5)
    t.press("h")
    t.until("keys are answered also while the daemon is not", "any key: back", 2)
    t.press("h")
    os.kill(daemon, signal.SIGTERM)  # a killed one would be started again
    os.kill(daemon, signal.SIGCONT)
    t.until("told", "no daemon")
    if os.geteuid() == 0:
        t.until("as any other program", lambda text: row_of(text, p.pid)[2:3] == ["–"])
    q = start(s, "second", *BEST_EFFORT)
    t.until("the next one is found", lambda text: is_class(text, q.pid, "best-eff") and "no daemon" not in text)
    t.press("q")
    assert t.wait() == 0


def test_names_can_do_no_harm(s):
    needs_screen(s)
    evil = s.dir.encode() + "训练\033[2J\033]0;x\007\u202e\u0301".encode() + b"\xff\xfe"
    p = s.program(under=["python3", "-c", f"import os, sys; os.execv(sys.argv[1], [{evil!r}])"])
    eventually("known", lambda: p.pid in s.ps())
    t = top(s, "-d", "0.2", width=120)
    t.until("its name", lambda text: "训练?[2J" in text or "训练 [2J" in text)
    t.press("q")
    assert t.wait() == 0
    rows = json.loads(plain(s, "--once", "--json"))["programs"]
    assert [r["pid"] for r in rows] == [p.pid]


if __name__ == "__main__":
    harness.main()
