from __future__ import annotations

import pytest

from dokimos._core.text import format_list, format_size, join_statements, pluralize, quote, shorten


@pytest.mark.parametrize("limit", [3, 10, 80])
@pytest.mark.parametrize("length", [0, 2, 3, 4, 79, 80, 81, 5_000])
def test_long_text_loses_its_middle_and_tells_its_length(limit, length):
    text = "".join(chr(ord("a") + i % 26) for i in range(length))
    cut = shorten(text, limit)
    if length <= limit:
        assert cut == text
        return
    body, _, note = cut.partition(" (")
    head, _, tail = body.partition("…")
    assert note == f"{length} characters)"
    assert len(body) == limit
    assert text.startswith(head)
    assert text.endswith(tail)


def test_values_are_quoted_on_one_line():
    assert quote("a\nb") == r"'a\nb'"
    assert quote({"a": [1, "ü"]}) == '{"a": [1, "ü"]}'
    assert quote(float("nan")) == '"NaN"'
    assert quote("x" * 100, 9) == "'xxxx…xxxx' (100 characters)"


def test_lists_name_the_first_few():
    assert format_list(["a", "b"]) == "'a', 'b'"
    assert format_list(list("abcdefg"), limit=2) == "'a', 'b' and 5 more"


def test_counts_agree_with_their_noun():
    assert (pluralize(1, "item"), pluralize(2, "item"), pluralize(2, "entry", "entries")) == (
        "1 item",
        "2 items",
        "2 entries",
    )


def test_sentences_and_phrases_are_joined_as_each_of_them_ends():
    assert join_statements([]) == ""
    assert join_statements(["Expected 'a', got 'b'.", "Judge 0.20: no!", "KeyError: 'x'", "No."]) == (
        "Expected 'a', got 'b'. Judge 0.20: no! KeyError: 'x'; No."
    )


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (13_656, "13.3 KiB"),
        (2**20 - 1, "1.0 MiB"),
        (53 * 2**30, "53.0 GiB"),
        (2**53, "8,192.0 TiB"),
    ],
)
def test_a_size_has_the_largest_unit_that_it_fills(count, text):
    assert format_size(count) == text
