"""What a result could not judge: metrics that errored too often, and metrics that were never applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from dokimos._core.evaluator_summary import DISABLED
from dokimos._core.means import UNIT, units_of
from dokimos._core.number_format import percent, to_single_line

if TYPE_CHECKING:
    from dokimos._core.results import EvalResult, ExperimentResult

FEWEST_ERRORS: Final = 2
"""A single error may be chance, and says nothing of the metric."""
LONGEST_CAUSE: Final = 200

ErrorAllowance: TypeAlias = int | float
"""How many errors are let through: a number, or a share as a float."""


def is_allowed(errors: int, of: int, allowance: ErrorAllowance) -> bool:
    """Say whether so many errors are let through."""
    if isinstance(allowance, float):
        return errors * UNIT <= units_of(allowance) * of
    return errors <= allowance


@dataclass(frozen=True, slots=True)
class BrokenMetric:
    """A metric with a verdict that errored on half or more of the cases that it was meant for."""

    name: str
    errors: int
    applicable: int
    cause: str
    """The most common error, "" where the items were not kept."""

    @property
    def sentence(self) -> str:
        share = percent(self.errors / self.applicable)
        text = (
            f"{self.name} errored on {self.errors} of {self.applicable} cases that it was meant for ({share})"
        )
        return f"{text}, mostly with: {self.cause}" if self.cause else f"{text}."


@dataclass(frozen=True, slots=True)
class SkippedMetric:
    """A metric that was not applied to any case, for want of data."""

    name: str
    count: int
    reason: str
    """The most common one."""

    @property
    def sentence(self) -> str:
        cases = "the only case" if self.count == 1 else f"all {self.count} cases"
        return f"{self.name} was skipped for {cases} that it was declared for: {self.reason}"


def find_broken_metrics(result: ExperimentResult, allowance: ErrorAllowance = 0) -> list[BrokenMetric]:
    """Return the metrics with a verdict whose errors say too little about the rest."""
    return [
        BrokenMetric(metric.name, metric.errors, metric.applicable, _common_error(result, metric.name))
        for metric in result.summary.evaluators
        if metric.decides
        and metric.errors >= FEWEST_ERRORS
        and 2 * metric.errors >= metric.applicable
        and not is_allowed(metric.errors, metric.applicable, allowance)
    ]


def find_skipped_metrics(result: ExperimentResult) -> list[SkippedMetric]:
    """Return the metrics that lacked data on every case; those that are disabled are not among them."""
    skipped = []
    for metric in result.summary.evaluators:
        if metric.applicable or not metric.skipped:
            continue
        reasons = [reason for reason in metric.skip_reasons if reason != DISABLED]
        if reasons:  # a report of an earlier version without items has none
            count = metric.skipped - metric.skip_reasons.get(DISABLED, 0)
            skipped.append(SkippedMetric(metric.name, count, reasons[0]))
    return skipped


def describe_broken_metrics(result: ExperimentResult) -> tuple[str, ...]:
    """Return a sentence for each metric that could not judge."""
    broken = [one.sentence for one in find_broken_metrics(result)]
    return (*broken, *(one.sentence for one in find_skipped_metrics(result)))


def _common_error(result: ExperimentResult, name: str) -> str:
    errors = Counter(to_single_line(r.problem, LONGEST_CAUSE) for r in _results_of(result, name) if r.error)
    return errors.most_common(1)[0][0] if errors else ""


def _results_of(result: ExperimentResult, name: str) -> Iterator[EvalResult]:
    return (one for item in result.item_results for one in item.eval_results if one.name == name)
