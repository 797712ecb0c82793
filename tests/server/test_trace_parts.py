"""A large trace is read in parts, each of which costs what it holds, not what the trace does."""

from uuid import UUID

import pytest
from sqlalchemy import event, select
from tests.server.trace_server import open_traces, span

from dokimos.server._db.trace_tables import TRACES
from dokimos.server._services.accounts.principal import SYSTEM
from dokimos.server._services.list_pages import ListPage
from dokimos.server._services.projects.projects import find_or_create_project
from dokimos.server._services.traces.trace_details import list_spans
from dokimos.server._services.traces.trace_filter import TRACE_ORDERS, TraceFilter
from dokimos.server._services.traces.trace_lists import list_traces
from dokimos.server._services.traces.trace_sessions import list_sessions


@pytest.mark.parametrize("after", [None, f"{1:016x}"])
async def test_a_part_is_read_from_an_index_without_the_other_spans(tmp_path, after):
    plans = []

    def explain(_, cursor, statement, parameters, *__):
        if "ORDER BY" in statement:
            rows = cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.append([row[3] for row in rows])

    async with open_traces(data_dir=tmp_path) as server:
        await server.send(*(span(1, number) for number in (3, 1, 2)))
        (trace,) = await server.read(select(TRACES))

        def read(connection):
            event.listen(connection, "before_cursor_execute", explain)
            return list_spans(connection, trace, after=after, limit=1)

        spans, goes_on = await server.traces.read(read)
    assert [row.name for row in spans] == ["step 1" if after is None else "step 2"]
    assert goes_on
    ((plan, *_),) = plans
    assert "USING INDEX ix_spans_trace_start" in plan


@pytest.mark.parametrize("measure", [{"min_cost": 0.01}, {"max_duration_ns": 10}, {"start_from": 1}])
async def test_a_measure_is_looked_at_in_the_order_of_the_list_for_so_many_traces(tmp_path, measure):
    plans = []

    def explain(_, cursor, statement, parameters, *__):
        if "ORDER BY" in statement:
            rows = cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.append(" ".join(row[3] for row in rows))

    def read(connection):
        event.listen(connection, "before_cursor_execute", explain)
        chosen = TraceFilter(project_id=str(UUID(int=1)), **measure)
        list_traces(connection, SYSTEM, chosen, ListPage(TRACE_ORDERS.parse("createdAt,desc")), limit=10)

    async with open_traces(data_dir=tmp_path) as server:
        await server.traces.read(read)

    window, page = plans
    assert "USING COVERING INDEX ix_traces_project_id_id" in window
    assert "USING INDEX ix_traces_project_id_id" in page
    assert "TEMP B-TREE" not in page


async def test_sessions_are_counted_by_their_own_traces_not_by_those_of_the_project(tmp_path):
    plans = []

    def explain(_, cursor, statement, parameters, *__):
        if "GROUP BY" in statement:
            rows = cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.append([row[3] for row in rows])

    def read(connection):
        event.listen(connection, "before_cursor_execute", explain)
        return list_sessions(connection, SYSTEM, project_id, after=None, limit=10)

    async with open_traces(data_dir=tmp_path) as server:
        await server.database.write(lambda database: find_or_create_project(database, SYSTEM, "chat"))
        for number in range(1, 4):
            await server.send(span(number, **{"session.id": f"s{number % 2}"}), project="chat")
        project_id = (await server.read(select(TRACES)))[0].project_id
        sessions, _ = await server.traces.read(read)

    assert [session.counts.trace_count for session in sessions] == [2, 1]
    ((plan, *_),) = plans
    assert "USING INDEX ix_traces_session (session_id=?)" in plan
