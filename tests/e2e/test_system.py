# SPDX-License-Identifier: Apache-2.0
"""The machine's own daemon: who may ask it for what, programs attached by rule, and ranks that take turns together."""
import ctypes
import grp
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

import harness
from harness import alive, binary, device, skip
from programs import take_turns, taking_turns

NOBODY = 65534
UNIT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../packaging/systemd/rubatod.service.in")
BEST_EFFORT = "--class", "best-effort"
RULE = "[rule nobodies]\nuser = %d\nclass = best-effort\n" % NOBODY


def eventually(what, condition, seconds=20):
    """Of a program that is not there yet, nothing is known for a while: longer, the busier the machine."""
    return harness.eventually(what, condition, seconds)


def as_user(uid, *groups):
    """Runs what follows as another user, in these supplementary groups."""
    more = ["--groups", ",".join(map(str, groups))] if groups else ["--clear-groups"]
    return ["setpriv", "--reuid", str(uid), "--regid", str(uid), *more]


class Machine:
    """A session with a system daemon in it."""

    def __init__(self, session, config="", under=(), path=None, **env):
        self.s = session
        self.under = under
        self.dir = path or os.path.join(session.dir, "system")
        self.conf = os.path.join(session.dir, "rubatod.conf")
        session.env["RUBATO_SYSTEM_DIR"] = self.dir
        self.configure(config)
        self.env = env
        self.start()

    def configure(self, text):
        with open(self.conf, "w") as f:
            f.write("admin_group = games\nscan_s = 0.2\n" + text)

    def start(self):
        read, write = os.pipe()
        self.log = open(os.path.join(self.s.run_dir, "rubatod.log"), "a")  # which main() reads
        self.process = subprocess.Popen(
            self.s.inside([*self.under, binary("rubatod"), "--system", "--config", self.conf, "--ready-fd", str(write)]),
            env=dict(self.s.env, **self.env), stdin=subprocess.DEVNULL, stderr=self.log, pass_fds=[write])
        os.close(write)
        assert os.read(read, 1) == b"1", open(self.log.name).read()
        os.close(read)
        self.pid = eventually("it runs", lambda: self.pids())[0]

    def pids(self):
        """Not those that only look for programs, which are its children."""
        return self.s.processes("rubatod")

    def reload(self, text):
        self.configure(text)
        os.kill(self.pid, signal.SIGHUP)

    def kill(self, number=signal.SIGKILL):
        """And waits for children that were just forked: until they run, they have the lock of the runtime directory, too."""
        os.kill(self.pid, number)
        self.process.wait(20)
        eventually("all have gone", lambda: not self.s.processes("rubatod"))

    def plain(self, *args, uid=NOBODY, groups=(), env=()):
        """A program that somebody has started without Rubato."""
        return self.s.program(*args, under=["env", *env, *as_user(uid, *groups)])

    def said(self):
        with open(self.log.name) as f:
            return f.read()


def rubato_as(s, uid, *args, groups=(), code=0):
    done = s.command(*as_user(uid, *groups), binary("rubato"), *map(str, args))
    assert done.returncode == code, f"{args}: exit {done.returncode}, not {code}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def run_as(s, uid, *options, args=(), groups=()):
    return s.program(*args, under=[*as_user(uid, *groups), binary("rubato"), "run", *map(str, options), "--"])


def rule_of(s, pid):
    return s.ps().get(pid, {}).get("rule")


def test_inside_a_user_namespace(s):
    """Where root has no number. A directory that only root can write to says who listens there; /tmp does not."""
    inside = "unshare", "--user", "--map-root-user"
    if s.command(*as_user(4242), *inside, "true").returncode != 0:
        return print("     no user namespaces here")
    path = tempfile.mkdtemp(prefix="rubato-test-", dir="/run")
    os.chmod(path, 0o755)
    try:
        m = Machine(s, path=path)
        under = [*as_user(4242), binary("rubato"), "run", *BEST_EFFORT, "--", *inside]
        p = s.program(under=under)
        eventually("it is managed", lambda: s.slices(p.pid) == [1])
        row = s.ps()[p.pid]
        assert row["uid"] == 4242 and not row["attached"] and row["class"] == "best-effort", row
        q = s.program(under=[*as_user(4242), *inside, binary("rubato"), "run", *BEST_EFFORT, "--"])
        taking_turns(s, [p, q])
        assert m.pids() == [m.pid], "no other daemon was started"
        os.chmod(path, 0o777)
        r = s.program(under=under)
        time.sleep(1)
        assert r.pid not in s.ps() or not s.ps()[r.pid]["managed"], "anybody could listen there"
        m.kill()
    finally:
        shutil.rmtree(path)


