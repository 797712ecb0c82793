from __future__ import annotations

from dataclasses import replace

import pytest

from dokimos._core.example import Example
from dokimos._core.results import ExperimentResult, ItemResult, RunResult
from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError
from dokimos.evaluators import compare_pairwise
from dokimos.evaluators._llm.pairwise import Pairwise

CASE = replace(EvalTestCase.of("Capital of France?", "good"), metadata={"baselineOutput": "bad"})


def prefers(answer):
    """Choose the answer that holds a text, wherever it is shown."""

    def choose(prompt):
        first, second = prompt.split("First Answer:")[1].split("Second Answer:")
        if answer in first.split("Input:")[0] and answer not in second:
            return {"winner": "first", "reason": "Because."}
        return {"winner": "second", "reason": "Because."} if answer in second else {"winner": "tie"}

    return choose


@pytest.mark.parametrize(
    ("winner", "score", "outcome", "biased", "reason"),
    [
        (prefers("good"), 1.0, "win", False, "Better than the baseline in both orders: Because."),
        (prefers("bad"), 0.0, "loss", False, "The baseline is better in both orders: Because."),
        ({"winner": "tie"}, 0.5, "tie", False, "Neither is better: No reason provided."),
        (
            {"winner": "first"},
            0.5,
            "tie",
            True,
            "A tie: the judge chose the first answer in both orders, whic",
        ),
        ({"winner": " Second."}, 0.5, "tie", True, "A tie: the judge chose the second answer in both orders"),
    ],
)
def test_both_orders_decide(scripted, winner, score, outcome, biased, reason):
    judge = scripted(winner=winner)
    result = Pairwise(judge=judge).evaluate(CASE)
    assert result.score == score
    assert result.metadata["outcome"] == outcome
    assert result.metadata["positionBias"] is biased
    assert result.reason.startswith(reason)
    assert judge.asked == ["winner", "winner"]


def test_a_tie_one_way_and_a_winner_the_other_is_a_tie(scripted):
    def choose(prompt):
        first = prompt.split("First Answer:")[1].split("Second Answer:")[0]
        return {"winner": "first" if "good" in first else "tie"}

    result = Pairwise(judge=scripted(winner=choose)).evaluate(CASE)
    assert (result.score, result.metadata["verdicts"]) == (0.5, ["first", "tie"])


def test_equal_outputs_tie_without_a_call(scripted):
    judge = scripted()
    result = Pairwise(judge=judge).evaluate(replace(CASE, metadata={"baselineOutput": "good"}))
    assert (result.score, result.success, judge.asked) == (0.5, True, [])


def test_a_case_without_a_baseline_is_an_error(scripted):
    result = Pairwise(judge=scripted(), baseline_key="old").evaluate(CASE)
    assert "requires 'old' in the metadata" in result.error


@pytest.mark.parametrize(
    "reply", ["the first", '{"winner": "A"}', '{"winner": ""}', '{"winner": null}', "{}"]
)
def test_another_word_is_an_error(scripted, reply):
    result = Pairwise(judge=scripted(winner=reply)).evaluate(CASE)
    assert result.score is None
    assert "JudgeReplyError" in result.error


def test_the_output_is_shown_only_as_an_answer(scripted):
    judge = scripted(winner={"winner": "tie"})
    Pairwise(judge=judge).evaluate(CASE)
    assert all(prompt.count("good") == 1 for prompt in judge.prompts)


def result_of(*outputs, ids=True):
    items = tuple(
        ItemResult(
            n,
            Example(inputs={"input": f"Q{n}"}, id=f"q{n}" if ids else None),
            actual_outputs={} if output is None else {"output": output},
        )
        for n, output in enumerate(outputs)
    )
    return ExperimentResult(name="x", runs=(RunResult(item_results=items),))


def test_a_judge_that_always_picks_first_wins_nothing(scripted):
    report = compare_pairwise(
        result_of(*["bad"] * 10), result_of(*["good"] * 10), scripted(winner={"winner": "first"})
    )
    assert (report.wins, report.losses, report.ties, report.verdict_count) == (0, 0, 10, 10)
    assert (report.win_rate, report.tie_rate, report.position_bias_rate) == (0.0, 1.0, 1.0)
    assert report.win_rate_without_ties is None


def test_wins_and_losses_are_counted_with_an_interval(scripted):
    report = compare_pairwise(
        result_of("bad", "bad", "bad", "good", "same"),
        result_of("good", "good", "good", "bad", "same"),
        scripted(winner=prefers("good")),
    )
    assert (report.wins, report.losses, report.ties) == (3, 1, 1)
    assert (report.win_rate, report.loss_rate, report.tie_rate) == (0.6, 0.2, 0.2)
    assert report.win_rate_without_ties == 0.75
    assert report.win_interval.low == pytest.approx(0.2307, abs=1e-4)  # Wilson, 3 of 5
    assert report.win_interval.high == pytest.approx(0.8824, abs=1e-4)
    assert report.position_bias_rate == 0.0
    assert report.summary().startswith(
        "The candidate won 3 of 5 pairs: 60.0 %, 95 % interval 23.1 % to 88.2 %."
    )


def test_errors_and_lonely_items_are_in_no_rate(scripted):
    report = compare_pairwise(
        result_of("bad", None, "bad", "bad"),
        result_of("good", "good", "good"),
        scripted(winner=lambda prompt: "?" if "Q0" in prompt else prefers("good")(prompt)),
    )
    assert (report.errors, report.unpaired, report.verdict_count, report.wins) == (1, 2, 1, 1)
    assert report.win_rate == 1.0


def test_items_pair_by_id_whatever_their_place(scripted):
    candidate = result_of("good", "good")
    swapped = RunResult(item_results=tuple(reversed(candidate.runs[0].item_results)))
    judge = scripted(winner=prefers("good"))
    report = compare_pairwise(result_of("bad", "bad"), replace(candidate, runs=(swapped,)), judge)
    assert [item.key for item in report.items] == ["q1", "q0"]
    assert report.wins == 2


def test_nothing_in_common_is_refused(scripted):
    with pytest.raises(ConfigurationError, match="no item with an output in common"):
        compare_pairwise(result_of("a"), result_of("a", ids=False), scripted())
