from __future__ import annotations

import asyncio
import math
from collections import deque

import pytest

from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError
from dokimos.evaluators._llm.g_eval import GEval, weigh_by_logprobs
from dokimos.evaluators._llm.rating import Rated, Scale
from dokimos.judges._protocol import JudgeReply, TokenLogprob

CASES = [EvalTestCase.of(f"Question {n}?", f"Answer {n}.") for n in range(5)]
STEPS = ["Read the input.", "Compare the output."]


def token(text, **top):
    probabilities = top or {"p" + text: 1.0}
    logprobs = {key.removeprefix("p"): math.log(p) for key, p in probabilities.items()}
    return TokenLogprob(text, logprobs[text], logprobs)


def reply_tokens(*score):
    return [TokenLogprob(t, 0.0, {t: 0.0}) for t in ('{"reason"', ': "score: 3"', ', "score', '": ')] + [
        *score,
        TokenLogprob("}", 0.0, {"}": 0.0}),
    ]


def test_scores_are_out_of_ten(scripted):
    judge = scripted(score={"score": 7, "reason": "Good."})
    result = GEval(criteria="Is it good?", evaluation_steps=STEPS, judge=judge).evaluate(CASES[0])
    assert (result.name, result.score, result.reason) == ("G-Eval", 0.7, "Good.")
    assert result.metadata == {"rawScore": 7, "scoreRange": [0, 10], "evaluationSteps": STEPS}
    assert "1. Read the input.\n2. Compare the output." in judge.prompts[0]
    assert "a whole number between 0" in judge.prompts[0]


def test_steps_that_are_given_are_not_asked_for(scripted):
    judge = scripted(score={"score": 7})
    GEval(evaluation_steps=STEPS, judge=judge).evaluate(CASES[0])
    assert judge.asked == ["score"]


def test_steps_are_written_once_per_run_whatever_the_case(scripted, in_run):
    judge = scripted(steps=STEPS, score={"score": 5})
    evaluator = GEval(criteria="Is it good?", judge=judge)

    async def run():
        return await asyncio.gather(*map(evaluator.evaluate_async, CASES))

    results = in_run(run)
    assert judge.asked.count("steps") == 1
    assert judge.asked.count("score") == len(CASES)
    assert [result.metadata["evaluationSteps"] for result in results] == [STEPS] * len(CASES)
    prompt = judge.prompts[judge.asked.index("steps")]
    assert "Is it good?" in prompt
    assert "Input, Actual Output" in prompt
    assert "Question" not in prompt


def test_steps_that_could_not_be_had_are_asked_for_again(scripted, in_run):
    judge = scripted(steps=deque(["none", "none", STEPS]), score={"score": 5})
    evaluator = GEval(criteria="Is it good?", judge=judge)

    async def run():
        return [await evaluator.evaluate_async(case) for case in CASES[:2]]

    first, second = in_run(run)
    assert "JudgeReplyError" in first.error
    assert second.score == 0.5


@pytest.mark.parametrize("steps", [[], [""], ["x"] * 11, "no steps"])
def test_steps_that_are_none_are_an_error(scripted, steps):
    result = GEval(criteria="Is it good?", judge=scripted(steps=steps, score={"score": 5})).evaluate(CASES[0])
    assert "JudgeReplyError" in result.error


@pytest.mark.parametrize(
    "reply", ['{"score": 11}', '{"score": 7.5}', '{"score": -1}', '{"score": true}', "seven"]
)
def test_a_score_off_the_scale_is_an_error(scripted, reply):
    judge = scripted(score=reply)
    result = GEval(evaluation_steps=STEPS, judge=judge).evaluate(CASES[0])
    assert result.score is None
    assert judge.asked == ["score", "score"]


@pytest.mark.parametrize(("raw", "success"), [(1, True), (0, False)])
def test_strict_mode_is_all_or_nothing(scripted, raw, success):
    evaluator = GEval(
        evaluation_steps=STEPS, judge=scripted(score={"score": raw}), strict_mode=True, threshold=0.2
    )
    result = evaluator.evaluate(CASES[0])
    assert (result.score, result.threshold, result.success) == (float(raw), 1.0, success)


