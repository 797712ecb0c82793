"""A request of an agent to its model in its canonical form: what makes two requests the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from dokimos._core.jsonable import jsonable
from dokimos.integrations._framework_objects import get

_VOLATILE: Final = frozenset(
    {
        "conversation_id",
        "id",
        "metadata",
        "provider_details",
        "provider_name",
        "run_id",
        "signature",
        "timestamp",
    }
)
"""Fields of messages that change from run to run, or that the model is not shown."""
_UNASKED: Final = frozenset({"max_retries", "request_timeout", "timeout"})
"""Settings that change no reply."""
_encode: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, default=str).encode


def canonical_request(messages: Iterable[Any], settings: Mapping[str, Any] | None, parameters: object) -> str:
    """Return a request as lines of JSON: settings, output, tools, then the parts of all messages.

    Ids of calls are numbered in their order, and the bytes of a file are given by their hash.
    """
    return "\n".join(_lines(messages, settings or {}, parameters))


def _lines(messages: Iterable[Any], settings: Mapping[str, Any], parameters: object) -> Iterator[str]:
    relevant = {key: value for key, value in settings.items() if key not in _UNASKED}
    if relevant:
        yield f"settings: {_encode(jsonable(relevant))}"
    for tool in get(parameters, "function_tools", default=()):
        yield f"tool: {_encode(_tool(tool))}"
    yield from _output(parameters)
    ids = _Ids()
    instructions_so_far = None
    for message in messages:
        instructions = get(message, "instructions")
        # The framework repeats them in every request of a conversation.
        if instructions is not None and instructions != instructions_so_far:
            instructions_so_far = instructions
            yield f"instructions: {_encode(instructions)}"
        for part in message.parts:
            yield f"{part.part_kind}: {_encode(_part(part, ids))}"


def _tool(tool: Any) -> dict[str, Any]:
    fields = {"name": tool.name, "description": tool.description, "schema": tool.parameters_json_schema}
    return {**fields, "deferred": True} if get(tool, "defer_loading") else fields


def _output(parameters: object) -> Iterator[str]:
    mode = get(parameters, "output_mode", default="text")
    described = get(parameters, "output_object")
    tools = [_tool(tool) for tool in get(parameters, "output_tools", default=())]
    if mode == "text" and not tools:
        return
    schema = None if described is None else get(described, "json_schema")
    yield f"output: {_encode({'mode': mode, 'schema': schema, 'tools': tools})}"


class _Ids:
    """Numbers the ids of calls."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def number(self, call_id: str) -> int:
        # Providers make ids at random; their order says as much, and is the same in a replay.
        return self._known.setdefault(call_id, len(self._known) + 1)


def _part(part: object, ids: _Ids) -> Any:
    fields = {name: value for name, value in vars(part).items() if _is_relevant(name, value)}
    call_id = fields.pop("tool_call_id", None)
    if call_id is not None and fields.get("tool_name") is not None:
        fields["call"] = ids.number(call_id)
    if "args" in fields:
        fields["args"] = _arguments(fields["args"])
    return {name: _to_json(value) for name, value in fields.items()}


def _is_relevant(name: str, value: object) -> bool:
    return not name.startswith("_") and name not in _VOLATILE and name != "part_kind" and value is not None


def _arguments(arguments: object) -> Any:
    """Return arguments as a tree, whichever way the model wrote them."""
    if not isinstance(arguments, str):
        return arguments
    try:
        # White space and the order of keys differ between replies that mean the same.
        return json.loads(arguments)
    except ValueError:
        return arguments


def _to_json(value: Any) -> Any:
    """Return a value as JSON; content that consists of bytes as their type, size and hash."""
    data = getattr(value, "data", None)
    if isinstance(data, bytes):
        return {"file": value.media_type, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    if isinstance(value, list | tuple):
        return [_to_json(element) for element in value]
    if isinstance(value, Mapping):
        return {str(key): _to_json(element) for key, element in value.items()}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if hasattr(value, "__dict__"):
        return {name: _to_json(part) for name, part in vars(value).items() if _is_relevant(name, part)}
    return jsonable(value)
