"""What must not harm the server on either database: odd values and names, pages, clocks, full disks."""

import gzip
import json
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
from tests.server import shapes
from tests.server.gate_runs import experiment_of, gate, run_of
from tests.server.test_jvm_client import JSON, Connection

ODD = {
    "nul": "a\0b",
    "half": "\ud800x",
    "other half": ["\udfff", {"a": "\udc00"}],
    "large": 2**80,
    "negative": -(2**63) - 1,
    "huge": 1e308,
    "tiny": 5e-324,
    "right to left": "\u202eabc\u200f",
    "": {"": []},
    "a.b": {"a/b": [{}, None]},
}
NAMES = [
    "x" * 255,
    "a/b/c",
    "..a",
    "a.b.",
    "50 % of a",
    "%2F%00",
    "\u202eabc\u200f",
    "a\u2028b",
    "é\u0301🎉",
    "?a=b#c;d&e",
    "' OR 1=1 --",
]


def post(api, path, value, **headers):
    """Send a value as JSON; lone surrogates are escaped."""
    return api.post(f"/api/v1{path}", content=json.dumps(value), headers={**JSON, **headers})


def start(api, **body):
    answer = post(api, "/projects/chat/runs", {"experimentName": "qa", **body})
    assert answer.status_code == 201, answer.text
    return answer.json()["runId"]


def read_refusal(answer, status=400):
    assert answer.status_code == status, answer.text
    assert shapes.problems(answer.json(), shapes.ERROR) == []
    return answer.json()["message"]


def test_odd_data_comes_back_as_it_was_from_everywhere(api):
    run = start(api, metadata=ODD, provenance=ODD)
    result = {"name": "n", "score": -1e308, "success": False, "reason": "\0\ud800", "metadata": ODD}
    item = {"inputs": ODD, "expectedOutputs": ODD, "actualOutputs": ODD, "metadata": ODD, "error": "\0"}
    sent = post(
        api, f"/runs/{run}/items", {"items": [{**item, "evalResults": [{**result, "label": "\ud800"}]}]}
    )
    assert sent.status_code == 201, sent.text
    details = api.get(f"/api/v1/runs/{run}").json()
    assert details["config"] == details["provenance"] == ODD
    (stored,) = details["items"]["content"]
    for name in ("input", "expectedOutput", "actualOutput", "metadata"):
        assert stored[name] == ODD
    (score,) = stored["evalResults"]
    assert (score["reason"], score["label"], score["metadata"]) == ("\0\ud800", "\ud800", ODD)
    (listed,) = api.get(f"/api/v1/experiments/{details['experimentId']}/runs").json()
    assert listed["config"] == ODD

    annotation = {"verdict": "INCORRECT", "overriddenExpectedOutput": ODD, "note": "\0 \ud800"}
    path = f"/api/v1/runs/{run}/items/{stored['id']}/annotation"
    annotated = api.put(path, content=json.dumps(annotation), headers=JSON)
    assert annotated.status_code == 200, annotated.text
    assert api.get(path).json()["note"] == "\0 \ud800"
    assert api.get(path).json()["overriddenExpectedOutput"] == ODD

    post(api, "/datasets", {"name": "d"})
    items = [{"inputs": ODD, "expectedOutputs": ODD, "metadata": ODD}]
    assert post(api, "/datasets/d/versions", {"items": items}).status_code == 201
    promoted = post(api, "/datasets/promote", {"datasetName": "d", "items": [{"itemResultId": stored["id"]}]})
    assert promoted.json()["itemCount"] == 1, "it is the same case"
    for version in (1, 2):
        page = api.get(f"/api/v1/datasets/d/versions/{version}/items").json()
        assert [page["content"][0][name] for name in ("inputs", "expectedOutputs", "metadata")] == [ODD] * 3
    export = api.get("/api/v1/datasets/d/versions/1/export?format=json").json()
    assert export["examples"][0]["inputs"] == ODD
    file = api.get("/api/v1/datasets/d/versions/1/export?format=jsonl").content
    again = api.post(
        "/api/v1/datasets/d/versions", content=file, headers={"Content-Type": "application/x-ndjson"}
    )
    assert again.json()["contentHash"] == api.get("/api/v1/datasets/d/versions/1").json()["contentHash"]
    for kind in ("csv", "parquet"):
        assert api.get(f"/api/v1/datasets/d/versions/1/export?format={kind}").status_code == 200


