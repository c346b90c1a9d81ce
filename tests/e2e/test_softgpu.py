# SPDX-License-Identifier: Apache-2.0
"""The software GPU's device nodes: what programs see of them, and that they stand what programs do to them."""
import os
import random
import resource
import select
import socket
import struct
import subprocess
import time

from harness import LONG, alive, binary, device, eventually, main
from programs import rests

SOFTGPU = binary("rubato-softgpu")
RMCLIENT = binary("rmclient")
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


def alone(s, *argv, options=(), before=()):
    """A command in a session for it alone."""
    return subprocess.run([*before, SOFTGPU, "exec", *options, "--", *argv], capture_output=True, text=True, timeout=30,
                          env=s.env, stdin=subprocess.DEVNULL)


def shell(s, script, **more):
    return alone(s, "sh", "-c", script, **more)


def private_dir(done):
    return done.stdout.split()[0]


def control_opens(s):
    return [o for o in s.state()["opens"] if o["node"] == "/dev/nvidiactl"]


def test_exit_codes(s):
    assert shell(s, "exit 7").returncode == 7
    assert shell(s, "kill -9 $$").returncode == 137
    for argv, code in ((["/nonexistent"], 127), (["/etc/passwd"], 126)):
        done = alone(s, *argv)
        assert done.returncode == code and done.stderr.count("\n") == 1, done
    for options in (["--gpus", "0"], ["--gpus", "33"], ["--driver", "new"], ["--mem", "-1"], ["--nix"], ["--session"],
                    ["--quirks", "odd"], ["--quirks", ""]):
        done = subprocess.run([SOFTGPU, "exec", *options], capture_output=True, text=True, timeout=10, env=s.env)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done
    for argv in ([], ["frobnicate"], ["exec"], ["state"], ["kill"], ["fault", "--status", "3", "--errno", "5"], ["fault"],
                 ["fault", "--cmd", "xyz", "--errno", "5"], ["state", "extra"]):
        done = subprocess.run([SOFTGPU, *argv], capture_output=True, text=True, timeout=10, env=s.env)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, (argv, done)
    for argv in (["--help"], ["exec", "--help"], ["state", "--help"], ["fault", "--help"], ["kill", "--help"]):
        done = subprocess.run([SOFTGPU, *argv], capture_output=True, text=True, timeout=10, env=s.env)
        assert done.returncode == 0 and "usage:" in done.stdout and done.stderr == "", (argv, done)


def test_private_session_goes_with_its_command(s):
    done = shell(s, "echo $RUBATO_SOFTGPU; stat -c '%a %u' $RUBATO_SOFTGPU $RUBATO_RUNTIME_DIR")
    assert done.stdout.split()[1:] == ["711", str(os.geteuid()), "700", str(os.geteuid())], done
    assert not os.path.exists(private_dir(done))


def test_what_a_command_leaves_behind_goes_on(s):
    """It is not waited for: it still runs when the command has ended."""
    done = shell(s, f"echo $RUBATO_SOFTGPU; ({RMCLIENT} --for 5 >/dev/null 2>&1 &)")
    assert done.returncode == 0, done
    eventually("it comes up", lambda: " compute " in subprocess.run(
        [SOFTGPU, "state", "--session", private_dir(done)], capture_output=True, text=True, timeout=10).stdout)
    eventually("the session goes with its last program", lambda: not os.path.exists(private_dir(done)))


def test_signals(s):
    p = s.program()
    p.process.terminate()
    assert p.process.wait(10) == 143
    p = s.program()
    p.process.kill()
    eventually("the command ends when its wrapper is killed", lambda: not alive(p.pid))


def test_nodes(s):
    done = shell(s, """cat /proc/driver/nvidia/version /sys/module/nvidia/version
        exec 3<>/dev/nvidiactl 4<>/dev/../dev//nvidia1; readlink /proc/self/fd/3 /proc/self/fd/4
        cd /dev; exec 5<>nvidia0; readlink /proc/$$/fd/5; exec 6<>/proc/self/fd/3; readlink /dev/fd/6
        for x in /dev/nvidia2 /dev/nvidia9 /dev/kfd /dev/nvidia-modeset /proc/driver/nvidia/params; do cat $x; done""",
                 options=["--gpus", "2", "--driver", "570.86.15"])
    lines = done.stdout.splitlines()
    assert "570.86.15" in lines[0] and lines[1] == "570.86.15", done
    assert lines[2:] == ["/dev/nvidiactl", "/dev/nvidia1", "/dev/nvidia0", "/dev/nvidiactl"], done
    assert done.stderr.count("No such file") == 5, done


