"""Hallucination, answer relevancy, noise sensitivity and citations: what is said of the answer."""

from __future__ import annotations

import pytest

from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError
from dokimos.evaluators._rag.answer_relevancy import AnswerRelevancy
from dokimos.evaluators._rag.citation_faithfulness import CitationFaithfulness, parse_sentences
from dokimos.evaluators._rag.hallucination import Hallucination
from dokimos.evaluators._rag.noise_sensitivity import NoiseSensitivity

CHUNKS = ["Paris is the capital.", "Lyon is the capital.", "Cats sleep."]


def case_of(output="Some output.", **more):
    outputs = {"output": output, "context": CHUNKS, "retrievalContext": CHUNKS, **more}
    return EvalTestCase({"input": "Capital?"}, outputs, expected_outputs={"output": "Paris."})


def verdicts(*words):
    return [{"verdict": word, "reason": f"Reason {n}."} for n, word in enumerate(words, 1)]


class TestHallucination:
    @pytest.mark.parametrize(
        ("words", "score", "success"),
        [(("yes", "yes"), 0.0, True), (("yes", " NO "), 0.5, True), (("no", "no", "yes"), 2 / 3, False)],
    )
    def test_lower_is_better(self, scripted, words, score, success):
        evaluator = Hallucination(judge=scripted(verdicts=verdicts(*words)))
        result = evaluator.evaluate(case_of())
        assert result.score == pytest.approx(score)
        assert (result.threshold, result.success) == (0.5, success)
        assert evaluator.info().lower_is_better

    def test_no_statements_hallucinate_nothing_and_need_no_summary(self, scripted):
        judge = scripted(verdicts=[])
        result = Hallucination(judge=judge).evaluate(case_of())
        assert (result.score, result.success) == (0.0, True)
        assert "makes no statements" in result.reason
        assert judge.asked == ["verdicts"]

    def test_the_summary_sees_both_sides(self, scripted):
        answers = [
            {"statement": "Paris.", "verdict": "yes", "reason": "Stated."},
            {"statement": "Lyon.", "verdict": "no", "reason": "Made up."},
        ]
        judge = scripted(verdicts=answers, summary="Lyon is made up.")
        result = Hallucination(judge=judge).evaluate(case_of())
        assert result.reason == "Lyon is made up."
        assert result.metadata["statements"] == answers
        prompt = judge.prompts[1]
        assert "does not support 1 of 2 statements" in prompt
        assert (
            prompt.index("[1] Paris.: Stated.")
            < prompt.index("Not Supported")
            < prompt.index("Lyon.: Made up.")
        )

    def test_without_reason_there_is_one_call(self, scripted):
        judge = scripted(verdicts=verdicts("no"))
        result = Hallucination(judge=judge, include_reason=False).evaluate(case_of())
        assert (result.reason, judge.asked) == ("Reasoning was disabled", ["verdicts"])

    @pytest.mark.parametrize(
        "reply", ["no", "{}", [{"verdict": "idk"}], [{"reason": "?"}], '{"verdicts": "no"}']
    )
    def test_another_reply_is_an_error(self, scripted, reply):
        result = Hallucination(judge=scripted(verdicts=reply)).evaluate(case_of())
        assert (result.score, result.success) == (None, None)
        assert "JudgeReplyError" in result.error


class TestAnswerRelevancy:
    def test_the_score_is_the_share_of_claims_that_answer(self, scripted):
        judge = scripted(statements=["Paris.", "Cats sleep."], verdicts=verdicts("yes", "no"))
        result = AnswerRelevancy(judge=judge).evaluate(case_of())
        assert result.score == 0.5
        assert result.reason == "To the point: 1 of 2 claims; beside the point: 'Cats sleep.'."
        assert judge.asked == ["statements", "verdicts"]

    def test_an_output_without_claims_answers_nothing(self, scripted):
        result = AnswerRelevancy(judge=scripted(statements=[])).evaluate(case_of())
        assert (result.score, result.reason) == (0.0, "The output claims nothing that could answer.")

    def test_an_empty_output_needs_no_call(self, scripted):
        judge = scripted()
        assert AnswerRelevancy(judge=judge).evaluate(case_of(" ")).score == 0.0
        assert judge.asked == []

    def test_it_needs_no_context(self, scripted):
        judge = scripted(statements=["Paris."], verdicts=verdicts("yes"))
        result = AnswerRelevancy(judge=judge, include_reason=False).evaluate(EvalTestCase.of("Q", "A"))
        assert (result.score, result.reason) == (1.0, "Reasoning was disabled")


