"""Before money is spent: what a data set can show, and how many items and repeats show more."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, variance
from typing import Final, Self

from dokimos.comparison.config import share as check_share
from dokimos.comparison.diff import PASS_RATE
from dokimos.comparison.snapshot import Snapshot
from dokimos.core import checks
from dokimos.core.checks import is_number
from dokimos.core.results import ExperimentResult
from dokimos.errors import ConfigurationError
from dokimos.stats.multiplicity import sidak_level
from dokimos.stats.power import Spread, mcnemar_power, paired_power
from dokimos.stats.search import fewest, smallest
from dokimos.stats.verdict_power import VerdictDesign, verdict_power

REPEATS: Final = (1, 2, 3)
SIMULATIONS: Final = 400
NOISE: Final = 0.2
PASS_SHARE: Final = 0.8
_LEAST_NOISE: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """What is known, or taken to be so, of the scores of one metric."""

    name: str
    """The evaluator; `PASS_RATE` for the pass rate."""
    mean: float
    deviation: float
    """Standard deviation of a score, over items and repeats."""
    noise_share: float
    """Share of the variance that is chance: what a repeat of the same item differs by."""
    measured: bool = False
    """Whether the noise was measured on repeats, not assumed."""
    verdicts: bool = True
    """Whether the scores are 0 or 1."""

    @classmethod
    def of_verdicts(cls, rate: float, noise_share: float) -> Self:
        """Assume a pass rate, and how much of its variance is chance."""
        check_share("The pass rate", rate)
        if not is_number(noise_share) or not 0 <= noise_share <= 1:
            raise ConfigurationError(f"The noise must be from 0 to 1, not {noise_share!r:.80}.")
        deviation = math.sqrt(rate * (1 - rate))
        return cls(name=PASS_RATE, mean=rate, deviation=deviation, noise_share=noise_share)

    @classmethod
    def of(cls, name: str, repeats: Sequence[Sequence[float]], noise_share: float) -> Self | None:
        """Take it from the repeats of past items; where none was repeated, the noise is assumed."""
        scores = [score for item in repeats for score in item]
        if len(scores) < 2:
            return None
        total = variance(scores)
        found = Spread.of(repeats)
        if found is not None and total > 0:
            noise_share = min(1.0, found.noise**2 / 2 / total)
        return cls(
            name=name,
            mean=fmean(scores),
            deviation=math.sqrt(total),
            noise_share=noise_share,
            measured=found is not None,
            verdicts=set(scores) <= {0.0, 1.0},
        )

    def power(self, n: int, drop: float, repeats: int, alpha: float) -> float:
        """Return the chance that `n` items with so many repeats on each side show a drop."""
        if not self.verdicts:
            return paired_power(n, drop, self._spread(drop).of_mean(repeats), alpha=alpha)
        if drop > self.mean:
            return 0.0
        if repeats == 1:
            flips = min(self.noise_share * self.deviation**2, (1 - drop) / 2)
            return mcnemar_power(n, worse=flips + drop, better=flips, alpha=alpha)
        design = VerdictDesign(rate=self.mean, noise_share=self.noise_share, repeats=repeats)
        return verdict_power(n, drop, design, alpha=alpha, simulations=SIMULATIONS)

    def _spread(self, drop: float) -> Spread:
        noise = max(_LEAST_NOISE, self.deviation * math.sqrt(2 * self.noise_share))
        # What is not chance makes a drop fall on some items more than on others.
        uneven = math.sqrt((1 - self.noise_share) * drop * (1 - drop))
        return Spread(items=uneven * self.deviation, noise=noise)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """One metric with so many repeats on each side."""

    metric: str
    repeats: int
    detectable_drop: float | None
    """The smallest drop that the items at hand show; None where there are none, or not even a whole one."""
    items_needed: int | None
    """Items that show the drop asked for; None for more than a million."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a comparison can see, by metric and number of repeats."""

    items: int | None
    drop: float
    power: float
    alpha: float
    level: float
    """What each metric's test has of alpha, at the least."""
    assumptions: tuple[Assumption, ...]
    rows: tuple[PlanRow, ...]
    cost_usd: float | None = None
    """What one repeat of one item cost so far, where that is known."""
    notes: tuple[str, ...] = field(default=())

    def rows_of(self, metric: str) -> tuple[PlanRow, ...]:
        return tuple(row for row in self.rows if row.metric == metric)


def plan(
    assumptions: Sequence[Assumption],
    *,
    items: int | None,
    drop: float = 0.05,
    power: float = 0.8,
    alpha: float = 0.05,
    metrics: int | None = None,
    repeats: Sequence[int] = REPEATS,
    cost_usd: float | None = None,
) -> Plan:
    """Say what a comparison can see under some assumptions.

    Args:
        assumptions: The metrics.
        items: Items at hand, if there are some.
        drop: The drop that is to be seen.
        power: The chance to see it.
        alpha: How often an unchanged system may be called worse.
        metrics: How many metrics share alpha; as many as there are assumptions unless given.
        repeats: Numbers of repeats on each side to plan for.
        cost_usd: What one repeat of one item costs.
    """
    _check(assumptions, items, drop=drop, power=power, alpha=alpha)
    level = sidak_level(alpha, checks.positive("metrics", metrics or len(assumptions)))
    rows = tuple(
        PlanRow(
            metric=one.name,
            repeats=number,
            detectable_drop=None if items is None else _detectable(one, items, number, level, power),
            items_needed=fewest(_power_of_items(one, drop, number, level), power),
        )
        for one in assumptions
        for number in repeats
    )
    return Plan(
        items=items,
        drop=drop,
        power=power,
        alpha=alpha,
        level=level,
        assumptions=tuple(assumptions),
        rows=rows,
        cost_usd=cost_usd,
        notes=tuple(_notes(assumptions)),
    )


def _check(assumptions: Sequence[Assumption], items: int | None, **shares: float) -> None:
    for name, value in shares.items():
        check_share(name, value)
    if items is not None:
        checks.positive("items", items)
    if not assumptions:
        raise ConfigurationError("There is nothing to plan for: no metric is known.")


def assumptions_of(result: ExperimentResult, *, noise_share: float = NOISE) -> list[Assumption]:
    """Take the pass rate and the scores of each evaluator from a past result.

    With repeats the noise is measured; without, `noise_share` of the variance is assumed to be noise.
    """
    snapshot = Snapshot.of(result)
    repeats: Mapping[str, list[Sequence[float]]] = {
        PASS_RATE: [tuple(map(float, item.verdicts)) for item in snapshot.items if item.verdicts],
        **{
            name: [item.scores[name] for item in snapshot.items if item.scores.get(name)]
            for name in sorted(snapshot.evaluators)
        },
    }
    found = (Assumption.of(name, scores, noise_share) for name, scores in repeats.items())
    return [one for one in found if one is not None]


def _detectable(one: Assumption, items: int, repeats: int, level: float, power: float) -> float | None:
    most = one.mean if one.verdicts else 1.0
    return smallest(lambda drop: one.power(items, drop, repeats, level), most, power) if most else None


def _power_of_items(one: Assumption, drop: float, repeats: int, level: float) -> Callable[[int], float]:
    return lambda n: one.power(n, drop, repeats, level)


def _notes(assumptions: Sequence[Assumption]) -> Iterator[str]:
    if not all(one.measured for one in assumptions):
        yield (
            "Without repeats the noise is an assumption. Run the data set twice or more (--runs 2, or "
            "dokimos noise) to measure it."
        )
    if any(one.measured and one.noise_share == 0 for one in assumptions):
        yield "Where repeats never differed, more of them show nothing new: only more items do."
