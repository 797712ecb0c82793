"""Items with a score near its threshold: runs without one are not read, and no item is left out."""

import random

import pytest
from sqlalchemy import event, text, update
from tests.server.test_review_queue import add, item, numbers, queue, read, score, start, write

from dokimos.server._db.tables import RUN_EVALUATORS
from dokimos.server._services.accounts.principal import SYSTEM
from dokimos.server._services.reviews.review_filter import QueueFilter
from dokimos.server._services.reviews.review_order import choose_informative
from dokimos.server._services.reviews.review_queue import Queue

NEAR = score(value=0.52, threshold=0.5)
FAR = score(value=1.0, threshold=0.5)


@pytest.fixture
def searched_runs(monkeypatch):
    """The runs that the queue read items of."""
    runs = []
    read_run = Queue.read_run

    def note(self, run, *arguments):
        runs.append(run.id)
        return read_run(self, run, *arguments)

    monkeypatch.setattr(Queue, "read_run", note)
    return runs


def test_only_runs_with_such_a_score_are_read(api, searched_runs):
    start(api, item(0, FAR), item(1, score(threshold=None)), item(2, score("exact", 0.6, threshold=None)))
    found = start(api, item(3, FAR), item(4, score("other", 3.0), NEAR))
    assert numbers(queue(api, near=0.05)) == [4]
    assert searched_runs == [found]
    assert numbers(queue(api, near=0.05, sort="informative")) == [4]
    assert set(searched_runs) == {found}


def test_the_range_that_a_run_tells_later_counts(api, searched_runs):
    run = start(api, item(0, score("grade", 60, threshold=55)))
    assert numbers(queue(api, near=0.1)) == []
    assert searched_runs == []
    body = {"status": "SUCCESS", "evaluators": [{"name": "grade", "rangeLow": 0, "rangeHigh": 100}]}
    assert api.patch(f"/api/v1/runs/{run}", json=body).status_code == 200
    assert numbers(queue(api, near=0.1)) == [0]


def test_an_item_that_replaces_another_counts(api):
    run = start(api, item(0, FAR, ordinal=0), item(1, NEAR, ordinal=1))
    add(api, run, item(0, NEAR, ordinal=0), item(1, FAR, ordinal=1))
    assert numbers(queue(api, near=0.05)) == [0]


@pytest.mark.parametrize(
    "counted_before",
    [{"score_count": 2, "score_sum": 1.5}, {"score_count": 1, "score_sum": 0.5}],
    ids=["added", "replaced"],
)
def test_a_run_that_an_earlier_version_wrote_to_is_read(api, counted_before):
    run = start(api, item(0, FAR))
    write(api, update(RUN_EVALUATORS).values(counted_before))  # as it would count another score
    write(api, text("UPDATE evaluations SET score = 0.5"))
    add(api, run, item(1, FAR))
    assert numbers(queue(api, near=0.05)) == [0]


@pytest.mark.parametrize("share", [1e-9, 0.05, 0.3, 1])
def test_no_score_is_left_out_that_is_found_when_all_runs_are_read(api, monkeypatch, share):
    pick = random.Random(5)
    values = [0.0, 0.1, 0.45, 0.5, 0.55, 0.5000000000000001, 0.6, 1.0, -1.7e308, 1.7e308, 1e-300, 55.0, 55.1]
    pairs = [(1.7e308, -1.7e308), *((pick.choice(values), pick.choice(values)) for _ in range(20))]
    for number, (value, threshold) in enumerate(pairs):
        evaluators = [{"name": "exact", "rangeLow": 0, "rangeHigh": pick.choice([1, 100, 1e-3])}]
        start(api, item(number, score(value=value, threshold=threshold)), evaluators=evaluators)
    found = numbers(queue(api, near=share))
    monkeypatch.setattr(
        "dokimos.server._services.reviews.review_queue.may_have_near", lambda *_: text("1 = 1")
    )
    assert found == numbers(queue(api, near=share))


def note_statements(api, look):
    """The statements of what looks something up, with their parameters."""
    statements = []

    def note(connection, cursor, statement, parameters, *_):
        statements.append((statement, parameters))

    def run(connection):
        event.listen(connection, "before_cursor_execute", note)
        try:
            look(connection)
        finally:
            event.remove(connection, "before_cursor_execute", note)

    read(api, run)
    return statements


def explain(api, look):
    """How PostgreSQL goes about the last statement of what looks something up, where it is in doubt."""
    if api.app.state.database.dialect != "postgresql":
        pytest.skip("SQLite has no such plans")
    write(api, text("ANALYZE"))
    statement, parameters = note_statements(api, look)[-1]

    def run(connection):
        values = ", ".join(str(each) if isinstance(each, int) else f"'{each}'" for each in parameters)
        connection.exec_driver_sql("SET LOCAL plan_cache_mode = force_generic_plan")
        connection.exec_driver_sql(f"PREPARE looked_up AS {statement}")
        return "\n".join(connection.exec_driver_sql(f"EXPLAIN EXECUTE looked_up ({values})").scalars())

    return read(api, run)


def test_a_page_of_many_failures_is_read_in_order_and_not_sorted(api):
    start(api, *(item(number, score("a"), score("b", 0.0, bool(number % 10))) for number in range(4000)))
    plan = explain(api, lambda connection: Queue(connection, SYSTEM, QueueFilter(disagree=True)).read(10))
    assert "ix_items_unreviewed" in plan
    assert "Sort" not in plan
    assert numbers(queue(api, disagree=True, size=3)) == [0, 10, 20]
    assert numbers(queue(api, outcome="failed", size=3, page=1)) == [30, 40, 50]


def test_the_evaluators_of_other_runs_are_not_read_for_the_ranking(api):
    """PostgreSQL reads those of all runs for a few hundred scores, unless the query names the runs."""
    runs = [start(api, item(number, score("a"), score("b"))) for number in range(2)]

    def rank(connection):
        choose_informative(
            Queue(connection, SYSTEM, QueueFilter()), 20, random_share=0, random=random.Random(1)
        )

    statement, parameters = note_statements(api, rank)[-1]
    assert "GROUP BY evaluations.item_id" in statement
    assert "run_evaluators.run_id IN (" in statement
    named = {
        str(each).replace("-", "") if isinstance(each, str | int) else bytes(each).hex()
        for each in parameters
    }
    assert {run.replace("-", "") for run in runs} <= named
