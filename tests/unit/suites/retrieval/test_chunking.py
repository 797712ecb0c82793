"""Texts cut into chunks: nothing is lost, and none is too large."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dokimos.suites._retrieval.chunking import (
    Chunk,
    estimate_tokens,
    format_heading_path,
    split_sections,
    split_text,
)

texts = st.text(st.sampled_from("ab Zé。日本.!?\n\t-#`"), max_size=300)
prose = st.lists(
    st.sampled_from(
        ["One word.", "A longer sentence, with a comma!", "日本語。", "x" * 40, "\n\n", "\n", "- item"]
    ),
    max_size=40,
).map(" ".join)
distinct_letters = st.lists(st.sampled_from([" ", ". ", "\n", "\n\n", "-", "", " " * 9]), max_size=200).map(
    lambda spaces: "".join(f"{chr(0xA000 + place)}{space}" for place, space in enumerate(spaces))
)
headings = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from(["Alpha", "Beta", "Gamma ray"]), prose), max_size=8
).map(lambda parts: "\n".join(f"{'#' * level} {title}\n{body}" for level, title, body in parts))


def without_space(text):
    return re.sub(r"\s+", "", text)


@given(texts | prose, st.integers(1, 60))
def test_chunks_without_overlap_are_the_text(text, limit):
    chunks = split_text(text, limit=limit)

    assert without_space("".join(chunks)) == without_space(text)
    assert all(0 < len(chunk) <= limit for chunk in chunks)


@given(distinct_letters, st.integers(2, 60), st.integers(0, 59))
@example("\ua000-\ua001-", 3, 0)
def test_chunks_with_overlap_hold_all_of_the_text_in_order(text, limit, overlap):
    chunks = split_text(text, limit=limit, overlap=min(overlap, limit - 1))

    covered = 0
    for chunk in chunks:
        brings_something = max(0, covered - len(chunk) + 1)
        start = text.index(chunk, brings_something)  # a sign alone may stand earlier in the text too
        assert start <= covered or not text[covered:start].strip(), "something between them is lost"
        assert len(chunk) <= limit
        covered = start + len(chunk)
    assert not text[covered:].strip()


@given(texts | prose, st.integers(1, 30))
def test_tokens_limit_chunks_too(text, limit):
    chunks = split_text(text, limit=limit, size=estimate_tokens)

    assert without_space("".join(chunks)) == without_space(text)
    assert all(estimate_tokens(chunk) <= limit for chunk in chunks)


@given(headings, st.integers(20, 80), st.integers(0, 10))
@example("# Gamma ray\n\n## Gamma ray\n\n### Gamma ray\n" + 40 * "x", 20, 0)
def test_sections_keep_every_word_below_its_headings(text, limit, overlap):
    chunks = split_sections(text, limit=limit, overlap=overlap)

    found = without_space("".join(chunk.text for chunk in chunks))
    titles = {title for chunk in chunks for title in chunk.headings}
    for line in text.splitlines():
        heading = re.match(r"#+ (.*)", line)
        if heading:
            assert heading[1].strip() in titles
        else:
            for word in line.split():
                assert word in found
    for chunk in chunks:
        path = min(estimate_tokens(format_heading_path(chunk.headings)), limit // 2)
        assert path + estimate_tokens(chunk.text) <= limit


def test_paragraphs_are_kept_whole_where_they_fit():
    assert split_text("One two.\n\nThree four.\n\nFive.", limit=22) == ["One two.\n\nThree four.", "Five."]


def test_long_paragraphs_are_cut_after_sentences_and_long_sentences_after_words():
    assert split_text("One two. Three four.", limit=12) == ["One two.", "Three four."]
    assert split_text("one two three four", limit=9) == ["one two", "three", "four"]
    assert split_text("abcdefghij", limit=4) == ["abcd", "efgh", "ij"]


def test_the_overlap_repeats_whole_sentences():
    chunks = split_text("One. Two. Three. Four.", limit=12, overlap=6)

    assert chunks == ["One. Two.", "Two. Three.", "Four."]


def test_an_empty_text_has_no_chunks():
    assert split_text(" \n ", limit=5) == []
    assert split_sections("", limit=50) == []


def test_sections_have_the_path_of_their_headings():
    text = "Before.\n\n# Guide\n\nIntro.\n\n## Install\n\nRun it.\n\n### Linux\n\nUse apt.\n\n# Other\n\nEnd."

    assert [(chunk.headings, chunk.text) for chunk in split_sections(text, limit=100)] == [
        ((), "Before."),
        (("Guide",), "Intro."),
        (("Guide", "Install"), "Run it."),
        (("Guide", "Install", "Linux"), "Use apt."),
        (("Other",), "End."),
    ]


def test_a_heading_above_another_is_no_chunk_but_a_last_one_is():
    chunks = split_sections("# Guide\n## Install\nRun it.\n## Licence\n", limit=100)

    assert [chunk.headings for chunk in chunks] == [("Guide", "Install"), ("Guide", "Licence")]
    assert chunks[1].full_text == "Guide > Licence"


def test_a_comment_in_code_is_no_heading():
    text = "# Guide\n\n```sh\n# not a heading\nls\n```\n\n~~~\n# nor this\n~~~\nafter\n"

    (chunk,) = split_sections(text, limit=100)

    assert chunk.headings == ("Guide",)
    assert "# not a heading" in chunk.text
    assert "after" in chunk.text


@pytest.mark.parametrize(("line", "heading"), [("## Two ##", "Two"), ("#", ""), ("   # In", "In")])
def test_headings_are_read_as_markdown_has_them(line, heading):
    (chunk,) = split_sections(f"{line}\n\ntext", limit=50)

    assert chunk.headings == ((heading,) if heading else ())


def test_a_chunk_is_shown_below_its_path():
    assert Chunk("text", ("A", "B")).full_text == "A > B\n\ntext"
    assert Chunk("text").full_text == "text"
    assert format_heading_path(()) == ""


def test_white_space_alone_is_nothing_new():
    assert split_text("a b c\n\n", limit=3, overlap=2) == ["a b", "b c"]
    assert split_text("a b c\n \n\nnext", limit=4, overlap=2) == ["a b", "b c", "next"]
