"""A comparison as flat rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dokimos._core.rows import Row, find_unused_names, same_columns
from dokimos._core.text import join_statements

if TYPE_CHECKING:
    from dokimos.comparison._diff import ItemChange, RunComparison, ScoreChange
    from dokimos.comparison._snapshot import ItemSnapshot

_SIDES = ("before", "now")
_FIRST = ("id", "input", "change", "passed.before", "passed.now", "error.before", "error.now")


def rows_of(comparison: RunComparison) -> list[Row]:
    """Return a row for each item, with the columns that any of them has a value in."""
    names = dict.fromkeys(score.name for item in comparison.items for score in item.evaluators)
    titles = find_unused_names(names, {"passed", "error"})
    scores = [f"{title}.{what}" for title in titles.values() for what in (*_SIDES, "change")]
    return same_columns((_row(item, titles) for item in comparison.items), [*_FIRST, *scores])


def _row(item: ItemChange, titles: Mapping[str, str]) -> Row:
    row: Row = {"id": item.key, "input": item.input, "change": item.change.value.lower()}
    for side, snapshot in zip(_SIDES, (item.baseline, item.candidate), strict=True):
        row |= {f"{what}.{side}": value for what, value in _side(snapshot).items()}
    for score in item.evaluators:
        row |= {f"{titles[score.name]}.{what}": value for what, value in _score(score).items()}
    return row


def _side(snapshot: ItemSnapshot | None) -> dict[str, Any]:
    if snapshot is None:
        return {}
    return {
        "passed": snapshot.pass_share,
        "error": join_statements(snapshot.errors_with_location.values()) or None,
    }


def _score(score: ScoreChange) -> dict[str, float | None]:
    before, now = score.baseline_mean, score.candidate_mean
    change = None if before is None or now is None else score.delta
    return {"before": before, "now": now, "change": change}
