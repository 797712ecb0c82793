"""Whether the context is enough to answer from."""

from __future__ import annotations

from dataclasses import dataclass

from dokimos.core.results import Score
from dokimos.core.test_case import EvalTestCase
from dokimos.evaluators.checks import check_text
from dokimos.evaluators.judged.material import numbered, section
from dokimos.evaluators.judged.rating import NO_REASON, REASON_DISABLED
from dokimos.evaluators.rag.base import RETRIEVAL_CONTEXT, RagEvaluator
from dokimos.judges.ask import ask
from dokimos.judges.fencing import fence_rule
from dokimos.judges.shapes import YesNo


@dataclass(frozen=True, slots=True, kw_only=True)
class Sufficiency:
    """What a judge replies that is asked whether a context is enough."""

    reason: str = ""
    verdict: YesNo


@dataclass(frozen=True, kw_only=True)
class ContextSufficiency(RagEvaluator):
    """1 if the retrieved context is enough to answer the input from it alone, else 0.

    Needs no expected output. One call; none where nothing was retrieved. After Joren et al., "Sufficient
    Context: A New Lens on Retrieval Augmented Generation Systems" (2024).
    """

    default_name = "Context Sufficiency"
    requires = ("input",)

    retrieval_context_key: str = RETRIEVAL_CONTEXT
    """The key of the retrieved chunks in the actual outputs or the metadata."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_text(self, "retrieval_context_key", self.retrieval_context_key)

    async def judged(self, case: EvalTestCase, *, sample: int) -> Score:
        chunks = self.chunks(case, self.retrieval_context_key)
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
                numbered("Context", chunks),
                "Give a brief reason that names what is missing, if anything, then the verdict.",
            ]
        )
        answer = await ask(self.lm, prompt, Sufficiency, sample=sample)
        reason = (answer.reason.strip() or NO_REASON) if self.include_reason else REASON_DISABLED
        return Score(float(answer.verdict == "yes"), reason)
