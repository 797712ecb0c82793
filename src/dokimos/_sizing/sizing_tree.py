"""A size as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from dokimos._core.jsonable import camel_case
from dokimos._sizing.sizing import Sizing


def build_tree(sizing: Sizing) -> dict[str, Any]:
    """Return a size as a tree of JSON: its fields, and what is derived of them."""
    tree: dict[str, Any] = _rename_keys(asdict(sizing))
    for branch, resource in zip(tree["resources"], sizing.resources, strict=True):
        branch |= {"used": resource.used, "isEnough": resource.is_enough, "fullAt": resource.growth}
    first = sizing.first
    return {
        "isEnough": sizing.is_enough,
        "first": None if first is None else first.name,
        "allServers": sizing.deployment.all_servers,
        "next": None if first is None else first.remedy,
        **tree,
    }


def _rename_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {camel_case(key): _rename_keys(content) for key, content in value.items()}
    return [_rename_keys(content) for content in value] if isinstance(value, list | tuple) else value
