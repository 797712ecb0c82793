"""Reading messages as providers, frameworks and spans write them, into one neutral form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias, TypeGuard

from dokimos.core.json_object import structured
from dokimos.core.text import quote
from dokimos.messages.neutral import NeutralMessage, NeutralResult
from dokimos.messages.parts import (
    ASIDES,
    RESULT_KEYS,
    Draft,
    first,
    has_results,
    is_of_assistant,
    is_part,
    is_said,
    read_call,
    read_part,
    sequence,
    text_in,
)

PlainCall: TypeAlias = tuple[str, str, str]
"""The name of a tool, the text of its arguments, and the id of the call."""

_ROLES: Final = {
    "user": "user",
    "assistant": "assistant",
    "system": "system",
    "tool": "tool",
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
_SPEAKERS: Final = ("assistant", "user", "system")
_WRAPPERS: Final = ("messages", "message", "choices", "output", "kwargs", "data")
_CALL_LISTS: Final = ("tool_calls", "toolCalls", "invalid_tool_calls")


def read_message(data: Mapping[str, Any]) -> list[NeutralMessage]:
    """Read a message, an item or a part: one message, and one before it for each result that it has.

    Raises `ValueError` for what is none.
    """
    plain = plain_message(data)
    if plain is not None:
        return [plain]
    found: list[NeutralMessage] = []
    _read_map(data, "", found, True)
    return found


def plain_message(data: Any) -> NeutralMessage | None:
    """Read a text or a result told the way most are, which is fast; None for any other message."""
    if type(data) is not dict or type(content := data.get("content")) is not str:
        return None
    size, role = len(data), data.get("role")
    if size == 2 and role in _SPEAKERS:
        return NeutralMessage(role, content)
    if size == 3 and role == "tool" and type(identity := data.get("tool_call_id")) is str:
        return NeutralMessage("tool", result=NeutralResult(content, identity))
    return None


def plain_calls(data: Any) -> list[PlainCall] | None:
    """Read a message that only calls functions, told the way most are; None for any other."""
    if type(data) is not dict or len(data) != 3 or data.get("content", True):
        return None
    found = []
    try:
        for call in data["tool_calls"]:
            function, identity = call["function"], call["id"]
            name, arguments = function["name"], function["arguments"]
            if not (type(name) is type(arguments) is type(identity) is str) or not name or len(call) > 3:
                return None
            found.append((name, arguments, identity))
    except (KeyError, TypeError):
        return None
    return found if data.get("role") == "assistant" else None


def read_recorded(value: Any, role: str) -> list[NeutralMessage]:
    """Read what a span holds: messages, one message or its text, as structures or as JSON text.

    What does not say whose it is has the role. What cannot be understood is left out; nothing raises.
    """
    found: list[NeutralMessage] = []
    _read(value, role, found)
    return found


def _read(value: Any, role: str, found: list[NeutralMessage]) -> None:
    if isinstance(value, str):
        if value.strip():
            found.append(NeutralMessage(role, value))
    elif isinstance(value, dict):
        _read_map(value, role, found, False)
    elif isinstance(value, list | tuple):
        if value and all(is_part(element) for element in value):
            _read_message({"content": value}, role, found, False)
            return
        for element in value:
            _read(structured(element), role, found)


def _read_map(value: Mapping[str, Any], role: str, found: list[NeutralMessage], strict: bool) -> None:
    """Look into the wrappers that libraries put around messages."""
    if "role" not in value or "message" in value:
        inner = value.get("message")
        if isinstance(inner, dict):
            value = {"role": value["role"], **inner} if "role" in value else inner
    if "role" in value:
        _read_message(value, role, found, strict)
    elif is_part(value) and not (strict and is_said(value)):
        draft = Draft(strict)
        read_part(value, draft)
        found.extend(draft.finished("assistant" if is_of_assistant(value) else role, {}))
    elif strict:
        if value.get("type") not in ASIDES:
            _read_message(value, role, found, strict)
    else:
        _read_wrapped(value, role, found)


def _read_wrapped(value: Mapping[str, Any], role: str, found: list[NeutralMessage]) -> None:
    for key in _WRAPPERS:
        inner = value.get(key)
        if isinstance(inner, dict | list | tuple) or (key == "message" and isinstance(inner, str)):
            _read(structured(inner), _role(value.get("role") or value.get("type"), role), found)
            return
    _read_message(value, role, found, False)


def _read_message(data: Mapping[str, Any], role: str, found: list[NeutralMessage], strict: bool) -> None:
    named = data.get("role") or data.get("type")
    role = _role(named, role)
    content = data.get("content")
    if not content:
        content = data.get("parts") or data.get("contents") or content
    if strict:
        _check(data, role, named, content)
    if len(data) == 2 and _is_plain(content, strict) and role != "tool" and named != "thinking":
        found.append(NeutralMessage(role, content))
        return
    draft = Draft(strict)
    _read_into(draft, data, role, named, content)
    metadata = data.get("metadata")
    told = draft.finished(role, metadata if isinstance(metadata, dict) else {})
    found.extend(told if told or not strict else [NeutralMessage(role)])


def _read_into(draft: Draft, data: Mapping[str, Any], role: str, named: Any, content: Any) -> None:
    if role == "tool" and not has_results(content if draft.strict else structured(content)):
        draft.add_result(data, content if content is not None else first(data, RESULT_KEYS))
    elif named == "thinking":
        draft.reasoning.append(text_in(content))
    else:
        _read_content(content, draft)
    for key in _CALL_LISTS:
        calls = data.get(key)
        for call in sequence(calls if draft.strict else structured(calls)) if calls else ():
            read_call(call, draft)
    if isinstance(data.get("function_call"), dict):
        read_call(data["function_call"], draft)
    reasoning = data.get("reasoning_content") or data.get("reasoning")
    if isinstance(reasoning, str):
        draft.reasoning.append(reasoning)
    if not content and isinstance(data.get("refusal"), str):
        draft.texts.append(data["refusal"])


def _read_content(content: Any, draft: Draft) -> None:
    if isinstance(content, str):
        if draft.strict or not _looks_like_parts(content):
            if content.strip() or draft.strict:
                draft.texts.append(content)
            return
        content = structured(content)
    for part in sequence(content):
        read_part(part, draft)


def _check(data: Mapping[str, Any], role: str, named: Any, content: Any) -> None:
    """Raise `ValueError` for a message that nobody can have meant."""
    if not role or role not in _ROLES:
        raise ValueError(f"the role must be user, assistant, system or tool, not {quote(named)}.")
    if role != "tool" and not (content is None or isinstance(content, str | list | tuple)):
        raise ValueError(f"the content must be text or a list of parts, not {quote(content)}.")
    for key in _CALL_LISTS:
        if not isinstance(data.get(key) or (), list | tuple):
            raise ValueError(f"{key!r} must be a list, not {quote(data[key])}.")


def _role(named: Any, otherwise: str) -> str:
    return _ROLES.get(named, otherwise) if isinstance(named, str) else otherwise


def _is_plain(content: Any, strict: bool) -> TypeGuard[str]:
    return type(content) is str and (strict or not (content.startswith("[{") or content.isspace()))


def _looks_like_parts(content: str) -> bool:
    """Say whether text is a list of parts rather than JSON that somebody said."""
    if not content.startswith("[{"):
        return False
    parts = structured(content)
    return isinstance(parts, list) and all(is_part(part) or _is_wrapped(part) for part in parts)


def _is_wrapped(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("message_content"), dict)
