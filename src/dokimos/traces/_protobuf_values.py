"""Parses attributes and their values from the bytes of protobuf messages.

Encoders write a pair of key and value in one way: its fields in order, each once. That form is parsed here,
twice as fast as with protobuf's own objects, which parse whatever else the wire format allows.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct
from typing import Any, Final

from dokimos.traces._protobuf_parsers import load_value_parsers
from dokimos.traces._span import MAX_DEPTH

# The first byte of a field: its number times eight, and the type of its content.
_KEY: Final = 0x0A
_VALUE: Final = 0x12
_STRING: Final = 0x0A
_BOOL: Final = 0x10
_INTEGER: Final = 0x18
_DOUBLE: Final = 0x21
_ARRAY: Final = 0x2A
_MAP: Final = 0x32
_MAX_KEY_END: Final = 0x81
"""Longer keys, whose length takes two bytes, are rare."""
_WITH_LENGTH: Final = frozenset((_STRING, _ARRAY, _MAP))
_parse_double: Final = Struct("<d").unpack
_double_at: Final = Struct("<d").unpack_from

_CONTAINERS: Final = (list, dict)
"""A tuple, since `list | dict` makes an object each time."""
_MAX_KNOWN_LENGTH: Final = 64
_MAX_KNOWN: Final = 4096
_known: Final[dict[bytes, tuple[str, Any]]] = {}
"""Short pairs of key and value, which spans repeat: the name of a model, that of an operation."""


class _Names(dict[bytes, str]):
    """The keys that were met last: one text for each, so that maps find it without a comparison."""

    __slots__ = ()

    def __missing__(self, data: bytes) -> str:
        name = data.decode()
        if len(self) >= _MAX_KNOWN:
            self.clear()
        self[data] = name
        return name


_names: Final = _Names()


def parse_attributes(pairs: Iterable[bytes], depth: int = 0) -> dict[str, Any]:
    """Parse pairs of keys and values.

    Content nested deeper than `MAX_DEPTH` is ignored. Raises an error of protobuf for other bytes.
    """
    attributes: dict[str, Any] = {}
    find, names = _known.get, _names
    for pair in pairs:
        size = len(pair)
        if size <= _MAX_KNOWN_LENGTH:
            key, attributes[key] = find(pair) or _parse_short_pair(pair) or _parse_pair(pair, depth)
            continue
        # Long ones are not among them. Most are texts, which are parsed here: a call for each costs a tenth.
        end = pair[1] + 2
        header = _encode_text_header(size - end)
        if header and end <= _MAX_KEY_END and pair[0] == _KEY and pair.startswith(header, end):
            try:
                attributes[names[pair[2:end]]] = pair[end + len(header) :].decode()
                continue
            except UnicodeDecodeError:  # protobuf says so in its own way
                pass
        key, attributes[key] = _parse_pair(pair, depth)
    return attributes


def parse_value(data: bytes, depth: int = 0) -> Any:
    """Parse the bytes of a value, likewise."""
    kind = data[0] if data else 0
    content = _find_content(data, 1) if kind in _WITH_LENGTH else None
    if content is not None:
        if kind == _STRING:
            try:
                return content.decode()
            except UnicodeDecodeError:  # protobuf says so in its own way
                pass
        elif kind == _ARRAY:
            values = load_value_parsers().parse_array(content).values[:] if depth < MAX_DEPTH else ()
            return [parse_value(each, depth + 1) for each in values]
        else:
            pairs = load_value_parsers().parse_map(content).values[:] if depth < MAX_DEPTH else ()
            return parse_attributes(pairs, depth + 1)
    elif len(data) == 2 and data[1] < 0x80 and kind in (_INTEGER, _BOOL):
        return data[1] if kind == _INTEGER else data[1] != 0
    elif kind == _INTEGER and len(data) == 3 and data[1] >= 0x80 and 0 < data[2] < 0x80:
        return (data[1] & 0x7F) | data[2] << 7
    elif kind == _DOUBLE and len(data) == 9:
        return _parse_double(data[1:])[0]
    return _convert_value(load_value_parsers().parse_value(data), depth)


def _parse_short_pair(pair: bytes) -> tuple[str, Any] | None:
    """Parse a short pair of a key and a text or a number, in one step and not in five; None for any other.

    No length in a pair of 64 bytes takes more than one byte.
    """
    try:
        end = pair[1] + 2
        size = len(pair) - end - 2  # of the value
        if pair[0] != _KEY or pair[end] != _VALUE or pair[end + 1] != size:
            return None
        kind = pair[end + 2]
        value: str | int | float
        if kind == _STRING and pair[end + 3] == size - 2:
            value = pair[end + 4 :].decode()
        elif kind == _DOUBLE and size == 9:
            value = _double_at(pair, end + 3)[0]
        elif kind == _INTEGER and size == 2 and pair[end + 3] < 0x80:
            value = pair[end + 3]
        elif kind == _INTEGER and size == 3 and pair[end + 3] >= 0x80 and 0 < pair[end + 4] < 0x80:
            value = (pair[end + 3] & 0x7F) | pair[end + 4] << 7
        else:
            return None
        parsed = _names[pair[2:end]], value
    except (IndexError, UnicodeDecodeError):
        return None
    if len(_known) >= _MAX_KNOWN:
        _known.clear()
    _known[pair] = parsed
    return parsed


def _parse_pair(data: bytes, depth: int) -> tuple[str, Any]:
    pair = _parse_canonical_pair(data, depth)
    if pair is None:
        message = load_value_parsers().parse_pair(data)
        pair = message.key, _convert_value(message.value, depth)
    if len(data) <= _MAX_KNOWN_LENGTH and not isinstance(pair[1], _CONTAINERS):
        if len(_known) >= _MAX_KNOWN:
            _known.clear()
        _known[data] = pair
    return pair


def _parse_canonical_pair(data: bytes, depth: int) -> tuple[str, Any] | None:
    """Parse a pair that has a key and a value, in this order; None for any other."""
    try:
        end = data[1] + 2
        if data[0] != _KEY or end > _MAX_KEY_END or data[end] != _VALUE:
            return None
        header = _encode_text_header(len(data) - end)
        if header and data.startswith(header, end):
            return data[2:end].decode(), data[end + len(header) :].decode()
        value = _find_content(data, end + 1)
        return None if value is None else (data[2:end].decode(), parse_value(value, depth))
    except (IndexError, UnicodeDecodeError):
        return None


@lru_cache(maxsize=4096)
def _encode_text_header(size: int) -> bytes:
    """Return what comes before a text that is the value of a pair: two tags, each with a length.

    `size` is that of all of it; b"" for one that nothing of the kind has, as lengths grow by a byte.
    """
    value_size = _subtract_length(size - 1)
    text_size = _subtract_length(value_size - 1)
    tags = bytes((_VALUE,)), bytes((_STRING,))
    header = tags[0] + _encode_length(value_size) + tags[1] + _encode_length(text_size)
    return header if text_size >= 0 and len(header) + text_size == size else b""


def _subtract_length(size: int) -> int:
    """Return how much of a size is left when it begins with the length of what is left."""
    return next(size - width for width in range(1, 11) if size - width < 1 << 7 * width)


def _encode_length(size: int) -> bytes:
    encoded = bytearray()
    while size >= 0x80:
        encoded.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes((*encoded, max(size, 0)))


def _find_content(data: bytes, position: int) -> bytes | None:
    """Return the bytes after a length at a position; None if they do not go exactly to the end."""
    size = data[position]
    position += 1
    if size >= 0x80:
        # A length of three bytes is that of a text that takes longer to copy than its message to parse.
        following = data[position]
        size += (following << 7) - 0x80
        position += 1
        if following >= 0x80:
            return None
    return data[position:] if position + size == len(data) else None


def _convert_value(value: Any, depth: int) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    content = getattr(value, kind)
    if kind == "array_value":
        return [_convert_value(each, depth + 1) for each in content.values] if depth < MAX_DEPTH else []
    if kind != "kvlist_value":
        return content
    pairs = content.values if depth < MAX_DEPTH else ()
    return {pair.key: _convert_value(pair.value, depth + 1) for pair in pairs}
