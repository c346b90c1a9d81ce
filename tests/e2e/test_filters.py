# SPDX-License-Identifier: Apache-2.0
"""Programs behind a seccomp filter that kills: what docs/environment.md says that it has to allow is enough, and no more
than the library may call."""
import glob
import os
import re
import time

from harness import HERE, Program, alive, binary, eventually, main, skip
from programs import BEST_EFFORT
from test_standin import WITH_DRIVER, shared, use_driver

ROOT = os.path.join(HERE, "..", "..")
HEADER = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"
# What the programs call themselves, once they run.
OWN = {"brk", "clock_nanosleep", "exit_group", "getpid", "getppid", "ioctl", "mmap", "openat", "poll", "read", "write"}


def documented():
    """Three sets of names: what the library always calls, and what it calls besides for AMD queues and without a filter."""
    with open(os.path.join(ROOT, "docs", "environment.md")) as f:
        section = f.read().split("## System calls of the preloaded library\n")[1].split("\n## ")[0]
    lists = re.findall(r"^- (.*?)\.$", section, re.M | re.S)
    always, amd, unfiltered = [set(re.findall(r"`(\w+)`", text)) for text in lists]
    return always, amd, unfiltered


def numbers(names):
    with open(binary("rmclient"), "rb") as f:
        if b"__asan_init" in f.read():
            skip("a sanitizer makes calls of its own")
    if os.uname().machine != "x86_64" or not os.path.exists(HEADER):
        skip("the numbers of system calls are x86_64's, from the C library's headers")
    with open(HEADER) as f:
        known = dict(re.findall(r"#define __NR_(\w+) (\d+)", f.read()))
    return ",".join(known[name] for name in sorted(names))


def test_the_list_is_the_librarys(s):
    """All calls are made directly, by these names."""
    used = set()
    for path in glob.glob(os.path.join(ROOT, "src", "shim", "*.[ch]")) + \
            [os.path.join(ROOT, "src", name) for name in ("act/lock.c", "board/create.c", "util/sandbox.c", "util/trust.c")]:
        with open(path) as f:
            used |= set(re.findall(r"\bSYS_(\w+)", f.read()))
    always, amd, unfiltered = documented()
    # The C library makes these: the first where the kernel lends it no clock, the others for a thread.
    used |= {"clock_gettime", "clone", "clone3", "exit", "mprotect", "rseq", "set_robust_list"}
    assert always | amd | unfiltered == used, (always | amd | unfiltered) ^ used
    assert not always & amd and not always & unfiltered


def put_to_work(p):
    """All that it may do once it has a filter."""
    assert p.ask("more").startswith("ready"), p.process.poll()
    assert p.ask("slice").startswith("slice "), p.process.poll()
    assert p.ask("free").startswith("ready"), p.process.poll()


def test_the_programs_own_calls(s):
    """Without the library the program lives with its own, and with less it does not."""
    p = s.program("--contexts", 0)
    assert p.ask("filter " + numbers(OWN)) == "0 ok"
    put_to_work(p)
    q = s.program("--contexts", 0)
    assert q.ask("filter " + numbers(OWN - {"openat"})) == "0 ok"
    q.say("more")
    assert q.process.wait(20) == 159


def test_a_filter_before_the_first_contact(s):
    always = documented()[0]
    p = s.run(*BEST_EFFORT, args=["--contexts", 0])
    assert p.ask("filter " + numbers(OWN | always)) == "0 ok"
    put_to_work(p)
    assert p.ask("more").startswith("ready")
    eventually("managed", lambda: s.slices(p.pid) == [1])
    s.rubato("suspend", p.pid)
    s.rubato("resume", p.pid)


def test_a_filter_after_the_first_contact(s):
    always = documented()[0]
    p = s.run(*BEST_EFFORT)
    eventually("managed", lambda: s.slices(p.pid) == [1])
    assert p.ask("filter " + numbers(OWN | always)) == "0 ok"
    old = s.kill_both(is_kept=True)
    eventually("another daemon runs", lambda: [pid for pid in s.processes("rubatod") if pid != old])
    eventually("managed again", lambda: s.ps()[p.pid]["managed"] and not s.ps()[p.pid]["attached"])
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    put_to_work(p)
    s.end_daemon()
    eventually("alone", lambda: s.slices(p.pid) == [1000])
    put_to_work(p)


def test_a_filter_when_everything_is_killed(s):
    """The program does not bring the daemon back; one without a filter does."""
    always = documented()[0]
    p = s.run(*BEST_EFFORT)
    eventually("managed", lambda: s.slices(p.pid) == [1])
    assert p.ask("filter " + numbers(OWN | always)) == "0 ok"
    s.kill_both()
    end = time.monotonic() + 6
    while time.monotonic() < end:
        put_to_work(p)
        assert not s.processes("rubatod")
    q = s.run("--class", "normal")
    s.kill_both()
    eventually("the other one does", lambda: s.processes("rubatod"), 10)
    assert alive(p.pid) and alive(q.pid)


def test_a_filter_without_a_daemon(s):
    always = documented()[0]
    p = s.run("--no-daemon", *BEST_EFFORT, args=["--contexts", 0])
    assert p.ask("filter " + numbers(OWN | always)) == "0 ok"
    assert p.ask("more").startswith("ready")
    eventually("alone", lambda: s.slices(p.pid) == [1000])
    put_to_work(p)


def test_a_filter_in_a_program_that_is_counted(s):
    use_driver(s)
    always = documented()[0]
    p = Program(s, [*WITH_DRIVER, binary("rubato"), "run", "--class", "latency", "--", binary("cudaclient"), "live"])
    s.programs.append(p)
    eventually("they share a board", lambda: shared(s, p))
    assert p.ask("filter " + numbers(OWN | always)) == "0 ok"
    for line in "call cuLaunchKernel 100", "call cuStreamSynchronize 2", "begin 1000000", "end":
        assert p.ask(line).endswith("ok"), (line, p.process.poll())
    old = s.kill_both(is_kept=True)
    eventually("another daemon runs", lambda: [pid for pid in s.processes("rubatod") if pid != old])
    eventually("they share another", lambda: p.ask("call cuStreamSynchronize 1") == "ok" and shared(s, p))
    assert p.ask("call cuLaunchKernel 100") == "ok" and alive(p.pid)


main()
