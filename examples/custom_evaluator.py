"""Evaluators of your own: functions, sync and async, several scores at once, a class with parameters.

python examples/custom_evaluator.py
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from dokimos import EvalTestCase, Evaluator, Score, evaluator
from dokimos.evaluators.registry import build, register

ANSWERS = [
    ("When can I return it?", "Within 30 days [policy.md], please keep the receipt."),
    ("Do you ship abroad?", "yes"),
    ("Is there a warranty?", "Two years [warranty.md], see also [forum.html]."),
]


@evaluator
def ends_with_a_stop(actual_output: str) -> bool:
    """A bool decides by itself."""
    return actual_output.rstrip().endswith((".", "!", "?"))


@evaluator(name="Not too short", threshold=0.5)
async def not_too_short(input: str, actual_output: str) -> Score:
    """Async functions are awaited, so this could ask a service."""
    await asyncio.sleep(0)
    share = min(1.0, len(actual_output) / len(input))
    return Score(share, f"{len(actual_output)} characters for a question of {len(input)}.")


@evaluator(name="Style", thresholds={"brief": 0.5})
def style(actual_output: str) -> dict[str, Score | bool]:
    """Each score is a result of its own, `Style.brief` and `Style.polite`, with its own threshold."""
    words = len(actual_output.split())
    label = "one word" if words == 1 else "sentence"
    return {
        "brief": Score(min(1.0, 5 / words), f"{words} of at most 5 words.", label=label),
        "polite": "please" in actual_output,
    }


@register("citations")
@dataclass(frozen=True, kw_only=True)
class Citations(Evaluator):
    """Share of the citations, written as [source], that name an allowed source."""

    requires = ("actual_output",)

    allowed: tuple[str, ...]
    """The sources that may be cited."""
    threshold: float | None = 1.0

    def score(self, case: EvalTestCase) -> Score:
        cited = re.findall(r"\[([^\]]+)\]", case.actual_output or "")
        if not cited:
            return Score(0.0, "The output cites nothing.")
        wrong = [source for source in cited if source not in self.allowed]
        reason = f"{', '.join(wrong)} may not be cited." if wrong else "All sources are allowed."
        return Score(1 - len(wrong) / len(cited), reason)


def main() -> None:
    citations = build("citations", {"allowed": ["policy.md", "warranty.md"]})
    for question, answer in ANSWERS:
        case = EvalTestCase.of(question, answer)
        print(question)
        for check in (ends_with_a_stop, not_too_short, style, citations):
            outcome = check.evaluate(case)
            for result in outcome.parts or (outcome,):
                verdict = "pass" if result.success else "FAIL"
                print(f"  {verdict}  {result.name:18} {result.score:.2f}  {result.reason}")


if __name__ == "__main__":
    main()
