"""What clients of the documented server send: nulls for what they have not, and nothing that we added."""

import json

import pytest

ITEM_OF_A_REPORTER = {
    "inputs": {"input": "What is the capital of Japan?"},
    "expectedOutputs": {"output": "Tokyo"},
    "actualOutputs": {"output": "Tokyo"},
    "metadata": {},
    "evalResults": [
        {
            "name": "exact-match",
            "score": 1.0,
            "threshold": 1.0,
            "success": True,
            "reason": "Match",
            "metadata": {},
        },
        {"name": "length", "score": 5, "threshold": None, "success": True, "reason": None, "metadata": None},
    ],
    "success": True,
    "datasetItemId": None,
    "tokensIn": None,
    "tokensOut": None,
    "costUsd": None,
    "latencyMs": None,
}


def test_a_reporter_that_sends_name_and_metadata_alone(api):
    created = api.post("/api/v1/projects/my-project/runs", json={"experimentName": "qa", "metadata": {}})
    run = created.json()["runId"]
    sent = [
        api.post(
            f"/api/v1/runs/{run}/items",
            json={"items": [ITEM_OF_A_REPORTER] * size},
            headers={"Idempotency-Key": f"batch-{size}"},
        )
        for size in (10, 3)
    ]
    ended = api.patch(f"/api/v1/runs/{run}", json={"status": "SUCCESS"})

    assert created.status_code == 201
    assert list(created.json()) == ["runId"]
    assert [answer.status_code for answer in sent] == [201, 201]
    assert ended.status_code == 200
    details = api.get(f"/api/v1/runs/{run}").json()
    assert (details["status"], details["totalItems"], details["passRate"]) == ("SUCCESS", 13, 1.0)
    assert details["config"] == {}
    assert details["totalCostUsd"] is None
    assert details["items"]["content"][0]["evalResults"][1]["reason"] is None


def test_an_item_of_nulls(api):
    run = api.post("/api/v1/projects/p/runs", json={"experimentName": "e", "metadata": None}).json()["runId"]
    nulls = dict.fromkeys(ITEM_OF_A_REPORTER) | {"success": False}

    answer = api.post(f"/api/v1/runs/{run}/items", json={"items": [nulls, {}]})

    assert answer.status_code == 201, answer.text
    first, second = api.get(f"/api/v1/runs/{run}").json()["items"]["content"]
    assert (first["input"], first["expectedOutput"], first["actualOutput"]) == ({}, None, {})
    assert first["evalResults"] == second["evalResults"] == []


def test_fields_that_the_server_does_not_know_are_ignored(api):
    body = {"experimentName": "e", "futureField": {"a": 1}}
    run = api.post("/api/v1/projects/p/runs", json=body).json()["runId"]

    answer = api.post(
        f"/api/v1/runs/{run}/items", json={"items": [{**ITEM_OF_A_REPORTER, "future": 1}], "x": 2}
    )

    assert answer.status_code == 201


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/api/v1/projects/p/runs", {"experimentName": "e"}, 201),
        ("POST", "/api/v1/runs/{run}/items", {"items": [ITEM_OF_A_REPORTER]}, 201),
        ("PATCH", "/api/v1/runs/{run}", {"status": "SUCCESS"}, 200),
    ],
)
def test_a_body_without_a_content_type_is_json_for_a_bearer_only(serve, method, path, body, status):
    api = serve(api_key="sesame")
    bearer = {"Authorization": "Bearer sesame"}
    run = api.post("/api/v1/projects/p/runs", json={"experimentName": "e"}, headers=bearer).json()["runId"]

    answer = api.request(method, path.format(run=run), content=json.dumps(body).encode(), headers=bearer)

    assert "content-type" not in answer.request.headers
    assert answer.status_code == status, answer.text


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_a_body_that_a_page_of_another_site_could_send_is_refused(api, content_type):
    headers = {} if content_type is None else {"Content-Type": content_type}

    answer = api.post("/api/v1/projects/p/runs", content=b'{"experimentName": "e"}', headers=headers)

    assert answer.status_code == 415
    assert "application/json" in answer.json()["message"]
    assert api.get("/api/v1/projects").json() == []


def test_an_error_has_the_documented_body(api):
    answer = api.get("/api/v1/runs/00000000-0000-7000-8000-000000000000")

    assert answer.status_code == 404
    assert sorted(answer.json()) == ["error", "message", "timestamp"]
    assert answer.json()["error"] == "Not Found"
    assert answer.json()["timestamp"].endswith("Z")


def test_a_missing_key_and_a_role_that_is_too_low_have_a_body_of_one_field(serve):
    api = serve(api_key="sesame")
    admin = {"Authorization": "Bearer sesame"}
    body = {"name": "viewer", "role": "VIEWER"}
    created = api.post("/api/v1/api-keys", json=body, headers=admin)
    viewer = {"Authorization": f"Bearer {created.json()['key']}"}
    run = {"experimentName": "e"}

    missing = api.post("/api/v1/projects/p/runs", json=run)
    wrong = api.post("/api/v1/projects/p/runs", json=run, headers={"Authorization": "Bearer no"})
    low = api.post("/api/v1/projects/p/runs", json=run, headers=viewer)

    assert created.status_code == 201
    assert created.json()["key"].startswith("dok_")
    documented = {"createdAt", "enabled", "id", "lastUsedAt", "name", "role", "tenantId"}
    assert documented <= created.json()["apiKey"].keys()
    assert (missing.status_code, missing.json()) == (401, {"error": "Invalid or missing API key"})
    assert (wrong.status_code, wrong.json()) == (401, {"error": "Invalid or missing API key"})
    assert (low.status_code, low.json()) == (403, {"error": "Insufficient role: EDITOR required"})
    assert api.get("/api/v1/projects").status_code == 200
