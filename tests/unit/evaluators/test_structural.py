from __future__ import annotations

import json
import time
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError
from dokimos.evaluators._structural import StructuralMatch


def result(expected: Any, actual: Any, **options: Any):
    return StructuralMatch(**options).evaluate(EvalTestCase.of("q", actual, expected))


def score(expected: Any, actual: Any, **options: Any) -> float | None:
    found = result(expected, actual, **options)
    assert found.error is None
    return found.score


@dataclass
class Invoice:
    id: str
    total: float
    items: list[str]


class TestStrict:
    @pytest.mark.parametrize(
        ("expected", "actual", "share"),
        [
            ({"a": 1}, {"a": 1}, 1.0),
            ({"a": 1}, '{"a": 1.0}', 1.0),
            ('{"b": 1, "a": 2}', {"a": 2, "b": 1}, 1.0),
            ({"a": 1}, {"a": 1, "b": 2}, 1 / 2),
            ({"a": 1, "b": 2}, {"a": 1}, 1 / 2),
            ({"a": {"x": 1, "y": 2}, "b": 3}, {"b": 3}, 1 / 3),
            ({"b": 3}, {"a": {"x": 1, "y": 2}, "b": 3}, 1 / 3),
            ({"a": None}, {}, 0.0),
            ({"a": None}, {"a": None}, 1.0),
            ({"a": True}, {"a": 1}, 0.0),
            ({"a": 0}, {"a": False}, 0.0),
            ({"a": "1"}, {"a": 1}, 0.0),
            ([1, 2, 3], [1, 3, 2], 1 / 3),
            ([1, 2], [1, 2, 3], 2 / 3),
            ({"a": {"x": 1}, "b": 2}, {"a": 5, "b": 2}, 1 / 2),
            ({"a": [1, 2, 3]}, {"a": 1}, 0.0),
            ([], [], 1.0),
            ([], [1], 0.0),
            ({"a": [], "b": 1}, {"a": [], "b": 2}, 1 / 2),
            ([], {}, 0.0),
            ("5", 5, 1.0),
            ("plain words", "plain words", 1.0),
            ("plain words", "other words", 0.0),
        ],
    )
    def test_the_score_is_the_share_of_all_leaves(self, expected, actual, share):
        assert score(expected, actual) == pytest.approx(share)

    def test_an_extra_field_lowers_the_score_and_a_replaced_structure_costs_its_leaves(self):
        assert score({"a": {"x": 1, "y": 2, "z": 3}, "b": 2}, {"a": 5, "b": 2}) == pytest.approx(1 / 4)

    def test_objects_of_python_compare_by_their_fields(self):
        invoice = Invoice("INV-1", 42.0, ["a", "b"])
        assert score(invoice, Invoice("INV-1", 42.00, ["a", "b"])) == 1.0
        assert score(invoice, {"id": "INV-1", "total": Decimal("42.00"), "items": ("a", "b")}) == 1.0

    @pytest.mark.parametrize(
        ("expected", "actual", "share"),
        [
            ("5", "5.0", 1.0),
            ("1e2", "100", 1.0),
            ("0.1", 0.1, 1.0),
            (0.30000000000000004, 0.3, 0.0),
            ("10000000000000000000001", "10000000000000000000000", 0.0),
            ("9007199254740993", "9007199254740992.0", 0.0),
            ("0.1", "0.10000000000000000000001", 0.0),
            ("-0", "0", 1.0),
            ("1e400", "10e399", 1.0),
        ],
    )
    def test_numbers_compare_exactly(self, expected, actual, share):
        assert score(expected, actual) == share

    def test_numbers_may_have_any_number_of_digits(self):
        assert score(10**5000, "1" + "0" * 5000) == 1.0
        assert score(10**5000, "1" + "0" * 4999 + "1") == 0.0


