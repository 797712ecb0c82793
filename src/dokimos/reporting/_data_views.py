"""Data sets, examples, cases and single results as text, on the terminal, and in a notebook."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from dokimos._core.error_detail import append_place
from dokimos._core.eval_result import EvalResult
from dokimos._core.example import Example
from dokimos._core.jsonable import jsonable
from dokimos._core.keys import INPUT, OUTPUT
from dokimos._core.number_format import to_single_line
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import pluralize
from dokimos.reporting._blocks import Block, Detail, Line, View
from dokimos.reporting._tables import Column, Table

if TYPE_CHECKING:
    from dokimos.datasets._dataset import Dataset

SUMMARY_ROWS: Final = 5
SHOWN_ROWS: Final = 20
LONGEST_REASON: Final = 400
_LONGEST_PART: Final = 60
_SIGNS: Final[Mapping[bool | None, str]] = {True: "+", False: "x"}


def entries(title: str, content: Mapping[str, Any], usual: str | None) -> Iterator[tuple[str, str]]:
    """Yield each entry of a map; the usual one is called by the title alone."""
    for key, value in content.items():
        yield title if key == usual else f"{title}.{key}", _text(value, indent=2)


def _text(value: Any, *, indent: int | None = None) -> str:
    return value if isinstance(value, str) else json.dumps(jsonable(value), ensure_ascii=False, indent=indent)


def result_line(result: EvalResult) -> str:
    """Return the result of one evaluator in one line."""
    score = "" if result.score is None else f" {result.score:.2f}"
    limit = "" if result.threshold is None else f" (threshold {result.threshold:g})"
    explanation = result.skipped or result.reason
    if result.error is not None:
        explanation = append_place(result.problem, result.error_detail)
    sign = "!" if result.error is not None else _SIGNS.get(result.success, "-")
    label = "" if result.label is None else f" {result.label}"
    return f"{sign} {result.name}{score}{label}{limit}{f': {explanation}' if explanation else ''}"


def _dataset_headline(dataset: Dataset) -> str:
    return f"{dataset.name!r:.60}: {pluralize(len(dataset), 'example')}"


def _dataset_blocks(dataset: Dataset, detail: Detail) -> Iterator[Block]:
    yield Line(f"{dataset.name}: {pluralize(len(dataset), 'example')}", "bold")
    if dataset.description:
        yield Line(dataset.description, fit="wrap")
    most = {"summary": SUMMARY_ROWS, "full": SHOWN_ROWS, "verbose": len(dataset)}[detail]
    columns = [
        Column("", left=True, most=24),
        Column("input", left=True, most=40),
        Column("expected", left=True, rest=True),
    ]
    examples = dataset[:most]
    rows = [
        [
            f"{index}" if example.id is None else example.id,
            _in_words(example.inputs, INPUT),
            _in_words(example.expected_outputs, OUTPUT),
        ]
        for index, example in enumerate(examples)
    ]
    yield Line()
    yield Table(columns, rows)
    if len(dataset) > most:
        yield Line(f"  ... and {len(dataset) - most:,} more", "dim")


def _in_words(content: Mapping[str, Any], usual: str) -> str:
    """Return a map in one line; of one with the usual key alone, its value."""
    # Cut value by value, so that a long one does not hide the others.
    texts = {key: to_single_line(_text(value), LONGEST_REASON) for key, value in content.items()}
    return ", ".join(text if key == usual else f"{key}={text}" for key, text in texts.items())


def _example_headline(example: Example) -> str:
    named = "" if example.id is None else f"{example.id!r:.60}: "
    parts = [_in_words(example.inputs, INPUT), _in_words(example.expected_outputs, OUTPUT)]
    return named + " -> ".join(to_single_line(part, _LONGEST_PART) for part in parts if part)


def _example_parts(example: Example | EvalTestCase) -> Iterator[tuple[str, str]]:
    yield from entries("input", example.inputs, INPUT)
    yield from entries("expected", example.expected_outputs, OUTPUT)
    if example.actual_outputs is not None:
        yield from entries("output", example.actual_outputs, OUTPUT)
    yield from entries("metadata", example.metadata, None)


def _parts_blocks(example: Example | EvalTestCase, detail: Detail) -> Iterator[Block]:
    yield Line(example.id or type(example).__name__, "bold")
    rows = [[title, text] for title, text in _example_parts(example)]
    yield Table([Column("", left=True), Column("", left=True, rest=True)], rows)


def _case_headline(case: EvalTestCase) -> str:
    named = "" if case.id is None else f"{case.id!r:.60}: "
    parts = [_in_words(case.inputs, INPUT), _in_words(case.actual_outputs, OUTPUT)]
    return named + " -> ".join(to_single_line(part, _LONGEST_PART) for part in parts if part)


def _result_blocks(result: EvalResult, detail: Detail) -> Iterator[Block]:
    yield Line(to_single_line(result_line(result), LONGEST_REASON), fit="wrap")


DATASET: Final = View.of_blocks(_dataset_headline, _dataset_blocks)
EXAMPLE: Final = View.of_blocks(_example_headline, _parts_blocks)
CASE: Final = View.of_blocks(_case_headline, _parts_blocks)
RESULT: Final = View.of_blocks(result_line, _result_blocks)
