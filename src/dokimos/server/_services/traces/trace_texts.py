"""The index of texts and attributes that searches of traces use.

On SQLite it is a table of FTS5 for each day, without contents, which is dropped with its day; on PostgreSQL
two columns of the spans with GIN indexes, in the partition of the day.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from typing import Final

from sqlalchemy import Connection, text

from dokimos.server._db.batches import in_batches
from dokimos.server._db.driver_statements import execute_each
from dokimos.server._services.traces.new_spans import NewSpan
from dokimos.server._services.traces.request_pace import NO_PAUSES, RequestPace
from dokimos.server._services.traces.row_ranges import RowRange, add_ranges, create_range_table
from dokimos.server._services.traces.search_words import (
    MAX_WORD,
    fold_text,
    is_plain,
    make_plain,
    separate_words,
    split_old_parts,
)
from dokimos.server._services.traces.unspaced_texts import (
    Alternatives,
    Term,
    find_old_terms,
    find_terms,
    has_unspaced_letters,
    split_passages,
)

_LOGGER: Final = logging.getLogger("dokimos.server")
MAX_INDEXED: Final = 100_000
"""Characters of a span that are indexed; PostgreSQL refuses an index of more than 1 MB."""
_TEXTS_AT_ONCE: Final = 10
"""Texts indexed without a look at the requests."""
_TOKENIZER: Final = "unicode61 categories 'L* N* Co Mn Mc'"
"""Takes vowel signs for parts of words."""
TEXT_INDEX_OPTIONS: Final = f"text, words, content='', detail=none, columnsize=0, tokenize=\"{_TOKENIZER}\""
"""Of the index of a day on SQLite."""
_MARK: Final = "\ue000"
"""Begins the words that are not of the text, since the index cannot search in one column. It is for private
use, and a letter to FTS5 alone: no word of a text or of a search has it."""
_OLD_MARK: Final = "\u01c2"
"""Began them in earlier versions: a rare letter."""

_pick_searched: Final = itemgetter(
    *(NewSpan._fields.index(name) for name in ("name", "input_text", "output_text", "error"))
)


def searchable_text(span: NewSpan) -> str:
    """Return what a search for a text looks at."""
    return "\n".join(filter(None, _pick_searched(span)))[:MAX_INDEXED]


def join_searchable(*parts: str | None) -> str:
    """Return the name, input, output and error of a span as one text that is searched in."""
    return "\n".join(filter(None, parts))[:MAX_INDEXED]


def searchable_words(span: NewSpan) -> str:
    """Return the text of a span for PostgreSQL."""
    return split_searchable(searchable_text(span))


def split_searchable(text: str) -> str:
    """Return a text in the words that PostgreSQL has in its index, each behind one space."""
    words = separate_words(text)
    if has_unspaced_letters(words):
        words = " ".join(split_passages(words).split())
    if len(words) <= MAX_WORD:
        return words
    return " ".join([word[:MAX_WORD] for word in words.split(" ")])


def text_table(day: int) -> str:
    """Return the name of the index of a day on SQLite."""
    return f"span_texts_{day}"


def attribute_word(number: int, mark: str = _MARK) -> str:
    """Return the word that stands for an attribute in the index of SQLite."""
    return f"{mark}a{number:x}"


def project_word(project_id: str | None, tenant_key: str) -> str:
    """Return the word that all spans of one project and tenant have in the index of SQLite."""
    return f"{_MARK}p{(project_id or '').replace('-', '')}t{tenant_key.encode().hex()}"


@cache
def has_full_text_search(connection_library: str) -> bool:
    """Whether SQLite was built with FTS5; without it, traces cannot be searched."""
    import sqlite3

    with sqlite3.connect(":memory:") as connection:
        try:
            connection.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
        except sqlite3.OperationalError:
            _LOGGER.warning(
                "SQLite %s has no FTS5: traces cannot be searched by words or attributes.", connection_library
            )
            return False
    return True


def write_words(project: str, attributes: tuple[int, ...]) -> str:
    """Return the words of a span that are not of its text: of its project, and of its attributes."""
    # What `attribute_word` writes, without a call for each of a million attributes.
    return project + _word_format(len(attributes)) % attributes


@cache
def _word_format(count: int) -> str:
    return f" {_MARK}a%x" * count


@dataclass(slots=True)
class IndexedSpans:
    """What spans of one day add to the index of SQLite."""

    texts: list[tuple[int, str, str]] = field(default_factory=list)
    """Their rows, with the text and the words of each."""
    ranges: list[RowRange] = field(default_factory=list)
    """Which of these rows are of which trace."""


def index_texts(
    connection: Connection, day: int, spans: IndexedSpans, known_days: set[int], pace: RequestPace = NO_PAUSES
) -> None:
    """Add spans to the index of SQLite.

    Args:
        known_days: Days whose tables are known to be there.
        pace: Lets requests go first.
    """
    import sqlite3

    if not has_full_text_search(sqlite3.sqlite_version):
        return
    table = text_table(day)
    if day not in known_days:
        connection.exec_driver_sql(
            f"CREATE VIRTUAL TABLE IF NOT EXISTS {table} USING fts5({TEXT_INDEX_OPTIONS})"
        )
        create_range_table(connection, day)
    insert = f"INSERT INTO {table} (rowid, text, words) VALUES (?, ?, ?)"
    execute_each(connection, ((insert, part) for part in _divide_texts(spans.texts, pace)))
    add_ranges(connection, day, spans.ranges)


def _divide_texts(
    texts: Sequence[tuple[int, str, str]], pace: RequestPace
) -> Iterator[list[tuple[int, str, str]]]:
    for part in in_batches(texts, _TEXTS_AT_ONCE):
        yield [(row, _write_text(text), words) for row, text, words in part]
        pace.give_way()


def _write_text(text: str) -> str:
    """Return a text as the index of SQLite has it."""
    return text if is_plain(text) else split_passages(make_plain(text))


def is_old_index(connection: Connection, day: int) -> bool | None:
    """Return whether an earlier version began the index of a day on SQLite; None if it has no index."""
    query = text("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = :name")
    created = connection.execute(query, {"name": text_table(day)}).scalar()
    return None if created is None else _TOKENIZER not in created


def match_expression(words: Sequence[str], attributes: Sequence[int] = ()) -> str:
    """Return a query of FTS5 for all of some words, the last of which may be the beginning of one."""
    parts = [_write_term(term) for term in find_terms(words)]
    return " AND ".join([*parts, *(f'"{attribute_word(number)}"' for number in attributes)])


def match_old_expression(words: Sequence[str], attributes: Sequence[int] = ()) -> str:
    """Return such a query for an index that an earlier version began, where vowel signs end words."""
    last = len(words) - 1
    written = [_write_old_word(word, is_last=number == last) for number, word in enumerate(words)]
    marks = (_OLD_MARK, _MARK)  # it may be the index of the day on which the server was updated
    for number in attributes:
        either = " OR ".join([f'"{attribute_word(number, mark)}"' for mark in marks])
        written.append(f"({either})")
    return " AND ".join(written)


def _write_term(term: Term) -> str:
    return f'"{term.word}"{"*" if term.is_begun else ""}'


def _write_old_word(word: str, *, is_last: bool) -> str:
    """Return a query for a word: in parts, and without optional marks, as spans after the update have it."""
    forms = dict.fromkeys(tuple(split_old_parts(form)) for form in (word, fold_text(word)))
    queries = [
        " AND ".join([_write_alternatives(each) for each in find_old_terms(parts, is_last=is_last)])
        for parts in forms
    ]
    return queries[0] if len(queries) == 1 else f"({' OR '.join([f'({each})' for each in queries])})"


def _write_alternatives(alternatives: Alternatives) -> str:
    written = [" AND ".join(map(_write_term, terms)) for terms in alternatives]
    return written[0] if len(written) == 1 else f"({' OR '.join([f'({each})' for each in written])})"
