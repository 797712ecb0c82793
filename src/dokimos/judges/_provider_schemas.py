"""JSON Schemas in the dialects that providers accept."""

from __future__ import annotations

from typing import Any, Final

from dokimos.judges._capabilities import Mode
from dokimos.judges._protocol import JsonSchemaDict

ANSWER: Final = "answer"
"""The name of the schema, and of the tool whose arguments are the reply."""

_BOUNDS: Final = frozenset(
    {
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
        "pattern", "format", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
    }
)  # fmt: skip


def schema_for_mode(schema: JsonSchemaDict, mode: Mode) -> JsonSchemaDict:
    """Return the schema as it is sent in a mode."""
    return without_bounds(schema) if mode is Mode.SIMPLE_SCHEMA else schema


def without_bounds(schema: JsonSchemaDict) -> dict[str, Any]:
    """Return a schema without bounds and patterns, which some refuse; replies are checked anyway."""
    simpler = {}
    for key, value in schema.items():
        if key == "properties":  # a property may be called like a bound, "pattern" for example
            simpler[key] = {name: without_bounds(each) for name, each in value.items()}
        elif key not in _BOUNDS:
            simpler[key] = _without_bounds_inside(value)
    return simpler


def _without_bounds_inside(value: object) -> Any:
    if isinstance(value, list):
        return [_without_bounds_inside(each) for each in value]
    return without_bounds(value) if isinstance(value, dict) else value
