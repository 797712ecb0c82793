"""How often intervals from few labels hold the true value, and how wide they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray
from tables import Row, Table, percent, rate_error

from dokimos.stats._corrected_rate import VerdictCounts, corrected_rate
from dokimos.stats._intervals import Interval, clopper_pearson_interval
from dokimos.stats._paired_estimates import clustered_mean_estimate, mean_estimate, paired_rate_interval
from dokimos.stats._ppi import JudgedSample, ppi_mean, ppi_paired_difference

Generator = np.random.Generator
LABELS: Final = (20, 50, 100, 200)
RATES: Final = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
UNLABELLED_EACH: Final = 9
AT_LEAST: Final = 0.93
NARROW: Final = 0.8
AGREES_ON_90: Final = "agrees on 90 %"


@dataclass(frozen=True)
class Judge:
    """How often a judge passes what people pass, and fails what they fail."""

    name: str
    sensitivity: float
    specificity: float
    is_scored: bool = False
    """Whether it gives scores instead of verdicts: 0.8 and 0.2 with noise of 0.2."""

    def possible_width(self, n: int, rate: float) -> float:
        """Return the width that the best use of the judge comes to with many labels.

        The judge explains the square of its correlation with the labels, of which the items without labels
        have their share (A. Tenenbein, 1970).
        """
        draw = np.random.default_rng(1)
        labels = draw.random(100_000) < rate
        squared = float(np.corrcoef(labels, scores_of(self, labels, draw))[0, 1]) ** 2
        left = 1 - squared * UNLABELLED_EACH / (1 + UNLABELLED_EACH)
        return 2 * NormalDist().inv_cdf(0.975) * math.sqrt(rate * (1 - rate) / n * left)


JUDGES: Final = (
    Judge(AGREES_ON_90, 0.9, 0.9),
    Judge("passes too much", 0.95, 0.6),
    Judge("fails too much", 0.6, 0.95),
    Judge("guesses", 0.5, 0.5),
    Judge("scores, agrees on 90 %", 0.9, 0.9, is_scored=True),
)


@dataclass
class Tally:
    """What many intervals came to."""

    covered: int = 0
    width: float = 0.0
    own_width: float = 0.0
    wider: int = 0
    """Intervals that are wider than those of the labels alone."""
    of: int = 0

    def add(self, interval: Interval, own: Interval, truth: float) -> None:
        width, own_width = interval.high - interval.low, own.high - own.low
        self.covered += interval.low <= truth <= interval.high
        self.width += width
        self.own_width += own_width
        self.wider += width > own_width + 1e-12
        self.of += 1

    @property
    def share(self) -> float:
        return self.covered / self.of

    @property
    def of_own(self) -> float:
        return self.width / self.own_width

    def holds(self) -> bool:
        """Whether coverage is not below 93 % by more than chance may put it there."""
        return self.share >= AT_LEAST - rate_error(AT_LEAST, self.of)


def corrected_table(repetitions: int) -> Table:
    """How often the corrected pass rate's interval holds the true rate, and how wide it is."""
    return Table(
        "Pass rates corrected with few labels",
        "The 95 % interval of `corrected_rate` contains the pass rate that people would give in at "
        f"least 93 % of {repetitions:,} simulations. It is never wider than the interval of Clopper "
        "and Pearson for the labels alone. With 50 labels or more, pass rates of 0.5 to 0.8 and a "
        "judge that agrees with people on 90 % of the items, it is a fifth narrower. There are nine "
        "items without a label for each labelled one. The last column is the achieved share of the "
        "narrowing that is possible with such a judge.",
        ("judge", "rate", "labels", "covered", "width", "of the labels' own", "achieved of the possible"),
        tuple(corrected_row(*cell, repetitions) for cell in product(JUDGES, LABELS, RATES)),
    )


def corrected_row(judge: Judge, n: int, rate: float, times: int) -> Row:
    draw, tally = np.random.default_rng([n, round(100 * rate), len(judge.name)]), Tally()
    simulate = scored_intervals if judge.is_scored else corrected_intervals
    for interval, own in simulate(judge, n, rate, times, draw):
        tally.add(interval, own, rate)
    possible = 1 - judge.possible_width(n, rate) * times / tally.own_width
    achieved = percent((1 - tally.of_own) / possible)
    cells = (
        judge.name,
        f"{rate:.2f}",
        str(n),
        percent(tally.share),
        f"{tally.width / times:.3f}",
        f"{tally.of_own:.2f}",
        achieved,
    )
    must_be_narrow = judge.name == AGREES_ON_90 and n >= 50 and rate <= 0.8
    is_narrow = tally.of_own <= NARROW or not must_be_narrow
    return Row(cells, holds=tally.holds() and is_narrow and not tally.wider)


def corrected_intervals(
    judge: Judge, n: int, rate: float, times: int, draw: Generator
) -> Iterator[tuple[Interval, Interval]]:
    """Draw the counts that `ppi_mean` makes of the verdicts."""
    fail = 1 - rate
    kinds = [
        rate * judge.sensitivity,
        fail * (1 - judge.specificity),
        rate * (1 - judge.sensitivity),
        fail * judge.specificity,
    ]
    labelled = draw.multinomial(n, kinds, size=times)
    others = draw.binomial(UNLABELLED_EACH * n, kinds[0] + kinds[1], size=times)
    for (both, judge_only, people_only, neither), passed in zip(
        labelled.tolist(), others.tolist(), strict=True
    ):
        counts = VerdictCounts(
            passed_both=both,
            passed_by_judge_only=judge_only,
            passed_by_people_only=people_only,
            failed_both=neither,
            judged_passed=both + judge_only + passed,
            judged=(1 + UNLABELLED_EACH) * n,
        )
        found = corrected_rate(counts)
        assert found is not None
        yield found.interval, found.label_only


