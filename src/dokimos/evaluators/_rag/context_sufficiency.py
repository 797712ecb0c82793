"""`ContextSufficiency`: whether the retrieved context suffices to answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos.evaluators._llm.case_sections import number_lines, section
from dokimos.evaluators._llm.rating import NO_REASON, REASON_DISABLED
from dokimos.evaluators._rag.base import RetrieverEvaluator
from dokimos.judges._ask import ask
from dokimos.judges._fencing import fence_rule
from dokimos.judges._shapes import YesNo


@dataclass(frozen=True, slots=True, kw_only=True)
class Sufficiency:
    """What a judge replies that is asked whether a context is enough."""

    reason: str = ""
    verdict: YesNo


@dataclass(frozen=True, kw_only=True)
class ContextSufficiency(RetrieverEvaluator):
    """1 if the retrieved context is enough to answer the input from it alone, else 0.

    Needs no expected output. One call; none where nothing was retrieved. After Joren et al., "Sufficient
    Context: A New Lens on Retrieval Augmented Generation Systems" (2024).

    Example:
        >>> reply = '{"reason": "The price is missing.", "verdict": "no"}'
        >>> case = EvalTestCase.of("How much?", "", contexts=["We open at 9."])
        >>> ContextSufficiency(judge=lambda prompt: reply).evaluate(case).reason
        'The price is missing.'
    """

    method_source = 'Joren et al., "Sufficient Context" (2024).'
    judge_calls = "1; 0 where nothing was retrieved"
    default_name = "Context Sufficiency"
    requires: ClassVar[tuple[str, ...]] = ("input", "contexts")

    async def judge_case(self, case: EvalTestCase, *, sample: int) -> Score:
        chunks = self.contexts(case)
        if not any(chunk.strip() for chunk in chunks):
            return Score(0.0, "No context was retrieved." if self.include_reason else REASON_DISABLED)
        prompt = "\n\n".join(
            [
                "Could a careful reader answer the input completely from the context alone, without knowing "
                "anything else?\n"
                "- yes: everything needed for a definite answer is in the context\n"
                "- no: something needed is missing, unclear or contradictory",
                fence_rule(),
                section("Input", case.input),
                number_lines("Context", chunks),
                "Give a brief reason that names what is missing, if anything, then the verdict.",
            ]
        )
        answer = await ask(self.lm, prompt, Sufficiency, sample=sample)
        reason = (answer.reason.strip() or NO_REASON) if self.include_reason else REASON_DISABLED
        return Score(float(answer.verdict == "yes"), reason)
