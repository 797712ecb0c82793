"""Parses the content of a span, whichever convention recorded it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dokimos._core.fast_constructor import fast_factory
from dokimos._core.json_object import parse_if_container, parse_if_json
from dokimos._core.jsonable import text_form
from dokimos._core.metrics import CallMetrics
from dokimos._core.tool_definition import ToolDefinition
from dokimos._messages.neutral import UNNAMED, NeutralCall, NeutralMessage, NeutralResult
from dokimos.traces._attributes import first_value, parse_literal
from dokimos.traces._first_chunk import first_chunk_ms
from dokimos.traces._semconv import (
    AGENT_NAME,
    ARGUMENTS,
    CALL_ID,
    CONVERSATION,
    DATABASE_RESULTS,
    DOCUMENT_TEXT,
    DOCUMENTS,
    FINAL_RESULT,
    QUERY,
    RESULT,
    TOOL_NAME,
    SpanRole,
)
from dokimos.traces._span import Span
from dokimos.traces._span_error import find_error, find_model_error
from dokimos.traces._span_messages import MessageCache, parse_messages
from dokimos.traces._span_role import find_role
from dokimos.traces._span_source import SpanSource
from dokimos.traces._span_text import derive_source_text, last_text, unbind_arguments
from dokimos.traces._span_usage import LARGEST, UNMEASURED, make_metrics, make_unmeasured
from dokimos.traces._tool_schemas import describe_own_tool, find_schema


@dataclass(frozen=True, slots=True)
class Document:
    """A document that was retrieved."""

    content: str
    id: str | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanContent:
    """The content of a span: what a model, tool, agent or retriever was given and returned."""

    role: SpanRole
    name: str = ""
    """Of the tool or agent."""
    call_id: str = ""
    """The id of the call that a tool span answers."""
    arguments: Any = None
    result: Any = None
    inputs: tuple[NeutralMessage, ...] = ()
    outputs: tuple[NeutralMessage, ...] = ()
    input_text: str | None = None
    """The input of a span without messages, where that is text; `output_text` is its output."""
    output_text: str | None = None
    documents: tuple[Document, ...] = ()
    described_tools: Any = None
    """Descriptions of the tools that were offered, as they were recorded."""
    usage: CallMetrics = UNMEASURED
    conversation_id: str | None = None
    error: str | None = None

    @property
    def tools(self) -> tuple[ToolDefinition, ...]:
        """The tools that were offered; anything that does not describe a tool is ignored."""
        return tuple(_tools(parse_if_container(self.described_tools)))


_make_content: Final = fast_factory(SpanContent)


def parse_span(span: Span, cache: MessageCache | None = None) -> SpanContent:
    """Parse the content of a span. Nothing raises: anything that cannot be parsed is ignored.

    With one `cache` for the spans of a trace, messages that they repeat are parsed only once.
    """
    source = SpanSource(span, cache)
    role = find_role(source)
    return _PARSERS[role](source, role)


def _parse_model(source: SpanSource, role: SpanRole) -> SpanContent:
    return _make_content(
        role=role,
        inputs=source.inputs or _parse_value(source.get("input.value"), "user"),
        outputs=source.outputs or _parse_value(source.get("output.value"), "assistant"),
        described_tools=_find_tool_descriptions(source),
        usage=make_metrics(source),
        conversation_id=_find_conversation(source),
        error=find_model_error(source),
    )


def _parse_value(value: object, role: str) -> tuple[NeutralMessage, ...]:
    """Return the messages in what a model took or returned, unless they are objects as Python shows them."""
    is_shown = isinstance(value, str) and _SHOWN_OBJECT.search(value, 0, 2000) is not None
    return () if is_shown else tuple(parse_messages(value, role))


def _parse_container(source: SpanSource, role: SpanRole) -> SpanContent:
    """Parse an agent, a workflow, or a span of an unknown kind that may contain them."""
    input_text, output_text = derive_source_text(source)
    final = source.get(FINAL_RESULT)
    return _make_content(
        role=role,
        name=str(source.first(AGENT_NAME) or source.span.name),
        inputs=source.inputs,
        outputs=source.outputs,
        input_text=input_text,
        output_text=output_text if final is None else text_form(final),
        described_tools=_find_tool_descriptions(source) if role is SpanRole.AGENT else None,
        usage=make_metrics(source)
        if role is SpanRole.AGENT
        else make_unmeasured(None, first_chunk_ms(source)),
        conversation_id=_find_conversation(source),
        error=find_model_error(source) if role is SpanRole.AGENT else find_error(source),
    )


def _parse_tool(source: SpanSource, role: SpanRole) -> SpanContent:
    """Parse a tool that ran; what its attributes lack may be in messages of its span."""
    messages = (*source.outputs, *source.inputs)
    call, recorded = _NO_CALL, _NO_RESULT
    if messages:
        call = next((call for message in source.inputs for call in message.calls), _NO_CALL)
        recorded = next((each.result for each in messages if each.result is not None), _NO_RESULT)
    arguments, result = source.first(ARGUMENTS), source.first(RESULT)
    if arguments is None:
        parameters = source.get("tool.parameters")
        arguments = call.arguments
        if call is _NO_CALL and find_schema(parameters) is None:
            arguments = parameters
    if result is None:
        result = last_text(source.outputs) if recorded is _NO_RESULT else recorded.value
    result, result_id = _unwrap_result(result)
    return _make_content(
        role=role,
        name=_tool_name(source, call.name),
        call_id=str(source.first(CALL_ID) or call.id or recorded.id or result_id),
        arguments=unbind_arguments(parse_literal(arguments)),
        result=result,
        described_tools=describe_own_tool(source),
        conversation_id=_find_conversation(source),
        error=find_error(source),
    )


_SHOWN_OBJECT: Final = re.compile(r'"(?:ChatMessage\(_?role=<|<\w+ object)')
"""LlamaIndex: spans around the one with the messages have these only as texts of objects."""
_NO_CALL: Final = NeutralCall("")
_NO_RESULT: Final = NeutralResult(None)


def _tool_name(source: SpanSource, requested_name: str) -> str:
    span = source.span.name
    recorded = (source.first(TOOL_NAME), requested_name, source.get("traceloop.entity.name"))
    names = (*recorded, span.removeprefix("execute_tool ").strip(), span)
    return next((str(name) for name in names if name is not None and str(name).strip()), UNNAMED)


def _unwrap_result(value: object) -> tuple[Any, str]:
    """Return the result of a tool without the wrapper of a library, and the call's id if it is in that."""
    tree = parse_if_json(value)
    # OpenLLMetry has results under `output`; LangChain serializes a ToolMessage with its fields in
    # `kwargs`.
    if isinstance(tree, dict) and set(tree) <= {"output", "kwargs", "type"} and "output" in tree:
        tree = tree["output"]
    if isinstance(tree, dict) and "raw_output" in tree and isinstance(tree.get("blocks"), list):
        return _join_blocks(tree["blocks"]), ""  # LlamaIndex
    for key in ("kwargs", "data"):
        if isinstance(tree, dict) and isinstance(tree.get(key), dict) and "content" in tree[key]:
            tree = tree[key]
    if isinstance(tree, dict) and "tool_call_id" in tree and "content" in tree:
        return tree["content"], str(tree["tool_call_id"])
    return tree if isinstance(tree, str | list | dict) else value, ""


