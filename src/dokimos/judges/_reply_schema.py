"""The shape of a reply as a pydantic adapter and as a JSON Schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from dokimos._core.constraints import describe_requirement

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@cache
def schema_of(shape: object) -> dict[str, Any]:
    """Return the JSON Schema of a reply, with all fields required and no others allowed."""
    schema = adapter_of(shape).json_schema()
    definitions = schema.pop("$defs", {})
    schema_without_references = _inline_references(schema, definitions)
    assert isinstance(schema_without_references, dict)
    return schema_without_references


def _inline_references(node: object, definitions: Mapping[str, Any]) -> Any:
    """Replace references by their definitions: small models and some servers do not follow references."""
    if isinstance(node, list):
        return [_inline_references(element, definitions) for element in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inline_references(definitions[node["$ref"].rpartition("/")[2]], definitions)
    result = {
        key: _inline_references(value, definitions)
        for key, value in node.items()
        if key not in ("title", "default")
    }
    if result.get("type") == "object" and "properties" in result:
        result["required"] = list(result["properties"])
        result["additionalProperties"] = False
    return result


@cache
def adapter_of(shape: Any) -> TypeAdapter[Any]:
    """Return the pydantic adapter that validates a shape."""
    from pydantic import TypeAdapter

    return TypeAdapter(shape)


def explain(problem: ValueError) -> str:
    """Return what is wrong with a value, and where in it."""
    errors = getattr(problem, "errors", None)
    if not callable(errors):
        return str(problem)
    result: Iterable[Any] = errors()[:3]
    return "; ".join(f"{'.'.join(map(str, e['loc'])) or 'reply'}: {describe_requirement(e)}" for e in result)
