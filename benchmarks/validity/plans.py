"""Whether the items that `dokimos plan` asks for find the drop, by the comparison itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from tables import Row, Table, percent, rate_error

from dokimos.comparison._comparison_builder import compare_runs
from dokimos.comparison._config import ComparisonConfig
from dokimos.comparison._diff import Change
from dokimos.comparison._planning import Assumption, plan
from dokimos.comparison._snapshot import EvaluatorFacts, ItemSnapshot, Snapshot

JUDGE: Final = "Judge"
PILOT_ITEMS: Final = 1_000
SHORT_BY: Final = 0.05
"""How much less than promised is found before a plan counts as broken."""


@dataclass(frozen=True)
class Drop:
    """A judge's scores, two decimals in 0..1, of which those of some items fall."""

    noise: float
    """Standard deviation of a score from run to run."""
    mean: float
    affected: float
    repeats: int

    def before(self, draw: np.random.Generator, n: int) -> NDArray[np.float64]:
        return 0.5 + 0.25 * draw.beta(2, 2, size=(n, 1))

    def scores(self, draw: np.random.Generator, quality: NDArray[np.float64], repeats: int) -> Rows:
        noise = self.noise * draw.normal(size=(len(quality), repeats))
        return [tuple(row) for row in np.round((quality + noise).clip(0, 1), 2).tolist()]

    def sides(self, draw: np.random.Generator, n: int) -> tuple[Snapshot, Snapshot]:
        quality = self.before(draw, n)
        fallen = np.arange(n) < round(self.affected * n)
        after = quality - fallen[:, None] * self.mean / self.affected
        return tuple(snapshot(self.scores(draw, side, self.repeats)) for side in (quality, after))

    def assumption(self, draw: np.random.Generator) -> Assumption:
        """Take it from a past run with repeats, as a user would."""
        past = self.scores(draw, self.before(draw, PILOT_ITEMS), 3)
        found = Assumption.of(JUDGE, past, 0.0)
        assert found is not None
        return found


Rows = list[tuple[float, ...]]


def plan_table(repetitions: int) -> Table:
    rows = [
        plan_row(Drop(noise, mean, affected, repeats), None, repetitions)
        for noise in (0.05, 0.15)
        for mean in (0.03, 0.04)
        for affected in (0.1, 1.0)
        for repeats in (1, 3)
    ]
    for repeats, n in ((3, 40), (1, 120)):
        rows.append(plan_row(Drop(0.08, 0.03, 0.1, repeats), n, repetitions))
    return Table(
        "Items planned by `dokimos plan`",
        "With as many items as `dokimos plan` asks for, `compare_runs` finds the drop as often as "
        f"planned, or at most 5 points less often, in {repetitions:,} comparisons. The drop of the "
        "mean is caused by a tenth of the items (an uneven drop) or by all items alike (an even "
        "drop). A plan for an even drop is too optimistic if the drop is uneven. In the last two rows "
        "the items are given: the same number of answers finds more as 120 items than as 3 repeats of "
        "40.",
        (
            "noise",
            "drop",
            "affected items",
            "repeats",
            "items",
            "power for an even drop",
            "planned power",
            "found",
        ),
        tuple(rows),
    )


def plan_row(drop: Drop, n: int | None, repetitions: int) -> Row:
    draw = np.random.default_rng([round(1000 * drop.noise), round(1000 * drop.mean), drop.repeats])
    assumption, even = drop.assumption(draw), drop.affected == 1
    if n is None:
        planned = plan([assumption], items=None, drop=drop.mean, repeats=[drop.repeats]).rows[0]
        n = planned.even_items_needed if even else planned.items_needed
    assert n is not None
    promised = assumption.power(n, drop.mean, drop.repeats, 0.05, even=even)
    hoped = assumption.power(n, drop.mean, drop.repeats, 0.05, even=True)
    found = found_share(drop, draw, n, repetitions)
    cells = (
        f"{drop.noise:.2f}",
        f"{100 * drop.mean:.0f} points",
        "all items" if even else f"{100 * drop.affected:.0f} %, by {drop.mean / drop.affected:.2f}",
        str(drop.repeats),
        str(n),
        percent(hoped),
        percent(promised),
        percent(found),
    )
    return Row(cells, holds=found >= promised - SHORT_BY - 3 * rate_error(promised, repetitions))


def found_share(drop: Drop, draw: np.random.Generator, n: int, repetitions: int) -> float:
    found = 0
    for seed in range(repetitions):
        config = ComparisonConfig(seed=seed, permutation_iterations=999)
        change = compare_runs(*drop.sides(draw, n), config=config).evaluator(JUDGE)
        found += change is not None and change.change is Change.REGRESSED
    return found / repetitions


def snapshot(rows: Rows) -> Snapshot:
    items = tuple(ItemSnapshot(index=index, scores={JUDGE: scores}) for index, scores in enumerate(rows))
    return Snapshot(items=items, evaluators={JUDGE: EvaluatorFacts(name=JUDGE)}, runs=len(rows[0]))
