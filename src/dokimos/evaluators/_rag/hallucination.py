"""`Hallucination`: how much of an answer its context does not support."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import format_list, pluralize
from dokimos.evaluators._llm.case_sections import number_lines, section
from dokimos.evaluators._llm.rating import REASON_DISABLED
from dokimos.evaluators._rag.base import ContextEvaluator, summary
from dokimos.judges._ask import ask
from dokimos.judges._fencing import fence_rule
from dokimos.judges._shapes import YesNo


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedStatement:
    """One statement of the output, and whether the context supports it."""

    statement: str = ""
    reason: str = ""
    verdict: YesNo


@dataclass(frozen=True, slots=True)
class CheckedStatements:
    """What a judge replies that takes an output apart and checks it."""

    verdicts: list[CheckedStatement]


@dataclass(frozen=True, kw_only=True)
class Hallucination(ContextEvaluator):
    """Share of the output's statements that the context does not support; 0 when it makes none.

    The judge takes the output apart and checks it in one call; a second one writes the reason. `faithfulness`
    checks more thoroughly. The whole context is in one call, so it must fit the judge.

    Example:
        >>> reply = '{"verdicts": [{"statement": "Returns are free.", "verdict": "no"}]}'
        >>> case = EvalTestCase.of("Returns?", "They are free.", contexts=["Return goods within 30 days."])
        >>> Hallucination(judge=lambda prompt: reply, include_reason=False).evaluate(case).score
        1.0
    """

    method_source = "Defined by dokimos; DeepEval's metric of this name counts contradicted contexts instead."
    judge_calls = "1 + reason"
    default_name = "Hallucination"
    requires: ClassVar[tuple[str, ...]] = ("actual_output", "contexts")
    lower_is_better = True

    async def judge_case(self, case: EvalTestCase, *, sample: int) -> Score:
        prompt = check_prompt(self.contexts(case), case.actual_output or "")
        checked = (await ask(self.lm, prompt, CheckedStatements, sample=sample)).verdicts
        recorded = [{"statement": c.statement, "verdict": c.verdict, "reason": c.reason} for c in checked]
        unsupported = [c for c in checked if c.verdict == "no"]
        score = len(unsupported) / len(checked) if checked else 0.0
        reason = await self._reason(checked, unsupported, sample)
        return Score(score, reason, metadata={"statements": recorded})

    async def _reason(
        self, checked: Sequence[CheckedStatement], unsupported: Sequence[CheckedStatement], sample: int
    ) -> str:
        if not self.include_reason:
            return REASON_DISABLED
        if not checked:
            return "The output makes no statements, so there is none that the context does not support."
        share = f"The context does not support {len(unsupported)} of {pluralize(len(checked), 'statement')}"
        failed = [c.statement or c.reason for c in unsupported]
        otherwise = f"{share}: {format_list(failed, limit=3)}." if failed else f"{share}."
        prompt = _summary_prompt(share, checked)
        return await summary(self.lm, prompt, sample=sample, otherwise=otherwise)


def check_prompt(chunks: Sequence[str], output: str) -> str:
    """Return the request to take an output apart and check each statement."""
    return "\n\n".join(
        [
            "Take the text apart into its statements and check each against the context. Use nothing but the "
            "context.\n"
            "- yes: the context states it, or it follows from the context\n"
            "- no: the context contradicts it or does not say it",
            fence_rule(),
            number_lines("Context", chunks),
            section("Text", output),
            "Give one entry for each statement of the text: the statement, a reason of a few words, the "
            "verdict. A text without statements gives an empty list.",
        ]
    )


def _summary_prompt(share: str, checked: Sequence[CheckedStatement]) -> str:
    agreeing = [_line(c) for c in checked if c.verdict == "yes"]
    contradicting = [_line(c) for c in checked if c.verdict == "no"]
    parts = [
        f"The statements of a text were checked against its context. The result: {share}. Explain this "
        "result in one sentence, naming what is made up, if anything.",
        fence_rule(),
    ]
    if agreeing:
        parts.append(number_lines("Supported", agreeing))
    if contradicting:
        parts.append(number_lines("Not Supported", contradicting))
    return "\n\n".join(parts)


def _line(checked: CheckedStatement) -> str:
    # Weak judges leave the statement out; the reason then has to say what it is about.
    return f"{checked.statement}: {checked.reason}" if checked.statement else checked.reason
