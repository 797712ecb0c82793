"""Finds how a tool that ran describes itself: name, description and the schema of its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dokimos._core.json_object import parse_if_container
from dokimos.traces._semconv import TOOL_NAME, Names
from dokimos.traces._span_source import SpanSource

_SCHEMAS: Final = Names("gen_ai.tool.json_schema", "tool.json_schema", "tool.parameters")
_DESCRIPTIONS: Final = Names("gen_ai.tool.description", "tool.description")
_TYPES: Final = frozenset(
    ("string", "integer", "number", "boolean", "array", "object", "null", "any", "image", "audio")
)


def describe_own_tool(source: SpanSource) -> list[dict[str, Any]] | None:
    """Return the description of the tool of a span, None where the span does not have its schema.

    OpenInference's `tool.parameters` is a JSON Schema, a whole function as OpenAI describes it, the inputs
    of a tool of smolagents, or the arguments of the call, which are not a description.
    """
    present = source.plan[_SCHEMAS]
    if not present:
        return None
    name = source.first(TOOL_NAME)
    schemas = (find_schema(source.get(key)) for key in present)
    schema = next((each for each in schemas if each is not None), None)
    if name is None or schema is None:
        return None
    description = source.first(_DESCRIPTIONS) or schema.get("description")
    return [{"name": str(name), "description": str(description or ""), "parameters": schema}]


def find_schema(value: object) -> dict[str, Any] | None:
    """Return the schema of arguments in what may be one; None for arguments."""
    tree: Any = parse_if_container(value)
    if not isinstance(tree, dict):
        return None
    if isinstance(tree.get("function"), dict):
        tree = tree["function"]
    for key in ("parameters", "input_schema", "inputSchema"):
        if "name" in tree and isinstance(tree.get(key), dict):
            tree = tree[key]
    if tree.get("type") == "object" or _is_schema_of_properties(tree):
        return dict(tree)
    return _schema_of_inputs(tree) if tree and all(map(_is_input, tree.values())) else None


def _is_schema_of_properties(tree: Mapping[str, Any]) -> bool:
    properties = tree.get("properties")
    return isinstance(properties, dict) and all(isinstance(each, dict) for each in properties.values())


def _is_input(value: object) -> bool:
    """Say whether this describes one input of a tool of smolagents, which always has a type and a text."""
    if not isinstance(value, dict) or not isinstance(value.get("description"), str):
        return False
    types = value.get("type")
    return bool(types) and all(each in _TYPES for each in (types if isinstance(types, list) else [types]))


def _schema_of_inputs(inputs: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    not_json = {"any", "image", "audio"}
    properties = {
        name: {
            key: value
            for key, value in each.items()
            if key != "nullable" and not (key == "type" and isinstance(value, str) and value in not_json)
        }
        for name, each in inputs.items()
    }
    required = [name for name, each in inputs.items() if not each.get("nullable")]
    return {"type": "object", "properties": properties, "required": required}
