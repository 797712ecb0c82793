"""Detect code that blocks the event loop, and end it where a time limit says so."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final, Self

from dokimos._runtime.concurrency import start_in_thread
from dokimos._runtime.interrupts import active_interrupts
from dokimos._runtime.terminal_text import print_line

TICK_SECONDS: Final = 0.5
"""How often the event loop is asked whether it is there."""

STALL_SECONDS: Final = 3.0
"""How long it may take to answer before whatever it is doing is named."""

LATE_SECONDS: Final = 1.0
"""A watch that wakes so much too late was stopped itself, with the whole process, and judges nobody."""

MOST_ERRORS: Final = 2
"""How often an error is raised where the loop is held up before the whole run is ended."""

OURS: Final = 2
"""Where dokimos stands among users' code (0), other packages (1) and the standard library (3)."""

_PACKAGES: Final = str(Path(__file__).parents[1])
_STANDARD_LIBRARY: Final = str(Path(os.__file__).parent)
_LOOP_STEP: Final = asyncio.Handle._run.__code__
"""What is outside of it has called the event loop, and is not called by it."""
_INSTALLED: Final = ("site-packages", "dist-packages")


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
        self._ended = False
        self._awake = threading.Event()

    def __enter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        start_in_thread(self._watch)
        return self

    def __exit__(self, *error: object) -> None:
        self._ended = True
        self._awake.set()

    def warnings(self) -> list[str]:
        return list(self._warnings.values())

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
        begun = since = time.monotonic()
        call, errors = None, 0
        while not self._ended and self._answered < self._asked:
            if not self._pause() or not self._loop.is_running():
                begun = since = time.monotonic()
            location = self._find_location()
            if location is None or self._answered == self._asked:
                continue
            now = time.monotonic()
            if now - begun >= STALL_SECONDS:
                self._warn(location)
            # Many that block for a short while each are not one that blocks for long.
            if location.call is not call:
                call, since, errors = location.call, now, 0
            limit = None if call is None else self._limits[call.f_code.co_filename]
            if limit is not None and now - since >= max(limit, STALL_SECONDS):
                since, errors = now, errors + 1
                self._end(location, errors, limit)

    def _find_location(self) -> BlockedLocation | None:
        """Return where the loop is held up: in users' code, else in a package, else wherever it is."""
        stack = _stack(sys._current_frames().get(self._thread_id))
        frames = list(itertools.takewhile(lambda frame: frame.f_code is not _LOOP_STEP, stack))
        if not frames:
            return None
        ranks = [_rank(frame.f_code.co_filename) for frame in frames]
        best = min(ranks)
        frame = frames[ranks.index(best)]
        code = frame.f_code
        call = next((frame for frame in frames if frame.f_code.co_filename in self._limits), None)
        return BlockedLocation(call, code.co_filename, frame.f_lineno, code.co_qualname, best >= OURS)

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

    def _end(self, location: BlockedLocation, errors: int, limit: float) -> None:
        message = f"{location} blocked the event loop for more than {max(limit, STALL_SECONDS):g} s"
        if errors > MOST_ERRORS:
            if self._give_up is not None:
                self._give_up(message)
            return
        asked = self._asked

        def is_still_there(frame: FrameType | None) -> bool:
            inside = list(itertools.takewhile(lambda each: each is not location.call, _stack(frame)))
            is_in_call = any(each is location.call for each in _stack(frame))
            # Not while something of ours is at work that is not called by theirs, such as the journal.
            theirs = any(_rank(each.f_code.co_filename) < OURS for each in inside)
            return self._answered < asked and is_in_call and theirs

        for interrupts in active_interrupts(self._loop):
            interrupts.raise_in_main_thread(
                TimeoutError(f"{message}; the call was broken off"), is_still_there
            )


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    """Go through the frames of a thread, the innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _rank(file: str) -> int:
    if any(folder in file for folder in _INSTALLED):
        return 1
    if file.startswith(_PACKAGES):
        return OURS
    return OURS + 1 if file.startswith((_STANDARD_LIBRARY, "<frozen")) else 0