def test_old_driver_and_forms(s):
    for options in (["--driver", "550.54.14"], ["--driver", "575.51"]):
        done = alone(s, RMCLIENT, "--for", "0.1", options=options)
        assert done.returncode == 0 and "errors=0" in done.stdout, done
    done = alone(s, RMCLIENT, "--for", "0.1", "--old-alloc", "--threads", "--contexts", "3", "--channels", "100")
    assert done.returncode == 0 and "errors=0" in done.stdout, done
    done = alone(s, RMCLIENT, "--for", "0.1", options=["--first-client", "0x9a000"])
    assert "client=0xc1d9a000" in done.stdout, done


def test_close_on_exec_is_the_callers_wish(s):
    done = alone(s, "python3", "-c", """if True:
        import os, subprocess
        a = os.open("/dev/nvidiactl", os.O_RDWR | os.O_CLOEXEC)
        b = os.open("/dev/nvidiactl", os.O_RDWR)
        os.set_inheritable(b, True)
        subprocess.run(["ls", "-l", "/proc/self/fd"], close_fds=False)""")
    assert done.stdout.count("/dev/nvidiactl") == 1, done


def test_gpu_lock_between_programs(s):
    done = shell(s, """exec 3<>/dev/nvidia0; flock -n 3 && echo a
        (exec 4<>/dev/nvidia0; flock -n 4 || echo b); flock -u 3; (exec 4<>/dev/nvidia0; flock -n 4 && echo c)""")
    assert done.stdout == "a\nb\nc\n", done


def test_objects_go_with_the_last_copy(s):
    p, q = s.program("--memory-mib", "64", "--contexts", "2"), s.program()
    state = s.state()
    assert state["gpus"][0]["memory_used_bytes"] == 128 << 20
    assert sorted((t["runlist"], t["id"]) for t in state["tsgs"]) == sorted((r, i) for r in (0, 8, 9, 10) for i in range(3))
    p.kill()
    eventually("a killed program's groups go", lambda: len(s.state()["tsgs"]) == 4)
    assert s.state()["gpus"][0]["memory_used_bytes"] == 0 and len(control_opens(s)) == 1
    f = s.program("--fork")
    child = eventually("the child has its own", lambda: [o["pid"] for o in control_opens(s) if o["pid"] not in (f.pid, q.pid)])[0]
    f.kill()
    eventually("the parent is dead", lambda: not alive(f.pid))
    time.sleep(0.3)
    assert s.tasks(f.pid), "the child still holds the parent's device file"
    os.kill(child, 9)
    eventually("both go", lambda: len(control_opens(s)) == 1)


def test_exec_closes_the_device(s):
    p = s.program("--exec")
    p.ask("now")
    eventually("its groups go", lambda: not s.tasks(p.pid))
    assert alive(p.pid)


def test_a_copy_owns_and_another_open_does_not(s):
    """The rule that Rubato stands on: ownership is by open file."""
    script = """if True:
        import ctypes, fcntl, os, struct, sys
        pid, client = int(sys.argv[1]), int(sys.argv[2], 16)
        libc = ctypes.CDLL(None)
        fds = f"/proc/{pid}/fd"
        number = next(int(n) for n in os.listdir(fds) if os.readlink(f"{fds}/{n}") == "/dev/nvidiactl")
        copy = libc.syscall(438, os.pidfd_open(pid), number, 0)
        if copy < 0:
            sys.exit("not permitted here")
        own = os.open("/dev/nvidiactl", os.O_RDWR)
        for fd in (copy, own):
            info = ctypes.create_string_buffer(struct.pack("=IIQ", client, 2, 0))
            call = struct.pack("=IIIIQII", client, client, 0xd02, 0, ctypes.addressof(info), 16, 0)
            status = struct.unpack("=I", fcntl.ioctl(fd, 0xc020462a, call)[28:])[0]
            print(hex(status), hex(struct.unpack("=IIQ", info.raw[:16])[2]))"""
    p = s.program()
    client = next(c["client"] for c in s.state()["clients"] if c["pid"] == p.pid)
    lines = s.state()["counters"]["log_lines"]
    done = s.command("python3", "-c", script, str(p.pid), hex(client))
    # Under Yama an ordinary user may look into descendants only.
    if "not permitted here" in done.stderr and os.geteuid() != 0:
        return
    assert done.stdout.split() == ["0x0", "0x41", "0x23", "0x0"], done
    assert s.state()["counters"]["log_lines"] == lines + 1


