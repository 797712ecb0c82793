"""How far raters agree, beyond what chance would give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate, product
from statistics import fmean
from typing import Any, Final, Literal, TypeAlias

Weights: TypeAlias = Literal["linear", "quadratic"]
Level: TypeAlias = Literal["nominal", "ordinal", "interval"]
Spread: TypeAlias = Callable[[Sequence[Any]], float]
"""The distances between all ordered pairs of ratings, added up."""


def agreement(first: Sequence[Hashable], second: Sequence[Hashable]) -> float | None:
    """Return the share of items that two raters rate alike; None without items."""
    pairs = list(zip(first, second, strict=True))
    return sum(a == b for a, b in pairs) / len(pairs) if pairs else None


def cohen_kappa(
    first: Sequence[Any],
    second: Sequence[Any],
    *,
    weights: Weights | None = None,
    categories: Sequence[Any] | None = None,
) -> float | None:
    """Return Cohen's kappa of two raters: 1 for full agreement, 0 for what chance gives, below 0 for less.

    With weights, ratings that lie close disagree less (J. Cohen, 1960 and 1968).

    Args:
        first: One rater's category of each item.
        second: The other's, of the same items in the same order.
        weights: "linear" or "quadratic" in the distance of the categories' places in their order.
        categories: All categories in order; the sorted ones that occur unless given.

    Returns:
        None where it is not defined: without items, or where both use a single category.
    """
    pairs = list(zip(first, second, strict=True))
    if not pairs:
        return None
    order = sorted({*first, *second}) if categories is None else categories
    distance = place_distance(order, weights)
    observed = sum(distance(a, b) for a, b in pairs) / len(pairs)
    counts = product(Counter(first).items(), Counter(second).items())
    expected = sum(n * m * distance(a, b) for (a, n), (b, m) in counts) / len(pairs) ** 2
    # Where both raters use one category throughout, chance alone agrees fully: kappa would be 0 / 0.
    return 1 - observed / expected if expected else None


def krippendorff_alpha(units: Sequence[Sequence[Any]], *, level: Level = "nominal") -> float | None:
    """Return Krippendorff's alpha: 1 for full agreement, 0 for what chance gives, below 0 for less.

    It takes any number of raters and missing ratings (K. Krippendorff, Content Analysis, 2004, chapter 11).

    Args:
        units: For each item its ratings, one of each rater; None where a rater gave none.
        level: "nominal" for categories, "ordinal" for ranks, "interval" for numbers.

    Returns:
        None where it is not defined: when no item has two ratings, or only one value occurs.
    """
    rated = [[value for value in unit if value is not None] for unit in units]
    rated = [unit for unit in rated if len(unit) > 1]
    everything = [value for unit in rated for value in unit]
    spread = _SPREADS[level](everything)
    expected = spread(everything)
    if not expected:
        return None
    # Each rating counts once, whatever the number of raters of its item: an item of m ratings has m (m - 1)
    # ordered pairs, each of which weighs 1 / (m - 1).
    observed = sum(spread(unit) / (len(unit) - 1) for unit in rated)
    return 1 - (len(everything) - 1) * observed / expected


def place_distance(order: Sequence[Any], weights: Weights | None) -> Callable[[Any, Any], float]:
    """Return how far two of the categories are apart for Cohen's kappa."""
    if weights is None:
        return lambda a, b: float(a != b)
    rank = {category: float(number) for number, category in enumerate(order)}
    if weights == "linear":
        return lambda a, b: abs(rank[a] - rank[b])
    return lambda a, b: (rank[a] - rank[b]) ** 2


def _nominal_spread(everything: Sequence[Any]) -> Spread:
    return lambda values: float(len(values) ** 2 - sum(n * n for n in Counter(values).values()))


def _interval_spread(everything: Sequence[Any]) -> Spread:
    return _squares


def _ordinal_spread(everything: Sequence[Any]) -> Spread:
    middle = middle_ranks(everything)
    return lambda values: _squares([middle[value] for value in values])


def middle_ranks(everything: Sequence[Any]) -> dict[Any, float]:
    """Return where each value stands, so that values are as far apart as the ratings that lie between them.

    Of the ratings at either value, half count.
    """
    counts = sorted(Counter(everything).items())
    below = accumulate((n for _, n in counts), initial=0)
    return {value: start + n / 2 for (value, n), start in zip(counts, below, strict=False)}


def _squares(values: Sequence[float]) -> float:
    centre = fmean(values) if values else 0.0
    return 2 * len(values) * sum((value - centre) ** 2 for value in values)


_SPREADS: Final[dict[Level, Callable[[Sequence[Any]], Spread]]] = {
    "nominal": _nominal_spread,
    "ordinal": _ordinal_spread,
    "interval": _interval_spread,
}
