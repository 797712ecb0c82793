"""The result of a calibration as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from dokimos._core.number_format import UNKNOWN, format_score, percent, to_single_line
from dokimos._core.text import pluralize
from dokimos._runtime.terminal_text import escape_control_characters
from dokimos.evaluators._labelled_verdicts import AgreementFigure, LabelledVerdict

# The result imports this module.
if TYPE_CHECKING:
    from dokimos.evaluators._calibration_result import Calibration

MAX_LISTED: Final = 20


def markdown(calibration: Calibration) -> str:
    """Return the figures, the confusion matrix, the advice on the threshold, and the disagreements."""
    sections = (_head, _figures, _matrix, _threshold, _disagreements, _errors)
    return "\n".join(line for section in sections for line in section(calibration)).rstrip() + "\n"


def _head(calibration: Calibration) -> Iterator[str]:
    yield f"# {_plain(calibration.evaluator)} against people\n"
    errors = (
        f", {pluralize(len(calibration.errors), 'row')} errored and counted in no figure"
        if calibration.errors
        else ""
    )
    yield f"{pluralize(calibration.n, 'labelled row')} at the threshold {calibration.threshold:g}{errors}.\n"


def _figures(calibration: Calibration) -> Iterator[str]:
    yield f"| Figure | Value | {calibration.confidence * 100:g} % interval |"
    yield "|---|---|---|"
    yield _row("Agreement", calibration.agreement, percent)
    yield _row("Cohen's kappa", calibration.kappa, format_score)
    yield _row(f"Krippendorff's alpha ({calibration.alpha_level})", calibration.alpha, format_score)
    yield _row("Sensitivity: passes that the judge passes", calibration.sensitivity, percent)
    yield _row("Specificity: fails that the judge fails", calibration.specificity, percent) + "\n"


def _row(name: str, estimate: AgreementFigure, write: Callable[[float], str]) -> str:
    value = UNKNOWN if estimate.value is None else write(estimate.value)
    interval = estimate.interval
    between = UNKNOWN if interval is None else f"{write(interval.low)} to {write(interval.high)}"
    return f"| {name} | {value} | {between} |"


def _matrix(calibration: Calibration) -> Iterator[str]:
    counts = calibration.confusion
    yield "| | judge passes | judge fails |"
    yield "|---|---|---|"
    yield f"| people pass | {counts.passes_kept} | {counts.passes_missed} |"
    yield f"| people fail | {counts.fails_missed} | {counts.fails_caught} |\n"


def _threshold(calibration: Calibration) -> Iterator[str]:
    best = calibration.best_threshold
    yield f"Best threshold: **{best.threshold:.3g}**, with a balanced accuracy of"
    yield f"{percent(best.cross_validated)} on rows that had no part in choosing it"
    yield f"({percent(best.current)} at {calibration.threshold:g}).\n"


def _disagreements(calibration: Calibration) -> Iterator[str]:
    rows = calibration.disagreements
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
    words = {True: "pass", False: "fail"}
    cells = (
        _plain(row.key),
        words[row.label],
        words[row.verdict],
        UNKNOWN if row.score is None else format_score(row.score),
        _plain(row.reason),
    )
    return f"| {' | '.join(cells)} |"


def _errors(calibration: Calibration) -> Iterator[str]:
    for key, error in calibration.errors[:MAX_LISTED]:
        yield f"- {_plain(key)}: {_plain(error)}"


def _plain(text: str) -> str:
    """Foreign text on one line, with nothing in it that Markdown or HTML would read."""
    return re.sub(r"([\\`*_\[\]<>|~&!#$])", r"\\\1", escape_control_characters(to_single_line(text, 200)))
