"""Duplicates among cases: texts with the same words in the same order, apart from those that say nothing.

A duplicate is dropped without a person having seen it, so the rule is narrow. Two texts are the same where

- case, punctuation and white space differ,
- words differ that say nothing by themselves: articles, "please", "do", "can" and "could", "I" and "we", or
- words differ in their ending: "jacket" and "jackets", "return" and "returned".

Every other word makes another case, however short: "plan A" and "plan B", "with" and "without", "from Rome to
Oslo" and "from Oslo to Rome". Numbers and names are compared as they are.

Texts that differ in a single word which is neither a number nor a name are similar: both are kept, and a
person is told. Both questions are answered by look-ups, so that the time for a text does not depend on how
many there are.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(
    r"""(?<!\w)[-−](?=\d)  # of a negative number
      | [^\W_]+ (?: (?<=\d)[.,:](?=\d)[^\W_]+ | ['’](?=[^\W_])[^\W_]+ )* [+#]*  # 4.90, don't, C++
      | [%‰€$£¥<>=≤≥≠+×÷]""",
    re.VERBOSE,
)
_STOP_WORDS_BY_LANGUAGE: Final = {
    "en": "a an the this that these those please kindly hi hello hey thanks thank do does did is are am be "
    "can could may might will would i we me us my our",
    "de": "der die das den dem des ein eine einen einem einer eines bitte ich wir kann können könnte könnten",
    "fr": "le la les un une je nous puis peux peut pouvons",
    "es": "el la los las un una unos unas yo nosotros puedo puede podemos",
}
_STOP_WORDS: Final = frozenset(word for words in _STOP_WORDS_BY_LANGUAGE.values() for word in words.split())
"""Words that say nothing by themselves."""
_CONTRACTED: Final = re.compile(r"['’](?:s|re|m|ll|d|ve)\Z")
_ENDINGS: Final = ("ed", "ing", "es", "en", "em", "e")
_SHORTEST_STEM: Final = 5
_SHORTEST_SINGULAR: Final = 3
_SENTENCE_START: Final = re.compile(r"(?:\A|[.!?:\n])[^\w]*\Z")
_FEWEST_SHARED: Final = 3
"""Words that two texts share at least to be similar."""
_MOST_WORDS: Final = 64
"""Of a longer text, a single word does not make a similar one."""


class KnownTexts:
    """Texts that there are already, to find those again that say the same."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._exact: dict[tuple[str, ...], str] = {}
        self._texts: dict[tuple[str, ...], str] = {}
        self._gaps: dict[int, tuple[str, ...]] = {}
        """By the hash of the words beside one: the words of the first text that has them."""
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Remember a text."""
        read = _read_words(text)
        self._exact.setdefault(read.exact, text)
        if read.words not in self._texts:
            self._texts[read.words] = text
            for rest in _with_gaps(read.words):
                self._gaps.setdefault(hash(rest), read.words)

    def find_same(self, text: str) -> str | None:
        """Return a known text that is the same case, None where there is none."""
        read = _read_words(text)
        same = self._exact.get(read.exact)
        # A text of nothing but words that say nothing is compared as it is.
        return same if same is not None or not read.words else self._texts.get(read.words)

    def find_similar(self, text: str) -> str | None:
        """Return a known text that differs in one word, neither a number nor a name; None without one."""
        read = _read_words(text)
        for other in self._find_near(read.words):
            found = self._texts[other]
            pair = _find_difference(read.words, other)
            if pair is not None and not pair & (read.names | _read_words(found).names):
                return found
        return None

    def _find_near(self, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if len(words) >= _FEWEST_SHARED and (longer := self._gaps.get(hash(words))) is not None:
            yield longer
        for rest in _with_gaps(words):
            if (other := self._gaps.get(hash(rest))) is not None:
                yield other
            if rest in self._texts:
                yield rest


class _Words(NamedTuple):
    exact: tuple[str, ...]
    """All words and signs that count, in small letters."""
    words: tuple[str, ...]
    """Those that say something, without their endings."""
    names: frozenset[str]
    """Those of them that are numbers, signs, single letters or have a capital inside of a sentence."""


def _read_words(text: str) -> _Words:
    text = unicodedata.normalize("NFKC", text)
    exact, words, names = [], [], set()
    for match in _TOKEN.finditer(text):
        token = match[0]
        # One object for each word, however many texts have it: half of the memory.
        folded = sys.intern(token.casefold().replace("’", "'"))
        exact.append(folded)
        if _is_name(text, match):
            words.append(folded)
            names.add(folded)
        elif (bare := _CONTRACTED.sub("", folded)) not in _STOP_WORDS:
            words.append(sys.intern(_find_stem(bare)))
    return _Words(tuple(exact), tuple(words), frozenset(names))


def _is_name(text: str, match: re.Match[str]) -> bool:
    """Say whether a word is compared as it is: a number, a sign, a single letter or a name."""
    token = match[0]
    if not token.isalpha() and not _CONTRACTED.search(token):
        return True
    if not token[0].isupper() or token == "I" or token.startswith(("I'", "I’")):
        return False
    # "A" at the start is an article, "plan A" is not.
    return _SENTENCE_START.search(text, max(0, match.start() - 8), match.start()) is None


def _find_stem(word: str) -> str:
    """Return a word without its endings, of long words only, so that "plan" and "plane" stay apart."""
    if word.endswith("ies") and len(word) > _SHORTEST_STEM:
        word = f"{word[:-3]}y"
    elif word.endswith("s") and not word.endswith("ss") and len(word) > _SHORTEST_SINGULAR:
        word = word[:-1]
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: -len(ending)]
    return word


def _with_gaps(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the words without one of them, for each of them."""
    if _FEWEST_SHARED < len(words) <= _MOST_WORDS:
        for index in range(len(words)):
            yield words[:index] + words[index + 1 :]


def _find_difference(first: tuple[str, ...], second: tuple[str, ...]) -> set[str] | None:
    """Return the words in which two texts differ, None where it is none, or more than one of each."""
    if first == second:
        return None
    shorter = min(len(first), len(second))
    start = next((i for i in range(shorter) if first[i] != second[i]), shorter)
    if len(first) == len(second):
        return {first[start], second[start]} if first[start + 1 :] == second[start + 1 :] else None
    longer, other = (first, second) if len(first) > len(second) else (second, first)
    return {longer[start]} if longer[start + 1 :] == other[start:] else None
