"""What a call cost: tokens, money and time."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, fields
from operator import attrgetter
from typing import Any, Final, TypeAlias

from dokimos.core.jsonable import WIRE_CONFIG
from dokimos.core.means import exact_sum
from dokimos.core.quick_init import quick_init

PriceTable: TypeAlias = Callable[[str | None, int | None, int | None], float | None]
"""`prices(model, tokens_in, tokens_out)` in US dollars; None where the price is not known."""


@quick_init
@dataclass(frozen=True, slots=True)
class CallMetrics:
    """Tokens, cost and time of one model call or of several added up; None means "not measured"."""

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
        for value in _numbers(self):
            if value is not None and not (isinstance(value, _KINDS) and 0 <= value < math.inf):
                name = next(name for name in _NUMBERS if getattr(self, name) is value)
                raise ValueError(f"{name} must be a finite number of at least 0, or None, not {value!r}.")

    @property
    def tokens(self) -> int | None:
        """Tokens in and out together, None if neither is known."""
        known = [count for count in (self.tokens_in, self.tokens_out) if count is not None]
        return sum(known) if known else None

    def __add__(self, other: CallMetrics) -> CallMetrics:
        """Add what is known on either side; the model and first chunk are kept where both agree on one."""
        if not isinstance(other, CallMetrics):
            return NotImplemented
        return CallMetrics(**{name: _sum(name, self, other) for name in _NAMES})


_KINDS: Final = (int, float)
_NAMES: Final = tuple(f.name for f in fields(CallMetrics))
_NUMBERS: Final = tuple(name for name in _NAMES if name != "model")
_numbers: Final = attrgetter(*_NUMBERS)


def _sum(name: str, left: CallMetrics, right: CallMetrics) -> Any:
    a, b = getattr(left, name), getattr(right, name)
    if a is None or b is None:
        return b if a is None else a
    if name == "model":
        return a if a == b else None
    if name == "first_chunk_ms":
        return min(a, b)
    return exact_sum((a, b)) if name == "cost_usd" else a + b
