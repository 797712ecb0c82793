"""The words of texts: the same for searches and for texts, and those that the index of SQLite has."""

import sqlite3
from contextlib import closing

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dokimos.server._services.traces.search_words import (
    fold_text,
    is_plain,
    make_plain,
    separate_words,
    split_old_parts,
    split_words,
)
from dokimos.server._services.traces.trace_texts import TEXT_INDEX_OPTIONS, has_full_text_search

LETTERS = (
    "aé\u0301\u0308 _-.Σςσİﬁ²٣مُ\u0640שָदि\u093c\u094d\u200cक\u200dಠ"
    "ท\u0e35\u0e48ទ\u17d2東が\u3099🤖\ufe0f\u20e3\u19b1\u1982"
)


def index_words(texts):
    """Return the words that the index of SQLite has of each text."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE VIRTUAL TABLE texts USING fts5({TEXT_INDEX_OPTIONS})")
        connection.execute("CREATE VIRTUAL TABLE words USING fts5vocab(texts, 'instance')")
        connection.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", enumerate(texts))
        found = [set() for _ in texts]
        for word, number in connection.execute("SELECT term, doc FROM words"):
            found[number].add(word)
        return found


@pytest.mark.skipif(not has_full_text_search(sqlite3.sqlite_version), reason="this SQLite has no FTS5")
def test_the_index_of_sqlite_has_the_words_of_a_text_with_any_character():
    # Without the letters of Chinese and Korean, and what is assigned to nothing.
    codes = (*range(128, 0x3400), *range(0x9FF0, 0xAC00), *range(0xF8F0, 0x10000), *range(0x10000, 0x12000))
    more = (*range(0x16000, 0x18000), *range(0x1B000, 0x20000), *range(0xE0000, 0xE01F0))
    texts = [f"qa{chr(code)}bq" for code in (*codes, *more)]
    prepared = [text if is_plain(text) else make_plain(text) for text in texts]
    differing = [
        text
        for text, found, wanted in zip(
            texts, index_words(prepared), index_words(map_words(texts)), strict=True
        )
        if found != wanted
    ]
    assert differing == []


def map_words(texts):
    return [separate_words(text) for text in texts]


@pytest.mark.skipif(not has_full_text_search(sqlite3.sqlite_version), reason="this SQLite has no FTS5")
@given(texts=st.lists(st.one_of(st.text(alphabet=LETTERS), st.text()), min_size=1, max_size=5))
def test_the_index_of_sqlite_has_the_words_of_any_text(texts):
    prepared = [text if is_plain(text) else make_plain(text) for text in texts]
    assert index_words(prepared) == index_words(map_words(texts))


@given(text=st.one_of(st.text(alphabet=LETTERS), st.text()))
@example("ที่นี่ naïve Ï a_b ิ ΟΔΟΣ e\u0301")
def test_a_search_has_the_words_of_its_text(text):
    words = [fold_text(word) for word in split_words(text)]
    of_text = [word for word in separate_words(text).split() if split_old_parts(word)]
    assert words == of_text


@given(text=st.one_of(st.text(alphabet=LETTERS), st.text()))
@example("\u094d\u200c\u093c")
@example("\u094d\u034f\u093c")
def test_words_are_folded_once(text):
    words = separate_words(text)
    assert separate_words(words) == words
    assert "  " not in words
    assert words == words.strip()


def test_a_letter_has_no_more_marks_than_can_be_ordered_at_once():
    in_wrong_order = "\u094d\u093c"
    assert len(fold_text("क" + in_wrong_order * 15)) == 31
    assert fold_text("क" + in_wrong_order * 1000) == fold_text("क" + in_wrong_order * 15)
    assert fold_text("🤖क" + in_wrong_order * 1000 + "🤖") == fold_text("🤖क" + in_wrong_order * 15 + "🤖")
    between = "\u094d\u200c\u093c\u200c"
    assert len(fold_text("क" + between * 1000)) == 31
    assert separate_words("a" + "\u0301\u0323" * 1000 + "b") == "ạb"


def test_signs_that_are_no_marks_are_all_kept():
    text = "e\u0301" + "👍" * 100 + "。" * 100
    assert fold_text(text) == "é" + text[2:]