class TestLenient:
    @pytest.mark.parametrize(
        ("expected", "actual", "share"),
        [
            ({"a": 1}, {"a": 1, "b": 2}, 1.0),
            ({"a": None}, {}, 1.0),
            ({}, {"a": None}, 1.0),
            ({"a": None}, {"a": 1}, 0.0),
            ({"a": {"x": 1, "y": 2}, "b": 3}, {"b": 3}, 1 / 3),
            ([1, 2, 3], [3, 2, 1], 1.0),
            ([1, 1, 2], [1, 2], 2 / 3),
            ([1, 2], [1, 1, 2], 1.0),
            ([{"a": 1}, {"b": 2}], [{"b": 2, "x": 0}, {"a": 1}], 1.0),
            ([{"a": 1, "b": 2}], [{"a": 1, "b": 3}], 0.0),
            ([[1, 2], [3]], [[3], [2, 1]], 1.0),
            ([[1]], [[1, 2]], 0.0),
            ([True], [1], 0.0),
            ([], [1], 1.0),
            ([{"a": [1, {"b": 2}]}], [{"a": [{"b": 2, "c": 3}, 1]}], 1.0),
        ],
    )
    def test_extra_fields_and_order_do_not_count(self, expected, actual, share):
        assert score(expected, actual, mode="lenient") == pytest.approx(share)

    def test_elements_are_paired_so_that_the_most_match(self):
        expected = [{"a": 1}, {"a": 1, "b": 2}]
        actual = [{"a": 1, "b": 2}, {"a": 1, "c": 3}]
        assert score(expected, actual, mode="lenient") == 1.0

    def test_an_expected_null_takes_the_element_that_nobody_else_could_pair_with(self):
        assert score([{}, {"f": None}], [{}, {"f": 5}], mode="lenient") == 1.0

    def test_the_larger_of_two_rivals_for_one_element_gets_it(self):
        rivals = [{"a": 1}, {"a": 1, "b": 2}]
        assert score(rivals, [{"a": 1, "b": 2}], mode="lenient") == pytest.approx(2 / 3)
        assert score(rivals[::-1], [{"a": 1, "b": 2}], mode="lenient") == pytest.approx(2 / 3)

    def test_surplus_elements_are_free_but_differ(self):
        found = result([1], [1, 2], mode="lenient")
        assert found.score == 1.0
        assert "$[1]: expected <missing>, got 2" in found.reason
        assert score([1], [1, 2], mode="lenient", binary=True) == 0.0


@pytest.mark.parametrize(
    ("actual", "value"), [({"a": 1, "b": 2}, 1.0), ({"a": 1}, 0.0), ({"a": 1, "b": 3}, 0.0)]
)
def test_binary_scores_1_or_0(actual, value):
    assert score({"a": 1, "b": 2}, actual, binary=True) == value


def test_the_reason_counts_the_leaves_and_names_the_paths():
    reason = result({"a": 1, "b": {"c d": "x"}, "e": [1]}, {"a": 2, "b": {}, "e": [1, 2]}).reason
    assert "(1 of 4 leaf paths matched)" in reason
    assert "$.a: expected 1, got 2" in reason
    assert """$.b['c d']: expected "x", got <missing>""" in reason
    assert "$.e[1]: expected <missing>, got 2" in reason


def test_many_differences_are_counted_not_listed():
    reason = result(list(range(100)), list(range(1, 101))).reason
    assert reason.endswith("and 95 more differences.")


def test_prose_where_an_object_was_expected_scores_0_and_says_so():
    found = result({"a": 1}, "I cannot help with that.")
    assert (found.score, found.error) == (0.0, None)
    assert "not JSON but the text 'I cannot help with that.'" in found.reason


@pytest.mark.parametrize(
    ("actual", "why"),
    [
        ('{"a": 1, "a": 1}', "'a' occurs twice"),
        ('{"a": NaN}', "non-finite"),
        ({"a": float("inf")}, "non-finite"),
        ("1e99999999999999999999", "out of range"),
        ("[" * 500 + "]" * 500, "nested deeper than 100 levels"),
        ("[" * 100_000 + "]" * 100_000, "nested deeper than 100 levels"),
    ],
    ids=["key twice", "NaN text", "infinity", "huge exponent", "deep", "very deep"],
)
def test_an_output_that_cannot_be_compared_scores_0_and_an_expected_one_is_an_error(actual, why):
    found = result({"a": 1}, actual)
    assert (found.score, found.error) == (0.0, None)
    assert why in found.reason
    turned = result(actual, {"a": 1})
    assert turned.score is None
    assert why in (turned.error or "")


def test_nesting_up_to_the_limit_is_compared():
    def nested(leaf: int) -> Any:
        tree: Any = leaf
        for level in range(99):
            tree = [tree] if level % 2 else {"a": tree}
        return tree

    for mode in ("strict", "lenient"):
        assert score(nested(1), nested(1), mode=mode) == 1.0
        assert score(nested(1), nested(2), mode=mode) == 0.0


