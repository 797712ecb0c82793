"""Finds the input and the output of a span as text, whichever convention recorded them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dokimos._core.json_object import parse_if_json
from dokimos._core.jsonable import text_form
from dokimos._messages.neutral import NeutralMessage
from dokimos.traces._attributes import parse_literal
from dokimos.traces._semconv import ENTITY_INPUT, ENTITY_OUTPUT, INPUT_TEXT, OUTPUT_TEXT, Names
from dokimos.traces._span import Span
from dokimos.traces._span_source import SpanSource


def derive_text(span: Span) -> tuple[str | None, str | None]:
    """Return the input and the output of a span as text: from its attributes, else from its messages."""
    return derive_source_text(SpanSource(span))


def derive_source_text(source: SpanSource) -> tuple[str | None, str | None]:
    """Return what `derive_text` does."""
    plan = source.plan
    if not (plan.has_texts or source.span.events):  # as of most tools
        return None, None
    input_text = _find_text(source, INPUT_TEXT) if plan[INPUT_TEXT] else None
    if input_text is None:
        input_text = (
            source.find_user_text()
            or last_text(source.inputs, ("user",))
            or _entity_text(source, ENTITY_INPUT)
        )
    output_text = _find_text(source, OUTPUT_TEXT) if plan[OUTPUT_TEXT] else None
    if output_text is None:
        answer = source.find_answer_text()
        output_text = last_text(source.outputs) if answer is None else answer
        output_text = output_text or _entity_text(source, ENTITY_OUTPUT)
    return input_text, output_text


def last_text(messages: Sequence[NeutralMessage], roles: Iterable[str] | None = None) -> str | None:
    """Return the last text that somebody said, of some roles or of all."""
    for message in reversed(messages):
        text: str = message.text
        if text and (roles is None or message.role in roles):
            return text
    return None


def unbind_arguments(arguments: object) -> Any:
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


def _find_text(source: SpanSource, names: Names) -> str | None:
    for name in source.plan[names]:
        text = text_form(source.attributes[name])
        if text is not None and text.strip():
            return text
    return None


def _entity_text(source: SpanSource, key: str) -> str | None:
    """Return the input or the output of a traced function, where that is one text."""
    value = source.get(key)
    if value is None:
        return None
    tree = unbind_arguments(parse_if_json(value))
    if isinstance(tree, dict) and set(tree) == {"args"}:
        values = tree["args"]
        tree = values[0] if isinstance(values, list | tuple) and len(values) == 1 else values
    elif isinstance(tree, dict) and len(tree) == 1:
        tree = next(iter(tree.values()))
    return tree if isinstance(tree, str) and tree.strip() else None
