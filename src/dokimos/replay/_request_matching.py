"""Finds the recorded call that a request repeats, or says where the closest one first differs."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple

from dokimos._core.json_object import parse_if_container
from dokimos._core.jsonable import jsonable
from dokimos._core.text import quote
from dokimos._core.tool_definition import ToolDefinition
from dokimos._messages.neutral import NeutralCall, NeutralMessage, format_result
from dokimos.replay._recordings import RecordedModelCall
from dokimos.traces._span_messages import parse_messages

_BEFORE: Final = 20
"""Characters that are shown before the first that differs."""
_LONGEST: Final = 4_000
"""Characters of a text that are compared to find the most similar one."""


class MessageKey(NamedTuple):
    """What has to be the same in two messages; ids of calls are not."""

    role: str
    text: str
    calls: tuple[tuple[str, str], ...]
    """Names and arguments, the latter as canonical JSON."""
    result: str | None

    def describe(self) -> str:
        """Return what a reader recognizes the message by."""
        calls = ", ".join(f"{name}({arguments})" for name, arguments in self.calls)
        return " ".join(part for part in (self.text, calls, self.result or "") if part)


RequestKey = tuple[MessageKey, ...]


def key_of(messages: Sequence[Mapping[str, Any]]) -> RequestKey:
    """Normalize messages of any provider's form, recorded or sent."""
    return tuple(map(_key_of_message, parse_messages(list(messages))))


def _key_of_message(message: NeutralMessage) -> MessageKey:
    return MessageKey(
        message.role,
        message.text.strip(),
        tuple((call.name, _canonical_arguments(call)) for call in message.calls),
        None if message.result is None else canonical_json(format_result(message.result.value)),
    )


def _canonical_arguments(call: NeutralCall) -> str:
    return canonical_json(call.arguments or {})


def canonical_json(value: object) -> str:
    """Return a value, or the JSON text of one, in a form without white space and with sorted keys."""
    tree = parse_if_container(value)
    if isinstance(tree, str):
        return tree.strip()
    return json.dumps(jsonable(tree), ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def read_tools(described: object) -> list[ToolDefinition]:
    """Return the tools that a request offers, without those that have no name."""
    tools = []
    for each in described if isinstance(described, list | tuple) else ():
        try:
            tools.append(each if isinstance(each, ToolDefinition) else ToolDefinition.from_map(each))
        except (AttributeError, TypeError, ValueError):
            continue  # a tool of the provider's own
    return tools


def find_tool_difference(
    recorded: Sequence[ToolDefinition] | None, offered: Sequence[ToolDefinition]
) -> str | None:
    """Say how the tools of a request differ from the recorded ones, None where they are the same.

    Descriptions and schemas that were not recorded are not compared.
    """
    if recorded is None:
        return None
    before, now = ({tool.name: tool for tool in tools} for tools in (recorded, offered))
    if before.keys() != now.keys():
        return f"it offered the tools {quote(sorted(before))}, the request offers {quote(sorted(now))}"
    for name, tool in before.items():
        if tool.description and tool.description.strip() != now[name].description.strip():
            parts = describe_difference(tool.description, now[name].description)
            return f"the description of the tool {name!r} differs: {parts}"
        if tool.input_schema:
            schemas = [canonical_json(each.input_schema) for each in (tool, now[name])]
            if schemas[0] != schemas[1]:
                return f"the schema of the tool {name!r} differs: {describe_difference(*schemas)}"
    return None


def describe_difference(recorded: str, requested: str) -> str:
    """Return two texts from shortly before their first difference."""
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(recorded, requested, strict=False)))
    start = max(0, same - _BEFORE)
    mark = "..." if start else ""
    return f"recorded {quote(mark + recorded[start:])}, requested {quote(mark + requested[start:])}"


def find_closest(
    request: RequestKey, keys: Sequence[RequestKey], calls: Sequence[RecordedModelCall]
) -> int | None:
    """Return the recorded call that shares most messages with a request, then the most similar next one."""

    def closeness(index: int) -> tuple[int, float]:
        shared = count_shared(request, keys[index])
        nexts = [(key[shared].describe() if shared < len(key) else "") for key in (request, keys[index])]
        requested, recorded = (text[:_LONGEST] for text in nexts)
        return shared, difflib.SequenceMatcher(None, requested, recorded, autojunk=False).quick_ratio()

    # The earliest of equals: a repeated request is answered in order.
    return max(range(len(calls)), key=lambda index: (*closeness(index), -index), default=None)


def count_shared(first: RequestKey, second: RequestKey) -> int:
    """Return how many messages both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))


def describe_request_difference(recorded: RequestKey, requested: RequestKey) -> str:
    """Say where two requests first differ."""
    place = count_shared(recorded, requested)
    if place == len(recorded):
        return f"it ends after {place} messages, the request goes on with {_show(requested[place])}"
    if place == len(requested):
        return f"the request ends after {place} messages, it goes on with {_show(recorded[place])}"
    before, now = recorded[place], requested[place]
    if before.role != now.role:
        return f"message {place + 1} differs: recorded {_show(before)}, requested {_show(now)}"
    parts = describe_difference(before.describe(), now.describe())
    return f"message {place + 1} ({before.role}) differs: {parts}"


def _show(message: MessageKey) -> str:
    return f"{message.role}: {quote(message.describe())}"
