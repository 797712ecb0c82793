"""Ctrl-C while an event loop of ours runs."""

from __future__ import annotations

import _thread
import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    import asyncio

BUSY_SECONDS = 0.8
"""How long after Ctrl-C what does not end may go on before it is interrupted where it is."""

CLOSING_SECONDS = 1.2
"""How long a loop that is closed may take before it is interrupted, too."""

SEVERAL_SECONDS = 2.0
"""Signals that come so soon after each other are one: a terminal that goes away sends several."""

DOUBLE_SECONDS = 0.4
"""How soon after the first Ctrl-C a second one is taken for part of it."""


class Interrupts:
    """Lets Ctrl-C, and signals that `end_on_signals` was told of, cancel a task while it is entered.

    Only in the main thread. Code that keeps the loop busy would not hear of the cancellation, so what has not
    ended after a while is interrupted where it is. Nothing else is: a second Ctrl-C must not break the end
    that the first one began.
    """

    def __init__(self, task: asyncio.Task[Any], loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._task = task
        self._first: float | None = None
        self._overdue = False
        self._error: tuple[Exception, Callable[[FrameType | None], bool]] | None = None
        self._ended = threading.Event()
        self._sending = threading.Lock()
        self._in_main = threading.current_thread() is threading.main_thread()
        self._installed = self._in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        self._signal: int = signal.SIGINT

    @property
    def was_interrupted(self) -> bool:
        return self._first is not None

    def __enter__(self) -> Self:
        if self._in_main:
            _active.append(self)
        if self._installed:
            signal.signal(signal.SIGINT, self.on_signal)
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        if self._first is not None:  # what was pressed twice by a quick hand is all heard here
            time.sleep(max(0.0, self._first + DOUBLE_SECONDS - time.monotonic()))
        with self._sending:  # also for a signal that others handle: what is on its way is heard here
            if self._installed:
                signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._in_main:
            _active.remove(self)

    def on_signal(self, signum: int, frame: FrameType | None) -> None:
        """Begin the end; or raise, where that is overdue or asked for."""
        if self._error is not None:
            (error, is_still_there), self._error = self._error, None
            if not _undisturbed and is_still_there(frame):
                raise error
        elif self._first is None:
            self._first = time.monotonic()
            self._signal = signum
            # The loop is being closed: cancelling a task that is done would lose the signal.
            if self._task.done():
                raise KeyboardInterrupt
            # Not a Thread: starting one takes locks, which the code that is interrupted may hold.
            _thread.start_new_thread(self._insist, ())
            self._task.cancel()
            self.loop.call_soon_threadsafe(lambda: None)  # wakes the loop
        elif self._overdue:
            self._overdue = False
            if not (_undisturbed or self._ended.is_set()):
                raise KeyboardInterrupt

    def raise_in_main_thread(
        self, error: Exception, is_still_there: Callable[[FrameType | None], bool]
    ) -> None:
        """Raise an error in the main thread, if that is where it was when it hears of it."""
        with self._sending:
            if self._ended.is_set() or self._first is not None or not self._installed:
                return
            self._error = (error, is_still_there)
            self._send()

    def _insist(self) -> None:
        if self._ended.wait(BUSY_SECONDS):
            return
        if not self._task.done():
            self._interrupt()
        while not self._ended.wait(CLOSING_SECONDS):
            self._interrupt()

    def _interrupt(self) -> None:
        """Send the signal to the main thread once more, also where it sleeps."""
        with self._sending:  # never after the end, when another handler would get it
            if self._ended.is_set():
                return
            self._overdue = True
            self._send()

    def _send(self) -> None:
        if hasattr(signal, "pthread_kill"):
            # A real signal also ends a system call that blocks; `interrupt_main` (Windows) is heard after it.
            signal.pthread_kill(threading.main_thread().ident or 0, self._signal)
        else:
            _thread.interrupt_main(signal.Signals(self._signal))


_active: list[Interrupts] = []
"""Those that are entered in the main thread, the innermost last."""


def active_interrupts(loop: asyncio.AbstractEventLoop) -> list[Interrupts]:
    """Return what can interrupt this event loop where it is, if anything can."""
    return [interrupts for interrupts in _active if interrupts.loop is loop]


_received: list[tuple[int, float]] = []
"""The signals that ended the command and when they came, in order."""


def end_on_signals(on_first: Callable[[int], None]) -> None:
    """Let SIGTERM and SIGHUP end the command as Ctrl-C does; `on_first` hears of the first one that comes.

    For a process that is ours, in its main thread. A signal that is ignored, as under nohup, or that somebody
    else handles, stays as it is.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, partial(_end, on_first))


def signal_received() -> int | None:
    """Return the signal, other than that of Ctrl-C, that ended the command, None if none did."""
    return _received[0][0] if _received else None


def _end(on_first: Callable[[int], None], signum: int, frame: FrameType | None) -> None:
    now = time.monotonic()
    insists = not _received or now - _received[-1][1] > SEVERAL_SECONDS
    _received.append((signum, now))
    if len(_received) == 1:
        on_first(signum)
    if _active:
        _active[-1].on_signal(signum, frame)
    elif insists:
        raise KeyboardInterrupt


_undisturbed: list[bool] = []


@contextlib.contextmanager
def defer_interrupts() -> Iterator[None]:
    """Defer Ctrl-C until the end of the block, however long it takes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _undisturbed.append(True)
    try:
        yield
    finally:
        _undisturbed.pop()
