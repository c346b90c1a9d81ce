# SPDX-License-Identifier: Apache-2.0
"""The table of tests/judge on the software GPU, and how two runs of it are compared."""
import os
import re
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
TIMEOUT_S = 300
# What is taken for a driver that nobody may open without a GPU: the newest kernels.
NEWEST = 23
CRASHES = "# crashes on the risky cases"


def build_dir():
    return os.path.abspath(os.environ.get("BUILD", "build"))


def judge():
    return os.path.join(build_dir(), "tests", "judge", "judge")


def run_fake(minor, survives):
    """The table's lines on a driver of version 1.minor without GPUs. A kernel that does not survive
    the risky cases lacks what was mended with them: it takes arrays of any length."""
    return run_table(minor) + run_table(minor, "--risky") if survives else run_table(minor, lenient=True)


def run_table(minor, *options, lenient=False):
    softgpu = os.path.join(build_dir(), "rubato-softgpu")
    env = {k: v for k, v in os.environ.items() if k != "RUBATO_SOFTGPU"}
    done = subprocess.run([softgpu, "exec", "--kfd-no-gpu", "--kfd-minor", str(minor),
                           *(["--kfd-lenient"] if lenient else []), "--", judge(), *options], env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, timeout=TIMEOUT_S, check=True)
    return done.stdout.decode().splitlines()


def minor_of(lines):
    """The version that the driver gave."""
    for line in lines:
        found = re.match(r"version: version=0 1\.(\d+)$", line)
        if found:
            return int(found.group(1))
        if line == "version: open=EINVAL FAILED":
            return NEWEST
    raise SystemExit("judge: the driver did not give its version")


def by_name(lines):
    return dict(line.split(":", 1) for line in lines if ":" in line)


def mark(a, b):
    """The words of a, with those that b has not so in the same place in brackets."""
    others = b.split()
    words = a.split()
    return " ".join(w if i < len(others) and others[i] == w else f"[{w}]"
                    for i, w in enumerate(words))


def compare(wanted, got, wanted_name, got_name):
    """Prints what differs; returns how many cases do."""
    wanted, got = by_name(wanted), by_name(got)
    different = 0
    for name in list(wanted) + [n for n in got if n not in wanted]:
        a, b = wanted.get(name, " missing"), got.get(name, " missing")
        if a == b:
            continue
        different += 1
        print(f"{name}\n  {wanted_name:>6}: {mark(a, b)}\n  {got_name:>6}: {mark(b, a)}")
    return different
