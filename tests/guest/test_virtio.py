# SPDX-License-Identifier: Apache-2.0
"""The guest's driver (kernel/), the vhost-user device and the virtio link, in virtual machines with a stock QEMU.

Usage: BUILD=build [RUBATO_TEST_KERNEL=6.12] python3 tests/guest/test_virtio.py [TEST…]

Two machines with Debian's cloud kernel are booted once for all tests. A small worker takes the place of `rubato serve`, so
that these tests are about the transport alone.
"""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import machine  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.abspath(os.environ.get("BUILD", "build"))
MODULES = ["virtio_pci"]
SERIES = os.environ.get("RUBATO_TEST_KERNEL", "6.1")
WAIT_S = 120


def eventually(what, is_true):
    until = time.monotonic() + WAIT_S
    while not is_true():
        assert time.monotonic() < until, f"not within {WAIT_S} s: {what}"
        time.sleep(0.02)


def headers():
    """The directory of the newest installed headers of the series, and their kernel's release."""
    found = sorted(glob.glob(f"/usr/src/linux-headers-{SERIES}.*-cloud-amd64"),
                   key=lambda p: [int(n) for n in re.findall(r"\d+", p)])
    if not found:
        machine.skip(f"no headers of a cloud kernel {SERIES} are installed (linux-headers-cloud-amd64)")
    return found[-1], os.path.basename(found[-1])[len("linux-headers-"):]


def read(path):
    with open(path, "rb") as f:
        return f.read()


