"""A size as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from dokimos._core.jsonable import camel_case
from dokimos._sizing.sizing import Sizing


def sizing_tree(sizing: Sizing) -> dict[str, Any]:
    """Return a size as a tree of JSON: its fields, and what is derived of them."""
    tree: dict[str, Any] = _camel(asdict(sizing))
    for branch, resource in zip(tree["resources"], sizing.resources, strict=True):
        branch |= {"used": resource.used, "fullAt": resource.growth}
    first = sizing.first
    return {
        "isEnough": sizing.is_enough,
        "first": None if first is None else first.name,
        "next": None if first is None else first.remedy,
        **tree,
    }


def _camel(value: Any) -> Any:
    if isinstance(value, dict):
        return {camel_case(key): _camel(content) for key, content in value.items()}
    return [_camel(content) for content in value] if isinstance(value, list | tuple) else value
