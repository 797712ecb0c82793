"""Batches of online evaluation that wait: what they keep, and how they are found."""

import pytest
from sqlalchemy import create_engine, event, insert, select
from tests.server.eval_rules import add_rule, contains, project_of, wait_until

from dokimos.server._db.clock import DAY, now
from dokimos.server._db.ids import new_id
from dokimos.server._db.tables import METADATA
from dokimos.server._db.trace_rule_tables import TRACE_EVAL_BATCHES, TRACE_EVAL_CALLS
from dokimos.server._online_settings import OnlineSettings
from dokimos.server._services.online.trace_batches import claim_batch, remove_old_batches


@pytest.fixture
def api(serve):
    return serve(online=OnlineSettings(poll_seconds=0.05))


@pytest.fixture
def read(api):
    """A function that runs a query on the database of the rules."""
    return lambda query: api.portal.call(api.app.state.database.read, query)


def add_waiting(api, days):
    """Add a batch of a disabled rule that was put off so many days ago, with a reply; return its id."""
    project = project_of(api)
    rule = add_rule(api, project, contains(name=f"{days} days", enabled=False))["id"]
    batch, moment = new_id(), now() - int(days * DAY)
    rows = {
        TRACE_EVAL_BATCHES: {
            "id": batch, "rule_id": rule, "project_id": project, "status": "PENDING", "attempt_count": 1,
            "lost_count": 0, "created_at": moment, "scheduled_at": moment, "next_attempt_at": moment,
        },
        TRACE_EVAL_CALLS: {
            "id": new_id(), "job_id": batch, "project_id": project, "key": "k", "identity": "judge",
            "status": "ANSWERED", "calls": 1, "tokens": 9, "reply": '{"text": "It names Ana."}',
            "lease": "l", "created_at": moment, "answered_at": moment,
        },
    }  # fmt: skip

    def store(connection):
        for table, row in rows.items():
            connection.execute(insert(table).values(row))

    api.portal.call(api.app.state.database.write, store)
    return batch


def test_replies_of_a_batch_that_waits_for_a_disabled_rule_are_removed_as_those_of_one_that_ended(api, read):
    late, old = add_waiting(api, 29), add_waiting(api, 31)

    def find(column):
        return read(lambda connection: set(connection.execute(select(column)).scalars()))

    wait_until(lambda: find(TRACE_EVAL_CALLS.c.job_id) == {late})
    assert find(TRACE_EVAL_BATCHES.c.id) == {late, old}, "their jobs are tried when the rule is enabled"


def test_batches_that_ended_are_not_read_to_find_those_that_wait():
    engine = create_engine("sqlite://")
    METADATA.create_all(engine)
    plans = []

    def note(connection, cursor, statement, parameters, *rest):
        if statement.startswith("SELECT"):
            plan = cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.append(" ".join(str(row) for row in plan))

    with engine.connect() as connection:
        event.listen(connection, "before_cursor_execute", note)
        assert claim_batch(connection, 1) is None
        assert remove_old_batches(connection, 30, 10) == 0
    assert len(plans) == 2
    assert all("ix_trace_eval_batches_active" in plan for plan in plans), plans
