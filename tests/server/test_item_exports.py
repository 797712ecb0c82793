"""The items of a run as a file: as many as the filters leave, in the formats that tables and scripts read."""

import csv
import io
import json

import pytest

from dokimos.server._api.runs import item_exports
from dokimos.server._services.datasets import dataset_items

FORMULA = '=HYPERLINK("https://example.com","click")'


@pytest.fixture(scope="module")
def api(shared_server):
    return shared_server


def item(ordinal, score, *, topic=None, **fields):
    result = {
        "name": "exact",
        "score": score,
        "threshold": 0.5,
        "success": score >= 0.5,
        "reason": "-1 + 2, twice",
    }
    return {
        "inputs": {"question": f"number {ordinal}"},
        "expectedOutputs": {"output": 'a,b\n"c"'},
        "actualOutputs": {"output": FORMULA},
        "ordinal": ordinal,
        "evalResults": [result],
        "metadata": None if topic is None else {"topic": topic},
        **fields,
    }


@pytest.fixture(scope="module")
def run(api):
    run = api.post("/api/v1/projects/chat/runs", json={"experimentName": "exported"}).json()["runId"]
    items = [item(number, number / 10, topic=("tents", 2.0, True)[number % 3]) for number in range(10)]
    items.append({"inputs": {"a": 1, "b": 2}, "actualOutputs": {}, "ordinal": 10, "error": "@boom"})
    answer = api.post(f"/api/v1/runs/{run}/items", json={"items": items})
    assert answer.status_code == 201, answer.text
    return run


@pytest.fixture(autouse=True)
def few_at_a_time(monkeypatch):
    monkeypatch.setattr(item_exports, "_ITEMS", 3)


def export(api, run, **query):
    answer = api.get(f"/api/v1/runs/{run}/items/export", params=query)
    assert answer.status_code == 200, answer.text
    return answer


def ordinals(api, run, **query):
    return [json.loads(line)["ordinal"] for line in export(api, run, **query).text.splitlines()]


def test_lines_and_lists_have_the_items_as_the_page_of_the_run_has_them(api, run):
    shown = api.get(f"/api/v1/runs/{run}").json()["items"]["content"]

    lines = export(api, run)

    assert [json.loads(line) for line in lines.text.splitlines()] == shown
    assert lines.headers["content-disposition"] == f'attachment; filename="run-{run}.jsonl"'
    assert export(api, run, format="json").json() == shown


def test_a_table_has_a_row_for_each_item_and_no_cell_that_a_spreadsheet_runs(api, run):
    rows = list(csv.DictReader(io.StringIO(export(api, run, format="csv").text, newline="")))

    assert [row["ordinal"] for row in rows] == [str(number) for number in range(11)]
    assert rows[7] | {"item_id": "", "metadata": ""} == {
        "ordinal": "7", "repetition": "0", "item_id": "", "input": "number 7",
        "expected_output": 'a,b\n"c"', "actual_output": f"'{FORMULA}", "outcome": "passed",
        "success": "true", "error": "", "latency_ms": "", "tokens_in": "", "tokens_out": "",
        "cost_usd": "", "metadata": "", "exact_score": "0.7", "exact_pass": "true",
        "exact_reason": "'-1 + 2, twice", "verdict": "", "note": "",
    }  # fmt: skip
    assert rows[1]["outcome"] == "failed"
    assert (rows[10]["outcome"], rows[10]["error"], rows[10]["success"]) == ("errored", "'@boom", "")
    assert json.loads(rows[10]["input"]) == {"a": 1, "b": 2}


def test_labels_have_a_column_where_an_evaluator_gives_some(api):
    run = api.post("/api/v1/projects/chat/runs", json={"experimentName": "labels"}).json()["runId"]
    tone = {"name": "tone", "score": 1.0, "threshold": None, "success": True, "reason": None}
    items = [
        {**item(0, 1.0), "evalResults": [{**tone, "label": "=polite"}, *item(0, 1.0)["evalResults"]]},
        {**item(1, 1.0), "evalResults": [tone]},
    ]
    assert api.post(f"/api/v1/runs/{run}/items", json={"items": items}).status_code == 201

    text = export(api, run, format="csv").text
    rows = list(csv.DictReader(io.StringIO(text, newline="")))

    assert [name for name in rows[0] if name.startswith(("tone", "exact"))] == [
        "exact_score", "exact_pass", "exact_reason", "tone_score", "tone_pass", "tone_label", "tone_reason",
    ]  # fmt: skip
    assert [row["tone_label"] for row in rows] == ["'=polite", ""]


def test_the_filters_of_the_list_of_items_choose_what_is_exported(api, run):
    assert ordinals(api, run, outcome="failed") == [0, 1, 2, 3, 4]
    assert ordinals(api, run, failedEvaluator="exact", search="number 3") == [3]
    assert ordinals(api, run, scoreOf="exact", scoreFrom=0.3, scoreTo=0.6) == [3, 4, 5, 6]
    assert ordinals(api, run, scoreOf="exact") == list(range(10))
    assert ordinals(api, run, metadataKey="topic", metadataValue="tents") == [0, 3, 6, 9]
    assert ordinals(api, run, metadataKey="topic", metadataValue="2") == [1, 4, 7]
    assert ordinals(api, run, metadataKey="topic", metadataValue="true", outcome="passed") == [5, 8]
    assert export(api, run, search="nothing", format="json").json() == []
    assert ordinals(api, run, search="nothing") == []


def test_numbers_are_those_of_the_web_interface_however_they_are_written(api):
    run = api.post("/api/v1/projects/chat/runs", json={"experimentName": "numbers"}).json()["runId"]
    rates = [0.00005, 1e-7, 2**60, 0.1 + 0.2, 10**400, True, None]
    items = [{**item(place, 1.0), "metadata": {"rate": rate}} for place, rate in enumerate(rates)]
    assert api.post(f"/api/v1/runs/{run}/items", json={"items": items}).status_code == 201

    for place, text in enumerate(["0.00005", "1e-7", "1152921504606847000", "0.30000000000000004"]):
        assert ordinals(api, run, metadataKey="rate", metadataValue=text) == [place]
    assert ordinals(api, run, metadataKey="rate", metadataValue="true") == [5]
    assert ordinals(api, run, metadataKey="rate", metadataValue="1") == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"metadataKey": "topic"}, "metadataKey"),
        ({"metadataValue": "tents"}, "metadataValue"),
        ({"scoreFrom": 0.5}, "scoreFrom"),
        ({"scoreOf": "exact", "scoreTo": "nan"}, "scoreTo"),
    ],
)
def test_half_a_filter_is_refused_and_never_exports_everything(api, run, query, field):
    answer = api.get(f"/api/v1/runs/{run}/items/export", params=query)
    assert answer.status_code == 400
    assert field in answer.text


def test_long_items_are_read_one_at_a_time(api, run, monkeypatch):
    monkeypatch.setattr(dataset_items, "BATCH_CHARACTERS", 10)
    assert ordinals(api, run) == list(range(11))


def test_a_run_that_nobody_sees_has_no_file(api):
    path = "/api/v1/runs/00000000-0000-7000-8000-000000000000/items/export"
    assert api.get(path, params={"format": "csv"}).status_code == 404
