"""The upload of dataset items, from the body of a request: JSON, or a file of JSONL, CSV, TSV or Parquet.

A file is first received whole, on disk: a slow or broken connection never holds up the database, and one that
is cut off has stored nothing. Then it is read row by row.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from operator import attrgetter
from typing import IO, Any, BinaryIO, Final

from pydantic import ValidationError
from starlette.requests import Request

from dokimos._core.example import Example
from dokimos._core.jsonable import jsonable
from dokimos.datasets._csv_format import read_csv
from dokimos.datasets._jsonl_format import read_jsonl
from dokimos.datasets._rows import RowReader
from dokimos.datasets._source import Source
from dokimos.datasets._tables import read_parquet
from dokimos.errors import DatasetError, MissingExtraError
from dokimos.server._api.datasets.dataset_answers import optional_json
from dokimos.server._api.datasets.dataset_schemas import CreateVersionBody, DatasetItemBody
from dokimos.server._api.http.access import bearer_token
from dokimos.server._api.http.error_responses import describe_problem
from dokimos.server._api.http.json_body import read_json
from dokimos.server._api.http.json_text import MAX_DEPTH, check_json, dump_json
from dokimos.server._api.http.request_body import stream_body
from dokimos.server._api.http.temporary_files import open_temporary_file
from dokimos.server._services.datasets.dataset_items import (
    NewDatasetItem,
    hash_parts,
    in_text_batches,
)
from dokimos.server._services.errors import BodyTooLargeError, InvalidRequestError, UnsupportedMediaError

FILE_TYPES: Final = {
    "application/x-ndjson": "jsonl",
    "application/ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "application/x-jsonlines": "jsonl",
    "text/csv": "csv",
    "text/tab-separated-values": "tsv",
    "application/vnd.apache.parquet": "parquet",
    "application/x-parquet": "parquet",
}
"""The content types of files, and what they are."""
_KNOWN_TYPES: Final = (
    "application/x-ndjson, text/csv, text/tab-separated-values or application/vnd.apache.parquet"
)
_READERS: Final[dict[str, Callable[[Source], Iterator[Example]]]] = {
    "jsonl": lambda source: read_jsonl(source, RowReader()),
    # A table has each column in each row: an empty cell is a key that the item does not have.
    "csv": lambda source: read_csv(source, skip_empty=True),
    "tsv": lambda source: read_csv(source, delimiter="\t", skip_empty=True),
    "parquet": read_parquet,
}
_LIBRARY_ADVICE: Final = re.compile(r"(?:Pass|Say which one is the input with) columns=\{[^\n]*")
"""What an error of the library advises to, which a request has no place for."""
_GZIP: Final = b"\x1f\x8b"


def file_type(request: Request) -> str | None:
    """Return which kind of file the body is, None for JSON.

    Raises:
        UnsupportedMediaError: It is Parquet, and the package that reads it is not installed.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    kind = FILE_TYPES.get(content_type)
    if kind == "parquet":
        check_can_use_parquet()
    is_json = content_type == "application/json" or content_type.endswith("+json")
    if kind is None and not is_json and bearer_token(request) is None:
        raise UnsupportedMediaError(f"Send the body with its Content-Type: application/json, {_KNOWN_TYPES}.")
    return kind


def check_can_use_parquet() -> None:
    """Raise `UnsupportedMediaError` where pyarrow is not installed."""
    from dokimos._core.extras import require

    try:
        require("pyarrow.parquet", extra="parquet")
    except MissingExtraError as error:
        raise UnsupportedMediaError(f"This server cannot handle Parquet: {error}") from None


async def read_json_version(request: Request) -> tuple[str | None, list[NewDatasetItem]]:
    """Return the description and the items of a body of JSON."""
    value = await read_json(request)
    try:
        body = CreateVersionBody.model_validate(value)
    except ValidationError as error:
        raise InvalidRequestError(describe_problem(error.errors(include_url=False)[0])) from None
    name = "items" if body.items is not None or body.examples is None else "examples"
    items: list[DatasetItemBody] | None = getattr(body, name)
    if items is None:
        raise InvalidRequestError("is required", field="items")
    if not items:
        raise InvalidRequestError("must not be empty", field=name)
    made = await asyncio.to_thread(
        lambda: [make_item(item, f"{name}[{index}]") for index, item in enumerate(items)]
    )
    return body.description, made


