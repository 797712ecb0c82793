"""Write data sets so that reading them back gives the same examples."""

from __future__ import annotations

import gzip
import io
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TextIO, cast

from dokimos._core.example import Example
from dokimos._core.extras import require
from dokimos._core.jsonable import jsonable, text_form
from dokimos._core.keys import INPUT, OUTPUT
from dokimos.datasets._csv_format import check_delimiter
from dokimos.datasets._source import FileFormat, find_format
from dokimos.errors import DatasetError

if TYPE_CHECKING:
    from dokimos.datasets._dataset import Dataset

Location = str | os.PathLike[str]

_SHORTHANDS: Final = (("inputs", "input", INPUT), ("expectedOutputs", "expectedOutput", OUTPUT),
                 ("actualOutputs", "actualOutput", OUTPUT))  # fmt: skip
_RESERVED: Final = (
    "id", "input", "output", "expectedoutput", "expected_output", "actualoutput", "actual_output",
    "actualerror", "actual_error", "metrics",
)  # fmt: skip
_PARQUET_TEXT: Final = ("id", "input", "expectedOutput", "actualOutput", "actualError")
_PARQUET_MAPS: Final = ("inputs", "expectedOutputs", "actualOutputs", "metadata", "metrics")


def save(dataset: Dataset, path: Location) -> None:
    """Write in the format of the extension. Raises `DatasetError` for an unknown one."""
    format = find_format(os.fspath(path))
    if format is None:
        known = ".json, .jsonl, .csv, .tsv, each with or without .gz, or .parquet"
        raise DatasetError(f"Cannot tell the format from the extension; use {known}.", path=str(path))
    _WRITERS[format](dataset, path)


def write_json(dataset: Dataset, path: Location) -> None:
    """Write one document, one example per line."""
    head: dict[str, Any] = {"name": dataset.name}
    if dataset.description:
        head["description"] = dataset.description
    with _text_file(path) as file:
        start = json.dumps(jsonable(head), ensure_ascii=False, indent=2).removesuffix("\n}")
        file.write(f'{start},\n  "examples": [')
        for index, example in enumerate(dataset):
            file.write(f"{',' if index else ''}\n    {_json(example)}")
        file.write("\n  ]\n}\n" if len(dataset) else "]\n}\n")


def write_jsonl(dataset: Iterable[Example], path: Location) -> None:
    """Write one example per line."""
    with _text_file(path) as file:
        for example in dataset:
            file.write(f"{_json(example)}\n")


def write_csv(dataset: Dataset, path: Location, delimiter: str = ",") -> None:
    """Write a table whose metadata are columns. Raises `DatasetError` for an example that does not fit in."""
    check_delimiter(delimiter)
    rows = [_flatten(example, index, path) for index, example in enumerate(dataset)]
    present = dict.fromkeys(name for row in rows for name in row)
    leading = [
        name
        for name in ("id", "input", "expectedOutput", "actual_output", "actual_error", "metrics")
        if name in present
    ]
    names = [*(leading or ["input"]), *(name for name in present if name not in leading)]
    with _text_file(path) as file:
        file.write(format_record(names, delimiter))
        for row in rows:
            file.write(format_record([row.get(name) for name in names], delimiter))


def write_parquet(dataset: Iterable[Example], path: Location) -> None:
    """Write texts as texts and everything structured as JSON. Raises `MissingExtraError` without pyarrow."""
    if os.fspath(path).lower().endswith(".gz"):
        raise DatasetError("A Parquet file is compressed already; leave out .gz.", path=str(path))
    arrow = require("pyarrow", extra="parquet")
    parquet = require("pyarrow.parquet", extra="parquet")
    rows = [_columns(example) for example in dataset]
    names = [n for n in (*_PARQUET_TEXT, *_PARQUET_MAPS) if any(n in row for row in rows)] or ["input"]
    schema = arrow.schema([(name, arrow.string()) for name in names])
    table = arrow.Table.from_pylist(rows, schema=schema)
    with _atomic(path) as file:
        parquet.write_table(table, file)


_WRITERS: Final[dict[FileFormat, Callable[[Any, Location], None]]] = {
    "json": write_json,
    "jsonl": write_jsonl,
    "csv": write_csv,
    "tsv": lambda dataset, path: write_csv(dataset, path, "\t"),
    "parquet": write_parquet,
}


def _json(example: Example) -> str:
    return json.dumps(_shorten_tree(jsonable(example)), ensure_ascii=False, allow_nan=False)


