# SPDX-License-Identifier: Apache-2.0
"""rubato-vhost-user and `rubato vm-args` without a virtual machine: the test speaks for QEMU.

Usage: BUILD=build python3 tests/guest/test_device.py [TEST…]
"""
import array
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time

BUILD = os.path.abspath(os.environ.get("BUILD", "build"))
WAIT_S = 60
GET_FEATURES, SET_FEATURES, SET_MEM_TABLE, SET_VRING_NUM = 1, 2, 5, 8
VERSION, REPLY, NEED_REPLY = 1, 4, 8


class Device:
    """A rubato-vhost-user; self.qemu is its connection to the test."""

    def __init__(self, tmp, *options):
        self.path = os.path.join(tmp, "qemu.sock")
        self.log = open(os.path.join(tmp, "log"), "w+")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(1)
        self.listener.settimeout(WAIT_S)
        self.process = subprocess.Popen([os.path.join(BUILD, "rubato-vhost-user"), "--qemu", self.path, "--serve",
                                         os.path.join(tmp, "serve.sock"), *options], stderr=self.log)
        self.accept()

    def accept(self):
        self.qemu, _ = self.listener.accept()
        self.qemu.settimeout(WAIT_S)

    def send(self, request, payload=b"", flags=VERSION, fds=()):
        data = struct.pack("<III", request, flags, len(payload)) + payload
        self.qemu.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])

    def answer(self):
        """The payload of the next reply; None at the end of the connection."""
        try:
            head = self.qemu.recv(12, socket.MSG_WAITALL)
        except ConnectionResetError:
            return None
        if not head:
            return None
        request, flags, size = struct.unpack("<III", head)
        assert flags == VERSION | REPLY, flags
        return self.qemu.recv(size, socket.MSG_WAITALL)

    def said(self):
        self.log.flush()
        with open(self.log.name) as f:
            return f.read()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.qemu.close()
        self.listener.close()
        self.log.close()


def test_memory_not_shared(tmp):
    """One loud line with the remedy; QEMU is refused, and may try again."""
    d = Device(tmp)
    try:
        for _ in range(2):
            d.send(SET_MEM_TABLE, struct.pack("<II", 0, 0), VERSION | NEED_REPLY)
            assert d.answer() == struct.pack("<Q", 1)
        line = d.said().splitlines()[0]
        assert "memory is not shared" in line and "rubato vm-args" in line and "share=on" in line, line
        # QEMU 7.2 sends no table at all then, and tries again when the guest does.
        d.send(SET_FEATURES, struct.pack("<Q", 1 << 32))
        d.send(SET_FEATURES, struct.pack("<Q", 1 << 32))
        d.send(GET_FEATURES)
        assert len(d.answer()) == 8
        assert d.said().count("memory is not shared") == 3, d.said()
    finally:
        d.end()


def test_malformed_message(tmp):
    """One line, the end of the connection, and the next QEMU is served."""
    d = Device(tmp)
    try:
        wrong = [(99, b"", ()), (SET_VRING_NUM, b"1234", ()), (SET_VRING_NUM, struct.pack("<II", 1000, 8), ()),
                 (SET_MEM_TABLE, struct.pack("<IIQQQQ", 1, 0, 0, 4096, 0, 0), ()), (GET_FEATURES, b"x" * 65000, ())]
        for i, (request, payload, fds) in enumerate(wrong):
            d.send(request, payload, fds=fds)
            assert d.answer() is None
            assert d.said().count("malformed message") == i + 1, d.said()
            d.qemu.close()
            d.accept()
        d.send(GET_FEATURES)
        assert len(d.answer()) == 8
    finally:
        d.end()


def test_short_file(tmp):
    """A file that is shorter than QEMU says is refused: it would kill the device later."""
    d = Device(tmp)
    fd = os.memfd_create("guest")
    try:
        os.ftruncate(fd, 4096)
        d.send(SET_MEM_TABLE, struct.pack("<IIQQQQ", 1, 0, 0, 8192, 0x1000, 0), VERSION | NEED_REPLY, (fd,))
        assert d.answer() == struct.pack("<Q", 1)
        assert "SET_MEM_TABLE" in d.said(), d.said()
    finally:
        os.close(fd)
        d.end()


def test_files(tmp):
    """Files that come with messages are closed, whatever the messages are."""
    d = Device(tmp)
    try:
        d.send(GET_FEATURES)
        d.answer()
        before = len(os.listdir(f"/proc/{d.process.pid}/fd"))
        for request in range(1, 26):
            d.send(request, struct.pack("<Q", 0), fds=[0, 0, 0])
            d.qemu.shutdown(socket.SHUT_WR)
            while d.answer() is not None:
                pass
            d.qemu.close()
            d.accept()
        d.send(GET_FEATURES)
        d.answer()
        assert len(os.listdir(f"/proc/{d.process.pid}/fd")) == before
    finally:
        d.end()


def test_once(tmp):
    d = Device(tmp, "--once")
    d.qemu.close()
    assert d.process.wait(WAIT_S) == 0
    d.end()


def run(program, *args):
    return subprocess.run([os.path.join(BUILD, program), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=WAIT_S, check=False, env=dict(os.environ, RUBATO_RUNTIME_DIR="/run/somewhere"))


def test_usage(tmp):
    for args in ([], ["--qemu", "x"], ["--qemu", "x", "--serve", "y", "z"], ["--qemu", "x" * 108, "--serve", "y"]):
        done = run("rubato-vhost-user", *args)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and "--help" in done.stderr, done
    assert run("rubato-vhost-user", "--help").returncode == 0


def test_vm_args(tmp):
    good = ["--vm", "a.b-c_1", "--memory", "512"]
    text = run("rubato", "vm-args", *good).stdout
    assert text.split() == [
        "-object", "memory-backend-memfd,id=rubato-mem,size=512M,share=on", "-m", "512", "-numa", "node,memdev=rubato-mem",
        "-chardev", "socket,id=rubato,path=/run/somewhere/vm-a.b-c_1.qemu,server=on",
        "-device", "vhost-user-fs-pci,chardev=rubato,tag=rubato,num-request-queues=4,queue-size=1024"], text
    assert "path=/x/y,server=on" in run("rubato", "vm-args", *good, "--qemu", "/x/y").stdout
    text = run("rubato", "vm-args", *good, "--qemu-version", "11").stdout
    assert "vhost-user-test-device-pci,chardev=rubato,virtio-id=38,num_vqs=5,vq_size=1024,config_size=16" in text, text
    for wrong in ([], ["--vm", "a"], ["--memory", "512"], ["--vm", "a b", "--memory", "512"], ["--vm", "../a", "--memory", "512"],
                  ["--vm", "", "--memory", "512"], ["--vm", "a", "--memory", "63"], ["--vm", "a", "--memory", "1G"],
                  good + ["--qemu", "a,b"], good + ["--qemu", "a b"], good + ["--qemu", "x" * 108], good + ["more"],
                  good + ["--qemu-version", "6"]):
        done = run("rubato", "vm-args", *wrong)
        assert done.returncode == 2 and done.stdout == "" and done.stderr.startswith("rubato: vm-args: "), (wrong, done)


def main():
    names = sys.argv[1:] or [name for name in globals() if name.startswith("test_")]
    for name in names:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="rubato-guest-") as tmp:
            globals()[name](tmp)
        print(f"ok {name} {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
