"""Whether the names of tools tell a model what they are for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from dokimos._core.tool_definition import ToolDefinition
from dokimos.evaluators._agent.reliability import SKIPPED, Checks, ReliabilityEvaluator

MOST_SEGMENTS: Final = 7

_SNAKE_CASE: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_IMPLEMENTATION: Final = ("_with_llm", "_via_api", "_from_s3", "_using_bq", "_using_sdk", "_with_gpt4")


@dataclass(frozen=True, slots=True, kw_only=True)
class NameAnswers:
    """What the judge replies."""

    reason: str = ""
    intent_over_implementation: bool
    clarity: bool
    name_order: bool


@dataclass(frozen=True, kw_only=True)
class ToolNameReliability(ReliabilityEvaluator):
    """How well the tools are named: the mean share of five checks that pass, three of them without a judge.

    By rule: `snakecase_format`; `conciseness`, at most seven segments; `intent_over_implementation`, nothing
    like `_via_api` or `_with_llm` in it. By a judge, one call for each tool: `clarity`, `name_order`, and
    `intent_over_implementation` in substance, which must pass both ways. 1 where there are no tools.

    Example:
        >>> from dokimos import EvalTestCase
        >>> tools = [{"name": "get_weather"}, {"name": "getDataViaHTTP"}]
        >>> case = EvalTestCase({}, {}, metadata={"tools": tools})
        >>> round(ToolNameReliability().evaluate(case).score, 3)
        0.833
    """

    questions: ClassVar[Mapping[str, str]] = {
        "intent_over_implementation": "Does the name say what the tool is for, rather than how it does it?",
        "clarity": "Is the purpose of the tool clear from its name alone?",
        "name_order": "Are the parts of the name in the order operation, system, entity, data (those of them "
        "that it has), such as get_crm_customer_address?",
    }
    shape = NameAnswers

    def by_rules(self, tool: ToolDefinition) -> Checks:
        name = tool.name
        return {
            "snakecase_format": _SNAKE_CASE.fullmatch(name) is not None,
            "conciseness": len(name.rstrip("_").split("_")) <= MOST_SEGMENTS,
            "intent_over_implementation": not any(part in name.lower() for part in _IMPLEMENTATION),
            "clarity": SKIPPED,
            "name_order": SKIPPED,
        }
