"""How far agreement that was seen may be from that of all items.

Both measures are 1 minus a ratio: the disagreement within items to that between any two ratings. The interval
is put together on the scale of logarithms from those of these two (G. Y. Zou, A. Donner, 2008, MOVER). That
of the disagreement is Wilson's for as many verdicts as would have its variance, so that it holds for few
items that hardly disagree. That of the ratings is the infinitesimal jackknife's (L. A. Jaeckel, 1972).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from dokimos.stats._agreement import Level, Weights, middle_ranks, place_distance
from dokimos.stats._intervals import Interval, wilson_interval
from dokimos.stats._student_t import t_quantile

_PRIOR_ITEMS: Final = 2.0
_LARGEST_LOG: Final = 690.0
"""Beyond this, e to the power of it overflows."""
Weighted = tuple[Sequence[Any], float]
"""The ratings of an item, and how much they count."""


def cohen_kappa_interval(
    first: Sequence[Any],
    second: Sequence[Any],
    *,
    weights: Weights | None = None,
    categories: Sequence[Any] | None = None,
    confidence: float = 0.95,
) -> Interval | None:
    """Return the interval of Cohen's kappa; None where kappa is not defined, or for fewer than two items.

    Arguments are those of `cohen_kappa`. Where both raters agree on every item, the interval ends at 1.

    Example:
        >>> first = ["yes"] * 25 + ["no"] * 25
        >>> second = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
        >>> found = cohen_kappa_interval(first, second)  # of a kappa of 0.4
        >>> 0.1 < found.low < 0.4 < found.high < 0.7
        True
    """
    pairs = list(zip(first, second, strict=True))
    used = {*first, *second}
    if len(pairs) < 2 or len(used) < 2:
        return None
    distance = place_distance(sorted(used) if categories is None else categories, weights)
    largest = max(distance(a, b) for a, b in product(used, repeat=2))
    chance = _mean_distances([(b, 1.0) for b in second], distance)
    within = _Disagreement(
        apart=[distance(a, b) / largest for a, b in pairs],
        sizes=[1] * len(pairs),
        expected=sum(map(chance, first)) / len(pairs) / largest,
        usual=1.0,
    )
    prior = _prior_pairs([*first, *second]) if weights is None else []
    return within.interval(_shares_of_pairs([*((pair, 1.0) for pair in pairs), *prior], distance), confidence)


def _shares_of_pairs(
    weighted: Sequence[Weighted], distance: Callable[[Any, Any], float]
) -> list[tuple[float, float]]:
    """Return what each item adds to the logarithm of how far the two raters are apart by chance."""
    total = sum(weight for _, weight in weighted)
    to_second = _mean_distances([(b, weight) for (_, b), weight in weighted], distance)
    to_first = _mean_distances([(a, weight) for (a, _), weight in weighted], distance)
    from_others = [(to_second(a) + to_first(b), weight) for (a, b), weight in weighted]
    expected = sum(each * weight for each, weight in from_others) / total / 2
    return [((each / expected - 2) / total, weight) for each, weight in from_others]


def krippendorff_alpha_interval(
    units: Sequence[Sequence[Any]], *, level: Level = "nominal", confidence: float = 0.95
) -> Interval | None:
    """Return the interval of Krippendorff's alpha; None where alpha is not defined or there is a single item.

    Arguments are those of `krippendorff_alpha`. Items count, not ratings: more raters of the same items make
    the interval only as much narrower as they agree.

    Example:
        >>> units = [["good", "good", None], ["bad", "bad", "bad"], ["good", "bad", "good"]] * 10
        >>> found = krippendorff_alpha_interval(units)
        >>> 0.1 < found.low < 0.5 < found.high < 0.8
        True
    """
    rated = _keep_comparable(units)
    everything = [value for unit in rated for value in unit]
    if len(rated) < 2 or len(set(everything)) < 2:
        return None
    placed = _place(rated, middle_ranks(everything) if level == "ordinal" else None)
    to_seen = _distance_sums(placed, level)
    apart = sum(sum(map(to_seen, unit)) for unit, _ in placed)
    differing = sum(n * (len(everything) - n) for n in Counter(everything).values())
    within = _Disagreement(
        apart=[_mean_distance(unit, level) for unit, _ in placed],
        sizes=[len(unit) for unit in rated],
        expected=apart / (len(everything) * (len(everything) - 1)),
        usual=apart / differing,
    )
    return within.interval(_shares_of_ratings(placed, everything, level), confidence)


def _keep_comparable(units: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return the ratings of each item that has two or more."""
    rated = ([value for value in unit if value is not None] for unit in units)
    return [unit for unit in rated if len(unit) > 1]


def _place(rated: Sequence[Sequence[Any]], ranks: Mapping[Any, float] | None) -> list[Weighted]:
    """Return the places of the ratings of each item: their ranks, or with None the ratings themselves."""
    return [(unit if ranks is None else [ranks[value] for value in unit], 1.0) for unit in rated]


