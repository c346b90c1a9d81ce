# SPDX-License-Identifier: Apache-2.0
"""Virtual machines with Debian's kernels, for tests that need a kernel of their own.

find_kernel() downloads a kernel and keeps the needed parts in $XDG_CACHE_HOME/rubato/kernels; nothing is installed.
boot() runs a machine from an initramfs to its end, on one emulated CPU; the guest writes its results to the second
serial line. Machine keeps one running, and runs shell commands in it.
"""
import lzma
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

MIRROR = os.environ.get("RUBATO_DEBIAN_MIRROR", "http://deb.debian.org/debian")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SYSTEM = "system"
QEMU = "qemu-system-x86_64"
BOOT_TIMEOUT_S = 1200
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "rubato",
                     "kernels")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def apt(suite, *args, **kwargs):
    """apt with a root of its own: the system's lists and packages are not touched. SYSTEM: with the system's sources."""
    root = os.path.join(CACHE, "apt", suite)
    for below in ("etc/apt/preferences.d", "state/lists/partial", "cache/archives/partial", "log"):
        os.makedirs(os.path.join(root, below), exist_ok=True)
    options = {"Dir::State": f"{root}/state", "Dir::State::status": "/dev/null",
               "Dir::Cache": f"{root}/cache", "Dir::Log": f"{root}/log",
               "APT::Architecture": "amd64", "APT::Architectures": "amd64",
               "APT::Sandbox::User": "", "Acquire::Languages": "none", "Acquire::Retries": "2"}
    if suite != SYSTEM:
        with open(os.path.join(root, "etc/apt/sources.list"), "w") as f:
            f.write(f"deb [arch=amd64 signed-by={KEYRING}] {MIRROR} {suite} main\n")
        options.update({"Dir::Etc": f"{root}/etc/apt", "Dir::Etc::SourceList": f"{root}/etc/apt/sources.list",
                        "Dir::Etc::SourceParts": "/dev/null", "Dir::Etc::Parts": "/dev/null"})
    command = [args[0]] + [f"-o{k}={v}" for k, v in options.items()] + list(args[1:])
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=900, **kwargs)


def depends(suite, package):
    out = apt(suite, "apt-cache", "depends", "--important", "--no-recommends", package).stdout
    return re.findall(r"Depends: <?([a-z0-9.+-]+)", out.decode())


def images(suite, series):
    """The suite's kernels of that series, or its newest one."""
    if not series:
        return [p for p in depends(suite, "linux-image-amd64") if p.startswith("linux-image-")]
    out = apt(suite, "apt-cache", "pkgnames", f"linux-image-{series}.").stdout.decode().split()
    found = [p for p in out if re.fullmatch(r"linux-image-[0-9.]+[+0-9a-z.]*-amd64", p)]
    return sorted(found, key=lambda p: [int(n) for n in re.findall(r"\d+", p)])[-1:]


def kernel_packages(suite, series):
    """The packages that a kernel is made of: one, or from 7.0 on its parts."""
    image = images(suite, series)
    if not image:
        return []
    parts = [p for p in depends(suite, image[0]) if re.match(r"linux-(binary|modules)-\d", p)]
    return image + parts


def find_kernel(what):
    """The directory with amdgpu and the kernel SUITE or SUITE/SERIES, or None."""
    suite, _, series = what.partition("/")
    if apt(suite, "apt-get", "update").returncode != 0:
        print(f"{suite}: no package lists from {MIRROR}")
        return None
    packages = kernel_packages(suite, series)
    if not packages:
        print(f"{what}: no such linux-image")
        return None
    return keep(suite, packages, ["amdgpu"])


def find_release(release, modules):
    """The directory with these modules and the kernel of that release, from the system's own sources; or None."""
    package = f"linux-image-{release}"
    if os.path.isdir(where(package)):
        return where(package)
    if apt(SYSTEM, "apt-get", "update").returncode != 0:
        print("apt-get update failed with the system's sources")
        return None
    return keep(SYSTEM, [package], modules)


def where(package):
    return os.path.join(CACHE, package)


def keep(suite, packages, modules):
    """Downloads and unpacks the packages unless that has been done; returns the directory, or None."""
    kept = where(packages[0])
    if os.path.isdir(kept):
        return kept
    with tempfile.TemporaryDirectory(dir=CACHE) as tmp:
        done = apt(suite, "apt-get", "download", *packages, cwd=tmp)
        if done.returncode != 0:
            print(f"{suite}: cannot download {' '.join(packages)}: {done.stdout.decode()[-300:]}")
            return None
        unpacked = os.path.join(tmp, "unpacked")
        for name in os.listdir(tmp):
            if name.endswith(".deb"):
                subprocess.run(["dpkg", "-x", os.path.join(tmp, name), unpacked], check=True)
        new = os.path.join(tmp, "kept")
        keep_needed(unpacked, new, modules)
        try:
            os.rename(new, kept)
        except OSError:
            assert os.path.isdir(kept)  # another test was faster
    return kept


