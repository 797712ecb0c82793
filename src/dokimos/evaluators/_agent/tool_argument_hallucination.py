"""`ToolArgumentHallucination`: whether the arguments of tool calls are grounded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dokimos._core.agent import ToolCall
from dokimos._core.keys import INPUT, TOOL_CALLS, input_of
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import format_list, pluralize
from dokimos.evaluators._agent.base import read_calls, require_arguments, require_keys
from dokimos.evaluators._agent.prompt_sections import calls_section
from dokimos.evaluators._llm.base import JudgedEvaluator
from dokimos.evaluators._llm.case_sections import render_value, section
from dokimos.evaluators._llm.verdicts import check_numbers, in_order, verdict_prompt
from dokimos.judges._ask import ask


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundingVerdict:
    """Whether the arguments of one call are grounded."""

    number: int = 0
    reason: str = ""
    grounded: bool


@dataclass(frozen=True, slots=True)
class GroundingVerdicts:
    """What the judge replies."""

    verdicts: list[GroundingVerdict]


@dataclass(frozen=True, kw_only=True)
class ToolArgumentHallucination(JudgedEvaluator):
    """Share of the tool calls whose arguments are grounded in what the agent knew when it made the call.

    That is the user's input and the results of earlier calls. 1 where there are no calls. One call of the
    judge.

    Example:
        >>> reply = '{"verdicts": [{"reason": "The user named no date.", "grounded": false}]}'
        >>> call = {"name": "book", "arguments": {"day": "Monday"}}
        >>> case = EvalTestCase.of("Book a table.", "Done.", tool_calls=[call])
        >>> ToolArgumentHallucination(judge=lambda prompt: reply).evaluate(case).score
        0.0
    """

    method_source = "Defined by dokimos."
    judge_calls = "1; 0 where there are no tool calls"

    requires: ClassVar[tuple[str, ...]] = ("input", f"outputs.{TOOL_CALLS}")

    input_key: str = INPUT
    """The key of what the user said in the inputs."""
    tool_calls_key: str = TOOL_CALLS
    """The key of the calls in the actual outputs."""
    threshold: float | None = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        require_keys(self, inputs="input_key", outputs="tool_calls_key")

    async def judge_case(self, case: EvalTestCase, *, sample: int) -> Score:
        calls = read_calls(case, self.tool_calls_key)
        if not calls:
            return Score(1.0, "There are no tool calls to check.", metadata={"verdicts": []})
        # Before the judge is paid: arguments that were not recorded would all look made up.
        require_arguments(calls)
        reply = await ask(
            self.lm,
            _prompt(render_value(input_of(case.inputs, self.input_key)), calls),
            GroundingVerdicts,
            check=lambda answer: check_numbers(answer.verdicts, len(calls)),
            sample=sample,
        )
        verdicts = in_order(reply.verdicts)
        made_up = [call.name for call, entry in zip(calls, verdicts, strict=True) if not entry.grounded]
        recorded = [
            {"toolName": call.name, "grounded": entry.grounded, "reason": entry.reason}
            for call, entry in zip(calls, verdicts, strict=True)
        ]
        grounded = len(calls) - len(made_up)
        share = f"The arguments of {grounded} of {pluralize(len(calls), 'tool call')} are grounded"
        reason = f"{share}; not those of {format_list(made_up, limit=3)}." if made_up else f"{share}."
        return Score(grounded / len(calls), reason, metadata={"verdicts": recorded})


def _prompt(user_input: str, calls: Sequence[ToolCall]) -> str:
    return verdict_prompt(
        "An agent made tool calls for a user, in this order; what follows -> is the result. For each call, "
        "say whether all of its arguments are grounded: stated in or derived from the user's input or the "
        "results of EARLIER calls. Converting units, formats and well-known names (New York to NYC) is "
        "derivation, and so is a usual default; a value that the agent must have made up is not grounded.",
        section("User Input", user_input),
        calls_section(calls),
        count=len(calls),
        noun="call",
        contents="a reason of a few words, and whether its arguments are grounded (true or false)",
    )
