"""Items of dataset versions: hashed, written, read back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from sqlalchemy import ColumnElement, Connection, Row, Select, func, or_, select

from dokimos.server._db.batches import in_batches
from dokimos.server._db.driver_statements import driver_id, insert_rows
from dokimos.server._db.ids import new_ids
from dokimos.server._db.tables import DATASET_ITEMS
from dokimos.server._services.list_pages import ListPage, SortKeys, find_place
from dokimos.server._services.projects.projects import contains

T = TypeVar("T")
BATCH_ITEMS: Final = 1000
"""Items that are in memory at a time."""
WRITTEN_ITEMS: Final = 250
"""Items that one transaction writes at most: other writers wait no longer than that takes."""
BATCH_CHARACTERS: Final = 4 << 20
"""Text of the items that are in memory at a time, unless a single one is longer."""
_canonical: Final[Callable[[Any], str]] = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


@dataclass(slots=True, kw_only=True)
class NewDatasetItem:
    """An item of a version that is being written. Texts that are JSON are JSON already."""

    inputs: str
    expected_outputs: str | None
    metadata: str | None
    content_hash: str
    inputs_hash: str
    external_id: str | None = None
    """What the client calls the case; an id of ours names an item or a lineage of the base version."""
    lineage_id: str | None = None
    """The case that it is; None where that is still to be found."""
    source_item_id: str | None = None
    source_run_id: str | None = None
    place: str | None = None
    """Where the request has it, for errors; None where that is its place among the items."""

    @property
    def size(self) -> int:
        """Characters of its texts."""
        return len(self.inputs) + len(self.expected_outputs or "") + len(self.metadata or "")


def hash_parts(inputs: object, expected_outputs: object, metadata: object) -> tuple[str, str]:
    """Return the hashes of a whole item and of its inputs.

    The order of keys does not count, and what is empty is as if it were missing.
    """
    first = _canonical(inputs).encode()
    rest = _canonical([expected_outputs or None, metadata or None]).encode()
    return _digest(first + rest), _digest(first)


def hash_inputs(inputs: str) -> str:
    """Return the hash of inputs that are JSON, the same as of a whole item."""
    return _digest(_canonical(_parse(inputs)).encode())


def in_text_batches(values: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield as many values at a time as may be in memory, by how long the texts of each are."""
    batch: list[T] = []
    total = 0
    for value in values:
        own = size(value)
        if batch and (len(batch) == BATCH_ITEMS or total + own > BATCH_CHARACTERS):
            yield batch
            batch, total = [], 0
        batch.append(value)
        total += own
    if batch:
        yield batch


def measure_texts(connection: Connection, *texts: ColumnElement[Any]) -> ColumnElement[int]:
    """Return how long texts are together; those that are NULL have no length."""
    # PostgreSQL knows how many bytes a long text has without reading it. SQLite counts characters.
    measure = func.octet_length if connection.dialect.name == "postgresql" else func.length
    first, *rest = (func.coalesce(measure(text), 0) for text in texts)
    return sum(rest, start=first)


def item_of_texts(
    inputs: str, expected_outputs: str | None, metadata: str | None, **rest: Any
) -> NewDatasetItem:
    """Return an item whose parts are JSON texts of the tables."""
    content, first = hash_parts(*(_parse(text) for text in (inputs, expected_outputs, metadata)))
    return NewDatasetItem(
        inputs=inputs,
        expected_outputs=expected_outputs,
        metadata=metadata,
        content_hash=content,
        inputs_hash=first,
        **rest,
    )


def copy_item(row: Row[Any]) -> NewDatasetItem:
    """Return an item of a version as the same case of another one."""
    return NewDatasetItem(
        inputs=row.inputs,
        expected_outputs=row.expected_outputs,
        metadata=row.metadata,
        content_hash=row.content_hash,
        inputs_hash=row.inputs_hash,
        external_id=row.external_id,
        lineage_id=row.lineage_id,
        source_item_id=row.source_item_id,
        source_run_id=row.source_run_id,
    )


def insert_items(
    connection: Connection, version_id: str, items: Sequence[NewDatasetItem], *, start: int
) -> None:
    """Insert items whose cases are known, with ordinals from `start` on."""

    def as_driver(identifier: str | None) -> str | bytes | None:
        return driver_id(identifier, connection)

    version = as_driver(version_id)
    rows = [
        (
            as_driver(new),
            version,
            start + index,
            as_driver(item.lineage_id),
            item.external_id,
            item.inputs,
            item.expected_outputs,
            item.metadata,
            as_driver(item.content_hash),
            as_driver(item.inputs_hash),
            as_driver(item.source_item_id),
            as_driver(item.source_run_id),
        )
        for index, (new, item) in enumerate(zip(new_ids(len(items)), items, strict=True))
    ]
    insert_rows(connection, DATASET_ITEMS, rows)


