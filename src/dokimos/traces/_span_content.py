"""Parses the content of a span, whichever convention recorded it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dokimos._core.fast_constructor import fast_factory
from dokimos._core.json_object import parse_if_container, parse_if_json
from dokimos._core.jsonable import text_form
from dokimos._core.metrics import CallMetrics
from dokimos._core.tool_definition import ToolDefinition
from dokimos._messages.neutral import UNNAMED, NeutralCall, NeutralMessage, NeutralResult
from dokimos.traces import _langfuse_attributes as langfuse_attributes
from dokimos.traces._attributes import first_value, parse_literal
from dokimos.traces._first_chunk import first_chunk_ms
from dokimos.traces._semconv import (
    AGENT_NAME,
    ARGUMENTS,
    CACHED,
    CALL_ID,
    CONVERSATION,
    COST,
    DATABASE_RESULTS,
    DOCUMENT_TEXT,
    DOCUMENTS,
    ERROR_TYPE,
    FINAL_RESULT,
    INPUT_TEXT,
    MERGED_TOOLS,
    MODEL_NAME,
    OPENINFERENCE_KIND,
    OPENINFERENCE_KINDS,
    OUTPUT_TEXT,
    QUERY,
    REASONING,
    RESULT,
    TOKENS_IN,
    TOKENS_OUT,
    TOOL_NAME,
    USER,
    Names,
    SpanRole,
)
from dokimos.traces._span import Span
from dokimos.traces._span_messages import MessageCache, parse_messages
from dokimos.traces._span_source import SpanSource
from dokimos.traces._tool_schemas import describe_own_tool, find_schema

_UNMEASURED: Final = CallMetrics()


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
    usage: CallMetrics = _UNMEASURED
    conversation_id: str | None = None
    error: str | None = None

    @property
    def tools(self) -> tuple[ToolDefinition, ...]:
        """The tools that were offered; anything that does not describe a tool is ignored."""
        return tuple(_tools(parse_if_container(self.described_tools)))


_make_content: Final = fast_factory(SpanContent)
_make_metrics: Final = fast_factory(CallMetrics)


def parse_span(span: Span, cache: MessageCache | None = None) -> SpanContent:
    """Parse the content of a span. Nothing raises: anything that cannot be parsed is ignored.

    With one `cache` for the spans of a trace, messages that they repeat are parsed only once.
    """
    source = SpanSource(span, cache)
    role = _role(source)
    return _PARSERS[role](source, role)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanDigest:
    """What lists and searches need of a span."""

    role: SpanRole
    input_text: str | None
    output_text: str | None
    usage: CallMetrics
    """That of the span itself, whatever its role."""
    conversation_id: str | None
    user_id: str | None
    error: str | None


def digest_span(span: Span, cache: MessageCache | None = None) -> SpanDigest:
    """Return what lists need of a span: less than `parse_span` parses, and the texts of any role."""
    source = SpanSource(span, cache)
    role = _role(source)
    input_text, output_text = _derive_text(source)
    user = source.first(USER)
    return SpanDigest(
        role=role,
        input_text=input_text,
        output_text=output_text,
        usage=_usage(source),
        conversation_id=_conversation(source),
        user_id=None if user is None else str(user),
        error=_model_error(source) if role in (SpanRole.MODEL, SpanRole.AGENT) else _error(source),
    )


def derive_text(span: Span) -> tuple[str | None, str | None]:
    """Return the input and the output of a span as text: from its attributes, else from its messages."""
    return _derive_text(SpanSource(span))


def _derive_text(source: SpanSource) -> tuple[str | None, str | None]:
    input_text, output_text = _find_text(source, INPUT_TEXT), _find_text(source, OUTPUT_TEXT)
    if input_text is None:
        questions = [message for message in source.inputs if message.role == "user"]
        input_text = _last_text(questions) or _entity_text(source.get("traceloop.entity.input"))
    if output_text is None:
        output_text = _last_text(source.outputs) or _entity_text(source.get("traceloop.entity.output"))
    return input_text, output_text


def _role(source: SpanSource) -> SpanRole:
    attributes = source.attributes
    kind = attributes.get(OPENINFERENCE_KIND)
    if kind is not None:
        return OPENINFERENCE_KINDS.get(str(kind).upper(), SpanRole.OTHER)
    for key, roles in source.plan.role_tables:
        role = roles.get(str(attributes[key]))
        if role is None:
            continue
        is_merged = role is SpanRole.TOOL and attributes.get("gen_ai.tool.name") == MERGED_TOOLS
        return SpanRole.OTHER if is_merged else role
    return _guess_role(source)


def _guess_role(source: SpanSource) -> SpanRole:
    """Guess the role from the attributes of a span that does not name it."""
    if source.first(TOOL_NAME) is not None or source.first(CALL_ID) is not None:
        return SpanRole.TOOL
    if source.first(DOCUMENTS) is not None or "retrieval.documents." in source.structures:
        return SpanRole.RETRIEVAL
    if any(event.name in DATABASE_RESULTS for event in source.span.events):
        return SpanRole.RETRIEVAL
    if source.outputs or (source.inputs and source.first(MODEL_NAME) is not None):
        return SpanRole.MODEL
    return SpanRole.OTHER


def _parse_model(source: SpanSource, role: SpanRole) -> SpanContent:
    return _make_content(
        role=role,
        inputs=source.inputs or _parse_value(source.get("input.value"), "user"),
        outputs=source.outputs or _parse_value(source.get("output.value"), "assistant"),
        described_tools=_find_tool_descriptions(source),
        usage=_usage(source),
        conversation_id=_conversation(source),
        error=_model_error(source),
    )


def _parse_value(value: object, role: str) -> tuple[NeutralMessage, ...]:
    """Return the messages in what a model took or returned, unless they are objects as Python shows them."""
    is_shown = isinstance(value, str) and _SHOWN_OBJECT.search(value, 0, 2000) is not None
    return () if is_shown else tuple(parse_messages(value, role))


def _parse_container(source: SpanSource, role: SpanRole) -> SpanContent:
    """Parse an agent, a workflow, or a span of an unknown kind that may contain them."""
    input_text, output_text = _derive_text(source)
    final = source.get(FINAL_RESULT)
    return _make_content(
        role=role,
        name=str(source.first(AGENT_NAME) or source.span.name),
        inputs=source.inputs,
        outputs=source.outputs,
        input_text=input_text,
        output_text=output_text if final is None else text_form(final),
        described_tools=_find_tool_descriptions(source) if role is SpanRole.AGENT else None,
        usage=_usage(source) if role is SpanRole.AGENT else _make_unmeasured(None, first_chunk_ms(source)),
        conversation_id=_conversation(source),
        error=_model_error(source) if role is SpanRole.AGENT else _error(source),
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
        result = _last_text(source.outputs) if recorded is _NO_RESULT else recorded.value
    result, result_id = _unwrap_result(result)
    return _make_content(
        role=role,
        name=_tool_name(source, call.name),
        call_id=str(source.first(CALL_ID) or call.id or recorded.id or result_id),
        arguments=_unbind_arguments(parse_literal(arguments)),
        result=result,
        described_tools=describe_own_tool(source),
        conversation_id=_conversation(source),
        error=_error(source),
    )


NO_MESSAGE: Final = "error"
"""The error of a span whose status has no message."""

CUT_OFF: Final = "The answer of the model was cut off: its finish reason is 'error'."

_SHOWN_OBJECT: Final = re.compile(r'"(?:ChatMessage\(_?role=<|<\w+ object)')
"""LlamaIndex: spans around the one with the messages have these only as texts of objects."""
_LARGEST: Final = 1e300
_NUMBERS: Final = (int, float)
"""A tuple, since `int | float` makes an object each time."""
_NO_CALL: Final = NeutralCall("")
_NO_RESULT: Final = NeutralResult(None)


def _tool_name(source: SpanSource, requested_name: str) -> str:
    span = source.span.name
    recorded = (source.first(TOOL_NAME), requested_name, source.get("traceloop.entity.name"))
    names = (*recorded, span.removeprefix("execute_tool ").strip(), span)
    return next((str(name) for name in names if name is not None and str(name).strip()), UNNAMED)


def _unbind_arguments(arguments: object) -> Any:
    """Return the arguments of a traced function as a map by name."""
    if not isinstance(arguments, dict):
        return arguments
    # OpenLLMetry: tools of LangChain have `inputs` or `input_str`, decorated functions `args` and `kwargs`.
    if isinstance(arguments.get("inputs"), dict):
        return arguments["inputs"]
    if "input_str" in arguments:
        return parse_literal(arguments["input_str"])
    positional, keywords = arguments.get("args"), arguments.get("kwargs")
    if isinstance(keywords, dict) and set(arguments) == {"kwargs"}:  # LlamaIndex
        return keywords
    if isinstance(keywords, dict) and isinstance(positional, list | tuple):
        return {"args": positional, **keywords} if positional else keywords
    return arguments


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
        error=_error(source),
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
        float(score) if isinstance(score, int | float) and abs(score) < _LARGEST else None,
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


def _usage(source: SpanSource) -> CallMetrics:
    """Return the usage of a span; only zeros mean that it was not measured."""
    first = source.first
    tokens_in, tokens_out = _count(first(TOKENS_IN)), _count(first(TOKENS_OUT))
    cached, reasoning = _count(first(CACHED)), _count(first(REASONING))
    model, chunk = _text(first(MODEL_NAME)), first_chunk_ms(source)
    if not (tokens_in or tokens_out or cached or reasoning):
        return _make_unmeasured(model, chunk)
    return _make_metrics(
        tokens_in,
        tokens_out,
        cost_usd=_positive(first(COST)),
        first_chunk_ms=chunk,
        model=model,
        cached_tokens_in=cached,
        reasoning_tokens_out=reasoning,
    )


def _make_unmeasured(model: str | None, chunk: float | None) -> CallMetrics:
    """Return the usage of a span that has no tokens."""
    is_empty = model is None and chunk is None
    return _UNMEASURED if is_empty else CallMetrics(model=model, first_chunk_ms=chunk)


def _count(value: object) -> int | None:
    if value is None:
        return None
    return int(value) if isinstance(value, _NUMBERS) and 0 <= value < 2**63 else None


def _positive(value: object) -> float | None:
    return value if isinstance(value, _NUMBERS) and 0 < value < _LARGEST else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _conversation(source: SpanSource) -> str | None:
    value = source.first(CONVERSATION)
    return None if value is None else str(value)


def _error(source: SpanSource) -> str | None:
    """Return the error: the message of the status, the last recorded exception, or the type of error."""
    span = source.span
    if span.status != "error" and not source.plan.may_have_failed:
        return None
    kind = source.get(ERROR_TYPE)
    if span.status == "error" or kind is not None or langfuse_attributes.is_failed(source.attributes):
        exception = next((e.attributes for e in reversed(span.events) if e.name == "exception"), {})
        candidates = (
            span.status_message,
            source.get(langfuse_attributes.STATUS_MESSAGE),
            exception.get("exception.message"),
        )
        return next((str(each) for each in (*candidates, kind) if each), NO_MESSAGE)
    return None


def _model_error(source: SpanSource) -> str | None:
    """Return the error of a model; an answer that was cut off has it in the finish reason only."""
    error = _error(source)
    return CUT_OFF if error is None and source.is_cut_off() else error


def _find_text(source: SpanSource, names: Names) -> str | None:
    texts = (text_form(source.get(name)) for name in source.plan[names])
    return next((text for text in texts if text is not None and text.strip()), None)


def _entity_text(value: object) -> str | None:
    """Return the input or the output of a traced function, where that is one text."""
    tree = _unbind_arguments(parse_if_json(value))
    if isinstance(tree, dict) and set(tree) == {"args"}:
        values = tree["args"]
        tree = values[0] if isinstance(values, list | tuple) and len(values) == 1 else values
    elif isinstance(tree, dict) and len(tree) == 1:
        tree = next(iter(tree.values()))
    return tree if isinstance(tree, str) and tree.strip() else None


def _last_text(messages: Iterable[NeutralMessage]) -> str | None:
    texts = [message.text for message in messages if message.text]
    return texts[-1] if texts else None


_PARSERS: Final[dict[SpanRole, Callable[[SpanSource, SpanRole], SpanContent]]] = {
    SpanRole.MODEL: _parse_model,
    SpanRole.TOOL: _parse_tool,
    SpanRole.AGENT: _parse_container,
    SpanRole.STEP: _parse_container,
    SpanRole.RETRIEVAL: _parse_retrieval,
    SpanRole.OTHER: _parse_container,
}
