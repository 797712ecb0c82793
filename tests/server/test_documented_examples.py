"""The documented commands, sent as they are written, and the documented shape of what comes back."""

import http.client
import json
import shlex

import pytest
from tests.server import shapes
from tests.server.gate_runs import items_of

NEW_DATASET = """
curl -X POST http://localhost:8080/api/v1/datasets \\
  -H 'Content-Type: application/json' \\
  -d '{ "name": "qa-regression", "description": "Customer support QA set" }'
"""
NEW_VERSION = """
curl -X POST http://localhost:8080/api/v1/datasets/qa-regression/versions \\
  -H 'Content-Type: application/json' \\
  -d '{
    "description": "Initial import",
    "items": [
      {
        "inputs": { "question": "What is the capital of France?" },
        "expectedOutputs": { "answer": "Paris" },
        "metadata": { "category": "geography" }
      }
    ]
  }'
"""
DIFF = """
curl 'http://localhost:8080/api/v1/experiments/{experimentId}/runs/{candidateRunId}/diff?baselineRunId={baselineRunId}'
"""
REGRESSED = DIFF.rstrip()[:-1] + "&status=REGRESSED'"
GATE = """
curl -X POST http://localhost:8080/api/v1/experiments/{experimentId}/gate \\
  -H 'Content-Type: application/json' \\
  -d '{ "candidateRunId": "{candidateRunId}", "baselineRunId": "", "baselineBranch": "" }'
"""
ANNOTATE = """
curl -X PUT \\
  http://localhost:8080/api/v1/runs/{runId}/items/{itemResultId}/annotation \\
  -H 'Content-Type: application/json' \\
  -d '{
    "verdict": "INCORRECT",
    "overriddenExpectedOutput": { "answer": "Paris" },
    "note": "Model answered Lyon; gold answer is Paris."
  }'
"""
QUEUE = """
curl 'http://localhost:8080/api/v1/review-queue?projectName=my-llm-app'
"""
PROMOTE = """
curl -X POST http://localhost:8080/api/v1/datasets/promote \\
  -H 'Content-Type: application/json' \\
  -d '{
    "datasetName": "qa-regression",
    "description": "Added misses from the May run",
    "items": [
      { "itemResultId": "{itemResultId}", "overriddenExpectedOutput": { "answer": "Paris" } }
    ]
  }'
"""
NEW_KEY = """
curl -X POST http://localhost:8080/api/v1/api-keys \\
  -H 'Content-Type: application/json' \\
  -d '{ "name": "ci-pipeline", "role": "EDITOR" }'
"""
NEW_TENANT_KEY = """
curl -X POST http://localhost:8080/api/v1/api-keys \\
  -H "Authorization: Bearer $ADMIN_KEY" \\
  -d '{ "name": "team-acme", "role": "EDITOR", "tenantId": "acme" }'
"""
CONNECTION = """
curl -X POST http://localhost:8080/api/v1/llm-connections \\
  -H 'Content-Type: application/json' \\
  -d '{
    "name": "openai-judge",
    "baseUrl": "https://api.openai.com/v1",
    "model": "gpt-4o-mini",
    "protocol": "RESPONSES",
    "apiKey": "sk-..."
  }'
"""
HEALTH = "curl http://localhost:8080/actuator/health"


class Answer:
    """Status, headers and body of an answer."""

    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    def json(self):
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)


