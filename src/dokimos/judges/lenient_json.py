"""Reading JSON as models write it: with fences, prose, trailing commas, single quotes, bare keys ..."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from dokimos.core.jsonable import MAX_DEPTH

_FENCE: Final = re.compile(r"```[a-zA-Z0-9_-]*[ \t]*\r?\n?(.*?)```", re.DOTALL)
_BRACKET: Final = re.compile(r"[{\[]")
_BARE_KEY: Final = re.compile(r"[^\W\d][\w$-]*")
_NUMBER: Final = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_SPACE: Final = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/|#[^\n]*)*", re.DOTALL)
_WORDS: Final = {
    "true": True, "false": False, "null": None, "True": True, "False": False, "None": None,
}  # fmt: skip
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
MOST_STARTS: Final = 200


class NoJson(ValueError):
    """A text holds no JSON object or array."""


def candidates(text: str) -> Iterator[Any]:
    """Yield the JSON values in a reply, the most likely one first.

    That is the whole text if it is JSON, then what is fenced as code, then whatever object or array can be
    read in the text; of several, the last one first, since models reason before they answer.
    """
    text = text.lstrip("\ufeff").strip()
    whole = _strict(text)
    if whole is not None:
        yield whole
        return
    for block in reversed(_FENCE.findall(text)):
        yield from reversed(list(_values(block)))
    yield from reversed(list(_values(text)))


def first_value(text: str) -> Any:
    """Return the most likely JSON value in a reply. Raises `NoJson`."""
    for value in candidates(text):
        return value
    raise NoJson("the reply holds no JSON object or array")


def _strict(text: str) -> Any:
    if not text.startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _values(text: str) -> Iterator[Any]:
    """Yield the outermost objects and arrays that can be read, from left to right.

    Of very many brackets the first and the last are tried: the answer is at either end of what was reasoned.
    """
    starts = [match.start() for match in _BRACKET.finditer(text)]
    if len(starts) > 2 * MOST_STARTS:
        starts = starts[:MOST_STARTS] + starts[-MOST_STARTS:]
    position = 0
    for start in starts:
        if start < position:
            continue  # inside of a value that was read
        reader = _Reader(text, start)
        try:
            value = reader.value(0)
        except _Unreadable:
            continue
        position = reader.position
        yield value


class _Unreadable(Exception):
    """No value can be read here."""


class _Reader:
    """A recursive reader of JSON as models write it."""

    def __init__(self, text: str, position: int) -> None:
        self.text = text
        self.position = position

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise _Unreadable
        self.skip_space()
        character = self.peek()
        if character == "{":
            return self.object(depth)
        if character == "[":
            return self.array(depth)
        if character in "\"'":
            return self.string()
        return self.scalar()

    def object(self, depth: int) -> dict[str, Any]:
        self.position += 1
        found: dict[str, Any] = {}
        while not self.closes("}"):
            key = self.key()
            self.expect(":")
            found[key] = self.value(depth + 1)
            self.comma_or_end("}")
        return found

    def array(self, depth: int) -> list[Any]:
        self.position += 1
        found = []
        while not self.closes("]"):
            found.append(self.value(depth + 1))
            self.comma_or_end("]")
        return found

    def key(self) -> str:
        if self.peek() in "\"'":
            return self.string()
        match = _BARE_KEY.match(self.text, self.position)
        if match is None:
            raise _Unreadable
        self.position = match.end()
        return match[0]

    def string(self) -> str:
        quote = self.peek()
        self.position += 1
        parts: list[str] = []
        while True:
            character = self.peek()
            self.position += 1
            if character == quote:
                return "".join(parts)
            parts.append(self.escape() if character == "\\" else character)

    def escape(self) -> str:
        character = self.peek()
        self.position += 1
        if character != "u":
            return _ESCAPES.get(character, character)
        digits = self.text[self.position : self.position + 4]
        if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
            return "u"
        self.position += 4
        high = int(digits, 16)
        if 0xD800 <= high < 0xDC00 and self.text.startswith("\\u", self.position):
            low = self.text[self.position + 2 : self.position + 6]
            if re.fullmatch(r"[dD][c-fC-F][0-9a-fA-F]{2}", low):
                self.position += 6
                return chr(0x10000 + ((high - 0xD800) << 10) + (int(low, 16) - 0xDC00))
        return "\ufffd" if 0xD800 <= high < 0xE000 else chr(high)

    def scalar(self) -> Any:
        number = _NUMBER.match(self.text, self.position)
        if number is not None:
            self.position = number.end()
            return _number(number[0])
        word = _BARE_KEY.match(self.text, self.position)
        if word is None or word[0] not in _WORDS:
            raise _Unreadable
        self.position = word.end()
        return _WORDS[word[0]]

    def comma_or_end(self, closer: str) -> None:
        self.skip_space()
        if self.peek() == ",":
            self.position += 1
        elif self.peek() != closer:
            raise _Unreadable

    def closes(self, closer: str) -> bool:
        self.skip_space()
        if self.peek() != closer:
            return False
        self.position += 1
        return True

    def expect(self, character: str) -> None:
        self.skip_space()
        if self.peek() != character:
            raise _Unreadable
        self.position += 1

    def skip_space(self) -> None:
        match = _SPACE.match(self.text, self.position)
        if match is not None:
            self.position = match.end()

    def peek(self) -> str:
        if self.position >= len(self.text):
            raise _Unreadable
        return self.text[self.position]


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)
