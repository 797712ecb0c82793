"""Regular expressions that people wrote, on texts that models wrote: a search that ends."""

from __future__ import annotations

import re
import signal
import threading
import time
from typing import Final

from dokimos.errors import EvaluationError

LIMIT_SECONDS: Final = 2.0
"""How much CPU time of its thread one search may take."""

_SIGNAL: Final = getattr(signal, "SIGVTALRM", None)
_BACKTRACKS: Final = re.compile(r"[*+?{]")

_deadline: float | None = None
"""The CPU time of the main thread at which its search ends, None while there is none."""


class _TimeIsUpError(Exception):
    pass


def search_within_limit(pattern: re.Pattern[str], text: str, *, whole: bool = False) -> re.Match[str] | None:
    """Return the first match of a pattern, or that of the whole text; None if there is none.

    A pattern such as `(a+)+$` may take longer than the universe has existed, and no thread can run meanwhile.
    In the main thread of a POSIX system, a timer ends the search.

    Raises:
        EvaluationError: when the search took more than `LIMIT_SECONDS`.
    """
    global _deadline
    look = pattern.fullmatch if whole else pattern.search
    if _BACKTRACKS.search(pattern.pattern) is None or not _may_set_timer():
        return look(text)
    _deadline = time.thread_time() + LIMIT_SECONDS
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT_SECONDS)
        try:
            return look(text)
        finally:
            _deadline = None
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except _TimeIsUpError:
        raise EvaluationError(
            f"The pattern {pattern.pattern[:80]!r} was still not decided after {LIMIT_SECONDS:g} s on a "
            f"text of {len(text)} characters: it has too many ways to divide the text. Make its "
            "inner repeats possessive, such as (a++)+, or put them into an atomic group, such as (?>a+)."
        ) from None


def _may_set_timer() -> bool:
    """Say whether the timer of the process's own CPU time is free for us, and take it."""
    if _SIGNAL is None or threading.current_thread() is not threading.main_thread():
        return False
    handler = signal.getsignal(_SIGNAL)
    if handler is signal.SIG_DFL:
        # It stays: a signal on its way when the timer is stopped would otherwise end the process.
        signal.signal(_SIGNAL, _stop)
        return True
    return handler is _stop


def _stop(signum: int, frame: object) -> None:
    if _deadline is None:
        return
    left = _deadline - time.thread_time()
    if left <= 0:
        raise _TimeIsUpError
    signal.setitimer(signal.ITIMER_VIRTUAL, left)  # other threads, as of a local model, took the rest
