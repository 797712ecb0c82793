"""The calls that the JVM's client makes over a run's life, byte by byte as its HTTP client sends them."""

import gzip
import json
import socket
from uuid import uuid4

import pytest
from tests.server import shapes

UPGRADE = {
    "Connection": "Upgrade, HTTP2-Settings",
    "HTTP2-Settings": "AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
    "Upgrade": "h2c",
}
JSON = {"Content-Type": "application/json"}
BATCH = 10


class Connection:
    """A connection that is kept open, as the JVM's HTTP client keeps it."""

    def __init__(self, port):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._file = self._socket.makefile("rb")

    def close(self):
        self._file.close()
        self._socket.close()

    def send(self, head, body=b""):
        self._socket.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)

    def read(self, has_body=True):
        """Status, headers and parsed body of the next answer."""
        line = self._file.readline()
        assert line.startswith(b"HTTP/1.1 "), line
        headers = {}
        while field := self._file.readline().strip():
            name, _, value = field.decode().partition(":")
            headers[name.lower()] = value.strip()
        body = self._file.read(int(headers.get("content-length", 0))) if has_body else b""
        return int(line.split()[1]), headers, json.loads(body) if body else None

    def call(self, method, path, value=None, **headers):
        body = b"" if value is None else value if isinstance(value, bytes) else json.dumps(value).encode()
        lines = {"Content-Length": len(body), "Host": "localhost:8080", **headers}
        head = [f"{method} {path} HTTP/1.1", *(f"{name}: {each}" for name, each in lines.items())]
        self.send(head, body)
        return self.read()


@pytest.fixture
def connect(request):
    def open_connection(port):
        connection = Connection(port)
        request.addfinalizer(connection.close)
        return connection

    return open_connection


class Reporter:
    """Reports a run: each call offers HTTP/2, and a batch keeps its key when it is sent again."""

    def __init__(self, connection, key=None):
        self._connection = connection
        self._headers = {
            **UPGRADE,
            "User-Agent": "Java-http-client/17.0.12",
            **({"Authorization": f"Bearer {key}"} if key else {}),
        }

    def call(self, method, path, value=None, **headers):
        content_type = {} if value is None else JSON
        status, _, answer = self._connection.call(
            method, f"/api/v1{path}", value, **self._headers, **content_type, **headers
        )
        return status, answer

    def start(self, project, experiment, metadata):
        body = {"experimentName": experiment, "metadata": metadata}
        status, answer = self.call("POST", f"/projects/{project}/runs", body)
        assert (status, list(answer)) == (201, ["runId"])
        return answer["runId"]

    def report(self, run, items, times=1):
        for at in range(0, len(items), BATCH):
            key = {"Idempotency-Key": str(uuid4())}
            for _ in range(times):
                answer = self.call("POST", f"/runs/{run}/items", {"items": items[at : at + BATCH]}, **key)
                assert answer == (201, {"status": "ok"})

    def complete(self, run, status="SUCCESS"):
        assert self.call("PATCH", f"/runs/{run}", {"status": status}) == (200, {"status": "updated"})


def item(number, **fields):
    """An item as Jackson writes the client's records: all fields, nulls among them."""
    return {
        "inputs": {"input": f"question {number}"},
        "expectedOutputs": {"output": "Tokyo"},
        "actualOutputs": {"output": "Tokyo", "context": ["a", {"b": None}], "steps": []},
        "metadata": {"category": "geo", "tags": [], "difficulty": "1"},
        "evalResults": [
            {
                "name": "exact-match",
                "score": 1,
                "threshold": 1.0,
                "success": True,
                "reason": "Match ✓",
                "metadata": {"judge": {"model": "m"}},
            },
            {"name": "no-threshold", "score": 0.30000000000000004, "threshold": None, "success": True},
        ],
        "success": True,
        "datasetItemId": None,
        "tokensIn": 120,
        "tokensOut": None,
        "costUsd": 1.5e-05,
        "latencyMs": 812,
        **fields,
    }


