"""Spans whose words an earlier version has put in the index, where vowel signs end words."""

import re

import pytest
from tests.server.test_trace_search import chosen
from tests.server.trace_requests import NOW, send, span

from dokimos.server._services.traces import span_rows, trace_texts
from dokimos.server._services.traces.trace_statements import INSERT_POSTGRESQL

GAP = re.compile(r"[\W_]+")


@pytest.fixture
def send_earlier(api, monkeypatch, database_settings):
    """Send spans that are stored as version 0.2 did."""
    insert = re.sub(
        r"array_to_tsvector\(string_to_array\((\$\d+), ' '\)\)",
        r"to_tsvector('simple', \1)",
        INSERT_POSTGRESQL,
    )
    assert insert != INSERT_POSTGRESQL

    def split(span):
        return GAP.sub(" ", trace_texts.searchable_text(span).lower())

    def write_words(project, attributes):
        return " ".join([project, *(f"\u01c2a{number:x}" for number in attributes)])

    def send_spans(*spans):
        with monkeypatch.context() as patch:
            patch.setattr(span_rows, "INSERT_POSTGRESQL", insert)
            patch.setattr(span_rows, "searchable_words", split)
            patch.setattr(trace_texts, "_write_text", str)
            patch.setattr(span_rows, "write_words", write_words)
            options = "text, words, content='', detail=none, columnsize=0"
            patch.setattr(trace_texts, "TEXT_INDEX_OPTIONS", options)
            send(api, *spans)

    return send_spans


def test_a_text_without_spaces_is_found_by_its_beginning(api, send_earlier):
    send_earlier(span(1, start=NOW, input="東京タワー"))
    send(api, span(2, start=NOW, input="東京タワー"))

    assert chosen(api, search="東京") == [2, 1]
    assert chosen(api, search="東京タ") == [2, 1]
    assert chosen(api, search="東京タワー question") == []
    assert chosen(api, search="タワー") == [2]


@pytest.mark.parametrize(
    "searched", ["हिन्दी", "हिन्", "भाषा हिन्दी", "ที่นี่", "ที่", "12e4567ab", "7e1", "οδος", "café he", "مُحَمَّد"]
)
def test_words_with_signs_are_found_whenever_they_were_stored(api, send_earlier, searched):
    text = "मेरी हिन्दी भाषा ที่นี่ οδος café hex 12e4567ab 7e1f2a3b مُحَمَّد"
    send_earlier(span(1, start=NOW, input=text))
    send(api, span(2, start=NOW, input=text))

    assert chosen(api, search=searched) == [2, 1]


def test_the_parts_of_a_word_are_next_to_each_other_on_postgresql(api, send_earlier, database_settings):
    send_earlier(span(1, start=NOW, input="हाँ नाम दी"), span(2, start=NOW, input="हिन्दी"))
    is_postgresql = "database_url" in database_settings

    assert chosen(api, search="हिन्दी") == ([2] if is_postgresql else [2, 1])


def test_attributes_are_found_whenever_they_were_stored(api, send_earlier):
    send_earlier(span(1, start=NOW, tier="gold", input="हिन्दी"), span(2, start=NOW, tier="tin"))
    send(api, span(3, start=NOW, tier="gold", input="हिन्दी"))

    assert chosen(api, attribute="tier=gold") == [3, 1]
    assert chosen(api, attribute="tier=gold", search="हिन्दी") == [3, 1]
