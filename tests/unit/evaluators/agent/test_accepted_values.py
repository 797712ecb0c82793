"""Expected calls of which several values of an argument are accepted."""

import json
import unicodedata
from decimal import Decimal
from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dokimos import Dataset, EvalTestCase, Example, ToolCall
from dokimos.errors import ConfigurationError
from dokimos.evaluators import ArgumentMatcher, ToolCorrectness, ToolTrajectory, one_of
from dokimos.evaluators._agent.accepted_values import alternatives, read_values
from dokimos.evaluators._agent.call_matching import CallMatcher

NAN, INF = float("nan"), float("inf")
MODES = ("strict", "in_order", "any_order", "expected_in_actual", "actual_in_expected", "precision", "recall")


def evaluate(expected, actual, **options):
    """The result for one expected and one actual call with these arguments."""
    case = EvalTestCase(
        {}, {"toolCalls": [ToolCall("f", actual)]}, expected_outputs={"toolCalls": [ToolCall("f", expected)]}
    )
    return ToolTrajectory(**options).evaluate(case)


def accepts(expected, actual, **options):
    result = evaluate(expected, actual, **options)
    assert result.error is None
    assert result.score in (0, 1)
    return result.score == 1


def trajectory(expected, actual, mode="any_order", **options):
    case = EvalTestCase(
        {},
        {"toolCalls": [ToolCall("f", arguments) for arguments in actual]},
        expected_outputs={"toolCalls": [ToolCall("f", arguments) for arguments in expected]},
    )
    return ToolTrajectory(mode=mode, **options).evaluate(case).score


class TestOneOf:
    def test_each_of_the_values_is_accepted_and_no_other(self):
        expected = {"unit": one_of("km", "kilometres")}
        assert accepts(expected, {"unit": "km"})
        assert accepts(expected, {"unit": "kilometres"})
        for other in ("m", "KM", "km ", '"km"', "'km'", "", None, ["km"], {"one_of": ["km"]}, 0):
            assert not accepts(expected, {"unit": other})

    def test_the_argument_must_be_there_and_no_other_may_be(self):
        expected = {"unit": one_of("km", None)}
        assert not accepts(expected, {})
        assert not accepts(expected, {"unit": "km", "digits": 2})
        assert accepts(expected, {"unit": None})

    @pytest.mark.parametrize(
        ("value", "others"),
        [
            (1, ["1", True, 1.5, [1], None]),
            (1.0, ["1.0", True]),
            (True, [1, 1.0, "true", "True"]),
            (False, [0, 0.0, "", None]),
            ("1", [1, 1.0, True]),
            ("", [None, 0, False, " "]),
            (None, ["null", "None", "", 0, False]),
            (NAN, ["nan", None, 0.0, INF]),
            ([1, 2], [[2, 1], [1], [1, 2, 3], "[1, 2]", {"0": 1, "1": 2}, [1, "2"], [True, 2]]),
            ([], [None, {}, "", [[]]]),
            ({"a": 1}, [{"a": True}, {"a": 1, "b": 2}, {}, [["a", 1]], {"A": 1}]),
            ({}, [[], None, {"a": None}]),
            ({"a": [{"b": 1}]}, [{"a": [{"b": True}]}, {"a": [{"b": 1}, {}]}]),
            ("caf\u00e9", [unicodedata.normalize("NFD", "caf\u00e9"), "cafe", "CAF\u00c9"]),
            (10**30, [1e29, str(10**30)]),
        ],
        ids=repr,
    )
    def test_values_are_compared_strictly(self, value, others):
        for expected in ({"x": one_of("another", value)}, {"x": one_of(value)}, {"x": value}):
            assert accepts(expected, {"x": value})
            for other in others:
                assert not accepts(expected, {"x": other}), (value, other)

    def test_numbers_are_equal_by_value_at_any_depth(self):
        assert accepts({"x": one_of(0, 1)}, {"x": 1.0})
        assert accepts({"x": one_of([1, {"a": 2.0}])}, {"x": [1.0, {"a": 2}]})
        assert accepts({"x": one_of(Decimal("1.50"))}, {"x": 1.5})
        assert accepts({"x": one_of(-0.0)}, {"x": 0})

    def test_a_list_among_the_values_is_a_value(self):
        assert accepts({"x": one_of(["a", "b"])}, {"x": ["a", "b"]})
        assert accepts({"x": one_of(["a", "b"])}, {"x": ("a", "b")})
        assert not accepts({"x": one_of(["a", "b"])}, {"x": "a"})

    def test_without_a_value_there_is_nothing_to_accept(self):
        with pytest.raises(ConfigurationError, match="at least one"):
            one_of()


