# SPDX-License-Identifier: Apache-2.0
"""A best-effort program on the software GPU that runs on while the packages below it are upgraded and removed (see `steps`)."""
import json
import os
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, "/test/demo/bench")
import benchlib  # noqa: E402


def rubato(*args):
    return subprocess.run(["rubato", *args, "--device", "soft"], check=True, capture_output=True, text=True, timeout=60).stdout


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.1)


def start(cls):
    """(`rubato run --device soft` stays as the program's parent.)"""
    program = benchlib.Program(cls, ["rubato", "run", "--device", "soft", "--class", cls, "--", "/test/demo/build/bench/besteffort",
                                     "--depth", "4", "--steps", "1000"], os.environ)
    program.await_ready(60)
    program.ask("go", 60)
    return program


def works(program):
    """It goes on, and its results are right. (`check` stops it.)"""
    program.ask("go", 60)
    program.await_count(program.ask("count")["count"] + 20)
    assert program.ask("check", 60)["wrong_threads"] == 0


def classes():
    return sorted(p["class"] for p in json.loads(rubato("ps", "--json"))["programs"])


program = start("best-effort")
works(program)
assert classes() == ["best-effort"], classes()
print("ready", flush=True)

wait_for("upgraded")
works(program)
# The daemon is still the old one; the tools and the library of a new program are new.
second = start("latency")
works(second)
assert classes() == ["best-effort", "latency"], classes()
rubato("suspend", str(program.pid))
rubato("resume", str(program.pid))
works(program)
print("upgraded ok", flush=True)

wait_for("removed")
works(program)
works(second)
program.stop()
second.stop()
print("removed ok", flush=True)
