# SPDX-License-Identifier: Apache-2.0
"""Programs of guests: unmodified, through `rubato serve`, over the unix link. Whatever is killed: error or recovery."""
import os
import signal
import socket
import struct
import subprocess

import harness
from harness import alive, binary, device, eventually
from programs import KERNELS, Asked, is_right, start

PROGRAMS = {"args": [], "basic": [KERNELS], "streams": [], "objects": [KERNELS], "faults": [KERNELS],
            "life": ["fork"], "peers": []}
PEER_MAGIC = 0x67746272


class Serve:
    """`rubato serve`, for a guest on this machine."""

    def __init__(self, s, *options):
        self.s, self.path = s, os.path.join(s.dir, f"vm{len(s.programs)}.sock")
        # The search for leaks at a program's end crashes by itself in programs that share memory at fixed addresses.
        s.env["ASAN_OPTIONS"] += ":detect_leaks=0"
        self.start(*options)

    def start(self, *options):
        user = ["--user", "root"] if os.geteuid() == 0 else []
        argv = [binary("rubato"), "serve", "--vm", "test", "--listen", self.path, *user, *options]
        self.process = subprocess.Popen(self.s.inside(argv), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=self.s.env, start_new_session=True)
        self.s.programs.append(self)
        assert self.process.stdout.readline() == self.path + "\n"

    def end(self):
        for pid in harness.in_process_session(self.process.pid):
            harness.kill_all([pid])
        self.process.kill()
        self.process.communicate(timeout=10)

    @property
    def under(self):
        return [binary("rubato"), "run", "--device", "remote=" + self.path, "--"]

    def command(self, *argv):
        return subprocess.Popen(self.s.inside([*self.under, *argv]), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, env=self.s.env, stdin=subprocess.DEVNULL)


class Spinner(Asked):
    def __init__(self, s, serve):
        super().__init__(s, [*serve.under, binary("besteffort"), "--steps", "300"], ())


def workers(s):
    return s.processes("rubato-worker")


def works(serve):
    p = serve.command(binary("cuda_basic"), KERNELS)
    out, _ = p.communicate(timeout=120)
    return p.returncode == 0 and ", 0 failed" in out


def nothing_is_left(s):
    eventually("no worker is left", lambda: not workers(s))
    eventually("no context is left", lambda: not s.state()["contexts"])


@device("--gpus", "2")
def test_programs(s):
    """The programs that test the software GPU's own libcuda do not notice that they are remote."""
    serve = Serve(s)
    p = serve.command(binary("cuda_memory"))  # alone: it watches how much memory is free
    out, _ = p.communicate(timeout=120)
    assert p.returncode == 0 and ", 0 failed" in out, out
    running = {name: serve.command(binary("cuda_" + name), *args) for name, args in PROGRAMS.items()}
    for name, p in running.items():
        out, _ = p.communicate(timeout=120)
        assert p.returncode == 0 and ", 0 failed" in out, (name, out)
    nothing_is_left(s)


def test_several_at_once(s):
    serve = Serve(s)
    programs = [start(s, "--seed", i, under=serve.under) for i in range(4)]
    assert all([is_right(p) for p in programs])
    nothing_is_left(s)


