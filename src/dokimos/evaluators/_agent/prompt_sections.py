"""Sections of a judge's prompt: the tools that an agent had, and the calls that it made."""

from __future__ import annotations

from collections.abc import Sequence

from dokimos._core.agent import ToolCall
from dokimos._core.conversation import call_text
from dokimos._core.keys import PLAN, REASONING_STEPS
from dokimos._core.test_case import EvalTestCase
from dokimos._core.tool_definition import ToolDefinition
from dokimos.errors import MissingInputError
from dokimos.evaluators._agent.base import texts_under
from dokimos.evaluators._llm.case_sections import number_lines, section
from dokimos.evaluators._missing_parts import list_parts


def calls_section(calls: Sequence[ToolCall]) -> str:
    """Return the calls with their results, numbered in the order in which they were made."""
    return number_lines("Tool Calls", [call_line(call) for call in calls]) if calls else "Tool Calls:\n(none)"


def tools_section(tools: Sequence[ToolDefinition]) -> str:
    """Return the available tools with the names of their parameters."""
    lines = [f"{tool.name}({', '.join(tool.parameters)}): {tool.description}" for tool in tools]
    return section("Available Tools", "\n".join(lines)) if lines else ""


def output_section(case: EvalTestCase) -> str:
    """Return the agent's final response, nothing where there is none."""
    text = case.actual_output
    return section("Final Response", text) if text and text.strip() else ""


def call_line(call: ToolCall) -> str:
    """Return a call with its result: `search({"q": "x"}) -> 3 found`."""
    return call_text(call) if call.result is None else f"{call_text(call)} -> {call.result}"


def plan_of(case: EvalTestCase, key: str = PLAN) -> str:
    """Return the agent's plan: under its key in the outputs, else the reasoning steps.

    Raises:
        MissingInputError: when there is neither.
    """
    plan = case.actual_outputs.get(key)
    if plan is not None:
        text = plan if isinstance(plan, str) else "\n".join(texts_under(plan, key))
    else:
        steps = case.actual_outputs.get(REASONING_STEPS)
        text = "\n".join(texts_under(steps, REASONING_STEPS)) if steps is not None else ""
    if not text.strip():
        raise MissingInputError(
            f"There is no plan: neither {key!r} nor {REASONING_STEPS!r} is in the outputs; the case has: "
            f'{list_parts(case)}. Return it from the task: {{"output": ..., "{key}": ...}}.'
        )
    return text
