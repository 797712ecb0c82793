"""`ToolCallValidity`: validate tool calls against the schemas of the tools."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from dokimos._core.agent import ToolCall
from dokimos._core.jsonable import jsonable
from dokimos._core.keys import TOOLS
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import format_list, pluralize, quote
from dokimos._core.tool_definition import ToolDefinition
from dokimos.errors import EvaluationError
from dokimos.evaluators._agent.base import (
    TOOLS_SCHEMA,
    CallsEvaluator,
    read_calls,
    read_tools,
    require_arguments,
    require_tools,
)
from dokimos.evaluators._json_schema import compile_schema, find_violations, schema_text
from dokimos.evaluators._setting_checks import check_text

if TYPE_CHECKING:
    from jsonschema_rs import Validator

_SHOWN_CALLS: Final = 3
_KEPT_VALIDATORS: Final = 1024
_COMPOSING: Final = frozenset({"allOf", "anyOf", "oneOf", "if", "$ref", "$dynamicRef", "dependentSchemas"})
"""Keywords that may declare parameters in another schema."""

_validators: OrderedDict[tuple[int, bool], tuple[ToolDefinition, Validator]] = OrderedDict()
"""The validators of tools seen lately, by the identity of the tool, which is kept alive beside it."""


@dataclass(frozen=True, kw_only=True)
class ToolCallValidity(CallsEvaluator):
    """Share of the tool calls whose tool exists and whose arguments are valid under its JSON Schema.

    1 where there are no calls. Arguments that are not a JSON object make a call invalid. The tools are those
    that the evaluator is given, else those in the case's metadata, else those in its outputs.

    Example:
        >>> tool = {"name": "search", "input_schema": {"type": "object", "required": ["query"]}}
        >>> call = {"name": "search", "arguments": {"q": "jacket"}}
        >>> ToolCallValidity(tools=[tool]).evaluate(EvalTestCase({}, {"toolCalls": [call]})).score
        0.0
    """

    looks_for: ClassVar[tuple[str, ...]] = (f"metadata.{TOOLS}",)

    tools: Sequence[Any] | None = field(default=None, metadata={"json_schema": TOOLS_SCHEMA})
    """The tools that the agent had, for every case, whatever a case says of its own: definitions, functions,
    models, the descriptions of OpenAI, Anthropic or MCP, or `module:function`."""
    tools_key: str = TOOLS
    """The key of the tools in the metadata or the outputs."""
    strict: bool = False
    """Allow no parameters but the declared ones, also where the schema does not forbid others."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_text(self, "tools_key", self.tools_key)
        object.__setattr__(self, "tools", read_tools(self, self.tools))

    def score(self, case: EvalTestCase) -> Score:
        calls = read_calls(case, self.tool_calls_key)
        tools = {tool.name: tool for tool in require_tools(case, self.tools_key, self.tools)}
        if not calls:
            return Score(1.0, "There are no tool calls to check.", metadata={"validationResults": []})
        errors = [find_call_errors(call, tools, strict=self.strict) for call in calls]
        results = [
            {"toolName": call.name, "valid": not call_errors, "errors": list(call_errors)}
            for call, call_errors in zip(calls, errors, strict=True)
        ]
        valid = sum(not call_errors for call_errors in errors)
        return Score(valid / len(calls), _reason(calls, errors), metadata={"validationResults": results})


def find_call_errors(
    call: ToolCall, tools: Mapping[str, ToolDefinition], *, strict: bool = False
) -> tuple[str, ...]:
    """Return what is wrong with a call, empty for a valid one.

    Raises:
        EvaluationError: when the tool's schema is not valid itself, or the arguments were not recorded.
    """
    tool = tools.get(call.name)
    if tool is None:
        others = f", only {format_list(tuple(tools))}" if tools else ", nor any other"
        return (f"there is no tool {call.name!r}{others}",)
    if call.invalid_arguments is not None:
        return (f"the arguments are not a JSON object: {quote(call.invalid_arguments)}",)
    # A tool without parameters has nothing that a record could lack.
    if call.metadata and _takes_arguments(tool):
        require_arguments((call,))
    validator = _validator_of(tool, strict)
    try:
        if validator.is_valid(call.arguments):
            return ()
    except ValueError:  # a value that is not of JSON's kinds
        pass
    return find_violations(validator, jsonable(call.arguments))


def _takes_arguments(tool: ToolDefinition) -> bool:
    return bool(tool.parameters or tool.required) or not _COMPOSING.isdisjoint(tool.input_schema)


def _validator_of(tool: ToolDefinition, strict: bool) -> Validator:
    key = (id(tool), strict)
    cached = _validators.get(key)
    if cached is not None and cached[0] is tool:
        return cached[1]
    schema = _strict(tool.input_schema) if strict else tool.input_schema
    try:
        # With "properties", if only empty, what is not allowed is named.
        validator = compile_schema(schema_text({"properties": {}, **schema}))
    except ValueError as error:
        raise EvaluationError(f"The schema of tool {tool.name!r} is not valid: {error}") from None
    _validators[key] = (tool, validator)
    # Bounded, oldest out first: a run whose cases bring tools of their own must not keep them all.
    while len(_validators) > _KEPT_VALIDATORS:
        _validators.popitem(last=False)
    return validator


def _strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema that forbids what it does not declare, unless it says what others may be."""
    if isinstance(schema.get("additionalProperties"), Mapping):
        return dict(schema)
    # `unevaluatedProperties`, which looks into subschemas, exists from draft 2019-09 on; draft-07 and older
    # do not know it.
    if _COMPOSING.isdisjoint(schema) or "draft-0" in str(schema.get("$schema", "")):
        return {**schema, "additionalProperties": False}
    return {**_without_additional(schema), "unevaluatedProperties": False}


def _without_additional(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != "additionalProperties" or value is False}


def _reason(calls: Sequence[ToolCall], errors: Sequence[tuple[str, ...]]) -> str:
    wrong = [(call, call_errors) for call, call_errors in zip(calls, errors, strict=True) if call_errors]
    if not wrong:
        return (
            "The only tool call is valid." if len(calls) == 1 else f"All {len(calls)} tool calls are valid."
        )
    examples = "; ".join(f"{call.name}: {call_errors[0]}" for call, call_errors in wrong[:_SHOWN_CALLS])
    more = f"; and {len(wrong) - _SHOWN_CALLS} more" if len(wrong) > _SHOWN_CALLS else ""
    return f"{len(wrong)} of {pluralize(len(calls), 'tool call')} not valid: {examples}{more}."
