"""Production traces are matched by rules and scored: once each, by a model or without one."""

import json
import threading
from dataclasses import replace

import pytest
from tests.server.eval_rules import (
    KEY,
    RULES,
    add_rule,
    connect,
    contains,
    documented,
    export,
    project_of,
    read_jobs,
    span,
    wait_for_jobs,
    wait_until,
    wait_until_matched,
)
from tests.servers.scripted import ScriptedServer, status, too_many

from dokimos.server._judge_settings import JudgeSettings
from dokimos.server._online_settings import OnlineSettings
from dokimos.server._services.encryption import secret_vault
from dokimos.server._services.online.trace_jobs import read_eval_jobs
from dokimos.server._workers.online_batch import OnlineBatch
from dokimos.server._workers.online_matching import OnlineMatching

pytest.importorskip("cryptography", reason="the extra 'encryption' is not installed")

ONLINE = OnlineSettings(poll_seconds=0.05, quiet_seconds=0.1)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(secret_vault, "_ITERATIONS", 10)
    monkeypatch.setattr("dokimos.server._workers.online_batch._RETRY_SECONDS", 0.05)


@pytest.fixture
def api(serve):
    return serve(encryption_keys=("passphrase",), online=ONLINE)


@pytest.fixture
def project(api):
    return project_of(api)


@pytest.fixture
def model():
    with ScriptedServer(answer=rate, key=KEY) as server:
        yield server


def rate(prompt):
    return json.dumps({"reason": "It is so.", "score": 1 if "a good answer" in prompt else 0})


def test_the_documented_rule_scores_a_matching_span(api, project, model):
    rule = add_rule(api, project, documented(connect(api, model.url)))
    good, bad, other = span(), span("wrong"), span(name="db.query")

    export(api, good, bad, other)

    by_span = {job["span_id"]: job for job in wait_for_jobs(api, 2)}
    assert set(by_span) == {good["spanId"], bad["spanId"]}
    assert (by_span[good["spanId"]]["score"], by_span[good["spanId"]]["success"]) == (1.0, True)
    assert (by_span[bad["spanId"]]["score"], by_span[bad["spanId"]]["success"]) == (0.0, False)
    assert len(model.received) == 2
    assert "What is the capital of France?" in model.received[0].prompt
    job = by_span[good["spanId"]]
    read = api.app.state.traces.read
    (shown,) = api.portal.call(read, lambda connection: read_eval_jobs(connection, job["trace"]))
    assert list(shown) == [
        "id", "spanId", "ruleId", "evaluatorName", "status", "score", "success", "reason", "attemptCount",
        "lastError", "createdAt", "completedAt",
    ]  # fmt: skip
    assert (shown["ruleId"], shown["evaluatorName"], shown["status"]) == (
        rule["id"],
        "helpfulness",
        "SUCCEEDED",
    )
    assert (shown["reason"], shown["attemptCount"], shown["lastError"]) == ("It is so.", 1, None)


def test_a_span_that_is_sent_again_is_scored_once(api, project):
    add_rule(api, project, contains())
    one = span()
    export(api, one)
    wait_for_jobs(api, 1)

    export(api, one, span(trace=one["traceId"]))

    jobs = wait_for_jobs(api, 2)
    wait_until_matched(api)
    assert len(jobs) == len(read_jobs(api)) == 2


@pytest.mark.parametrize(
    ("rule", "matched"),
    [
        ({"matchValue": "LLM.generate"}, []),
        ({"matchValue": "llm"}, []),
        ({"matchType": "ATTRIBUTE", "matchKey": "env", "matchValue": "prod"}, ["a"]),
        ({"matchType": "ATTRIBUTE", "matchKey": "dokimos.project", "matchValue": "chat"}, ["a", "b"]),
        ({"matchType": "WILDCARD", "matchValue": "llm.*"}, ["a", "b"]),
        ({"matchType": "WILDCARD", "matchValue": "llm.[g]*"}, []),
        ({"matchType": "WILDCARD", "matchKey": "env", "matchValue": "pr?d"}, ["a"]),
        ({"matchType": "PATTERN", "matchKey": "env", "matchValue": "^(prod|test)$"}, ["a"]),
        (
            {
                "conditions": {
                    "any": [
                        {"matchType": "ATTRIBUTE", "matchKey": "env", "matchValue": "prod"},
                        {"matchType": "ATTRIBUTE", "matchKey": "env", "matchValue": "dev"},
                    ]
                }
            },
            ["a", "b"],
        ),
        (
            {
                "conditions": {
                    "all": [
                        {"matchType": "ATTRIBUTE", "matchKey": "env", "matchValue": "prod"},
                        {"matchType": "ATTRIBUTE", "matchKey": "env", "matchValue": "dev"},
                    ]
                }
            },
            [],
        ),
    ],
)
def test_what_a_rule_matches(api, project, rule, matched):
    add_rule(api, project, contains(**rule))
    spans = {"a": span(env="prod"), "b": span(env="dev")}

    export(api, *spans.values())
    wait_until_matched(api)

    assert {job["span_id"] for job in read_jobs(api)} == {spans[name]["spanId"] for name in matched}


