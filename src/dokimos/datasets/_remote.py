"""Data sets on a dokimos server: `dataset://name@version`, with a copy on this machine for outages.

A pinned version is asked of the server first, and taken from the copy only where the server is not
available: a refusal (4xx) or an answer that cannot be read is an error, whatever is in the copy. `latest`
always comes from the server.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

from dokimos._core.example import Example
from dokimos._core.text import shorten
from dokimos._http.api_client import ApiClient, ApiReply, encode_segment
from dokimos._http.credentials import redact_url
from dokimos._http.server_api import SERVER_URL, open_server_api
from dokimos._runtime.concurrency import run_sync
from dokimos._runtime.terminal_text import escape_control_characters
from dokimos.datasets._dataset import Columns, Dataset, DatasetStream
from dokimos.datasets._dataset_source import DatasetSource
from dokimos.datasets._remote_cache import CachedVersion, read_cached, write_cached
from dokimos.datasets._rows import RowReader
from dokimos.errors import (
    ConfigurationError,
    DatasetError,
    ServerError,
    ServerReplyError,
    ServerUnavailableError,
)

T = TypeVar("T")

PAGE_SIZE: Final = 200
MOST_PAGE_BYTES: Final = 2**28
"""What a page of 200 large items may have, unlike other replies."""
LATEST: Final = "latest"
_PREFIX: Final = re.compile(r"dataset://", re.IGNORECASE)
_VERSION: Final = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)
_log: Final = logging.getLogger("dokimos")

_CONTENT: Final = ("inputs", "expectedOutputs", "metadata")


@dataclass(frozen=True, slots=True)
class RemoteUri:
    """`dataset://name@version`, parsed."""

    text: str
    name: str
    version: int | None
    """None for the latest one."""

    @classmethod
    def parse(cls, uri: str) -> RemoteUri:
        """Parse a URI; the name is everything up to the last `@`, as it is.

        Raises:
            DatasetError: where the name is missing, or the version is neither a positive number nor `latest`.
        """
        name, at, version = _PREFIX.sub("", uri, count=1).rpartition("@")
        if not at or not name or not (version == LATEST or _VERSION.fullmatch(version)):
            known = name if at and name else version or "name"
            raise DatasetError(
                "A data set of a server is named with its version, a whole number from 1 on or 'latest': "
                f"{f'dataset://{known}@3'!r:.300} or {f'dataset://{known}@latest'!r:.300}.",
                path=uri,
            )
        return cls(uri, name, None if version == LATEST else int(version))


@dataclass(frozen=True, slots=True)
class RemoteVersion:
    """What a server says of a version of a data set."""

    number: int
    item_count: int
    description: str


@dataclass(frozen=True, slots=True)
class StoredCopy:
    """A version from this machine, since the server is not available."""

    content: CachedVersion


def load_remote(uri: str, columns: Columns | None = None) -> Dataset:
    """Load a version of a data set, and keep a copy of it. Raises `DatasetError`."""
    asked, answer = _open(uri, columns, _fetch_version)
    found = answer.content if isinstance(answer, StoredCopy) else answer
    dataset = Dataset(
        _examples_of(found.items, asked),
        asked.name,
        found.description,
        source=DatasetSource(uri=uri, name=asked.name, version=found.version),
    )
    if not isinstance(answer, StoredCopy):  # and can be read: what cannot must not replace a copy
        _keep_copy(found)
    return dataset


def stream_remote(uri: str, columns: Columns | None = None) -> DatasetStream:
    """Open a version of a data set, to be read page by page; no copy is kept. Raises `DatasetError`."""
    asked, answer = _open(uri, columns, _find_version)
    if isinstance(answer, StoredCopy):
        number, description = answer.content.version, answer.content.description
    else:
        number, description = answer.number, answer.description

    def read() -> Iterator[Mapping[str, Any]]:
        if isinstance(answer, StoredCopy):
            return iter(answer.content.items)
        return _read_pages(asked, answer)

    return DatasetStream(
        lambda: _examples_of(read(), asked),
        asked.name,
        description,
        waits=not isinstance(answer, StoredCopy),
        source=DatasetSource(uri=uri, name=asked.name, version=number),
    )


def _open(
    uri: str, columns: Columns | None, ask: Callable[[ApiClient, RemoteUri], Awaitable[T]]
) -> tuple[RemoteUri, T | StoredCopy]:
    """Ask the server about a version; return the answer, or the copy where the server is not available.

    Raises:
        DatasetError: where there is neither, or the URI cannot be used.
    """
    if columns:
        raise DatasetError(
            "columns= names the columns of a file; the items of a server's data set have none.", path=uri
        )
    asked = RemoteUri.parse(uri)
    try:
        return asked, _ask(asked, lambda api: ask(api, asked))
    except ServerUnavailableError as outage:
        return asked, StoredCopy(_read_cached(asked, outage))


def _ask(asked: RemoteUri, work: Callable[[ApiClient], Awaitable[T]]) -> T:
    """Do something with the API of the server.

    Raises:
        ServerUnavailableError: where there is no answer.
        DatasetError: where the server refuses, or its answer cannot be used.
    """

    async def main() -> T:
        async with open_server_api(max_reply_bytes=MOST_PAGE_BYTES) as api:
            return await work(api)

    try:
        return run_sync(main())
    except ServerUnavailableError:
        raise
    except ServerError as error:
        raise DatasetError(str(error), path=asked.text) from error
    except ConfigurationError as error:
        raise DatasetError(f"{SERVER_URL}: {error}", path=asked.text) from error


async def _find_version(api: ApiClient, asked: RemoteUri) -> RemoteVersion:
    version = LATEST if asked.version is None else asked.version
    reply = await api.request("GET", f"/datasets/{encode_segment(asked.name)}/versions/{version}")
    match reply.json():
        case {"version": int(number), "itemCount": int(count), **rest} if number > 0 <= count:
            if asked.version not in (None, number):
                raise ServerReplyError(f"{reply.url}: the answer is about version {number}")
            return RemoteVersion(number, count, str(rest.get("description") or ""))
    raise _not_understood(reply, "a version of a data set")


async def _fetch_version(api: ApiClient, asked: RemoteUri) -> CachedVersion:
    version = await _find_version(api, asked)
    items: list[Mapping[str, Any]] = []
    while len(items) < version.item_count:
        items += await _fetch_page(api, asked, version, len(items))
    ids = {str(item.get("id")) for item in items}
    if len(ids) != len(items):
        raise ServerReplyError(f"{len(items):,} items were sent with {len(ids):,} different ids")
    return CachedVersion(asked.name, version.number, tuple(items), version.description)


async def _fetch_page(
    api: ApiClient, asked: RemoteUri, version: RemoteVersion, start: int
) -> list[Mapping[str, Any]]:
    """Return the page of items from `start` on; a version does not change while its pages are read."""
    path = f"/datasets/{encode_segment(asked.name)}/versions/{version.number}/items"
    reply = await api.request("GET", path, query={"page": start // PAGE_SIZE, "size": PAGE_SIZE})
    match reply.json():
        case {"content": [*items]} if all(isinstance(item, dict) for item in items):
            expected = min(PAGE_SIZE, version.item_count - start)
            if len(items) == expected:
                return items
            raise ServerReplyError(
                f"{reply.url}: the answer has {len(items)} items, and should have {expected} "
                f"of {version.item_count:,}"
            )
    raise _not_understood(reply, "a page of items")


def _read_pages(asked: RemoteUri, version: RemoteVersion) -> Iterator[Mapping[str, Any]]:
    for start in range(0, version.item_count, PAGE_SIZE):
        try:
            yield from _ask(asked, partial(_fetch_page, asked=asked, version=version, start=start))
        except ServerUnavailableError as outage:
            raise DatasetError(str(outage), path=asked.text) from outage


def _examples_of(items: Iterable[Mapping[str, Any]], asked: RemoteUri) -> Iterator[Example]:
    reader = RowReader(asked.text)
    for number, item in enumerate(items, 1):
        row = {member: item[member] for member in _CONTENT if item.get(member) is not None}
        if "inputs" not in row:
            raise DatasetError(f"Item {number} has no inputs.", path=asked.text)
        item_id = item.get("id")
        # The id that the user gave it. Else its lineage, where the server keeps track of that: the item's own
        # id is another one in each version.
        row["id"] = item.get("externalId") or item.get("lineageId") or item_id
        example = reader.read(row, number)
        yield replace(example, dataset_item_id=None if item_id is None else str(item_id))


def _read_cached(asked: RemoteUri, outage: ServerUnavailableError) -> CachedVersion:
    """Return the copy of a pinned version. Raises `DatasetError` where there is none."""
    if asked.version is None:
        raise DatasetError(f"{outage}. The latest version is always asked of the server.", path=asked.text)
    try:
        cached = read_cached(asked.name, asked.version, _server())
    except DatasetError as damage:
        raise DatasetError(f"{outage}; {damage}.", path=asked.text) from outage
    if cached is None:
        raise DatasetError(
            f"{outage}. There is no copy of it on this machine: a version is copied when it is loaded.",
            path=asked.text,
        ) from outage
    _log.warning(
        "%s: the copy on this machine was used, because %s",
        escape_control_characters(asked.text),
        escape_control_characters(str(outage)),
    )
    return cached


def _keep_copy(version: CachedVersion) -> None:
    try:
        write_cached(version, _server())
    except OSError as error:  # a full or read-only disk must not stop a run
        _log.warning(
            "No copy of the data set '%s' was kept: %s",
            escape_control_characters(version.name),
            escape_control_characters(str(error)),
        )


def _server() -> str:
    """Return the server as copies name it: without a password."""
    return redact_url(os.environ.get(SERVER_URL, "").strip().rstrip("/"))


def _not_understood(reply: ApiReply, what: str) -> ServerReplyError:
    excerpt = shorten(" ".join(reply.content.decode("utf-8", "replace").split()), 200)
    return ServerReplyError(f"{reply.url}: the answer is not {what}: {excerpt}")
