"""Spans that go into a store of their own, whose transaction is not that of their traces.

They are there before the transaction of their traces ends. If that is undone, the trace does not count them:
they were received after its last change, and what sends them again has them stored anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, select

from dokimos.server._db.batches import in_batches
from dokimos.server._db.span_storage import SpanStorage, find_storage
from dokimos.server._db.trace_tables import SPANS, TRACES
from dokimos.server._services.traces.new_spans import NewSpan
from dokimos.server._services.traces.open_traces import OpenTrace
from dokimos.server._services.traces.search_words import separate_words
from dokimos.server._services.traces.trace_statements import ENCODING_NUMBERS
from dokimos.server._services.traces.trace_texts import searchable_text
from dokimos.server._services.traces.unspaced_texts import separate_passages

_FIRST: Final = NewSpan._fields.index("span_id")
_END: Final = NewSpan._fields.index("error") + 1
_NAMES: Final = NewSpan._fields[_FIRST:_END]


def find_uncounted(
    connection: Connection, storage: SpanStorage, traces: Iterable[OpenTrace]
) -> dict[str, int]:
    """Return the traces with spans of transactions that were undone, by their ids.

    Returns:
        When each of them was changed last, after which those spans were received.
    """
    known = {trace.id: trace.day for trace in traces if not trace.is_new}
    if not known:
        return {}
    newest = storage.find_newest(connection, [(day, each) for each, day in known.items()])
    changed_at: dict[str, int] = {}
    for batch in in_batches(list(known)):
        query = select(TRACES.c.id, TRACES.c.updated_at).where(TRACES.c.id.in_(batch))
        changed_at |= {row.id: row.updated_at for row in connection.execute(query)}
    return {each: changed_at[each] for each, found in newest.items() if found.received_at > changed_at[each]}


def lacks_spans(connection: Connection) -> bool:
    """Whether there are traces without any span: these are in a store that the settings do not name."""
    if find_storage(connection) is not None:
        return False
    traces = select(TRACES.c.id).where(TRACES.c.deleted_at.is_(None)).limit(1)
    if connection.execute(traces).first() is None:
        return False
    return connection.execute(select(SPANS.c.trace).limit(1)).first() is None


def insert_apart(
    connection: Connection, storage: SpanStorage, traces: Sequence[OpenTrace], moment: int
) -> None:
    """Store the spans that were added to traces.

    Args:
        connection: In the transaction of their traces.
        storage: Where they go.
        traces: With the spans.
        moment: At which they came.
    """
    replaced = [(trace.day, trace.id) for trace in traces if trace.has_replaced]
    newest = storage.find_newest(connection, replaced) if replaced else {}
    rows: list[Mapping[str, Any]] = []
    for trace in traces:
        # Later than what is there, whatever the clock says: of the versions of a span, the highest counts.
        last = newest.get(trace.id)
        version = moment if last is None else max(moment, last.version + 1)
        rows += _make_rows(trace, moment, version)
    storage.insert(connection, rows)


def _make_rows(trace: OpenTrace, moment: int, version: int) -> Iterator[Mapping[str, Any]]:
    shared = {"day": trace.day, "trace": trace.id, "received_at": moment, "version": version}
    for span, placement in trace.added:
        yield {
            **shared,
            **dict(zip(_NAMES, span[_FIRST:_END], strict=True)),
            "project_id": placement.project,
            "source": span.source,
            "encoding": ENCODING_NUMBERS[span.encoding],
            "body": span.body,
            "search": write_search(searchable_text(span)),
            "attribute_hashes": span.attribute_hashes,
        }


def write_search(text: str) -> str:
    """Return a text as a store searches it: its words, and passages without spaces, each between spaces."""
    return f" {' '.join(separate_passages(separate_words(text)).split())} "