def test_a_span_without_output_or_of_an_evaluation_makes_no_job(api, project):
    add_rule(api, project, contains())

    export(api, span(None), span("  "), span(**{"gen_ai.evaluation.name": "helpfulness"}))
    wait_until_matched(api)

    assert read_jobs(api) == []


def test_a_rule_that_is_not_enabled_stops_what_is_queued(api, project):
    rule = add_rule(api, project, contains(enabled=False))
    path = f"{RULES.format(project)}/{rule['id']}"
    export(api, span())
    wait_until_matched(api)
    assert read_jobs(api) == []

    api.put(path, json=contains())
    export(api, span())
    wait_for_jobs(api, 1)


def test_an_unanswered_call_is_tried_again_and_then_an_error_without_a_score(api, project, model):
    model.script.extend([status(500)] * 100)
    add_rule(api, project, documented(connect(api, model.url)))

    export(api, span())

    (job,) = wait_for_jobs(api, 1)
    assert (job["status"], job["score"], job["success"], job["attempt_count"]) == ("FAILED", None, None, 3)
    assert job["last_error"]


def test_a_rate_limit_is_waited_for(api, project, model):
    model.script.extend([too_many(0)] * 2)
    add_rule(api, project, documented(connect(api, model.url)))

    export(api, span())

    (job,) = wait_for_jobs(api, 1)
    assert (job["status"], job["attempt_count"], job["score"]) == ("SUCCEEDED", 1, 1.0)


def test_a_reply_that_cannot_be_used_is_an_error_and_never_a_score(api, project, model):
    model.answer = "It is quite nice."
    add_rule(api, project, documented(connect(api, model.url)))

    export(api, span())

    (job,) = wait_for_jobs(api, 1)
    assert (job["status"], job["score"], job["error_kind"]) == ("FAILED", None, "unreadable")


def test_a_budget_of_a_rule_holds_for_the_day_or_until_it_is_raised(api, project, model):
    body = documented(connect(api, model.url), budget={"maxCalls": 2})
    rule = add_rule(api, project, body)

    export(api, *(span(f"a good answer {number}") for number in range(5)))

    expected = ["PENDING"] * 3 + ["SUCCEEDED"] * 2
    wait_until(lambda: sorted(job["status"] for job in read_jobs(api)) == expected)
    assert len(model.received) == 2

    path, raised = f"{RULES.format(project)}/{rule['id']}", {**body, "budget": {"maxCalls": 4}}
    assert api.put(path, json=raised).status_code == 200
    expected = ["PENDING"] + ["SUCCEEDED"] * 4
    wait_until(lambda: sorted(job["status"] for job in read_jobs(api)) == expected)
    assert api.put(path, json=body | {"budget": None}).status_code == 200
    assert len({job["span_id"] for job in wait_for_jobs(api, 5)}) == len(model.received) == 5


def test_a_budget_that_is_raised_while_its_last_calls_are_made_is_not_waited_for(api, project, model):
    called, may_answer = threading.Event(), threading.Event()

    def answer(prompt):
        called.set()
        may_answer.wait(30)
        return rate(prompt)

    model.answer = answer
    body = documented(connect(api, model.url), budget={"maxCalls": 2})
    rule = add_rule(api, project, body)

    export(api, *(span(f"a good answer {number}") for number in range(5)))
    assert called.wait(30)
    assert api.put(f"{RULES.format(project)}/{rule['id']}", json=body | {"budget": None}).status_code == 200
    may_answer.set()

    assert {job["status"] for job in wait_for_jobs(api, 5)} == {"SUCCEEDED"}