def test_the_unknown_is_written_down(s):
    script = """if True:
        import fcntl, os, struct
        fd = os.open("/dev/nvidiactl", os.O_RDWR)
        a = fcntl.ioctl(fd, 0xc030462b, struct.pack("=IIIIQQIIII", 0, 0, 0, 0x41, 0, 0, 0, 0, 0, 0))
        client = struct.unpack("=12I", a)[2]
        c = fcntl.ioctl(fd, 0xc020462a, struct.pack("=IIIIQII", client, client, 0x12345678, 0, 0, 0, 0))
        print(hex(struct.unpack("=I", c[28:])[0]))
        try:
            fcntl.ioctl(fd, 0xc0084677, bytes(8))
        except OSError as e:
            print(e.errno)"""
    done = s.command("python3", "-c", script)
    assert done.stdout.split() == ["0x56", "25"], done
    counters = s.state()["counters"]
    assert counters["unknown_controls"] == 1 and counters["unknown_ioctls"] == 1
    with open(os.path.join(s.dir, "device.log")) as f:
        text = f.read()
    assert "0x12345678" in text and "0xc0084677" in text and text.count("\n") == 2, text


def test_faults(s):
    p = s.program("--survive")
    s.softgpu("fault", "--cmd", "a06c0104", "--errno", "5", "--count", "1")
    eventually("it is used up", lambda: not s.state()["faults"])
    s.softgpu("fault", "--cmd", "a06c0104", "--delay-us", "400000", "--count", "1")
    eventually("it is used up", lambda: not s.state()["faults"])
    started = time.monotonic()
    assert p.ask("slice") == "slice 2048"
    assert time.monotonic() - started > 0.2
    s.softgpu("fault", "--status", "65")
    assert s.state()["faults"]
    s.softgpu("fault", "clear")
    assert not s.state()["faults"]
    p.end()  # it asks, too
    q = s.program()
    s.softgpu("fault", "--cmd", "a06c0104", "--status", "65", "--count", "2")
    assert q.process.wait(20) == 1


def test_busy_retry(s):
    """A program that is put off comes up when it is let."""
    s.softgpu("fault", "--cmd", "a06c0101", "--status", "3", "--count", "3")
    started = time.monotonic()
    s.program()
    assert time.monotonic() - started > 0.25


def test_server_dies(s):
    p = s.program("--survive")
    s.softgpu("fault", "--cmd", "a06c0104", "--delay-us", "600000000")
    eventually("a call waits in the server", lambda: s.state()["counters"]["faults"] > 0)
    s.softgpu("kill")
    # The waiting call fails, so the next command is heard.
    assert p.ask("slice") == "slice 0"
    p.say("quit")
    assert p.process.wait(10) == 0
    done = shell(s, f"""exec 3<>/dev/nvidiactl; {SOFTGPU} kill; cat /etc/passwd >/dev/null && echo fine
        cat /dev/nvidiactl; cat /proc/driver/nvidia/version; {SOFTGPU} state; readlink /proc/self/fd/3""")
    assert done.stdout == "fine\n/dev/nvidiactl\n", done
    assert done.stderr.count("Input/output error") == 2 and "no device server" in done.stderr, done


def test_sessions(s):
    done = s.command(SOFTGPU, "exec", "--", "sh", "-c", "echo $RUBATO_SOFTGPU")
    assert done.stdout.strip() == s.dir, done
    done = s.command(SOFTGPU, "exec", "--session", "/tmp", "--", "true")
    assert done.returncode == 1 and "already inside" in done.stderr, done
    for options in (["--gpus", "4"], ["--quirks", "setup"]):
        done = subprocess.run([SOFTGPU, "exec", "--session", s.dir, *options, "--", "true"], capture_output=True, text=True,
                              timeout=10, env=s.env)
        assert done.returncode == 1 and done.stderr.count("\n") == 1, done


