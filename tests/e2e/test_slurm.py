# SPDX-License-Identifier: Apache-2.0
"""Slurm's plugin, under real slurmctld and slurmd: classes, limits, ranks, and what is killed."""
import os
import re
import signal
import subprocess

import slurm
from harness import BUILD, HERE, LONG, Program, alive, binary, eventually, main, measured, skip
from test_system import NOBODY, Machine

PLUGIN = os.path.join(BUILD, "integrations/slurm/rubato_spank.so")
REASON = slurm.missing() or (None if os.path.exists(PLUGIN) else "Slurm's header was not there when this was built (libslurm-dev)")
if REASON:
    skip(REASON)
SHARD = "--gres=shard:1"


def line(*args, plugin=PLUGIN):
    return " ".join(["optional", plugin, f"rubato={binary('rubato')}", *args]) + "\n"


class Cluster(slurm.Slurm):
    """One node, whose jobs run in the session. Ends with the block."""

    def __init__(self, s, *args, plugstack=None):
        self.s = s
        super().__init__(s.dir, s.env, plugstack or line(*args), s.inside)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def srun(self, *argv, code=0):
        done = self.client("srun", *argv)
        assert code is None or done.returncode == code, (argv, done.returncode, done.stdout, done.stderr)
        return done

    def program(self, *options):
        """rmclient as a job; its number is in `job`."""
        before = {p for p in self.jobs()}
        p = Program(self.s, ["env", f"SLURM_CONF={self.env['SLURM_CONF']}", "srun", "--unbuffered", SHARD, *options,
                             binary("rmclient")])
        self.s.programs.append(p)
        p.job = (set(self.jobs()) - before).pop()
        return p

    def jobs(self):
        return self.client("squeue", "-h", "-o", "%i").stdout.split()

    def pid_file(self, name):
        with open(os.path.join(self.dir, name + ".pid")) as f:
            return int(f.read())


def test_two_jobs_share_a_gpu(s):
    """One is cancelled: the other has the GPU as before. Slurm's cgroups tell which job a program belongs to."""
    with Cluster(s) as c:
        low, high = c.program("--gpu-class=best-effort"), c.program("--gpu-class=latency")
        eventually("1 us", lambda: s.slices(low.pid) == [1])
        rows = s.ps()
        assert [rows[p.pid]["class"] for p in (low, high)] == ["best-effort", "latency"], rows
        assert [rows[p.pid]["group"] for p in (low, high)] == [f"slurm:{p.job}.0" for p in (low, high)], rows
        assert not rows[low.pid]["attached"]
        if c.has_cgroups:
            assert [rows[p.pid]["slurm_job"] for p in (low, high)] == [low.job, high.job], rows
            assert f"Slurm job: {low.job}\n" in s.rubato("ps").stdout
        else:
            print("     no cgroups here: the job's number comes from one")
        # With cgroups, Slurm kills the daemon as well: it was started in the first job.
        c.client("scancel", low.job)
        eventually("it is gone", lambda: not alive(low.pid) and low.pid not in s.ps())
        eventually("managed", lambda: high.ask("slice") and s.ps()[high.pid].get("class") == "latency")
        assert s.is_default(high.pid)


def test_a_job_that_is_requeued(s):
    with Cluster(s) as c:
        job = c.batch(f"exec {binary('rmclient')} --for 300\n", "--requeue", "--gpu-class=best-effort", SHARD)

        def pid():
            found = [p for p, row in s.ps().items() if row["managed"] and row["class"] == "best-effort"]
            return found[0] if found else None

        first = eventually("it runs", pid)
        eventually("1 us", lambda: s.slices(first) == [1])
        assert c.client("scontrol", "requeue", job).returncode == 0
        eventually("it has ended", lambda: not alive(first))
        # Slurm waits for two minutes before it runs a requeued job again, unless it is told otherwise.
        eventually("it waits", lambda: c.state(job) == "PENDING" and
                   c.client("scontrol", "update", f"JobId={job}", "StartTime=now").returncode == 0)
        second = eventually("it runs again", lambda: pid() not in (None, first) and pid())
        eventually("1 us again", lambda: s.slices(second) == [1])
        c.client("scancel", job)
        eventually("it is gone", lambda: not alive(second))


def test_slurmd_is_killed(s):
    """Its jobs go on under Rubato, and the next slurmd finds them."""
    with Cluster(s) as c:
        p = c.program("--gpu-class=best-effort")
        eventually("1 us", lambda: s.slices(p.pid) == [1])
        os.kill(c.pid_file("slurmd"), signal.SIGKILL)
        c.slurmd.wait(20)
        neighbour = s.run("--class", "latency")
        eventually("both are managed", lambda: all(s.ps().get(pid, {}).get("managed") for pid in (p.pid, neighbour.pid)))
        assert p.ask("slice") and s.slices(p.pid) == [1]
        c.start_slurmd()
        assert c.state(p.job) == "RUNNING"
        c.client("scancel", p.job)
        eventually("it is gone", lambda: not alive(p.pid))
        eventually("alone", lambda: p.pid not in s.ps() and s.is_default(neighbour.pid))


