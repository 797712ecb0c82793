"""PostgreSQL looks the scores of each item up, and never reads those of all runs."""

import pytest
from sqlalchemy import event, func, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import Engine

from dokimos.server._db.database import Lane
from dokimos.server._db.tables import EVALUATIONS, ITEMS
from dokimos.server._services.runs.item_scores import any_of_item, join_scores


@pytest.fixture(scope="module")
def api(shared_server):
    if shared_server.app.state.database.dialect != "postgresql":
        pytest.skip("SQLite has no such plans")
    return shared_server


@pytest.fixture(scope="module")
def run(api):
    run = api.post("/api/v1/projects/chat/runs", json={"experimentName": "qa"}).json()["runId"]
    score = {"name": "exact", "score": 1.0, "success": True}
    items = [{"inputs": {"question": "?"}, "actualOutputs": {}, "evalResults": [score]}] * 3
    assert api.post(f"/api/v1/runs/{run}/items", json={"items": items}).status_code == 201
    return run


def plan(api, build):
    """How PostgreSQL goes about a query where it would rather do anything than look up."""

    def explain(connection):
        query = build(connection).compile(
            dialect=postgresql.dialect(), compile_kwargs={"literal_binds": True}
        )
        connection.exec_driver_sql("SET LOCAL enable_nestloop = off")
        return "\n".join(connection.exec_driver_sql(f"EXPLAIN {query}").scalars())

    return api.portal.call(api.app.state.database.read, explain, Lane.WORK)


def test_a_join_with_scores_is_never_a_hash_join(api, run):
    def build(connection):
        items, scores = join_scores(connection)
        return select(func.count(scores.score)).select_from(items).where(ITEMS.c.run_id == run)

    found = plan(api, build)
    assert "Nested Loop" in found
    assert "Hash" not in found


def test_a_condition_on_scores_never_reads_all_of_them_first(api, run):
    has_score = any_of_item(EVALUATIONS.c.item_id, EVALUATIONS.c.evaluator == "exact")
    found = plan(
        api, lambda _: select(func.count()).select_from(ITEMS).where(ITEMS.c.run_id == run, ~has_score)
    )
    assert "SubPlan" in found
    assert "hashed" not in found.lower()


def test_the_outline_joins_so(api, run):
    statements = []

    def note(connection, cursor, statement, *_):
        statements.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        assert api.get(f"/api/v1/runs/{run}/outline").json()["evaluators"][0]["scores"] == [1.0] * 3
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert any("JOIN LATERAL" in each for each in statements)
