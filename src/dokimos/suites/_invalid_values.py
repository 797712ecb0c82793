"""Placeholders for the invalid parts of a suite, so that one pass finds the faults of all the others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from copy import deepcopy
from functools import reduce
from operator import getitem
from typing import Any, Final

from dokimos.suites._problems import Steps

_TOOL_PREFIX: Final = "placeholder_"
_EXPECTED_TOOL: Final = "-"


def is_placeholder(name: str) -> bool:
    """Say whether a tool of this name is the placeholder of an invalid one."""
    return name == _EXPECTED_TOOL or name.startswith(_TOOL_PREFIX)


def replace_invalid(suite: Any, faults: Iterable[Steps]) -> Any:
    """Return a suite in which a placeholder replaces each invalid element of a list.

    Where an invalid element is inside another one, only the inner one is replaced. Faults outside of lists
    stay. Indices do not change, so that locations in the file stay correct.
    """
    repaired = deepcopy(suite)
    for steps in faults:
        for end in range(len(steps) - 1, 0, -1):
            placeholder = _build_placeholder(steps[:end], steps[end])
            if placeholder:
                with contextlib.suppress(LookupError, TypeError):  # an outer element is a placeholder already
                    reduce(getitem, steps[:end], repaired)[steps[end]] = placeholder
                break
    return repaired


def _build_placeholder(above: Steps, index: str | int) -> dict[str, Any]:
    """Return a placeholder for an element of the list at `above`, an empty map where there is none."""
    if isinstance(index, str):
        return {}
    match above:
        case ("tools",):
            parameters = {"text": "string"}
            return {
                "name": f"{_TOOL_PREFIX}{index}",
                "type": "prompt",
                "template": "-",
                "parameters": parameters,
            }
        case (*_, "expected_tools") | (*_, "expected_tools", "tools"):
            return {"name": _EXPECTED_TOOL}
        case (*_, "evaluations" | "metrics"):
            return {"type": "standard", "metric": "equality"}
        case (*_, "test_cases" | "turns"):
            return {"input": "-"}
    return {}