class TestOptional:
    EXPECTED = {"a": 1, "unit": one_of("km", "mi", optional=True)}  # noqa: RUF012 - read only

    def test_an_optional_argument_may_be_left_out(self):
        assert accepts(self.EXPECTED, {"a": 1})
        assert accepts(self.EXPECTED, {"a": 1, "unit": "mi"})

    def test_or_else_has_one_of_the_values(self):
        for other in ("m", "", None):
            assert not accepts(self.EXPECTED, {"a": 1, "unit": other})

    def test_what_is_left_out_makes_no_room_for_another(self):
        assert not accepts(self.EXPECTED, {"a": 1, "digits": 2})
        assert not accepts(self.EXPECTED, {"unit": "km"})
        assert not accepts(self.EXPECTED, {})
        assert accepts({"unit": one_of("km", optional=True)}, {})
        assert not accepts({"unit": one_of("km", optional=True)}, {"x": 1})

    def test_two_of_three_may_be_left_out(self):
        expected = {"a": one_of(1), "b": one_of(2, optional=True), "c": one_of(3, optional=True)}
        for actual in ({"a": 1}, {"a": 1, "b": 2}, {"c": 3, "a": 1}, {"a": 1, "b": 2, "c": 3}):
            assert accepts(expected, actual)
        for actual in ({"b": 2, "c": 3}, {"a": 1, "d": 4}, {"a": 1, "b": 3}):
            assert not accepts(expected, actual)

    def test_keys_of_maps_inside_may_be_optional(self):
        expected = {"who": {"name": one_of("Ann", "Anna"), "age": one_of(7, optional=True)}}
        assert accepts(expected, {"who": {"name": "Anna"}})
        assert accepts(expected, {"who": {"name": "Ann", "age": 7}})
        for who in ({"name": "Ann", "age": 8}, {"age": 7}, {"name": "Ann", "x": 7}, {}):
            assert not accepts(expected, {"who": who})

    def test_in_lists_and_among_accepted_values_too(self):
        people = [{"name": one_of("Ann", "Anna")}, {"name": one_of("Bob"), "age": one_of(9, optional=True)}]
        expected = {"people": one_of([], people)}
        assert accepts(expected, {"people": [{"name": "Anna"}, {"name": "Bob"}]})
        assert accepts(expected, {"people": []})
        assert not accepts(expected, {"people": [{"name": "Bob"}, {"name": "Anna"}]})
        assert not accepts(expected, {"people": [{"name": "Ann"}]})


