"""Porter stems, each worked out once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

from dokimos._core.extras import require


class Stemmer:
    """The stemmer of NLTK, as its METEOR asks for it, with a memory of 20,000 words."""

    def stem(self, word: str) -> str:
        return porter_stem(word)


@lru_cache(maxsize=20_000)
def porter_stem(word: str) -> str:
    """Return the stem of a word in lower case."""
    return cast("str", _porter().stem(word))


@lru_cache(maxsize=1)
def _porter() -> Any:
    return require("nltk.stem.porter", extra="nlp").PorterStemmer()
