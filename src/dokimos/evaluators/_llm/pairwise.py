"""Which of two outputs is better, asked in both orders so that the order cannot decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos.evaluators._llm.base import JudgedEvaluator
from dokimos.evaluators._llm.case_sections import USUAL_PARTS, material, section, select_parts
from dokimos.evaluators._llm.rating import NO_REASON
from dokimos.evaluators._missing_parts import missing_part
from dokimos.evaluators._setting_checks import check_text
from dokimos.judges._ask import ask, gather_answers
from dokimos.judges._fencing import fence_rule
from dokimos.judges._shapes import Preference

BASELINE_OUTPUT: Final = "baselineOutput"
DEFAULT_CRITERIA: Final = "Which answer is better: right, to the point, and helpful for what the input asks?"

Outcome = Literal["win", "tie", "loss"]
_VALUE: Final[dict[Outcome, float]] = {"win": 1.0, "tie": 0.5, "loss": 0.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a judge replies that is shown two answers."""

    reason: str = ""
    winner: Preference


@dataclass(frozen=True, kw_only=True)
class Pairwise(JudgedEvaluator):
    """Asks whether the output is better than a baseline's: 1 if it is, 0 if the other is, 0.5 for a tie.

    The judge sees the two in both orders. Only if it prefers the same one both times is there a winner;
    choosing the same *place* both times is a tie, and `positionBias` in the metadata says so. Two calls;
    none where the outputs are equal.

    Example:
        >>> def prefers_paris(prompt):  # whatever the order of the two answers
        ...     first = prompt.index("Paris") < prompt.index("Lyon")
        ...     return '{"winner": "first"}' if first else '{"winner": "second"}'
        >>> case = EvalTestCase.of("Capital?", "Paris", metadata={"baselineOutput": "Lyon"})
        >>> Pairwise(judge=prefers_paris).evaluate(case).score
        1.0
    """

    method_source = (
        'Zheng et al., "Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena" (2023): both orders.'
    )
    judge_calls = "2; 0 where the two outputs are equal"
    default_name = "Pairwise"
    requires: ClassVar[tuple[str, ...]] = USUAL_PARTS
    looks_for: ClassVar[tuple[str, ...]] = ("metadata.baselineOutput",)

    criteria: str = DEFAULT_CRITERIA
    """What makes an answer the better one."""
    baseline_key: str = BASELINE_OUTPUT
    """The key of the baseline's output in the metadata."""
    threshold: float | None = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_text(self, "criteria", self.criteria.strip())
        check_text(self, "baseline_key", self.baseline_key)

    async def judge_case(self, case: EvalTestCase, *, sample: int) -> Score:
        ours, theirs = case.actual_outputs.get("output"), case.metadata.get(self.baseline_key)
        if theirs is None:
            raise missing_part(self.name, f"metadata.{self.baseline_key}", case)
        # Equal outputs are a tie by definition; no call is worth paying for.
        if ours == theirs:
            return Score(
                0.5, "The two outputs are equal.", metadata=_outcome_metadata("tie", (), biased=False)
            )
        context = self._context(case)
        # Both orders, always: judges prefer a position (Zheng et al. 2023), and one order cannot show it.
        straight, swapped = await gather_answers(
            (self._choice(context, ours, theirs, sample), self._choice(context, theirs, ours, sample))
        )
        return _combine_orders(straight, swapped)

    def _context(self, case: EvalTestCase) -> str:
        parts = select_parts(case, self.evaluation_params, self.requires)
        return material(case, [path for path in parts if path != "actual_output"])

    async def _choice(self, context: str, first: object, second: object, sample: int) -> Choice:
        prompt = "\n\n".join(
            paragraph
            for paragraph in (
                f"Compare two answers that AI systems gave. Judge by this only:\n{self.criteria}",
                fence_rule(),
                context,
                section("First Answer", first),
                section("Second Answer", second),
                "Give a brief reason, then the winner: first, second, or tie if neither is better. The "
                "order of the answers and their length must not matter.",
            )
            if paragraph
        )
        return await ask(self.lm, prompt, Choice, sample=sample)


def _combine_orders(straight: Choice, swapped: Choice) -> Score:
    biased = straight.winner == swapped.winner != "tie"
    verdicts = (straight.winner, swapped.winner)
    outcome: Outcome = "tie"
    if verdicts == ("first", "second"):
        outcome = "win"
    if verdicts == ("second", "first"):
        outcome = "loss"
    return Score(
        _VALUE[outcome],
        _reason(straight, swapped),
        metadata=_outcome_metadata(outcome, verdicts, biased=biased),
    )


def _outcome_metadata(outcome: Outcome, verdicts: tuple[str, ...], *, biased: bool) -> dict[str, Any]:
    return {"outcome": outcome, "verdicts": list(verdicts), "positionBias": biased}


def _reason(straight: Choice, swapped: Choice) -> str:
    explanation = straight.reason.strip() or NO_REASON
    if (straight.winner, swapped.winner) == ("first", "second"):
        return f"Better than the baseline in both orders: {explanation}"
    if (straight.winner, swapped.winner) == ("second", "first"):
        return f"The baseline is better in both orders: {explanation}"
    if straight.winner == swapped.winner == "tie":
        return f"Neither is better: {explanation}"
    if straight.winner == swapped.winner:
        return f"A tie: the judge chose the {straight.winner} answer in both orders, whichever it was."
    return (
        f"A tie: the judge was not consistent ({straight.winner}, then in the other order {swapped.winner})."
    )
