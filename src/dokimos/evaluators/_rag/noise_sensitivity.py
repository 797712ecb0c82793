"""`NoiseSensitivity`: how often an answer repeats errors of its context."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import pluralize
from dokimos.evaluators._llm.case_sections import number_lines, section
from dokimos.evaluators._llm.verdicts import (
    build_reason,
    check_numbers,
    in_order,
    verdict_prompt,
    verdicts_on,
)
from dokimos.evaluators._rag.base import WINDOW, RetrieverEvaluator
from dokimos.evaluators._rag.statements import claims_of
from dokimos.evaluators._rag.usefulness import useful_chunks
from dokimos.evaluators._setting_checks import check_option, check_whole
from dokimos.judges._ask import ask

NOISE: Final = ("any", "relevant", "irrelevant")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The chunks that state one claim."""

    number: int = 0
    chunks: list[int]


@dataclass(frozen=True, slots=True)
class Sources:
    """What a judge replies that is asked where claims come from."""

    sources: list[Source]

    def check(self, claims: int, chunks: int) -> None:
        """Raise `ValueError` unless each claim has one entry that names existing chunks."""
        check_numbers(self.sources, claims)
        wrong = [number for source in self.sources for number in source.chunks if not 1 <= number <= chunks]
        if wrong:
            raise ValueError(f"there is no chunk {wrong[0]}; there are [1] to [{chunks}]")


@dataclass(frozen=True, kw_only=True)
class NoiseSensitivity(RetrieverEvaluator):
    """Share of the output's claims that are wrong and come from the context; 0 without claims.

    Lower is better. A claim is wrong if the expected output contradicts it or does not say it; it comes
    from the context if a chunk states it. Two calls; a third where claims are wrong, a fourth where chunks
    must be distinguished. The claims are shared with other evaluators of the item. After Ru et al.,
    "RAGChecker" (2024), as in Ragas.

    Example:
        >>> claims, verdicts = '"statements": ["It costs 5."]', '"verdicts": [{"verdict": "no"}]'
        >>> reply = f'{{{claims}, {verdicts}, "sources": [{{"chunks": [1]}}]}}'
        >>> case = EvalTestCase.of("Price?", "5", "7", contexts=["Last year it cost 5."])
        >>> NoiseSensitivity(judge=lambda prompt: reply).evaluate(case).score
        1.0
    """

    method_source = 'Ru et al., "RAGChecker" (2024), as in Ragas.'
    judge_calls = "2 + wrong + distinguished"
    default_name = "Noise Sensitivity"
    requires: ClassVar[tuple[str, ...]] = ("input", "actual_output", "expected_output", "contexts")
    lower_is_better = True

    noise: Literal["any", "relevant", "irrelevant"] = "any"
    """Count wrong claims from any chunk, only from chunks that also help to give the expected output, or only
    from others."""
    window: int = WINDOW
    """Characters of context in one call where chunks are distinguished; more context takes more calls."""
    threshold: float | None = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_option(self, "noise", self.noise, NOISE)
        check_whole(self, "window", self.window, least=1)

    async def judge_case(self, case: EvalTestCase, *, sample: int) -> Score:
        chunks = self.contexts(case)
        claims = await claims_of(self.lm, case.actual_output or "", sample=sample)
        wrong = await self._wrong(case, claims, sample)
        # Only wrong claims need a source; an answer without any costs two calls.
        sources = await self._sources(chunks, wrong, sample)
        counting = await self._counting(case, chunks, sources, sample)
        noisy = [
            claim
            for claim, chunk_numbers in zip(wrong, sources, strict=True)
            if counting & set(chunk_numbers)
        ]
        share = f"Wrong and from the context: {len(noisy)} of {pluralize(len(claims), 'claim')}"
        metadata: dict[str, Any] = {
            "claims": list(claims),
            "wrong": [
                {"claim": c, "chunks": list(chunk_numbers)}
                for c, chunk_numbers in zip(wrong, sources, strict=True)
            ],
        }
        reason = build_reason(share, noisy, but="namely", enabled=self.include_reason)
        return Score(len(noisy) / len(claims) if claims else 0.0, reason, metadata=metadata)

    async def _wrong(self, case: EvalTestCase, claims: Sequence[str], sample: int) -> list[str]:
        if not claims:
            return []
        prompt = correctness_prompt(case.input or "", case.expected_output or "", claims)
        verdicts = await verdicts_on(self.lm, prompt, len(claims), sample=sample)
        return [claim for claim, entry in zip(claims, verdicts, strict=True) if entry.verdict == "no"]

    async def _sources(
        self, chunks: Sequence[str], wrong: Sequence[str], sample: int
    ) -> Sequence[Sequence[int]]:
        if not wrong or not chunks:
            return [()] * len(wrong)
        prompt = sources_prompt(chunks, wrong)
        answer = await ask(
            self.lm, prompt, Sources, check=lambda r: r.check(len(wrong), len(chunks)), sample=sample
        )
        return [source.chunks for source in in_order(answer.sources)]

    async def _counting(
        self, case: EvalTestCase, chunks: Sequence[str], sources: Sequence[Sequence[int]], sample: int
    ) -> Set[int]:
        """Return the numbers of the chunks whose wrong claims count."""
        if self.noise == "any" or not any(sources):
            return set(range(1, len(chunks) + 1))
        verdicts = await useful_chunks(
            self.lm, case.input or "", case.expected_output or "", chunks, self.window, sample=sample
        )
        counting_verdict = "yes" if self.noise == "relevant" else "no"
        return {number for number, entry in enumerate(verdicts, 1) if entry.verdict == counting_verdict}


def correctness_prompt(question: str, expected: str, claims: Sequence[str]) -> str:
    """Return the question whether each claim is right by the right answer."""
    return verdict_prompt(
        "For each claim about the input, say whether it is right by the right answer.\n"
        "- yes: the right answer states it, or it follows from it\n"
        "- no: the right answer contradicts it or does not say it",
        section("Input", question),
        section("Right Answer", expected),
        number_lines("Claims", claims),
        count=len(claims),
        noun="claim",
    )


def sources_prompt(chunks: Sequence[str], claims: Sequence[str]) -> str:
    """Return the question which chunks state each claim."""
    return verdict_prompt(
        "For each claim, name the chunks of context that state it; none of them gives an empty list.",
        number_lines("Chunks", chunks),
        number_lines("Claims", claims),
        count=len(claims),
        noun="claim",
        contents="the numbers of the chunks",
    )
