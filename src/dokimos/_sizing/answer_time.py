"""The p95 of a request's answer, by a simulation of one serving process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from dokimos._sizing.queue_simulation import find_quantile, simulate_answers

CLIENTS: Final = 16
"""Those of the benchmark that measured what a request takes at capacity: so many share a commit there."""
_REQUESTS: Final = 50_000
_SEED: Final = 1
_SHARE: Final = 0.95


@dataclass(frozen=True, slots=True)
class RequestKind:
    """Requests that take about as long as one another."""

    rate: float
    """How many come in a second."""
    seconds: float
    """What one takes at capacity."""


def predict_p95(kinds: Sequence[RequestKind], *, lone_factor: float, variation: float) -> float | None:
    """Return the seconds from request to answer that 95 % of the requests stay within.

    The same requests come each time, so that the same load has the same answer time.

    Args:
        kinds: What comes.
        lone_factor: How many times as long a request takes that shares its commit with no other; 1 where
            requests do not share commits.
        variation: The squared coefficient of variation of what a request adds to its group.

    Returns:
        None where nothing comes, or more than can be served.
    """
    rate = sum(each.rate for each in kinds)
    busy = sum(each.rate * each.seconds for each in kinds)
    if not rate or busy >= 1:
        return None
    # A group of n takes group_seconds + n * share * mean: lone_factor * mean alone, n * mean with CLIENTS.
    mean = busy / rate
    fixed = (max(lone_factor, 1.0) - 1) / (1 - 1 / CLIENTS)
    share = 1 - fixed / CLIENTS
    seconds, rates = [each.seconds * share for each in kinds], [each.rate for each in kinds]

    def draw_service(random: Random) -> float:
        kind = seconds[0] if len(seconds) == 1 else random.choices(seconds, rates)[0]
        return random.gammavariate(1 / variation, kind * variation)

    answers = simulate_answers(
        rate=rate,
        draw_service=draw_service,
        requests=_REQUESTS,
        random=Random(_SEED),
        group_seconds=fixed * mean,
        largest_group=CLIENTS if fixed else 1,
    )
    return find_quantile(answers, _SHARE)
