"""Which runs used a dataset: of all experiments, or of one version, as far as the caller sees them."""

from tests.server.test_access import ADMIN, make_key
from tests.server.test_datasets import PARIS


def start(api, project, version, headers=ADMIN):
    body = {"experimentName": "qa", "datasetName": "capitals", "datasetVersion": version}
    answer = api.post(f"/api/v1/projects/{project}/runs", json=body, headers=headers)
    assert answer.status_code == 201, answer.text
    return answer.json()["runId"]


def test_runs_that_used_a_dataset_are_listed_by_version_and_page(serve):
    api = serve(api_key="admin-key")
    api.post("/api/v1/datasets", json={"name": "capitals"}, headers=ADMIN)
    versions = [
        api.post("/api/v1/datasets/capitals/versions", json={"items": [PARIS]}, headers=ADMIN).json()
        for _ in range(2)
    ]
    acme = make_key(api, tenant="acme")
    first, second = start(api, "chat", 1), start(api, "rag", 2)
    own = start(api, "chat", 2, acme)
    api.post("/api/v1/projects/chat/runs", json={"experimentName": "qa"}, headers=ADMIN)
    results = [{"name": "exact", "score": score, "success": score == 1.0} for score in (1.0, 0.0)]
    items = [{"inputs": {"q": "?"}, "actualOutputs": {}, "evalResults": [result]} for result in results]
    api.post(f"/api/v1/runs/{first}/items", json={"items": items}, headers=ADMIN)

    def ids(path="/api/v1/datasets/capitals/runs", headers=ADMIN, **query):
        answer = api.get(path, params=query, headers=headers)
        assert answer.status_code == 200, answer.text
        return [run["id"] for run in answer.json()]

    assert ids() == [own, second, first]
    assert ids(limit=1, after=second) == [first]
    assert ids(datasetVersionId=versions[1]["id"], sort="startedAt") == [second, own]
    assert ids(headers={}) == [second, first], "what belongs to a tenant is not everybody's"
    run = api.get("/api/v1/datasets/capitals/runs", headers=ADMIN).json()[2]
    named = ("version", "experimentName", "projectName", "totalItems", "passRate")
    assert [run[name] for name in named] == [1, "qa", "chat", 2, 0.5]

    [experiment] = api.get("/api/v1/projects/chat/experiments", headers=ADMIN).json()
    runs = f"/api/v1/experiments/{experiment['id']}/runs"
    assert len(ids(runs)) == 3
    assert ids(runs, datasetVersionId=versions[0]["id"]) == [first]
    assert api.delete("/api/v1/projects/rag", headers=ADMIN).status_code == 204
    assert ids() == [own, first]
