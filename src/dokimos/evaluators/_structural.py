"""`StructuralMatch`: compare the output with the expected value as JSON structures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, cast

from dokimos._core.keys import OUTPUT
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import pluralize, quote
from dokimos.errors import EvaluationError, UnusableOutputError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._json_tree import Mode, Tree, leaf_count, parse_json, render_tree, scalar_key, tree_of
from dokimos.evaluators._lenient_equality import LenientEquality
from dokimos.evaluators._missing_parts import missing_part
from dokimos.evaluators._setting_checks import check_option, check_text

_SHOWN_DIFFERENCES: Final = 5


@dataclass(frozen=True, kw_only=True)
class StructuralMatch(Evaluator):
    """Share of the leaves of the expected structure that the output has too, compared as JSON values.

    Texts that are JSON are parsed; other texts are JSON strings. Numbers compare by value, exactly. "strict"
    wants the same fields and the same order of arrays, and extra leaves count against the output. "lenient"
    lets extra fields pass, takes null and a missing field for the same, and pairs the elements of arrays in
    whatever order matches most; an element matches whole or not at all. A missing or extra structure counts
    with all its leaves; a value of another kind with those of the larger side (in lenient mode the expected).

    Example:
        >>> case = EvalTestCase.of("Order?", '{"id": 7, "total": 30}', {"id": 7, "total": 31})
        >>> StructuralMatch().evaluate(case).reason
        'The structures differ (1 of 2 leaf paths matched): $.total: expected 31, got 30.'
    """

    method_source = "Defined by dokimos."
    default_name = "Structural Match"
    looks_for: ClassVar[tuple[str, ...]] = ("outputs.output", "expected_outputs.output")

    mode: Literal["strict", "lenient"] = "strict"
    """Whether extra fields and the order of arrays matter."""
    binary: bool = False
    """Score 1 where nothing differs and 0 otherwise, instead of the share of leaves."""
    output_key: str = OUTPUT
    """The key of the value, in the outputs and in the expected outputs."""
    threshold: float | None = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_option(self, "mode", self.mode, ("strict", "lenient"))
        check_text(self, "output_key", self.output_key)

    def score(self, case: EvalTestCase) -> Score:
        expected = self._read_expected(case)
        actual = self._read_actual(case)
        comparison = Comparison.of(expected, actual, self.mode)
        value = float(not comparison.differences) if self.binary else comparison.share
        reason = comparison.reason()
        if isinstance(expected, dict | list) and _is_prose(actual, case.actual_outputs.get(self.output_key)):
            reason = f"The output is not JSON but the text {quote(actual)}; expected {render_tree(expected)}."
        return Score(value, reason, metadata={"matched": comparison.matched, "total": comparison.total})

    def _read_expected(self, case: EvalTestCase) -> Tree:
        if self.output_key not in case.expected_outputs:
            raise missing_part(self.name, f"expected_outputs.{self.output_key}", case)
        try:
            return _parse_operand(case.expected_outputs[self.output_key])
        except ValueError as error:
            raise EvaluationError(f"The expected {self.output_key!r} cannot be compared: {error}.") from None

    def _read_actual(self, case: EvalTestCase) -> Tree:
        try:
            return _parse_operand(case.actual_outputs.get(self.output_key))
        except ValueError as error:
            raise UnusableOutputError(f"The output cannot be compared: {error}.") from None


@dataclass(frozen=True, slots=True)
class Difference:
    """A place where two structures differ; a side without a value there says `<missing>`."""

    path: str
    expected: str
    actual: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two trees compare: their leaves, those that match, and where they differ."""

    matched: int
    total: int
    differences: tuple[Difference, ...]

    @classmethod
    def of(cls, expected: Tree, actual: Tree, mode: Mode = "strict") -> Comparison:
        walk = _Walk(mode)
        matched, total = walk.compare(expected, actual, "$")
        return cls(matched, total, tuple(walk.differences))

    @property
    def share(self) -> float:
        return self.matched / self.total if self.total else 1.0

    def reason(self) -> str:
        leaves = f"({self.matched} of {self.total} leaf paths matched)"
        if not self.differences:
            return f"The structures are equal {leaves}."
        first = self.differences[:_SHOWN_DIFFERENCES]
        listed = "; ".join(f"{d.path}: expected {d.expected}, got {d.actual}" for d in first)
        more = len(self.differences) - len(first)
        rest = f"; and {pluralize(more, 'more difference')}" if more else ""
        return f"The structures differ {leaves}: {listed}{rest}."


