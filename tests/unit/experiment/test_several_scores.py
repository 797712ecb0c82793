"""Evaluators that give several scores, and labels, through a whole run and what comes after it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dokimos._core.example import Example
from dokimos._core.results import EvalResult, ExperimentResult, Score
from dokimos._core.test_case import EvalTestCase
from dokimos.comparison._comparison_builder import compare_runs
from dokimos.comparison._snapshot import Snapshot
from dokimos.datasets._dataset import Dataset
from dokimos.errors import ConfigurationError, EvalAssertionError, JournalError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._function import evaluator
from dokimos.evaluators._resource_limits import Length
from dokimos.evaluators._text import ExactMatch
from dokimos.experiment._experiment import Experiment
from dokimos.experiment._merging import merge_results
from dokimos.experiment._required_levels import RequiredLevel
from dokimos.experiment._run_loading import load_run
from dokimos.exporters._base import render
from dokimos.exporters._json import load_result
from dokimos.gate._gate import RegressionGate
from dokimos.gate._gate_config import GateConfig
from dokimos.reporting._console import make_console, print_result
from dokimos.testing._assertions import assert_eval, assert_scores

TEN = Dataset([Example.of(f"q{n}", str(n), id=f"q{n}") for n in range(10)], name="ten")


def answer(example: Example) -> str:
    return example.id[1:] if example.id else ""


@evaluator(name="Triad", thresholds={"grounded": 0.5, "relevant": 0.2})
def triad(output: str) -> Mapping[str, Any]:
    return {
        "relevant": 1.0,
        "grounded": Score(int(output) / 9, "Because.", label="good" if int(output) > 4 else "bad"),
        **({"rare": 0.5} if output == "3" else {}),
    }


def run(*evaluators: Evaluator, data: Any = TEN, **settings: Any) -> ExperimentResult:
    return Experiment(data, answer, evaluators or [triad], quiet=True, **settings).run(journal=False)


def names(result: ExperimentResult) -> dict[str, tuple[int, float | None]]:
    return {found.name: (found.scored, found.mean) for found in result.summary.evaluators}


def test_each_score_has_its_own_column_threshold_and_statistics():
    result = run(triad, ExactMatch())
    assert result.evaluator_names == ("Triad.grounded", "Triad.relevant", "Triad.rare", "Exact Match")
    assert names(result)["Triad.grounded"] == (10, 0.5)
    assert names(result)["Triad.rare"] == (1, 0.5)
    assert {info.name: info.threshold for info in result.evaluators} == {
        "Triad.grounded": 0.5,
        "Triad.relevant": 0.2,
        "Triad.rare": None,
        "Exact Match": ExactMatch().threshold,
    }
    assert result.pass_rate == 0.5
    assert result.item_results[0].result("Triad.grounded").success is False
    assert result.item_results[0].result("Triad.rare") is None


def test_async_evaluators_give_several_scores_beside_others():
    @evaluator(name="Later", thresholds={"a": 0.5})
    async def later(output: str) -> Mapping[str, float]:
        return {"a": 1.0, "b": 0.0}

    result = run(later, triad, ExactMatch(), parallelism=4)
    assert [r.name for r in result.item_results[0].eval_results] == [
        "Later.a", "Later.b", "Triad.grounded", "Triad.relevant", "Exact Match",
    ]  # fmt: skip


def test_a_score_that_is_called_as_another_evaluator_is_an_error_that_says_so():
    result = run(triad, ExactMatch(name="Triad.relevant"))
    first = result.item_results[0]
    assert [r.name for r in first.eval_results] == ["Triad", "Triad.relevant"]
    assert "would be called 'Triad.relevant', as another evaluator is" in (first.eval_results[0].error or "")


def test_labels_are_counted_in_every_report():
    result = run(runs=2)
    assert result.summary.evaluator("Triad.grounded").labels == {"bad": 10, "good": 10}
    tree = json.loads(render(result, "json"))
    assert tree["summary"]["evaluators"]["Triad.grounded"]["labels"] == {"bad": 10, "good": 10}
    assert tree["items"][0]["evaluations"][0]["labels"] == ["bad", "bad"]
    assert "bad 10, good 10" in render(result, "markdown")
    assert "bad 10, good 10" in render(result, "html")
    assert "triad.grounded_label" in render(result, "csv").splitlines()[0]
    assert "bad" in render(result, "junit")
    assert result.to_rows()[0]["Triad.grounded label"] == "bad"
    assert "Triad.relevant label" not in result.to_rows()[0]


def test_labels_are_counted_on_the_terminal(capsys: pytest.CaptureFixture[str]):
    print_result(run(), make_console())
    out = capsys.readouterr().out
    assert "Triad.grounded" in out
    assert "bad 5, good 5" in out


def test_a_hostile_label_stays_a_text_in_the_reports():
    @evaluator
    def sorted_into(output: str) -> Score:
        return Score(1.0, label="<script>alert(1)</script>|`x`")

    result = run(sorted_into)
    assert "<script>alert(1)" not in render(result, "html")
    assert "<script>" not in render(result, "markdown")


def test_many_labels_are_cut_in_reports_and_whole_in_json():
    @evaluator
    def sorted_into(output: str) -> Score:
        return Score(1.0, label=f"label {output}")

    result = run(sorted_into)
    assert "and 2 more labels" in render(result, "markdown")
    labels = json.loads(render(result, "json"))["summary"]["evaluators"]["Sorted Into"]["labels"]
    assert len(labels) == 10


@pytest.mark.parametrize("fmt", ["json"])
def test_a_report_is_read_back_as_it_was(fmt: str, tmp_path: Path):
    result = run(triad, ExactMatch(), runs=2)
    assert load_result(render(result, fmt)) == result


class Busy:
    """Fails for a while, and then gives other keys."""

    def __init__(self) -> None:
        self.down = True
        self.calls = 0


@dataclass(frozen=True, kw_only=True)
class Flaky(Evaluator):
    state: Any = None

    def score(self, case: EvalTestCase) -> Mapping[str, Any]:
        self.state.calls += 1
        if self.state.down and case.id == "q3":
            raise ConnectionError("busy")
        return {"a": 1.0, "b": 1.5 if self.state.down and case.id == "q5" else 0.5}


def test_a_resumed_run_evaluates_anew_what_errored_with_all_its_scores(tmp_path: Path):
    state = Busy()
    experiment = Experiment(TEN, answer, [Flaky(state=state)], quiet=True)
    first = experiment.run(run_dir=tmp_path)
    assert first.item_results[3].eval_results[0].name == "Flaky"
    assert first.item_results[5].result("Flaky.b").error is not None
    assert state.calls == 10

    again = experiment.run(run_dir=tmp_path, resume=first.run_id)
    assert state.calls == 10
    assert again.item_results == first.item_results

    state.down = False
    mended = experiment.run(run_dir=tmp_path, resume=first.run_id, retry_errors=True)
    assert state.calls == 12
    assert names(mended) == {"Flaky.a": (10, 1.0), "Flaky.b": (10, 0.5)}
    assert load_run(tmp_path / str(first.run_id)).item_results == mended.item_results
    assert load_run(tmp_path / str(first.run_id)).evaluators == mended.evaluators


def test_a_run_without_its_end_is_loaded_with_its_scores_in_order(tmp_path: Path):
    result = Experiment(TEN, answer, [triad, ExactMatch()], quiet=True).run(run_dir=tmp_path)
    journal = next((tmp_path / str(result.run_id)).glob("*.jsonl"))
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(line for line in lines if b'"t":"done"' not in line))

    loaded = load_run(tmp_path / str(result.run_id))
    assert loaded.item_results == result.item_results
    assert loaded.evaluators == result.evaluators


def test_other_thresholds_are_another_configuration_and_void_what_was_scored(tmp_path: Path):
    first = Experiment(TEN, answer, [triad], quiet=True).run(run_dir=tmp_path)
    stricter = Experiment(TEN, answer, [replace(triad, thresholds={"grounded": 0.9})], quiet=True)
    with pytest.raises(JournalError, match="thresholds="):
        stricter.run(run_dir=tmp_path, resume=first.run_id)
    forced = stricter.run(run_dir=tmp_path, resume=first.run_id, force=True)
    assert forced.item_results[8].result("Triad.grounded").success is False
    assert load_run(tmp_path / str(first.run_id)).item_results == forced.item_results


def test_redact_hides_labels(tmp_path: Path):
    result = run(redact=lambda text: text.replace("good", "***"))
    assert result.summary.evaluator("Triad.grounded").labels == {"***": 5, "bad": 5}


def test_shards_merge_with_keys_that_only_one_of_them_has():
    shards = [run(shard=(part, 2)) for part in (1, 2)]
    merged = merge_results(shards)
    assert names(merged) == names(run())


def test_rescoring_replaces_one_score_by_several():
    rescored = Experiment.rescore(run(ExactMatch()), [triad])
    assert names(rescored) == names(run())
    assert rescored.evaluators == run().evaluators


def test_a_comparison_pairs_each_score_with_its_own():
    @evaluator(name="Triad", thresholds={"grounded": 0.5, "relevant": 0.2})
    def worse(output: str) -> Mapping[str, Any]:
        return {"relevant": 0.0, "grounded": Score(int(output) / 9)}

    comparison = compare_runs(run(), run(worse))
    deltas = {metric.name: metric.delta for metric in comparison.evaluators}
    assert (deltas["Triad.grounded"], deltas["Triad.relevant"]) == (0.0, -1.0)


def test_a_comparison_knows_that_a_score_is_lacking_because_its_evaluator_errored():
    @evaluator(name="Flaky")
    def flaky(output: str) -> Mapping[str, float]:
        if output == "3":
            raise ConnectionError("busy")
        return {"a": 1.0}

    items = Snapshot.of(run(flaky)).items
    assert items[3].error_of("Flaky.a") == "ConnectionError: busy"
    assert (items[3].count_errors("Flaky.a"), items[2].count_errors("Flaky.a")) == (1, 0)


def test_a_gate_holds_each_score_against_its_baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "120")  # a narrow table shortens names

    @evaluator(name="Triad", thresholds={"grounded": 0.5, "relevant": 0.2})
    def worse(output: str) -> Mapping[str, Any]:
        return {"relevant": 0.0, "grounded": Score(int(output) / 9)}

    path = tmp_path / "baseline.json"
    RegressionGate(path, config=GateConfig(update_baseline=True)).check(run())
    gate = RegressionGate(path)
    assert gate.check(run()).passed
    verdict = gate.check(run(worse))
    assert not verdict.passed
    assert "Triad.relevant" in str(verdict)


def test_assertions_name_the_score_that_falls_short():
    with pytest.raises(
        EvalAssertionError, match=r"'Triad\.grounded' failed: score=0\.11 \(threshold=0\.50\)"
    ):
        assert_eval(EvalTestCase.of("q", "1"), triad, Length(max=40))
    results = assert_eval(EvalTestCase.of("q", "9"), triad)
    assert [result.name for result in results] == ["Triad.grounded", "Triad.relevant"]
    with pytest.raises(EvalAssertionError, match=r"Triad\.grounded"):
        assert_scores(run(), {"Triad.grounded": 0.8, "Triad.relevant": 0.9})


def test_a_level_of_one_score_is_known_before_the_run_and_counts_errors_of_the_whole_evaluator():
    RequiredLevel(0.5, "Triad.grounded").check_evaluator([triad])
    with pytest.raises(ConfigurationError, match="must be in"):
        RequiredLevel(5, "Triad.grounded").check_evaluator([triad])
    for name in ("Exact Match.a", "Triads.grounded"):
        with pytest.raises(ConfigurationError, match="there is no evaluator"):
            RequiredLevel(0.5, name).check_evaluator([triad, ExactMatch()])

    @evaluator(name="Flaky")
    def flaky(output: str) -> Mapping[str, float]:
        if output == "3":
            raise ConnectionError("busy")
        return {"a": 1.0}

    found = run(flaky)
    assert RequiredLevel(0.9, "Flaky.a").explain_miss(found) is None
    assert "if the 1 errored had failed" in (RequiredLevel(0.95, "Flaky.a").explain_miss(found) or "")


def test_assertions_take_sync_and_async_evaluators_of_several_scores():
    @evaluator(name="Later")
    async def later(output: str) -> Mapping[str, bool]:
        return {"a": True, "b": True}

    results: tuple[EvalResult, ...] = assert_eval(EvalTestCase.of("q", "9"), triad, later)
    assert [result.name for result in results] == [
        "Triad.grounded", "Triad.relevant", "Later.a", "Later.b",
    ]  # fmt: skip


def test_a_number_that_is_too_large_is_an_error_of_that_score_alone():
    @evaluator(name="Mixed")
    def mixed(output: str) -> Mapping[str, Any]:
        return {"fine": 0.5, "huge": 10**400}

    fine, huge = run(mixed, data=[TEN[0]]).item_results[0].eval_results
    assert (fine.name, fine.score) == ("Mixed.fine", 0.5)
    assert huge.error == "EvaluationError: Mixed gave a score that is too large for a float."


def test_an_error_counts_against_the_level_of_a_score_without_a_threshold_beside_one_that_has_it():
    @evaluator(name="Flaky", thresholds={"a": 0.5})
    def flaky(output: str) -> Mapping[str, Any]:
        if output in ("2", "3"):
            raise TimeoutError("late")
        return {"a": 0.9, "b": 0.8, **({"rare": 0.8} if output == "5" else {})}

    found = run(flaky)
    assert RequiredLevel(0.6, "Flaky.b").explain_miss(found) is None
    assert "0.64 if the 2 errored had failed" in (RequiredLevel(0.75, "Flaky.b").explain_miss(found) or "")
    assert "if the 2 errored had failed" in (RequiredLevel(0.75, "Flaky.a").explain_miss(found) or "")


@pytest.mark.parametrize("thresholds", [None, {"other": 0.5}])
def test_an_attempt_whose_evaluator_errored_did_not_pass_any_of_its_scores(thresholds: Any):
    @evaluator(name="Flaky", thresholds=thresholds)
    def flaky(output: str) -> Mapping[str, Any]:
        if output in ("2", "3"):
            raise TimeoutError("late")
        return {"fits": True, "other": 0.9, **({"rare": True} if output == "5" else {})}

    found = run(flaky)
    assert found.pass_at_k(1, "Flaky.fits") == 0.8
    assert found.pass_hat_k(1, "Flaky.fits") == 0.8
