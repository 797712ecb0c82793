"""Rate limits: the requests that a key or a person may make in a minute, counted in memory."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from dokimos.server._services.errors import RateLimitError

_MINUTE: Final = 60.0
_MAX_CALLERS: Final = 100_000
"""Callers that are remembered; of more than that, those forgotten have their whole allowance again."""
_ROUNDING: Final = 1e-6
"""Seconds that sums of intervals may be wrong by."""


class RateLimits:
    """A token bucket for each caller, which holds the requests of a minute and fills up evenly.

    One number for each caller is enough (the generic cell rate algorithm): when its bucket will be full.

    Args:
        clock: Returns seconds, of a clock that nobody sets.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def take(self, caller: str, per_minute: int) -> None:
        """Count a request of a caller that may make so many in a minute; 0 sets no limit.

        Raises:
            RateLimitError: Its bucket is empty; the request does not count.
        """
        if per_minute <= 0:
            return
        moment = self._clock()
        interval = _MINUTE / per_minute
        full_at = max(self._full_at.pop(caller, moment), moment)
        # Where a limit was lowered meanwhile, what was used under the higher one counts for a minute at most.
        full_at = min(full_at, moment + _MINUTE)
        wait = full_at + interval - moment - _MINUTE
        is_refused = wait > _ROUNDING
        self._full_at[caller] = full_at if is_refused else full_at + interval
        if len(self._full_at) > _MAX_CALLERS:
            self._full_at.popitem(last=False)
        if is_refused:
            raise RateLimitError(per_minute, max(1, math.ceil(wait - _ROUNDING)))
