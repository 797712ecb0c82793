"""Whether an answer says only what its context supports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import format_list, pluralize
from dokimos.evaluators._llm.case_sections import number_lines
from dokimos.evaluators._llm.rating import REASON_DISABLED
from dokimos.evaluators._llm.verdicts import (
    UnsureVerdict,
    unsure_verdicts_on,
    verdict_prompt,
    verdicts_metadata,
)
from dokimos.evaluators._rag.base import WINDOW, ContextEvaluator, summary
from dokimos.evaluators._rag.statements import claims_of, truths_of
from dokimos.evaluators._setting_checks import check_whole
from dokimos.judges._fencing import fence_rule

NO_CLAIMS: Final = "The output makes no claims, so there is none that the context does not support."


@dataclass(frozen=True, kw_only=True)
class Faithfulness(ContextEvaluator):
    """Share of the output's claims that the context supports; 1 when it makes none.

    The judge lists the facts of the context, then the claims of the output, then says for each claim whether
    the facts support it (yes), contradict it (no) or do not say (idk); only yes counts. Three calls, a fourth
    for the reason; fewer where there are no claims. After Es et al., "RAGAS" (2023), with facts extracted
    first as in DeepEval.

    Example:
        >>> replies = '{"statements": ["Returns take 30 days."], "verdicts": [{"verdict": "yes"}]}'
        >>> case = EvalTestCase.of("Returns?", "Within 30 days.", contexts=["Return goods within 30 days."])
        >>> Faithfulness(judge=lambda prompt: replies, include_reason=False).evaluate(case).score
        1.0
    """

    method_source = 'Es et al., "RAGAS" (2023), with the facts listed first as in DeepEval.'
    judge_calls = "windows + 2 + reason; fewer where the output makes no claims"
    default_name = "Faithfulness"
    requires: ClassVar[tuple[str, ...]] = ("actual_output", "contexts")

    window: int = WINDOW
    """Characters of context in one call; more context takes more calls."""
    threshold: float | None = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self, "window", self.window, least=1)

    async def judge_case(self, case: EvalTestCase, *, sample: int) -> Score:
        chunks = self.contexts(case)
        # The facts without sight of the output: an answer must not suggest what to find in its context.
        truths = await truths_of(self.lm, chunks, self.window, sample=sample)
        claims = await claims_of(self.lm, case.actual_output or "", sample=sample)
        if not claims:
            reason = NO_CLAIMS if self.include_reason else REASON_DISABLED
            return Score(1.0, reason, metadata={"truths": list(truths), "claims": []})
        verdicts = await self._verdicts(truths, claims, sample)
        supported = sum(entry.verdict == "yes" for entry in verdicts)
        metadata = {"truths": list(truths), "claims": verdicts_metadata("claim", claims, verdicts)}
        reason = await self._reason(claims, verdicts, supported, sample)
        return Score(supported / len(claims), reason, metadata=metadata)

    async def _verdicts(
        self, truths: Sequence[str], claims: Sequence[str], sample: int
    ) -> Sequence[UnsureVerdict]:
        if not truths:
            return [UnsureVerdict(reason="The context states nothing.", verdict="idk")] * len(claims)
        return await unsure_verdicts_on(self.lm, support_prompt(truths, claims), len(claims), sample=sample)

    async def _reason(
        self, claims: Sequence[str], verdicts: Sequence[UnsureVerdict], supported: int, sample: int
    ) -> str:
        if not self.include_reason:
            return REASON_DISABLED
        failed = [claim for claim, entry in zip(claims, verdicts, strict=True) if entry.verdict != "yes"]
        share = f"The context supports {supported} of {pluralize(len(claims), 'claim')}"
        otherwise = f"{share}; not: {format_list(failed, limit=3)}." if failed else f"{share}."
        prompt = _summary_prompt(claims, verdicts, share)
        return await summary(self.lm, prompt, sample=sample, otherwise=otherwise)


def support_prompt(truths: Sequence[str], claims: Sequence[str]) -> str:
    """Return the question whether facts support each claim."""
    return verdict_prompt(
        "For each claim, say whether the facts support it. Use nothing but the facts.\n"
        "- yes: the facts state it, or it follows from them\n"
        "- no: the facts contradict it\n"
        "- idk: the facts do not say",
        number_lines("Facts", truths),
        number_lines("Claims", claims),
        count=len(claims),
        noun="claim",
    )


def _summary_prompt(claims: Sequence[str], verdicts: Sequence[UnsureVerdict], share: str) -> str:
    lines = [f"{claim} -> {v.verdict}: {v.reason}" for claim, v in zip(claims, verdicts, strict=True)]
    return (
        f"The claims of a text were checked against its context. The result: {share}. Explain this result in "
        f"one sentence, naming what is not supported, if anything.\n\n{fence_rule()}\n\n"
        f"{number_lines('Verdicts', lines)}"
    )
