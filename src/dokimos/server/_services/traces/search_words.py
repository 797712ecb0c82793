"""The words of texts, as all stores of spans search for them.

A word is made of letters, digits and vowel signs, in small letters and without what may be left out in
writing: accents that no character has with its letter, and the vowel points of Arabic, Hebrew and Syriac. So
a word of Hindi or Thai is one word, and what ends it is the same for every store, whatever it would take for
a letter itself.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Final, NamedTuple

MAX_WORD: Final = 500
"""Characters of a word that count: PostgreSQL takes no more than 2,046 bytes."""
_MAX_MARKS: Final = 30
"""Marks of a letter that count, as in the Stream-Safe Text Format of Unicode (UAX 15): to put them in their
order takes a time that grows with the square of their number."""
_MANY_SIGNS: Final = re.compile(rf"[^\w\x00-\x7f]{{{_MAX_MARKS + 1},}}")
"""What has all marks that are too many, and few texts have."""
_ACCENTS: Final = re.compile("[\u0300-\u036f]+")
_OPTIONAL_MARKS: Final = (
    "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\ufe20-\ufe2f"  # accents
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # points of Hebrew
    "\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u08ca-\u08e1\u08e3-\u08ff"
    "\u0711\u0730-\u074a"  # points of Arabic, above, and of Syriac
    "\u180b-\u180d\u180f\U000e0100-\U000e01ef"  # what chooses the shape of a letter
)
_OPTIONAL: Final = re.compile(f"[{_OPTIONAL_MARKS}]+")
_SIGN_BLOCKS: Final = (
    (0x0483, 0x1D00),
    (0x2CEF, 0x309B),
    (0xA66F, 0xABEE),
    (0xFB1E, 0xFB1F),
    (0x10A00, 0x12000),
    (0x16A00, 0x17000),
    (0x1E000, 0x1E950),
)
"""Where the signs of scripts are, and not those of music or of other symbols."""
_NOT_PLAIN: Final = re.compile(
    "[^\x00-\u02ff\u0384-\u038a\u038c\u038e-\u03a1\u03a3-\u0482\u048a-\u0527\u0531-\u0556\u0561-\u0586"
    "\u05d0-\u05ea\u0620-\u064a\u0671-\u06d5\u1e00-\u1eff\u2000-\u200b\u200e-\u2064\u20a0-\u20b9\u2100-\u2189"
    "\u2190-\u23f3\u2460-\u26ff\u2701-\u2b4c\u3000-\u3003\uac00-\ud7a3\uff01-\uff65]"
)
"""What not every version of Unicode knows, and what has to be folded: few texts have it."""
_SYMBOL: Final = re.compile(
    "[\u200c\u200d\u20ba-\u20c0\u23f4-\u23ff\u2700\u2b4d-\u2bff\ufe0f\ufffd"
    "\U0001f000-\U0001f0ff\U0001f10d-\U0001faff]+"
)
"""Such as emoji: no letter, no digit and no mark."""
_ASCII_GAPS: Final = {code: " " for code in range(128) if not chr(code).isalnum()}
_ASCII_GAP: Final = re.compile("[\x00-/:-@\\[-`{-\x7f]+")
_OLD_GAP: Final = re.compile("[\\W_\u19b0-\u19c0\u19c8\u19c9\u1cf2\u1cf3]+")


class _Gaps(NamedTuple):
    """What is between words."""

    foreign: re.Pattern[str]
    """Of what is not ASCII."""
    of_searches: re.Pattern[str]
    """Where marks that may be left out are still there."""
    joiner: re.Pattern[str]
    """What stands unseen between a sign and a letter that it joins."""


@cache
def _find_gaps() -> _Gaps:
    """Return the expressions for gaps, made when they are needed first: that takes some milliseconds."""
    marks = [
        chr(code)
        for first, end in _SIGN_BLOCKS
        for code in range(first, end)
        if unicodedata.category(chr(code)) in ("Mn", "Mc")
    ]
    signs = "".join(each for each in marks if not _OPTIONAL.match(each))
    return _Gaps(
        foreign=re.compile(rf"[^\w\x00-\x7f{signs}]+"),
        of_searches=re.compile(rf"(?:[^\w{signs}{_OPTIONAL_MARKS}]|_)+"),
        joiner=re.compile(f"(?<=[{signs}])[\u200c\u200d]"),
    )


def _fold_letters(text: str) -> str:
    """Return a text in small letters, each with its accents as one character, and with all other marks."""
    text = text.lower()
    if text.isascii():
        return text
    text = _ACCENTS.sub("", _compose(text))
    if "\u200c" in text or "\u200d" in text:
        text = _find_gaps().joiner.sub("", text)
    return _compose(text)  # again, since what is gone may have stood between marks that are in another order


def _compose(text: str) -> str:
    """Return a text with each letter as one character with its marks, which are in the order of Unicode."""
    if unicodedata.is_normalized("NFC", text):
        return text
    return unicodedata.normalize("NFC", _MANY_SIGNS.sub(_limit_marks, text))


def _limit_marks(signs: re.Match[str]) -> str:
    """Return signs without the marks of a letter that are too many."""
    kept, count = [], 0
    for sign in signs[0]:
        count = count + 1 if unicodedata.combining(sign) else 0
        if count <= _MAX_MARKS:
            kept.append(sign)
    return "".join(kept)


def _leave_out_marks(text: str) -> str:
    return text if text.isascii() else _OPTIONAL.sub("", text).replace("ς", "σ")


def fold_text(text: str) -> str:
    """Return a text in small letters, each with its accents as one character.

    Accents that no character has with its letter are left out, and so are vowel points, which few people
    write. Databases do that, too, but not all of them, nor for all letters.
    """
    return _leave_out_marks(_fold_letters(text))


def separate_words(text: str) -> str:
    """Return a text with nothing but its words, folded, with one space between them."""
    text = fold_text(text)
    if not text.isascii():
        text = _find_gaps().foreign.sub(" ", text)
    if text.isascii():  # three times as fast as by an expression
        return " ".join(text.translate(_ASCII_GAPS).split())
    return _ASCII_GAP.sub(" ", text).strip()


def is_plain(text: str) -> bool:
    """Return whether FTS5 makes the words of a text that `separate_words` does, except for accents."""
    return text.isascii() or _NOT_PLAIN.search(text) is None


def make_plain(text: str) -> str:
    """Return a text of which FTS5 makes the words that `separate_words` does, except for accents.

    Its Unicode is of 2012: what is newer is a letter to it, such as most emoji.
    """
    without_symbols = _SYMBOL.sub(" ", text)
    if is_plain(without_symbols):
        return without_symbols
    return _find_gaps().foreign.sub(" ", fold_text(text))


def split_words(text: str) -> list[str]:
    """Return the words of a text that is searched for, with the marks that may be left out.

    `fold_text` gives what indexes have of each, and `split_old_parts` what those of earlier versions have.
    """
    words = _find_gaps().of_searches.split(_fold_letters(text))
    return [word for word in words if not _OLD_GAP.fullmatch(word) and word]


def split_old_parts(word: str) -> list[str]:
    """Return what indexes of earlier versions have of a word, where signs end words."""
    return [part for part in _OLD_GAP.split(word) if part]
