# SPDX-License-Identifier: Apache-2.0
"""What goes wrong again and again is said a few times: nobody can fill a disk with the daemon's log."""
import ctypes
import errno
import os
import socket
import struct
import subprocess
import time

from harness import binary, eventually, main, renice_message
from programs import BEST_EFFORT
from test_system import Machine

SET_TIMESLICE = "a06c0103"


def most_lines(began):
    """About one user: five at once, and then one in 10 s."""
    return 5 + (time.monotonic() - began) // 10 + 1


def start_daemon(s, *env):
    """Of one's own, with this in its environment."""
    os.makedirs(s.run_dir, mode=0o700, exist_ok=True)
    with open(os.path.join(s.run_dir, "rubatod.log"), "a") as log:
        subprocess.Popen(s.inside(["env", *env, binary("rubatod"), "--idle-exit-s", "30"]), env=s.env, stdin=subprocess.DEVNULL,
                         stdout=log, stderr=log, start_new_session=True)
    eventually("it listens", s.listens)


def test_a_full_directory(s):
    """Neither file in it can be written: that is said a few times, however often somebody is reniced."""
    if os.geteuid() != 0:
        return print("     only root can mount")
    path = os.path.join(s.dir, "system")
    os.mkdir(path, 0o755)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=755", "full", path], check=True)
    try:
        m = Machine(s)
        p, q = s.program(), s.run(*BEST_EFFORT)
        s.rubato("renice", p.pid, *BEST_EFFORT)
        for name in "state", "by-hand":
            os.unlink(os.path.join(path, name))  # there would be room for another one
        with open(os.path.join(path, "filler"), "wb", buffering=0) as f:
            try:
                while True:
                    f.write(bytes(4096))
            except OSError:
                pass
        began = time.monotonic()
        for i in range(20):
            s.rubato("renice", p.pid, "--priority", 2 + i % 3)
        s.rubato("suspend", q.pid)
        assert s.is_suspended(q.pid)
        s.rubato("resume", q.pid)
        assert 1 <= m.said().count("\n") <= most_lines(began), m.said()
        os.unlink(os.path.join(path, "filler"))
        s.rubato("renice", p.pid, "--priority", 5)
        assert os.path.exists(os.path.join(path, "state")) and os.path.exists(os.path.join(path, "by-hand"))
        m.kill()
    finally:
        subprocess.run(["umount", "-l", path], check=True)


def cut_off(p, path, old):
    """Shuts the program's connection to the daemon down, once there is another than the old one: its name in /proc.

    As a program does that closes what it does not know.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd = os.pidfd_open(p.pid)
    try:
        for name in os.listdir(f"/proc/{p.pid}/fd"):
            link = os.readlink(f"/proc/{p.pid}/fd/{name}")
            fd = libc.syscall(438, pidfd, int(name), 0) if link.startswith("socket:") and link != old else -1
            if fd < 0:
                continue
            with socket.socket(fileno=fd) as sock:
                if sock.family == socket.AF_UNIX and sock.getpeername() == path:
                    sock.shutdown(socket.SHUT_RDWR)
                    return link
    except OSError:
        pass  # it is closing one, or making one
    finally:
        os.close(pidfd)
    return None


def test_what_may_still_be_held(s):
    """The driver refuses to let go of a program that leaves and comes back, over and over."""
    if os.uname().machine != "x86_64":
        return print("     the number of pidfd_getfd() is x86_64's")
    p = s.run(*BEST_EFFORT)
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    path, link = os.path.join(s.run_dir, "control.sock"), ""
    s.softgpu("fault", "--cmd", SET_TIMESLICE, "--status", "65")
    began = time.monotonic()
    for _ in range(14):
        link = eventually("it comes back, and is cut off", lambda: p.ask("slice") and cut_off(p, path, link))
    eventually("it is said", lambda: "may still be held" in s.log())
    assert s.log().count("may still be held") <= most_lines(began), s.log()
    s.softgpu("fault", "clear")
    eventually("managed as ever", lambda: p.ask("slice") and s.slices(p.pid) == [1])


def test_no_memory_for_another_program(s):
    """In the core: it is tried again with every change, and said a few times."""
    with open(binary("rubatod"), "rb") as f:
        if b"__asan_init" in f.read():
            return print("     a sanitizer has its own memory")
    path = os.path.join(s.dir, "none")
    open(path, "w").close()
    start_daemon(s, "LD_PRELOAD=" + binary("nomemory.so"), "NO_MEMORY=" + path)
    p = s.run(*BEST_EFFORT)
    eventually("it is said", lambda: "cannot be scheduled" in s.log())
    began = time.monotonic()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.settimeout(20)
        sock.connect(os.path.join(s.run_dir, "control.sock"))
        for i in range(60):
            sock.send(renice_message(p.pid, 3 + i % 2))
            assert struct.unpack_from("<i", sock.recv(4096), 8)[0] == -errno.EAGAIN
    assert s.log().count("cannot be scheduled") <= most_lines(began), s.log()
    assert s.is_default(p.pid)
    os.unlink(path)
    s.rubato("renice", p.pid, "--priority", 2)
    eventually("1 us", lambda: s.slices(p.pid) == [1])


main()