class TestNoiseSensitivity:
    CLAIMS = ("Paris is the capital.", "Lyon is the capital.", "It has 10 people.", "Cats sleep.")
    SOURCES = ({"chunks": [2]}, {"chunks": []}, {"chunks": [3]})

    def judge(self, scripted, sources=SOURCES, useful=("yes", "yes", "no")):
        def verdict(prompt):
            return verdicts(*useful) if "Chunks:" in prompt else verdicts("yes", "no", "no", "no")

        return scripted(statements=list(self.CLAIMS), verdicts=verdict, sources=list(sources))

    @pytest.mark.parametrize(
        ("noise", "score", "asked"),
        [
            ("any", 0.5, ["statements", "verdicts", "sources"]),
            ("relevant", 0.25, ["statements", "verdicts", "sources", "verdicts"]),
            ("irrelevant", 0.25, ["statements", "verdicts", "sources", "verdicts"]),
        ],
    )
    def test_wrong_claims_from_the_context_count(self, scripted, noise, score, asked):
        judge = self.judge(scripted)
        result = NoiseSensitivity(judge=judge, noise=noise).evaluate(case_of())
        assert result.score == score
        assert judge.asked == asked
        assert result.metadata["wrong"][0] == {"claim": "Lyon is the capital.", "chunks": [2]}

    def test_nothing_wrong_needs_no_sources(self, scripted):
        judge = scripted(statements=["Paris."], verdicts=verdicts("yes"))
        result = NoiseSensitivity(judge=judge).evaluate(case_of())
        assert (result.score, result.success) == (0.0, True)
        assert judge.asked == ["statements", "verdicts"]

    def test_no_claims_are_no_noise(self, scripted):
        assert NoiseSensitivity(judge=scripted(statements=[])).evaluate(case_of()).score == 0.0

    @pytest.mark.parametrize(
        "sources",
        [({"chunks": [4]},) * 3, ({"chunks": [0]},) * 3, ({"chunks": [1]},) * 2, ({"chunks": "1"},) * 3],
    )
    def test_sources_that_do_not_exist_are_an_error(self, scripted, sources):
        result = NoiseSensitivity(judge=self.judge(scripted, sources=sources)).evaluate(case_of())
        assert "JudgeReplyError" in result.error

    def test_another_noise_is_refused(self, scripted):
        with pytest.raises(ConfigurationError, match="noise must be one of"):
            NoiseSensitivity(judge=scripted(), noise="all")


class TestCitationFaithfulness:
    def test_each_citing_sentence_is_checked_against_what_it_cites(self, scripted):
        judge = scripted(verdicts=verdicts("yes", "no"))
        output = "Paris is the capital [1]. It is old. Cats bark.[3] Bye!"
        result = CitationFaithfulness(judge=judge).evaluate(case_of(output))
        assert result.score == 0.5
        assert result.reason == "The citations support 1 of 2 sentences; not: 'Cats bark.'."
        assert result.metadata["uncited"] == 2
        assert [entry["chunks"] for entry in result.metadata["sentences"]] == [[1], [3]]
        prompt = judge.prompts[0]
        assert "[3] Cats sleep." in prompt
        assert "Lyon" not in prompt
        assert "[2] Cats bark. (cites chunk [3])" in prompt

    def test_sentences_without_citation_count_where_citations_are_required(self, scripted):
        judge = scripted(verdicts=verdicts("yes"))
        evaluator = CitationFaithfulness(judge=judge, require_citations=True)
        assert evaluator.evaluate(case_of("Paris is the capital [1]. It is old.")).score == 0.5

    def test_a_chunk_that_does_not_exist_supports_nothing(self, scripted):
        judge = scripted()
        result = CitationFaithfulness(judge=judge).evaluate(case_of("Paris is the capital [9]."))
        assert (result.score, judge.asked) == (0.0, [])

    def test_citing_nothing_scores_nothing(self, scripted):
        judge = scripted()
        result = CitationFaithfulness(judge=judge).evaluate(case_of("Paris [sic] is the capital."))
        assert (result.score, result.reason, judge.asked) == (0.0, "The output cites nothing.", [])

    def test_chunks_can_be_cited_by_id(self, scripted):
        judge = scripted(verdicts=verdicts("yes"))
        case = case_of("Thirty days [policy.md].", context=[{"id": "policy.md", "text": "30 days"}])
        assert CitationFaithfulness(judge=judge).evaluate(case).score == 1.0

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("One [1]. Two [2, 3].", [("One .", (1,)), ("Two .", (2, 3))]),
            ("One.[1] [2] Two.", [("One.", (1, 2)), ("Two.", ())]),
            ("- One [1]\n- Two [7]", [("- One", (1,)), ("- Two", (0,))]),
            ("See [note] and [1][1].", [("See [note] and .", (1,))]),
            ("", []),
        ],
    )
    def test_sentences_are_found_with_their_citations(self, text, expected):
        found = parse_sentences(text, {"1": 1, "2": 2, "3": 3})
        assert [(sentence.text, sentence.cited_chunks) for sentence in found] == expected