def _mean_distance(unit: Sequence[Any], level: Level) -> float:
    """Return for all ratings of an item together how far the other ones are away, on average."""
    return sum(map(_distance_sums([(unit, 1.0)], level), unit)) / (len(unit) - 1)


def _shares_of_ratings(
    placed: Sequence[Weighted], everything: Sequence[Any], level: Level
) -> list[tuple[float, float]]:
    """Return what each item adds to the logarithm of how far any two ratings are apart."""
    weighted = [*placed, *(_prior_pairs(everything) if level == "nominal" else [])]
    to_all = _distance_sums(weighted, level)
    from_all = [(sum(map(to_all, unit)), len(unit), weight) for unit, weight in weighted]
    expected = sum(each * weight for each, _, weight in from_all)
    total = sum(size * weight for _, size, weight in from_all)
    return [(2 * each / expected - 2 * size / total, weight) for each, size, weight in from_all]


@dataclass(frozen=True, slots=True)
class _Disagreement:
    """How far ratings of one item are apart, beside any two ratings."""

    apart: Sequence[float]
    """Of each item the distances of its ratings, one for each rating, added up."""
    sizes: Sequence[int]
    """Of each item how many ratings it has."""
    expected: float
    usual: float
    """How far two ratings that differ are apart, on average: a disagreement yet unseen is as large."""

    def interval(self, of_ratings: Sequence[tuple[float, float]], confidence: float) -> Interval:
        """Return the interval of 1 minus the ratio.

        Args:
            of_ratings: What each item adds to the logarithm of `expected`, and how much it counts.
            confidence: How often the interval holds the true value.
        """
        n, t = len(self.apart), t_quantile((1 + confidence) / 2, len(self.apart) - 1)
        spread = t * math.sqrt(n / (n - 1) * sum(weight * share**2 for share, weight in of_ratings))
        rate = sum(self.apart) / sum(self.sizes)
        within = self._interval_within(rate, confidence)
        if rate == 0:
            return Interval(self._value(within.high, spread), 1.0)
        low = self._value(rate, math.hypot(math.log(within.high / rate), spread))
        if within.low <= 0:
            return Interval(low, 1.0)
        return Interval(low, self._value(rate, -math.hypot(math.log(rate / within.low), spread)))

    def _value(self, rate: float, log_distance: float) -> float:
        return max(-1.0, 1 - rate / self.expected * math.exp(min(_LARGEST_LOG, log_distance)))

    def _interval_within(self, rate: float, confidence: float) -> Interval:
        """Return Wilson's interval for as many verdicts as would have the variance of the distances."""
        n, total = len(self.apart), sum(self.sizes)
        pairs = list(zip(self.apart, self.sizes, strict=True))
        variance = n / (n - 1) * sum(((own - rate * size) / total) ** 2 for own, size in pairs)
        largest = max(self.usual, *(own / size for own, size in pairs))
        share = rate / largest
        effective = share * (1 - share) * largest**2 / variance if variance and share < 1 else n
        within = wilson_interval(share * effective, effective, confidence=confidence)
        return Interval(within.low * largest, within.high * largest)


def _prior_pairs(values: Sequence[Any]) -> list[Weighted]:
    """Return two items spread evenly over all pairs of categories, to be added to those that were seen.

    Without them an interval from few items is too narrow where a category hardly occurs. For two categories
    it is H. Jeffreys' half an item for each pair.
    """
    categories = set(values)
    weight = _PRIOR_ITEMS / len(categories) ** 2
    return [((a, b), weight) for a in categories for b in categories]


def _mean_distances(
    ratings: Sequence[tuple[Any, float]], distance: Callable[[Any, Any], float]
) -> Callable[[Any], float]:
    """Return a function from a category to how far these ratings are away from it, on average."""
    shares: dict[Any, float] = {}
    for rating, weight in ratings:
        shares[rating] = shares.get(rating, 0.0) + weight
    total = sum(shares.values())
    known: dict[Any, float] = {}

    def mean(value: Any) -> float:
        if value not in known:
            known[value] = sum(share * distance(value, other) for other, share in shares.items()) / total
        return known[value]

    return mean


def _distance_sums(units: Sequence[Weighted], level: Level) -> Callable[[Any], float]:
    """Return a function from a place to the weighted sum of its distances from all places."""
    places = [(place, weight) for unit, weight in units for place in unit]
    total = sum(weight for _, weight in places)
    if level == "nominal":
        shares: dict[Any, float] = {}
        for place, weight in places:
            shares[place] = shares.get(place, 0.0) + weight
        return lambda place: total - shares.get(place, 0.0)
    # From the mean, so that large numbers that lie close lose no digits.
    centre = sum(weight * place for place, weight in places) / total
    squares = sum(weight * (place - centre) ** 2 for place, weight in places)
    return lambda place: float(total * (place - centre) ** 2 + squares)
