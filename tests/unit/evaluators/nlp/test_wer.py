"""Word error rate."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dokimos._core.test_case import EvalTestCase
from dokimos.evaluators._nlp.wer import WordErrorRate


def evaluate(actual: str, expected: object, **options: object):
    return WordErrorRate(**options).evaluate(EvalTestCase.of("", actual, expected))


@pytest.mark.parametrize(
    ("actual", "expected", "rate"),
    [
        ("the cat sat", "the cat sat", 0.0),
        ("the cat", "the cat sat down", 0.5),
        ("the dog sat", "the cat sat", 1 / 3),
        ("a the cat sat", "the cat sat", 1 / 3),
        ("", "the cat", 1.0),
        ("", "", 0.0),
        ("x", " ", 1.0),
    ],
)
def test_edits_are_counted_per_expected_word(actual, expected, rate):
    assert evaluate(actual, expected).score == pytest.approx(rate)


@settings(deadline=None)
@given(
    st.lists(st.sampled_from("abc"), max_size=20), st.lists(st.sampled_from("abc"), min_size=1, max_size=20)
)
def test_edits_are_the_least_there_are(output, expected):
    row = list(range(len(expected) + 1))
    for number, word in enumerate(output, start=1):
        above, row = row, [number]
        for place, wanted in enumerate(expected):
            row.append(min(above[place] + (word != wanted), above[place + 1] + 1, row[-1] + 1))
    assert evaluate(" ".join(output), " ".join(expected)).metadata["edits"] == row[-1]


def test_a_rate_above_one_is_capped_and_told():
    result = evaluate("one two three four", "five")
    assert result.score == 1.0
    assert "counted as 1 instead of 4.00" in result.reason
    assert result.metadata == {"edits": 4, "expected_words": 1}


def test_lower_is_better():
    assert evaluate("a b c d", "a b c x", threshold=0.3).success is True
    assert evaluate("a b y z", "a b c d", threshold=0.3).success is False


def test_case_and_punctuation_can_be_ignored():
    assert evaluate("Hello, World!", "hello world").score == 1.0
    assert evaluate("Hello, World!", "hello world", ignore_case=True).score == 1.0
    assert evaluate("Hello, World!", "hello world", ignore_case=True, ignore_punctuation=True).score == 0.0


def test_the_lowest_rate_over_the_references_counts():
    assert evaluate("the cat", ["a dog", "the cat", ""]).score == 0.0


def test_an_output_at_fault_gets_the_worst_score():
    assert evaluate("not json", "x", response_path="answer").score == 1.0


@pytest.mark.parametrize(
    ("actual", "expected", "told"),
    [
        ("a x c", "a b c", "word 2 is 'x' instead of 'b'"),
        ("a", "a b", "the output ends before 'b'"),
        ("a b c", "a b", "the output continues with 'c'"),
    ],
)
def test_the_reason_names_the_first_difference(actual, expected, told):
    assert told in evaluate(actual, expected).reason


def test_the_reason_counts_the_edits():
    assert evaluate("a x c", "a b c").reason == (
        "The output is 1 word edit away from 3 expected words; word 2 is 'x' instead of 'b'."
    )
    assert evaluate("", "").reason == "No words were expected, and the output has none."
