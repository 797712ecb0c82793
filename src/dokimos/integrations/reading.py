"""Reading what frameworks give: tool calls and their results, what was retrieved, what it cost."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from dokimos.core.agent import AgentTrace, ToolCall, ToolDefinition
from dokimos.core.contexts import document_text, unscored
from dokimos.core.jsonable import jsonable, text_form
from dokimos.core.keys import CALL_ERROR, CALL_ID
from dokimos.core.metrics import CallMetrics, PriceTable
from dokimos.messages.neutral import UNNAMED

_METADATA_FIELDS: Final = ("metadata", "meta")


def get(thing: Any, *names: str, default: Any = None) -> Any:
    """Return the first of these attributes or keys that is there and not None."""
    for name in names:
        value = thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
        if value is not None:
            return value
    return default


def plain(thing: Any) -> Any:
    """Return objects of a provider as maps of what they hold; what is None is left out of them."""
    if thing is None or isinstance(thing, str | int | float):
        return thing
    if isinstance(thing, list | tuple):
        return [plain(each) for each in thing]
    held = thing if isinstance(thing, Mapping) else getattr(thing, "__dict__", None)
    if held is None:
        return thing
    return {key: plain(value) for key, value in held.items() if value is not None}


class TraceBuilder:
    """Puts the calls, results and texts that a framework recorded together to an `AgentTrace`.

    Results find their calls by id, never by order, and only in the turn that is open: an id that comes again
    in a later turn is another call, and a call without a result in its turn has the result None.
    """

    def __init__(self) -> None:
        self._calls: list[ToolCall] = []
        self._waiting: dict[str, deque[int]] = {}
        self._reasoning: list[str] = []
        self._response: str | None = None

    def turn(self) -> None:
        """Begin a turn of the assistant: results that come now answer only calls that come now."""
        self._waiting = {}

    def call(
        self,
        name: str | None,
        arguments: Any = None,
        call_id: str | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a call; its arguments are a map, or JSON text as models write it. Its id is kept."""
        known = dict(metadata or {})
        if call_id:
            self._waiting.setdefault(call_id, deque()).append(len(self._calls))
            known[CALL_ID] = call_id
        self._calls.append(_call(name, arguments, known))
        self._response = None

    def answered_call(
        self,
        name: str | None,
        arguments: Any,
        content: Any,
        *,
        call_id: str | None = None,
        error: bool | str = False,
    ) -> None:
        """Add a call that was recorded together with its result."""
        known: dict[str, Any] = {CALL_ID: call_id} if call_id else {}
        call = _call(name, arguments, {**known, CALL_ERROR: error} if error else known)
        self._calls.append(replace(call, result=result_text(content)))
        self._response = None

    def result(self, call_id: str | None, content: Any, *, error: bool | str = False) -> None:
        """Add the result of a call; one that answers no call of the turn is left out."""
        waiting = self._waiting.get(call_id or "")
        if not waiting:
            return
        place = waiting.popleft()
        call = self._calls[place]
        metadata = {**call.metadata, CALL_ERROR: error} if error else call.metadata
        self._calls[place] = replace(call, result=result_text(content), metadata=metadata)

    def say(self, text: str | None) -> None:
        """Add what the assistant says; the last of it after the last call is the final response."""
        if text:
            self._response = text

    def think(self, text: str | None) -> None:
        """Add a step of reasoning."""
        if text:
            self._reasoning.append(text)

    def trace(self, final_response: str | None = None, **metadata: Any) -> AgentTrace:
        """Return what was added as a trace; `final_response` replaces what was said last."""
        return AgentTrace(
            tuple(self._calls),
            self._response if final_response is None else final_response,
            reasoning_steps=tuple(self._reasoning),
            metadata={key: value for key, value in metadata.items() if value is not None},
        )


def without_answer_calls(trace: AgentTrace, answer: Any) -> AgentTrace:
    """Return a trace without the calls by which a model gave its structured answer, which is the response.

    That is the last call, where it is named like the class of the answer or has its fields as arguments, and
    those of the same name before it, which did not hold to the schema.
    """
    last = trace.tool_calls[-1] if trace.tool_calls else None
    if answer is None or last is None or not is_answer_call(last.name, last.arguments, answer):
        return trace
    calls = tuple(call for call in trace.tool_calls if call.name != last.name)
    return replace(trace, tool_calls=calls, final_response=text_form(answer))


def is_answer_call(name: str | None, arguments: Any, answer: Any) -> bool:
    """Tell whether a call is that by which a model gave its structured answer."""
    return name == type(answer).__name__ or (bool(arguments) and arguments == jsonable(answer))


def _call(name: str | None, arguments: Any, metadata: Mapping[str, Any]) -> ToolCall:
    name = name if name and name.strip() else UNNAMED
    if isinstance(arguments, Mapping) or arguments is None:
        return ToolCall(name, arguments or {}, metadata=metadata)
    if isinstance(arguments, str):
        return ToolCall.of_text(name, arguments, metadata=metadata)
    tree = jsonable(arguments)
    if isinstance(tree, dict):
        return ToolCall(name, tree, metadata=metadata)
    return ToolCall.of_text(name, text_form(tree) or "", metadata=metadata)


def result_text(content: Any) -> str:
    """Return the result of a tool as text: that of its parts where all of them are text, else JSON."""
    parts = _text_parts(content)
    if parts is not None:
        return "\n".join(parts)
    text = text_form(content)
    return "null" if text is None else text


