"""`dokimos db` on a database of a test, and what is in a database, as the API shows it."""

import itertools
import json
import re

from starlette.testclient import TestClient
from tests.server.server_process import PATIENT, wait_until

from dokimos._cli.main import run_command
from dokimos.server import ServerSettings, create_app

KINDS = ["sqlite", "postgresql"]
HOSTILE = {
    "nul": "a\0b",
    "surrogate": "\ud800 half",
    "big": 2**70,
    "huge": 10**400,
    "": {"": [None, True, -0.0, 1e308]},
    "mark": "\u202eabc\u2028",
    "long": "x" * 100_000,
}
NUMBERS = '{"text": "1e400", "list": [12345678901234567890123, 0.1000000000000000055511151231257827]}'
"""Sent as it is: parsing it here would lose digits."""


class Command:
    """`dokimos db`, on the database of some settings."""

    def __init__(self, monkeypatch, capsys):
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, settings, *arguments):
        """Run a command; return its exit code and all that it printed."""
        for name, value in variables_of(settings).items():
            self._monkeypatch.setenv(name, value)
        self._capsys.readouterr()
        code = run_command(["db", *map(str, arguments)])
        printed = self._capsys.readouterr()
        return code, printed.out + printed.err

    def succeed(self, settings, *arguments):
        """Run a command that ends well; return what it printed."""
        code, text = self(settings, *arguments)
        assert code == 0, text
        return text


def variables_of(settings):
    """The environment variables that name a database, empty where they must not name another one."""
    return {
        "DOKIMOS_DATABASE_URL": settings.get("database_url", ""),
        "DOKIMOS_DATA_DIR": str(settings.get("data_dir", "")),
    }


def open_server(settings, **others):
    """A client of a server on a database, as a context."""
    values = {"host": "127.0.0.1", **PATIENT, **settings, **others}
    return TestClient(create_app(ServerSettings(**values)), raise_server_exceptions=False)


def call(api, method, path, body=None, headers=None):
    content = None if body is None else json.dumps(body)  # the client's own cannot escape half a character
    headers = {"Content-Type": "application/json", **(headers or {})}
    answer = api.request(method, f"/api/v1{path}", content=content, headers=headers)
    assert answer.status_code < 300, (method, path, answer.text)
    return answer.json() if answer.content else None


def fill(api, project="chat"):
    """Store something of each kind below a project, with texts and numbers that are easily lost."""
    dataset = f"{project} set"
    call(api, "POST", "/datasets", {"name": dataset, "description": "d"})
    for count in (2, 3):
        items = [{"inputs": {"n": n, **HOSTILE}, "expectedOutputs": {"a": n}} for n in range(count)]
        call(api, "POST", f"/datasets/{quote(dataset)}/versions", {"items": items})
    page = call(api, "GET", f"/datasets/{quote(dataset)}/versions/2/items")
    linked = [item["id"] for item in page["content"]]
    runs = []
    for number, status in enumerate(("SUCCESS", "SUCCESS", "FAILED", "RUNNING")):
        body = {"experimentName": "qa", "name": f"run {number}", "tags": ["t", f"n{number}"]}
        body |= {"metadata": HOSTILE, "datasetName": dataset, "datasetVersion": 2}
        run = call(api, "POST", f"/projects/{quote(project)}/runs", body)["runId"]
        items = [
            {
                "inputs": {"n": n, **HOSTILE},
                "actualOutputs": {"a": n - number},
                "datasetItemId": linked[n],
                "evalResults": [
                    {"name": "exact", "score": float(n == number), "success": n != number, "reason": "r\0"},
                    {"name": "\u00fc", "score": 1e300, "success": True, "metadata": HOSTILE},
                ],
                **{"tokensIn": n, "tokensOut": 5, "costUsd": 0.1, "latencyMs": 7},
            }
            for n in range(3)
        ]
        call(api, "POST", f"/runs/{run}/items", {"items": items}, headers={"Idempotency-Key": "b"})
        content = f'{{"items": [{{"inputs": {NUMBERS}, "actualOutputs": {NUMBERS}, "evalResults": []}}]}}'
        sent = api.post(
            f"/api/v1/runs/{run}/items", content=content, headers={"Content-Type": "application/json"}
        )
        assert sent.status_code == 201, sent.text
        call(api, "POST", f"/runs/{run}/comments", {"body": "c \u202e"})
        if status != "RUNNING":
            call(api, "PATCH", f"/runs/{run}", {"status": status})
        runs.append(run)
    item = call(api, "GET", f"/runs/{runs[0]}")["items"]["content"][0]["id"]
    verdict = {"verdict": "INCORRECT", "note": "n\0", "overriddenExpectedOutput": HOSTILE}
    call(api, "PUT", f"/runs/{runs[0]}/items/{item}/annotation", verdict)
    experiment = call(api, "GET", f"/runs/{runs[0]}")["experimentId"]
    call(api, "PUT", f"/experiments/{experiment}/baseline", {"runId": runs[0]})
    call(api, "POST", f"/experiments/{experiment}/gate", {"candidateRunId": runs[1]})
    # Verdicts are computed in the background, and would change answers later.
    wait_until(lambda: runs[2] in judged_runs(api), "the verdict on the last run that ended")
    return runs


