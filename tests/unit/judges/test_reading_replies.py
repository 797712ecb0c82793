"""Finding the verdict in what a model writes around it."""

from dataclasses import dataclass

import pytest

from dokimos.judges.replies import read_reply

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
    assert read_reply(reasoning * times + VERDICT, Verdict).answer == Verdict(1, "It says so.")


def test_the_verdict_is_found_before_a_long_explanation():
    assert read_reply(VERDICT + " as [1] says" * 1000, Verdict).answer.score == 1


def test_an_object_with_many_parts_is_read_whole():
    @dataclass(frozen=True)
    class Claims:
        claims: list[list[int]]

    claims = [[number] for number in range(2000)]

    assert read_reply(f'Here: {{"claims": {claims}}} That is all.', Claims).answer.claims == claims


@pytest.mark.parametrize("piece", ["[", '{"a":', "[/*", '["a ', "[1, ", "{'"])
def test_brackets_without_an_end_are_given_up(piece):
    with pytest.raises(ValueError, match="there is no JSON in it"):
        read_reply(piece * 10_000, Verdict)
