"""Contextual relevance, precision, recall and sufficiency: what is said of the retriever."""

from __future__ import annotations

import re

import pytest

from dokimos._core.test_case import EvalTestCase
from dokimos.evaluators._rag.base import in_windows
from dokimos.evaluators._rag.context_sufficiency import ContextSufficiency
from dokimos.evaluators._rag.contextual_precision import ContextualPrecision, average_precision
from dokimos.evaluators._rag.contextual_recall import ContextualRecall
from dokimos.evaluators._rag.contextual_relevance import ContextualRelevance

CHUNKS = ["Thirst is a symptom.", "The Pacific is large.", "So is dizziness."]


def case_of(chunks=CHUNKS, expected="Thirst and dizziness."):
    return EvalTestCase(
        {"input": "Symptoms?"}, {"retrievalContext": chunks}, expected_outputs={"output": expected}
    )


def scores(*values):
    return [{"number": n, "reason": f"Reason {n}.", "score": value} for n, value in enumerate(values, 1)]


def verdicts(*words):
    return [{"number": n, "verdict": word} for n, word in enumerate(words, 1)]


class TestContextualRelevance:
    def test_the_score_is_the_mean_over_chunks_in_one_call(self, scripted):
        judge = scripted(scores=scores(1.0, 0.0, 0.8), summary="Two are relevant.")
        result = ContextualRelevance(judge=judge).evaluate(case_of())
        assert result.name == "ContextualRelevance"
        assert result.score == pytest.approx(0.6)
        assert result.reason == "Two are relevant."
        assert result.metadata["contextScores"][1] == {
            "context": CHUNKS[1],
            "score": 0.0,
            "reason": "Reason 2.",
        }
        assert judge.asked == ["scores", "summary"]
        assert "\n| [2] The Pacific is large.\n" in judge.prompts[0]

    @pytest.mark.parametrize(
        ("value", "band"), [(0.7, "highly relevant"), (0.3, "partly relevant"), (0.29, "irrelevant")]
    )
    def test_the_summary_is_told_how_relevant_the_whole_is(self, scripted, value, band):
        judge = scripted(scores=scores(value))
        ContextualRelevance(judge=judge).evaluate(case_of(["x"]))
        assert f"as a whole it is {band} to the input" in judge.prompts[1]

    def test_no_chunks_score_nothing_without_a_call(self, scripted):
        judge = scripted()
        result = ContextualRelevance(judge=judge).evaluate(case_of([]))
        assert (result.score, result.metadata, judge.asked) == (0.0, {"contextScores": []}, [])

    def test_strict_mode_demands_everything(self, scripted):
        evaluator = ContextualRelevance(judge=scripted(scores=scores(0.99)), strict_mode=True, threshold=0.2)
        result = evaluator.evaluate(case_of(["x"]))
        assert (result.threshold, result.success) == (1.0, False)

    def test_a_single_text_is_one_chunk(self, scripted):
        judge = scripted(scores='{"scores": [{"score": "0.9"}]}')
        assert (
            ContextualRelevance(judge=judge, include_reason=False).evaluate(case_of("One text.")).score == 0.9
        )

    def test_chunks_beyond_the_window_take_more_calls(self, scripted):
        judge = scripted(scores=lambda prompt: scores(1.0, 0.5) if "[2]" in prompt else scores(0.0))
        result = ContextualRelevance(judge=judge, window=6, include_reason=False).evaluate(
            case_of(["aaa", "bbb", "cccccccccc"])
        )
        assert [entry["score"] for entry in result.metadata["contextScores"]] == [1.0, 0.5, 0.0]
        assert judge.asked == ["scores", "scores"]

    @pytest.mark.parametrize(
        ("reply", "problem"),
        [
            (scores(1.0, 0.5), "3 entries, not 2"),
            (scores(1.0, 0.5, 1.5), r"chunk \[3\]: the score 1.5 is not between 0 and 1"),
            (scores(1.0, None, 0.5), "scores.1.score"),
            ("all relevant", "no JSON"),
            ({"score": 1.0, "reason": "One for all."}, "scores: is missing"),
        ],
    )
    def test_a_reply_that_does_not_fit_is_an_error(self, scripted, reply, problem):
        result = ContextualRelevance(judge=scripted(scores=reply)).evaluate(case_of())
        assert result.score is None
        assert re.search(problem, result.error)


