#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""orion_two.py LIBRARY PTX SECONDS [off]: two clients in one process, as users of Orion write it.

The high-priority client makes requests of five small kernels, the best-effort one launches as fast as it may. Prints the
requests' median and 90th percentile in ms, how many there were, the best-effort client's kernels, and the scheduler's counts.
With "off", the scheduler is disabled."""
import ctypes
import statistics
import sys
import threading
import time

lib = ctypes.CDLL(sys.argv[1])
lib.orion_start_scheduler.argtypes = [ctypes.c_int]
lib.orion_start_scheduler.restype = ctypes.c_int
lib.orion_stop_scheduler.restype = None
lib.orion_set_client_idx.argtypes = [ctypes.c_int]

ret = lib.orion_start_scheduler(2)
if ret != 0:
    raise RuntimeError("Failed to start scheduler")
if sys.argv[4:] == ["off"]:
    lib.orion_set_enabled(0)

SECONDS = float(sys.argv[3])
cuda = ctypes.CDLL("libcuda.so.1")
context, module, affine = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()


def must(result):
    if result != 0:
        raise RuntimeError(f"CUDA error {result}")


must(cuda.cuInit(0))
must(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
must(cuda.cuCtxSetCurrent(context))
with open(sys.argv[2], "rb") as f:
    must(cuda.cuModuleLoadData(ctypes.byref(module), f.read() + b"\0"))
must(cuda.cuModuleGetFunction(ctypes.byref(affine), module, b"affine"))


class Worker:
    def __init__(self, blocks, turns):
        must(cuda.cuCtxSetCurrent(context))
        self.memory = ctypes.c_uint64()
        self.blocks = blocks
        must(cuda.cuMemAlloc_v2(ctypes.byref(self.memory), ctypes.c_size_t(blocks * 128 * 4)))
        self.words = [self.memory, ctypes.c_uint32(3), ctypes.c_uint32(1), ctypes.c_uint32(turns)]
        self.params = (ctypes.c_void_p * 4)(*[ctypes.cast(ctypes.pointer(w), ctypes.c_void_p) for w in self.words])

    def launch(self):
        must(cuda.cuLaunchKernel(affine, self.blocks, 1, 1, 128, 1, 1, 0, None, self.params, None))


requests, kernels = [], 0
end = 0.0


def hp_worker():
    lib.orion_set_client_idx(0)   # high-priority client
    worker = Worker(1, 50)
    while time.monotonic() < end:
        start = time.monotonic()
        for _ in range(5):
            worker.launch()
        must(cuda.cuStreamSynchronize(None))
        requests.append(time.monotonic() - start)
        time.sleep(0.02)


def be_worker():
    global kernels
    lib.orion_set_client_idx(1)   # best-effort client
    worker = Worker(8, 1000)
    while time.monotonic() < end:
        for _ in range(10):
            worker.launch()
        must(cuda.cuStreamSynchronize(None))
        kernels += 10


end = time.monotonic() + SECONDS
t1 = threading.Thread(target=hp_worker)
t2 = threading.Thread(target=be_worker)
t1.start(); t2.start()
t1.join(); t2.join()


class Stats(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("launches", "held", "held_ns", "overdue", "partitioned")]


stats = [Stats(), Stats()]
for i in range(2):
    lib.rubato_orion_stats(i, ctypes.byref(stats[i]))
lib.orion_stop_scheduler()
requests = [1000 * r for r in requests]
print(f"{statistics.median(requests):.3f} {statistics.quantiles(requests, n=10)[8]:.3f} {len(requests)} {kernels} "
      + " ".join(f"{s.launches} {s.held} {s.overdue}" for s in stats))
