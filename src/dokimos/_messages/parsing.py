"""Parse messages as providers, frameworks and spans write them, and normalize them to neutral messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias, TypeGuard

from dokimos._core.json_object import parse_if_container
from dokimos._core.text import quote
from dokimos._messages.neutral import NeutralCall, NeutralMessage, NeutralResult
from dokimos._messages.parts import (
    ASIDES,
    RESULT_KEYS,
    Draft,
    as_sequence,
    extract_text,
    first_value,
    has_results,
    is_assistant_part,
    is_part,
    is_text_part,
    parse_call,
    parse_part,
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


def parse_message(data: Mapping[str, Any]) -> list[NeutralMessage]:
    """Parse a message, an item or a part into one message, preceded by one for each tool result in it.

    Raises `ValueError` for anything else.
    """
    plain = parse_plain_message(data)
    if plain is not None:
        return [plain]
    messages: list[NeutralMessage] = []
    _parse_map(data, "", messages, True)
    return messages


def parse_plain_message(data: object) -> NeutralMessage | None:
    """Parse a plain text or result message, the most common form, fast; None for any other message."""
    if type(data) is not dict or type(content := data.get("content")) is not str:
        return None
    # The number of keys says that there is nothing else in it to be lost.
    size, role = len(data), data.get("role")
    if size == 2 and role in _SPEAKERS:
        return NeutralMessage(role, content)
    if size == 3 and role == "tool" and type(call_id := data.get("tool_call_id")) is str:
        return NeutralMessage("tool", result=NeutralResult(content, call_id))
    return None


def parse_plain_calls(data: object) -> list[PlainCall] | None:
    """Parse a message that only calls functions, in the most common form, fast; None for any other."""
    if type(data) is not dict or len(data) != 3 or data.get("content", True):
        return None
    messages = []
    try:
        for call in data["tool_calls"]:
            function, call_id = call["function"], call["id"]
            name, arguments = function["name"], function["arguments"]
            if not (type(name) is type(arguments) is type(call_id) is str) or not name or len(call) > 3:
                return None
            messages.append((name, arguments, call_id))
    except (KeyError, TypeError):
        return None
    return messages if data.get("role") == "assistant" else None


def _parse_parts_message(data: Mapping[str, Any]) -> list[NeutralMessage] | None:
    """Parse a message of the GenAI conventions: texts and calls, or results; None for any other."""
    parts, role = data.get("parts"), data.get("role")
    spoken = _ROLES.get(role) if type(role) is str and role != "thinking" else None
    # The number of keys says that there is nothing else in a message or a part to be lost.
    if type(parts) is not list or spoken is None or len(data) != (3 if "finish_reason" in data else 2):
        return None
    if spoken == "tool":
        return _parse_result_parts(parts)
    if len(parts) == 1 and (text := _parse_text_part(parts[0])) is not None:
        return [NeutralMessage(spoken, text)] if text else []
    texts, calls = [], []
    for part in parts:
        if type(part) is not dict:
            return None
        if len(part) == 4 and part.get("type") == "tool_call" and "arguments" in part:
            name, call_id = part.get("name"), part.get("id")
            if type(name) is not str or type(call_id) is not str or not name.strip():
                return None
            calls.append(NeutralCall(name, part["arguments"], call_id))
        elif (text := _parse_text_part(part)) is not None:
            texts.append(text)
        else:
            return None
    text = "\n".join(filter(None, texts))
    if calls:
        return [NeutralMessage("assistant", text, tuple(calls))]
    return [NeutralMessage(spoken, text)] if text else []


def find_spoken_text(value: object) -> str | None:
    """Return the text of the one message in a list, "" for one that only calls tools.

    It is that of what `parse_recorded_messages` returns, for a quarter of its time. None where that has to be
    asked: for any other form than the most common one of the GenAI conventions.
    """
    data = value[0] if type(value) is list and len(value) == 1 else None
    if type(data) is not dict or len(data) != (3 if "finish_reason" in data else 2):
        return None
    parts, role = data.get("parts"), data.get("role")
    if type(parts) is not list or role not in _SPEAKERS:
        return None
    text, has_calls = "", False
    for part in parts:
        kind = part.get("type") if type(part) is dict else None
        if kind == "tool_call" and len(part) == 4 and "arguments" in part:
            name = part.get("name")
            if type(name) is not str or type(part.get("id")) is not str or not name.strip():
                return None
            has_calls = True
        elif kind == "text" and len(part) == 2 and type(said := part.get("content")) is str:
            text = f"{text}\n{said}" if text and said else text or said
        else:
            return None
    return text if text or has_calls else None


def _parse_text_part(part: object) -> str | None:
    """Return the text of a part that is nothing else."""
    if type(part) is not dict or len(part) != 2 or part.get("type") != "text":
        return None
    text = part.get("content")
    return text if type(text) is str else None


def _parse_result_parts(parts: list[Any]) -> list[NeutralMessage] | None:
    messages = []
    for part in parts:
        if type(part) is not dict or part.get("type") != "tool_call_response" or len(part) != 3:
            return None
        value, call_id = part.get("response", part.get("result")), part.get("id")
        if value is None or type(call_id) is not str:
            return None
        messages.append(NeutralMessage("tool", result=NeutralResult(value, call_id)))
    return messages or None


def parse_recorded_messages(value: object, role: str) -> list[NeutralMessage]:
    """Parse what a span recorded: messages, one message or its text, as structures or as JSON text.

    A message without a role gets `role`. What cannot be parsed is skipped; nothing raises.
    """
    if type(value) is list and len(value) == 1:
        element = value[0]
        value = element if type(element) is dict and "role" in element else value
    parsed = _parse_parts_message(value) if type(value) is dict else None
    if parsed is not None:
        return parsed
    messages: list[NeutralMessage] = []
    _parse_value(value, role, messages)
    return messages


def _parse_value(value: object, role: str, messages: list[NeutralMessage]) -> None:
    if isinstance(value, str):
        if value.strip():
            messages.append(NeutralMessage(role, value))
    elif isinstance(value, dict):
        parsed = _parse_parts_message(value)
        if parsed is None:
            _parse_map(value, role, messages, False)
        else:
            messages += parsed
    elif isinstance(value, list | tuple):
        if value and all(is_part(element) for element in value):
            _parse_message({"content": value}, role, messages, False)
            return
        for element in value:
            _parse_value(parse_if_container(element), role, messages)


def _parse_map(value: Mapping[str, Any], role: str, messages: list[NeutralMessage], strict: bool) -> None:
    """Look into the wrappers that libraries put around messages."""
    # Choices of chat completions, and some frameworks, hold the message inside `message`.
    if "role" not in value or "message" in value:
        inner = value.get("message")
        if isinstance(inner, dict):
            value = {"role": value["role"], **inner} if "role" in value else inner
    if "role" in value:
        _parse_message(value, role, messages, strict)
    elif is_part(value) and not (strict and is_text_part(value)):
        draft = Draft(strict)
        parse_part(value, draft)
        messages.extend(draft.finish("assistant" if is_assistant_part(value) else role, {}))
    elif strict:
        if value.get("type") not in ASIDES:
            _parse_message(value, role, messages, strict)
    else:
        _parse_wrapped(value, role, messages)


def _parse_wrapped(value: Mapping[str, Any], role: str, messages: list[NeutralMessage]) -> None:
    for key in _WRAPPERS:
        inner = value.get(key)
        if isinstance(inner, dict | list | tuple) or (key == "message" and isinstance(inner, str)):
            _parse_value(
                parse_if_container(inner),
                _normalize_role(value.get("role") or value.get("type"), role),
                messages,
            )
            return
    _parse_message(value, role, messages, False)


def _parse_message(data: Mapping[str, Any], role: str, messages: list[NeutralMessage], strict: bool) -> None:
    named = data.get("role") or data.get("type")
    role = _normalize_role(named, role)
    content = data.get("content")
    if not content:
        content = data.get("parts") or data.get("contents") or content
    if strict:
        _check_message(data, role, named, content)
    if len(data) == 2 and _is_plain(content, strict) and role != "tool" and named != "thinking":
        messages.append(NeutralMessage(role, content))
        return
    draft = Draft(strict)
    _fill_draft(draft, data, role, named, content)
    metadata = data.get("metadata")
    finish = draft.finish(role, metadata if isinstance(metadata, dict) else {})
    messages.extend(finish if finish or not strict else [NeutralMessage(role)])


def _fill_draft(draft: Draft, data: Mapping[str, Any], role: str, named: object, content: object) -> None:
    if role == "tool" and not has_results(content if draft.strict else parse_if_container(content)):
        draft.add_result(data, content if content is not None else first_value(data, RESULT_KEYS))
    elif named == "thinking":
        draft.reasoning.append(extract_text(content))
    else:
        _parse_content(content, draft)
    _parse_calls(data, draft)
    reasoning = data.get("reasoning_content") or data.get("reasoning")
    if isinstance(reasoning, str):
        draft.reasoning.append(reasoning)
    if not content and isinstance(data.get("refusal"), str):
        draft.texts.append(data["refusal"])


def _parse_calls(data: Mapping[str, Any], draft: Draft) -> None:
    for key in _CALL_LISTS:
        calls = data.get(key)
        for call in as_sequence(calls if draft.strict else parse_if_container(calls)) if calls else ():
            parse_call(call, draft)
    # The single call of Chat Completions before there were tools, which many data sets still have.
    if isinstance(data.get("function_call"), dict):
        parse_call(data["function_call"], draft)


def _parse_content(content: object, draft: Draft) -> None:
    if isinstance(content, str):
        if draft.strict or not _looks_like_parts(content):
            if content.strip() or draft.strict:
                draft.texts.append(content)
            return
        content = parse_if_container(content)
    for part in as_sequence(content):
        parse_part(part, draft)


def _check_message(data: Mapping[str, Any], role: str, named: object, content: object) -> None:
    """Raise `ValueError` for a message with an invalid role, content or list of calls."""
    if not role or role not in _ROLES:
        raise ValueError(f"the role must be user, assistant, system or tool, not {quote(named)}.")
    if role != "tool" and not (content is None or isinstance(content, str | list | tuple)):
        raise ValueError(f"the content must be text or a list of parts, not {quote(content)}.")
    for key in _CALL_LISTS:
        if not isinstance(data.get(key) or (), list | tuple):
            raise ValueError(f"{key!r} must be a list, not {quote(data[key])}.")


def _normalize_role(named: object, otherwise: str) -> str:
    return _ROLES.get(named, otherwise) if isinstance(named, str) else otherwise


def _is_plain(content: object, strict: bool) -> TypeGuard[str]:
    # Spans record a list of parts as JSON text; in a message that somebody passes, such a text was said.
    return type(content) is str and (strict or not (content.startswith("[{") or content.isspace()))


def _looks_like_parts(content: str) -> bool:
    """Say whether text is a list of parts rather than JSON that somebody said."""
    if not content.startswith("[{"):
        return False
    parts = parse_if_container(content)
    return isinstance(parts, list) and all(is_part(part) or _is_wrapped(part) for part in parts)


def _is_wrapped(part: object) -> bool:
    return isinstance(part, dict) and isinstance(part.get("message_content"), dict)
