# SPDX-License-Identifier: Apache-2.0
"""What tests/hw/ops does to a running program, from Python."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "bench"))
import benchlib  # noqa: E402

BUILD = os.path.abspath(os.environ.get("BUILD", "build"))


class Ops:
    def __init__(self, program):
        self.process = subprocess.Popen([os.path.join(BUILD, "tests/hw/ops"), str(program.pid)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.took = []
        self.times_off = {"compute": 0, "rest": 0}
        if int(self.process.stdout.readline().split()[0]) < 0:
            raise benchlib.Failure("ops cannot attach")

    def do(self, *words):
        for word in words:
            self._do(word)

    def _do(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        error, us = self.process.stdout.readline().split()
        self.took.append((word, int(us)))
        if int(error) < 0:
            print(f"    {word}: error {error}")
        what, _, scope = word.partition(" ")
        step = {"off": 1, "keep": 1, "on": -1}.get(what, 0) if int(error) == 0 else 0
        for kind in self.times_off:
            if scope in ("all", kind):
                self.times_off[kind] = max(self.times_off[kind] + step, 0)

    def should_run(self):
        return not any(self.times_off.values())

    def close(self):
        self.process.stdin.close()
        self.process.wait()
