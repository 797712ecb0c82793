"""What a call cost: tokens, money and time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields
from operator import attrgetter
from typing import Final, TypeAlias, TypeVar

from dokimos._core.fast_constructor import fast_factory
from dokimos._core.jsonable import WIRE_CONFIG
from dokimos._core.means import exact_sum

PriceTable: TypeAlias = Callable[[str | None, int | None, int | None], float | None]
"""`prices(model, tokens_in, tokens_out)` in US dollars; None where the price is not known."""


@dataclass(frozen=True, slots=True)
class CallMetrics:
    """Tokens, cost and time of one model call or of several added up; None means "not measured".

    Example:
        >>> CallMetrics(120, 30, cost_usd=0.002) + CallMetrics(80, 20, cost_usd=0.001)
        CallMetrics(tokens_in=200, tokens_out=50, cost_usd=0.003...)
    """

    tokens_in: int | None = None
    """Tokens read, cached ones included."""
    tokens_out: int | None = None
    """Tokens written, reasoning included."""
    _: KW_ONLY
    cost_usd: float | None = None
    latency_ms: float | None = None
    first_chunk_ms: float | None = None
    """Time to the first piece of a streamed answer."""
    model: str | None = None
    cached_tokens_in: int | None = None
    reasoning_tokens_out: int | None = None

    __pydantic_config__ = WIRE_CONFIG

    def __post_init__(self) -> None:
        # One attrgetter for all fields: this runs for each call of a task and a model.
        for value in _numbers(self):
            if value is not None and not (isinstance(value, _KINDS) and 0 <= value < math.inf):
                name = next(name for name in _NUMBERS if getattr(self, name) is value)
                raise ValueError(f"{name} must be a finite number of at least 0, or None, not {value!r}.")

    @property
    def tokens(self) -> int | None:
        """Tokens in and out together, None if neither is known."""
        return _total(self.tokens_in, self.tokens_out)

    def __add__(self, other: CallMetrics) -> CallMetrics:
        """Add what is known on either side; the model and first chunk are kept where both agree on one."""
        if not isinstance(other, CallMetrics):
            return NotImplemented
        return _new(
            _total(self.tokens_in, other.tokens_in),
            _total(self.tokens_out, other.tokens_out),
            cost_usd=_total_cost(self.cost_usd, other.cost_usd),
            latency_ms=_total(self.latency_ms, other.latency_ms),
            first_chunk_ms=_shortest(self.first_chunk_ms, other.first_chunk_ms),
            model=_common(self.model, other.model),
            cached_tokens_in=_total(self.cached_tokens_in, other.cached_tokens_in),
            reasoning_tokens_out=_total(self.reasoning_tokens_out, other.reasoning_tokens_out),
        )


_new: Final = fast_factory(CallMetrics)  # a run with judges adds some for each item
_KINDS: Final = (int, float)
_NUMBERS: Final = tuple(f.name for f in fields(CallMetrics) if f.name != "model")
_numbers: Final = attrgetter(*_NUMBERS)


_NumberT = TypeVar("_NumberT", int, float)


def _total(a: _NumberT | None, b: _NumberT | None) -> _NumberT | None:
    if a is None or b is None:
        return b if a is None else a
    return a + b


def _total_cost(a: float | None, b: float | None) -> float | None:
    return _total(a, b) if a is None or b is None else exact_sum((a, b))


def _shortest(a: float | None, b: float | None) -> float | None:
    return _total(a, b) if a is None or b is None else min(a, b)


def _common(a: str | None, b: str | None) -> str | None:
    if a is None or b is None:
        return b if a is None else a
    return a if a == b else None
