# SPDX-License-Identifier: Apache-2.0
"""Wrong use: one clear line, the right exit code, nothing changed."""
import json
import os
import subprocess
import threading
import time

from harness import binary, device, eventually, main


def refused(s, code, *args, says=""):
    done = s.rubato(*args, code=code)
    assert done.stderr.count("\n") == 1, f"{args}: {done.stderr!r}"
    assert says in done.stderr, f"{args}: {done.stderr!r} does not say {says!r}"
    assert done.stdout == "", f"{args}: {done.stdout!r}"


def test_options(s):
    p = s.program()
    for value in ("0", "-1", "1e12", "abc", "", "1000001", "1.5", "99999999999999999999"):
        refused(s, 2, "renice", p.pid, "--timeslice-us", value, says="timeslice")
        refused(s, 2, "run", "--timeslice-us", value, "--", "true", says="timeslice")
    for value in ("16", "-1", "abc"):
        refused(s, 2, "renice", p.pid, "--priority", value, says="priority")
    refused(s, 2, "renice", p.pid, "--class", "urgent", says="no such class")
    refused(s, 2, "renice", p.pid, "--class", "latency", "--priority", "2", says="contradicts")
    refused(s, 2, "run", "--class", "best-effort", "--priority", "9", "--", "true", says="contradicts")
    refused(s, 2, "renice", p.pid, says="--class")
    refused(s, 2, "renice", "--class", "normal", says="no process named")
    refused(s, 2, "renice", "abc", "--class", "normal", says="not a process id")
    refused(s, 2, "renice", "0", "--class", "normal", says="not a process id")
    refused(s, 2, "renice", p.pid, "-5", "--class", "normal")
    refused(s, 2, "suspend", says="no process named")
    refused(s, 2, "suspend", p.pid, "--for", "0", says="--for")
    refused(s, 2, "suspend", p.pid, "--for", "-1", says="--for")
    refused(s, 2, "suspend", p.pid, "--for", "soon", says="--for")
    refused(s, 2, "suspend", p.pid, "--for", "5d", says="1.5m")
    refused(s, 2, "run", says="no command")
    refused(s, 2, "ps", "extra", says="unexpected")
    refused(s, 2, "frobnicate", says="no such command: frobnicate (")
    refused(s, 2, "renise", says="did you mean renice?")
    refused(s, 2, "pss", says="did you mean ps?")
    refused(s, 2, "x" * 5000, says="no such command")
    refused(s, 2, "help", "tpo", says="no such command")
    # The options of nice(1) and renice(8).
    for words in (["run", "-n", "10", "true"], ["run", "-n10", "true"], ["renice", "-10", p.pid], ["renice", p.pid, "-n", "5"]):
        refused(s, 2, *words, says="--priority 0 (lowest) to 15 (highest)")
    refused(s, 2, "renice", "--frobnicate", says="rubato: renice: ")
    refused(s, 2, "help", "frobnicate", says="no such command")
    assert s.is_default(p.pid) and not s.processes("rubatod")


def test_targets(s):
    for command in (["renice", "--class", "normal"], ["suspend"], ["resume"]):
        refused(s, 3, command[0], "4194303", *command[1:], says="no such process")
        refused(s, 3, command[0], str(os.getpid()), *command[1:], says="does not use a GPU")
    dead = subprocess.Popen(["true"])
    dead.wait()
    refused(s, 3, "suspend", dead.pid, says="no such process")


def test_a_wrapper(s):
    """A shell's $! may be the parent of the program that is meant, or its grandparent."""
    wrapper = subprocess.Popen(s.inside(["sh", "-c", 'sh -c "$0; true"; true', binary("rmclient")]), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True, env=s.env)
    try:
        pid = int(wrapper.stdout.readline().split("pid=")[1].split()[0])
        refused(s, 3, "suspend", wrapper.pid, says=f"its child {pid} does")
    finally:
        wrapper.communicate("quit\n", timeout=20)
    # From outside, a program on the software GPU.
    p = s.program()
    done = subprocess.run([binary("rubato"), "suspend", str(p.pid)], capture_output=True, text=True, timeout=30,
                          env=dict(s.env, RUBATO_RUNTIME_DIR=os.path.join(s.dir, "outside")))
    if not os.path.exists("/dev/nvidiactl"):
        assert done.returncode in (3, 5) and done.stderr.count("\n") == 1, (done.returncode, done.stderr)
        assert done.returncode == 5 or "--device soft" in done.stderr, done.stderr


