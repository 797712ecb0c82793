"""Any part of a passage without spaces is found in the index of its text."""

from hypothesis import given
from hypothesis import strategies as st

from dokimos.server._services.traces.search_words import fold_text, split_words
from dokimos.server._services.traces.trace_texts import split_searchable
from dokimos.server._services.traces.unspaced_texts import find_terms, split_passages

LETTERS = "東京タワーの々กขคំញ天ab1é"
TEXTS = st.text(alphabet=LETTERS + " 。-", max_size=30)


def is_found(search, text):
    """What databases do with the terms of a search and the words of a text."""
    words = set(split_searchable(text).split())

    def occurs(term):
        return any(word.startswith(term.word) if term.is_begun else word == term.word for word in words)

    return all(map(occurs, find_terms([fold_text(word) for word in split_words(search)])))


@given(before=TEXTS, part=st.text(alphabet="東京タワーの々กขค天", min_size=1), after=TEXTS)
def test_a_part_of_a_passage_is_found(before, part, after):
    assert is_found(part, before + part + after)


@given(text=TEXTS)
def test_a_text_is_found_by_all_of_it(text):
    assert is_found(text, text)


@given(text=st.text(alphabet="東京タワー", min_size=2), other=st.text(alphabet="天気晴", min_size=1))
def test_what_has_no_pair_of_it_is_not_found(text, other):
    assert not is_found(text, other)


@given(text=st.text(alphabet="abcéß 1.-\n", max_size=50))
def test_a_text_with_spaces_stays_as_it_is(text):
    assert split_passages(text) == text


@given(passage=st.text(alphabet="東京タワーの々กข天", min_size=1))
def test_each_letter_of_a_passage_begins_a_word(passage):
    words = split_passages(passage).split()

    assert "".join(word[0] for word in words) == passage
    assert {len(word) for word in words} <= {1, 2}
