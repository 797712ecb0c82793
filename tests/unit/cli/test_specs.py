"""What is written on the command line, read."""

import pytest

from dokimos._cli.specs import build_evaluator, example_filter
from dokimos._core.example import Example
from dokimos.errors import ConfigurationError


def test_a_bare_name_is_built_with_its_defaults():
    assert build_evaluator("exact_match").name == "Exact Match"


def test_parameters_are_yaml_scalars():
    numeric = build_evaluator("numeric:relative_tolerance=0.01,accept_percent=true,name=Price")
    assert (numeric.relative_tolerance, numeric.accept_percent, numeric.name) == (0.01, True, "Price")


def test_scalars_are_those_of_yaml_1_2():
    assert build_evaluator("numeric:absolute_tolerance=1e-6,accept_percent=no").absolute_tolerance == 1e-6
    assert build_evaluator("numeric:accept_percent=off").accept_percent is False
    assert (
        build_evaluator("contains:values=18:30").values == build_evaluator("contains:values='18:30'").values
    )
    assert list(build_evaluator("contains:values=[What is it?, Where?]").values) == ["What is it?", "Where?"]


def test_a_parameter_that_is_text_takes_a_number_as_it_is_written():
    assert build_evaluator("regex:pattern=1e5,name=012").pattern == "1e5"
    assert build_evaluator("regex:pattern=1e5,name=012").name == "012"


def test_a_comma_inside_a_value_does_not_end_it():
    assert build_evaluator("regex:pattern=a{1,3},ignore_case=true").pattern == "a{1,3}"


def test_a_pattern_that_is_no_yaml_is_taken_as_text():
    assert build_evaluator("regex:pattern=[0-9]+$").pattern == "[0-9]+$"


def test_lists_can_be_given_in_brackets():
    assert list(build_evaluator("contains:values=[yes, no],mode=any").values) == ["yes", "no"]


def test_json_takes_everything_else():
    built = build_evaluator('{"type": "regex", "pattern": "a=b,c=d", "name": "Pairs"}')
    assert (built.pattern, built.name) == ("a=b,c=d", "Pairs")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nmeric", "Did you mean 'numeric'"),
        ("numeric:tolerance=1", "tolerance"),
        ("numeric:0.5", "not key=value"),
        ("{not json", "not JSON"),
        ('{"pattern": "x"}', "say which evaluator"),
        ("regex:pattern=(", "pattern"),
    ],
)
def test_a_wrong_spec_says_what_is_wrong(spec, message):
    with pytest.raises(ConfigurationError, match=message.replace("(", r"\(")):
        build_evaluator(spec)


def test_filters_look_at_metadata_ids_and_lists_of_tags():
    example = Example.of("q", id="qa-017", topic="fines", tags=["money", "late"], level=3)
    assert example_filter(["topic=fines"])(example)
    assert example_filter(["tags=late", "id:qa-*"])(example)
    assert example_filter(["level=3"])(example)
    assert not example_filter(["topic=fines", "tags=early"])(example)
    assert not example_filter(["id:x*"])(example)


def test_a_filter_without_an_equals_sign_is_refused():
    with pytest.raises(ConfigurationError, match="key=value"):
        example_filter(["topic"])