class Server:
    """Runs commands against the server at a port, as curl does."""

    def __init__(self, port):
        self.port = port

    def call(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, headers)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path):
        return self.call("GET", path).json()

    def send(self, method, path, value):
        answer = self.call(method, path, json.dumps(value), **{"Content-Type": "application/json"})
        assert answer.status < 300, answer.body
        return answer.json() if answer.body else None

    def run(self, command, **values):
        """Send what `curl` would send for a command, with values in place of its placeholders."""
        for name, value in values.items():
            command = command.replace(f"{{{name}}}", value).replace(f"${name}", value)
        words = iter(shlex.split(command.replace("\\\n", " ")))
        assert next(words) == "curl"
        method, url, headers, body = None, None, {"Accept": "*/*", "User-Agent": "curl/8.5.0"}, None
        for word in words:
            if word == "-X":
                method = next(words)
            elif word == "-H":
                name, _, value = next(words).partition(": ")
                headers[name] = value
            elif word == "-d":
                # What curl says unless told otherwise, also of what is JSON.
                headers = {"Content-Type": "application/x-www-form-urlencoded", **headers}
                body = next(words)
            else:
                url = word
        path = url.removeprefix("http://localhost:8080")
        return self.call(method or ("GET" if body is None else "POST"), path, body, **headers)


@pytest.fixture
def server(port):
    return Server(port)


def check(value, shape):
    assert shapes.problems(value, shape) == []
    return value


def run_of(server, items, experiment="qa"):
    run = server.send("POST", "/api/v1/projects/my-llm-app/runs", {"experimentName": experiment})["runId"]
    assert server.send("POST", f"/api/v1/runs/{run}/items", {"items": items}) == {"status": "ok"}
    assert server.send("PATCH", f"/api/v1/runs/{run}", {"status": "SUCCESS"}) == {"status": "updated"}
    return run


def test_a_dataset_is_created_and_read(server):
    created = server.run(NEW_DATASET)
    version = server.run(NEW_VERSION)

    assert (created.status, created.headers["location"]) == (201, "/api/v1/datasets/qa-regression")
    empty = check(created.json(), shapes.DATASET)
    assert (empty["latestVersion"], empty["latestItemCount"]) == (None, 0)
    assert (version.status, version.headers["location"]) == (201, "/api/v1/datasets/qa-regression/versions/1")
    first = check(version.json(), shapes.VERSION)
    assert (first["datasetName"], first["version"], first["itemCount"]) == ("qa-regression", 1, 1)
    assert (first["description"], first["createdBy"]) == ("Initial import", "system")
    (listed,) = server.get("/api/v1/datasets")
    assert check(listed, shapes.DATASET)["latestVersion"] == 1
    whole = check(server.get("/api/v1/datasets/qa-regression"), shapes.DATASET_WITH_VERSIONS)
    assert [each["version"] for each in whole["versions"]] == [1]
    for name in ("1", "latest"):
        path = f"/api/v1/datasets/qa-regression/versions/{name}"
        assert check(server.get(path), shapes.VERSION)["id"] == first["id"]
        page = check(server.get(f"{path}/items?page=0&size=200"), shapes.page_of(shapes.DATASET_ITEM))
        assert page["content"][0]["inputs"] == {"question": "What is the capital of France?"}
        assert page["content"][0]["expectedOutputs"] == {"answer": "Paris"}
        assert page["content"][0]["metadata"] == {"category": "geography"}
    again = server.run(NEW_DATASET)
    assert (again.status, check(again.json(), shapes.ERROR)["error"]) == (409, "Conflict")
    assert server.call("DELETE", "/api/v1/datasets/qa-regression").status == 204
    assert server.call("GET", "/api/v1/datasets/qa-regression").status == 404