def find_file(root, wanted):
    for path, _, names in os.walk(root):
        for name in names:
            if re.fullmatch(wanted, name):
                yield os.path.join(path, name)


def read_module(path):
    with open(path, "rb") as f:
        data = f.read()
    return lzma.decompress(data) if path.endswith(".xz") else data


def modules_for(root, names):
    """The modules and all that they need, each after what it needs itself: [(name, bytes)]."""
    files = {}
    for path in find_file(root, r".*\.ko(\.xz)?"):
        files[re.sub(r"\.ko(\.xz)?$", "", os.path.basename(path)).replace("-", "_")] = path
    order, seen = [], set()

    def visit(module):
        module = module.replace("-", "_")
        if module in seen or module not in files:
            return  # built in
        seen.add(module)
        data = read_module(files[module])
        found = re.search(rb"\0depends=([^\0]*)\0", data)
        for needed in found.group(1).decode().split(",") if found else []:
            if needed:
                visit(needed)
        order.append((module, data))

    for name in names:
        visit(name)
    return order


def keep_needed(unpacked, new, modules):
    """A tenth of the package: the kernel, the modules, and their order."""
    os.mkdir(new)
    shutil.copy(next(find_file(unpacked, r"vmlinuz.*")), os.path.join(new, "vmlinuz"))
    found = modules_for(unpacked, modules)
    for name, data in found:
        with open(os.path.join(new, name + ".ko"), "wb") as f:
            f.write(data)
    with open(os.path.join(new, "order"), "w") as f:
        f.write("".join(f"/modules/{name}.ko\n" for name, _ in found))


def module_files(kernel):
    """The kernel's modules and their order, as files of an initramfs."""
    files = []
    for name in sorted(os.listdir(kernel)):
        if name != "vmlinuz":
            with open(os.path.join(kernel, name), "rb") as f:
                files.append((f"modules/{name}", f.read(), 0o100644))
    return files


def cpio_entry(name, data=b"", mode=0o100755):
    entry = name.encode() + b"\0"
    header = "070701" + "".join(f"{v:08x}" for v in (
        0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(entry), 0))
    out = header.encode() + entry
    out += b"\0" * (-len(out) % 4) + data
    return out + b"\0" * (-len(out) % 4)


def write_initramfs(path, files):
    """files: [(name, bytes, mode)]; the first process is /init."""
    folders = {"proc", "sys", "dev", "tmp"}
    for name, _, _ in files:
        parts = name.split("/")[:-1]
        folders.update("/".join(parts[:n + 1]) for n in range(len(parts)))
    with open(path, "wb") as out:
        for folder in sorted(folders):
            out.write(cpio_entry(folder, mode=0o040755))
        for name, data, mode in files:
            out.write(cpio_entry(name, data, mode))
        out.write(cpio_entry("TRAILER!!!", mode=0))


def qemu(kernel, initrd, console, *more, memory_mib=1024, cpus=1, options=""):
    """The command line of a machine on emulated CPUs. /dev/kvm may exist where it does not work: it is not used.
    A busy host may not run the machine for so long that the kernel would find its timer broken. It ticks by the HPET, because
    the emulated timer of a CPU was seen to stop for good on a busy host (QEMU 7.2, two CPUs)."""
    return [QEMU, "-accel", "tcg", "-cpu", "max", "-smp", str(cpus), "-m", str(memory_mib),
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", os.path.join(kernel, "vmlinuz"), "-initrd", initrd,
            "-append", f"console=ttyS0 quiet panic=-1 oops=panic no_timer_check nolapic_timer {options}",
            "-serial", f"file:{console}", *more]


