"""A lenient JSON parser, which repairs JSON as models write it.

It accepts code fences and prose around the JSON, comments, trailing commas, single quotes, bare keys, and the
constants of Python. It never guesses at what is cut off or has quotes that are not escaped: such a value is
unreadable (`Group.is_readable`), and the judge is asked to repair it (`ask`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from dokimos._core.jsonable import MAX_DEPTH

_BRACKET: Final = re.compile(r"[{}\[\]]")
_OPENER: Final = re.compile(r"[{\[]")
_BARE_KEY: Final = re.compile(r"[^\W\d][\w$-]*")
_NUMBER: Final = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
# Comments are limited, so that a text with many of their beginnings takes no longer than another.
_SPACE: Final = re.compile(r"(?:\s|//[^\n]{0,500}|/\*.{0,500}?\*/|#[^\n]{0,500})*", re.DOTALL)
_WORDS: Final = {
    "true": True, "false": False, "null": None, "True": True, "False": False, "None": None,
}  # fmt: skip
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_PLAIN_PART: Final = {quote: re.compile(rf"[^\\{quote}]*") for quote in "\"'"}
_BLANK: Final = " \t\r\n\f\v\u00a0\u2028\u2029\u200b\ufeff"
_FENCE: Final = "```"
_FENCE_LINE: Final = re.compile(r"```[a-zA-Z0-9_-]*")
_BEGINS_LIKE_JSON: Final = re.compile(r"""\{\s*(?:["']|[^\W\d][\w$-]*\s*:|\Z)|\[\s*["'{\[]""")
_TOKEN: Final = re.compile(r"""\\.|["'{}\[\]]""", re.DOTALL)
_AFTER_STRING: Final = re.compile(r"\s*[,:}\]]")
_LEAST_STEPS: Final = 50_000
_CHARACTERS_PER_STEP: Final = 64


class Group(NamedTuple):
    """A pair of brackets in a text, with the value between them."""

    start: int
    end: int
    value: Any = None
    is_readable: bool = True
    """False if it is not JSON, not even as models write it: `{x}`, or cut off, or with open quotes."""
    has_duplicates: bool = False
    """Whether one of its objects has a key twice."""


def whole_value(text: str) -> Group | None:
    """Return the object or array that makes up a whole text, None if there is none or anything else.

    White space, a byte order mark and one surrounding code fence are ignored.
    """
    start, end = (0, len(text)) if text[:1] == "{" and text[-1] == "}" else _without_fence(text)
    if start >= end or text[start] not in "{[":
        return None
    content = text[start:end]
    strict = _strict(content)
    if strict is not None:
        return Group(start, end, strict[0], has_duplicates=strict[1])
    reader = _Reader(text, start)
    try:
        value = reader.value(0)
    except _Unreadable:
        return None
    return Group(start, end, value, has_duplicates=reader.has_duplicates) if reader.position == end else None


def groups(text: str) -> Iterator[Group]:
    """Yield the outermost bracket groups of a text, from left to right, without stray brackets.

    A group that begins like JSON and has no end extends to the end of the text. The time is proportional to
    the length of the text, whatever brackets are in it: judged text must not be able to stall the parser.
    """
    ends = _matching_brackets(text)
    position = 0
    for match in _OPENER.finditer(text):
        start = match.start()
        if start < position:
            continue  # inside of the last group
        looks_like_json = _BEGINS_LIKE_JSON.match(text, start) is not None
        if start not in ends and not looks_like_json:
            continue
        reader = _Reader(text, start)
        try:
            value = reader.value(0)
        except _Unreadable:
            end = _end_of_broken(text, start) if looks_like_json else ends[start]
            group = Group(start, end, is_readable=False)
        else:
            group = Group(start, reader.position, value, has_duplicates=reader.has_duplicates)
        position = group.end
        yield group


def member_start(text: str, start: int, key: str) -> int | None:
    """Return where the value of a key begins in the object at `start`, None if it has no such key."""
    reader = _Reader(text, start)
    try:
        reader.value(0)
    except _Unreadable:
        return None
    return reader.members.get(key)


class TooEntangled(Exception):
    """A text has more nested brackets than can be parsed in reasonable time."""


def readable_values(text: str) -> Iterator[Any]:
    """Yield all objects and arrays of a text that are not inside another readable one.

    Unlike `groups`, it looks inside unreadable groups too. Raises `TooEntangled` if that takes too long.
    """
    steps = _LEAST_STEPS + len(text)
    position = 0
    for match in _OPENER.finditer(text):
        if match.start() < position:
            continue
        reader = _Reader(text, match.start(), steps)
        try:
            value = reader.value(0)
        except _Unreadable:
            if reader.steps <= 0:
                raise TooEntangled from None
        else:
            position = reader.position
            yield value
        steps = reader.steps


def _without_fence(text: str) -> tuple[int, int]:
    """Return where a text begins and ends without surrounding white space and one code fence."""
    start, end = _without_blanks(text, 0, len(text))
    opening = _FENCE_LINE.match(text, start, end)
    if opening is not None and end - opening.end() >= len(_FENCE) and text.endswith(_FENCE, start, end):
        return _without_blanks(text, opening.end(), end - len(_FENCE))
    return start, end


def _without_blanks(text: str, start: int, end: int) -> tuple[int, int]:
    part = text[start:end]
    return end - len(part.lstrip(_BLANK)), start + len(part.rstrip(_BLANK))


def _strict(text: str) -> tuple[Any, bool] | None:
    """Parse strict JSON, and say whether an object has a key twice; None if it is not strict JSON."""
    try:
        try:
            return _UNIQUE_KEYS.decode(text), False
        except _DuplicateKey:
            return json.loads(
                text
            ), True  # raises if there is no JSON after the object with the duplicate key
    except (ValueError, RecursionError):
        return None


class _DuplicateKey(Exception):
    """An object has a key twice."""


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _DuplicateKey
    return members


_UNIQUE_KEYS: Final = json.JSONDecoder(object_pairs_hook=_members)


def _matching_brackets(text: str) -> dict[int, int]:
    """Return the ends of all matched brackets by their starts; brackets in quotes count too."""
    ends: dict[int, int] = {}
    open_brackets: list[int] = []
    waiting = {"{": 0, "[": 0}
    for match in _BRACKET.finditer(text):
        bracket = match[0]
        if bracket in waiting:
            open_brackets.append(match.start())
            waiting[bracket] += 1
            continue
        opener = "{" if bracket == "}" else "["
        # Linear in all: each bracket is taken off the stack once, and a closer without an opener takes
        # none.
        while waiting[opener]:
            start = open_brackets.pop()
            waiting[text[start]] -= 1
            if text[start] == opener:
                ends[start] = match.end()
                break
    return ends


def _end_of_broken(text: str, start: int) -> int:
    """Return where a group ends that begins like JSON and is not; the end of the text if nobody can tell.

    Nobody can tell if a string in it is not followed by what follows strings: then some quote is not escaped,
    and any bracket may be inside a string or outside.
    """
    depth = 0
    position = start
    while (match := _TOKEN.search(text, position)) is not None:
        token, position = match[0], match.end()
        if token in "{[":
            depth += 1
        elif token in "}]":
            depth -= 1
            if not depth:
                return position
        elif token == '"' or (token == "'" and _opens_string(text, match.start())):
            reader = _Reader(text, match.start())
            try:
                reader.string()
            except _Unreadable:
                break
            position = reader.position
            if not _AFTER_STRING.match(text, position):
                break
    return len(text)


def _opens_string(text: str, position: int) -> bool:
    """Say whether a single quote opens a string, rather than being an apostrophe."""
    # A hundred characters back at most, or a text of blanks and quotes would take quadratic time.
    return text[max(position - 100, 0) : position].rstrip().endswith(("{", "[", ",", ":"))


class _Unreadable(Exception):
    """No value can be parsed here."""


class _Reader:
    """A recursive descent parser of JSON as models write it."""

    def __init__(self, text: str, position: int, steps: int | None = None) -> None:
        self.text = text
        self.position = position
        self.steps = len(text) + _LEAST_STEPS if steps is None else steps
        """How many more values and pieces of text may be parsed."""
        self.has_duplicates = False
        self.members: dict[str, int] = {}
        """Where the values of the outermost object begin, by key."""

    def value(self, depth: int) -> Any:
        self.steps -= 1
        if depth > MAX_DEPTH or self.steps < 0:
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
        members: dict[str, Any] = {}
        while not self.closes("}"):
            key = self.key()
            self.expect(":")
            self.skip_space()
            if depth == 0:
                self.members[key] = self.position
            self.has_duplicates = self.has_duplicates or key in members
            members[key] = self.value(depth + 1)
            self.comma_or_end("}")
        return members

    def array(self, depth: int) -> list[Any]:
        self.position += 1
        elements = []
        while not self.closes("]"):
            elements.append(self.value(depth + 1))
            self.comma_or_end("]")
        return elements

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
        plain = _PLAIN_PART[quote]
        parts: list[str] = []
        while True:
            match = plain.match(self.text, self.position)
            assert match is not None, "the pattern takes the empty text too"
            parts.append(match[0])
            self.position = match.end()
            self.steps -= len(match[0]) // _CHARACTERS_PER_STEP
            character = self.peek()
            self.position += 1
            if character == quote:
                return "".join(parts)
            parts.append(self.escape())

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
        # Also for whole numbers of more digits than int() takes (4,300).
        return float(text)
