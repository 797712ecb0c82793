"""The difference of two runs over HTTP: its summary, its cases, their order and pages."""

from uuid import uuid4

import pytest
from sqlalchemy import insert
from tests.server.gate_runs import diff, experiment_of, item, items_of, run_of, verdict

from dokimos.server._db.clock import now
from dokimos.server._db.ids import new_id
from dokimos.server._db.tables import DATASET_ITEMS, DATASET_VERSIONS, DATASETS


@pytest.fixture
def api(shared_server):
    """A client whose runs belong to an experiment of this test alone."""
    shared_server.experiment = str(uuid4())
    return shared_server


@pytest.fixture
def runs(api):
    """A baseline and a candidate of which 12 items regressed, 1 was added and 1 removed."""
    before = [*items_of([1.0] * 12), item({"accuracy": 0.2}), *items_of([1.0] * 3)]
    now = [*items_of([0.0] * 12), item({"accuracy": 0.9}), *items_of([1.0] * 2)]
    for ordinal, one in enumerate(before):
        one["ordinal"] = ordinal
    for ordinal, one in enumerate(now):
        one["ordinal"] = ordinal
    now.append(item({"accuracy": 1.0}, ordinal=40))
    return run_of(api, before), run_of(api, now)


def cases_of(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()["cases"]


def test_the_summary_has_the_documented_fields(api, runs):
    before, now = runs

    summary = diff(api, before, now).json()["summary"]

    documented = {
        "pairing": "positional",
        "baselineRunId": before,
        "candidateRunId": now,
        "baselinePassRate": 0.9375,
        "candidatePassRate": 0.25,
        "passRateDelta": -0.6875,
        "significant": True,
        "improvedCount": 0,
        "regressedCount": 12,
        "unchangedCount": 3,
        "addedCount": 1,
        "removedCount": 1,
    }
    assert {name: summary[name] for name in documented} == documented
    assert "status" not in summary


def test_a_case_has_the_documented_fields(api, runs):
    first = cases_of(diff(api, *runs))["content"][0]

    assert len(first.pop("baselineItemId")) == len(first.pop("candidateItemId")) == 36
    assert first == {
        "datasetItemId": None,
        "index": "item-0",
        "status": "REGRESSED",
        "passFlip": True,
        "input": "question 0",
        "evaluators": [
            {
                "name": "accuracy",
                "baselineMean": 1.0,
                "candidateMean": 0.0,
                "delta": -1.0,
                "status": "REGRESSED",
                "significant": True,
            }
        ],
        "baselinePass": 1.0,
        "candidatePass": 0.0,
    }


def test_cases_are_ordered_by_outcome_and_then_by_ordinal(api, runs):
    content = cases_of(diff(api, *runs, size=100))["content"]

    assert [(case["status"], case["index"]) for case in content] == [
        *(("REGRESSED", f"item-{ordinal}") for ordinal in range(12)),
        *(("UNCHANGED", f"item-{ordinal}") for ordinal in (12, 13, 14)),
        ("ADDED", "item-40"),
        ("REMOVED", "item-15"),
    ]
    assert content[-2]["baselineItemId"] is None
    assert content[-1]["candidateItemId"] is None
    assert content[-1]["input"] == "question 2"
    assert content[-1]["evaluators"][0]["delta"] == 0.0


@pytest.mark.parametrize(
    ("status", "count"), [("ALL", 17), ("regressed", 12), ("IMPROVED", 0), ("Changed", 12)]
)
def test_cases_are_filtered_by_status_in_any_case(api, runs, status, count):
    cases = cases_of(diff(api, *runs, status=status, size=5))

    assert cases["totalElements"] == count
    assert cases["numberOfElements"] == min(5, count)


def test_improved_cases_stand_behind_the_regressed_ones(api):
    before = run_of(api, [item({"a": 0.2, "b": 1.0}) for _ in range(30)])
    now = run_of(api, [item({"a": 0.9 if n < 20 else 0.2, "b": 0.6 if n >= 20 else 1.0}) for n in range(30)])

    improved, changed = (cases_of(diff(api, before, now, status=s)) for s in ("IMPROVED", "CHANGED"))

    assert [case["index"] for case in improved["content"]] == [f"item-{n}" for n in range(20)]
    assert improved["totalElements"] == 20
    assert [case["index"] for case in changed["content"]][:10] == [f"item-{n}" for n in range(20, 30)]
    assert changed["totalElements"] == 30


def test_pages_of_cases(api, runs):
    pages = [cases_of(diff(api, *runs, page=page, size=7)) for page in range(4)]

    assert [page["numberOfElements"] for page in pages] == [7, 7, 3, 0]
    assert [page["totalElements"] for page in pages] == [17] * 4
    indexes = [case["index"] for page in pages for case in page["content"]]
    assert len(set(indexes)) == 17
    assert cases_of(diff(api, *runs))["size"] == 20


def test_pages_across_the_rows_that_cases_are_kept_in(api):
    before, now = (run_of(api, items_of([1.0] * 250)) for _ in range(2))

    cases = cases_of(diff(api, before, now, page=3, size=60))

    assert [case["index"] for case in cases["content"]] == [f"item-{n}" for n in range(180, 240)]
    assert [case["input"] for case in cases["content"]][-1] == "question 239"


@pytest.mark.parametrize("query", [{"status": "BAD"}, {"status": ""}, {"baselineRunId": "x"}])
def test_what_is_not_known_is_400(api, runs, query):
    answer = diff(api, *runs, **query)

    assert answer.status_code == 400
    assert answer.json()["message"].startswith(next(iter(query)))


def test_the_baseline_is_required(api, runs):
    experiment = experiment_of(api, runs[1])

    answer = api.get(f"/api/v1/experiments/{experiment}/runs/{runs[1]}/diff")

    assert answer.status_code == 400
    assert answer.json()["message"] == "baselineRunId: is required"
    assert api.get(f"/api/v1/experiments/x/runs/{runs[1]}/diff").status_code == 400


@pytest.mark.parametrize(
    ("inputs", "shown"),
    [
        ({"input": "text"}, "text"),
        ({"input": {"a": 1}, "other": 2}, '{"a": 1}'),
        ({"question": "what?", "n": 1}, '{"question": "what?", "n": 1}'),
        ({}, "{}"),
        ({"input": None}, "null"),
        ({"input": "tab\tline\nnul\0half\ud800"}, "tab\tline\nnul\0half\ud800"),
    ],
)
def test_the_input_of_a_case_is_a_text(api, inputs, shown):
    before, now = (run_of_raw(api, inputs) for _ in range(2))

    assert cases_of(diff(api, before, now))["content"][0]["input"] == shown


def run_of_raw(api, inputs):
    """A run of one item, sent with escapes where UTF-8 has no bytes."""
    import json

    from tests.server.gate_runs import end, start

    run = start(api)
    body = json.dumps({"items": [item({"a": 1.0}, inputs=inputs)]}).encode()
    headers = {"Content-Type": "application/json"}
    assert api.post(f"/api/v1/runs/{run}/items", content=body, headers=headers).status_code == 201
    end(api, run)
    return run


def test_items_that_were_moved_are_warned_about_where_the_position_pairs_them(api):
    before = run_of(api, items_of([1.0] * 5))
    now = run_of(api, items_of([1.0] * 5)[::-1])

    summary = diff(api, before, now).json()["summary"]

    assert any(
        "4 items of 5 paired by position have a different input" in text for text in summary["warnings"]
    )


class Versions:
    """Two versions of one dataset whose cases keep their lineage, in another order."""

    def __init__(self, api, count, lineages=None):
        self.name = str(uuid4())
        lineages = lineages or [new_id() for _ in range(count)]
        self.ids = [[new_id() for _ in range(count)] for _ in range(2)]
        dataset, versions = new_id(), [new_id(), new_id()]
        order = [list(range(count)), list(range(count))[::-1]]

        def store(connection):
            moment = now()
            connection.execute(
                insert(DATASETS).values(id=dataset, name=self.name, created_at=moment, updated_at=moment)
            )
            for number in range(2):
                connection.execute(
                    insert(DATASET_VERSIONS).values(
                        id=versions[number],
                        dataset_id=dataset,
                        version=number + 1,
                        item_count=count,
                        content_hash="",
                        created_by="system",
                        created_at=moment,
                    )
                )
                rows = [
                    {
                        "id": self.ids[number][case],
                        "version_id": versions[number],
                        "ordinal": ordinal,
                        "lineage_id": lineages[case],
                        "inputs": "{}",
                        "inputs_hash": new_id(),
                        "content_hash": new_id(),
                    }
                    for ordinal, case in enumerate(order[number])
                ]
                connection.execute(insert(DATASET_ITEMS), rows)

        api.portal.call(api.app.state.database.write, store)

    def run(self, api, version, scores):
        """A run on a version, sent in its order: `scores` are those of the cases."""
        ids = self.ids[version - 1]
        cases = range(len(scores)) if version == 1 else range(len(scores))[::-1]
        items = [item({"accuracy": scores[case]}, datasetItemId=ids[case]) for case in cases]
        return run_of(api, items, datasetName=self.name, datasetVersion=version)


def test_items_of_one_dataset_version_are_paired_by_their_ids(api):
    versions = Versions(api, 6)
    before = versions.run(api, 1, [1.0, 0.9, 0.8, 0.7, 0.6, 0.5])
    now = run_of(
        api,
        [item({"accuracy": 1.0 - case / 10}, datasetItemId=versions.ids[0][case]) for case in (5, 3, 1)],
        datasetName=versions.name,
        datasetVersion=1,
    )

    answer = diff(api, before, now).json()

    assert answer["summary"]["pairing"] == "dataset_item_id"
    assert answer["summary"]["pairedBy"] == "dataset_item_id"
    assert answer["summary"]["removedCount"] == 3
    unchanged = [case for case in answer["cases"]["content"] if case["status"] == "UNCHANGED"]
    assert [case["datasetItemId"] for case in unchanged] == [versions.ids[0][case] for case in (5, 3, 1)]
    assert all(case["evaluators"][0]["delta"] == 0.0 for case in unchanged)


def test_items_of_two_versions_are_paired_by_their_lineage(api):
    versions = Versions(api, 4)
    before = versions.run(api, 1, [1.0, 0.9, 0.8, 0.7])
    now = versions.run(api, 2, [1.0, 0.9, 0.8, 0.7])

    answer = diff(api, before, now).json()

    assert answer["summary"]["pairing"] == "dataset_item_id"
    assert answer["summary"]["pairedBy"] == "lineage"
    assert [case["evaluators"][0]["delta"] for case in answer["cases"]["content"]] == [0.0] * 4
    ids = [case["datasetItemId"] for case in answer["cases"]["content"]]
    assert ids == [versions.ids[1][case] for case in (3, 2, 1, 0)]
    # The automatic baseline is one of the same version, as documented.
    assert verdict(api, now)["status"] == "NO_BASELINE"
    assert verdict(api, now, baselineRunId=before)["pairedBy"] == "lineage"


def test_a_dataset_item_that_was_run_twice_is_one_case(api):
    versions = Versions(api, 2)
    first, second = versions.ids[0]

    def run(*scores):
        items = [
            item({"accuracy": score}, datasetItemId=which)
            for which, score in zip((first, second, first, second), scores, strict=True)
        ]
        return run_of(api, items, datasetName=versions.name, datasetVersion=1)

    answer = diff(api, run(1.0, 1.0, 0.0, 1.0), run(1.0, 1.0, 1.0, 1.0)).json()

    assert answer["cases"]["totalElements"] == 2
    assert answer["cases"]["content"][0]["evaluators"][0]["baselineMean"] == 0.5


def test_an_item_without_a_link_makes_the_position_pair(api):
    versions = Versions(api, 2)
    before = versions.run(api, 1, [1.0, 1.0])
    unlinked = [item({"accuracy": 1.0}, datasetItemId=versions.ids[0][0]), item({"accuracy": 1.0})]
    now = run_of(api, unlinked, datasetName=versions.name, datasetVersion=1)

    assert diff(api, before, now).json()["summary"]["pairing"] == "positional"
