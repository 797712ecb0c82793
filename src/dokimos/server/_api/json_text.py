"""JSON of a request: parsed strictly, with errors that name the place; and JSON text for the tables.

The quick way is one pass of a compiled parser. Only where that refuses, or where the text holds what needs a
second look, the slow way finds out what is wrong and where.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import jiter
from pydantic_core import PydanticSerializationError, to_json

from dokimos.server._services.errors import InvalidRequestError

MAX_DEPTH: Final = 200
_NEEDS_SECOND_LOOK: Final = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_INFINITE: Final = b"Infinity"  # how the serializer writes 1e999, which a parser reads as infinite
_SIMPLE_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def parse_json(body: bytes) -> Any:
    """Parse a request body.

    Lone surrogates and NUL in texts are kept. Duplicate keys, NaN, infinities, nesting beyond 200 and keys
    with NUL or lone surrogates are refused.

    Raises:
        InvalidRequestError: The body is not such JSON; the message names the place.
    """
    try:
        value = jiter.from_json(body, allow_inf_nan=False, cache_mode="keys", catch_duplicate_keys=True)
    except ValueError:
        return _parse_carefully(body)
    if _NEEDS_SECOND_LOOK.search(body) is not None:
        return _parse_carefully(body)
    return value


def dump_json(value: object, path: str) -> str:
    """Return a parsed value as JSON text of ASCII or UTF-8 without NUL or lone surrogates, which are escaped.

    Args:
        value: A value that `parse_json` returned.
        path: Where it stands in the request, for an error.

    Raises:
        InvalidRequestError: It holds a number that is too large for JSON's readers.
    """
    try:
        text = to_json(value)
    except PydanticSerializationError:  # a lone surrogate, which UTF-8 cannot hold
        text = json.dumps(value, separators=(",", ":")).encode()
    if _INFINITE in text:
        for place, part in _walk(value, path):
            if isinstance(part, float) and not math.isfinite(part):
                raise InvalidRequestError("must be a finite number", field=place)
    return text.decode()


class _Duplicate(dict[str, Any]):
    """An object in which a key was given twice."""

    key: str = ""


def _parse_carefully(body: bytes) -> Any:
    try:
        value = json.loads(body.decode(), object_pairs_hook=_object, parse_constant=float)
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"Malformed request body: not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise InvalidRequestError(f"Malformed request body: nested deeper than {MAX_DEPTH}") from None
    except ValueError as error:
        if not isinstance(error, json.JSONDecodeError):  # more digits than Python converts
            raise InvalidRequestError(f"Malformed request body: {error}") from None
        place = f"line {error.lineno}, column {error.colno}"
        raise InvalidRequestError(f"Malformed request body: {error.msg} at {place}") from None
    for path, part in _walk(value, ""):
        _check(path, part)
    return value


def _check(path: str, part: object) -> None:
    if isinstance(part, _Duplicate):
        _refuse(path, f"the key {part.key!r} is given twice")
    if isinstance(part, float) and not math.isfinite(part):
        _refuse(path, "must be a finite number")
    if isinstance(part, dict):
        for key in part:
            if "\0" in key or (not key.isprintable() and any("\ud800" <= sign <= "\udfff" for sign in key)):
                _refuse(path, f"the key {key!a} holds NUL or half a character")


def _refuse(path: str, message: str) -> NoReturn:
    raise InvalidRequestError(message, field=path or "body")


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(members)
    if len(value) == len(members):
        return value
    keys = [key for key, _ in members]
    duplicate = _Duplicate(value)
    duplicate.key = next(key for index, key in enumerate(keys) if key in keys[:index])
    return duplicate


def _walk(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Each part of a value with its path, outer parts first, without recursion."""
    stack: list[tuple[str, object, int]] = [(path, value, 0)]
    while stack:
        place, part, depth = stack.pop()
        if depth > MAX_DEPTH:
            _refuse(place[:100], f"nested deeper than {MAX_DEPTH}")
        yield place, part
        if isinstance(part, dict):
            stack.extend((_member(place, key), member, depth + 1) for key, member in part.items())
        elif isinstance(part, list):
            stack.extend((f"{place}[{index}]", member, depth + 1) for index, member in enumerate(part))


def _member(path: str, key: str) -> str:
    name = key if _SIMPLE_KEY.fullmatch(key) else json.dumps(key)
    return f"{path}.{name}" if path else name
