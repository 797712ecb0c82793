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


def calibration_blocks(found: Calibration, detail: Detail) -> Iterator[Block]:
    """Yield what a calibration shows."""
    yield Line(f"{found.evaluator} against people: {_rows_text(found)}", "bold", fit="wrap")
    yield Line()
    yield _figures_table(found)
    yield Line()
    yield _matrix(found)
    yield Line()
    yield Line(_advice(found), fit="wrap")
    if detail == "summary":
        return
    most = None if detail == "verbose" else LOOK_FIRST
    yield from _disagreements(found.disagreements, most)
    for key, error in found.errors[:most]:
        yield Line(f"  ! {key}: {error}", "yellow", fit="wrap")
    yield from _more(len(found.errors), most)


def _rows_text(found: Calibration) -> str:
    errors = (
        f", {pluralize(len(found.errors), 'row')} errored and counted in no figure" if found.errors else ""
    )
    return f"{pluralize(found.n, 'labelled row')} at the threshold {found.threshold:g}{errors}"


def _figures_table(found: Calibration) -> Table:
    columns = [
        Column("figure", left=True),
        Column("value"),
        Column(f"{found.confidence * 100:g} % interval"),
    ]
    rows = [
        _figure("agreement", found.agreement, percent),
        _figure("Cohen's kappa", found.kappa, format_score),
        _figure(f"Krippendorff's alpha ({found.alpha_level})", found.alpha, format_score),
        _figure("sensitivity: passes that the judge passes", found.sensitivity, percent),
        _figure("specificity: fails that the judge fails", found.specificity, percent),
    ]
    return Table(columns, rows)


def _figure(name: str, estimate: AgreementFigure, write: Callable[[float], str]) -> list[Cell]:
    interval = estimate.interval
    between = UNKNOWN if interval is None else f"{write(interval.low)} to {write(interval.high)}"
    return [name, UNKNOWN if estimate.value is None else write(estimate.value), between]


def _matrix(found: Calibration) -> Table:
    counts = found.confusion
    columns = [Column("", left=True), Column("judge passes"), Column("judge fails")]
    people_pass = ["people pass", f"{counts.passes_kept}", f"{counts.passes_missed}"]
    return Table(columns, [people_pass, ["people fail", f"{counts.fails_missed}", f"{counts.fails_caught}"]])


def _advice(found: Calibration) -> str:
    best, now = found.best_threshold, f"{percent(found.best_threshold.current)} at {found.threshold:g}"
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


def _headline(found: Calibration) -> str:
    agreement = UNKNOWN if found.agreement.value is None else percent(found.agreement.value)
    return f"{found.evaluator!r:.60}: {agreement} agreement with people on {pluralize(found.n, 'row')}"


VIEW: Final = View.of_blocks(_headline, calibration_blocks)
