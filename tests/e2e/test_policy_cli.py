# SPDX-License-Identifier: Apache-2.0
"""`rubato policy`: what it checks, loads, shows and refuses, with which exit codes."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from harness import alive, binary, eventually, in_process_session, main, process_status, skip

HERE = os.path.dirname(os.path.abspath(__file__))
INCLUDE = os.path.join(HERE, "../../include")
POLICIES = os.path.join(os.environ["BUILD"], "tests/policies")
AS_NOBODY = "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"


def policy(name):
    return os.path.join(POLICIES, name + ".bpf.o")


def compiled(s, text):
    """An object made of this source, which follows the include line."""
    source, target = os.path.join(s.dir, "made.bpf.c"), os.path.join(s.dir, "made.bpf.o")
    with open(source, "w") as f:
        f.write('#include "rubato/policy.bpf.h"\n' + text + '\nchar LICENSE[] SEC("license") = "GPL";\n')
    subprocess.run(["clang", "-O2", "-g", "-target", "bpf", "-I" + INCLUDE, "-c", source, "-o", target], check=True)
    return target


def written(s, data):
    path = os.path.join(s.dir, "file.o")
    with open(path, "wb") as f:
        f.write(data)
    return path


def refused(s, code, *args, says=""):
    done = s.rubato("policy", *args, code=code)
    assert done.stderr.count("\n") == 1, f"{args}: {done.stderr!r}"
    assert says in done.stderr, f"{args}: {done.stderr!r} does not say {says!r}"
    assert done.stdout == "", f"{args}: {done.stdout!r}"


def test_usage(s):
    good = policy("hooks")
    refused(s, 2, says="no verb")
    refused(s, 2, "frobnicate", says="no such verb")
    refused(s, 2, "check", says="check takes FILE")
    refused(s, 2, "check", good, good, says="check takes FILE")
    refused(s, 2, "check", good, "--engine", "jit", says="auto, kernel or vm")
    refused(s, 2, "check", good, "--set", "slice_us", says="NAME=VALUE")
    refused(s, 2, "check", good, "--foreground", says="foreground")
    refused(s, 2, "load", good, "--json", says="--foreground")
    refused(s, 2, "show", "extra", says="show takes no operand")
    refused(s, 2, "stats", "--interval", "0", says="--interval")
    refused(s, 2, "map", says="list, dump, set or del")
    refused(s, 2, "map", "empty", says="list, dump, set or del")
    refused(s, 2, "map", "dump", says="map dump takes NAME")
    refused(s, 2, "map", "set", "stats", "1", says="map set takes NAME KEY VALUE")
    for args in (["--set", "a=1"], ["--engine", "vm"], ["--policy", good, "--no-daemon"]):
        done = s.rubato("run", *args, "--", "true", code=2)
        assert "--policy" in done.stderr and done.stderr.count("\n") == 1, done.stderr
    usage = s.rubato("policy", "--help").stdout
    assert usage.startswith("Usage: rubato policy check") and s.rubato("policy", "map", "set", "--help").stdout == usage
    assert not s.processes("rubatod")


def test_check(s):
    table = s.rubato("policy", "check", policy("hooks")).stdout
    lines = [line.split() for line in table.splitlines()]
    assert lines[0][:2] == ["HOOK", "SECTION"] and "VM" in lines[0], table
    hooks = {line[0]: line[1] for line in lines[1:5]}
    assert hooks == {h: "gpu_sched/" + h for h in ("task_init", "schedule", "work_submit", "task_destroy")}, table
    facts = json.loads(s.rubato("policy", "check", policy("hooks"), "--json", "--engine", "vm").stdout)
    assert (facts["name"], facts["base"], facts["timeout_ms"], facts["engine"]) == ("hooks", "turns", 5000, "vm"), facts
    assert set(facts["hooks"]) == set(hooks)
    for hook in facts["hooks"].values():
        assert 0 < hook["ns"] < 10**7 and hook["ns_vm"] == hook["ns"] and "ns_kernel" not in hook, facts
    facts = json.loads(s.rubato("policy", "check", policy("hooks"), "--json").stdout)
    usable = "kernel" not in facts["why_not"]
    assert facts["engine"] == ("kernel" if usable else "vm"), facts
    assert ("ns_kernel" in facts["hooks"]["schedule"]) == usable and "ns_vm" in facts["hooks"]["schedule"], facts
    assert not s.processes("rubatod")


def test_check_needs_no_rights(s):
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return  # the whole file runs as an ordinary user, too
    tool = os.path.join(s.dir, "rubato")
    shutil.copy(binary("rubato"), tool)
    shutil.copy(policy("hooks"), s.dir)
    os.chmod(s.dir, 0o755)
    done = subprocess.run([*AS_NOBODY, tool, "policy", "check", os.path.join(s.dir, "hooks.bpf.o"), "--json"], cwd="/",
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    facts = json.loads(done.stdout)
    assert facts["engine"] == "vm" and "bpf(2)" in facts["why_not"]["kernel"], facts
    done = subprocess.run([*AS_NOBODY, tool, "policy", "check", os.path.join(s.dir, "hooks.bpf.o"), "--engine", "kernel"],
                          cwd="/", capture_output=True, text=True, timeout=60)
    assert done.returncode == 4 and done.stderr.count("\n") == 1 and "CAP_BPF" in done.stderr, done


def test_settings(s):
    s.rubato("policy", "check", policy("hooks"), "--set", "slice_us=300", "--set", "rule=THIRD", "--set", "refuse=true")
    refused(s, 1, "check", policy("hooks"), "--set", "slice=300", says="slice: the policy has no number")
    refused(s, 1, "check", policy("hooks"), "--set", "rule=FOURTH", says="rule: it cannot have the value FOURTH")
    refused(s, 1, "check", policy("hooks"), "--set", "offset=32768", says="offset: it cannot have the value")
    refused(s, 1, "load", policy("hooks"), "--set", "slice_us=" + "0" * 70000 + "7", says="its settings are too long to be sent")


def test_bad_files(s):
    with open(policy("hooks"), "rb") as f:
        good = f.read()
    refused(s, 1, "check", "/none", says="No such file")
    refused(s, 1, "check", s.dir, says="Is a directory")
    refused(s, 1, "check", "/dev/zero", says="not a plain file")
    refused(s, 1, "check", written(s, b""), says="not an object file")
    refused(s, 1, "check", written(s, b"junk" * 1000), says="not an object file")
    refused(s, 1, "check", binary("rubato"), says="not an object file for BPF")
    foreign = bytearray(good)
    foreign[18:20] = (62).to_bytes(2, "little")  # e_machine: EM_X86_64
    refused(s, 1, "check", written(s, foreign), says="not an object file for BPF")
    for size in (16, 63, 64, len(good) // 4, len(good) // 2, len(good) - 1):
        refused(s, 1, "check", written(s, good[:size]))
    path = written(s, good)
    os.truncate(path, 100 << 20)
    refused(s, 1, "check", path, says="larger than 16 MiB")
    fifo = os.path.join(s.dir, "fifo")
    os.mkfifo(fifo)
    refused(s, 1, "check", fifo, says="not a plain file")
    # What the terminal would obey is not printed.
    name = os.path.join(s.dir, "x.bpf.o")
    with open(name, "wb") as f:
        f.write(good.replace(b"gpu_sched/task_init", b"gpu_sched/\x1b[31minit"))
    assert "\x1b" not in s.rubato("policy", "check", name, code=1).stderr


def test_bad_objects(s):
    if shutil.which("clang") is None:
        return print("skipped: clang is missing")
    hook = "GPU_SCHED_HOOK(task_init, ctx) { %s }"
    section = "section gpu_sched/task_init: "
    cases = {
        'SEC("gpu_sched/frobnicate") int f(void *ctx) { return 0; }': "section gpu_sched/frobnicate: there is no such hook",
        hook % "((long (*)(int))109)(9);": section + "instruction ",
        hook % 'static const char t[] = "x"; ((long (*)(const char *, __u32))6)(t, 2);': "gpu_sched_log",
        "struct { __uint(type, 4 /* PERF_EVENT_ARRAY */); __uint(key_size, 4); __uint(value_size, 4); "
        "__uint(max_entries, 4); } other SEC(\".maps\");" + hook % "": "other",
        "extern int none(void) __ksym;" + hook % "ctx->timeslice = none();": "none",
    }
    for text, says in cases.items():
        refused(s, 1, "check", compiled(s, text), says=says)
    refused(s, 1, "check", policy("untried"), says="section gpu_sched/tick: the hook returned 3")
    loop = compiled(s, hook % "for (volatile __u64 i = 0; i < 10000000; i++) { ctx->timeslice = i; }")
    refused(s, 1, "check", loop, "--engine", "vm", says=section + "instruction ")


def test_another_abi(s):
    with open(policy("hooks"), "rb") as f:
        good = f.read()
    # gpu_sched_abi is a constant of .rodata: readelf tells where.
    readelf = shutil.which("readelf") or shutil.which("llvm-readelf-14") or shutil.which("llvm-readelf")
    if readelf is None:
        return print("skipped: readelf is missing")
    symbols = subprocess.run([readelf, "-sW", policy("hooks")], capture_output=True, text=True, check=True).stdout
    symbol = next(line.split() for line in symbols.splitlines() if line.endswith("gpu_sched_abi"))
    sections = subprocess.run([readelf, "-SW", policy("hooks")], capture_output=True, text=True, check=True).stdout
    rodata = next(line.split("]")[1].split() for line in sections.splitlines() if " .rodata " in line)
    at = int(rodata[3], 16) + int(symbol[1], 16)
    assert good[at:at + 4] == (1).to_bytes(4, "little")
    refused(s, 1, "check", written(s, good[:at] + (7).to_bytes(4, "little") + good[at + 4:]), says="ABI 7")


def test_verifier_log(s):
    facts = json.loads(s.rubato("policy", "check", policy("plain"), "--json").stdout)
    if "kernel" in facts["why_not"]:
        return print("skipped: " + facts["why_not"]["kernel"])
    done = s.rubato("policy", "check", policy("faults"), code=1)
    first, log = done.stderr.split("\n", 1)
    assert "kernel: section gpu_sched/task_init: " in first, first
    assert "invalid mem access" in log and "END PROG LOAD LOG" in log, log
    done = s.rubato("policy", "load", policy("faults"), code=1)
    assert "kernel: section gpu_sched/task_init: " in done.stderr and "END PROG LOAD LOG" in done.stderr, done.stderr


def test_nothing_is_loaded(s):
    facts = json.loads(s.rubato("policy", "show", "--json").stdout)
    assert facts["state"] == "none" and facts["engine"] in ("kernel", "vm") and facts["overruled"] == 0, facts
    assert facts["name"] == "" and facts["reason"] == ""
    assert "none" in s.rubato("policy", "show").stdout
    assert json.loads(s.rubato("policy", "stats", "--json").stdout)["hooks"] == {}
    for args in (["unload"], ["log"], ["map", "list"], ["map", "dump", "stats"], ["map", "set", "stats", "1", "2"]):
        refused(s, 1, *args, says="no policy is loaded")
    assert not s.processes("rubatod")


def test_doctor(s):
    checks = {c["what"]: c for c in json.loads(s.rubato("doctor", "--json").stdout)["checks"]}
    assert checks["policy"]["text"] == "no policy in eBPF is loaded", checks
    engine = checks["policy engine"]
    assert engine["verdict"] == "ok" and engine["text"].startswith(("kernel", "vm; not kernel: ")), engine


class Tool:
    """A rubato command that goes on until it is told to end."""

    def __init__(self, session, args):
        self.process = subprocess.Popen(session.inside([binary("rubato"), *args]), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=session.env, start_new_session=True)
        self.output = {self.process.stdout: "", self.process.stderr: ""}
        for stream in self.output:
            os.set_blocking(stream.fileno(), False)

    def said(self, stream):
        """What it has written so far."""
        try:
            while piece := os.read(stream.fileno(), 65536):
                self.output[stream] += piece.decode()
        except BlockingIOError:
            pass
        return self.output[stream]

    def stdout(self):
        return self.said(self.process.stdout)

    def stderr(self):
        return self.said(self.process.stderr)

    def signal(self, number):
        for pid in in_process_session(self.process.pid):
            if process_status(pid)[0] == b"rubato":
                os.kill(pid, number)

    def wait(self):
        return self.process.wait(60)

    def end(self):
        for pid in in_process_session(self.process.pid):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            self.process.communicate(timeout=10)
        except ValueError:  # its input was closed
            self.process.wait(10)


def start(s, *args):
    s.programs.append(Tool(s, args))
    return s.programs[-1]


def show(s):
    return json.loads(s.rubato("policy", "show", "--json").stdout)


def test_load_show_unload(s):
    s.rubato("policy", "load", policy("values"), "--engine", "vm")
    facts = show(s)
    assert (facts["state"], facts["name"], facts["file"], facts["engine"]) == ("loaded", "values", "values.bpf.o", "vm")
    assert (facts["base"], facts["timeout_ms"], facts["hooks"]) == ("turns", 5000, ["task_init"]), facts
    assert not facts["foreground"] and facts["overruled"] == 0 and facts["reason"] == ""
    text = s.rubato("policy", "show").stdout
    assert "values.bpf.o" in text and "loaded" in text and "vm" in text, text
    # What cannot be loaded leaves the loaded policy alone.
    refused(s, 1, "load", binary("rubato"), says="not an object file")
    refused(s, 1, "load", policy("untried"), says="section gpu_sched/tick: the hook returned 3")
    refused(s, 1, "load", policy("hooks"), "--set", "none=1", says="none: the policy has no number")
    assert show(s) == facts
    # Another one replaces it.
    s.rubato("policy", "load", policy("hooks"), "--engine", "vm", "--set", "slice_us=77")
    assert show(s)["name"] == "hooks" and show(s)["loads"] == 2
    s.rubato("policy", "unload")
    assert show(s)["state"] == "none"
    refused(s, 1, "unload", says="no policy is loaded")


def test_stats_and_log(s):
    s.rubato("policy", "load", policy("values"), "--engine", "vm")
    p = s.run()
    stats = eventually("a call", lambda: (lambda f: f["hooks"]["task_init"]["calls"] and f)(
        json.loads(s.rubato("policy", "stats", "--json").stdout)))
    hook = stats["hooks"]["task_init"]
    assert stats["state"] == "loaded" and hook["errors"] == 0 and 0 < hook["ns"] <= hook["max_ns"] <= hook["total_ns"], hook
    table = s.rubato("policy", "stats").stdout.splitlines()
    assert table[0].split()[:4] == ["HOOK", "CALLS", "ERRORS", "LATE"] and table[1].split()[0] == "task_init", table
    line = f"of {p.pid}"
    eventually("a line", lambda: line in s.rubato("policy", "log").stdout)
    first = json.loads(s.rubato("policy", "log", "--json").stdout.splitlines()[0])
    assert first["number"] == 1 and first["load"] == 1 and first["time_ns"] > 0 and "task " in first["text"], first
    # The log is kept.
    s.rubato("policy", "unload")
    assert line in s.rubato("policy", "log").stdout


def test_follow_and_interval(s):
    s.rubato("policy", "load", policy("values"), "--engine", "vm")
    log = start(s, "policy", "log", "--follow")
    stats = start(s, "policy", "stats", "--interval", "0.1", "--json")
    p = s.run()
    eventually("a line", lambda: f"of {p.pid}" in log.stdout())

    def is_still():
        """Calls, and then none."""
        changes = [json.loads(line)["hooks"]["task_init"]["calls"] for line in stats.stdout().splitlines(True) if line[-1:] == "\n"]
        return sum(changes) > 0 and changes[-1] == 0

    eventually("tables", is_still)
    for tool in (log, stats):
        tool.signal(signal.SIGINT)
        assert tool.wait() == 0


def test_maps(s):
    refused(s, 1, "map", "list", says="no policy is loaded")
    s.rubato("policy", "load", policy("values"), "--engine", "vm")
    maps = {m["name"]: m for m in json.loads(s.rubato("policy", "map", "list", "--json").stdout)}
    assert (maps["kinds"]["type"], maps["kinds"]["key_size"], maps["kinds"]["value_size"]) == ("hash", 4, 4), maps
    assert maps["kinds"]["max_entries"] == 16 and maps[".rodata"]["read_only"], maps
    assert s.rubato("policy", "map", "list").stdout.splitlines()[0].split() == ["NAME", "TYPE", "KEY", "VALUE", "ENTRIES"]

    def dump(name):
        return [(e["key"], e["value"]) for e in json.loads(s.rubato("policy", "map", "dump", name, "--json").stdout)]

    assert dump("kinds") == [] and s.rubato("policy", "map", "dump", "kinds").stdout == ""
    s.rubato("policy", "map", "set", "kinds", "5", "TRAINER")
    s.rubato("policy", "map", "set", "kinds", "6", "77")
    assert sorted(dump("kinds")) == [(5, "TRAINER"), (6, 77)]
    s.rubato("policy", "map", "del", "kinds", "5")
    refused(s, 1, "map", "del", "kinds", "5", says="no entry 5")
    assert dump("kinds") == [(6, 77)]
    for i in range(16):
        s.rubato("policy", "map", "set", "kinds", i, "IDLE")
    refused(s, 1, "map", "set", "kinds", "16", "IDLE", says="full: it has 16 entries")
    # A minus is no option here, and fields that are not named stay.
    s.rubato("policy", "map", "set", "entries", "x=-1,y=2", "n=5,at={x=3},comm=python")
    s.rubato("policy", "map", "set", "entries", "x=-1,y=2", "small=-7")
    [(key, value)] = dump("entries")
    assert key == {"x": -1, "y": 2} and (value["n"], value["small"], value["comm"]) == (5, -7, "python"), value
    text = s.rubato("policy", "map", "dump", "entries").stdout.strip()
    assert text.startswith("x=-1,y=2  n=5,small=-7,"), text
    s.rubato("policy", "map", "set", "entries", "x=9", text.split("  ")[1])
    assert dict((k["x"], v) for k, v in dump("entries"))[9] == value
    s.rubato("policy", "map", "set", ".bss", "0", "n_calls=12")
    assert dump(".bss") == [(0, {"n_calls": 12})]
    assert dump("untyped") == [(0, "hex:000000000000"), (1, "hex:000000000000")]
    for args, says in ((["set", "none", "1", "2"], "no map of this name"),
                       (["set", "kinds", "x", "IDLE"], "key: x is not a number"),
                       (["set", "kinds", "1", "BUSY"], "value: BUSY is not a number or enumerator"),
                       (["set", "kinds", "4294967296", "IDLE"], "does not fit"),
                       (["set", "entries", "x=1", "z=1"], "z: there is no field"),
                       (["set", ".rodata", "0", "limit=1"], "read-only"),
                       (["set", "untyped", "2", "hex:000000000000"], "the array has 2 entries"),
                       (["del", "untyped", "1"], "an array keeps its entries"),
                       (["dump", "gpu_sched_log_ring"], "a ring buffer has no entries")):
        refused(s, 1, "map", *args, says=says)


def test_names_cannot_control_the_terminal(s):
    with open(policy("values"), "rb") as f:
        s.rubato("policy", "load", written(s, f.read().replace(b"kinds\0", b"k\x1b[1m\0")), "--engine", "vm")
    assert "k?[1m " in s.rubato("policy", "map", "list").stdout
    assert "k\x1b[1m" in [m["name"] for m in json.loads(s.rubato("policy", "map", "list", "--json").stdout)]


def test_foreground(s):
    tool = start(s, "policy", "load", policy("values"), "--engine", "vm", "--foreground")
    eventually("loaded", lambda: show(s)["state"] == "loaded")
    assert show(s)["foreground"]
    p = s.run()
    eventually("a line", lambda: f"of {p.pid}\n" in tool.stdout())
    assert tool.stdout().startswith("["), tool.stdout()
    tool.signal(signal.SIGINT)
    assert tool.wait() == 0
    assert show(s)["state"] == "none"
    # A killed tool takes its policy along.
    tool = start(s, "policy", "load", policy("values"), "--engine", "vm", "--foreground")
    eventually("loaded", lambda: show(s)["state"] == "loaded")
    tool.signal(signal.SIGKILL)
    eventually("unloaded", lambda: show(s)["state"] == "none")
    # Another policy in its place is the end.
    tool = start(s, "policy", "load", policy("values"), "--engine", "vm", "--foreground")
    eventually("loaded", lambda: show(s)["state"] == "loaded")
    s.rubato("policy", "load", policy("hooks"), "--engine", "vm")
    assert tool.wait() == 1
    assert "EXIT: another policy has replaced it: hooks" in tool.stderr()
    assert show(s)["name"] == "hooks"
    # That one is gone before the tool looks.
    tool = start(s, "policy", "load", policy("values"), "--engine", "vm", "--foreground")
    eventually("loaded", lambda: show(s)["name"] == "values")
    tool.signal(signal.SIGSTOP)
    s.rubato("policy", "load", policy("hooks"), "--engine", "vm")
    s.rubato("policy", "unload")
    tool.signal(signal.SIGCONT)
    assert tool.wait() == 1
    assert tool.stderr() == "EXIT: another policy has replaced it\n", tool.stderr()


def test_ejected(s):
    if shutil.which("clang") is None:
        return print("skipped: clang is missing")
    # The dry run calls it once.
    bad = compiled(s, 'static int n; SEC("gpu_sched/tick") int tick(void *ctx) { return n++ ? 5 : 0; }')
    tool = start(s, "policy", "load", bad, "--engine", "vm", "--foreground")
    assert tool.wait() == 1
    said = tool.stderr()
    assert said.startswith("EXIT: ") and said.count("\n") == 1 and "gpu_sched/tick: the hook returned 5" in said, said
    s.rubato("policy", "load", bad, "--engine", "vm")
    eventually("ejected", lambda: show(s)["state"] == "ejected")
    facts = show(s)
    assert "gpu_sched/tick" in facts["reason"] and facts["file"] == "made.bpf.o", facts
    assert facts["reason"] in s.rubato("policy", "show").stdout
    checks = {c["what"]: c for c in json.loads(s.rubato("doctor", "--json").stdout)["checks"]}
    assert checks["policy"]["verdict"] == "partly" and facts["reason"] in checks["policy"]["text"], checks
    assert json.loads(s.rubato("policy", "stats", "--json").stdout)["hooks"]["tick"]["errors"] >= 3
    # Its maps are gone: that is not the same as an empty map, or as a missing entry.
    for args in (["dump", ".bss"], ["set", ".bss", "0", "n=1"]):
        refused(s, 1, "map", *args, says="the policy is ejected")
    s.rubato("policy", "unload")
    assert show(s)["state"] == "none"


def test_run(s):
    """The policy is there before the program starts, and goes with it."""
    code = "import subprocess, sys; sys.stdout.write(subprocess.run([sys.argv[1], 'policy', 'show', '--json'], " \
           "capture_output=True, text=True).stdout); sys.exit(7)"
    done = s.rubato("run", "--policy", policy("values"), "--engine", "vm", "--set", "limit=9", "--", sys.executable, "-c", code,
                    binary("rubato"), code=7)
    facts = json.loads(done.stdout)
    assert (facts["state"], facts["name"], facts["engine"], facts["foreground"]) == ("loaded", "values", "vm", True), facts
    eventually("unloaded", lambda: show(s)["state"] == "none")
    eventually("no holder", lambda: not s.processes("rubato-policy"))


def test_run_refused(s):
    mark = os.path.join(s.dir, "mark")
    for file, says in (("/none", "No such file"), (binary("rubato"), "not an object file"), (policy("untried"), "returned 3")):
        done = s.rubato("run", "--policy", file, "--", "touch", mark, code=1)
        assert done.stderr.count("\n") == 1 and says in done.stderr, done.stderr
    s.rubato("policy", "load", policy("hooks"))
    done = s.rubato("run", "--policy", policy("values"), "--", "touch", mark, code=1)
    assert done.stderr.count("\n") == 1 and "hooks" in done.stderr, done.stderr
    assert not os.path.exists(mark) and show(s)["name"] == "hooks"
    assert s.rubato("run", "--policy", policy("values"), "--", "/none", code=127)


def test_run_shares_a_policy(s):
    """Two programs with the same policy: it goes with the last one."""
    first = start(s, "run", "--policy", policy("values"), "--engine", "vm", "--", "wc")
    eventually("loaded", lambda: show(s)["state"] == "loaded")
    second = start(s, "run", "--policy", policy("values"), "--engine", "vm", "--", "wc")
    eventually("two holders", lambda: len(s.processes("rubato-policy")) == 2)
    eventually("both commands run", lambda: len(s.processes("wc")) == 2)
    first.process.stdin.close()
    assert first.wait() == 0
    eventually("one holder", lambda: len(s.processes("rubato-policy")) == 1)
    assert show(s)["state"] == "loaded" and show(s)["loads"] == 1
    second.process.stdin.close()
    assert second.wait() == 0
    eventually("unloaded", lambda: show(s)["state"] == "none")


def test_run_survives_an_ejection(s):
    if shutil.which("clang") is None:
        return print("skipped: clang is missing")
    bad = compiled(s, 'static int n; SEC("gpu_sched/tick") int tick(void *ctx) { return n++ ? 5 : 0; }')
    tool = start(s, "run", "--policy", bad, "--engine", "vm", "--", "cat")
    eventually("a line", lambda: tool.stderr().endswith("\n"))
    assert "not in force any more" in tool.stderr() and "gpu_sched/tick" in tool.stderr(), tool.stderr()
    assert tool.process.poll() is None
    tool.process.stdin.close()
    assert tool.wait() == 0


def test_run_ends_without_its_daemon(s):
    """The process that holds the policy waits for another daemon, but not longer than the program runs: it has its stderr."""
    tool = start(s, "run", "--policy", policy("values"), "--engine", "vm", "--", "wc")
    # Until then the daemon that the holder starts may have the holder's name.
    eventually("the command runs", lambda: s.processes("wc"))
    holder, = s.processes("rubato-policy")
    s.unkeep()
    os.kill(s.daemon(), signal.SIGKILL)
    time.sleep(0.5)  # it has noticed
    tool.process.stdin.close()
    assert tool.wait() == 0
    eventually("no holder", lambda: not alive(holder), seconds=5)
    assert "not in force" not in tool.stderr(), tool.stderr()


def test_run_without_a_daemon(s):
    os.mkdir(os.path.join(s.dir, "locked"))
    blocked = os.path.join(s.dir, "locked", "file")
    with open(blocked, "w"):
        pass
    done = s.command("env", "RUBATO_RUNTIME_DIR=" + blocked, binary("rubato"), "run", "--policy", policy("values"), "--", "echo",
                     "ran")
    assert done.returncode == 0 and done.stdout == "ran\n" and "without the policy" in done.stderr, done


def test_run_with_a_daemon_that_hangs(s):
    """The program starts without the policy, and does not wait for as long as a load may take."""
    s.run()
    daemon = s.daemon()
    os.kill(daemon, signal.SIGSTOP)
    done = s.rubato("run", "--policy", policy("values"), "--", "echo", "ran", timeout=40)
    os.kill(daemon, signal.SIGCONT)
    assert done.stdout == "ran\n" and done.stderr.count("\n") == 1 and "without the policy" in done.stderr, done


def test_daemon_is_slow(s):
    """Late answers are not mistaken for those to later questions."""
    tool = start(s, "policy", "load", policy("values"), "--engine", "vm", "--foreground")
    eventually("loaded", lambda: show(s)["state"] == "loaded")
    os.kill(s.daemon(), signal.SIGSTOP)
    time.sleep(4)  # longer than an answer is waited for
    os.kill(s.daemon(), signal.SIGCONT)
    p = s.run()
    eventually("a line", lambda: f"of {p.pid}\n" in tool.stdout())
    tool.signal(signal.SIGINT)
    assert tool.wait() == 0
    eventually("unloaded", lambda: show(s)["state"] == "none")


def test_daemon_is_killed(s):
    """The tool that holds a policy loads it into the next daemon."""
    tool = start(s, "policy", "load", policy("values"), "--engine", "vm", "--foreground")
    eventually("loaded", lambda: show(s)["state"] == "loaded")
    p = s.run()
    eventually("a line", lambda: f"of {p.pid}\n" in tool.stdout())
    os.kill(s.daemon(), signal.SIGKILL)
    eventually("loaded again", lambda: s.processes("rubatod") and show(s)["state"] == "loaded" and show(s)["foreground"])
    assert tool.process.poll() is None
    tool.signal(signal.SIGINT)
    assert tool.wait() == 0
    eventually("unloaded", lambda: show(s)["state"] == "none")


if not os.path.exists(policy("hooks")):
    skip("the policies are not compiled: clang was missing at build time")
main()
