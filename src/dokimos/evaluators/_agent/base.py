"""The shared base of agent evaluators: reading calls, tools and plans from a case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Self

from dokimos._core.agent import ToolCall
from dokimos._core.keys import TOOL_CALLS, TOOLS
from dokimos._core.provenance import EvaluatorInfo
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import quote
from dokimos._core.tool_definition import ToolDefinition
from dokimos._core.tool_lists import tool_calls_from, tool_definitions_from
from dokimos.errors import ConfigurationError, EvaluationError, MissingInputError
from dokimos.evaluators._agent.accepted_values import ONE_OF, read_expected
from dokimos.evaluators._agent.argument_matching import (
    ArgumentMatching,
    as_argument_check,
    with_canonical_modes,
)
from dokimos.evaluators._agent.call_matching import CallMatcher
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._import_string import import_object
from dokimos.evaluators._missing_parts import list_parts
from dokimos.evaluators._setting_checks import check_text

TOOLS_SCHEMA: Final[dict[str, Any]] = {
    "oneOf": [
        {
            "type": "array",
            "items": {"oneOf": [{"type": "object"}, {"type": "string", "pattern": r"^[\w.]+:[\w.]+$"}]},
        },
        {"type": "null"},
    ]
}
"""The JSON Schema of an evaluator's parameter `tools`."""


@dataclass(frozen=True, kw_only=True)
class CallsEvaluator(Evaluator):
    """The base of evaluators of the calls that an agent made."""

    method_source = "Defined by dokimos."

    requires: ClassVar[tuple[str, ...]] = (f"outputs.{TOOL_CALLS}",)

    tool_calls_key: str = TOOL_CALLS
    """The key of the calls in the actual outputs."""
    threshold: float | None = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_keys(self, outputs="tool_calls_key")

    def info(self) -> EvaluatorInfo:
        """Describe the configuration; of two words for one mode, either gives the same fingerprint."""
        info, documented = super().info(), self._with_canonical_modes()
        return info if documented == self else replace(info, fingerprint=documented.info().fingerprint)

    def _with_canonical_modes(self) -> Self:
        words: dict[str, Any] = {}
        if hasattr(self, "arguments"):
            words["arguments"] = with_canonical_modes(self.arguments)
        if hasattr(self, "tool_arguments"):
            words["tool_arguments"] = {
                name: with_canonical_modes(each) for name, each in self.tool_arguments.items()
            }
        return replace(self, **words) if words else self


