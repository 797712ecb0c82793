"""Seeded faults in correct calls, each with the evaluator that is meant to catch it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from dokimos import Example, ToolCall, ToolDefinition
from dokimos.evaluators import ArgumentMatcher

Calls = Sequence[ToolCall]
Perturb = Callable[[Calls, Example, random.Random], list[ToolCall] | None]
"""Returns the calls with a fault in them, None where there is no room for it."""

_MATCHER = ArgumentMatcher()

OF_ANOTHER_TYPE: dict[str, Any] = {
    "string": 12345,
    "integer": "twelve",
    "number": "twelve",
    "boolean": "perhaps",
    "array": "one, two",
    "object": "a: 1",
}


def wrong_name(calls: Calls, example: Example, rng: random.Random) -> list[ToolCall]:
    """Call a tool that does not exist."""
    return _changed(calls, rng.randrange(len(calls)), lambda call: replace(call, name=f"{call.name}_v2"))


def missing_argument(calls: Calls, example: Example, rng: random.Random) -> list[ToolCall] | None:
    """Leave a required argument out."""
    tools = _tools(example)
    places = [
        (i, name)
        for i, call in enumerate(calls)
        for name in tools[call.name].required
        if name in call.arguments
    ]
    if not places:
        return None
    index, name = rng.choice(places)
    return _changed(calls, index, lambda call: replace(call, arguments=_without(call.arguments, name)))


def wrong_type(calls: Calls, example: Example, rng: random.Random) -> list[ToolCall] | None:
    """Give an argument a value of another type than its schema names."""
    tools = _tools(example)
    places = [
        (index, name, OF_ANOTHER_TYPE[kind])
        for index, call in enumerate(calls)
        for name in call.arguments
        if (kind := tools[call.name].schema_of(name).get("type")) in OF_ANOTHER_TYPE
    ]
    if not places:
        return None
    index, name, value = rng.choice(places)
    return _changed(calls, index, lambda call: replace(call, arguments={**call.arguments, name: value}))


def extra_argument(calls: Calls, example: Example, rng: random.Random) -> list[ToolCall]:
    """Give an argument that the tool does not have."""
    index = rng.randrange(len(calls))
    return _changed(
        calls, index, lambda call: replace(call, arguments={**call.arguments, "verbosity": "high"})
    )


def reordered(calls: Calls, example: Example, rng: random.Random) -> list[ToolCall] | None:
    """Swap two calls, one of which would not be accepted in the other's place."""
    expected = example.expected_outputs["toolCalls"]
    places = [
        (i, j)
        for i in range(len(calls))
        for j in range(i)
        if not (_fits(expected[i], calls[j]) and _fits(expected[j], calls[i]))
    ]
    if not places:
        return None
    i, j = rng.choice(places)
    swapped = list(calls)
    swapped[i], swapped[j] = calls[j], calls[i]
    return swapped


def duplicated(calls: Calls, example: Example, rng: random.Random) -> list[ToolCall]:
    """Make a call twice."""
    index = rng.randrange(len(calls))
    return [*calls[: index + 1], *calls[index:]]


def _fits(expected: ToolCall, call: ToolCall) -> bool:
    return expected.name == call.name and _MATCHER(expected.arguments, call.arguments)


def _changed(calls: Calls, index: int, change: Callable[[ToolCall], ToolCall]) -> list[ToolCall]:
    return [change(call) if place == index else call for place, call in enumerate(calls)]


def _without(arguments: Any, name: str) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if key != name}


def _tools(example: Example) -> dict[str, ToolDefinition]:
    return {tool.name: tool for tool in example.metadata["tools"]}


PERTURBATIONS: dict[str, tuple[Perturb, str]] = {
    "wrong name": (wrong_name, "Tool Call Validity"),
    "missing argument": (missing_argument, "Tool Call Validity"),
    "wrong type": (wrong_type, "Tool Call Validity"),
    "extra argument": (extra_argument, "Tool Call Validity"),
    "reordered": (reordered, "Tool Trajectory"),
    "duplicated": (duplicated, "Tool Efficiency"),
}
"""Each fault with the evaluator that must catch it."""
