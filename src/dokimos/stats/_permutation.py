"""Sign-flip permutation tests of paired differences: of one metric, and of a family of metrics together.

If nothing changed, baseline and candidate of an item could as well have been swapped, which turns the sign of
its difference. The tests count the swaps that make a sum at least as large as the one that was seen.

Sums are exact: differences are integers, and the sums of thousands of draws are held as bit slices. An
item's swaps depend on the seed and its key alone, so neither the order of the items nor what else is tested
changes a p-value, and it is the same on every machine.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import shake_128
from typing import Final, Self, TypeAlias

from dokimos.stats._bit_slices import at_least, place_of, weighted_sum
from dokimos.stats._mcnemar import mcnemar_p

Deltas: TypeAlias = Mapping[str, int]
"""The difference of each item by its key, all in one unit: see `paired_deltas`."""

# Hits count ties, and 0.1 + 0.2 has to tie with 0.3: as floats they do not, as millionths they do.
SCALE: Final = 1_000_000
ITERATIONS: Final = 10_000
SEED: Final = 42
STOP_ABOVE: Final = 0.1
EXACT_ITEMS: Final = 14
# A quarter of the draws is looked at first: it decides most metrics that did not change, whose p-value is
# large.
_FIRST_LOOK: Final = 4


@dataclass(frozen=True, slots=True)
class SignFlipTest:
    """The two-sided p-value of one metric."""

    p: float
    draws: int | None = None
    """Random swaps that it was counted from; None if it is exact."""


@dataclass(frozen=True, slots=True)
class FamilyTest:
    """The p-values of several metrics, alone and as a family."""

    marginal: Mapping[str, SignFlipTest]
    """Each metric's own test, the same as if it were the only one."""
    adjusted: Mapping[str, float]
    """p-values that bound the chance of any false alarm in the family; never below the marginal ones."""


def to_fixed_point(score: float) -> int:
    """Return a score as a whole number of millionths."""
    return round(score * SCALE)


def paired_deltas(
    baseline: Mapping[str, Sequence[float]], candidate: Mapping[str, Sequence[float]]
) -> dict[str, int]:
    """Return mean candidate score minus mean baseline score of every shared item, as integers in one unit.

    The scores of an item are those of its repeats. The unit is such that no division rounds: equal
    differences stay equal, whatever the numbers of repeats. For the size of a difference in scores, use the
    scores themselves.
    """
    shared = [key for key in baseline if baseline[key] and candidate.get(key)]
    unit = math.lcm(*{len(side[key]) for side in (baseline, candidate) for key in shared})
    if unit == 1:  # one repeat of each item, as in most runs
        return {key: round(candidate[key][0] * SCALE) - round(baseline[key][0] * SCALE) for key in shared}
    return {key: _total(candidate[key], unit) - _total(baseline[key], unit) for key in shared}


