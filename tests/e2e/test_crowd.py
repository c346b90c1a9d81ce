# SPDX-License-Identifier: Apache-2.0
"""Sixty-four programs at once, and a hostile neighbour at the daemon's socket."""
import os
import re
import signal
import socket
import struct
import time

from harness import MAGIC, eventually, main, renice_message, treatment


def open_fds(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_sixty_four_programs(s):
    programs = [s.run("--class", "best-effort") for _ in range(64)]
    eventually("all known", lambda: len(s.ps()) == 64, 20)
    eventually("all short", lambda: all(t["timeslice_us"] == 1 for t in s.state()["tsgs"] if t["engine"] == "compute"))
    assert all(len(s.short()) <= 1 for _ in range(20)), "and one at a time may run"
    s.rubato("suspend", *[p.pid for p in programs[1:]], timeout=60)
    assert s.slices(programs[0].pid) == [1]
    assert all(s.is_suspended(p.pid) for p in programs[1:])
    s.rubato("resume", *[p.pid for p in programs[1:]], timeout=60)
    assert not any(s.is_suspended(p.pid) for p in programs)
    eventually("one runs, but between two turns", lambda: len(s.short()) == 1)
    for p in programs[1:]:
        p.kill()
    eventually("one left", lambda: s.slices(programs[0].pid) == [1])
    eventually("their files are closed", lambda: open_fds(s.daemon()) <= 24)
    eventually("their memory is freed", lambda: len(s.state()["tsgs"]) == 4)


def connect(s):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.connect(os.path.join(s.run_dir, "control.sock"))
    sock.settimeout(5)
    return sock


def n_put(s):
    """How many records the hand got so far (RBT_HAND_PUT)."""
    return len(re.findall(r"op 1 on", s.log()))


def test_records_are_taken_together(s):
    """Of those that wait, the last one of each client counts."""
    s.env["RUBATO_DEBUG"] = "1"
    p = s.run("--class", "normal")
    eventually("known", lambda: s.ps().get(p.pid, {}).get("managed"))
    s.rubato("suspend", p.pid)
    before, n_tasks, daemon = n_put(s), len(s.ps()[p.pid]["tasks"]), s.daemon()
    os.kill(daemon, signal.SIGSTOP)
    for _ in range(8):
        p.ask("more")
        p.ask("free")
    p.ask("more")
    time.sleep(0.5)
    os.kill(daemon, signal.SIGCONT)
    eventually("known and off", lambda: len(s.ps()[p.pid]["tasks"]) == 2 * n_tasks and s.is_suspended(p.pid))
    assert 0 < n_put(s) - before < 30, n_put(s) - before


def test_nonsense_at_the_socket(s):
    p = s.run("--class", "best-effort")
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    daemon = s.daemon()
    before = open_fds(daemon)
    nonsense = [b"", b"x", os.urandom(7), os.urandom(4096), struct.pack("<II", MAGIC, 999),
                struct.pack("<II", MAGIC, 1), struct.pack("<II", MAGIC, 2) + b"\xff" * 24,
                struct.pack("<IIIIQ", MAGIC, 1, 99, 0, 0), struct.pack("<IIIIQ", MAGIC, 1, 2, 0, 1 << 60),
                struct.pack("<II", MAGIC, 4) + b"\xff" * 24, renice_message(p.pid, 99),
                renice_message(-1, 2), renice_message(p.pid, 5)[:-1], renice_message(p.pid, 5, size=4096)[:100],
                struct.pack("<II", MAGIC, 17) + treatment(), struct.pack("<II", MAGIC, 17), struct.pack("<IIiIQ", MAGIC, 6, 0, 0, 0)]
    for packet in nonsense * 20:
        sock = connect(s)
        try:
            sock.send(packet)
            sock.send(packet)
        except OSError:
            pass
        sock.close()
    flood = connect(s)
    flood.setblocking(False)
    try:
        for _ in range(100000):
            flood.send(struct.pack("<IIiI", MAGIC, 8, 0, 0))  # asks, never reads
    except OSError:
        pass
    assert s.slices(p.pid) == [1] and s.ps()[p.pid]["class"] == "best-effort"
    flood.close()
    eventually("no fd is lost", lambda: open_fds(daemon) <= before + 1)
    assert s.daemon() == daemon


def test_a_foreign_fd_is_not_touched(s):
    """A record must come with the device file it speaks of."""
    p = s.run("--class", "best-effort")
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    sock = connect(s)
    sock.send(struct.pack("<IIIIQ", MAGIC, 1, 2, 0, 0))
    with open("/dev/null") as null:
        socket.send_fds(sock, [struct.pack("<IIIIiIII", MAGIC, 2, 1, 0xc1d00001, 3, 0, 0, 0)], [null.fileno()])
        try:
            assert sock.recv(10) == b"", "cut off"
        except ConnectionResetError:
            pass
    assert "cut off" in s.log()
    assert s.slices(p.pid) == [1]


main()
