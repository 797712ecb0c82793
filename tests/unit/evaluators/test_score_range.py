"""Evaluators whose scores lie in a range of their own."""

import json
import math
from dataclasses import dataclass

import pytest

from dokimos._core.example import Example
from dokimos._core.results import EvalResult, Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.wire import from_json, to_json
from dokimos.comparison._comparison_builder import compare_runs
from dokimos.comparison._diff import Change
from dokimos.comparison._snapshot import EvaluatorFacts, ItemSnapshot, Snapshot
from dokimos.datasets._dataset import Dataset
from dokimos.errors import ConfigurationError, EvalAssertionError, UnusableOutputError
from dokimos.evaluators import LLMJudge, PerTurn, evaluator
from dokimos.evaluators._base import Evaluator
from dokimos.experiment._experiment import Experiment
from dokimos.experiment._required_levels import compare, parse_levels
from dokimos.exporters._base import export
from dokimos.gate import GateConfig
from dokimos.gate._baseline import baseline_of, read_baseline, write_baseline
from dokimos.gate._decision import Guard, decide
from dokimos.testing._assertions import assert_scores


@dataclass(frozen=True, kw_only=True)
class Stars(Evaluator):
    score_range = (1, 5)
    threshold: float | None = 3.5

    def score(self, case):
        if case.actual_outputs["output"] == "unusable":
            raise UnusableOutputError("It cannot be rated.")
        return Score(case.actual_outputs["output"])


@dataclass(frozen=True, kw_only=True)
class Faults(Stars):
    score_range = (0, 40)
    lower_is_better = True
    threshold: float | None = 10


def case(output):
    return EvalTestCase({}, {"output": output})


def result_of(scores, kind=Stars, runs=1):
    rows = [Example({"n": n}, id=f"q{n}") for n in range(len(scores))]
    experiment = Experiment(dataset=Dataset(rows), task=lambda n: scores[n], evaluators=[kind()], runs=runs)
    return experiment.run(journal=False, progress=False)


def snapshot_of(scores, score_range=None, name="q"):
    items = tuple(ItemSnapshot(index=n, scores={name: (score,)}) for n, score in enumerate(scores))
    return Snapshot(items=items, evaluators={name: EvaluatorFacts(name=name, score_range=score_range)})


GOOD = [4.0, 5.0, 4.5, 4.0, 5.0, 4.5, 4.0, 5.0, 4.5, 5.0]
BAD = [2.0, 2.5, 1.5, 1.0, 2.0, 1.5, 2.0, 3.0, 1.5, 1.0]


# Scoring


@pytest.mark.parametrize(("score", "passes"), [(1, False), (3.4, False), (3.5, True), (5, True), (0.5, None)])
def test_scores_and_thresholds_are_on_the_declared_scale(score, passes):
    result = Stars().evaluate(case(score))

    assert result.success is passes
    assert result.score_range == (1.0, 5.0)
    assert result.score == (score if passes is not None else None)


@pytest.mark.parametrize("score", [0.5, 0.0, 5.01, -1, math.nan, math.inf])
def test_a_score_outside_of_the_declared_range_is_an_error(score):
    assert "which is not in 1..5" in Stars().evaluate(case(score)).error


def test_others_stay_in_0_to_1():
    @evaluator
    def plain(output):
        return output

    assert "which is not in 0..1" in plain.evaluate(case(4.5)).error
    assert plain.evaluate(case(0.5)).score_range is None


def test_an_unusable_output_has_the_worst_score_of_the_range():
    assert Stars().evaluate(case("unusable")).score == 1.0
    assert Faults().evaluate(case("unusable")).score == 40.0


def test_a_bool_is_an_end_of_the_range():
    @evaluator(score_range=(1, 5))
    def verdict(output):
        return output == "good"

    assert [verdict.evaluate(case(text)).score for text in ("good", "bad")] == [5.0, 1.0]


@pytest.mark.parametrize(
    "score_range",
    [(5, 1), (1, 1), (1,), "15", None, (0, math.inf), (math.nan, 1), (-1e308, 1e308), (0, "5"), 5],
)
def test_a_range_of_no_use_is_refused(score_range):
    with pytest.raises(ConfigurationError, match="score_range must be two finite numbers"):
        evaluator(score_range=score_range)(lambda output: output)


@pytest.mark.parametrize(("kind", "threshold"), [(Stars, 0.5), (Stars, 5.5), (Faults, -1)])
def test_a_threshold_outside_of_the_range_is_refused(kind, threshold):
    with pytest.raises(ConfigurationError, match="threshold must be in"):
        kind(threshold=threshold)


def test_the_usual_range_is_no_declaration():
    declared = evaluator(score_range=(0, 1))(lambda output: output)

    assert declared.info().score_range is None
    assert declared.evaluate(case(0.5)).score_range is None


def test_the_range_is_part_of_what_makes_results_comparable():
    @dataclass(frozen=True, kw_only=True)
    class Other(Evaluator):
        score_range = (1, 5)

        def score(self, case):
            return 3.0

    before = Other().info().fingerprint
    Other.score_range = (1, 10)

    assert Other().info().fingerprint != before


