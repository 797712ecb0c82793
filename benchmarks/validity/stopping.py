"""What early stopping costs in false alarms and saves in calls, with a look after every item."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

import numpy as np
from tables import Row, Table, percent, rate_error

from dokimos.stats._sequential import SequentialTest

ALPHA = 0.05
ITEMS = 400
SAVED = 0.3
System = Callable[[np.random.Generator, int], list[float]]
"""The differences of so many items."""


def verdicts(worse: float, better: float) -> System:
    return lambda draw, n: draw.choice(
        [-1.0, 1.0, 0.0], size=n, p=[worse, better, 1 - worse - better]
    ).tolist()


def scores(drop: float, spread: float) -> System:
    return lambda draw, n: draw.normal(-drop, spread, size=n).clip(-1, 1).tolist()


UNCHANGED = {
    "verdicts, 2 % flip each way": verdicts(0.02, 0.02),
    "verdicts, 10 % flip each way": verdicts(0.1, 0.1),
    "verdicts, 25 % flip each way": verdicts(0.25, 0.25),
    "scores, sd of the difference 0.1": scores(0.0, 0.1),
    "scores, sd of the difference 0.3": scores(0.0, 0.3),
}
DROPPED = {
    "verdicts, nothing else flips": verdicts(0.1, 0.0),
    "verdicts, 2 % flip each way": verdicts(0.12, 0.02),
    "verdicts, 5 % flip each way": verdicts(0.15, 0.05),
    "scores, sd of the difference 0.2": scores(0.1, 0.2),
    "scores, sd of the difference 0.3": scores(0.1, 0.3),
}


def unchanged_table(repetitions: int) -> Table:
    rows = []
    for place, (name, system) in enumerate(UNCHANGED.items()):
        stops = [stop for stop in stopping_times(system, place, repetitions) if stop is not None]
        rate = len(stops) / repetitions
        rows.append(Row((name, percent(rate)), holds=rate <= ALPHA + 2 * rate_error(ALPHA, repetitions)))
    return Table(
        "Early stopping on systems that did not change",
        f"With a look after each of {ITEMS} items, at most 5 % of {repetitions:,} runs stop at alpha = 5 %.",
        ("differences", "stopped"),
        tuple(rows),
    )


def dropped_table(repetitions: int) -> Table:
    rows = []
    for place, (name, system) in enumerate(DROPPED.items()):
        stops = stopping_times(system, 100 + place, repetitions)
        saved = 1 - fmean(ITEMS if stop is None else stop for stop in stops) / ITEMS
        found = sum(stop is not None for stop in stops) / repetitions
        rows.append(Row((name, percent(found), percent(saved)), holds=saved >= SAVED))
    return Table(
        "Early stopping on drops of 10 points",
        f"At least 30 % of the calls for {ITEMS} items are saved on average ({repetitions:,} runs).",
        ("differences", "found", "calls saved"),
        tuple(rows),
    )


def stopping_times(system: System, seed: int, repetitions: int) -> list[int | None]:
    draw = np.random.default_rng([ITEMS, seed])
    return [stopping_time(system(draw, ITEMS)) for _ in range(repetitions)]


def stopping_time(deltas: list[float]) -> int | None:
    """Return after how many items the test ends the run; None where it never does."""
    test = SequentialTest()
    return next((test.n for delta in deltas if test.add(delta) <= ALPHA), None)
