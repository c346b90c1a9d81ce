#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""parkclient MIB [--managed MIB]: a CUDA program with random bytes in device memory. It answers lines with lines of JSON.

  step [N]     launches N kernels, and waits
  spin TURNS   launches a kernel of that length, and does not wait
  sync         waits for everything
  check        compares all device memory with what it must be
  call NAME    makes one driver call (cuMemGetInfo, cuEventQuery, cuMemAlloc), and tells its time
  alloc MIB    allocates more, with random bytes; answers with the CUDA result
  reserve MIB  the same without bytes
"""
import ctypes
import hashlib
import json
import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from orion_world import Buffer, Cuda, must

MIB = 1 << 20


class Parkclient:
    def __init__(self, mib):
        self.cuda = Cuda()
        self.words = Buffer(self.cuda)
        self.blocks = []
        self.event = ctypes.c_void_p()
        must(self.cuda.lib.cuEventCreate(ctypes.byref(self.event), 0))
        for _ in range(mib):  # in pieces, as programs allocate
            must(self.alloc(1))

    def alloc(self, mib):
        memory, size = ctypes.c_uint64(), mib * MIB
        result = self.cuda.lib.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(size))
        if result == 0:
            data = random.randbytes(size)
            must(self.cuda.lib.cuMemcpyHtoD_v2(memory, data, ctypes.c_size_t(size)))
            self.blocks.append((memory, size, hashlib.sha256(data).digest()))
        return result

    def managed(self, mib):
        memory = ctypes.c_uint64()
        must(self.cuda.lib.cuMemAllocManaged(ctypes.byref(memory), ctypes.c_size_t(mib * MIB), 1))

    def check(self):
        wrong = 0
        for memory, size, digest in self.blocks:
            data = ctypes.create_string_buffer(size)
            must(self.cuda.lib.cuMemcpyDtoH_v2(data, memory, ctypes.c_size_t(size)))
            wrong += hashlib.sha256(data.raw).digest() != digest
        self.words.check()
        return wrong

    def call(self, name):
        a, b, memory = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
        start = time.monotonic()
        if name == "cuMemGetInfo":
            result = self.cuda.lib.cuMemGetInfo_v2(ctypes.byref(a), ctypes.byref(b))
        elif name == "cuEventQuery":
            result = self.cuda.lib.cuEventQuery(self.event)
        else:
            result = self.cuda.lib.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4096))
        return result, time.monotonic() - start

    def obey(self, line):
        word, _, value = line.partition(" ")
        if word == "step":
            for _ in range(int(value or 1)):
                self.words.launch(10)
            self.cuda.sync()
        elif word == "spin":
            self.words.launch(int(value))
        elif word == "sync":
            self.cuda.sync()
        elif word == "check":
            return {"wrong": self.check()}
        elif word == "call":
            result, seconds = self.call(value)
            return {"result": result, "seconds": seconds}
        elif word == "reserve":
            memory = ctypes.c_uint64()
            return {"result": self.cuda.lib.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(int(value) * MIB))}
        elif word == "alloc":
            return {"result": self.alloc(int(value))}
        else:
            return {"unknown": line}
        return {"ok": True}


def main(mib, *more):
    client = Parkclient(int(mib))
    if more:
        client.managed(int(more[1]))
    print(json.dumps({"pid": os.getpid()}), flush=True)
    for line in sys.stdin:
        print(json.dumps(client.obey(line.strip())), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