def test_a_budget_of_the_project_holds_for_rules_too(serve, model):
    from dokimos.judges import Budget

    judging = JudgeSettings(project_budget_per_day=Budget(max_calls=1))
    api = serve(encryption_keys=("passphrase",), online=ONLINE, judging=judging)
    add_rule(api, project_of(api), documented(connect(api, model.url)))

    export(api, span("a good answer 1"), span("a good answer 2"))

    wait_for_jobs(api, 1)
    assert len(model.received) == 1


def test_a_deleted_rule_takes_its_results_along(api, project):
    rule = add_rule(api, project, contains())
    export(api, span())
    wait_for_jobs(api, 1)

    assert api.delete(f"{RULES.format(project)}/{rule['id']}").status_code == 204

    wait_until(lambda: read_jobs(api) == [])


def test_a_parent_a_trace_and_a_session_are_scored_when_they_are_quiet(api, project, monkeypatch):
    match_quiet, is_whole = OnlineMatching._match_quiet, threading.Event()

    async def match_when_whole(matching):  # however long the rest of the trace takes on a slow machine
        return await match_quiet(matching) if is_whole.is_set() else 0

    monkeypatch.setattr(OnlineMatching, "_match_quiet", match_when_whole)
    for scope in ("parent", "trace", "session"):
        add_rule(api, project, contains("root", name=scope, scope=scope))
    root = span("the root answer", name="agent")
    child = span("part", trace=root["traceId"], parent=root["spanId"], **{"session.id": "s-1"})

    export(api, child)
    export(api, root)
    is_whole.set()

    jobs = wait_for_jobs(api, 3)
    assert {job["span_id"] for job in jobs} == {root["spanId"]}
    assert len({job["rule_id"] for job in jobs}) == 3


def test_sampling_is_decided_by_the_trace_and_its_probability_is_kept(api, project):
    strata = [
        {
            "name": "prod",
            "conditions": {"matchType": "ATTRIBUTE", "matchKey": "env", "matchValue": "prod"},
            "rate": 1.0,
        }
    ]
    add_rule(api, project, contains(sampling={"rate": 0.5, "strata": strata}))
    spans = [span() for _ in range(100)]
    always = span(env="prod")

    export(api, *spans, always)
    wait_until_matched(api)

    first = read_jobs(api)
    assert 25 < len(first) < 77
    assert {(job["probability"], job["stratum"]) for job in first} == {(0.5, None), (1.0, "prod")}
    add_rule(api, project, contains(name="again", sampling={"rate": 0.5}))
    export(api, *(span(trace=each["traceId"]) for each in spans))
    wait_until_matched(api)
    again = {job["trace"] for job in read_jobs(api)} - {job["trace"] for job in first}
    assert again == set()


def test_a_trial_says_what_a_rule_would_match_and_cost_and_stores_nothing(api, project, model):
    connection = connect(api, model.url, inputPricePerMillion=1.0, outputPricePerMillion=10.0)
    export(api, *(span() for _ in range(20)), span(name="other"))
    rule = documented(connection, sampling={"rate": 0.5})

    answer = api.post(f"{RULES.format(project)}/dry-run", json=rule)

    assert answer.status_code == 200, answer.text
    trial = answer.json()
    assert (trial["traceCount"], trial["matchCount"], trial["isComplete"]) == (21, 20, True)
    assert 0 < trial["sampledCount"] < 20
    assert trial["forecast"]["costUsdPerDay"] > 0
    assert trial["forecast"]["tokensPerJob"] > 300
    assert trial["examples"]
    assert (read_jobs(api), model.received) == ([], [])
    assert api.get(RULES.format(project)).json() == []


def test_a_back_fill_scores_stored_traces_once(api, project):
    export(api, *(span(number) for number in ("good", "bad", "good one")))
    rule = add_rule(api, project, contains())
    path = f"{RULES.format(project)}/{rule['id']}"
    since = {"from": "2020-01-01T00:00:00Z"}

    begun = api.post(f"{path}/back-fill", json=since)

    assert begun.status_code == 202, begun.text
    jobs = wait_for_jobs(api, 3)
    assert sorted(job["score"] for job in jobs) == [0.0, 1.0, 1.0]

    def last():
        return api.get(f"{path}/back-fills").json()[0]

    wait_until(lambda: last()["status"] == "SUCCEEDED")
    assert (last()["traceCount"], last()["jobCount"]) == (3, 3)
    api.post(f"{path}/back-fill", json=since)
    wait_until(lambda: last()["status"] == "SUCCEEDED")
    assert (last()["jobCount"], len(read_jobs(api))) == (0, 3)


