"""A record whose fields are taken one by one, so that what nobody took is known."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final, NoReturn

from dokimos.datasets._json_format import loads
from dokimos.errors import DatasetError
from dokimos.importers._exports.record_reader import Record

_MOST_BRACKETS: Final = 10_000
"""Python's parser may run out of stack on more, if they are nested."""


class Row:
    """The fields of a record, by any of their names; errors say file, line and field."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.fields = {name: value for name, value in record.values.items() if value is not None}

    def take(self, *names: str) -> Any:
        """Take a field that may have one of several names; None if it has no value."""
        found = {name: self.fields.pop(name) for name in names if name in self.fields}
        values = list(found.values())
        if any(value != values[0] for value in values):
            self.fail(f"{' and '.join(map(repr, found))} are the same field and have different values.")
        return values[0] if values else None

    def take_text(self, *names: str) -> str | None:
        """Take a field that must be a text."""
        value = self.take(*names)
        if value is None or isinstance(value, str):
            return value
        self.fail(f"{names[0]!r} must be a text, not {value!r:.60}.")

    def take_list(self, *names: str) -> list[Any] | None:
        """Take a field that must be a list, which a table writes as JSON or as Python does."""
        value = self.take_container(*names)
        if value is None or isinstance(value, list):
            return value
        self.fail(f"{names[0]!r} must be a list, not {value!r:.60}.")

    def take_texts(self, *names: str, delimiter: str | None = None) -> list[str] | None:
        """Take a list of texts; with a delimiter, also one text in which it stands between them."""
        name = next((each for each in names if each in self.fields), names[0])
        value = self.fields.get(name)
        if delimiter is not None and isinstance(value, str):
            self.fields[name] = _parse_list(value) or value.split(delimiter)
        texts = self.take_list(*names)
        for text in texts or ():
            if not isinstance(text, str):
                self.fail(f"{names[0]!r} must be a list of texts, not of {text!r:.60}.")
        return texts

    def take_map(self, *names: str) -> dict[str, Any] | None:
        """Take a field that must be an object."""
        value = self.take_container(*names)
        if value is None or isinstance(value, dict):
            return value
        self.fail(f"{names[0]!r} must be an object, not {value!r:.60}.")

    def take_container(self, *names: str, or_text: bool = False) -> Any:
        """Take a field that may be a list or an object, which a table has as text.

        Args:
            names: The names that the field may have.
            or_text: Whether it may as well be a text that only begins like one.
        """
        value = self.take(*names)
        if not self.record.has_texts_only or not isinstance(value, str) or not value.startswith(("[", "{")):
            return value
        try:
            return parse_container(value)
        except ValueError as error:
            if or_text:
                return value
            self.fail(f"{names[0]!r} must be a list or an object: {error}")

    def nest(self, values: object, field: str) -> Row:
        """Return a part of this row, which has the same place."""
        if not isinstance(values, dict):
            self.fail(f"{field!r} must have objects, not {values!r:.60}.")
        record = self.record
        return Row(Record(values, record.label, record.line, record.member))

    def fail(self, message: str) -> NoReturn:
        """Raise an error about this record."""
        raise DatasetError(message, path=self.record.label, line=self.record.line)


def parse_container(text: str) -> Any:
    """Read a list or an object as JSON or, as tables of pandas and of Python's csv have it, as Python.

    Raises `ValueError`, also for arrays of numpy, whose texts have no commas between them.
    """
    try:
        return loads(text.strip())
    except ValueError:
        pass
    if sum(map(text.count, "[{(")) > _MOST_BRACKETS:
        raise ValueError("it is not JSON, and too large to be read as Python")
    try:
        tokens = [token.type for token in tokenize.generate_tokens(io.StringIO(text.strip()).readline)]
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, RecursionError, MemoryError, tokenize.TokenError):
        raise ValueError(f"it is {text!r:.60}") from None
    if any(left == right == tokenize.STRING for left, right in pairwise(_without_breaks(tokens))):
        raise ValueError("its texts have no commas between them, as in an array of numpy; export lists")
    return value


def _without_breaks(tokens: list[int]) -> list[int]:
    return [each for each in tokens if each not in (tokenize.NL, tokenize.NEWLINE)]


def as_map(value: Any, key: str) -> dict[str, Any]:
    """Return an object as it is, and anything else under the conventional key."""
    return value if isinstance(value, dict) and value else {} if value is None else {key: value}


def merge_metadata(first: Mapping[str, Any], nested: Mapping[str, Any] | None, key: str) -> dict[str, Any]:
    """Add the entries of a map to the metadata; those whose names are taken stay in the map."""
    entries = nested or {}
    metadata = dict(first) | {name: value for name, value in entries.items() if name not in first}
    taken = {name: value for name, value in entries.items() if name in first and first[name] != value}
    return metadata | ({key: taken} if taken else {})


def _parse_list(text: str) -> list[Any] | None:
    """Return a list that a table holds as text, None for any other text."""
    if not text.startswith("["):
        return None
    try:
        parsed = parse_container(text)
    except ValueError:
        return None
    return parsed if isinstance(parsed, list) else None
