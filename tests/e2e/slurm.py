# SPDX-License-Identifier: Apache-2.0
"""A Slurm of one node: real slurmctld, slurmd and clients in a folder of their own, with Rubato's plugin.

Whoever starts it decides where its jobs run: inside a session of the software GPU, they use that.
"""
import glob
import os
import shutil
import signal
import socket
import subprocess
import time

PROGRAMS = "slurmctld", "slurmd", "srun", "sbatch", "scontrol", "scancel", "squeue", "sinfo"
FREEZER = "/sys/fs/cgroup/freezer"
CONF = """
ClusterName=rubato
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld}
SlurmdPort={slurmd}
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/{proctrack}
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
MailProg=/bin/true
SlurmUser=root
SlurmdUser=root
SlurmdParameters=config_overrides
StateSaveLocation={dir}/state
SlurmdSpoolDir={dir}/spool
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd.log
SlurmdTimeout=3000
KillWait=1
ReturnToService=2
SchedulerParameters=batch_sched_delay=1,sched_interval=1,sched_min_interval=1
GresTypes=gpu,shard
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PlugStackConfig={dir}/plugstack.conf
NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 CPUs=16 Gres=gpu:1,shard:8 State=UNKNOWN
PartitionName=all Nodes={node} Default=YES State=UP
PartitionName=batch Nodes={node} State=UP
"""


def missing():
    """Why there can be no Slurm here; None: there can."""
    if os.geteuid() != 0:
        return "only root can run jobs as any user"
    for name in PROGRAMS:
        if shutil.which(name) is None and not os.path.exists(f"/usr/sbin/{name}"):
            return f"{name} is not installed"
    return None


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def path_of(name):
    return shutil.which(name) or f"/usr/sbin/{name}"


def kill(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def descendants(pid):
    """Children and theirs, the innermost first."""
    children = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as f:
                children.setdefault(int(f.read().rsplit(b")", 1)[1].split()[1]), []).append(int(name))
        except (OSError, IndexError):
            pass
    found, todo = [], [pid]
    while todo:
        more = children.get(todo.pop(), [])
        todo += more
        found += more
    return found[::-1]


class Slurm:
    """inside(argv) gives the command line that runs argv where jobs are to run."""

    def __init__(self, folder, env, plugstack, inside=lambda argv: argv):
        self.dir, self.inside = os.path.join(folder, "slurm"), inside
        self.node = f"rubato{os.getpid()}"
        # As on a cluster, if this machine lets root make cgroups of version 1. (Version 2 needs systemd for that.)
        self.has_cgroups = os.access(FREEZER, os.W_OK) and os.path.exists(FREEZER + "/cgroup.procs")
        for name in ("state", "spool"):
            os.makedirs(os.path.join(self.dir, name), exist_ok=True)
        ctld, slurmd = free_ports(2)
        self.write("slurm.conf", CONF.format(host=socket.gethostname().split(".")[0], ctld=ctld, slurmd=slurmd, dir=self.dir,
                                             node=self.node, proctrack="cgroup" if self.has_cgroups else "linuxproc"))
        self.write("cgroup.conf", "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nCgroupMountpoint=/sys/fs/cgroup\n")
        # The software GPU answers open(2), but a file must be there for slurmd to look at.
        self.write("nvidia0", "")
        self.write("gres.conf", f"Name=gpu Count=1 File={self.dir}/nvidia0\nName=shard Count=8 File={self.dir}/nvidia0\n")
        self.write("plugstack.conf", plugstack)
        self.env = dict(env, SLURM_CONF=os.path.join(self.dir, "slurm.conf"))
        self.ctld = self.start("slurmctld")
        self.slurmd = None
        self.start_slurmd()

    def write(self, name, text):
        with open(os.path.join(self.dir, name), "w") as f:
            f.write(text)

    def start(self, name, *options):
        with open(os.path.join(self.dir, name + ".out"), "ab") as out:
            return subprocess.Popen(self.inside([path_of(name), "-D", *options]), env=self.env, stdin=subprocess.DEVNULL,
                                    stdout=out, stderr=out, start_new_session=True)

    def start_slurmd(self):
        self.slurmd = self.start("slurmd", "-N", self.node)
        end = time.monotonic() + 60
        while not self.client("sinfo", "-h", "-o", "%t").stdout.startswith(("idle", "mix", "alloc")):
            if time.monotonic() > end or self.ctld.poll() is not None or self.slurmd.poll() is not None:
                raise RuntimeError("Slurm does not start: " + self.log())
            time.sleep(0.05)

    def log(self, name="*"):
        texts = []
        for path in sorted(glob.glob(os.path.join(self.dir, name + ".log")) + glob.glob(os.path.join(self.dir, name + ".out"))):
            with open(path, errors="replace") as f:
                texts.append(f.read())
        return "".join(texts)

    def client(self, *argv, timeout=60):
        """Runs one of Slurm's commands; output and errors come back with it."""
        return subprocess.run(self.inside(list(map(str, argv))), env=self.env, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=timeout)

    def batch(self, script, *options):
        """Submits a script; returns the job's number."""
        path = os.path.join(self.dir, "job.sh")
        self.write("job.sh", "#!/bin/sh\n" + script)
        done = self.client("sbatch", "--parsable", "-o", os.path.join(self.dir, "job-%j.out"), *options, path)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    def output(self, job):
        try:
            with open(os.path.join(self.dir, f"job-{job}.out"), errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def state(self, job):
        """RUNNING, PENDING, COMPLETED and so on."""
        for word in self.client("scontrol", "-o", "show", "job", job).stdout.split():
            if word.startswith("JobState="):
                return word.split("=")[1]
        return None

    def stop(self):
        for state in ("PENDING", "RUNNING"):
            self.client("scancel", f"--state={state}")
        end = time.monotonic() + 20
        while self.client("squeue", "-h").stdout and time.monotonic() < end:
            time.sleep(0.05)
        for process in (self.slurmd, self.ctld):
            for pid in descendants(process.pid):
                kill(pid, signal.SIGKILL)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)
        self.remove_cgroups()

    def remove_cgroups(self):
        top = f"{FREEZER}/slurm_{self.node}"
        if not self.has_cgroups or not os.path.isdir(top):
            return
        for folder, _, _ in os.walk(top, topdown=False):
            self.remove_cgroup(folder)

    @staticmethod
    def remove_cgroup(folder):
        """Kills what is left in it: Slurm's own slurmstepd ends by itself, and what it leaves behind does not."""
        end = time.monotonic() + 20
        while time.monotonic() < end:
            try:
                with open(os.path.join(folder, "cgroup.procs")) as f:
                    for pid in map(int, f.read().split()):
                        kill(pid, signal.SIGKILL)
                os.rmdir(folder)
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.05)
