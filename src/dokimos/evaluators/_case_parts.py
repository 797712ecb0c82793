"""The parts of a case that evaluators require and judges are shown, by the paths that name them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final

from dokimos._core import contexts
from dokimos._core.keys import RELEVANT, input_of
from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError

SECTIONS: Final[dict[str, Callable[[EvalTestCase], Mapping[str, Any]]]] = {
    "inputs": lambda case: case.inputs,
    "outputs": lambda case: case.actual_outputs,
    "expected_outputs": lambda case: case.expected_outputs,
    "metadata": lambda case: case.metadata,
}
_WHOLE_PARTS: Final[dict[str, Callable[[EvalTestCase], Any]]] = {
    "input": lambda case: input_of(case.inputs),
    "actual_output": lambda case: case.actual_outputs.get("output"),
    "expected_output": lambda case: case.expected_outputs.get("output"),
    "contexts": lambda case: case.contexts,
    "metadata": lambda case: case.metadata or None,
    "metrics": lambda case: case.metrics,
    "inputs": lambda case: case.inputs or None,
    "outputs": lambda case: case.actual_outputs or None,
    "expected_outputs": lambda case: case.expected_outputs or None,
}
_ITEMS: Final = "retrieved"
"""What was retrieved, texts or ids: the path of the retrieval metrics."""


def part_of(case: EvalTestCase, path: str) -> Any:
    """Return the part of a case that a path names, None when absent.

    Paths: `input`, `actual_output`, `expected_output`, `contexts`, `metrics`, a whole map (`inputs`,
    `outputs`, `expected_outputs`, `metadata`; an empty one is absent), and a key of a map: `inputs.KEY`,
    `outputs.KEY`, `expected_outputs.KEY`, `metadata.KEY`. Evaluators of retrieval also require
    `retrieved` and `relevant`; these and `contexts` take a key of the user's own too: `contexts.KEY`.
    """
    return _reader(path)(case)


def relevant_items(case: EvalTestCase, key: str = RELEVANT) -> Any:
    """Return the relevant items: of the expected outputs, else of the metadata (a column of the data set)."""
    value = case.expected_outputs.get(key)
    return contexts.parse_list(case.metadata.get(key) if value is None else value)


def _reader(path: str) -> Callable[[EvalTestCase], Any]:
    whole = _WHOLE_PARTS.get(path)
    if whole is not None:
        return whole
    section, _, key = path.partition(".")
    if section == "inputs":
        return lambda case: input_of(case.inputs, key)
    if section == RELEVANT:
        return lambda case: relevant_items(case, key or RELEVANT)
    if section in (_ITEMS, "contexts"):
        names = (key,) if key else contexts.OF_RANKINGS
        return lambda case: case.find_contexts(names, texts=False)
    # A task may return its contexts under any of their names, whatever name an evaluator requires.
    if section == "outputs" and key in contexts.NAMES:
        return lambda case: _read_contexts(case, key)
    part = SECTIONS.get(section)
    if part is None or not key:
        similar = get_close_matches(path, _WHOLE_PARTS, n=1)
        question = f" Did you mean {similar[0]!r}?" if similar else ""
        raise ConfigurationError(
            f"`requires` names {path!r}, which is not a part of a case.{question} "
            f"The parts are {_names_of_parts()}."
        )
    return lambda case: part(case).get(key)


def _read_contexts(case: EvalTestCase, key: str) -> Any:
    """Return the outputs' value under one name of the contexts, else their texts under another name."""
    value = case.actual_outputs.get(key)
    return case.contexts if value is None and key != _ITEMS else value


@lru_cache(maxsize=256)
def readers_of(paths: tuple[str, ...]) -> tuple[tuple[str, Callable[[EvalTestCase], Any]], ...]:
    """Return each path with what reads it in a case."""
    return tuple((path, _reader(path)) for path in paths)


def _names_of_parts() -> str:
    return ", ".join([*_WHOLE_PARTS, *(f"{section}.KEY" for section in SECTIONS)])


def check_params(name: str, params: Sequence[str]) -> None:
    """Raise `ConfigurationError` unless all are paths of parts, and there is one."""
    if not params:
        raise ConfigurationError(
            f"{name}: evaluation_params must not be empty; leave it out for the default."
        )
    for path in params:
        section, dot, key = path.partition(".")
        if path not in _WHOLE_PARTS and not (section in SECTIONS and dot and key):
            raise ConfigurationError(
                f"{name}: unknown evaluation param {path!r}; expected one of {_names_of_parts()}."
            )
