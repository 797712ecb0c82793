from __future__ import annotations

import asyncio
from collections import deque

import pytest

from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError
from dokimos.evaluators._rag.answer_relevancy import AnswerRelevancy
from dokimos.evaluators._rag.faithfulness import Faithfulness
from dokimos.evaluators._rag.noise_sensitivity import NoiseSensitivity

TRUTHS = ["Paris is the capital of France.", "The Seine flows through Paris."]
CLAIMS = ["Paris is the capital.", "Paris has 9 million inhabitants.", "The Seine flows through Berlin."]
VERDICTS = [
    {"number": 1, "verdict": "yes", "reason": "Stated."},
    {"number": 2, "verdict": "IDK", "reason": "Not stated."},
    {"number": 3, "verdict": "No", "reason": "It flows through Paris."},
]


def case_of(output="Paris ...", context=TRUTHS, **metadata):
    outputs = {"output": output} if context is None else {"output": output, "context": context}
    return EvalTestCase({"input": "Capital?"}, outputs, metadata=metadata)


def judge_of(scripted, *, statements=(TRUTHS, CLAIMS), verdicts=VERDICTS, summary=" Two are not supported. "):
    return scripted(statements=deque(statements), verdicts=verdicts, summary=summary)


def test_no_input_is_needed_since_no_prompt_has_it(scripted):
    judge = judge_of(scripted)
    case = EvalTestCase({}, {"output": "Paris ..."}, metadata={"context": TRUTHS})
    assert Faithfulness(judge=judge).evaluate(case).score == pytest.approx(1 / 3)


def test_the_score_is_the_share_of_supported_claims(scripted):
    judge = judge_of(scripted)
    result = Faithfulness(judge=judge).evaluate(case_of())
    assert result.score == pytest.approx(1 / 3)
    assert (result.name, result.threshold, result.success) == ("Faithfulness", 0.8, False)
    assert result.reason == "Two are not supported."
    assert judge.asked == ["statements", "statements", "verdicts", "summary"]


def test_truths_claims_and_verdicts_are_kept(scripted):
    result = Faithfulness(judge=judge_of(scripted)).evaluate(case_of())
    assert result.metadata["truths"] == TRUTHS
    assert result.metadata["claims"][1] == {
        "claim": "Paris has 9 million inhabitants.",
        "verdict": "idk",
        "reason": "Not stated.",
    }


def test_each_question_shows_what_it_is_about(scripted):
    judge = judge_of(scripted)
    Faithfulness(judge=judge).evaluate(
        case_of(output="The whole output.", context=["Chunk one.", "Chunk\ntwo."])
    )
    truths, claims, verdicts, summary = judge.prompts
    assert "| [1] Chunk one.\n| [2] Chunk\\ntwo." in truths
    assert "The whole output." in claims
    assert "Chunk one" not in claims
    assert f"[2] {TRUTHS[1]}" in verdicts
    assert f"[3] {CLAIMS[2]}" in verdicts
    assert "supports 1 of 3 claims" in summary


def test_bare_lists_are_read(scripted):
    judge = scripted(
        statements=deque(['["a fact"]', 'Here: ["a claim"]']), verdicts='```json\n[{"verdict": "Yes"}]\n```'
    )
    assert Faithfulness(judge=judge).evaluate(case_of()).score == 1


def test_verdicts_are_matched_to_claims_by_their_number(scripted):
    judge = judge_of(scripted, verdicts=list(reversed(VERDICTS)))
    result = Faithfulness(judge=judge).evaluate(case_of())
    assert [claim["verdict"] for claim in result.metadata["claims"]] == ["yes", "idk", "no"]


@pytest.mark.parametrize("numbers", [(0, 0, 0), (1, 0, 0), (0, 1, 2), (0, 2, 0), (1, 2, 3)])
def test_numbers_left_out_or_counted_from_zero_go_by_their_place(scripted, numbers):
    verdicts = [{**entry, "number": number} for entry, number in zip(VERDICTS, numbers, strict=True)]
    result = Faithfulness(judge=judge_of(scripted, verdicts=verdicts)).evaluate(case_of())
    assert [claim["verdict"] for claim in result.metadata["claims"]] == ["yes", "idk", "no"]


def test_without_reason_there_are_three_calls_and_the_fixed_text(scripted):
    judge = judge_of(scripted)
    result = Faithfulness(judge=judge, include_reason=False).evaluate(case_of())
    assert result.reason == "Reasoning was disabled"
    assert judge.asked == ["statements", "statements", "verdicts"]


@pytest.mark.parametrize("include_reason", [True, False])
def test_no_claims_are_faithful_without_further_calls(scripted, include_reason):
    judge = judge_of(scripted, statements=(TRUTHS, ["", " "]))
    result = Faithfulness(judge=judge, include_reason=include_reason).evaluate(case_of())
    assert result.score == 1
    assert ("makes no claims" in result.reason) is include_reason
    assert judge.asked == ["statements", "statements"]


def test_an_empty_context_supports_nothing(scripted):
    judge = judge_of(scripted, statements=(CLAIMS,))
    result = Faithfulness(judge=judge, include_reason=False).evaluate(case_of(context=[]))
    assert result.score == 0
    assert judge.asked == ["statements"]


def test_an_empty_summary_is_replaced_by_our_own(scripted):
    result = Faithfulness(judge=judge_of(scripted, summary=" \n")).evaluate(case_of())
    assert result.reason.startswith(
        "The context supports 1 of 3 claims; not: 'Paris has 9 million inhabitants.'"
    )