def text_of(content: Any) -> str:
    """Return the text in the content of a message: text, or parts of which only those of text count."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list | tuple):
        return get(content, "text", default="") if not isinstance(content, Mapping) else _part(content)
    return "\n".join(text for text in map(_part, content) if text)


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    text = get(part, "text") if get(part, "type") in (None, "text", "output_text", "input_text") else None
    return text if isinstance(text, str) else ""


def _text_parts(content: Any) -> list[str] | None:
    """Return the texts of a list that consists of parts of text alone, else None."""
    if not isinstance(content, list | tuple) or not content:
        return None
    parts = [
        get(part, "text")
        for part in content
        if not isinstance(part, str) and get(part, "type") in (None, "text", "output_text", "input_text")
    ]
    whole = len(parts) == len(content) and all(isinstance(text, str) for text in parts)
    return parts if whole else None


def tool_definitions(tools: Iterable[Any]) -> tuple[ToolDefinition, ...]:
    """Return tools as definitions, each as `ToolDefinition.from_object` takes it. Raises `ValueError`."""
    return tuple(ToolDefinition.from_object(tool) for tool in tools)


def merge_tools(tools: Iterable[ToolDefinition]) -> tuple[ToolDefinition, ...]:
    """Return the tools of several agents, each name once.

    Where tools of one name have different schemas, arguments that fit any of them are valid.
    """
    by_name: dict[str, list[ToolDefinition]] = {}
    for tool in tools:
        alike = by_name.setdefault(tool.name, [])
        if all(tool.input_schema != known.input_schema for known in alike):
            alike.append(tool)
    return tuple(_one_of(alike) for alike in by_name.values())


def with_offered(
    described: Iterable[ToolDefinition] | None, offered: Iterable[ToolDefinition] | None
) -> tuple[ToolDefinition, ...] | None:
    """Return the tools of an agent and what its model was offered besides; None where they are unknown."""
    if described is None:
        return None
    known: dict[str, ToolDefinition] = {}
    for tool in (*described, *(offered or ())):
        known.setdefault(tool.name, tool)
    return tuple(known.values())


def _one_of(tools: list[ToolDefinition]) -> ToolDefinition:
    first = tools[0]
    return (
        first
        if len(tools) == 1
        else replace(first, input_schema={"anyOf": [tool.input_schema for tool in tools]})
    )


def extract_texts(documents: Iterable[Any] | None) -> list[str]:
    """Return the texts of retrieved documents, whichever framework's; with a score beside them or not."""
    return [_document_text(unscored(document)) for document in documents or ()]


def extract_texts_with_metadata(documents: Iterable[Any] | None) -> list[dict[str, Any]]:
    """Return `{"text": ..., "metadata": {...}}` for each retrieved document."""
    found = (unscored(document) for document in documents or ())
    return [{"text": _document_text(each), "metadata": _document_metadata(each)} for each in found]


def _document_text(document: Any) -> str:
    text = document_text(document)
    return text if text is not None else text_form(document) or ""


def _document_metadata(document: Any) -> dict[str, Any]:
    found = {} if isinstance(document, str) else get(document, *_METADATA_FIELDS, default={})
    return dict(jsonable(found)) if isinstance(found, Mapping) else {}


def documents_of_tools(trace: AgentTrace, tools: Iterable[str]) -> tuple[Any, ...] | None:
    """Return what tools that retrieve gave, None where none of them was called and answered.

    A result that is a JSON list, or has one under "documents", "results", "chunks" or "sources", is as many
    documents; any other result is one.
    """
    names = frozenset(tools)
    results = [call.result for call in trace.tool_calls if call.name in names and call.result is not None]
    return tuple(each for result in results for each in _documents_in(result)) if results else None


def _documents_in(result: str) -> list[Any]:
    try:
        value = json.loads(result)
    except (ValueError, RecursionError):
        return [result]
    if isinstance(value, dict):
        value = get(value, "documents", "results", "chunks", "sources", default=[value])
    return value if isinstance(value, list) else [result]


def priced(
    usage: CallMetrics | None, model: str | None = None, price_table: PriceTable | None = None
) -> CallMetrics | None:
    """Return what a run cost; None where usage is zero throughout, since nothing was measured then.

    A cost that the framework itself reports, other than zero, stands; the price table is asked where there is
    none.
    """
    if usage is None:
        return None
    from dokimos.traces.collector import TraceCollector

    collector = TraceCollector()
    collector.add_usage(usage)
    return collector.call_metrics(model, price_table)


def usage_of(
    tokens_in: Any, tokens_out: Any, *, cached: Any = None, reasoning: Any = None, **more: Any
) -> CallMetrics:
    """Return token counts as metrics; what is no number of at least 0 is not known."""
    return CallMetrics(
        _count(tokens_in),
        _count(tokens_out),
        cached_tokens_in=_count(cached),
        reasoning_tokens_out=_count(reasoning),
        **more,
    )


def summed(usages: Iterable[CallMetrics | None]) -> CallMetrics | None:
    """Add up what was measured, None where nothing was."""
    total: CallMetrics | None = None
    for usage in usages:
        if usage is not None:
            total = usage if total is None else total + usage
    return total


def _count(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if whole else None
