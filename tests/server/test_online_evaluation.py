"""Production traces are matched by rules and scored: once each, by a model or without one."""

import json

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


def test_a_budget_of_a_rule_holds_for_the_day(api, project, model):
    add_rule(api, project, documented(connect(api, model.url), budget={"maxCalls": 2}))

    export(api, *(span(f"a good answer {number}") for number in range(5)))

    jobs = wait_for_jobs(api, 3, "PENDING") and wait_for_jobs(api, 2)
    assert sorted(job["status"] for job in jobs) == ["PENDING"] * 3 + ["SUCCEEDED"] * 2
    assert len(model.received) == 2


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

    api.delete(f"{RULES.format(project)}/{rule['id']}")

    wait_until(lambda: read_jobs(api) == [])


def test_a_parent_a_trace_and_a_session_are_scored_when_they_are_quiet(api, project):
    for scope in ("parent", "trace", "session"):
        add_rule(api, project, contains("root", name=scope, scope=scope))
    root = span("the root answer", name="agent")
    child = span("part", trace=root["traceId"], parent=root["spanId"], **{"session.id": "s-1"})

    export(api, child)
    export(api, root)

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
