"""`AnswerRelevancy`: whether an answer is about the question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import pluralize
from dokimos.evaluators._llm.case_sections import number_lines, section
from dokimos.evaluators._llm.verdicts import build_reason, verdict_prompt, verdicts_metadata, verdicts_on
from dokimos.evaluators._rag.base import RagEvaluator
from dokimos.evaluators._rag.statements import claims_of


@dataclass(frozen=True, kw_only=True)
class AnswerRelevancy(RagEvaluator):
    """Share of the output's claims that help to answer the input; 0 when it makes none.

    Whether they are true does not count. Two calls; the claims are shared with other evaluators of the item.
    The definition is DeepEval's, except that an output without a claim answers nothing; the metric of this
    name in Ragas compares embeddings instead.

    Example:
        >>> reply = '{"statements": ["It is Paris."], "verdicts": [{"verdict": "yes"}]}'
        >>> AnswerRelevancy(judge=lambda prompt: reply).evaluate(EvalTestCase.of("Capital?", "Paris.")).reason
        'To the point: 1 of 1 claim.'
    """

    method_source = "DeepEval's definition, except that an output without a claim scores 0."
    judge_calls = "2; 1 where the output makes no claims"
    default_name = "Answer Relevancy"
    requires: ClassVar[tuple[str, ...]] = ("input", "actual_output")

    async def judge_case(self, case: EvalTestCase, *, sample: int) -> Score:
        claims = await claims_of(self.lm, case.actual_output or "", sample=sample)
        if not claims:
            reason = build_reason(
                "The output claims nothing that could answer", (), but="", enabled=self.include_reason
            )
            return Score(0.0, reason, metadata={"claims": []})
        prompt = relevance_prompt(case.input or "", claims)
        verdicts = await verdicts_on(self.lm, prompt, len(claims), sample=sample)
        beside = [claim for claim, entry in zip(claims, verdicts, strict=True) if entry.verdict == "no"]
        share = f"To the point: {len(claims) - len(beside)} of {pluralize(len(claims), 'claim')}"
        return Score(
            (len(claims) - len(beside)) / len(claims),
            build_reason(share, beside, but="beside the point", enabled=self.include_reason),
            metadata={"claims": verdicts_metadata("claim", claims, verdicts)},
        )


def relevance_prompt(question: str, claims: Sequence[str]) -> str:
    """Return the question whether each claim helps to answer the input."""
    return verdict_prompt(
        "An AI system answered an input with the claims below. For each claim, say whether it helps to "
        "answer the input. Whether it is true does not count.\n"
        "- yes: it answers the input, or supports or explains the answer\n"
        "- no: it is about something else",
        section("Input", question),
        number_lines("Claims", claims),
        count=len(claims),
        noun="claim",
    )