def test_a_judges_scale_stays_the_scale_it_answers_on():
    judge = LLMJudge(criteria="Good.", judge=lambda prompt: '{"score": 4, "reason": "."}', score_range=(1, 5))

    result = judge.evaluate(EvalTestCase({"input": "?"}, {"output": "!"}))

    assert (result.score, result.score_range) == (0.75, None)


def test_turns_are_joined_in_the_range_of_their_evaluator():
    rate = evaluator(score_range=(1, 5), threshold=2)(lambda output: len(output))
    messages = [{"role": role, "content": text} for role, text in [("user", "?"), ("assistant", "four")]]

    result = PerTurn(evaluator=rate).evaluate(EvalTestCase({}, {"trajectory": messages}))

    assert (result.score, result.score_range, result.success) == (4.0, (1.0, 5.0), True)


# Results


def test_a_result_knows_its_range_and_comes_back_from_json():
    result = Stars().evaluate(case(4.5))

    assert from_json(EvalResult, to_json(result)) == result
    assert '"scoreRange":[1.0,5.0]' in to_json(result)
    assert "scoreRange" not in to_json(EvalResult("x", 0.5))


@pytest.mark.parametrize(
    "made", [{"score": 7.0, "score_range": (1, 5)}, {"score": 1.7}, {"score": 2.0, "score_range": (5, 1)}]
)
def test_a_result_outside_of_its_range_is_refused(made):
    with pytest.raises(ValueError, match="must be"):
        EvalResult("x", **made)


def test_means_and_histograms_are_on_the_declared_scale():
    result = result_of(GOOD)

    assert result.average_score("Stars") == 4.55
    assert result.summary.evaluator("Stars").histogram == (0, 0, 0, 0, 0, 0, 0, 3, 3, 4)
    assert result.summary.evaluator("Stars").score_range == (1.0, 5.0)
    assert result.score_range_of("Stars") == (1.0, 5.0)


def test_reports_name_the_range(tmp_path):
    result = result_of(GOOD)
    for name in ("report.html", "report.json", "report.md"):
        export(result, tmp_path / name)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")

    assert "scores 1..5" in page
    assert "4.6 to 5: 4" in page
    assert '"scoreRange":[1.0,5.0]' in (tmp_path / "report.json").read_text(encoding="utf-8")
    assert "4.55" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_levels_are_on_the_declared_scale():
    result = result_of(GOOD)

    assert_scores(result, {"Stars": 4.5})
    with pytest.raises(EvalAssertionError, match=r"Stars 4\.55"):
        assert_scores(result, {"Stars": 4.6})
    with pytest.raises(ConfigurationError, match=r"must be in 1\.\.5"):
        assert_scores(result, {"Stars": 0.8})


@pytest.mark.parametrize(
    ("spec", "misses", "problems"),
    [
        ("Stars=4.5", 0, []),
        ("Stars=4.6", 1, []),
        ("Stars=80", 0, ["the level of 'Stars' must be in 1..5, not 80."]),
        ("Stars=0.8", 0, ["the level of 'Stars' must be in 1..5, not 0.8."]),
    ],
)
def test_levels_on_the_command_line_are_too(spec, misses, problems):
    missed, found = compare(parse_levels([spec]), result_of(GOOD))

    assert (len(missed), found) == (misses, problems)


@pytest.mark.parametrize("spec", ["4.5", "Stars=x", "Stars=nan", "Stars=inf"])
def test_levels_that_are_none_are_refused(spec):
    with pytest.raises(ConfigurationError, match="must be a share"):
        parse_levels([spec])


def test_an_error_counts_as_the_worst_score_of_the_range():
    result = result_of([*GOOD[:3], 9.0])  # the last is out of range

    missed, _ = compare(parse_levels(["Stars=3.7"]), result)

    assert "3.62 if the 1 errored had failed" in missed[0]


# Comparing


def test_snapshots_of_any_scale_have_sane_intervals():
    metric = compare_runs(
        snapshot_of([4.5 + n / 10 for n in range(5)]), snapshot_of([1.5 + n % 2 / 10 for n in range(5)])
    ).evaluators[0]

    assert metric.interval.low < metric.delta < metric.interval.high
    assert metric.interval.low >= -4.9


@pytest.mark.parametrize(("low", "high"), [(1, 5), (-100, 100), (0, 1e-6), (1e9, 2e9), (0, 1e12)])
def test_a_comparison_is_the_same_on_any_scale(low, high):
    draw = [(n * 7919 % 101) / 100 for n in range(60)]
    shares = [draw, [max(0.0, one - 0.05 - n % 3 / 50) for n, one in enumerate(draw)]]
    plain = compare_runs(*map(snapshot_of, shares)).evaluators[0]
    scaled = [[low + (high - low) * share for share in side] for side in shares]

    metric = compare_runs(*(snapshot_of(side, (float(low), float(high))) for side in scaled)).evaluators[0]

    width = high - low
    assert metric.change is plain.change is Change.REGRESSED
    assert metric.p_value == pytest.approx(plain.p_value, abs=0.01)
    assert metric.delta == pytest.approx(plain.delta * width, rel=1e-3)
    assert metric.interval.low == pytest.approx(plain.interval.low * width, rel=1e-3)
    assert metric.interval.high == pytest.approx(plain.interval.high * width, rel=1e-3)
    assert metric.effect_size == pytest.approx(plain.effect_size, rel=1e-2)
    assert metric.detectable_drop == pytest.approx(plain.detectable_drop, rel=1e-2)


