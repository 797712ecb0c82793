from __future__ import annotations

import pytest

from dokimos._core.test_case import EvalTestCase
from dokimos.evaluators import registry
from dokimos.evaluators._retrieval.matching import any_of, llm_based
from dokimos.evaluators._retrieval.ranking_metrics import Precision, Recall

CASE = EvalTestCase(
    {},
    {"retrieved": ["thirty days", "a hat"]},
    expected_outputs={"relevant": ["30 days", "a hat"]},
)


def by_number(prompt):
    return {"verdict": "yes" if "thirty" in prompt and "30" in prompt else "no"}


def test_items_match_where_the_judge_says_so(scripted):
    judge = scripted(verdict=by_number)
    assert Recall(matching=llm_based(judge)).evaluate(CASE).score == 1.0
    assert len(judge.asked) == 3  # four pairs, of which one is equal anyway


@pytest.mark.parametrize(
    ("reply", "score"), [("Yes", 1.0), ("yes.\n", 1.0), ("no", 0.0), ('{"verdict": "No"}', 0.0)]
)
def test_a_bare_word_is_read(scripted, reply, score):
    case = EvalTestCase({}, {"retrieved": ["x"]}, expected_outputs={"relevant": ["y"]})
    assert Precision(matching=llm_based(scripted(verdict=reply))).evaluate(case).score == score


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("Yes, both name a period of thirty days.", 1.0),
        ("No: the first one is about hats.", 0.0),
        ("**Yes**\n\nThey mean the same.", 1.0),
        ("YES", 1.0),
        ("no - not at all, although yes would be nice", 0.0),
        ("<think>No, or is it? Yes.</think>\nYes. The same.", 1.0),
        ("<think>Yes</think> No.", 0.0),
    ],
)
def test_a_reply_that_begins_with_yes_or_no_is_read(scripted, reply, score):
    case = EvalTestCase({}, {"retrieved": ["x"]}, expected_outputs={"relevant": ["y"]})
    judge = scripted(verdict=reply)
    assert Precision(matching=llm_based(judge)).evaluate(case).score == score
    assert len(judge.asked) == 1


@pytest.mark.parametrize(
    "reply", ["nothing in common", "yes/no", "maybe", "", "yes and no", "{}", '{"verdict": true}', "[]"]
)
def test_another_reply_is_an_error(scripted, reply):
    result = Recall(matching=llm_based(scripted(verdict=reply))).evaluate(CASE)
    assert result.score is None
    assert "JudgeReplyError" in result.error


def test_a_cheap_strategy_spares_calls(scripted):
    judge = scripted(verdict=by_number)
    evaluator = Recall(matching=any_of("ignore_case", llm_based(judge)))
    assert evaluator.evaluate(CASE).score == 1.0
    assert evaluator.info().deterministic is False


def test_it_is_built_from_data_and_described_without_its_fields():
    evaluator = registry.build("recall", {"matching": {"llm": "ollama:some-model"}})
    assert evaluator.info().deterministic is False
    assert evaluator._strategy.identity.startswith("llm:")
    assert "some-model" in evaluator._strategy.identity
    assert Recall().info().deterministic is True
