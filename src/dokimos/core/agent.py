"""What an agent did: its tools, its calls and its answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from dokimos.core.convert import convert
from dokimos.core.jsonable import WIRE_CONFIG, jsonable, text_form
from dokimos.core.keys import INPUT, OUTPUT, REASONING_STEPS, TASKS, TOOL_CALLS, TOOLS
from dokimos.errors import EvaluationError, TypeConversionError

if TYPE_CHECKING:
    from dokimos.core.test_case import EvalTestCase

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool, with its result as text where it is known."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    _: KW_ONLY
    result: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    __pydantic_config__ = WIRE_CONFIG

    def __post_init__(self) -> None:
        _check_name("tool call", self.name)
        _check_arguments(self.name, self.arguments)
        object.__setattr__(self, "arguments", dict(self.arguments))

    @classmethod
    def from_map(cls, data: Mapping[str, Any]) -> ToolCall:
        """Read the keys name, arguments, result and metadata; a structured result becomes compact JSON."""
        result = data.get("result")
        return cls(
            data.get("name") or "",
            data.get("arguments") or {},
            result=text_form(result),
            metadata=data.get("metadata") or {},
        )

    @staticmethod
    def result_json(value: Any) -> str:
        """Return `value` as the compact one-line JSON that `result` holds (None as "null")."""
        return json.dumps(jsonable(value), ensure_ascii=False, separators=(",", ":"))

    def result_as(self, target: type[T]) -> T | None:
        """Parse `result` as JSON and return it as `target`; None for a blank result or JSON null.

        Raises `TypeConversionError`, also where the result is not JSON.
        """
        if self.result is None or not self.result.strip():
            return None
        try:
            value = json.loads(self.result)
        except (ValueError, RecursionError) as cause:
            message = f"Cannot convert the result of tool {self.name!r}: it is not JSON: {cause}"
            raise TypeConversionError(message, target=target) from cause
        return convert(value, target, what=f"result of tool {self.name!r}")

    def arguments_as(self, target: type[T]) -> T | None:
        """Return the arguments as `target`. Raises `TypeConversionError`."""
        return convert(self.arguments, target, what=f"arguments of tool {self.name!r}")


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool that an agent may call; `input_schema` is a JSON Schema of its arguments."""

    name: str
    description: str = ""
    _: KW_ONLY
    input_schema: Mapping[str, Any] = field(default_factory=dict)

    __pydantic_config__ = WIRE_CONFIG

    def __post_init__(self) -> None:
        _check_name("tool definition", self.name)


@dataclass(frozen=True, slots=True)
class AgentTrace:
    """What an agent did for one input; a task may return it as it is."""

    tool_calls: tuple[ToolCall, ...] = ()
    final_response: str | None = None
    _: KW_ONLY
    reasoning_steps: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    __pydantic_config__ = WIRE_CONFIG

    def __post_init__(self) -> None:
        object.__setattr__(self, "tool_calls", tuple(self.tool_calls))
        object.__setattr__(self, "reasoning_steps", tuple(self.reasoning_steps))

    def to_outputs(self) -> dict[str, Any]:
        """Return the trace under the conventional output keys."""
        return {
            OUTPUT: self.final_response or "",
            TOOL_CALLS: list(self.tool_calls),
            REASONING_STEPS: list(self.reasoning_steps),
        }

    def to_test_case(
        self, input: Any = None, tools: Iterable[ToolDefinition] = (), tasks: Iterable[str] = ()
    ) -> EvalTestCase:
        """Return a case with the trace as its outputs, and the tools and tasks in its metadata."""
        from dokimos.core.test_case import EvalTestCase

        inputs = {} if input is None else {INPUT: input}
        return EvalTestCase(inputs, self.to_outputs(), metadata={TOOLS: list(tools), TASKS: list(tasks)})


def _check_name(what: str, name: Any) -> None:
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"A {what} needs a name that is not blank, not {name!r}.")


def _check_arguments(name: str, arguments: Any) -> None:
    if not isinstance(arguments, Mapping):
        kind = type(arguments).__name__
        raise ValueError(f"The arguments of tool call {name!r} must be a mapping, not {kind}.")


def tool_calls_from(value: Any, *, key: str) -> tuple[ToolCall, ...]:
    """Read a sequence of `ToolCall`s or maps. Raises `EvaluationError` naming `key` and the index."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise EvaluationError(f"{key!r} must be a list of tool calls, not {type(value).__name__}.")
    return tuple(_tool_call(element, f"{key}[{index}]") for index, element in enumerate(value))


def _tool_call(element: Any, place: str) -> ToolCall:
    if isinstance(element, ToolCall):
        return element
    if not isinstance(element, Mapping):
        raise EvaluationError(f"{place} must be a ToolCall or a map, not {type(element).__name__}.")
    try:
        return ToolCall.from_map(element)
    except (ValueError, TypeError) as cause:
        raise EvaluationError(f"{place}: {cause}") from cause
