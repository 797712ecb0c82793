"""The index of texts and attributes that searches of traces use.

On SQLite it is a table of FTS5 for each day, without contents, which is dropped with its day; on PostgreSQL
two columns of the spans with GIN indexes, in the partition of the day.
"""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter
from typing import Final

from sqlalchemy import Connection

from dokimos.server._db.batches import in_batches
from dokimos.server._db.driver_statements import execute_each
from dokimos.server._services.traces.new_spans import NewSpan
from dokimos.server._services.traces.request_pace import NO_PAUSES, RequestPace
from dokimos.server._services.traces.row_ranges import RowRange, add_ranges, create_range_table
from dokimos.server._services.traces.unspaced_texts import Alternatives, find_terms, split_passages

_LOGGER: Final = logging.getLogger("dokimos.server")
MAX_INDEXED: Final = 100_000
"""Characters of a span that are indexed; PostgreSQL refuses an index of more than 1 MB."""
_TEXTS_AT_ONCE: Final = 10
"""Texts indexed without a look at the requests."""
_NO_WORD: Final = re.compile("[\\W_\u19b0-\u19c0\u19c8\u19c9\u1cf2\u1cf3]+")
"""What ends a word: what is neither a letter nor a digit, and the letters that FTS5 takes for marks, since
its Unicode is older. A word with one of them would be several to it, which its index cannot search for."""
_SIGNS: Final = "_"
"""Stands for signs that part a word; no word has it."""
_ACCENTS: Final = re.compile("[\u0300-\u036f]+")
_MAX_WORD: Final = 500
"""Characters of a word, as a search may have: PostgreSQL leaves those of more than 2,047 bytes out."""
_MARK: Final = "\u01c2"
"""A rare letter that begins the words that are not of the text: the index cannot search in one column."""

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
    """Return a text in words for PostgreSQL, whose parser would keep `example.com` or `3.14` as one."""
    words = _NO_WORD.sub(" ", split_passages(fold_text(text)))
    if len(words) <= _MAX_WORD:
        return words
    return " ".join([word[:_MAX_WORD] for word in words.split(" ")])


def split_words(text: str) -> list[str]:
    """Return the words of a text that is searched for, in small letters, as the index has them."""
    return [word for word in _NO_WORD.split(fold_text(text)) if word]


def split_phrases(text: str) -> list[str]:
    """Return the words of a text that is searched for; one that signs part has all of its parts.

    Vowel signs do not count as letters: to `split_words` and to indexes, a word of Thai or Hindi with some of
    them is several words. Here these stay together, with spaces between them.
    """
    signed = _NO_WORD.sub(_mark_gap, fold_text(text)).split(" ")
    return [" ".join(filter(None, phrase.split(_SIGNS))) for phrase in signed if phrase.strip(_SIGNS)]


def _mark_gap(gap: re.Match[str]) -> str:
    """Return what stands for something between two words."""
    return _SIGNS if all(unicodedata.category(each).startswith("M") for each in gap[0]) else " "


def fold_text(text: str) -> str:
    """Return a text in small letters, each with its accents as one character: an accent alone ends a word.

    Accents that no character has with its letter are left out. Databases do that, too, but not all of them,
    nor for all letters.
    """
    text = text.lower()
    return text if text.isascii() else _ACCENTS.sub("", unicodedata.normalize("NFC", text))


def text_table(day: int) -> str:
    """Return the name of the index of a day on SQLite."""
    return f"span_texts_{day}"


def attribute_word(number: int) -> str:
    """Return the word that stands for an attribute in the index of SQLite."""
    return f"{_MARK}a{number:x}"


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
            f"CREATE VIRTUAL TABLE IF NOT EXISTS {table}"
            " USING fts5(text, words, content='', detail=none, columnsize=0)"
        )
        create_range_table(connection, day)
    insert = f"INSERT INTO {table} (rowid, text, words) VALUES (?, ?, ?)"
    execute_each(connection, ((insert, part) for part in _divide_texts(spans.texts, pace)))
    add_ranges(connection, day, spans.ranges)


def _divide_texts(
    texts: Sequence[tuple[int, str, str]], pace: RequestPace
) -> Iterator[list[tuple[int, str, str]]]:
    for part in in_batches(texts, _TEXTS_AT_ONCE):
        yield [(row, split_passages(text), words) for row, text, words in part]
        pace.give_way()


def _write_term(alternatives: Alternatives) -> str:
    written = [
        " AND ".join([f'"{term.word}"{"*" if term.is_begun else ""}' for term in terms])
        for terms in alternatives
    ]
    return written[0] if len(written) == 1 else f"({' OR '.join([f'({each})' for each in written])})"


def match_expression(
    text: str | None, attributes: Sequence[int] = (), project: str | None = None
) -> str | None:
    """Return a query of FTS5 for all words of a text, the last of which may be the beginning of one.

    None where nothing of it can be looked for.
    """
    words = [] if text is None else split_words(text)
    parts = [_write_term(each) for each in find_terms(words)]
    parts += [f'"{attribute_word(number)}"' for number in attributes]
    if not parts:
        return None
    if project is not None:
        parts.append(f'"{project}"')
    return " AND ".join(parts)
