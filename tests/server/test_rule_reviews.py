"""Rules put what they scored into the review queue: once each, bounded by the day, with known chances."""

import math
import random
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
)

from dokimos.server._db.tables import RUNS
from dokimos.server._db.trace_rule_tables import TRACE_EVAL_BATCHES, TRACE_EVAL_REVIEWS
from dokimos.server._online_settings import OnlineSettings
from dokimos.server._services.errors import InvalidRequestError
from dokimos.server._services.online.estimates import estimate_mean
from dokimos.server._services.online.review_sampling import (
    ReviewSampling,
    is_chosen,
    parse_review_sampling,
)
from dokimos.server._services.online.rule_reviews import estimate_correct_rate, queue_job
from dokimos.server._workers.online_reviews import queue_scores

ON_SQLITE = pytest.mark.parametrize("database_settings", ["sqlite"], indirect=True)
"""For what does not depend on the database."""
ONLINE = OnlineSettings(poll_seconds=0.05, quiet_seconds=0.1)


@pytest.fixture
def api(serve):
    return serve(online=ONLINE)


@pytest.fixture
def project(api):
    return project_of(api)


def rows(api, table):
    def read(connection):
        return [dict(row._mapping) for row in connection.execute(table.select())]

    return api.portal.call(api.app.state.database.read, read)


def wait_for_end(api, jobs):
    """Wait until so many jobs have scores, and their batches have ended."""
    wait_for_jobs(api, jobs)
    wait_until(lambda: all(row["completed_at"] for row in rows(api, TRACE_EVAL_BATCHES)))


