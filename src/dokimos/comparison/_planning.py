"""Plan a comparison (power analysis): what a data set can show, and how many items and repeats show more."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, variance
from typing import Final, Self

from dokimos._core import checks
from dokimos._core.checks import is_number
from dokimos._core.printable import Printable
from dokimos._core.results import ExperimentResult
from dokimos._core.score_range import share_of
from dokimos.comparison._config import ComparisonConfig
from dokimos.comparison._config import share as check_share
from dokimos.comparison._detectable_drop import AFFECTED_SHARE
from dokimos.comparison._diff import PASS_RATE
from dokimos.comparison._snapshot import Snapshot
from dokimos.errors import ConfigurationError
from dokimos.stats._multiplicity import sidak_level
from dokimos.stats._power import Spread, mcnemar_power
from dokimos.stats._search import find_fewest_items, find_smallest_effect
from dokimos.stats._uneven_power import UnevenDrop, uneven_power
from dokimos.stats._verdict_power import VerdictDesign, verdict_power

REPEATS: Final = (1, 2, 3)
SIMULATIONS: Final = 500
NOISE: Final = 0.2
PASS_SHARE: Final = 0.8
EPSILON: Final = ComparisonConfig().epsilon
"""Changes of the mean up to this size are none, however certain."""
_ABOUT: Final = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """What is known or assumed about the scores of one metric."""

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
    lower_is_better: bool = False
    affected: float = AFFECTED_SHARE
    """Share of the items that a drop of the scores falls on, over 0 and at most 1."""

    def __post_init__(self) -> None:
        if not is_number(self.affected) or not 0 < self.affected <= 1:
            raise ConfigurationError(
                f"affected must be a share of the items, over 0 and at most 1, not {self.affected!r:.80}."
            )

    @classmethod
    def of_verdicts(cls, rate: float, noise_share: float) -> Self:
        """Assume a pass rate, and how much of its variance is chance."""
        check_share("The pass rate", rate)
        if not is_number(noise_share) or not 0 <= noise_share <= 1:
            raise ConfigurationError(f"The noise must be from 0 to 1, not {noise_share!r:.80}.")
        deviation = math.sqrt(rate * (1 - rate))
        return cls(name=PASS_RATE, mean=rate, deviation=deviation, noise_share=noise_share)

    @classmethod
    def of(
        cls,
        name: str,
        repeats: Sequence[Sequence[float]],
        noise_share: float,
        *,
        lower_is_better: bool = False,
    ) -> Self | None:
        """Take it from the repeats of past items; where none was repeated, the noise is assumed."""
        scores = [score for item in repeats for score in item]
        if len(scores) < 2:
            return None
        total = variance(scores)
        spread = Spread.of(repeats)
        if spread is not None and total > 0:
            # `Spread` has the noise of a difference, which is that of two sides. By chance it may exceed the
            # whole variance.
            noise_share = min(1.0, spread.noise**2 / 2 / total)
        return cls(
            name=name,
            mean=fmean(scores),
            deviation=math.sqrt(total),
            noise_share=noise_share,
            measured=spread is not None,
            verdicts=set(scores) <= {0.0, 1.0},
            lower_is_better=lower_is_better,
        )

    def power(self, n: int, drop: float, repeats: int, alpha: float, *, even: bool = False) -> float:
        """Return the chance that `n` items with so many repeats on each side show a drop.

        The drop of a score falls on the share of the items that is `affected`, on more where so few cannot
        fall as far, that of a pass rate on as few as can take it: they never pass any more. If it is even,
        every item falls alike; verdicts that never differ between repeats cannot.
        """
        # A comparison calls a change this small none, so no number of items shows it.
        if drop > self.room or drop <= EPSILON:
            return 0.0
        if self.verdicts:
            return self._power_of_verdicts(n, drop, repeats, alpha, float(even and self.noise_share > 0))
        uneven = UnevenDrop(mean=drop, affected=1.0 if even else max(self.affected, drop / self.room))
        # Of a difference: two sides, each a mean of the repeats.
        deviation = self.deviation * math.sqrt(2 * self.noise_share / repeats)
        return uneven_power(n, uneven, deviation, alpha=alpha, simulations=SIMULATIONS)

    def _power_of_verdicts(self, n: int, drop: float, repeats: int, alpha: float, affected: float) -> float:
        design = VerdictDesign(
            rate=self.room, noise_share=self.noise_share, repeats=repeats, affected=affected
        )
        # Exact; only repeated verdicts need a simulation.
        if repeats == 1:
            chances = design.change_chances(drop)
            return mcnemar_power(n, worse=chances[-1], better=chances[1], alpha=alpha)
        return verdict_power(n, drop, design, alpha=alpha, simulations=SIMULATIONS)

    @property
    def room(self) -> float:
        """The most that the mean can get worse."""
        return 1 - self.mean if self.lower_is_better else self.mean


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRow:
    """One metric with so many repeats on each side."""

    metric: str
    repeats: int
    detectable_drop: float | None
    """The smallest drop on some of the items that the items at hand show; None where there are none, or not
    even a whole one is seen."""
    items_needed: int | None
    """Items that show the drop asked for where it falls on some of them; None for more than a million."""
    even_detectable_drop: float | None
    """The same where every item falls alike."""
    even_items_needed: int | None

    @property
    def answers_needed(self) -> int | None:
        """Answers on each side: items times repeats."""
        return None if self.items_needed is None else self.items_needed * self.repeats


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plan(Printable):
    """What a comparison can see, by metric and number of repeats."""

    __dokimos_view__ = "dokimos.comparison._plan_console:VIEW"

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
    advice: str = ""
    """What shows the drop with the fewest answers, in every metric."""
    notes: tuple[str, ...] = field(default=())

    @property
    def repeats(self) -> tuple[int, ...]:
        """The numbers of repeats that were planned for, rising."""
        return tuple(sorted({row.repeats for row in self.rows}))

    def items_needed(self, repeats: int) -> int | None:
        """Return the items that show the drop in every metric; None for more than a million."""
        needed = [row.items_needed for row in self.rows if row.repeats == repeats]
        return None if None in needed else max(filter(None, needed), default=None)

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

    What decides is how many items take the drop: the same drop of the mean is much harder to see where a few
    items fall far than where all fall a little. The plan has both: a drop on the share of the items that an
    assumption calls affected, and one on all alike.

    Args:
        assumptions: The metrics, and the share of the items that a drop falls on.
        items: Items at hand, if there are some.
        drop: The drop of the mean that is to be seen.
        power: The chance to see it.
        alpha: How often an unchanged system may be called worse.
        metrics: How many metrics share alpha; as many as there are assumptions unless given.
        repeats: Numbers of repeats on each side to plan for.
        cost_usd: What one repeat of one item costs.

    Raises:
        ConfigurationError: for numbers out of their range, and without a metric.
    """
    _check(assumptions, items, drop=drop, power=power, alpha=alpha)
    if not repeats:
        raise ConfigurationError("plan() needs at least one number of repeats.")
    for number in repeats:
        checks.require_positive("repeats", number)
    tests = len(assumptions) if metrics is None else checks.require_positive("metrics", metrics)
    level = sidak_level(alpha, tests)  # as if independent: metrics that move together leave each test more
    goal = _Goal(items, drop, power, level)
    draft = Plan(
        items=items,
        drop=drop,
        power=power,
        alpha=alpha,
        level=level,
        assumptions=tuple(assumptions),
        rows=tuple(row for one in assumptions for row in goal.rows(one, sorted(set(repeats)))),
        cost_usd=cost_usd,
        notes=tuple(_notes(assumptions)),
    )
    return replace(draft, advice=_advice(draft))