@dataclass(frozen=True, kw_only=True)
class ExpectedCallsEvaluator(CallsEvaluator):
    """The base of the evaluators that compare the calls with those expected."""

    requires: ClassVar[tuple[str, ...]] = (f"outputs.{TOOL_CALLS}", f"expected_outputs.{TOOL_CALLS}")

    expected_tool_calls_key: str = TOOL_CALLS
    """The key of the expected calls in the expected outputs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_keys(self, outputs="tool_calls_key", expected_outputs="expected_tool_calls_key")

    def both(self, case: EvalTestCase) -> tuple[tuple[ToolCall, ...], tuple[ToolCall, ...]]:
        """Return the expected and the actual calls."""
        return read_expected_calls(case, self.expected_tool_calls_key), read_calls(case, self.tool_calls_key)


def require_compared_arguments(
    expected: Sequence[ToolCall], actual: Sequence[ToolCall], matcher: CallMatcher
) -> None:
    """Raise `EvaluationError` where arguments that were not recorded decide whether calls match."""
    # Traces without content capture have calls without arguments: comparing them would fail every call.
    unknown = [call for call in actual if call.metadata and call.has_unknown_arguments]
    if unknown:
        compared = {call.name for call in expected if not matcher.is_by_name(call)}
        require_arguments(call for call in unknown if call.name in compared)


def require_keys(evaluator: Evaluator, **fields: str) -> None:
    """Check the fields that hold keys, and make the keys required: `outputs="tool_calls_key"`."""
    for field in fields.values():
        check_text(evaluator, field, getattr(evaluator, field))
    paths = tuple(f"{section}.{getattr(evaluator, field)}" for section, field in fields.items())
    object.__setattr__(evaluator, "requires", paths)


def read_calls(case: EvalTestCase, key: str = TOOL_CALLS) -> tuple[ToolCall, ...]:
    """Return the calls of the agent. Raises `EvaluationError` where they cannot be read."""
    return tool_calls_from(case.actual_outputs.get(key), key=key)


def read_expected_calls(case: EvalTestCase, key: str = TOOL_CALLS) -> tuple[ToolCall, ...]:
    """Return the calls that were expected. Raises `EvaluationError` where they cannot be read."""
    calls = tool_calls_from(case.expected_outputs.get(key), key=key)
    # A search of the text first: hardly any data set has accepted values, and a walk takes longer.
    return tuple([read_expected(call) if call.mentions(ONE_OF) else call for call in calls])


def require_tools(
    case: EvalTestCase, key: str = TOOLS, tools: Sequence[ToolDefinition] | None = None
) -> tuple[ToolDefinition, ...]:
    """Return the tools that the agent had, found as `find_tools` does.

    Raises:
        MissingInputError: where there are none to be found.
        EvaluationError: where they cannot be read.
    """
    available = find_tools(case, key, tools)
    if available is None:
        raise MissingInputError(
            f"The agent's tools are unknown: there is no {key!r} in the metadata, nor in the outputs; "
            f"the case has: {list_parts(case)}. Put them there, or give them to the evaluator: tools=[...]."
        )
    return available


def find_tools(
    case: EvalTestCase, key: str = TOOLS, tools: Sequence[ToolDefinition] | None = None
) -> tuple[ToolDefinition, ...] | None:
    """Return `tools`, else those of the metadata, else those of the outputs; None where there are none.

    Raises `EvaluationError` where they cannot be read.
    """
    if tools is not None:
        return tuple(tools)
    value = case.metadata.get(key)
    if value is None:
        value = case.actual_outputs.get(key)
    return None if value is None else tool_definitions_from(value, key=key)


def read_tools(owner: object, tools: object) -> tuple[ToolDefinition, ...] | None:
    """Validate the parameter `tools` of an evaluator, for its `__post_init__`; None where it is not set.

    A text names a tool's function or model as `module:attribute`. Raises `ConfigurationError`.
    """
    if tools is None:
        return None
    name = type(owner).__name__
    if isinstance(tools, str | Mapping) or not isinstance(tools, Iterable):
        raise ConfigurationError(f"{name}: tools must be a list of tools, not {quote(tools)}.")
    what = f"{name}: the tool"
    items = [import_object(tool, what) if isinstance(tool, str) else tool for tool in tools]
    try:
        definitions = tool_definitions_from(items, key="tools")
    except EvaluationError as error:
        raise ConfigurationError(f"{name}: {error}") from None
    by_name: dict[str, ToolDefinition] = {}
    for tool in definitions:
        # The same tool twice does no harm.
        if by_name.setdefault(tool.name, tool) != tool:
            raise ConfigurationError(f"{name}: two tools have the same name, {tool.name!r}.")
    return definitions


def require_arguments(calls: Iterable[ToolCall]) -> None:
    """Raise `EvaluationError` for a call whose arguments were not recorded."""
    for call in calls:
        if call.metadata and call.has_unknown_arguments:
            raise EvaluationError(
                f"The arguments of the call of {call.name!r} were not recorded; let the instrumentation "
                "capture the content of messages and tool calls."
            )


def call_matcher(
    owner: str, arguments: ArgumentMatching | None, of_tool: Mapping[str, ArgumentMatching]
) -> CallMatcher:
    """Return the matcher of calls for an evaluator's parameters. Raises `ConfigurationError`."""
    if not isinstance(of_tool, Mapping):
        raise ConfigurationError(f"{owner}: tool_arguments must be a map of tool names.")
    try:
        return CallMatcher(
            None if arguments is None else as_argument_check(arguments),
            {name: as_argument_check(matching) for name, matching in of_tool.items()},
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"{owner}: {error}") from None


def f1(matched: int, actual: int, expected: int) -> float:
    """Return the harmonic mean of precision and recall: 1 where both sides are empty, 0 where one is."""
    if not actual and not expected:
        return 1.0
    return 2 * matched / (actual + expected)


def names_of(calls: Sequence[ToolCall]) -> list[str]:
    """Return the names of the tools called, in order."""
    return [call.name for call in calls]


def texts_under(value: object, key: str) -> tuple[str, ...]:
    """Return a list of texts, or one text as a list of it. Raises `EvaluationError`."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple) and all(isinstance(text, str) for text in value):
        return tuple(value)
    raise EvaluationError(f"{key!r} must be a list of texts, not {type(value).__name__}: {value!r:.80}.")
