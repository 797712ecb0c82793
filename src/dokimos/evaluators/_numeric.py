"""`Numeric`: compare numbers within a tolerance."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import ClassVar, Final

from dokimos._core.means import relative_position
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import quote
from dokimos.errors import EvaluationError, UnusableOutputError
from dokimos.evaluators._base import Evaluator
from dokimos.evaluators._setting_checks import check_not_negative

_SEPARATORS: Final = ",_\u00a0\u202f"
_ANY_SEPARATOR: Final = re.compile(f"[{_SEPARATORS}]")
# One separator throughout, and three digits in each group: "12,34" is 12.34 in half of the world.
_GROUPED: Final = re.compile(
    rf"[+-]?\d{{1,3}}([{_SEPARATORS}])\d{{3}}(?:\1\d{{3}})*(?:\.\d*)?(?:[eE][+-]?\d+)?"
)


@dataclass(frozen=True, kw_only=True)
class Numeric(Evaluator):
    """Passes when the output is a number close enough to the expected one.

    Close enough is |output - expected| <= absolute tolerance, or <= relative tolerance * |expected|, in
    binary floating point. Infinity and NaN are close to nothing, not even to themselves. Text around the
    number, a currency or a fraction are errors.

    Example:
        >>> case = EvalTestCase.of("Price?", "49.9", 50)
        >>> Numeric(absolute_tolerance=0.5).evaluate(case).success
        True
    """

    method_source = "Absolute and relative tolerance; defined by dokimos."
    default_name = "Numeric"
    requires: ClassVar[tuple[str, ...]] = ("actual_output", "expected_output")

    absolute_tolerance: float = 1e-6
    """The largest difference that passes."""
    relative_tolerance: float = 0.0
    """The largest difference that passes, as a share of the expected number."""
    accept_percent: bool = False
    """Read `12 %` as 0.12."""
    accept_thousands_separators: bool = False
    """Read `1,234.5`, `1_234.5` and the same with no-break blanks as 1234.5."""
    threshold: float | None = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_not_negative(self, "absolute_tolerance", self.absolute_tolerance)
        check_not_negative(self, "relative_tolerance", self.relative_tolerance)

    def score(self, case: EvalTestCase) -> Score:
        try:
            expected = self._parse_number(case.expected_output or "")
        except ValueError as error:
            raise EvaluationError(f"The expected output is not a number: {error}.") from None
        try:
            actual = self._parse_number(case.actual_output or "")
        except ValueError as error:
            raise UnusableOutputError(f"The output is not a number: {error}.") from None
        return self._compare(actual, expected)

    def _compare(self, actual: float, expected: float) -> Score:
        if not (math.isfinite(actual) and math.isfinite(expected)):
            return Score(0.0, f"Expected {expected!r}, got {actual!r}: only finite numbers can be close.")
        difference = abs(actual - expected)
        allowed = max(self.absolute_tolerance, self.relative_tolerance * abs(expected))
        metadata = {"difference": difference} if math.isfinite(difference) else {}
        if difference <= allowed:
            return Score(1.0, f"{actual!r} is within {allowed:g} of {expected!r}.", metadata=metadata)
        reason = (
            f"{actual!r} differs from the expected {expected!r} by {difference:g}, more than {allowed:g}."
        )
        return Score(0.0, reason, metadata=metadata)

    def _parse_number(self, text: str) -> float:
        """Read a number. Raises `ValueError` that says what is wrong with the text."""
        original = quote(text)
        body = text.strip()
        if not body:
            raise ValueError("it is empty")
        percent = body.endswith("%")
        if percent:
            if not self.accept_percent:
                raise ValueError(f"{original} has a percent sign, which accept_percent would allow")
            body = body[:-1].strip()
        # Before `float`, which reads the underscores of Python and would let "1_000" pass unasked.
        body = self._strip_separators(body, original)
        try:
            number = float(body)
        except ValueError:
            raise ValueError(original) from None
        return relative_position(0, 100, number) if percent and math.isfinite(number) else number

    def _strip_separators(self, body: str, original: str) -> str:
        if not _ANY_SEPARATOR.search(body):
            return body
        if not self.accept_thousands_separators:
            raise ValueError(f"{original} has a separator, which accept_thousands_separators would allow")
        if not _GROUPED.fullmatch(body):
            raise ValueError(f"the separators of {original} do not group its digits by thousands")
        return _ANY_SEPARATOR.sub("", body)
