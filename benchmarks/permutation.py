"""Permutation tests: CPU of the joint test of twenty metrics at 10,000 draws, with its budgets.

Run with `python benchmarks/permutation.py`. Early stopping is off, so that all draws are made; a whole
comparison is measured as it is used.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import partial

from dokimos.comparison import Snapshot, compare_runs
from dokimos.comparison._snapshot import EvaluatorFacts, ItemSnapshot
from dokimos.stats._permutation import max_t_test

METRICS = 20
DESIGNS = (
    ("verdicts", 1_000, (-1, 0, 0, 1), 1.0),
    ("scores of 2 decimals", 10_000, range(-100, 101), 5.0),
    ("scores of 6 decimals", 1_000, range(-1_000_000, 1_000_001), None),
)


def family(n: int, values: Sequence[int]) -> dict[str, dict[str, int]]:
    """Make metrics without a difference, so that no item drops out and nothing stops early."""
    draw = random.Random(7)
    return {
        f"metric {number}": {f"item-{place}": draw.choice(values) for place in range(n)}
        for number in range(METRICS)
    }


def side(n: int, seed: int) -> Snapshot:
    """Make one side of a comparison, with scores of one decimal."""
    draw = random.Random(seed)
    names = [f"metric {number}" for number in range(METRICS)]
    items = (
        ItemSnapshot(
            index=place,
            verdicts=(draw.random() < 0.8,),
            scores={name: (draw.randint(0, 10) / 10,) for name in names},
        )
        for place in range(n)
    )
    return Snapshot(items=tuple(items), evaluators={name: EvaluatorFacts(name=name) for name in names})


def measure(name: str, n: int, work: Callable[[], object], budget: float | None) -> None:
    start = time.process_time()
    work()
    seconds = time.process_time() - start
    beside = f", x{seconds / budget:.2f} of the budget ({budget:.0f})" if budget else ""
    print(f"{n:6,} items x {METRICS} metrics, {name:22} {seconds:.2f} s of CPU{beside}")


def main() -> None:
    for name, n, values, budget in DESIGNS:
        measure(name, n, partial(max_t_test, family(n, values), stop_above=1), budget)
    measure("a whole comparison", 1_000, partial(compare_runs, side(1_000, 1), side(1_000, 2)), 2.0)


if __name__ == "__main__":
    main()
