"""Normalizes attributes of Langfuse's SDKs since version 3, which write spans of OpenTelemetry.

Source: the property mapping on Langfuse's page on OpenTelemetry.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from dokimos._core.json_object import parse_if_container
from dokimos.traces._attributes import Attributes, first_value

TYPE: Final = "langfuse.observation.type"
LEVEL: Final = "langfuse.observation.level"
STATUS_MESSAGE: Final = "langfuse.observation.status_message"

_INPUT: Final = "langfuse.observation.input"
_OUTPUT: Final = "langfuse.observation.output"
_MODEL: Final = "langfuse.observation.model.name"
_OWN: Final = (TYPE, _INPUT, _OUTPUT, LEVEL, _MODEL)
_ERROR_LEVELS: Final = frozenset({"ERROR", "FATAL", "CRITICAL"})
_TOKENS: Final = {
    "gen_ai.usage.input_tokens": ("input", "input_tokens", "prompt_tokens", "promptTokens"),
    "gen_ai.usage.output_tokens": ("output", "output_tokens", "completion_tokens", "completionTokens"),
    "gen_ai.usage.cache_read.input_tokens": (
        "input_cached_tokens",
        "input_cache_read",
        "cache_read_input_tokens",
    ),
    "gen_ai.usage.reasoning.output_tokens": ("output_reasoning_tokens",),
}


def is_observation(keys: Collection[str]) -> bool:
    """Say whether a span with these keys is an observation of Langfuse's, and was not only sent there."""
    return any(key in keys for key in _OWN)


def is_failed(attributes: Attributes) -> bool:
    """Say whether an observation has the level of an error, which need not be its status."""
    return LEVEL in attributes and str(attributes[LEVEL]).upper() in _ERROR_LEVELS


def normalize_attributes(attributes: Attributes) -> Attributes:
    """Return the attributes of an observation, with its content under the names of other conventions."""
    kind = str(attributes.get(TYPE) or ("generation" if _MODEL in attributes else "span")).lower()
    return {**dict(_content(kind, attributes)), **dict(_usage(attributes)), **attributes, TYPE: kind}


def _content(kind: str, attributes: Attributes) -> Iterator[tuple[str, Any]]:
    input_value = first_value(attributes, (_INPUT, "langfuse.trace.input"))
    output_value = first_value(attributes, (_OUTPUT, "langfuse.trace.output"))
    match kind:
        case "generation":
            names = "gen_ai.input.messages", "gen_ai.output.messages"
            request = parse_if_container(input_value)
            yield "gen_ai.tool.definitions", request.get("tools") if isinstance(request, dict) else None
        case "tool":
            names = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
        case "retriever":
            names = "gen_ai.retrieval.query.text", "gen_ai.retrieval.documents"
            output_value = (
                [output_value]
                if isinstance(output_value, str) and output_value == parse_if_container(output_value)
                else output_value
            )
        case _:
            names = _name("input", input_value), _name("output", output_value)
    yield from zip(names, (input_value, output_value), strict=True)


def _name(side: str, value: object) -> str:
    """Return the normalized name of the input or the output of an agent or a function."""
    tree = parse_if_container(value)
    messages = tree.get("messages") if isinstance(tree, dict) else tree
    if isinstance(messages, list) and messages and all(map(_is_message, messages)):
        return f"gen_ai.{side}.messages"
    if side == "input" and isinstance(tree, dict) and (len(tree) == 1 or "kwargs" in tree):
        return "traceloop.entity.input"  # what a traced function was called with
    return f"{side}.value"


def _is_message(value: object) -> bool:
    return isinstance(value, dict) and "content" in value and bool({"role", "type"} & value.keys())


def _usage(attributes: Attributes) -> Iterator[tuple[str, Any]]:
    if _MODEL in attributes:
        yield "gen_ai.response.model", attributes[_MODEL]
    used = parse_if_container(attributes.get("langfuse.observation.usage_details"))
    for name, keys in _TOKENS.items() if isinstance(used, dict) else ():
        yield name, first_value(used, keys)
    cost = parse_if_container(attributes.get("langfuse.observation.cost_details"))
    if isinstance(cost, dict):
        parts = [each for each in cost.values() if isinstance(each, int | float)]
        yield "gen_ai.usage.cost", cost.get("total", sum(parts))
