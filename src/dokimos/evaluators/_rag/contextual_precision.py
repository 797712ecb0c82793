"""`ContextualPrecision`: whether the useful chunks are ranked above the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dokimos._core.means import exact_mean
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import pluralize
from dokimos.evaluators._llm.rating import REASON_DISABLED
from dokimos.evaluators._llm.verdicts import verdicts_metadata
from dokimos.evaluators._rag.base import WINDOW, RetrieverEvaluator
from dokimos.evaluators._rag.usefulness import useful_chunks
from dokimos.evaluators._setting_checks import check_whole


@dataclass(frozen=True, kw_only=True)
class ContextualPrecision(RetrieverEvaluator):
    """Average precision of the ranking: the mean, over the useful chunks, of the precision at their rank.

    A chunk is useful if it helps to give the expected output. 1 when all useful ones come first, 0 when
    none is useful or nothing was retrieved. One call as long as the chunks fit the window. The formula is
    TREC's average precision over what was retrieved, which Ragas calls context precision and DeepEval
    contextual precision.

    Example:
        >>> reply = '{"verdicts": [{"verdict": "no"}, {"verdict": "yes"}]}'
        >>> case = EvalTestCase.of("Returns?", "", "30 days", contexts=["We open at 9.", "Returns: 30 days."])
        >>> ContextualPrecision(judge=lambda prompt: reply).evaluate(case).score
        0.5
    """

    method_source = (
        "Average precision as in TREC; Ragas's context precision, DeepEval's contextual precision."
    )
    judge_calls = "windows"
    default_name = "Contextual Precision"
    requires: ClassVar[tuple[str, ...]] = ("input", "expected_output", "contexts")

    window: int = WINDOW
    """Characters of context in one call; more context takes more calls."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self, "window", self.window, least=1)

    async def judge_case(self, case: EvalTestCase, *, sample: int) -> Score:
        chunks = self.contexts(case)
        verdicts = await useful_chunks(
            self.lm, case.input or "", case.expected_output or "", chunks, self.window, sample=sample
        )
        ranks = [rank for rank, entry in enumerate(verdicts, 1) if entry.verdict == "yes"]
        reason = _reason(ranks, len(chunks)) if self.include_reason else REASON_DISABLED
        return Score(
            average_precision(ranks),
            reason,
            metadata={"contexts": verdicts_metadata("context", chunks, verdicts)},
        )


def average_precision(ranks: Sequence[int]) -> float:
    """Return the mean of the precision at each of the ranks (1-based, ascending); 0 without any."""
    return exact_mean([count / rank for count, rank in enumerate(ranks, 1)]) if ranks else 0.0


def _reason(ranks: Sequence[int], total: int) -> str:
    if not total:
        return "No context was retrieved."
    if not ranks:
        return f"None of {pluralize(total, 'chunk')} helps to give the expected output."
    rank_list = ", ".join(map(str, ranks))
    last = f"rank {rank_list}" if len(ranks) == 1 else f"ranks {rank_list}"
    return f"Useful for the expected output: {len(ranks)} of {pluralize(total, 'chunk')}, at {last}."