def waiting(api, headers=None):
    answer = api.get("/api/v1/review-queue", params={"size": 500}, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["content"]


def stats_of(api, project, rule):
    answer = api.get(f"{RULES.format(project)}/{rule['id']}/stats")
    assert answer.status_code == 200, answer.text
    return answer.json()["reviews"]


def item_of(api, row):
    return api.get(f"/api/v1/runs/{row['runId']}", params={"itemId": row["itemId"]}).json()["items"][
        "content"
    ][0]


def review(api, row, verdict):
    path = f"/api/v1/runs/{row['runId']}/items/{row['itemId']}/review"
    assert api.put(path, json={"verdict": verdict}).status_code == 200


@ON_SQLITE
def test_what_a_rule_failed_is_reviewed_and_the_rest_is_not(api, project):
    rule = add_rule(api, project, contains(review={}))
    failed = [span("wrong 1"), span("wrong 2")]

    export(api, *failed, span("good"))
    wait_for_end(api, 3)

    queued = waiting(api)
    assert sorted(row["actualOutput"]["output"] for row in queued) == ["wrong 1", "wrong 2"]
    metadata = item_of(api, queued[0])["metadata"]
    assert metadata["queuedBy"] == {"ruleId": rule["id"], "rule": "contains", "probability": 1.0}
    assert metadata["source"]["spanId"] in {each["spanId"] for each in failed}
    assert stats_of(api, project, rule) == {
        "failed": {"queuedCount": 2, "reviewedCount": 0, "correctRate": None},
        "other": {"queuedCount": 0, "reviewedCount": 0, "correctRate": None},
        "correctRate": None,
        "limitedDayCount": 0,
    }


@ON_SQLITE
def test_a_rule_without_it_queues_nothing_and_a_whole_trace_is_one_item(api, project):
    add_rule(api, project, contains("never", name="silent"))
    add_rule(api, project, contains("never", name="whole", scope="trace", review={}))
    root = span("the answer", name="agent")

    export(api, root, span("part", trace=root["traceId"], parent=root["spanId"]))
    wait_for_end(api, 2)

    (row,) = waiting(api)
    assert item_of(api, row)["metadata"]["source"]["spanId"] is None


def test_verdicts_are_weighted_by_how_scores_came_into_the_queue(api, project):
    review_of = {"failedRate": 1.0, "otherRate": 0.5, "maxPerDay": 1000}
    rule = add_rule(api, project, contains(review=review_of))
    assert rule["review"] == review_of
    export(api, *(span(f"wrong {number}") for number in range(6)), *(span("good") for _ in range(100)))
    wait_for_end(api, 106)
    queued = waiting(api)
    others = [row for row in queued if row["actualOutput"]["output"] == "good"]
    assert 24 < len(others) < 76  # one of four million draws has more or fewer
    assert len(queued) == len(others) + 6
    assert {row["probability"] for row in rows(api, TRACE_EVAL_REVIEWS) if not row["failed"]} == {0.5}

    for row in queued:  # of the others, people come to half so far
        if row not in others:
            review(api, row, "INCORRECT")
    for row in others[::2]:
        review(api, row, "CORRECT")

    stats = stats_of(api, project, rule)
    assert (stats["failed"]["reviewedCount"], stats["other"]["queuedCount"]) == (6, len(others))
    assert (stats["failed"]["correctRate"]["value"], stats["other"]["correctRate"]["value"]) == (0.0, 1.0)
    expected = 2 * len(others) / (2 * len(others) + 6)
    assert stats["correctRate"]["value"] == pytest.approx(expected)
    assert stats["correctRate"]["low"] < expected < stats["correctRate"]["high"]

    # From now on no other one is queued: the failed ones alone say nothing of all.
    kept = {key: rule[key] for key in ("name", "matchType", "matchValue", "evaluatorName", "evaluator")}
    changed = {**kept, "review": {"failedRate": 1.0}}
    assert api.put(f"{RULES.format(project)}/{rule['id']}", json=changed).status_code == 200
    assert stats_of(api, project, rule)["correctRate"] is None


def test_runs_of_reviewed_traces_are_compared_with_none_and_leave_judges_alone(api, project):
    add_rule(api, project, contains("never", review={"failedRate": 1.0}))
    export(api, span("one"))
    wait_for_end(api, 1)
    [first] = waiting(api)
    assert api.get(f"/api/v1/runs/{first['runId']}").json()["provenance"]["partial"]

    judged = update(RUNS).where(RUNS.c.id == first["runId"]).values(status="EVALUATING")
    api.portal.call(api.app.state.database.write, lambda connection: connection.execute(judged).rowcount)
    export(api, span("two"))
    wait_for_end(api, 2)
    [second] = [row for row in waiting(api) if row["runId"] != first["runId"]]
    assert api.get(f"/api/v1/runs/{second['runId']}").json()["name"].endswith("(2)")


def test_scores_of_one_trace_are_one_observation_whatever_their_probabilities():
    scores = [(f"trace {n}", float(n % 2), 1 / (1 + part)) for n in range(30) for part in range(10)]
    estimate = estimate_mean(scores, within=(0.0, 1.0))
    assert estimate.n == 30
    assert estimate.value == pytest.approx(0.5)
    assert estimate.high - estimate.low > 0.3


def test_a_day_has_its_limit_and_what_is_done_again_changes_nothing(api, project):
    add_rule(api, project, contains("never", review={"maxPerDay": 4}))

    export(api, *(span(str(number)) for number in range(40)))
    wait_for_end(api, 40)

    found = rows(api, TRACE_EVAL_REVIEWS)
    assert len(found) == len(waiting(api)) <= 4
    chances = sorted((row["probability"] for row in found), reverse=True)
    assert chances == [1.0, 1.0, 1.0, 0.25][: len(chances)]
    assert len(chances) >= 3
    for batch in rows(api, TRACE_EVAL_BATCHES):  # as after a crash between the queue and the batch's end
        repeat(api, batch)
    assert rows(api, TRACE_EVAL_REVIEWS) == found


def repeat(api, batch):
    async def insist(action):
        return await action()

    state = api.app.state
    again = partial(queue_scores, state.database, state.traces, SimpleNamespace(**batch), insist)
    api.portal.call(again)


@ON_SQLITE
def test_two_rules_and_a_person_make_one_item_of_a_trace(api, project):
    one = span("wrong")
    export(api, one)
    body = {"items": [{"traceId": one["traceId"], "spanId": one["spanId"]}]}
    wait_until(lambda: api.post("/api/v1/review-queue/traces", json=body).status_code == 201)
    for name in ("first", "second"):
        rule = add_rule(api, project, contains(name=name, review={}))
        path = f"{RULES.format(project)}/{rule['id']}/back-fill"
        assert api.post(path, json={"from": "2020-01-01T00:00:00Z"}).status_code == 202
    wait_for_end(api, 2)

    assert len(waiting(api)) == 1
    found = rows(api, TRACE_EVAL_REVIEWS)
    assert len({row["rule_id"] for row in found}) == 2
    assert len({row["item_id"] for row in found}) == 1


@ON_SQLITE
def test_a_tenants_trace_waits_for_that_tenant_alone(serve):
    api = serve(api_key="admin", online=ONLINE)
    admin, keys = {"Authorization": "Bearer admin"}, {}
    for tenant in ("red", "blue"):
        body = {"name": tenant, "role": "EDITOR", "tenantId": tenant}
        key = api.post("/api/v1/api-keys", json=body, headers=admin).json()["key"]
        keys[tenant] = {"Authorization": f"Bearer {key}"}
    project = project_of(api, headers=admin)
    add_rule(api, project, contains(review={}), headers=admin)

    export(api, span("wrong"), headers=keys["red"])
    wait_for_end(api, 1)

    assert len(waiting(api, keys["red"])) == 1
    assert waiting(api, keys["blue"]) == []


@ON_SQLITE
def test_a_rule_that_was_stopped_or_changed_meanwhile_queues_nothing_more(api, project):
    rule = add_rule(api, project, contains(review={}))
    export(api, span("wrong"))
    wait_for_end(api, 1)
    path = f"{RULES.format(project)}/{rule['id']}"
    assert api.put(path, json=contains(review={}, enabled=False)).json()["enabled"] is False

    def queue(connection):
        return queue_job(connection, None, rule["id"], None, None)

    assert api.portal.call(api.app.state.database.write, queue) is False
    assert api.put(path, json=contains()).json()["review"] is None
    assert api.portal.call(api.app.state.database.write, queue) is False
    assert len(read_jobs(api)) == len(waiting(api)) == 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"rate": 1}, "review.rate: is unknown"),
        ({"failedRate": 1.5}, "review.failedRate: must be from 0 to 1"),
        ({"otherRate": True}, "review.otherRate: must be from 0 to 1"),
        ({"otherRate": math.nan}, "review.otherRate: must be from 0 to 1"),
        ({"maxPerDay": 0}, "review.maxPerDay: must be an integer from 1 to 1000"),
        ({"maxPerDay": 2.5}, "review.maxPerDay: must be an integer from 1 to 1000"),
        ({"failedRate": 0}, "review: must have a rate above 0, or be left out"),
    ],
)
def test_a_sampling_that_says_nothing_useful_is_refused(value, message):
    with pytest.raises(InvalidRequestError, match=message):
        parse_review_sampling(value)


