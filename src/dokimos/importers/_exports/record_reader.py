"""Reads the records of an export, whichever format it has, one at a time."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dokimos._core.extras import require
from dokimos._core.jsonable import jsonable
from dokimos.datasets._csv_records import CsvRecords
from dokimos.datasets._json_format import JsonCursor, iterate_elements, loads, read_member_name
from dokimos.datasets._limits import read_bounded_lines
from dokimos.datasets._source import Source, bad_utf8, find_format, sniff
from dokimos.datasets._tables import read_parquet_rows
from dokimos.errors import DatasetError

_DELIMITERS: Final = {"csv": ",", "tsv": "\t"}


@dataclass(frozen=True, slots=True)
class Record:
    """One object of an export and where it is."""

    values: dict[str, Any]
    label: str | None
    line: int | None
    member: str = ""
    """The member of the document whose list has it, if it is in one."""
    has_texts_only: bool = False
    """Whether it is of a table of texts, whose empty cells are absent values."""


def read_records(path: str | Path, *, lists: Sequence[str], wrappers: Sequence[str] = ()) -> Iterator[Record]:
    """Yield the records of a file; at most one of them is in memory.

    Args:
        path: JSON, JSONL, CSV, TSV or Parquet, also with gzip.
        lists: Members of a JSON document whose elements are records. A document without any is one record.
        wrappers: Members whose object is looked into as if it were the document.

    Raises:
        DatasetError: with the file and the line.
    """
    source = Source.of_path(path)
    format = find_format(os.fspath(path)) or sniff(source)
    if format == "json":
        return _read_json(source, frozenset(lists), frozenset(wrappers))
    if format == "jsonl":
        return _read_jsonl(source)
    if format == "parquet":
        return _read_parquet(source)
    return _read_table(source, _DELIMITERS[format])


def _read_json(source: Source, lists: frozenset[str], wrappers: frozenset[str]) -> Iterator[Record]:
    with source.open() as stream:
        cursor = JsonCursor(stream, source)
        if cursor.peek() == "[":
            yield from _read_elements(cursor, "")
        elif cursor.peek() == "{":
            yield from _read_document(cursor, lists, wrappers)
        else:
            cursor.fail("Expected an array or an object.")
        if cursor.peek():
            cursor.fail("Text after the end of the JSON value.")


def _read_document(cursor: JsonCursor, lists: frozenset[str], wrappers: frozenset[str]) -> Iterator[Record]:
    cursor.take("{")
    has_lists, values, seen = False, {}, set[str]()
    # After a comma another member has to come, so a brace ends only an empty document here.
    while cursor.peek() != "}" or seen:
        key = read_member_name(cursor, seen)
        if key in lists and cursor.peek() == "[":
            has_lists = True
            yield from _read_elements(cursor, key)
        elif key in wrappers and cursor.peek() == "{":
            has_lists = True
            yield from _read_document(cursor, lists, wrappers)
        else:
            values[key] = cursor.value()[0]
        if cursor.take(",}") == "}":
            break
    else:
        cursor.take("}")
    if not has_lists:
        yield Record(values, cursor.label, None)


def _read_elements(cursor: JsonCursor, member: str) -> Iterator[Record]:
    for value, line in iterate_elements(cursor):
        yield _as_record(value, cursor.label, line, member)


def _as_record(value: object, label: str | None, line: int | None, member: str = "") -> Record:
    if not isinstance(value, dict):
        raise DatasetError(f"Expected an object, found {value!r:.60}.", path=label, line=line)
    return Record(value, label, line, member)


def _read_jsonl(source: Source) -> Iterator[Record]:
    with source.open() as stream:
        for number, raw in enumerate(read_bounded_lines(stream, source.label), 1):
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            except UnicodeDecodeError as error:
                raise bad_utf8(error, source.label, number) from None
            if text:
                yield _as_record(_parse(text, source.label, number), source.label, number)


def _parse(text: str, label: str | None, line: int) -> object:
    try:
        return loads(text)
    except ValueError as error:
        raise DatasetError(f"Not valid JSON: {error}", path=label, line=line) from None


def _read_table(source: Source, delimiter: str) -> Iterator[Record]:
    with source.open() as stream:
        lines = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        records = CsvRecords(read_bounded_lines(lines, source.label), delimiter, source.label)
        try:
            header = next(iter(records), None)
            if header is None:
                raise DatasetError("There is no header line: the file is empty.", path=source.label)
            _check_header(header, source.label, records.line)
            for cells in records:
                row = {name: cell for name, cell in zip(header, cells, strict=False) if name and cell}
                yield Record(row, source.label, records.line, has_texts_only=True)
        except UnicodeDecodeError:
            raise source.utf8_error() from None


def _check_header(names: list[str], label: str | None, line: int) -> None:
    for name in names:
        if name and names.count(name) > 1:
            raise DatasetError(f"There are two columns {name!r}.", path=label, line=line)


def _read_parquet(source: Source) -> Iterator[Record]:
    parquet = require("pyarrow.parquet", extra="parquet")
    for number, row in enumerate(read_parquet_rows(parquet, source), 1):
        # Dates, numbers that JSON lacks and arrays get the form that they have in the other formats.
        values = {name: jsonable(value) for name, value in row.items() if value is not None}
        yield Record(values, source.label, number)