class TestData:
    @pytest.mark.parametrize(
        ("form", "data"),
        [
            (one_of(1, "a", None), {"one_of": [1, "a", None]}),
            (one_of(1, optional=True), {"optional": {"one_of": [1]}}),
            (one_of({"a": one_of(1, 2)}), {"one_of": [{"a": {"one_of": [1, 2]}}]}),
        ],
    )
    def test_the_form_in_code_is_that_of_data(self, form, data):
        assert form == data == json.loads(json.dumps(form))

    @pytest.mark.parametrize(
        "value",
        [
            {"one_of": [1, 2], "x": 1},
            {"optional": True},
            {"optional": {"one_of": [1], "x": 1}},
            {"optional": "km"},
            {"optional": {}},
            {"literal": 5},
            {"literal": {"x": 1}},
            {"oneOf": [1, 2]},
            {"any_of": [1, 2]},
            {"contains": "x"},
        ],
    )
    def test_other_maps_are_themselves(self, value):
        assert accepts({"x": value}, {"x": value})
        assert not accepts({"x": value}, {"x": 1})
        assert not accepts({"x": value}, {})

    @pytest.mark.parametrize(
        "value",
        [
            {"one_of": [1, 2]},
            {"one_of": "x"},
            {"optional": {"one_of": [1]}},
            {"literal": {"one_of": [1]}},
        ],
    )
    def test_literal_says_that_a_map_is_itself(self, value):
        assert accepts({"x": {"literal": value}}, {"x": value})
        assert not accepts({"x": {"literal": value}}, {"x": 1})
        assert not accepts({"x": {"literal": value}}, {"x": {"literal": value}})
        assert accepts({"x": one_of("a", {"literal": value})}, {"x": value})

    def test_the_arguments_as_a_whole_are_no_form(self):
        assert accepts({"one_of": [1, 2]}, {"one_of": [1, 2]})
        assert not accepts({"one_of": [1, 2]}, {"one_of": 1})

    def test_a_form_is_not_accepted_in_the_place_of_a_value(self):
        text = '{"x": {"one_of": [1, 2]}}'
        both = ToolCall.of_text("f", text)
        case = EvalTestCase({}, {"toolCalls": [both]}, expected_outputs={"toolCalls": [both]})
        assert [ToolTrajectory(mode=mode).evaluate(case).score for mode in MODES] == [0] * len(MODES)
        assert ToolCorrectness(match="names_and_args").evaluate(case).score == 0

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ({"one_of": []}, 'x: "one_of" takes a list of at least one accepted value, not []'),
            ({"one_of": "km"}, "x: \"one_of\" takes a list of at least one accepted value, not 'km'"),
            ({"one_of": {"a": 1}}, 'x: "one_of" takes a list'),
            ({"one_of": None}, 'x: "one_of" takes a list'),
            ({"optional": {"one_of": []}}, 'x: "one_of" takes a list'),
            ({"a": [1, {"one_of": []}]}, 'x.a[1]: "one_of" takes a list'),
            ([{"optional": {"one_of": [1]}}], 'x[0]: "optional" has no meaning here'),
            ({"one_of": [{"optional": {"one_of": [1]}}]}, 'x.one_of[0]: "optional" has no meaning here'),
        ],
    )
    @pytest.mark.parametrize(
        "evaluator", [ToolTrajectory(), ToolCorrectness(), ToolCorrectness(match="names_and_args")]
    )
    def test_a_form_that_accepts_nothing_is_an_error_whatever_was_called(self, value, message, evaluator):
        case = EvalTestCase(
            {}, {"toolCalls": [ToolCall("g")]}, expected_outputs={"toolCalls": [ToolCall("f", {"x": value})]}
        )
        result = evaluator.evaluate(case)
        assert result.score is None
        assert f"The expected call of 'f': {message}" in result.error
        assert "literal" in result.error

    @pytest.mark.parametrize("text", ['{"x": {"one_of": [1, 2]}}', '{"x": {"\\u006fne_of": [1, 2]}}'])
    def test_they_are_read_from_arguments_that_are_json_text(self, text):
        case = EvalTestCase(
            {},
            {"toolCalls": [ToolCall("f", {"x": 2})]},
            expected_outputs={"toolCalls": [{"name": "f", "arguments": text}]},
        )
        assert ToolTrajectory().evaluate(case).score == 1

    @pytest.mark.parametrize("suffix", [".json", ".jsonl"])
    def test_they_survive_every_format_of_data_sets(self, tmp_path, suffix):
        call = ToolCall("f", {"unit": one_of("km", "mi"), "note": one_of("", optional=True)})
        dataset = Dataset([Example({"input": "x"}, {"toolCalls": [call]}, id="1")])
        dataset.save(tmp_path / f"data{suffix}")
        (example,) = Dataset.load(tmp_path / f"data{suffix}")
        for arguments, score in (({"unit": "mi"}, 1), ({"unit": "mi", "note": ""}, 1), ({"unit": "m"}, 0)):
            case = example.to_test_case({"toolCalls": [{"name": "f", "arguments": arguments}]})
            assert ToolTrajectory().evaluate(case).score == score

    def test_typed_access_gives_the_form_that_stands_there(self):
        case = EvalTestCase(expected_outputs={"toolCalls": [{"name": "f", "arguments": {"x": one_of(1)}}]})
        (call,) = case.expected_output_as(list[ToolCall], "toolCalls")
        assert call.arguments == {"x": {"one_of": [1]}}