def _total(scores: Sequence[float], unit: int) -> int:
    return sum(map(to_fixed_point, scores)) * (unit // len(scores))


def sign_flip_test(
    deltas: Deltas, *, iterations: int = ITERATIONS, seed: int = SEED, stop_above: float = STOP_ABOVE
) -> SignFlipTest:
    """Test whether the mean difference is zero (R. A. Fisher, The Design of Experiments, 1935).

    With at most 14 items that differ, all swaps are enumerated; differences of a single size have the
    binomial distribution, and the test is McNemar's. Otherwise p = (hits + 1) / (iterations + 1) over random
    swaps (B. Phipson, G. K. Smyth, 2010).

    It holds alpha where both sides have as many repeats of an item: a difference of means of unlike numbers
    is not as likely with the other sign.

    Counting ends early once `stop_above * iterations` hits were seen: p is then hits / draws, which is as
    valid (J. Besag, P. Clifford, 1991). It is never below `stop_above`, so a decision at any alpha below that
    is the same as without stopping.
    """
    return max_t_test({"": deltas}, iterations=iterations, seed=seed, stop_above=stop_above).marginal[""]


def max_t_test(
    deltas: Mapping[str, Deltas],
    *,
    iterations: int = ITERATIONS,
    seed: int = SEED,
    stop_above: float = STOP_ABOVE,
) -> FamilyTest:
    """Test several metrics of the same items together, by name, so that any false alarm is as rare as stated.

    A draw swaps an item in every metric at once, which keeps however the metrics move together. The statistic
    of a metric is its sum over the root of its sum of squares. The adjusted p-value counts the draws in
    which the largest statistic of all metrics not yet rejected reaches that of the metric: step-down max-T
    (P. H. Westfall, S. S. Young, 1993). It bounds the family-wise error rate under any dependence, and
    metrics that move together cost nothing. Items without a metric are left out of its deltas.

    `stop_above` works as in `sign_flip_test`, by the hits of the family's most significant metric.
    """
    family = _Family({name: _Metric.of(its) for name, its in deltas.items()})
    for swaps in _stages(family.keys, iterations, seed, stop_above):
        family.look(swaps)
        if family.is_decided:
            break
    adjusted = family.adjust()
    return FamilyTest({n: family.marginal[n] for n in deltas}, {n: adjusted.get(n, 1.0) for n in deltas})


def exchange_p(before: Sequence[float], now: Sequence[float]) -> float:
    """Return how likely `now` is this far below `before` or further, by all ways to deal the values out.

    E. J. G. Pitman, Significance tests which may be applied to samples from any populations (1937).
    """
    pooled = [to_fixed_point(score) for score in (*before, *now)]
    seen, size = sum(pooled[: len(before)]), len(before)
    # All sums at once, by how many values were dealt to the first side, instead of all ways one by one.
    ways: list[Counter[int]] = [Counter({0: 1}), *(Counter[int]() for _ in range(size))]
    for score in pooled:
        # Downwards, so that a score is not taken twice.
        for taken in range(size, 0, -1):
            for total, count in ways[taken - 1].items():
                ways[taken][total + score] += count
    hits = sum(count for total, count in ways[size].items() if total >= seen)
    return hits / math.comb(len(pooled), size)


class _Family:
    """What is known of several metrics after the draws so far."""

    def __init__(self, metrics: Mapping[str, _Metric]) -> None:
        self.metrics = metrics
        self.marginal = {n: SignFlipTest(p) for n in metrics if (p := metrics[n].exact_p()) is not None}
        differing = [name for name in metrics if metrics[name].deltas]
        self.order = sorted(differing, key=lambda name: (-metrics[name].statistic, name))
        self.steps: list[SignFlipTest | None] = [None] * len(self.order)
        self.keys = {key for name in self.order for key in metrics[name].deltas}

    @property
    def has_steps(self) -> bool:
        """Whether the most significant metric is decided, below which no other can be."""
        return None not in self.steps[:1]

    @property
    def is_decided(self) -> bool:
        return self.has_steps and len(self.marginal) == len(self.metrics)

    def look(self, swaps: _Swaps) -> None:
        """Count the hits among these draws for whatever is not decided yet."""
        open_ones = [name for name in self.order if name not in self.marginal]
        # Sums are the cost of a test. Step-down needs those of all metrics, until it has decided.
        sums = {n: self.metrics[n].sums(swaps) for n in (open_ones if self.has_steps else self.order)}
        for name in open_ones:
            test = swaps.test(sums[name].reaching(self.metrics[name].total))
            if test is not None:
                self.marginal[name] = test
        if not self.has_steps:
            family = [(self.metrics[name], sums[name]) for name in self.order]
            self.steps = [swaps.test(hits) for hits in _step_down(family)]

    def adjust(self) -> dict[str, float]:
        """Return p-values that never fall from step to step; an undecided step is no less than the first."""
        floor, adjusted = 0.0, {}
        for name, step in zip(self.order, self.steps, strict=True):
            # The marginal value may be exact and the step's drawn: then chance can put the step's below it.
            floor = max(floor, step.p if step else 0.0, self.marginal[name].p)
            adjusted[name] = floor
        return adjusted


@dataclass(frozen=True, slots=True)
class _Swaps:
    """The swaps of some draws, and when their hits decide."""

    flips: Mapping[str, int]
    draws: int
    enough: int | None = None
    """Hits that end the count; None where all swaps are enumerated."""
    last: bool = True

    @property
    def everywhere(self) -> int:
        return (1 << self.draws) - 1

    def test(self, hits: int) -> SignFlipTest | None:
        """Return the test of the draws that hit; None while more draws have to decide."""
        count = hits.bit_count()
        if self.enough is None:
            return SignFlipTest(count / self.draws)
        if count >= self.enough:
            drawn = place_of(self.enough, hits)
            return SignFlipTest(self.enough / drawn, drawn)
        return SignFlipTest((count + 1) / (self.draws + 1), self.draws) if self.last else None


def _stages(keys: Collection[str], iterations: int, seed: int, stop_above: float) -> Iterator[_Swaps]:
    """Yield all swaps of few items, else the first of the random ones and then all of them."""
    if len(keys) <= EXACT_ITEMS:
        yield _every_swap(sorted(keys))
        return
    enough = max(1, math.ceil(stop_above * iterations))
    first = -(-iterations // _FIRST_LOOK)
    for draws in sorted({first, iterations}):
        # The first draws of a longer stage are those of the shorter one, as a longer output of SHAKE begins
        # with the shorter: stopping after the first is stopping early in one sequence, as Besag and Clifford
        # assume.
        flips = {key: _random_bits(f"{seed}:{key}", draws) for key in keys}
        yield _Swaps(flips, draws, enough, last=draws == iterations)


def _random_bits(name: str, count: int) -> int:
    """Return random bits that belong to a name; more of them begin with the same ones."""
    # A hash instead of `random`: an item keeps its swaps whatever else is tested, on every version of Python.
    # Keys read from JSON may hold lone surrogates.
    digest = shake_128(name.encode("utf-8", "surrogatepass")).digest((count + 7) // 8)
    return int.from_bytes(digest, "little") & ((1 << count) - 1)


def _every_swap(keys: Sequence[str]) -> _Swaps:
    """Return all combinations: the first item swaps in every second draw, the next in every second pair..."""
    draws = 1 << len(keys)
    everywhere = (1 << draws) - 1
    # All ones divided by 2**w + 1 are blocks of w zeros and w ones by turns: a geometric series.
    return _Swaps({key: everywhere // ((1 << (1 << i)) + 1) for i, key in enumerate(keys)}, draws)


@dataclass(frozen=True, slots=True)
class _Metric:
    """The differences of one metric that are not zero, in their largest common unit."""

    deltas: Deltas
    total: int
    """Size of their sum."""
    squares: int
    """Sum of their squares, which swaps do not change."""

    @classmethod
    def of(cls, deltas: Deltas) -> Self:
        # Smaller numbers have fewer bit slices, and verdicts become 1 and -1.
        unit = math.gcd(*deltas.values()) or 1
        small = {key: delta // unit for key, delta in deltas.items() if delta}
        return cls(small, abs(sum(small.values())), sum(delta * delta for delta in small.values()))

    @property
    def statistic(self) -> float:
        return self.total**2 / self.squares

    def exact_p(self) -> float | None:
        """Return the p-value where it is exact at no cost, else None."""
        if self.squares == len(self.deltas):  # all are 1 or -1
            worse = (len(self.deltas) - self.total) // 2
            return mcnemar_p(worse, len(self.deltas) - worse)
        if len(self.deltas) > EXACT_ITEMS:
            return None
        swaps = _every_swap(sorted(self.deltas))
        return self.sums(swaps).reaching(self.total).bit_count() / swaps.draws

    def sums(self, swaps: _Swaps) -> _Sums:
        """Return the sum of the differences in every draw."""
        groups: defaultdict[int, list[int]] = defaultdict(list)
        for key, delta in self.deltas.items():
            flip = swaps.flips[key]
            groups[abs(delta)].append(flip if delta > 0 else flip ^ swaps.everywhere)
        most = sum(map(abs, self.deltas.values()))
        return _Sums(weighted_sum(groups), most, swaps.everywhere)


@dataclass(frozen=True, slots=True)
class _Sums:
    """The sum in every draw, as what it lacks of the largest possible one: twice `lacking` less."""

    lacking: Sequence[int]
    most: int
    everywhere: int

    def reaching(self, size: int) -> int:
        """Return the draws whose sum is as large as `size`, either way."""
        if size <= 0:
            return self.everywhere
        # A sum is `most` less twice `lacking`. The bounds on `lacking` are rounded so that ties are hits on
        # both sides.
        below = at_least(self.lacking, (self.most + size + 1) // 2, self.everywhere)
        not_above = at_least(self.lacking, (self.most - size) // 2 + 1, self.everywhere)
        return below | (self.everywhere ^ not_above)


def _step_down(family: Sequence[tuple[_Metric, _Sums]]) -> Iterator[int]:
    """Yield for each metric the draws in which any statistic from it on reaches its own."""
    for step, (metric, _) in enumerate(family):
        hits = 0
        for other, sums in family[step:]:
            # The smallest sum whose square over the other's squares is not below the metric's statistic.
            # Integers throughout (the quotient and the root are both rounded up): floats would break ties by
            # their rounding.
            square = -(-(metric.total**2) * other.squares // metric.squares)
            hits |= sums.reaching(math.isqrt(square - 1) + 1 if square else 0)
        yield hits