def test_epsilon_is_a_share_of_the_range():
    before = snapshot_of([3.0] * 20, (1.0, 1001.0))
    now = snapshot_of([2.5] * 20, (1.0, 1001.0))

    assert compare_runs(before, now).evaluators[0].change is Change.UNCHANGED
    assert (
        compare_runs(snapshot_of([3.0] * 20), snapshot_of([2.5] * 20)).evaluators[0].change
        is Change.REGRESSED
    )


@pytest.mark.parametrize(
    ("before", "now"), [((1.0, 5.0), None), (None, (1.0, 5.0)), ((1.0, 5.0), (1.0, 10.0))]
)
def test_scores_of_different_ranges_are_not_compared(before, now):
    found = compare_runs(snapshot_of([1.0] * 9, before), snapshot_of([1.0] * 9, now))

    assert found.evaluators[0].n == 0
    assert found.removed_evaluators == found.added_evaluators == ("q",)
    assert any("its scores are not compared" in warning for warning in found.warnings)
    assert all(item.evaluators[0].delta == 0.0 for item in found.items)


def test_a_drop_of_stars_is_a_regression():
    found = compare_runs(result_of(GOOD), result_of(BAD))

    assert found.regressed_evaluators[0].name == "Stars"
    assert -4 <= found.evaluators[0].interval.low < found.evaluators[0].interval.high < -2


# The gate


def decision_on(tmp_path, before, now, **config):
    """Decide on a result against a baseline file made of another one."""
    path = tmp_path / "baseline.json"
    write_baseline(baseline_of(before), path)
    return decide(read_baseline(path).snapshot, Snapshot.of(now), GateConfig(**config))


def test_a_baseline_keeps_the_range_and_the_gate_sees_a_drop(tmp_path):
    assert decision_on(tmp_path, result_of(GOOD), result_of(GOOD)).findings == ()
    assert {one.guard for one in decision_on(tmp_path, result_of(GOOD), result_of(BAD)).findings} >= {
        Guard.REGRESSION
    }
    assert '"scoreRange"' in (tmp_path / "baseline.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(("score", "fires"), [(4.5, False), (3.5, True)])
@pytest.mark.parametrize("severity", ["any", "auto"])
def test_the_margin_of_single_items_is_a_share_of_the_range(tmp_path, score, fires, severity):
    """0.15 of 1..5 is 0.6."""
    before = result_of([5.0] * 10, runs=3)

    decision = decision_on(tmp_path, before, result_of([5.0] * 9 + [score], runs=3), severity=severity)

    assert (Guard.SEVERITY in {one.guard for one in decision.findings}) is fires


def test_a_rise_of_what_is_to_be_kept_low_is_a_drop(tmp_path):
    before, now = result_of([2.0] * 10, Faults, 3), result_of([2.0] * 9 + [12.0], Faults, 3)

    for severity in ("any", "auto", "calibrated"):
        decision = decision_on(tmp_path, before, now, severity=severity, alpha=0.05)
        fired = {one.guard for one in decision.findings}
        assert (Guard.SEVERITY in fired) is (severity != "calibrated")


def test_an_item_of_another_range_is_no_drop_of_it(tmp_path):
    @dataclass(frozen=True, kw_only=True)
    class Rescaled(Stars):
        name: str = "Stars"
        score_range = (0, 1)
        threshold: float | None = 0.5

    decision = decision_on(tmp_path, result_of(GOOD), result_of([0.9] * 10, Rescaled))

    assert [one.guard for one in decision.findings] == [Guard.REMOVED_EVALUATOR]


@pytest.mark.parametrize("damage", [[5, 1], "1..5", [1], [1, None]])
def test_a_damaged_range_in_a_baseline_is_refused(tmp_path, damage):
    path = tmp_path / "baseline.json"
    write_baseline(baseline_of(result_of(GOOD)), path)
    tree = json.loads(path.read_text(encoding="utf-8"))
    tree["evaluators"][0]["scoreRange"] = damage
    path.write_text(json.dumps(tree), encoding="utf-8")

    with pytest.raises(ConfigurationError, match="scoreRange of 'Stars'"):
        read_baseline(path)


def test_scores_outside_of_the_range_of_a_baseline_are_refused(tmp_path):
    path = tmp_path / "baseline.json"
    write_baseline(baseline_of(result_of(GOOD)), path)
    tree = json.loads(path.read_text(encoding="utf-8"))
    del tree["evaluators"][0]["scoreRange"]
    path.write_text(json.dumps(tree), encoding="utf-8")

    with pytest.raises(ConfigurationError, match=r"has the score 4\.0 of 'Stars'"):
        read_baseline(path)
