"""The outline of a run, what its items are told apart by, and its items by ordinal and by id."""

import pytest

PASSED = {"name": "exact", "score": 1.0, "threshold": 0.5, "success": True}
FAILED = {"name": "exact", "score": 0.25, "threshold": 0.5, "success": False}
INFORMS = {"name": "tone", "score": 0.75, "success": None}


@pytest.fixture(scope="module")
def api(shared_server):
    return shared_server


def start(api, **fields):
    answer = api.post("/api/v1/projects/chat/runs", json={"experimentName": "qa", **fields})
    assert answer.status_code == 201, answer.text
    return answer.json()["runId"]


def read(api, run, **query):
    answer = api.get(f"/api/v1/runs/{run}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


def item(ordinal, *results, repetition=0, **fields):
    place = {"ordinal": ordinal, "repetition": repetition}
    return {"inputs": {"question": "?"}, "actualOutputs": {}, **place, "evalResults": list(results), **fields}


@pytest.fixture(scope="module")
def run(api):
    run = start(api)
    items = [
        item(2, FAILED, repetition=1),
        item(2, PASSED, INFORMS, latencyMs=40),
        item(0, error="the model did not answer"),
        item(5, inputs={"question": "needle 50%"}),
    ]
    answer = api.post(f"/api/v1/runs/{run}/items", json={"items": items})
    assert answer.status_code == 201, answer.text
    return run


def outline(api, run, **query):
    answer = api.get(f"/api/v1/runs/{run}/outline", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_an_outline_has_a_column_for_each_evaluator_and_an_entry_for_each_item(api, run):
    assert outline(api, run) == {
        "ordinals": [0, 2, 2, 5],
        "repetitions": [0, 0, 1, 0],
        "outcomes": "epfu",
        "latenciesMs": [None, 40, None, None],
        "evaluators": [
            {"evaluatorName": "exact", "scores": [None, 1.0, 0.25, None], "outcomes": "-pf-"},
            {"evaluatorName": "tone", "scores": [None, 0.75, None, None], "outcomes": "-i--"},
        ],
        "excludedEvaluators": [],
    }


def test_an_outline_is_the_same_after_other_things_were_read(api, run):
    first = outline(api, run)
    for _ in range(8):  # at least once with each of the threads that read
        attributes(api, run)

    assert [outline(api, run) for _ in range(8)] == [first] * 8


def test_an_outline_of_what_a_search_or_a_filter_finds_has_those_items_alone(api, run):
    assert outline(api, run, search="NEEDLE 50%")["ordinals"] == [5]
    assert outline(api, run, outcome="failed")["evaluators"] == [
        {"evaluatorName": "exact", "scores": [0.25], "outcomes": "f"}
    ]
    assert outline(api, run, search="nothing")["outcomes"] == ""


def test_evaluators_stand_in_the_order_of_their_first_scores_and_the_last_of_several_scores_counts(api):
    run = start(api)
    items = [
        item(0, INFORMS, {**PASSED, "score": 0.1 + 0.2}),
        item(1, {"name": "a", "score": 1e300, "success": True}, FAILED, INFORMS, PASSED),
    ]
    assert api.post(f"/api/v1/runs/{run}/items", json={"items": items}).status_code == 201

    assert outline(api, run)["evaluators"] == [
        {"evaluatorName": "tone", "scores": [0.75, 0.75], "outcomes": "ii"},
        {"evaluatorName": "exact", "scores": [0.1 + 0.2, 1.0], "outcomes": "pp"},
        {"evaluatorName": "a", "scores": [None, 1e300], "outcomes": "-p"},
    ]


def test_an_outline_of_an_empty_run_is_empty_and_of_none_is_not_found(api):
    assert outline(api, start(api))["evaluators"] == []
    missing = api.get("/api/v1/runs/00000000-0000-7000-8000-000000000000/outline")
    assert missing.status_code == 404


def test_evaluators_that_would_make_it_too_long_are_named_without_their_scores(api, run, monkeypatch):
    monkeypatch.setattr("dokimos.server._services.runs.run_outline.MOST_SCORES", 4)

    answer = outline(api, run)

    assert [column["evaluatorName"] for column in answer["evaluators"]] == ["exact"]
    assert answer["excludedEvaluators"] == ["tone"]


def test_items_are_read_by_their_ordinals_in_all_repetitions(api, run):
    page = read(api, run, ordinal=[2, 5, 77])

    assert [(one["ordinal"], one["repetition"]) for one in page["content"]] == [(2, 0), (2, 1), (5, 0)]
    assert page["totalElements"] == 3


def test_items_are_read_by_their_ids(api, run):
    wanted = [one["id"] for one in read(api, run)["content"]][1:3]

    assert [one["id"] for one in read(api, run, itemId=wanted)["content"]] == wanted


@pytest.mark.parametrize(
    ("query", "field"),
    [({"ordinal": -1}, "ordinal"), ({"ordinal": "x"}, "ordinal"), ({"itemId": "x"}, "itemId")],
)
def test_ordinals_and_ids_that_are_none_are_refused(api, run, query, field):
    answer = api.get(f"/api/v1/runs/{run}", params=query)

    assert answer.status_code == 400
    assert field in answer.json()["message"]


def attributes(api, run):
    answer = api.get(f"/api/v1/runs/{run}/item-attributes")
    assert answer.status_code == 200, answer.text
    return answer.json()


def send(api, items, **fields):
    run = start(api, **fields)
    answer = api.post(f"/api/v1/runs/{run}/items", json={"items": items})
    assert answer.status_code == 201, answer.text
    return run


def test_metadata_of_few_values_comes_as_columns_in_the_order_of_the_outline(api):
    run = send(
        api,
        [
            item(1, metadata={"topic": "tents", "level": 1, "dokimos": {"id": "b"}, "tags": ["x"]}),
            item(0, metadata={"topic": "stoves", "level": True, "nothing": None}),
            item(2),
            item(3, metadata={"topic": "tents", "level": 1.5, "ünï": "<b>"}),
        ],
    )

    answer = attributes(api, run)

    assert answer["ordinals"] == [0, 1, 2, 3]
    assert answer["datasetItemIds"] == answer["lineageIds"] == [None] * 4
    assert answer["exampleIds"] == [None, "b", None, None]
    columns = {column["name"]: (column["values"], column["codes"]) for column in answer["metadata"]}
    assert columns == {
        "topic": (["stoves", "tents"], [0, 1, -1, 1]),
        "level": ([True, 1, 1.5], [0, 1, -1, 2]),
        "ünï": (["<b>"], [-1, -1, -1, 0]),
    }
    assert columns["level"][0][0] is True


@pytest.mark.parametrize("own", [{"id": 7}, {"id": None}, {"id": "x" * 201}, ["id"], "id", None, {}])
def test_what_is_no_short_text_is_not_the_id_of_an_example(api, own):
    run = send(api, [item(0, metadata={"dokimos": own}), item(1, metadata={"dokimos": {"id": "x" * 200}})])

    assert attributes(api, run)["exampleIds"] == [None, "x" * 200]


def test_a_key_with_more_values_than_slices_can_be_shown_of_is_left_out(api):
    run = send(api, [item(n, metadata={"id": f"q{n}", "half": n % 2, "long": "x" * 201}) for n in range(41)])

    assert [column["name"] for column in attributes(api, run)["metadata"]] == ["half"]


def test_items_of_a_dataset_are_told_apart_by_their_cases(api):
    assert api.post("/api/v1/datasets", json={"name": "outline-cases"}).status_code == 201
    made = api.post(
        "/api/v1/datasets/outline-cases/versions",
        json={"items": [{"inputs": {"q": n}} for n in range(2)]},
    )
    assert made.status_code == 201, made.text
    cases = api.get("/api/v1/datasets/outline-cases/versions/1/items").json()["content"]
    items = [item(n, datasetItemId=case["id"]) for n, case in enumerate(cases)]
    run = send(api, items, datasetName="outline-cases", datasetVersion=1)

    answer = attributes(api, run)

    assert answer["datasetItemIds"] == [case["id"] for case in cases]
    assert answer["lineageIds"] == [case["lineageId"] for case in cases]


def test_attributes_of_an_empty_run_are_empty_and_of_none_not_found(api):
    assert attributes(api, start(api))["metadata"] == []
    assert api.get("/api/v1/runs/00000000-0000-7000-8000-000000000000/item-attributes").status_code == 404
