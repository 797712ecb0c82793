"""Results as flat rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from dokimos._core.keys import INPUT, OUTPUT
from dokimos._core.metrics import CallMetrics
from dokimos._core.text import join_statements

if TYPE_CHECKING:
    from dokimos._core.results import ExperimentResult, ItemResult

Row: TypeAlias = dict[str, Any]


def rows_of(result: ExperimentResult) -> list[Row]:
    """Return a row for each item and repeat, with the columns that any of them has a value in.

    Inputs, outputs, expected outputs and metadata have a column for each key, `input.lang` for one called
    `lang`; the usual keys are `input`, `output` and `expected`. Evaluators have their names, with a number
    where another column is called so; their labels are beside them, as `<name> label`.
    """
    several = result.run_count > 1
    rows = [
        ({"run": run.index + 1} if several else {}) | _facts(item)
        for run in result.runs
        for item in run.item_results
    ]
    order = list(_columns(rows))
    names, taken = result.evaluator_names, {*order, *_ENDING}
    scores = find_unused_names(names, taken)
    labels = dict(
        zip(names, find_unused_names((f"{name} label" for name in names), taken).values(), strict=True)
    )
    filled = [
        row
        | {scores[r.name]: _float(r.score) for r in item.eval_results}
        | {labels[r.name]: r.label for r in item.eval_results}
        | _ending(item)
        for row, item in zip(rows, result.item_results, strict=True)
    ]
    judged = (column for name in names for column in (scores[name], labels[name]))
    return same_columns(filled, [*order, *judged, *_ENDING])


def _facts(item: ItemResult) -> Row:
    example = item.example
    return {
        "id": item.key,
        **_entries("input", example.inputs, INPUT),
        **_entries("output", item.actual_outputs, OUTPUT),
        **_entries("expected", example.expected_outputs, OUTPUT),
        **_entries("metadata", example.metadata, None),
    }


def _entries(title: str, content: Mapping[str, Any], usual: str | None) -> Row:
    return {(title if key == usual else f"{title}.{key}"): value for key, value in content.items()}


_GROUPS = ("run", "id", "input", "output", "expected", "metadata")
_ENDING = ("passed", "error", "latency_ms", "tokens_in", "tokens_out", "cost_usd")


def _ending(item: ItemResult) -> Row:
    metrics = item.metrics or CallMetrics()
    return {
        "passed": item.success,
        "error": join_statements(item.errors_with_location) or None,
        "latency_ms": _float(metrics.latency_ms),
        "tokens_in": metrics.tokens_in,
        "tokens_out": metrics.tokens_out,
        "cost_usd": _float(metrics.cost_usd),
    }


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _columns(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the columns of all rows, those of one kind together."""
    seen = dict.fromkeys(name for row in rows for name in row)
    yield from sorted(seen, key=lambda name: _GROUPS.index(name.partition(".")[0]))


def find_unused_names(names: Iterable[str], taken: set[str]) -> dict[str, str]:
    """Return a column for each name; one that is taken gets a number."""
    columns: dict[str, str] = {}
    for name in names:
        column, number = name, 1
        while column in taken:
            number += 1
            column = f"{name} ({number})"
        taken.add(column)
        columns[name] = column
    return columns


def same_columns(rows: Iterable[Row], columns: Iterable[str]) -> list[Row]:
    """Return the rows with all of the columns that any row has a value in, in this order."""
    rows = list(rows)
    filled = {name for row in rows for name, value in row.items() if value is not None}
    non_empty = [name for name in columns if name in filled]
    return [{name: row.get(name) for name in non_empty} for row in rows]
