"""How often intervals of a few bounded scores hold the mean, beside what they say of themselves."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Final

import numpy as np
from numpy.typing import NDArray
from tables import Row, Table, percent, rate_error

from dokimos.stats._paired_estimates import clustered_mean_estimate, mean_estimate
from dokimos.stats._skewed_mean import coverage_of_few
from dokimos.stats._student_t import t_quantile

Values = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Values]
SIZES: Final = (5, 8, 12, 16, 20, 30)
WORSE_HALF: Final = 0.015
"""How far the mean coverage of the worse half of the distributions may lie below what is said."""


def rarely_low(draw: np.random.Generator, n: int) -> Values:
    return np.where(draw.random(n) < 0.15, draw.random(n), 1.0)


def rarely_failing(draw: np.random.Generator, n: int) -> Values:
    noise = draw.uniform(-0.05, 0.05, size=n)
    return np.where(draw.random(n) < 0.1, draw.uniform(0, 0.9, size=n), 0.95 + noise)


def nearly_verdicts(draw: np.random.Generator, n: int) -> Values:
    return np.where(draw.random(n) < 0.8, draw.beta(20, 1, size=n), draw.beta(1, 9, size=n))


def on_a_grid(*shares: float) -> Draw:
    return lambda draw, n: draw.choice([0.0, 0.25, 0.5, 0.75, 1.0], p=shares, size=n)


def some_fell(share: float, size: float, noise: float) -> Draw:
    return lambda draw, n: np.where(draw.random(n) < share, -size, 0.0) + draw.normal(0, noise, size=n)


SCORES: Final[dict[str, tuple[Draw, float]]] = {
    "uniform": (lambda draw, n: draw.random(n), 0.5),
    "beta(4, 2)": (lambda draw, n: draw.beta(4, 2, size=n), 4 / 6),
    "beta(8, 1)": (lambda draw, n: draw.beta(8, 1, size=n), 8 / 9),
    "1.0, one in seven anything": (rarely_low, 1 - 0.15 / 2),
    "nearly verdicts, 80 % high": (nearly_verdicts, 0.8 * 20 / 21 + 0.2 * 0.1),
    "0, 0.25 ... 1, half at 1": (on_a_grid(0.02, 0.05, 0.13, 0.3, 0.5), 0.8025),
    "0, 0.25 ... 1, 80 % at 1": (on_a_grid(0.02, 0.02, 0.04, 0.12, 0.8), 0.915),
}
CHANGES: Final[dict[str, tuple[Draw, float]]] = {
    "changes: noise alone": (lambda d, n: d.beta(8, 3, size=n) - d.beta(8, 3, size=n), 0.0),
    "changes: 10 % fell by 0.3": (some_fell(0.1, 0.3, 0.06), -0.03),
    "changes: 20 % fell by 0.4": (some_fell(0.2, 0.4, 0.02), -0.08),
    "changes: skewed": (lambda d, n: d.normal(0, 0.02, size=n) - d.beta(1, 8, size=n), -1 / 9),
}


def few_scores_table(repetitions: int) -> Table:
    columns = [column_of(n, repetitions) for n in SIZES]
    names = [*SCORES, *CHANGES]
    rows = [Row((name, *(percent(column[name]) for column in columns))) for name in names]
    halves = [fmean(sorted(column.values())[: (len(names) + 1) // 2]) for column in columns]
    said = [coverage_of_few(n) or 0.95 for n in SIZES]
    slack = WORSE_HALF + rate_error(0.9, repetitions)
    holds = all(half >= one - slack for half, one in zip(halves, said, strict=True))
    rows.append(Row(("**mean of the worse half**", *map(percent, halves)), holds=holds))
    rows.append(Row(("**stated coverage**", *(f"{one:.0%}".replace("%", " %") for one in said))))
    rows.extend(
        Row((name, *(percent(coverage(make, truth, n, (0.0, 1.0), repetitions)) for n in SIZES)))
        for name, (make, truth) in RARE.items()
    )
    rows.extend(
        Row(
            (f"Student's t: {name}", *(percent(student_coverage(make, truth, n, repetitions)) for n in SIZES))
        )
        for name, (make, truth) in WITH_T.items()
    )
    return Table(
        "Coverage of 95 % intervals for few scores",
        f"How often the interval of `mean_estimate` contains the true mean in {repetitions:,} "
        "simulated samples, by the number of items. Three identical repeats of each item "
        "(`clustered_mean_estimate`) give the same interval, which is checked. The stated coverage "
        "(`Estimate.coverage`) is the mean of the worse half of the distributions. If a drop affects "
        "a tenth of the items, a few items may not show it at all: no interval knows of failures that "
        "are not in its sample, as the row of rare failures shows. The last rows are plain intervals "
        "of Student's t.",
        ("scores", *(f"n = {n}" for n in SIZES)),
        tuple(rows),
    )


RARE: Final = {"rare: 0.95, one in ten from 0 to 0.9": (rarely_failing, 0.9 * 0.95 + 0.1 * 0.45)}
WITH_T: Final = {
    name: {**SCORES, **CHANGES}[name]
    for name in (
        "beta(8, 1)",
        "1.0, one in seven anything",
        "0, 0.25 ... 1, 80 % at 1",
        "changes: 10 % fell by 0.3",
    )
}


def column_of(n: int, times: int) -> dict[str, float]:
    return {
        **{name: coverage(make, truth, n, (0.0, 1.0), times) for name, (make, truth) in SCORES.items()},
        **{name: coverage(make, truth, n, (-1.0, 1.0), times) for name, (make, truth) in CHANGES.items()},
    }


def coverage(make: Draw, truth: float, n: int, within: tuple[float, float], times: int) -> float:
    draw, covered = np.random.default_rng([n, round(1000 * abs(truth))]), 0
    for place in range(times):
        values = make(draw, n).tolist()
        found = mean_estimate(values, within=within)
        assert found is not None
        if place % 100 == 0:
            check_repeats(values, within)
        covered += found.interval.low <= truth <= found.interval.high
    return covered / times


def check_repeats(values: list[float], within: tuple[float, float]) -> None:
    once = mean_estimate(values, within=within)
    thrice = clustered_mean_estimate([[value] * 3 for value in values], within=within)
    assert once is not None
    assert thrice is not None
    if set(values) - {0.0, 1.0} and abs(once.interval.low - thrice.interval.low) > 1e-9:
        raise AssertionError(f"Repeats that agree have another interval: {values}")


def student_coverage(make: Draw, truth: float, n: int, times: int) -> float:
    draw = np.random.default_rng([n, round(1000 * abs(truth))])
    samples = np.array([make(draw, n) for _ in range(times)])
    half = t_quantile(0.975, n - 1) * samples.std(axis=1, ddof=1) / np.sqrt(n)
    return float((np.abs(samples.mean(axis=1) - truth) <= half + 1e-12).mean())
