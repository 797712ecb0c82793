"""Spans that come from a backup: their rows as they were, with what searches need made anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final

from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError, OperationalError

from dokimos.server._db.batches import in_batches
from dokimos.server._db.bulk_rows import PART_BYTES, RowsRefused
from dokimos.server._db.columns import Id
from dokimos.server._db.driver_statements import execute_many
from dokimos.server._db.span_storage import find_storage
from dokimos.server._db.trace_tables import TRACE_SOURCES, TRACES
from dokimos.server._services.traces.attribute_hashes import MAX_HASHED, hash_attributes
from dokimos.server._services.traces.stored_apart import write_search
from dokimos.server._services.traces.stored_spans import read_record
from dokimos.server._services.traces.trace_partitions import prepare_day
from dokimos.server._services.traces.trace_sources import load_origin
from dokimos.server._services.traces.trace_statements import INSERT_POSTGRESQL, SOURCE_COLUMNS, SPAN_COLUMNS
from dokimos.server._services.traces.trace_texts import (
    IndexedSpans,
    index_texts,
    join_searchable,
    project_word,
    split_searchable,
    write_words,
)
from dokimos.traces._otlp_records import RecordOrigin

_MAX_ORIGINS: Final = 1000
_ROWS_APART: Final = 5000
_SQLITE_COLUMNS: Final = (*SPAN_COLUMNS, "row")
_INSERT_SQLITE: Final = "INSERT INTO spans ({}) VALUES ({})".format(
    ", ".join(f'"{name}"' for name in _SQLITE_COLUMNS), ", ".join("?" * len(_SQLITE_COLUMNS))
)


class RestoredSpans:
    """Inserts spans into a table that was empty, whose traces and sources are there.

    Args:
        connection: In the transaction that restores.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._days: set[int] = set()
        self._rows = count(1)
        self._origins: dict[int, RecordOrigin] = {}
        self._waiting: list[dict[str, Any]] = []
        self._waiting_bytes = 0

    def insert(self, spans: Sequence[Mapping[str, Any]]) -> None:
        """Insert spans, each with the values of its columns as the driver takes them; `flush` is the end.

        Raises:
            RowsRefused: The database does not take them.
            ValueError: One of them is not a span, or its source is missing.
        """
        storage = find_storage(self._connection)
        try:
            if storage is not None:
                self._insert_apart(spans)
            elif self._connection.dialect.name == "postgresql":
                self._insert_into_postgresql(spans)
            else:
                self._insert_into_sqlite(spans)
        except OperationalError:
            raise  # such as a full disk
        except (DBAPIError, OverflowError) as error:
            raise RowsRefused(str(getattr(error, "orig", None) or error)) from error

    def flush(self) -> None:
        """Insert what waits for more: a store of its own makes a file of each insert."""
        storage = find_storage(self._connection)
        if storage is not None and self._waiting:
            storage.insert(self._connection, self._waiting)
        self._waiting, self._waiting_bytes = [], 0

    def _insert_apart(self, spans: Sequence[Mapping[str, Any]]) -> None:
        self._waiting += self._make_rows_apart(spans)
        self._waiting_bytes += sum(len(span["body"]) for span in spans)
        if len(self._waiting) >= _ROWS_APART or self._waiting_bytes >= PART_BYTES:
            self.flush()

    def _make_rows_apart(self, spans: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield spans as a store of their own takes them."""
        for span, hashes in zip(spans, self._hash(spans), strict=True):
            project = span["project_id"]
            yield {
                **span,
                "trace": Id.from_driver(span["trace"]),
                "project_id": None if project is None else Id.from_driver(project),
                "version": span["received_at"],
                "search": write_search(_text_of(span)),
                "attribute_hashes": hashes,
            }

    def _insert_into_postgresql(self, spans: Sequence[Mapping[str, Any]]) -> None:
        for day in sorted({span["day"] for span in spans}):
            prepare_day(self._connection, day, self._days)
            self._days.add(day)
        rows = [
            (*(span[name] for name in SPAN_COLUMNS), split_searchable(_text_of(span)), list(hashes))
            for span, hashes in zip(spans, self._hash(spans), strict=True)
        ]
        execute_many(self._connection, INSERT_POSTGRESQL, rows)

    def _insert_into_sqlite(self, spans: Sequence[Mapping[str, Any]]) -> None:
        tenants = self._read_tenants(spans)
        rows, indexed = [], dict[int, IndexedSpans]()
        for span, hashes, number in zip(spans, self._hash(spans), self._rows, strict=False):
            rows.append((*(span[name] for name in SPAN_COLUMNS), number))
            project = span["project_id"]
            word = project_word(None if project is None else Id.from_driver(project), tenants[span["trace"]])
            of_day = indexed.setdefault(span["day"], IndexedSpans())
            of_day.texts.append((number, _text_of(span), write_words(word, hashes)))
            of_day.ranges.append((number, number, span["trace"]))
        execute_many(self._connection, _INSERT_SQLITE, rows)
        for day, of_day in indexed.items():
            index_texts(self._connection, day, of_day, self._days)
            self._days.add(day)

    def _read_tenants(self, spans: Sequence[Mapping[str, Any]]) -> dict[object, str]:
        """Return the tenants of the traces of spans, by their ids as the driver has them."""
        ids = {Id.from_driver(span["trace"]): span["trace"] for span in spans}
        query = select(TRACES.c.id, TRACES.c.tenant_key)
        return {
            ids[row.id]: row.tenant_key
            for batch in in_batches(sorted(ids))
            for row in self._connection.execute(query.where(TRACES.c.id.in_(batch)))
        }

    def _hash(self, spans: Sequence[Mapping[str, Any]]) -> list[tuple[int, ...]]:
        """Return the numbers by which the attributes of spans are searched for."""
        self._read_origins({span["source"] for span in spans})
        hashes = []
        for each in spans:
            span = read_record(each["body"], self._origins[each["source"]]).span
            numbers = hash_attributes(span.attributes) + hash_attributes(span.resource)
            hashes.append(tuple(numbers[:MAX_HASHED]))
        return hashes

    def _read_origins(self, sources: set[int]) -> None:
        if len(self._origins) > _MAX_ORIGINS:
            self._origins.clear()
        columns = [TRACE_SOURCES.c[name] for name in SOURCE_COLUMNS]
        for batch in in_batches(sorted(sources - self._origins.keys())):
            query = select(TRACE_SOURCES.c.id, *columns).where(TRACE_SOURCES.c.id.in_(batch))
            for key, *values in self._connection.execute(query):
                self._origins[key] = load_origin(*values)


def _text_of(span: Mapping[str, Any]) -> str:
    return join_searchable(span["name"], span["input_text"], span["output_text"], span["error"])
