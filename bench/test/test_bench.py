# SPDX-License-Identifier: Apache-2.0
"""The benchmark programs and scripts, with a stand-in for libcuda and one for the rubato tool."""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, BENCH)

import benchlib

BUILD = os.environ["BENCH_BUILD"]

# Switches what the fake device believes of the neighbour; `run` execs, as the real one does.
FAKE_RUBATO = """#!/bin/sh
echo "$@" >> "$FAKE_LOG"
class() { case "$*" in *best-effort*) echo b;; *) echo d;; esac > "$FAKE_CUDA_STATE.class"; }
show() { cat "$FAKE_CUDA_STATE.class" > "$FAKE_CUDA_STATE"; }
case $1 in
run) class "$@"; show; while [ "$1" != -- ]; do shift; done; shift; exec "$@";;
renice) class "$@"; show;;
suspend) test -z "$FAKE_REFUSE" || { echo "rubato: refused" >&2; exit 4; }; echo s > "$FAKE_CUDA_STATE";;
resume) show;;
ps) echo '[{"pid": 1}]';;
esac
"""


class Statistics(unittest.TestCase):
    def test_percentile_is_nearest_rank(self):
        values = list(range(100, 0, -1))
        self.assertEqual([benchlib.percentile(values, p) for p in (1, 50, 99, 100)], [1, 50, 99, 100])
        self.assertEqual(benchlib.percentile([7], 99), 7)
        self.assertEqual(benchlib.percentile([1, 2, 3], 50), 2)

    def test_median(self):
        self.assertEqual((benchlib.median([3, 1, 2]), benchlib.median([4, 1, 2, 3])), (2, 2.5))

    def test_rate_uses_the_programs_clock(self):
        self.assertEqual(benchlib.rate({"count": 10, "now_ns": 0}, {"count": 30, "now_ns": 500_000_000}), 40)


