"""An invariance report on the terminal and in notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dokimos._core.number_format import UNKNOWN, format_or_unknown, percent, to_single_line, usd
from dokimos._core.text import pluralize
from dokimos.perturbation._invariance import ChangedAnswer, InvarianceReport, KindInvariance
from dokimos.reporting._blocks import Block, Detail, Line, View
from dokimos.reporting._tables import Cell, Column, Table

LISTED: Final = 5
"""Changed answers that are shown unless all are asked for."""
_GOOD, _BAD, _WARN, _QUIET = "blue", "dark_orange", "yellow", "dim"
_LONGEST: Final = 84
_COLUMNS: Final = (
    Column("perturbation", left=True),
    Column("same", least=7),
    Column(""),
    Column("95 % interval"),
    Column("errors"),
    Column("no original"),
)


def report_blocks(report: InvarianceReport, detail: Detail) -> Iterator[Block]:
    """Yield the lines and tables of a report."""
    parts = [headline(report), report.name]
    if report.judging is not None:
        cost = report.judging.cost_usd
        parts.append(
            f"judge {f'{report.judging.tokens or 0:,} tokens, unpriced' if cost is None else usd(cost)}"
        )
    yield Line(" · ".join(parts), "bold")
    yield Line()
    rows = [_row(one) for one in report.kinds]
    yield Table(_COLUMNS, [*rows, _row(report.total)] if len(rows) > 1 else rows)
    yield Line()
    if detail != "summary" and report.changed:
        shown = report.changed if detail == "verbose" else report.changed[:LISTED]
        yield Line(f"  Changed ({len(report.changed)})", "bold")
        for change in shown:
            yield from _change_lines(change)
        if left := len(report.changed) - len(shown):
            yield Line(f"    ... and {left} more (-v shows all)", _QUIET)
        yield Line()
    for note in _notes(report):
        yield Line(f"  ! {note}", _WARN, fit="wrap")


def headline(report: InvarianceReport) -> str:
    """Return in one line how often answers stayed the same."""
    total = report.total
    if total.rate is None:
        return "invariance not known: no pair has a verdict"
    return f"{percent(total.rate)} of answers stay the same ({total.same}/{total.pairs})"


def _notes(report: InvarianceReport) -> Iterator[str]:
    total = report.total
    control = next((one for one in report.kinds if one.kind == "control"), None)
    if control is not None and control.rate is not None and control.rate < 1:
        yield (
            f"Answers to unchanged inputs differ, too: {control.pairs - control.same} of {control.pairs}. "
            "What changes under a perturbation no more often than that is chance."
        )
    if total.errors:
        pairs = pluralize(total.errors, "pair")
        yield f"{pairs} without a verdict, since there is no answer or an evaluator errored."
    if total.without_original:
        yield f"{pluralize(total.without_original, 'perturbed item')} without an answer to the original."
    if total.not_scored:
        yield f"{pluralize(total.not_scored, 'pair')} not compared: the budget does not allow the calls."
    yield from report.warnings


def _row(kind: KindInvariance) -> list[Cell]:
    style = "" if kind.rate is None else (_GOOD if kind.same == kind.pairs else _BAD)
    interval = f"{percent(kind.interval.low)} to {percent(kind.interval.high)}"
    return [
        kind.kind,
        (format_or_unknown(percent, kind.rate), style),
        (f"{kind.same}/{kind.pairs}" if kind.pairs else "", style),
        interval if kind.pairs else UNKNOWN,
        (f"{kind.errors} !", _WARN) if kind.errors else "",
        (f"{kind.without_original} !", _WARN) if kind.without_original else "",
    ]


def _change_lines(change: ChangedAnswer) -> Iterator[Line]:
    yield Line(f"    {to_single_line(change.origin, 60)}  {change.kind}")
    yield Line(f"      input {to_single_line(change.input, _LONGEST)}", _QUIET)
    yield Line(f"      - {to_single_line(change.original, _LONGEST)}", _QUIET)
    yield Line(f"      + {to_single_line(change.answer, _LONGEST)}", _BAD)


VIEW: Final = View.of_blocks(headline, report_blocks)
