"""Ctrl-C while an event loop of ours runs."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any, Self

BUSY_SECONDS = 0.8
"""How long after Ctrl-C what does not end may go on before it is interrupted where it is."""

CLOSING_SECONDS = 1.2
"""How long a loop that is closed may take before it is interrupted, too."""

DOUBLE_SECONDS = 0.4
"""How soon after the first Ctrl-C a second one is taken for part of it."""


class Interrupts:
    """Lets Ctrl-C cancel a task, as long as it is entered in the main thread.

    Code that keeps the loop busy would not hear of the cancellation, so what has not ended after a while is
    interrupted where it is. Nothing else is: a second Ctrl-C must not break the end that the first one began.
    """

    def __init__(self, task: asyncio.Task[Any], loop: asyncio.AbstractEventLoop) -> None:
        self._task = task
        self._loop = loop
        self._first: float | None = None
        self._overdue = False
        self._ended = threading.Event()
        self._sending = threading.Lock()
        self._installed = (
            threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        )

    @property
    def happened(self) -> bool:
        return self._first is not None

    def __enter__(self) -> Self:
        if self._installed:
            signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        if self._first is not None:  # what was pressed twice by a quick hand is all heard here
            time.sleep(max(0.0, self._first + DOUBLE_SECONDS - time.monotonic()))
        if self._installed:
            with self._sending:
                signal.signal(signal.SIGINT, signal.default_int_handler)

    def _on_interrupt(self, signum: int, frame: Any) -> None:
        if self._first is None:
            self._first = time.monotonic()
            if self._task.done():
                raise KeyboardInterrupt
            # Not a Thread: starting one takes locks, which the code that is interrupted may hold.
            _thread.start_new_thread(self._insist, ())
            self._task.cancel()
            self._loop.call_soon_threadsafe(lambda: None)  # wakes the loop
        elif self._overdue:
            self._overdue = False
            if not (_undisturbed or self._ended.is_set()):
                raise KeyboardInterrupt

    def _insist(self) -> None:
        if self._ended.wait(BUSY_SECONDS):
            return
        if not self._task.done():
            self._interrupt()
        while not self._ended.wait(CLOSING_SECONDS):
            self._interrupt()

    def _interrupt(self) -> None:
        """Send Ctrl-C to the main thread once more, also where it sleeps."""
        with self._sending:  # never after the end, when another handler would get it
            if self._ended.is_set():
                return
            self._overdue = True
            if hasattr(signal, "pthread_kill"):
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            else:
                _thread.interrupt_main()


_undisturbed: list[bool] = []


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Do this whole, however long it takes: Ctrl-C waits for its end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _undisturbed.append(True)
    try:
        yield
    finally:
        _undisturbed.pop()
