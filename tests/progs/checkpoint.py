#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""checkpoint PID CALL…: makes the driver's checkpoint calls on another process, and prints their results as JSON.

CALL is state, lock[:TIMEOUT_MS], checkpoint, restore or unlock. A state is printed as "state N"."""
import ctypes
import json
import sys


class LockArgs(ctypes.Structure):
    _fields_ = [("timeout_ms", ctypes.c_uint), ("reserved", ctypes.c_uint), ("more", ctypes.c_uint64 * 7)]


def call(lib, pid, name):
    name, _, timeout = name.partition(":")
    if name == "state":
        state = ctypes.c_int(-1)
        result = lib.cuCheckpointProcessGetState(pid, ctypes.byref(state))
        return f"state {state.value}" if result == 0 else result
    if name == "lock":
        return lib.cuCheckpointProcessLock(pid, ctypes.byref(LockArgs(int(timeout or 10000))))
    return getattr(lib, "cuCheckpointProcess" + name.capitalize())(pid, None)


def main(pid, *names):
    lib = ctypes.CDLL("libcuda.so.1")
    print(json.dumps([call(lib, int(pid), name) for name in names]))


main(*sys.argv[1:])