def judged_runs(api):
    """The run of each experiment that the list of projects shows a verdict of."""
    return [each["runId"] for project in call(api, "GET", "/projects") for each in project["verdicts"]]


def quote(text):
    return "".join(f"%{byte:02X}" for byte in text.encode())


SKIPPED = (
    "/api/v1/review-queue/progress",  # of the last days until now
    "/api/v1/events",
    "/api/v1/audit",
    "/api/v1/settings",
    "/actuator",
    "/metrics",
)
"""What has no end, or is about the server and not about what it stores."""


def read_everything(api, *, leave_out=()):
    """Return the answer of each GET route for each row that there is, by its address."""
    description = api.get("/openapi.json").json()
    known = _known_values(api)
    answers = {}
    for path, methods in description["paths"].items():
        if "get" not in methods or path.startswith((*SKIPPED, *leave_out)):
            continue
        names = re.findall(r"\{(\w+)\}", path)
        known["name"] = known["datasets" if path.startswith("/api/v1/datasets") else "projects"]
        parameters = {each["name"] for each in methods["get"].get("parameters", ())}
        queries = ["", "?size=2&page=1"] if "size" in parameters else [""]
        if "baselineRunId" in parameters:
            queries = [f"?baselineRunId={known['runId'][1]}"]
        for values in itertools.product(*(known.get(name, ["1"]) for name in names)):
            url = path
            for name, value in zip(names, values, strict=True):
                url = url.replace(f"{{{name}}}", quote(str(value)))
            for query in queries:
                answer = api.get(url + query)
                assert answer.status_code < 500, (url, answer.text)
                text = answer.text if answer.status_code < 300 else ""  # an error names the time
                answers[url + query] = (answer.status_code, text)
    assert len(answers) > 20
    return answers


def _known_values(api):
    """What can stand for the parameters of paths: some of each kind."""
    projects = [each["name"] for each in call(api, "GET", "/projects")]
    datasets = [each["name"] for each in call(api, "GET", "/datasets")]
    experiments, runs, items = [], [], []
    for project in projects[:2]:
        experiments += [each["id"] for each in call(api, "GET", f"/projects/{quote(project)}/experiments")]
    for experiment in experiments[:2]:
        runs += [each["id"] for each in call(api, "GET", f"/experiments/{experiment}/runs")][:3]
    for run in runs[:2]:
        content = call(api, "GET", f"/runs/{run}")["items"]["content"]
        items += [content[0]["id"]] if content else []
    return {
        "projects": projects,
        "datasets": datasets,
        "experimentId": experiments,
        "runId": runs,
        "candidateRunId": runs[:2],
        "itemId": items,
        "version": ["latest", "1", "2"],
    }
