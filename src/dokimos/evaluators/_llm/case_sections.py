"""The parts of a case as a judge is shown them: labelled, and fenced off from its orders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from dokimos._core.jsonable import jsonable, pretty_json
from dokimos._core.test_case import EvalTestCase
from dokimos.evaluators._case_parts import part_of
from dokimos.judges._fencing import fence

USUAL_PARTS: Final = ("input", "actual_output")
"""The parts of a case that a judge sees by default, together with the expected output where there is one."""


def select_parts(case: EvalTestCase, params: Sequence[str] | None, usual: Sequence[str]) -> tuple[str, ...]:
    """Return the parts of a case that a judge is shown: those asked for, else the usual ones."""
    if params is not None:
        return tuple(params)
    has_expected = part_of(case, "expected_output") is not None
    return default_parts(usual) if has_expected else tuple(usual)


def default_parts(usual: Sequence[str]) -> tuple[str, ...]:
    """Return the parts that a judge may be shown by default: the usual ones and an expected output."""
    expected = "expected_output"
    return tuple(usual) if expected in usual else (*usual, expected)


def material(case: EvalTestCase, parts: Iterable[str]) -> str:
    """Return the parts of a case, each under its label."""
    return "\n".join(section(label_of(path), part_of(case, path)) for path in parts)


def section(label: str, value: object) -> str:
    """Return one labelled piece of judged text."""
    return f"{label}:\n{fence(label, render_value(value))}"


def render_value(value: object) -> str:
    """Return a value as a judge reads it: strings as they are, anything else as indented JSON."""
    if isinstance(value, str):
        return value
    return pretty_json(jsonable(value))


def label_of(path: str) -> str:
    """Return `Actual Output` for `actual_output`, `Context` for `outputs.context`."""
    # Keys of users, such as orderId, keep their spelling.
    return path.rpartition(".")[2].replace("_", " ").title() if path.islower() else path.rpartition(".")[2]


def number_lines(label: str, texts: Sequence[str], *, numbers: Sequence[int] | None = None) -> str:
    """Return texts as fenced lines `[1] ...`, `[2] ...`; none can start a line of its own."""
    marks = range(1, len(texts) + 1) if numbers is None else numbers
    lines = (f"[{mark}] {one_line(text)}" for mark, text in zip(marks, texts, strict=True))
    return section(label, "\n".join(lines))


def one_line(text: str) -> str:
    """Return `text` on one line, its line breaks written as escapes."""
    return "\\n".join(text.splitlines())
