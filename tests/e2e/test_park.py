# SPDX-License-Identifier: Apache-2.0
"""rubato park and unpark: right values afterwards, whoever is killed on the way, and what is refused."""
import errno
import json
import os
import signal
import socket
import struct
import subprocess
import time

import harness
from harness import LONG, MAGIC, binary, device, eventually, kill_all
from test_checkpoint import CHECKPOINTED, FAILED, LOCKED, RUNNING, Parkclient, checkpoint, free_mib

PARK = 32  # RBT_MSG_PARK
ROOMY = "--mem", "4096"  # a restore wants 1 GiB more than the program had


def state(s, pid):
    return s.ps()[pid]["state"]


def helpers(s):
    return s.processes("rubato-park")


def start(s, *args):
    """A rubato command that is not waited for."""
    return subprocess.Popen(s.inside([binary("rubato"), *map(str, args)]), env=s.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, start_new_session=True)


@device(*ROOMY)
def test_off_and_back(s):
    p, q = Parkclient(s, 40, "--class", "best-effort"), Parkclient(s, 1, "--class", "best-effort")
    eventually("its slice is short", lambda: 1 in s.slices(p.pid))
    before = free_mib(s)
    s.rubato("park", p.pid)
    assert free_mib(s) >= before + 39
    seen = s.ps()[p.pid]
    assert seen["state"] == "parked" and "0.0 GB" in seen["note"], seen
    assert "parked" in s.rubato("ps").stdout
    assert "parked" in s.rubato("top", "--once").stdout
    assert q.ask("step 3")["ok"]
    done = s.rubato("unpark", p.pid, "--json")
    assert json.loads(done.stdout)["programs"][0]["state"] == "running", done
    assert p.ask("check")["wrong"] == 0
    p.ask("step 5")
    assert p.ask("check")["wrong"] == 0
    q.end()
    eventually("treated as before", lambda: s.slices(p.pid) == [1])
    s.rubato("renice", p.pid, "--class", "normal")
    eventually("its own slice is libcuda's", lambda: s.slices(p.pid) == [2048])


@device(*ROOMY)
def test_suspended_and_attached_programs(s):
    p = Parkclient(s, 4)
    s.rubato("suspend", p.pid)
    p.process.stdin.write("step 3\n")
    p.process.stdin.flush()
    s.rubato("park", p.pid)
    assert checkpoint(s, p.pid, "state") == [CHECKPOINTED]
    s.rubato("unpark", p.pid)
    eventually("suspended again", lambda: s.is_suspended(p.pid))
    s.rubato("resume", p.pid)
    assert json.loads(p.process.stdout.readline())["ok"]
    assert p.ask("check")["wrong"] == 0


@device(*ROOMY)
def test_for_some_time(s):
    p = Parkclient(s, 2)
    done = s.rubato("park", "--for", "0.5", "--json", p.pid)
    assert json.loads(done.stdout)["programs"][0]["state"] == "parked", done
    eventually("it comes back by itself", lambda: p.pid not in s.ps() or state(s, p.pid) == "running")
    assert p.ask("check")["wrong"] == 0


@device("--mem", "1300")
def test_waiting_for_memory(s):
    p, q = Parkclient(s, 50, "--class", "normal"), Parkclient(s, 1, "--class", "normal")
    s.rubato("park", p.pid)
    assert q.ask("reserve 300")["result"] == 0
    done = s.rubato("unpark", "--no-wait", p.pid, code=1)
    assert "waits for 1.1 GB on GPU 0" in done.stderr and len(done.stderr.splitlines()) == 1, done
    assert state(s, p.pid) == "parked"
    waiting = start(s, "unpark", p.pid)
    eventually("ps says for whom", lambda: f"held by {q.pid}" in s.ps()[p.pid]["note"])
    s.rubato("park", p.pid)  # withdraws the order
    assert "parked" in waiting.communicate(timeout=20)[0] and waiting.returncode == 1
    waiting = start(s, "unpark", p.pid)
    eventually("it waits", lambda: "waits" in s.ps()[p.pid]["note"])
    q.end()
    assert waiting.wait(20) == 0
    assert p.ask("check")["wrong"] == 0


