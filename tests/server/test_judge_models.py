"""Judge jobs that ask a model: the documented judge, and a model that does what models do."""

import json
import threading

import pytest
from tests.server.gate_runs import send, start
from tests.server.judge_runs import (
    answered,
    begin,
    job_of,
    read_run,
    score,
    scores_of,
    stored_run,
    wait_for_job,
)
from tests.servers.scripted import ScriptedServer, raw, slow, status, too_many

from dokimos._http.address_policy import AddressPolicy
from dokimos.errors import JudgeUnavailableError
from dokimos.judges import Budget
from dokimos.server._judge_settings import JudgeSettings
from dokimos.server._services.encryption import secret_vault
from dokimos.server._workers.judge_faults import WatchedJudge

pytest.importorskip("cryptography", reason="the extra 'encryption' is not installed")

KEY = "sk-not-a-real-key-1234567890"


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(secret_vault, "_ITERATIONS", 10)
    monkeypatch.setattr("dokimos.server._workers.judge_run._RETRY_SECONDS", 0.05)


@pytest.fixture
def api(serve):
    return serve(encryption_keys=("passphrase",), judging=JudgeSettings(poll_seconds=0.05))


@pytest.fixture
def model():
    with ScriptedServer(answer=rate, key=KEY) as server:
        yield server


def rate(prompt):
    """4 of 5 where the output is good, else 2."""
    return json.dumps({"reason": "It is so.", "score": 4 if "a good answer" in prompt else 2})


