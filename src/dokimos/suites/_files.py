"""The files that a suite is made of, put together into one document: includes and files of cases."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from dokimos._core.contexts import NAMES, parse_list
from dokimos._core.misspellings import find_resemblance
from dokimos._runtime.file_access import files_read
from dokimos.suites._document import Document, deep_merge, read_yaml
from dokimos.suites._environment import Settings
from dokimos.suites._interpolation import Lookup
from dokimos.suites._problems import Location, Problem, Steps

T = TypeVar("T")

CASES: Final = "test_cases"
CASES_FILE: Final = "test_cases_file"
INCLUDE: Final = "include"
MOST_INCLUDES: Final = 20
EXPECTED_TOOLS: Final = "expected_tools"
"""A column whose cells may also hold JSON, for what is expected of arguments."""
_LISTS: Final = NAMES | {"tags", EXPECTED_TOOLS}
"""Columns whose cells hold several values, separated by `|`."""
_METADATA: Final = "metadata."
"""Before the name of a column: what follows is a key of the metadata, whatever it looks like."""
_COLUMNS: Final = frozenset({"name", "input", "ground_truth", "skip", "repeats"}) | _LISTS


def read_suite(path: Path, lookup: Lookup) -> Document:
    """Read a suite with everything that it refers to; faults are in the document's problems."""
    document = read_yaml(path, lookup)
    if not isinstance(document.value, Mapping):
        if document.problems:
            return document
        document.problems.append(document.problem((), "a suite is a map with name, evaluations, test_cases"))
        return document
    # Cases before includes: a suite's own cases, in it or in a file, replace those of what it includes.
    _read_cases(document, lookup)
    _include(document, lookup, (path.resolve(),))
    return document


def merge_settings(document: Document, settings: Settings, from_environment: Mapping[str, Any]) -> None:
    """Put what project, user and environment have configured under what the suite says."""
    document.problems += settings.problems
    suite = document.value
    for block in _models(suite):
        # In place, and only where the block says nothing: what the suite says about its model wins.
        for key, value in settings.of_provider(block).items():
            if block.get(key) is None:
                block[key] = value
    configured = settings.values.get("execution")
    layers = deep_merge(configured if isinstance(configured, Mapping) else {}, from_environment)
    own = suite.get("execution")
    if layers and (own is None or isinstance(own, Mapping)):
        suite["execution"] = deep_merge(own or {}, layers)
        for steps, location in settings.locations.items():
            if steps[:1] == ("execution",):
                document.locations.setdefault(steps, location)