def test_the_limit_of_a_day_leaves_weighted_counts_without_a_bias():
    sampling = ReviewSampling(1.0, 0.3, 20)
    days, scores = 600, 100
    chance = random.Random(5)
    weighted = total = 0
    for day in range(days):
        queued = 0
        for number in range(scores):
            is_late = number >= scores // 2  # those of the afternoon are worse
            has_failed = chance.random() < (0.8 if is_late else 0.2)
            total += has_failed
            probability = sampling.probability_of(has_failed=has_failed, queued=queued)
            if is_chosen("rule", f"{day}/{number}", probability):
                queued += 1
                weighted += has_failed / probability
        assert queued <= 20

    assert weighted == pytest.approx(total, rel=0.1)


SCORES = 400
"""Of each of the two times in the life of a rule."""
CHANGE = 1_000_000


def simulate_reviews(seed, other_rates):
    """Scores of a rule whose `otherRate` is changed half-way, and what people say of half of those queued.

    Returns:
        The rows of the queue, the verdicts by item, and which of all answers are correct, by time.
    """
    chance = random.Random(seed)
    queued, decided, correct = [], {}, ([], [])
    for time, other_rate in enumerate(other_rates):
        sampling = ReviewSampling(0.5, other_rate, 1000)
        for number in range(SCORES):
            failed = chance.random() < (0.2, 0.5)[time]  # the application becomes worse
            is_correct = chance.random() < (0.3 if failed else (0.95, 0.7)[time])
            correct[time].append(is_correct)
            target = f"{seed}-{time}-{number}/span"
            probability = sampling.probability_of(has_failed=failed, queued=0)
            if is_chosen("rule", target, probability):
                moment = CHANGE + (time - 1) * SCORES + number
                row = SimpleNamespace(
                    target=target, item_id=target, failed=failed, probability=probability, created_at=moment
                )
                queued.append(row)
                if chance.random() < 0.5:
                    decided[target] = SimpleNamespace(verdict="CORRECT" if is_correct else "INCORRECT")
    return queued, decided, correct


