"""ClickHouse's format `RowBinary`: rows as bytes, which need no escaping and keep what is not text."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias

Encode: TypeAlias = Callable[[bytearray, Any], None]
"""Adds a value to a row."""
Decode: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""Returns the value at a place, and the place behind it."""

_NUMBERS: Final = {
    "Int64": struct.Struct("<q"),
    "UInt64": struct.Struct("<Q"),
    "Int32": struct.Struct("<i"),
    "UInt32": struct.Struct("<I"),
    "UInt16": struct.Struct("<H"),
    "UInt8": struct.Struct("<B"),
    "Bool": struct.Struct("<B"),
    "Float64": struct.Struct("<d"),
}
_LAST_OF_BYTE: Final = 0x7F
_MORE: Final = 0x80


def write_rows(types: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    """Return rows as ClickHouse reads them.

    Args:
        types: Of the columns, such as `Nullable(String)`.
        rows: Texts are given as `str` or `bytes`.

    Raises:
        struct.error: A number is not one of its type.
    """
    encoders = [make_encoder(each) for each in types]
    data = bytearray()
    for row in rows:
        for encode, value in zip(encoders, row, strict=True):
            encode(data, value)
    return bytes(data)


def read_rows(data: bytes) -> list[tuple[Any, ...]]:
    """Return the rows of an answer in the format `RowBinaryWithNamesAndTypes`; texts are bytes.

    Raises:
        ValueError: It is not one, or ends too early.
    """
    if not data:
        return []
    try:
        return _read_rows(data)
    except (IndexError, struct.error) as error:
        raise ValueError("the rows end too early") from error


def _read_rows(data: bytes) -> list[tuple[Any, ...]]:
    count, place = _read_size(data, 0)
    for _ in range(count):  # the names, which whoever asked knows
        _, place = _read_bytes(data, place)
    decoders = []
    for _ in range(count):
        name, place = _read_bytes(data, place)
        decoders.append(make_decoder(name.decode()))
    rows: list[tuple[Any, ...]] = []
    end = len(data)
    while place < end:
        row = []
        for decode in decoders:
            value, place = decode(data, place)
            row.append(value)
        rows.append(tuple(row))
    if place != end:
        raise ValueError("the last row is not whole")
    return rows


def make_encoder(name: str) -> Encode:
    """Return what writes values of a type of ClickHouse.

    Raises:
        ValueError: The type is none that the tables have.
    """
    if name == "String":
        return _write_text
    if (number := _NUMBERS.get(name)) is not None:
        return _number_encoder(number)
    kind, inner = _split_type(name)
    encode = make_encoder(inner)
    match kind:
        case "Nullable":
            return _nullable_encoder(encode)
        case "Array":
            return _array_encoder(encode)
        case _:  # a column that ClickHouse keeps a dictionary of, which the format does not show
            return encode


def make_decoder(name: str) -> Decode:
    """Return what reads values of a type, likewise."""
    if name == "String":
        return _read_bytes
    if (number := _NUMBERS.get(name)) is not None:
        return _number_decoder(number)
    kind, inner = _split_type(name)
    decode = make_decoder(inner)
    match kind:
        case "Nullable":
            return _nullable_decoder(decode)
        case "Array":
            return _array_decoder(decode)
        case _:
            return decode


def _split_type(name: str) -> tuple[str, str]:
    kind, _, rest = name.partition("(")
    if kind not in ("Nullable", "Array", "LowCardinality") or not rest.endswith(")"):
        raise ValueError(f"the type {name} of ClickHouse is not known here")
    return kind, rest[:-1]


def _write_size(data: bytearray, size: int) -> None:
    while size > _LAST_OF_BYTE:
        data.append(size & _LAST_OF_BYTE | _MORE)
        size >>= 7
    data.append(size)


def _read_size(data: bytes, place: int) -> tuple[int, int]:
    size = shift = 0
    while True:
        byte = data[place]
        place += 1
        size |= (byte & _LAST_OF_BYTE) << shift
        if byte <= _LAST_OF_BYTE:
            return size, place
        shift += 7


def _write_text(data: bytearray, value: str | bytes) -> None:
    content = value.encode() if isinstance(value, str) else value
    _write_size(data, len(content))
    data += content


def _read_bytes(data: bytes, place: int) -> tuple[bytes, int]:
    size, place = _read_size(data, place)
    end = place + size
    if end > len(data):
        raise IndexError
    return data[place:end], end


def _number_encoder(number: struct.Struct) -> Encode:
    pack = number.pack

    def encode(data: bytearray, value: Any) -> None:
        data += pack(value)

    return encode


def _number_decoder(number: struct.Struct) -> Decode:
    unpack, size = number.unpack_from, number.size

    def decode(data: bytes, place: int) -> tuple[Any, int]:
        return unpack(data, place)[0], place + size

    return decode


def _nullable_encoder(encode_value: Encode) -> Encode:
    def encode(data: bytearray, value: Any) -> None:
        data.append(value is None)
        if value is not None:
            encode_value(data, value)

    return encode


def _nullable_decoder(decode_value: Decode) -> Decode:
    def decode(data: bytes, place: int) -> tuple[Any, int]:
        return (None, place + 1) if data[place] else decode_value(data, place + 1)

    return decode


def _array_encoder(encode_value: Encode) -> Encode:
    def encode(data: bytearray, value: Any) -> None:
        _write_size(data, len(value))
        for each in value:
            encode_value(data, each)

    return encode


def _array_decoder(decode_value: Decode) -> Decode:
    def decode(data: bytes, place: int) -> tuple[Any, int]:
        size, place = _read_size(data, place)
        values = []
        for _ in range(size):
            value, place = decode_value(data, place)
            values.append(value)
        return values, place

    return decode
