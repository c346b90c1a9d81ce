#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_remote_numbers.py SOURCE NUMBERS: calls between guests and workers keep their numbers and arguments.

NUMBERS has a line per call that was ever there. Old guests work with new hosts, so no line of it may change.
"""
import os
import subprocess
import sys


def main(source, path):
    made = subprocess.check_output([os.path.join(source, "src/cuda/generate"), "numbers",
                                    os.path.join(source, "src/cuda/calls.txt")], text=True).splitlines()[1:]
    with open(path) as f:
        kept = f.read().splitlines()
    wrong = [f"was changed or removed: {line}" for line in kept if line not in made]
    wrong += [f"is new, and not in {os.path.basename(path)} yet: {line}" for line in made if line not in kept]
    numbers = [int(line.split()[0]) for line in kept]
    wrong += [f"has a number that was used before: {n}" for n in set(numbers) if numbers.count(n) > 1]
    print("\n".join(wrong) or f"{len(kept)} calls")
    return 1 if wrong or not kept else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
