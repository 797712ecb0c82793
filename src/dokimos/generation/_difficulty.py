"""How difficult a case is: how often a weak model fails it although it is shown the passage."""

from __future__ import annotations

from typing import Final

from dokimos._core.test_case import EvalTestCase
from dokimos.errors import JudgeError
from dokimos.evaluators._llm.presets import Correctness
from dokimos.generation._review_case import ReviewCase
from dokimos.judges._fencing import fence
from dokimos.judges._judge_calls import complete
from dokimos.judges._protocol import JudgeLM

SAMPLES: Final = 3
"""How often the weak model tries each case."""


async def measure_difficulty(
    case: ReviewCase, context: str, weak: JudgeLM, judge: JudgeLM, *, samples: int = SAMPLES
) -> float:
    """Return the share of its tries in which a weak model fails.

    Raises:
        JudgeError: where the weak model gives no reply, or one that could not be judged.
        BudgetExceededError: where a call is not allowed.
    """
    failures = 0
    for sample in range(samples):
        reply = await complete(weak, _prompt(case, context), sample=sample)
        answered = EvalTestCase.of(str(case.input), reply.text.strip() or "(nothing)", str(case.expected))
        result = await Correctness(judge=judge, threshold=0.75).evaluate_async(answered)
        if result.error is not None:
            raise JudgeError(f"A try of the weak model on {case.id} could not be judged: {result.error}")
        failures += not result.success
    return failures / samples


def _prompt(case: ReviewCase, context: str) -> str:
    return (
        "Answer the question from the material, in one or two sentences.\n\n"
        f"{fence('material', context)}\n\n{fence('question', str(case.input))}"
    )
