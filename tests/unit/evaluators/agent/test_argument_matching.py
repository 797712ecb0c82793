import math
from collections import namedtuple
from dataclasses import dataclass
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos.errors import ConfigurationError
from dokimos.evaluators import ArgumentMatcher
from dokimos.evaluators._agent.argument_matching import as_argument_check, ignores_arguments
from dokimos.evaluators._agent.argument_values import same_mapping, same_value
from dokimos.evaluators._json_tree import identity_key

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.0, 1.0, 0.5])
    | st.sampled_from("aB1"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=8,
)


def startswith_a(expected, actual):
    return actual["q"].startswith("a")


@dataclass
class Point:
    x: int


Pair = namedtuple("Pair", "x")


class TestValues:
    @pytest.mark.parametrize(
        ("expected", "actual"),
        [
            (1, 1.0),
            (Decimal("0.1"), 0.1),
            (0.1, Decimal("0.1")),
            (math.nan, math.nan),
            (float("nan"), float("nan")),
            (math.inf, math.inf),
            (None, None),
            ([1, {"a": [None]}], [1.0, {"a": [None]}]),
            ((1, 2), [1, 2]),
            ({"p": Point(1)}, {"p": {"x": 1}}),
            (Pair(1), {"x": 1}),
            ("a", "a"),
            (10**30, 10**30),
        ],
    )
    def test_same(self, expected, actual):
        assert same_value(expected, actual)
        assert same_mapping({"a": expected}, {"a": actual})

    @pytest.mark.parametrize(
        ("expected", "actual"),
        [
            (1, "1"),
            (1, True),
            (0, False),
            (True, 1.0),
            (None, "null"),
            (None, 0),
            ("a", "A"),
            ("a", " a"),
            ([1, 2], [2, 1]),
            ([1], [1, 2]),
            ({"a": 1}, {"a": 1, "b": 2}),
            ({"a": None}, {}),
            ({}, []),
            ([True], [1]),
            ({"a": {"b": [1, {"c": True}]}}, {"a": {"b": [1, {"c": 1}]}}),
            (0.1 + 0.2, 0.3),
            (2**53, float(2**53) + 2),
            (math.nan, 0.0),
        ],
    )
    def test_different(self, expected, actual):
        assert not same_value(expected, actual)
        assert not same_mapping({"a": expected}, {"a": actual})

    @given(json_values, json_values)
    def test_two_values_are_the_same_where_their_exact_forms_are(self, left, right):
        assert same_value(left, right) is (identity_key(left) == identity_key(right))

    def test_what_cannot_be_compared_is_looked_into(self):
        class Row(list):
            def __eq__(self, other):
                raise ValueError("ambiguous")

            __hash__ = None

        assert same_mapping({"a": Row([1])}, {"a": Row([1])})


class TestModes:
    @pytest.mark.parametrize(
        ("mode", "expected", "actual", "outcome"),
        [
            ("exact", {"a": 1}, {"a": 1.0}, True),
            ("exact", {"a": 1}, {"a": 1, "b": 2}, False),
            ("exact", {}, {"a": 1}, False),
            ("subset", {"a": 1}, {"a": 1, "b": 2}, True),
            ("subset", {"a": 1}, {"b": 2}, False),
            ("subset", {"a": {"x": 1}}, {"a": {"x": 1, "y": 2}}, False),
            ("superset", {"a": 1, "b": 2}, {"a": 1}, True),
            ("superset", {"a": 1}, {"a": 1, "b": 2}, False),
            ("superset", {"a": None}, {}, True),
            ("ignore", {"a": 1}, {"b": 2}, True),
        ],
    )
    def test_each_mode_compares_the_keys_in_its_way(self, mode, expected, actual, outcome):
        assert ArgumentMatcher(mode)(expected, actual) is outcome
        assert as_argument_check(mode)(expected, actual) is outcome
        assert as_argument_check({"mode": mode})(expected, actual) is outcome

    @pytest.mark.parametrize("mode", ["exact", "subset", "superset"])
    def test_texts_are_compared_as_told(self, mode):
        expected, actual = {"a": ["Paris "]}, {"a": ["paris"]}
        assert not ArgumentMatcher(mode)(expected, actual)
        assert not ArgumentMatcher(mode, trim_strings=True)(expected, actual)
        assert not ArgumentMatcher(mode, ignore_case=True)(expected, actual)
        assert ArgumentMatcher(mode, trim_strings=True, ignore_case=True)(expected, actual)
        assert ArgumentMatcher(mode, trim_strings=True)(expected, {"a": ["Paris"]})
        assert ArgumentMatcher(mode, ignore_case=True)(expected, {"a": ["PARIS "]})

    def test_only_ignoring_everything_ignores_arguments(self):
        assert ignores_arguments(ArgumentMatcher("ignore"))
        assert not ignores_arguments(ArgumentMatcher("ignore", arguments={"a": "any"}))
        assert not ignores_arguments(startswith_a)