def test_a_run_is_reported_and_every_batch_is_sent_twice(port, connect):
    reporter = Reporter(connect(port))

    run = reporter.start("my-project", "capitals-qa", {"model": "m", "temperature": "0.2", "flags": []})
    reporter.report(run, [item(number) for number in range(23)], times=2)
    reporter.complete(run)
    # What was recorded but whose answer was lost is sent again, also after the run has ended.
    reporter.complete(run)

    status, details = reporter.call("GET", f"/runs/{run}?page=0&size=200")
    assert status == 200
    assert shapes.problems(details, shapes.RUN) == []
    assert (details["status"], details["totalItems"], details["passRate"]) == ("SUCCESS", 23, 1.0)
    assert details["config"] == {"model": "m", "temperature": "0.2", "flags": []}
    assert details["totalTokensIn"] == 23 * 120
    assert details["totalCostUsd"] == pytest.approx(23 * 1.5e-05)
    assert [each["input"]["input"] for each in details["items"]["content"]] == [
        f"question {number}" for number in range(23)
    ]
    first = details["items"]["content"][0]
    assert first["actualOutput"] == {"output": "Tokyo", "context": ["a", {"b": None}], "steps": []}
    assert [(each["evaluatorName"], each["score"]) for each in first["evalResults"]] == [
        ("exact-match", 1.0),
        ("no-threshold", 0.30000000000000004),
    ]


def test_what_ends_the_retries_of_a_reporter(port, connect):
    """4xx but 429: the batch is dropped. The connection stays usable after each."""
    reporter = Reporter(connect(port))
    run = reporter.start("my-project", "e", {})
    path = f"/runs/{run}/items"

    not_a_number = item(0, evalResults=[{"name": "e", "score": "NaN", "success": False}])
    refused = [
        reporter.call("POST", path, {"items": []}),
        reporter.call("POST", path, {"items": [not_a_number]}),
        reporter.call("POST", f"/runs/{uuid4()}/items", {"items": [item(0)]}),
    ]
    reporter.complete(run, "FAILED")
    refused.append(reporter.call("POST", path, {"items": [item(0)]}))

    assert [status for status, _ in refused] == [400, 400, 404, 409]
    assert all(shapes.problems(answer, shapes.ERROR) == [] for _, answer in refused)
    assert refused[1][1]["message"].startswith("items[0].evalResults[0].score: must be")
    assert reporter.call("GET", f"/runs/{run}")[1]["totalItems"] == 0


def test_a_reporter_with_a_key_and_one_with_a_wrong_one(listen_on_database, connect):
    connection = connect(listen_on_database(api_key="sesame"))

    wrong = Reporter(connection, "wrong")
    assert wrong.call("POST", "/projects/p/runs", {"experimentName": "e", "metadata": {}}) == (
        401,
        {"error": "Invalid or missing API key"},
    )
    reporter = Reporter(connection, "sesame")
    run = reporter.start("p", "e", {})
    reporter.report(run, [item(0)])
    reporter.complete(run)
    # An unknown key on a read counts as none.
    assert wrong.call("GET", f"/runs/{run}")[1]["totalItems"] == 1


def test_a_dataset_is_resolved_by_its_uri(port, connect):
    reporter = Reporter(connect(port))
    reporter.call("POST", "/datasets", {"name": "qa", "description": None})
    examples = [{"inputs": {"input": f"q{number}"}} for number in range(450)]
    reporter.call("POST", "/datasets/qa/versions", {"description": None, "items": examples})

    version = reporter.call("GET", "/datasets/qa/versions/latest")[1]["version"]
    found, page = [], 0
    while True:
        status, answer = reporter.call("GET", f"/datasets/qa/versions/{version}/items?page={page}&size=200")
        assert status == 200
        found += answer["content"]
        if answer["last"]:
            break
        page += 1

    assert [each["inputs"]["input"] for each in found] == [f"q{number}" for number in range(450)]
    assert [each["ordinal"] for each in found] == list(range(450))
    assert {(each["expectedOutputs"], each["metadata"]) for each in found} == {(None, None)}
    for missing in ("/datasets/qa/versions/2", "/datasets/none/versions/latest", "/datasets/qa/versions/x"):
        status, answer = reporter.call("GET", missing)
        assert (status, answer["error"]) == (404, "Not Found")


