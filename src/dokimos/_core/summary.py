"""Counting results as they come, so that a run of any length has its totals without keeping its items."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from dokimos._core.evaluator_summary import EvaluatorSummary, EvaluatorTally
from dokimos._core.jsonable import WIRE_CONFIG
from dokimos._core.metrics import CallMetrics
from dokimos._core.number_format import to_single_line, usd
from dokimos._core.outcome import Outcome, derive_outcome

if TYPE_CHECKING:
    from dokimos._core.results import EvalResult, ItemResult

# Sums are kept as integers so that they do not depend on the order in which items finish.
_COST_UNIT: Final = 10**15
_LATENCY_STEP: Final = math.log(1.01)
_PASSED: Final = Outcome.PASSED
"""Looked up here once: Python 3.11 takes 0.1 us to find a member of an enum, for each item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """Totals of one run (or of several, merged).

    Example:
        >>> result = evaluate([Example.of("a", "A")], str.upper, [ExactMatch()], quiet=True, journal=False)
        >>> summary = result.runs[0].summary
        >>> summary.evaluator("Exact Match").mean
        1.0
    """

    total: int = 0
    passed: int = 0
    failed: int = 0
    """Items that did not pass, errored ones included."""
    errored: int = 0
    informational: int = 0
    """Items that have scores, none of which decides."""
    not_judged: int = 0
    """Items of which nothing was evaluated."""
    warned: int = 0
    """Items with an error of an evaluator that leaves their outcome to the others."""
    evaluators: tuple[EvaluatorSummary, ...] = ()
    metrics: CallMetrics = field(default_factory=CallMetrics)
    """Tokens and cost added up, with the median latency."""
    latency_p95_ms: float | None = None
    """Like the median, read from bins of 1 %, so at most 0.5 % off."""
    tokenized: int = 0
    """Items whose tokens are known."""
    priced: int = 0
    """Those of them whose cost is known."""
    latency_bins: tuple[tuple[int, int], ...] = ()

    __pydantic_config__ = WIRE_CONFIG

    @property
    def judged(self) -> int:
        return self.passed + self.failed

    @property
    def pass_rate(self) -> float | None:
        return self.passed / self.judged if self.judged else None

    @property
    def judging(self) -> EvaluatorSummary:
        """What the model calls of all evaluators cost: `metrics`, `tokenized` and `priced`."""
        tally = EvaluatorTally("all")
        for evaluator in self.evaluators:
            tally.add_cost(evaluator.metrics, evaluator.tokenized, evaluator.priced)
        return tally.summary()

    def evaluator(self, name: str) -> EvaluatorSummary | None:
        return next((evaluator for evaluator in self.evaluators if evaluator.name == name), None)

    @classmethod
    def merge(cls, summaries: Iterable[RunSummary]) -> RunSummary:
        """Add several summaries up."""
        parts = list(summaries)
        if len(parts) == 1:
            return parts[0]
        tally = Tally()
        for part in parts:
            tally.add_summary(part)
        return tally.summary()


MOST_LABELS: Final = 8


def describe_labels(labels: Mapping[str, int], most: int = MOST_LABELS) -> str:
    """Write the counts of labels in one line: `answer 88, refusal 12 and 3 more labels`; "" without any."""
    named = ", ".join(
        f"{to_single_line(label, 40)} {count:,}" for label, count in islice(labels.items(), most)
    )
    more = len(labels) - most
    return named + (f" and {more:,} more label{'' if more == 1 else 's'}" if more > 0 else "")


def judge_cost(summary: RunSummary) -> str | None:
    """Write what the evaluators' model calls cost: `$0.0312 (98/100 priced)`; None where they made none."""
    judging = summary.judging
    if judging.metrics.cost_usd is None:
        return f"{judging.metrics.tokens or 0:,} tokens, unpriced" if judging.tokenized else None
    partly = judging.priced < judging.tokenized
    coverage = f" ({judging.priced:,}/{judging.tokenized:,} priced)" if partly else ""
    return usd(judging.metrics.cost_usd) + coverage


_COUNTS: Final = (
    "total", "passed", "failed", "errored", "informational", "warned", "tokenized", "priced",
)  # fmt: skip