class TestSingleArguments:
    @pytest.mark.parametrize(
        ("matching", "expected", "good", "bad"),
        [
            ("any", "x", ["y", None, 5], []),
            ({"equals": 5}, None, [5, 5.0], [6, "5"]),
            ({"one_of": ["a", 1]}, None, ["a", 1.0], ["b", True]),
            ({"fuzzy": 0.8}, "San Francisco", ["San Francisco", "San Fransisco"], ["San Jose", 5]),
            ({"fuzzy": 0.8}, 5, [5.0], ["5"]),
            ({"fuzzy": 0.5}, "", [""], ["a"]),
            ({"regex": "^P.*s$"}, None, ["Paris"], ["London", 5, None]),
            ({"regex": "^5$"}, None, [5], [55]),
            ({"contains": "par"}, None, ["I par it", ["par"]], ["Paris", 5, ["parts"]]),
            ({"contains": True}, "Paris", ["to Paris"], ["to Rome"]),
            ({"contains": True}, 5, [[5.0, 6]], [[6], "5"]),
            ({"range": [1, 7]}, None, [1, 7, 3.5], [0.9, 8, "3", True]),
            ({"range": [None, 7]}, None, [-100], [8]),
            ({"range": [1, None]}, None, [100], [0]),
            ({"within": 0.5}, 10, [10.5, 9.5], [11, "10", True]),
            ({"within": {"relative": 0.1}}, 100, [109, 91], [111]),
            ({"within": 1}, "ten", ["ten"], ["eleven", 10]),
            ({"not": {"equals": "x"}}, None, ["y"], ["x"]),
            ({"not": {"regex": "drop table"}}, None, ["select"], ["drop table users"]),
            ({"any_of": [{"equals": 1}, {"equals": 2}]}, None, [1, 2], [3]),
            ({"all_of": [{"regex": "a"}, {"not": {"regex": "b"}}]}, None, ["a"], ["ab", "c"]),
            (lambda expected, actual: actual == expected * 2, 4, [8], [4]),
        ],
    )
    def test_each_form(self, matching, expected, good, bad):
        matcher = ArgumentMatcher(arguments={"a": matching})
        wanted = {} if expected is None else {"a": expected}
        assert all(matcher(wanted, {"a": value}) for value in good)
        assert not any(matcher(wanted, {"a": value}) for value in bad)

    def test_the_mode_goes_for_the_other_arguments(self):
        expected, actual = {"city": "Paris", "nights": 2}, {"city": "paris", "nights": 2}
        options = {"city": {"fuzzy": 0.7}}
        assert ArgumentMatcher(arguments=options)(expected, actual)
        assert not ArgumentMatcher(arguments=options)(expected, {**actual, "nights": 3})
        assert not ArgumentMatcher(arguments=options)(expected, {**actual, "more": 1})
        assert ArgumentMatcher("subset", arguments=options)(expected, {**actual, "more": 1})
        assert ArgumentMatcher("ignore", arguments=options)(expected, {"city": "Paris"})
        assert not ArgumentMatcher("ignore", arguments=options)(expected, {"city": "Rome"})

    def test_an_argument_with_a_matcher_must_be_there_unless_it_is_optional(self):
        assert not ArgumentMatcher(arguments={"a": "any"})({}, {})
        assert not ArgumentMatcher(arguments={"a": {"not": {"equals": 1}}})({}, {})
        assert ArgumentMatcher(arguments={"a": {"optional": {"equals": 1}}})({}, {})
        assert ArgumentMatcher(arguments={"a": {"optional": {"equals": 1}}})({"a": 5}, {"a": 1})
        assert not ArgumentMatcher(arguments={"a": {"optional": {"equals": 1}}})({}, {"a": 2})
        assert ArgumentMatcher("superset", arguments={"a": "any"})({}, {})
        assert ArgumentMatcher(arguments={"a": {"any_of": [{"optional": "any"}, {"equals": 1}]}})({}, {})

    def test_a_matcher_that_compares_says_nothing_where_nothing_is_expected(self):
        matcher = ArgumentMatcher("subset", arguments={"a": {"fuzzy": 0.8}})
        assert matcher({}, {"a": "whatever"})
        assert matcher({}, {})

    def test_options_for_texts_reach_single_arguments(self):
        options = {"a": {"contains": "PARIS"}, "b": {"one_of": ["Yes"]}, "c": {"fuzzy": 1}}
        matcher = ArgumentMatcher(ignore_case=True, arguments=options)
        assert matcher({"c": "ABC"}, {"a": "to paris", "b": "yes", "c": "abc"})

    @pytest.mark.parametrize(
        ("matching", "message"),
        [
            ({"fuzy": 1}, "is not known; expected"),
            ({"fuzzy": 2}, "similarity in 0..1"),
            ({"fuzzy": "high"}, "similarity in 0..1"),
            ({"regex": "("}, '"regex" takes a pattern'),
            ({"regex": 5}, '"regex" takes a pattern'),
            ({"regex": ""}, '"regex" takes a pattern that is not blank'),
            ({"contains": ""}, '"contains" takes a text that is not blank'),
            ({"range": [7, 1]}, r"no number is in \[7, 1\]"),
            ({"range": [float("nan"), 1]}, '"range" takes'),
            ({"within": float("nan")}, '"within" takes'),
            ({"one_of": []}, '"one_of" takes a list that is not empty'),
            ({"any_of": []}, '"any_of" takes a list that is not empty'),
            ({"not": {"range": [7, 1]}}, "no number is in"),
            ({"range": [1]}, '"range" takes'),
            ({"range": 5}, '"range" takes a list'),
            ({"range": [None, None]}, '"range" takes'),
            ({"range": ["1", 2]}, '"range" takes'),
            ({"within": -1}, '"within" takes'),
            ({"one_of": "abc"}, '"one_of" takes a list'),
            ({"not": "Paris"}, "is not known"),
            ("Paris", "is not known"),
            ({}, "is not known"),
            (5, "is not known"),
        ],
    )
    def test_a_wrong_matcher_is_refused_when_it_is_made(self, matching, message):
        with pytest.raises(ConfigurationError, match=message):
            ArgumentMatcher(arguments={"a": matching})