@pytest.mark.parametrize("changed_again", [0, SCORES])
@pytest.mark.parametrize("rates", [(0.1, 0.8), (0.8, 0.1), (0.0, 0.5)])
def test_the_correct_rate_has_no_bias_across_a_change_of_rates(rates, changed_again):
    rule = SimpleNamespace(
        review='{"failedRate": 0.5, "otherRate": 0.3, "maxPerDay": 1000}', updated_at=CHANGE + changed_again
    )
    errors = []
    for seed in range(60):
        queued, decided, correct = simulate_reviews(seed, rates)
        # What the rule passed had no chance before the change where its rate was 0: nothing is said of it.
        answers = correct[1] if rates[0] == 0 else correct[0] + correct[1]
        estimate = estimate_correct_rate(queued, decided, rule, CHANGE + 2 * SCORES)
        errors.append(estimate.value - sum(answers) / len(answers))
    assert abs(sum(errors) / len(errors)) < 0.02


def test_nothing_is_said_of_all_from_a_time_at_which_a_rate_was_0():
    queued, decided, _ = simulate_reviews(1, (0.5, 0.5))
    rule = SimpleNamespace(review='{"failedRate": 1}', updated_at=CHANGE + SCORES)
    assert estimate_correct_rate(queued, decided, rule, CHANGE + 2 * SCORES) is None
    assert estimate_correct_rate(queued, decided, rule, CHANGE + SCORES).value > 0.5


def test_days_at_the_limit_count_the_scores_of_all_tenants(serve):
    api = serve(api_key="admin", online=ONLINE)
    admin, keys = {"Authorization": "Bearer admin"}, {}
    for tenant in ("red", "blue"):
        body = {"name": tenant, "role": "EDITOR", "tenantId": tenant}
        key = api.post("/api/v1/api-keys", json=body, headers=admin).json()["key"]
        keys[tenant] = {"Authorization": f"Bearer {key}"}
    project = project_of(api, headers=admin)
    rule = add_rule(api, project, contains(review={"maxPerDay": 1000}), headers=admin)
    for tenant in ("red", "blue"):
        export(api, span("wrong"), headers=keys[tenant])
    wait_for_end(api, 2)
    day = rows(api, TRACE_EVAL_REVIEWS)[0]["day"]
    same_day = update(TRACE_EVAL_REVIEWS).values(day=day)  # also where the test ran at midnight
    api.portal.call(api.app.state.database.write, lambda connection: connection.execute(same_day).rowcount)

    counts = {}
    for limit in (2, 3):
        path = f"{RULES.format(project)}/{rule['id']}"
        body = contains(review={"maxPerDay": limit})
        assert api.put(path, json=body, headers=admin).status_code == 200
        reviews = api.get(f"{path}/stats", headers=keys["red"]).json()["reviews"]
        assert reviews["failed"]["queuedCount"] == 1
        counts[limit] = reviews["limitedDayCount"]
    assert counts == {2: 1, 3: 0}
