"""Something harmless for what is at fault in a suite, so that the rest of it can be looked at too."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from copy import deepcopy
from functools import reduce
from operator import getitem
from typing import Any, Final

from dokimos.suites.problems import Steps

_TOOL: Final = "stand_in_"
_EXPECTED: Final = "-"


def is_stand_in(name: str) -> bool:
    """Whether a tool of this name only stands for one that is at fault."""
    return name == _EXPECTED or name.startswith(_TOOL)


def without_faults(suite: Any, faults: Iterable[Steps]) -> Any:
    """Return a suite in which each element of a list that is at fault has a stand-in.

    Of elements within each other the innermost has it. Faults that are elsewhere stay. Indices do not change,
    so that places are still true.
    """
    mended = deepcopy(suite)
    for steps in faults:
        for end in range(len(steps) - 1, 0, -1):
            stand_in = _stand_in(steps[:end], steps[end])
            if stand_in:
                with contextlib.suppress(LookupError, TypeError):  # what is above has a stand-in already
                    reduce(getitem, steps[:end], mended)[steps[end]] = stand_in
                break
    return mended


def _stand_in(above: Steps, index: str | int) -> dict[str, Any]:
    """Return what stands for an element of the list at `above`, nothing where none can."""
    if isinstance(index, str):
        return {}
    match above:
        case ("tools",):
            parameters = {"text": "string"}
            return {"name": f"{_TOOL}{index}", "type": "prompt", "template": "-", "parameters": parameters}
        case (*_, "expected_tools") | (*_, "expected_tools", "tools"):
            return {"name": _EXPECTED}
        case (*_, "evaluations" | "metrics"):
            return {"type": "standard", "metric": "equality"}
        case (*_, "test_cases" | "turns"):
            return {"input": "-"}
    return {}
