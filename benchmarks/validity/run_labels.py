"""Pass rates corrected by the labels of a run, the labels they need, and agreement: do the intervals hold?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from tables import Row, Table, percent, rate_error

from dokimos.stats._agreement import cohen_kappa, krippendorff_alpha
from dokimos.stats._agreement_intervals import cohen_kappa_interval, krippendorff_alpha_interval
from dokimos.stats._corrected_rate import CorrectedRate, VerdictCounts, corrected_finite_rate, corrected_rate
from dokimos.stats._label_counts import PickedLabel, count_labels
from dokimos.stats._labels_needed import labels_needed

Generator = np.random.Generator
JUDGES: Final = (
    (1.0, 1.0),
    (0.98, 0.98),
    (0.9, 0.9),
    (0.95, 0.6),
    (0.6, 0.95),
    (0.7, 0.7),
    (1.0, 0.5),
    (0.5, 1.0),
    (0.5, 0.5),
)
"""Sensitivity and specificity; the last one guesses."""
RATES: Final = (0.02, 0.05, 0.2, 0.5, 0.8, 0.95, 0.98)
LABELS: Final = (20, 50, 150, 500)
ITEMS_EACH: Final = (1.2, 3.0, 20.0)
AT_LEAST: Final = 0.93
AGREEMENT_AT_LEAST: Final = 0.9
"""Of means of squares from few items, as alpha of numbers has them, no formula holds as well."""
NEEDED_WITHIN: Final = 0.15


def holds(share: float, times: int, at_least: float = AT_LEAST) -> bool:
    """Whether coverage is not lower by more than chance may put the lowest of many simulated cells."""
    return share >= at_least - 3 * rate_error(at_least, times)


def kinds_of(rate: float, judge: tuple[float, float]) -> list[float]:
    """Return the shares of items that both pass, the judge alone, people alone, and neither."""
    sensitivity, specificity = judge
    fail = 1 - rate
    return [rate * sensitivity, fail * (1 - specificity), rate * (1 - sensitivity), fail * specificity]


def counts_of(labelled: NDArray[np.int64], run: NDArray[np.int64]) -> VerdictCounts:
    return VerdictCounts(*map(int, labelled), judged_passed=int(run[0] + run[1]), judged=int(run.sum()))


@lru_cache(100_000)
def estimate_of(counts: VerdictCounts, is_of_run: bool) -> CorrectedRate:
    found = corrected_finite_rate(counts) if is_of_run else corrected_rate(counts)
    assert found is not None
    return found


def run_rate_table(repetitions: int) -> Table:
    """How often corrected rates hold over a wide grid of judges, rates, labels and sizes of runs."""
    cells = product(LABELS, ITEMS_EACH, RATES)
    return Table(
        "Pass rates of a run, corrected with its labels",
        "The 95 % interval of `corrected_finite_rate` contains the share of the run's items that people "
        f"would pass, and that of `corrected_rate` the rate of all such items, in at least 93 % of "
        f"{repetitions:,} simulations, for each of {len(JUDGES)} judges: perfect, good, one-sided and "
        "guessing ones. Each row gives the judge for which it holds least often. The grid covers rates of "
        "0.02 to 0.98 and runs in which nearly all items are labelled.",
        ("labels", "items", "rate", "of the run: least covered", "of all items: least covered"),
        tuple(run_rate_row(n, each, rate, repetitions) for n, each, rate in cells),
    )


def run_rate_row(n: int, each: float, rate: float, times: int) -> Row:
    of_run = min((covered_share(judge, n, each, rate, times, True), judge) for judge in JUDGES)
    of_all = min((covered_share(judge, n, each, rate, times, False), judge) for judge in JUDGES)
    cells = (str(n), str(round(n * each)), f"{rate:.2f}", describe(of_run), describe(of_all))
    return Row(cells, holds=holds(of_run[0], times) and holds(of_all[0], times))


def describe(found: tuple[float, tuple[float, float]]) -> str:
    share, (sensitivity, specificity) = found
    return f"{percent(share)} ({sensitivity:g}, {specificity:g})"


def covered_share(
    judge: tuple[float, float], n: int, each: float, rate: float, times: int, is_of_run: bool
) -> float:
    draw = np.random.default_rng(
        [n, round(10 * each), round(100 * rate), round(1000 * sum(judge)), is_of_run]
    )
    covered = 0
    for run in draw.multinomial(round(n * each), kinds_of(rate, judge), size=times):
        found = estimate_of(counts_of(draw.multivariate_hypergeometric(run, n), run), is_of_run).interval
        truth = (run[0] + run[2]) / run.sum() if is_of_run else rate
        covered += bool(found.low - 1e-12 <= truth <= found.high + 1e-12)
    return covered / times


def queue_table(repetitions: int) -> Table:
    """How often corrected rates hold with labels of a queue that shows the most informative items first."""
    return Table(
        "Corrected rates with labels of a queue",
        "A queue shows, for each item that it picks at random, one on which people are likely to disagree "
        "with the judge (the judge is right on 60 % of a fifth of the items, and on 95 % of the others). "
        "`count_labels` keeps these from biasing the rate: the interval contains the run's rate in at least "
        f"93 % of {repetitions:,} simulations. The last column takes all labels for random ones.",
        ("labels", "items", "mean error", "covered", "covered if all were random"),
        tuple(
            queue_row(n, items, repetitions) for n, items in ((40, 100), (40, 400), (100, 300), (200, 2_000))
        ),
    )


def queue_row(n: int, items: int, times: int) -> Row:
    draw = np.random.default_rng([n, items])
    covered = naive = 0
    errors = []
    for _ in range(times):
        doubtful = np.arange(items) < items // 5
        people = draw.random(items) < np.where(doubtful, 0.4, 0.85)
        judge = np.where(draw.random(items) < np.where(doubtful, 0.6, 0.95), people, ~people)
        truth = people.mean()
        labels = list(queue_labels(draw, people, judge, n))
        judged = {"judged_passed": int(judge.sum()), "judged": items}
        split = count_labels(labels, **judged)
        found = corrected_finite_rate(split.counts, apart=split.apart)
        every = count_labels([PickedLabel(each.passed, each.judge_passed, True) for each in labels], **judged)
        wrong = corrected_finite_rate(every.counts)
        assert found is not None
        assert wrong is not None
        errors.append(found.value - truth)
        covered += bool(found.interval.low <= truth <= found.interval.high)
        naive += bool(wrong.interval.low <= truth <= wrong.interval.high)
    cells = (str(n), str(items), f"{np.mean(errors):+.3f}", percent(covered / times), percent(naive / times))
    return Row(cells, holds=holds(covered / times, times))


def queue_labels(
    draw: Generator, people: NDArray[np.bool_], judge: NDArray[np.bool_], n: int
) -> Iterator[PickedLabel]:
    """Label items: by turns the first one that is left, the most doubtful, and a random one."""
    left = list(range(len(people)))
    for turn in range(n):
        place = int(draw.integers(len(left))) if turn % 2 else 0
        item = left.pop(place)
        yield PickedLabel(bool(people[item]), bool(judge[item]), is_random=bool(turn % 2))


def needed_table(repetitions: int) -> Table:
    """Whether the labels that `labels_needed` asks for give the half width that was asked for."""
    cells = product(((0.9, 0.9), (0.7, 0.7), (0.98, 0.98)), (0.5, 0.8, 0.95), (0.05, 0.08))
    return Table(
        "Labels that a corrected rate needs",
        "From 40 labels of a run of 2,000 items, `labels_needed` says how many more give plus or minus so "
        f"many points. With as many, the interval's half width is on average within "
        f"{percent(NEEDED_WITHIN)} of that in {repetitions:,} simulations.",
        ("judge", "rate", "asked for", "more labels, on average", "half width, on average"),
        tuple(needed_row(judge, rate, half, repetitions) for judge, rate, half in cells),
    )


def needed_row(judge: tuple[float, float], rate: float, half: float, times: int) -> Row:
    draw = np.random.default_rng([round(1000 * judge[0]), round(100 * rate), round(1000 * half)])
    widths, more = [], []
    for run in draw.multinomial(2_000, kinds_of(rate, judge), size=times):
        first = draw.multivariate_hypergeometric(run, 40)
        needed = labels_needed(counts_of(first, run), half)
        assert needed is not None
        second = draw.multivariate_hypergeometric(run - first, needed)
        found = estimate_of(counts_of(first + second, run), True).interval
        widths.append((found.high - found.low) / 2)
        more.append(needed)
    mean = float(np.mean(widths))
    reached = mean <= half * (1 + NEEDED_WITHIN) and (mean >= half * (1 - NEEDED_WITHIN) or 0 in more)
    cells = (
        f"{judge[0]:g}, {judge[1]:g}",
        f"{rate:.2f}",
        f"{half:.3f}",
        f"{np.mean(more):.0f}",
        f"{mean:.3f}",
    )
    return Row(cells, holds=reached)


Ratings = list[list[Any]]


def verdicts_of(raters: int) -> Callable[[Generator, int, float, float], Ratings]:
    """Return raters that each turn an item's true verdict around with a probability."""

    def draw_verdicts(draw: Generator, n: int, rate: float, error: float) -> Ratings:
        truth = draw.random((n, 1)) < rate
        ratings: Ratings = (truth ^ (draw.random((n, raters)) < error)).tolist()
        return ratings

    return draw_verdicts


