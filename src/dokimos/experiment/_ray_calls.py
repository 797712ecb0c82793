"""Which calls into Ray are going on, so that its connection ends after the last one."""

from __future__ import annotations

import threading


class WorkerEndedError(Exception):
    """An actor will not be heard of any more."""


class RayCalls:
    """Counts the calls of one run into Ray; each is made in a `with` block of it.

    Ray crashes the process (SIGSEGV) if its connection ends while another thread is in one of its functions.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._is_closed = False

    def __enter__(self) -> None:
        """Begin a call. Raises `WorkerEndedError` where no more may begin."""
        with self._changed:
            if self._is_closed:
                raise WorkerEndedError
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def close(self, seconds: float) -> bool:
        """Let no call begin any more, and wait for the others; False if some have not ended by then."""
        with self._changed:
            self._is_closed = True
            return self._changed.wait_for(lambda: not self._count, seconds)
