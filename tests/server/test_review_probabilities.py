"""What a score in the review queue stands for: its chance by now, and one chance of being chosen."""

from functools import partial
from types import SimpleNamespace

import pytest
from sqlalchemy import update
from tests.server.eval_rules import (
    RULES,
    add_rule,
    contains,
    export,
    project_of,
    read_jobs,
    span,
    wait_for_jobs,
    wait_until,
    wait_until_matched,
)

from dokimos.server._db.clock import now
from dokimos.server._db.trace_rule_tables import TRACE_EVAL_BATCHES, TRACE_EVAL_REVIEWS
from dokimos.server._online_settings import OnlineSettings
from dokimos.server._workers.online_reviews import queue_scores

NUMBER = 30
FAILED = {"matchType": "ATTRIBUTE", "matchKey": "failed", "matchValue": "true"}
SAMPLING = {"rate": 0.5, "strata": [{"name": "failed", "conditions": FAILED, "rate": 1.0}]}
REVIEW = {"failedRate": 1.0, "otherRate": 1.0, "maxPerDay": 1000}


@pytest.fixture
def api(serve):
    return serve(online=OnlineSettings(poll_seconds=0.05, quiet_seconds=0.1))


@pytest.fixture
def project(api):
    return project_of(api)


def rows(api, table=TRACE_EVAL_REVIEWS):
    def read(connection):
        return [dict(row._mapping) for row in connection.execute(table.select())]

    return api.portal.call(api.app.state.database.read, read)


def wait_for_end(api, count):
    wait_for_jobs(api, count)
    wait_until(lambda: all(row["completed_at"] for row in rows(api, TRACE_EVAL_BATCHES)))


def sampled_by_half_and_then_all(api, project):
    """The path of a rule that scores sessions, and the targets that their first traces had sampled."""
    body = contains(scope="session", sampling=SAMPLING, review=REVIEW)
    path = f"{RULES.format(project)}/{add_rule(api, project, body)['id']}"

    def send(**attributes):
        for number in range(NUMBER):
            text = "good" if number % 2 else "wrong"
            export(api, span(text, **{"session.id": f"session {number}"}, **attributes))
        wait_until_matched(api)
        wait_for_end(api, len(read_jobs(api)))
        return rows(api)

    early = send()
    assert {row["probability"] for row in early} == {0.5}
    send(failed="true")
    return path, {row["target"] for row in early}


def decide(api, early):
    """Say that what was sampled early is correct, and that nothing else is."""
    items = {row["item_id"]: row["target"] in early for row in rows(api)}
    for row in api.get("/api/v1/review-queue", params={"size": 500}).json()["content"]:
        verdict = "CORRECT" if items[row["itemId"]] else "INCORRECT"
        review = f"/api/v1/runs/{row['runId']}/items/{row['itemId']}/review"
        assert api.put(review, json={"verdict": verdict}).status_code == 200


def correct_rate(api, path):
    return api.get(f"{path}/stats").json()["reviews"]["correctRate"]["value"]


def test_a_later_chance_of_a_session_changes_what_its_score_in_the_queue_stands_for(api, project):
    path, early = sampled_by_half_and_then_all(api, project)
    assert 0 < len(early) < NUMBER == len(rows(api))

    assert {(row["probability"], row["chosen_probability"]) for row in rows(api)} == {(1.0, 1.0)}
    decide(api, early)
    assert correct_rate(api, path) == pytest.approx(len(early) / NUMBER)


def test_where_a_server_was_killed_before_it_raised_them_they_count_as_the_scores_do(api, project):
    path, early = sampled_by_half_and_then_all(api, project)
    decide(api, early)
    row = TRACE_EVAL_REVIEWS.c
    forgotten = update(TRACE_EVAL_REVIEWS).where(row.target.in_(early)).values(probability=0.5)
    api.portal.call(api.app.state.database.write, lambda connection: connection.execute(forgotten).rowcount)

    assert correct_rate(api, path) == pytest.approx(len(early) / NUMBER)


def test_what_an_earlier_version_queued_keeps_its_probability(api, project):
    path, early = sampled_by_half_and_then_all(api, project)
    decide(api, early)
    row = TRACE_EVAL_REVIEWS.c
    as_before = {"probability": 0.5, "chosen_probability": None}
    change = update(TRACE_EVAL_REVIEWS).where(row.target.in_(early)).values(as_before)
    api.portal.call(api.app.state.database.write, lambda connection: connection.execute(change).rowcount)

    count = len(early)
    assert correct_rate(api, path) == pytest.approx(2 * count / (NUMBER + count))


def test_a_batch_that_goes_on_after_a_change_of_the_rule_gives_earlier_scores_no_second_chance(api, project):
    body = contains(review={"failedRate": 1.0})
    path = f"{RULES.format(project)}/{add_rule(api, project, body)['id']}"
    export(api, *(span("good") for _ in range(3)))
    wait_for_end(api, 3)
    assert api.put(path, json={**body, "review": REVIEW}).status_code == 200
    [batch, *_] = rows(api, TRACE_EVAL_BATCHES)

    async def insist(action):
        return await action()

    state = api.app.state
    later = SimpleNamespace(**{**batch, "leased_at": now()})
    api.portal.call(partial(queue_scores, state.database, state.traces, later, insist))

    assert rows(api) == []