@device("--mem", "1300")
def test_two_do_not_get_the_same_memory(s):
    p, q = Parkclient(s, 60, "--class", "normal"), Parkclient(s, 60, "--class", "normal")
    s.rubato("park", p.pid)
    s.rubato("park", q.pid)
    r = Parkclient(s, 1)
    assert r.ask("reserve 160")["result"] == 0  # leaves room for one of them
    s.softgpu("fault", "--process", "restore", "--delay-us", 1000000)
    tools = [start(s, "unpark", x.pid) for x in (p, q)]
    eventually("one is back, one waits", lambda: sorted(tool.poll() is None for tool in tools) == [False, True])
    assert sorted(checkpoint(s, x.pid, "state")[0] for x in (p, q)) == [RUNNING, CHECKPOINTED]
    r.end()
    assert [tool.wait(20) for tool in tools] == [0, 0]
    assert [x.ask("check")["wrong"] for x in (p, q)] == [0, 0]


@device("--mem", "1300")
def test_a_lost_program_is_named(s):
    p, q = Parkclient(s, 50, "--class", "normal"), Parkclient(s, 1)
    s.rubato("park", p.pid)
    assert q.ask("reserve 1260")["result"] == 0
    done = s.rubato("unpark", "--force", p.pid, code=1)
    assert "lost" in done.stderr and len(done.stderr.splitlines()) == 1, done
    assert checkpoint(s, p.pid, "state") == [FAILED]
    q.end()
    assert "lost" in s.rubato("unpark", p.pid, code=1).stderr
    assert "lost" in s.rubato("park", p.pid, code=1).stderr
    p.kill()
    eventually("forgotten with its process", lambda: p.pid not in s.ps())


def parked_and_killed(s, call, victims, goal="park"):
    """Kills while the driver is inside that call; the order is carried out in any case."""
    p = Parkclient(s, 10, "--class", "normal")
    if goal == "unpark":
        s.rubato("park", p.pid)
    s.softgpu("fault", "--process", call, "--delay-us", 60000000)
    tool = start(s, goal, p.pid)
    eventually("a helper works", lambda: helpers(s))
    if goal == "park":
        eventually("it is inside the call", lambda: checkpoint(s, p.pid, "state") == [LOCKED])
    time.sleep(0.3)
    s.forget_deaths()
    kill_all(victims(s, tool))
    s.softgpu("fault", "clear")
    wanted = "parked" if goal == "park" else "running"
    eventually(f"it is {wanted}", lambda: s.ps().get(p.pid, {}).get("state") == wanted, 40)
    state_wanted = CHECKPOINTED if goal == "park" else RUNNING
    eventually("the driver says so, too", lambda: checkpoint(s, p.pid, "state") == [state_wanted])
    tool.wait(30)
    if goal == "park":
        s.rubato("unpark", p.pid)
    assert p.ask("check")["wrong"] == 0
    p.ask("step 3")
    assert p.ask("check")["wrong"] == 0


@device(*ROOMY)
def test_the_helper_is_killed_inside_a_call(s):
    parked_and_killed(s, "checkpoint", lambda s, tool: helpers(s))
    parked_and_killed(s, "restore", lambda s, tool: helpers(s), "unpark")


@device(*ROOMY)
def test_daemon_and_tool_are_killed(s):
    parked_and_killed(s, "checkpoint", lambda s, tool: [s.daemon()])
    parked_and_killed(s, "restore", lambda s, tool: [tool.pid], "unpark")
    parked_and_killed(s, "restore", lambda s, tool: [s.daemon(), *helpers(s)], "unpark")


@device(*ROOMY)
def test_killed_between_the_calls(s):
    """As if a helper had been killed after each of its calls, with a daemon that knows nothing of it."""
    for calls in (["lock"], ["lock", "checkpoint"], ["lock", "checkpoint", "restore"]):
        p = Parkclient(s, 4)
        assert checkpoint(s, p.pid, *calls) == [0] * len(calls)
        s.rubato("unpark", p.pid)
        assert checkpoint(s, p.pid, "state") == [RUNNING]
        assert p.ask("check")["wrong"] == 0
        p.end()


