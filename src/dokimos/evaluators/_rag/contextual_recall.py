"""Whether the context holds everything that the expected answer says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import pluralize
from dokimos.evaluators._llm.case_sections import number_lines
from dokimos.evaluators._llm.verdicts import (
    Verdict,
    build_reason,
    verdict_prompt,
    verdicts_metadata,
    verdicts_on,
)
from dokimos.evaluators._rag.base import RetrieverEvaluator
from dokimos.evaluators._rag.statements import claims_of


@dataclass(frozen=True, kw_only=True)
class ContextualRecall(RetrieverEvaluator):
    """Share of the expected output's claims that the retrieved context states; 1 when it makes none.

    Two calls; one where nothing was retrieved. After Es et al., "RAGAS", context recall.

    Example:
        >>> reply = '{"statements": ["Returns take 30 days."], "verdicts": [{"verdict": "yes"}]}'
        >>> case = EvalTestCase.of("Returns?", "", "30 days", contexts=["Return goods within 30 days."])
        >>> ContextualRecall(judge=lambda prompt: reply).evaluate(case).score
        1.0
    """

    method_source = 'Es et al., "RAGAS" (2023): context recall.'
    judge_calls = "2; 1 where nothing was retrieved"
    default_name = "Contextual Recall"
    requires: ClassVar[tuple[str, ...]] = ("expected_output", "contexts")

    async def judge_case(self, case: EvalTestCase, *, sample: int) -> Score:
        chunks = self.contexts(case)
        claims = await claims_of(self.lm, case.expected_output or "", sample=sample)
        if not claims:
            reason = build_reason(
                "The expected output makes no claims", (), but="", enabled=self.include_reason
            )
            return Score(1.0, reason, metadata={"claims": []})
        verdicts = await self._verdicts(chunks, claims, sample)
        missing = [claim for claim, entry in zip(claims, verdicts, strict=True) if entry.verdict == "no"]
        covered = len(claims) - len(missing)
        share = f"The context holds {covered} of {pluralize(len(claims), 'claim')} of the expected output"
        return Score(
            covered / len(claims),
            build_reason(share, missing, but="missing", enabled=self.include_reason),
            metadata={"claims": verdicts_metadata("claim", claims, verdicts)},
        )

    async def _verdicts(self, chunks: Sequence[str], claims: Sequence[str], sample: int) -> Sequence[Verdict]:
        if not any(chunk.strip() for chunk in chunks):
            return [Verdict(reason="The context is empty.", verdict="no")] * len(claims)
        return await verdicts_on(self.lm, attribution_prompt(chunks, claims), len(claims), sample=sample)


def attribution_prompt(chunks: Sequence[str], claims: Sequence[str]) -> str:
    """Return the question whether the context states each claim."""
    return verdict_prompt(
        "For each claim, say whether the context states it. Use nothing but the context.\n"
        "- yes: the context states it, or it follows from the context\n"
        "- no: the context contradicts it or does not say it",
        number_lines("Context", chunks),
        number_lines("Claims", claims),
        count=len(claims),
        noun="claim",
    )