class Tally:
    """Running totals of a run; `add` is called once per item, in any order."""

    def __init__(self) -> None:
        self.total = self.passed = self.failed = self.errored = self.informational = self.warned = 0
        self.tokenized = self.priced = 0
        self._tokens_in: int | None = None
        self._tokens_out: int | None = None
        self._cached: int | None = None
        self._reasoning: int | None = None
        self._cost: int | None = None
        self._models: set[str | None] = set()
        self._latencies: Counter[int] = Counter()
        self._evaluators: dict[str, EvaluatorTally] = {}

    @classmethod
    def of(cls, items: Iterable[ItemResult]) -> Tally:
        tally = cls()
        for item in items:
            tally.add(item)
        return tally

    @property
    def pass_rate(self) -> float | None:
        judged = self.passed + self.failed
        return self.passed / judged if judged else None

    @property
    def cost_usd(self) -> float | None:
        return None if self._cost is None else self._cost / _COST_UNIT

    @property
    def spent_usd(self) -> float | None:
        """The known cost of task and evaluators together."""
        costs = [self.cost_usd, *(evaluator.metrics.cost_usd for evaluator in self._evaluators.values())]
        measured = [cost for cost in costs if cost is not None]
        return sum(measured) if measured else None

    def add(self, item: ItemResult) -> None:
        outcome = derive_outcome(item.error, item.eval_results)
        # `warnings` goes through all results again: only where there was an error at all.
        if self.add_outcome(outcome, item.eval_results, item.metrics) and item.warnings:
            self.warned += 1

    def add_outcome(
        self, outcome: Outcome, results: Iterable[EvalResult], metrics: CallMetrics | None
    ) -> bool:
        """Count an item by what became of it. Return whether a result is an error, which may be a warning."""
        self._count(outcome, 1)
        erring = False
        evaluators = self._evaluators
        for result in results:
            (evaluators.get(result.name) or self._evaluator(result.name)).add(result)
            if result.error is not None:
                erring = True
        if metrics is not None:
            self.add_metrics(metrics)
        return erring

    def add_equal_outcomes(self, outcome: Outcome, results: Iterable[EvalResult], count: int) -> None:
        """Count items as `add_outcome` does, whose results are equal and have neither errors nor costs."""
        self._count(outcome, count)
        for result in results:
            self._evaluator(result.name).add(result, count)

    def _count(self, outcome: Outcome, count: int) -> None:
        self.total += count
        if outcome is _PASSED:
            self.passed += count
        elif outcome is Outcome.INFORMATIONAL:
            self.informational += count
        elif outcome is not Outcome.NOT_JUDGED:
            self.failed += count
            self.errored += count * (outcome is Outcome.ERRORED)

    def add_latency(self, latency_ms: float) -> None:
        """Count how long a task took of which nothing else was measured."""
        self._latencies[_latency_bin(latency_ms)] += 1

    def add_latencies(self, latencies_ms: Iterable[float]) -> None:
        """Count several as `add_latency` does."""
        self._latencies.update(map(_latency_bin, latencies_ms))

    def add_summary(self, other: RunSummary) -> None:
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self._add_sums(other.metrics)
        self._latencies.update(dict(other.latency_bins))
        for evaluator in other.evaluators:
            self._evaluator(evaluator.name).add_summary(evaluator)

    def summary(self) -> RunSummary:
        model = next(iter(self._models)) if len(self._models) == 1 else None
        metrics = CallMetrics(
            self._tokens_in,
            self._tokens_out,
            cost_usd=self.cost_usd,
            latency_ms=self._latency_quantile(0.5),
            model=model,
            cached_tokens_in=self._cached,
            reasoning_tokens_out=self._reasoning,
        )
        return RunSummary(
            total=self.total,
            passed=self.passed,
            failed=self.failed,
            errored=self.errored,
            informational=self.informational,
            not_judged=self.total - self.passed - self.failed - self.informational,
            warned=self.warned,
            evaluators=tuple(evaluator.summary() for evaluator in self._evaluators.values()),
            metrics=metrics,
            latency_p95_ms=self._latency_quantile(0.95),
            tokenized=self.tokenized,
            priced=self.priced,
            latency_bins=tuple(sorted(self._latencies.items())),
        )

    def _evaluator(self, name: str) -> EvaluatorTally:
        tally = self._evaluators.get(name)
        if tally is None:
            tally = self._evaluators[name] = EvaluatorTally(name)
        return tally

    def add_metrics(self, metrics: CallMetrics) -> None:
        """Count what the task of an item cost."""
        if metrics.latency_ms is not None:
            self.add_latency(metrics.latency_ms)
        if metrics.tokens_in is None and metrics.tokens_out is None and metrics.cost_usd is None:
            return
        if metrics.tokens is not None:
            self.tokenized += 1
            self.priced += metrics.cost_usd is not None
        self._add_sums(metrics)

    def _add_sums(self, metrics: CallMetrics) -> None:
        self._tokens_in = _plus(self._tokens_in, metrics.tokens_in)
        self._tokens_out = _plus(self._tokens_out, metrics.tokens_out)
        self._cached = _plus(self._cached, metrics.cached_tokens_in)
        self._reasoning = _plus(self._reasoning, metrics.reasoning_tokens_out)
        if metrics.cost_usd is not None:
            self._cost = _plus(self._cost, round(metrics.cost_usd * _COST_UNIT))
        if metrics.model is not None:
            self._models.add(metrics.model)

    def _latency_quantile(self, share: float) -> float | None:
        """The smallest latency that at least `share` of the items do not exceed."""
        rank = math.ceil(share * self._latencies.total())
        seen = 0
        for bin_index, count in sorted(self._latencies.items()):
            seen += count
            if seen >= rank:
                return _latency_of(bin_index)
        return None


def _plus(total: int | None, more: int | None) -> int | None:
    if more is None:
        return total
    return more if total is None else total + more


def _latency_bin(latency_ms: float) -> int:
    """Bins of 1 % width; everything up to a nanosecond is in the first."""
    return round(math.log(latency_ms if latency_ms > 1e-6 else 1e-6) / _LATENCY_STEP)


def _latency_of(bin_index: int) -> float:
    latency = math.exp(bin_index * _LATENCY_STEP)
    return latency if latency >= 2e-6 else 0.0
