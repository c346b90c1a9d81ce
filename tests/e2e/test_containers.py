# SPDX-License-Identifier: Apache-2.0
"""Containers by real podman and runc: devices of the kinds rubato.dev/class and rubato.dev/memory, and who is who."""
import json
import os
import shutil
import signal

from harness import BUILD, Program, alive, binary, eventually, main, skip
from programs import may_unshare
from test_system import Machine

PODMAN = "podman", "runc", "unshare"
# Each podman has its own /run, where it finds the specifications, too, and its own table of locks.
SETUP = """set -e
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev/shm
mkdir /run/cdi
"$1" cdi --install --dir /run/cdi >/dev/null
shift
exec "$@"
"""
MAPPED = 500000
MIB = 1 << 20
NO_MEMORY = 0x51


def missing():
    if os.geteuid() != 0:
        return "only root can run containers here"
    for name in PODMAN:
        if shutil.which(name) is None and not os.path.exists(f"/usr/sbin/{name}"):
            return f"{name} is not installed"
    return None if may_unshare("--mount") else "no mount namespaces here"


REASON = missing()
if REASON:
    skip(REASON)


class Podman:
    """Containers on root folders that have the host's /usr."""

    is_tried = False

    def __init__(self, s, owner=0):
        self.s, self.owner, self.n = s, owner, 0
        if not Podman.is_tried:
            done = s.command(*self.command(argv=["true"]), timeout=120)
            if done.returncode != 0:
                skip("no containers can be made here: " + done.stderr.strip().splitlines()[-1])
            Podman.is_tried = True

    def make_root(self):
        self.n += 1
        root = os.path.join(self.s.dir, f"root{self.n}")
        for name in (".", "usr", "etc", "tmp", "proc", "sys", "dev", "run", "opt"):
            os.makedirs(os.path.join(root, name), exist_ok=True)
            os.chown(os.path.join(root, name), self.owner, self.owner)
        for name in ("lib", "lib64", "bin"):
            if os.path.islink("/" + name):
                os.symlink("usr/" + name, os.path.join(root, name))
        return root

    def command(self, *options, argv):
        """A container with these options that runs argv."""
        root, storage = self.make_root(), os.path.join(self.s.dir, f"storage{self.n}")
        return ["unshare", "--mount", "sh", "-c", SETUP, "sh", binary("rubato"),
                "podman", "--root", storage, "--runroot", "/run/containers", "--tmpdir", "/run/libpod", "--storage-driver", "vfs",
                "--runtime", "runc", "--cgroup-manager", "cgroupfs", "run", "--rm", "-i", "--network=none",
                # As root without CAP_SYS_RESOURCE: no limit may be raised.
                "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000",
                "-v", "/usr:/usr:ro", "-v", f"{BUILD}:{BUILD}:ro", *options, "--rootfs", root, *argv]

    def program(self, *options):
        """rmclient in a container. `pid` is what the host knows it as."""
        before = set(self.s.ps())
        p = Program(self.s, self.command(*options, argv=[binary("rmclient")]))
        self.s.programs.append(p)
        assert p.pid == 1, "in its own namespace"
        p.pid = eventually("the host sees it", lambda: set(self.s.ps()) - before).pop()
        return p

    def run(self, *options, argv, code=0):
        done = self.s.command(*self.command(*options, argv=argv), timeout=120)
        assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done


def cgroup_id(pid):
    with open(f"/proc/{pid}/cgroup") as f:
        return f.read().split("libpod-")[1][:64]


def test_classes_of_containers(s):
    """The daemon knows a program by the host's number, and by the id of its container. Another daemon finds it again."""
    m, podman = Machine(s), Podman(s)
    low = podman.program("--device", "rubato.dev/class=best-effort", "--device", "rubato.dev/memory=1G")
    high = podman.program("--device", "rubato.dev/class=latency")
    eventually("1 us", lambda: s.slices(low.pid) == [1])
    rows = s.ps()
    assert [rows[p.pid]["class"] for p in (low, high)] == ["best-effort", "latency"], rows
    assert rows[low.pid]["treatment"] == "priority=2,memory=1G", rows
    assert [rows[p.pid]["container_id"] for p in (low, high)] == [cgroup_id(p.pid) for p in (low, high)], rows
    assert f"container: {cgroup_id(low.pid)}\n" in s.rubato("ps").stdout
    top = {p["pid"]: p for p in json.loads(s.rubato("top", "--once", "--json", "-d", "0.1").stdout)["programs"]}
    assert top[low.pid]["container_id"] == cgroup_id(low.pid), top
    s.rubato("suspend", low.pid)
    assert s.is_suspended(low.pid)
    s.rubato("resume", low.pid)

    hand = s.hand()
    m.kill()
    eventually("the hand has ended", lambda: not alive(hand))
    assert s.is_released(low.pid) and low.ask("slice") and high.ask("slice")
    m.start()
    eventually("known again", lambda: low.ask("slice") and s.slices(low.pid) == [1] and
               s.ps()[low.pid]["container_id"] == cgroup_id(low.pid))
    os.kill(low.pid, signal.SIGKILL)
    eventually("it is gone", lambda: low.pid not in s.ps())
    assert s.is_default(high.pid)


