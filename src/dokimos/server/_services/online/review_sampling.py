"""Which of the scores of a rule people look at: a share of them, fewer the nearer the limit of the day is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from dokimos.server._services.errors import InvalidRequestError

_RANGE: Final = 2**53
_LARGEST_LIMIT: Final = 1000
_KEYS: Final = ("failedRate", "otherRate", "maxPerDay")
_DEFAULT_LIMIT: Final = 50


@dataclass(frozen=True, slots=True)
class ReviewSampling:
    """How many of the scores that a rule gives go into the review queue."""

    failed_rate: float
    other_rate: float
    """Of those that passed, or have no verdict."""
    max_per_day: int

    def probability_of(self, *, has_failed: bool, queued: int) -> float:
        """Return with which probability a score is queued.

        It depends on what was queued before and on nothing that comes later. So one over it weights what was
        queued without a bias, although the limit of a day holds: the first half of the limit is queued at the
        full rate, and the rest at rates that fall to 0, instead of all at once until the limit.

        Args:
            has_failed: Whether the score is a failed one.
            queued: How many scores of the same day are in the queue already.
        """
        left = max(0, self.max_per_day - queued) / self.max_per_day
        return (self.failed_rate if has_failed else self.other_rate) * min(1.0, 2 * left) ** 2


def is_chosen(rule_id: str, target: str, probability: float) -> bool:
    """Say whether a score goes into the queue, which all servers decide alike.

    What is chosen with a probability is also chosen with every higher one. It does not depend on whether the
    trace was sampled to be scored.

    Args:
        rule_id: Whose score it is.
        target: What was scored.
        probability: In how many cases, 0..1.
    """
    key = f"{rule_id}/{target}".encode("utf-8", "surrogatepass")
    digest = blake2b(key, digest_size=8, person=b"dokimos review").digest()
    return (int.from_bytes(digest) >> 11) / _RANGE < probability


def parse_review_sampling(value: Mapping[str, Any] | None, field: str = "review") -> ReviewSampling | None:
    """Return the sampling of JSON such as `{"failedRate": 1, "otherRate": 0.05, "maxPerDay": 50}`.

    Raises:
        InvalidRequestError: A number is out of its range, or nothing would be queued.
    """
    if value is None:
        return None
    unknown = sorted(set(value) - set(_KEYS))
    if unknown:
        raise InvalidRequestError("is unknown", field=f"{field}.{str(unknown[0])[:80]}")
    limit = value.get("maxPerDay", _DEFAULT_LIMIT)
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _LARGEST_LIMIT:
        raise InvalidRequestError(
            f"must be an integer from 1 to {_LARGEST_LIMIT}", field=f"{field}.maxPerDay"
        )
    sampling = ReviewSampling(
        _check_rate(value.get("failedRate", 1.0), f"{field}.failedRate"),
        _check_rate(value.get("otherRate", 0.0), f"{field}.otherRate"),
        limit,
    )
    if sampling.failed_rate == sampling.other_rate == 0:
        raise InvalidRequestError("must have a rate above 0, or be left out", field=field)
    return sampling


def _check_rate(rate: Any, field: str) -> float:
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate <= 1:
        raise InvalidRequestError("must be from 0 to 1", field=field)
    return float(rate)
