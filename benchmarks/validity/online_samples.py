"""What rules of online evaluation say of all that they match: are the figures right, whatever came later?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy as np
from tables import Row, Table, percent, rate_error

from dokimos.server._services.online.estimates import estimate_mean
from dokimos.server._services.online.review_sampling import ReviewSampling, is_chosen
from dokimos.server._services.online.rule_reviews import QueuedScore, estimate_correct_rate
from dokimos.server._services.online.rule_sampling import is_sampled
from dokimos.server._services.online.trace_jobs import SESSION
from dokimos.server._services.trace_alerts.alert_config import Metric
from dokimos.server._services.trace_alerts.observations import merge_scores
from dokimos.stats import weighted_mean_estimate

Generator = np.random.Generator
SCORED: Final = 200
"""Sessions, or traces, of each simulation."""
SHARES: Final = (0.1, 0.3, 0.6)
"""Of sessions that fail at once, that fail later, and that do not."""
PASSES: Final = (0.2, 0.4, 0.9)
"""How often each kind passes."""
FIRST_RATES: Final = (1.0, 0.25, 0.25)
LATER_RATES: Final = (1.0, 0.8, 0.25)
REVIEWING: Final = ReviewSampling(0.9, 0.4, 1_000_000)
REVIEWED: Final = 0.7
"""Of what is in the queue, the share that people have come to."""
CORRECT: Final = (0.85, 0.2)
"""How often people find correct what passed, and what failed."""
RULE: Final = SimpleNamespace(
    review='{"failedRate": 0.9, "otherRate": 0.4, "maxPerDay": 1000}', updated_at=-1
)


class Case(NamedTuple):
    """What one simulation found."""

    value: float
    low: float
    high: float
    naive: float
    """The same if each score kept the weight, or the time, with which it came."""
    truth: float


def online_table(repetitions: int) -> Table:
    return Table(
        "Online evaluation: figures from samples whose chances rise later",
        "Sessions are sampled at 25 %, and again at 80 to 100 % where one of their traces fails, at once or "
        "later; traces are sampled at 25 %, and some of them again by a back-fill at 75 %. What is said of "
        "all of them, sampled or not, is off by at most 0.003 on average (and three standard errors), and "
        f"its 95 % interval contains the true value in 93 to 97 % of {repetitions:,} simulations of {SCORED} "
        "sessions or traces. The last column is the error if each score kept the weight, or in the second "
        "row the time, with which it came.",
        ("figure", "mean error", "covered", "mean error without later weights"),
        tuple(online_row(name, cases, repetitions) for name, cases in DESIGNS.items()),
    )


def dot(shares: Sequence[float], values: Sequence[float]) -> float:
    return sum(share * value for share, value in zip(shares, values, strict=True))


def online_row(name: str, cases: Callable[[Generator, str], Case], times: int) -> Row:
    draw = np.random.default_rng(len(name))
    found = [cases(draw, f"{name} {number}") for number in range(times)]
    errors = np.array([case.value - case.truth for case in found])
    bias, error = float(errors.mean()), float(errors.std()) / math.sqrt(times)
    naive = float(np.mean([case.naive - case.truth for case in found]))
    covered = sum(case.low <= case.truth <= case.high for case in found) / times
    slack = rate_error(0.95, times)
    holds = abs(bias) <= 0.003 + 3 * error and 0.93 - slack <= covered <= 0.97 + slack
    return Row((name, f"{bias:+.3f}", percent(covered), f"{naive:+.3f}"), holds=holds)


class Chance(NamedTuple):
    """Of a session or a trace, to be scored."""

    target: str
    rate: float
    at: int


@dataclass(frozen=True)
class Job:
    """What the server keeps of one that was sampled (`insert_jobs` and `note_passed`, without a database)."""

    target: str
    probability: float
    observed_at: int
    first_probability: float | None = None


class Scoring:
    """Gives sessions or traces chances to be scored, as matching does."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self._passed: dict[str, int] = {}

    def offer(self, chances: Iterable[Chance]) -> None:
        for target, rate, at in chances:
            job = self.jobs.get(target)
            if not is_sampled(target, rate):
                if job is None:
                    self._passed.setdefault(target, at)
            elif job is None:
                first = self._passed.pop(target, None)
                self.jobs[target] = Job(target, rate, at) if first is None else Job(target, rate, first, 0.0)
            elif job.probability < rate:
                first_chance = job.probability if job.first_probability is None else job.first_probability
                self.jobs[target] = replace(job, probability=rate, first_probability=first_chance)


@dataclass(frozen=True)
class Drawn:
    """Sessions or traces, and what became of them."""

    jobs: Sequence[Job]
    first: dict[str, float]
    """With which probability each of these was sampled when it came."""
    passed: dict[str, bool]
    truth: float

    def scores(self, jobs: Iterable[Job], weigh: Callable[[Job], float]) -> list[tuple[str, float, float]]:
        return [(job.target, float(self.passed[job.target]), weigh(job)) for job in jobs]

    def came_with(self, job: Job) -> float:
        return self.first[job.target]