@device(*ROOMY)
def test_the_next_daemon_goes_on(s):
    p = Parkclient(s, 4, "--class", "normal")
    s.rubato("park", p.pid)
    s.kill_both()
    assert not s.processes("rubatod")
    eventually("the next command starts a daemon that knows it", lambda: s.ps().get(p.pid, {}).get("state") == "parked")
    s.rubato("unpark", p.pid)
    assert p.ask("check")["wrong"] == 0


@device(*ROOMY)
def test_refusals(s):
    def refused(text, *args, code=1):
        done = s.rubato(*args, code=code)
        assert text in done.stderr and len(done.stderr.splitlines()) == 1, done
    p = Parkclient(s, 2)
    refused("is not parked", "unpark", p.pid)
    s.rubato("park", p.pid)
    refused("is parked already", "park", p.pid)
    s.rubato("unpark", p.pid)
    refused("does not use a GPU", "park", s.device_server.pid, code=3)
    refused("no such process", "park", 4194300, code=3)
    refused("no such process", "unpark", 4194300, code=3)
    refused("cannot park itself", "park", os.getpid(), code=2)
    refused("not a process id", "park", "x", code=2)
    refused("no process", "park", code=2)
    p.kill(signal.SIGSTOP)
    refused("stopped or frozen", "park", p.pid)
    refused("stopped or frozen", "unpark", p.pid)
    p.kill(signal.SIGCONT)
    managed = Parkclient(s, 1, more=["--managed", 64])
    refused("managed memory", "park", managed.pid)
    ranks = [Parkclient(s, 1, "--group", "job") for _ in range(2)]
    refused("name all its ranks", "park", ranks[0].pid)
    s.rubato("park", *[r.pid for r in ranks])
    assert [checkpoint(s, r.pid, "state") for r in ranks] == [[CHECKPOINTED]] * 2
    s.rubato("unpark", ranks[1].pid)
    eventually("both come back", lambda: [checkpoint(s, r.pid, "state") for r in ranks] == [[RUNNING]] * 2)
    assert all(r.ask("check")["wrong"] == 0 for r in ranks)


@device(*ROOMY)
def test_a_shared_memory_limit(s):
    """No process of the same run can use up the limit while the other one is away."""
    p = Parkclient(s, 1, "--memory", "1G")
    s.rubato("park", p.pid)
    s.rubato("unpark", p.pid)
    with open(f"/proc/{p.pid}/environ") as f:
        inherited = dict(line.split("=", 1) for line in f.read().split("\0") if "=" in line)
    mine, s.env = s.env, inherited
    q = Parkclient(s, 1)
    s.env = mine
    eventually("both are known", lambda: {p.pid, q.pid} <= set(s.ps()))
    counted = s.ps()[q.pid]["memory_run_bytes"]
    s.rubato("park", p.pid)
    assert s.ps()[q.pid]["memory_run_bytes"] == counted, "it stays charged"
    assert q.ask("reserve 1024")["result"] != 0
    s.rubato("unpark", p.pid)
    assert p.ask("check")["wrong"] == 0
    assert s.ps()[q.pid]["memory_run_bytes"] == counted


def unfrozen_cgroup():
    """A new cgroup (version 2) that can be frozen, or None."""
    with open("/proc/self/cgroup") as f:
        lines = f.read().splitlines()
    path = next((line[3:] for line in lines if line.startswith("0::")), None)
    folder = f"/sys/fs/cgroup{path}/rubato-test-{os.getpid()}" if path else None
    try:
        os.mkdir(folder)
    except (OSError, TypeError):
        return None
    if os.path.exists(os.path.join(folder, "cgroup.freeze")):
        return folder
    os.rmdir(folder)
    return None


def write(folder, name, text):
    with open(os.path.join(folder, name), "w") as f:
        f.write(str(text))


