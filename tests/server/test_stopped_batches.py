"""Batches of online evaluation that are told to stop: nothing is lost by it, and nothing is paid twice."""

import json
import threading
from collections import Counter

import pytest
from tests.server.clock_steps import set_a_day_ahead
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
)
from tests.servers.scripted import ScriptedServer

from dokimos.server._online_settings import OnlineSettings
from dokimos.server._services.encryption import secret_vault
from dokimos.server._workers.online_batch import OnlineBatch

pytest.importorskip("cryptography", reason="the extra 'encryption' is not installed")

NUMBER = 6
VERDICTS = [{"verdict": "yes", "reason": "So."}]


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(secret_vault, "_ITERATIONS", 10)
    monkeypatch.setattr("dokimos.server._workers.online_batch._RETRY_SECONDS", 0.0)  # due at once


@pytest.fixture
def is_told(monkeypatch):
    """Set as soon as a batch is told to stop."""
    told, stop = threading.Event(), OnlineBatch.stop

    def stop_and_say_so(batch, **options):
        stop(batch, **options)
        told.set()

    monkeypatch.setattr(OnlineBatch, "stop", stop_and_say_so)
    return told


@pytest.fixture
def model():
    with ScriptedServer(key=KEY) as server:
        yield server


def count_attempts(monkeypatch):
    """How many batches of each rule were begun or taken over, by its id."""
    attempts, run = Counter(), OnlineBatch.run

    async def run_and_count(batch):
        attempts[batch.batch.rule_id] += 1
        await run(batch)

    monkeypatch.setattr(OnlineBatch, "run", run_and_count)
    return attempts


def wait_for_idleness(api):
    """Wait until no batch is worked on."""
    wait_until(lambda: "dokimos_trace_eval_batches_running 0" in api.get("/metrics").text)


def serve_one_by_one(serve, **online):
    settings = OnlineSettings(poll_seconds=0.05, quiet_seconds=0.1, max_concurrency=1, **online)
    api = serve(encryption_keys=("passphrase",), online=settings)
    return api, project_of(api)


def test_a_rule_that_is_disabled_in_its_last_attempt_fails_nothing_that_was_not_tried(serve, model, is_told):
    is_down, second = threading.Event(), threading.Event()
    is_down.set()

    def answer(prompt):
        if "answer 0" in prompt and is_down.is_set():
            raise ConnectionError("the model is down")
        second.set()
        is_told.wait(60)
        return json.dumps({"reason": "It is so.", "score": 1})

    model.answer = answer
    api, project = serve_one_by_one(serve, max_attempts=1)
    body = documented(connect(api, model.url))
    path = f"{RULES.format(project)}/{add_rule(api, project, body)['id']}"
    one = span("answer 0")
    export(api, one, *(span(f"answer {n}", trace=one["traceId"]) for n in range(1, NUMBER)))
    assert second.wait(60)

    assert api.put(path, json=body | {"enabled": False}).status_code == 200

    stopped = ["PENDING"] * (NUMBER - 1) + ["SUCCEEDED"]
    wait_until(lambda: sorted(job["status"] for job in read_jobs(api)) == stopped)
    is_down.clear()
    assert api.put(path, json=body).status_code == 200
    assert {job["status"] for job in wait_for_jobs(api, NUMBER)} == {"SUCCEEDED"}


def test_a_job_that_waits_is_left_alone_while_its_rule_is_disabled_and_then_pays_no_call_again(
    serve, model, monkeypatch
):
    asked, may_fail = Counter(), threading.Event()
    may_fail.set()

    def answer(prompt):
        task = prompt[:30]  # behind it, each prompt has a random marker
        if asked and task not in asked and may_fail.is_set():
            raise ConnectionError("the model is down")
        asked[task] += 1
        return json.dumps({"statements": ["One."], "verdicts": VERDICTS, "reason": "So.", "score": 1})

    model.answer = answer
    attempts = count_attempts(monkeypatch)
    api, project = serve_one_by_one(serve, max_attempts=100)
    body = documented(connect(api, model.url), evaluator={"type": "answer_relevancy", "params": {}})
    for field in ("criteria", "minScore", "maxScore", "threshold"):
        del body[field]
    rule = add_rule(api, project, body)["id"]
    path = f"{RULES.format(project)}/{rule}"
    export(api, span())
    wait_until(lambda: any(job["attempt_count"] for job in read_jobs(api)))

    api.put(path, json=body | {"enabled": False})
    wait_for_idleness(api)
    before = attempts[rule]
    # What is due is taken over before what comes later.
    add_rule(api, project, contains(name="other", matchValue="other"))
    export(api, span(name="other"))
    wait_for_jobs(api, 1)
    wait_for_idleness(api)
    assert attempts[rule] == before
    may_fail.clear()
    api.put(path, json=body)

    jobs = wait_for_jobs(api, 2)
    assert {job["status"] for job in jobs} == {"SUCCEEDED"}, jobs
    assert len(asked) > 1
    assert set(asked.values()) == {1}, asked


def test_what_is_refused_before_midnight_and_given_back_after_it_does_not_wait_for_another_day(
    serve, model, monkeypatch
):
    model.answer = json.dumps({"reason": "It is so.", "score": 1})
    set_a_day_ahead(monkeypatch, "_workers.online_batch")
    api, project = serve_one_by_one(serve)
    add_rule(api, project, documented(connect(api, model.url), budget={"maxCalls": 1}))
    export(api, span("answer 1"), span("answer 2"))
    wait_until(lambda: any(job["last_error"] for job in read_jobs(api)))

    set_a_day_ahead(monkeypatch, "_services.judging.judge_call_rows", "_services.judging.judge_leases")

    assert {job["status"] for job in wait_for_jobs(api, 2)} == {"SUCCEEDED"}
