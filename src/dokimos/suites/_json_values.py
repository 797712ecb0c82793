"""JSON as values that know where they stand, and what is wrong with it with its line."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from dokimos._core.json_errors import describe_json_error
from dokimos.suites._problems import Location, Problem, Steps, format_path, raise_problems

MOST_LEVELS: Final = 200
_TOKEN: Final = re.compile(r'[ \t\r\n]*("(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+)', re.DOTALL)
_WORDS: Final = {"null": None, "true": True, "false": False}
# Python's own limit: int() of a longer text raises ValueError.
_MOST_DIGITS: Final = 4300


# The standard library checks the syntax and words its faults, but says of no value where it is, and accepts
# keys given twice and NaN. So a text that has passed is read a second time, token by token.
class JsonValues:
    """Reads one JSON text; every value is passed to `note`, and scalars may be replaced by `convert`."""

    def __init__(
        self,
        path: Path,
        text: str,
        *,
        first_line: int = 1,
        note: Callable[[Steps, Location], None] = lambda steps, location: None,
        convert: Callable[[Steps, str, Any], Any] = lambda steps, token, value: value,
    ) -> None:
        self.problems: list[Problem] = []
        self._path = path
        self._text = text
        self._first_line = first_line
        self._note = note
        self._convert = convert
        self._line_starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self._at = 0

    def read(self) -> Any:
        """Return the value, None with a problem where the text is not JSON."""
        try:
            _check_syntax(self._text)
            return self._value(())
        except json.JSONDecodeError as error:
            message = f"this is not valid JSON: {describe_json_error(error)}"
            self.problems.append(Problem(message, self.location(error.pos)))
        except (_TooDeep, RecursionError):
            self.problems.append(Problem("this is nested too deeply", self.location(self._at)))
        return None

    def location(self, at: int) -> Location:
        """Return the line and column of a position in the text."""
        line = bisect_right(self._line_starts, at)
        return Location(self._path, line - 1 + self._first_line, at - self._line_starts[line - 1] + 1)

    def complain(self, message: str, at: int, steps: Steps) -> None:
        """Add a problem."""
        self.problems.append(Problem(message, self.location(at), format_path(steps)))

    def _value(self, steps: Steps) -> Any:
        token, start = self._token()
        self._note(steps, self.location(start))
        if token == "{":
            return self._object(steps)
        if token == "[":
            return self._array(steps)
        return self._convert(steps, token, self._scalar(token, start, steps))

    def _object(self, steps: Steps) -> dict[str, Any]:
        if len(steps) > MOST_LEVELS:
            raise _TooDeep
        entries: dict[str, Any] = {}
        token, start = self._token()
        while token != "}":
            key = _text_of(token)
            if key in entries:
                self.complain(f"the key {key!r} is given twice", start, steps)
            self._token()  # the colon
            entries[key] = self._value((*steps, key))
            self._note((*steps, key), self.location(start))
            token, start = self._token()
            if token == ",":
                token, start = self._token()
        return entries

    def _array(self, steps: Steps) -> list[Any]:
        if len(steps) > MOST_LEVELS:
            raise _TooDeep
        entries: list[Any] = []
        # A value begins with its own token, so only the end of an empty list is consumed here.
        before = self._at
        if self._token()[0] == "]":
            return entries
        self._at = before
        while True:
            entries.append(self._value((*steps, len(entries))))
            if self._token()[0] == "]":
                return entries

    def _scalar(self, token: str, start: int, steps: Steps) -> Any:
        if token.startswith('"'):
            return _text_of(token)
        if token in _WORDS:
            return _WORDS[token]
        if not token.lstrip("-")[:1].isdigit():
            self.complain(f"{token} is not a JSON value; write null or a text", start, steps)
        elif len(token) > _MOST_DIGITS:
            self.complain(f"this number has more than {_MOST_DIGITS} digits", start, steps)
        elif token.lstrip("-").isdigit():
            return int(token)
        elif math.isinf(float(token)):
            self.complain(f"the number {token:.30} is too large", start, steps)
        else:
            return float(token)
        return None

    def _token(self) -> tuple[str, int]:
        match = _TOKEN.match(self._text, self._at)
        assert match is not None, "the syntax was checked"
        self._at = match.end()
        return match[1], match.start(1)


class _TooDeep(Exception):
    """JSON is nested more deeply than anybody writes it."""


def read_json(path: Path, text: str, *, first_line: int = 1) -> Any:
    """Return the value of a JSON text. Raises `ConfigurationError` with line and column of what is wrong."""
    values = JsonValues(path, text, first_line=first_line)
    value = values.read()
    raise_problems(values.problems)
    return value


def _check_syntax(text: str) -> None:
    """Raise `json.JSONDecodeError` for what is not JSON; numbers are looked at later."""
    if not text.strip(" \t\r\n"):
        raise json.JSONDecodeError("it is empty", text, 0)
    json.loads(text, parse_int=str, parse_float=str, parse_constant=str)


def _text_of(token: str) -> str:
    if "\\" not in token:
        return token[1:-1]
    text: str = json.loads(token)
    return text
