"""Detects from the wire format of protobuf, before parsing, whether an export holds spans or log records.

Exports of both have the same shape, and a parser takes one for the other or calls it corrupt. The wire types
of the fields of a record tell which one it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from dokimos.errors import TraceError

Signal: TypeAlias = Literal["traces", "logs"]

_VARINT: Final = 0
_EIGHT_BYTES: Final = 1
_LENGTH: Final = 2
_FOUR_BYTES: Final = 5
_GROUPS, _SCOPES, _RECORDS = 1, 2, 2
"""The fields that hold, in each other, the resources of an export, their scopes, and what these recorded."""
_OF_LOGS: Final = frozenset(
    (
        (1, _EIGHT_BYTES),  # the time, where a span has its trace id
        (2, _VARINT),  # the severity, where a span has its own id
        (6, _LENGTH),
        (7, _VARINT),
        (8, _FOUR_BYTES),
        (10, _LENGTH),
        (11, _EIGHT_BYTES),
        (12, _LENGTH),
    )
)
"""Fields that a log record has and a span has not, by number and kind."""
_PREFIX: Final = 4


def split_exports(data: bytes) -> Iterator[bytes]:
    """Yield the exports in a file: one, or several that each have four bytes with their length before them.

    No export begins with a zero, and no length of less than 16 MB without one.
    """
    if data[:1] != b"\0":
        yield data
        return
    position = 0
    while position < len(data):
        size = int.from_bytes(data[position : position + _PREFIX], "big")
        start = position + _PREFIX
        if start + size > len(data):
            raise TraceError("The export is cut off.")
        yield data[start : start + size]
        position = start + size


def sort_by_signal(export: bytes) -> list[tuple[Signal, bytes]]:
    """Return the parts of an export that hold traces, and those that hold logs."""
    try:
        groups = [(_detect_signal(export, start, end), begin, end) for begin, start, end in _groups(export)]
    except (ValueError, IndexError):  # the parser reports what is wrong
        return [("traces", export)]
    signals = {signal for signal, _, _ in groups if signal is not None}
    if len(signals) < 2:
        return [(signals.pop() if signals else "traces", export)]
    return [
        (signal, b"".join(export[begin:end] for each, begin, end in groups if each == signal))
        for signal in ("traces", "logs")
    ]


def split_spans(export: bytes) -> list[tuple[bytes, list[tuple[bytes, list[bytes]]]]]:
    """Return the groups of an export of traces: each without its scopes, and these without their spans.

    Nothing but the wire format is looked at: it may not be an export. What is not a message has no groups.
    """
    try:
        return [
            (shell, [_split_field(part, _RECORDS) for part in parts])
            for shell, parts in (_split_field(group, _SCOPES) for group in _split_field(export, _GROUPS)[1])
        ]
    except (ValueError, IndexError):
        return []


def _split_field(data: bytes, field: int) -> tuple[bytes, list[bytes]]:
    """Return a message without a field, and the contents of that."""
    rest, contents, begin = b"", [], 0
    for number, kind, start, end in _fields(data, 0, len(data)):
        if (number, kind) == (field, _LENGTH):
            contents.append(data[start:end])
        else:
            rest += data[begin:end]
        begin = end
    return rest, contents


def _groups(export: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield where the field of each group begins, and where its content starts and ends."""
    begin = 0
    for number, kind, start, end in _fields(export, 0, len(export)):
        if (number, kind) != (_GROUPS, _LENGTH):
            raise ValueError(number)
        yield begin, start, end
        begin = end


def _detect_signal(data: bytes, start: int, end: int) -> Signal | None:
    """Return the signal of the first record of a group; None if it has no records."""
    for scope in _contents(data, start, end, _SCOPES):
        for record in _contents(data, *scope, _RECORDS):
            fields = _fields(data, *record)
            is_log = any((number, kind) in _OF_LOGS for number, kind, _, _ in fields)
            return "logs" if is_log else "traces"
    return None


def _contents(data: bytes, start: int, end: int, field: int) -> Iterator[tuple[int, int]]:
    for number, kind, first, last in _fields(data, start, end):
        if (number, kind) == (field, _LENGTH):
            yield first, last


def _fields(data: bytes, position: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the number and kind of each field of a message, and where its content starts and ends.

    Raises `ValueError` or `IndexError` for data that is not a message.
    """
    while position < end:
        tag, start = _varint(data, position)
        kind = tag & 7
        if kind == _LENGTH:
            size, start = _varint(data, start)
        elif kind == _VARINT:
            size = _varint(data, start)[1] - start
        else:
            size = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}.get(kind, -1)
        position = start + size
        if size < 0 or position > end:
            raise ValueError(kind)
        yield tag >> 3, kind, start, position


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a number of up to ten bytes, and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError("too long")
