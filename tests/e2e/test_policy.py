# SPDX-License-Identifier: Apache-2.0
"""Policies in eBPF inside the daemon: what they decide reaches the device, and none of them can do harm."""
import fcntl
import json
import os
import random
import re
import select
import signal
import socket
import struct
import time

import harness
from harness import BUILD, LONG, MAGIC, alive, binary, eventually, skip
from programs import BEST_EFFORT, Daemon, spinners

LOAD, UNLOAD, SHOW, OBJECT, MAP, LOG = range(20, 26)  # enum rbt_msg_type
ENGINES = {"auto": 0, "kernel": 1, "vm": 2}
FOREGROUND, JOIN = 1, 2


def path(name):
    found = os.path.join(BUILD, "tests", "policies", name + ".bpf.o")
    if not os.path.exists(found):
        skip("no clang: there are no compiled policies")
    return found


def engines(s):
    """The engines that can be used here."""
    usable = s.rubato("policy", "check", path("steered"), "--json").stdout
    return ["vm", "kernel"] if '"kernel"' in usable and json.loads(s.rubato("policy", "show", "--json").stdout)["engine"] == "kernel" \
        else ["vm"]


def show(s):
    return json.loads(s.rubato("policy", "show", "--json").stdout)


def load(s, name, *options, code=0):
    return s.rubato("policy", "load", path(name), *options, code=code)


def order(s, pid, code=0, **fields):
    """What the policy is to do with the program."""
    values = dict(dict.fromkeys(("refuse", "fail", "slow", "flip"), 0), **fields)
    s.rubato("policy", "map", "set", "orders", pid, ",".join(f"{k}={v}" for k, v in values.items()), code=code)


