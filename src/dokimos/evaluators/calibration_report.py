"""What a calibration found, as values and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from dokimos.core.figures import UNKNOWN, one_line, percent, score
from dokimos.core.metrics import CallMetrics
from dokimos.core.text import counted
from dokimos.core.visible import visible
from dokimos.stats.agreement import Level
from dokimos.stats.intervals import Interval

MAX_LISTED: Final = 20


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its interval; None where it is not defined."""

    value: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """How often judge and people agree on passes and fails."""

    passes_kept: int
    """People and judge both say pass."""
    passes_missed: int
    """People say pass, the judge fails it."""
    fails_missed: int
    """People say fail, the judge passes it."""
    fails_caught: int
    """People and judge both say fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledVerdict:
    """One row: what people say, and what the judge says."""

    key: str
    """The example's id, else its position."""
    label: bool
    grade: float
    """The label as a number in 0..1, 1 for the best."""
    verdict: bool
    score: float
    reason: str

    @property
    def agrees(self) -> bool:
        return self.label is self.verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdAdvice:
    """The threshold that separates what people pass from what they fail."""

    threshold: float
    """Chosen on all rows; for an evaluator where lower is better, the score not to exceed."""
    balanced_accuracy: float
    """Mean of sensitivity and specificity on the rows that it was chosen on, so a little too good."""
    cross_validated: float
    """The same on rows that had no part in the choice: what to expect of new rows."""
    current: float
    """The same at the present threshold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How a judged evaluator compares with people."""

    evaluator: str
    fingerprint: str
    """Of the evaluator's configuration: the figures hold for this one only."""
    threshold: float
    lower_is_better: bool
    n: int
    """Rows with a label and a verdict."""
    errors: tuple[tuple[str, str], ...]
    """Rows that the evaluator could not judge, each with its error; they count in no figure."""
    confusion: Confusion
    agreement: Estimate
    """Share of rows on which judge and people say the same."""
    kappa: Estimate
    """Cohen's kappa of the verdicts."""
    alpha: Estimate
    """Krippendorff's alpha: of the verdicts, or of scores and grades where labels are graded."""
    alpha_level: Level
    sensitivity: Estimate
    """Share of what people pass that the judge passes."""
    specificity: Estimate
    """Share of what people fail that the judge fails."""
    best_threshold: ThresholdAdvice
    confidence: float
    rows: tuple[LabelledVerdict, ...] = field(repr=False)
    metrics: CallMetrics | None = None
    """What the judge's calls cost, where it is known."""

    @property
    def disagreements(self) -> tuple[LabelledVerdict, ...]:
        """The rows on which judge and people differ."""
        return tuple(row for row in self.rows if not row.agrees)

    def to_markdown(self) -> str:
        """Return the figures as Markdown tables."""
        return markdown(self)


def markdown(found: Calibration) -> str:
    """Return the figures, the confusion matrix, the advice on the threshold, and the disagreements."""
    sections = (_head, _figures, _matrix, _threshold, _disagreements, _errors)
    return "\n".join(line for section in sections for line in section(found)).rstrip() + "\n"


def _head(found: Calibration) -> Iterator[str]:
    yield f"# {_plain(found.evaluator)} against people\n"
    errors = f", {counted(len(found.errors), 'row')} errored and counted in no figure" if found.errors else ""
    yield f"{counted(found.n, 'labelled row')} at the threshold {found.threshold:g}{errors}.\n"


def _figures(found: Calibration) -> Iterator[str]:
    yield f"| Figure | Value | {found.confidence * 100:g} % interval |"
    yield "|---|---|---|"
    yield _row("Agreement", found.agreement, percent)
    yield _row("Cohen's kappa", found.kappa, score)
    yield _row(f"Krippendorff's alpha ({found.alpha_level})", found.alpha, score)
    yield _row("Sensitivity: passes that the judge passes", found.sensitivity, percent)
    yield _row("Specificity: fails that the judge fails", found.specificity, percent) + "\n"


def _row(name: str, estimate: Estimate, write: Callable[[float], str]) -> str:
    value = UNKNOWN if estimate.value is None else write(estimate.value)
    interval = estimate.interval
    between = UNKNOWN if interval is None else f"{write(interval.low)} to {write(interval.high)}"
    return f"| {name} | {value} | {between} |"


def _matrix(found: Calibration) -> Iterator[str]:
    counts = found.confusion
    yield "| | judge passes | judge fails |"
    yield "|---|---|---|"
    yield f"| people pass | {counts.passes_kept} | {counts.passes_missed} |"
    yield f"| people fail | {counts.fails_missed} | {counts.fails_caught} |\n"


def _threshold(found: Calibration) -> Iterator[str]:
    best = found.best_threshold
    yield f"Best threshold: **{best.threshold:.3g}**, with a balanced accuracy of"
    yield f"{percent(best.cross_validated)} on rows that had no part in choosing it"
    yield f"({percent(best.current)} at {found.threshold:g}).\n"


def _disagreements(found: Calibration) -> Iterator[str]:
    rows = found.disagreements
    if not rows:
        return
    yield "| Disagreement | people | judge | score | judge's reason |"
    yield "|---|---|---|---|---|"
    for row in rows[:MAX_LISTED]:
        yield _disagreement(row)
    if len(rows) > MAX_LISTED:
        yield f"\n... and {len(rows) - MAX_LISTED} more."
    yield ""


def _disagreement(row: LabelledVerdict) -> str:
    said = {True: "pass", False: "fail"}
    cells = (_plain(row.key), said[row.label], said[row.verdict], score(row.score), _plain(row.reason))
    return f"| {' | '.join(cells)} |"


def _errors(found: Calibration) -> Iterator[str]:
    for key, error in found.errors[:MAX_LISTED]:
        yield f"- {_plain(key)}: {_plain(error)}"


def _plain(text: str) -> str:
    """Foreign text on one line, with nothing in it that Markdown or HTML would read."""
    return re.sub(r"([\\`*_\[\]<>|~&!#$])", r"\\\1", visible(one_line(text, 200)))