def _join_blocks(blocks: list[Any]) -> str:
    """Return the texts of the blocks that a tool of LlamaIndex returned."""
    texts = (block.get("text") for block in blocks if isinstance(block, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def _parse_retrieval(source: SpanSource, role: SpanRole) -> SpanContent:
    query = source.first(QUERY)
    return _make_content(
        role=role,
        input_text=None if query is None else text_form(query),
        documents=tuple(_documents(source)),
        error=find_error(source),
    )


def _documents(source: SpanSource) -> Iterator[Document]:
    documents = (
        parse_if_container(source.first(DOCUMENTS)) or source.structures.get("retrieval.documents.") or ()
    )
    for each in documents if isinstance(documents, list | tuple) else ():
        document = _document(each.get("document", each) if isinstance(each, dict) else {"content": each})
        if document is not None:
            yield document
    for event in source.span.events:
        if event.name in DATABASE_RESULTS:
            prefix = f"{event.name}."
            document = _document({key.removeprefix(prefix): value for key, value in event.attributes.items()})
            if document is not None:
                yield document


def _document(data: object) -> Document | None:
    if not isinstance(data, dict):
        return _document({"content": data})
    content, id_, score = first_value(data, DOCUMENT_TEXT), data.get("id"), data.get("score")
    if content is None and id_ is None:
        return None
    return Document(
        text_form(content) or "",
        None if id_ is None else str(id_),
        float(score) if isinstance(score, int | float) and abs(score) < LARGEST else None,
    )


def _find_tool_descriptions(source: SpanSource) -> Any:
    definitions = source.get("gen_ai.tool.definitions")
    return definitions or first_value(source.structures, ("llm.tools.", "llm.request.functions."))


def _tools(described: object) -> Iterator[ToolDefinition]:
    for each in described if isinstance(described, list | tuple) else ():
        try:
            yield ToolDefinition.from_map(_to_definition_map(each))
        except (ValueError, TypeError, AttributeError):
            continue  # a tool of the provider's own without a name, or not a description


def _to_definition_map(description: object) -> Mapping[str, Any]:
    tool = parse_if_container(description)
    tree = tool.get("tool", tool)
    tree = parse_if_container(tree.get("json_schema", tree))
    function = tree.get("function", tree)
    return (
        {**function, "parameters": parse_if_container(function.get("parameters"))}
        if "parameters" in function
        else function
    )


def _find_conversation(source: SpanSource) -> str | None:
    value = source.first(CONVERSATION)
    return None if value is None else str(value)


_PARSERS: Final[dict[SpanRole, Callable[[SpanSource, SpanRole], SpanContent]]] = {
    SpanRole.MODEL: _parse_model,
    SpanRole.TOOL: _parse_tool,
    SpanRole.AGENT: _parse_container,
    SpanRole.STEP: _parse_container,
    SpanRole.RETRIEVAL: _parse_retrieval,
    SpanRole.OTHER: _parse_container,
}