class TestTrajectories:
    def test_pairs_are_as_many_as_possible(self):
        expected = [{"city": one_of("A", "B")}, {"city": one_of("B", "C")}, {"city": "A"}]
        assert trajectory(expected, [{"city": "B"}, {"city": "B"}, {"city": "B"}]) == pytest.approx(2 / 3)
        assert trajectory(expected, [{"city": "C"}, {"city": "B"}, {"city": "A"}]) == 1
        assert trajectory(expected[:2], [{"city": "B"}, {"city": "A"}]) == 1
        assert trajectory(expected[:2], [{"city": "B"}, {"city": "B"}]) == 1

    def test_the_order_counts_where_it_counts(self):
        expected = [{"n": one_of(1, 2)}, {"n": one_of(2, 3)}, {"n": 9}]
        assert trajectory(expected, [{"n": 2}, {"n": 2}, {"n": 9}], "strict") == 1
        assert trajectory(expected, [{"n": 3}, {"n": 1}, {"n": 9}], "strict") == 0
        assert trajectory(expected, [{"n": 3}, {"n": 1}, {"n": 9}], "in_order") == pytest.approx(2 / 3)

    def test_many_calls_of_which_some_have_several_values(self):
        expected = [{"n": one_of(number, -number - 1) if number % 2 else number} for number in range(60)]
        actual = [{"n": -number - 1 if number % 2 else number} for number in range(60)]
        assert trajectory(expected, actual[::-1]) == 1
        assert trajectory(expected, actual, "in_order") == 1
        assert trajectory(expected, actual, "in_order", arguments=ArgumentMatcher(ignore_case=True)) == 1
        assert trajectory(expected, [*actual[:-1], {"n": -1}], "any_order") == pytest.approx(59 / 60)

    def test_calls_are_found_by_key_and_not_compared_with_each_other(self, monkeypatch):
        compared = []
        compare = CallMatcher.__call__
        monkeypatch.setattr(
            CallMatcher, "__call__", lambda self, *calls: compared.append(1) or compare(self, *calls)
        )
        expected = [{"n": one_of(n, -n), "unit": one_of("km", optional=True)} for n in range(200)]
        for mode in ("any_order", "in_order"):
            trajectory(expected, [{"n": -n} for n in range(200)][::-1], mode)
        assert len(compared) < 500

    @pytest.mark.parametrize(
        "value",
        [
            one_of(*range(100)),
            [one_of(*range(5)), one_of(*range(5))],
            {"a": one_of(*range(9)), "b": one_of(*range(9), optional=True)},
            one_of(Decimal(1), Decimal(2)),
        ],
    )
    def test_what_stands_for_too_much_to_be_written_out_is_compared(self, value):
        expected = [{"x": value, "n": n} for n in range(30)]
        actual = [{"x": written_out(value)[-1], "n": n} for n in range(30)]
        assert trajectory(expected, actual[::-1]) == 1
        assert trajectory(expected, [{"x": "no", "n": n} for n in range(30)]) == 0

    def test_correctness_counts_them_as_calls(self):
        case = EvalTestCase(
            {},
            {"toolCalls": [ToolCall("f", {"x": 2}), ToolCall("g", {})]},
            expected_outputs={"toolCalls": [ToolCall("f", {"x": one_of(1, 2)})]},
        )
        assert ToolCorrectness(match="names_and_args").evaluate(case).score == pytest.approx(2 / 3)

    def test_arguments_that_are_no_json_object_match_nothing(self):
        case = EvalTestCase(
            {},
            {"toolCalls": [ToolCall.of_text("f", "{broken")]},
            expected_outputs={"toolCalls": [ToolCall("f", {"x": one_of(1, optional=True)})]},
        )
        result = ToolTrajectory().evaluate(case)
        assert result.score == 0
        assert "f: the arguments are not a JSON object" in result.reason

    def test_arguments_that_were_not_recorded_are_an_error(self):
        case = EvalTestCase(
            {},
            {"toolCalls": [ToolCall("f", metadata={"unknownArguments": True})]},
            expected_outputs={"toolCalls": [ToolCall("f", {"x": one_of(1, optional=True)})]},
        )
        assert "not recorded" in ToolTrajectory().evaluate(case).error


