"""What model calls cost. dokimos knows no prices: they change, so a table has a date and is yours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dokimos._core.extras import require
from dokimos._core.metrics import CallMetrics, PriceTable


@dataclass(frozen=True, slots=True)
class Rate:
    """US dollars per million tokens."""

    tokens_in: float
    tokens_out: float
    cached_in: float | None = None
    """For tokens read from the provider's cache; the full price unless given."""


@dataclass(frozen=True, slots=True)
class Prices:
    """A price table: rates by model name, as of a day.

    A model is found by its whole name, or by the longest name in the table that it starts with, so that
    `gpt-5-mini-2025-08-07` has the price of `gpt-5-mini`. Every other model is unpriced.
    """

    rates: Mapping[str, Rate]
    as_of: str = ""

    def __call__(self, model: str | None, tokens_in: int | None, tokens_out: int | None) -> float | None:
        """Return the cost in US dollars, None where the model or its tokens are not known."""
        return self.cost(CallMetrics(tokens_in, tokens_out, model=model))

    def cost(self, metrics: CallMetrics) -> float | None:
        """Return the cost of a call, with tokens from the provider's cache at their own rate."""
        rate = None if metrics.model is None else self.rate_of(metrics.model)
        if rate is None or metrics.tokens_in is None or metrics.tokens_out is None:
            return None
        cached = min(metrics.cached_tokens_in or 0, metrics.tokens_in)
        cached_rate = rate.tokens_in if rate.cached_in is None else rate.cached_in
        read = (metrics.tokens_in - cached) * rate.tokens_in + cached * cached_rate
        return (read + metrics.tokens_out * rate.tokens_out) / 1_000_000

    def rate_of(self, model: str) -> Rate | None:
        """Return the rate of a model, None where it is not in the table."""
        if model in self.rates:
            return self.rates[model]
        # Only before a separator: gpt-4o is not a gpt-4.
        starts = [name for name in self.rates if model.startswith((f"{name}-", f"{name}:"))]
        return self.rates[max(starts, key=len)] if starts else None


def from_genai_prices() -> PriceTable:
    """Return the price table of the package `genai-prices`, which is dated by its release.

    Raises:
        MissingExtraError: where it is not installed (`pip install "dokimos[prices]"`).
    """
    library: Any = require("genai_prices", extra="prices")

    @lru_cache(maxsize=1024)
    def is_priced(model: str) -> bool:
        return price(model, 1, 1, 0) is not None

    def price(model: str, tokens_in: int, tokens_out: int, cached: int) -> float | None:
        usage = library.Usage(input_tokens=tokens_in, output_tokens=tokens_out, cache_read_tokens=cached)
        try:
            return float(library.calc_price(usage, model_ref=model).total_price)
        except LookupError:
            return None

    return _LibraryPrices(price, is_priced)


@dataclass(frozen=True, slots=True)
class _LibraryPrices:
    price: Any
    is_priced: Any

    def __call__(self, model: str | None, tokens_in: int | None, tokens_out: int | None) -> float | None:
        return self.cost(CallMetrics(tokens_in, tokens_out, model=model))

    def cost(self, metrics: CallMetrics) -> float | None:
        model, read, written = metrics.model, metrics.tokens_in, metrics.tokens_out
        if model is None or read is None or written is None or not self.is_priced(model):
            return None
        cost_usd: float | None = self.price(model, read, written, min(metrics.cached_tokens_in or 0, read))
        return cost_usd


def cost_of(prices: PriceTable, metrics: CallMetrics) -> float | None:
    """Ask a user's price table; one that fails, or gives nonsense, knows no price."""
    try:
        by_call = getattr(prices, "cost", None)  # `PricesCalls`, asked for at every call
        cost = (
            by_call(metrics)
            if callable(by_call)
            else prices(metrics.model, metrics.tokens_in, metrics.tokens_out)
        )
        return None if cost is None else CallMetrics(cost_usd=float(cost)).cost_usd
    except Exception:
        return None