def draw_sessions(draw: Generator, name: str) -> Drawn:
    """Offer sessions of two times, all of whose later traces come last."""
    kinds = draw.choice(3, size=SCORED, p=SHARES)
    passed = draw.random(SCORED) < np.array(PASSES)[kinds]
    targets = [f"{SESSION}/{name} {place}" for place in range(SCORED)]
    scoring = Scoring()
    for place, (target, kind) in enumerate(zip(targets, kinds, strict=True)):
        scoring.offer([Chance(target, FIRST_RATES[kind], place % 2)])
    first = {job.target: job.probability for job in scoring.jobs.values()}
    for target, kind in zip(targets, kinds, strict=True):
        scoring.offer([Chance(target, LATER_RATES[kind], 2)])
    jobs = tuple(scoring.jobs.values())
    first = {job.target: first.get(job.target, job.probability) for job in jobs}
    return Drawn(jobs, first, dict(zip(targets, passed.tolist(), strict=True)), dot(SHARES, PASSES))


def draw_traces(draw: Generator, name: str) -> Drawn:
    """Offer traces of two times; those of the first, which was worse, are back-filled at a higher rate."""
    halves = [place % 2 for place in range(SCORED)]
    targets = [f"{name} {place}/span" for place in range(SCORED)]
    passed = {
        target: bool(draw.random() < (0.6, 0.9)[half]) for target, half in zip(targets, halves, strict=True)
    }
    scoring = Scoring()
    scoring.offer(Chance(target, 0.25, 0) for target in targets)
    first = {job.target: job.probability for job in scoring.jobs.values()}
    scoring.offer(Chance(target, 0.75, 0) for target in targets[::2])
    jobs = tuple(scoring.jobs.values())
    return Drawn(jobs, {job.target: first.get(job.target, job.probability) for job in jobs}, passed, 0.75)


def make_case(drawn: Drawn, jobs: Iterable[Job], came: Iterable[tuple[Job, float]]) -> Case:
    scores = drawn.scores(jobs, lambda job: job.probability)
    naive = [(job.target, float(drawn.passed[job.target]), weight) for job, weight in came]
    estimate, other = (estimate_mean(each, within=(0.0, 1.0)) for each in (scores, naive))
    assert estimate is not None
    assert other is not None
    return Case(estimate.value, estimate.low, estimate.high, other.value, drawn.truth)


def all_sessions(draw: Generator, name: str) -> Case:
    drawn = draw_sessions(draw, name)
    return make_case(drawn, drawn.jobs, ((job, drawn.came_with(job)) for job in drawn.jobs))


def earlier_sessions(draw: Generator, name: str) -> Case:
    drawn = draw_sessions(draw, name)
    chosen = [job for job in drawn.jobs if job.observed_at == 0]
    # Those that a later trace added stood at the time of that.
    return make_case(
        drawn, chosen, ((job, job.probability) for job in chosen if job.first_probability != 0.0)
    )


def back_filled(draw: Generator, name: str) -> Case:
    drawn = draw_traces(draw, name)
    return make_case(drawn, drawn.jobs, ((job, drawn.came_with(job)) for job in drawn.jobs))


def observed_sessions(draw: Generator, name: str) -> Case:
    """What an alert observes: the mean that its detector tests has these weights."""
    drawn = draw_sessions(draw, name)
    config: Any = SimpleNamespace(metric=Metric.PASS_RATE)
    seen = []
    for job in drawn.jobs:
        chance = job.probability if job.first_probability is None else job.first_probability
        if chance > 0:
            success = drawn.passed[job.target]
            one: Any = SimpleNamespace(status="SUCCEEDED", success=success, probability=chance)
            seen.append(merge_scores(0, [one], config))
    values, weights = zip(*((each.value, each.weight) for each in seen if each is not None), strict=True)
    estimate = weighted_mean_estimate(values, weights)
    naive = estimate_mean(drawn.scores(drawn.jobs, drawn.came_with), within=(0.0, 1.0))
    assert estimate is not None
    assert naive is not None
    return Case(estimate.value, estimate.interval.low, estimate.interval.high, naive.value, drawn.truth)


def found_correct(draw: Generator, name: str) -> Case:
    """What people say of scores in the queue, some of whose traces were back-filled later."""
    drawn = draw_traces(draw, name)
    queued: list[QueuedScore] = []
    naive: list[QueuedScore] = []
    decided = {}
    for number, job in enumerate(drawn.jobs):
        success = drawn.passed[job.target]
        chosen = REVIEWING.probability_of(has_failed=not success, queued=0)
        if not is_chosen("rule", job.target, chosen):
            continue
        for rows, sampled in ((queued, job.probability), (naive, drawn.came_with(job))):
            rows.append(QueuedScore(job.target, job.target, not success, chosen * sampled, number))
        if draw.random() < REVIEWED:
            is_correct = draw.random() < CORRECT[not success]
            decided[job.target] = SimpleNamespace(verdict="CORRECT" if is_correct else "INCORRECT")
    said: Any = decided
    rule: Any = RULE
    estimate, other = (estimate_correct_rate(rows, said, rule, len(drawn.jobs)) for rows in (queued, naive))
    assert estimate is not None
    assert other is not None
    truth = dot((drawn.truth, 1 - drawn.truth), CORRECT)
    return Case(estimate.value, estimate.low, estimate.high, other.value, truth)


DESIGNS: Final = {
    "`passRate` of sessions": all_sessions,
    "`passRate` of sessions that began in an earlier time": earlier_sessions,
    "mean of an alert on sessions": observed_sessions,
    "`passRate` of traces, half of them back-filled": back_filled,
    "`correctRate` of reviews, half of the traces back-filled": found_correct,
}
