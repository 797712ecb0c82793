"""How often sequential tests and detectors raise an alarm for nothing, and how soon for a change."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from statistics import fmean, median, stdev

import numpy as np
from tables import Row, Table, percent, rate_error

from dokimos.stats._e_process import EDetector, EProcess

ALPHA = 0.05
OBSERVATIONS = 1_000
RUN_LENGTH = 100
DAYS_BETWEEN_ALARMS = 3_650
LONGEST_DELAY = 500
QUIET_DAYS = (0, 30, 365)
Draw = np.random.Generator
Values = Callable[[Draw], Iterator[tuple[float, float]]]
"""Observations with their weights, for ever."""


def verdicts(rate: float) -> Values:
    return lambda draw: ((float(draw.random() < rate), 1.0) for _ in count())


def scores(mean: float, concentration: float) -> Values:
    a, b = mean * concentration, (1 - mean) * concentration
    return lambda draw: ((draw.beta(a, b), 1.0) for _ in count())


def sampled(draw: Draw) -> Iterator[tuple[float, float]]:
    """Traces of which 90 % pass. A fifth is long, passes at 70 %, is all scored; of the rest a fifth is."""
    while True:
        is_long = draw.random() < 0.2
        if is_long or draw.random() < 0.2:
            passed = draw.random() < (0.7 if is_long else 0.95)
            yield float(passed), 1.0 if is_long else 5.0


def conversations(draw: Draw) -> Iterator[tuple[float, float]]:
    """The shares of turns that pass, of conversations that are good or bad as a whole."""
    while True:
        turns = int(draw.integers(1, 8))
        rate = draw.beta(0.9 * 3, 0.1 * 3)
        yield float((draw.random(turns) < rate).mean()), 1.0


LARGEST_WEIGHT = {sampled: 5.0}
UNCHANGED: dict[str, tuple[Values, float]] = {
    "verdicts, 50 % pass": (verdicts(0.5), 0.5),
    "verdicts, 90 % pass": (verdicts(0.9), 0.9),
    "verdicts, 98 % pass": (verdicts(0.98), 0.98),
    "scores of 0.8, sd 0.1": (scores(0.8, 15.0), 0.8),
    "verdicts, sampled with weights of 1 and 5": (sampled, 0.9),
    "means of conversations": (conversations, 0.9),
}


def process_table(repetitions: int) -> Table:
    rows = []
    for place, (name, (values, mean)) in enumerate(UNCHANGED.items()):
        draw = np.random.default_rng([21, place])
        alarms = sum(ever_significant(values, draw, mean) for _ in range(repetitions)) / repetitions
        rows.append(Row((name, percent(alarms)), holds=alarms <= ALPHA + 2 * rate_error(ALPHA, repetitions)))
    return Table(
        "False alarms of `EProcess`",
        f"Two-sided, with a look after each of {OBSERVATIONS:,} observations: the p-value ever falls "
        f"to 5 % in at most 5 % of {repetitions:,} runs.",
        ("observations", "false alarms"),
        tuple(rows),
    )


def ever_significant(values: Values, draw: Draw, mean: float) -> bool:
    test = EProcess(mean, largest_weight=LARGEST_WEIGHT.get(values, 1.0))
    return any(
        test.add(value, weight=weight) <= ALPHA
        for _, (value, weight) in zip(range(OBSERVATIONS), values(draw), strict=False)
    )


def detector_table(repetitions: int) -> Table:
    rows = []
    for place, (name, (values, mean)) in enumerate(UNCHANGED.items()):
        for daily in (10, 50):
            draw = np.random.default_rng([22, place, daily])
            runs = [looks_until_false_alarm(values, draw, mean, daily) for _ in range(repetitions)]
            early = sum(run <= RUN_LENGTH / 10 for run in runs) / repetitions
            enough = fmean(runs) + 2 * stdev(runs) / math.sqrt(repetitions) >= RUN_LENGTH
            rare = early <= 0.1 + 2 * rate_error(0.1, repetitions)
            cells = (name, str(daily), percent(early), f"{fmean(runs):.0f}")
            rows.append(Row(cells, holds=enough and rare))
    return Table(
        "False alarms of `EDetector`",
        f"Two-sided, with an average run length of {RUN_LENGTH} days, and a look after each "
        f"observation. False alarms are at least {RUN_LENGTH} days apart on average, and at most 10 % "
        f"of {repetitions:,} runs have one within a tenth of that time.",
        ("observations", "a day", f"alarm in {RUN_LENGTH // 10} days", "days until a false alarm"),
        tuple(rows),
    )


def looks_until_false_alarm(values: Values, draw: Draw, mean: float, daily: int) -> int:
    weight = LARGEST_WEIGHT.get(values, 1.0)
    detector = EDetector(mean, average_run_length=RUN_LENGTH, largest_weight=weight)
    for place, (value, weight) in enumerate(values(draw)):
        if place % daily == 0:
            detector.start_look()
        if detector.add(value, weight=weight) or detector.looks > 20 * RUN_LENGTH:
            break
    return detector.looks


@dataclass(frozen=True)
class Drop:
    """A pass rate of 90 % that falls, in verdicts of so many traces a day."""

    points: int
    daily: int

    def day(self, draw: Draw, *, dropped: bool) -> float:
        """Return a day's pass rate."""
        return draw.binomial(self.daily, 0.9 - dropped * self.points / 100) / self.daily

    def detector_delay(self, draw: Draw, quiet: int) -> int:
        detector = EDetector(0.9, average_run_length=DAYS_BETWEEN_ALARMS, alternative="less")
        for _ in range(quiet):
            detector.start_look()
            if detector.add_mean(self.day(draw, dropped=False), self.daily):
                detector.reset()
        for delay in range(1, LONGEST_DELAY):
            detector.start_look()
            if detector.add_mean(self.day(draw, dropped=True), self.daily):
                return delay
        return LONGEST_DELAY

    def process_delay(self, draw: Draw, quiet: int) -> int:
        test = EProcess(0.9, alternative="less")
        for _ in range(quiet):
            test.add_mean(self.day(draw, dropped=False), self.daily)
        for delay in range(1, LONGEST_DELAY):
            test.add_mean(self.day(draw, dropped=True), self.daily)
            if test.e_value >= 1 / ALPHA:
                return delay
        return LONGEST_DELAY


