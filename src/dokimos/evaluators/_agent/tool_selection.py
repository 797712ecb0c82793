"""Whether an agent chose the right tools, where no calls were expected in advance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dokimos._core.agent import ToolCall
from dokimos._core.keys import INPUT, TOOL_CALLS, TOOLS, input_of
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import format_list, pluralize
from dokimos._core.tool_definition import ToolDefinition
from dokimos.evaluators._agent.base import TOOLS_SCHEMA, read_calls, read_tools, require_keys, require_tools
from dokimos.evaluators._agent.prompt_sections import calls_section, output_section, tools_section
from dokimos.evaluators._llm.base import JudgedEvaluator
from dokimos.evaluators._llm.case_sections import render_value, section
from dokimos.evaluators._llm.verdicts import Verdict, check_numbers, in_order, verdict_prompt
from dokimos.evaluators._setting_checks import check_text
from dokimos.judges._ask import ask


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceVerdicts:
    """What the judge replies."""

    verdicts: list[Verdict]
    missing: list[str]
    """The tools that should have been called and were not."""


@dataclass(frozen=True, kw_only=True)
class ToolSelection(JudgedEvaluator):
    """How well the agent chose among its tools: right calls / (calls made + tools that are missing).

    A judge says for each call whether its tool was the right one at that point, and which tools should have
    been called and were not. 1 where nothing was called and nothing is missing. Arguments do not count. One
    call of the judge.

    Example:
        >>> reply = '{"verdicts": [{"reason": "It fits.", "verdict": "yes"}], "missing": []}'
        >>> case = EvalTestCase.of("Weather in Rome?", "Sunny.", tool_calls=[{"name": "get_weather"}])
        >>> ToolSelection(judge=lambda prompt: reply, tools=[{"name": "get_weather"}]).evaluate(case).score
        1.0
    """

    method_source = "Defined by dokimos."

    requires: ClassVar[tuple[str, ...]] = ("input", f"outputs.{TOOL_CALLS}")
    looks_for: ClassVar[tuple[str, ...]] = (f"metadata.{TOOLS}",)

    input_key: str = INPUT
    """The key of what the user said in the inputs."""
    tool_calls_key: str = TOOL_CALLS
    """The key of the calls in the actual outputs."""
    tools: Sequence[Any] | None = field(default=None, metadata={"json_schema": TOOLS_SCHEMA})
    """The tools that the agent had, for every case; see `ToolCallValidity`."""
    tools_key: str = TOOLS
    """The key of the tools in the metadata or the outputs."""
    threshold: float | None = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require_keys(self, inputs="input_key", outputs="tool_calls_key")
        check_text(self, "tools_key", self.tools_key)
        object.__setattr__(self, "tools", read_tools(self, self.tools))

    async def judge_case(self, case: EvalTestCase, *, sample: int) -> Score:
        calls = read_calls(case, self.tool_calls_key)
        tools = require_tools(case, self.tools_key, self.tools)
        reply = await ask(
            self.lm,
            self._prompt(case, calls, tools),
            ChoiceVerdicts,
            check=lambda answer: _check(answer, len(calls), tools),
            sample=sample,
        )
        verdicts = in_order(reply.verdicts)
        wrong = [call.name for call, entry in zip(calls, verdicts, strict=True) if entry.verdict == "no"]
        total = len(calls) + len(reply.missing)
        right = len(calls) - len(wrong)
        recorded = [
            {"toolName": call.name, "verdict": entry.verdict, "reason": entry.reason}
            for call, entry in zip(calls, verdicts, strict=True)
        ]
        return Score(
            right / total if total else 1.0,
            _reason(len(calls), wrong, reply.missing),
            metadata={"verdicts": recorded, "missingTools": reply.missing},
        )

    def _prompt(self, case: EvalTestCase, calls: Sequence[ToolCall], tools: Sequence[ToolDefinition]) -> str:
        return verdict_prompt(
            "An agent could call these tools to do what a user asked. For each call that it made, say "
            "whether this tool was the right choice at that point (yes or no); its arguments do not count. "
            "Then list as missing the names of the available tools that should have been called and were "
            "not; none is fine.",
            tools_section(tools),
            section("User Input", render_value(input_of(case.inputs, self.input_key))),
            calls_section(calls),
            output_section(case),
            count=len(calls),
            noun="call",
        )


def _check(answer: ChoiceVerdicts, count: int, tools: Sequence[ToolDefinition]) -> None:
    check_numbers(answer.verdicts, count)
    tool_names = {tool.name for tool in tools}
    unknown = [name for name in answer.missing if name not in tool_names]
    if unknown:
        # The judge answers again: a tool that does not exist would lower the score for nothing.
        raise ValueError(f"{unknown[0]!r} is not one of the available tools")


def _reason(count: int, wrong: list[str], missing: list[str]) -> str:
    parts = []
    if wrong:
        parts.append(f"wrong: {format_list(wrong, limit=3)}")
    if missing:
        parts.append(f"missing: {format_list(missing, limit=3)}")
    share = f"{count - len(wrong)} of {pluralize(count, 'tool call')} chosen correctly"
    return f"{share}; {'; '.join(parts)}." if parts else f"{share}, and none is missing."
