"""How often an interval holds the true value."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from tables import Row, Table, percent, rate_error

from dokimos.stats._bootstrap import bootstrap_mean_interval
from dokimos.stats._intervals import Interval, clopper_pearson_interval, wilson_interval
from dokimos.stats._paired_estimates import (
    clustered_mean_estimate,
    mean_estimate,
    paired_estimate,
    paired_rate_interval,
)
from dokimos.stats._ppi import JudgedSample, ppi_mean, ppi_paired_difference
from dokimos.stats._sequential import anytime_interval

Generator = np.random.Generator
Case = tuple[Interval, float]
"""An interval, and the true value that it should hold."""


def coverage_table(repetitions: int) -> Table:
    rows = []
    for name, n, at_most, cases in DESIGNS:
        times = repetitions // 10 if cases is every_look else repetitions
        rows.append(covered_row(name, n, at_most, cases, times))
    return Table(
        "Coverage of 95 % intervals",
        f"The intervals contain the true value in 93 to 97 % of {repetitions:,} simulations. Two kinds "
        "promise at least 95 % and cover more: the exact interval of Clopper and Pearson, and the "
        "anytime-valid one.",
        ("interval", "of", "n", "covered"),
        tuple(rows),
    )


def covered_row(
    name: str, n: int, at_most: float, cases: Callable[[Generator, int], Case], times: int
) -> Row:
    draw = np.random.default_rng([n, len(name)])
    covered = 0
    for _ in range(times):
        interval, truth = cases(draw, n)
        covered += interval.low <= truth <= interval.high
    share, slack = covered / times, rate_error(0.95, times)
    title, _, what = name.partition(" | ")
    return Row((title, what, str(n), percent(share)), holds=0.93 - slack <= share <= at_most + slack)


def wilson(draw: Generator, n: int) -> Case:
    rate = draw.uniform(0.1, 0.9)
    return wilson_interval(int(draw.binomial(n, rate)), n), rate


def exact(draw: Generator, n: int) -> Case:
    rate = draw.uniform(0.1, 0.9)
    return clopper_pearson_interval(int(draw.binomial(n, rate)), n), rate


def student(draw: Generator, n: int) -> Case:
    return mean_estimate(draw.beta(4, 2, size=n).tolist()).interval, 4 / 6


def bootstrap(draw: Generator, n: int) -> Case:
    return bootstrap_mean_interval(draw.beta(4, 2, size=n).tolist(), resamples=1_000), 4 / 6


def clustered(draw: Generator, n: int) -> Case:
    """Pass rates of items that were repeated, with verdicts missing here and there."""
    chances = draw.beta(1.2, 0.5, size=n)
    items = [draw.binomial(1, chance, size=draw.integers(2, 5)).tolist() for chance in chances]
    return clustered_mean_estimate(items).interval, 1.2 / 1.7


def uneven(draw: Generator, n: int) -> Case:
    """Scores of items, some of which were repeated far more often than others."""
    means = draw.normal(0.6, 0.2, size=n)
    repeats = draw.choice([1, 1, 2, 3, 6], size=n)
    items = [draw.normal(mean, 0.1, size=times).tolist() for mean, times in zip(means, repeats, strict=True)]
    return clustered_mean_estimate(items).interval, 0.6


def changed_rate(draw: Generator, n: int) -> Case:
    worse, better = draw.uniform(0.02, 0.3, size=2)
    down, up, _ = map(int, draw.multinomial(n, [worse, better, 1 - worse - better]))
    return paired_rate_interval(down, up, n), better - worse


def repeated_verdicts(draw: Generator, n: int) -> Case:
    before = draw.beta(1.6, 0.4, size=n)
    after = np.where(draw.random(n) < 0.1, before / 2, before)
    sides = [draw.binomial(1, chances[:, None], size=(n, 3)).tolist() for chances in (before, after)]
    return paired_estimate(*sides).interval, -0.1 * 0.8 / 2


def repeated_scores(draw: Generator, n: int) -> Case:
    quality, change = draw.beta(5, 3, size=(n, 1)), draw.normal(-0.05, 0.1, size=(n, 1))
    sides = [draw.normal(mean, 0.1, size=(n, 3)).tolist() for mean in (quality, quality + change)]
    return paired_estimate(*sides).interval, -0.05


def judged(draw: Generator, labels: NDArray[np.float64], noise: float) -> NDArray[np.float64]:
    return (0.15 + 0.6 * labels + noise * draw.normal(size=labels.shape)).clip(0, 1)


def ppi(draw: Generator, n: int) -> Case:
    labels = draw.binomial(1, 0.7, size=10 * n).astype(float)
    scores = judged(draw, labels, 0.2)
    sample = JudgedSample(
        labels=labels[:n].tolist(), judged=scores[:n].tolist(), unlabelled=scores[n:].tolist()
    )
    return ppi_mean(sample).interval, 0.7


def ppi_change(draw: Generator, n: int) -> Case:
    before = draw.binomial(1, 0.75, size=8 * n).astype(float)
    after = np.where(draw.random(8 * n) < 0.2, 1 - before, before)
    sides = []
    for labels in (before, after):
        scores = judged(draw, labels, 0.15)
        sides.append(
            JudgedSample(
                labels=labels[:n].tolist(), judged=scores[:n].tolist(), unlabelled=scores[n:].tolist()
            )
        )
    return ppi_paired_difference(*sides).interval, 0.2 * (0.25 - 0.75)


def one_look(draw: Generator, n: int) -> Case:
    return anytime_interval(draw.binomial(1, 0.8, size=n).tolist()), 0.8


def every_look(draw: Generator, n: int) -> Case:
    """Return what all intervals up to n have in common, looked at after every fourth value."""
    values = draw.binomial(1, 0.8, size=n).tolist()
    looks = list(_looks(values))
    return Interval(max(look.low for look in looks), min(look.high for look in looks)), 0.8


def _looks(values: list[float]) -> Iterator[Interval]:
    return (anytime_interval(values[:end]) for end in range(4, len(values) + 1, 4))


DESIGNS = (
    ("Wilson | pass rate 10 to 90 %", 20, 0.97, wilson),
    ("Wilson | pass rate 10 to 90 %", 200, 0.97, wilson),
    ("Clopper-Pearson | pass rate 10 to 90 %", 20, 1.0, exact),
    ("Clopper-Pearson | pass rate 10 to 90 %", 200, 1.0, exact),
    ("Student's t | mean of skewed scores", 15, 0.97, student),
    ("Student's t | mean of skewed scores", 200, 0.97, student),
    ("bootstrap | mean of skewed scores", 40, 0.97, bootstrap),
    ("bootstrap | mean of skewed scores", 200, 0.97, bootstrap),
    ("cluster-robust | pass rate, 2 to 4 repeats", 30, 0.97, clustered),
    ("cluster-robust | pass rate, 2 to 4 repeats", 200, 0.97, clustered),
    ("cluster-robust | mean score, 1 to 6 repeats", 8, 0.97, uneven),
    ("cluster-robust | mean score, 1 to 6 repeats", 30, 0.97, uneven),
    ("Tango | change of the pass rate", 30, 0.97, changed_rate),
    ("Tango | change of the pass rate", 200, 0.97, changed_rate),
    ("paired | change of the pass rate, 3 repeats", 50, 0.97, repeated_verdicts),
    ("paired | change of the pass rate, 3 repeats", 200, 0.97, repeated_verdicts),
    ("paired | change of a score, 3 repeats", 15, 0.97, repeated_scores),
    ("paired | change of a score, 3 repeats", 200, 0.97, repeated_scores),
    ("PPI++ | mean label, 9 unlabelled for each", 30, 0.97, ppi),
    ("PPI++ | mean label, 9 unlabelled for each", 100, 0.97, ppi),
    ("PPI++ | change of the mean label", 50, 0.97, ppi_change),
    ("PPI++ | change of the mean label", 200, 0.97, ppi_change),
    ("anytime-valid | pass rate, one look", 200, 1.0, one_look),
    ("anytime-valid | pass rate, all looks at once", 200, 1.0, every_look),
)
