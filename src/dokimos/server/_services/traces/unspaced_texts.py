"""Texts in scripts that put no spaces between words, such as Chinese, Japanese and Thai.

An index of words would have everything between two signs as one word. So such passages are indexed as pairs
of adjacent letters, as search engines do, and found by the pairs of what is searched for; the last letter is
a word of its own, so that a single letter is found as the beginning of a word. Spans that an earlier version
has stored have whole passages in their index; a search finds those as it did before, by their beginnings.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from dokimos.server._services.traces.search_words import MAX_WORD

_MAX_LETTERS: Final = 70_000
"""Characters whose passages are indexed as pairs: all of an input and an output that are searched in. The
index of PostgreSQL takes 1 MB for a span, and each pair takes ten bytes of it."""
_LETTERS: Final = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Burmese
    "\u1780-\u17ff"  # Khmer
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u303c"  # radicals, marks and numerals of Chinese and Japanese
    "\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Hiragana, Katakana
    "\u3100-\u312f\u31a0-\u31bf"  # Bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
)
_LETTER: Final = re.compile(f"[{_LETTERS}]")
_PASSAGE: Final = re.compile(f"[{_LETTERS}]+")


class Term(NamedTuple):
    """A word that is looked for in an index."""

    word: str
    is_begun: bool
    """Whether words that begin with it will do."""


Alternatives = Sequence[Sequence[Term]]
"""Terms that all occur, or those of another of these."""


def has_unspaced_letters(text: str) -> bool:
    """Return whether a text has letters of a script without spaces between words."""
    return not text.isascii() and _LETTER.search(text) is not None


def split_passages(text: str) -> str:
    """Return a text of words with its passages without spaces as pairs of letters, as indexes have them."""
    if not has_unspaced_letters(text):
        return text
    return _PASSAGE.sub(_write_pairs, text[:_MAX_LETTERS]) + text[_MAX_LETTERS:]


def separate_passages(text: str) -> str:
    """Return a text of words with its passages without spaces as words of their own."""
    return _PASSAGE.sub(r" \g<0> ", text) if has_unspaced_letters(text) else text


def find_terms(words: Sequence[str]) -> list[Term]:
    """Return what an index is searched for: all of some words, the last of which may be begun."""
    last = len(words) - 1
    terms = [term for number, word in enumerate(words) for term in _find_parts(word, number == last)]
    return list(dict.fromkeys(terms))


def find_old_terms(parts: Sequence[str], *, is_last: bool) -> list[Alternatives]:
    """Return what an index that an earlier version began is searched for, for each part of a word.

    It may have whole passages, which only their beginnings find.

    Args:
        parts: As `split_old_parts` returns them.
        is_last: Whether the word is the last one, which may be begun.
    """
    terms: list[Alternatives] = []
    for number, part in enumerate(parts, 1):
        is_begun = is_last and number == len(parts)
        whole = [Term(part, is_begun)]
        terms.append([_find_parts(part, is_begun), whole] if has_unspaced_letters(part) else [whole])
    return terms


def _write_pairs(passage: re.Match[str]) -> str:
    letters = passage[0]
    pairs = [first + second for first, second in pairwise(letters)]
    return f" {' '.join([*pairs, letters[-1]])} "


def _find_parts(word: str, is_last: bool) -> list[Term]:
    parts: list[Term] = []
    place = 0
    for passage in _PASSAGE.finditer(word):
        if passage.start() > place:
            parts.append(_make_term(word[place : passage.start()], is_begun=False))
        letters, place = passage[0], passage.end()
        if len(letters) == 1:
            parts.append(Term(letters, is_begun=True))
        parts += [Term(letters[at : at + 2], is_begun=False) for at in range(len(letters) - 1)]
    if place < len(word):
        parts.append(_make_term(word[place:], is_begun=is_last))
    return parts


def _make_term(word: str, *, is_begun: bool) -> Term:
    return Term(word[:MAX_WORD], is_begun or len(word) > MAX_WORD)
