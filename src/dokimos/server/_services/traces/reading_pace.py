"""Lets requests come in between while a thread reads traces."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

T = TypeVar("T")
_SPANS: Final = 5
"""Spans read without a pause: a quarter of a millisecond."""
_PAUSE_SECONDS: Final = 0.0005


class ReadingPace:
    """Pauses a thread that reads spans for as long as it works, while requests wait.

    Python runs one thread at a time. A request changes threads a dozen times, for each statement of SQLite,
    and each time would wait for the thread that reads to be interrupted. That thread is slowed to a third at
    most while they wait; the p95 of items beside 2,000 spans a second is a quarter lower
    (`benchmarks/server_traces.py`).

    Args:
        serves_requests: Says whether requests wait for a database.
    """

    def __init__(self, serves_requests: Callable[[], bool]) -> None:
        self._serves_requests = serves_requests
        self._since_pause = 0

    def keep(self, spans: Iterable[T]) -> Iterator[T]:
        """Yield spans, with pauses. Not for the thread of the event loop, which the requests need."""
        for span in spans:
            yield span
            self._since_pause += 1
            if self._since_pause >= _SPANS:
                self._since_pause = 0
                if self._serves_requests():
                    time.sleep(_PAUSE_SECONDS)


NO_PAUSES: Final = ReadingPace(lambda: False)
"""For what is read in the thread of the event loop."""
