"""Format values for people: quote, shorten, list and pluralize them to fit a sentence or a table."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from dokimos._core.jsonable import jsonable
from dokimos._runtime.redaction import Redactor, secret_redactor

LONGEST_ERROR = 2000
_MOST_SEARCHED = 50 * LONGEST_ERROR
"""Characters of an error in which keys are looked for: more than are shown, lest half a key is."""
_LONGEST_LISTED = 60
_KIBIBYTE = 1024


def shorten(text: str, limit: int = 80) -> str:
    """Return `text` with its middle cut out and its length shown where it is longer than `limit`.

    The result is at most `limit` characters long, apart from the note on the length:
    `"The quick…lazy dog (214 characters)"`.
    """
    if len(text) <= limit:
        return text
    head, tail = _halves(text, limit)
    return f"{head}…{tail} ({len(text)} characters)"


def quote(value: object, limit: int = 80) -> str:
    """Return `value` as it appears in a reason: strings in quotes on one line, anything else as JSON, cut."""
    if not isinstance(value, str):
        return shorten(json.dumps(jsonable(value), ensure_ascii=False), limit)
    if len(value) <= limit:
        return repr(value)
    head, tail = _halves(value, limit)
    return f"{f'{head}…{tail}'!r} ({len(value)} characters)"


def format_list(values: list[Any] | tuple[Any, ...], *, limit: int = 5) -> str:
    """Format the first values as a list: quoted, joined by commas, and how many more there are."""
    text = ", ".join(
        [
            repr(value)
            if type(value) is str and len(value) <= _LONGEST_LISTED
            else quote(value, _LONGEST_LISTED)
            for value in values[:limit]
        ]
    )
    return text if len(values) <= limit else f"{text} and {len(values) - limit} more"


def pluralize(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun in the right number: `1 edit`, `2 edits`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def format_size(count: int) -> str:
    """Return a number of bytes in the largest unit that it fills: `512 bytes`, `13.4 KiB`, `2.5 GiB`."""
    if count < _KIBIBYTE:
        return pluralize(count, "byte")
    size, units = count / _KIBIBYTE, ["KiB", "MiB", "GiB", "TiB"]
    while round(size, 1) >= _KIBIBYTE and len(units) > 1:
        size /= _KIBIBYTE
        del units[0]
    return f"{size:,.1f} {units[0]}"


def join_statements(statements: Iterable[str]) -> str:
    """Join texts of which some end a sentence and others do not: `"No. Never; Why?"`."""
    joined = ""
    for statement in statements:
        gap = "" if not joined else " " if joined.endswith((".", "!", "?", "…")) else "; "
        joined += gap + statement
    return joined


def error_text(error: BaseException) -> str:
    """Return `Type: message` without the keys that are known, the message cut where it is very long."""
    message = error_message(error, secret_redactor())
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def error_message(error: BaseException, redact: Redactor) -> str:
    """Return the text of an exception without the keys that are known, cut where it is very long."""
    text = plain_message(error)
    message = redact(text[:_MOST_SEARCHED])
    if len(message) > LONGEST_ERROR:
        message = f"{message[:LONGEST_ERROR]}… ({len(text)} characters)"
    return message


def plain_message(error: BaseException) -> str:
    """Return the whole text of an exception to look into, keys and all; never raises."""
    try:
        return str(error)
    except Exception as broken:  # an exception of somebody else's may be broken itself
        return f"(no message: {type(broken).__name__} in __str__)"


def _halves(text: str, limit: int) -> tuple[str, str]:
    length = max(limit - 1, 2)
    return text[: (length + 1) // 2], text[len(text) - length // 2 :]
