"""Traces in whose spans words or attributes occur, newest first, read only as far as they are asked for."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    literal_column,
    select,
    text,
)

from dokimos.server._db.batches import in_batches
from dokimos.server._db.columns import Id
from dokimos.server._db.driver_statements import all_rows, driver_id
from dokimos.server._db.span_storage import SearchedWord, SpanSearch, SpanStorage, find_storage
from dokimos.server._db.trace_tables import SPANS, TRACES
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.traces.attribute_hashes import hash_attribute
from dokimos.server._services.traces.row_ranges import find_traces_of_rows
from dokimos.server._services.traces.search_scope import (
    FIRST_ID,
    LAST_ID,
    TraceScope,
    choose_days,
    day_of_id,
    first_of_day,
    last_of_day,
)
from dokimos.server._services.traces.search_words import MAX_WORD, fold_text, split_old_parts
from dokimos.server._services.traces.trace_texts import (
    has_full_text_search,
    is_old_index,
    match_expression,
    match_old_expression,
)
from dokimos.server._services.traces.unspaced_texts import find_terms, separate_passages
from dokimos.server._services.traces.word_matches import WordMatches

_RARE: Final = 10_000
"""Spans of a day that are all read; where something occurs in more, traces are read in order."""
_BATCH: Final = 200
_FIRST_STEP: Final = 64
"""Traces that are looked at first where something occurs in many spans; each step is twice as long."""
_LONGEST_STEP: Final = 512


_IS_PLAIN: Final = re.compile(r"(?!.*[0-9]e[0-9])[a-z0-9 &]+:\*")
"""Of words that the parser of PostgreSQL takes for words: it takes `12e4ab` for a number and a word."""


class Candidates(NamedTuple):
    """Some traces that have what is searched for, in order, which may be outside the scope."""

    traces: list[str]
    end: str | None
    """The trace up to which these are all; None where the next ones have to be read to say so."""
    seen_count: int
    """Traces that were looked at."""


def find_candidates(
    connection: Connection,
    words: Sequence[str],
    attributes: Sequence[tuple[str, str]],
    scope: TraceScope,
) -> Iterator[Candidates]:
    """Yield the traces one span of which has all words and all attributes, in order.

    Raises:
        InvalidRequestError: This SQLite cannot search for texts.
    """
    hashes = [hash_attribute(key, value) for key, value in attributes]
    folded = [fold_text(word) for word in words]
    storage = find_storage(connection)
    if storage is not None:
        searched = find_searched_words(folded)
        for day, of_day in choose_days(connection, scope):
            query = SpanSearch(day, searched, hashes, scope.is_descending)
            yield from _search_storage(connection, storage, query, of_day)
        return
    if connection.dialect.name == "postgresql":
        search = _postgres_condition(words, folded, hashes)
        for day, of_day in choose_days(connection, scope):
            yield from _search_postgres_day(connection, day, search, of_day)
        return
    if not has_full_text_search(sqlite3.sqlite_version):
        raise InvalidRequestError(
            "This server cannot search traces by words or attributes: its SQLite was built without FTS5. "
            "Start it with a Python whose SQLite has FTS5, or with PostgreSQL; the other filters work."
        )
    expressions = {False: match_expression(folded, hashes), True: match_old_expression(words, hashes)}
    for day, of_day in choose_days(connection, scope):
        is_old = is_old_index(connection, day)
        if is_old is not None:
            yield from _search_sqlite_day(connection, day, expressions[is_old], of_day)


def find_searched_words(words: Sequence[str]) -> list[SearchedWord]:
    """Return what a store of spans is searched for: letters without spaces are found anywhere in a passage.

    Args:
        words: Folded ones, the last of which may be the beginning of one.
    """
    searched = []
    for number, word in enumerate(words, 1):
        text = separate_passages(word)
        begins, ends = not text.startswith(" "), not text.endswith(" ")
        is_whole = ends and number < len(words) and len(word) <= MAX_WORD
        parts = " ".join([part[:MAX_WORD] for part in text.split()])
        searched.append(SearchedWord(parts, begins_word=begins, ends_word=is_whole))
    return searched


def _search_sqlite_day(
    connection: Connection, day: int, expression: str, scope: TraceScope
) -> Iterator[Candidates]:
    with closing(WordMatches(connection, day, expression, is_descending=scope.is_descending)) as matches:
        matches.read(_RARE + 1)
        if matches.is_complete:
            yield from _read_traces_of_rows(connection, day, matches.rows, scope)
        else:
            yield from _search_traces_of_day(connection, day, matches, scope)


def _read_traces_of_rows(
    connection: Connection, day: int, rows: Sequence[int], scope: TraceScope
) -> Iterator[Candidates]:
    traces = map(Id.from_driver, find_traces_of_rows(connection, day, rows))
    ordered = sorted(
        (each for each in traces if scope.is_later(each, scope.after)), reverse=scope.is_descending
    )
    for start in range(0, len(ordered), _BATCH):
        part = ordered[start : start + _BATCH]
        yield Candidates(part, part[-1], len(part))


def _search_traces_of_day(
    connection: Connection, day: int, matches: WordMatches, scope: TraceScope
) -> Iterator[Candidates]:
    """Search the spans of one trace after the other, for what occurs in many of them."""
    columns = TRACES.c
    # Traces of another day may have ids of this one, whose day another clock has counted.
    ends = (first_of_day(connection, day, scope), last_of_day(connection, day, scope))
    near = columns.id.between(min(ends), max(ends))
    # Not the index of days where there is a project: it would lead to the traces of all of them.
    indexed = columns.day == day if scope.project_id is None else and_(*scope.of_project, near)
    steps = scope.apply(select(columns.id).where(indexed))
    # An index has the ids alone, so that rows are read of traces only whose spans are found.
    query = steps.where(near, *scope.conditions) if scope.is_filtered else steps
    place, size = scope.after, _FIRST_STEP
    while True:
        step = steps.where(scope.is_behind(place)).offset(size - 1).limit(1)
        end = connection.execute(step).scalar()
        bounds = [scope.is_behind(place), *([] if end is None else [scope.is_up_to(end)])]
        traces = connection.execute(query.where(*bounds)).scalars().all()
        # A search goes on from a trace of the day itself: from one of a day nearby it would miss what lies
        # between, or show it twice.
        is_of_day = end is not None and day_of_id(end) == day
        yield Candidates(_choose_matching(connection, matches, traces), end if is_of_day else None, size)
        if end is None:
            return
        place, size = end, min(2 * size, _LONGEST_STEP)


def _choose_matching(connection: Connection, matches: WordMatches, traces: Sequence[str]) -> list[str]:
    """Return those of some traces a span of which is a match."""
    spans: list[tuple[Any, ...]] = []
    for batch in in_batches([driver_id(each, connection) for each in traces]):
        marks = ", ".join("?" * len(batch))
        # As the driver has them: SQLAlchemy takes longer for a thousand values than SQLite.
        spans += all_rows(
            connection, f'SELECT "row", trace FROM spans WHERE trace IN ({marks})', tuple(batch)
        )
    if not spans:
        return []
    matches.read_up_to((min if matches.is_descending else max)(spans)[0])
    found = {Id.from_driver(each) for each in {trace for row, trace in spans if row in matches}}
    return [each for each in traces if each in found]


def _search_storage(
    connection: Connection, storage: SpanStorage, search: SpanSearch, scope: TraceScope
) -> Iterator[Candidates]:
    place, size = scope.after, min(scope.wanted_count, _BATCH)
    while True:
        traces, end = storage.search(connection, search, after=place, limit=size)
        if traces or end is not None:
            yield Candidates(traces, end or traces[-1], size)
        if end is None:
            return
        place, size = end, _BATCH


def _postgres_condition(
    words: Sequence[str], folded: Sequence[str], hashes: Sequence[int]
) -> ColumnElement[bool]:
    conditions: list[ColumnElement[bool]] = []
    if words:
        # Nothing but letters, digits and signs, so that none of them is an operator.
        query = " & ".join([f"'{term.word}'{':*' if term.is_begun else ''}" for term in find_terms(folded)])
        old = " & ".join([" <-> ".join(split_old_parts(word)) for word in words]) + ":*"
        if _IS_PLAIN.fullmatch(old):
            conditions.append(_literal("spans.search @@ CAST(:query AS tsquery)", query=query))
        else:
            # Spans of an earlier version have the parts of words as the parser found them, with their places.
            both = "spans.search @@ (CAST(:query AS tsquery) || to_tsquery('simple', :old))"
            conditions.append(_literal(both, query=query, old=old))
    if hashes:
        numbers = ",".join(map(str, hashes))
        conditions.append(_literal(f"spans.attribute_hashes @> ARRAY[{numbers}]::bigint[]"))
    return and_(*conditions)


def _literal(condition: str, **values: str) -> Any:
    return text(condition).bindparams(*(bindparam(name, value) for name, value in values.items()))


def _search_postgres_day(
    connection: Connection, day: int, search: ColumnElement[bool], scope: TraceScope
) -> Iterator[Candidates]:
    trace: ColumnElement[str] = literal_column("spans.trace", Id)
    matching: Select[Any] = (
        select(trace)
        .distinct()
        .select_from(SPANS.join(TRACES, TRACES.c.id == SPANS.c.trace))
        .where(SPANS.c.day == day, search, scope.is_inside)
        .order_by(trace.desc() if scope.is_descending else trace.asc())
    )
    place, size = scope.after, min(scope.wanted_count, _BATCH)
    while True:
        bound = place or (LAST_ID if scope.is_descending else FIRST_ID)
        is_behind = SPANS.c.trace < bound if scope.is_descending else SPANS.c.trace > bound
        traces = list(connection.execute(matching.where(is_behind).limit(size)).scalars())
        if traces:
            yield Candidates(traces, traces[-1], len(traces))
        if len(traces) < size:
            return
        place, size = traces[-1], _BATCH
