# SPDX-License-Identifier: Apache-2.0
"""How a program is to be treated, by the environment, and by shims from before an upgrade."""
import errno
import os
import signal
import socket
import struct
import subprocess

from harness import MAGIC, binary, eventually, main, renice_message


def text_of(s, p):
    eventually("known", lambda: p.pid in s.ps())
    return s.ps()[p.pid]["treatment"]


def under_run(s, env, *options):
    return s.program(under=["env", *env, binary("rubato"), "run", *map(str, options), "--"])


def environment_of(p):
    with open(f"/proc/{p.pid}/environ") as f:
        return dict(line.partition("=")[::2] for line in f.read().split("\0") if line.startswith("RUBATO_"))


def test_options_become_one_variable(s):
    p = s.run("--class", "best-effort", "--weight", 2, "--min-share", "2.5", "--max-reserve-ms", "default", "--group", "a")
    env = environment_of(p)
    assert env["RUBATO_TREAT"] == "priority=2,weight=2,max_reserve_ms=default,min_share=2.5,group=a", env
    assert not [name for name in env if name.startswith("RUBATO_TREAT_") or name == "RUBATO_PRIORITY"], env
    assert text_of(s, p) == "priority=2,weight=2,min_share=2.5,group=a", s.ps()[p.pid]
    row = s.ps()[p.pid]
    assert (row["class"], row["weight"], row["min_share_permille"], row["group"], row["shim"]) == \
        ("best-effort", 2, 25, "a", "current"), row
    s.rubato("renice", p.pid, "--priority", 5, "--min-share", "default", "--timeslice-us", 70)
    assert text_of(s, p) == "priority=5,timeslice_us=70,weight=2,group=a"
    s.rubato("renice", p.pid, "--class", "normal")
    assert text_of(s, p) == "priority=8,weight=2,group=a"  # a slice goes with its priority


def test_single_keys_go_below_options(s):
    """As container devices set them, each its own; what the command line says counts more."""
    devices = ["RUBATO_TREAT_CLASS=best-effort", "RUBATO_TREAT_WEIGHT=3"]
    assert text_of(s, under_run(s, devices)) == "priority=2,weight=3"
    assert text_of(s, under_run(s, devices, "--class", "normal")) == "priority=8,weight=3"
    # Of a `rubato run` around this one only the group is left.
    outer = ["RUBATO_TREAT=class=best-effort,weight=9,group=mine"]
    assert text_of(s, under_run(s, outer, "--weight", 2)) == "weight=2,group=mine"
    assert text_of(s, under_run(s, ["RUBATO_GROUP=old"])) == "group=old"
    assert text_of(s, under_run(s, [*outer, "RUBATO_TREAT_GROUP=dev"], "--group", "opt")) == "group=opt"


def preloaded(s, *env):
    """A program with the library, but without `rubato run`; somebody has started the daemon."""
    return s.program(under=["env", "LD_PRELOAD=" + binary("librubato.so"), f"RUBATO_SOCKET={s.run_dir}/control.sock", *env])


def test_without_run(s):
    s.run()
    p = preloaded(s, "RUBATO_TREAT=class=best-effort,weight=2", "RUBATO_TREAT_WEIGHT=4")
    assert text_of(s, p) == "priority=2,weight=4"
    eventually("best-effort", lambda: s.slices(p.pid) == [1])
    assert text_of(s, preloaded(s, "RUBATO_TREAT_TIMESLICE_US=500")) == "timeslice_us=500"
    assert text_of(s, preloaded(s, "RUBATO_PRIORITY=7", "RUBATO_WEIGHT=2")) == "priority=7,weight=2"


def test_what_is_not_known_is_ignored(s):
    done = s.rubato("run", "--", "env", "RUBATO_TREAT=colour=red,weight=2", binary("rubato"), "run", "--", "true")
    assert done.stderr == "rubato: warning: run: RUBATO_TREAT: no such key: colour: ignored\n", done.stderr
    done = s.rubato("run", "--", "env", "RUBATO_TREAT_SIZE=2", binary("rubato"), "run", "--", "true")
    assert done.stderr == "rubato: warning: run: RUBATO_TREAT: no such key: size: ignored\n", done.stderr


def old_program(s, *env):
    """A program that was started by version 0.1.0 and outlives the upgrade."""
    return s.program(under=["env", "LD_PRELOAD=" + binary("oldshim.so"), f"RUBATO_SOCKET={s.run_dir}/control.sock", *env])