def test_a_job_of_another_user(s):
    """The machine's daemon knows it as that user's, who may lower it and not raise it."""
    m = Machine(s)
    with Cluster(s) as c:
        for wanted, given in ("best-effort", "best-effort"), ("latency", "normal"):
            p = c.program(f"--uid={NOBODY}", f"--gpu-class={wanted}")
            row = eventually("managed", lambda: s.ps().get(p.pid, {}).get("managed") and s.ps()[p.pid])
            assert (row["uid"], row["class"]) == (NOBODY, given), row
            assert m.pids() == [m.pid]
            p.end()


def test_ranks_of_a_step_are_a_group(s):
    with Cluster(s) as c:
        p = Program(s, ["env", f"SLURM_CONF={c.env['SLURM_CONF']}", "srun", "--unbuffered", "-n2", "--gpu-class=best-effort",
                        binary("rmclient")])
        s.programs.append(p)
        rows = eventually("two ranks", lambda: len(s.ps()) == 2 and s.ps())
        assert len({row["group"] for row in rows.values()}) == 1, rows
        assert all(row["group"].startswith("slurm:") for row in rows.values()), rows


def test_limits_of_partitions(s):
    show = "sh", "-c", "echo $RUBATO_TREAT"
    s.run()  # keeps the daemon, which the first job would have started otherwise
    with Cluster(s, "memory=200M", "batch:max-class=best-effort", "batch:max-memory=100M") as c:
        def treat(*options):
            return c.srun(*options, *show).stdout.strip()

        assert treat() == "memory=200M"
        assert treat("--gpu-class=latency", "--gpu-memory=250M") == "priority=13,memory=250M"
        assert treat("-p", "batch") == "priority=2,memory=100M"
        assert treat("-p", "batch", "--gpu-memory=50M") == "priority=2,memory=50M"
        done = c.srun("-p", "batch", "--gpu-class=latency", "--gpu-memory=250M", *show)
        assert done.stdout.strip() == "priority=2,memory=100M", done
        assert "partition batch allows at most class best-effort, memory 100M" in done.stderr, done.stderr
        ranks = c.srun("-n2", "--gpu-memory=100M", "sh", "-c", "echo slurm-$SLURM_JOB_ID $RUBATO_RUN").stdout.splitlines()
        assert len(ranks) == 2 and all(len(set(line.split())) == 1 for line in ranks), f"they share the limit: {ranks}"
        # A step has the options of its batch job, unless it says otherwise.
        job = c.batch("srun sh -c 'echo step $RUBATO_TREAT'\nsrun --gpu-class=normal sh -c 'echo other $RUBATO_TREAT'\n",
                      "--gpu-class=best-effort", "--wait")
        assert c.output(job) == "step priority=2,memory=200M\nother priority=8,memory=200M\n", c.output(job)


def test_wrong_options(s):
    with Cluster(s) as c:
        done = c.srun("--gpu-class=best", "true", code=None)
        assert done.returncode != 0 and "no such class: best; there are latency, normal, best-effort" in done.stderr
        done = c.srun("--gpu-memory=20X", "true", code=None)
        assert done.returncode != 0 and "memory is a size" in done.stderr and "not 20X" in done.stderr
        assert c.srun("sh", "-c", "echo $RUBATO_TREAT").stdout == "\n", "a job that asks for nothing is left alone"


def test_a_broken_line_stops_no_job(s):
    hanging = os.path.join(s.dir, "hanging")
    with open(hanging, "w") as f:
        f.write("#!/bin/sh\nexec sleep 1000\n")
    os.chmod(hanging, 0o755)
    with Cluster(s, "max-clas=normal", "class=best", "all:", "=") as c:
        assert c.srun("echo", "fine").stdout == "fine\n"
        log = c.log("slurmd")
        assert "plugstack.conf: max-clas=normal: an argument is" in log, log
        assert "plugstack.conf: class=best: no such class" in log, log

        def broken(text, said, options=("--gpu-class=best-effort",)):
            c.write("plugstack.conf", text)
            done = c.srun(*options, "echo", "fine")
            assert done.stdout == "fine\n" and said in done.stderr, done
            return done.stderr

        for path, said in (("/nonexistent/rubato", "not found (status 127)"), ("/bin/false", "it failed (status 1)"),
                           (s.dir, "it failed (status 126)"), (hanging, "Connection timed out"))[:4 if LONG else 3]:
            text = broken(f"optional {PLUGIN} rubato={path}\n", f"rubato: {path} run: {said}: the task runs without Rubato")
            assert text.count("rubato:") == 1, text
        broken("optional /nonexistent/rubato_spank.so\n", "cannot open shared object file", options=())


@measured
def test_the_demo_as_jobs(s):
    if not LONG:
        return print("     only in ./dev test --long")
    done = subprocess.run([os.path.join(HERE, "../../tools/demo"), BUILD, "slurm"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
    p90 = {name: float(re.findall(rf"^  {name} +#+ +\S+ +(\S+)", done.stdout, re.M)[-1]) for name in ("as they are", "under Rubato")}
    assert p90["under Rubato"] < p90["as they are"] / 2, p90


main()