def test_deep_arrays_that_differ_are_compared_without_order():
    def nested(leaf: int) -> Any:
        tree: Any = [leaf]
        for _ in range(98):
            tree = [tree, 0]
        return tree

    assert score(nested(1), nested(2), mode="lenient") < 1.0


def test_the_missing_expected_key_is_an_error_that_names_what_there_is():
    found = StructuralMatch(output_key="order").evaluate(EvalTestCase.of("q", "x", "y"))
    assert "requires 'order' in the expected outputs; the case has: input, output, expected. Put it" in (
        found.error or ""
    )


def test_an_absent_output_is_null():
    case = EvalTestCase({}, {}, expected_outputs={"output": {"a": 1}})
    assert StructuralMatch().evaluate(case).score == 0.0
    null = EvalTestCase({}, {}, expected_outputs={"output": None})
    assert StructuralMatch().evaluate(null).score == 1.0


def test_another_key_can_be_compared():
    case = EvalTestCase({}, {"order": {"id": 1}}, expected_outputs={"order": {"id": 1}})
    assert StructuralMatch(output_key="order").evaluate(case).score == 1.0


def test_an_unknown_mode_is_refused():
    with pytest.raises(ConfigurationError, match="mode must be one of 'strict', 'lenient', not 'loose'"):
        StructuralMatch(mode="loose")


@pytest.mark.parametrize("extra", [{}, {"seen": True}])
def test_large_arrays_are_paired_in_reasonable_time(extra):
    expected = [{"id": i, "kind": "row", "value": i / 7} for i in range(5_000)]
    actual = [{**row, **extra} for row in reversed(expected)]
    start = time.process_time()
    assert score(expected, actual, mode="lenient") == 1.0
    assert time.process_time() - start < 10


def test_many_alike_elements_are_paired_in_reasonable_time():
    expected = [{"a": 1}] * 1_000
    actual = [{"a": 1, "id": i} for i in range(700)]
    start = time.process_time()
    assert score(expected, actual, mode="lenient") == pytest.approx(0.7)
    assert time.process_time() - start < 10


def test_text_and_value_give_the_same_score():
    expected, actual = {"a": [1, {"b": 2.5}], "c": "ü"}, {"a": [1, {"b": 2.5, "x": 1}], "c": "u"}
    assert score(expected, actual) == score(json.dumps(expected), json.dumps(actual))


class TestLargeArrays:
    @pytest.mark.parametrize(
        ("expected", "actual"),
        [
            (lambda i: {"value": {"id": i}}, lambda i: {"value": {"id": i, "more": 1}}),
            (
                lambda i: {"kind": "a", "value": {"id": i}},
                lambda i: {"value": {"id": i}, "kind": "a", "more": 1},
            ),
            (lambda i: [{"id": i}, 1], lambda i: [1, {"id": i, "more": 1}]),
            (lambda i: {"kind": "a", "gone": None}, lambda i: {"kind": "a", "more": i}),
        ],
        ids=["nested", "nested beside a common field", "arrays", "all alike"],
    )
    def test_few_of_their_elements_are_compared(self, monkeypatch, expected, actual):
        monkeypatch.setattr("dokimos.evaluators._lenient_equality.MAX_COMPARISONS", 3 * 1_000)
        wanted = [expected(i) for i in range(1_000)]
        found = [actual(i) for i in reversed(range(1_000))]

        assert score(wanted, found, mode="lenient") == 1.0

    def test_those_that_cannot_be_told_apart_are_refused(self, monkeypatch):
        monkeypatch.setattr("dokimos.evaluators._lenient_equality.MAX_COMPARISONS", 10_000)
        wanted = [{"kind": "a", f"empty {i}": {}} for i in range(101)]
        found = [{"kind": "a", "more": i} for i in range(101)]

        refused = result(wanted, found, mode="lenient")

        assert refused.score is None
        assert 'it takes more than 10,000 comparisons. Compare in mode "strict", or fewer elements.' in (
            refused.error or ""
        )
        assert score(wanted[1:], found[1:], mode="lenient") == 0.0, "100 of each can be"
        assert score(wanted, found) is not None