class TestContextualPrecision:
    @pytest.mark.parametrize(
        ("words", "score"),
        [
            (("yes", "yes", "no"), 1.0),
            (("no", "yes", "yes"), (1 / 2 + 2 / 3) / 2),
            (("yes", "no", "yes"), (1 + 2 / 3) / 2),
            (("no", "no", "yes"), 1 / 3),
            (("no", "no", "no"), 0.0),
        ],
    )
    def test_useful_chunks_should_come_first(self, scripted, words, score):
        judge = scripted(verdicts=verdicts(*words))
        result = ContextualPrecision(judge=judge).evaluate(case_of())
        assert result.score == pytest.approx(score)
        assert judge.asked == ["verdicts"]
        assert [entry["verdict"] for entry in result.metadata["contexts"]] == list(words)

    def test_the_reason_names_the_ranks(self, scripted):
        result = ContextualPrecision(judge=scripted(verdicts=verdicts("no", "yes", "yes"))).evaluate(
            case_of()
        )
        assert result.reason == "Useful for the expected output: 2 of 3 chunks, at ranks 2, 3."

    def test_nothing_retrieved_scores_nothing(self, scripted):
        judge = scripted()
        result = ContextualPrecision(judge=judge).evaluate(case_of([]))
        assert (result.score, result.reason, judge.asked) == (0.0, "No context was retrieved.", [])

    def test_it_needs_an_expected_output(self, scripted):
        assert (
            "requires an expected output"
            in ContextualPrecision(judge=scripted()).evaluate(case_of(expected=None)).error
        )

    def test_average_precision_is_trec_s(self):
        # Manning, Raghavan and Schütze, "Introduction to Information Retrieval", chapter 8
        assert average_precision([1, 3, 5]) == pytest.approx((1 + 2 / 3 + 3 / 5) / 3)


class TestContextualRecall:
    def test_the_score_is_the_share_of_expected_claims_found(self, scripted):
        judge = scripted(statements=["Thirst.", "Nausea."], verdicts=verdicts("yes", "no"))
        result = ContextualRecall(judge=judge).evaluate(case_of())
        assert result.score == 0.5
        assert result.reason == "The context holds 1 of 2 claims of the expected output; missing: 'Nausea.'."
        assert judge.asked == ["statements", "verdicts"]
        assert "Thirst and dizziness." in judge.prompts[0]

    def test_nothing_retrieved_holds_nothing(self, scripted):
        judge = scripted(statements=["Thirst."])
        result = ContextualRecall(judge=judge).evaluate(case_of([""]))
        assert (result.score, judge.asked) == (0.0, ["statements"])

    def test_nothing_expected_is_all_there(self, scripted):
        assert ContextualRecall(judge=scripted(statements=[])).evaluate(case_of()).score == 1.0


class TestContextSufficiency:
    @pytest.mark.parametrize(("word", "score"), [("yes", 1.0), ("No.", 0.0)])
    def test_the_context_is_enough_or_not(self, scripted, word, score):
        judge = scripted(verdict={"reason": "The dose is missing.", "verdict": word})
        result = ContextSufficiency(judge=judge).evaluate(case_of())
        assert (result.score, result.reason) == (score, "The dose is missing.")
        assert judge.asked == ["verdict"]

    def test_an_empty_context_is_not_enough_without_a_call(self, scripted):
        judge = scripted()
        assert ContextSufficiency(judge=judge).evaluate(case_of([])).score == 0.0
        assert judge.asked == []

    @pytest.mark.parametrize("reply", ["perhaps", {"verdict": "idk"}, {"verdict": 1}, {"sufficient": "yes"}])
    def test_another_word_is_an_error(self, scripted, reply):
        result = ContextSufficiency(judge=scripted(verdict=reply)).evaluate(case_of())
        assert result.score is None
        assert "JudgeReplyError" in result.error


@pytest.mark.parametrize(
    ("chunks", "window", "groups"),
    [
        ([], 5, []),
        (["aa", "bb", "cc"], 4, [["aa", "bb"], ["cc"]]),
        (["aaaaaa", "b"], 4, [["aaaaaa"], ["b"]]),
        (["a", "bbbbbb"], 4, [["a"], ["bbbbbb"]]),
    ],
)
def test_chunks_are_grouped_by_window(chunks, window, groups):
    assert in_windows(chunks, window) == groups
