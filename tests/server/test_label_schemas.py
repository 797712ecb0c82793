"""Labels that reviewers give beside the verdict: defined, checked, versioned, retired."""

import pytest
from tests.server.test_review_queue import ROOT, item, queue, start

SCHEMAS = f"{ROOT}/projects/p/label-schemas"
DEFINED = {
    "tone": {"kind": "choice", "choices": ["kind", "rude"]},
    "stars": {"kind": "number", "low": 1, "high": 5},
    "depth": {"kind": "number"},
    "why": {"kind": "text", "description": "In a sentence"},
    "safe / sound": {"kind": "verdict"},
}


@pytest.fixture
def row(api):
    start(api, item(1))
    for name, body in DEFINED.items():
        answer = api.put(f"{SCHEMAS}/{name.replace('/', '%2F')}", json=body)
        assert answer.status_code == 200, answer.text
    return queue(api)["content"][0]


def give(api, row, labels):
    path = f"{ROOT}/runs/{row['runId']}/items/{row['itemId']}/review"
    return api.put(path, json={"verdict": "CORRECT", "labels": labels})


def test_labels_of_each_kind_are_kept_beside_the_verdict(api, row):
    labels = {"tone": "kind", "stars": 4.5, "why": "Short.", "safe / sound": "UNSURE"}
    given = give(api, row, labels)
    assert given.status_code == 200, given.text
    assert given.json()["labels"] == {name: {"value": each, "version": 1} for name, each in labels.items()}
    assert [each["name"] for each in api.get(SCHEMAS).json()] == sorted(DEFINED)
    assert give(api, row, {}).json()["labels"] == {}


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"tone": "loud"}, "labels.tone: must be one of kind, rude"),
        ({"stars": 6}, "labels.stars: must be at most 5"),
        ({"stars": 10**400}, "labels.stars: must be at most 5"),
        ({"depth": 10**400}, "labels.depth: must be a number"),
        ({"depth": -(10**400)}, "labels.depth: must be a number"),
        ({"stars": 0.5}, "labels.stars: must be at least 1"),
        ({"stars": True}, "labels.stars: must be a number"),
        ({"why": "x" * 10_001}, "labels.why: must be a text of at most 10000 characters"),
        ({"safe / sound": "YES"}, "labels.safe / sound: must be one of CORRECT, INCORRECT, UNSURE"),
        ({"unknown": 1}, "labels.unknown: is not a label of the project"),
        ({"tone": ["kind"]}, "labels.tone: must be one of kind, rude"),
    ],
)
def test_a_value_that_a_label_cannot_have_is_refused_and_nothing_is_written(api, row, labels, message):
    refused = give(api, row, labels)
    assert refused.status_code == 400
    assert refused.json()["message"] == message
    assert queue(api)["totalElements"] == 1


def test_a_version_never_changes_and_reviews_keep_theirs(api, row):
    give(api, row, {"tone": "rude"})
    same = api.put(f"{SCHEMAS}/tone", json=DEFINED["tone"]).json()
    assert same["version"] == 1
    changed = api.put(f"{SCHEMAS}/tone", json={"kind": "choice", "choices": ["warm", "cold"]}).json()
    assert (changed["version"], changed["choices"]) == (2, ["warm", "cold"])
    path = f"{ROOT}/runs/{row['runId']}/items/{row['itemId']}/reviews"
    assert api.get(path).json()[0]["labels"] == {"tone": {"value": "rude", "version": 1}}
    assert give(api, row, {"tone": "rude"}).status_code == 400
    assert api.delete(f"{SCHEMAS}/tone").status_code == 204
    assert give(api, row, {"tone": "warm"}).status_code == 400
    assert api.delete(f"{SCHEMAS}/tone").status_code == 404
    assert api.put(f"{SCHEMAS}/tone", json=DEFINED["tone"]).json()["version"] == 3


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "choice"},
        {"kind": "choice", "choices": ["a", "a"]},
        {"kind": "text", "choices": ["a"]},
        {"kind": "text", "low": 1},
        {"kind": "number", "low": 2, "high": 1},
        {"kind": "colour"},
    ],
)
def test_a_definition_that_makes_no_sense_is_refused(api, row, body):
    assert api.put(f"{SCHEMAS}/new", json=body).status_code == 400
