"""The material that a judge was shown, to tell its own verdict from one that it quotes."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

from dokimos.judges._fencing import find_fenced_texts
from dokimos.judges._lenient_json import TooEntangled, readable_values
from dokimos.judges._reasoning import closes_reasoning

Canonical: TypeAlias = Any
"""A value normalized for comparison: a number, a text, a set of members ..."""

_NEUTRALIZED: Final = re.compile(r"\\?u\{[0-9a-f]+\}|\[\d+ hidden characters\]")
_NO_WORD: Final = re.compile(r"[\W_]+")
_DEEPEST_QUOTATION: Final = 3
"""How many levels of JSON inside strings of JSON are parsed."""


@dataclass(frozen=True)
class JudgedText:
    """The material of a prompt."""

    prompt: str = ""
    """The prompt before its random marker is inserted."""

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The fenced texts of the prompt, or the whole prompt if nothing is fenced."""
        return find_fenced_texts(self.prompt) or (self.prompt,)

    @cached_property
    def closes_reasoning(self) -> bool:
        """Whether it has a tag such as `</think>`, so that a judge may quote it."""
        return any(map(closes_reasoning, self.texts))

    def holds(self, value: object) -> bool:
        """Say whether a value occurs in the text."""
        return self._values is not None and _exact(value) in self._values

    def resembles(self, value: object) -> bool:
        """Say whether a value may be quoted from the text although it does not occur in it literally.

        That is so if only spelling and punctuation differ, or if members are missing: a verdict quoted
        without its reason is still quoted. A text with more brackets than can be parsed may hold any value.
        """
        if self._loose_values is None:
            return True
        value_parts = _loose(value)
        if isinstance(value_parts, frozenset):
            return bool(value_parts) and any(
                value_parts <= candidate
                for candidate in self._loose_values
                if isinstance(candidate, frozenset)
            )
        return value_parts in self._loose_values

    def quotes(self, text: str) -> bool:
        """Say whether the text has these words, with any spacing."""
        return _words(text) in self._words

    @cached_property
    def _parsed(self) -> tuple[Any, ...] | None:
        try:
            return tuple(value for text in self.texts for value in _values_in(text, 0))
        except TooEntangled:
            return None

    @cached_property
    def _values(self) -> frozenset[Canonical] | None:
        return None if self._parsed is None else frozenset(map(_exact, self._parsed))

    @cached_property
    def _loose_values(self) -> frozenset[Canonical] | None:
        return None if self._parsed is None else frozenset(map(_loose, self._parsed))

    @cached_property
    def _words(self) -> str:
        return _words("\n".join(spelling for text in self.texts for spelling in _spellings(text)))


def _exact(value: Any) -> Canonical:
    """Normalize a value so that it equals values that are the same in JSON."""
    if isinstance(value, dict):
        return frozenset((key, _exact(each)) for key, each in value.items())
    if isinstance(value, list):
        return tuple(_exact(each) for each in value)
    # True == 1 in Python, and true is not 1 in JSON.
    if isinstance(value, bool):
        return ("bool", value)
    return value if value is None or isinstance(value, str) else _float(value)


def _loose(value: object) -> Canonical:
    """Normalize a value so that it equals values that say the same; empty members are dropped."""
    if isinstance(value, dict):
        members = ((str(key).casefold(), _loose(each)) for key, each in value.items())
        return frozenset(member for member in members if member[1] not in ("", None))
    if isinstance(value, list):
        return tuple(_loose(each) for each in value)
    if isinstance(value, str):
        return _number_or_words(value)
    return _exact(value)


def _number_or_words(text: str) -> float | str:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    return number if math.isfinite(number) else _words(_NEUTRALIZED.sub("", text))


def _float(number: int | float) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf")


def _words(text: str) -> str:
    return _NO_WORD.sub(" ", text).strip().casefold()


def _values_in(text: str, depth: int) -> Iterator[Any]:
    """Yield all objects and arrays of a text, including nested ones and those in JSON inside strings."""
    for spelling in _spellings(text):
        for value in readable_values(spelling):
            yield from _parts_of(value, depth)


def _parts_of(value: object, depth: int) -> Iterator[Any]:
    if isinstance(value, dict | list):
        yield value
        parts: Iterable[Any] = value.values() if isinstance(value, dict) else value
        for part in parts:
            yield from _parts_of(part, depth)
    elif isinstance(value, str) and depth < _DEEPEST_QUOTATION and ("{" in value or "[" in value):
        yield from _values_in(value, depth + 1)


def _spellings(text: str) -> Iterator[str]:
    """Yield a text, and the text with the escapes of a JSON string or of HTML resolved."""
    yield text
    if "\\" in text:
        # A judge that quotes JSON out of a string often leaves the escapes away.
        yield text.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'").replace("\\\\", "\\")
    if "&quot;" in text or "&#" in text:
        yield html.unescape(text)