def test_runs_are_compared_and_gated(server):
    baseline = run_of(server, items_of([1] * 20))
    candidate = run_of(server, items_of([0] * 6 + [1] * 14))
    experiment = server.get(f"/api/v1/runs/{candidate}")["experimentId"]
    ids = {"experimentId": experiment, "candidateRunId": candidate, "baselineRunId": baseline}

    gate = server.run(GATE, **ids)
    diff = server.run(DIFF, **ids)
    regressed = server.run(REGRESSED, **ids)

    verdict = check(gate.json(), shapes.GATE)
    assert (gate.status, verdict["status"], verdict["passed"]) == (200, "FAIL", False)
    assert (verdict["candidateRunId"], verdict["baselineRunId"]) == (candidate, baseline)
    assert (verdict["baselinePassRate"], verdict["candidatePassRate"]) == (1.0, 0.7)
    assert (verdict["passRateDelta"], verdict["pairing"]) == (-0.3, "positional")
    assert (verdict["regressedCount"], len(verdict["cases"]), verdict["casesTruncated"]) == (6, 6, False)
    assert [each["evaluator"] for each in verdict["regressedEvaluators"]] == ["accuracy"]
    compared = check(diff.json(), shapes.DIFF)
    assert compared["summary"]["regressedCount"] == 6
    assert (compared["cases"]["size"], compared["cases"]["totalElements"]) == (20, 20)
    worse = check(regressed.json(), shapes.DIFF)
    assert {each["status"] for each in worse["cases"]["content"]} == {"REGRESSED"}
    first = server.run(GATE, experimentId=experiment, candidateRunId=baseline).json()
    assert check(first, shapes.GATE)["status"] == "NO_BASELINE"
    assert (first["passed"], first["pairing"], first["baselineRunId"]) == (True, "none", None)


def test_what_a_comparison_documents_as_refused(server):
    baseline = run_of(server, items_of([1, 1]))
    path = "/api/v1/projects/my-llm-app/runs"
    running = server.send("POST", path, {"experimentName": "qa"})["runId"]
    other = run_of(server, items_of([1]), experiment="other")
    experiment = server.get(f"/api/v1/runs/{baseline}")["experimentId"]
    ids = {"experimentId": experiment, "candidateRunId": running, "baselineRunId": baseline}

    unfinished = [server.run(DIFF, **ids), server.run(GATE, **ids)]
    missing = server.run(DIFF.replace("?baselineRunId={baselineRunId}", ""), **ids)
    unknown = server.run(REGRESSED.replace("REGRESSED", "WORSE"), **ids)
    foreign = server.run(DIFF, **{**ids, "candidateRunId": baseline, "baselineRunId": other})

    for answer, status, error in (
        *((answer, 409, "Conflict") for answer in unfinished),
        (missing, 400, "Bad Request"),
        (unknown, 400, "Bad Request"),
        (foreign, 404, "Not Found"),
    ):
        assert (answer.status, check(answer.json(), shapes.ERROR)["error"]) == (status, error)


def test_an_item_is_annotated_and_promoted(server):
    server.run(NEW_DATASET)
    server.run(NEW_VERSION)
    run = run_of(server, items_of([0]))
    item = server.get(f"/api/v1/runs/{run}")["items"]["content"][0]
    ids = {"runId": run, "itemResultId": item["id"]}
    path = f"/api/v1/runs/{run}/items/{item['id']}/annotation"

    assert server.call("GET", path).status == 404
    assert [each["itemId"] for each in server.run(QUEUE).json()["content"]] == [item["id"]]
    annotated = server.run(ANNOTATE, **ids)
    assert server.run(QUEUE).json()["content"] == []
    promoted = server.run(PROMOTE, **ids)

    said = check(annotated.json(), shapes.ANNOTATION)
    assert (annotated.status, said["verdict"]) == (200, "INCORRECT")
    assert said["overriddenExpectedOutput"] == {"answer": "Paris"}
    assert said["note"] == "Model answered Lyon; gold answer is Paris."
    assert server.get(path) == said
    shown = check(server.get(f"/api/v1/runs/{run}"), shapes.RUN)["items"]["content"][0]
    assert shown["annotation"] == said
    version = check(promoted.json(), shapes.VERSION)
    assert (promoted.status, version["version"], version["itemCount"]) == (201, 2, 2)
    assert promoted.headers["location"] == "/api/v1/datasets/qa-regression/versions/2"
    page = server.get("/api/v1/datasets/qa-regression/versions/latest/items")
    assert page["content"][1]["inputs"] == item["input"]
    assert page["content"][1]["expectedOutputs"] == {"answer": "Paris"}
    assert [server.call("DELETE", path).status for _ in range(2)] == [204, 204]
    nowhere = server.run(PROMOTE.replace("qa-regression", "no-such"), **ids)
    assert (nowhere.status, check(nowhere.json(), shapes.ERROR)["error"]) == (404, "Not Found")


