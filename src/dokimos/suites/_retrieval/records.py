"""The records of CSV and JSON files: each is a passage of its own, with the fields that belong to it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dokimos._core.jsonable import text_form
from dokimos.errors import DocumentError
from dokimos.suites._problems import suggest
from dokimos.suites._retrieval.schema import VectorstoreTool
from dokimos.suites._retrieval.text_extraction import decode_text, read_content

_JSON: Final = (".json",)
_JSON_LINES: Final = (".jsonl", ".ndjson")
_TABLES: Final = (".csv", ".tsv")
_DELIMITERS: Final = ",;\t|"
_SNIFFED: Final = 8192


@dataclass(frozen=True, slots=True)
class Record:
    """A row of a table, or an object of a list."""

    id: str
    text: str
    """What is searched."""
    metadata: Mapping[str, Any]


def parse_records(path: Path, block: VectorstoreTool) -> list[Record] | None:
    """Return the records of a file, None where it is a document.

    Raises:
        DocumentError: for a file that cannot be read, or fields that none of its records has.
    """
    rows = _rows(path, block)
    if rows is None:
        return None
    _check_fields(path, block, rows)
    records = [_record(row, number, block) for number, row in enumerate(rows, 1)]
    return [record for record in records if record.text.strip()]


def _rows(path: Path, block: VectorstoreTool) -> list[Mapping[str, Any]] | None:
    ending = path.suffix.lower()
    if ending in _TABLES:
        return _table(path, block.delimiter)
    if ending in _JSON_LINES:
        return [_object(path, line, number) for number, line in _lines(path)]
    if ending in _JSON:
        return _objects(path, block)
    return None


def _table(path: Path, delimiter: str | None) -> list[Mapping[str, Any]]:
    text = _text(path)
    try:
        reader = csv.DictReader(io.StringIO(text), delimiter=delimiter or _delimiter(path, text))
        return [{name: value for name, value in row.items() if name is not None} for row in reader]
    except csv.Error as error:
        raise DocumentError(f"it cannot be read as CSV: {error}.", path=path) from None


def _delimiter(path: Path, text: str) -> str:
    if path.suffix.lower() == ".tsv":
        return "\t"
    # The header decides: names of fields hold no separators, while csv.Sniffer guesses from texts that do.
    head = text[:_SNIFFED].partition("\n")[0]
    return max(_DELIMITERS, key=head.count)


def _lines(path: Path) -> list[tuple[int, str]]:
    return [(number, line) for number, line in enumerate(_text(path).split("\n"), 1) if line.strip()]


def _object(path: Path, line: str, number: int) -> Mapping[str, Any]:
    tree = _parse_json(path, line, f"line {number}")
    if not isinstance(tree, Mapping):
        raise DocumentError(f"line {number} is not a JSON object.", path=path)
    return tree


def _objects(path: Path, block: VectorstoreTool) -> list[Mapping[str, Any]] | None:
    tree = _parse_json(path, _text(path), "it")
    for step in block.record_path.split(".") if block.record_path else ():
        if not isinstance(tree, Mapping) or step not in tree:
            hint = suggest(step, tree if isinstance(tree, Mapping) else ())
            raise DocumentError(
                f"record_path {block.record_path!r} leads nowhere: there is no {step!r}.{hint}", path=path
            )
        tree = tree[step]
    # Any other JSON is a document: a configuration file in the folder is text like its neighbours.
    if isinstance(tree, list) and tree and all(isinstance(each, Mapping) for each in tree):
        return tree
    if block.record_path or block.vector_field:
        raise DocumentError("there is no list of objects where the records should be.", path=path)
    return None


def _parse_json(path: Path, text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DocumentError(f"{what} is not JSON: {error}.", path=path) from None


def _text(path: Path) -> str:
    return decode_text(path, read_content(path))


def _check_fields(path: Path, block: VectorstoreTool, rows: Sequence[Mapping[str, Any]]) -> None:
    field_names = list(dict.fromkeys(name for row in rows for name in row))
    named = [*(block.vector_fields or ()), *(block.meta_fields or ())]
    for name in [*named, *([block.id_field] if block.id_field else [])]:
        if rows and name not in field_names:
            raise DocumentError(
                f"no record has a field {name!r}.{suggest(name, field_names)} "
                f"There are {', '.join(field_names)}.",
                path=path,
            )


def _record(row: Mapping[str, Any], number: int, block: VectorstoreTool) -> Record:
    searched = list(row) if block.vector_fields is None else list(block.vector_fields)
    carried = block.meta_fields
    if carried is None:
        carried = [name for name in row if name not in searched]
    id = row.get(block.id_field) if block.id_field else number
    named = block.vector_fields is None or block.record_prefix is not None
    return Record(
        id=_format_value(id),
        text=block.field_separator.join(
            f"{block.record_prefix or ''}{name}: {_format_value(row[name])}"
            if named
            else _format_value(row[name])
            for name in searched
            if row.get(name) not in (None, "")
        ),
        metadata={
            f"{block.meta_prefix or ''}{name}": _format_value(row[name])
            for name in carried
            if row.get(name) not in (None, "")
        },
    )


def _format_value(value: object) -> str:
    return text_form(value) or ""