class Tool:
    """A connection to the daemon that speaks for itself."""

    def __init__(self, s):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(30)
        self.sock.connect(os.path.join(s.run_dir, "control.sock"))

    def send(self, kind, body=b"", fds=()):
        socket.send_fds(self.sock, [struct.pack("<II", MAGIC, kind) + body], list(fds))

    def has_answer(self):
        return bool(select.select([self.sock], [], [], 0)[0])

    def result(self):
        """The answer's type, error (of a RESULT), and bytes."""
        data, files, _, _ = socket.recv_fds(self.sock, 65536, 4)
        for fd in files:
            os.close(fd)
        assert data, "the daemon has cut us off"
        answer = struct.unpack_from("<I", data, 4)[0]
        return answer, struct.unpack_from("<i", data, 8)[0] if answer == 9 else 0, data

    def ask(self, kind, body=b"", fds=()):
        self.send(kind, body, fds)
        return self.result()

    def send_load(self, name, *settings, engine="vm", flags=0, data=None, seals=0xf):
        fd = os.memfd_create("policy", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        with open(path(name), "rb") as f:
            os.write(fd, f.read() if data is None else data)
        fcntl.fcntl(fd, 1033, seals)  # F_ADD_SEALS
        body = struct.pack("<IIII64s", ENGINES[engine], flags, len(settings), 0, name.encode())
        try:
            self.send(LOAD, body + b"".join(x.encode() + b"\0" for x in settings), [fd])
        finally:
            os.close(fd)

    def load(self, *args, **options):
        self.send_load(*args, **options)
        return self.result()[1]

    def entry(self, op, load, number, key=b"", value=b""):
        return self.ask(MAP, struct.pack("<IIIIII", op, load, number, len(key), len(value), 0) + key + value)

    def close(self):
        self.sock.close()


def test_outputs_reach_the_device(s):
    p = s.run(*BEST_EFFORT)
    for engine in engines(s):
        load(s, "steered", "--engine", engine, "--set", "slice_us=700")
        eventually("its slice", lambda: s.slices(p.pid) == [700])
        shown = show(s)
        assert (shown["name"], shown["engine"], shown["state"]) == ("steered", engine, "loaded"), shown
        assert s.ps()[p.pid]["policy"] == "steered"
        load(s, "steered", "--engine", engine, "--set", "slice_us=900")
        eventually("its new slice", lambda: s.slices(p.pid) == [900])
        # What the driver can bear is the limit.
        load(s, "steered", "--engine", engine, "--set", "slice_us=99999999999")
        eventually("the longest slice", lambda: s.slices(p.pid) == [1000000])
        s.rubato("policy", "unload")
        eventually("what the policy said has ended", lambda: s.slices(p.pid) in ([1], [2048]))
        assert show(s)["state"] == "none" and s.ps()[p.pid]["policy"] == "turns"
    s.rubato("policy", "unload", code=None)


def test_priorities_change_roles(s):
    """Normal programs share; with a priority below they take turns, and the policy's ends with it."""
    programs = [s.run("--class", "normal"), s.run("--class", "normal")]
    eventually("both run", lambda: all(s.is_default(p.pid) for p in programs))
    load(s, "steered", "--set", "priority=2")
    for p in programs:
        eventually("ps says so", lambda: s.ps()[p.pid]["note"] == "the policy gives it priority 2")
        eventually("it waits", lambda: s.is_off(p.pid))
        eventually("it has a turn", lambda: s.is_running(p.pid))
    s.rubato("policy", "unload")
    eventually("both run again", lambda: all(s.is_default(p.pid) for p in programs))
    assert not any(s.ps()[p.pid]["note"] for p in programs)


def test_refusals_are_shown(s):
    p, q = s.run(*BEST_EFFORT), s.run(*BEST_EFFORT)
    load(s, "steered")
    order(s, p.pid, refuse=1)
    eventually("ps says so", lambda: "the policy refuses" in (s.ps()[p.pid]["note"] or ""))
    eventually("it is kept off", lambda: s.is_off(p.pid))
    assert "the policy refuses" not in (s.ps()[q.pid]["note"] or "")
    order(s, p.pid)
    eventually("it runs", lambda: s.is_running(p.pid))
    assert show(s)["state"] == "loaded", show(s)
    stats = json.loads(s.rubato("policy", "stats", "--json").stdout)["hooks"]
    assert stats["schedule"]["calls"] > 0 and stats["schedule"]["errors"] == 0, stats


def test_ejected_by_strikes(s):
    p = s.run(*BEST_EFFORT)
    q = s.run(*BEST_EFFORT)
    for engine in engines(s):
        load(s, "steered", "--engine", engine, "--set", "slice_us=700")
        eventually("its slice", lambda: s.slices(p.pid) == [700])
        order(s, p.pid, fail=1)
        shown = eventually("it is ejected", lambda: show(s)["state"] == "ejected" and show(s))
        assert "gpu_sched/schedule" in shown["reason"] and "3 strikes" in shown["reason"], shown
        eventually("its outputs have ended", lambda: s.slices(p.pid) == [1])
        for one in (p, q):
            eventually("turns go on", lambda: s.is_running(one.pid))
        assert s.ps()[p.pid]["policy"] == "turns"
        assert s.log().count(" is ejected: fault: ") == 1 + engines(s).index(engine), s.log()
        assert not os.path.exists(os.path.join(s.run_dir, "policy"))
    s.rubato("policy", "unload")
    assert show(s)["state"] == "none"


def test_late_hooks_are_ejected(s):
    if "kernel" not in engines(s):
        print("     not here: bpf(2) is refused, and the vm's fuel does not last for a millisecond")
        return
    p, q = s.run(*BEST_EFFORT), s.run(*BEST_EFFORT)
    load(s, "slow", "--engine", "kernel")
    order(s, p.pid, slow=30000)
    shown = eventually("it is ejected", lambda: show(s)["state"] == "ejected" and show(s))
    assert shown["reason"].startswith("late: hook schedule took "), shown
    stats = json.loads(s.rubato("policy", "stats", "--json").stdout)["hooks"]
    assert stats["schedule"]["late"] >= 3, stats
    for one in (p, q):
        eventually("turns go on", lambda: s.is_running(one.pid))


def test_the_daemon_does_not_wait_for_the_verifier(s):
    if "kernel" not in engines(s):
        print("     not here: bpf(2) is refused, and nothing takes long")
        return
    programs = spinners(s, (), ())
    load(s, "steered", "--engine", "kernel")
    before, tool = show(s)["loads"], Tool(s)
    tool.send_load("slow", engine="kernel")
    seen = 0
    while not tool.has_answer():
        shown = show(s)
        seen += shown["loads"] == before and shown["state"] == "loaded"
        for p in programs:
            p.count()
    assert tool.result()[1] == 0 and show(s)["loads"] == before + 1
    assert seen > 0, "the answer was there at once: the test shows nothing"
    tool.close()


def test_ejected_by_timeout(s):
    """A program that runs is not refused for ever; the policy goes, whatever min_share gives the program."""
    p, q = s.run(*BEST_EFFORT), s.run(*BEST_EFFORT)
    load(s, "impatient")
    assert show(s)["timeout_ms"] == 300, show(s)
    order(s, p.pid, refuse=1)
    shown = eventually("it is ejected", lambda: show(s)["state"] == "ejected" and show(s))
    assert shown["reason"] == f"timeout: process {p.pid} was refused for 300 ms", shown
    assert shown["overruled"] == 0, shown
    for one in (p, q):
        eventually("turns go on", lambda: s.is_running(one.pid))


def test_a_refused_policy_changes_nothing(s):
    p = s.run(*BEST_EFFORT)
    load(s, "steered", "--set", "slice_us=700")
    eventually("its slice", lambda: s.slices(p.pid) == [700])
    number = show(s)
    for name, options in (("untried", ()), ("steered", ("--set", "nothing=1")), ("steered", ("--set", "slice_us=x")),
                          ("faults", ("--engine", "kernel"))):
        done = load(s, name, *options, code=None)
        assert done.returncode == 1 or (name == "faults" and done.returncode == 4), done
        assert (show(s)["state"], show(s)["name"], show(s)["file"]) == ("loaded", "steered", number["file"]), name
    assert s.slices(p.pid) == [700]
    tool = Tool(s)
    for seals in (0, 1, 7):  # not against writing
        assert tool.load("steered", seals=seals) == -22, seals
    assert tool.load("steered", data=b"") < 0
    assert tool.load("steered", data=b"\x7fELF" + bytes(1 << 20)) < 0
    assert tool.load("steered", data=os.urandom(100000)) < 0
    tool.close()
    assert s.slices(p.pid) == [700] and show(s)["state"] == "loaded"


def lives(s):
    return s.rubato("policy", "map", "dump", "lives").stdout


def test_reloads_keep_entries(s):
    p = s.run(*BEST_EFFORT)
    load(s, "steered")
    order(s, 4711, refuse=1, slow=3)
    before = len(lives(s).splitlines())
    assert before >= 1, lives(s)
    for engine in (engines(s) * 3)[:4]:
        load(s, "steered", "--engine", engine)
        dump = s.rubato("policy", "map", "dump", "orders").stdout
        assert dump == "4711  refuse=1,fail=0,slow=3,flip=0\n", (engine, dump)
        assert len(lives(s).splitlines()) == before, lives(s)
        assert "inits=1," not in lives(s), "each load calls task_init for tasks that exist"
    p.kill()
    eventually("its tasks are gone from the map", lambda: lives(s) == "")


def survives(s):
    """A killed daemon's keeper has started another one."""
    old = s.daemon()
    s.forget_deaths()
    os.kill(old, signal.SIGKILL)
    eventually("another daemon", lambda: not alive(old) and s.processes("rubatod") and s.listens())


def test_the_next_daemon_has_the_policy(s):
    p = s.run(*BEST_EFFORT)
    load(s, "steered", "--engine", "vm", "--set", "slice_us=700", "--set", "weight=3")
    eventually("its slice", lambda: s.slices(p.pid) == [700])
    kept = os.path.join(s.run_dir, "policy")
    assert os.stat(kept).st_mode & 0o777 == 0o600
    for _ in range(2):
        survives(s)
        eventually("the policy is back", lambda: show(s)["state"] == "loaded")
        assert (show(s)["name"], show(s)["engine"], show(s)["file"]) == ("steered", "vm", "steered.bpf.o"), show(s)
        eventually("and its outputs", lambda: s.slices(p.pid) == [700])
    s.rubato("policy", "unload")
    assert not os.path.exists(kept)
    survives(s)
    assert show(s)["state"] == "none"
    # A damaged file is one line in the log.
    load(s, "steered", "--engine", "vm")
    with open(kept, "r+b") as f:
        f.truncate(os.path.getsize(kept) - 100)
    survives(s)
    eventually("it says so", lambda: "the policy of the last rubatod is not loaded" in s.log())
    assert show(s)["state"] == "none" and not os.path.exists(kept)


def test_the_foreground(s):
    p = s.run(*BEST_EFFORT)
    first, second = Tool(s), Tool(s)
    assert first.load("steered", "slice_us=700", flags=FOREGROUND) == 0
    eventually("its slice", lambda: s.slices(p.pid) == [700])
    assert not os.path.exists(os.path.join(s.run_dir, "policy"))
    assert second.load("steered", "slice_us=701", flags=FOREGROUND | JOIN) == -16
    assert second.load("steered", "slice_us=700", flags=FOREGROUND | JOIN, engine="kernel") == -16
    assert second.load("steered", "slice_us=700", flags=FOREGROUND | JOIN) == 0
    assert second.load("steered", "slice_us=700", flags=FOREGROUND | JOIN, engine="auto") == 0
    first.close()
    time.sleep(0.2)
    assert show(s)["state"] == "loaded", "one connection still wants it"
    second.close()
    eventually("nobody wants it", lambda: show(s)["state"] == "none")
    eventually("its output has ended", lambda: s.slices(p.pid) in ([1], [2048]))
    # A policy that was replaced does not end the one that replaced it.
    first = Tool(s)
    assert first.load("steered", flags=FOREGROUND) == 0
    load(s, "steered", "--set", "slice_us=800")
    first.close()
    eventually("its slice", lambda: s.slices(p.pid) == [800])
    time.sleep(0.2)
    assert show(s)["state"] == "loaded"
    # A tool that goes before its policy is loaded.
    for _ in range(5):
        tool = Tool(s)
        tool.send_load("steered", flags=FOREGROUND)
        tool.close()
    eventually("nobody wants it", lambda: show(s)["state"] in ("none", "loaded") and s.listens())


def test_the_end_of_the_foreground_spares_another_load(s):
    """The connection ends at any moment of the other load, which takes some 10 ms."""
    s.run(*BEST_EFFORT)
    engine = engines(s)[-1]
    for i in range(40):
        first, second = Tool(s), Tool(s)
        assert first.load("steered", flags=FOREGROUND) == 0
        second.send_load("impatient", engine=engine)
        time.sleep(i % 20 / 1000)
        first.close()
        _, error, answer = second.result()
        assert error == 0, (i, error, answer)
        assert (show(s)["state"], show(s)["file"]) == ("loaded", "impatient"), show(s)
        second.close()
    # If the other load fails, nobody wants the policy any more.
    first, second = Tool(s), Tool(s)
    assert first.load("steered", flags=FOREGROUND) == 0
    second.send_load("untried", engine=engine)
    first.close()
    assert second.result()[1] < 0
    eventually("nobody wants it", lambda: show(s)["state"] == "none")


def test_the_configuration(s):
    d = Daemon(s, text=f"policy = {path('steered')}\n")
    eventually("it is loaded", lambda: show(s)["state"] == "loaded")
    assert show(s)["file"] == "steered.bpf.o" and not os.path.exists(os.path.join(s.run_dir, "policy"))
    d.reload(f"policy = {path('impatient')}\n")
    eventually("the other one", lambda: show(s)["file"] == "impatient.bpf.o")
    d.reload("policy = fair\n")
    eventually("none", lambda: (show(s)["state"], show(s)["base"]) == ("none", "fair"))
    d.reload(f"policy = {path('steered')}\n")
    eventually("it is loaded", lambda: show(s)["file"] == "steered.bpf.o")
    d.reload("policy = /nowhere\n")
    time.sleep(0.3)
    assert show(s)["file"] == "steered.bpf.o", "what cannot be read changes nothing"
    # A user's policy goes before the file's, which comes back.
    d.reload(f"policy = {path('steered')}\n")
    load(s, "impatient")
    d.reload(f"policy = {path('steered')}\n")
    time.sleep(0.3)
    assert show(s)["file"] == "impatient.bpf.o"
    s.rubato("policy", "unload")
    eventually("the file's", lambda: show(s)["file"] == "steered.bpf.o")


def test_the_configuration_changes_while_its_policy_is_loaded(s):
    d = Daemon(s, text="policy = fair\n")
    for i in range(5):
        d.reload(f"policy = {path('steered')}\n")
        time.sleep(0.002 * (i + 1))
        d.reload("policy = fair\n")
        # A load takes some 10 ms, and one that goes on would end in this time.
        time.sleep(0.5)
        assert (show(s)["state"], show(s)["base"]) == ("none", "fair"), (i, show(s))


def test_a_refused_load_does_not_cost_the_configurations_policy(s):
    """It comes while the file's policy is being loaded, which gives way and is loaded after all."""
    d, tool = Daemon(s, text="policy = fair\n"), Tool(s)
    for _ in range(10):
        d.reload(f"policy = {path('steered')}\n")
        end = time.monotonic() + 0.1
        while time.monotonic() < end:
            assert tool.load("steered", data=b"junk") < 0
        eventually("the file's policy", lambda: show(s)["file"] == "steered.bpf.o")
        d.reload("policy = fair\n")
        eventually("none", lambda: show(s)["state"] == "none")
    tool.close()


def test_a_load_goes_before_the_last_daemons(s):
    """Whoever starts the next daemon to load a policy does not have to wait for the last one's."""
    engine = engines(s)[-1]  # the verifier takes longer than the vm's dry run

    def restart():
        load(s, "slow", "--engine", engine)
        s.end_daemon()
        s.forget_deaths()

    restart()
    load(s, "steered", "--engine", "vm")
    assert show(s)["file"] == "steered.bpf.o", show(s)
    # If it is refused, the last one's stays.
    restart()
    load(s, "untried", "--engine", "vm", code=1)
    eventually("the last one's", lambda: show(s)["file"] == "slow.bpf.o")
    # An unload is for good, also if it comes before the policy is loaded.
    restart()
    Daemon(s)
    tool = Tool(s)
    assert tool.ask(UNLOAD, struct.pack("<II", 0, 0))[1] == 0
    tool.close()
    assert not os.path.exists(os.path.join(s.run_dir, "policy")) and show(s)["state"] == "none", show(s)


def count_files(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def reload_often(s, n):
    """No file, no entry and no question is lost."""
    programs = spinners(s, (), ())
    usable, tool = engines(s), Tool(s)
    for engine in usable:  # what is only opened once
        assert tool.load("steered", engine=engine) == 0
    order(s, 4711, slow=5)
    for i in range(3 * len(usable)):
        assert tool.load("steered", engine=usable[i % len(usable)]) == 0
    # The tool's messages come through a process, which has a connection for a moment.
    quiet = []
    eventually("quiet", lambda: (quiet.append(count_files(s.daemon())), quiet[-3:].count(quiet[-1]) == 3)[1])
    before = quiet[-1]
    for i in range(n):
        assert tool.load("steered", f"weight={i % 9 + 1}", engine=usable[i % len(usable)]) == 0
    eventually("as many files as before", lambda: count_files(s.daemon()) == before)
    assert s.rubato("policy", "map", "dump", "orders").stdout == "4711  refuse=0,fail=0,slow=5,flip=0\n"
    counts = dict(line.split() for line in s.rubato("policy", "map", "dump", "counts").stdout.splitlines())
    loads = n + 4 * len(usable)
    assert int(counts["1"]) == loads and int(counts["2"]) == loads - 1, (counts, loads)
    shown = show(s)
    assert shown["state"] == "loaded", shown
    tool.close()
    for p in programs:
        did = p.count()
        eventually("it works", lambda: p.count() > did)


def test_files_after_many_reloads(s):
    reload_often(s, 1000 if LONG else 100)


def test_random_reloads_under_load(s):
    """Whatever comes and goes, programs go on, and nobody is left off when the policy has gone."""
    seed = random.randrange(1 << 32)
    print(f"     seed {seed}")
    rng = random.Random(seed)
    programs = spinners(s, (), ())
    usable, tool = engines(s), Tool(s)
    end = time.monotonic() + (60 if LONG else 4)
    while time.monotonic() < end:
        what = rng.random()
        if what < 0.6:
            error = tool.load(rng.choice(["steered", "impatient", "hooks"]), engine=rng.choice(usable))
            assert error == 0, error
        elif what < 0.75:
            assert tool.load("untried", engine=rng.choice(usable)) == -22
        elif what < 0.9:
            assert tool.ask(UNLOAD, struct.pack("<II", 0, 0))[1] in (0, -2)
        elif show(s)["name"] in ("steered", "impatient") and show(s)["state"] == "loaded":
            # The policy may be ejected meanwhile.
            order(s, rng.choice(programs).pid, code=None, **{rng.choice(["refuse", "fail", "flip"]): 1})
    tool.ask(UNLOAD, struct.pack("<II", 0, 0))
    tool.close()
    for p in programs:
        did = p.count()
        eventually("it works", lambda: p.count() > did)
        eventually("its slice is the base's", lambda: s.slices(p.pid) == [1])


def test_work_is_told(s):
    programs = spinners(s, (), ())
    for engine in engines(s):
        load(s, "steered", "--engine", engine)
        eventually("work is told", lambda: sum(int(n) >= 20 for n in re.findall(r"works=(\d+)", lives(s))) == len(programs))
        stats = json.loads(s.rubato("policy", "stats", "--json").stdout)["hooks"]["work_submit"]
        assert stats["calls"] >= 40 and stats["errors"] == 0, stats
        s.rubato("policy", "unload")


def test_another_priority_each_time(s):
    """A policy that cannot make up its mind does not keep the daemon busy."""
    programs = spinners(s, (), ())
    load(s, "steered")
    for p in programs:
        order(s, p.pid, flip=1)
    for p in programs:
        did = p.count()
        eventually("it works", lambda: p.count() > did)
    assert s.ps() and show(s)["state"] == "loaded"


def test_the_log(s):
    s.run(*BEST_EFFORT)
    load(s, "steered")
    load(s, "impatient")
    s.rubato("policy", "unload")
    lines = [line.split("] ")[-1] for line in s.rubato("policy", "log").stdout.splitlines()]
    assert [line.split(": ")[-1].split("  ")[-1] for line in lines] == ["hello 60000", "goodbye", "hello 300", "goodbye"], lines


def test_metrics(s):
    at = os.path.join(s.dir, "metrics.sock")
    Daemon(s, "--metrics", at)
    if not os.path.exists(at):
        print("     not here: there is no libmicrohttpd")
        return

    def metrics():
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(at)
            sock.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            return b"".join(iter(lambda: sock.recv(65536), b"")).decode()

    assert "rubato_policy_info" not in metrics() and "rubato_policy_ejections_total 0" in metrics()
    p = s.run(*BEST_EFFORT)
    load(s, "steered", "--engine", "vm")
    # Readers share an answer for a moment.
    eventually("it is there", lambda: 'rubato_policy_info{name="steered",file="steered.bpf.o",engine="vm",state="loaded"} 1' in metrics())
    eventually("calls", lambda: 'rubato_policy_calls_total{hook="task_init"}' in metrics())
    order(s, p.pid, fail=1)
    eventually("it is ejected", lambda: 'state="ejected"} 1' in metrics() and "rubato_policy_ejections_total 1" in metrics())


def test_hostile_messages(s):
    """Whatever the bytes, the daemon answers or cuts off, and goes on."""
    rng = random.Random(4)
    p = s.run(*BEST_EFFORT)
    load(s, "steered", "--set", "slice_us=700")
    for _ in range(60):
        tool = Tool(s)
        try:
            for _ in range(10):
                kind = rng.choice([LOAD, UNLOAD, SHOW, OBJECT, MAP, LOG, 26, 27])
                body = bytes(rng.choice((0, 0, 0, 1, 2, 4, 8, 255)) for _ in range(rng.choice((0, 8, 16, 24, 28, 80, 200))))
                if kind != UNLOAD or len(body) != 8:
                    tool.ask(kind, body)
        except (AssertionError, ConnectionError, BrokenPipeError):
            pass
        tool.close()
    # Entries of wrong maps, sizes and loads.
    tool = Tool(s)
    number = struct.unpack_from("<I", tool.ask(SHOW)[2], 24)[0]
    for op in range(4):
        for where in (0, 1, 2, 3, 4, 63, 64, 0xffffffff):
            for key, value in ((0, 0), (4, 16), (8, 24), (4, 8), (3, 0), (60000, 4000), (4, 60000)):
                assert tool.entry(op, number, where, bytes(key), bytes(value))[0] in (9, MAP)
                assert tool.entry(op, number + 1, where, bytes(key), bytes(value))[1] == -116  # ESTALE
    tool.close()
    assert show(s)["state"] == "loaded"
    eventually("its slice", lambda: s.slices(p.pid) == [700])


harness.main(__name__)
