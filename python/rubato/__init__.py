# SPDX-License-Identifier: Apache-2.0
"""Hints for Rubato: where a request begins and ends.

    import rubato

    with rubato.request(deadline_s=0.020):
        serve()

Not needed: Rubato infers both from what the program gives the GPU to do. Told, it is exact. Without
`rubato run` all of this does nothing. Nothing here waits, or fails for want of Rubato.

Several models as threads of one process are another matter: Scheduler, client and stats (scheduler.py).
"""
import contextlib
import ctypes

from .scheduler import Scheduler, client, stats

__all__ = ["Scheduler", "active", "client", "request", "request_begin", "request_end", "stats"]

_NS_PER_S = 1_000_000_000
_MAX_NS = 2**64 - 1


def _find():
    """librubato.so is preloaded by `rubato run`: its functions are among those of the program."""
    try:
        program = ctypes.CDLL(None)
        begin, end = program.rubato_request_begin, program.rubato_request_end
    except (OSError, AttributeError):
        return None, None
    begin.argtypes, begin.restype = [ctypes.c_uint64], ctypes.c_int
    end.argtypes, end.restype = [], None
    return begin, end


_begin, _end = _find()


def active():
    """Whether librubato.so is here to listen."""
    return _begin is not None


def request_begin(deadline_s=None):
    """A request begins, to be done within deadline_s from now. True if the program runs under `rubato run`.

    Best said when it arrives, before its input is prepared: until the others are off takes half a millisecond.
    Once the deadline has passed it counts as late, and is treated as one that was not announced."""
    if _begin is None:
        return False
    ns = 0
    if deadline_s is not None:
        if not deadline_s > 0:
            raise ValueError("a deadline must lie ahead")
        ns = int(min(max(1, deadline_s * _NS_PER_S), _MAX_NS))
    return bool(_begin(ns))


def request_end():
    """The request that this thread began last has ended, or one that another began."""
    if _end is not None:
        _end()


@contextlib.contextmanager
def request(deadline_s=None):
    """Around a request. May be nested, and used by several threads at once."""
    begun = request_begin(deadline_s)
    try:
        yield begun
    finally:
        request_end()