def test_policies_need_rights(s):
    """Everybody may see what is loaded; only root and the group may change or read more."""
    source = os.path.join(os.environ["BUILD"], "tests/policies/values.bpf.o")
    if not os.path.exists(source):
        return print("     no policies: clang was missing at build time")
    Machine(s)
    path, mark = os.path.join(s.dir, "values.bpf.o"), os.path.join(s.dir, "mark")
    shutil.copy(source, path)
    os.chmod(path, 0o644)
    games = grp.getgrnam("games").gr_gid
    rubato_as(s, NOBODY, "policy", "load", path, "--engine", "vm", groups=[games])
    before = rubato_as(s, NOBODY, "policy", "show", "--json")
    assert json.loads(before)["name"] == "values", before
    assert "task_init" in rubato_as(s, NOBODY, "policy", "stats")
    for args in (["load", path], ["load", path, "--foreground"], ["unload"], ["log"], ["map", "list"], ["map", "dump", "kinds"],
                 ["map", "set", "kinds", "1", "IDLE"], ["map", "del", "kinds", "1"]):
        said = rubato_as(s, NOBODY, "policy", *args, code=4)
        assert said.count("\n") == 1, f"{args}: {said!r}"
    rubato_as(s, NOBODY, "run", "--policy", path, "--", "touch", mark, code=4)
    assert not os.path.exists(mark)
    assert rubato_as(s, NOBODY, "policy", "show", "--json") == before
    rubato_as(s, NOBODY, "policy", "map", "set", "kinds", "1", "IDLE", groups=[games])
    s.rubato("policy", "log")
    s.rubato("policy", "unload")


def test_rules_attach_running_and_new_programs(s):
    early = s.program(under=as_user(NOBODY))
    m = Machine(s, RULE)
    eventually("at once at the start", lambda: rule_of(s, early.pid) == "nobodies")
    late = m.plain()
    mine = s.program()
    eventually("a new one", lambda: rule_of(s, late.pid) == "nobodies")
    taking_turns(s, [early, late])
    take_turns(s, [early, late], 0.7)
    row = s.ps()[late.pid]
    assert row["attached"] and row["class"] == "best-effort" and row["uid"] == NOBODY, row
    assert s.is_default(mine.pid) and not s.ps()[mine.pid]["managed"], "root's is not meant"
    assert "nobodies" in s.rubato("ps").stdout
    early.end()
    eventually("alone", lambda: s.short() == [late.pid])
    assert m.pids() == [m.pid], "no other daemon was started"


def test_a_user_goes_before_a_rule(s):
    m = Machine(s, RULE)
    a, b = m.plain(), run_as(s, NOBODY, "--class", "normal")
    eventually("a by rule", lambda: rule_of(s, a.pid) == "nobodies")
    time.sleep(0.5)
    row = s.ps()[b.pid]
    assert row["class"] == "normal" and row["rule"] is None and not row["attached"], row
    s.rubato("renice", a.pid, "--class", "normal")
    eventually("as said", lambda: s.is_default(a.pid))
    time.sleep(0.7)
    assert s.is_default(a.pid) and rule_of(s, a.pid) is None, "the rule has come back"
    m.reload(RULE)
    time.sleep(0.7)
    assert s.is_default(a.pid), "by hand is by hand, whatever the rules"


def test_a_user_goes_before_a_rule_after_a_restart(s):
    m = Machine(s, RULE)
    a, b, c = m.plain(), m.plain(), m.plain()
    for p in a, b, c:
        eventually("by rule", lambda: rule_of(s, p.pid) == "nobodies")
    s.rubato("renice", a.pid, "--class", "latency", "--weight", 3)
    s.rubato("renice", b.pid, "--class", "normal")
    for number in signal.SIGTERM, signal.SIGKILL:
        m.kill(number)
        m.start()
        eventually("c by rule again", lambda: rule_of(s, c.pid) == "nobodies")
        eventually("a by hand again", lambda: s.ps()[a.pid]["class"] == "latency")
        row = s.ps()[a.pid]
        assert row["rule"] is None and row["weight"] == 3, row
        time.sleep(0.5)
        assert not s.ps()[b.pid]["managed"] and s.is_default(b.pid), "as it was said to be"