def test_an_older_shim_goes_on_working(s):
    current = s.run()
    p = old_program(s, "RUBATO_PRIORITY=2", "RUBATO_WEIGHT=3", "RUBATO_MAX_RESERVE_MS=70", "RUBATO_MIN_SHARE_PERMILLE=25",
                    "RUBATO_GROUP=mine", "OLDSHIM_IS_FIRST=1")
    assert text_of(s, p) == "priority=2,weight=3,max_reserve_ms=70,min_share=2.5,group=mine", s.ps()[p.pid]
    row = s.ps()[p.pid]
    assert (row["class"], row["weight"], row["max_reserve_ms"], row["min_share_permille"], row["group"], row["shim"]) == \
        ("best-effort", 3, 70, 25, "mine", "older"), row
    assert s.ps()[current.pid]["shim"] == "current"
    lines = s.rubato("ps").stdout.splitlines()
    assert sum("shim: older than rubatod" in line for line in lines) == 1, lines
    eventually("best-effort", lambda: s.slices(p.pid) == [1])
    s.rubato("renice", p.pid, "--class", "normal")
    eventually("normal", lambda: s.is_default(p.pid))
    assert text_of(s, p) == "priority=8,weight=3,max_reserve_ms=70,min_share=2.5,group=mine"
    s.rubato("suspend", p.pid)
    assert s.is_suspended(p.pid)
    s.rubato("resume", p.pid)
    assert s.is_running(p.pid)


def test_older_shims_take_turns_with_new_ones(s):
    new = s.run("--class", "best-effort")
    old = old_program(s, "RUBATO_PRIORITY=2", "RUBATO_TIMESLICE_US=5")
    assert text_of(s, old) == "priority=2,timeslice_us=5"
    eventually("turns", lambda: s.ps()[old.pid]["turns"] > 2 and s.ps()[new.pid]["turns"] > 2)


def test_tools_of_other_versions(s):
    """A treatment may be longer or shorter than ours; what is not understood or wrong is refused, and changes nothing."""
    p = s.run()
    eventually("known", lambda: p.pid in s.ps())
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as tool:
        tool.settimeout(10)
        tool.connect(f"{s.run_dir}/control.sock")
        for message, error, priority in ((renice_message(p.pid, 5, size=120), 0, 5), (renice_message(p.pid, 4, size=16), 0, 4),
                                         (renice_message(p.pid, 16), -errno.EINVAL, 4),
                                         (renice_message(p.pid, 3)[:-1], -errno.EBADMSG, 4),
                                         # of version 0.1.0
                                         (struct.pack("<IIiIIIQII", MAGIC, 5, p.pid, 3, 0, 0, 0, 0, 0), -errno.EBADMSG, 4)):
            tool.send(message)
            assert struct.unpack_from("<i", tool.recv(4096), 8)[0] == error, message
            assert s.ps()[p.pid]["priority"] == priority, message


def test_a_daemon_of_another_version(s):
    """It answers that it does not understand; the tool says what that means, and what to do."""
    p = s.program()
    folder = os.path.join(s.dir, "other")
    os.mkdir(folder, 0o700)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(os.path.join(folder, "control.sock"))
        server.listen()
        server.settimeout(20)
        tool = subprocess.Popen(s.inside(["env", "RUBATO_RUNTIME_DIR=" + folder, binary("rubato"), "renice", str(p.pid), "--class",
                                          "normal"]), env=s.env, stderr=subprocess.PIPE, text=True)
        peer = server.accept()[0]
        peer.settimeout(20)
        while peer.recv(65536):
            peer.send(struct.pack("<IIiI240s", MAGIC, 9, -errno.EBADMSG, 0, b"not understood"))
        error = tool.communicate(timeout=20)[1]
        peer.close()
    assert tool.returncode == 1 and "are of different versions: restart rubatod" in error, error


def test_what_was_said_outlives_the_daemon(s):
    """All keys, by the by-hand file."""
    p = s.run("--class", "best-effort", "--weight", 2, "--group", "g")
    text_of(s, p)
    s.rubato("renice", p.pid, "--weight", 5, "--max-reserve-ms", 90, "--timeslice-us", 60)
    expected = "priority=2,timeslice_us=60,weight=5,max_reserve_ms=90,group=g"
    assert text_of(s, p) == expected
    first = s.daemon()
    os.kill(first, signal.SIGKILL)
    eventually("another daemon", lambda: s.daemon() not in (None, first))
    eventually("the same", lambda: s.ps().get(p.pid, {}).get("treatment") == expected)


main()