def test_one_bad_pid_does_not_stop_the_others(s):
    p = s.program()
    done = s.rubato("renice", "4194303", p.pid, "--class", "best-effort", code=3)
    assert done.stderr.count("\n") == 1
    assert s.slices(p.pid) == [1]


def test_another_users_program(s):
    if os.geteuid() != 0:
        done = s.rubato("suspend", "1", code=None)
        assert done.returncode in (3, 4) and done.stderr.count("\n") == 1
        return
    p = s.program()
    as_nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "env",
                 "RUBATO_RUNTIME_DIR=" + s.dir + "/nobody"]
    for command in (["renice", str(p.pid), "--class", "best-effort"], ["suspend", str(p.pid)]):
        done = s.command(*as_nobody, binary("rubato"), *command)
        assert done.returncode == 4 and done.stderr.count("\n") == 1, (done.returncode, done.stderr)
    assert s.is_default(p.pid)


def test_help_is_everywhere(s):
    for command in ("run", "renice", "ps", "top", "suspend", "resume", "doctor", "policy", "profile"):
        done = s.rubato(command, "--help")
        assert done.stdout.startswith("Usage: rubato " + command) and done.stderr == ""
        assert s.rubato("help", command).stdout == done.stdout
    assert "renice" in s.rubato("--help").stdout and s.rubato("--version").stdout.startswith("rubato ")


def test_doctor(s):
    text = s.rubato("doctor").stdout
    assert "580.159.04" in text and "gpu 0" in text and "rubatod" in text
    checks = json.loads(s.rubato("doctor", "--json").stdout)["checks"]
    assert any(c["what"] == "nvidia" and c["verdict"] == "ok" for c in checks)
    done = s.rubato("doctor", "--program", binary("rmclient"))
    assert "reached by `rubato run`" in done.stdout
    refused_file = s.rubato("doctor", "--program", "/etc/passwd", code=1)
    assert refused_file.stderr.count("\n") == 1
    # Outside a session there is no device.
    if not os.path.exists("/dev/nvidiactl"):
        env = {k: v for k, v in s.env.items() if not k.startswith("RUBATO_")}
        assert subprocess.run([binary("rubato"), "doctor"], capture_output=True, env=env).returncode == 5


def test_doctor_of_a_program(s):
    """A question about a file is answered, and no other."""
    lines = s.rubato("doctor", "--program", binary("rmclient")).stdout.splitlines()
    assert lines[0].split()[:2] == ["ok", "program"] and not any("nvidia" in line for line in lines), lines
    found = json.loads(s.rubato("doctor", "--json", "--program", binary("rmclient")).stdout)["checks"]
    assert [c.get("what") for c in found] == ["program", "cuda", None], found


