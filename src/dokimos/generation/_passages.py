"""Whether a quoted passage occurs in a document, and where: word for word, apart from white space."""

from __future__ import annotations

import re
from typing import Final

SHORTEST: Final = 8
"""Characters without white space that a quote has at least: fewer occur anywhere."""
_FENCE: Final = re.compile(r"</?material\b[^<>\n]*>")
"""The lines around what a model was shown, which small models copy along with it."""
_BAR: Final = re.compile(r"(?m)^[ \t]*\|[ \t]?")
_QUOTATION_MARKS: Final = "\"'“”„»«`"
_MOST_WORDS: Final = 1_000


def find_passage(text: str, quote: str) -> tuple[int, int] | None:
    """Return where a quote stands in a text, None where it does not occur there or is too short.

    Line breaks and blanks may differ; every other sign has to be the same, and words and numbers are whole:
    "30 days" does not occur in "130 days". The fence and the bars before lines, which a model was shown, and
    quotation marks around the whole do not count.
    """
    bare = _BAR.sub("", _FENCE.sub("\n", quote))
    for candidate in (quote, bare, bare.strip().strip(_QUOTATION_MARKS)):
        words = candidate.split()
        if not words or len(words) > _MOST_WORDS or sum(map(len, words)) < SHORTEST:
            continue
        for match in re.finditer(r"\s+".join(map(re.escape, words)), text):
            if not _cuts(text, match.start()) and not _cuts(text, match.end()):
                return match.span()
    return None


def _cuts(text: str, place: int) -> bool:
    """Say whether a place is inside of a word or a number; scripts without case have no such words."""
    before, after = text[max(0, place - 2) : place], text[place : place + 2]
    if not before or not after:
        return False
    if before[-1].isdecimal() and after[0].isdecimal():
        return True
    if before[-1] in ".," and before[:-1].isdecimal():
        return after[0].isdecimal()  # 1.|5
    if after[0] in ".," and after[1:].isdecimal():
        return before[-1].isdecimal()  # 1|.5
    return _has_case(before[-1]) and _has_case(after[0])


def _has_case(letter: str) -> bool:
    return letter.upper() != letter.lower()