def test_a_refused_renice_leaves_the_rule(s):
    m = Machine(s, RULE)
    a = m.plain()
    eventually("by rule", lambda: s.slices(a.pid) == [1])
    s.softgpu("fault", "--cmd", "a06c0103", "--status", "1b")
    s.rubato("renice", a.pid, "--priority", 5, code=4)
    s.softgpu("fault", "clear")
    assert rule_of(s, a.pid) == "nobodies", s.ps()
    m.reload("[rule other]\nuser = nobody\npriority = 4\n")
    eventually("by another", lambda: rule_of(s, a.pid) == "other")


def test_a_name_is_no_way_round_a_rule(s):
    """Neither a daemon's name nor the environment that `rubato run` makes."""
    m = Machine(s, RULE)
    path = os.path.join(s.dir, "rubatod")
    os.symlink(binary("rmclient"), path)
    named = harness.Program(s, [*as_user(NOBODY), path])
    s.programs.append(named)
    said = m.plain(env=["RUBATO_TREAT=priority=7", "RUBATO_PRIORITY=7"])
    for p in (named, said):
        eventually("by rule", lambda: rule_of(s, p.pid) == "nobodies")
    named.end()


AWAITED = """if True:
    import os, socket, struct, sys
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.connect(sys.argv[1])
    sock.send(struct.pack("<II", 0x74627201, 11))
    os.execv(sys.argv[2], sys.argv[2:])
"""


def test_an_announcement_is_no_way_round_a_rule(s):
    """`rubato run` says that its process becomes a program which speaks for itself. A process that says so and never
    speaks is a program like any other."""
    m = Machine(s, RULE)
    sock = os.path.join(m.dir, "control.sock")
    p = harness.Program(s, [*as_user(NOBODY), "python3", "-c", AWAITED, sock, binary("rmclient")])
    s.programs.append(p)
    eventually("by rule", lambda: rule_of(s, p.pid) == "nobodies")
    q = run_as(s, NOBODY, "--class", "normal")
    time.sleep(0.7)
    assert rule_of(s, q.pid) is None and not s.ps()[q.pid]["attached"], "this one does"


HANGING = """if True:
    import ctypes, mmap, os, signal, sys
    node = os.open("/dev/nvidiactl", os.O_RDWR)
    file = os.open(sys.argv[1], os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    print(f"ready pid={os.getpid()}", flush=True)
    assert libc.mmap(None, 1 << 20, 3, 2, file, 0) not in (None, 2 ** 64 - 1)
    signal.pause()
"""


def hanging_files(path):
    """A file system whose files can be opened and mapped, and never read. The pid of who serves it; None: none here."""
    try:
        fuse = os.open("/dev/fuse", os.O_RDWR)
    except OSError:
        return None
    os.mkdir(path)
    options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0,allow_other"
    if ctypes.CDLL(None).mount(b"hang", path.encode(), b"fuse", 0, options.encode()) != 0:
        return os.close(fuse)
    pid = os.fork()
    if pid == 0:
        try:
            serve_nothing(fuse)
        finally:
            os._exit(0)
    os.close(fuse)
    return pid


def serve_nothing(fuse):
    def attributes(node):
        mode = 0o40755 if node == 1 else 0o100644
        return struct.pack("<6Q10I", node, 1 << 20, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    while True:
        request = os.read(fuse, 1 << 18)
        _, what, unique, node = struct.unpack_from("<IIQQ", request)
        if what in (2, 15, 36, 42):  # READ never; FORGET, INTERRUPT and BATCH_FORGET have no answer
            continue
        error, body = 0, {
            26: struct.pack("<4I2H2I2H8I", 7, 31, 4096, 0, 0, 0, 4096, 0, 0, 0, *[0] * 8),
            1: struct.pack("<4Q2I", 2, 0, 1000, 1000, 0, 0) + attributes(2),
            3: struct.pack("<Q2I", 1000, 0, 0) + attributes(node),
            14: struct.pack("<Q2I", 1, 0, 0), 18: b"", 25: b""}.get(what)
        if body is None:
            error, body = -38, b""
        os.write(fuse, struct.pack("<IiQ", 16 + len(body), error, unique) + body)


def test_a_program_that_cannot_be_looked_at(s):
    """Its memory is a file system's in user space, which never answers: others' rules are still for them."""
    path = os.path.join(s.dir, "mnt")
    server = hanging_files(path)
    if server is None:
        return print("     no file systems in user space here")
    try:
        bad = harness.Program(s, [*as_user(4242), "python3", "-c", HANGING, path + "/libcuda.so.1"])
        m = Machine(s, "[rule all]\nuser = *\nclass = best-effort\n")
        a = m.plain()
        eventually("by rule, beside it", lambda: s.slices(a.pid) == [1])
        bad.kill()
    finally:
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)
        subprocess.run(["umount", "-l", path], check=True)