def test_cdi(s):
    refused(s, 1, "cdi", says="RUBATO_SYSTEM_DIR")
    s.env["RUBATO_SYSTEM_DIR"] = os.path.join(s.dir, "system")
    spec = json.loads(s.rubato("cdi").stdout)
    assert (spec["cdiVersion"], spec["kind"]) == ("0.5.0", "rubato.dev/class"), spec
    assert [d["name"] for d in spec["devices"]] == ["latency", "normal", "best-effort"], spec
    assert spec["devices"][2]["containerEdits"]["env"] == ["RUBATO_TREAT_CLASS=best-effort"], spec
    edits = spec["containerEdits"]
    assert edits["env"] == ["RUBATO_SOCKET=/run/rubato/control.sock"], edits
    host = {m["containerPath"]: m["hostPath"] for m in edits["mounts"]}
    assert host.pop("/run/rubato") == s.env["RUBATO_SYSTEM_DIR"]
    assert sorted(host) == ["/etc/ld.so.preload", "/opt/rubato/librubato.so", "/opt/rubato/standin/libcuda.so.1"], host
    assert all(os.path.isfile(path) and not os.path.islink(path) for path in host.values()), host
    with open(host["/etc/ld.so.preload"]) as f:
        assert f.read() == "/opt/rubato/librubato.so\n"
    memory = json.loads(s.rubato("cdi", "--memory").stdout)
    assert memory["kind"] == "rubato.dev/memory" and memory["containerEdits"] == edits
    assert [d["name"] for d in memory["devices"]] == [f"{n}G" for n in range(1, 257)]
    assert memory["devices"][19]["containerEdits"]["env"] == ["RUBATO_TREAT_MEMORY=20G"], memory
    more = json.loads(s.rubato("cdi", "--library-path", "/a:/b").stdout)
    assert "LD_LIBRARY_PATH=/opt/rubato/standin:/a:/b" in more["containerEdits"]["env"], more

    folder = os.path.join(s.dir, "cdi")
    for _ in range(2):  # over older files
        done = s.rubato("cdi", "--install", "--dir", folder)
        assert done.stdout == f"{folder}/rubato-class.json\n{folder}/rubato-memory.json\n", done
    assert sorted(os.listdir(folder)) == ["rubato-class.json", "rubato-memory.json"]
    with open(f"{folder}/rubato-class.json") as f:
        assert json.load(f) == spec and os.fstat(f.fileno()).st_mode & 0o777 == 0o644
    refused(s, 1, "cdi", "--install", "--dir", f"{folder}/rubato-class.json", says="Not a directory")
    refused(s, 2, "cdi", "--dir", folder, says="--dir is about --install")
    refused(s, 2, "cdi", "--install", "--memory", says="both kinds")
    refused(s, 2, "cdi", "latency", says="unexpected argument: latency")


def test_no_device(s):
    """ps and top name what is missing, and so does doctor."""
    if os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/kfd"):
        return
    env = {k: v for k, v in s.env.items() if not k.startswith("RUBATO_")}
    for command in (["ps"], ["ps", "--json"], ["top", "--once"], ["top", "--json", "--once"]):
        done = subprocess.run([binary("rubato"), *command], capture_output=True, text=True, env=env, timeout=30)
        assert done.returncode == 5, (command, done.returncode, done.stderr)
        assert done.stderr.count("\n") == 1 and "NVIDIA" in done.stderr and "--device soft" in done.stderr, done.stderr
        assert done.stdout == "" or json.loads(done.stdout) == {"version": 1, "programs": []}, done.stdout
    done = subprocess.run([binary("rubato"), "doctor", "--json"], capture_output=True, text=True, env=env, timeout=30)
    found = {c["what"]: c["verdict"] for c in json.loads(done.stdout)["checks"]}
    assert done.returncode == 5 and found["nvidia"] == found["amd"] == "no", found
    # Where there is a driver and nobody uses it, that is no error.
    assert s.rubato("ps").stdout == "no program uses a GPU here\n"


def test_a_full_output(s):
    done = s.command("sh", "-c", binary("rubato") + " help > /dev/full")
    assert done.returncode == 1 and "No space left" in done.stderr


def test_it_ends_while_being_attached(s):
    """Programs that exit or exec at any moment of an attach: a clear word, no harm, nothing left behind."""
    for i in range(12):
        p = s.program("--exec" if i % 2 else "--contexts", *([] if i % 2 else [1]))
        delay = i * 0.004

        def strike():
            time.sleep(delay)
            p.say("go") if i % 2 else p.kill()

        striker = threading.Thread(target=strike)
        striker.start()
        done = s.rubato("renice", p.pid, "--class", "best-effort", code=None)
        striker.join()
        assert done.returncode in (0, 1, 3), (done.returncode, done.stderr)
        assert done.stderr.count("\n") <= 1
        eventually("nothing held", lambda: not s.tasks(p.pid, None))
        p.end()


main()
