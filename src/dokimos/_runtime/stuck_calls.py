"""Locate a call that takes too long: the frames in which it waits or works, as a traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, TracebackType
from typing import Any, Final

_MAX_FRAMES: Final = 2000
_WAITING: Final = (("cr_frame", "cr_await"), ("ag_frame", "ag_await"), ("gi_frame", "gi_yieldfrom"))
"""Where coroutines, asynchronous generators and generators keep their frame and what they wait for."""


def locate_waiting_coroutine(coroutine: object) -> TracebackType | None:
    """Return the traceback of where a suspended coroutine waits, as of an exception raised there."""
    frames: list[FrameType] = []
    while coroutine is not None and len(frames) < _MAX_FRAMES:
        kind = next((kind for kind in _WAITING if getattr(coroutine, kind[0], None) is not None), None)
        if kind is None:
            break
        frames.append(getattr(coroutine, kind[0]))
        coroutine = getattr(coroutine, kind[1], None)
    return _build_traceback(frames)


def locate_running_call(fn: Callable[..., Any], *args: Any) -> TracebackType | None:
    """Return where the thread is that is calling a function with these very arguments, None if none is."""
    function = getattr(fn, "__func__", fn)
    arguments = (fn.__self__, *args) if hasattr(fn, "__self__") else args
    code = getattr(function, "__code__", None)
    if code is None:
        return None
    # A code object's variables begin with its parameters, in order; those of the body follow.
    return locate_running_thread(function, **dict(zip(code.co_varnames, arguments, strict=False)))


def locate_running_thread(function: Callable[..., Any], /, **variables: object) -> TracebackType | None:
    """Return where the thread is that is in `function` with these very values, None if there is none.

    This costs nothing until it is asked: it looks into all threads, and begins behind that function.
    """
    code = getattr(function, "__code__", None)
    # Documented in spite of its name. Keeping track of calls as they start would cost each of them.
    for innermost in sys._current_frames().values():
        frames: list[FrameType] = []
        frame: FrameType | None = innermost
        while frame is not None and len(frames) < _MAX_FRAMES:
            if frame.f_code is code and _has_variables(frame, variables):
                return _build_traceback(frames[::-1])
            frames.append(frame)
            frame = frame.f_back
    return None


def _has_variables(frame: FrameType, variables: Mapping[str, object]) -> bool:
    present = frame.f_locals
    return all(present.get(name) is value for name, value in variables.items())


def _build_traceback(frames: Sequence[FrameType]) -> TracebackType | None:
    traceback: TracebackType | None = None
    for frame in reversed(frames):
        traceback = TracebackType(traceback, frame, frame.f_lasti, frame.f_lineno)
    return traceback