class TestDataForms:
    def test_a_map_has_the_fields_of_a_matcher(self):
        data = {"mode": "subset", "ignore_case": True, "arguments": {"n": {"range": [1, 3]}}}
        matcher = as_argument_check(data)
        assert matcher({"a": "X"}, {"a": "x", "n": 2, "more": 1})
        assert not matcher({"a": "X"}, {"a": "x", "n": 4})

    def test_a_function_is_a_matcher(self):
        assert as_argument_check(startswith_a) is startswith_a

    def test_a_function_can_be_named(self):
        assert as_argument_check("operator:eq")({"a": 1}, {"a": 1})

    @pytest.mark.parametrize(
        "matching", ["exactly", 5, None, {"modus": "exact"}, {"mode": "all"}, "operator:nothing",
                     "no_module:x", {"arguments": ["a"]}, "operator:__name__"]
    )  # fmt: skip
    def test_anything_else_is_refused(self, matching):
        with pytest.raises(ConfigurationError):
            as_argument_check(matching)

    def test_an_async_function_is_refused(self):
        async def check(expected, actual):
            return False

        with pytest.raises(ConfigurationError, match="must not be async"):
            as_argument_check(check)

    def test_the_identity_tells_matchers_apart(self):
        first = ArgumentMatcher("subset", arguments={"a": {"fuzzy": 0.8}})
        same = as_argument_check({"mode": "subset", "arguments": {"a": {"fuzzy": 0.8}}})
        other = ArgumentMatcher("subset", arguments={"a": {"fuzzy": 0.9}})
        assert first.identity == same.identity != other.identity
        assert "startswith_a" in ArgumentMatcher(arguments={"a": startswith_a}).identity