def boot(kernel, files, tmp, options="mitigations=off"):
    """Boots a machine with these files and options of the kernel; returns what it wrote, and the end of its console."""
    initrd, results, console = (os.path.join(tmp, n) for n in ("initrd", "results", "console"))
    write_initramfs(initrd, files)
    command = ["nice", "-n", "10"] + qemu(kernel, initrd, console, "-serial", f"file:{results}", options=options)
    try:
        subprocess.run(command, stdin=subprocess.DEVNULL, timeout=BOOT_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        print(f"the machine did not end within {BOOT_TIMEOUT_S} s")
    return read_serial(results).splitlines(), "\n".join(read_serial(console).splitlines()[-30:])


def read_serial(path):
    """What a guest wrote to a serial line, as far as it came."""
    if not os.path.exists(path):
        return ""
    with open(path, errors="replace") as f:
        return f.read().replace("\r", "")


# The first process of a Machine: a shell on the second serial line that says how each command ended. A busy guest may lose
# bytes of the line, so a command comes with its length.
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
ip link set lo up 2>/dev/null
while read -r module; do insmod $module; done </modules/order
exec </dev/ttyS1 >/dev/ttyS1 2>&1
stty raw -echo
echo ready
while read -r n line; do
    if [ "$n" = "${#line}" ]; then (eval "$line"); echo "end $?"; else echo "again"; fi
done
poweroff -f
"""
BUSYBOX = "/bin/busybox"
READY_S, COMMAND_S, TRIES = 300, 120, 50


class Machine:
    """A running machine. files: [(name, bytes, mode)], added to busybox and the kernel's modules."""

    def __init__(self, kernel, files, tmp, *qemu_options, memory_mib=256):
        with open(BUSYBOX, "rb") as f:
            files = [("init", INIT.encode(), 0o100755), ("bin/busybox", f.read(), 0o100755)] + files
        os.makedirs(tmp, exist_ok=True)
        self.console, initrd, shell = (os.path.join(tmp, name) for name in ("console", "initrd", "shell"))
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(shell)
        listener.listen(1)
        listener.settimeout(READY_S)
        write_initramfs(initrd, files + module_files(kernel))
        self.log = open(os.path.join(tmp, "qemu.log"), "w")
        # With one CPU the emulator leaves the guest's memory barriers out, and a device in another process misses doorbells.
        command = qemu(kernel, initrd, self.console, "-chardev", f"socket,id=shell,path={shell}",
                       "-serial", "chardev:shell", *qemu_options, memory_mib=memory_mib, cpus=2,
                       options="mitigations=off")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.shell, _ = listener.accept()
        listener.close()
        self.lines = self.shell.makefile("r", errors="replace", newline="\n")

    def wait_ready(self):
        self.read_until("ready", READY_S)

    def check(self, is_good, why):
        if not is_good or self.process.poll() is not None:
            raise AssertionError(f"{why}\n{read_serial(self.log.name)[-1500:]}\n"
                                 f"console:\n{read_serial(self.console)[-3000:]}")

    def read_until(self, begins, timeout_s):
        """The lines before the one that begins like this (or like one of these), and that one."""
        self.shell.settimeout(timeout_s)
        lines = []
        while True:
            try:
                line = self.lines.readline().replace("\r", "")
            except OSError:
                line = ""
            self.check(line, f"no {begins} within {timeout_s} s after {lines[-5:]}")
            if line.startswith(begins):
                return lines, line.rstrip("\n")
            lines.append(line.rstrip("\n"))

    def run(self, command, timeout_s=COMMAND_S):
        """Runs a shell command in the guest: (exit status, output)."""
        command = command.strip()  # as the guest's shell reads it
        for _ in range(TRIES):
            self.shell.sendall(f"{len(command)} {command}\n".encode())
            lines, end = self.read_until(("end ", "again"), timeout_s)
            if end != "again":
                return int(end.split()[1]), "\n".join(lines)
        raise AssertionError(f"the guest does not understand: {command}")

    def sh(self, command, timeout_s=COMMAND_S):
        """The same; it must succeed."""
        status, output = self.run(command, timeout_s)
        self.check(status == 0, f"'{command}' failed with {status}: {output}")
        return output

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for file in (self.lines, self.shell, self.log):
            file.close()


def section(lines, name):
    """What stands between "begin NAME" and "end NAME 0"; None when it did not come to its end."""
    if f"begin {name}" not in lines or f"end {name} 0" not in lines:
        return None
    return lines[lines.index(f"begin {name}") + 1:lines.index(f"end {name} 0")]


def cached_kernels():
    """The directories of kernels with amdgpu that are here already: {series: directory}."""
    found = {}
    for name in sorted(os.listdir(CACHE)):
        version = re.match(r"linux-image-(\d+\.\d+)", name)
        if version and "-cloud-" not in name:
            found[version.group(1)] = os.path.join(CACHE, name)
    return found


def require():
    """Ends the test if there can be no machine."""
    for tool in (QEMU, "apt-get", "dpkg"):
        if shutil.which(tool) is None:
            skip(f"{tool} is not installed")
    os.makedirs(CACHE, exist_ok=True)
