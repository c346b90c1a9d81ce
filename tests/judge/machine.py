# SPDX-License-Identifier: Apache-2.0
"""Virtual machines with Debian's kernels, for tests that need a kernel of their own.

Takes the kernels from the suites named, keeps what it needs of them in $XDG_CACHE_HOME/rubato/judge (nothing is installed),
and boots them on one emulated CPU from an initramfs. The guest writes its results to the second serial line.
"""
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile

MIRROR = os.environ.get("RUBATO_DEBIAN_MIRROR", "http://deb.debian.org/debian")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
QEMU = "qemu-system-x86_64"
BOOT_TIMEOUT_S = 1200
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "rubato",
                     "judge")


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def apt(suite, *args, **kwargs):
    """apt with a root of its own: the system's lists and packages are not touched."""
    root = os.path.join(CACHE, "apt", suite)
    for below in ("etc/apt/preferences.d", "state/lists/partial", "cache/archives/partial", "log"):
        os.makedirs(os.path.join(root, below), exist_ok=True)
    with open(os.path.join(root, "etc/apt/sources.list"), "w") as f:
        f.write(f"deb [arch=amd64 signed-by={KEYRING}] {MIRROR} {suite} main\n")
    options = {"Dir::Etc": f"{root}/etc/apt", "Dir::Etc::SourceList": f"{root}/etc/apt/sources.list",
               "Dir::Etc::SourceParts": "/dev/null", "Dir::Etc::Parts": "/dev/null",
               "Dir::State": f"{root}/state", "Dir::State::status": "/dev/null",
               "Dir::Cache": f"{root}/cache", "Dir::Log": f"{root}/log",
               "APT::Architecture": "amd64", "APT::Architectures": "amd64",
               "APT::Sandbox::User": "", "Acquire::Languages": "none", "Acquire::Retries": "2"}
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
    """The directory with what is needed of that kernel, or None."""
    suite, _, series = what.partition("/")
    if apt(suite, "apt-get", "update").returncode != 0:
        print(f"{suite}: no package lists from {MIRROR}")
        return None
    packages = kernel_packages(suite, series)
    if not packages:
        print(f"{what}: no such linux-image")
        return None
    where = os.path.join(CACHE, packages[0])
    if os.path.isdir(where):
        return where
    with tempfile.TemporaryDirectory(dir=CACHE) as tmp:
        done = apt(suite, "apt-get", "download", *packages, cwd=tmp)
        if done.returncode != 0:
            print(f"{suite}: cannot download {' '.join(packages)}: {done.stdout.decode()[-300:]}")
            return None
        unpacked = os.path.join(tmp, "unpacked")
        for name in os.listdir(tmp):
            if name.endswith(".deb"):
                subprocess.run(["dpkg", "-x", os.path.join(tmp, name), unpacked], check=True)
        kept = os.path.join(tmp, "kept")
        keep_needed(unpacked, kept)
        os.rename(kept, where)
    return where


def find_file(root, wanted):
    for path, _, names in os.walk(root):
        for name in names:
            if re.fullmatch(wanted, name):
                yield os.path.join(path, name)


def read_module(path):
    with open(path, "rb") as f:
        data = f.read()
    return lzma.decompress(data) if path.endswith(".xz") else data


def modules_for(root, name):
    """The module and all that it needs, each after what it needs itself: [(name, bytes)]."""
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

    visit(name)
    return order


def keep_needed(unpacked, where):
    """A tenth of the package: the kernel, the modules, and their order."""
    os.mkdir(where)
    shutil.copy(next(find_file(unpacked, r"vmlinuz.*")), os.path.join(where, "vmlinuz"))
    modules = modules_for(unpacked, "amdgpu")
    for name, data in modules:
        with open(os.path.join(where, name + ".ko"), "wb") as f:
            f.write(data)
    with open(os.path.join(where, "order"), "w") as f:
        f.write("".join(f"/modules/{name}.ko\n" for name, _ in modules))


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


def boot(kernel, files, tmp, options="mitigations=off"):
    """Boots a machine with these files and options of the kernel; returns what it wrote, and the end of its console."""
    initrd, results, console = (os.path.join(tmp, n) for n in ("initrd", "results", "console"))
    write_initramfs(initrd, files)
    command = ["nice", "-n", "10", QEMU, "-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", "1024",
               "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
               "-kernel", os.path.join(kernel, "vmlinuz"), "-initrd", initrd,
               "-append", f"console=ttyS0 quiet panic=-1 oops=panic {options}",
               "-serial", f"file:{console}", "-serial", f"file:{results}"]
    try:
        subprocess.run(command, stdin=subprocess.DEVNULL, timeout=BOOT_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        print(f"the machine did not end within {BOOT_TIMEOUT_S} s")
    text = [open(p, errors="replace").read().replace("\r", "") if os.path.exists(p) else ""
            for p in (results, console)]
    return text[0].splitlines(), "\n".join(text[1].splitlines()[-30:])


def section(lines, name):
    """What stands between "begin NAME" and "end NAME 0"; None when it did not come to its end."""
    if f"begin {name}" not in lines or f"end {name} 0" not in lines:
        return None
    return lines[lines.index(f"begin {name}") + 1:lines.index(f"end {name} 0")]


def cached_kernels():
    """The directories of kernels that are here already: {series: directory}."""
    found = {}
    for name in sorted(os.listdir(CACHE)):
        version = re.match(r"linux-image-(\d+\.\d+)", name)
        if version:
            found[version.group(1)] = os.path.join(CACHE, name)
    return found


def require():
    """Ends the test if there can be no machine."""
    for tool in (QEMU, "apt-get", "dpkg"):
        if shutil.which(tool) is None:
            skip(f"{tool} is not installed")
    os.makedirs(CACHE, exist_ok=True)
