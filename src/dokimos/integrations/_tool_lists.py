"""Lists of the tools of agents as definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from dokimos._core.tool_definition import ToolDefinition


def describe_tools(
    describe: Callable[[Any], tuple[ToolDefinition, ...]], agent: object
) -> tuple[ToolDefinition, ...] | None:
    """Return the tools of an agent for the evaluators of its run; None where they cannot be described."""
    try:
        return describe(agent)
    except Exception:  # tools that cannot be described do not keep the agent from running
        return None


def define_tools(tools: Iterable[Any]) -> tuple[ToolDefinition, ...]:
    """Return tools of any form that `ToolDefinition.from_object` parses. Raises `ValueError`."""
    return tuple(ToolDefinition.from_object(tool) for tool in tools)


def merge_tools(tools: Iterable[ToolDefinition]) -> tuple[ToolDefinition, ...]:
    """Return the tools of several agents without duplicates of a name.

    Where tools of one name have different schemas, arguments that match any of them are valid.
    """
    by_name: dict[str, list[ToolDefinition]] = {}
    for tool in tools:
        variants = by_name.setdefault(tool.name, [])
        if all(tool.input_schema != variant.input_schema for variant in variants):
            variants.append(tool)
    return tuple(_merge_schemas(variants) for variants in by_name.values())


def add_offered_tools(
    described: Iterable[ToolDefinition] | None, offered: Iterable[ToolDefinition] | None
) -> tuple[ToolDefinition, ...] | None:
    """Return the tools of an agent, and others that its model was offered; None where they are unknown."""
    if described is None:
        return None
    by_name: dict[str, ToolDefinition] = {}
    for tool in (*described, *(offered or ())):
        by_name.setdefault(tool.name, tool)
    return tuple(by_name.values())


def _merge_schemas(tools: list[ToolDefinition]) -> ToolDefinition:
    first = tools[0]
    return (
        first
        if len(tools) == 1
        else replace(first, input_schema={"anyOf": [tool.input_schema for tool in tools]})
    )
