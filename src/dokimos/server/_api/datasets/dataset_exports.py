"""Versions of datasets as files, written while they are read: one batch of items is in memory at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import IO, Any, Final, Literal, TypeAlias
from urllib.parse import quote

from fastapi.responses import StreamingResponse
from sqlalchemy import Row
from starlette.types import Receive, Scope, Send

from dokimos._core.extras import require
from dokimos.datasets._writers import format_record
from dokimos.server._api.datasets.dataset_answers import example_json
from dokimos.server._api.datasets.dataset_uploads import check_can_use_parquet
from dokimos.server._api.http.temporary_files import open_temporary_file
from dokimos.server._db.database import Database
from dokimos.server._services.datasets.dataset_edits import read_batches
from dokimos.server._services.errors import NotFoundError
from dokimos.server._settings import ServerSettings

ExportFormat = Literal["json", "jsonl", "csv", "tsv", "parquet"]
_TYPES: Final = {
    "json": "application/json",
    "jsonl": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "tsv": "text/tab-separated-values; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}
EXPORT_CONTENT: Final[dict[str, dict[str, Any]]] = {
    kind.partition(";")[0]: {"schema": {"type": "object"} if name == "json" else {"type": "string"}}
    for name, kind in _TYPES.items()
}
"""What the description of the API says about the files."""
_SECTIONS: Final = (("inputs", "inputs"), ("expected_outputs", "expectedOutputs"), ("metadata", "metadata"))
_CHUNK: Final = 1 << 18
"""Bytes of a Parquet file that are in memory at a time."""
Rows = Sequence[Row[Any]]
_Column: TypeAlias = tuple[str, str | None]
"""A part of an item, and a key in it; None for what no column of a single key can hold."""


class DatasetVanished(Exception):
    """A dataset was deleted while it was sent; the connection is cut, so that the client notices."""


class _FileResponse(StreamingResponse):
    """Sends a file and closes it, also where the client hangs up before the first byte."""

    def __init__(self, file: IO[bytes], media_type: str, headers: dict[str, str]) -> None:
        super().__init__(_read_chunks(file), media_type=media_type, headers=headers)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file:
            await super().__call__(scope, receive, send)


async def export_version(
    database: Database, settings: ServerSettings, name: str, version: Row[Any], format: ExportFormat
) -> StreamingResponse:
    """Return a version as a file that the library reads and this server takes back.

    Raises:
        UnsupportedMediaError: It should be Parquet, and the package that writes it is not installed.
        NotFoundError: The dataset was deleted before the Parquet file was whole.
        DatabaseUnavailable: The disk has no room for the Parquet file.
    """
    read = partial(_all_batches, database, version)
    file_name = quote(f"{name}-{version.version}.{format}", safe="")
    disposition = f"attachment; filename=\"dataset.{format}\"; filename*=UTF-8''{file_name}"
    headers = {"Content-Disposition": disposition}
    if format == "parquet":
        check_can_use_parquet()
        return _FileResponse(await _write_parquet(settings, read()), _TYPES[format], headers)
    writers: dict[str, Callable[[], AsyncIterator[bytes]]] = {
        "json": lambda: _write_json(read(), name, version),
        "jsonl": lambda: _write_jsonl(read()),
        "csv": lambda: _write_csv(read),
        "tsv": lambda: _write_csv(read, "\t"),
    }
    return StreamingResponse(writers[format](), media_type=_TYPES[format], headers=headers)


async def _all_batches(database: Database, version: Row[Any]) -> AsyncIterator[Rows]:
    count = 0
    async for rows in read_batches(database, version.id):
        count += len(rows)
        yield rows
    if count != version.item_count:
        raise DatasetVanished(
            f"{version.item_count - count} items of a version were deleted while it was sent"
        )


async def _write_json(batches: AsyncIterator[Rows], name: str, version: Row[Any]) -> AsyncIterator[bytes]:
    head = {"name": name, **({"description": version.description} if version.description else {})}
    yield f'{json.dumps(head)[:-1]}, "examples": ['.encode()
    is_first = True
    async for rows in batches:
        yield ("\n" if is_first else ",\n").encode() + ",\n".join(map(example_json, rows)).encode()
        is_first = False
    yield b"\n]}\n"


async def _write_jsonl(batches: AsyncIterator[Rows]) -> AsyncIterator[bytes]:
    async for rows in batches:
        yield "".join(f"{example_json(row)}\n" for row in rows).encode()


async def _write_csv(read: Callable[[], AsyncIterator[Rows]], delimiter: str = ",") -> AsyncIterator[bytes]:
    """Write a column for each key with texts, such as `inputs.question`: which keys there are is read first.

    What such a cell cannot hold, or would be read back as another value, is in a column for the whole map.
    """
    columns: dict[_Column, None] = {}
    async for rows in read():
        await asyncio.to_thread(_collect_columns, rows, columns)
    if not any(section == "inputs" for section, _ in columns):
        columns["inputs", None] = None  # by which a table is known to be one of examples
    order = {section: index for index, (section, _) in enumerate(_SECTIONS)}
    names = sorted(columns, key=lambda column: (order[column[0]], column[1] is None))
    wire = dict(_SECTIONS)
    header = [wire[section] if key is None else f"{wire[section]}.{key}" for section, key in names]
    yield _records([["id", *header]], delimiter)
    async for rows in read():
        yield await asyncio.to_thread(_records_of, rows, names, delimiter)


def _collect_columns(rows: Rows, columns: dict[_Column, None]) -> None:
    for row in rows:
        for section, _ in _SECTIONS:
            for key, value in json.loads(getattr(row, section) or "{}").items():
                columns.setdefault((section, key if _fits_cell(key, value) else None))


def _fits_cell(key: str, value: object) -> bool:
    """Whether a column of this name and a cell of this text are read back as they were."""
    if not isinstance(value, str) or not value or not key or key != key.strip():
        return False
    # UTF-8 has no halves of characters, which JSON can escape.
    return not any(sign == "\0" or "\ud800" <= sign <= "\udfff" for sign in key + value)


def _records_of(rows: Rows, names: Sequence[_Column], delimiter: str) -> bytes:
    return _records((_cells(row, names) for row in rows), delimiter)


def _cells(row: Row[Any], names: Sequence[_Column]) -> list[str | None]:
    texts: dict[_Column, str] = {}
    for section, _ in _SECTIONS:
        rest = {}
        for key, value in json.loads(getattr(row, section) or "{}").items():
            if _fits_cell(key, value):
                texts[section, key] = value
            else:
                rest[key] = value
        if rest:
            texts[section, None] = json.dumps(rest)
    return [row.external_id or row.lineage_id, *map(texts.get, names)]


def _records(records: Iterable[Sequence[str | None]], delimiter: str) -> bytes:
    return "".join(format_record(cells, delimiter) for cells in records).encode()


async def _write_parquet(settings: ServerSettings, batches: AsyncIterator[Rows]) -> IO[bytes]:
    """Write a file on disk, whole before its first byte is sent, since its index is at its end."""
    arrow = require("pyarrow", extra="parquet")
    parquet = require("pyarrow.parquet", extra="parquet")
    names = ["id", "inputs", "expectedOutputs", "metadata"]
    schema = arrow.schema([(name, arrow.string()) for name in names])

    def write(writer: Any, rows: Rows) -> None:
        columns = [
            [row.external_id or row.lineage_id for row in rows],
            *([getattr(row, section) for row in rows] for section, _ in _SECTIONS),
        ]
        writer.write_table(arrow.table(dict(zip(names, columns, strict=True)), schema=schema))

    with open_temporary_file(settings, "the Parquet file") as file:
        try:
            with parquet.ParquetWriter(file, schema) as writer:
                async for rows in batches:
                    await asyncio.to_thread(write, writer, rows)
        except DatasetVanished as error:
            raise NotFoundError(str(error)) from None
        file.seek(0)
    return file


async def _read_chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    while part := await asyncio.to_thread(file.read, _CHUNK):
        yield part