FAULTING = """if True:
    import ctypes, fcntl, mmap, os, signal, struct
    node = os.open("/dev/nvidiactl", os.O_RDWR)
    fault = ctypes.CDLL(None).syscall(323, os.O_CLOEXEC)
    area = mmap.mmap(-1, 1 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if fault >= 0:
        start = ctypes.addressof(ctypes.c_char.from_buffer(area))
        fcntl.ioctl(fault, 0xc018aa3f, struct.pack("<3Q", 0xaa, 0, 0))
        fcntl.ioctl(fault, 0xc020aa00, struct.pack("<4Q", start, 1 << 20, 1, 0))
    print(f"ready pid={os.getpid()} {fault}", flush=True)
    signal.pause()
"""


def test_who_takes_too_long_is_put_off(s):
    """Reading its memory waits for it: others' rules are for them all the same."""
    if os.uname().machine != "x86_64":
        return print("     the number of userfaultfd() is x86_64's")
    bad = harness.Program(s, ["python3", "-c", FAULTING])
    s.programs.append(bad)
    m = Machine(s, "[rule all]\nuser = *\nclass = best-effort\n")
    a = m.plain()
    eventually("by rule, after a while", lambda: s.slices(a.pid) == [1])
    eventually("it is said", lambda: f"process {bad.pid} cannot be inspected" in m.said())


