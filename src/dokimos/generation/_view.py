"""A generation, and a review list, on the terminal: coverage, and what a person must check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from dokimos._core.number_format import percent, to_single_line, usd
from dokimos._core.text import pluralize
from dokimos.generation._generating import Generation
from dokimos.generation._review_case import ReviewCase, ReviewStatus
from dokimos.reporting._blocks import Block, Detail, Line, View
from dokimos.reporting._tables import Cell, Column, Table

LISTED: Final = 5
"""Cases to check that are shown unless all are asked for."""
_BAD, _WARN, _QUIET = "dark_orange", "yellow", "dim"
_LONGEST: Final = 88
_COLUMNS: Final = (
    Column("category", left=True, most=34),
    Column("cases"),
    Column("asked for"),
    Column("accepted"),
    Column("rejected"),
    Column("to check"),
    Column("difficulty"),
)
_REASONS: Final = (
    ("without_passage", "whose passage does not occur in the document"),
    ("duplicates", "as the same as another one"),
    ("empty", "without an input or an answer"),
    ("invalid", "with an input that is not valid under the schema"),
)


def generation_blocks(generation: Generation, detail: Detail) -> Iterator[Block]:
    """Yield the lines and tables of a generation."""
    yield Line(_headline(generation), "bold")
    yield Line()
    yield coverage_table(generation.cases, generation.requested)
    yield Line()
    for name, what in _REASONS:
        if count := getattr(generation.rejections, name):
            yield Line(f"  {pluralize(count, 'case')} rejected {what}")
    if detail == "verbose":
        for example in generation.rejections.examples:
            yield Line(f"    {to_single_line(example, 200)}", _QUIET)
    if generation.rejections.total:
        yield Line()
    yield from doubt_blocks(generation.cases, all_of_them=detail == "verbose")
    for error in dict.fromkeys(generation.errors):
        yield Line(f"  ! {to_single_line(error, 300)}", _WARN, fit="wrap")
    if generation.not_asked:
        calls = pluralize(generation.not_asked, "call")
        yield Line(f"  ! {calls} not made: the budget does not allow it.", _WARN, fit="wrap")
    for warning in generation.warnings:
        yield Line(f"  ! {warning}", _WARN, fit="wrap")


def review_blocks(cases: Sequence[ReviewCase], *, all_of_them: bool) -> Iterator[Block]:
    """Yield the lines and tables of a review list."""
    counts = Counter(case.status for case in cases)
    parts = [f"{counts[status]} {status}" for status in ReviewStatus]
    yield Line(f"{pluralize(len(cases), 'case')}: {', '.join(parts)}", "bold")
    yield Line()
    if cases:
        yield coverage_table(cases, {})
        yield Line()
    pending = [case for case in cases if case.status is ReviewStatus.PENDING]
    yield from doubt_blocks(pending, all_of_them=all_of_them)


def coverage_table(cases: Iterable[ReviewCase], requested: Mapping[str, int]) -> Table:
    """Return a row for each category."""
    by_category: dict[str, list[ReviewCase]] = {name: [] for name in requested}
    for case in cases:
        by_category.setdefault(case.category, []).append(case)
    return Table(_COLUMNS, [_row(name, some, requested.get(name)) for name, some in by_category.items()])


def doubt_blocks(cases: Sequence[ReviewCase], *, all_of_them: bool) -> Iterator[Block]:
    """Yield the cases that a person should look at first, and why."""
    doubtful = [case for case in cases if case.check]
    if not doubtful:
        return
    shown = doubtful if all_of_them else doubtful[:LISTED]
    yield Line(f"  Check first ({len(doubtful)})", "bold")
    for case in shown:
        yield Line(f"    {case.id}  {to_single_line(str(case.input), _LONGEST)}")
        yield Line(f"      expected {to_single_line(str(case.expected), _LONGEST)}", _QUIET)
        yield Line(f"      {case.source.document}: {to_single_line(case.source.text, _LONGEST)}", _QUIET)
        for doubt in case.check:
            yield Line(f"      ! {doubt}", _WARN, fit="wrap")
    if left := len(doubtful) - len(shown):
        yield Line(f"    ... and {left} more (-v shows all)", _QUIET)
    yield Line()


def _headline(generation: Generation) -> str:
    parts = [pluralize(len(generation.cases), "case"), f"{sum(generation.requested.values())} asked for"]
    if generation.rejections.total:
        parts.append(f"{generation.rejections.total} rejected")
    metrics = generation.metrics
    if metrics is not None:
        parts.append(
            f"{metrics.tokens or 0:,} tokens, unpriced" if metrics.cost_usd is None else usd(metrics.cost_usd)
        )
    return " · ".join(parts)


def _row(name: str, cases: Sequence[ReviewCase], requested: int | None) -> list[Cell]:
    statuses = Counter(case.status for case in cases)
    known = [case.difficulty for case in cases if case.difficulty is not None]
    return [
        name or "(none)",
        (str(len(cases)), _BAD if requested and not cases else ""),
        "" if requested is None else str(requested),
        str(statuses[ReviewStatus.ACCEPTED] or ""),
        str(statuses[ReviewStatus.REJECTED] or ""),
        str(sum(bool(case.check) for case in cases) or ""),
        percent(sum(known) / len(known)) if known else "",
    ]


VIEW: Final = View.of_blocks(_headline, generation_blocks)