def grades(draw: Generator, n: int, rate: float, error: float) -> Ratings:
    near = draw.normal(2 + rate, 1.2, size=(n, 1)) + draw.normal(0, 3 * error, size=(n, 3))
    ratings: Ratings = near.round().clip(0, 4).astype(int).tolist()
    return ratings


def numbers(draw: Generator, n: int, rate: float, error: float) -> Ratings:
    ratings: Ratings = (draw.normal(rate, 1, size=(n, 1)) + draw.normal(0, 3 * error, size=(n, 3))).tolist()
    return ratings


Measure = tuple[Callable[[Ratings], float | None], Callable[[Ratings], Any]]
MEASURES: Final[dict[str, tuple[Callable[[Generator, int, float, float], Ratings], Measure]]] = {
    "kappa of verdicts": (
        verdicts_of(2),
        (
            lambda rated: cohen_kappa(*zip(*rated, strict=True)),
            lambda rated: cohen_kappa_interval(*zip(*rated, strict=True)),
        ),
    ),
    "alpha of verdicts, 3 raters": (verdicts_of(3), (krippendorff_alpha, krippendorff_alpha_interval)),
    "alpha of grades, 3 raters": (
        grades,
        (
            lambda rated: krippendorff_alpha(rated, level="ordinal"),
            lambda rated: krippendorff_alpha_interval(rated, level="ordinal"),
        ),
    ),
    "alpha of numbers, 3 raters": (
        numbers,
        (
            lambda rated: krippendorff_alpha(rated, level="interval"),
            lambda rated: krippendorff_alpha_interval(rated, level="interval"),
        ),
    ),
}


