"""Edit distances of long texts end: they are counted where the texts differ little, and refused elsewhere."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos._core.test_case import EvalTestCase
from dokimos.errors import EvaluationError
from dokimos.evaluators import Levenshtein
from dokimos.evaluators import _edit_distance as module
from dokimos.evaluators._edit_distance import edit_distance
from dokimos.evaluators._nlp import word_sequences

WORDS = st.text("abc", max_size=12)


def long_text(seed, length=240_000):
    return "".join(random.Random(seed).choices("abcdefghijklmnopqrstuvwxyz ", k=length))


@given(WORDS, WORDS)
def test_both_ways_count_the_same(a, b):
    way = module._without_common_ends(*sorted((a, b), key=len))
    assert module._few_edits(*way) == edit_distance(a, b) == edit_distance(b, a)


def test_long_texts_that_differ_little_are_compared():
    text = long_text(1)
    other = "X" + text[:100_000] + text[100_003:] + "Y"
    result = Levenshtein().evaluate(EvalTestCase.of("q", other, text))
    assert result.metadata["distance"] == 5
    assert result.score == (len(text) - 5) / len(text)


def test_long_texts_that_differ_much_are_refused_with_a_reason():
    result = Levenshtein().evaluate(EvalTestCase.of("q", long_text(1), long_text(2)))
    assert result.score is None
    assert "too long to count the edits between them" in result.error
    assert "240,000" in result.error or "239,99" in result.error


def test_a_subsequence_of_too_many_words_is_refused(monkeypatch):
    monkeypatch.setattr(word_sequences, "MOST_CELLS", 100)
    assert word_sequences.common_subsequence_length("abcdefghij", "jihgfedcba") == 1
    with pytest.raises(EvaluationError, match="11 and 10 words"):
        word_sequences.common_subsequence_length("abcdefghijk", "jihgfedcba")
