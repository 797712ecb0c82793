"""`SetMatch`: compare two collections, ignoring order and duplicates."""

from __future__ import annotations

import json
from collections.abc import Hashable, Set
from dataclasses import dataclass
from typing import Any, ClassVar

from dokimos._core.keys import OUTPUT
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import format_list, pluralize, quote
from dokimos.errors import EvaluationError, UnusableOutputError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._json_tree import identity_key
from dokimos.evaluators._setting_checks import check_text


@dataclass(frozen=True, kw_only=True)
class SetMatch(Evaluator):
    """F1 of the output's elements against the expected ones; order and repetition do not count.

    F1 is 2 * common / (found + expected), and 1 where both are empty. Both sides are lists or sets, JSON text
    of a list, or, with a separator, text.

    Example:
        >>> case = EvalTestCase.of("Colours?", "red, blue", ["blue", "red", "green"])
        >>> SetMatch(separator=",").evaluate(case).score
        0.8
    """

    method_source = 'The F1 measure of information retrieval: van Rijsbergen, "Information Retrieval" (1979).'
    default_name = "Set Match"
    requires: ClassVar[tuple[str, ...]] = ("outputs.output", "expected_outputs.output")

    output_key: str = OUTPUT
    """The key of the collection in the outputs."""
    expected_key: str = OUTPUT
    """The key of the collection in the expected outputs."""
    separator: str | None = None
    """Split text at this, such as "," or a line end, and strip the parts; empty ones are dropped."""
    ignore_case: bool = False
    """Ignore upper and lower case in texts."""
    threshold: float | None = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("output_key", "expected_key"):
            check_text(self, field, getattr(self, field))
        if self.separator is not None:
            check_text(self, "separator", self.separator)
        object.__setattr__(
            self, "requires", (f"outputs.{self.output_key}", f"expected_outputs.{self.expected_key}")
        )

    def score(self, case: EvalTestCase) -> Score:
        try:
            expected = self._elements(case.expected_outputs.get(self.expected_key))
        except ValueError as error:
            raise EvaluationError(f"The expected {self.expected_key!r} is not a list: {error}.") from None
        try:
            actual = self._elements(case.actual_outputs.get(self.output_key))
        except ValueError as error:
            raise UnusableOutputError(f"The output {self.output_key!r} is not a list: {error}.") from None
        return _f1(actual, expected)

    def _elements(self, value: object) -> dict[Hashable, Any]:
        """Return the distinct elements by what equal ones share. Raises `ValueError`."""
        elements = self._split(value) if isinstance(value, str) else value
        if not isinstance(elements, list | tuple | Set):
            raise ValueError(f"it is {quote(value)}")
        # By key: in a set of Python True and 1 are one element, and maps cannot be in it.
        return {identity_key(self._fold_case(element)): element for element in elements}

    def _split(self, text: str) -> Any:
        if self.separator is not None:
            return [part.strip() for part in text.split(self.separator) if part.strip()]
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError(f"{quote(text)} is text; name the separator to split it") from None

    def _fold_case(self, element: object) -> Any:
        return element.casefold() if self.ignore_case and isinstance(element, str) else element


def _f1(actual: dict[Hashable, Any], expected: dict[Hashable, Any]) -> Score:
    missing = [element for key, element in expected.items() if key not in actual]
    surplus = [element for key, element in actual.items() if key not in expected]
    common = len(expected) - len(missing)
    size = len(expected) + len(actual)
    if not missing and not surplus:
        return Score(1.0, f"The output has exactly the {pluralize(common, 'expected element')}.")
    return Score(2 * common / size, _reason(missing, surplus, len(expected)), metadata={"common": common})


def _reason(missing: list[Any], surplus: list[Any], expected: int) -> str:
    parts = []
    if missing:
        parts.append(
            f"lacks {len(missing)} of {pluralize(expected, 'expected element')} ({format_list(missing)})"
        )
    if surplus:
        parts.append(
            f"has {len(surplus)} that {'is' if len(surplus) == 1 else 'are'} not expected "
            f"({format_list(surplus)})"
        )
    return f"The output {' and '.join(parts)}."