class TestWithArgumentMatchers:
    EXPECTED = {"city": one_of("Paris", "Lutetia"), "nights": one_of(2, optional=True)}  # noqa: RUF012 - read only

    @pytest.mark.parametrize(
        ("mode", "actual", "fits"),
        [
            ("exact", {"city": "Paris"}, True),
            ("exact", {"city": "Paris", "stars": 4}, False),
            ("subset", {"city": "Lutetia", "stars": 4}, True),
            ("subset", {"city": "Lutetia", "nights": 3}, False),
            ("subset", {"nights": 2}, False),
            ("superset", {"nights": 2}, True),
            ("superset", {}, True),
            ("superset", {"city": "Rome"}, False),
            ("superset", {"city": "Paris", "stars": 4}, False),
            ("ignore", {"city": "Rome"}, True),
        ],
    )
    def test_each_mode_takes_any_of_the_values(self, mode, actual, fits):
        assert accepts(self.EXPECTED, actual, arguments=mode) is fits
        options = ArgumentMatcher(mode, arguments={"other": {"optional": "any"}})
        assert accepts(self.EXPECTED, actual, arguments=options) is fits

    def test_case_and_white_space_can_be_forgiven(self):
        forgiving = ArgumentMatcher(ignore_case=True, trim_strings=True)
        assert accepts(self.EXPECTED, {"city": " LUTETIA"}, arguments=forgiving)
        assert not accepts(self.EXPECTED, {"city": " LUTETI"}, arguments=forgiving)

    @pytest.mark.parametrize(
        ("form", "yes", "no"),
        [
            ({"fuzzy": 0.8}, "Luteti", "Lut"),
            ({"contains": True}, "In Lutetia.", "In Rome."),
            ({"not": {"contains": True}}, "In Rome.", "In Paris."),
            ({"any_of": [{"equals": "Rome"}, {"fuzzy": 1}]}, "Paris", "Oslo"),
            ({"one_of": ["Oslo", {"literal": {"one_of": [1]}}]}, {"one_of": [1]}, "Paris"),
            (lambda expected, actual: actual == expected[::-1], "siraP", "Paris"),
        ],
    )
    def test_matchers_of_single_arguments_compare_with_each_value(self, form, yes, no):
        matcher = ArgumentMatcher(arguments={"city": form})
        assert accepts(self.EXPECTED, {"city": yes}, arguments=matcher)
        assert not accepts(self.EXPECTED, {"city": no}, arguments=matcher)

    def test_a_number_is_near_one_of_them_or_left_out(self):
        matcher = ArgumentMatcher(arguments={"x": {"within": 0.1}})
        expected = {"x": one_of(1, 5, optional=True)}
        assert accepts(expected, {"x": 5.05}, arguments=matcher)
        assert accepts(expected, {}, arguments=matcher)
        assert not accepts(expected, {"x": 3}, arguments=matcher)
        assert not accepts({"x": one_of(1, 5)}, {}, arguments=matcher)

    def test_one_of_is_a_matcher_too(self):
        for form, actual in ((one_of(1, 2), {"x": 2}), (one_of(1, optional=True), {})):
            assert accepts({"x": 9}, actual, arguments=ArgumentMatcher(arguments={"x": form}))

    def test_a_matcher_of_a_users_class_decides_by_itself(self):
        class Lenient(ArgumentMatcher):
            def __call__(self, expected, actual):
                return actual.get("city") == "x" or super().__call__(expected, actual)

        assert accepts(self.EXPECTED, {"city": "x"}, arguments=Lenient())
        assert accepts(self.EXPECTED, {"city": "Lutetia"}, arguments=Lenient())
        assert not accepts(self.EXPECTED, {"city": "y"}, arguments=Lenient())

    def test_a_function_is_asked_about_each_combination_of_accepted_values(self):
        seen = []
        expected = {"a": one_of(1, 2), "b": {"c": one_of("x", optional=True)}, "d": {"literal": one_of(3)}}

        def check(expected, actual):
            seen.append(expected)
            return expected == actual

        actual = {"a": 2, "b": {"c": "x"}, "d": {"one_of": [3]}}
        assert accepts(expected, actual, arguments=check)
        assert seen[0] == {"a": 1, "b": {}, "d": {"one_of": [3]}}
        assert seen[-1] == actual
        assert not accepts(expected, {**actual, "a": 3}, arguments=check)

    def test_a_function_of_one_argument_never_sees_a_form(self):
        seen = []
        matcher = ArgumentMatcher(arguments={"who": lambda expected, actual: seen.append(expected)})
        expected = {"who": {"name": one_of("Ann", "Anna"), "age": one_of(7, optional=True)}}

        assert not accepts(expected, {"who": 1}, arguments=matcher)
        assert seen[:4] == [
            {"name": "Ann"},
            {"name": "Ann", "age": 7},
            {"name": "Anna"},
            {"name": "Anna", "age": 7},
        ]

    def test_a_function_is_not_asked_about_too_many_combinations(self):
        expected = {name: one_of(*range(10)) for name in "abcd"}

        result = evaluate(expected, expected, arguments=lambda expected, actual: False)

        assert result.score is None
        assert "more than 1000 ways" in result.error


