"""A contested or unreadable reply is an error wherever it occurs, and no setting makes it a warning."""

import asyncio
import json

import pytest

from dokimos import Dataset, Example, Experiment
from dokimos._core.test_case import EvalTestCase
from dokimos._core.wire import from_json, to_tree
from dokimos.errors import BudgetExceededError, JudgeReplyError, JudgeUnavailableError
from dokimos.evaluators import (
    ExactMatch,
    Faithfulness,
    Jury,
    LLMJudge,
    Pairwise,
    PerTurn,
    Trajectory,
)
from dokimos.evaluators._llm.rating import ReasonedRating
from dokimos.exporters._base import export
from dokimos.judges._anthropic import AnthropicMessages
from dokimos.judges._ask import gather_answers
from dokimos.judges._ollama import OllamaNative
from dokimos.judges._openai import AzureOpenAI, OpenAIChat, OpenAIResponses
from dokimos.judges._protocol import JudgeReply
from dokimos.judges._recording import Recording
from dokimos.judges._reply_parser import UnusableReply, parse_reply

DIFFERENT = '{"score": 1, "reason": "a"} or {"score": 0, "reason": "b"}'
GOOD = '{"score": 1, "reason": "Fine."}'
PROSE = "I would rather not."
CASE = EvalTestCase({"input": "Q"}, {"output": "A"}, metadata={"baselineOutput": "B"})
TALK = [
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "alpha"},
    {"role": "user", "content": "two"},
    {"role": "assistant", "content": "omega"},
]
CONVERSATION = EvalTestCase({}, {"trajectory": TALK})


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def replies(text):
    return lambda prompt: text


def down(prompt):
    raise JudgeUnavailableError("down")


def by_text(**answers):
    """A judge that answers by a word of the prompt: with text, or by raising an error."""

    def answer(prompt):
        found = next(value for word, value in answers.items() if word in prompt)
        if isinstance(found, Exception):
            raise found
        return found

    return answer


@pytest.mark.parametrize(("reply", "kind"), [(DIFFERENT, "contested"), (PROSE, "unreadable")])
@pytest.mark.parametrize(
    "evaluator",
    [
        lambda judge: LLMJudge(criteria="Right?", judge=judge, fail_on_error=False),
        lambda judge: LLMJudge(criteria="Right?", judge=judge, samples=3, fail_on_error=False),
        lambda judge: Jury(criteria="Right?", judges=[judge, judge], fail_on_error=False),
        lambda judge: PerTurn(evaluator=LLMJudge(criteria="Right?", judge=judge), fail_on_error=False),
        lambda judge: Trajectory(criteria=("user_satisfaction",), judge=judge, fail_on_error=False),
    ],
    ids=["judge", "samples", "jury", "turns", "criteria"],
)
def test_the_kind_survives_whatever_is_around_the_judge(evaluator, reply, kind):
    made = evaluator(replies(reply))
    case = CONVERSATION if "outputs.trajectory" in made.requires else CASE
    result = made.evaluate(case)

    assert (result.score, result.error_kind, result.fails_item) == (None, kind, True)


def test_a_contested_juror_is_not_hidden_by_one_that_is_down():
    jury = Jury(criteria="Right?", judges=[down, replies(DIFFERENT), replies(PROSE)], fail_on_error=False)
    result = jury.evaluate(CASE)

    assert result.error_kind == "contested"


def test_a_quorum_of_own_verdicts_is_enough_and_names_what_the_others_did():
    judges = [replies(GOOD), replies(GOOD), replies(DIFFERENT)]
    result = Jury(criteria="Right?", judges=judges, quorum=2).evaluate(CASE)

    assert result.score == 1
    assert result.metadata["jurors"][2]["errorKind"] == "contested"


def test_a_contested_turn_is_not_hidden_by_one_that_is_down():
    judge = by_text(alpha=JudgeUnavailableError("down"), omega=DIFFERENT)
    result = PerTurn(evaluator=LLMJudge(criteria="Right?", judge=judge), history=False).evaluate(CONVERSATION)

    assert result.error_kind == "contested"
    assert "Turn 2:" in result.error


def test_a_contested_order_is_not_hidden_by_one_that_is_down():
    class Judge:
        def __init__(self):
            self.asked = 0

        async def complete(self, prompt, *, schema=None):
            self.asked += 1
            if self.asked == 1:
                raise JudgeUnavailableError("down")
            return JudgeReply('{"winner": "first"} {"winner": "second"}')

    assert Pairwise(judge=Judge()).evaluate(CASE).error_kind == "contested"


@pytest.mark.parametrize(
    ("errors", "raised"),
    [
        ([ValueError("a"), JudgeReplyError("b"), JudgeReplyError("c", kind="contested")], "c"),
        ([JudgeUnavailableError("a"), JudgeReplyError("b")], "b"),
        ([ValueError("a"), KeyError("b")], "a"),
        ([JudgeReplyError("a", kind="contested"), BudgetExceededError("spent")], "spent"),
    ],
)
def test_of_several_errors_the_hardest_is_raised(errors, raised):
    async def fail(error):
        raise error

    async def gathered():
        await gather_answers(map(fail, errors))

    with pytest.raises(type(next(e for e in errors if str(e) == raised)), match=raised):
        asyncio.run(gathered())


