"""JSON of a request: parsed strictly, with errors that name the place; and JSON text for the tables.

The quick way is one pass of a compiled parser. Only where that refuses, or where the text holds what needs a
second look, the slow way finds out what is wrong and where.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator
from typing import Any, Final, NoReturn, TypeAlias

import jiter
from pydantic_core import PydanticSerializationError, to_json

from dokimos.server._services.errors import InvalidRequestError

MAX_DEPTH: Final = 200
_NEEDS_SECOND_LOOK: Final = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
_INFINITE: Final = b"Infinity"  # how the serializer writes 1e999, which a parser reads as infinite
_SIMPLE_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_MAX_KEY_CHARACTERS: Final = 100
"""Characters of a key that a message shows."""
_MAX_PATH_CHARACTERS: Final = 300

_Key: TypeAlias = str | int
"""A key of an object, or an index of a list."""


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
    text = encode_json(value)
    if _INFINITE in text:
        for keys, part in _walk(value):
            if isinstance(part, float) and not math.isfinite(part):
                raise InvalidRequestError("must be a finite number", field=_path_of(keys, path))
    return text.decode()


def encode_json(value: object) -> bytes:
    """Return a value as JSON; a lone surrogate, which UTF-8 cannot hold, is escaped."""
    try:
        return to_json(value)
    except PydanticSerializationError:
        return json.dumps(value, separators=(",", ":")).encode()


def check_json(value: object, path: str) -> None:
    """Refuse what `parse_json` refuses in a value that something else has parsed.

    Raises:
        InvalidRequestError: It holds such a thing; the message begins with its path.
    """
    before, _, name = path.rpartition(".")
    try:
        for keys, part in _walk({name: value}):
            _check(keys, part)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"{before}.{error}") from None


class _Duplicate(dict[str, Any]):
    """An object in which a key was given twice."""

    key: str = ""


def _parse_carefully(body: bytes) -> Any:
    try:
        # Some clients of Windows begin with a byte order mark, which RFC 8259 lets a reader ignore.
        value = json.loads(body.decode("utf-8-sig"), object_pairs_hook=_object, parse_constant=float)
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"Malformed request body: not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise InvalidRequestError(f"Malformed request body: nested deeper than {MAX_DEPTH}") from None
    except ValueError as error:
        if not isinstance(error, json.JSONDecodeError):  # more digits than Python converts
            digits = sys.get_int_max_str_digits()
            raise InvalidRequestError(
                f"Malformed request body: a number has more than {digits} digits"
            ) from None
        place = f"line {error.lineno}, column {error.colno}"
        raise InvalidRequestError(f"Malformed request body: {error.msg} at {place}") from None
    for keys, part in _walk(value):
        _check(keys, part)
    return value


def _check(keys: list[_Key], part: object) -> None:
    if isinstance(part, _Duplicate):
        _refuse(keys, f"the key {part.key[:_MAX_KEY_CHARACTERS]!r} is given twice")
    if isinstance(part, float) and not math.isfinite(part):
        _refuse(keys, "must be a finite number")
    if isinstance(part, dict):
        for key in part:
            if "\0" in key or (not key.isprintable() and any("\ud800" <= sign <= "\udfff" for sign in key)):
                _refuse(keys, f"the key {key[:_MAX_KEY_CHARACTERS]!a} holds NUL or half a character")


def _refuse(keys: list[_Key], message: str) -> NoReturn:
    raise InvalidRequestError(message, field=_path_of(keys) or "body")


def _object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(members)
    if len(value) == len(members):
        return value
    duplicate = _Duplicate(value)
    seen: set[str] = set()
    for key, _ in members:
        if key in seen:
            duplicate.key = key
            break
        seen.add(key)
    return duplicate


def _walk(value: object) -> Iterator[tuple[list[_Key], object]]:
    """Each part of a value with the keys that lead to it, outer parts first.

    The list of keys changes as the walk goes on. Paths are written only where one is shown: a long key above
    many values would otherwise fill the memory with copies of itself.
    """
    keys: list[_Key] = []
    yield keys, value
    waiting = [_members(value)]
    while waiting:
        member = next(waiting[-1], None)
        del keys[len(waiting) - 1 :]
        if member is None:
            waiting.pop()
            continue
        keys.append(member[0])
        if len(keys) > MAX_DEPTH:
            _refuse(keys[:_MAX_KEY_CHARACTERS], f"nested deeper than {MAX_DEPTH}")
        yield keys, member[1]
        waiting.append(_members(member[1]))


def _members(value: object) -> Iterator[tuple[_Key, object]]:
    if isinstance(value, dict):
        return iter(value.items())
    if isinstance(value, list):
        return enumerate(value)
    return iter(())


def _path_of(keys: list[_Key], path: str = "") -> str:
    """A place such as `items[3].metadata.url`, the start of it where it is long."""
    for key in keys:
        if isinstance(key, int):
            path += f"[{key}]"
        else:
            name = key if _SIMPLE_KEY.fullmatch(key) else json.dumps(key[:_MAX_KEY_CHARACTERS])
            path += f".{name[:_MAX_KEY_CHARACTERS]}" if path else name[:_MAX_KEY_CHARACTERS]
        if len(path) > _MAX_PATH_CHARACTERS:
            return f"{path[:_MAX_PATH_CHARACTERS]}..."
    return path
