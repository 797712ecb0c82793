"""Reading lists of tool calls and of tools out of data, with the place of what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dokimos._core.agent import ToolCall
from dokimos._core.tool_definition import ToolDefinition
from dokimos.errors import EvaluationError


def tool_calls_from(value: object, *, key: str) -> tuple[ToolCall, ...]:
    """Read a sequence of `ToolCall`s or maps. Raises `EvaluationError` naming `key` and the index."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise EvaluationError(f"{key!r} must be a list of tool calls, not {type(value).__name__}.")
    if set(map(type, value)) == {ToolCall}:
        return tuple(value)
    return tuple(
        [
            element if type(element) is ToolCall else _tool_call(element, f"{key}[{index}]")
            for index, element in enumerate(value)
        ]
    )


def _tool_call(element: object, path: str) -> ToolCall:
    if not isinstance(element, Mapping):
        raise EvaluationError(f"{path} must be a ToolCall or a map, not {type(element).__name__}.")
    try:
        return ToolCall.from_map(element)
    except (ValueError, TypeError) as cause:
        raise EvaluationError(f"{path}: {cause}") from cause


def tool_definitions_from(value: object, *, key: str) -> tuple[ToolDefinition, ...]:
    """Read a sequence of tools, each as `ToolDefinition.from_object` takes it.

    Raises `EvaluationError` naming `key` and the index.
    """
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise EvaluationError(f"{key!r} must be a list of tools, not {type(value).__name__}.")
    return tuple(
        [
            element if type(element) is ToolDefinition else _tool_definition(element, f"{key}[{index}]")
            for index, element in enumerate(value)
        ]
    )


def _tool_definition(element: object, path: str) -> ToolDefinition:
    try:
        return ToolDefinition.from_object(element)
    except (ValueError, TypeError) as cause:
        raise EvaluationError(f"{path}: {cause}") from cause