def test_a_first_reply_that_is_contested_stays_so_where_the_repair_is_cut_off():
    class Judge:
        def __init__(self):
            self.asked = 0

        async def complete(self, prompt, *, schema=None):
            self.asked += 1
            if self.asked == 2:
                raise JudgeReplyError("cut off at its limit")
            return JudgeReply(DIFFERENT)

    result = LLMJudge(criteria="Right?", judge=Judge()).evaluate(CASE)

    assert (result.error_kind, "cut off at its limit" in result.error) == ("contested", True)


def test_a_run_is_errored_resumes_as_it_was_and_says_so_in_its_reports(tmp_path):
    evaluators = [
        ExactMatch(),
        LLMJudge(criteria="Right?", judge=replies(DIFFERENT), fail_on_error=False),
    ]
    data = Dataset([Example.of("Q", "Q", id="one")])
    plan = Experiment(data, str, evaluators, progress=False)
    result = plan.run()
    resumed = plan.run(resume=result.run_id)

    for found in (result, resumed):
        judged = found.item_results[0].result("LLM Judge")
        assert (found.pass_count, found.error_count, judged.error_kind) == (0, 1, "contested")
    export(result, tmp_path / "report.json")
    export(result, tmp_path / "report.md")
    export(result, tmp_path / "report.html")
    export(result, tmp_path / "report.xml")
    assert '"errorKind": "contested"' in json.dumps(json.loads((tmp_path / "report.json").read_text()))
    for name in ("report.md", "report.html", "report.xml"):
        assert "may be an attack" in (tmp_path / name).read_text(), name


def test_a_reply_with_other_keys_is_not_called_an_attack():
    reply = '{"reason": "It is right.", "rating": 1}'
    result = LLMJudge(criteria="Right?", judge=lambda prompt: reply).evaluate(CASE)

    assert result.error_kind == "contested"
    assert "does not have the form that was asked for" in result.error
    assert "attack" not in result.error


def test_a_reason_of_null_is_empty_in_every_entry():
    judge = by_text(
        **{
            "list of statements": '{"statements": ["Paris is the capital."]}',
            "": '{"verdicts": [{"number": 1, "reason": null, "verdict": "yes"}]}',
        }
    )
    case = EvalTestCase({"input": "Q"}, {"output": "Paris.", "context": ["Paris is the capital."]})

    def answer(prompt):
        return judge("list of statements" if '"statements"' in prompt else "")

    assert Faithfulness(judge=answer).evaluate(case).score == 1


# Servers that hold replies to the schema


@pytest.mark.parametrize(
    "reply",
    [f"Here: {GOOD}", f"{GOOD} {GOOD}", f"{GOOD} That is all.", GOOD[:-1]],
)
def test_where_the_schema_is_enforced_a_reply_is_one_value_or_nothing(reply):
    with pytest.raises(UnusableReply):
        parse_reply(reply, ReasonedRating, enforced=True)


@pytest.mark.parametrize("reply", [GOOD, f"\n{GOOD} ", f"```json\n{GOOD}\n```", f"<think>x</think>{GOOD}"])
def test_where_the_schema_is_enforced_a_clean_reply_is_the_verdict(reply):
    assert parse_reply(reply, ReasonedRating, enforced=True).answer.score == 1


@pytest.mark.parametrize(
    ("judge", "enforces"),
    [
        (OpenAIChat("m"), True),
        (OpenAIChat("m", base_url="http://localhost:8000/v1"), False),
        (OpenAIResponses("m"), True),
        (OpenAIResponses("m", base_url="http://localhost:8000/v1"), False),
        (AnthropicMessages("m"), True),
        (AnthropicMessages("m", base_url="http://localhost:8000"), False),
        (AzureOpenAI("m", base_url="https://me.openai.azure.com"), True),
        (AzureOpenAI("m", base_url="https://azure.com.evil.net"), False),
        (OllamaNative("m"), False),
    ],
)
def test_only_a_provider_s_own_endpoint_is_known_to_enforce_schemas(judge, enforces):
    assert judge.enforces_schemas() is enforces


def test_what_is_known_of_a_reply_is_kept_with_it():
    enforced = JudgeReply(GOOD, schema_enforced=True)
    request = type(
        "Call", (), dict(key="k", identity="i", prompt="p", schema_text="null", repeat=0, sample=0)
    )
    line = Recording.of(request, enforced, lambda text: text).to_line(stable=True)
    older = line.replace(b'"schemaEnforced": true, ', b"")

    assert Recording.from_line(line).reply.schema_enforced is True
    assert older != line
    assert Recording.from_line(older).reply == JudgeReply(GOOD)
    assert "schemaEnforced" not in to_tree(JudgeReply(GOOD))
    assert from_json(JudgeReply, to_tree(enforced)) == enforced