def test_odd_inputs_are_compared(api):
    runs = [
        run_of(
            api,
            [
                {
                    "inputs": {"input": f"\0\u202e{n}"},
                    "evalResults": [{"name": "n", "score": score * 1e300, "success": score == 1}],
                }
                for n in range(8)
            ],
        )
        for score in (1, 0)
    ]
    half = start(api)
    items = [
        {"inputs": {"input": f"\ud800{n}"}, "evalResults": [{"name": "n", "score": 0, "success": False}]}
        for n in range(8)
    ]
    assert post(api, f"/runs/{half}/items", {"items": items}).status_code == 201
    api.patch(f"/api/v1/runs/{half}", json={"status": "SUCCESS"})

    experiment = experiment_of(api, half)
    for candidate in (runs[1], half):
        verdict = gate(api, candidate, baselineRunId=runs[0])
        diff = api.get(
            f"/api/v1/experiments/{experiment}/runs/{candidate}/diff",
            params={"baselineRunId": runs[0], "page": -1, "size": 10**9},
        )
        assert (verdict.status_code, verdict.json()["status"]) == (200, "FAIL")
        assert (diff.status_code, diff.json()["cases"]["numberOfElements"]) == (200, 8)


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        ("/projects/chat/runs", {"experimentName": "qa", "metadata": "{deep}"}, "metadata.a"),
        ("/projects/chat/runs", {"experimentName": "qa", "provenance": "{deep}"}, "provenance.a"),
        ("/runs/{run}/items", {"items": [{}, {"inputs": "{deep}"}]}, "items[1].inputs.a"),
        ("/runs/{run}/items", {"items": [{"metadata": "{deep}"}]}, "items[0].metadata.a"),
        ("/datasets/d/versions", {"items": [{"inputs": "{deep}"}]}, "items[0].inputs.a"),
        (
            "/datasets/d/versions/1/edits",
            {"changes": [{"op": "add", "inputs": "{deep}"}]},
            "changes[0].inputs.a",
        ),
    ],
)
@pytest.mark.parametrize(
    ("deep", "problem"),
    [
        ('{"a":' * 1000 + "1" + "}" * 1000, "nested deeper than 200"),
        ('{"a":' + "[" * 1000 + "]" * 1000 + "}", "nested deeper than 200"),
        ('{"a":{"b":1,"c":2,"b":3}}', "the key 'b' is given twice"),
        ('{"a":[NaN]}', "must be a finite number"),
        ('{"a":-Infinity}', "must be a finite number"),
        ('{"a":1e999}', "must be a finite number"),
        ('{"a":{"\\u0000":1}}', "holds NUL or half a character"),
        ('{"a":{"\\ud800":1}}', "holds NUL or half a character"),
        ('{"a":' + "1" * 5000 + "}", "a number has more than 4300 digits"),
    ],
)
def test_what_json_cannot_hold_is_refused_in_every_body(shared_server, path, body, place, deep, problem):
    api = shared_server
    run = start(api)
    post(api, "/datasets", {"name": "d"})
    versions = len(api.get("/api/v1/datasets/d").json()["versions"])
    text = json.dumps(body).replace('"{deep}"', deep)

    answer = api.post("/api/v1" + path.replace("{run}", run), content=text, headers=JSON)

    message = read_refusal(answer)
    assert problem in message
    assert message.startswith((place, "Malformed request body"))
    assert len(message) < 600
    assert api.get(f"/api/v1/runs/{run}").json()["totalItems"] == 0
    assert len(api.get("/api/v1/datasets/d").json()["versions"]) == versions


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_up_to_255_characters_is_kept(shared_server, name):
    api = shared_server
    encoded = quote(name, safe="")
    run = post(api, f"/projects/{encoded}/runs", {"experimentName": name, "tags": [name]}).json()["runId"]
    result = {"name": name, "score": 1, "success": True}
    assert post(api, f"/runs/{run}/items", {"items": [{"evalResults": [result]}]}).status_code == 201
    created = post(api, "/datasets", {"name": name})
    assert created.headers["location"] == f"/api/v1/datasets/{encoded}"
    assert post(api, f"/datasets/{encoded}/versions", {"items": [{"inputs": {}}]}).status_code == 201

    details = api.get(f"/api/v1/runs/{run}").json()
    assert (details["projectName"], details["experimentName"], details["tags"]) == (name, name, [name])
    assert details["items"]["content"][0]["evalResults"][0]["evaluatorName"] == name
    assert [each["name"] for each in api.get(f"/api/v1/projects/{encoded}/experiments").json()] == [name]
    assert api.get(created.headers["location"] + "/versions/latest").json()["datasetName"] == name
    for path in (f"/api/v1/projects/{encoded}", created.headers["location"]):
        assert api.delete(path).status_code == 204


