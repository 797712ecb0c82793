"""The shape of a reply as pydantic and as a JSON Schema know it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from dokimos.core.constraints import requirement

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@cache
def schema_of(shape: Any) -> dict[str, Any]:
    """Return the JSON Schema of a reply, with all fields required and no others allowed."""
    schema = adapter_of(shape).json_schema()
    definitions = schema.pop("$defs", {})
    inlined = _inlined(schema, definitions)
    assert isinstance(inlined, dict)
    return inlined


def _inlined(node: Any, definitions: Mapping[str, Any]) -> Any:
    """Put definitions in the place of their references: small models and some servers do not follow them."""
    if isinstance(node, list):
        return [_inlined(element, definitions) for element in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inlined(definitions[node["$ref"].rpartition("/")[2]], definitions)
    found = {
        key: _inlined(value, definitions) for key, value in node.items() if key not in ("title", "default")
    }
    if found.get("type") == "object" and "properties" in found:
        found["required"] = list(found["properties"])
        found["additionalProperties"] = False
    return found


@cache
def adapter_of(shape: Any) -> TypeAdapter[Any]:
    """Return what reads a shape."""
    from pydantic import TypeAdapter

    return TypeAdapter(shape)


def explain(problem: ValueError) -> str:
    """Say what is wrong with a value, and where in it."""
    errors = getattr(problem, "errors", None)
    if not callable(errors):
        return str(problem)
    found: Iterable[Any] = errors()[:3]
    return "; ".join(f"{'.'.join(map(str, e['loc'])) or 'reply'}: {requirement(e)}" for e in found)
