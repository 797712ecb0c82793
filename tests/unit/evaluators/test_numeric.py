from __future__ import annotations

import pytest

from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError
from dokimos.evaluators._numeric import Numeric

NBSP, NARROW = "\u00a0", "\u202f"


def score(actual: object, expected: object, **options: object) -> float | None:
    return Numeric(**options).evaluate(EvalTestCase.of("q", actual, expected)).score


@pytest.mark.parametrize(
    ("actual", "expected", "options"),
    [
        ("42", "42", {}),
        (42, 42.0, {}),
        ("  42\u00a0", "42", {}),
        ("4.2e1", "42", {}),
        (".5", "0.5", {}),
        ("5.", "5", {}),
        ("+5", "5", {}),
        ("٤٢", "42", {}),
        ("４２", "42", {}),
        ("42.0000005", "42", {}),
        ("0.3", "0.2", {"absolute_tolerance": 0.1}),
        ("95", "100", {"relative_tolerance": 0.05}),
        ("12%", "0.12", {"accept_percent": True}),
        ("12 %", "12%", {"accept_percent": True}),
        ("1,234.5", "1234.5", {"accept_thousands_separators": True}),
        ("-1_234_567", "-1234567", {"accept_thousands_separators": True}),
        (f"1{NBSP}234", "1234", {"accept_thousands_separators": True}),
        (f"12{NARROW}345{NARROW}678", "12345678", {"accept_thousands_separators": True}),
        ("1,234e2", "123400", {"accept_thousands_separators": True}),
        ("1,234%", "12.34", {"accept_thousands_separators": True, "accept_percent": True}),
    ],
)
def test_numbers_that_are_close_enough_pass(actual, expected, options):
    assert score(actual, expected, **options) == 1.0


@pytest.mark.parametrize(
    ("actual", "expected", "options"),
    [
        ("43", "42", {}),
        ("42.00001", "42", {}),
        ("1.1", "1.0", {"absolute_tolerance": 0.1}),
        ("94", "100", {"relative_tolerance": 0.05}),
        ("inf", "inf", {}),
        ("nan", "nan", {}),
        ("5", "inf", {"relative_tolerance": 0.5}),
        ("1e308", "-1e308", {"relative_tolerance": 0.5}),
    ],
)
def test_other_numbers_fail(actual, expected, options):
    assert score(actual, expected, **options) == 0.0


@pytest.mark.parametrize(
    ("actual", "options", "why"),
    [
        ("", {}, "it is empty"),
        ("about 42", {}, "'about 42'"),
        ("0x2A", {}, "'0x2A'"),
        ("$42", {}, "'$42'"),
        ("1/2", {}, "'1/2'"),
        ("4 2", {}, "'4 2'"),
        ("(42)", {}, "'(42)'"),
        (True, {}, "'true'"),
        ("42%", {}, "accept_percent"),
        ("%42", {"accept_percent": True}, "'%42'"),
        ("42%%", {"accept_percent": True}, "'42%%'"),
        ("1,000", {}, "accept_thousands_separators"),
        ("1_000", {}, "accept_thousands_separators"),
        ("1.234,56", {"accept_thousands_separators": True}, "do not group its digits by thousands"),
        ("12,34", {"accept_thousands_separators": True}, "do not group"),
        ("1,234_567", {"accept_thousands_separators": True}, "do not group"),
        (",123", {"accept_thousands_separators": True}, "do not group"),
        ("1234,567", {"accept_thousands_separators": True}, "do not group"),
        ("1'234", {"accept_thousands_separators": True}, "1'234"),
        ("1,234x", {"accept_thousands_separators": True}, "do not group"),
    ],
)
def test_an_output_that_is_no_number_scores_0_with_a_reason(actual, options, why):
    result = Numeric(**options).evaluate(EvalTestCase.of("q", actual, "42"))
    assert (result.score, result.success, result.error) == (0.0, False, None)
    assert why in result.reason
    assert "not a number" in result.reason


def test_an_expected_value_that_is_no_number_is_an_error():
    result = Numeric().evaluate(EvalTestCase.of("q", "42", "forty-two"))
    assert result.score is None
    assert "The expected output is not a number: 'forty-two'" in (result.error or "")


def test_the_reason_and_metadata_tell_the_difference():
    result = Numeric(absolute_tolerance=1).evaluate(EvalTestCase.of("q", "45", "42"))
    assert result.reason == "45.0 differs from the expected 42.0 by 3, more than 1."
    assert result.metadata == {"difference": 3.0}


@pytest.mark.parametrize("field", ["absolute_tolerance", "relative_tolerance"])
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), True, "1"])
def test_a_tolerance_must_be_a_finite_number_of_at_least_0(field, value):
    with pytest.raises(ConfigurationError, match=f"Numeric: {field} must be"):
        Numeric(**{field: value})