@pytest.mark.parametrize(
    "name", ["x" * 256, "", " ", "\u2003", ".", "..", "a\0", "\ud800", "a\n", "\x7f", "\x85"]
)
@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/projects/chat/runs", {"experimentName": "{name}"}, "experimentName"),
        (
            "/runs/{run}/items",
            {"items": [{"evalResults": [{"name": "{name}", "score": 1, "success": True}]}]},
            "items[0].evalResults[0].name",
        ),
        ("/datasets", {"name": "{name}"}, "name"),
        ("/api-keys", {"name": "{name}", "role": "VIEWER"}, "name"),
    ],
)
def test_other_names_are_refused_and_named(shared_server, path, body, field, name):
    api = shared_server
    run = start(api)
    text = json.dumps(body).replace('"{name}"', json.dumps(name))

    answer = api.post("/api/v1" + path.replace("{run}", run), content=text, headers=JSON)

    assert read_refusal(answer).startswith(f"{field}: must ")
    assert name not in [each["name"] for each in api.get("/api/v1/datasets").json()]
    assert api.get(f"/api/v1/runs/{run}").json()["totalItems"] == 0


@pytest.mark.parametrize(
    ("page", "size"), [("-1", "1000000000"), ("9" * 40, "9" * 40), ("a", ""), ("1.5", "-7"), ("0x1", "٣")]
)
def test_odd_pages_of_every_paged_list_are_clamped(shared_server, page, size):
    api = shared_server
    run = start(api)
    post(api, f"/runs/{run}/items", {"items": [{}, {}]})
    post(api, "/datasets", {"name": "d"})
    for number in range(2):
        post(api, "/datasets/d/versions", {"items": [{"inputs": {"n": number}}]})

    for path in (f"/runs/{run}", "/datasets/d/versions/1/items", "/datasets/d/diff"):
        answer = api.get(f"/api/v1{path}", params={"page": page, "size": size})
        assert answer.status_code == 200, answer.text
        body = answer.json()
        part = body.get("items") or body.get("cases") or body
        assert 1 <= part["size"] <= 2000
        assert part["number"] >= 0


@pytest.mark.parametrize("fields", [{}, {"ordinal": "{n}"}])
def test_two_writers_of_one_run(api, fields):
    run = start(api)
    batches = [[{"inputs": {"n": 10 * batch + n}, **fields} for n in range(10)] for batch in range(12)]
    for batch in batches:
        for item in batch:
            item.update({name: item["inputs"]["n"] for name in fields})

    def send(number):
        headers = {"Idempotency-Key": f"key-{number}"}
        return [post(api, f"/runs/{run}/items", {"items": batches[number]}, **headers) for _ in range(2)]

    with ThreadPoolExecutor(6) as threads:
        answers = [answer for pair in threads.map(send, range(12)) for answer in pair]

    assert {answer.status_code for answer in answers} == {201}
    page = api.get(f"/api/v1/runs/{run}?size=200").json()
    items = page["items"]["content"]
    assert page["totalItems"] == len(items) == 120
    assert [item["ordinal"] for item in items] == list(range(120))
    assert sorted(item["input"]["n"] for item in items) == list(range(120))
    firsts = [item["input"]["n"] for item in items[::10]]
    assert [item["input"]["n"] for item in items] == [first + n for first in firsts for n in range(10)]


def fill_disk(api, *, is_full):
    """Let the database store no more items, as a full disk would, or let it store them again."""

    def on_sqlite(connection):
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar() if is_full else 2**30
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")

    def on_postgresql(connection):
        if not is_full:
            connection.exec_driver_sql("DROP TRIGGER full_disk ON items")
            return
        connection.exec_driver_sql(
            "CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$"
        )
        connection.exec_driver_sql("CREATE TRIGGER full_disk BEFORE INSERT ON items EXECUTE FUNCTION fail()")

    database = api.app.state.database
    api.portal.call(database.write, on_sqlite if database.dialect == "sqlite" else on_postgresql)