@device(*ROOMY)
def test_a_frozen_program_is_refused(s):
    folder = unfrozen_cgroup()
    if folder is None:
        print("skipped: no cgroup of version 2 can be made here, so none can be frozen")
        return
    p = Parkclient(s, 1, "--class", "normal")
    try:
        write(folder, "cgroup.procs", p.pid)
        write(folder, "cgroup.freeze", 1)
        for what in "park", "unpark":
            done = s.rubato(what, p.pid, code=1)
            assert "is stopped or frozen" in done.stderr and len(done.stderr.splitlines()) == 1, done
        write(folder, "cgroup.freeze", 0)
        s.rubato("park", p.pid)
        s.rubato("unpark", p.pid)
        assert p.ask("check")["wrong"] == 0
    finally:
        write(folder, "cgroup.freeze", 0)
        p.end()
        eventually("the cgroup is empty", lambda: not open(os.path.join(folder, "cgroup.procs")).read())
        os.rmdir(folder)


def host_mib():
    with open("/proc/meminfo") as f:
        return int(f.readline().split()[1]) >> 10


@device("--mem", str(host_mib() + 4096))
def test_more_than_the_host_has(s):
    p = Parkclient(s, 1)
    assert p.ask(f"reserve {host_mib() + 1024}")["result"] == 0
    done = s.rubato("park", p.pid, code=1)
    assert "of host memory are available" in done.stderr and len(done.stderr.splitlines()) == 1, done
    assert checkpoint(s, p.pid, "state") == [RUNNING]


@device(*ROOMY)
def test_another_users_program(s):
    if os.geteuid() != 0:
        return  # only root can become another user
    p = Parkclient(s, 1)
    os.chmod(s.dir, 0o777)
    for what in "park", "unpark":
        done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", *s.inside([binary("rubato"), what, str(p.pid)])],
                              env=dict(s.env, RUBATO_RUNTIME_DIR=os.path.join(s.dir, "other")), capture_output=True, text=True)
        assert done.returncode == 4 and len(done.stderr.splitlines()) == 1, done
    assert checkpoint(s, p.pid, "state") == [RUNNING]


@device("--driver", "575.57.08", *ROOMY)
def test_other_drivers_need_force(s):
    p = Parkclient(s, 1)
    done = s.rubato("park", p.pid, code=1)
    assert "580 only" in done.stderr and "--force" in done.stderr, done
    s.rubato("park", "--force", p.pid)
    s.rubato("unpark", p.pid)
    assert p.ask("check")["wrong"] == 0


@device(*ROOMY)
def test_messages_are_checked(s):
    p = Parkclient(s, 1, "--class", "normal")
    pids = struct.pack("<64i", p.pid, *[0] * 63)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.connect(os.path.join(s.run_dir, "control.sock"))
        for n, rest in ((0, pids), (65, pids), (2**32 - 1, pids), (1, pids[:8]), (1, pids + b"1234")):
            sock.send(struct.pack("<IIIIQ", MAGIC, PARK, 0, n, 0) + rest)
            answer = sock.recv(65536)
            assert struct.unpack_from("<IIi", answer)[2] == -errno.EBADMSG, (n, len(rest), answer)
        sock.send(struct.pack("<IIiI", MAGIC, PARK + 1, -1, 0))
        assert struct.unpack_from("<IIiIi", sock.recv(65536))[2:] == (-1, 0, -errno.ESRCH)
    assert state(s, p.pid) == "running"


@device(*ROOMY)
def test_progress_is_shown_on_a_terminal(s):
    p = Parkclient(s, 20)
    s.softgpu("fault", "--process", "checkpoint", "--delay-us", 1500000)
    done = subprocess.run(["script", "-qec", " ".join(s.inside([binary("rubato"), "park", str(p.pid)])), "/dev/null"], env=s.env,
                          capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == 0 and " of 0.0 GB" in done.stdout and "parked, 0.0 GB in" in done.stdout, done


@device(*ROOMY)
def test_a_busy_program_is_left_running(s):
    if not LONG:
        return  # a lock waits for ten seconds
    p = Parkclient(s, 1, "--class", "normal")
    p.ask("spin 400000000")
    done = s.rubato("park", p.pid, code=1, timeout=60)
    assert "did not end within 10 s" in done.stderr, done
    assert checkpoint(s, p.pid, "state") == [RUNNING] and state(s, p.pid) == "running"


if __name__ == "__main__":
    harness.main()