ATOMS = st.sampled_from([0, 1, True, "1", "a", None, 1.0])


def expected_values(depth=2):
    """Expected values with forms in them."""
    if not depth:
        return ATOMS
    inner = expected_values(depth - 1)
    several = st.lists(inner, min_size=1, max_size=3).map(lambda values: one_of(*values))
    maps = st.dictionaries(st.sampled_from("xy"), entries(depth - 1), max_size=2)
    return st.one_of(ATOMS, several, st.lists(inner, max_size=2), maps)


def entries(depth=2):
    """What may stand under a key."""
    optional = st.lists(expected_values(depth), min_size=1, max_size=2).map(
        lambda values: one_of(*values, optional=True)
    )
    return st.one_of(expected_values(depth), optional)


def written_out(value):
    """Every value without forms that an expected value stands for; LEFT_OUT where there may be none."""
    if isinstance(value, dict):
        if value.keys() == {"optional"} and "one_of" in value["optional"]:
            return [LEFT_OUT, *written_out(value["optional"])]
        if value.keys() == {"one_of"}:
            return [each for option in value["one_of"] for each in written_out(option)]
        choices = product(*(written_out(each) for each in value.values()))
        return [
            {key: each for key, each in zip(value, chosen, strict=True) if each is not LEFT_OUT}
            for chosen in choices
        ]
    if isinstance(value, list):
        return [list(chosen) for chosen in product(*map(written_out, value))]
    return [value]


def repr_by_value(value):
    """A text that two values have in common where they are equal by the documented rules."""
    if isinstance(value, dict):
        return f"{{{sorted((key, repr_by_value(each)) for key, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{','.join(map(repr_by_value, value))}]"
    return repr(float(value)) if type(value) in (int, float) else repr(value)


LEFT_OUT = object()
EXPECTED = st.dictionaries(st.sampled_from("abc"), entries(), min_size=1, max_size=3)


class TestAgainstWritingOut:
    @given(expected=EXPECTED, data=st.data())
    @settings(max_examples=300, deadline=None)
    def test_exactly_what_the_forms_stand_for_is_accepted(self, expected, data):
        concrete = written_out(expected)
        actual = data.draw(st.sampled_from(concrete))
        assert accepts(expected, actual, arguments="exact")
        other = data.draw(st.one_of(st.dictionaries(st.sampled_from("abcd"), ATOMS, max_size=3), EXPECTED))
        is_right = repr_by_value(other) in set(map(repr_by_value, concrete))
        assert accepts(expected, other, arguments="exact") is is_right
        alike = alternatives(read_values(expected), 50)
        assert alike is None or set(map(repr_by_value, alike)) == set(map(repr_by_value, concrete))
        assert bool(ArgumentMatcher().explain(read_values(expected), other)) is not is_right

    @given(expected=EXPECTED, actual=st.dictionaries(st.sampled_from("abcd"), ATOMS, max_size=4))
    @settings(max_examples=200, deadline=None)
    def test_the_other_modes_leave_out_what_they_do_not_look_at(self, expected, actual):
        concrete = [repr_by_value(each) for each in written_out(expected)]
        known = {key: actual[key] for key in actual if key in expected}
        assert accepts(expected, actual, arguments="expected_in_actual") is (repr_by_value(known) in concrete)
        given_only = {key: expected[key] for key in actual if key in expected}
        parts = {repr_by_value(each) for each in written_out(given_only)}
        fits = actual.keys() <= expected.keys() and repr_by_value(actual) in parts
        assert accepts(expected, actual, arguments="actual_in_expected") is fits

    @given(
        st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), max_size=4),
        st.lists(st.integers(0, 3), max_size=4),
    )
    @settings(max_examples=200, deadline=None)
    def test_the_pairs_of_trajectories_are_as_many_as_an_exhaustive_search_finds(self, options, made):
        expected = [{"n": one_of(*values)} for values in options]
        actual = [{"n": n} for n in made]
        most = max(
            sum(n in values for values, n in zip(order, made, strict=False)) for order in permutations(
                [*options, *([[]] * max(0, len(made) - len(options)))]
            )
        )  # fmt: skip
        longest = max(len(options), len(made))
        assert trajectory(expected, actual) == pytest.approx(most / longest if longest else 1)


