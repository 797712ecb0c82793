"""Something harmless for what is at fault in a suite, so that the rest of it can be looked at too."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, Final

from dokimos.suites.problems import Steps

_METRIC: Final[Mapping[str, Any]] = {"type": "standard", "metric": "equality"}
_TURN: Final[Mapping[str, Any]] = {"input": "-"}
_TOOL: Final[Mapping[str, Any]] = {"type": "prompt", "template": "-", "parameters": {"text": "string"}}
_STAND_INS: Final[Mapping[str | int, Mapping[str, Any]]] = {
    "evaluations": _METRIC,
    "expected_tools": {"name": "-"},
    "metrics": _METRIC,
    "test_cases": _TURN,
    "tools": _TOOL,
    "turns": _TURN,
}
"""What stands for an element of a list, by the key of the list."""


def without_faults(suite: Any, faults: Iterable[Steps]) -> Any:
    """Return a suite in which each element of a list that is at fault has a stand-in.

    Faults that are elsewhere stay. Indices do not change, so that places are still true.
    """
    mended = deepcopy(suite)
    for steps in faults:
        ends = [end for end in range(2, len(steps) + 1) if steps[end - 2] in _STAND_INS]
        if ends:
            *above, last = steps[: ends[-1]]
            with contextlib.suppress(LookupError, TypeError):  # what is above has a stand-in already
                _put(mended, above, last)
    return mended


def _put(value: Any, above: Iterable[str | int], last: str | int) -> None:
    key: str | int = ""
    for key in above:
        value = value[key]
    if isinstance(value, list) and isinstance(last, int):
        named = {"name": f"stand_in_{last}"} if key == "tools" else {}
        value[last] = {**_STAND_INS[key], **named}