def _models(suite: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the model blocks of a suite: the agent's, the evaluations' and the metrics'."""
    models = [suite.get("model")]
    blocks = [suite.get("evaluations")]
    for case in _maps(suite.get(CASES)):
        blocks += [case, *_maps(case.get("turns"))]
    for block in blocks:
        if isinstance(block, Mapping):
            models.append(block.get("model"))
            metrics = block.get("metrics", block.get("evaluations"))
            models += [metric.get("model") for metric in _maps(metrics)]
    return [model for model in models if isinstance(model, dict)]


def _maps(value: object) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _include(document: Document, lookup: Lookup, above: tuple[Path, ...]) -> None:
    value = document.value
    if not isinstance(value, dict) or INCLUDE not in value:
        return
    names = _names(document, INCLUDE)
    for name in names:
        path = document.file.parent / name
        if path.resolve() in above or len(above) > MOST_INCLUDES:
            is_cycle = path.resolve() in above
            fault = "includes itself" if is_cycle else f"is below {MOST_INCLUDES} other includes; use fewer"
            document.problems.append(document.problem((INCLUDE,), f"{name} {fault}"))
            continue
        # Included files include, too, and name files of cases relative to themselves.
        other = read_yaml(path, lookup)
        _read_cases(other, lookup)
        _include(other, lookup, (*above, path.resolve()))
        document.adopt_findings(other)
        if not isinstance(other.value, Mapping):
            document.problems.append(document.problem((INCLUDE,), f"{name} is not a map"))
            continue
        # As with the values: where both files have a key, the location in the upper one is kept.
        own, own_sources = dict(document.locations), dict(document.sources)
        document.graft(other)
        document.locations |= own
        document.sources |= own_sources
        document.value = deep_merge(document.value, other.value)


def _read_cases(document: Document, lookup: Lookup) -> None:
    suite = document.value
    if not isinstance(suite, dict) or CASES_FILE not in suite:
        return
    if suite.get(CASES) is not None:
        message = "give test_cases or test_cases_file, not both"
        document.problems.append(document.problem((CASES_FILE,), message))
        return
    cases: list[Any] = []
    for name in _names(document, CASES_FILE):
        path = document.file.parent / name
        if not path.is_file():
            files_read.record_missing(path)
            document.problems.append(document.problem((CASES_FILE,), f"there is no file {path}"))
            continue
        file_cases = _cases_of(path, lookup)
        document.adopt_findings(file_cases)
        document.locations |= _below_cases(file_cases.locations, len(cases))
        document.sources |= _below_cases(file_cases.sources, len(cases))
        cases += file_cases.value or []
    document.locations.setdefault((CASES,), document.location((CASES_FILE,)))
    suite[CASES] = cases


def _below_cases(of_list: Mapping[Steps, T], first: int) -> dict[Steps, T]:
    """Return what is known of the values of a list of cases, which begins at an index of the suite's."""
    moved: dict[Steps, T] = {}
    for steps, entry in of_list.items():
        match steps:
            case (int(index), *below):
                moved[(CASES, first + index, *below)] = entry
    return moved


def _names(document: Document, key: str) -> list[str]:
    value = document.value[key]
    names = [value] if isinstance(value, str) else value
    if isinstance(names, list) and names and all(isinstance(name, str) and name.strip() for name in names):
        return names
    document.problems.append(document.problem((key,), f"{key} takes the name of a file, or a list of names"))
    return []


def _cases_of(path: Path, lookup: Lookup) -> Document:
    """Read a file of cases; the document's value is a list."""
    if path.suffix.lower() == ".jsonl":
        return _json_lines(path, lookup)
    if path.suffix.lower() == ".csv":
        return _table(path)
    document = read_yaml(path, lookup)
    if isinstance(document.value, Mapping) and CASES in document.value:
        inner = Document(document.value[CASES] or [], path)
        inner.adopt_findings(document)
        inner.graft(document, source=(CASES,))
        document = inner
    if document.value is None:
        document.value = []
    if not isinstance(document.value, list):
        message = "a file of cases is a list, or a map with test_cases"
        document.problems.append(document.problem((), message))
        document.value = []
    return document


def _json_lines(path: Path, lookup: Lookup) -> Document:
    document = Document([], path)
    # Not splitlines(), which also splits at U+2028 and others that may be inside a JSON text.
    for number, line in enumerate(_text(document).split("\n"), 1):
        if not line.strip():
            continue
        row = read_yaml(path, lookup, text=line, first_line=number)
        document.adopt_findings(row)
        if row.problems and row.value is None:
            continue
        document.graft(row, target=(len(document.value),))
        document.value.append(row.value)
    return document


def _table(path: Path) -> Document:
    document = Document([], path)
    reader = csv.DictReader(io.StringIO(_text(document), newline=""))
    _check_columns(document, reader.fieldnames or ())
    for row in reader:
        steps: Steps = (len(document.value),)
        case: dict[str, Any] = {}
        for column, cell in row.items():
            # An empty cell is a value that is not given; None are the cells of a row longer than the header.
            if column is None or not cell:
                continue
            if column in _COLUMNS:
                case[column] = _cell(column, cell, document, reader.line_num)
                document.locations[(*steps, column)] = Location(path, reader.line_num, 1)
            else:
                case.setdefault("metadata", {})[column.removeprefix(_METADATA)] = cell
        document.locations[steps] = Location(path, reader.line_num, 1)
        document.value.append(case)
    return document


def _check_columns(document: Document, columns: Sequence[str]) -> None:
    """Refuse columns that are probably misspelt, and warn of those that may be."""
    location = Location(document.file, 1, 1)
    for column in columns:
        resemblance = find_resemblance(column, columns) if column not in _COLUMNS else None
        if resemblance is not None and resemblance.kind == "slip":
            message = (
                f"{column!r} is not a known column. Did you mean {resemblance.key!r}? "
                f"To keep it as metadata, call it {_METADATA + column!r}."
            )
            document.problems.append(Problem(message, location))
        elif resemblance is not None:
            document.warnings.append(
                f"{location}: the column {column!r} becomes metadata; it is similar to {resemblance.key!r}."
            )


def _text(document: Document) -> str:
    """Return the text of a document's file, empty with a problem where it cannot be read."""
    files_read.record_data(document.file)
    try:
        return document.file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        document.problems.append(Problem(f"cannot be read: {error}", Location(document.file, 1, 1)))
        return ""


def _cell(column: str, cell: str, document: Document, line: int) -> Any:
    if _holds_json(column, cell):
        return _json_cell(column, cell, document, line)
    if column in _LISTS:
        return [part.strip() for part in cell.split("|") if part.strip()]
    return int(cell) if column == "repeats" and cell.isdecimal() else cell


def _holds_json(column: str, cell: str) -> bool:
    if column == EXPECTED_TOOLS:
        return cell.lstrip().startswith(("[", "{"))
    return column in NAMES and parse_list(cell) is not cell


def _json_cell(column: str, cell: str, document: Document, line: int) -> Any:
    """Return a cell that holds a list or map as JSON, None with a problem where it cannot be read."""
    try:
        return json.loads(cell)
    except (ValueError, RecursionError) as error:
        message = f"the cell of {column!r} is neither JSON nor names separated by |: {error}"
        document.problems.append(Problem(message, Location(document.file, line, 1)))
        return None
