"""From a run to a reviewed item, a promoted case, labels, and the gate of the next run."""

import csv
import io
import json

import pytest
from tests.server.test_access import make_key
from tests.server.test_review_queue import QUEUE, ROOT, annotate, item, queue, start

from dokimos.datasets import Dataset
from dokimos.evaluators import Length, calibrate


def end(api, run):
    assert api.patch(f"{ROOT}/runs/{run}", json={"status": "SUCCESS"}).status_code == 200


def answer(number, *, is_right, **rest):
    output = str(number) if is_right else "wrong"
    return {
        "inputs": {"n": number},
        "expectedOutputs": {"answer": "?"},
        "actualOutputs": {"answer": output},
        "evalResults": [{"name": "exact", "score": float(is_right), "threshold": 0.5, "success": is_right}],
        **rest,
    }


def test_the_loop_from_a_miss_to_the_next_gate(api):
    run = start(api, *(answer(n, is_right=n % 10 > 0) for n in range(30)), experiment="qa")
    end(api, run)
    assert api.post(f"{ROOT}/datasets", json={"name": "qa-regression"}).status_code == 201

    # A person takes the failed ones, says what would have been right, and they leave the queue.
    claimed = api.post(f"{QUEUE}/claim", json={"outcome": "failed", "runId": run}).json()["items"]
    assert [row["input"]["n"] for row in claimed] == [0, 10, 20]
    for row in claimed:
        right = {"answer": str(row["input"]["n"])}
        annotate(api, row, "INCORRECT", overriddenExpectedOutput=right)
    assert queue(api, outcome="failed", runId=run)["content"] == []
    assert queue(api, runId=run)["totalElements"] == 27

    # What was reviewed becomes a version of the data set, with the corrections.
    body = {"datasetName": "qa-regression", "items": [{"itemResultId": row["itemId"]} for row in claimed]}
    promoted = api.post(f"{ROOT}/datasets/promote", json=body)
    assert promoted.status_code == 201
    version = promoted.json()["version"]
    cases = api.get(f"{ROOT}/datasets/qa-regression/versions/{version}/items").json()["content"]
    assert [each["expectedOutputs"]["answer"] for each in cases] == ["0", "10", "20"]

    # The next runs are held against these cases.
    data = {"datasetName": "qa-regression", "datasetVersion": version}
    runs = []
    for is_right in (True, False):
        items = [answer(each["inputs"]["n"], is_right=is_right, datasetItemId=each["id"]) for each in cases]
        runs.append(start(api, *items, experiment="regression", **data))
        end(api, runs[-1])
    experiment = api.get(f"{ROOT}/runs/{runs[0]}").json()["experimentId"]
    gate = api.post(
        f"{ROOT}/experiments/{experiment}/gate",
        json={"candidateRunId": runs[1], "baselineRunId": runs[0]},
    ).json()
    assert gate["pairing"] == "dataset_item_id"
    assert (gate["baselinePassRate"], gate["candidatePassRate"]) == (1.0, 0.0)


@pytest.mark.parametrize("kind", ["jsonl", "json", "csv"])
def test_labels_calibrate_an_evaluator(api, tmp_path, kind):
    texts = ["short", "a much longer answer"] * 15
    run = start(api, *({**item(n), "actualOutputs": {"output": text}} for n, text in enumerate(texts)))
    for row in queue(api, size=100)["content"]:
        is_short = row["actualOutput"]["output"] == "short"
        annotate(api, row, "CORRECT" if is_short else "INCORRECT")
    unsure = start(api, item(99))
    annotate(api, queue(api)["content"][0], "UNSURE")
    for path in (f"{ROOT}/runs/{run}/labels", f"{ROOT}/projects/p/labels"):
        file = tmp_path / f"labels.{kind}"
        file.write_bytes(api.get(path, params={"format": kind}).content)
        examples = list(Dataset.load(file))
        assert len(examples) == 30
        calibration = calibrate(Length(max=10), examples)
        assert calibration.agreement.value == 1.0
    assert api.get(f"{ROOT}/runs/{unsure}/labels").content == b""


def test_a_label_tells_what_it_comes_from(api):
    run = start(api, item(1, metadata={"topic": "geo", "label": "mine"}))
    api.patch(f"{ROOT}/projects/p/settings", json={"reviewRandomShare": 1})
    row = api.post(f"{QUEUE}/claim", json={"order": "informative", "runId": run}).json()["items"][0]
    annotate(api, row, "INCORRECT", overriddenExpectedOutput={"a": 2**70})
    text = api.get(f"{ROOT}/runs/{run}/labels").text
    label = json.loads(text)
    assert label["expectedOutputs"] == {"a": 2**70}
    assert label["actualOutputs"] == {"a": -1}
    assert label["metadata"].items() >= {
        "topic": "geo", "label": False, "verdict": "INCORRECT", "runId": run, "itemId": row["itemId"],
        "sampled": True, "selectionProbability": 1.0, "reviewerCount": 1,
    }.items()  # fmt: skip
    table = csv.DictReader(io.StringIO(api.get(f"{ROOT}/runs/{run}/labels?format=csv").text))
    assert [json.loads(each["metadata"])["label"] for each in table] == [False]
    assert api.get(f"{ROOT}/runs/{run}/labels?format=xml").status_code == 400


def test_labels_of_a_tenant_and_blind_ones_stay_hidden(serve):
    api = serve(api_key="admin-key")
    admin = {"Authorization": "Bearer admin-key"}
    ada, bob = (make_key(api, "EDITOR", tenant) for tenant in ("a", "b"))
    run = start(api, item(1), headers=admin)
    annotate(api, queue(api, ada)["content"][0], headers=ada)
    path = f"{ROOT}/runs/{run}/labels"
    assert len(api.get(path, headers=ada).text.splitlines()) == 1
    assert api.get(path, headers=bob).text == ""
    settings = f"{ROOT}/projects/p/settings"
    assert api.patch(settings, json={"blindReview": True}, headers=admin).status_code == 200
    annotate(api, queue(api, admin)["content"][0], headers=admin)
    assert len(api.get(path, headers=admin).text.splitlines()) == 1
    assert api.get(path, headers=bob).text == ""
