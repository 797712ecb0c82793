"""Messages as spans hold them, in the shapes of all conventions, providers and frameworks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

from dokimos.core.jsonable import text_form
from dokimos.core.quick_init import quick_init
from dokimos.traces.attributes import FlatMemory, structured

_ROLES: Final = {
    "human": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "thinking": "assistant",
    "developer": "system",
    "function": "tool",
    "ipython": "tool",
}
_WRAPPERS: Final = ("messages", "message", "choices", "output", "kwargs", "data")
_KNOWN_ROLES: Final = frozenset({"user", "assistant", "system", "tool"})
_CALL_KEYS: Final = ("arguments", "args", "input", "server_tool_call")
_CALL_IDS: Final = ("call_id", "toolUseId", "tool_call_id", "id")
_RESULT_IDS: Final = ("tool_call_id", "tool_use_id", "toolUseId", "call_id", "id")
_RESULT_KEYS: Final = ("response", "result", "output", "content", "server_tool_call_response")
_TEXT_KEYS: Final = ("content", "text", "thinking", "reasoning", "summary", "refusal")


@quick_init
@dataclass(frozen=True, slots=True)
class TracedCall:
    """A tool that a model asked for."""

    name: str
    arguments: Any = None
    """A map, JSON text, or whatever else was recorded."""
    id: str = ""


@quick_init
@dataclass(frozen=True, slots=True)
class TracedResult:
    """What a model was told that a tool returned."""

    value: Any
    id: str = ""
    name: str = ""
    failed: bool = False


@quick_init
@dataclass(frozen=True, slots=True)
class TracedMessage:
    """What was said in one step; a message of the role `tool` has one result."""

    role: str
    text: str = ""
    calls: tuple[TracedCall, ...] = ()
    result: TracedResult | None = None
    reasoning: tuple[str, ...] = ()


@dataclass(slots=True)
class History:
    """What was read last: what the spans of a trace tell again and again is read only once."""

    told: list[Any] = field(default_factory=list)
    found: list[list[TracedMessage]] = field(default_factory=list)
    flat: FlatMemory = field(default_factory=FlatMemory)

    def read(self, told: list[Any], role: str) -> list[TracedMessage]:
        """Read messages, of which the first may be known."""
        known = len(self.told)
        if told[:known] != self.told:
            self.found, known = [], 0
        for element in told[known:]:
            found: list[TracedMessage] = []
            _read(structured(element), role, found)
            self.found.append(found)
        self.told = told
        return [message for found in self.found for message in found]


def parse_messages(
    value: Any, role: str = "user", *, choices: bool = False, history: History | None = None
) -> tuple[TracedMessage, ...]:
    """Read messages: JSON text or structures, a list or one alone; plain text is a message of `role`.

    What the assistant says and calls in one go is one message, however many it was told in, unless they are
    `choices` between answers. What cannot be understood is left out; nothing raises. `history` serves one
    role only.
    """
    found: list[TracedMessage] = []
    content = structured(value)
    if history is not None and content and type(content) is list and not _is_part(content[0]):
        found = history.read(content, role)
    else:
        _read(content, role, found)
    if not found and content and isinstance(value, str) and value.strip():
        found = [TracedMessage(role, value)]  # JSON that somebody said
    return tuple(found) if choices else _joined(found)


def text_of(value: Any) -> str:
    """Return the text in a value that may be text, a message, or a list of parts."""
    return "\n".join(message.text for message in parse_messages(value) if message.text)


def _read(value: Any, role: str, found: list[TracedMessage]) -> None:
    if isinstance(value, str):
        if value.strip():
            found.append(TracedMessage(role, value))
    elif isinstance(value, dict):
        _read_map(value, role, found)
    elif isinstance(value, list | tuple):
        if value and all(_is_part(element) for element in value):
            _read_message({"content": value}, role, found)
            return
        for element in value:
            _read(structured(element), role, found)


def _read_map(value: Mapping[str, Any], role: str, found: list[TracedMessage]) -> None:
    """Look into the wrappers that libraries put around messages."""
    inner = value.get("message")
    if isinstance(inner, dict):
        value = {"role": value["role"], **inner} if "role" in value else inner
    if "role" in value:
        _read_message(value, role, found)
        return
    if _is_part(value):
        _read_message({"content": [value]}, _role_of_part(value, role), found)
        return
    for key in _WRAPPERS:
        inner = value.get(key)
        if isinstance(inner, dict | list | tuple) or (key == "message" and isinstance(inner, str)):
            _read(structured(inner), _role(value.get("role") or value.get("type"), role), found)
            return
    _read_message(value, role, found)


def _is_part(value: Any) -> bool:
    return isinstance(value, dict) and "role" not in value and _part_reader(value) is not None


def _role_of_part(part: Mapping[str, Any], role: str) -> str:
    return "assistant" if _part_reader(part) in (_read_call, _read_function, _read_reasoning) else role


@dataclass(slots=True)
class _Draft:
    """A message while its parts are read."""

    texts: list[str] = field(default_factory=list)
    calls: list[TracedCall] = field(default_factory=list)
    results: list[TracedResult] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)

    def finished(self, role: str) -> Iterable[TracedMessage]:
        """Yield results first, each as a message of its own, then what was said."""
        for result in self.results:
            yield TracedMessage("tool", result=result)
        text = "\n".join(self.texts)
        if text or self.calls or self.reasoning:
            spoken = "assistant" if self.calls or self.reasoning else role
            yield TracedMessage(spoken, text, tuple(self.calls), reasoning=tuple(self.reasoning))


def _read_message(data: Mapping[str, Any], role: str, found: list[TracedMessage]) -> None:
    named = data.get("role") or data.get("type")
    role = _role(named, role)
    content = data.get("parts") or data.get("contents") or data.get("content")
    if len(data) == 2 and _is_plain(content) and role != "tool" and named != "thinking":
        found.append(TracedMessage(role, content))
        return
    draft = _Draft()
    if role == "tool" and not _has_results(content):
        draft.results.append(_result(data, content if content is not None else _first(data, _RESULT_KEYS)))
    elif named == "thinking":
        draft.reasoning.append(_text(content))
    else:
        _read_content(content, draft)
    for call in _sequence(structured(data.get("tool_calls"))):
        _read_call_of_message(call, draft)
    if isinstance(data.get("function_call"), dict):
        _read_call(data["function_call"], draft)
    reasoning = data.get("reasoning_content")
    if isinstance(reasoning, str) and reasoning:
        draft.reasoning.append(reasoning)
    found.extend(draft.finished(role))


def _is_plain(content: Any) -> TypeGuard[str]:
    return type(content) is str and not content.startswith("[{") and not content.isspace()


def _role(named: Any, otherwise: str) -> str:
    role = _ROLES.get(str(named), str(named))
    return role if role in _KNOWN_ROLES else otherwise


def _has_results(content: Any) -> bool:
    return any(
        isinstance(part, dict) and _part_reader(part) in (_read_result, _read_function_response)
        for part in _sequence(structured(content))
    )


def _read_content(content: Any, draft: _Draft) -> None:
    content = structured(content) if _looks_like_parts(content) else content
    if isinstance(content, str):
        if content.strip():
            draft.texts.append(content)
        return
    for part in _sequence(content):
        if isinstance(part, str):
            draft.texts.append(part)
        elif isinstance(part, dict):
            part = part.get("message_content", part)
            reader = _part_reader(part) if isinstance(part, dict) else None
            if reader is not None:
                reader(part, draft)


def _looks_like_parts(content: Any) -> bool:
    """Say whether text is a list of parts rather than JSON that somebody said."""
    if not isinstance(content, str) or not content.startswith("[{"):
        return False
    parts = structured(content)
    return isinstance(parts, list) and all(
        isinstance(part, dict) and _part_reader(part) is not None for part in parts
    )


def _sequence(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        return (value,)
    return value if isinstance(value, list | tuple) else ()


def _first(data: Mapping[str, Any], keys: Iterable[str]) -> Any:
    """Return the first value that is there, also a blank one."""
    for key in keys:
        value = data.get(key)
        if value is not None:
            return value
    return None


def _read_text(part: Mapping[str, Any], draft: _Draft) -> None:
    text = _first(part, ("content", "text"))
    if isinstance(text, str) and text:
        draft.texts.append(text)


def _read_reasoning(part: Mapping[str, Any], draft: _Draft) -> None:
    inner = part.get("reasoningContent")
    if isinstance(inner, dict):
        part = inner.get("reasoningText", inner)
    text = _text(_first(part, _TEXT_KEYS))
    if text:
        draft.reasoning.append(text)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    parts = (part if isinstance(part, str) else _text_in(part) for part in _sequence(value))
    return "\n".join(text for text in parts if text)


def _text_in(part: Any) -> str:
    value = _first(part, _TEXT_KEYS) if isinstance(part, dict) else None
    return value if isinstance(value, str) else ""


def _read_call_of_message(call: Any, draft: _Draft) -> None:
    if not isinstance(call, dict):
        return
    call = call.get("tool_call", call)
    (_read_function if isinstance(call.get("function"), dict) else _read_call)(call, draft)


def _read_function(call: Mapping[str, Any], draft: _Draft) -> None:
    function = call["function"]
    identity = str(_first(call, _CALL_IDS) or "")
    _add_call(draft, function.get("name"), _first(function, _CALL_KEYS), identity)


def _read_call(call: Mapping[str, Any], draft: _Draft) -> None:
    call = next((call[key] for key in _WRAPPED_CALLS if isinstance(call.get(key), dict)), call)
    arguments = _first(call, _CALL_KEYS)
    served = call.get("server_tool_call")
    if isinstance(served, dict) and arguments is served:
        arguments = {key: value for key, value in served.items() if key != "type"}
    _add_call(draft, call.get("name"), arguments, str(_first(call, _CALL_IDS) or ""))


def _add_call(draft: _Draft, name: Any, arguments: Any, identity: str) -> None:
    if isinstance(name, str) and name.strip():
        draft.calls.append(TracedCall(name, arguments, identity))


def _read_result(part: Mapping[str, Any], draft: _Draft) -> None:
    part = part["toolResult"] if isinstance(part.get("toolResult"), dict) else part
    draft.results.append(_result(part, _first(part, _RESULT_KEYS)))


def _read_function_response(part: Mapping[str, Any], draft: _Draft) -> None:
    inner = _first(part, ("functionResponse", "function_response")) or {}
    draft.results.append(_result(inner, inner.get("response")))


def _result(data: Mapping[str, Any], value: Any) -> TracedResult:
    failed = data.get("is_error") is True or data.get("status") == "error"
    identity, name = str(_first(data, _RESULT_IDS) or ""), data.get("name")
    return TracedResult(value, identity, name if isinstance(name, str) else "", failed)


_NO_PARTS: Final = frozenset({"content", "tool_calls", "message", "messages"})
_WRAPPED_CALLS: Final = ("toolUse", "functionCall", "function_call")

_PartReader = Callable[[Mapping[str, Any], _Draft], None]

_READERS_BY_TYPE: Final[dict[str, _PartReader]] = {
    "text": _read_text,
    "input_text": _read_text,
    "output_text": _read_text,
    "reasoning": _read_reasoning,
    "thinking": _read_reasoning,
    "tool_call": _read_call,
    "tool_use": _read_call,
    "server_tool_use": _read_call,
    "server_tool_call": _read_call,
    "function_call": _read_call,
    "function": _read_function,
    "tool_call_response": _read_result,
    "server_tool_call_response": _read_result,
    "tool_result": _read_result,
    "function_call_output": _read_result,
}
_READERS_BY_KEY: Final[dict[str, _PartReader]] = {
    "toolUse": _read_call,
    "functionCall": _read_call,
    "function_call": _read_call,
    "toolResult": _read_result,
    "functionResponse": _read_function_response,
    "function_response": _read_function_response,
    "reasoningContent": _read_reasoning,
    "text": _read_text,
}


def _part_reader(part: Mapping[str, Any]) -> _PartReader | None:
    """Return what reads a part: by its type, or by the key that tells what it is."""
    kind = part.get("type")
    if isinstance(kind, str):
        reader = _READERS_BY_TYPE.get(kind)
        if reader is not _read_function or isinstance(part.get("function"), dict):
            return reader
        return None
    inner = part.get("message_content")
    if isinstance(inner, dict):
        return _part_reader(inner)
    if not _NO_PARTS.isdisjoint(part):
        return None
    for key, reader in _READERS_BY_KEY.items():
        if part.get(key):
            return reader
    return None


def _joined(messages: Sequence[TracedMessage]) -> tuple[TracedMessage, ...]:
    joined: list[TracedMessage] = []
    for message in messages:
        last = joined[-1] if joined else None
        if last is not None and last.role == message.role == "assistant":
            texts = [text for text in (last.text, message.text) if text]
            joined[-1] = TracedMessage(
                "assistant",
                "\n".join(texts),
                last.calls + message.calls,
                reasoning=last.reasoning + message.reasoning,
            )
        else:
            joined.append(message)
    return tuple(joined)


def result_text(value: Any) -> str | None:
    """Return what a tool returned as text; a structure, also one told as JSON text, as compact JSON."""
    value = structured(value)
    parts = _sequence(value)
    if parts and all(isinstance(part, dict) and _part_reader(part) is _read_text for part in parts):
        value = structured("\n".join(_text_in(part) for part in parts))
    return text_form(value)
