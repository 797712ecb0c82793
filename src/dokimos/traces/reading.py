"""What a span says, whichever convention it says it in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from dokimos.core.agent import ToolDefinition
from dokimos.core.json_object import structured, unquoted
from dokimos.core.jsonable import text_form
from dokimos.core.metrics import CallMetrics
from dokimos.core.quick_init import quick_init
from dokimos.messages.neutral import UNNAMED, NeutralCall, NeutralMessage, NeutralResult
from dokimos.traces import langfuse
from dokimos.traces.attributes import first, literal
from dokimos.traces.first_chunk import first_chunk_ms
from dokimos.traces.messages import History, parse_messages
from dokimos.traces.semconv import (
    AGENT_NAME,
    ARGUMENTS,
    CACHED,
    CALL_ID,
    CONVERSATION,
    COST,
    DATABASE_RESULTS,
    DOCUMENT_TEXT,
    DOCUMENTS,
    FINAL_RESULT,
    INPUT_TEXT,
    MERGED_TOOLS,
    MODEL_NAME,
    OPENINFERENCE_KINDS,
    OUTPUT_TEXT,
    REASONING,
    RESULT,
    ROLE_TABLES,
    TOKENS_IN,
    TOKENS_OUT,
    TOOL_NAME,
    SpanRole,
)
from dokimos.traces.source import SpanSource
from dokimos.traces.span import Span
from dokimos.traces.tool_schemas import describe_own_tool, find_schema


@quick_init
@dataclass(frozen=True, slots=True)
class Document:
    """A document that was retrieved."""

    content: str
    id: str | None = None
    score: float | None = None


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class SpanReading:
    """What a span says."""

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
    """What a span without messages was given, where that is text; `output_text` what it gave."""
    output_text: str | None = None
    documents: tuple[Document, ...] = ()
    described_tools: Any = None
    """What is said about the tools that were there, as it was recorded."""
    usage: CallMetrics = field(default_factory=CallMetrics)
    conversation_id: str | None = None
    error: str | None = None

    @property
    def tools(self) -> tuple[ToolDefinition, ...]:
        """The tools that were there; what is no description of one is left out."""
        return tuple(_tools(structured(self.described_tools)))


def read_span(span: Span, history: History | None = None) -> SpanReading:
    """Read what a span says. Nothing raises: what cannot be understood is left out.

    With one `history` for the spans of a trace, what they tell again and again is read only once.
    """
    source = SpanSource.of(span, history)
    role = _role(source)
    return _READERS[role](source, role)


def derived_text(span: Span) -> tuple[str | None, str | None]:
    """Return the input and the output of a span as text: from its attributes, else from its messages."""
    source = SpanSource.of(span)
    given, gave = _plain(source, INPUT_TEXT), _plain(source, OUTPUT_TEXT)
    if given is None:
        said = [message.text for message in source.inputs if message.role == "user" and message.text]
        given = said[-1] if said else _entity_text(source.get("traceloop.entity.input"))
    if gave is None:
        gave = _last_text(source.outputs) or _entity_text(source.get("traceloop.entity.output"))
    return given, gave


def _role(source: SpanSource) -> SpanRole:
    kind = source.get("openinference.span.kind")
    if kind is not None:
        return OPENINFERENCE_KINDS.get(str(kind).upper(), SpanRole.OTHER)
    for key, roles in ROLE_TABLES:
        role = roles.get(str(source.get(key)))
        if role is SpanRole.TOOL and source.get("gen_ai.tool.name") == MERGED_TOOLS:
            return SpanRole.OTHER
        if role is not None:
            return role
    return _guessed_role(source)


def _guessed_role(source: SpanSource) -> SpanRole:
    """Tell from what is there, where the span does not say what it is."""
    if source.first((*TOOL_NAME, *CALL_ID)) is not None:
        return SpanRole.TOOL
    if source.first(DOCUMENTS) is not None or "retrieval.documents." in source.flattened:
        return SpanRole.RETRIEVAL
    if any(event.name in DATABASE_RESULTS for event in source.span.events):
        return SpanRole.RETRIEVAL
    if source.outputs or (source.inputs and source.first(MODEL_NAME) is not None):
        return SpanRole.MODEL
    return SpanRole.OTHER


def _read_model(source: SpanSource, role: SpanRole) -> SpanReading:
    return SpanReading(
        role=role,
        inputs=source.inputs or parse_messages(source.get("input.value")),
        outputs=source.outputs or parse_messages(source.get("output.value"), "assistant"),
        described_tools=_described_tools(source),
        usage=_usage(source),
        conversation_id=_conversation(source),
        error=_model_error(source),
    )


def _read_holder(source: SpanSource, role: SpanRole) -> SpanReading:
    """Read an agent, a workflow, or a span of no known kind that may hold them."""
    given, gave = derived_text(source.span)
    final = source.get(FINAL_RESULT)
    return SpanReading(
        role=role,
        name=str(source.first(AGENT_NAME) or source.span.name),
        inputs=source.inputs,
        outputs=source.outputs,
        input_text=given,
        output_text=gave if final is None else text_form(final),
        described_tools=_described_tools(source) if role is SpanRole.AGENT else None,
        usage=_usage(source)
        if role is SpanRole.AGENT
        else CallMetrics(first_chunk_ms=first_chunk_ms(source)),
        conversation_id=_conversation(source),
        error=_model_error(source) if role is SpanRole.AGENT else _error(source),
    )


def _read_tool(source: SpanSource, role: SpanRole) -> SpanReading:
    """Read a tool that ran; what attributes do not say may stand in messages of its span."""
    call = next((call for message in source.inputs for call in message.calls), _NO_CALL)
    told = next((m.result for m in (*source.outputs, *source.inputs) if m.result is not None), _NO_RESULT)
    given, gave = source.first(ARGUMENTS), source.first(RESULT)
    if given is None:
        parameters = source.get("tool.parameters")
        given = call.arguments
        if call is _NO_CALL and find_schema(parameters) is None:
            given = parameters
    if gave is None:
        gave = _last_text(source.outputs) if told is _NO_RESULT else told.value
    returned, answered = _returned(gave)
    return SpanReading(
        role=role,
        name=_tool_name(source, call.name),
        call_id=str(source.first(CALL_ID) or call.id or told.id or answered),
        arguments=_bound(literal(given)),
        result=returned,
        described_tools=describe_own_tool(source),
        conversation_id=_conversation(source),
        error=_error(source),
    )


NO_MESSAGE: Final = "error"
"""The error of a span whose status says nothing more."""

BROKEN_OFF: Final = "The answer of the model broke off: its finish reason is 'error'."

_LARGEST: Final = 1e300
_NO_CALL: Final = NeutralCall("")
_NO_RESULT: Final = NeutralResult(None)


def _tool_name(source: SpanSource, called: str) -> str:
    span = source.span.name
    told = (source.first(TOOL_NAME), called, source.get("traceloop.entity.name"))
    names = (*told, span.removeprefix("execute_tool ").strip(), span)
    return next((str(name) for name in names if name is not None and str(name).strip()), UNNAMED)


def _bound(arguments: Any) -> Any:
    """Return the arguments of a traced function as the map that they were bound to."""
    if not isinstance(arguments, dict):
        return arguments
    if isinstance(arguments.get("inputs"), dict):
        return arguments["inputs"]
    if "input_str" in arguments:
        return literal(arguments["input_str"])
    positional, named = arguments.get("args"), arguments.get("kwargs")
    if isinstance(named, dict) and isinstance(positional, list | tuple):
        return {"args": positional, **named} if positional else named
    return arguments


def _returned(value: Any) -> tuple[Any, str]:
    """Return what a tool gave back, out of the wrapper of a library, and the call's id if that is in it."""
    tree = unquoted(value)
    if isinstance(tree, dict) and set(tree) <= {"output", "kwargs", "type"} and "output" in tree:
        tree = tree["output"]
    for key in ("kwargs", "data"):
        if isinstance(tree, dict) and isinstance(tree.get(key), dict) and "content" in tree[key]:
            tree = tree[key]
    if isinstance(tree, dict) and "tool_call_id" in tree and "content" in tree:
        return tree["content"], str(tree["tool_call_id"])
    return tree if isinstance(tree, str | list | dict) else value, ""


