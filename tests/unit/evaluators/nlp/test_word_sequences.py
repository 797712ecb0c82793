"""What the text metrics share: references and measures over sequences."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dokimos._core.test_case import EvalTestCase
from dokimos.errors import EvaluationError
from dokimos.evaluators._nlp.word_sequences import (
    common_subsequence_length,
    nonblank_reference_texts,
    reference_texts,
)

sequences = st.lists(st.sampled_from("abcd"), max_size=80)


def case(expected: object) -> EvalTestCase:
    return EvalTestCase({}, {}, expected_outputs={"output": expected})


def table_of_subsequences(first: list[str], second: list[str]) -> int:
    row = [0] * (len(second) + 1)
    for a in first:
        above, row = row, [0]
        for place, b in enumerate(second):
            row.append(above[place] + 1 if a == b else max(above[place + 1], row[-1]))
    return row[-1]


@settings(deadline=None)
@given(sequences, sequences)
def test_the_common_subsequence_is_as_long_as_the_plain_table_says(first, second):
    assert common_subsequence_length(first, second) == table_of_subsequences(first, second)


def test_a_known_subsequence():
    assert common_subsequence_length("kitten", "sitting") == 4


def test_a_string_is_one_reference_and_a_list_of_strings_several():
    assert reference_texts(case("one")) == ("one",)
    assert reference_texts(case(["one", "two"])) == ("one", "two")


def test_other_values_are_compared_by_their_text_form():
    assert reference_texts(case({"a": 1})) == ('{"a":1}',)
    assert reference_texts(case([1, "two"])) == ('[1,"two"]',)


@pytest.mark.parametrize("nothing", [None, []])
def test_no_reference_is_an_error(nothing):
    with pytest.raises(EvaluationError):
        reference_texts(case(nothing))


def test_a_blank_reference_is_named():
    with pytest.raises(EvaluationError, match="The expected output is blank"):
        nonblank_reference_texts(case(" \n"))
    with pytest.raises(EvaluationError, match="Reference 2 of 2 is blank"):
        nonblank_reference_texts(case(["one", ""]))
