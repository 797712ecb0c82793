"""Traces that were deleted: rules leave them alone, also while their spans have not been removed yet."""

from types import SimpleNamespace

from sqlalchemy import select, update
from tests.server.trace_requests import make_project, send, span, trace_id

from dokimos.server._db.trace_tables import TRACES
from dokimos.server._services.online import back_fills, matched_spans
from dokimos.server._services.online.scored_cases import load_scored_spans
from dokimos.server._services.traces.trace_retention import mark_traces

ALWAYS = (0, 1 << 57)


def test_what_was_deleted_is_neither_matched_nor_shown_to_a_judge(serve):
    api = serve()
    project = make_project(api, "chat")
    for number in (1, 2, 3):
        send(api, span(number, session__id="one", input="q", output=f"answer {number}"), project="chat")

    def delete_and_look(connection):
        rows = {row.trace_id: row.id for row in connection.execute(select(TRACES.c.trace_id, TRACES.c.id))}
        gone, left = [rows[trace_id(number)] for number in (1, 2)], rows[trace_id(3)]
        assert mark_traces(connection, gone) == 2
        # Due, as where the worker has noted it at the same moment.
        connection.execute(update(TRACES).values(match_due_at=1, quiet_due_at=1))
        rule = SimpleNamespace(project_id=project, tenant=None)
        found = [
            matched_spans.find_due_traces(connection, 10),
            matched_spans.find_quiet_traces(connection, 10, 0),
            back_fills.find_traces(connection, rule, ALWAYS, None, 10).traces,
        ]
        job = SimpleNamespace(trace=left, span_id=f"{1:016x}")
        deleted = SimpleNamespace(trace=gone[0], span_id=f"{1:016x}")
        [(_, session)] = load_scored_spans(connection, [job], "session")
        connection.execute(update(TRACES).values(match_due_at=None, quiet_due_at=None))
        return (
            [[row.id for row in rows] == [left] for rows in found],
            [spans[0].trace_id for spans in session],
            [list(load_scored_spans(connection, [deleted], each)) for each in ("span", "trace", "session")],
        )

    matched, session, of_deleted = api.portal.call(api.app.state.traces.write, delete_and_look)
    assert matched == [True, True, True]
    assert session == [trace_id(3)]
    assert [spans for [(_, spans)] in of_deleted] == [[], [], []]
