"""A resumed run computes the hash of an example once, and the JSON of those that run."""

import json
from pathlib import Path

import pytest

from dokimos import Dataset, Example, Experiment
from dokimos.evaluators import ExactMatch
from dokimos.experiment import _example_source

COUNT = 6


def spoil_inputs(example):
    """A task that changes what it was given."""
    output = example.inputs["input"]
    example.inputs["input"] = "spoiled"
    return output


def echo(example):
    return example.inputs["input"]


def run(task=echo, *, runs=1, **options):
    data = Dataset([Example.of(f"q{n}", f"q{n}") for n in range(COUNT)])
    plan = Experiment(data, task, [ExactMatch()], progress=False, runs=runs)
    return plan.run(run_dir=Path("runs"), **options)


def journal_of(result):
    return Path("runs", result.run_id, "journal.jsonl")


def cut(result, lines):
    """Make the journal what a process that was killed after some lines has left."""
    whole = journal_of(result).read_text().splitlines(keepends=True)
    journal_of(result).write_text("".join(whole[:lines]))


@pytest.mark.parametrize("runs", [1, 2])
def test_the_json_of_an_example_is_made_once_and_again_only_where_it_runs(monkeypatch, tmp_path, runs):
    monkeypatch.chdir(tmp_path)
    first = run(runs=runs)
    finished = 4
    cut(first, 2 * finished)
    made = []
    original, originals = _example_source.canonical_json, _example_source.canonical_jsons
    monkeypatch.setattr(
        _example_source, "canonical_json", lambda example: made.append(example.inputs) or original(example)
    )
    monkeypatch.setattr(
        _example_source, "canonical_jsons", lambda examples: made.extend(examples) or originals(examples)
    )

    again = run(runs=runs, resume=first.run_id)

    assert again.pass_rate == 1.0
    assert len(made) == COUNT + (COUNT * runs - finished)


def test_the_journal_has_the_examples_that_ran_as_they_were_before_their_task(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    first = run(spoil_inputs)
    whole = examples_in(journal_of(first))
    cut(first, 4)

    run(spoil_inputs, resume=first.run_id)

    assert examples_in(journal_of(first)) == whole
    assert [example["inputs"]["input"] for _, example in whole.values()] == [f"q{n}" for n in range(COUNT)]


def examples_in(journal):
    """The hash and the JSON of each example, by its index."""
    records = map(json.loads, journal.read_text().splitlines())
    return {record["i"]: (record["h"], record["x"]) for record in records if record["t"] == "item"}