def test_root_of_a_user_namespace_is_not_root(s):
    Machine(s)
    podman = Podman(s, MAPPED)
    mapped = "--uidmap", f"0:{MAPPED}:1000", "--gidmap", f"0:{MAPPED}:1000"
    high = podman.program(*mapped, "--device", "rubato.dev/class=latency")
    row = eventually("managed", lambda: s.ps()[high.pid]["managed"] and s.ps()[high.pid])
    assert row["uid"] == MAPPED and row["class"] == "normal", row
    assert "above normal needs root" in row["note"], row
    assert row["container_id"] == cgroup_id(high.pid)
    low = podman.program(*mapped, "--device", "rubato.dev/class=best-effort")
    eventually("1 us", lambda: s.slices(low.pid) == [1])


def test_a_container_shares_its_memory_limit(s):
    Machine(s)
    podman = Podman(s)
    p = Program(s, podman.command("--device", "rubato.dev/class=normal", "-e", "RUBATO_TREAT_MEMORY=96M",
                                  argv=[binary("memclient"), "1"]))
    s.programs.append(p)
    names = [os.path.join(s.dir, f"root{podman.n}", "tmp", name) for name in ("in", "out")]
    for name in names:
        os.mkfifo(name)
    assert p.ask("fork /tmp/in /tmp/out").startswith("forked ")
    with open(names[0], "w") as say, open(names[1]) as answers:
        def child(line):
            say.write(line + "\n")
            say.flush()
            return answers.readline().strip()

        assert answers.readline().startswith("ready ")
        assert p.ask(f"alloc 0 {64 * MIB}").startswith("handle ")
        assert child(f"alloc 0 {16 * MIB}").startswith("handle ")

        def counts():
            p.ask("poke")
            child("poke")
            return [row["memory_run_bytes"] for row in s.ps().values()]

        eventually("they are counted together", lambda: counts() == [80 * MIB] * 2)
        assert child(f"alloc 0 {32 * MIB}") == f"status {NO_MEMORY}"
        say.write("quit\n")


def test_tools_in_another_pid_namespace(s):
    """They show the daemon's numbers, and no command of another process that has such a number there. They change nothing,
    because a number there may mean either process."""
    Machine(s)
    p = s.run("--class", "best-effort")
    eventually("managed", lambda: s.ps()[p.pid]["managed"])
    inside = "unshare", "--pid", "--fork", "--mount-proc", binary("rubato")
    for words in ("ps", "--json"), ("top", "--once", "--json", "-d", "0.1"):
        done = s.command(*inside, *words)
        assert [(row["pid"], row["command"]) for row in json.loads(done.stdout)["programs"]] == [(p.pid, "-")], done
    done = s.command(*inside, "renice", "1", "--priority", "4")
    assert done.returncode == 1 and "rubatod is outside of this container" in done.stderr, done
    assert s.command(*inside, "suspend", str(p.pid)).returncode == 3
    assert s.ps()[p.pid]["priority"] == 2 and s.is_running(p.pid)


def test_a_container_without_a_daemon(s):
    """It runs as if it had no device of ours."""
    s.env["RUBATO_SYSTEM_DIR"] = os.path.join(s.dir, "system")
    os.mkdir(s.env["RUBATO_SYSTEM_DIR"])
    podman = Podman(s)
    done = podman.run("--device", "rubato.dev/class=best-effort", argv=[
        "sh", "-c", f"echo $RUBATO_TREAT_CLASS; cat /proc/self/maps; exec {binary('rmclient')} --for 1"])
    assert done.stdout.startswith("best-effort\n") and "/opt/rubato/librubato.so" in done.stdout, done.stdout
    assert "errors=0" in done.stdout, done.stdout
    done = podman.run("--device", "rubato.dev/class=nice", argv=["true"], code=126)
    assert "rubato.dev/class=nice" in done.stderr, done.stderr


def test_doctor_tells_of_devices(s):
    s.env["RUBATO_SYSTEM_DIR"] = os.path.join(s.dir, "system")
    rubato = binary("rubato")
    script = f"mount -t tmpfs tmpfs /etc && {rubato} doctor && {rubato} cdi --install && {rubato} doctor"
    for is_there, said in (False, "do not start: %s is missing" % s.env["RUBATO_SYSTEM_DIR"]), (True, "/etc/cdi/rubato-class.json"):
        if is_there:
            os.mkdir(s.env["RUBATO_SYSTEM_DIR"])
        done = s.command("unshare", "--mount", "sh", "-c", script)
        lines = [line for line in done.stdout.splitlines() if "containers " in line]
        assert len(lines) == 1 and lines[0].startswith("ok" if is_there else "no") and said in lines[0], done


main()