def scored_intervals(
    judge: Judge, n: int, rate: float, times: int, draw: Generator
) -> Iterator[tuple[Interval, Interval]]:
    for _ in range(times):
        labels = draw.random(n * (1 + UNLABELLED_EACH)) < rate
        found = ppi_mean(sample_of(labels, scores_of(judge, labels, draw), n))
        assert found is not None
        assert found.label_only is not None
        yield found.interval, found.label_only


def scores_of(judge: Judge, labels: NDArray[np.bool_], draw: Generator) -> NDArray[np.float64]:
    right = draw.random(labels.size) < np.where(labels, judge.sensitivity, judge.specificity)
    verdicts = np.where(right, labels, ~labels).astype(float)
    if not judge.is_scored:
        return verdicts
    return (0.2 + 0.6 * verdicts + 0.2 * draw.normal(size=labels.size)).clip(0, 1)


def sample_of(labels: NDArray[np.bool_], judged: NDArray[np.float64], n: int) -> JudgedSample:
    return JudgedSample(
        labels=labels[:n].astype(float).tolist(), judged=judged[:n].tolist(), unlabelled=judged[n:].tolist()
    )


def labels_alone_table(repetitions: int) -> Table:
    """How often intervals of labels without a judge hold."""
    return Table(
        "Means of few labels",
        f"The 95 % intervals contain the true mean in at least 93 % of {repetitions:,} simulations: of "
        "verdicts (`mean_estimate`), of three repeated verdicts of an item with half of their "
        "variance noise (`clustered_mean_estimate`), and of scores that are 1 as often as the rate "
        "says, and otherwise anything down to 0.",
        ("of", "rate", "labels", "covered", "width", "of Clopper-Pearson's"),
        tuple(
            alone_row(name, make, n, rate, repetitions)
            for (name, make), n, rate in product(ALONE.items(), LABELS, RATES)
        ),
    )


Alone = Callable[[Generator, int, float], tuple[Interval, float]]


def verdicts_alone(draw: Generator, n: int, rate: float) -> tuple[Interval, float]:
    found = mean_estimate((draw.random(n) < rate).astype(float).tolist())
    assert found is not None
    return found.interval, rate


def repeated_verdicts(draw: Generator, n: int, rate: float) -> tuple[Interval, float]:
    chances = draw.beta(rate, 1 - rate, size=(n, 1))
    found = clustered_mean_estimate((draw.random((n, 3)) < chances).astype(float).tolist())
    assert found is not None
    return found.interval, rate


def scores_alone(draw: Generator, n: int, rate: float) -> tuple[Interval, float]:
    found = mean_estimate(np.where(draw.random(n) < rate, 1.0, draw.random(n)).tolist())
    assert found is not None
    return found.interval, (1 + rate) / 2


ALONE: Final[dict[str, Alone]] = {
    "verdicts": verdicts_alone,
    "verdicts, 3 repeats": repeated_verdicts,
    "scores": scores_alone,
}


def alone_row(name: str, make: Alone, n: int, rate: float, times: int) -> Row:
    draw, tally = np.random.default_rng([n, round(100 * rate), len(name)]), Tally()
    for _ in range(times):
        interval, truth = make(draw, n, rate)
        tally.add(interval, clopper_pearson_interval(round(n * rate), n), truth)
    cells = (
        name,
        f"{rate:.2f}",
        str(n),
        percent(tally.share),
        f"{tally.width / times:.3f}",
        f"{tally.of_own:.2f}",
    )
    return Row(cells, holds=tally.holds())


def changed_labels_table(repetitions: int) -> Table:
    """How often the interval of a change of labels holds."""
    return Table(
        "Changes of labels with a judge",
        "The 95 % interval of `ppi_paired_difference` contains the true change in at least 93 % of "
        f"{repetitions:,} simulations, and is never wider than Tango's interval of the labels alone. "
        "The rate falls by 5 points; in addition, one label in ten flips each way where it can. The "
        "judge agrees with people on 90 % of the items.",
        ("judge", "rate before", "labels", "covered", "width", "of the labels' own"),
        tuple(
            changed_row(judge, n, rate, repetitions)
            for judge, n, rate in product((JUDGES[0], JUDGES[4]), LABELS, RATES)
        ),
    )


def changed_row(judge: Judge, n: int, rate: float, times: int) -> Row:
    draw, tally = np.random.default_rng([n, round(100 * rate), 3]), Tally()
    flips = min(0.1, (1 - rate) / 2)
    size = n * (1 + UNLABELLED_EACH)
    for _ in range(times):
        before = draw.random(size) < rate
        after = np.where(
            before, draw.random(size) >= (flips + 0.05) / rate, draw.random(size) < flips / (1 - rate)
        )
        sides = [sample_of(labels, scores_of(judge, labels, draw), n) for labels in (before, after)]
        found = ppi_paired_difference(*sides)
        assert found is not None
        worse, better = int((before & ~after)[:n].sum()), int((~before & after)[:n].sum())
        tally.add(found.interval, paired_rate_interval(worse, better, n), -0.05)
    cells = (
        judge.name,
        f"{rate:.2f}",
        str(n),
        percent(tally.share),
        f"{tally.width / times:.3f}",
        f"{tally.of_own:.2f}",
    )
    return Row(cells, holds=tally.holds() and not tally.wider)
