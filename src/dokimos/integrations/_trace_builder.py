"""Builds an `AgentTrace` from the calls, results and texts that a framework recorded."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dokimos._core.agent import AgentTrace, ToolCall
from dokimos._core.jsonable import jsonable, text_form
from dokimos._core.keys import CALL_ERROR, CALL_ID
from dokimos._messages.neutral import UNNAMED
from dokimos.integrations._framework_objects import get


class TraceBuilder:
    """Builds an `AgentTrace` from the calls, results and texts that a framework recorded, in their order.

    Results are matched to calls by id, never by order, and only within the current turn: an id that is used
    again in a later turn is another call, and a call without a result in its turn has the result None.

    Example::

        >>> builder = TraceBuilder()
        >>> builder.add_call("search", {"q": "Rome"}, "call_1")
        >>> builder.add_result("call_1", "It is in Italy.")
        >>> builder.add_text("Rome is in Italy.")
        >>> builder.build().tool_calls[0].result
        'It is in Italy.'
    """

    def __init__(self) -> None:
        self._calls: list[ToolCall] = []
        self._open_calls: dict[str, deque[int]] = {}
        self._reasoning: list[str] = []
        self._response: str | None = None

    def begin_turn(self) -> None:
        """Begin a turn of the assistant: results added from now on belong to calls added from now on."""
        self._open_calls = {}

    def add_call(
        self,
        name: str | None,
        arguments: object = None,
        call_id: str | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a call with its id; the arguments are a map, or JSON text as models write it."""
        details = dict(metadata or {})
        if call_id:
            self._open_calls.setdefault(call_id, deque()).append(len(self._calls))
            details[CALL_ID] = call_id
        self._calls.append(_build_call(name, arguments, details))
        self._response = None

    def add_call_with_result(
        self,
        name: str | None,
        arguments: object,
        content: object,
        *,
        call_id: str | None = None,
        error: bool | str = False,
    ) -> None:
        """Add a call that was recorded together with its result."""
        details: dict[str, Any] = {CALL_ID: call_id} if call_id else {}
        call = _build_call(name, arguments, {**details, CALL_ERROR: error} if error else details)
        self._calls.append(replace(call, result=render_result(content)))
        self._response = None

    def add_result(self, call_id: str | None, content: object, *, error: bool | str = False) -> None:
        """Add the result of a call; a result whose id belongs to no call of the turn is ignored."""
        # Calls of one turn that share an id get their results in order: nothing else distinguishes them.
        open_calls = self._open_calls.get(call_id or "")
        if not open_calls:
            return
        index = open_calls.popleft()
        call = self._calls[index]
        metadata = {**call.metadata, CALL_ERROR: error} if error else call.metadata
        self._calls[index] = replace(call, result=render_result(content), metadata=metadata)

    def add_text(self, text: str | None) -> None:
        """Add text of the assistant; the last text after the last call is the final response."""
        if text:
            self._response = text

    def add_reasoning(self, text: str | None) -> None:
        """Add a step of reasoning."""
        if text:
            self._reasoning.append(text)

    def build(self, final_response: str | None = None, **metadata: Any) -> AgentTrace:
        """Return the trace; `final_response` takes the place of the last text."""
        return AgentTrace(
            tuple(self._calls),
            self._response if final_response is None else final_response,
            reasoning_steps=tuple(self._reasoning),
            metadata={key: value for key, value in metadata.items() if value is not None},
        )


def remove_answer_calls(trace: AgentTrace, answer: object) -> AgentTrace:
    """Return a trace without the calls by which a model gave its structured answer; it is the final response.

    That is the last call, if it has the name of the answer's class or its fields as arguments, and the calls
    of the same name before it, whose arguments did not match the schema.
    """
    last = trace.tool_calls[-1] if trace.tool_calls else None
    if answer is None or last is None or not is_answer_call(last.name, last.arguments, answer):
        return trace
    calls = tuple(call for call in trace.tool_calls if call.name != last.name)
    return replace(trace, tool_calls=calls, final_response=text_form(answer))


def is_answer_call(name: str | None, arguments: object, answer: object) -> bool:
    """Say whether a call is the one by which a model gave its structured answer."""
    return name == type(answer).__name__ or (bool(arguments) and arguments == jsonable(answer))


def _build_call(name: str | None, arguments: object, metadata: Mapping[str, Any]) -> ToolCall:
    name = name if name and name.strip() else UNNAMED
    if isinstance(arguments, Mapping) or arguments is None:
        return ToolCall(name, arguments or {}, metadata=metadata)
    if isinstance(arguments, str):
        return ToolCall.of_text(name, arguments, metadata=metadata)
    tree = jsonable(arguments)
    if isinstance(tree, dict):
        return ToolCall(name, tree, metadata=metadata)
    return ToolCall.of_text(name, text_form(tree) or "", metadata=metadata)


def render_result(content: object) -> str:
    """Return the result of a tool as text: the texts of its parts if all of them are text, else JSON."""
    parts = _texts_of_parts(content)
    if parts is not None:
        return "\n".join(parts)
    text = text_form(content)
    return "null" if text is None else text


def _texts_of_parts(content: object) -> list[str] | None:
    """Return the texts of a list of parts; None if one of them is not a part of text."""
    if not isinstance(content, list | tuple) or not content:
        return None
    parts = [
        get(part, "text")
        for part in content
        if not isinstance(part, str) and get(part, "type") in (None, "text", "output_text", "input_text")
    ]
    whole = len(parts) == len(content) and all(isinstance(text, str) for text in parts)
    return parts if whole else None