@dataclass(frozen=True, slots=True)
class _Goal:
    """What is to be seen of each metric."""

    items: int | None
    drop: float
    power: float
    level: float

    def rows(self, one: Assumption, repeats: Sequence[int]) -> Iterator[PlanRow]:
        """Yield a row for each number of repeats, which rise.

        More repeats never need more items or see less: where that seems so, by the error of the simulation
        or because few p-values are possible, what fewer repeats need is enough.
        """
        best: list[float | None] = [None] * 4
        for number in repeats:
            results = [
                self._detectable(one, number),
                self._items_needed(one, number),
                self._detectable(one, number, even=True),
                self._items_needed(one, number, even=True),
            ]
            best = [_smaller(new, old) for new, old in zip(results, best, strict=True)]
            drop, items, even_drop, even_items = best
            yield PlanRow(
                metric=one.name,
                repeats=number,
                detectable_drop=drop,
                items_needed=None if items is None else int(items),
                even_detectable_drop=even_drop,
                even_items_needed=None if even_items is None else int(even_items),
            )

    def _detectable(self, one: Assumption, repeats: int, *, even: bool = False) -> float | None:
        items = self.items
        if items is None or not one.room:
            return None
        return find_smallest_effect(
            lambda drop: one.power(items, drop, repeats, self.level, even=even), one.room, self.power
        )

    def _items_needed(self, one: Assumption, repeats: int, *, even: bool = False) -> int | None:
        return find_fewest_items(
            lambda n: one.power(n, self.drop, repeats, self.level, even=even), self.power
        )