def test_a_run_on_a_version_is_linked_and_gated_by_its_items(port, connect):
    reporter = Reporter(connect(port))
    reporter.call("POST", "/datasets", {"name": "qa"})
    reporter.call("POST", "/datasets/qa/versions", {"items": [{"inputs": {"n": n}} for n in range(8)]})
    _, page = reporter.call("GET", "/datasets/qa/versions/1/items")
    links = [each["id"] for each in page["content"]]
    body = {
        "experimentName": "e",
        "datasetName": "qa",
        "datasetVersion": 1,
        "gitBranch": "main",
        "name": None,
    }

    runs = []
    for score in (1, 0):
        run = reporter.call("POST", "/projects/p/runs", body)[1]["runId"]
        results = [{"name": "accuracy", "score": score, "threshold": 0.5, "success": score == 1}]
        # In another order than the first run: the link pairs them.
        items = [item(n, datasetItemId=link, evalResults=results) for n, link in enumerate(links)]
        reporter.report(run, items if score else items[::-1])
        reporter.complete(run)
        runs.append(run)
    experiment = reporter.call("GET", f"/runs/{runs[1]}")[1]["experimentId"]
    gate = {"candidateRunId": runs[1], "baselineRunId": None, "baselineBranch": "main"}
    status, verdict = reporter.call("POST", f"/experiments/{experiment}/gate", gate)

    assert status == 200
    assert shapes.problems(verdict, shapes.GATE) == []
    assert (verdict["status"], verdict["pairing"]) == ("FAIL", "dataset_item_id")
    assert verdict["baselineRunId"] == runs[0]
    assert {case["datasetItemId"] for case in verdict["cases"]} == set(links)
    unknown = reporter.call("POST", "/projects/p/runs", {**body, "datasetVersion": 2})
    alone = reporter.call("POST", "/projects/p/runs", {**body, "datasetVersion": None})
    assert [(status, answer["error"]) for status, answer in (unknown, alone)] == [(404, "Not Found")] * 2


@pytest.mark.parametrize(
    ("headers", "pack"),
    [
        ({"Content-Type": "application/json"}, bytes),
        ({"Content-Type": "application/json;charset=UTF-8"}, bytes),
        ({"Content-Type": "application/json; charset=utf-8", "Accept": "*/*"}, bytes),
        ({"Content-Type": "APPLICATION/JSON"}, bytes),
        ({"Content-Type": "application/vnd.api+json"}, bytes),
        ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, gzip.compress),
        ({"Content-Type": "application/json", "Content-Encoding": "GZIP"}, gzip.compress),
        ({"Content-Type": "application/json", "Accept": "text/html"}, bytes),
        ({"Content-Type": "application/json"}, lambda body: b"\xef\xbb\xbf" + body),
        ({"Authorization": "Bearer any"}, bytes),
    ],
)
def test_headers_that_clients_send(port, connect, headers, pack):
    body = pack('{"experimentName": "é"}'.encode())

    assert connect(port).call("POST", "/api/v1/projects/p/runs", body, **headers)[0] == 201
    ((status, _, listed),) = [connect(port).call("GET", "/api/v1/projects/p/experiments")]
    assert (status, [each["name"] for each in listed]) == (200, ["é"])


def test_requests_in_the_ways_of_http(port, connect):
    body = b'{"experimentName": "e"}'
    path = "/api/v1/projects/p/runs"
    head = ["Host: localhost", "Content-Type: application/json"]
    length = f"Content-Length: {len(body)}"

    expecting = connect(port)
    expecting.send([f"POST {path} HTTP/1.1", *head, length, "Expect: 100-continue"])
    assert expecting._file.readline().startswith(b"HTTP/1.1 100")
    assert expecting._file.readline() == b"\r\n"
    expecting._socket.sendall(body)
    assert expecting.read()[0] == 201
    chunked = connect(port)
    chunked.send([f"POST {path} HTTP/1.1", *head, "Transfer-Encoding: chunked"])
    for part in (body[:5], body[5:], b""):
        chunked._socket.sendall(b"%x\r\n%s\r\n" % (len(part), part))
    assert chunked.read()[0] == 201
    old = connect(port)
    old.send([f"POST {path} HTTP/1.0", *head, length], body)
    assert old.read()[0] == 201
    assert old._file.read() == b"", "a client of HTTP/1.0 waits for the end of the connection"
    for method in ("HEAD", "OPTIONS"):
        status, headers, answer = _without_body(
            connect(port), method, path if method == "OPTIONS" else "/api/v1/projects"
        )
        assert (status, answer) == (200, None)
        assert "x-request-id" in headers


