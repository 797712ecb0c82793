"""Evaluators that give several scores at once, and labels beside scores."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest

from dokimos._core.eval_result import EvalResult, Score, require_one_score
from dokimos._core.metrics import CallMetrics
from dokimos._core.test_case import EvalTestCase
from dokimos._core.wire import from_json, to_json
from dokimos.errors import ConfigurationError, UnusableOutputError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._function import evaluator
from dokimos.evaluators._text import ExactMatch
from dokimos.judges._run_scope import current_usage

CASE = EvalTestCase.of("question", "answer")


@dataclass(frozen=True, kw_only=True)
class Returns(Evaluator):
    outcome: Any

    def score(self, case: EvalTestCase) -> Any:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


@dataclass(frozen=True, kw_only=True)
class ReturnsLater(Evaluator):
    outcome: Any

    async def score(self, case: EvalTestCase) -> Any:
        return self.outcome


def returning(outcome: Any, **settings: Any) -> EvalResult:
    return Returns(name="Triad", outcome=outcome, **settings).evaluate(CASE)


def test_each_score_is_a_result_of_its_own_with_its_own_threshold():
    outcome = {"grounded": Score(0.9, "Two claims.", metadata={"n": 2}), "relevant": 0.4, "polite": True}
    result = returning(outcome, thresholds={"grounded": 0.8, "relevant": 0.5})

    assert [part.name for part in result.parts] == ["Triad.grounded", "Triad.relevant", "Triad.polite"]
    grounded = result.part("grounded")
    assert (grounded.score, grounded.threshold, grounded.success) == (0.9, 0.8, True)
    assert (grounded.reason, grounded.metadata) == ("Two claims.", {"n": 2})
    assert (result.part("relevant").success, result.part("polite").success) == (False, True)
    assert {part.part_of for part in result.parts} == {"Triad"}
    assert (result.score, result.success, result.error) == (None, False, None)


def test_a_key_without_a_threshold_has_that_of_the_evaluator_unless_it_says_none():
    result = returning({"a": 0.6, "b": 0.6, "c": 0.6}, threshold=0.5, thresholds={"b": 0.7, "c": None})
    assert [(p.key, p.threshold, p.success) for p in result.parts] == [
        ("b", 0.7, False), ("c", None, None), ("a", 0.5, True),
    ]  # fmt: skip


def test_all_of_them_may_only_inform():
    assert returning({"a": 0.6, "b": 0.1}).success is None


async def test_async_evaluators_and_functions_give_several_scores_too():
    later = await ReturnsLater(name="Triad", outcome={"a": 1.0}).evaluate_async(CASE)
    assert later.part("a").score == 1.0

    @evaluator(thresholds={"short": 0.5})
    def style(output: Any) -> Mapping[str, float]:
        return {"short": 0.2, "clear": 1.0}

    @evaluator
    async def tone(output: Any) -> Mapping[str, bool]:
        return {"warm": True}

    assert style.evaluate(CASE).part("short").success is False
    assert tone.evaluate(CASE).part("warm").success is True
    assert style("answer") == {"short": 0.2, "clear": 1.0}


def test_an_empty_mapping_is_an_error():
    result = returning({})
    assert (result.parts, result.score) == ((), None)
    assert "returned an empty mapping" in (result.error or "")


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (1, "is int, not text"),
        ("", "is empty"),
        (" ", "is empty"),
        ("a.b", "must not have a dot"),
        (None, "NoneType"),
    ],
)
def test_a_key_that_cannot_be_part_of_a_name_is_refused(key: Any, problem: str):
    assert problem in (returning({key: 1.0}).error or "")
    with pytest.raises(ConfigurationError, match="thresholds"):
        Returns(outcome={}, thresholds={key: 0.5})


class Key(StrEnum):
    GROUNDED = "grounded"


def test_an_enum_of_texts_is_a_key_and_a_label():
    result = returning({Key.GROUNDED: Score(1.0, label=Key.GROUNDED)})
    assert result.parts[0].name == "Triad.grounded"
    assert to_json(result.parts[0]).count('"grounded"') == 1


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (float("nan"), "which is not in 0..1"),
        (1.5, "which is not in 0..1"),
        ("good", "A label accompanies a number: Score(1.0, label='good')"),
        ({"tone": 1.0}, "Scores cannot be nested"),
        ([1.0], "not list"),
        (EvalResult("x", 1.0), "must return a Score, not an EvalResult"),
        (Score(0.5, 7), "gave a reason that is int"),
    ],
)
def test_what_is_wrong_with_one_score_leaves_the_others(value: Any, problem: str):
    result = returning({"good": 1.0, "bad": value}, thresholds={"good": 0.5})
    assert result.part("good").success is True
    assert result.part("bad").score is None
    assert problem in (result.part("bad").error or "")


def test_none_says_that_a_score_does_not_apply():
    result = returning({"a": 1.0, "b": None}, thresholds={"b": 0.5})
    assert (result.part("b").score, result.part("b").success, result.part("b").error) == (None, None, None)
    assert result.part("b").skipped
    assert result.part("a").score == 1.0


def test_a_missing_score_is_missing_and_an_error_only_where_it_has_a_threshold():
    result = returning({"a": 1.0}, thresholds={"b": 0.5, "c": None})
    assert [part.key for part in result.parts] == ["b", "a"]
    assert "There is no score 'b', which has a threshold; the scores are 'a'." in (
        result.part("b").error or ""
    )
    assert result.part("b").expects_verdict
    assert result.success is False
    with pytest.raises(KeyError, match="gave no score 'c'; it gave: 'b', 'a'"):
        result.part("c")


def test_what_is_raised_is_an_error_of_every_score_with_a_threshold_of_its_own():
    result = returning(ValueError("no"), thresholds={"a": 0.5, "b": None})
    assert [(p.name, p.error, p.expects_verdict) for p in result.parts] == [
        ("Triad.a", "ValueError: no", True), ("Triad.b", "ValueError: no", False),
    ]  # fmt: skip
    assert returning(ValueError("no")).name == "Triad"


def test_an_output_that_cannot_be_judged_has_the_worst_of_the_scores_that_are_known():
    result = returning(UnusableOutputError("not JSON"), thresholds={"a": 0.5})
    assert (result.part("a").score, result.part("a").reason) == (0.0, "not JSON")
    assert returning(UnusableOutputError("not JSON")).score == 0.0


def test_one_score_where_thresholds_name_several_is_an_error():
    result = returning(0.5, thresholds={"a": 0.5})
    assert "return a mapping" in (result.part("a").error or "")


@pytest.mark.parametrize(
    "thresholds", [{}, [0.5], 0.5, {"a": "high"}, {"a": 2}, {"a": True}, {"a": float("nan")}]
)
def test_thresholds_that_are_wrong_are_refused(thresholds: Any):
    with pytest.raises(ConfigurationError, match=r"Returns: .*threshold"):
        Returns(outcome=1.0, thresholds=thresholds)


def test_evaluators_of_one_score_refuse_thresholds():
    with pytest.raises(ConfigurationError, match="gives one score"):
        ExactMatch(thresholds={"a": 0.5})


def test_thresholds_are_on_the_scale_of_the_scores():
    @evaluator(score_range=(1, 5), thresholds={"stars": 3})
    def rated(output: Any) -> Mapping[str, float]:
        return {"stars": 2, "plot": 5}

    result = rated.evaluate(CASE)
    assert (result.part("stars").success, result.part("plot").score_range) == (False, (1.0, 5.0))


def test_thresholds_are_taken_over_and_kept_apart_from_what_the_caller_has():
    mine = {"a": 0.5}
    made = Returns(outcome={"a": 0.7}, thresholds=mine)
    mine["a"] = 0.9
    assert made.evaluate(CASE).success is True
    assert made.info().thresholds == {"a": 0.5}


def test_info_tells_each_score_apart_and_a_threshold_changes_only_its_own():
    info = Returns(name="T", outcome=1, thresholds={"a": 0.5, "b": 0.5}).info()
    other = Returns(name="T", outcome=1, thresholds={"a": 0.5, "b": 0.6}).info()
    assert (info.part("a").name, info.part("a").threshold, info.part("a").part_of) == ("T.a", 0.5, "T")
    assert info.part("a").fingerprint == other.part("a").fingerprint
    assert info.part("b").fingerprint != other.part("b").fingerprint


async def test_what_a_call_cost_is_counted_once():
    @dataclass(frozen=True, kw_only=True)
    class Priced(Evaluator):
        async def score(self, case: EvalTestCase) -> Mapping[str, float]:
            usage = current_usage()
            assert usage is not None
            usage.add(CallMetrics(tokens_in=3, tokens_out=4, cost_usd=0.5))
            return {"a": 1.0, "b": 1.0}

    result = await Priced().evaluate_async(CASE)
    assert [part.metrics and part.metrics.cost_usd for part in result.parts] == [0.5, None]


def test_a_result_with_parts_can_be_copied_pickled_and_written():
    result = returning({"a": Score(1.0, label="good"), "b": 0.5})
    assert pickle.loads(pickle.dumps(result)) == copy.deepcopy(result) == result
    assert from_json(EvalResult, to_json(result)) == result


def test_what_takes_one_score_says_so():
    result = require_one_score(returning({"a": 1.0, "b": 0.5}), "A calibration")
    assert result.error == (
        "A calibration needs one score, and Triad gives several (a, b); write an evaluator of one."
    )
    single = returning(0.5)
    assert require_one_score(single, "A calibration") is single


@pytest.mark.parametrize("label", ["refusal", "Ablehnung – nein", "拒绝"])
def test_a_label_stands_beside_the_number(label: str):
    result = returning(Score(0.0, "It refuses.", label=label))
    assert (result.score, result.label) == (0.0, label)


@pytest.mark.parametrize("label", ["", "  ", 3, ["refusal"]])
def test_a_label_that_is_not_text_is_an_error(label: Any):
    assert "gave the label" in (returning(Score(1.0, label=label)).error or "")