def _read_retrieval(source: SpanSource, role: SpanRole) -> SpanReading:
    query = source.first(("gen_ai.retrieval.query.text", "input.value", "db.query.text"))
    return SpanReading(
        role=role,
        input_text=None if query is None else text_form(query),
        documents=tuple(_documents(source)),
        error=_error(source),
    )


def _documents(source: SpanSource) -> Iterator[Document]:
    given = structured(source.first(DOCUMENTS)) or source.flattened.get("retrieval.documents.") or ()
    for each in given if isinstance(given, list | tuple) else ():
        document = _document(each.get("document", each) if isinstance(each, dict) else {"content": each})
        if document is not None:
            yield document
    for event in source.span.events:
        if event.name in DATABASE_RESULTS:
            prefix = f"{event.name}."
            document = _document({key.removeprefix(prefix): value for key, value in event.attributes.items()})
            if document is not None:
                yield document


def _document(data: Any) -> Document | None:
    if not isinstance(data, dict):
        return _document({"content": data})
    content, identity, score = first(data, DOCUMENT_TEXT), data.get("id"), data.get("score")
    if content is None and identity is None:
        return None
    return Document(
        text_form(content) or "",
        None if identity is None else str(identity),
        float(score) if isinstance(score, int | float) and abs(score) < _LARGEST else None,
    )