def test_a_class_is_the_hosts(s):
    serve = Serve(s, "--class", "best-effort")
    p = Spinner(s, serve)
    p.ask("go")
    [worker] = workers(s)
    eventually("it is at 1 us", lambda: s.slices(worker) == [1])
    listed = s.ps()[worker]
    assert listed["class"] == "best-effort" and listed["vm"] == "test" and listed["guest_pid"] == p.pid, listed
    assert "besteffort" in listed["guest_command"] and "guest: test, pid" in s.rubato("ps").stdout
    s.rubato("suspend", worker)
    eventually("it is suspended", lambda: s.is_suspended(worker))
    s.rubato("resume", worker)
    os.kill(s.daemon(), signal.SIGKILL)
    eventually("the next daemon knows the guest", lambda: s.ps().get(worker, {}).get("vm") == "test")
    assert s.ps()[worker]["guest_pid"] == p.pid
    before = p.ask("count")["count"]
    eventually("it goes on", lambda: p.ask("count")["count"] > before)
    assert p.ask("check")["wrong_threads"] == 0
    done = subprocess.run(s.inside([binary("rubato"), "run", "--class", "latency", *serve.under[2:], "true"]), env=s.env,
                          capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and "the host decides" in done.stderr, done


def test_death_of_the_worker(s):
    serve = Serve(s)
    p = Spinner(s, serve)
    p.ask("go")
    harness.kill_all(workers(s))
    assert p.process.wait(20) == 1  # by itself: the device is lost
    nothing_is_left(s)
    assert works(serve), "serve goes on"


def test_death_of_the_program(s):
    serve = Serve(s)
    p = Spinner(s, serve)
    p.ask("go")
    assert len(workers(s)) == 1
    p.kill()
    nothing_is_left(s)


def test_death_of_serve(s):
    serve = Serve(s)
    p = Spinner(s, serve)
    p.ask("go")
    [worker] = workers(s)
    os.kill(harness.parent(worker), signal.SIGKILL)
    assert p.process.wait(20) == 1
    nothing_is_left(s)
    serve.start()  # its socket is still there, and nobody's
    assert works(serve)


def test_limits_and_mistakes(s):
    serve = Serve(s, "--programs", "1")
    p = Spinner(s, serve)
    assert not works(serve) and len(workers(s)) == 1
    p.kill()
    nothing_is_left(s)
    assert works(serve), "there is room again"
    s.rubato("run", "--device", "remote=/nonexistent", "--", "true", code=5)
    for wrong in ([], ["--vm", ""], ["--vm", "a/b"], ["--vm", "a", "--programs", "0"], ["--vm", "a", "more"],
                  ["--vm", "a", "--user", "nobody-of-that-name"]):
        done = s.rubato("serve", *wrong, code=2)
        assert len(done.stderr.splitlines()) == 1, done
    if os.geteuid() == 0:
        assert "--user" in s.rubato("serve", "--vm", "a", code=2).stderr


def test_memory_is_limited(s):
    """For all programs together; what a program had is free again when it has ended."""
    serve = Serve(s, "--mem", "8")
    assert works(serve)
    refused = serve.command(binary("cuda_memory"))  # wants as much as the device has
    out, _ = refused.communicate(timeout=120)
    assert refused.returncode != 0 and "OUT_OF_MEMORY" in out, out
    nothing_is_left(s)
    assert works(serve)


def connect(serve):
    c = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    c.settimeout(20)
    c.connect(serve.path)
    return c


def hello(version=1):
    return struct.pack("<IIIII60s", PEER_MAGIC, 1, version, 0, 4242, b"hostile")


def test_hostile_guests(s):
    """Malformed messages end their worker, and nothing else."""
    serve = Serve(s)
    p = Spinner(s, serve)
    p.ask("go")
    for first in (b"", b"x", b"\0" * 80, hello()[:-1], hello(version=9)):
        with connect(serve) as c:
            c.send(first) if first else None
    segment = struct.pack("<QQII", 0, 4096, 0, 0)
    for bad in (b"x", b"\0" * 24, struct.pack("<IIQQII", PEER_MAGIC, 2, 0x300000000000, 4096, 1, 1) + segment,
                struct.pack("<IIQQ", PEER_MAGIC, 3, 0x300000000000, 4096), struct.pack("<IIIIQQ", PEER_MAGIC, 4, 999, 0, 0, 0),
                struct.pack("<II", PEER_MAGIC, 77)):
        with connect(serve) as c:
            c.send(hello())
            assert struct.unpack("<IIIi", c.recv(64))[3] == 0
            c.send(bad)
            answer = c.recv(64)
            assert answer == b"" or struct.unpack("<IIIi", answer)[3] < 0, answer
    eventually("their workers are gone", lambda: len(workers(s)) == 1)
    assert p.ask("check")["wrong_threads"] == 0 and alive(serve.process.pid)


if __name__ == "__main__":
    harness.main()
