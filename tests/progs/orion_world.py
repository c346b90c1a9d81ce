# SPDX-License-Identifier: Apache-2.0
"""For scripts of tests/e2e/test_orion.py: the scheduler's functions, CUDA, and a kernel of any length.

$ORION is the scheduler's library, $PTX a file with the module of cuda_kernels.h. Nothing is opened before it is asked for, since
the order matters."""
import ctypes
import os
import threading
import time

THREADS = 128
NOT_READY = 600
PER_THREAD = ctypes.c_void_p(2)  # the stream of that name


class Stats(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("launches", "held", "held_ns", "overdue", "partitioned")]


def open_scheduler():
    """As users write it."""
    lib = ctypes.CDLL(os.environ["ORION"])
    lib.orion_start_scheduler.argtypes = [ctypes.c_int]
    lib.orion_start_scheduler.restype = ctypes.c_int
    lib.orion_stop_scheduler.restype = None
    lib.orion_set_client_idx.argtypes = [ctypes.c_int]
    return lib


def stats(lib, idx):
    s = Stats()
    assert lib.rubato_orion_stats(idx, ctypes.byref(s)) == 0
    return s


def must(result):
    if result != 0:
        raise RuntimeError(f"CUDA error {result}")


class Cuda:
    """A context, which is current in the calling thread, and the kernel affine."""

    def __init__(self):
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.context, module, self.affine = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        must(self.lib.cuInit(0))
        must(self.lib.cuDevicePrimaryCtxRetain(ctypes.byref(self.context), 0))
        self.use()
        with open(os.environ["PTX"], "rb") as f:
            must(self.lib.cuModuleLoadData(ctypes.byref(module), f.read() + b"\0"))
        must(self.lib.cuModuleGetFunction(ctypes.byref(self.affine), module, b"affine"))

    def use(self):
        must(self.lib.cuCtxSetCurrent(self.context))

    def sync(self, stream=None):
        must(self.lib.cuStreamSynchronize(stream))

    def is_idle(self, stream=None):
        result = self.lib.cuStreamQuery(stream)
        assert result in (0, NOT_READY), result
        return result == 0

    def stream(self, flags):
        stream = ctypes.c_void_p()
        must(self.lib.cuStreamCreate(ctypes.byref(stream), flags))
        return stream


class Buffer:
    """A word that kernels change: the result tells a lost, repeated or misplaced launch. Starts at 0."""

    def __init__(self, cuda):
        self.cuda, self.expected, self.memory = cuda, 0, ctypes.c_uint64()
        cuda.use()
        must(cuda.lib.cuMemAlloc_v2(ctypes.byref(self.memory), ctypes.c_size_t(THREADS * 4)))
        must(cuda.lib.cuMemsetD32_v2(self.memory, 0, ctypes.c_size_t(THREADS)))

    def launch(self, turns=1, stream=None):
        words = [self.memory, ctypes.c_uint32(3), ctypes.c_uint32(1), ctypes.c_uint32(turns)]
        params = (ctypes.c_void_p * 4)(*[ctypes.cast(ctypes.pointer(w), ctypes.c_void_p) for w in words])
        must(self.cuda.lib.cuLaunchKernel(self.cuda.affine, 1, 1, 1, THREADS, 1, 1, 0, stream, params, None))
        self.expected = (self.expected * 3 + 1) % 2**32

    def check(self):
        word = ctypes.c_uint32()
        must(self.cuda.lib.cuMemcpyDtoH_v2(ctypes.byref(word), self.memory, ctypes.c_size_t(4)))
        assert word.value == self.expected, (word.value, self.expected)


def turns_for(cuda, seconds):
    """How many turns take at least so long on this machine."""
    buffer, turns = Buffer(cuda), 1000
    cuda.sync()
    while True:
        start = time.monotonic()
        buffer.launch(turns)
        cuda.sync()
        took = time.monotonic() - start
        if took >= seconds:
            return turns
        turns = int(turns * min(10, max(1.5, 1.3 * seconds / took)))


def thread(function, *args):
    """Starts it; join() of what is returned raises what it raised."""
    failed = []

    def run():
        try:
            function(*args)
        except BaseException as e:
            failed.append(e)

    t = threading.Thread(target=run)
    t.start()

    def join():
        t.join(60)
        assert not t.is_alive(), "it hangs"
        if failed:
            raise failed[0]
    return join
