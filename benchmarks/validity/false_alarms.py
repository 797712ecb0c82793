"""How often a guard fires on a system that did not change."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from systems import KINDS, Design, Scores, unchanged
from tables import Row, Table, percent, rate_error

from dokimos.stats._permutation import max_t_test

ALPHA = 0.05
THRESHOLD = 0.5
ITERATIONS = 199
SIZES = (5, 10, 20, 50, 200, 500)
KEYS = tuple(f"item-{place}" for place in range(max(SIZES)))
FAMILIES = {
    "1": (1, 0.0),
    "3, half shared": (3, 0.5),
    "10, independent": (10, 0.0),
    "10, half shared": (10, 0.5),
    "10, identical": (10, 1.0),
}


@dataclass
class Count:
    """How many of some comparisons raised an alarm."""

    changed: int = 0
    failed: int = 0
    of: int = 0

    def __iadd__(self, other: Count) -> Count:
        self.changed, self.failed, self.of = (
            self.changed + other.changed,
            self.failed + other.failed,
            self.of + other.of,
        )
        return self

    @property
    def sigmas_above(self) -> float:
        """How far the rate of changes lies above alpha, in standard errors."""
        return (self.changed / self.of - ALPHA) / rate_error(ALPHA, self.of)


def guard_one_table(repetitions: int) -> Table:
    rows, everything = [], Count()
    for kind, repeats, label in product(KINDS, (1, 3), FAMILIES):
        counts = [false_alarms(Design(n, kind, repeats, *FAMILIES[label]), repetitions) for n in SIZES]
        total = Count()
        for count in counts:
            total += count
        everything += total
        highest = max(count.changed / count.of for count in counts)
        shown = (highest, total.changed / total.of, total.failed / total.of)
        holds = total.sigmas_above < 3 and all(count.sigmas_above < 4 for count in counts)
        rows.append(Row((kind, str(repeats), label, *map(percent, shown)), holds))
    shown = (everything.changed / everything.of, everything.failed / everything.of)
    return Table(
        "False alarms of guard 1",
        "The system did not change. At alpha = 5 %, the pass rate and all evaluators together should show a "
        "significant change in at most 5 % of the comparisons, for every number of items "
        f"({', '.join(map(str, SIZES))}). Each number is simulated {repetitions:,} times (a third as often "
        f"above 50 items), with a standard error of {percent(rate_error(ALPHA, repetitions))}. The gate "
        "fails only if something got worse, which is half of the changes.",
        (
            "scores",
            "repeats",
            "evaluators",
            "significant changes at the worst n",
            "significant changes",
            "gate fails",
        ),
        tuple(rows),
        f"Overall: {percent(shown[0])} significant changes and {percent(shown[1])} failed gates in "
        f"{everything.of:,} comparisons.",
    )


def false_alarms(design: Design, repetitions: int) -> Count:
    times = repetitions if design.n <= 50 else repetitions // 3
    draw = np.random.default_rng([design.n, design.repeats, design.evaluators, round(100 * design.sharing)])
    count = Count(of=times)
    for seed in range(times):
        changed, failed = guard_one(*unchanged(design, draw), seed)
        count.changed += changed
        count.failed += failed
    return count


def guard_one(baseline: Scores, candidate: Scores, seed: int) -> tuple[bool, bool]:
    """Return whether any metric changed significantly, and whether one that did got worse."""
    deltas = {name: keyed(row) for name, row in changes(baseline, candidate).items()}
    adjusted = max_t_test(deltas, iterations=ITERATIONS, seed=seed).adjusted
    changed = [name for name, p in adjusted.items() if p < ALPHA]
    return bool(changed), any(sum(deltas[name].values()) < 0 for name in changed)


def changes(baseline: Scores, candidate: Scores) -> dict[str, NDArray[np.float64]]:
    """Return the change of each item, summed over repeats, by evaluator, and of the verdict."""
    verdicts = [(side >= THRESHOLD).all(axis=0).sum(axis=1) for side in (baseline, candidate)]
    # Scores have two decimals, so that their sums are whole hundredths.
    scores = np.rint(100 * (candidate.sum(axis=2) - baseline.sum(axis=2)))
    return {
        "": verdicts[1] - verdicts[0],
        **{f"evaluator {number}": row for number, row in enumerate(scores)},
    }


def keyed(row: NDArray[np.float64]) -> dict[str, int]:
    return dict(zip(KEYS, row.astype(int).tolist(), strict=False))
