# SPDX-License-Identifier: Apache-2.0
"""CUDA programs in a virtual machine, unmodified, by `rubato serve --qemu` on the software GPU.

Usage: BUILD=build python3 tests/guest/test_cuda.py [TEST…]
"""
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import machine  # noqa: E402
from test_virtio import BUILD, MODULES, ROOT, build_module, eventually, headers, read  # noqa: E402

# What each prints at its end, and its arguments.
PROGRAMS = {"cuda_args": "", "cuda_basic": "/kernels", "cuda_memory": "", "cuda_objects": "/kernels", "cuda_peers": "",
            "cuda_faults": "/kernels", "cuda_life": "fork", "cuda_suite": "/kernels"}
# Programs of the CUDA runtime interface. Those with kernels of their own are built if clang is there.
RUNTIME = {"cudart_calls": "libcudart.so.12", "cudart_old": "", "cudart_new": ""}
RUNTIMES = [f"guest/libcudart.so.{version}" for version in ("9.0", "11.0", "12", "13")]
LONG = {"cuda_streams": ""}


def find(name):
    return next(p for folder in ("", "tests/progs", "tests/kernels", "tests/cudart") if os.path.exists(p := os.path.join(BUILD, folder, name)))


def libraries(program):
    done = subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True, check=True)
    return [p for p in re.findall(r"(?:=> )?(/\S+) \(0x", done.stdout) if "libcuda" not in p]


def guest_files(programs):
    files = {name: os.path.join(BUILD, name) for name in ["guest/libcuda.so.1", *RUNTIMES]}
    files.update({name: find(name) for name in programs})
    for path in list(files.values()):
        files.update({library.lstrip("/"): library for library in libraries(path)})
    files.update({f"kernels/{os.path.basename(p)}": p for p in glob.glob(os.path.join(ROOT, "tests/kernels/*.ptx"))})
    return [(name, read(path), 0o100755) for name, path in files.items()]


class World:
    def __init__(self, tmp, programs):
        kdir, release = headers()
        kernel = machine.find_release(release, MODULES)
        if kernel is None:
            machine.skip(f"the kernel {release} could not be had")
        qemu, self.log = os.path.join(tmp, "qemu.sock"), open(os.path.join(tmp, "log"), "w+")
        user = ["--user", "root"] if os.geteuid() == 0 else []
        self.serve = subprocess.Popen(
            [find("rubato-softgpu"), "exec", "--gpus", "2", "--", find("rubato"), "serve", "--vm", "one", "--qemu", qemu,
             "--listen", os.path.join(tmp, "serve.sock"), "--class", "best-effort", *user], stdout=subprocess.PIPE,
            stderr=self.log, text=True, env=dict(os.environ, RUBATO_RUNTIME_DIR=os.path.join(tmp, "run")))
        self.serve.stdout.readline()
        options = subprocess.run([find("rubato"), "vm-args", "--vm", "one", "--memory", "512", "--qemu", qemu],
                                 stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        files = build_module(os.path.join(ROOT, "kernel"), kdir, tmp) + guest_files(programs)
        self.machine = machine.Machine(kernel, files, os.path.join(tmp, "machine"), *options, memory_mib=512)

    def begin(self):
        self.machine.wait_ready()
        self.machine.sh("insmod /rubato.ko")

    def children(self, name):
        """The pids of the session's processes of this name."""
        found = []
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                words = read(path).split(b"\0")
            except OSError:
                continue
            if os.path.basename(words[0]).decode(errors="replace") == name and self.is_ours(int(path.split("/")[2])):
                found.append(int(path.split("/")[2]))
        return found

    def is_ours(self, pid):
        while pid > 1 and pid != self.serve.pid:
            try:
                pid = int(read(f"/proc/{pid}/stat").rsplit(b")", 1)[1].split()[1])
            except OSError:
                return False
        return pid == self.serve.pid

    def command(self, name, args):
        return f"RUBATO_REMOTE=/dev/rubato0 LD_LIBRARY_PATH=/guest /{name} {args}"

    def end(self):
        self.machine.end()
        self.serve.send_signal(signal.SIGTERM)
        try:
            self.serve.wait(30)
        except subprocess.TimeoutExpired:
            self.serve.kill()
            self.serve.wait()
        self.log.close()


def is_right(output):
    return re.search(r", 0 (failed|wrong)$", output) is not None


def test_programs(w):
    """The programs that test the software GPU's own libcuda do not notice that they are in a virtual machine."""
    for name, args in PROGRAMS.items():
        status, output = w.machine.run(w.command(name, args), 240)
        assert status == 0 and is_right(output), (name, status, output[-2000:])
    eventually("no worker is left", lambda: not w.children("rubato-worker"))


def test_four_at_once(w):
    """Four processes of one guest."""
    one = w.command("cuda_basic", "/kernels")
    w.machine.sh(f"for i in 1 2 3 4; do {one} >/out$i 2>&1 & done; wait")
    outputs = w.machine.sh("tail -n 1 /out1; tail -n 1 /out2; tail -n 1 /out3; tail -n 1 /out4").splitlines()
    assert len(outputs) == 4 and all(map(is_right, outputs)), outputs


def test_device_killed(w):
    """`rubato serve` starts a killed device again, and the guest's next program works without a reboot."""
    [device] = w.children("rubato-vhost-user")
    os.kill(device, signal.SIGKILL)
    eventually("a new device", lambda: w.children("rubato-vhost-user") not in ([], [device]))
    eventually("a program works", lambda: w.machine.run(w.command("cuda_basic", "/kernels"), 240)[0] == 0)
    eventually("no worker is left", lambda: not w.children("rubato-worker"))


def main():
    machine.require()
    if not os.path.exists(machine.BUSYBOX):
        machine.skip("busybox-static is not installed")
    PROGRAMS.update({n: a for n, a in RUNTIME.items() if os.path.exists(os.path.join(BUILD, "tests/cudart", n))})
    if os.environ.get("RUBATO_TEST_LONG") == "1":
        PROGRAMS.update(LONG)
    names = sys.argv[1:] or [name for name in globals() if name.startswith("test_")]
    with tempfile.TemporaryDirectory(prefix="rubato-guest-") as tmp:
        w = World(tmp, PROGRAMS)
        try:
            w.begin()
            for name in names:
                began = time.monotonic()
                globals()[name](w)
                print(f"ok {name} {time.monotonic() - began:.1f} s", flush=True)
        except BaseException:
            w.log.flush()
            print(read(w.log.name).decode(errors="replace")[-3000:], machine.read_serial(w.machine.console)[-3000:])
            raise
        finally:
            w.end()


if __name__ == "__main__":
    main()
