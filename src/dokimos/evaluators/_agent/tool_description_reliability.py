"""Whether the descriptions of tools tell a model how to use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from dokimos._core.tool_definition import ToolDefinition
from dokimos.evaluators._agent.reliability import SKIPPED, Checks, ReliabilityEvaluator
from dokimos.evaluators._setting_checks import check_whole

_TELLS_TYPE: Final = frozenset({"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DescriptionAnswers:
    """What the judge replies."""

    reason: str = ""
    general_structure: bool
    has_examples: bool
    has_usage_notes: bool
    intent_over_implementation: bool
    clarity: bool
    redundancy: bool
    input_arguments_enum: bool
    input_arguments_format: bool
    return_statement_quality: bool


@dataclass(frozen=True, kw_only=True)
class ToolDescriptionReliability(ReliabilityEvaluator):
    """How well the tools are described: the mean share of thirteen checks that pass, four without a judge.

    By rule: `input_arguments_clarity`, each parameter has a description; `input_arguments_types`, and a type;
    `max_num_input_arguments` and `max_optional_input_arguments`. By a judge, one call for each tool:
    `general_structure`, `has_examples`, `has_usage_notes`, `intent_over_implementation`, `clarity` (an empty
    description fails it, judge or not), `redundancy`, `input_arguments_enum`, `input_arguments_format` and
    `return_statement_quality`. 1 where there are no tools.

    Example:
        >>> from dokimos import EvalTestCase
        >>> tool = {"name": "get_weather", "description": "Returns the weather of a city."}
        >>> ToolDescriptionReliability().evaluate(EvalTestCase({}, {}, metadata={"tools": [tool]})).score
        1.0
    """

    questions: ClassVar[Mapping[str, str]] = {
        "general_structure": "Does the description say first what the tool does, then the details?",
        "has_examples": "Does the definition show an example of its use or of an argument?",
        "has_usage_notes": "Does it say when to use the tool, or when not to, or what to take care of?",
        "intent_over_implementation": "Does it say what the tool is for, rather than how it works inside?",
        "clarity": "Would a reader who knows nothing else understand what the tool does?",
        "redundancy": "Is it free of repetition and of text that helps nobody to use the tool?",
        "input_arguments_enum": "Are the allowed values given for each parameter that takes only a few "
        "(true where there is no such parameter)?",
        "input_arguments_format": "Is the format given for each parameter that needs one, such as dates, "
        "units and ids (true where there is no such parameter)?",
        "return_statement_quality": "Does it say what the tool returns?",
    }
    shape = DescriptionAnswers

    max_input_args: int = 5
    """The most parameters that a tool should have."""
    max_optional_args: int = 3
    """The most optional parameters that a tool should have."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self, "max_input_args", self.max_input_args, least=0)
        check_whole(self, "max_optional_args", self.max_optional_args, least=0)

    def by_rules(self, tool: ToolDefinition) -> Checks:
        schemas = [tool.schema_of(name) for name in tool.parameters]
        optional = set(tool.parameters) - set(tool.required)
        checks: dict[str, bool | str] = {
            "input_arguments_clarity": all(map(_is_described, schemas)),
            "input_arguments_types": all(not _TELLS_TYPE.isdisjoint(schema) for schema in schemas),
            "max_num_input_arguments": len(schemas) <= self.max_input_args,
            "max_optional_input_arguments": len(optional) <= self.max_optional_args,
        }
        checks |= dict.fromkeys(self.questions, SKIPPED)
        if not tool.description.strip():
            checks["clarity"] = False
        return checks


def _is_described(schema: Mapping[str, Any]) -> bool:
    text = schema.get("description")
    return isinstance(text, str) and bool(text.strip())
