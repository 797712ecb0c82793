"""Conversations as the plain messages that providers and frameworks exchange, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from dokimos.core.agent import ToolCall
from dokimos.core.conversation import Message, Role
from dokimos.core.jsonable import jsonable, text_form
from dokimos.core.keys import CALL_ERROR
from dokimos.core.text import quoted

MessageFormat: TypeAlias = Literal[
    "openai", "openai-responses", "anthropic", "gemini", "bedrock", "langchain", "otel"
]

_CALL_TYPES: Final = frozenset({"tool_use", "tool_call", "function_call"})
_RESULT_TYPES: Final = frozenset({"tool_result", "tool_call_response", "function_call_output"})
_ID_KEYS: Final = ("tool_call_id", "tool_use_id", "call_id", "id")
_ROLES: Final[dict[str, Role]] = {
    "user": Role.USER,
    "human": Role.USER,
    "assistant": Role.ASSISTANT,
    "ai": Role.ASSISTANT,
    "model": Role.ASSISTANT,
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
}


class Call(NamedTuple):
    """A tool call as it is told: under an id that is used once, with a result that is text."""

    id: str
    name: str
    arguments: dict[str, Any]
    result: str
    failed: bool

    @property
    def arguments_json(self) -> str:
        return json.dumps(self.arguments, ensure_ascii=False)


Wire: TypeAlias = dict[str, Any]


class Dialect(NamedTuple):
    """How one form writes what is said, and calls with their results."""

    said: Callable[[Role, str], Iterable[Wire]]
    called: Callable[[Sequence[Call]], Iterable[Wire]]


def messages_in(form: str, messages: Iterable[Message]) -> list[Wire]:
    """Return messages in a form. Raises `ValueError` for one that does not exist."""
    dialect = _DIALECTS.get(form)
    if dialect is None:
        raise ValueError(f"There is no form of messages {form!r}; there are {', '.join(_DIALECTS)}.")
    found: list[Wire] = []
    number = 0
    for message in messages:
        if message.tool_calls:
            calls = [_told(call, number + place) for place, call in enumerate(message.tool_calls, 1)]
            number += len(calls)
            found += dialect.called(calls)
        if message.content or not message.tool_calls:
            found += dialect.said(message.role, message.content)
    return found


def read_messages(messages: Iterable[Mapping[str, Any] | Message]) -> tuple[Message, ...]:
    """Read messages, each in whatever known form it has. Raises `ValueError` naming the message."""
    reading = _Reading()
    for place, message in enumerate(messages):
        if isinstance(message, Message):
            reading.add(message)
        elif isinstance(message, Mapping):
            try:
                _read(message, reading)
            except (ValueError, TypeError) as cause:
                raise ValueError(f"messages[{place}]: {cause}") from cause
        else:
            raise ValueError(f"messages[{place}] must be a map with role and content, not {quoted(message)}.")
    return tuple(reading.messages)


def _told(call: ToolCall, number: int) -> Call:
    arguments = jsonable(call.arguments)
    failed = bool(call.metadata.get(CALL_ERROR))
    return Call(f"call_{number}", call.name, arguments, call.result or "", failed)


def _openai_said(role: Role, text: str) -> Iterator[Wire]:
    yield {"role": str(role), "content": text}


def _openai_called(calls: Sequence[Call]) -> Iterator[Wire]:
    made = [
        {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments_json}}
        for c in calls
    ]
    yield {"role": "assistant", "content": None, "tool_calls": made}
    for call in calls:
        yield {"role": "tool", "tool_call_id": call.id, "content": call.result}


def _responses_called(calls: Sequence[Call]) -> Iterator[Wire]:
    for c in calls:
        yield {"type": "function_call", "call_id": c.id, "name": c.name, "arguments": c.arguments_json}
    for call in calls:
        yield {"type": "function_call_output", "call_id": call.id, "output": call.result}


def _anthropic_said(role: Role, text: str) -> Iterator[Wire]:
    if role is not Role.SYSTEM:
        yield {"role": str(role), "content": text}


def _anthropic_called(calls: Sequence[Call]) -> Iterator[Wire]:
    made = [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments} for c in calls]
    yield {"role": "assistant", "content": made}
    yield {"role": "user", "content": [_anthropic_result(call) for call in calls]}


def _anthropic_result(call: Call) -> Wire:
    result = {"type": "tool_result", "tool_use_id": call.id, "content": call.result}
    return {**result, "is_error": True} if call.failed else result


def _gemini_said(role: Role, text: str) -> Iterator[Wire]:
    if role is not Role.SYSTEM:
        yield {"role": "user" if role is Role.USER else "model", "parts": [{"text": text}]}


def _gemini_called(calls: Sequence[Call]) -> Iterator[Wire]:
    made = [{"functionCall": {"id": c.id, "name": c.name, "args": c.arguments}} for c in calls]
    yield {"role": "model", "parts": made}
    answered = [
        {
            "functionResponse": {
                "id": c.id,
                "name": c.name,
                "response": {"error" if c.failed else "output": c.result},
            }
        }
        for c in calls
    ]
    yield {"role": "user", "parts": answered}


def _bedrock_said(role: Role, text: str) -> Iterator[Wire]:
    if role is not Role.SYSTEM:
        yield {"role": str(role), "content": [{"text": text}]}


def _bedrock_called(calls: Sequence[Call]) -> Iterator[Wire]:
    made = [{"toolUse": {"toolUseId": c.id, "name": c.name, "input": c.arguments}} for c in calls]
    yield {"role": "assistant", "content": made}
    answered = [
        {
            "toolResult": {
                "toolUseId": c.id,
                "content": [{"text": c.result}],
                "status": "error" if c.failed else "success",
            }
        }
        for c in calls
    ]
    yield {"role": "user", "content": answered}


def _langchain_said(role: Role, text: str) -> Iterator[Wire]:
    yield {"role": {Role.USER: "human", Role.ASSISTANT: "ai"}.get(role, "system"), "content": text}


def _langchain_called(calls: Sequence[Call]) -> Iterator[Wire]:
    made = [{"type": "tool_call", "id": c.id, "name": c.name, "args": c.arguments} for c in calls]
    yield {"role": "ai", "content": "", "tool_calls": made}
    for c in calls:
        answer = {"role": "tool", "tool_call_id": c.id, "name": c.name, "content": c.result}
        yield {**answer, "status": "error"} if c.failed else answer


def _otel_said(role: Role, text: str) -> Iterator[Wire]:
    yield {"role": str(role), "parts": [{"type": "text", "content": text}]}


def _otel_called(calls: Sequence[Call]) -> Iterator[Wire]:
    made = [{"type": "tool_call", "id": c.id, "name": c.name, "arguments": c.arguments} for c in calls]
    yield {"role": "assistant", "parts": made}
    for call in calls:
        part = {"type": "tool_call_response", "id": call.id, "result": call.result}
        yield {"role": "tool", "parts": [part]}


_DIALECTS: Final[dict[str, Dialect]] = {
    "openai": Dialect(_openai_said, _openai_called),
    "openai-responses": Dialect(_openai_said, _responses_called),
    "anthropic": Dialect(_anthropic_said, _anthropic_called),
    "gemini": Dialect(_gemini_said, _gemini_called),
    "bedrock": Dialect(_bedrock_said, _bedrock_called),
    "langchain": Dialect(_langchain_said, _langchain_called),
    "otel": Dialect(_otel_said, _otel_called),
}


@dataclass(slots=True)
class _Reading:
    """What has been read so far."""

    messages: list[Message] = field(default_factory=list)
    waiting: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Where the call of each id is that has no result yet: its message, and its place in it."""
    only_called: bool = False
    """Whether the last message only called tools, and waits for its text."""

    def add(self, message: Message, ids: Sequence[str] = ()) -> None:
        joins = self.only_called and message.role is Role.ASSISTANT
        calls = (*self.messages[-1].tool_calls, *message.tool_calls) if joins else message.tool_calls
        if joins:
            earlier = self.messages.pop()
            metadata = {**earlier.metadata, **message.metadata}
            message = replace(message, tool_calls=calls, metadata=metadata)
        first = len(calls) - len(ids)
        for place, identity in enumerate(ids, first):
            if identity:
                self.waiting[identity] = (len(self.messages), place)
        self.messages.append(message)
        self.only_called = bool(calls) and not message.content

    def answer(self, data: Mapping[str, Any]) -> None:
        """Put a result into the call that it answers; one that answers none is left out."""
        identity = next((str(data[key]) for key in _ID_KEYS if data.get(key)), "")
        place = self.waiting.pop(identity, None)
        if place is None:
            return
        message, calls = self.messages[place[0]], list(self.messages[place[0]].tool_calls)
        call = replace(calls[place[1]], result=_result_text(data))
        if data.get("is_error") is True or data.get("status") == "error":
            call = replace(call, metadata={**call.metadata, CALL_ERROR: True})
        calls[place[1]] = call
        self.messages[place[0]] = replace(message, tool_calls=tuple(calls))


