"""A server that judges a stored run with a real, small model: from the reported run to the calls it paid for.

Runs when DOKIMOS_TEST_MODEL_URL holds the base URL of an OpenAI-compatible server; a name after `#` chooses
the model. What is tested is that a weak model's replies become scores on the run, and that all calls are
accounted for; how well it judges is only asked for in the easiest cases. With -rP, the figures are printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request

import pytest
from tests.server.server_process import execute

from dokimos import Dataset, Example, evaluate
from dokimos.client import push_result
from dokimos.evaluators import Length

URL = os.environ.get("DOKIMOS_TEST_MODEL_URL", "")
pytestmark = [
    pytest.mark.local_model,
    pytest.mark.skipif(not URL, reason="set DOKIMOS_TEST_MODEL_URL to the base URL of a model server"),
    pytest.mark.timeout(3600),
]
pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
pytest.importorskip("cryptography", reason="the extra 'encryption' is not installed")

PATIENCE = 3000.0
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")
ANSWERS = [
    ("What is the capital of France?", "Paris", "The capital of France is Paris.", True),
    ("What is the capital of Italy?", "Rome", "The capital of Italy is Madrid.", False),
    ("How many days does a week have?", "seven", "A week has seven days.", True),
    ("How many legs does a spider have?", "eight", "A spider has two legs.", False),
    ("Which planet do we live on?", "the Earth", "We live on the Earth.", True),
    ("Is a whale a mammal?", "yes", "No, a whale is an insect.", False),
    ("What is 12 times 12?", "144", "It is 144.", True),
    ("What colour is a clear sky at noon?", "blue", "It is green.", False),
]
"""Questions with the expected answer, the answer of the application, and whether that is right."""
PRICES = {"inputPricePerMillion": 0.15, "outputPricePerMillion": 0.6}


@pytest.fixture
def server(tmp_path):
    """The address of a server for this machine, whose data is in the folder of the test."""
    names = ("DB_", "DOKIMOS_", "SERVER_", "SPRING_")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    settings = {
        "DOKIMOS_ENCRYPTION_KEY": "a passphrase of a test",
        # What a team with a model in its own network sets; a server for this machine alone calls it anyway.
        "DOKIMOS_ALLOWED_PRIVATE_HOSTS": URL.partition("//")[2].partition("/")[0],
        "DOKIMOS_JUDGE_REQUEST_SECONDS": "900",  # a small machine takes its time
        "DOKIMOS_JUDGE_ITEM_SECONDS": "2700",
    }
    command = ["-m", "dokimos", "serve", "--host", "127.0.0.1", "--port", "0", "--data-dir", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, *command], env={**variables, **settings}, stdout=subprocess.PIPE, text=True
    )
    yield process.stdout.readline().split()[3]
    process.terminate()
    process.communicate()


def call(server, path, body=None):
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"{server}/api/v1{path}",
        content,
        {"Content-Type": "application/json"},
        method="GET" if body is None else "POST",
    )
    with urllib.request.urlopen(request, timeout=1000) as answer:
        return json.load(answer)


def report_run(server):
    answers = {question: answer for question, _, answer, _ in ANSWERS}
    examples = [Example.of(question, expected) for question, expected, *_ in ANSWERS]
    result = evaluate(
        Dataset(examples), answers.__getitem__, [Length(max=100)], name="easy questions", quiet=True
    )
    return push_result(result, server_url=server, project_name="local model")


def connect(server):
    url, _, name = URL.partition("#")
    connection = {
        "name": "local",
        "baseUrl": url,
        "model": name or "local",
        "protocol": "CHAT_COMPLETIONS",
        "apiKey": "not-needed",
        "maxOutputTokens": 200,
        "maxConcurrency": 1,
        "temperature": 0,
    }
    return call(server, "/llm-connections", {**connection, **PRICES})["id"]


def wait_for_end(server, path):
    limit = time.monotonic() + PATIENCE
    while (job := call(server, path))["status"] not in ENDED:
        assert time.monotonic() < limit, f"the job is still {job}"
        time.sleep(1)  # between two looks
    return job


def test_a_small_model_judges_a_stored_run(server, tmp_path):
    run = report_run(server)
    connection = connect(server)
    tried = call(server, f"/llm-connections/{connection}/test", {})
    assert tried["ok"], tried
    started = time.monotonic()
    job = call(
        server,
        f"/runs/{run}/judge-jobs",
        {
            "connectionId": connection,
            "evaluatorName": "correct",
            "criteria": "Is the answer factually correct?",
            "evaluationParams": ["INPUT", "ACTUAL_OUTPUT"],
            "minScore": 0,
            "maxScore": 1,
            "threshold": 0.5,
            "concurrency": 2,
            "budget": {"maxCostUsd": 0.05, "maxCalls": 5 * len(ANSWERS)},
        },
    )
    path = f"/runs/{run}/judge-jobs/{job['id']}"
    job = wait_for_end(server, path)
    errors = {error["ordinal"] for error in call(server, f"{path}/errors")}
    stored = call(server, f"/runs/{run}?size=100")
    items = stored["items"]["content"]
    results = [[each for each in item["evalResults"] if each["evaluatorName"] == "correct"] for item in items]
    scores = [[each["score"] for each in found] for found in results]
    calls = execute(
        {"data_dir": tmp_path}, "SELECT status, calls, tokens, nano_usd FROM judge_calls ORDER BY created_at"
    )
    print(f"{time.monotonic() - started:.0f} s; {job}\n{scores}\n{calls}")

    assert job["status"] == "SUCCEEDED", job["lastError"]
    assert job["scoredCount"] + job["errorCount"] == len(ANSWERS)
    assert [ordinal for ordinal, found in enumerate(scores) if not found] == sorted(errors)
    assert stored["status"] == "SUCCESS"
    right_verdicts = sum(
        bool(found) and (found[0] >= 0.5) is right for found, (*_, right) in zip(scores, ANSWERS, strict=True)
    )
    assert right_verdicts > len(ANSWERS) / 2, scores
    assert all(each["reason"] for found in results for each in found)
    assert job["calls"] == len(calls) == sum(count for _, count, *_ in calls)
    # An item takes a call, and one more where its reply had to be repaired.
    assert len(ANSWERS) <= job["calls"] <= 2 * len(ANSWERS)
    assert {status for status, *_ in calls} <= {"ANSWERED", "UNUSABLE"}
    assert job["tokens"] == sum(tokens for _, _, tokens, _ in calls) > 0
    assert job["costUsd"] == pytest.approx(sum(dollars for *_, dollars in calls) / 1e9)
    assert 0.15e-6 * job["tokens"] <= job["costUsd"] <= 0.6e-6 * job["tokens"]
    assert (job["unpricedCalls"], job["lostCalls"]) == (0, 0)