def agreement_table(repetitions: int) -> Table:
    """How often the intervals of kappa and alpha hold."""
    cells = product(MEASURES, (20, 50, 200), (0.5, 0.8, 0.95), (0.02, 0.1, 0.3))
    return Table(
        "Agreement of raters",
        "The 95 % intervals of `cohen_kappa_interval` and `krippendorff_alpha_interval` contain the value of "
        f"many items in at least 93 % of {repetitions:,} simulations for verdicts, and in at least 90 % for "
        "grades and numbers. Raters turn a verdict around with the given probability, or have three times as "
        "much noise as a share of the items' own spread.",
        ("measure", "items", "rate", "error", "value", "covered", "mean width"),
        tuple(agreement_row(*cell, repetitions) for cell in cells),
    )


def agreement_row(name: str, n: int, rate: float, error: float, times: int) -> Row:
    make, (value_of, interval_of) = MEASURES[name]
    seed: Sequence[int] = [n, round(100 * rate), round(100 * error), len(name)]
    draw = np.random.default_rng(seed)
    truth = value_of(make(np.random.default_rng(1), 50_000, rate, error))
    assert truth is not None
    found = [interval_of(make(draw, n, rate, error)) for _ in range(times)]
    defined = [each for each in found if each is not None]
    covered = sum(each.low <= truth <= each.high for each in defined) / len(defined)
    width = sum(each.high - each.low for each in defined) / len(defined)
    cells = (
        name,
        str(n),
        f"{rate:.2f}",
        f"{error:.2f}",
        f"{truth:.2f}",
        percent(covered),
        f"{width:.2f}",
    )
    least = AT_LEAST if "verdicts" in name else AGREEMENT_AT_LEAST
    return Row(cells, holds=holds(covered, len(defined), least))