def make_item(body: Any, path: str) -> NewDatasetItem:
    """Return an item from a checked body."""
    parts = [body["inputs"], body.get("expectedOutputs"), body.get("metadata")]
    content, first = hash_parts(*parts)
    return NewDatasetItem(
        inputs=dump_json(parts[0], f"{path}.inputs"),
        expected_outputs=optional_json(parts[1], f"{path}.expectedOutputs"),
        metadata=optional_json(parts[2], f"{path}.metadata"),
        content_hash=content,
        inputs_hash=first,
        external_id=body.get("id"),
        place=path,
    )


async def as_batches(items: Iterator[NewDatasetItem]) -> AsyncIterator[list[NewDatasetItem]]:
    """Yield items in batches of one transaction; they are made in a thread."""
    batches = in_text_batches(items, attrgetter("size"))
    while batch := await asyncio.to_thread(next, batches, None):
        yield batch


async def receive_file(request: Request) -> IO[bytes]:
    """Store the body of a request in a temporary file, decompressed, and return that file.

    Raises:
        BodyTooLargeError: It is over the limit of the settings.
        InvalidRequestError: It is cut off, or packed where nothing says so.
        DatabaseUnavailable: The disk is full.
    """
    settings = request.app.state.settings
    with open_temporary_file(settings, "the upload") as file:
        size = 0
        async for part in stream_body(request, settings.max_upload_bytes):
            if size == 0 and part[:2] == _GZIP:
                raise InvalidRequestError("Send a packed file with 'Content-Encoding: gzip'.")
            size += len(part)
            await asyncio.to_thread(file.write, part)
        await asyncio.to_thread(file.flush)
    return file


def read_file(file: IO[bytes], kind: str, *, largest: int) -> Iterator[NewDatasetItem]:
    """Yield the items of a file.

    Args:
        file: What `receive_file` returned.
        kind: What it is, a value of `FILE_TYPES`.
        largest: Characters that one item may have.

    Raises:
        InvalidRequestError: A row cannot be read; the message names its line.
        BodyTooLargeError: An item is too large.
    """
    source = Source(None, "upload", lambda: _open_again(file))
    what = "row" if kind == "parquet" else "example"
    try:
        for number, example in enumerate(_READERS[kind](source), 1):
            item = _item_of(example, f"{what} {number}", kind)
            if item.size > largest:
                raise BodyTooLargeError(f"{what} {number}: is larger than {largest:,} characters")
            yield item
    except DatasetError as error:
        raise InvalidRequestError(_LIBRARY_ADVICE.sub(_upload_advice(kind), str(error))) from None


def _upload_advice(kind: str) -> str:
    if kind == "jsonl":
        return "Name the input 'input', or its parts in an object 'inputs'."
    return "Name the column of the input 'input', or those of its parts as in 'inputs.question'."


def _open_again(file: IO[bytes]) -> BinaryIO:
    """Return the file from its beginning, as a stream that may be closed without closing the file."""
    file.seek(0)
    return os.fdopen(os.dup(file.fileno()), "rb", buffering=1 << 18)


def _item_of(example: Example, place: str, kind: str) -> NewDatasetItem:
    if example.actual_outputs is not None or example.actual_error is not None or example.metrics is not None:
        raise InvalidRequestError(
            "has recorded outputs; a dataset on the server keeps inputs, expected outputs and metadata, so "
            "leave them out or send them as items of a run",
            field=place,
        )
    parts: dict[str, Any] = {
        "inputs": example.inputs,
        "expectedOutputs": example.expected_outputs or None,
        "metadata": example.metadata or None,
    }
    _check_id(example.id, place)
    is_plain = kind != "parquet"
    if not is_plain:
        parts = {name: None if part is None else jsonable(part) for name, part in parts.items()}
    texts = {name: _dump_part(part, f"{place}.{name}", is_checked=is_plain) for name, part in parts.items()}
    content, first = hash_parts(*parts.values())
    return NewDatasetItem(
        inputs=texts["inputs"] or "{}",
        expected_outputs=texts["expectedOutputs"],
        metadata=texts["metadata"],
        content_hash=content,
        inputs_hash=first,
        external_id=example.id,
    )


def _check_id(external_id: str | None, place: str) -> None:
    is_too_long = external_id is not None and len(external_id) > 255
    if is_too_long or any(sign == "\0" or "\ud800" <= sign <= "\udfff" for sign in external_id or ""):
        raise InvalidRequestError(
            "must be at most 255 characters without NUL or half a character", field=f"{place}.id"
        )


def _dump_part(part: Any, path: str, *, is_checked: bool) -> str | None:
    """A part as JSON text; `is_checked` tells whether a strict reader of JSON has made it."""
    text = optional_json(part, path)
    if text is None:
        return None
    if not is_checked or "\\u" in text or text.count("{") + text.count("[") > MAX_DEPTH:
        check_json(part, path)
    return text
