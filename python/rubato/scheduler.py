# SPDX-License-Identifier: Apache-2.0
"""Several clients in one process: the scheduler of libgpu_scheduler.so (rubato/orion.h, docs/orion.md).

    import rubato

    with rubato.Scheduler(2) as scheduler:   # before `import torch`, or under `rubato run`
        ...                                  # in one thread:    with scheduler.client(0): serve()
        ...                                  # in another one:   with scheduler.client(1): train()

There is one scheduler per process, so all of this is about the process. The library is opened when it is first needed.
"""
import contextlib
import ctypes
import os
import sys
import sysconfig

__all__ = ["Scheduler", "client", "stats"]

_NAME = "libgpu_scheduler.so"
_VARIABLE = "RUBATO_ORION_LIBRARY"
_MAX_CLIENTS = 64


class _Stats(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("launches", "held", "held_ns", "overdue", "partitioned")]


_FUNCTIONS = {
    "orion_start_scheduler": (ctypes.c_int, [ctypes.c_int]),
    "orion_stop_scheduler": (None, []),
    "orion_set_hp_latency": (None, [ctypes.c_float]),
    "orion_set_client_idx": (None, [ctypes.c_int]),
    "orion_get_client_idx": (ctypes.c_int, []),
    "orion_set_enabled": (None, [ctypes.c_int]),
    "orion_is_enabled": (ctypes.c_int, []),
    "block": (None, [ctypes.c_int]),
    "orion_load_profile": (ctypes.c_int, [ctypes.c_char_p]),
    "orion_start_profiling": (None, [ctypes.c_char_p]),
    "orion_end_profiling": (None, [ctypes.c_char_p]),
    "rubato_orion_stats": (ctypes.c_int, [ctypes.c_int, ctypes.POINTER(_Stats)]),
    "rubato_orion_why": (ctypes.c_char_p, []),
}


def _beside_package():
    """Where the library is if it was installed together with this package."""
    folder = os.path.dirname(os.path.abspath(__file__))
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    while os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
        for place in os.path.join("lib", multiarch), "lib64", "lib":
            path = os.path.join(folder, place, _NAME)
            if os.path.isfile(path):
                return path
    return None


def _open():
    """The library that the process has; else the one that the variable names; else the installed one."""
    try:
        return ctypes.CDLL(_NAME, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:
        pass
    named = os.environ.get(_VARIABLE)
    path = named or _beside_package() or _NAME
    try:
        return ctypes.CDLL(path)
    except OSError as e:
        remedy = f"correct {_VARIABLE}" if named else f"install Rubato, or set {_VARIABLE} to the library's path"
        raise RuntimeError(f"{_NAME} cannot be loaded: {e}: {remedy}") from None


_lib = None


def _library():
    global _lib
    if _lib is None:
        lib = _open()
        for name, (result, parameters) in _FUNCTIONS.items():
            try:
                function = getattr(lib, name)
            except AttributeError:
                raise RuntimeError(f"{_NAME} of this process has no {name}: it is not Rubato's, or another version") from None
            function.restype, function.argtypes = result, parameters
        _lib = lib
    return _lib


def _why(lib):
    return lib.rubato_orion_why().decode(errors="replace")


def _backward_on_this_thread():
    """A context. PyTorch's backward has threads of its own, which have no client."""
    autograd = getattr(sys.modules.get("torch"), "autograd", None)
    setting = getattr(autograd, "set_multithreading_enabled", None)
    return setting(False) if setting is not None else contextlib.nullcontext()


@contextlib.contextmanager
def client(idx):
    """Around the CUDA work of the calling thread: it is that of client idx. May be nested.

    If PyTorch is loaded, backward passes run on the calling thread meanwhile, so that they belong to the client, too."""
    if not 0 <= idx < _MAX_CLIENTS:
        raise ValueError(f"there is no client {idx}: indices are from 0 to {_MAX_CLIENTS - 1}")
    lib = _library()
    earlier = lib.orion_get_client_idx()
    with _backward_on_this_thread():
        lib.orion_set_client_idx(idx)
        try:
            yield
        finally:
            lib.orion_set_client_idx(earlier)


def stats():
    """One dict per client since the last start: launches, how many of them were held, for how many ns in all, and how
    many were let go because they had been held for 100 ms (overdue); and how many of the launches ran on the SMs of
    RUBATO_ORION_PARTITION (partitioned). They stay after stop()."""
    lib, result, one = _library(), [], _Stats()
    while lib.rubato_orion_stats(len(result), ctypes.byref(one)) == 0:
        result.append({name: getattr(one, name) for name, _ in _Stats._fields_})
    return result


class Scheduler:
    """Holds launches of best-effort clients while the high-priority client (0, or RUBATO_ORION_HP) is busy.

    A context, or an object with start() and stop()."""

    _running = None  # the Scheduler that was started, and its process: a forked child has none

    def __init__(self, n):
        if not 1 <= n <= _MAX_CLIENTS:
            raise ValueError(f"the number of clients must be from 1 to {_MAX_CLIENTS}, not {n}")
        self._n = n

    def start(self):
        """RuntimeError: the scheduler cannot work in this process; the text says what to do. Returns the Scheduler."""
        running, pid = Scheduler._running or (self, 0)
        if running is not self and pid == os.getpid():
            raise RuntimeError("another Scheduler is running in this process: stop it first")
        lib = _library()
        if lib.orion_start_scheduler(self._n) != 0:
            raise RuntimeError(_why(lib))
        Scheduler._running = self, os.getpid()
        return self

    def stop(self):
        """Held launches go on. May be repeated, and called by any thread."""
        if Scheduler._running == (self, os.getpid()):
            _library().orion_stop_scheduler()
            Scheduler._running = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def client(self, idx):
        """Around the CUDA work of the calling thread: it is that of client idx. May be nested."""
        if not 0 <= idx < self._n:
            raise ValueError(f"there is no client {idx}: indices are from 0 to {self._n - 1}")
        return client(idx)

    def stats(self):
        """See rubato.stats()."""
        return stats()

    @property
    def enabled(self):
        """While it is False, all calls pass. Can be set."""
        return bool(_library().orion_is_enabled())

    @enabled.setter
    def enabled(self, value):
        _library().orion_set_enabled(1 if value else 0)

    def set_hp_latency(self, ms):
        """The length of a high-priority request. Best-effort clients may have a tenth of it on the GPU at once."""
        _library().orion_set_hp_latency(ms)

    def block(self):
        """Returns when the calling thread's client has nothing on the GPU."""
        _library().block(0)

    def load_profile(self, path):
        """Uses a profile of kernels. RuntimeError: the file cannot be used; the text says why."""
        lib = _library()
        if lib.orion_load_profile(os.fsencode(path)) != 0:
            raise RuntimeError(_why(lib))

    def start_profiling(self, model=""):
        """Measures all launches of the process from now on."""
        lib = _library()
        lib.orion_start_profiling(os.fsencode(model))
        if _why(lib):
            raise RuntimeError(_why(lib))

    def end_profiling(self, path):
        """Writes what was measured. RuntimeError: the file cannot be written."""
        lib = _library()
        lib.orion_end_profiling(os.fsencode(path))
        if _why(lib):
            raise RuntimeError(_why(lib))
