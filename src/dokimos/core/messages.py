"""From the messages of a chat, as providers write them, to what the agent did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from dokimos.core.agent import AgentTrace, ToolCall
from dokimos.core.jsonable import text_form
from dokimos.core.keys import CALL_ERROR

_CALL_TYPES: Final = frozenset({"function_call", "tool_use", "tool_call"})
_RESULT_TYPES: Final = frozenset({"function_call_output", "tool_result"})
_ID_KEYS: Final = ("tool_call_id", "tool_use_id", "call_id", "id")


@dataclass(slots=True)
class _Reading:
    """What has been read so far."""

    calls: list[ToolCall] = field(default_factory=list)
    waiting: dict[str, ToolCall] = field(default_factory=dict)
    """The call of each id that has no result yet; the last one where turns repeat an id."""
    response: str | None = None

    def add_call(self, data: Mapping[str, Any]) -> None:
        function = data.get("function") if type(data) is dict else None
        if type(function) is dict and type(arguments := function.get("arguments")) is str:
            call = ToolCall.of_text(function.get("name") or "", arguments)  # the way most are told
        else:
            call = ToolCall.from_map(data)
        if identity := data.get("call_id") or data.get("id"):
            self.waiting[identity] = call
        self.calls.append(call)
        self.response = None

    def add_result(self, data: Mapping[str, Any]) -> None:
        identity = next((data[key] for key in _ID_KEYS if data.get(key)), None)
        call = self.waiting.pop(identity, None) if identity else None
        if call is None:
            return
        content = data.get("content") if "content" in data else data.get("output")
        # Nobody else has seen the call yet, so that it may still be completed.
        object.__setattr__(call, "result", content if type(content) is str else _result_text(content))
        if data.get("is_error") is True or data.get("status") == "error":
            object.__setattr__(call, "metadata", {**call.metadata, CALL_ERROR: True})


def trace_of_messages(messages: Iterable[Mapping[str, Any]]) -> AgentTrace:
    """Read tool calls, their results and the final response from messages of OpenAI or Anthropic."""
    reading = _Reading()
    for message in messages:
        if message.get("role") == "assistant":
            _read_assistant(message, reading)
        else:
            _read_other(message, reading)
    return AgentTrace(tuple(reading.calls), reading.response)


def _read_assistant(message: Mapping[str, Any], reading: _Reading) -> None:
    content = message.get("content")
    if type(content) is str:
        if content:
            reading.response = content
    elif content:
        reading.response = _text_of_blocks(content) or reading.response
        for block in _blocks(content):
            if block.get("type") in _CALL_TYPES:
                reading.add_call(block)
    for call in message.get("tool_calls") or ():
        reading.add_call(call)


def _read_other(message: Mapping[str, Any], reading: _Reading) -> None:
    kind = message.get("type")
    if kind in _CALL_TYPES:
        reading.add_call(message)
    elif kind in _RESULT_TYPES or message.get("role") == "tool":
        reading.add_result(message)
    else:
        for block in _blocks(message.get("content")):
            if block.get("type") in _RESULT_TYPES:
                reading.add_result(block)


def _result_text(content: Any) -> str | None:
    blocks = list(_blocks(content))
    if blocks and all("text" in block for block in blocks):
        return _text_of_blocks(content)
    return text_form(content)


def _text_of_blocks(content: Any) -> str:
    return "\n".join(str(block["text"]) for block in _blocks(content) if "text" in block)


def _blocks(content: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(content, list | tuple):
        yield from (block for block in content if isinstance(block, Mapping))
