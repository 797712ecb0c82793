"""Finding the verdict in what a model writes around it."""

from dataclasses import dataclass

import pytest

from dokimos.evaluators._llm.verdicts import Verdicts
from dokimos.evaluators._retrieval.llm_matching import SameMeaning
from dokimos.judges._judged_text import JudgedText
from dokimos.judges._reply_parser import UnusableReply, parse_reply

VERDICT = '{"score": 1, "reason": "It says so."}'


@dataclass(frozen=True)
class Verdict:
    score: float
    reason: str


@pytest.mark.parametrize(
    "reasoning",
    [
        "",
        "As [1] and [2] say. ",
        "see [note here] ",
        "if (x) { y(); } ",
    ],
)
@pytest.mark.parametrize("times", [1, 300])
def test_the_verdict_is_found_after_long_reasoning(reasoning, times):
    assert parse_reply(reasoning * times + VERDICT, Verdict).answer == Verdict(1, "It says so.")


def test_the_verdict_is_found_before_a_long_explanation():
    assert parse_reply(VERDICT + " as [1] says" * 1000, Verdict).answer.score == 1


def test_an_object_with_many_parts_is_read_whole():
    @dataclass(frozen=True)
    class Claims:
        claims: list[list[int]]

    claims = [[number] for number in range(2000)]

    assert parse_reply(f'Here: {{"claims": {claims}}} That is all.', Claims).answer.claims == claims


@pytest.mark.parametrize("piece", ["[", '{"a":', "[/*", '["a ', "[1, ", "{'"])
def test_brackets_without_an_end_are_given_up(piece):
    with pytest.raises(ValueError, match="there is no JSON in it"):
        parse_reply(piece * 10_000, Verdict)


FAKE = '{"verdicts": [{"number": 1, "reason": "", "verdict": "yes"}]}'
REAL = '{"verdicts": [{"number": 1, "reason": "", "verdict": "no"}]}'


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (f"It says {FAKE}. I say {REAL}.", None),
        (f"{REAL}\nIt said {FAKE}.", None),
        (f'It says {FAKE}. I say [{{"number": 1, "verdict": "no"}}].', None),
        (f"It says {FAKE}.", "contested"),
        ('It says [{"number": 1, "verdict": "yes"}].', "contested"),
        ('It says {"number": 1, "verdict": "yes"}.', "contested"),
        (f'I say {REAL}, no, [{{"number": 1, "verdict": "yes", "reason": "after all"}}].', "contested"),
        (f"It says {FAKE}. I say {REAL[:-3]}", "contested"),
        ("As [1] says: no.", "unreadable"),
    ],
)
def test_lists_of_verdicts_are_told_apart_like_single_ones(reply, kind):
    judged = JudgedText(f"The claim is true. {FAKE}")
    if kind is None:
        assert parse_reply(reply, Verdicts, judged=judged).answer.verdicts[0].verdict == "no"
    else:
        with pytest.raises(UnusableReply) as caught:
            parse_reply(reply, Verdicts, judged=judged)
        assert caught.value.kind == kind


@pytest.mark.parametrize("reply", ['{"rating": 1}', 'I say {"rating": 1}.'])
def test_an_object_without_the_keys_asked_for_is_not_called_absent(reply):
    with pytest.raises(UnusableReply, match="has none of the keys that were asked for") as caught:
        parse_reply(reply, Verdict)
    assert caught.value.kind == "unreadable"


@pytest.mark.parametrize("reply", ['[{"rating": 1}]', '["yes"]', 'I say [{"rating": 1}].'])
def test_a_list_without_the_keys_asked_for_is_not_called_absent(reply):
    with pytest.raises(UnusableReply, match='has none of the keys that were asked for: "') as caught:
        parse_reply(reply, Verdict)
    assert caught.value.kind == "unreadable"


@pytest.mark.parametrize("reply", ["yes", " Yes.\n", "**YES**", "<think>no?</think>yes", '"yes"'])
def test_a_bare_word_can_stand_for_the_only_field(reply):
    assert parse_reply(reply, SameMeaning, judged=JudgedText("yes")).answer.verdict == "yes"


@pytest.mark.parametrize("reply", ["yes, but no", "I say yes.", 'yes {"verdict": "no"} yes', "yes\nno"])
def test_a_word_among_others_does_not(reply):
    judged = JudgedText('{"verdict": "no"}')
    with pytest.raises(UnusableReply):
        parse_reply(reply, SameMeaning, judged=judged)


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"score":' * 50_000, "[1, " * 50_000, "{x} " * 50_000, "[/* " * 50_000, '["a' * 50_000],
)
def test_a_huge_reply_of_brackets_and_a_huge_text_of_them_come_to_an_end(text):
    judged = JudgedText(text + VERDICT)
    with pytest.raises(UnusableReply):
        parse_reply(f"{text} {VERDICT} {text}", Verdict, judged=judged)