def _without_body(connection, method, path):
    connection.send([f"{method} {path} HTTP/1.1", "Host: localhost"])
    return connection.read(has_body=False)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("//api/v1/projects/p/runs", 201),  # the address of the server was given with a slash at its end
        ("///api/v1/projects/p/runs", 201),
        ("/api/v1/projects/caf%C3%A9/runs", 201),
        ("/api/v1/projects/a%20b%2Fc/runs", 201),
        ("/api/v1/projects/a+b;c=d,e/runs", 201),
        ("/api/v1/projects/p/runs/", 404),
        ("/api/v1/projects/p//runs", 404),
        ("/api/v1/projects//runs", 404),
        ("/API/v1/projects/p/runs", 404),
    ],
)
def test_paths_as_clients_write_them(port, connect, path, status):
    answer = connect(port).call("POST", path, {"experimentName": "e"}, **JSON)

    assert answer[0] == status
    if status == 404:
        assert shapes.problems(answer[2], shapes.ERROR) == []


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"tokensIn": 12.0, "tokensOut": 3.0}, {"tokensIn": 12, "tokensOut": 3}),
        ({"latencyMs": 812.4}, {"latencyMs": 812}),
        ({"costUsd": 1}, {"costUsd": 1}),
        ({"metadata": {"a": "1"}}, {"metadata": {"a": "1"}}),
        ({"evalResults": []}, {"evalResults": []}),
        (
            {"evalResults": None, "metadata": None, "expectedOutputs": None},
            {"evalResults": [], "metadata": None},
        ),
        ({"actualOutputs": None, "inputs": None}, {"input": {}, "actualOutput": {}}),
        ({"datasetItemId": "not a UUID"}, {"datasetItemId": None}),
        ({"datasetItemId": str(uuid4())}, {"datasetItemId": None}),
        ({"somethingNew": {"a": [1]}, "judgedBy": "x"}, {}),
    ],
)
def test_items_as_clients_write_them(api, fields, shown):
    run = api.post("/api/v1/projects/p/runs", json={"experimentName": "e"}).json()["runId"]

    answer = api.post(f"/api/v1/runs/{run}/items", json={"items": [item(0, **fields)]})

    assert answer.status_code == 201, answer.text
    (stored,) = api.get(f"/api/v1/runs/{run}").json()["items"]["content"]
    assert {name: stored[name] for name in shown} == shown


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tokensIn": 12.5}, "items[1].tokensIn: must be a whole number"),
        ({"latencyMs": 1e300}, "items[1].latencyMs: must be at most 1099511627776"),
        ({"latencyMs": True}, "items[1].latencyMs: must be a whole number"),
        ({"tokensOut": "12"}, "items[1].tokensOut: must be a whole number"),
        ({"tokensOut": 2**63}, "items[1].tokensOut: must be at most 2147483647"),
    ],
)
def test_numbers_of_items_that_are_refused(api, fields, message):
    run = api.post("/api/v1/projects/p/runs", json={"experimentName": "e"}).json()["runId"]

    answer = api.post(f"/api/v1/runs/{run}/items", json={"items": [item(0, tokensIn=1.0), item(1, **fields)]})

    assert (answer.status_code, answer.json()["message"]) == (400, message)
    assert api.get(f"/api/v1/runs/{run}").json()["totalItems"] == 0


def test_a_run_of_a_version_that_is_written_as_a_float(api):
    api.post("/api/v1/datasets", json={"name": "d"})
    api.post("/api/v1/datasets/d/versions", json={"items": [{"inputs": {}}]})
    body = {"experimentName": "e", "datasetName": "d", "datasetVersion": 1.0}

    run = api.post("/api/v1/projects/p/runs", json=body)

    assert run.status_code == 201, run.text
    assert api.get(f"/api/v1/runs/{run.json()['runId']}").json()["datasetVersion"] == 1


@pytest.mark.parametrize(("limit", "count"), [("0", 1), ("-1", 1), ("1", 1), ("5000", 2)])
def test_the_limit_of_trends_is_clamped_as_sizes_are(api, limit, count):
    for _ in range(2):
        run = api.post("/api/v1/projects/p/runs", json={"experimentName": "e"}).json()["runId"]
        api.patch(f"/api/v1/runs/{run}", json={"status": "SUCCESS"})
    experiment = api.get(f"/api/v1/runs/{run}").json()["experimentId"]

    answer = api.get(f"/api/v1/experiments/{experiment}/trends", params={"limit": limit})

    assert (answer.status_code, len(answer.json()["runs"])) == (200, count)
    assert {each["passRate"] for each in answer.json()["runs"]} == {0.0}
