"""Read rows that other programs hold: lists of dicts, data frames, Arrow tables, Parquet files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from dokimos._core.example import Example
from dokimos._core.extras import require
from dokimos.datasets._columns import WIRE_NAMES, ColumnMap, check_columns
from dokimos.datasets._json_format import loads
from dokimos.datasets._limits import check_parquet
from dokimos.datasets._row_names import metrics_in
from dokimos.datasets._rows import RowReader
from dokimos.datasets._source import Source
from dokimos.errors import DatasetError

_MAPS: Final = ("inputs", "expectedOutputs", "actualOutputs", "metadata", "metrics")
_ABSENT_WHEN_EMPTY: Final = ("expectedOutput", "actualOutput", "actualError", "id")


def read_rows(rows: object, columns: Mapping[str, str] | None = None) -> Iterator[Example]:
    """Yield one example per row. Raises `DatasetError`, whose line is the 1-based number of the row."""
    check_columns(columns)
    return _examples(_mappings(rows), "rows", columns)


def read_parquet(source: Source, columns: Mapping[str, str] | None = None) -> Iterator[Example]:
    """Yield one example per row of a Parquet file, a batch of rows in memory at a time.

    Raises `MissingExtraError` without pyarrow.
    """
    parquet = require("pyarrow.parquet", extra="parquet")
    return _examples(read_parquet_rows(parquet, source), source.label, columns)


def read_parquet_rows(parquet: Any, source: Source) -> Iterator[Mapping[str, Any]]:
    with source.open() as stream:
        try:
            with parquet.ParquetFile(stream) as file:
                check_parquet(file.metadata, source.label)
                for batch in file.iter_batches(batch_size=1024):
                    yield from batch.to_pylist()
        except (OSError, ValueError) as error:
            raise DatasetError(f"Not a readable Parquet file: {error}", path=source.label) from error


def _mappings(rows: object) -> Iterable[Any]:
    # By methods: no table library is imported to ask whether something is one of its tables.
    if hasattr(rows, "to_pylist"):
        return cast("Iterable[Any]", rows.to_pylist())
    if hasattr(rows, "to_dicts"):
        return cast("Iterable[Any]", rows.to_dicts())
    if hasattr(rows, "iloc") and hasattr(rows, "to_dict"):
        return cast("Iterable[Any]", rows.to_dict("records"))
    if isinstance(rows, Mapping):
        names = ", ".join(repr(name) for name in list(rows)[:5])
        raise DatasetError(f"from_rows takes rows, not one mapping; choose one of its parts: {names}.")
    if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
        raise DatasetError(f"from_rows takes mappings or a data frame, not a {type(rows).__name__}.")
    return rows


def _examples(rows: Iterable[Any], label: str | None, columns: Mapping[str, str] | None) -> Iterator[Example]:
    column_map = ColumnMap(columns, label) if columns else None
    reader = RowReader(label)
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            message = f"Expected a mapping of column names to values, found a {type(row).__name__}."
            raise DatasetError(message, path=label, line=number)
        cells = {name: _cell(value) for name, value in row.items()}
        renamed = _rename(cells, column_map, label, number)
        yield reader.read(_with_maps(renamed, label, number), number)


def _rename(
    cells: dict[str, Any], columns: ColumnMap | None, label: str | None, number: int
) -> dict[str, Any]:
    """Normalize the spelling of our own names; the reader refuses two spellings of one."""
    if columns is not None:
        cells = columns.apply(cells, number)
    if "output" in cells and not any(WIRE_NAMES.get(name, "").startswith("expected") for name in cells):
        cells["expectedOutput"] = cells.pop("output")
    for name in [n for n in cells if WIRE_NAMES.get(n, n) != n and WIRE_NAMES[n] not in cells]:
        cells[WIRE_NAMES[name]] = cells.pop(name)
    return cells


def _with_maps(cells: dict[str, Any], label: str | None, number: int) -> dict[str, Any]:
    """Read maps that are held as JSON text, and leave out what is empty."""
    row: dict[str, Any] = {}
    if cells.get("inputs") is not None and cells.get("input") is None:
        cells.pop("input", None)
    for name, value in cells.items():
        if name in _MAPS:
            row[name] = _map(name, value, label, number)
        elif value is not None or name not in _ABSENT_WHEN_EMPTY:
            row[name] = value
    # A column of whole numbers with one gap is a column of floats in pandas.
    if isinstance(row.get("id"), float) and row["id"].is_integer():
        row["id"] = int(row["id"])
    return row


def _map(name: str, value: object, label: str | None, number: int) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if not isinstance(value, str):
        return value
    try:
        if name == "metrics" and value:
            return metrics_in(value)
        return loads(value) if value else None
    except ValueError as error:
        message = f"The column {name!r} must hold an object or its JSON: {error}"
        raise DatasetError(message, path=label, line=number) from None


def _cell(value: object) -> Any:
    """Return the plain Python value of a cell; the NaN of a data frame means that there is none."""
    if type(value) in (str, int, bool, type(None)):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else float(value)
    tolist = getattr(value, "tolist", None)
    if callable(tolist):
        return tolist()
    # pandas' own marks for what is missing; by name, so that pandas is not imported.
    return None if type(value).__name__ in ("NAType", "NaTType") else value
