"""Where a call is that takes too long: the frames in which it waits or works, as a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Any, Final

_DEEPEST: Final = 2000
_WAITING: Final = (("cr_frame", "cr_await"), ("ag_frame", "ag_await"), ("gi_frame", "gi_yieldfrom"))
"""Where coroutines, asynchronous generators and generators keep their frame and what they wait for."""


def where_coroutine_waits(coroutine: Any) -> TracebackType | None:
    """Return where a suspended coroutine waits, as the traceback of an exception raised there."""
    frames: list[FrameType] = []
    while coroutine is not None and len(frames) < _DEEPEST:
        kind = next((kind for kind in _WAITING if getattr(coroutine, kind[0], None) is not None), None)
        if kind is None:
            break
        frames.append(getattr(coroutine, kind[0]))
        coroutine = getattr(coroutine, kind[1], None)
    return _traceback(frames)


def where_thread_works(function: Callable[..., Any], variable: str, value: object) -> TracebackType | None:
    """Return where the thread is that calls `function` with this value for a variable, None if there is none.

    This costs nothing until it is asked: it looks into all threads, and begins behind that function.
    """
    code = getattr(function, "__code__", None)
    for innermost in sys._current_frames().values():
        frames: list[FrameType] = []
        frame: FrameType | None = innermost
        while frame is not None and len(frames) < _DEEPEST:
            if frame.f_code is code and frame.f_locals.get(variable) is value:
                return _traceback(frames[::-1])
            frames.append(frame)
            frame = frame.f_back
    return None


def _traceback(frames: Sequence[FrameType]) -> TracebackType | None:
    found: TracebackType | None = None
    for frame in reversed(frames):
        found = TracebackType(found, frame, frame.f_lasti, frame.f_lineno)
    return found
