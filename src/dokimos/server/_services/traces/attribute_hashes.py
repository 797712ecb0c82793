"""The numbers by which the attributes of spans are indexed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

MAX_HASHED: Final = 128
"""Attributes of a span that can be searched for."""
MAX_HASHED_LENGTH: Final = 256
"""Characters of a key and its value together; longer ones are not searched for."""
_HASHED_TYPES: Final = (str, int)
"""Also true and false. A tuple, since `str | int` makes an object each time."""
_MAX_KEYS: Final = 128
_MAX_VALUES: Final = 256
_read_number: Final = int.from_bytes


class _KeyHashes:
    """Hashes attributes of one key, and remembers some of them: many spans name the same model."""

    __slots__ = ("_begin", "known")

    def __init__(self, key: str) -> None:
        # What comes before the value is hashed once; each value continues with a copy of it.
        self._begin = blake2b(f"{key}\0".encode("utf-8", "surrogatepass"), digest_size=8).copy
        self.known: dict[str, int] = {}

    def hash(self, value: str) -> int:
        state = self._begin()
        state.update(value.encode() if value.isascii() else value.encode("utf-8", "surrogatepass"))
        number = _read_number(state.digest(), "big") >> 1
        # A key with more values than that is one of ids, each of which comes once.
        if len(self.known) < _MAX_VALUES:
            self.known[value] = number
        return number


_keys: Final[dict[str, _KeyHashes]] = {}


def hash_attributes(attributes: Mapping[str, Any]) -> list[int]:
    """Return a number for each attribute that searches can ask for."""
    hashes: list[int] = []
    add, find = hashes.append, _keys.get
    for key, value in attributes.items():
        kind = type(value)
        if kind is int:
            value = str(value)  # as `write_value`
        elif kind is not str:
            if not isinstance(value, _HASHED_TYPES):
                continue
            value = write_value(value)
        if len(value) + len(key) <= MAX_HASHED_LENGTH:
            of_key = find(key) or _add_key(key)
            add(of_key.known.get(value) or of_key.hash(value))
            if len(hashes) == MAX_HASHED:
                break
    return hashes


def hash_attribute(key: str, value: str) -> int:
    """Return the number of 63 bits by which an attribute is indexed."""
    of_key = _keys.get(key) or _add_key(key)
    return of_key.hash(value)


def write_value(value: object) -> str:
    """Return the value of an attribute as the text that searches and rules compare."""
    if isinstance(value, str):
        return value
    if type(value) is int:  # as JSON, at a tenth of what that costs
        return str(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def _add_key(key: str) -> _KeyHashes:
    if len(_keys) >= _MAX_KEYS:
        _keys.clear()
    of_key = _keys[key] = _KeyHashes(key)
    return of_key