def _shorten_tree(tree: dict[str, Any]) -> dict[str, Any]:
    """Use the short form for a single conventional key; the inputs always show up."""
    row: dict[str, Any] = {"id": tree["id"]} if "id" in tree else {}
    tree.setdefault("inputs", {})
    for plural, short, key in _SHORTHANDS:
        content = tree.get(plural)
        if content is None:
            continue
        if content.keys() == {key} and content[key] is not None:
            row[short] = content[key]
        else:
            row[plural] = content
    return row | {name: tree[name] for name in ("actualError", "metadata", "metrics") if name in tree}


def _columns(example: Example) -> dict[str, str]:
    row = _shorten_tree(jsonable(example))
    for plural, short, key in _SHORTHANDS:
        # A column of texts cannot hold half a character; JSON can, as an escape.
        if short in row and not _is_whole(row[short]):
            row[plural] = {key: row.pop(short)}
    return {name: value if name in _PARQUET_TEXT else json.dumps(value) for name, value in row.items()}


def _flatten(example: Example, index: int, path: Location) -> dict[str, str | None]:
    row: dict[str, str | None] = {} if example.id is None else {"id": example.id}
    for column, what, content, key in (
        ("input", "inputs", example.inputs, INPUT),
        ("expectedOutput", "expected outputs", example.expected_outputs, OUTPUT),
        ("actual_output", "actual outputs", example.actual_outputs or {}, OUTPUT),
    ):
        if content.keys() - {key}:
            other = next(name for name in content if name != key)
            _does_not_fit(f"the key {other!r} in its {what}", index, path)
        if key in content:
            row[column] = _cell(content[key])
    if example.actual_error is not None:
        row["actual_error"] = example.actual_error
    if example.metrics is not None:
        row["metrics"] = text_form(example.metrics)
    for name, value in example.metadata.items():
        # Read back, such a column would mean something else, be trimmed, or lose its mark.
        if name.lower() in _RESERVED or not name or name != name.strip() or name.startswith("\ufeff"):
            _does_not_fit(f"the metadata key {name!r}, which cannot be the name of a column", index, path)
        row[name] = _cell(value)
    _check_encodable(row, index, path)
    return row


def _check_encodable(row: Mapping[str, str | None], index: int, path: Location) -> None:
    for name, cell in row.items():
        if not _is_whole(name) or not _is_whole(cell or ""):
            _does_not_fit(f"half a character (a lone surrogate) in {name!r}", index, path)


def _is_whole(value: object) -> bool:
    """Whether a value is a text that can be encoded: half a character has an escape in JSON only."""
    return isinstance(value, str) and (
        value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value)
    )


def _does_not_fit(what: str, index: int, path: Location) -> None:
    message = f"Example {index} (counted from 0) has {what}. CSV cannot hold that; use .jsonl instead."
    raise DatasetError(message, path=str(path))


def _cell(value: object) -> str | None:
    return text_form(jsonable(value))


def format_record(cells: Iterable[str | None], delimiter: str) -> str:
    """Return a line of CSV; None is an empty cell, and an empty text is quoted."""
    return delimiter.join(_quote_cell(cell, delimiter) for cell in cells) + "\n"


def _quote_cell(cell: str | None, delimiter: str) -> str:
    if cell is None:
        return ""
    # Quoted are empty texts, since an empty cell means none, and white space, which would be trimmed.
    plain = cell and cell == cell.strip() and not any(char in cell for char in (delimiter, '"', "\r", "\n"))
    if plain and not cell.startswith("\ufeff"):
        return cell
    return '"' + cell.replace('"', '""') + '"'


@contextmanager
def _text_file(path: Location) -> Iterator[TextIO]:
    with _atomic(path) as raw:
        if not os.fspath(path).lower().endswith(".gz"):
            with io.TextIOWrapper(raw, encoding="utf-8", errors="backslashreplace", newline="") as file:
                yield file
            return
        # No name and no time inside, so that equal content gives equal files.
        with (
            gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as zipped,
            io.TextIOWrapper(
                cast("BinaryIO", zipped), encoding="utf-8", errors="backslashreplace", newline=""
            ) as file,
        ):
            yield file


@contextmanager
def _atomic(path: Location) -> Iterator[BinaryIO]:
    """Write beside the target and move over it at the end; on an error the target stays as it was."""
    target = Path(path)
    # In the same folder: os.replace() is one step only within a file system.
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as file:
                yield file
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise DatasetError(f"Cannot be written: {error.strerror or error}", path=str(path)) from error
