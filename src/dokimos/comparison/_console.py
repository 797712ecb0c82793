"""A comparison on the terminal: the verdict, the metrics, and the items to look at first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from dokimos._core.number_format import format_score, to_single_line
from dokimos.comparison._diff import Change, ItemChange, MetricChange, RunComparison, title
from dokimos.comparison._wording import (
    change,
    change_counts,
    coverage_note,
    evidence_sentence,
    interval,
    level,
    p_text,
    run_labels,
    side_titles,
    verdict_text,
)
from dokimos.reporting._blocks import Block, Detail, Line, View, print_blocks
from dokimos.reporting._tables import Cell, Column, Table

if TYPE_CHECKING:
    from rich.console import Console

LOOK_FIRST: Final = 10
ANSWER_LENGTH: Final = 200
"""Characters of an answer that are shown where the line is long enough."""
_STYLES: Final = {Change.REGRESSED: "dark_orange", Change.IMPROVED: "blue"}
_SIGNS: Final = {Change.REGRESSED: "worse", Change.IMPROVED: "better"}


def print_comparison(comparison: RunComparison, console: Console, *, verbose: bool = False) -> None:
    """Print a comparison; `verbose` shows every changed item."""
    print_blocks(comparison_blocks(comparison, "verbose" if verbose else "full"), console)


def comparison_blocks(comparison: RunComparison, detail: Detail) -> Iterator[Block]:
    """Yield the lines and tables of a comparison."""
    yield Line(" -> ".join(side_titles(comparison)), "bold", fit="wrap")
    labels = run_labels(comparison)
    if labels is not None:
        yield Line(f"  {' -> '.join(labels)}", "dim", fit="wrap")
    yield Line()
    yield metrics_table(comparison)
    for note, names in _coverage_notes(comparison).items():
        yield Line(f"  {note} ({', '.join(names)})", "dim", fit="wrap")
    yield Line()
    yield Line(f"  {verdict_text(comparison)}", f"bold {_verdict_style(comparison)}".strip(), fit="wrap")
    pairing = comparison.pairing.value.replace("_", " ")
    yield Line(f"  {', '.join(change_counts(comparison)) or 'no items'}; paired by {pairing}")
    if detail == "summary":
        return
    if comparison.leading is not None:
        text = evidence_sentence(comparison.leading, len(comparison.metrics))
        yield Line(f"  {text}", "dim", fit="wrap")
    yield Line()
    yield from _item_blocks(comparison, None if detail == "verbose" else LOOK_FIRST)
    for warning in comparison.warnings:
        yield Line(f"  ! {warning}", "yellow", fit="wrap")


def _verdict_style(comparison: RunComparison) -> str:
    changes = {metric.change for metric in comparison.metrics}
    return next((style for change, style in _STYLES.items() if change in changes), "")


def metrics_table(comparison: RunComparison) -> Table:
    """Return how each metric changed."""
    columns = [
        Column("metric", left=True, least=6, most=26),
        Column("before", least=8),
        Column("now", least=8),
        Column("change", least=10),
        Column("95 % interval"),
        Column("adj. p"),
        Column("", left=True),
    ]
    return Table(columns, [_metric_row(metric) for metric in comparison.metrics])


def _metric_row(metric: MetricChange) -> list[Cell]:
    style = _STYLES.get(metric.change, "")
    return [
        title(metric),
        level(metric, metric.baseline_mean),
        level(metric, metric.candidate_mean),
        (change(metric), style),
        (interval(metric), "dim"),
        (p_text(metric.adjusted_p_value).removeprefix("= "), "dim"),
        (_SIGNS.get(metric.change, ""), style),
    ]


def _coverage_notes(comparison: RunComparison) -> dict[str, list[str]]:
    """Return what is to be said of the intervals of few items, with the metrics that it holds for."""
    notes: dict[str, list[str]] = {}
    for metric in comparison.metrics:
        if note := coverage_note(metric):
            notes.setdefault(note.replace("covers", "the 95 % interval covers"), []).append(title(metric))
    return notes


def _item_blocks(comparison: RunComparison, most: int | None) -> Iterator[Block]:
    changed = [*comparison.most_moved(Change.REGRESSED), *comparison.most_moved(Change.IMPROVED)]
    # Without a significant change, the items whose verdict flipped are the ones to look at.
    if not changed:
        changed = [item for item in comparison.cases(Change.UNCHANGED) if item.pass_flip]
    items = changed if most is None else changed[:most]
    columns = [Column("", left=True, most=20), Column("", left=True), Column("", left=True, rest=True)]
    yield Table(columns, [row for item in items for row in (_item_row(item), *_answer_rows(item))])
    if len(changed) > len(items):
        yield Line(f"    ... and {len(changed) - len(items):,} more", "dim")
    if changed:
        yield Line()


def _item_row(item: ItemChange) -> list[Cell]:
    words = (_SIGNS.get(item.change, "flip"), _STYLES.get(item.change, "dim"))
    return [item.key, words, "; ".join(_scores(item))]


def _answer_rows(item: ItemChange) -> Iterator[list[Cell]]:
    """Yield the answers of both sides to the item, where they were recorded."""
    before, now = (None if side is None else side.answer for side in (item.baseline, item.candidate))
    answers = [("both", now)] if before == now else [("was", before), ("now", now)]
    for when, answer in answers:
        if answer is not None:
            yield ["", (when, "dim"), (to_single_line(answer, ANSWER_LENGTH), "dim")]


def _scores(item: ItemChange) -> Iterator[str]:
    for one in item.evaluators:
        if one.baseline_mean != one.candidate_mean:
            yield f"{one.name} {format_score(one.baseline_mean)} -> {format_score(one.candidate_mean)}"


VIEW: Final = View.of_blocks(verdict_text, comparison_blocks)