def connect(api, model, **body):
    body = {"name": "judge", "baseUrl": f"{model.url}/v1", "model": "scripted", "apiKey": KEY, **body}
    answer = api.post("/api/v1/llm-connections", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def documented(connection, **body):
    return {
        "connectionId": connection,
        "evaluatorName": "helpful",
        "criteria": "The answer helps.",
        "evaluationParams": ["INPUT", "ACTUAL_OUTPUT"],
        "minScore": 1,
        "maxScore": 5,
        "threshold": 3,
        **body,
    }


def items(*outputs):
    return [answered(f"{output} answer {number}") for number, output in enumerate(outputs)]


GOOD = "This is a good answer:"


@pytest.mark.parametrize("protocol", ["RESPONSES", "CHAT_COMPLETIONS"])
def test_the_documented_judge_scores_on_its_own_scale(api, model, protocol):
    run = stored_run(api, items(GOOD, "bad", GOOD))

    job = score(api, run, **documented(connect(api, model, protocol=protocol)))

    assert (job["status"], job["scoredCount"], job["lastError"]) == ("SUCCEEDED", 3, None)
    assert (job["calls"], job["unpricedCalls"], job["lostCalls"], job["costUsd"]) == (3, 3, 0, None)
    assert job["tokens"] > 0
    assert scores_of(api, run, "helpful") == [4.0, 2.0, 4.0]
    after = read_run(api, run)
    assert (after["passedItems"], after["status"]) == (2, "SUCCESS")
    (result,) = after["items"]["content"][0]["evalResults"]
    assert (result["threshold"], result["success"], result["reason"]) == (3.0, True, "It is so.")
    assert len(model.received) == 3
    # The whole maps, whatever their keys are.
    assert '"question": "Is it so?"' in model.received[0].prompt


def test_a_reply_that_cannot_be_used_is_an_error_and_never_a_score(api, model):
    model.answer = lambda prompt: rate(prompt) if "a good answer" in prompt else "It is quite nice."
    run = stored_run(api, items(GOOD, "bad", GOOD))

    job = score(api, run, **documented(connect(api, model)))

    assert (job["status"], job["scoredCount"], job["errorCount"]) == ("SUCCEEDED", 2, 1)
    assert scores_of(api, run, "helpful") == [4.0, None, 4.0]
    (error,) = api.get(f"/api/v1/runs/{run}/judge-jobs/{job['id']}/errors").json()
    assert error["kind"] == "unreadable"
    shown = [item["judgeErrors"] for item in read_run(api, run)["items"]["content"]]
    assert [len(each) for each in shown] == [0, 1, 0]
    assert shown[1][0]["jobId"] == job["id"]

    model.answer = rate
    calls = len(model.received)
    assert api.post(f"/api/v1/runs/{run}/judge-jobs/{job['id']}/retry").status_code == 200

    job = wait_for_job(api, job)
    assert (job["scoredCount"], job["errorCount"]) == (3, 0)
    assert scores_of(api, run, "helpful") == [4.0, 2.0, 4.0]
    assert len(model.received) == calls + 1  # what has a score is not asked about again


def test_a_model_that_gives_no_usable_reply_is_not_paid_for_all_items(api, model):
    model.answer = "no"
    run = stored_run(api, items(*["bad"] * 80))

    job = score(api, run, **documented(connect(api, model), concurrency=2))

    assert job["status"] == "FAILED"
    assert "None of the first" in job["lastError"]
    assert len(model.received) < 80
    assert read_run(api, run)["status"] == "FAILED"


def test_an_item_without_an_answer_does_not_undo_a_replacement(serve, model, monkeypatch):
    api = serve(encryption_keys=("passphrase",), judging=JudgeSettings(poll_seconds=0.05, max_attempts=1))
    run = stored_run(api, items(GOOD, "bad", GOOD))
    connection = connect(api, model)
    score(api, run, **documented(connection))
    complete = WatchedJudge.complete

    async def fail_for_bad(self, prompt, *, schema=None):
        if "bad answer" in prompt:
            raise JudgeUnavailableError("The endpoint answered 500.")
        return await complete(self, prompt, schema=schema)

    monkeypatch.setattr(WatchedJudge, "complete", fail_for_bad)
    model.answer = json.dumps({"reason": "It is so.", "score": 5})

    job = score(api, run, **documented(connection, replace=True, criteria="The answer is kind."))

    assert (job["status"], job["scoredCount"], job["errorCount"]) == ("SUCCEEDED", 2, 1)
    assert scores_of(api, run, "helpful") == [5.0, None, 5.0]

    monkeypatch.setattr(WatchedJudge, "complete", complete)
    model.answer = json.dumps({"reason": "It is so.", "score": 3})
    assert api.post(f"/api/v1/runs/{run}/judge-jobs/{job['id']}/retry").status_code == 200

    job = wait_for_job(api, job)
    assert (job["status"], job["scoredCount"], job["errorCount"]) == ("SUCCEEDED", 3, 0)
    assert scores_of(api, run, "helpful") == [5.0, 3.0, 5.0]


@pytest.mark.parametrize(("code", "words"), [(401, "key"), (404, "model")])
def test_what_every_call_would_meet_ends_the_job_at_once(api, model, code, words):
    model.answer = rate
    model.script.extend([status(code, "no such thing")] * 50)
    run = stored_run(api, items(*["bad"] * 40))

    job = score(api, run, **documented(connect(api, model), concurrency=2))

    assert (job["status"], job["errorCount"]) == ("FAILED", 0)
    assert str(code) in job["lastError"]
    assert words in job["lastError"]
    assert KEY not in job["lastError"]
    assert len(model.received) < 10


def test_a_rate_limit_is_waited_for(api, model):
    model.script.extend([too_many(0.2), too_many(0.2), status(503), status(500)])
    run = stored_run(api, items(GOOD, GOOD, "bad"))

    job = score(api, run, **documented(connect(api, model)))

    assert (job["status"], job["scoredCount"], job["errorCount"]) == ("SUCCEEDED", 3, 0)


def test_a_prompt_that_is_refused_is_an_error_of_its_item(api, model):
    model.script.extend([status(400, "the prompt is too long")])
    run = stored_run(api, items(GOOD, GOOD, GOOD))

    job = score(api, run, **documented(connect(api, model), concurrency=1))

    assert (job["status"], job["scoredCount"] + job["errorCount"]) == ("SUCCEEDED", 3)


def test_a_pause_ends_no_call_and_begins_none(api, model):
    gate = threading.Event()
    model.answer = lambda prompt: (gate.wait(30), rate(prompt))[1]
    run = stored_run(api, items(*[GOOD] * 12))
    job = begin(api, run, **documented(connect(api, model), concurrency=2))
    path = f"/api/v1/runs/{run}/judge-jobs/{job['id']}"

    assert api.post(f"{path}/pause").json()["status"] == "PAUSED"
    assert api.patch(f"/api/v1/runs/{run}", json={"status": "FAILED"}).status_code == 409
    assert read_run(api, run)["status"] == "EVALUATING"
    gate.set()
    assert api.post(f"{path}/resume").status_code == 200

    assert wait_for_job(api, job)["scoredCount"] == 12
    assert len(model.received) == 12


def test_a_cancelled_job_gives_its_run_back(api, model):
    model.script.extend([slow(30.0)] * 20)
    run = stored_run(api, items(*[GOOD] * 12))
    job = begin(api, run, **documented(connect(api, model), concurrency=2))

    answer = api.post(f"/api/v1/runs/{run}/judge-jobs/{job['id']}/cancel")

    assert answer.json()["status"] == "CANCELLED"
    assert read_run(api, run)["status"] == "SUCCESS"
    assert job_of(api, job)["status"] == "CANCELLED"


def test_a_budget_ends_the_job_and_a_new_one_scores_the_rest(api, model):
    run = stored_run(api, items(*[GOOD] * 5))
    connection = connect(api, model)

    job = score(api, run, **documented(connection, budget={"maxCalls": 2}, concurrency=1))

    assert (job["status"], job["scoredCount"]) == ("FAILED", 2)
    assert "budget" in job["lastError"].lower()
    assert score(api, run, **documented(connection))["scoredCount"] == 5
    assert len(model.received) == 5
    assert read_run(api, run)["status"] == "SUCCESS"


def test_a_call_that_no_day_has_room_for_ends_the_job(serve, model):
    judging = JudgeSettings(poll_seconds=0.05, budget_per_day=Budget(max_tokens=20))
    api = serve(encryption_keys=("passphrase",), judging=judging)
    run = stored_run(api, items(GOOD, GOOD))

    job = score(api, run, **documented(connect(api, model, maxOutputTokens=100), concurrency=1))

    assert job["status"] == "FAILED"
    assert "raise the limit or lower maxOutputTokens" in job["lastError"]
    assert model.received == []
    assert read_run(api, run)["status"] == "FAILED"


def test_a_connection_that_is_deleted_takes_its_jobs_along(api, model):
    model.script.extend([slow(30.0)] * 20)
    run = stored_run(api, items(*[GOOD] * 3))
    connection = connect(api, model)
    begin(api, run, **documented(connection))

    assert api.delete(f"/api/v1/llm-connections/{connection}").status_code == 204

    assert api.get(f"/api/v1/runs/{run}/judge-jobs").json() == []
    assert read_run(api, run)["status"] == "SUCCESS"


def test_a_connection_on_which_a_job_of_another_tenant_failed_is_no_other_tenants_to_delete(serve, model):
    """Without the job, the run that it failed would count as a success again."""
    policy = AddressPolicy.parse(model.url.removeprefix("http://"))
    judging = JudgeSettings(poll_seconds=0.05, max_attempts=1)
    api = serve(api_key="k", encryption_keys=("passphrase",), address_policy=policy, judging=judging)
    admin = {"Authorization": "Bearer k"}
    body = {"name": "judge", "baseUrl": f"{model.url}/v1", "model": "scripted", "apiKey": KEY}
    shared = api.post("/api/v1/llm-connections", json=body, headers=admin).json()["id"]
    keys = {}
    for tenant in ("ada", "bob"):
        body = {"name": tenant, "role": "EDITOR", "tenantId": tenant}
        keys[tenant] = api.post("/api/v1/api-keys", json=body, headers=admin).json()["key"]
    api.headers["Authorization"] = f"Bearer {keys['ada']}"
    model.script.extend([status(400)] * 20)
    run = stored_run(api, items(GOOD))
    assert score(api, run, **documented(shared))["status"] == "FAILED"

    bob = {"Authorization": f"Bearer {keys['bob']}"}
    assert api.delete(f"/api/v1/llm-connections/{shared}", headers=bob).status_code == 409

    assert read_run(api, run)["status"] == "FAILED"


def test_a_connection_that_other_tenants_use_is_deleted_on_demand_alone(serve, model):
    policy = AddressPolicy.parse(model.url.removeprefix("http://"))
    judging = JudgeSettings(poll_seconds=0.05)
    api = serve(api_key="k", encryption_keys=("passphrase",), address_policy=policy, judging=judging)
    admin = {"Authorization": "Bearer k"}

    def key_of(tenant):
        body = {"name": tenant, "role": "EDITOR", "tenantId": tenant}
        key = api.post("/api/v1/api-keys", json=body, headers=admin).json()["key"]
        return {"Authorization": f"Bearer {key}"}

    ada, bob = key_of("ada"), key_of("bob")
    body = {"name": "judge", "baseUrl": f"{model.url}/v1", "model": "scripted", "apiKey": KEY}
    shared = api.post("/api/v1/llm-connections", json=body, headers=admin).json()["id"]
    model.script.extend([slow(30.0)] * 20)
    run = stored_run(api, items(GOOD), headers=ada)
    job = begin(api, run, headers=ada, **documented(shared))

    def delete(headers, query=""):
        answer = api.delete(f"/api/v1/llm-connections/{shared}{query}", headers=headers)
        return answer.status_code, answer.json().get("message") if answer.content else None

    for query in ("", "?force=true"):
        status, message = delete(bob, query)
        assert (status, "other tenants are using" in message) == (409, True)
        assert "force" not in message
    status, message = delete(admin)
    assert (status, "1 judge job of another tenant uses" in message) == (409, True)
    jobs = api.get(f"/api/v1/runs/{run}/judge-jobs", headers=ada).json()
    assert [each["id"] for each in jobs] == [job["id"]]

    assert delete(admin, "?force=true") == (204, None)

    assert api.get(f"/api/v1/runs/{run}/judge-jobs", headers=ada).json() == []
    assert api.get(f"/api/v1/runs/{run}", headers=ada).json()["status"] == "SUCCESS"


@pytest.mark.parametrize("fault", [raw("<html>"), raw(""), raw("null")])
def test_an_endpoint_that_speaks_nonsense_makes_no_scores(api, model, fault):
    model.script.extend([fault] * 200)
    run = start(api)
    send(api, run, items(GOOD))

    job = begin(api, run, **documented(connect(api, model)))
    api.post(f"/api/v1/runs/{run}/judge-jobs/{job['id']}/cancel")

    assert scores_of(api, run, "helpful") == [None]