def build_module(source, kdir, tmp):
    """Builds a copy of a folder with a Kbuild; returns the module's bytes."""
    where = os.path.join(tmp, "build-" + os.path.basename(source))
    shutil.copytree(source, where)
    for header in ("rubato_uapi.h", "compat.h"):
        shutil.copy(os.path.join(ROOT, "kernel", header), where)
    done = subprocess.run(["make", "-C", kdir, f"M={where}", "modules", "W=1", "KCFLAGS=-Werror"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
    modules = glob.glob(os.path.join(where, "*.ko"))
    subprocess.run(["strip", "--strip-debug", *modules], check=True)
    return [(os.path.basename(m), read(m), 0o100644) for m in modules]


class Guest:
    """A virtual machine with its device and the worker behind it."""

    def __init__(self, name, world):
        self.tmp = os.path.join(world.tmp, name)
        os.mkdir(self.tmp)
        self.qemu_path, self.serve_path = (os.path.join(self.tmp, n) for n in ("qemu.sock", "serve.sock"))
        self.log = os.path.join(self.tmp, "log")
        self.worker = self.start(os.path.join(BUILD, "tests/guest/worker"), self.serve_path, "8")
        self.device = None
        self.start_device()
        options = subprocess.run([os.path.join(BUILD, "rubato"), "vm-args", "--vm", name, "--memory", "256",
                                  "--qemu", self.qemu_path], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        self.machine = machine.Machine(world.kernel, world.files, os.path.join(self.tmp, "machine"), *options)
        self.sh, self.run = self.machine.sh, self.machine.run

    def start(self, *command):
        with open(self.log, "a") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def start_device(self):
        self.device = self.start(os.path.join(BUILD, "rubato-vhost-user"), "--qemu", self.qemu_path,
                                 "--serve", self.serve_path)

    def workers(self):
        """The pids of worker processes: one per program of the guest."""
        path = f"/proc/{self.worker.pid}/task/{self.worker.pid}/children"
        alive = []
        for pid in read(path).split():
            try:
                if b"\nState:\tZ" not in read(f"/proc/{int(pid)}/status"):
                    alive.append(int(pid))
            except FileNotFoundError:
                pass
        return alive

    def files(self):
        return len(os.listdir(f"/proc/{self.device.pid}/fd"))

    def said(self):
        return machine.read_serial(self.log)

    def program(self, *args):
        return self.sh(" ".join(["/program", *map(str, args)]))

    def begin(self, command, to):
        """Starts a program in the background, and waits until it says that it has begun."""
        self.sh(f"rm -f {to}; /program {command} >{to} 2>&1 & echo $! >{to}.pid; until grep -qs begun {to}; do usleep 20000; done")

    def end(self):
        self.machine.end()
        for process in (self.device, self.worker):
            process.kill()
            process.wait()


class World:
    def __init__(self, tmp):
        kdir, release = headers()
        self.tmp = tmp
        self.kernel = machine.find_release(release, MODULES)
        if self.kernel is None:
            machine.skip(f"the kernel {release} could not be had")
        self.files = build_module(os.path.join(ROOT, "kernel"), kdir, tmp) + build_module(
            os.path.join(HERE, "hostile"), kdir, tmp)
        self.files.append(("program", read(os.path.join(BUILD, "tests/guest/program")), 0o100755))
        self.one, self.two = (Guest(name, self) for name in ("one", "two"))

    def begin(self):
        for guest in (self.one, self.two):
            guest.machine.wait_ready()
            guest.sh("insmod /rubato.ko")

    def end(self):
        self.one.end()
        self.two.end()


def test_calls(w):
    """Calls, bulk data in both directions, threads, and two machines at once."""
    assert re.fullmatch(r"200 calls, \d+ us each", out := w.one.program("calls", 200)), out
    print("    " + out)
    assert w.one.program("bulk", 32) == "32 MiB mapped, 512 KiB shared"
    assert w.one.program("threads", 50) == "8 threads, 50 calls each"
    assert w.two.program("bulk", 8) == "8 MiB mapped, 512 KiB shared"
    eventually("workers ended", lambda: not w.one.workers() and not w.two.workers())


def test_processes(w):
    """Programs beyond the host's limit are refused, and the driver's user is the process that opened it."""
    assert w.one.program("open", 10) == "8 opened, 2 refused, 0 failed"
    eventually("workers ended", lambda: not w.one.workers())
    assert w.one.program("fork") == "child: no link"
    eventually("the worker ended although a child lives", lambda: not w.one.workers())
    w.one.sh("killall program; true")


def test_queue_full(w):
    """More doorbells than the queue has room for: none is an error, and calls work afterwards."""
    assert w.one.program("flood", 20000) == "20000 doorbells"


def test_noise(w):
    """Nonsense from a program: the driver refuses it, and works."""
    assert w.one.program("noise", 3000).startswith("10 calls")
    eventually("workers ended", lambda: not w.one.workers())


def test_killed(w):
    """SIGKILL: the host ends the worker, and nothing is left, neither files nor memory."""
    files = w.one.files()
    before = int(w.one.sh("awk '/MemFree/ {print $2}' /proc/meminfo"))
    for command in ("hold", "load 1"):
        w.one.begin(command, "/out")
        assert len(w.one.workers()) == 1
        w.one.sh("kill -9 $(cat /out.pid)")
        eventually("the worker ended", lambda: not w.one.workers())
    eventually("files are closed", lambda: w.one.files() == files)
    eventually("memory is free", lambda: before - int(w.one.sh("awk '/MemFree/ {print $2}' /proc/meminfo")) < 2048)


def test_worker_killed(w):
    """A killed worker: its program learns of it at once, others do not notice."""
    w.one.begin("hold", "/out")
    others = w.one.workers()
    w.one.begin("load", "/load")
    os.kill(others[0], signal.SIGKILL)
    w.one.sh("while kill -0 $(cat /out.pid) 2>/dev/null; do usleep 20000; done; grep -q 'Connection reset' /out")
    w.one.sh("kill -0 $(cat /load.pid) && kill -9 $(cat /load.pid)")
    eventually("workers ended", lambda: not w.one.workers())


def test_reload(w):
    """rmmod fails while programs have the device open; unbinding under load ends them, and binding works again."""
    w.one.begin("load", "/out")
    status, _ = w.one.run("rmmod rubato 2>/dev/null")
    assert status != 0
    w.one.sh("cd /sys/bus/virtio/drivers/rubato; d=$(ls | grep virtio); echo $d >unbind; echo $d >/d")
    w.one.sh("while kill -0 $(cat /out.pid) 2>/dev/null; do usleep 20000; done; grep -q 'Connection reset' /out")
    eventually("the worker ended", lambda: not w.one.workers())
    w.one.sh("cat /d >/sys/bus/virtio/drivers/rubato/bind")
    w.one.program("calls", 10)
    w.one.sh("rmmod rubato && insmod /rubato.ko")
    w.one.program("calls", 10)


def test_device_killed(w):
    """A killed device: programs fail within seconds, its successor works, and the guest is not rebooted."""
    w.one.begin("hold", "/out")
    w.one.begin("load", "/load")
    w.one.device.kill()
    w.one.device.wait()
    started = time.monotonic()
    w.one.sh("for p in /out /load; do while kill -0 $(cat $p.pid) 2>/dev/null; do usleep 50000; done; "
             "grep -q 'Connection reset' $p || exit 1; done")
    print(f"    lost after {time.monotonic() - started:.1f} s")
    w.one.start_device()
    w.two.program("calls", 10)
    eventually("the new device works", lambda: w.one.run("/program calls 10")[0] == 0)


def test_hostile(w):
    """Malformed rings and requests: each ring ends with one line, the other machine works, and so does the next driver."""
    w.two.sh("rmmod rubato && insmod /hostile.ko")
    lines = [f"queue {i}: the ring is malformed" for i in range(5)]
    eventually("malformed rings are noticed", lambda: all(line in w.two.said() for line in lines[1:]))
    w.one.program("calls", 10)
    # The queue of events is used when there is an event: the end of the session that the attacker has opened.
    eventually("the attacker has a worker", w.two.workers)
    for pid in w.two.workers():
        os.kill(pid, signal.SIGKILL)
    eventually("the last malformed ring is noticed", lambda: lines[0] in w.two.said())
    w.two.sh("rmmod hostile && insmod /rubato.ko")
    w.two.program("calls", 10)
    assert [w.two.said().count(line) for line in lines] == [1] * 5, w.two.said()
    assert w.two.device.poll() is None


def test_qemu_killed(w):
    """The device outlives QEMU, and has nothing of it."""
    files = w.two.files()
    w.two.begin("hold", "/out")
    w.two.machine.process.kill()
    eventually("the worker ended", lambda: not w.two.workers())
    assert w.two.device.poll() is None
    eventually("files are closed", lambda: w.two.files() < files)


def main():
    machine.require()
    for path, package in ((machine.BUSYBOX, "busybox-static"), ("/usr/bin/make", "make")):
        if not os.path.exists(path):
            machine.skip(f"{package} is not installed")
    tests = [f for name, f in sorted(globals().items(), key=lambda x: getattr(x[1], "__code__", main.__code__).co_firstlineno)
             if name.startswith("test_") and (not sys.argv[1:] or name in sys.argv[1:])]
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rubato-guest-") as tmp:
        w = World(tmp)
        try:
            w.begin()
            print(f"two machines after {time.monotonic() - started:.1f} s", flush=True)
            for test in tests:
                began = time.monotonic()
                test(w)
                print(f"ok {test.__name__} {time.monotonic() - began:.1f} s", flush=True)
        except BaseException:
            for guest in (w.one, w.two):
                print(f"--- {guest.tmp}\n{guest.said()[-2000:]}\n{machine.read_serial(guest.machine.console)[-3000:]}")
            raise
        finally:
            w.end()


if __name__ == "__main__":
    main()
