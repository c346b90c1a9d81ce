# SPDX-License-Identifier: Apache-2.0
"""`rubato run`: classes reach the device; programs are themselves; short slices never meet."""
import os
import threading
import time

from harness import binary, device, eventually, main


def test_best_effort_gets_a_short_slice(s):
    p = s.run("--class", "best-effort")
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    eventually("its copy tasks, too", lambda: s.slices(p.pid, "copy") == [1] * 3)
    row = s.ps()[p.pid]
    assert (row["class"], row["priority"], row["state"]) == ("best-effort", 2, "running")
    compute = [t for t in row["tasks"] if t["kind"] == "compute"]
    assert compute[0]["timeslice_us"] == 1 and compute[0]["own_timeslice_us"] == 2048
    assert compute[0]["runlist"] is not None and compute[0]["id"] is not None and compute[0]["gpu"] == 0


def test_normal_and_latency_keep_the_drivers_slice(s):
    for option in ("normal", "latency"):
        p = s.run("--class", option)
        eventually("known to the daemon", lambda: p.pid in s.ps())
        assert s.is_default(p.pid)
        assert s.ps()[p.pid]["class"] == option


def test_priorities_are_monotone(s):
    last = 0
    for priority in range(16):
        p = s.run("--priority", priority)
        eventually("known to the daemon", lambda: p.pid in s.ps() and s.ps()[p.pid]["tasks"])
        wanted = s.ps()[p.pid]["wanted_timeslice_us"] or 2048
        eventually(f"priority {priority}", lambda: s.slices(p.pid) == [wanted])
        assert wanted >= last
        last = wanted
        p.end()


def test_exact_timeslice(s):
    p = s.run("--timeslice-us", 333)
    eventually("333 us", lambda: s.slices(p.pid) == [333])
    q = s.run("--timeslice-us", 5000)
    eventually("longer needs nobody's leave", lambda: s.slices(q.pid) == [5000])
    assert s.slices(p.pid) == [333]


def test_two_best_effort_programs_never_meet(s):
    a = s.run("--class", "best-effort")
    eventually("alone: 1 us", lambda: s.slices(a.pid) == [1])
    b = s.run("--class", "best-effort")
    eventually("both short", lambda: s.slices(a.pid) == [1] and s.slices(b.pid) == [1])
    assert all(len(s.short()) <= 1 and s.crowded() == [] for _ in range(20)), "but only one may run"
    assert not s.ps()[a.pid]["held_back"] and s.ps()[b.pid]["note"] == ""
    a.kill()
    eventually("the one left has it all", lambda: s.short() == [b.pid])


def test_contexts_made_later(s):
    p = s.run("--class", "best-effort")
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    p.ask("more")
    eventually("two contexts would thrash: both at their own", lambda: s.slices(p.pid) == [2048, 2048])
    p.ask("free")
    eventually("one again", lambda: s.slices(p.pid) == [1])


def test_what_is_being_set_up_is_left_alone(s):
    """A task that is taken off between its scheduling and its first slice may never run on a real device."""
    a = s.run("--class", "best-effort")
    eventually("1 us", lambda: s.slices(a.pid) == [1])
    started = []
    starter = threading.Thread(target=lambda: started.append(s.run("--class", "best-effort",
                                                                   args=["--setup-ms", 900])))
    end = time.monotonic() + 0.9  # before it has begun: what is seen until then is seen in time
    starter.start()
    others = lambda: [t for t in s.state()["tsgs"] if t["pid"] != a.pid and t["engine"] == "compute"]
    while (tasks := others()) is not None and time.monotonic() < end:
        assert all((t["suspends"], t["timeslice_us"]) == (0, 1024) for t in tasks if t["scheduled"]), tasks
    starter.join()
    eventually("turns", lambda: s.tasks(started[0].pid)[0]["suspends"] > 1)


def test_two_schedulers_on_one_gpu(s):
    """Of two daemons one has the lock; the other's mark tells it that it has company."""
    a = s.run("--class", "best-effort")
    eventually("1 us", lambda: s.slices(a.pid) == [1])
    other = s.run_dir + "-other"
    b = s.program(under=["env", "RUBATO_RUNTIME_DIR=" + other, binary("rubato"), "run", "--class", "best-effort", "--"])
    eventually("both at their own", lambda: s.slices(a.pid) == [2048] and s.slices(b.pid) == [2048])
    assert "another scheduler" in s.ps()[a.pid]["note"]
    b.kill()
    eventually("alone again", lambda: s.slices(a.pid) == [1])


def test_a_program_alone_beside_a_daemon(s):
    a = s.run("--class", "best-effort")
    eventually("1 us", lambda: s.slices(a.pid) == [1])
    b = s.run("--class", "best-effort", "--no-daemon")
    eventually("noticed", lambda: s.slices(a.pid) == [2048] and s.slices(b.pid) == [2048])
    b.end()
    eventually("alone again", lambda: s.slices(a.pid) == [1])


@device("--gpus", "2")
def test_gpus_are_separate(s):
    a = s.run("--class", "best-effort", args=["--gpu", 0])
    b = s.run("--class", "best-effort", args=["--gpu", 1])
    eventually("both short", lambda: s.slices(a.pid) == [1] and s.slices(b.pid) == [1])
    assert s.ps()[b.pid]["tasks"][0]["gpu"] == 1