def _read(data: Mapping[str, Any], reading: _Reading) -> None:
    kind, role = data.get("type"), data.get("role")
    if kind in _CALL_TYPES and role is None:
        reading.add(_message(Role.ASSISTANT, "", [data], {}), _ids([data]))
        return
    if kind in _RESULT_TYPES and role is None:
        reading.answer(data)
        return
    if kind == "reasoning" and role is None:
        return  # an item of OpenAI's Responses that nobody said
    content = data.get("content", data.get("parts"))
    blocks = _blocks(content)
    if role == "tool" or (role is None and kind == "tool"):
        for answer in [block for block in blocks if block.get("type") in _RESULT_TYPES] or [data]:
            reading.answer(answer)
        return
    _read_message(data, _role(role or kind), content, blocks, reading)


def _read_message(
    data: Mapping[str, Any], role: Role, content: Any, blocks: list[Mapping[str, Any]], reading: _Reading
) -> None:
    answers = [block for block in blocks if block.get("type") in _RESULT_TYPES]
    for answer in answers:
        reading.answer(answer)
    text = _text(content)
    if answers and not text:
        return  # a message of the user that only carries results
    calls = [block for block in blocks if block.get("type") in _CALL_TYPES]
    for key in ("tool_calls", "toolCalls"):
        calls += _list(key, data.get(key) or ())
    reading.add(_message(role, text, calls, data.get("metadata") or {}), _ids(calls))