def delay_table(repetitions: int) -> Table:
    rows = []
    for points in (2, 5, 10):
        for daily in (20, 100, 500):
            drop = Drop(points, daily)
            draw = np.random.default_rng([23, points, daily])
            delays = [
                median(drop.detector_delay(draw, quiet) for _ in range(repetitions)) for quiet in QUIET_DAYS
            ]
            alone = [
                median(drop.process_delay(draw, quiet) for _ in range(max(20, repetitions // 4)))
                for quiet in QUIET_DAYS
            ]
            cells = (f"{points} points", str(daily), *map(days, delays), *map(days, alone))
            rows.append(Row(cells, holds=delays[-1] <= 1.2 * delays[0] + 1))
    return Table(
        "Days until a drop is detected",
        "Median days until an alarm after a pass rate of 90 % fell, by the number of days without a "
        'change before. The detector (`alternative="less"`) raises at most one false alarm in '
        f"{DAYS_BETWEEN_ALARMS:,} days on average, and is about as fast after a year as on the first "
        f"day ({repetitions:,} runs). A single test (`EProcess` at 5 %) gets slower the longer nothing "
        "changes.",
        (
            "drop",
            "verdicts a day",
            *(f"detector, {quiet} quiet" for quiet in QUIET_DAYS),
            *(f"one test, {quiet} quiet" for quiet in QUIET_DAYS),
        ),
        tuple(rows),
    )


def days(delay: float) -> str:
    return f"over {LONGEST_DELAY - 1}" if delay >= LONGEST_DELAY else f"{delay:.0f}"
