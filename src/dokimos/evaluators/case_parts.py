"""The parts of a case that evaluators require and judges are shown, by the paths that name them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from dokimos.core.keys import input_of
from dokimos.core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError

_SECTIONS: Final[dict[str, Callable[[EvalTestCase], Mapping[str, Any]]]] = {
    "inputs": lambda case: case.inputs,
    "outputs": lambda case: case.actual_outputs,
    "expected_outputs": lambda case: case.expected_outputs,
    "metadata": lambda case: case.metadata,
}
_WHOLE_PARTS: Final[dict[str, Callable[[EvalTestCase], Any]]] = {
    "input": lambda case: input_of(case.inputs),
    "actual_output": lambda case: case.actual_outputs.get("output"),
    "expected_output": lambda case: case.expected_outputs.get("output"),
    "metadata": lambda case: case.metadata or None,
    "metrics": lambda case: case.metrics,
}


def part_of(case: EvalTestCase, path: str) -> Any:
    """Return the part of a case that a path names, None when absent.

    Paths: `input`, `actual_output`, `expected_output`, `metadata`, `metrics`, and a key of a map:
    `inputs.KEY`, `outputs.KEY`, `expected_outputs.KEY`, `metadata.KEY`.
    """
    return _reader(path)(case)


def _reader(path: str) -> Callable[[EvalTestCase], Any]:
    whole = _WHOLE_PARTS.get(path)
    if whole is not None:
        return whole
    section, _, key = path.partition(".")
    if section == "inputs":
        return lambda case: input_of(case.inputs, key)
    part = _SECTIONS[section]
    return lambda case: part(case).get(key)


@lru_cache(maxsize=256)
def readers_of(paths: tuple[str, ...]) -> tuple[tuple[str, Callable[[EvalTestCase], Any]], ...]:
    """Return each path with what reads it in a case."""
    return tuple((path, _reader(path)) for path in paths)


def check_params(name: str, params: Sequence[str]) -> None:
    """Raise `ConfigurationError` unless all are paths of parts, and there is one."""
    if not params:
        raise ConfigurationError(
            f"{name}: evaluation_params must not be empty; leave it out for the default."
        )
    for path in params:
        section, dot, key = path.partition(".")
        if path not in _WHOLE_PARTS and not (section in _SECTIONS and dot and key):
            allowed = ", ".join([*_WHOLE_PARTS, *(f"{s}.KEY" for s in _SECTIONS)])
            raise ConfigurationError(f"{name}: unknown evaluation param {path!r}; expected one of {allowed}.")


def describe_path(path: str) -> str:
    """Return a path as it stands in a sentence: "an input", "'topic' in the metadata"."""
    section, dot, key = path.partition(".")
    if not dot:
        return {"actual_output": "an actual output", "expected_output": "an expected output",
                "input": "an input", "metadata": "metadata",
                "metrics": "metrics measured by the task"}.get(path, path)  # fmt: skip
    return f"{key!r} in the {section.replace('_', ' ')}"