def test_without_a_daemon(s):
    """Alone nobody can take a short slice back when company comes: it stays at 1000 us."""
    a = s.run("--class", "best-effort", "--no-daemon")
    eventually("1000 us", lambda: s.slices(a.pid) == [1000])
    assert not s.processes("rubatod")
    b = s.run("--class", "best-effort", "--no-daemon")
    assert s.slices(b.pid) == [2048] and s.slices(a.pid) == [1000]
    # A daemon sees that the GPU is somebody's.
    c = s.run("--class", "best-effort")
    eventually("noticed", lambda: s.ps().get(c.pid, {}).get("held_back"))
    assert s.slices(c.pid) == [2048] and "holds this GPU" in s.ps()[c.pid]["note"]
    a.kill()
    # The lock died with its holder. Either of the two may take it next; the daemon, if it is that, minds the mark that
    # the other has left.
    for _ in range(10):
        assert 2048 in s.slices(b.pid) + s.slices(c.pid)
        time.sleep(0.1)
    b.end()
    eventually("alone", lambda: s.slices(c.pid) == [1])


def test_old_allocation_form_and_threads(s):
    p = s.run("--class", "best-effort", args=["--old-alloc"])
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    q = s.run("--class", "normal", args=["--threads", "--contexts", 2])
    eventually("four tasks a context", lambda: len(s.ps()[q.pid]["tasks"]) == 8)
    tids = {t["thread"] for t in s.ps()[q.pid]["tasks"]}
    assert len(tids) == 2 and None not in tids


def test_fork_and_exec(s):
    p = s.run("--class", "best-effort", args=["--fork"])
    eventually("two programs", lambda: sum(r["managed"] for r in s.ps().values()) == 2)
    p.end()
    q = s.run("--class", "best-effort", args=["--exec"])
    eventually("known", lambda: q.pid in s.ps() and s.ps()[q.pid]["tasks"])
    q.say("go")
    eventually("forgotten after exec", lambda: not s.ps().get(q.pid, {}).get("tasks"))
    eventually("its device memory is free", lambda: not s.tasks(q.pid))


def test_exit_codes_and_environment(s):
    assert s.command(binary("rubato"), "run", "--", "sh", "-c", "exit 42").returncode == 42
    assert s.command(binary("rubato"), "run", "--", "sh", "-c", "kill -9 $$").returncode == 128 + 9
    done = s.rubato("run", "--", "no-such-command-here", code=127)
    assert done.stderr.count("\n") == 1 and "no-such-command-here" in done.stderr
    s.rubato("run", "--", "/etc/passwd", code=126)
    s.rubato("run", "--", "/", code=126)
    script = os.path.join(s.dir, "script")
    with open(script, "w") as f:
        f.write("exit 9\n")
    os.chmod(script, 0o755)
    s.rubato("run", "--", script, code=9)
    done = s.command(binary("rubato"), "run", "--class", "latency", "--", "sh", "-c", "echo $$; echo $LD_PRELOAD $1", "x", "-c")
    assert "librubato.so" in done.stdout and done.stdout.endswith("-c\n") and done.stderr == ""


def test_no_extra_process(s):
    """As with nice: the program takes rubato's place, pid and all."""
    p = s.run("--class", "best-effort")
    with open(f"/proc/{p.pid}/comm") as f:
        assert f.read().strip() == "rmclient"
    assert not s.processes("rubato")


def test_who_has_ended_is_not_spoken_of(s):
    """The daemon may hear of a short program when that is over: no news for anybody."""
    for _ in range(40):
        s.rubato("run", "--", "true")
    p = s.run("--class", "best-effort")  # by now all of them have been heard
    eventually("managed", lambda: s.slices(p.pid) == [1])
    assert "cut off" not in s.log(), s.log()


def test_daemon_that_cannot_start(s):
    os.makedirs(s.run_dir, exist_ok=True)
    os.rmdir(s.run_dir)
    with open(s.run_dir, "w"):
        pass
    done = s.command(binary("rubato"), "run", "--class", "best-effort", "--", "echo", "fine")
    assert done.returncode == 0 and done.stdout == "fine\n" and done.stderr.count("\n") == 1, done.stderr


def test_other_preloaded_libraries_are_called(s):
    """What a program brings along has an ioctl() too: it must still see every call, and so must the shim."""
    counted = os.path.join(s.dir, "count")
    p = s.program(under=["env", "LD_PRELOAD=" + binary("ioctl_count.so"), "IOCTL_COUNT=" + counted,
                         binary("rubato"), "run", "--class", "best-effort", "--"])
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    with open(counted) as f:
        assert int(f.read()) > 30


def test_unmanaged_preload_does_nothing(s):
    p = s.program(under=["env", "LD_PRELOAD=" + binary("librubato.so")])
    assert s.is_default(p.pid) and not s.processes("rubatod")


@device("--driver", "999.10")
def test_force_on_an_unknown_driver(s):
    s.softgpu("fault", "--cmd", "a06c0103", "--size", "any")  # its trial fails
    p = s.run("--class", "best-effort", "--force")
    eventually("forced", lambda: s.slices(p.pid) == [1])
    q = s.program()
    done = s.rubato("renice", q.pid, "--class", "best-effort", code=1)
    assert "--force" in done.stderr and done.stderr.count("\n") == 1
    assert s.is_default(q.pid)
    p.end()
    s.rubato("renice", q.pid, "--class", "best-effort", "--force")
    eventually("forced", lambda: s.slices(q.pid) == [1])


@device("--driver", "550.54.15")
def test_older_driver(s):
    p = s.run("--class", "best-effort")
    eventually("1 us", lambda: s.slices(p.pid) == [1])
    s.rubato("suspend", p.pid)
    assert s.is_suspended(p.pid)


main()
