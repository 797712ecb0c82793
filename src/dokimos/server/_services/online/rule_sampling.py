"""Which traces a rule scores: a share of them, decided by their ids, so that every server decides alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.online.rule_conditions import AnyCondition, SpanFacts, parse_conditions

_MAX_STRATA: Final = 20
_RANGE: Final = 2**53


@dataclass(frozen=True, slots=True)
class Stratum:
    """Spans of one kind, which have a rate of their own."""

    name: str
    condition: AnyCondition
    rate: float


@dataclass(frozen=True, slots=True)
class Sampling:
    """How many of the spans that match are scored."""

    rate: float = 1.0
    strata: tuple[Stratum, ...] = ()
    """The first one that a span fits says its rate; without one, `rate` does."""

    @property
    def needs_attributes(self) -> bool:
        """Whether the name of a span does not say its stratum."""
        return any(stratum.condition.needs_attributes for stratum in self.strata)

    def probability_of(self, span: SpanFacts) -> tuple[float, str | None]:
        """Return with which probability a span is sampled, and the name of its stratum."""
        for stratum in self.strata:
            if stratum.condition.holds(span):
                return stratum.rate, stratum.name
        return self.rate, None


def is_sampled(key: str, probability: float) -> bool:
    """Say whether a trace, or a session, is sampled.

    What is sampled with a probability is also sampled with every higher one.

    Args:
        key: Its id.
        probability: In how many cases, 0..1.
    """
    digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8, person=b"dokimos sample").digest()
    return (int.from_bytes(digest) >> 11) / _RANGE < probability


def parse_sampling(value: Mapping[str, Any] | None, field: str = "sampling") -> Sampling:
    """Return the sampling of JSON such as `{"rate": 0.1, "strata": [...]}`.

    Raises:
        InvalidRequestError: A rate is not above 0 and at most 1, or a stratum says nothing.
    """
    if value is None:
        return Sampling()
    unknown = sorted(set(value) - {"rate", "strata"})
    if unknown:
        raise InvalidRequestError("is unknown", field=f"{field}.{str(unknown[0])[:80]}")
    strata = value.get("strata") or []
    if not isinstance(strata, Sequence) or isinstance(strata, str) or len(strata) > _MAX_STRATA:
        raise InvalidRequestError(f"must be a list of at most {_MAX_STRATA} strata", field=f"{field}.strata")
    return Sampling(
        _check_rate(value.get("rate", 1.0), f"{field}.rate"),
        tuple(_parse_stratum(each, f"{field}.strata[{place}]") for place, each in enumerate(strata)),
    )


def _parse_stratum(value: Any, field: str) -> Stratum:
    if not isinstance(value, Mapping) or set(value) != {"name", "conditions", "rate"}:
        raise InvalidRequestError("must have a name, conditions and a rate, and nothing else", field=field)
    name = value["name"]
    if not isinstance(name, str) or not name.strip() or len(name) > 100:
        raise InvalidRequestError("must be a text of at most 100 characters", field=f"{field}.name")
    return Stratum(
        name,
        parse_conditions(value["conditions"], f"{field}.conditions"),
        _check_rate(value["rate"], f"{field}.rate"),
    )


def _check_rate(rate: Any, field: str) -> float:
    # Without a chance of being sampled, nothing could be said of such spans, nor of all together.
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate <= 1:
        raise InvalidRequestError("must be above 0 and at most 1", field=field)
    return float(rate)
