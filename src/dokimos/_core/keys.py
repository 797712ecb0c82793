"""The conventional keys inside inputs, outputs and metadata; every other key is the user's own."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

INPUT: Final = "input"
QUERY: Final = "query"
OUTPUT: Final = "output"
CONTEXTS: Final = "contexts"
"""What was retrieved; `contexts.py` knows its other names."""
TOOL_CALLS: Final = "toolCalls"
REASONING_STEPS: Final = "reasoningSteps"
RETRIEVED: Final = "retrieved"
RELEVANT: Final = "relevant"
TOOLS: Final = "tools"
TASKS: Final = "tasks"
CONSTRAINTS: Final = "constraints"
PLAN: Final = "plan"
INVALID_ARGUMENTS: Final = "invalidArguments"
"""In the metadata of a tool call: what a model wrote where its arguments should be."""
UNKNOWN_ARGUMENTS: Final = "unknownArguments"
"""In the metadata of a tool call: True where its arguments were not recorded."""
CALL_ID: Final = "id"
"""In the metadata of a tool call: the id that its model or framework gave it."""
CALL_ERROR: Final = "error"
"""In the metadata of a tool call: what went wrong, where the caller knows."""
ERRORS: Final = "errors"
"""In the outputs of a run: what failed beside its answer."""
PARTIAL_RESPONSE: Final = "partialResponse"
"""In the metadata of an agent trace, and in its outputs: what was said before an answer broke off."""
UNKNOWN_RESPONSE: Final = "unknownResponse"
"""In the metadata of an agent trace: True where its answer was not recorded."""
TRAJECTORY: Final = "trajectory"
END_REASON: Final = "endReason"
"""In the metadata of a conversation: why it ended."""
BROKEN_OFF: Final = ("error", "timeout")
"""Reasons for the end of a conversation that is not whole."""


def input_of(inputs: Mapping[str, Any], key: str = INPUT) -> Any:
    """Return the value under a key of the inputs; without "input" that under "query", as in search."""
    value = inputs.get(key)
    return inputs.get(QUERY) if value is None and key == INPUT else value


def outputs_of(
    outputs: Mapping[str, Any], tool_calls: Iterable[Any] | None, contexts: Iterable[Any] | None
) -> dict[str, Any]:
    """Return outputs with the tool calls and contexts that are given beside them.

    Raises:
        TypeError: where one of them is one text or mapping, or is among the outputs already.
    """
    joined = dict(outputs)
    for name, key, values in (("tool_calls", TOOL_CALLS, tool_calls), ("contexts", CONTEXTS, contexts)):
        if values is None:
            continue
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            raise TypeError(f"{name} must be a list, not {type(values).__name__}.")
        if key in joined:
            raise TypeError(f"{name} is given, and {key!r} is among the outputs; give one of them.")
        joined[key] = list(values)
    return joined


def value_of(values: Mapping[str, Any], key: str) -> Any:
    """Return the value under a key, else the only one there is, else the mapping of all."""
    if key in values:
        return values[key]
    return next(iter(values.values())) if len(values) == 1 else values