def _smaller(one: float | None, other: float | None) -> float | None:
    return min((value for value in (one, other) if value is not None), default=None)


def _check(assumptions: Sequence[Assumption], items: int | None, **shares: float) -> None:
    for name, value in shares.items():
        check_share(name, value)
    if items is not None:
        checks.require_positive("items", items)
    if not assumptions:
        raise ConfigurationError("There is nothing to plan for: no metric is known.")


def assumptions_of(
    result: ExperimentResult, *, noise_share: float = NOISE, affected: float = AFFECTED_SHARE
) -> list[Assumption]:
    """Take the pass rate and the scores of each evaluator from a past result.

    Scores of another range than 0..1 count as shares of it, as do their drops. A drop is taken to fall on
    the share of the items that is `affected`. With repeats the noise is measured; without, `noise_share` of
    the variance is assumed to be noise.
    """
    snapshot = Snapshot.of(result)
    facts = snapshot.evaluators
    repeats: Mapping[str, list[Sequence[float]]] = {
        PASS_RATE: [tuple(map(float, item.verdicts)) for item in snapshot.items if item.verdicts],
        **{
            name: [
                [share_of(score, facts[name].score_range) for score in scores]
                for item in snapshot.items
                if (scores := item.scores.get(name))
            ]
            for name in sorted(facts)
        },
    }
    lower = {name for name, fact in facts.items() if fact.lower_is_better}
    return assumptions_of_scores(repeats, lower, noise_share=noise_share, affected=affected)


def assumptions_of_scores(
    repeats: Mapping[str, Sequence[Sequence[float]]],
    lower_is_better: Collection[str] = (),
    *,
    noise_share: float = NOISE,
    affected: float = AFFECTED_SHARE,
) -> list[Assumption]:
    """Take them from the scores of past items, as `assumptions_of` does.

    `repeats` has, for `PASS_RATE` and each evaluator, the scores of each item, as shares of the range.
    """
    assumptions = (
        Assumption.of(name, scores, noise_share, lower_is_better=name in lower_is_better)
        for name, scores in repeats.items()
    )
    return [replace(one, affected=affected) for one in assumptions if one is not None]


def _advice(draft: Plan) -> str:
    """Say what shows the drop in every metric with the fewest answers: items, before repeats of them."""
    needed = {number: items for number in draft.repeats if (items := draft.items_needed(number))}
    if not needed:
        return "No number of items up to a million shows this drop in every metric: plan for a larger one."
    least = min(number * items for number, items in needed.items())
    # Two plans of about the same cost differ by the error of the simulation.
    best = min(number for number, items in needed.items() if number * items <= _ABOUT * least)
    cheapest = f"{_count(needed[best], 'item')} with {_count(best, 'run')} on each side"
    if draft.items is None:
        return f"The fewest answers: {cheapest} ({_answers(best * needed[best])}).{_other(needed, best)}"
    return _advise_on_items(draft, draft.items, needed, best, cheapest)


def _advise_on_items(draft: Plan, items: int, needed: Mapping[int, int], best: int, cheapest: str) -> str:
    """Say whether the items at hand show the drop, and whether fewer answers would."""
    enough = min((number for number, count in needed.items() if count <= items), default=None)
    if enough is None:
        runs = f"with up to {_count(max(draft.repeats), 'run')}" if max(draft.repeats) > 1 else "with 1 run"
        negated = "does not show" if items == 1 else "do not show"
        return f"{_count(items, 'item')} {negated} the drop in every metric {runs}: take {cheapest}."
    shows = "shows" if items == 1 else "show"
    text = f"{_count(items, 'item')} {shows} the drop with {_count(enough, 'run')} on each side."
    if best < enough:
        spent, saving = _answers(enough * items), _answers(best * needed[best])
        text += f" Items are worth more than repeats: that takes {spent}, and {cheapest} {saving}."
    return text


def _other(needed: Mapping[int, int], best: int) -> str:
    most = max(needed)
    if most <= best:
        return ""
    return (
        f" With {_count(most, 'run')} it takes {_count(needed[most], 'item')}, which are "
        f"{_answers(most * needed[most])}: items are worth more than repeats."
    )


def _answers(count: int) -> str:
    return _count(count, "answer")


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun if count == 1 else noun + 's'}"


def _notes(assumptions: Sequence[Assumption]) -> Iterator[str]:
    if not all(one.measured for one in assumptions):
        yield (
            "* Without repeats the noise is an assumption. Run the data set twice or more (--runs 2, or "
            "dokimos noise) to measure it."
        )
    if any(one.measured and one.noise_share == 0 for one in assumptions):
        yield "Where repeats never differed, more of them show nothing new: only more items do."
