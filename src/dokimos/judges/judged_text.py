"""What a judge was shown as material, to tell its own verdict from one that it quotes."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

from dokimos.judges.fencing import find_fenced_texts
from dokimos.judges.lenient_json import TooEntangled, readable_values
from dokimos.judges.reasoning import closes_reasoning

Canonical: TypeAlias = Any
"""A value in a form that can be compared: a number, a text, a set of members ..."""

_NEUTRALIZED: Final = re.compile(r"\\?u\{[0-9a-f]+\}|\[\d+ hidden characters\]")
_NO_WORD: Final = re.compile(r"[\W_]+")
_DEEPEST_QUOTATION: Final = 3
"""How often JSON in a string of JSON in ... is looked into."""


@dataclass(frozen=True)
class JudgedText:
    """The material of a prompt."""

    prompt: str = ""
    """As it is before its marker is put in."""

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """What is fenced in the prompt, or all of it where nothing is."""
        return find_fenced_texts(self.prompt) or (self.prompt,)

    @cached_property
    def closes_reasoning(self) -> bool:
        """Whether it has a tag such as `</think>`, so that a judge may quote it."""
        return any(map(closes_reasoning, self.texts))

    def holds(self, value: object) -> bool:
        """Say whether a value stands in the text."""
        return self._values is not None and _exact(value) in self._values

    def resembles(self, value: object) -> bool:
        """Say whether a value may be quoted from the text though it is not in it to the letter.

        So it is where only spelling and punctuation differ, and where members are missing: to quote a verdict
        without its reason is to quote it. What a text holds is not known where it has more brackets than can
        be looked through: then it may hold anything.
        """
        if self._loose_values is None:
            return True
        wanted = _loose(value)
        if isinstance(wanted, frozenset):
            return bool(wanted) and any(
                wanted <= known for known in self._loose_values if isinstance(known, frozenset)
            )
        return wanted in self._loose_values

    def quotes(self, text: str) -> bool:
        """Say whether the text has these words, however they are spaced."""
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
    """Return a value so that it equals others that are the same in JSON."""
    if isinstance(value, dict):
        return frozenset((key, _exact(each)) for key, each in value.items())
    if isinstance(value, list):
        return tuple(_exact(each) for each in value)
    if isinstance(value, bool):
        return ("bool", value)
    return value if value is None or isinstance(value, str) else _float(value)


def _loose(value: object) -> Canonical:
    """Return a value so that it equals others that say the same; empty members of objects are left out."""
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
    """Yield all objects and arrays of a text, those inside others too, and those in quoted JSON."""
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
    """Yield a text, and what it says where it is JSON inside a string, or HTML."""
    yield text
    if "\\" in text:
        yield text.replace("\\n", "\n").replace('\\"', '"').replace("\\'", "'").replace("\\\\", "\\")
    if "&quot;" in text or "&#" in text:
        yield html.unescape(text)