class WithFakes(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="rubato-test-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)
        os.symlink(os.path.join(BUILD, "bench"), os.path.join(self.dir, "bench"))
        with open(os.path.join(self.dir, "rubato"), "w", encoding="utf-8") as file:
            file.write(FAKE_RUBATO)
        os.chmod(os.path.join(self.dir, "rubato"), 0o755)
        self.state = os.path.join(self.dir, "state")
        for name in (self.state, self.state + ".class"):
            with open(name, "w", encoding="utf-8") as file:
                file.write("d")
        self.log = os.path.join(self.dir, "log")
        self.env = dict(os.environ, LD_LIBRARY_PATH=os.environ["FAKE_CUDA_DIR"], FAKE_CUDA_STATE=self.state,
                        FAKE_LOG=self.log, BUILD=self.dir)

    def bench(self, name, *args, **env):
        return subprocess.run([os.path.join(BENCH, name), *args], env=dict(self.env, **env), timeout=90,
                              capture_output=True, text=True)

    def colocate(self, *args, **env):
        out = os.path.join(self.dir, "out.json")
        run = self.bench("colocate", "--programs", "c", "--json", out, "--requests", "40", "--rounds", "2",
                         "--rate", "120", "--own-seconds", "0.3", *args, **env)
        document = None
        with contextlib.suppress(OSError, ValueError):
            with open(out, encoding="utf-8") as file:
                document = json.load(file)
        return run, document

    def calls(self):
        with open(self.log, encoding="utf-8") as file:
            return [line.split() for line in file if not line.startswith("ps")]


class Colocate(WithFakes):
    def test_regimes_are_switched_and_told_apart(self):
        run, document = self.colocate("--target-p99", "5", "--target-renice-ms", "10000")
        self.assertEqual(run.returncode, 0, run.stderr)
        cells = {(cell["mode"], cell["regime"]): cell for cell in document["cells"]}
        self.assertEqual(len(cells), 6)
        self.assertEqual({cell["requests"] for cell in cells.values()}, {40})
        # The fake adds 1.5 ms beside a default neighbour and 0.1 ms beside a best-effort one: the shortest request
        # shows it also on a machine that is busy with other things.
        shortest = {(round["mode"], round["regime"]): min(round["service_us"]) for round in document["rounds"]}
        for mode in ("graph", "eager"):
            self.assertEqual(cells[mode, "alone"]["p50_ratio"], 1)
            self.assertGreater(shortest[mode, "default"], 1500)
            self.assertLess(shortest[mode, "alone"], 1500)
            self.assertLess(shortest[mode, "rubato"], 1500)
            self.assertGreater(cells[mode, "rubato"]["best_effort_kept"], 0)
        self.assertEqual(len(document["rounds"]), 12)
        self.assertEqual(len(document["own_rates"]), 2)
        self.assertTrue(all(len(cell["latency_us"]) == 20 for cell in document["rounds"]))
        self.assertIn("neighbour: 0 threads with a wrong result", document["notes"])
        self.assertFalse([note for note in document["notes"] if "while suspended" in note])
        self.assertIn("**met**", run.stdout)
        self.assertEqual(document["ps"], {regime: [{"pid": 1}] for regime in ("default", "rubato", "alone", "end")})
        self.assertNotIn("run", [call[0] for call in self.calls()])
        pid = next(str(p["pid"]) for p in document["programs"] if p["ready"] == "besteffort")
        self.assertEqual({call[1] for call in self.calls()}, {pid})

    def test_under_run_the_first_regime_needs_no_renice(self):
        run, document = self.colocate("--trainer-run", "--modes", "graph")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(document["rounds"][0]["regime"], "rubato")
        self.assertEqual([call[0] for call in self.calls()][:2], ["run", "suspend"])

    def test_crowds_and_weights(self):
        run, document = self.colocate("--modes", "gaps", "--trainers", "2", "--crowds", "1,2", "--skip-default",
                                      "--latency-run", "--hints", "--trainer-run", "1", "--weights", "1,2",
                                      "--weigh-seconds", "0.2", "--requests", "8", "--rate", "30")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual([cell["regime"] for cell in document["cells"]], ["alone", "rubato 1", "rubato 2", "hinted"])
        self.assertEqual([len(cell.get("each_per_s", [])) for cell in document["cells"]], [0, 1, 2, 2])
        self.assertEqual(len(document["weighed"]), 2)
        self.assertIn("weights 1:2", run.stdout)
        self.assertEqual(len([call for call in self.calls() if call[0] == "run"]), 2)

    def test_a_launch_bound_neighbour(self):
        run, document = self.colocate("--modes", "eager", "--train", "tiny", "--latency-run", "--trainer-run",
                                      "--target-left", "0.000001", "--target-p99-default", "1000")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual([cell["regime"] for cell in document["cells"]], ["alone", "default", "rubato"])
        self.assertIn("target (eager, rubato) p99 ≤ 1000 × default", run.stdout)
        self.assertIn("of what the requests leave", run.stdout)
        self.assertEqual(run.stdout.count("**met**"), 2)
        self.assertIn("neighbour: 0 threads with a wrong result", document["notes"])
        self.assertIn(["--burst", "200", "--depth", "1"],
                      [call[i:i + 4] for call in self.calls() for i in range(len(call)) if call[0] == "run"])

    def test_copies(self):
        run, document = self.colocate("--modes", "graph", "--train", "copy", "--block-mib", "1", "--copy-input",
                                      "--trainers", "2", "--trainer-run", "--latency-run", "--together", "0.3",
                                      "--target-together", "0.1",
                                      "--requests", "8", "--rate", "30")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual([cell["regime"] for cell in document["cells"]], ["alone", "default", "rubato"])
        self.assertEqual({regime: len(sums) for regime, sums in document["together"].items()},
                         {"default": 2, "rubato": 2})
        self.assertTrue(all(one > 0 for sums in document["together"].values() for one in sums), document["together"])
        self.assertIn("copying both ways", run.stdout)
        self.assertRegex(run.stdout, r"2 neighbours together, without requests: [0-9.]+/s by default")
        self.assertRegex(run.stdout, r"target together ≥ 10% of their sum by default: [0-9.]+%, \*\*met")
        self.assertIn("neighbour 2: 0 threads with a wrong result", document["notes"])

    def test_refusal_is_reported_with_what_was_measured(self):
        run, document = self.colocate("--modes", "graph", FAKE_REFUSE="1")
        self.assertEqual(run.returncode, 1)
        self.assertIn("rubato: refused", document["failure"])
        self.assertEqual([cell["regime"] for cell in document["rounds"]], ["default", "rubato"])

    def test_time_limit_ends_between_rounds(self):
        run, document = self.colocate("--modes", "graph", "--time-limit", "0.001")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual({cell["round"] for cell in document["rounds"]}, {0})
        self.assertIn("stopped after 1 of 2 rounds: the time limit", document["notes"])

    def test_lost_work_is_noticed(self):
        _, document = self.colocate("--modes", "graph", "--rounds", "1", FAKE_CUDA_LOSE="2000")
        self.assertNotIn("neighbour: 0 threads with a wrong result", document["notes"])

    def test_program_that_cannot_start(self):
        run, document = self.colocate(LD_LIBRARY_PATH="/nonexistent")
        self.assertEqual(run.returncode, 1)
        self.assertIn("latency program ended (exit status 5)", document["failure"])

    def test_wrong_usage(self):
        for args in (["--modes", "fast"], ["--requests", "0"], ["--user", "nobody"], ["--mps", "--trainer-run"],
                     ["--slices"], ["--hints"], ["--mps", "--together", "1"], ["--crowds", "2"], ["--crowds", "x"],
                     ["--weights", "1,2"], ["--block-mib", "0"]):
            self.assertEqual(self.bench("colocate", *args).returncode, 2, args)
        run = self.bench("run", "fast")
        self.assertEqual((run.returncode, run.stderr.count("\n")), (2, 1))
        self.assertIn("colocate", run.stderr)


class Others(WithFakes):
    def test_collapse(self):
        out = os.path.join(self.dir, "out.json")
        run = self.bench("collapse", "--programs", "c", "--rounds", "1", "--seconds", "0.3", "--json", out)
        self.assertEqual(run.returncode, 0, run.stderr)
        with open(out, encoding="utf-8") as file:
            results = json.load(file)["results"]
        self.assertEqual([result["variant"] for result in results], ["daemon", "no-daemon"])
        # How much they keep depends on what else this machine does.
        self.assertTrue(all(result["sum"] > 0 for result in results), results)
        self.assertEqual(sum("--no-daemon" in call for call in self.calls()), 2)
        self.assertEqual(run.stdout.count("0 threads with a wrong result"), 4)

    def test_overhead(self):
        run = self.bench("overhead", "--rounds", "1", "--ms", "10")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("| run, latency |", run.stdout)
        self.assertEqual([call[0] for call in self.calls()], ["run"] * 3)
        # The fake loads no stand-in.
        self.assertEqual(run.stdout.count("not measured, **missed**"), 8)

    def write_rounds(self, name, *added_ns):
        """As overhead's --json: in each round, so much is added to a launch in all three classes."""
        def of(ns):
            return {"launch_ns": 3000 + ns, "driver_launch_ns": 3000, "added_launch_ns": ns, "launch_sync_ns": 8000,
                    "driver_launch_sync_ns": 8000, "added_launch_sync_ns": 200}
        plain = {"launch_ns": 3000, "launch_sync_ns": 8000}
        rounds = [{"plain": plain, "plain again": plain, "run, normal": of(ns), "run, best-effort": of(ns),
                   "run, latency": of(ns)} for ns in added_ns]
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"machine": {"gpu": "G", "driver": "1", "date": "today"}, "rounds": rounds}, file)
        return path

    def test_overhead_of_several_runs(self):
        run = self.bench("overhead", "--from", self.write_rounds("a", 4, 30), self.write_rounds("b", 6))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertFalse(os.path.exists(self.log))  # nothing is measured
        self.assertIn("(run, all) added to a launch ≤ 0.5% and 10 ns: +0.20%, +6.0 ns (+4.0 to +30.0; 9 processes), "
                      "**met**", run.stdout)
        self.assertIn("(run, all) added to a launch + sync ≤ 1.0%: +2.50%, +200.0 ns (+200.0 to +200.0; 9 processes), "
                      "**missed**", run.stdout)

    def test_overhead_of_what_is_no_run(self):
        for text in ("", "{}", "[]", '{"machine": {}, "rounds": 1}'):
            path = os.path.join(self.dir, "bad")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            run = self.bench("overhead", "--from", path)
            self.assertEqual(run.returncode, 1, text)
            self.assertRegex(run.stderr, r"\Aoverhead: .*/bad: .*\n\Z")

    def test_nothing_is_left_running(self):
        mark = "RUBATO_RUNTIME_DIR=/tmp/test-of-nothing-left"
        left = subprocess.Popen(["sleep", "60"], env=dict(os.environ, RUBATO_RUNTIME_DIR=mark.split("=")[1]))
        other = subprocess.Popen(["sleep", "60"])
        benchlib.end_processes_of("/tmp/test-of-nothing-left")
        left.wait(5)  # its environment goes a moment before it does
        self.assertIsNone(other.poll())
        other.kill()
        other.wait()


unittest.main(verbosity=2)
