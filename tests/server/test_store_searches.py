"""What a store of spans is searched for: words that begin, and any part of a text without spaces."""

import pytest

from dokimos.server._db.clickhouse_spans import _condition_of
from dokimos.server._db.span_storage import SpanSearch
from dokimos.server._services.traces.search_words import fold_text, split_words
from dokimos.server._services.traces.stored_apart import write_search
from dokimos.server._services.traces.trace_search import find_searched_words


def is_found(search, stored):
    """Whether the condition of a search holds for the text of a span; the texts have no sign of LIKE."""
    words = find_searched_words([fold_text(word) for word in split_words(search)])
    condition, patterns = _condition_of(SpanSearch(0, words, (), False))
    assert condition.count("LIKE") == len(patterns) > 0
    text = write_search(stored)
    return all(pattern[1:-1] in text for pattern in patterns.values())


@pytest.mark.parametrize(
    ("search", "stored"),
    [
        ("refund pol", "The refund policy"),
        ("京都", "東京都に住む"),
        ("東京、大阪", "大阪と東京"),
        ("ที่นี่", "อยู่ที่นี่นะ"),
        ("หาร", "อาหารอร่อย"),
        ("हिन्दी", "मेरी हिन्दी"),
        ("हिन्", "मेरी हिन्दी"),
        ("मेरी हिन्दी", "हिन्दी मेरी"),
        ("iphone 買う", "iPhoneを買う"),
        ("phoneを買", "phoneを買う"),
        ("محمد", "مُحَمَّد"),
        ("مُحَمَّد", "محمد"),
        ("_ snake_case", "a snake_case name"),
    ],
)
def test_a_part_of_a_text_is_found(search, stored):
    assert is_found(search, stored)


@pytest.mark.parametrize(
    ("search", "stored"),
    [
        ("refund pol", "The refunds policy"),
        ("efund", "The refund"),
        ("京東", "東京都"),
        ("ที่นี่", "นา ทา"),
        ("हिन्दी", "दही नहीं दाल"),
        ("दिन", "दान"),
        ("दिन", "द न"),
        ("สี", "สู่"),
        ("phoneを", "iPhoneを買う"),
    ],
)
def test_letters_that_are_elsewhere_are_not_taken_for_a_word(search, stored):
    assert not is_found(search, stored)
