"""What an agent did: its tools, its calls and its answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from dokimos._core.convert import convert
from dokimos._core.fast_constructor import open_class
from dokimos._core.json_object import parse_object
from dokimos._core.jsonable import WIRE_CONFIG, jsonable, text_form
from dokimos._core.keys import (
    ERRORS,
    INPUT,
    INVALID_ARGUMENTS,
    OUTPUT,
    PARTIAL_RESPONSE,
    REASONING_STEPS,
    TASKS,
    TOOL_CALLS,
    TOOLS,
    UNKNOWN_ARGUMENTS,
    UNKNOWN_RESPONSE,
)
from dokimos._core.text import quote
from dokimos._core.tool_definition import ToolDefinition, check_name
from dokimos.errors import EvaluationError, TypeConversionError

if TYPE_CHECKING:
    from dokimos._core.test_case import EvalTestCase

T = TypeVar("T")

_ARGUMENT_KEYS: Final = ("arguments", "input", "args")
"""Where the dialects of a tool call have its arguments: ours and OpenAI's, Anthropic's, LangChain's."""
_MISNAMED_ARGUMENTS: Final = frozenset({"params", "parameters", "kwargs", "inputs"})
"""Keys that are easily written for "arguments". Ignored, they would expect a call with any arguments."""


class _ArgumentsText:
    """Holds the text that the arguments of a call were read from, which is not a field of it."""

    __slots__ = ("_text",)


@dataclass(frozen=True, slots=True)
class ToolCall(_ArgumentsText):
    """One call of a tool, with its result as text where it is known.

    Example:
        >>> call = ToolCall("get_weather", {"city": "Rome"}, result="21 degrees")
        >>> call.name, call.arguments["city"], call.result
        ('get_weather', 'Rome', '21 degrees')
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    _: KW_ONLY
    result: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    __pydantic_config__ = WIRE_CONFIG

    def __post_init__(self) -> None:
        check_name("tool call", self.name)
        if type(self.arguments) is not dict:
            _check_arguments(self.name, self.arguments)
        # A copy: whoever keeps the original could change a value that counts as frozen.
        object.__setattr__(self, "arguments", dict(self.arguments))
        if self.result is not None and not isinstance(self.result, str):
            raise ValueError(
                f"The result of tool call {self.name!r} must be text, not {type(self.result).__name__}; "
                "ToolCall.result_json(value) makes text of a value."
            )

    @classmethod
    def from_map(cls, data: Mapping[str, Any]) -> ToolCall:
        """Read the keys name, arguments, result and metadata; a structured result becomes compact JSON.

        The calls in messages of OpenAI, Anthropic and LangChain are read too. Arguments may be JSON text;
        text that is not a JSON object is kept as it is under "invalidArguments" in the metadata. Raises
        `ValueError` for what is not a call.
        """
        if not isinstance(data, Mapping):
            raise ValueError(f"A tool call must be a map, not {quote(data)}.")
        function = data.get("function")
        if isinstance(function, Mapping):
            data = {**data, **function}
        if data.get("name") is None:
            keys = ", ".join(map(repr, data)) or "no keys"
            raise ValueError(f'A tool call needs a name, under "name"; this one has {keys}.')
        value = next((data[key] for key in _ARGUMENT_KEYS if data.get(key) is not None), None)
        if value is None:
            _check_for_misnamed_arguments(data)
        metadata = data.get("metadata") or {}
        if isinstance(value, str):
            return cls.of_text(
                data.get("name") or "", value, result=text_form(data.get("result")), metadata=metadata
            )
        return cls(
            data.get("name") or "", value or {}, result=text_form(data.get("result")), metadata=metadata
        )

    @classmethod
    def of_text(
        cls,
        name: str,
        arguments: str,
        *,
        result: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> ToolCall:
        """Make a call whose arguments are JSON text, as models write them; blank text means none.

        Text that is not a JSON object is kept under "invalidArguments" in the metadata, and no arguments are
        there: the model is at fault, and evaluators say so.
        """
        parsed = parse_object(arguments)
        if parsed is None:
            return cls(name, {}, result=result, metadata={**(metadata or {}), INVALID_ARGUMENTS: arguments})
        if cls is ToolCall and result is None and type(name) is str and name and not name.isspace():
            return _make_parsed_call(name, parsed, arguments, metadata or {})
        call = cls(name, parsed, result=result, metadata=metadata or {})
        object.__setattr__(call, "_text", arguments)
        return call

    def has_same_arguments_text(self, other: ToolCall) -> bool:
        """Say whether the arguments of both were read from the same text; False says nothing."""
        text = getattr(self, "_text", None)
        return text is not None and text == getattr(other, "_text", None)

    def mentions(self, word: str) -> bool:
        """Say whether a word may be in the arguments; True where there is no text of them to search."""
        text = getattr(self, "_text", None)
        return text is None or word in text or "\\u" in text

    @property
    def invalid_arguments(self) -> str | None:
        """What the model wrote in the place of arguments where that is not a JSON object, else None."""
        return self.metadata.get(INVALID_ARGUMENTS)

    @property
    def has_unknown_arguments(self) -> bool:
        """Whether nobody recorded the arguments, as in traces without content; `arguments` is empty then."""
        return self.metadata.get(UNKNOWN_ARGUMENTS) is True

    @staticmethod
    def result_json(value: object) -> str:
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


_UnfinishedCall: Final = open_class(ToolCall)


def _make_parsed_call(
    name: str, arguments: dict[str, Any], text: str, metadata: Mapping[str, Any]
) -> ToolCall:
    """Make a call of a valid name and of the map that its text holds, which becomes the call's own, fast.

    The constructor takes three times as long: it sets each field through `object.__setattr__`, checks what is
    known here, and copies the map, which nobody else has. That is a sixth of what comparing two trajectories
    takes (`benchmarks/agent.py`).
    """
    call: Any = _UnfinishedCall()
    call.name = name
    call.arguments = arguments
    call.result = None
    call.metadata = metadata
    call._text = text
    call.__class__ = ToolCall
    made: ToolCall = call
    return made


@dataclass(frozen=True, slots=True)
class AgentTrace:
    """What an agent did for one input; a task may return it as it is.

    Example:
        >>> trace = AgentTrace((ToolCall("search", {"q": "Rome"}, result="A city."),), "Rome is a city.")
        >>> trace.tool_calls[0].name, trace.final_response
        ('search', 'Rome is a city.')
    """

    tool_calls: tuple[ToolCall, ...] = ()
    final_response: str | None = None
    _: KW_ONLY
    reasoning_steps: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    """Why the run ended without an answer, as `Type: message`. No evaluator scores such a run."""
    errors: tuple[str, ...] = ()
    """What failed on the way (calls of models, agents), in order. Failed calls of tools say so themselves."""

    __pydantic_config__ = WIRE_CONFIG

    def __post_init__(self) -> None:
        for name in ("tool_calls", "reasoning_steps", "errors"):
            if type(value := getattr(self, name)) is not tuple:
                object.__setattr__(self, name, _require_list(name, value))
        for call in self.tool_calls:
            if type(call) is not ToolCall:
                object.__setattr__(self, "tool_calls", tuple(map(_as_tool_call, self.tool_calls)))
                break

    @classmethod
    def from_messages(cls, messages: Iterable[Mapping[str, Any]]) -> AgentTrace:
        """Read the messages of one run in any form that `ConversationTrajectory.from_messages` reads.

        Results are found by the id of their call; a call without one has the result None. The final response
        is the text of the last assistant message, if it comes after the last tool call. Raises `ValueError`,
        naming the message.
        """
        from dokimos._messages.conversations import parse_trace

        return parse_trace(messages)

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools called, each once, in the order of their first call."""
        return tuple(dict.fromkeys(call.name for call in self.tool_calls))

    @property
    def has_unknown_response(self) -> bool:
        """Whether nobody recorded the answer, as in traces without content; `final_response` is None then."""
        return self.metadata.get(UNKNOWN_RESPONSE) is True

    def to_outputs(self) -> dict[str, Any]:
        """Return the trace under the conventional output keys.

        An answer that nobody recorded is missing, not empty; `errors` are there where there are any.

        Raises:
            EvaluationError: where the run failed. A task returns the trace itself then, so that the item is
                errored and keeps what was done.
        """
        if self.error is not None:
            raise EvaluationError(
                f"The run failed: {self.error}. Return the trace itself to keep what was done."
            )
        return self.outputs_so_far()

    def outputs_so_far(self) -> dict[str, Any]:
        """Return what `to_outputs` does, also of a run that failed.

        Its answer is missing; what was said before it broke off is there as "partialResponse".
        """
        outputs: dict[str, Any] = {
            OUTPUT: self.final_response or "",
            TOOL_CALLS: list(self.tool_calls),
            REASONING_STEPS: list(self.reasoning_steps),
        }
        if self.final_response is None and (self.error is not None or self.has_unknown_response):
            del outputs[OUTPUT]
        if PARTIAL_RESPONSE in self.metadata:
            outputs[PARTIAL_RESPONSE] = self.metadata[PARTIAL_RESPONSE]
        return {**outputs, ERRORS: list(self.errors)} if self.errors else outputs

    def to_test_case(
        self, input: object = None, tools: Iterable[ToolDefinition] = (), tasks: Iterable[str] | None = None
    ) -> EvalTestCase:
        """Return a case with the trace as its outputs, and the tools and any tasks in its metadata."""
        from dokimos._core.test_case import EvalTestCase

        inputs = {} if input is None else {INPUT: input}
        metadata: dict[str, Any] = {TOOLS: list(tools)}
        if tasks is not None:
            metadata[TASKS] = [tasks] if isinstance(tasks, str) else list(tasks)
        return EvalTestCase(inputs, self.outputs_so_far(), metadata=metadata, error=self.error)


