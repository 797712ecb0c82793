"""The seam between what reads spans and where they are, without a ClickHouse."""

import ast
from pathlib import Path

import pytest
from sqlalchemy import select
from tests.server.trace_server import open_traces, span

import dokimos.server
from dokimos.server._db.span_storage import attach_storage
from dokimos.server._db.trace_tables import SPANS, TRACE_SOURCES
from dokimos.server._services.traces.span_queries import choose_spans, run_on_spans, run_with_sources

READERS = {
    "_admin/trace_archive.py",
    "_admin/trace_database.py",
    "_admin/trace_export.py",
    "_db/clickhouse_spans.py",
    "_services/online/matched_spans.py",
    "_services/traces/span_pages.py",
    "_services/traces/span_queries.py",
    "_services/traces/span_store.py",
    "_services/traces/stored_apart.py",
    "_services/traces/trace_details.py",
    "_services/traces/trace_retention.py",
    "_services/traces/trace_search.py",
    "_services/traces/trace_statements.py",
}
"""Modules that know the table of spans, and ask for another place of them first."""


class OtherPlace:
    """A store whose spans are those of the database itself."""

    def __init__(self):
        self.queries = []

    def select(self, connection, query):
        assert query.get_final_froms() == [SPANS]  # it has no other table
        self.queries.append(query)
        return connection.execute(query)


@pytest.fixture
async def server(database_settings):
    async with open_traces(**database_settings) as server:
        await server.send(span(1, 1), span(1, 2, parent=1), project=None)
        await server.send(span(2, 1))
        yield server


async def read_both_ways(server, read):
    """What a function returns where spans are beside their traces, and where they are not."""
    place = OtherPlace()

    def run(connection):
        beside = read(connection)
        attach_storage(connection, place)
        try:
            return beside, read(connection)
        finally:
            attach_storage(connection, None)

    both = await server.traces.read(run)
    assert place.queries
    return both


async def test_spans_have_their_sources_wherever_they_are(server):
    query = select(SPANS.c.span_id, SPANS.c.body).order_by(SPANS.c.trace, SPANS.c.span_id)

    def read(connection):
        return [row._asdict() for row in run_with_sources(connection, query)]

    beside, apart = await read_both_ways(server, read)
    assert beside == apart
    assert [row["span_id"] for row in apart] == [f"{number:016x}" for number in (1, 2, 1)]
    assert {"source_resource", "source_scope"} <= apart[0].keys()


async def test_a_span_without_its_source_is_left_out_wherever_it_is(server):
    await server.traces.write(lambda c: c.execute(TRACE_SOURCES.delete()).rowcount)
    query = select(SPANS.c.span_id)
    assert await read_both_ways(server, lambda c: run_with_sources(c, query).all()) == ([], [])


async def test_spans_that_are_named_are_found_wherever_they_are(server):
    rows = await server.read(select(SPANS.c.trace, SPANS.c.span_id, SPANS.c.day))
    pairs, days = [(row.trace, row.span_id) for row in rows], {row.day for row in rows}

    def read(connection):
        query = select(SPANS.c.span_id)
        conditions = choose_spans(connection, pairs[:2], days)
        return sorted(
            row.span_id for each in conditions for row in run_on_spans(connection, query.where(each))
        )

    beside, apart = await read_both_ways(server, read)
    assert beside == apart
    assert len(apart) == 2


def test_no_other_module_reads_the_table_of_spans():
    """A new one asks `span_queries` for them, is tried with `make test-clickhouse`, and is named above."""
    root = Path(dokimos.server.__file__).parent
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and any(each.name == "SPANS" for each in node.names)
    }
    assert found == READERS