def measure_items(connection: Connection, version_id: str, *, start: int) -> Sequence[Row[Any]]:
    """Return the ordinals of items of a version, from one on, each with the size of its texts."""
    columns = DATASET_ITEMS.c
    size = measure_texts(connection, columns.inputs, columns.expected_outputs, columns.metadata)
    query = select(columns.ordinal, size.label("size")).where(
        columns.version_id == version_id, columns.ordinal >= start
    )
    return connection.execute(query.order_by(columns.ordinal).limit(BATCH_ITEMS)).all()


def read_items(connection: Connection, version_id: str, *, first: int, last: int) -> Sequence[Row[Any]]:
    """Return the items of a version from one ordinal to another."""
    query = select(DATASET_ITEMS).where(
        DATASET_ITEMS.c.version_id == version_id, DATASET_ITEMS.c.ordinal.between(first, last)
    )
    return connection.execute(query.order_by(DATASET_ITEMS.c.ordinal)).all()


DATASET_ITEM_ORDERS: Final = SortKeys(
    {"ordinal": DATASET_ITEMS.c.ordinal}, ties=(DATASET_ITEMS.c.ordinal,), default="ordinal"
)


def list_items(
    connection: Connection,
    version_id: str,
    page: ListPage,
    *,
    search: str | None,
    offset: int,
    limit: int,
) -> Sequence[Row[Any]]:
    """Return a page of the items of a version, or of those that contain a text.

    Raises:
        InvalidRequestError: The version has no item that the page could go on behind.
    """
    query = page.order.apply(_containing(version_id, search))
    if page.after is not None:
        place = find_place(connection, _containing(version_id, None), page, DATASET_ITEMS.c.id)
        query = query.where(page.order.is_behind(place))
    elif not search and not page.order.is_descending:
        # Ordinals have no gaps, so a page begins where its number says.
        query, offset = query.where(DATASET_ITEMS.c.ordinal >= offset), 0
    return connection.execute(query.offset(offset).limit(limit)).all()


def count_items(connection: Connection, version_id: str, search: str) -> int:
    """Return how many items of a version contain a text."""
    query = _containing(version_id, search).with_only_columns(func.count())
    count: int = connection.execute(query).scalar_one()
    return count


def find_items(
    connection: Connection, version_id: str, column: ColumnElement[Any], values: Iterable[Any]
) -> Iterator[Row[Any]]:
    """Yield the items of a version in which a column has one of the values, without their texts.

    Items with the same value come one after another, in their order.
    """
    columns = DATASET_ITEMS.c
    chosen = (
        columns.version_id, columns.id, columns.ordinal, columns.lineage_id, columns.external_id,
        columns.inputs_hash, columns.source_item_id,
    )  # fmt: skip
    distinct = list(dict.fromkeys(value for value in values if value is not None))
    for part in in_batches(distinct):
        query: Select[Any] = select(*chosen).where(column.in_(part))
        if column is not columns.id:
            query = query.where(columns.version_id == version_id)
        # Neither the version of an id nor the order is left to the database: SQLite would go through the
        # whole version for each of these statements, by the index that has the ordinals in order.
        found: Sequence[Row[Any]] = connection.execute(query).all()
        own = [row for row in found if row.version_id == version_id]
        yield from sorted(own, key=lambda row: row.ordinal)


def find_lineages(connection: Connection, version_id: str, lineages: Iterable[str]) -> Iterator[str]:
    """Yield those of the lineages that a version has; only their index is read."""
    columns = DATASET_ITEMS.c
    for part in in_batches(list(dict.fromkeys(lineages))):
        query = select(columns.lineage_id).where(
            columns.version_id == version_id, columns.lineage_id.in_(part)
        )
        yield from connection.execute(query).scalars()


def _containing(version_id: str, text: str | None) -> Select[Any]:
    columns = DATASET_ITEMS.c
    query = select(DATASET_ITEMS).where(columns.version_id == version_id)
    if not text:
        return query
    texts = (columns.inputs, columns.expected_outputs, columns.metadata, columns.external_id)
    return query.where(or_(*(contains(column, text) for column in texts)))


def _digest(data: bytes) -> str:
    digits = hashlib.blake2b(data, digest_size=16).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _parse(text: str | None) -> Mapping[str, Any] | str | None:
    try:
        return None if text is None else json.loads(text)
    except ValueError:  # a number with more digits than Python converts
        return text