def _check_for_misnamed_arguments(data: Mapping[str, Any]) -> None:
    """Raise `ValueError` where a call without arguments has a key that was probably meant for them."""
    from difflib import get_close_matches

    for key, value in data.items():
        if key in _ARGUMENT_KEYS or value in (None, "", "{}") or (isinstance(value, Mapping) and not value):
            continue  # no arguments, whatever they are called
        if key in _MISNAMED_ARGUMENTS or get_close_matches(str(key).lower(), ["arguments"], cutoff=0.8):
            raise ValueError(
                f'Tool call {data.get("name")!r} has no "arguments", but {key!r}: rename it to "arguments".'
            )


def _require_list(name: str, value: object) -> tuple[Any, ...]:
    if isinstance(value, str):
        hint = f"; write AgentTrace(final_response={quote(value)})" if name == "tool_calls" else ""
        raise ValueError(f"The {name} of an AgentTrace must be a list, not the text {quote(value)}{hint}.")
    if isinstance(value, Mapping) or not isinstance(value, Iterable):
        raise ValueError(f"The {name} of an AgentTrace must be a list, not {quote(value)}.")
    return tuple(value)


def _as_tool_call(value: object) -> ToolCall:
    if isinstance(value, ToolCall):
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f"The tool calls of an AgentTrace must be ToolCalls or maps, not {quote(value)}.")
    return ToolCall.from_map(value)


def _check_arguments(name: str, arguments: object) -> None:
    if not isinstance(arguments, Mapping):
        kind = type(arguments).__name__
        raise ValueError(f"The arguments of tool call {name!r} must be a mapping, not {kind}.")