def _list(key: str, value: Any) -> Sequence[Any]:
    if isinstance(value, list | tuple):
        return value
    raise ValueError(f"{key!r} must be a list, not {quoted(value)}.")


def _message(role: Role, text: str, calls: Iterable[Any], metadata: Mapping[str, Any]) -> Message:
    made = (call if isinstance(call, ToolCall) else ToolCall.from_map(call) for call in calls)
    return Message(role, text, tool_calls=tuple(made), metadata=metadata)


def _ids(calls: Iterable[Any]) -> list[str]:
    """Return the ids of calls, "" where there is none."""
    maps = (call if isinstance(call, Mapping) else {} for call in calls)
    return [str(call.get("call_id") or call.get("id") or "") for call in maps]


def _role(role: Any) -> Role:
    found = _ROLES.get(role) if isinstance(role, str) else None
    if found is None:
        raise ValueError(f"the role must be user, assistant, system or tool, not {quoted(role)}.")
    return found


def _text(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list | tuple):
        raise ValueError(f"the content must be text or a list of parts, not {quoted(content)}.")
    said = (part if isinstance(part, str) else _said_in(part) for part in content)
    return "\n".join(text for text in said if text)


def _said_in(part: Any) -> str:
    if not isinstance(part, Mapping) or part.get("type") in _CALL_TYPES | _RESULT_TYPES:
        return ""
    value = part.get("text", part.get("content"))
    return value if isinstance(value, str) else ""


def _result_text(data: Mapping[str, Any]) -> str | None:
    value = next((data[key] for key in ("content", "output", "result", "response") if key in data), None)
    blocks = _blocks(value)
    if blocks and all("text" in block for block in blocks):
        return _text(value)
    return text_form(value)


def _blocks(content: Any) -> list[Mapping[str, Any]]:
    if not isinstance(content, list | tuple):
        return []
    return [block for block in content if isinstance(block, Mapping)]
