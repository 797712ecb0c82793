"""The baseline file: what is in it, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos._core.example import Example
from dokimos._core.results import EvalResult, ExperimentResult, ItemResult, RunResult, RunStatus
from dokimos.comparison import Pairing, compare_runs
from dokimos.errors import ConfigurationError
from dokimos.gate._baseline import baseline_of, baseline_text, is_baseline, read_baseline, write_baseline

REFERENCE = Path(__file__).parents[2] / "data" / "gate" / "reference-baseline.json"


def read_text(text, tmp_path):
    path = tmp_path / "b.json"
    path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
    return read_baseline(path)


def plain_tree(**changes):
    entry = {"name": "A", "score": 0.5, "threshold": 0.5, "pass": True}
    tree = {"formatVersion": 1, "pairing": "positional", "runsPerItem": 1,
            "items": [{"key": "item-0", "evaluators": [entry]}]}  # fmt: skip
    return tree | changes


def test_a_file_of_another_implementation_is_read():
    baseline = read_baseline(REFERENCE)

    assert baseline.pairing is Pairing.POSITIONAL
    assert [item.index for item in baseline.snapshot.items] == [0, 1, 10]
    assert [item.verdicts for item in baseline.snapshot.items] == [(True,), (True,), (False,)]
    assert baseline.snapshot.items[1].scores == {"Exact Match": (1.0,), "Faithfulness": (0.75,)}
    assert baseline.snapshot.evaluators["Exact Match"].threshold == 1.0
    assert baseline.provenance["judge"] == "gpt-5.2-2025-12-11"
    assert baseline.snapshot.name == "rag"


def test_what_is_written_has_the_documented_members(result):
    tree = json.loads(baseline_text(baseline_of(result({"B": [1, 0.25], "A": [0.123456789, 1]}))))

    assert tree["formatVersion"] == 1
    assert tree["experiment"] == "support"
    assert tree["dataset"] == {"name": "letters", "itemCount": 2}
    assert tree["pairing"] == "dataset_item_id"
    assert tree["runsPerItem"] == 1
    assert tree["items"][0] == {
        "key": "q-0",
        "input": "question 0",
        "evaluators": [
            {"name": "A", "score": 0.123457, "threshold": 0.5, "pass": False},
            {"name": "B", "score": 1.0, "threshold": 0.5, "pass": True},
        ],
    }
    assert set(tree["provenance"]) == {"dokimosVersion"}


def test_outputs_and_reasons_are_not_kept(result):
    text = baseline_text(baseline_of(result({"A": [1]}, output="a secret answer")))

    assert "secret" not in text
    assert "A is 1" not in text


def test_the_same_measurements_give_the_same_bytes(result, tmp_path):
    for name in ("one.json", "two.json"):
        write_baseline(baseline_of(result({"A": [1, 0], "B": [0.5, 0.25]})), tmp_path / name)

    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_reading_gives_back_what_was_written(runs, tmp_path):
    written = baseline_of(
        runs(
            [{"A": [1, 0.5], "W": [0.1, 0.9]}, {"A": [0.25, 0.5], "W": [0.1, 0.2]}], lower=["W"], noisy=["W"]
        )
    )
    path = tmp_path / "deep" / "b.json"
    write_baseline(written, path)

    read = read_baseline(path).snapshot

    assert [item.scores for item in read.items] == [item.scores for item in written.snapshot.items]
    assert [item.verdicts for item in read.items] == [item.verdicts for item in written.snapshot.items]
    assert read.evaluators["W"].lower_is_better
    assert not read.evaluators["W"].deterministic
    assert read.evaluators["A"].fingerprint == "fp-A"
    assert read.runs == 2


def test_several_runs_become_their_mean_and_their_majority_with_ties_passing(runs):
    result = runs([{"A": [1, 0]}, {"A": [0, 0]}])

    tree = json.loads(baseline_text(baseline_of(result)))

    first = tree["items"][0]["evaluators"][0]
    assert (first["score"], first["pass"], first["scores"]) == (0.5, True, [1.0, 0.0])
    assert tree["items"][0]["verdicts"] == [True, False]


def test_a_result_equals_its_own_baseline(runs, tmp_path):
    result = runs([{"A": [0.1234567, 0.5, 1]}, {"A": [0.9, 0.5, 0]}])
    write_baseline(baseline_of(result), tmp_path / "b.json")

    found = compare_runs(read_baseline(tmp_path / "b.json").snapshot, result)

    assert found.pass_rate.worse == found.pass_rate.better == 0
    assert found.evaluator("A").p_value == 1.0


def test_an_informational_evaluator_leaves_the_item_unjudged(result, tmp_path):
    write_baseline(baseline_of(result({"A": [0.5, 0.7]}, threshold=None)), tmp_path / "b.json")

    assert [item.verdicts for item in read_baseline(tmp_path / "b.json").snapshot.items] == [(), ()]


def test_long_inputs_are_cut_and_their_blanks_collapsed():
    example = Example({"input": "a  b\n\tc " + "x" * 200})
    item = ItemResult(0, example, eval_results=(EvalResult.of("A", 1.0),))
    result = ExperimentResult(name="n", runs=(RunResult(item_results=(item,)),))

    kept = json.loads(baseline_text(baseline_of(result)))["items"][0]["input"]

    assert kept.startswith("a b c xxx")
    assert len(kept) == 80


def test_errored_items_are_refused_by_name_or_recorded_as_errored(item, joined, tmp_path):
    result = joined(
        item(0, {"Match": 1}), item(1, {}, error="TimeoutError: 30 s"), item(2, {}, errors={"Match": "503"})
    )

    with pytest.raises(ConfigurationError, match=r"2 of 3 items have errors.*'q-1', 'q-2'"):
        baseline_of(result)
    write_baseline(baseline_of(result, allow_errors=True), tmp_path / "b.json")

    read = read_baseline(tmp_path / "b.json").snapshot
    assert [item.errored for item in read.items] == [False, True, True]
    assert read.items[1].errors == {"": "TimeoutError: 30 s"}
    assert read.items[1].verdicts == (False,)


def test_a_result_without_items_is_refused(result):
    with pytest.raises(ConfigurationError, match="has no items"):
        baseline_of(replace(result({"A": [1]}), runs=()))


def test_a_run_that_did_not_end_is_refused(result):
    with pytest.raises(ConfigurationError, match=r"did not finish \(interrupted\)"):
        baseline_of(replace(result({"A": [1]}), status=RunStatus.INTERRUPTED))


def test_pairing_by_id_needs_ids(result):
    with pytest.raises(ConfigurationError, match=r"1 of 1 item has no id"):
        baseline_of(result({"A": [1]}, ids=False), pairing="dataset_item_id")


def test_keys_of_positions_are_sorted_as_numbers(result):
    tree = json.loads(baseline_text(baseline_of(result({"A": [1] * 12}, ids=False))))

    assert [item["key"] for item in tree["items"]] == [f"item-{i}" for i in range(12)]


def one_item(**members):
    return plain_tree(items=[{"key": "item-0"} | members])


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        ("{", "is not JSON"),
        ([], "is not a baseline"),
        ({"items": []}, "is not a baseline"),
        ("[" * 100_000, "is not JSON"),
        (plain_tree(formatVersion=2), "formatVersion is 2"),
        (plain_tree(formatVersion=0), "formatVersion is 0"),
        (plain_tree(runsPerItem=3), "runsPerItem must be 1"),
        (plain_tree(pairing="by_name"), "pairing is 'by_name'"),
        (plain_tree(items=[]), "has no items"),
        (one_item(key=" "), r"items\[0\] has no key"),
        (plain_tree(items=plain_tree()["items"] * 2), "two items have the key 'item-0'"),
        (one_item(key="first", evaluators=plain_tree()["items"][0]["evaluators"]), "is not a position"),
        (one_item(evaluators=[]), "has no evaluators"),
        (one_item(evaluators=[{"name": "", "score": 1}]), "has no name"),
        (one_item(evaluators=[{"name": "A", "pass": True}]), "score None"),
        (one_item(evaluators=[{"name": "A", "score": 2, "pass": True}]), "score 2"),
        (one_item(evaluators=[{"name": "A", "score": 1}]), "the verdict None"),
        (
            one_item(evaluators=[{"name": "A", "score": 1, "pass": True, "threshold": "0.5"}]),
            "threshold '0.5'",
        ),
        (one_item(evaluators=[{"name": "A", "score": None, "scores": [], "pass": True}]), "score None"),
        (one_item(evaluators=[{"name": "A", "score": 1, "pass": True}], verdicts=None), "are not a list"),
        (plain_tree(items=["item-0"]), "a list of objects"),
    ],
)
def test_a_damaged_file_is_refused_with_its_name_and_what_is_wrong(tree, problem, tmp_path):
    with pytest.raises(ConfigurationError, match=rf"b\.json.*{problem}"):
        read_text(tree, tmp_path)


def test_a_file_that_cannot_be_written_is_told(result, tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigurationError, match="Cannot write the baseline"):
        write_baseline(baseline_of(result({"A": [1]})), tmp_path / "file" / "b.json")


def test_a_report_is_not_taken_for_a_baseline():
    assert not is_baseline({"version": 1, "items": []})
    assert is_baseline(plain_tree())


@given(st.lists(st.lists(st.floats(0, 1), min_size=2, max_size=2), min_size=1, max_size=8))
def test_a_baseline_never_differs_from_its_own_result(tmp_path_factory, rows):
    items = tuple(
        ItemResult(i, Example.of(f"q{i}", "a", id=f"q{i}"), eval_results=tuple(
            EvalResult.of(name, score, 0.5) for name, score in zip("AB", row, strict=True)
        ))
        for i, row in enumerate(rows)
    )  # fmt: skip
    result = ExperimentResult(name="n", runs=(RunResult(item_results=items),))
    path = tmp_path_factory.mktemp("b") / "b.json"
    write_baseline(baseline_of(result), path)

    found = compare_runs(read_baseline(path).snapshot, result)

    assert not found.has_regressions
    assert all(abs(metric.delta or 0) < 1e-6 for metric in found.metrics)