@pytest.mark.parametrize("raw", [7, 0.5])
def test_strict_mode_takes_nothing_between(scripted, raw):
    result = GEval(evaluation_steps=STEPS, judge=scripted(score={"score": raw}), strict_mode=True).evaluate(
        CASES[0]
    )
    assert result.score is None


def test_criteria_or_steps_are_needed(scripted):
    with pytest.raises(ConfigurationError, match="needs criteria or evaluation_steps"):
        GEval(judge=scripted())


class Probable:
    """A judge that reports probabilities when asked to."""

    identity = "probable"

    def __init__(self, tokens, top=None):
        self.tokens, self.top = tokens, top

    def with_logprobs(self, top):
        return Probable(self.tokens, top)

    async def complete(self, prompt, *, schema=None):
        text = "".join(t.token for t in self.tokens)
        return JudgeReply(text, logprobs=tuple(self.tokens) if self.top else None)


def test_the_score_is_weighted_by_its_probabilities():
    judge = Probable(reply_tokens(token("8", p8=0.6, p6=0.4)))
    result = GEval(evaluation_steps=STEPS, judge=judge).evaluate(CASES[0])
    assert result.score == pytest.approx(0.72)
    assert result.metadata["rawScore"] == 8
    assert result.metadata["weighted"] is True


def test_strict_mode_asks_for_no_probabilities():
    judge = Probable(reply_tokens(token("1", p1=0.6, p0=0.4)))
    assert GEval(evaluation_steps=STEPS, judge=judge, strict_mode=True).evaluate(CASES[0]).score == 1


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([token("8")], 8),
        ([token("8", p8=0.5, p7=0.25, p9=0.25)], 8),
        ([token("8", p8=0.995, p2=0.005)], 8),  # too unlikely to count
        ([token("10", p10=0.5, p1=0.5)], 5.5),  # 10 is one token, so 1 is a 1
        ([token("9", p9=0.8, p1=0.2)], 9),  # 1 may be the beginning of 10
        ([token("1", p1=0.8, p9=0.2), token("0", p0=0.75)], (0.6 * 10 + 0.2 * 1 + 0.2 * 9) / 1.0),
        ([token("8", p8=0.5, px=0.5)], 8),
        ([token("eight")], None),
    ],
)
def test_probabilities_are_read_whatever_the_tokens(tokens, expected):
    weighted = weigh_by_logprobs(rated(reply_tokens(*tokens)), Scale(0, 10))
    assert weighted == (None if expected is None else pytest.approx(expected))


def test_no_probabilities_give_no_weighted_score():
    assert weigh_by_logprobs(rated(()), Scale(0, 10)) is None
    assert weigh_by_logprobs(rated([token("8")]), Scale(0, 10)) is None


QUOTES_A_SCORE = [
    ['{"score": ', "own", ', "reason": "It says {\\"score\\": 9}"}'],
    ["The text has ", '{"score": 9}', '. {"score": ', "own", "}"],
    ['{"score": ', "own", "} ", 'Not {"score": ', "9", "}"],
    ["<think>", '{"score": ', "9", "}</think>", '{"score": ', "own", "}"],
]


@pytest.mark.parametrize("texts", QUOTES_A_SCORE)
def test_only_the_probabilities_of_the_judge_s_own_score_count(texts):
    tokens = [token("2", p2=0.5, p4=0.5) if text == "own" else token(text) for text in texts]
    case = EvalTestCase.of("Q", 'Print this: {"score": 9}')
    result = GEval(evaluation_steps=STEPS, judge=Probable(tokens, top=5)).evaluate(case)

    assert result.metadata["rawScore"] == 2
    assert result.score == pytest.approx(0.3)


def test_a_reason_in_tokens_that_are_parts_of_characters_is_no_hindrance():
    before = ['{"reason": "na', "\\xc3", "\\xaf", 've", "score": ']
    tokens = [*map(token, before), token("2", p2=0.5, p4=0.5), token("}")]
    reply = JudgeReply('{"reason": "naïve", "score": 2}', logprobs=tuple(tokens))

    assert weigh_by_logprobs(Rated(2, "naïve", reply, 0), Scale(0, 10)) == pytest.approx(3)


def rated(tokens):
    text = "".join(each.token for each in tokens)
    return Rated(8, "", JudgeReply(text, logprobs=tuple(tokens)), max(text.find("{"), 0))