def test_sessions_do_not_see_each_other(s):
    p = s.program()
    script = f"readlink /proc/{p.pid}/fd/*"
    assert "/dev/nvidiactl\n" in s.command("sh", "-c", script).stdout
    done = shell(s, script)
    assert "memfd" in done.stdout and "/dev/nvidiactl\n" not in done.stdout, done


def test_many_start_at_once(s):
    programs = [subprocess.Popen([SOFTGPU, "exec", "--session", s.dir + "/many", "--", RMCLIENT], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True, env=s.env) for _ in range(16)]
    for p in programs:
        assert p.stdout.readline().startswith("ready"), p
    state = subprocess.run([SOFTGPU, "state", "--session", s.dir + "/many"], capture_output=True, text=True, timeout=10)
    assert state.stdout.count(" compute ") == 16, state.stdout
    for p in programs:
        p.communicate("quit\n", timeout=20)
        assert p.returncode == 0


def test_programs_die_at_any_point(s):
    rounds = 300 if LONG else 40
    random.seed(1)
    for _ in range(rounds):
        p = subprocess.Popen(s.inside([RMCLIENT, "--contexts", "2"]), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, env=s.env, start_new_session=True)
        time.sleep(random.random() * 0.03)
        os.killpg(p.pid, 9)
        p.wait(10)
    eventually("nothing of them stays", lambda: not s.state()["opens"])
    assert s.program().ask("slice") == "slice 2048"


def test_privileges_dropped_below(s):
    if os.geteuid() != 0:
        return print("     only root can drop privileges")
    done = alone(s, *NOBODY, "sh", "-c", "id -u; cat /dev/nvidia9; cat /sys/module/nvidia/version")
    assert done.stdout.split() == ["65534", "580.159.04"], done
    # It may look, and make a runtime directory of its own by entering again; it may not disturb.
    if subprocess.run([*NOBODY, "test", "-x", SOFTGPU]).returncode != 0:
        return
    done = alone(s, *NOBODY, "sh", "-c", f"""{SOFTGPU} exec -- sh -c 'stat -c "%a %u" $RUBATO_RUNTIME_DIR'
        {SOFTGPU} state | grep -c driver; {SOFTGPU} kill; echo $?""")
    assert done.stdout.split() == ["700", "65534", "1", "4"], done


def test_other_users_files_stay_hidden(s):
    """A root supervisor must not show an ordinary user what the kernel would not."""
    if os.geteuid() != 0:
        return print("     only root can drop privileges")
    p = s.program()
    done = s.command(*NOBODY, "sh", "-c", f"readlink /proc/{p.pid}/fd/* | grep -c nvidia")
    assert done.stdout == "0\n", done


class Supervisor:
    """Speaks to the device server as a supervisor does: src/softgpu/serve/link.h."""
    MAGIC, OPEN, IOCTL, READ, DONE = 0x53475501, 2, 3, 11, 12
    RM_CONTROL, KFD_GET_VERSION = 0xc020462a, 0x80084b01

    def __init__(self, s):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(10)
        self.sock.connect(os.path.join(s.dir, "device.sock"))

    def ask(self, message):
        """(type of the answer, error, fds)"""
        self.sock.send(message)
        answer, fds, _, _ = socket.recv_fds(self.sock, 65536, 1)
        kind = struct.unpack_from("=IIQ", answer)[1]
        return kind, struct.unpack_from("=i", answer, 24)[0] if kind == self.DONE else 0, fds

    def open(self, tid, path):
        return self.ask(struct.pack("=IIQiI256s", self.MAGIC, self.OPEN, 1, tid, os.O_RDWR, path.encode()))

    def ioctl(self, tid, inode, request):
        return self.ask(struct.pack("=IIQiIQQII", self.MAGIC, self.IOCTL, 1, tid, request, 4096, inode, 0, 0))[:2]


def as_nobody(function):
    """What the function returns in a child of another user, as text."""
    back, there = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            os.write(there, repr(function()).encode())
        except BaseException as error:
            os.write(there, repr(error).encode())
        finally:
            os._exit(0)
    os.close(there)
    with open(back) as f:
        text = f.read()
    os.waitpid(child, 0)
    return text


