"""Finds the lines on which the items of a data set stand in its file, for those who show them there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from dokimos._core.example import Example
from dokimos.datasets._csv_format import read_csv
from dokimos.datasets._fingerprint import canonical_json
from dokimos.datasets._json_format import Head, read_json
from dokimos.datasets._jsonl_format import read_jsonl
from dokimos.datasets._rows import RowReader
from dokimos.datasets._source import Source, find_format, sniff
from dokimos.errors import DatasetError

_Key: TypeAlias = tuple[str | None, str]
_MAX_BYTES: Final = 64 * 1024 * 1024
"""Larger files are not read once more: that would take longer than a line number is worth."""


def find_item_lines(path: Path, examples: Sequence[Example[Any, Any]]) -> list[int | None]:
    """Return the line on which each example begins in a file of JSON, JSONL, CSV or TSV, counted from 1.

    An example is found by its id and its inputs; of equal ones, the first one is. None where it is not in
    the file, where the file is large or cannot be read, and where its format has no lines.
    """
    required = {_key(example) for example in examples}
    lines: dict[_Key, int] = {}
    try:
        if path.is_file() and path.stat().st_size <= _MAX_BYTES:
            for example, line in _read_with_lines(path):
                key = _key(example)
                if key in required:
                    lines.setdefault(key, line)
                    if len(lines) == len(required):
                        break
    except (DatasetError, OSError):
        pass  # what was found until then is right
    return [lines.get(_key(example)) for example in examples]


def _key(example: Example[Any, Any]) -> _Key:
    return example.id, canonical_json(Example(inputs=example.inputs))


class _LineReader(RowReader):
    """Remembers the line of the last row."""

    line = 0

    def read(self, row: object, line: int | None = None) -> Example:
        self.line = line or 0
        return super().read(row, line)

    def read_all(self, rows: object) -> None:
        """Leave all to `read`, which gets the line of each."""


def _read_with_lines(path: Path) -> Iterator[tuple[Example, int]]:
    source = Source.of_path(path)
    rows = _LineReader(source.label)
    for example in _read(source, rows, find_format(path.name) or sniff(source)):
        yield example, rows.line


def _read(source: Source, rows: RowReader, format: str) -> Iterator[Example]:
    match format:
        case "json":
            return read_json(source, rows, Head())
        case "jsonl":
            return read_jsonl(source, rows)
        case "csv":
            return read_csv(source, rows=rows)
        case "tsv":
            return read_csv(source, delimiter="\t", rows=rows)
    return iter(())
