"""Whether a quoted passage occurs in a document, and where: word for word, apart from white space."""

from __future__ import annotations

import re
from typing import Final

SHORTEST: Final = 8
"""Characters without white space that a quote has at least: fewer occur anywhere."""
_BAR: Final = re.compile(r"(?m)^\|[ \t]?")
_MOST_WORDS: Final = 1_000


def find_passage(text: str, quote: str) -> tuple[int, int] | None:
    """Return where a quote stands in a text, None where it does not occur there or is too short.

    Line breaks and blanks may differ; every other sign has to be the same. Bars before lines, which a model
    was shown, and quotation marks around the whole do not count.
    """
    for candidate in (quote, _BAR.sub("", quote), quote.strip().strip("\"'“”„»«`")):
        words = candidate.split()
        if not words or len(words) > _MOST_WORDS or sum(map(len, words)) < SHORTEST:
            continue
        match = re.search(r"\s+".join(map(re.escape, words)), text)
        if match is not None:
            return match.span()
    return None
