#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_cuda_names.py SOURCE LIBCUDA: the names that libcuda.so.1 exports, those that it knows by
name, and those that the documentation says are not there, are the same ones."""
import ctypes
import os
import re
import shutil
import subprocess
import sys

NOT_SUPPORTED = 801


def main(source, lib_path):
    made = subprocess.check_output([os.path.join(source, "src/cuda/generate"), "names", os.path.join(source, "src/cuda/calls.txt")],
                                   text=True)
    names = re.findall(r"^\t(XA|XP|X)\((\w+), (\d+), (\w+)(?:, (\w+))?\)", made, re.M)
    with open(os.path.join(source, "docs/softgpu-cuda.md")) as f:
        text = f.read().partition("## What is not there")[2]
        absent_in_docs = set(re.findall(r"`(cu\w+)`", text))
    known = {n[3] for n in names} | {n[4] for n in names if n[4]}
    absent = {n[1] for n in names if n[0] == "XA"}
    lib = ctypes.CDLL(lib_path)
    wrong = ["not exported: " + s for s in sorted(known) if not hasattr(lib, s)]
    wrong += ["not in the documentation: " + n for n in sorted(absent - absent_in_docs)]
    wrong += ["only in the documentation: " + n for n in sorted(absent_in_docs - absent)]
    order = [(n[1], int(n[2])) for n in names]
    wrong += ["not sorted: %s %d" % b for a, b in zip(order, order[1:]) if a >= b]
    for kind, name, version, symbol, per_thread in names:
        fn = ctypes.c_void_p()
        status = ctypes.c_int(-1)
        result = lib.cuGetProcAddress_v2(name.encode(), ctypes.byref(fn), int(version),
                                         ctypes.c_uint64(2), ctypes.byref(status))
        want = ctypes.cast(getattr(lib, per_thread or symbol), ctypes.c_void_p).value
        if result != 0 or status.value != 0 or fn.value != want:
            wrong.append("cuGetProcAddress(%s, %s): %d, status %d" % (name, version, result,
                                                                     status.value))
        if kind == "XA" and getattr(lib, symbol)() != NOT_SUPPORTED:
            wrong.append("%s is there after all" % symbol)
    if shutil.which("nm") is not None:
        out = subprocess.check_output(["nm", "-D", "--defined-only", lib_path], text=True)
        exported = {line.split()[-1] for line in out.splitlines()}
        wrong += ["exported, and unknown: " + s for s in sorted(exported - known)]
    print("\n".join(wrong) or "%d names, %d of them absent" % (len(names), len(absent)))
    return 1 if wrong or len(names) < 100 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
