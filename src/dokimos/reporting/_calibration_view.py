"""A calibration on the terminal: how far judge and people agree, and where they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from dokimos._core.number_format import UNKNOWN, format_score, percent
from dokimos._core.text import pluralize
from dokimos.reporting._blocks import Block, Detail, Line, View
from dokimos.reporting._tables import Cell, Column, Table

# For the types alone: evaluators are in the same layer.
if TYPE_CHECKING:
    from dokimos.evaluators._calibration_result import Calibration
    from dokimos.evaluators._labelled_verdicts import AgreementFigure, LabelledVerdict

LOOK_FIRST: Final = 10
_SAID: Final = {True: "pass", False: "fail"}


def calibration_blocks(calibration: Calibration, detail: Detail) -> Iterator[Block]:
    """Yield what a calibration shows."""
    yield Line(f"{calibration.evaluator} against people: {_rows_text(calibration)}", "bold", fit="wrap")
    yield Line()
    yield _figures_table(calibration)
    yield Line()
    yield _matrix(calibration)
    yield Line()
    yield Line(_advice(calibration), fit="wrap")
    if detail == "summary":
        return
    most = None if detail == "verbose" else LOOK_FIRST
    yield from _disagreements(calibration.disagreements, most)
    for key, error in calibration.errors[:most]:
        yield Line(f"  ! {key}: {error}", "yellow", fit="wrap")
    yield from _more(len(calibration.errors), most)


def _rows_text(calibration: Calibration) -> str:
    errors = (
        f", {pluralize(len(calibration.errors), 'row')} errored and counted in no figure"
        if calibration.errors
        else ""
    )
    return f"{pluralize(calibration.n, 'labelled row')} at the threshold {calibration.threshold:g}{errors}"


def _figures_table(calibration: Calibration) -> Table:
    columns = [
        Column("figure", left=True),
        Column("value"),
        Column(f"{calibration.confidence * 100:g} % interval"),
    ]
    rows = [
        _figure("agreement", calibration.agreement, percent),
        _figure("Cohen's kappa", calibration.kappa, format_score),
        _figure(f"Krippendorff's alpha ({calibration.alpha_level})", calibration.alpha, format_score),
        _figure("sensitivity: passes that the judge passes", calibration.sensitivity, percent),
        _figure("specificity: fails that the judge fails", calibration.specificity, percent),
    ]
    return Table(columns, rows)


def _figure(name: str, estimate: AgreementFigure, write: Callable[[float], str]) -> list[Cell]:
    interval = estimate.interval
    between = UNKNOWN if interval is None else f"{write(interval.low)} to {write(interval.high)}"
    return [name, UNKNOWN if estimate.value is None else write(estimate.value), between]


def _matrix(calibration: Calibration) -> Table:
    counts = calibration.confusion
    columns = [Column("", left=True), Column("judge passes"), Column("judge fails")]
    people_pass = ["people pass", f"{counts.passes_kept}", f"{counts.passes_missed}"]
    return Table(columns, [people_pass, ["people fail", f"{counts.fails_missed}", f"{counts.fails_caught}"]])


def _advice(calibration: Calibration) -> str:
    best, now = (
        calibration.best_threshold,
        f"{percent(calibration.best_threshold.current)} at {calibration.threshold:g}",
    )
    return (
        f"  Best threshold: {best.threshold:.3g}, with a balanced accuracy of "
        f"{percent(best.cross_validated)} on rows that had no part in choosing it ({now})."
    )


def _disagreements(rows: tuple[LabelledVerdict, ...], most: int | None) -> Iterator[Block]:
    if not rows:
        return
    yield Line()
    columns = [
        Column("disagreement", left=True, most=24),
        Column("people", left=True),
        Column("judge", left=True),
        Column("score"),
        Column("judge's reason", left=True, rest=True),
    ]
    cells: list[list[Cell]] = [
        [
            row.key,
            _SAID[row.label],
            _SAID[row.verdict],
            UNKNOWN if row.score is None else format_score(row.score),
            row.reason,
        ]
        for row in rows[:most]
    ]
    yield Table(columns, cells)
    yield from _more(len(rows), most)


def _more(count: int, most: int | None) -> Iterator[Block]:
    if most is not None and count > most:
        yield Line(f"    ... and {count - most} more", "dim")


def _headline(calibration: Calibration) -> str:
    agreement = UNKNOWN if calibration.agreement.value is None else percent(calibration.agreement.value)
    rows = pluralize(calibration.n, "row")
    return f"{calibration.evaluator!r:.60}: {agreement} agreement with people on {rows}"


VIEW: Final = View.of_blocks(_headline, calibration_blocks)
