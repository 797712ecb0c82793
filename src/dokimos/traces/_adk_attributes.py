"""Normalizes attributes of Google's Agent Development Kit to the names of the GenAI conventions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from dokimos._core.agent import ToolCall
from dokimos._core.json_object import parse_if_container
from dokimos.traces._attributes import Attributes

EVENT_ID: Final = "gcp.vertex.agent.event_id"
"""What spans of models and tools have in every version."""

_ARGUMENTS: Final = "gcp.vertex.agent.tool_call_args"
_RESPONSE: Final = "gcp.vertex.agent.tool_response"
_CALL_ID: Final = "gen_ai.tool.call.id"
_CONVENTIONAL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
_RESULT: Final = "gen_ai.tool.call.result"
_INPUTS: Final = "gen_ai.input.messages"
_NOT_SPECIFIED: Final = "<not specified>"


def normalize_attributes(attributes: Attributes) -> Attributes:
    """Return the attributes of a span of ADK under the names of the GenAI conventions.

    Content that was not captured, which is "{}" there, is removed, and a result that is not a map is taken
    out of the map that ADK wraps around it.
    """
    normalized = {**attributes, **dict(_tool(attributes)), **dict(_model(attributes))}
    if normalized.get(_CALL_ID) == _NOT_SPECIFIED:
        del normalized[_CALL_ID]
    if _RESULT in normalized:
        normalized[_RESULT] = _unwrap_response(parse_if_container(normalized[_RESULT]))
    if _INPUTS in normalized:
        normalized[_INPUTS] = _unwrap_messages(parse_if_container(normalized[_INPUTS]))
    return normalized


def _tool(attributes: Attributes) -> Iterator[tuple[str, Any]]:
    arguments, response = attributes.get(_ARGUMENTS), attributes.get(_RESPONSE)
    captured = response != "{}"  # nearly all tools give at least {"result": ...}
    if arguments is not None and (captured or arguments != "{}"):
        yield _CONVENTIONAL_ARGUMENTS, arguments
    if response is not None and captured:
        yield _RESULT, response


def _model(attributes: Attributes) -> Iterator[tuple[str, Any]]:
    """Yield what versions before 2 write as one request and one response."""
    request = parse_if_container(attributes.get("gcp.vertex.agent.llm_request"))
    if isinstance(request, dict) and request:
        yield _INPUTS, request.get("contents")
        config = request.get("config")
        if isinstance(config, dict):
            yield "gen_ai.system_instructions", config.get("system_instruction")
            yield "gen_ai.tool.definitions", list(_iterate_declarations(config.get("tools")))
    response = parse_if_container(attributes.get("gcp.vertex.agent.llm_response"))
    if isinstance(response, dict) and response.get("content"):
        yield "gen_ai.output.messages", response["content"]
    if "gcp.vertex.agent.session_id" in attributes:
        yield "gen_ai.conversation.id", attributes["gcp.vertex.agent.session_id"]


def _iterate_declarations(tools: object) -> Iterator[Any]:
    for tool in tools if isinstance(tools, list) else ():
        declarations = tool.get("function_declarations") if isinstance(tool, dict) else None
        yield from declarations if isinstance(declarations, list) else ()


def _unwrap_response(response: object) -> Any:
    if isinstance(response, dict) and response.keys() == {"result"}:
        response = response["result"]
        if response in (None, []):  # as JSON, since an attribute with such a value has none
            return ToolCall.result_json(response)
    return None if response == _NOT_SPECIFIED else response


def _unwrap_messages(messages: object) -> Any:
    return [_unwrap_message(each) for each in messages] if isinstance(messages, list) else messages


def _unwrap_message(message: object) -> object:
    if not isinstance(message, dict) or not isinstance(message.get("parts"), list):
        return message
    return {**message, "parts": [_normalize_part(part) for part in message["parts"]]}


def _normalize_part(part: object) -> Any:
    """Return a part; one with the response of a tool in the form of the conventions, and unwrapped."""
    if not isinstance(part, dict):
        return part
    if part.get("type") == "tool_call_response":
        return {**part, "response": _unwrap_response(part.get("response"))}
    answer = part.get("function_response")
    if not isinstance(answer, dict):
        return part
    response = answer.get("response")
    failed = isinstance(response, dict) and bool(response.get("error"))
    identity = {"type": "tool_call_response", "id": answer.get("id"), "name": answer.get("name")}
    return {**identity, "response": _unwrap_response(response), "is_error": failed}