def test_estimates_are_weighted_by_the_sampling_and_leave_errors_apart(api, project):
    strata = [
        {
            "name": "prod",
            "conditions": {"matchType": "ATTRIBUTE", "matchKey": "env", "matchValue": "prod"},
            "rate": 1.0,
        }
    ]
    rule = add_rule(api, project, contains(sampling={"rate": 0.25, "strata": strata}))
    bad, good = [span("bad", env="prod") for _ in range(20)], [span("good") for _ in range(80)]
    export(api, *bad, *good)
    wait_until_matched(api)
    jobs = wait_for_jobs(api, len(read_jobs(api)))

    answer = api.get(f"{RULES.format(project)}/{rule['id']}/stats")

    assert answer.status_code == 200, answer.text
    stats = answer.json()
    sampled = len(jobs) - 20
    expected = 4 * sampled / (4 * sampled + 20)
    assert stats["scoredCount"] == len(jobs)
    assert (stats["errorCount"], stats["openCount"], stats["isComplete"]) == (0, 0, True)
    rate = stats["passRate"]
    assert rate["value"] == pytest.approx(expected)
    assert rate["low"] < rate["value"] < rate["high"]
    assert (rate["n"], rate["sampledShare"]) == (
        len(jobs),
        pytest.approx(len(jobs) / (20 + 4 * sampled)),
    )
    assert stats["meanScore"]["value"] == pytest.approx(expected)


def test_estimates_of_nothing_are_unknown(api, project):
    rule = add_rule(api, project, contains())

    stats = api.get(f"{RULES.format(project)}/{rule['id']}/stats").json()

    assert (stats["scoredCount"], stats["passRate"], stats["meanScore"]) == (0, None, None)


def test_a_tenants_rule_scores_only_what_is_its_own(serve):
    api = serve(api_key="admin", encryption_keys=("passphrase",), online=ONLINE)
    admin = {"Authorization": "Bearer admin"}
    keys = {}
    for tenant in ("red", "blue"):
        body = {"name": tenant, "role": "EDITOR", "tenantId": tenant}
        key = api.post("/api/v1/api-keys", json=body, headers=admin).json()["key"]
        keys[tenant] = {"Authorization": f"Bearer {key}"}
    project = project_of(api, headers=admin)
    red = add_rule(api, project, contains(), headers=keys["red"])
    shared = add_rule(api, project, contains(), headers=admin)

    export(api, span(), headers=keys["red"])
    export(api, span(), headers=keys["blue"])

    jobs = wait_for_jobs(api, 3)
    wait_until_matched(api)
    assert sorted((job["tenant_id"], job["rule_id"]) for job in read_jobs(api)) == sorted(
        [("red", red["id"]), ("red", shared["id"]), ("blue", shared["id"])]
    )
    assert len(jobs) == 3


def test_disabling_a_rule_stops_its_queued_jobs_until_it_is_enabled_again(serve, model, monkeypatch):
    gate, stop = threading.Event(), OnlineBatch.stop

    def stop_and_open(batch, **options):
        stop(batch, **options)
        gate.set()

    def answer(prompt):
        gate.wait(60)
        return rate(prompt)

    monkeypatch.setattr(OnlineBatch, "stop", stop_and_open)
    model.answer = answer
    online = replace(ONLINE, max_concurrency=1)
    api = serve(encryption_keys=("passphrase",), online=online)
    project, connection = project_of(api), connect(api, model.url)
    path = f"{RULES.format(project)}/{add_rule(api, project, documented(connection))['id']}"
    export(api, *(span(f"a good answer {number}") for number in range(10)))
    wait_until(lambda: len(model.received) == 1)

    api.put(path, json=documented(connection, enabled=False))

    wait_until(lambda: sorted(job["status"] for job in read_jobs(api)) == ["PENDING"] * 9 + ["SUCCEEDED"])
    assert len(model.received) == 1
    assert all(job["lease"] is None for job in read_jobs(api) if job["status"] == "PENDING")
    api.put(path, json=documented(connection))
    assert {job["status"] for job in wait_for_jobs(api, 10)} == {"SUCCEEDED"}
    assert len(model.received) == 10