class TestReasons:
    @pytest.mark.parametrize(
        ("expected", "actual", "options", "clause"),
        [
            ({"unit": one_of("km", "mi")}, {"unit": "m"}, {}, "f: unit is 'm', expected one of 'km', 'mi'"),
            ({"unit": one_of("km")}, {"unit": '"km"'}, {}, "f: unit is '\"km\"', expected 'km'"),
            ({"unit": one_of("km", optional=True)}, {"unit": "m"}, {}, "is 'm', expected 'km' or nothing"),
            ({"unit": one_of("km", "mi")}, {"unti": "km"}, {}, "f: unit is missing, unti is not expected"),
            ({"n": 1}, {"n": True}, {}, "f: n is true, expected 1"),
            ({"w": {"a": one_of(1, 2)}}, {"w": 1}, {}, 'f: w is 1, expected {"a": {"one_of": [1, 2]}}'),
            (
                {"w": one_of(1, 2)},
                {"w": {"one_of": [1, 2]}},
                {},
                'expected one of 1, 2; {"literal": ...} around a map says that the map itself is the value.',
            ),
            (
                {"w": {"a": one_of(1, 2)}},
                {"w": {"a": {"one_of": [1, 2]}}},
                {},
                '; {"literal": ...} around a map says',
            ),
            ({"n": 1, "k": 2}, {"n": 2}, {"arguments": "superset"}, "f: n is 2, expected 1"),
            ({"n": 1}, {"n": 2, "k": 1}, {"arguments": "subset"}, "f: n is 2, expected 1."),
            (
                {"n": one_of(1, 5)},
                {"n": 3},
                {"arguments": {"arguments": {"n": {"within": 1}}}},
                'f: n is 3, expected {"within": 1} of one of 1, 5',
            ),
            (
                {"n": 1},
                {"n": 1, "k": 3},
                {"arguments": {"arguments": {"k": {"range": [1, 2]}}}},
                'f: k is 3, expected {"range": [1, 2]}',
            ),
            ({c: 1 for c in "abcde"}, {}, {}, "f: a is missing, b is missing, c is missing and 2 more"),
        ],
    )  # fmt: skip
    def test_they_name_the_arguments_that_differ(self, expected, actual, options, clause):
        assert clause in evaluate(expected, actual, **options).reason

    def test_they_show_the_accepted_values_and_the_nearest_call(self):
        case = EvalTestCase(
            {},
            {"toolCalls": [ToolCall("f", {"a": 9, "b": 9}), ToolCall("f", {"a": 1, "b": 3})]},
            expected_outputs={"toolCalls": [ToolCall("f", {"a": 1, "b": one_of(1, 2)})]},
        )
        reason = ToolTrajectory().evaluate(case).reason
        assert 'not made: f({"a": 1, "b": {"one_of": [1, 2]}})' in reason
        assert reason.endswith("; f: b is 3, expected one of 1, 2.")

    def test_literal_is_named_only_where_the_map_was_meant(self):
        assert "literal" not in evaluate({"w": one_of(1, 2)}, {"w": {"one_of": [1]}}).reason
        assert "literal" not in evaluate({"w": {"a": 1}}, {"w": {"a": 2}}).reason

    def test_a_function_explains_nothing(self):
        assert "expected 1" not in evaluate({"a": 1}, {"a": 2}, arguments=lambda e, a: False).reason