def test_what_lists_show(server):
    run = run_of(server, [{**items_of([1])[0], "tokensIn": 12, "costUsd": 0.5, "latencyMs": 8}])

    (project,) = server.get("/api/v1/projects")
    (experiment,) = server.get("/api/v1/projects/my-llm-app/experiments")
    (summary,) = server.get(f"/api/v1/experiments/{experiment['id']}/runs")
    trends = server.get(f"/api/v1/experiments/{experiment['id']}/trends?limit=20")
    details = server.get(f"/api/v1/runs/{run}?page=0&size=50")

    assert check(project, shapes.PROJECT)["experimentCount"] == 1
    assert check(experiment, shapes.EXPERIMENT)["latestRun"]["passRate"] == 1.0
    assert check(summary, shapes.RUN_SUMMARY)["totalCostUsd"] == 0.5
    assert (summary["totalTokensIn"], summary["totalTokensOut"], summary["avgLatencyMs"]) == (12, None, 8)
    assert check(trends, shapes.TRENDS)["runs"][0]["runId"] == run
    check(details, shapes.RUN)
    assert (details["pricedItemCount"], details["tokenizedItemCount"]) == (1, 1)
    assert {name: details["items"][name] for name in ("number", "size", "totalElements", "totalPages")} == {
        "number": 0,
        "size": 50,
        "totalElements": 1,
        "totalPages": 1,
    }


def test_a_connection_is_created(listen_on_database):
    pytest.importorskip("cryptography", reason="the extra 'encryption' is not installed")
    server = Server(listen_on_database(encryption_keys=("passphrase",)))

    answer = server.run(CONNECTION)

    connection = answer.json()
    documented = {"name": "openai-judge", "baseUrl": "https://api.openai.com/v1", "model": "gpt-4o-mini"}
    assert (answer.status, connection | documented) == (201, connection)
    assert (connection["protocol"], connection["hasInlineKey"]) == ("RESPONSES", True)
    assert b"sk-..." not in answer.body
    assert answer.headers["location"] == f"/api/v1/llm-connections/{connection['id']}"
    assert server.get("/api/v1/llm-connections") == [connection]
    assert server.run(CONNECTION).status == 409


def test_keys_are_created_and_then_needed(server):
    open_to_all = server.run(NEW_KEY.replace("EDITOR", "ADMIN"))
    admin = check(open_to_all.json(), shapes.CREATED_KEY)["key"]
    # curl says that the body is a form; with a key it is read as the JSON that it is.
    tenant = server.run(NEW_TENANT_KEY, ADMIN_KEY=admin)
    refused = server.run(NEW_KEY)
    wrong = server.run(NEW_TENANT_KEY, ADMIN_KEY="wrong")
    editor = server.run(NEW_TENANT_KEY, ADMIN_KEY=tenant.json()["key"])

    assert (open_to_all.status, tenant.status) == (201, 201)
    assert check(tenant.json(), shapes.CREATED_KEY)["apiKey"]["tenantId"] == "acme"
    for answer in (refused, wrong):
        assert (answer.status, answer.json()) == (401, {"error": "Invalid or missing API key"})
    assert (editor.status, editor.json()) == (403, {"error": "Insufficient role: ADMIN required"})
    assert server.get("/api/v1/projects") == []
    listed = server.call("GET", "/api/v1/api-keys", Authorization=f"Bearer {admin}").json()
    assert [check(key, shapes.KEY)["role"] for key in listed] == ["ADMIN", "EDITOR"]


def test_health(server):
    for path in ("", "/liveness", "/readiness"):
        answer = server.run(HEALTH + path)
        assert (answer.status, answer.json()["status"]) == (200, "UP")
    check(server.run(HEALTH).json(), shapes.HEALTH)
    assert server.run(HEALTH.replace("health", "info")).status == 200
    assert server.get("/v3/api-docs")["openapi"].startswith("3.")
