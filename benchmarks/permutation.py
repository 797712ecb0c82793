"""Permutation tests: CPU of the joint test of twenty metrics at 10,000 draws, with its budgets.

Run with `python benchmarks/permutation.py`. Early stopping is off, so that all draws are made.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from dokimos.stats.permutation import max_t_test

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


def main() -> None:
    for name, n, values, budget in DESIGNS:
        deltas = family(n, values)
        start = time.process_time()
        max_t_test(deltas, stop_above=1)
        seconds = time.process_time() - start
        beside = f", x{seconds / budget:.2f} of the budget ({budget:.0f})" if budget else ""
        print(f"{n:6,} items x {METRICS} metrics, {name:22} {seconds:.2f} s of CPU{beside}")


if __name__ == "__main__":
    main()