def test_a_full_disk_acknowledges_nothing_and_recovers(api):
    run = start(api)
    large = {"items": [{"inputs": {"a": "x" * 1_000_000}}]}
    assert post(api, f"/runs/{run}/items", large).status_code == 201
    fill_disk(api, is_full=True)

    for _ in range(2):
        answer = post(api, f"/runs/{run}/items", large, **{"Idempotency-Key": "k"})
        assert "nothing of this was stored" in read_refusal(answer, 503)
        assert answer.headers["retry-after"] == "5"
    assert api.get(f"/api/v1/runs/{run}").json()["totalItems"] == 1

    fill_disk(api, is_full=False)
    for _ in range(2):
        assert post(api, f"/runs/{run}/items", large, **{"Idempotency-Key": "k"}).status_code == 201
    assert api.get(f"/api/v1/runs/{run}").json()["totalItems"] == 2


@pytest.mark.parametrize("hours", [-48, 48])
def test_a_clock_that_is_set_while_a_run_goes_on(serve, monkeypatch, hours):
    api = serve(api_key="sesame")
    api.headers["Authorization"] = "Bearer sesame"
    key = post(api, "/api-keys", {"name": "k", "role": "EDITOR"}).json()["key"]
    api.headers["Authorization"] = f"Bearer {key}"
    run = start(api)
    first = {"items": [{"inputs": {"n": 0}, "evalResults": [{"name": "e", "score": 1, "success": True}]}]}
    post(api, f"/runs/{run}/items", first, **{"Idempotency-Key": "a"})

    # Of servers on PostgreSQL, which follow its clock, nobody sees that theirs was set.
    hours *= api.app.state.database.dialect == "sqlite"
    monkeypatch.setattr(time, "time_ns", lambda ask=time.time_ns: ask() + hours * 3_600_000_000_000)

    second = json.loads(json.dumps(first).replace('"n": 0', '"n": 1'))
    for body, batch in ((first, "a"), (second, "b"), (second, "b")):
        sent = post(api, f"/runs/{run}/items", body, **{"Idempotency-Key": batch})
        assert sent.status_code == 201, sent.text
    assert api.patch(f"/api/v1/runs/{run}", json={"status": "SUCCESS"}).status_code == 200
    details = api.get(f"/api/v1/runs/{run}").json()
    assert [item["input"]["n"] for item in details["items"]["content"]] == [0, 1]
    assert (details["totalItems"], details["passRate"]) == (2, 1.0)
    assert details["completedAt"] >= details["startedAt"]
    later = start(api)
    assert api.patch(f"/api/v1/runs/{later}", json={"status": "SUCCESS"}).status_code == 200
    verdict = gate(api, later).json()
    # A run that seems to be older has no baseline, and says so.
    assert verdict["status"] == ("NO_BASELINE" if hours < 0 else "FAIL")
    assert verdict["baselineReason"]
    api.headers["Authorization"] = "Bearer sesame"
    (listed,) = api.get("/api/v1/api-keys").json()
    shown = time.strftime("%Y-%m-%d", time.gmtime(time.time_ns() / 1e9))
    assert listed["lastUsedAt"].startswith(shown), "the use is written also after a step back"


def test_packed_bodies_that_are_damaged_or_burst(port):
    whole = gzip.compress(b'{"experimentName": "qa"}')
    bomb = gzip.compress(b'{"experimentName": "' + b"x" * 50_000_000 + b'"}', 1)
    packed = {**JSON, "Content-Encoding": "gzip"}
    path = "/api/v1/projects/chat/runs"

    for body, status in (
        (whole[:-4], 400),
        (whole[:11], 400),
        (b"plain", 400),
        (bomb, 413),
        (whole + b"x", 400),
    ):
        connection = Connection(port)
        answer = connection.call("POST", path, body, **packed)
        assert answer[0] == status
        assert shapes.problems(answer[2], shapes.ERROR) == []
        connection.close()
    connection = Connection(port)
    assert connection.call("GET", "/api/v1/projects")[2] == []
    assert connection.call("POST", path, whole, **packed)[0] == 201
    connection.close()
