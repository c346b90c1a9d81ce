#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""./dev on machines that it would take long to make: without packages, with an apt-get that fails, with tests that fail.

usage: test_dev.py DEV. A copy of the script runs with a PATH of the test's making: a few real commands, and stand-ins for the
others, which note down how they were called.
"""
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

DEV = os.path.abspath(sys.argv.pop(1))
REAL = "bash", "cat", "dirname", "env", "grep", "head", "ln", "mkdir", "mktemp", "nproc", "rm", "tail"
BUILD_PACKAGES = "gcc libc6-dev meson ninja-build python3"
NOTE = 'echo "${0##*/} $*" >>"$CALLS"\n'
# meson, as far as ./dev asks: a directory that is configured, and the results of its tests.
MESON = NOTE + """case $1 in
setup) for last; do dir=$before before=$last; done; mkdir -p "$dir" && echo "$OPTIONAL" >"$dir/build.ninja" ;;
test) mkdir -p "$3/meson-logs" && cat "$RESULTS" >"$3/meson-logs/testlog.json"; exit "${STATUS:-0}" ;;
esac
"""


class Machine(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="rbt-dev-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.clone, self.bin = os.path.join(self.dir, "clone"), os.path.join(self.dir, "bin")
        self.env = {"PATH": self.bin, "TMPDIR": self.dir, "CALLS": self.path("calls"), "INSTALLED": self.path("installed"),
                    "RESULTS": self.path("results"), "OPTIONAL": ""}
        for folder in self.clone, self.bin, os.path.join(self.clone, "tools"), os.path.join(self.clone, "bench"):
            os.mkdir(folder)
        shutil.copy(DEV, self.clone)
        for name in REAL:
            os.symlink(shutil.which(name), os.path.join(self.bin, name))
        self.be("id", "echo 1000\n")
        self.be("dpkg-query", 'for last; do :; done; grep -qx "$last" "$INSTALLED" && echo install ok installed\n')
        self.put("tools/demo", NOTE)
        self.put("tools/lint", NOTE)
        self.put("bench/run", NOTE)
        self.install()

    def path(self, name):
        return os.path.join(self.dir, name)

    def put(self, path, text):
        path = os.path.join(self.clone, path)
        with open(path, "w") as f:
            f.write("#!/usr/bin/env bash\n" + text)
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def be(self, name, text=NOTE):
        """A command that is there."""
        self.put(os.path.join(self.bin, name), text)

    def install(self, *packages):
        with open(self.env["INSTALLED"], "w") as f:
            f.write("".join(p + "\n" for p in packages))

    def be_ready(self):
        """A machine with everything."""
        os.symlink(sys.executable, os.path.join(self.bin, "python3"))
        self.be("gcc")
        self.be("ninja")
        self.be("meson", MESON)
        self.install("libc6-dev", "clang-format", "clang-tidy", "cppcheck", "git", "clang", "g++", "libclang-rt-14-dev", "mandoc", "procps",
                     "util-linux", "libncurses-dev", "libmicrohttpd-dev", "libbpf-dev", "bpftool", "libslurm-dev",
                     "slurmctld", "slurmd", "slurm-client", "podman", "runc", "prometheus", "qemu-system-x86",
                     "linux-headers-cloud-amd64", "busybox-static", "make")

    def dev(self, *words, **env):
        return subprocess.run(["bash", os.path.join(self.clone, "dev"), *words], env={**self.env, **env}, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=60)

    def calls(self):
        try:
            with open(self.env["CALLS"]) as f:
                return f.read().splitlines()
        except FileNotFoundError:
            return []

    def refused(self, done, line, status=1):
        self.assertEqual((done.stderr, done.stdout, done.returncode), (f"dev: {line}\n", "", status))


class Packages(Machine):
    def test_a_user_is_told_in_one_line(self):
        for command in "demo", "build", "bench":
            self.refused(self.dev(command), "missing packages, install them as root: apt-get install " + BUILD_PACKAGES)
        self.refused(self.dev("lint"), "missing packages, install them as root: apt-get install " + BUILD_PACKAGES +
                     " clang-format clang-tidy cppcheck git")
        for command in "test", "bootstrap":
            done = self.dev(command)
            self.assertEqual((done.stderr.count("\n"), done.stdout, done.returncode), (1, "", 1))
            self.assertIn(BUILD_PACKAGES + " clang-format", done.stderr)
            self.assertIn(" libncurses-dev libmicrohttpd-dev libbpf-dev bpftool libslurm-dev slurmctld slurmd slurm-client podman runc prometheus "
                          "qemu-system-x86 linux-headers-cloud-amd64 busybox-static make\n", done.stderr)
        self.assertIn(" make debootstrap debhelper dh-dkms dh-python dpkg-dev lintian pkgconf\n", self.dev("test", "--long").stderr)
        self.assertEqual(self.calls(), [])

    def test_only_what_is_missing_is_named(self):
        self.install("gcc", "libc6-dev", "python3")
        self.refused(self.dev("demo"), "missing packages, install them as root: apt-get install meson ninja-build")
        self.be("meson")  # from elsewhere
        self.refused(self.dev("demo"), "missing packages, install them as root: apt-get install ninja-build")

    def test_root_gets_them(self):
        self.be("id", "echo 0\n")
        self.be("meson.real", MESON)
        self.be("apt-get", NOTE + 'echo noise; echo noise >&2\n[ "$1" = update ] || ln -s meson.real "${0%/*}/meson"\n'
                '[ "$1" = update ] || ln -s true "${0%/*}/ninja"\n')
        self.be("true", NOTE)
        done = self.dev("demo")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.splitlines()[0], "dev: installing " + BUILD_PACKAGES)
        self.assertNotIn("noise", done.stdout)
        self.assertEqual(self.calls(), ["apt-get update -qq",
                                        "apt-get install -y -qq --no-install-recommends " + BUILD_PACKAGES,
                                        "meson setup build .", "ninja -C build", "demo build"])

    def test_an_apt_get_that_fails(self):
        self.be("id", "echo 0\n")
        self.be("apt-get", 'echo noise; echo more noise >&2; echo "E: Unable to locate package meson" >&2\n'
                'echo "E: and so on" >&2; [ "$1" = update ]\n')
        done = self.dev("build")
        self.assertEqual((done.stderr, done.returncode),
                         (f"dev: apt-get cannot install {BUILD_PACKAGES}: Unable to locate package meson\n", 1))
        self.assertEqual(done.stdout, f"dev: installing {BUILD_PACKAGES}\n")


class Build(Machine):
    def setUp(self):
        super().setUp()
        self.be_ready()

    def test_options_go_to_meson(self):
        done = self.dev("build", "--prefix", "/x")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "built in build\n", ""))
        self.assertEqual(self.calls(), ["meson setup --prefix /x build .", "ninja -C build"])
        self.dev("build")
        self.assertEqual(self.calls()[2:], ["ninja -C build"])
        self.dev("build", "-Dncurses=disabled", "--prefix=/y")
        self.dev("build", "--prefix=/y", "--sysconfdir", "/z")
        self.assertEqual(self.calls()[3:], ["meson configure build -Dncurses=disabled --prefix=/y --sysconfdir /etc",
                                            "ninja -C build",
                                            "meson configure build --prefix=/y --sysconfdir /z", "ninja -C build"])

    def test_wrong_words(self):
        self.refused(self.dev("build", "all"), "build: all is no option of meson; see ./dev help", 2)
        self.refused(self.dev("demo", "fast"), "demo takes no arguments, not: fast; see ./dev help", 2)
        self.refused(self.dev("test", "--lonk"), "test takes --long or no argument, not: --lonk; see ./dev help", 2)
        self.refused(self.dev("lint", "--quick", "x"), "lint takes --quick or no argument, not: --quick x; see ./dev help", 2)
        self.assertEqual(self.dev("frobnicate").returncode, 2)
        self.assertEqual(self.calls(), [])


def result(name, outcome, stdout=""):
    return json.dumps({"name": "rubato:e2e / " + name, "result": outcome, "stdout": stdout}) + "\n"


class Tests(Machine):
    def run_with(self, *results, **env):
        self.be_ready()
        with open(self.env["RESULTS"], "w") as f:
            f.write("".join(results))
        done = self.dev("test", **env)
        self.assertEqual(sum("meson test" in call for call in self.calls()), 2, self.calls())  # with sanitizers too
        self.assertEqual(done.stderr, "")
        return done

    def test_what_passes(self):
        done = self.run_with(result("run", "OK", "ok   test_a (1.0 s)\n"), result("cuda", "SKIP"))
        self.assertEqual(done.returncode, 0)
        # Both runs, two builds, and lint; clang is not there.
        self.assertTrue(done.stdout.endswith("\n\n5 passed, 0 failed, 3 skipped\n"), done.stdout)
        self.assertNotIn("repeated", done.stdout)

    def test_what_fails_fails_the_run(self):
        """And is not tried again."""
        done = self.run_with(result("run", "OK"), result("kill", "FAIL"), result("top", "TIMEOUT"), STATUS="1")
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stdout.endswith("\n== failed\nbuild: kill\nbuild: top\nbuild-asan: kill\nbuild-asan: top\n"
                                             "\n5 passed, 4 failed, 1 skipped\n"), done.stdout)

    def test_measurements_that_were_repeated_are_named(self):
        said = "     1:2 makes 1.50\nrepeated test_weights: attempt 1 of 3: (2, 3)\nok   test_weights (9.0 s)\n"
        done = self.run_with(result("shares", "OK", said), result("run", "OK", "what was repeated\n"))
        self.assertEqual(done.returncode, 0)
        self.assertIn("\n== measurements that were repeated\n"
                      "build: shares: test_weights: attempt 1 of 3: (2, 3)\n"
                      "build-asan: shares: test_weights: attempt 1 of 3: (2, 3)\n"
                      "\n7 passed, 0 failed, 1 skipped\n", done.stdout)

    def test_fuzzers_run_side_by_side_and_each_counts(self):
        """Two at once on two cores: each of these waits for the other. What the failing one printed is shown."""
        for name in "basename", "sleep", "timeout", "wc":
            os.symlink(shutil.which(name), os.path.join(self.bin, name))
        os.unlink(os.path.join(self.bin, "nproc"))
        self.be("nproc", "echo 2\n")
        self.be("clang")
        os.makedirs(os.path.join(self.clone, "build-fuzz/tests/fuzz/fuzz_good.p"))
        meet = 'd=${0%%/*}; >"$d/%s-is-here"; for i in {1..300}; do [ ! -e "$d/%s-is-here" ] || break; sleep 0.1; done; [ $i -lt 300 ]'
        self.put("build-fuzz/tests/fuzz/fuzz_good", meet % ("good", "bad"))
        self.put("build-fuzz/tests/fuzz/fuzz_bad", meet % ("bad", "good") + "; echo crash-1; exit 77")
        done = self.run_with(result("run", "OK"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("\n== fuzz: fuzz_bad, 4 s\ncrash-1\nFAILED: fuzz: fuzz_bad, 4 s\n\n== fuzz: fuzz_good, 4 s\n\n== lint", done.stdout)
        self.assertTrue(done.stdout.endswith("\n== failed\nfuzz: fuzz_bad, 4 s\n\n7 passed, 1 failed, 0 skipped\n"), done.stdout)


unittest.main()