def _described_tools(source: SpanSource) -> Any:
    given = source.get("gen_ai.tool.definitions")
    return given or first(source.flattened, ("llm.tools.", "llm.request.functions."))


def _tools(described: Any) -> Iterator[ToolDefinition]:
    for each in described if isinstance(described, list | tuple) else ():
        try:
            yield ToolDefinition.from_map(_described(each))
        except (ValueError, TypeError, AttributeError):
            continue  # a tool of the provider's own without a name, or no description at all


def _described(tool: Any) -> Mapping[str, Any]:
    tool = structured(tool)
    tree = tool.get("tool", tool)
    tree = structured(tree.get("json_schema", tree))
    function = tree.get("function", tree)
    return (
        {**function, "parameters": structured(function.get("parameters"))}
        if "parameters" in function
        else function
    )


def _usage(source: SpanSource) -> CallMetrics:
    """Return what a span says it used; nothing but zeros means that it was not measured."""
    counts = [_count(source.first(keys)) for keys in (TOKENS_IN, TOKENS_OUT, CACHED, REASONING)]
    model = source.first(MODEL_NAME)
    chunk = first_chunk_ms(source)
    if not any(counts):
        return CallMetrics(model=_text(model), first_chunk_ms=chunk)
    cost = source.first(COST)
    return CallMetrics(
        counts[0],
        counts[1],
        cost_usd=_positive(cost),
        first_chunk_ms=chunk,
        model=_text(model),
        cached_tokens_in=counts[2],
        reasoning_tokens_out=counts[3],
    )


def _count(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and 0 <= value < 2**63 else None


def _positive(value: Any) -> float | None:
    return value if isinstance(value, int | float) and 0 < value < _LARGEST else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _conversation(source: SpanSource) -> str | None:
    value = source.first(CONVERSATION)
    return None if value is None else str(value)


def _error(source: SpanSource) -> str | None:
    """Return what went wrong: the status, the exception recorded last, or the type of error alone."""
    span, kind = source.span, source.get("error.type")
    if span.status == "error" or kind is not None or langfuse.is_failed(source.attributes):
        raised = next((e.attributes for e in reversed(span.events) if e.name == "exception"), {})
        told = (span.status_message, source.get(langfuse.STATUS_MESSAGE), raised.get("exception.message"))
        return next((str(each) for each in (*told, kind) if each), NO_MESSAGE)
    return None


def _model_error(source: SpanSource) -> str | None:
    """Return what went wrong with a model; that it broke off stands in its finish reason only."""
    error = _error(source)
    return BROKEN_OFF if error is None and source.is_broken_off else error


def _plain(source: SpanSource, keys: Iterable[str]) -> str | None:
    texts = (text_form(source.get(key)) for key in keys)
    return next((text for text in texts if text is not None and text.strip()), None)


def _entity_text(value: Any) -> str | None:
    """Return what a traced function was given or gave, where that is one text."""
    tree = _bound(unquoted(value))
    if isinstance(tree, dict) and set(tree) == {"args"} and _is_one(tree["args"]):
        tree = tree["args"][0]
    elif isinstance(tree, dict) and len(tree) == 1:
        tree = next(iter(tree.values()))
    return tree if isinstance(tree, str) and tree.strip() else None


def _is_one(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 1


def _last_text(messages: Iterable[NeutralMessage]) -> str | None:
    texts = [message.text for message in messages if message.text]
    return texts[-1] if texts else None


_READERS: Final[dict[SpanRole, Callable[[SpanSource, SpanRole], SpanReading]]] = {
    SpanRole.MODEL: _read_model,
    SpanRole.TOOL: _read_tool,
    SpanRole.AGENT: _read_holder,
    SpanRole.STEP: _read_holder,
    SpanRole.RETRIEVAL: _read_retrieval,
    SpanRole.OTHER: _read_holder,
}
