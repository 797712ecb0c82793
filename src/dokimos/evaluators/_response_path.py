"""`response_path`: score one leaf of a JSON output, such as `order.items[0].price`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from dokimos._core.jsonable import jsonable
from dokimos._core.keys import OUTPUT
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import pluralize
from dokimos.errors import ConfigurationError, UnusableOutputError

_SEGMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)((?:\[[0-9]+\])*)")


def check_response_path(owner: str, path: str, *, setting: str = "response_path") -> None:
    """Raise `ConfigurationError` unless `path` is names joined by dots, each with any number of `[index]`."""
    try:
        _steps(path)
    except ValueError as error:
        raise ConfigurationError(f"{owner}: {setting} {error}", setting=setting) from None


def with_response_path(case: EvalTestCase, path: str) -> EvalTestCase:
    """Return the case with the leaf at `path` as its output, stringified as Python's `str` does.

    Raises:
        UnusableOutputError: when the output is not JSON, has no such path, or the path ends at a container.
    """
    leaf = _walk(_tree(case.actual_outputs.get(OUTPUT)), path)
    if isinstance(leaf, dict | list):
        raise UnusableOutputError(f"The output has {_kind(leaf)} at {path!r}, not a single value.")
    return replace(case, actual_outputs={**case.actual_outputs, OUTPUT: str(leaf)})


@lru_cache(maxsize=256)
def _steps(path: str) -> tuple[str | int, ...]:
    steps: list[str | int] = []
    for segment in path.split("."):
        match = _SEGMENT.fullmatch(segment)
        if match is None:
            raise ValueError(
                f"{path!r} is not valid at {segment!r}; expected names joined by dots, "
                "each with any number of [index], such as 'order.items[0].price'."
            )
        steps.append(match[1])
        # Not \d: it matches the digits of all scripts.
        steps.extend(int(index) for index in re.findall(r"[0-9]+", match[2]))
    return tuple(steps)


def _tree(output: object) -> Any:
    if not isinstance(output, str):
        return jsonable(output)
    try:
        return json.loads(output)
    except (ValueError, RecursionError):
        excerpt = output if len(output) <= 80 else f"{output[:80]}…"
        raise UnusableOutputError(f"The output is not JSON: {excerpt!r}.") from None


def _walk(tree: object, path: str) -> Any:
    here = ""
    for step in _steps(path):
        tree = _index(tree, step, here) if isinstance(step, int) else _field(tree, step, here)
        here += f"[{step}]" if isinstance(step, int) else f".{step}"
    return tree


def _field(tree: object, name: str, here: str) -> Any:
    if not isinstance(tree, Mapping):
        raise UnusableOutputError(
            f"The output has {_kind(tree)} at {_place(here)}, not an object with {name!r}."
        )
    if name not in tree:
        keys = ", ".join(sorted(tree)) or "none"
        raise UnusableOutputError(f"The output has no {name!r} at {_place(here)}; its keys are: {keys}.")
    return tree[name]


def _index(tree: object, index: int, here: str) -> Any:
    if not isinstance(tree, list):
        raise UnusableOutputError(f"The output has {_kind(tree)} at {_place(here)}, not a list.")
    if index >= len(tree):
        raise UnusableOutputError(
            f"The list at {_place(here)} has {pluralize(len(tree), 'element')}, so none at [{index}]."
        )
    return tree[index]


def _place(here: str) -> str:
    return repr(here.lstrip(".")) if here else "its top level"


def _kind(value: object) -> str:
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case str():
            return "a string"
        case None:
            return "null"
        case bool():
            return "a boolean"
        case _:
            return "a number"
