"""The neutral message model: what any provider, framework or span says was said and called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from dokimos._core.agent import ToolCall
from dokimos._core.jsonable import text_form

INVALID_JSON: Final = "INVALID_JSON"
"""The key for text that is not valid JSON where an API takes only an object, as Anthropic writes it."""

UNNAMED: Final = "(unnamed)"
"""The name of a call that was recorded without one."""

_NOTHING: Final[Mapping[str, Any]] = {}


class NeutralCall(NamedTuple):
    """A tool that a model asked for."""

    name: str
    arguments: Any = None
    """A map, JSON text, or whatever else was recorded."""
    id: str = ""
    result: Any = None
    """What the tool returned, where the call itself has it."""
    metadata: Mapping[str, Any] = _NOTHING


class NeutralResult(NamedTuple):
    """What a tool returned, as the model received it."""

    value: Any
    id: str = ""
    name: str = ""
    failed: bool = False


class NeutralMessage(NamedTuple):
    """One message; one of the role `tool` has one result."""

    role: str
    text: str = ""
    calls: tuple[NeutralCall, ...] = ()
    result: NeutralResult | None = None
    reasoning: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = _NOTHING


@dataclass(slots=True)
class ResultMatcher:
    """Matches results to the calls that they answer, by id: the last such call where turns repeat an id.

    A result without an id is matched to the only open call of the turn that it can belong to, by name where
    it has one; where several are possible, to none. Each call has one result; any other result is dropped.
    """

    results: dict[int, NeutralResult] = field(default_factory=dict)
    """The results, by the position of their calls."""
    _names: list[str] = field(default_factory=list)
    _open: dict[str, int] = field(default_factory=dict)
    _turn: int = 0

    def expect(self, name: str, call_id: str) -> None:
        """Add a call that a later result may answer."""
        self._open[call_id] = len(self._names)
        self._names.append(name)

    def add(self, result: NeutralResult) -> None:
        """Match a result to an earlier call."""
        # An id answers its last call only: some models repeat `call_1` in every turn.
        index = self._open.pop(result.id, None) if result.id else self._only_open(result.name)
        if index is not None:
            self.results[index] = result

    def end_turn(self) -> None:
        """Let results without an id answer only calls that follow."""
        self._turn = len(self._names)

    def _only_open(self, name: str) -> int | None:
        fitting = [
            index
            for index in range(self._turn, len(self._names))
            if index not in self.results and name in ("", self._names[index])
        ]
        return fitting[0] if len(fitting) == 1 else None


def to_tool_call(
    call: NeutralCall, arguments: object, result: str | None, metadata: Mapping[str, Any]
) -> ToolCall:
    """Return a call with arguments of any form: a map, JSON text, or another value, which becomes "input"."""
    if type(arguments) is str:
        return ToolCall.of_text(call.name, arguments, result=result, metadata=metadata)
    if arguments is None:
        arguments = {}
    elif not isinstance(arguments, Mapping):
        arguments = {"input": arguments}
    elif len(arguments) == 1 and type(text := arguments.get(INVALID_JSON)) is str:
        return ToolCall.of_text(call.name, text, result=result, metadata=metadata)
    named = {str(key): value for key, value in arguments.items()}
    return ToolCall(call.name, named, result=result, metadata=metadata)


def format_result(value: object) -> str | None:
    """Format a tool's result as text: that of its parts where all of them are text, else JSON."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, list | tuple) and value:
        parts = [_part_text(part) for part in value]
        if None not in parts:
            return "\n".join(part for part in parts if part is not None)
        if len(value) == 1 and isinstance(value[0], Mapping) and value[0].keys() == {"json"}:
            return text_form(value[0]["json"])  # a block of Bedrock's
    return text_form(value)


def _part_text(part: object) -> str | None:
    """Return the text of a part that is nothing but text."""
    if not isinstance(part, Mapping) or part.get("type") not in (None, "text", "output_text", "input_text"):
        return None
    text = part.get("text", part.get("content") if "type" in part else None)
    return text if isinstance(text, str) else None
