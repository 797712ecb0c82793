"""How far each reviewer is, what is left, and the names of those who are at an item."""

import pytest
from tests.server.test_access import ADMIN, bearer
from tests.server.test_review_queue import QUEUE, item, start

PROGRESS = f"{QUEUE}/progress"


@pytest.fixture
def api(serve):
    return serve(api_key="admin-key")


def make_reviewer(api, name, tenant=None):
    body = {"name": name, "role": "EDITOR", "tenantId": tenant}
    answer = api.post("/api/v1/api-keys", json=body, headers=ADMIN).json()
    return answer["apiKey"]["id"], bearer(answer["key"])


def progress(api, headers=ADMIN, **query):
    answer = api.get(PROGRESS, params=query, headers=headers)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    return found["left"], [
        (each["name"], each["reviewed"], each["claimed"], each["assigned"]) for each in found["reviewers"]
    ]


def test_each_reviewer_has_a_name_and_what_it_has_done_and_is_at(api):
    run = start(api, *(item(n) for n in range(6)), headers=ADMIN)
    start(api, item(1), project="other", headers=ADMIN)
    (ann, ann_key), (bob, bob_key) = (make_reviewer(api, name) for name in ("Ann", "Bob"))
    _, acme = make_reviewer(api, "Kim of acme", "acme")
    ids = [each["itemId"] for each in api.get(QUEUE, headers=ADMIN, params={"runId": run}).json()["content"]]
    for reviewer, chosen in ((bob_key, ids[:2]), (ann_key, ids[:1])):
        for each in chosen:
            path = f"/api/v1/runs/{run}/items/{each}/review"
            assert api.put(path, json={"verdict": "CORRECT"}, headers=reviewer).status_code == 200
    claimed = api.post(f"{QUEUE}/claim", json={"count": 1, "runId": run}, headers=ann_key)
    assert claimed.json()["items"][0]["claim"]["reviewerName"] == "Ann"
    assign = {"itemIds": [ids[5]], "reviewer": bob}
    assert api.post(f"{QUEUE}/assign", json=assign, headers=ADMIN).status_code == 204

    assert progress(api) == (5, [("Bob", 2, 0, 1), ("Ann", 1, 1, 0)])
    assert progress(api, projectName="other") == (1, [])
    assert progress(api, runId=run, days=1)[0] == 4
    rows = api.get(QUEUE, headers=bob_key, params={"runId": run}).json()["content"]
    at = {row["claim"]["reviewer"]: row["claim"]["reviewerName"] for row in rows if row["claim"]}
    assert at == {ann: "Ann", bob: "Bob"}

    left, anonymous = progress(api, {})
    assert (left, [each[0] for each in anonymous]) == (5, [None, None]), "names need a key"
    path = f"/api/v1/runs/{run}/items/{ids[4]}/review"
    assert api.put(path, json={"verdict": "CORRECT"}, headers=acme).status_code == 200
    assert ("Kim of acme", 1, 0, 0) in progress(api, acme)[1]
    _, zeta = make_reviewer(api, "Zoe", "zeta")
    assert "Kim of acme" not in [each[0] for each in progress(api, zeta)[1]]
    assert api.get(PROGRESS, params={"projectName": "none"}, headers=ADMIN).status_code == 404
