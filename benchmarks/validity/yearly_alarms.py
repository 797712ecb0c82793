"""False alarms of change detectors by the year, how soon they find a drop, and weighted intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from many_detectors import Floats, ManyDetectors
from tables import Row, Table, percent, rate_error

from dokimos.stats._baseline_bars import baseline_bars
from dokimos.stats._chance_alerts import chance_alerts_of_rate
from dokimos.stats._change_players import Bar
from dokimos.stats._joining import DAYS_PER_YEAR, SECONDS_PER_DAY
from dokimos.stats._weighted_mean import weighted_mean_estimate

Draw = np.random.Generator
RULES = 20
PER_RULE = 1 / RULES
DAILY = 500
RATE = 0.9
DAYS = 365
LONGEST_DELAY = 90
QUIET_DAYS = (0, 30, 365)
CORRELATION = 0.3
MOST_SCORES = 7
WINDOWS = (500, 2_000)


def scores_by_trace(draw: Draw, shape: tuple[int, int], sizes: Floats) -> Floats:
    """Return how many scores of each trace pass: of one trace they have a correlation of 0.3."""
    both = 1 / CORRELATION - 1
    rates = draw.beta(RATE * both, (1 - RATE) * both, size=shape)
    return draw.binomial(sizes.astype(int), rates).astype(float)


def traces(draw: Draw, shape: tuple[int, int]) -> Floats:
    """Return the means of traces of one to seven scores."""
    sizes = draw.integers(1, MOST_SCORES + 1, size=shape).astype(float)
    return scores_by_trace(draw, shape, sizes) / sizes


def single_scores(draw: Draw, shape: tuple[int, int]) -> Floats:
    """Return the scores of traces one by one, as they must not be added."""
    rows, n = shape
    passing = scores_by_trace(draw, (rows, n // 4), np.full((rows, n // 4), 4.0))
    return (passing[:, :, None] > np.arange(4)).reshape(rows, -1).astype(float)


def verdicts(draw: Draw, shape: tuple[int, int]) -> Floats:
    return (draw.random(shape) < RATE).astype(float)


def known(_: Draw) -> list[Bar]:
    return [Bar(1 - RATE, 1.0)]


def month(values: Callable[[Draw, tuple[int, int]], Floats]) -> Callable[[Draw], list[Bar]]:
    def bars(draw: Draw) -> list[Bar]:
        seen = values(draw, (1, 30 * DAILY))[0]
        return baseline_bars((1 - seen).tolist(), [1.0] * len(seen), tolerance=0.0)

    return bars


UNCHANGED = (
    ("verdicts", "known, 90 %", verdicts, known, True),
    ("traces of 1 to 7 scores, merged", "known, 90 %", traces, known, True),
    ("verdicts", "baseline of 30 days", verdicts, month(verdicts), True),
    ("traces of 1 to 7 scores, merged", "baseline of 30 days", traces, month(traces), True),
    ("scores of traces one by one (wrong)", "known, 90 %", single_scores, known, False),
)


def yearly_table(repetitions: int) -> Table:
    rows = []
    for place, (name, against, values, bars, is_promised) in enumerate(UNCHANGED):
        draw = np.random.default_rng([31, place])
        detectors = ManyDetectors([bars(draw) for _ in range(repetitions)], per_year=PER_RULE)
        alarms = sum(
            int(detectors.add_day(values(draw, (repetitions, DAILY)), day).sum()) for day in range(DAYS)
        )
        yearly = alarms / repetitions * RULES
        # Alarms are rare, so their number is about a Poisson variable, at most of this mean.
        slack = 2 * (RULES / repetitions) ** 0.5
        holds = not is_promised or yearly <= 1 + slack
        rows.append(Row((name, against, str(alarms), f"{yearly:.2f}"), holds=holds))
    return Table(
        "False alarms of `ChangeDetector` in a year",
        f"{RULES} rules that share one false alarm a year watch for drops, with a look after each of "
        f"{DAILY} observations a day, so at any minute too; {repetitions:,} years of a rule in which nothing "
        f"changes. The scores of a trace have a correlation of {CORRELATION}. At most one alarm a year is "
        "promised, except in the last row: scores of one trace must be merged.",
        ("observations", "reference", "alarms in all", "a year, of 20 rules"),
        tuple(rows),
    )


@dataclass(frozen=True)
class Drop:
    """A pass rate of 90 % that falls at noon, with 500 verdicts a day."""

    points: int

    def delays(self, draw: Draw, bars: Sequence[Sequence[Bar]], quiet: int) -> Floats:
        """Return the days from the drop to the first alarm after it, for each detector."""
        many = ManyDetectors(bars, per_year=PER_RULE)
        rows, noon = len(bars), DAILY // 2
        for day in range(quiet):
            many.add_day(verdicts(draw, (rows, DAILY)), day)
        found = np.full(rows, np.inf)
        for n in range(LONGEST_DELAY * DAILY):
            rate = RATE if n < noon else RATE - self.points / 100
            values = (draw.random(rows) < rate).astype(float)
            alarms = many.add(values, (quiet + n / DAILY) * SECONDS_PER_DAY)
            found[alarms & np.isinf(found) & (n >= noon)] = (n + 1 - noon) / DAILY
            if np.isfinite(found).all():
                break
        return found

    def threshold_delays(self, draw: Draw, rows: int, window: int) -> Floats:
        """Return the days until the mean of a rolling window is below the threshold."""
        n = LONGEST_DELAY * DAILY
        passes = np.concatenate(
            [draw.random((rows, window)) < RATE, draw.random((rows, n)) < RATE - self.points / 100], axis=1
        )
        sums = np.cumsum(passes, axis=1)
        below = sums[:, window:] - sums[:, :-window] < fewest_passes(window)
        return np.where(below.any(axis=1), (below.argmax(axis=1) + 1) / DAILY, np.inf)


def fewest_passes(window: int) -> int:
    """Return the highest threshold, in passes, with as few false alarms as a detector has."""
    fewest = round(RATE * window)
    yearly = DAILY * DAYS_PER_YEAR
    while chance_alerts_of_rate(RATE, int(yearly), window=window, threshold=fewest / window) > PER_RULE:
        fewest -= 1
    return fewest


def yearly_delay_table(repetitions: int) -> Table:
    rows = []
    for points in (2, 5, 10):
        drop, draw = Drop(points), np.random.default_rng([32, points])
        against_known = [
            float(np.median(drop.delays(draw, [known(draw)] * repetitions, quiet))) for quiet in QUIET_DAYS
        ]
        frozen = [month(verdicts)(draw) for _ in range(repetitions)]
        against_month = [float(np.median(drop.delays(draw, frozen, quiet))) for quiet in QUIET_DAYS]
        fixed = [float(np.median(drop.threshold_delays(draw, repetitions, window))) for window in WINDOWS]
        cells = (f"{points} points", *map(days, [*against_known, *against_month, *fixed]))
        rows.append(Row(cells, holds=against_known[-1] <= 1.2 * against_known[0] + 0.5))
    return Table(
        "Days until `ChangeDetector` finds a drop",
        f"Median days until an alarm after a pass rate of 90 % fell at noon, with {DAILY} verdicts a day and "
        f"one false alarm a year for {RULES} rules, after 0, 30 and 365 quiet days ({repetitions:,} runs); "
        "against a known reference, against a baseline of 30 days, and of a fixed threshold on a rolling "
        "mean that has as few false alarms. Its place was computed from the true rate, which is not known "
        "otherwise.",
        (
            "drop",
            *(f"known, {quiet} quiet" for quiet in QUIET_DAYS),
            *(f"baseline, {quiet} quiet" for quiet in QUIET_DAYS),
            *(f"threshold on {window:,}" for window in WINDOWS),
        ),
        tuple(rows),
    )


def days(delay: float) -> str:
    return f"{delay:.1f}" if delay < LONGEST_DELAY - 1 else f"over {LONGEST_DELAY - 1}"


def weighted_table(repetitions: int) -> Table:
    rows = []
    for kind in ("verdicts", "scores"):
        for finite in (False, True):
            for n in (30, 100, 1_000):
                times = repetitions if n < 1_000 else repetitions // 4
                shares = [weighted_share(kind, n, heaviest, finite, times) for heaviest in (2.0, 5.0, 20.0)]
                slack = rate_error(0.95, times)
                # With a weight of 20 and 30 observations, two or three speak for four fifths of all.
                judged = shares if n > 30 else shares[:2]
                holds = all(0.93 - 2 * slack <= share <= 0.97 + 2 * slack for share in judged)
                what = "these traces" if finite else "all traffic"
                rows.append(Row((kind, what, str(n), *map(percent, shares)), holds=holds))
    return Table(
        "Coverage of weighted 95 % intervals",
        "A fifth of the traces are long, get lower scores and are all sampled; of the others one in 2, 5 or "
        f"20 is. The intervals of `weighted_mean_estimate` hold the mean in 93 to 97 % of {repetitions:,} "
        "simulations (a quarter of them for 1,000 observations), averaged over pass rates of 50, 80, 90 and "
        "94 %. With 30 observations and a weight of 20, where few speak for most of the traffic, that "
        "is not promised.",
        ("values", "mean of", "n", "weights 1 and 2", "1 and 5", "1 and 20"),
        tuple(rows),
    )


def weighted_share(kind: str, n: int, heaviest: float, finite: bool, times: int) -> float:
    draw = np.random.default_rng([33, len(kind), n, int(heaviest), finite])
    covered = 0
    for place in range(times):
        mean = (0.5, 0.8, 0.9, 0.94)[place % 4]
        is_long = draw.random(round(n / (0.2 + 0.8 / heaviest))) < 0.2
        means = np.where(is_long, mean - 0.2, mean + 0.05)
        values = (
            draw.beta(means * 6, (1 - means) * 6) if kind == "scores" else draw.random(means.size) < means
        )
        weights = np.where(is_long, 1.0, heaviest)
        taken = draw.random(means.size) < 1 / weights
        truth = float(values.mean()) if finite else mean
        estimate = weighted_mean_estimate(
            values[taken].astype(float).tolist(), weights[taken].tolist(), finite=finite
        )
        covered += estimate is not None and estimate.interval.low <= truth <= estimate.interval.high
    return covered / times