@pytest.mark.parametrize(
    "verdicts",
    [
        "I cannot tell.",
        [],
        VERDICTS[:2],
        [*VERDICTS, {"verdict": "yes"}],
        [{"verdict": "yes"}, {"verdict": "maybe"}, {"verdict": "no"}],
        [{"verdict": "yes"}, {}, {"verdict": "no"}],
        [{"verdict": True}, {"verdict": True}, {"verdict": True}],
        [{"number": n, "verdict": "yes"} for n in (1, 1, 2)],
        [{"number": n, "verdict": "yes"} for n in (2, 3, 4)],
        [{"number": n, "verdict": "yes"} for n in (0, 3, 2)],
        [{"number": n, "verdict": "yes"} for n in (2, 1, 0)],
        ["yes", "yes", "yes"],
        "yes",
    ],
)
def test_verdicts_that_do_not_fit_the_claims_are_an_error(scripted, verdicts):
    judge = judge_of(scripted, verdicts=verdicts)
    result = Faithfulness(judge=judge).evaluate(case_of())
    assert result.score is None
    assert "JudgeReplyError" in result.error
    assert judge.asked == ["statements", "statements", "verdicts", "verdicts"]


@pytest.mark.parametrize(
    "reply", ["none", '{"claims": []}', '[["nested"]]', "[1, 2]", '{"statements": null}']
)
def test_claims_that_cannot_be_read_are_an_error(scripted, reply):
    judge = judge_of(scripted, statements=(TRUTHS, reply, reply))
    assert "JudgeReplyError" in Faithfulness(judge=judge).evaluate(case_of()).error


def test_a_repair_is_told_what_was_wrong(scripted):
    judge = judge_of(scripted, verdicts=deque([VERDICTS[:2], VERDICTS]))
    assert Faithfulness(judge=judge).evaluate(case_of()).score == pytest.approx(1 / 3)
    assert "there should be 3 entries, not 2" in judge.prompts[3]


def test_the_context_is_found_in_the_metadata_too(scripted):
    judge = judge_of(scripted)
    result = Faithfulness(judge=judge, contexts_key="docs").evaluate(case_of(context=None, docs="One text."))
    assert result.error is None
    assert "[1] One text." in judge.prompts[0]


def test_outputs_come_before_metadata(scripted):
    judge = judge_of(scripted)
    Faithfulness(judge=judge).evaluate(case_of(context=["From the outputs."], context_="x"))
    assert "From the outputs." in judge.prompts[0]


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (case_of(context=None), "Faithfulness requires contexts; the case has: input, output. Return them"),
        (case_of(context=None, docs=["x"]), "Did you mean metadata.docs? If so, set contexts_key='docs'."),
        (case_of(context=7), "'outputs.context' must be a text, a document or a list of these, not int: 7"),
        (EvalTestCase({}, {"context": "y"}), "requires an output; the case has: outputs.context."),
    ],
)
def test_a_missing_or_odd_context_is_an_error_without_a_call(scripted, case, message):
    judge = judge_of(scripted)
    result = Faithfulness(judge=judge).evaluate(case)
    assert message in result.error
    assert judge.asked == []


def test_a_long_context_takes_a_call_for_each_window(scripted):
    judge = judge_of(scripted, statements=(TRUTHS[:1], TRUTHS[1:], CLAIMS))
    result = Faithfulness(judge=judge, window=10, include_reason=False).evaluate(
        case_of(context=["x" * 6, "y" * 6])
    )
    assert result.metadata["truths"] == TRUTHS
    assert judge.asked == ["statements"] * 3 + ["verdicts"]


def test_claims_are_extracted_once_for_all_evaluators_of_an_item(scripted, in_run):
    judge = scripted(
        statements=lambda prompt: CLAIMS if "the output" in prompt else TRUTHS,
        verdicts=lambda prompt: VERDICTS if "idk" in prompt else [{"verdict": "yes"}] * 3,
    )
    evaluators = [
        Faithfulness(judge=judge),
        AnswerRelevancy(judge=judge),
        NoiseSensitivity(judge=judge),
    ]
    case = EvalTestCase(
        {"input": "Q"}, {"output": "the output", "context": TRUTHS}, expected_outputs={"output": "Paris"}
    )

    async def work():
        return await asyncio.gather(*(evaluator.evaluate_async(case) for evaluator in evaluators))

    results = in_run(work, one_item=True)
    assert [result.error for result in results] == [None] * 3
    assert judge.asked.count("statements") == 2


def test_another_judge_or_sample_extracts_its_own_claims(scripted, in_run):
    answers = {"statements": ["Paris is the capital."], "verdicts": [{"verdict": "yes"}]}
    one, other = scripted("one", **answers), scripted("other", **answers)
    evaluators = [AnswerRelevancy(judge=one, samples=2), AnswerRelevancy(judge=other)]

    async def work():
        return await asyncio.gather(*(evaluator.evaluate_async(case_of()) for evaluator in evaluators))

    in_run(work, one_item=True)
    assert one.asked.count("statements") == 2
    assert other.asked.count("statements") == 1


def test_a_claim_cannot_start_a_line_of_its_own(scripted):
    judge = judge_of(scripted, statements=(TRUTHS, ["True.\n[2] Also true."]), verdicts=[{"verdict": "yes"}])
    Faithfulness(judge=judge).evaluate(case_of())
    assert "\n[2] Also" not in judge.prompts[2]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"judge": None}, "needs a judge"), ({"contexts_key": ""}, "contexts_key"), ({"window": 0}, "window")],
)
def test_a_wrong_configuration_is_refused(scripted, options, message):
    with pytest.raises(ConfigurationError, match=message):
        Faithfulness(**{"judge": scripted(), **options})
