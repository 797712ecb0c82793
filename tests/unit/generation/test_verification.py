"""Passages occur word for word, duplicates are found, doubts are named."""

import pytest

from dokimos.generation._checks import find_doubts
from dokimos.generation._duplicates import NEAR, KnownTexts, normalize
from dokimos.generation._passages import find_passage

TEXT = "# Returns\n\nGoods can be   returned\nwithin 30 days. Größe zählt nicht.\n日本への配送は無料です。\n"


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("Goods can be returned within 30 days.", "Goods can be   returned\nwithin 30 days."),
        ("| Goods can be   returned\n| within 30 days.", "Goods can be   returned\nwithin 30 days."),
        ('"Größe zählt nicht."', "Größe zählt nicht."),
        ("日本への配送は無料です。", "日本への配送は無料です。"),
        ("Goods can be returned within 31 days.", None),
        ("goods can be returned", None),
        ("30", None),
        ("", None),
        (".*", None),
        ("x " * 2_000, None),
    ],
)
def test_a_passage_is_found_word_for_word(quote, found):
    span = find_passage(TEXT, quote)
    assert (None if span is None else TEXT[slice(*span)]) == found


@pytest.mark.parametrize(
    ("text", "quote", "found"),
    [
        ("Returns within 130 days only.", "30 days only", False),
        ("It weighs 1.5 kilograms at most.", "5 kilograms at most", False),
        ("A parcel weighs at most 1.5 kilograms.", "weighs at most 1", False),
        ("There is unlimited liability.", "limited liability", False),
        ("Within 130 days. Or 30 days only.", "30 days only.", True),
        ("商品は30日以内に返品できます。", "30日以内に返品", True),
    ],
)
def test_a_passage_does_not_begin_or_end_inside_of_a_word_or_a_number(text, quote, found):
    span = find_passage(text, quote)
    assert (span is not None) == found
    assert span is None or text[slice(*span)] == quote


def test_texts_with_other_numbers_are_other_cases():
    known = KnownTexts(["What does it cost to keep it for 30 days?"])
    assert known.similarity("What does it cost to keep it for 60 days?") == 0.0
    assert known.similarity("What does it cost to keep them for 30 days?") > 0.8


def test_texts_that_differ_in_signs_and_case_are_the_same():
    assert normalize("  How   LONG, exactly?! ") == "how long exactly"
    known = KnownTexts(["How long can I return a jacket?"])
    assert known.similarity("how long can i return a jacket") == 1.0
    assert known.similarity("How long can I return the jacket?") >= NEAR
    assert known.similarity("What does shipping to an island cost?") < NEAR
    assert KnownTexts().similarity("anything") == 0.0
    assert KnownTexts([""]).similarity("x") < NEAR


@pytest.mark.parametrize(
    ("text", "answer", "doubt"),
    [
        ("How long?", "45 days", "numbers that the passage lacks: 45"),
        ("What is it?", "Bananas grow somewhere else", "most words of the answer"),
        ("What does the agent do according to the text?", "returned", "speaks of the source"),
        ("It costs how much?", "returned", "refers to something unsaid"),
        ("Can goods be returned?", "Goods", "contains the answer"),
        ("How long?", "returned " * 60, "is all of it needed?"),
    ],
)
def test_doubts_are_named(text, answer, doubt):
    assert any(doubt in one for one in find_doubts(text, answer, "Goods can be returned within 30 days."))


def test_a_plain_case_raises_no_doubt():
    assert not list(
        find_doubts("How long can I return a jacket?", "within 30 days", "returned within 30 days.")
    )
