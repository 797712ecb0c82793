"""Lets requests go first while a thread reads, stores or removes spans."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

T = TypeVar("T")
_SPANS: Final = 5
"""Spans read without a look at the requests: a quarter of a millisecond."""
_PAUSE_SECONDS: Final = 0.0005
_PAUSES_PER_SPAN: Final = 0.2
_MAX_PAUSES: Final = 20
"""More than a request of items takes, so that spans that come now and then wait until it has its answer."""


class RequestPace:
    """Pauses a thread that works on spans while requests wait.

    Python runs one thread at a time. A request changes threads a dozen times, for each statement of SQLite,
    and each time would wait for the thread of the spans to be interrupted; on two cores it waits for a core
    as well. So this thread waits until the request has its answer, 10 ms at most. Where requests follow each
    other without end, it is paused for 0.1 ms a span. The p95 of items beside 2,000 spans a second is a third
    lower (`benchmarks/server_traces.py`).

    Not for the thread of the event loop, which the requests need. One instance for each thread.

    Args:
        serves_requests: Says whether requests wait for a database.
    """

    def __init__(self, serves_requests: Callable[[], bool]) -> None:
        self._serves_requests = serves_requests
        self._pauses: float = _MAX_PAUSES
        """That may be made now."""
        self._spans = 0
        """Since the last look."""

    def keep(self, spans: Iterable[T]) -> Iterator[T]:
        """Yield spans, or what is done for one or some of them, with pauses."""
        for span in spans:
            yield span
            self._spans += 1
            if self._spans >= _SPANS:
                self.give_way()

    def count(self, spans: int) -> None:
        """Note that something was done for spans, and pause as `keep` does."""
        self._spans += spans
        if self._spans >= _SPANS:
            self.give_way()

    def give_way(self) -> None:
        """Pause while requests wait, not longer than the spans since the last pause allow."""
        self._pauses = min(_MAX_PAUSES, self._pauses + self._spans * _PAUSES_PER_SPAN)
        self._spans = 0
        while self._pauses >= 1 and self._serves_requests():
            time.sleep(_PAUSE_SECONDS)
            self._pauses -= 1


NO_PAUSES: Final = RequestPace(lambda: False)
"""For what runs in the thread of the event loop."""
