# SPDX-License-Identifier: Apache-2.0
"""Reads what orion_pair prints, and prints a table: for each way to share the GPU, the requests' p99 by their p99 alone, and
the other thread's rate by its rate alone, as medians over the rounds; all rounds below it."""
import sys

sys.dont_write_bytecode = True

import collections
import json

import benchlib


def main():
    rounds, wrong = collections.defaultdict(list), None
    for line in sys.stdin:
        row = json.loads(line)
        if "wrong_threads" in row:
            wrong = row["wrong_threads"]
        else:
            rounds[row["kind"], row["mode"]].append(row)
    if wrong is None:
        sys.exit("orion_pair_table.py: orion_pair did not finish")
    kinds = list(dict.fromkeys(kind for kind, _ in rounds))
    modes = [m for m in dict.fromkeys(mode for _, mode in rounds) if "alone" not in m]

    def ratios(kind, mode):
        own = (rounds[kind, "alone"], rounds[kind, "best effort alone"])
        return [(r["p99_us"] / a["p99_us"], r["rate"] / b["rate"])
                for r, a, b in zip(rounds[kind, mode], *own)]

    print(benchlib.machine_line(benchlib.machine()))
    print(benchlib.table(["best-effort kernels"] + modes, [
        [kind] + [f"{benchlib.median([p for p, _ in ratios(kind, m)]):.2f} · "
                  f"{benchlib.median([r for _, r in ratios(kind, m)]):.2f}" for m in modes] for kind in kinds]))
    for kind in kinds:
        alone = [f"{r['p50_us']:.0f}/{r['p99_us']:.0f}" for r in rounds[kind, "alone"]]
        print(f"- {kind}, requests alone (p50/p99, µs): {', '.join(alone)}")
        for mode in modes:
            print(f"- {kind}, {mode}: " + ", ".join(f"{p:.2f} · {r:.2f}" for p, r in ratios(kind, mode)))
    print(f"- threads with a wrong result: {wrong}")


main()
