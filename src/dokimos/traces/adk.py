"""Attributes of Google's Agent Development Kit, which has names and habits of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from dokimos.core.agent import ToolCall
from dokimos.core.json_object import structured
from dokimos.traces.attributes import Attributes

EVENT_ID: Final = "gcp.vertex.agent.event_id"
"""What spans of models and tools have in every version."""

_ARGUMENTS: Final = "gcp.vertex.agent.tool_call_args"
_RESPONSE: Final = "gcp.vertex.agent.tool_response"
_CALL_ID: Final = "gen_ai.tool.call.id"
_GIVEN: Final = "gen_ai.tool.call.arguments"
_RESULT: Final = "gen_ai.tool.call.result"
_INPUTS: Final = "gen_ai.input.messages"
_NOT_GIVEN: Final = "<not specified>"


def conventional(attributes: Attributes) -> Attributes:
    """Return the attributes of a span of ADK under the names of the GenAI conventions.

    Content that was not captured, which stands there as "{}", is left out, and what a tool returned that is
    no map is taken out of the map that ADK puts around it.
    """
    told = {**attributes, **dict(_tool(attributes)), **dict(_model(attributes))}
    if told.get(_CALL_ID) == _NOT_GIVEN:
        del told[_CALL_ID]
    if _RESULT in told:
        told[_RESULT] = _returned(structured(told[_RESULT]))
    if _INPUTS in told:
        told[_INPUTS] = _with_results(structured(told[_INPUTS]))
    return told


def _tool(attributes: Attributes) -> Iterator[tuple[str, Any]]:
    arguments, response = attributes.get(_ARGUMENTS), attributes.get(_RESPONSE)
    captured = response != "{}"  # nearly all tools give at least {"result": ...}
    if arguments is not None and (captured or arguments != "{}"):
        yield _GIVEN, arguments
    if response is not None and captured:
        yield _RESULT, response


def _model(attributes: Attributes) -> Iterator[tuple[str, Any]]:
    """Yield what versions before 2 write as one request and one response."""
    asked = structured(attributes.get("gcp.vertex.agent.llm_request"))
    if isinstance(asked, dict) and asked:
        yield _INPUTS, asked.get("contents")
        config = asked.get("config")
        if isinstance(config, dict):
            yield "gen_ai.system_instructions", config.get("system_instruction")
            yield "gen_ai.tool.definitions", list(_declared(config.get("tools")))
    answered = structured(attributes.get("gcp.vertex.agent.llm_response"))
    if isinstance(answered, dict) and answered.get("content"):
        yield "gen_ai.output.messages", answered["content"]
    if "gcp.vertex.agent.session_id" in attributes:
        yield "gen_ai.conversation.id", attributes["gcp.vertex.agent.session_id"]


def _declared(tools: Any) -> Iterator[Any]:
    for tool in tools if isinstance(tools, list) else ():
        declared = tool.get("function_declarations") if isinstance(tool, dict) else None
        yield from declared if isinstance(declared, list) else ()


def _returned(response: Any) -> Any:
    if isinstance(response, dict) and response.keys() == {"result"}:
        response = response["result"]
        if response in (None, []):  # as JSON, since an attribute with such a value has none
            return ToolCall.result_json(response)
    return None if response == _NOT_GIVEN else response


def _with_results(messages: Any) -> Any:
    return [_with_result(each) for each in messages] if isinstance(messages, list) else messages


def _with_result(message: Any) -> Any:
    parts = message.get("parts") if isinstance(message, dict) else None
    if not isinstance(parts, list):
        return message
    return {**message, "parts": [_answered(part) for part in parts]}


def _answered(part: Any) -> Any:
    """Return a part, if it is an answer in the form of the conventions, with what the tool itself gave."""
    if not isinstance(part, dict):
        return part
    if part.get("type") == "tool_call_response":
        return {**part, "response": _returned(part.get("response"))}
    answer = part.get("function_response")
    if not isinstance(answer, dict):
        return part
    response = answer.get("response")
    failed = isinstance(response, dict) and bool(response.get("error"))
    named = {"type": "tool_call_response", "id": answer.get("id"), "name": answer.get("name")}
    return {**named, "response": _returned(response), "is_error": failed}
