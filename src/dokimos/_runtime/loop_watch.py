"""Detect code that blocks the event loop, and end it where a time limit says so."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Final, Self

from dokimos._runtime.code_origin import CodeOrigin, find_code_origin
from dokimos._runtime.concurrency import start_in_thread
from dokimos._runtime.interrupts import active_interrupts
from dokimos._runtime.terminal_text import print_line

TICK_SECONDS: Final = 0.5
"""How often the event loop is asked whether it is there."""

STALL_SECONDS: Final = 3.0
"""How long it may take to answer before whatever it is doing is named."""

LATE_SECONDS: Final = 1.0
"""A watch that wakes so much too late was stopped itself, with the whole process, and judges nobody."""

MAX_ERRORS: Final = 2
"""How often an error is raised where the loop is held up before the whole run is ended."""

BLAME_ORDER: Final = (CodeOrigin.USERS, CodeOrigin.LIBRARY, CodeOrigin.OURS, CodeOrigin.STANDARD)
"""Of the code that holds the loop up together, the first of these is named."""


@dataclass(frozen=True, slots=True)
class BlockedLocation:
    """Where the event loop is held up."""

    call: FrameType | None
    """The frame of ours, in a file with a limit, that called what is there."""
    file: str
    line: int
    function: str
    is_built_in: bool
    """Whether nothing but dokimos and the standard library is at work there."""

    def __str__(self) -> str:
        return f"{self.function} ({self.file}, line {self.line})"


@dataclass(slots=True)
class _Stall:
    """A time in which the event loop has not answered, and the call that holds it up by now."""

    stalled_since: float
    call_since: float
    """When the call began to hold the loop up, or last got an error."""
    call: FrameType | None = None
    errors: int = 0
    """How often the call got an error."""

    def restart(self, now: float) -> None:
        self.stalled_since = self.call_since = now

    def follow(self, call: FrameType | None, now: float) -> None:
        """Count anew for another call: many that block for a short while are not one that blocks for long."""
        if call is not self.call:
            self.call, self.call_since, self.errors = call, now, 0


class LoopWatch:
    """Watches the event loop that is running, from a thread, as long as it is entered.

    What holds the loop up is named once, on standard error and in `warnings`. Where it is called from a file
    in `limits`, it gets a `TimeoutError` after so many seconds, if this is the main thread. If that does not
    end it, `give_up`, where given, is called in the watching thread.
    """

    def __init__(self, limits: Mapping[str, float], give_up: Callable[[str], None] | None = None) -> None:
        self._limits = limits
        self._give_up = give_up
        self._warnings: dict[tuple[str, str], str] = {}
        self._asked = self._answered = 0
        self._loop_code: CodeType | None = None
        self._ended = False
        self._awake = threading.Event()

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._loop.call_soon(self._learn_loop_code)
        start_in_thread(self._watch)
        return self

    def __exit__(self, *error: object) -> None:
        self._ended = True
        self._awake.set()

    def warnings(self) -> list[str]:
        return list(self._warnings.values())

    def _learn_loop_code(self) -> None:
        """Remember the code that runs the callbacks of the loop, by which it is found on a stack.

        Frames outside this one belong to whoever started the loop. Asking who calls us works for loops of
        every kind, also those written in C, and needs no private name of asyncio.
        """
        frame = inspect.currentframe()
        if frame is not None and frame.f_back is not None:
            self._loop_code = frame.f_back.f_code

    def _watch(self) -> None:
        while not self._ended:
            self._pause()
            self._asked += 1
            try:
                self._loop.call_soon_threadsafe(self._answer, self._asked)
            except RuntimeError:
                return  # the loop was closed
            self._wait_for_answer()

    def _answer(self, number: int) -> None:
        self._answered = number
        self._awake.set()

    def _pause(self) -> bool:
        """Sleep for a tick, or until something happens; say whether it was no longer than that."""
        begun = time.monotonic()
        self._awake.wait(TICK_SECONDS)
        self._awake.clear()
        return time.monotonic() - begun < TICK_SECONDS + LATE_SECONDS

    def _wait_for_answer(self) -> None:
        now = time.monotonic()
        stall = _Stall(stalled_since=now, call_since=now)
        while not self._ended and self._answered < self._asked:
            if not self._pause() or not self._loop.is_running():
                stall.restart(time.monotonic())
            location = self._find_location()
            if location is None or self._answered == self._asked:
                continue
            now = time.monotonic()
            if now - stall.stalled_since >= STALL_SECONDS:
                self._warn(location)
            stall.follow(location.call, now)
            limit = None if stall.call is None else self._limits[stall.call.f_code.co_filename]
            if limit is not None and now - stall.call_since >= max(limit, STALL_SECONDS):
                stall.call_since, stall.errors = now, stall.errors + 1
                self._raise_or_give_up(location, stall.errors, limit)

    def _find_location(self) -> BlockedLocation | None:
        """Return where the loop is held up: in users' code, else in a package, else wherever it is."""
        # Documented in spite of its underscore, and the only way to the stack of a thread that does not
        # answer. Read once per tick, and only while the loop is held up.
        stack = _walk_stack(sys._current_frames().get(self._thread_id))
        frames = list(itertools.takewhile(lambda frame: frame.f_code is not self._loop_code, stack))
        if not frames:
            return None
        # The innermost of equals.
        frame = min(frames, key=lambda each: BLAME_ORDER.index(_find_origin(each)))
        code = frame.f_code
        call = next((frame for frame in frames if frame.f_code.co_filename in self._limits), None)
        return BlockedLocation(
            call, code.co_filename, frame.f_lineno, code.co_qualname, not _is_foreign(frame)
        )

    def _warn(self, location: BlockedLocation) -> None:
        key = (location.file, location.function)
        if key in self._warnings:
            return
        advice = "" if location.is_built_in else (
            " Async code must not block: let it await, or make it a plain def, which runs in a thread."
        )  # fmt: skip
        self._warnings[key] = (
            f"The event loop was blocked for more than {STALL_SECONDS:g} s by {location}.{advice}"
        )
        with contextlib.suppress(Exception):  # nobody may read it any more
            print_line(f"! {self._warnings[key]}")

    def _raise_or_give_up(self, location: BlockedLocation, errors: int, limit: float) -> None:
        message = f"{location} blocked the event loop for more than {max(limit, STALL_SECONDS):g} s"
        if errors > MAX_ERRORS:
            if self._give_up is not None:
                self._give_up(message)
            return
        asked = self._asked

        def is_still_there(frame: FrameType | None) -> bool:
            inside = list(itertools.takewhile(lambda each: each is not location.call, _walk_stack(frame)))
            is_in_call = any(each is location.call for each in _walk_stack(frame))
            # Not while something of ours is at work that is not called by theirs, such as the journal.
            theirs = any(map(_is_foreign, inside))
            return self._answered < asked and is_in_call and theirs

        for interrupts in active_interrupts(self._loop):
            interrupts.raise_in_main_thread(
                TimeoutError(f"{message}; the call was broken off"), is_still_there
            )


def _walk_stack(frame: FrameType | None) -> Iterator[FrameType]:
    """Go through the frames of a thread, the innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _find_origin(frame: FrameType) -> CodeOrigin:
    module = frame.f_globals.get("__name__")
    return find_code_origin(frame.f_code.co_filename, module if isinstance(module, str) else "")


def _is_foreign(frame: FrameType) -> bool:
    """Say whether a frame runs code of the user or of a library, which can be told to do otherwise."""
    return _find_origin(frame) in (CodeOrigin.USERS, CodeOrigin.LIBRARY)