@device("--amd-gpus", "1")
def test_a_user_speaks_for_their_own(s):
    """In a session of several users, a supervisor's word is taken for its own user's programs alone."""
    if os.geteuid() != 0:
        return print("     only root can be two users")
    p = s.program()
    fds = [f"/proc/{p.pid}/fd/{fd}" for fd in os.listdir(f"/proc/{p.pid}/fd")]
    inode = next(os.stat(fd).st_ino for fd in fds if "nvidiactl" in os.readlink(fd))

    def claims():
        me, found = os.getpid(), []
        link = Supervisor(s)
        for path in ("/dev/nvidiactl", "/dev/nvidia0", "/dev/kfd"):
            found += [link.open(p.pid, path)[:2], link.open(2**22 + 1, path)[:2]]
        found.append(link.ioctl(p.pid, inode, link.RM_CONTROL))
        found.append(link.ioctl(me, inode, link.RM_CONTROL))
        for path, request in ("/dev/nvidiactl", link.RM_CONTROL), ("/dev/kfd", link.KFD_GET_VERSION):
            kind, error, fds = link.open(me, path)
            assert (kind, error, len(fds)) == (link.DONE, 0, 1), (path, kind, error, fds)
            mine = os.fstat(fds[0]).st_ino
            found.append(link.ioctl(p.pid, mine, request))
            # Its own is served: the one asks for its arguments, the other cannot write them.
            own = link.ioctl(me, mine, request)
            assert own == ((link.READ, 0) if path != "/dev/kfd" else (link.DONE, -14)), (path, own)
        return set(found)

    assert as_nobody(claims) == repr({(Supervisor.DONE, -1)}), as_nobody(claims)
    # And the session's own user, for anybody.
    assert Supervisor(s).ioctl(p.pid, inode, Supervisor.RM_CONTROL) == (Supervisor.READ, 0)
    assert p.ask("slice") == "slice 2048"


@device("--gpus", "4", "--mem", "1000")
def test_several_gpus(s):
    p = s.program("--gpu", "3", "--memory-mib", "600")
    assert {t["gpu"] for t in s.tasks(p.pid, None)} == {3}
    assert [g["memory_used_bytes"] >> 20 for g in s.state()["gpus"]] == [0, 0, 0, 600]
    done = s.command(RMCLIENT, "--gpu", "3", "--memory-mib", "600")
    assert done.returncode == 1 and "0x51" in done.stderr, done
    done = s.command(RMCLIENT, "--gpu", "4")
    assert done.returncode == 1 and "No such file" in done.stderr, done


def test_a_crowd_at_the_server_shuts_nobody_out(s):
    """Connections that nobody needs must not take the place of programs that are there already."""
    p = s.program()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, limit[1]), limit[1]))
    crowd = []
    try:
        for _ in range(1100):
            crowd.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            crowd[-1].connect(os.path.join(s.dir, "device.sock"))
        p.say("more")
        assert select.select([p.process.stdout], [], [], 5)[0], "the program's calls are not answered"
        p.process.stdout.readline()
    finally:
        for sock in crowd:
            sock.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)

    def has_two_contexts():
        try:
            return len(s.tasks(p.pid, None)) == 8
        except AssertionError:
            return False  # the crowd is still leaving, and new connections are refused

    eventually("two contexts", has_two_contexts)


def test_out_of_files(s):
    """A server that cannot take a connection leaves it waiting, without running hot, and takes it later."""
    p = s.program()
    server = s.state()["server_pid"]
    limit = resource.prlimit(server, resource.RLIMIT_NOFILE)
    held = set(map(int, os.listdir(f"/proc/{server}/fd")))
    resource.prlimit(server, resource.RLIMIT_NOFILE, (min(set(range(4096)) - held), limit[1]))
    late = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    late.settimeout(20)
    late.connect(os.path.join(s.dir, "device.sock"))
    late.send(struct.pack("=IIQ", Supervisor.MAGIC, 1, 0))
    eventually("it does not spin", lambda: rests(server))
    assert p.ask("slice") == "slice 2048"
    resource.prlimit(server, resource.RLIMIT_NOFILE, limit)
    assert len(late.recv(4096)) > 16


main()
