"""One row per item, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

from dokimos._core.keys import OUTPUT
from dokimos._core.number_format import round_half_up
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult
from dokimos._core.text import join_statements
from dokimos._runtime.terminal_text import escape_control_characters
from dokimos.exporters._item_runs import render_expected, render_inputs, render_value

COLUMNS: Final = ("input", "expected_output", "actual_output", "success")

# OWASP's list for CSV injection. Numbers are exempt, or -0.5 would become text.
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class CsvExporter:
    """RFC 4180: lines end in CR LF, cells are quoted where needed.

    Several repeats put their number, from 1, in front of each row. A score or verdict that does not exist
    is an empty cell. Where items errored, the last column says why and where. Text that a spreadsheet would
    run as a formula gets an apostrophe in front.
    """

    name: ClassVar = "csv"
    extensions: ClassVar = (".csv",)

    def render(self, result: ExperimentResult) -> str:
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\r\n")
        columns = _columns(result)
        errors = result.summary.errored > 0
        header = _header(columns, several_runs=result.run_count > 1) + ["error"] * errors
        writer.writerow(map(escape_formula, header))
        writer.writerows(_rows(result, columns, errors=errors))
        return text.getvalue()


def _columns(result: ExperimentResult) -> dict[str, bool]:
    """Return the evaluators in alphabetical order, each with whether it gives labels."""
    labelled = {summary.name for summary in result.summary.evaluators if summary.labels}
    return {name: name in labelled for name in sorted(result.evaluator_names)}


def _header(names: Mapping[str, bool], *, several_runs: bool) -> list[str]:
    columns = ["run", *COLUMNS] if several_runs else list(COLUMNS)
    used: set[str] = set()
    for name, labelled in names.items():
        column = name_column(name, used)
        columns += [f"{column}_score", f"{column}_pass"] + [f"{column}_label"] * labelled
    return columns


def name_column(name: str, used: set[str]) -> str:
    """Return an evaluator's name as a column; a number is appended where two names would be equal."""
    base = column = name.lower().replace(" ", "_")
    number = 1
    while column in used:
        number += 1
        column = f"{base}_{number}"
    used.add(column)
    return column


def _rows(result: ExperimentResult, names: Mapping[str, bool], *, errors: bool) -> Iterator[list[str]]:
    for run in result.runs:
        start = [str(run.index + 1)] if result.run_count > 1 else []
        for item in run.item_results:
            error_cell = [escape_formula(join_statements(item.errors_with_location))] if errors else []
            yield start + _row(item, names) + error_cell


def _row(item: ItemResult, names: Mapping[str, bool]) -> list[str]:
    texts = (render_inputs(item), render_expected(item), render_value(item.actual_outputs, OUTPUT))
    cells = [escape_formula(text or "") for text in texts]
    cells.append(_flag(item.success))
    results = {result.name: result for result in item.eval_results}
    for name, labelled in names.items():
        score = results.get(name)
        cells += _score_cells(score)
        if labelled:
            cells.append(escape_formula((score and score.label) or ""))
    return cells


def _score_cells(result: EvalResult | None) -> list[str]:
    if result is None:
        return ["", ""]
    return ["" if result.score is None else str(round_half_up(result.score)), _flag(result.success)]


def _flag(value: bool | None) -> str:
    return {True: "true", False: "false", None: ""}[value]


def escape_formula(text: str) -> str:
    """Return the text of a cell; what a spreadsheet would run as a formula gets an apostrophe in front."""
    # A bare CR stays, in quotes: it is a line break to a spreadsheet.
    text = "\r".join(map(escape_control_characters, text.split("\r")))
    if text.startswith(_FORMULA_STARTS) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text
