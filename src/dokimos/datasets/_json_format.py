"""Parse JSON strictly and as a stream, whatever its size."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, NoReturn, TypeAlias, cast

from dokimos._core.example import Example
from dokimos._core.excerpt import append_excerpt
from dokimos._core.json_errors import describe_json_error
from dokimos.datasets import _limits as limits
from dokimos.datasets._rows import RowReader
from dokimos.datasets._source import Source
from dokimos.errors import DatasetError

JsonObject: TypeAlias = dict[str, Any]

_CHUNK: Final = 1 << 16
SPACE: Final = " \t\r\n"
_NOT_SPACE: Final = re.compile(r"[^ \t\r\n]")
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
# Python's own limit: int() of a longer text raises ValueError.
_MAX_DIGITS: Final = 4300
_EXCERPT_LENGTH: Final = 200
"""Characters of a line that are kept for messages."""
# An error this close to the end of what was read may only mean that the value goes on there.
_CUT_OFF: Final = 16


class _Refused(ValueError):
    """Something that is JSON to the standard library but not to us."""

    def __init__(self, message: str, *, key: str | None = None, token: str | None = None) -> None:
        super().__init__(message)
        self.key = key
        self.token = token


@dataclass(slots=True)
class Head:
    """What a JSON document says about itself; filled in while it is read."""

    name: str | None = None
    description: str = ""


def loads(text: str) -> Any:
    """Parse one JSON value. Raises `ValueError` also for duplicate keys, NaN, infinities and deep nesting."""
    try:
        value, end = scan(text, 0)
    except StopIteration:
        raise ValueError("Expected a JSON value") from None
    except RecursionError:
        raise ValueError("Nested too deeply") from None
    if end != len(text):
        raise ValueError("Text after the end of the JSON value")
    return value


def read_json(source: Source, rows: RowReader, head: Head) -> Iterator[Example]:
    """Yield the examples of an object with the array "examples", or of an array.

    At most one example and one piece of the file are in memory. Raises `DatasetError` with the line.
    """
    with source.open() as stream:
        cursor = JsonCursor(stream, source)
        first = cursor.peek()
        if first == "[":
            yield from _elements(cursor, rows)
        elif first == "{":
            yield from _document(cursor, rows, head)
        else:
            cursor.fail(
                'Expected an object with an array "examples"' + ("." if first else ", but it is empty.")
            )
        if cursor.peek():
            cursor.fail("Text after the end of the JSON value.")


def _document(cursor: JsonCursor, rows: RowReader, head: Head) -> Iterator[Example]:
    cursor.take("{")
    seen: set[str] = set()
    while cursor.peek() != "}" or seen:
        key = read_member_name(cursor, seen)
        if key == "examples":
            if cursor.peek() != "[":
                cursor.fail('"examples" must be an array of objects.')
            yield from _elements(cursor, rows)
        else:
            _record_member(head, key, cursor)
        if cursor.take(",}") == "}":
            break
    else:
        cursor.take("}")
    if "examples" not in seen:
        found = f" It has {', '.join(sorted(seen))}." if seen else ""
        # Without an excerpt: no line is wrong.
        cursor.refuse(f'The object has no array "examples".{found}')


def read_member_name(cursor: JsonCursor, seen: set[str]) -> str:
    if cursor.peek() != '"':
        cursor.fail("Expected a key in double quotes.")
    key = cast("str", cursor.value()[0])
    if key in seen:
        cursor.fail(f"The key {key!r} is given twice.")
    seen.add(key)
    cursor.take(":")
    return key


def _record_member(head: Head, key: str, cursor: JsonCursor) -> None:
    value, line = cursor.value()
    if key not in ("name", "description"):
        return
    if not isinstance(value, str):
        raise DatasetError(f"{key!r} must be a text, not {value!r:.40}.", path=cursor.label, line=line)
    setattr(head, key, value)


def _elements(cursor: JsonCursor, rows: RowReader) -> Iterator[Example]:
    for value, line in iterate_elements(cursor):
        yield rows.read(value, line)


def iterate_elements(cursor: JsonCursor) -> Iterator[tuple[Any, int]]:
    """Yield each element of the array at the cursor, and the line on which it begins."""
    cursor.take("[")
    if cursor.peek() == "]":
        cursor.take("]")
        return
    while True:
        yield cursor.value()
        if cursor.take(",]") == "]":
            return


class JsonCursor:
    """A place in a JSON text of which only a piece is in memory."""

    def __init__(self, stream: BinaryIO, source: Source) -> None:
        self.label = source.label
        self._source = source
        self._stream = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        self._text = ""
        self._at = 0
        self._line = 1
        self._ended = False

    def peek(self) -> str:
        """Return the next character that is not white space without consuming it, "" at the end."""
        while True:
            match = _NOT_SPACE.search(self._text, self._at)
            if match is not None:
                self._advance(match.start())
                return match[0]
            self._advance(len(self._text))
            if self._ended:
                return ""
            self._read_on()

    def take(self, expected: str) -> str:
        """Consume the next character, which must be one of `expected`."""
        found = self.peek()
        if not found or found not in expected:
            what = " or ".join(repr(char) for char in expected)
            self.fail(
                f"Expected {what}, found {found!r}." if found else f"Expected {what}, but the file ends."
            )
        self._at += 1
        return found

    def value(self) -> tuple[Any, int]:
        """Consume a JSON value; return it and the line on which it starts."""
        self.peek()
        while True:
            try:
                value, end = scan(self._text, self._at)
            except (ValueError, StopIteration, RecursionError) as error:
                if self._ended or not self._may_be_cut_off(error):
                    self._fail_because(error)
            else:
                # A number at the very end of the piece may go on in the next one.
                if end < len(self._text) or self._ended:
                    line = self._line
                    self._advance(end)
                    return value, line
            self._read_on()

    def refuse(self, message: str) -> NoReturn:
        """Raise an error about the whole, which no line shows."""
        raise DatasetError(message, path=self.label, line=self._line)

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        place = self._at if at is None else at
        line = self._line + self._text.count("\n", self._at, place)
        located_message = append_excerpt(message, self._text, place, line)
        raise DatasetError(located_message, path=self.label, line=line)

    def _advance(self, to: int) -> None:
        self._line += self._text.count("\n", self._at, to)
        self._at = to

    def _read_on(self) -> None:
        rest = self._text[self._at :]
        if len(rest) > limits.MAX_RECORD_BYTES:
            raise limits.line_too_long("The value that begins here", self.label, self._line)
        try:
            # Doubling keeps the time linear for a value that is longer than one piece.
            piece = self._stream.read(max(_CHUNK, len(rest)))
        except UnicodeDecodeError:
            raise self._source.utf8_error() from None
        begin = self._text.rfind("\n", 0, self._at) + 1  # of the line, which a message shows
        tail = self._text[max(begin, self._at - _EXCERPT_LENGTH) : self._at]
        self._text, self._at, self._ended = tail + rest + piece, len(tail), not piece

    def _may_be_cut_off(self, error: Exception) -> bool:
        if isinstance(error, StopIteration):
            return len(self._text) - cast("int", error.value) < _CUT_OFF
        if not isinstance(error, json.JSONDecodeError):
            return False
        return error.msg.startswith("Unterminated string") or len(self._text) - error.pos < _CUT_OFF

    def _fail_because(self, error: Exception) -> NoReturn:
        message, at = explain_fault(error, self._text, self._at)
        self.fail(message, at)


def explain_fault(error: Exception, text: str, start: int) -> tuple[str, int]:
    """Return a message and the position of the fault."""
    if isinstance(error, json.JSONDecodeError):
        return f"Not valid JSON: {describe_json_error(error)}.", error.pos
    if isinstance(error, StopIteration):
        at = cast("int", error.value)
        return (
            f"Not valid JSON: {describe_json_error(json.JSONDecodeError('Expecting value', text, at))}.",
            at,
        )
    if isinstance(error, RecursionError):
        return "The JSON is nested too deeply.", start
    if isinstance(error, _Refused):
        return str(error), _position(text, start, error)
    refused = _Refused(f"A number has more than {_MAX_DIGITS} digits.")
    return str(refused), _position(text, start, refused)


def _position(text: str, start: int, refused: _Refused) -> int:
    """Find what was refused: the second occurrence of a key in one object, a token or an endless number."""
    open_objects: list[set[str] | None] = []
    for match in _TOKEN.finditer(text, start):
        token = match[0]
        if token in "{[":
            open_objects.append(set() if token == "{" else None)
        elif token in "}]":
            if not open_objects:  # the text may be broken behind what was refused
                break
            open_objects.pop()
        elif token.startswith('"'):
            if refused.key is not None and _repeats(refused.key, match, open_objects):
                return match.start()
        elif refused.key is None and (token.startswith(refused.token or "x") or len(token) > _MAX_DIGITS):
            return match.start()
    return start


def _repeats(key: str, match: re.Match[str], open_objects: list[set[str] | None]) -> bool:
    keys = open_objects[-1] if open_objects else None
    if keys is None or not match.string[match.end() :].lstrip(SPACE).startswith(":"):
        return False
    if json.loads(match[0]) != key:
        return False
    if key in keys:
        return True
    keys.add(key)
    return False


def _unique(members: list[tuple[str, Any]]) -> JsonObject:
    unique = dict(members)
    if len(unique) == len(members):
        return unique
    keys = [key for key, _ in members]
    twice = next(key for index, key in enumerate(keys) if key in keys[:index])
    raise _Refused(f"The key {twice!r} is given twice in one object.", key=twice)


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _Refused(f"The number {digits:.30} is too large.", token=digits)
    return number


def _no_constant(name: str) -> NoReturn:
    raise _Refused(f"{name} is not a JSON value; use null or a text.", token=name)


# The scanner itself, which json.loads wraps in two searches for white space.
scan: Final[Callable[[str, int], tuple[Any, int]]] = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite
).scan_once  # type: ignore[attr-defined] # there since Python 2.7, but not in typeshed