_MISSING: Final = object()


class _Walk:
    """One comparison; `compare` returns (leaves matched, leaves in all) and collects the differences."""

    def __init__(self, mode: Mode) -> None:
        self.differences: list[Difference] = []
        self._lenient = mode == "lenient"
        self._elements = LenientEquality()

    def compare(self, expected: object, actual: object, path: str) -> tuple[int, int]:
        # An empty container is a leaf: otherwise {} would match with 0 of 0 leaves, which proves nothing.
        if expected == actual and expected in ({}, []):
            return 1, 1
        if isinstance(expected, dict) and isinstance(actual, dict):
            return self._compare_all(self._fields(expected, actual, path))
        if isinstance(expected, list) and isinstance(actual, list):
            if self._lenient:
                return self._compare_unordered(expected, actual, path)
            return self._compare_all(self._elements_in_order(expected, actual, path))
        if self._same_leaf(expected, actual):
            return 1, 1
        self._differ(path, expected, actual)
        return 0, self._leaves_at_stake(expected, actual)

    def _compare_all(self, pairs: Iterator[tuple[Any, Any, str]]) -> tuple[int, int]:
        matched = total = 0
        for expected, actual, path in pairs:
            child_matched, child_total = self.compare(expected, actual, path)
            matched, total = matched + child_matched, total + child_total
        return matched, total

    def _fields(
        self, expected: dict[str, Tree], actual: dict[str, Tree], path: str
    ) -> Iterator[tuple[Any, Any, str]]:
        for key, child in expected.items():
            yield child, actual.get(key, _MISSING), path + _step(key)
        if not self._lenient:
            for key in actual:
                if key not in expected:
                    yield _MISSING, actual[key], path + _step(key)

    def _elements_in_order(
        self, expected: list[Tree], actual: list[Tree], path: str
    ) -> Iterator[tuple[Any, Any, str]]:
        for index in range(max(len(expected), len(actual))):
            left = expected[index] if index < len(expected) else _MISSING
            right = actual[index] if index < len(actual) else _MISSING
            yield left, right, f"{path}[{index}]"

    def _compare_unordered(self, expected: list[Tree], actual: list[Tree], path: str) -> tuple[int, int]:
        pairs = self._elements.pairs(expected, actual)
        matched = total = 0
        for index, element in enumerate(expected):
            leaves = leaf_count(element)
            total += leaves
            if index in pairs:
                matched += leaves
            else:
                self._differ(f"{path}[{index}]", element, _MISSING)
        paired = set(pairs.values())
        for index, element in enumerate(actual):
            if index not in paired:
                self._differ(f"{path}[{index}]", _MISSING, element)
        return matched, total

    def _same_leaf(self, expected: object, actual: object) -> bool:
        if self._lenient and expected is None and actual is _MISSING:
            return True
        if expected is _MISSING or actual is _MISSING:
            return False
        if isinstance(expected, dict | list) or isinstance(actual, dict | list):
            return False
        return scalar_key(expected) == scalar_key(actual)

    def _leaves_at_stake(self, expected: object, actual: object) -> int:
        ours = 0 if expected is _MISSING else leaf_count(expected)
        if self._lenient or actual is _MISSING:
            return ours
        return max(ours, leaf_count(actual))

    def _differ(self, path: str, expected: object, actual: object) -> None:
        self.differences.append(Difference(path, _render_side(expected), _render_side(actual)))


def _parse_operand(value: object) -> Tree:
    if not isinstance(value, str):
        return tree_of(value)
    try:
        return parse_json(value)
    # Only text that is not JSON at all is a string. Repeated keys and NaN raise a plain ValueError: such JSON
    # has no single meaning.
    except json.JSONDecodeError:
        return value


def _is_prose(actual: Tree, raw: object) -> bool:
    return isinstance(actual, str) and actual == raw


def _step(key: str) -> str:
    return f".{key}" if key.isidentifier() else f"[{key!r}]"


def _render_side(tree: object) -> str:
    return "<missing>" if tree is _MISSING else render_tree(cast("Tree", tree))
