"""How relevant the retrieved chunks are to the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dokimos._core.means import exact_mean
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import pluralize
from dokimos.evaluators._llm.case_sections import number_lines, section
from dokimos.evaluators._llm.rating import REASON_DISABLED, Scale
from dokimos.evaluators._llm.verdicts import check_numbers, in_order, verdict_prompt
from dokimos.evaluators._rag.base import WINDOW, RetrieverEvaluator, in_windows, summary
from dokimos.evaluators._setting_checks import check_whole
from dokimos.judges._ask import ask
from dokimos.judges._fencing import fence_rule
from dokimos.judges._shapes import Number

_SCALE = Scale(0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkScore:
    """How relevant one chunk is."""

    number: int = 0
    reason: str = ""
    score: Number


@dataclass(frozen=True, slots=True)
class ChunkScores:
    """What a judge replies that is asked to score chunks."""

    scores: list[ChunkScore]

    def check(self, count: int) -> None:
        """Raise `ValueError` unless each of `count` chunks has one score in 0..1."""
        check_numbers(self.scores, count)
        for position, entry in enumerate(self.scores, 1):
            try:
                _SCALE.check(entry.score)
            except ValueError as error:
                raise ValueError(f"chunk [{entry.number or position}]: {error}") from None


@dataclass(frozen=True, kw_only=True)
class ContextualRelevance(RetrieverEvaluator):
    """Mean relevance of the retrieved chunks to the input, each scored in 0..1; 0 when there are none.

    All chunks are scored in one call as long as they fit the window, and a last call writes the reason. The
    mean over chunks is TruLens's context relevance; Ragas and DeepEval count relevant sentences instead.

    Example:
        >>> reply = '{"scores": [{"score": 1, "reason": "It answers."}]}'
        >>> case = EvalTestCase.of("Returns?", "30 days.", contexts=["Return goods within 30 days."])
        >>> ContextualRelevance(judge=lambda prompt: reply, include_reason=False).evaluate(case).score
        1.0
    """

    method_source = "TruLens's context relevance: the mean over the chunks."
    judge_calls = "windows + reason; 0 where nothing was retrieved"
    default_name = "ContextualRelevance"
    requires: ClassVar[tuple[str, ...]] = ("input", "contexts")

    strict_mode: bool = False
    """Demand a score of 1, whatever the threshold."""
    window: int = WINDOW
    """Characters of context in one call; more context takes more calls."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self, "window", self.window, least=1)
        if self.strict_mode:
            object.__setattr__(self, "threshold", 1.0)

    async def judge_case(self, case: EvalTestCase, *, sample: int) -> Score:
        chunks = self.contexts(case)
        if not chunks:
            reason = "No context was retrieved." if self.include_reason else REASON_DISABLED
            return Score(0.0, reason, metadata={"contextScores": []})
        scores: list[ChunkScore] = []
        for group in in_windows(chunks, self.window):
            scores += await self._scores(case.input or "", group, sample)
        recorded = [
            {"context": chunk, "score": entry.score, "reason": entry.reason}
            for chunk, entry in zip(chunks, scores, strict=True)
        ]
        mean = exact_mean([entry.score for entry in scores])
        reason = await self._reason(case.input or "", recorded, mean, sample)
        return Score(mean, reason, metadata={"contextScores": recorded})

    async def _scores(self, question: str, chunks: Sequence[str], sample: int) -> tuple[ChunkScore, ...]:
        prompt = scores_prompt(question, chunks)
        answer = await ask(
            self.lm, prompt, ChunkScores, check=lambda reply: reply.check(len(chunks)), sample=sample
        )
        return in_order(answer.scores)

    async def _reason(
        self, question: str, recorded: Sequence[dict[str, Any]], mean: float, sample: int
    ) -> str:
        if not self.include_reason:
            return REASON_DISABLED
        # The judge explains the result and does not work it out: given the mean, it cannot contradict it.
        band = f"{_band(mean)} to the input (mean {mean:.2f} of {pluralize(len(recorded), 'chunk')})"
        lines = [f"{entry['score']:g}: {entry['reason']}" for entry in recorded]
        prompt = (
            f"A retriever found context for an input. The result: as a whole it is {band}. "
            f"Explain this result in one sentence.\n\n"
            f"{fence_rule()}\n\n{section('Input', question)}\n{number_lines('Chunk Scores', lines)}"
        )
        return await summary(self.lm, prompt, sample=sample, otherwise=f"The context is {band}.")


def scores_prompt(question: str, chunks: Sequence[str]) -> str:
    """Return the request to score chunks."""
    return verdict_prompt(
        "A retriever found these chunks of context for an input. Score how relevant each chunk is to the "
        "input, on its own:\n"
        "- 1.0: it holds what is needed to answer\n"
        "- 0.5: it is on the subject but does not answer\n"
        "- 0.0: it has nothing to do with the input",
        section("Input", question),
        number_lines("Chunks", chunks),
        count=len(chunks),
        noun="chunk",
        contents="a reason of a few words, a score between 0.0 and 1.0",
    )


def _band(mean: float) -> str:
    if mean >= 0.7:
        return "highly relevant"
    return "partly relevant" if mean >= 0.3 else "irrelevant"
