"""Where a data set was loaded from, and which item of it each example is."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from dokimos import Dataset, Example, Experiment, from_json, to_json
from dokimos._core.wire import to_tree
from dokimos.datasets import DatasetSource, DatasetStream, register_resolver, unregister_resolver
from dokimos.datasets._fingerprint import canonical_json
from dokimos.evaluators import ExactMatch
from dokimos.experiment import load_run, merge_results
from dokimos.experiment._run_part import subset_of

SOURCE = DatasetSource(uri="dataset://letters@latest", name="letters", version=4)


def letters(count=6):
    examples = [
        Example({"input": f"q{n}"}, {"output": f"q{n}"}, id=f"id-{n}", dataset_item_id=f"item-{n}")
        for n in range(count)
    ]
    return Dataset(examples, "letters", source=SOURCE)


def same_items(part):
    return all(example.dataset_item_id == f"item-{example.id.removeprefix('id-')}" for example in part)


@pytest.mark.parametrize(
    "derive",
    [
        lambda data: data[1:4],
        lambda data: data.filter(lambda example: example.id != "id-2"),
        lambda data: data.sample(3, seed=1),
        lambda data: data.split(0.5, seed=1)[1],
        lambda data: data.as_types(str),
        lambda data: data.subset(data.examples[::2]),
        lambda data: subset_of(data, data.examples[::2]),
        lambda data: subset_of(DatasetStream(lambda: data, source=SOURCE), data.examples[::2]),
        copy.copy,
        copy.deepcopy,
        lambda data: pickle.loads(pickle.dumps(data)),
    ],
)
def test_parts_of_a_data_set_keep_its_source_and_the_ids_of_their_items(derive):
    part = derive(letters())

    assert part.source == SOURCE
    assert len(part) >= 2
    assert same_items(part)
    assert part.item_ids == tuple(example.dataset_item_id for example in part)


def test_neither_source_nor_item_id_is_content():
    plain = Dataset([Example(e.inputs, e.expected_outputs, id=e.id) for e in letters()], "letters")

    assert plain == letters()
    assert plain.fingerprint == letters().fingerprint
    assert hash(plain[0].id) == hash(letters()[0].id)
    assert canonical_json(plain[0]) == canonical_json(letters()[0])
    assert plain.item_ids == (None,) * 6


def test_the_json_of_an_example_has_the_item_id_where_there_is_one():
    with_id, without = letters()[0], Example.of("q", "a")

    assert to_tree(with_id)["datasetItemId"] == "item-0"
    assert "datasetItemId" not in to_tree(without)
    assert from_json(Example, to_json(with_id)).dataset_item_id == "item-0"


@pytest.mark.parametrize("extension", ["json", "jsonl", "csv"])
def test_a_file_of_a_data_set_does_not_hold_them(tmp_path, extension):
    path = tmp_path / f"letters.{extension}"
    letters().save(path)

    loaded = Dataset.load(path)

    assert "item-0" not in path.read_text("utf-8")
    assert loaded == letters()
    assert loaded.item_ids == (None,) * 6


def test_what_is_loaded_knows_the_uri_that_was_asked_for(tmp_path):
    path = tmp_path / "letters.jsonl"
    letters().save(path)

    assert Dataset.load(path).source == DatasetSource(uri=str(path))
    assert Dataset.load(str(path)).filter(bool).source.uri == str(path)
    assert Dataset.stream(path).source.uri == str(path)
    assert Dataset.from_jsonl(path).source is None
    assert Dataset([Example.of("a")]).source is None


class Shared:
    """A resolver that gives the same object each time, without a source."""

    data = Dataset([Example.of("a")])

    def supports(self, uri):
        return uri.startswith("shared://")

    def load(self, uri, columns=None):
        return self.data

    def stream(self, uri, columns=None):
        return DatasetStream(lambda: self.data)


def test_a_resolver_keeps_what_it_returned_and_no_password_is_recorded():
    resolver = Shared()
    register_resolver(resolver)
    try:
        first = Dataset.load("shared://user:secret@host/one")
        second = Dataset.load("shared://two")
    finally:
        unregister_resolver(resolver)

    assert (first.source.uri, second.source.uri) == ("shared://host/one", "shared://two")
    assert first == second == Shared.data
    assert Shared.data.source is None


@pytest.mark.parametrize("redact", [None, str.upper])
def test_a_run_records_the_source_and_its_items_know_theirs(tmp_path, redact):
    plan = Experiment(letters(), lambda q: q, [ExactMatch()], runs=2)
    result = plan.run(run_dir=tmp_path, quiet=True, redact=redact, shard=(2, 2))

    stored = load_run(tmp_path / result.run_id)
    manifest = json.loads((tmp_path / result.run_id / "run.json").read_text("utf-8"))

    assert manifest["dataset"]["source"] == {
        "uri": "dataset://letters@latest",
        "name": "letters",
        "version": 4,
    }
    for found in (result, stored):
        for run in found.runs:
            assert [item.example.dataset_item_id for item in run.item_results] == [
                "item-1",
                "item-3",
                "item-5",
            ]


def test_merged_shards_keep_the_ids_of_their_items(tmp_path):
    plan = Experiment(letters(), lambda q: q, [ExactMatch()])
    runs = [plan.run(run_dir=tmp_path, quiet=True, shard=(n, 2)) for n in (1, 2)]

    merged = merge_results([load_run(tmp_path / run.run_id) for run in runs])

    assert [item.example.dataset_item_id for item in merged.item_results] == [f"item-{n}" for n in range(6)]


def test_a_run_is_resumed_with_another_version_whose_rows_are_the_same(tmp_path):
    calls = []

    def answer(question):
        calls.append(question)
        return question

    first = Experiment(letters(), answer, [ExactMatch()]).run(run_dir=tmp_path, quiet=True)
    renamed = [
        Example(e.inputs, e.expected_outputs, id=e.id, dataset_item_id=f"new-{e.id}") for e in letters()
    ]
    again = Experiment(Dataset(renamed, "letters"), answer, [ExactMatch()])
    again.run(run_dir=tmp_path, resume=first.run_id, quiet=True)

    assert len(calls) == 6