def test_tools_do_not_wait_for_ever(s):
    """For the memory of one program; they show the others, and who comes after it."""
    if os.uname().machine != "x86_64":
        return print("     the number of userfaultfd() is x86_64's")
    good = s.program()
    bad = harness.Program(s, ["python3", "-c", FAULTING])
    s.programs.append(bad)
    other = s.program()
    tools = [subprocess.Popen(s.inside([binary("rubato"), *args]), env=s.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
             for args in (["ps", "--json"], ["top", "--once", "--json"], ["renice", str(bad.pid), *BEST_EFFORT])]
    ps, top, renice = [tool.communicate(timeout=30) for tool in tools]
    shown = {p["pid"]: p for p in json.loads(ps[0])["programs"]}
    assert "takes too long" in shown[bad.pid]["note"] and shown[bad.pid]["state"] == "unknown", shown
    assert len(shown[good.pid]["tasks"]) == len(shown[other.pid]["tasks"]) == 4, shown
    assert {good.pid, bad.pid, other.pid} <= {p["pid"] for p in json.loads(top[0])["programs"]}, top
    assert tools[2].returncode == 1 and "inspecting it takes too long" in renice[1], renice


# Its command line, and what it was started with, are in such memory (prctl(2), PR_SET_MM): also who only asks its name waits.
SPEECHLESS = FAULTING.replace("    print(", """    libc = ctypes.CDLL(None)
    ends = [(8, start), (9, start + 4096), (10, start + 8192), (11, start + 12288)] if fault >= 0 else []
    wrong = sum(libc.prctl(35, which, ctypes.c_ulong(at), 0, 0) != 0 for which, at in ends)
    print(""").replace("{fault}", "{fault} {wrong}")


def test_a_command_line_that_cannot_be_read(s):
    """Tools and rules do without it, and others' rules are for them."""
    if os.uname().machine != "x86_64":
        return print("     the number of userfaultfd() is x86_64's")
    bad = harness.Program(s, ["python3", "-c", SPEECHLESS])
    s.programs.append(bad)
    m = Machine(s, "[rule trainers]\nuser = *\ncommand = *\nargs = *\nclass = best-effort\ngroup = job\n")
    a = m.plain()
    tools = [subprocess.Popen(s.inside([binary("rubato"), *args]), env=s.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
             for args in (["ps", "--json"], ["top", "--once", "--json"])]
    for tool in tools:
        out, _ = tool.communicate(timeout=40)
        rows = {p["pid"]: p for p in json.loads(out)["programs"]}
        assert {a.pid, bad.pid} <= set(rows) and rows[bad.pid]["command"].startswith("[python3"), rows[bad.pid]
        assert "rmclient" in rows[a.pid]["command"], rows
    eventually("by rule, after a while", lambda: s.slices(a.pid) == [1])
    assert m.pids() == [m.pid]


def test_reload(s):
    m = Machine(s, RULE)
    a = m.plain()
    eventually("by rule", lambda: s.slices(a.pid) == [1])
    m.reload("[rule other]\nuser = nobody\npriority = 5\n")
    eventually("by another", lambda: rule_of(s, a.pid) == "other" and s.slices(a.pid) == [1000])
    m.reload("[rule wrong]\nclass = fast\n")
    eventually("a mistake is said", lambda: "rubatod.conf:4: class is" in m.said())
    assert rule_of(s, a.pid) == "other", "a mistake changes nothing"
    m.reload("[rule not-them]\nuser = 65534\nclass = ignore\n" + RULE)
    eventually("let go", lambda: s.is_default(a.pid) and not s.ps()[a.pid]["managed"])
    m.reload(RULE)
    eventually("and again", lambda: s.slices(a.pid) == [1])
    m.reload("")
    eventually("no rules at all", lambda: s.is_default(a.pid) and not s.ps()[a.pid]["managed"])


def test_restart_picks_programs_up(s):
    m = Machine(s, RULE)
    a, b = m.plain(), run_as(s, NOBODY, *BEST_EFFORT)
    taking_turns(s, [a, b])
    for number in (signal.SIGKILL, signal.SIGTERM) if harness.LONG else (signal.SIGKILL,):
        m.kill(number)
        eventually("defaults", lambda: s.is_default(a.pid) and s.is_released(b.pid))
        assert alive(a.pid) and alive(b.pid)
        m.start()
        eventually("as before", lambda: rule_of(s, a.pid) == "nobodies")
        taking_turns(s, [a, b])
        take_turns(s, [a, b], 0.5)


def test_both_killed(s):
    """Daemon and hand together: nobody is left to restore, until the next start."""
    m = Machine(s, RULE)
    a, b = m.plain(), m.plain()
    taking_turns(s, [a, b])
    os.kill(s.hand(), signal.SIGSTOP)
    hand = s.hand()
    m.kill()
    os.kill(hand, signal.SIGKILL)
    m.configure("")
    m.start()
    eventually("healed", lambda: s.is_default(a.pid) and s.is_default(b.pid))


def test_rights(s):
    Machine(s)
    games = grp.getgrnam("games").gr_gid
    own, others = run_as(s, NOBODY), run_as(s, 1234)
    eventually("both known", lambda: {own.pid, others.pid} <= set(s.ps()))
    rubato_as(s, NOBODY, "renice", own.pid, *BEST_EFFORT)
    assert s.ps()[own.pid]["class"] == "best-effort"
    rubato_as(s, NOBODY, "renice", own.pid, "--class", "normal")
    text = rubato_as(s, NOBODY, "renice", own.pid, "--class", "latency", code=4)
    assert "group games" in text, text
    rubato_as(s, NOBODY, "renice", own.pid, "--weight", 2, code=4)
    rubato_as(s, NOBODY, "renice", own.pid, "--max-reserve-ms", 2001, code=4)
    rubato_as(s, NOBODY, "renice", own.pid, "--min-share", "2.1", code=4)
    rubato_as(s, NOBODY, "renice", own.pid, "--max-reserve-ms", 2000, "--min-share", 1)
    rubato_as(s, NOBODY, "renice", own.pid, "--timeslice-us", 4096, code=4)
    for command in ("suspend", "resume"):
        assert "another user" in rubato_as(s, NOBODY, command, others.pid, code=4)
    rubato_as(s, NOBODY, "renice", others.pid, *BEST_EFFORT, code=4)
    assert s.ps()[others.pid]["class"] == "normal" and s.is_default(own.pid) and s.is_default(others.pid)
    # Of the group: as root.
    rubato_as(s, NOBODY, "renice", own.pid, "--class", "latency", groups=[games])
    rubato_as(s, NOBODY, "suspend", others.pid, groups=[games])
    assert s.is_suspended(others.pid)
    rubato_as(s, NOBODY, "resume", others.pid, groups=[games])
    assert s.ps()[own.pid]["class"] == "latency"
    # And of many more.
    rubato_as(s, NOBODY, "renice", others.pid, "--class", "latency", groups=[*range(70000, 70100), games])
    rubato_as(s, NOBODY, "suspend", others.pid, groups=range(70000, 70100), code=4)


def test_run_keeps_to_rights(s):
    m = Machine(s)
    games = grp.getgrnam("games").gr_gid
    meek = run_as(s, NOBODY, "--class", "latency", "--weight", 5, "--timeslice-us", 100000)
    proud = run_as(s, NOBODY, "--class", "latency", "--timeslice-us", 100000, groups=[games])
    eventually("known", lambda: {meek.pid, proud.pid} <= set(s.ps()))
    rows = s.ps()
    assert rows[meek.pid]["class"] == "normal" and rows[meek.pid]["weight"] == 1, rows[meek.pid]
    assert rows[proud.pid]["class"] == "latency", rows[proud.pid]
    eventually("a longer slice", lambda: s.slices(proud.pid) == [100000])
    assert s.slices(meek.pid) == [2048]
    assert m.pids() == [m.pid]
    # And it is said: to whoever asks, until something else is asked for, and to whoever starts it.
    assert "above normal needs root or membership of group games" in rows[meek.pid]["note"], rows[meek.pid]
    assert "needs" not in rows[proud.pid]["note"], rows[proud.pid]
    rubato_as(s, NOBODY, "renice", meek.pid, "--class", "normal")
    assert "raising a weight" in s.ps()[meek.pid]["note"]
    rubato_as(s, NOBODY, "renice", meek.pid, "--weight", 1)
    assert s.ps()[meek.pid]["note"] == ""
    said = rubato_as(s, NOBODY, "run", "--class", "latency", "--", "true")
    assert said.count("\n") == 1 and "above normal needs root" in said, said
    assert "a weight needs root" in rubato_as(s, NOBODY, "run", "--weight", 2, "--", "true")
    assert "a limit needs root" in rubato_as(s, NOBODY, "run", "--min-share", 3, "--", "true")
    said = rubato_as(s, NOBODY, "run", "--timeslice-us", 100000, "--", "true")
    assert said.count("\n") == 1 and "a slice longer than the driver's needs root" in said, said
    assert rubato_as(s, NOBODY, "run", "--timeslice-us", 2048, "--", "true") == ""
    assert rubato_as(s, NOBODY, "run", "--timeslice-us", 100000, "--", "true", groups=[games]) == ""
    assert rubato_as(s, NOBODY, "run", "--min-share", 1, "--max-reserve-ms", 1, "--", "true") == ""
    greedy = run_as(s, NOBODY, "--max-reserve-ms", 3600000)
    eventually("known", lambda: greedy.pid in s.ps())
    row = s.ps()[greedy.pid]
    assert row["max_reserve_ms"] == 2000 and "a limit needs root" in row["note"], row
    assert rubato_as(s, NOBODY, "run", *BEST_EFFORT, "--", "true") == ""
    assert rubato_as(s, NOBODY, "run", "--class", "latency", "--weight", 2, "--", "true", groups=[games]) == ""


def test_a_lower_limit_counts_for_all(s):
    """New limits also apply to a user who gave the old ones without the right to more; a limit that was granted stays."""
    high, low = "min_share = 5\nmax_reserve_ms = 3000\n", "min_share = 1\nmax_reserve_ms = 100\n"
    m = Machine(s, high)
    asked, told, given = run_as(s, NOBODY, "--min-share", 5, "--max-reserve-ms", 3000), run_as(s, NOBODY), run_as(s, NOBODY)
    eventually("known", lambda: {asked.pid, told.pid, given.pid} <= set(s.ps()))
    rubato_as(s, NOBODY, "renice", told.pid, "--max-reserve-ms", 2000, "--min-share", "0.5")
    s.rubato("renice", given.pid, "--min-share", 8)
    rubato_as(s, NOBODY, "renice", given.pid, "--min-share", 4, "--max-reserve-ms", 3000)

    def are(*limits):
        rows = s.ps()
        return [(rows[p.pid]["max_reserve_ms"], rows[p.pid]["min_share_permille"]) for p in (asked, told, given)] == [*limits]

    before = (3000, 50), (2000, 5), (3000, 40)
    assert are(*before)
    m.reload(low)
    eventually("lowered", lambda: are((100, 10), (100, 5), (100, 40)))
    assert "a limit needs root" in s.ps()[asked.pid]["note"]
    rubato_as(s, NOBODY, "renice", asked.pid, "--min-share", 4, code=4)
    rubato_as(s, NOBODY, "renice", asked.pid, "--weight", 1)
    m.reload(high)
    eventually("as they were", lambda: are(*before))
    assert s.ps()[asked.pid]["note"] == ""


def test_what_users_say_outlives_the_runtime_directory(s):
    """It is written again with the rest; not before: what is there may be another daemon's."""
    m = Machine(s, RULE)
    a = m.plain()
    eventually("by rule", lambda: rule_of(s, a.pid) == "nobodies")
    tool = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    tool.settimeout(10)
    tool.connect(os.path.join(m.dir, "control.sock"))
    os.kill(m.pid, signal.SIGSTOP)
    os.rename(m.dir, m.dir + ".old")
    os.mkdir(m.dir, 0o755)
    tool.send(harness.renice_message(a.pid, 4))
    os.kill(m.pid, signal.SIGCONT)
    assert struct.unpack_from("<i", tool.recv(4096), 8)[0] == 0
    assert not os.path.exists(os.path.join(m.dir, "by-hand"))
    eventually("its own again", lambda: os.path.exists(os.path.join(m.dir, "by-hand")))
    m.kill()
    m.start()
    eventually("as was said", lambda: s.ps()[a.pid].get("priority") == 4 and rule_of(s, a.pid) is None)


def test_rules_match_commands_and_cgroups(s):
    with open("/proc/self/cgroup") as f:
        paths = [line.rstrip("\n").split(":", 2)[2] for line in f]
    path = max(paths, key=len)
    Machine(s, "[rule mine]\nuser = 1234\ncgroup = %s*\ncommand = nothing, rm*ent\nweight = 3\npriority = 1\n"
            "timeslice_us = 4000\nmax_reserve_ms = 70\nmin_share = 5.5 %%\n"
            "[rule boxes]\nuser = 1235\nclass = normal\ngroup = cgroup\n"
            "[rule rest]\nuser = *\nclass = ignore\n" % path.replace("[", "\\["))
    a = s.program(under=["env", "SLURM_JOB_ID=7", "SLURM_STEP_ID=0", *as_user(1234)])
    b, c = s.program(under=as_user(NOBODY)), s.program(under=as_user(1235))
    eventually("a by rule", lambda: rule_of(s, a.pid) == "mine")
    row = s.ps()[a.pid]
    assert row["priority"] == 1 and row["weight"] == 3 and row["group"] == "slurm:7.0", row
    assert row["treatment"] == "priority=1,timeslice_us=4000,weight=3,max_reserve_ms=70,min_share=5.5,group=slurm:7.0", row
    assert row["max_reserve_ms"] == 70 and row["min_share_permille"] == 55 and row["note"] == "", row
    eventually("the rule's slice", lambda: s.slices(a.pid) == [4000])
    eventually("c by rule", lambda: rule_of(s, c.pid) == "boxes")
    group = s.ps()[c.pid]["group"]
    assert group.startswith("cgroup:") and group.endswith(path[-32:].replace(" ", "_")), (group, path)
    assert not s.ps()[b.pid]["managed"]


def test_programs_that_start_and_stop_using_the_device(s):
    m = Machine(s, RULE)
    a = m.plain("--exec")
    eventually("by rule", lambda: rule_of(s, a.pid) == "nobodies")
    a.say("anew")
    eventually("it has closed the device", lambda: a.pid not in s.ps())
    # A program that is still starting has the device open, and nothing on it.
    slow = subprocess.Popen(s.inside([*as_user(NOBODY), binary("rmclient"), "--delay-ms", "1500"]), env=s.env,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        pid = int(slow.stdout.readline().split("pid=")[1].split()[0])
        eventually("once it has tasks", lambda: rule_of(s, pid) == "nobodies")
    finally:
        slow.communicate("quit\n", timeout=10)
    assert "cannot be attached" not in m.said(), m.said()


def on(s, programs):
    """Whether the compute task of each may run."""
    state = {}
    for t in s.state()["tsgs"]:
        if t["engine"] == "compute":
            state[t["pid"]] = t["enabled"] > 0
    return [state[p.pid] for p in programs]


def together(s, ranks, seconds=1.5):
    """On and off at the same time, but for the moments of a change; each for itself, they would be apart half the time."""
    def are_together():
        end = time.monotonic() + seconds
        looks = []
        while time.monotonic() < end:
            looks.append(on(s, ranks))
        apart = sum(len(set(look)) > 1 for look in looks)
        print(f"     ranks are apart in {apart} of {len(looks)} looks")
        return apart <= len(looks) / 5 and [True] * len(ranks) in looks and [False] * len(ranks) in looks
    eventually("together", are_together)


@device("--gpus", "2")
def test_ranks_take_turns_together(s):
    Machine(s)
    env = ["env", "TORCHELASTIC_RUN_ID=none", "MASTER_PORT=29501"]
    ranks = [s.program("--gpu", g, under=[*env, *as_user(NOBODY), binary("rubato"), "run", *BEST_EFFORT, "--"])
             for g in (0, 1)]
    rivals = [run_as(s, 1234, *BEST_EFFORT, args=["--gpu", g]) for g in (0, 1)]
    taking_turns(s, ranks + rivals)
    groups = {s.ps()[p.pid]["group"] for p in ranks}
    assert groups == {"torch:none.29501"}, groups
    assert all(s.ps()[p.pid]["group"] is None for p in rivals)
    together(s, ranks)
    # One rank dies: the other goes on alone, and so do the rivals.
    ranks.pop().end()
    eventually("the other has turns", lambda: on(s, ranks) == [True])
    eventually("and waits", lambda: on(s, ranks) == [False])
    eventually("a rival keeps the free GPU", lambda: on(s, rivals[1:]) == [True])


@device("--gpus", "2")
def test_groups_by_name_and_by_rule(s):
    Machine(s, "[rule ranks]\nuser = nobody\nclass = best-effort\ngroup = job-7\n")
    ranks = [s.program("--gpu", g, under=as_user(NOBODY)) for g in (0, 1)]
    # A stranger that calls its group the same is in another.
    rivals = [run_as(s, 1234, *BEST_EFFORT, "--group", "job-7", args=["--gpu", 0]),
              run_as(s, 1235, *BEST_EFFORT, "--group", "job-7", args=["--gpu", 1])]
    taking_turns(s, ranks + rivals)
    assert {s.ps()[p.pid]["group"] for p in ranks + rivals} == {"job-7"}
    together(s, ranks)
    eventually("rivals are nobody's ranks", lambda: len(set(on(s, rivals))) == 2 or
               on(s, [ranks[0], rivals[0]]) == [False, True], 5)


def test_a_manager_is_told(s):
    """Like systemd: ready, reloading, stopping, and alive in between."""
    path = os.path.join(s.dir, "notify")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(path)
    listener.settimeout(5)
    m = Machine(s, NOTIFY_SOCKET=path, WATCHDOG_USEC="400000")
    heard = []

    def hear(word):
        while not any(word in text for text in heard):
            heard.append(listener.recv(4096).decode())

    hear("READY=1\nSTATUS=policy turns, 0 rules")
    hear("WATCHDOG=1")
    heard.clear()
    m.reload(RULE)
    hear("RELOADING=1\nMONOTONIC_USEC=")
    hear("READY=1\nSTATUS=policy turns, 1 rules")
    os.kill(m.pid, signal.SIGTERM)
    hear("STOPPING=1")
    m.process.wait(10)


def test_the_units_capabilities_suffice(s):
    with open(UNIT) as f:
        names = next(line.split("=")[1].split() for line in f if line.startswith("CapabilityBoundingSet="))
    bounds = ",".join(["-all"] + ["+" + name.lower().removeprefix("cap_") for name in names])
    m = Machine(s, RULE, under=["setpriv", "--bounding-set", bounds, "--inh-caps", "-all", "--no-new-privs"])
    with open(f"/proc/{m.pid}/status") as f:
        assert bin(int(next(line.split()[1] for line in f if line.startswith("CapEff")), 16)).count("1") == len(names)
    a, b, c = m.plain(), m.plain(), run_as(s, NOBODY, *BEST_EFFORT)
    taking_turns(s, [a, b, c])
    assert rule_of(s, a.pid) == "nobodies" and "cannot" not in m.said(), m.said()
    m.kill()
    eventually("defaults", lambda: all(s.is_released(p.pid) for p in (a, b, c)))


def test_one_a_machine(s):
    m = Machine(s)
    done = s.command(binary("rubatod"), "--system", "--config", m.conf)
    assert done.returncode == 1 and "another rubatod serves" in done.stderr, done
    assert "for the whole machine" in s.rubato("doctor", code=None).stdout
    m.kill(signal.SIGTERM)
    # Without it, everything is as it was: a daemon of one's own.
    p = s.run(*BEST_EFFORT)
    eventually("known", lambda: s.slices(p.pid) == [1])
    assert alive(s.daemon()) and os.path.exists(os.path.join(s.run_dir, "control.sock"))


if __name__ == "__main__":
    if os.geteuid() != 0:
        skip("needs root, to be several users")
    harness.main()
