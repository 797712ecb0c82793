"""Rows as lines of JSON: the same text for SQLite and PostgreSQL."""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pydantic_core import from_json, to_json
from sqlalchemy import Column, LargeBinary

from dokimos.server._db.columns import Flag, Id

Row = list[Any]
_ID_BYTES: Final = 16


class InvalidRow(ValueError):
    """A line is not a row of the table."""


class RowText:
    """Converts rows between what a driver takes and returns, and the lines of an archive.

    A line is a JSON array with a value for each column: ids as UUIDs, times as microseconds since 1970,
    truth values as `true` and `false`, bytes in Base64. Texts that are themselves JSON are strings.

    Args:
        columns: The columns of a row, in order.
        dialect: `sqlite` or `postgresql`.
    """

    def __init__(self, columns: Sequence[Column[Any]], dialect: str) -> None:
        self._count = len(columns)
        self._ids = [index for index, column in enumerate(columns) if isinstance(column.type, Id)]
        self._flags = [index for index, column in enumerate(columns) if isinstance(column.type, Flag)]
        self._bytes = [index for index, column in enumerate(columns) if isinstance(column.type, LargeBinary)]
        self._is_sqlite = dialect == "sqlite"

    def convert(self, rows: Iterable[Sequence[Any]]) -> list[Row]:
        """Return rows of the driver as an archive has them."""
        converted = [list(row) for row in rows]
        for index in self._ids:
            for row in converted:
                value = row[index]
                if value is not None:
                    row[index] = Id.from_driver(value)
        if self._is_sqlite:
            for index in self._flags:
                for row in converted:
                    value = row[index]
                    if value is not None:
                        row[index] = bool(value)
        for index in self._bytes:
            for row in converted:
                row[index] = binascii.b2a_base64(row[index], newline=False).decode()
        return converted

    def format(self, rows: Iterable[Sequence[Any]]) -> bytes:
        """Return rows of the driver as lines."""
        lines = [to_json(row, inf_nan_mode="constants") for row in self.convert(rows)]
        lines.append(b"")
        return b"\n".join(lines)

    def parse(self, lines: Sequence[bytes]) -> list[Row]:
        """Return the rows of lines.

        Raises:
            InvalidRow: A line is not an array with a value for each column.
        """
        try:
            rows: list[Row] = from_json(b"[" + b",".join(lines) + b"]", cache_strings="keys")
        except ValueError as error:
            raise InvalidRow(f"it is not JSON ({error})") from None
        count = self._count
        if len(rows) != len(lines) or any(type(row) is not list or len(row) != count for row in rows):
            raise InvalidRow(f"a line is not an array of {count} values")
        return rows

    def to_driver(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return rows of an archive as the driver takes them.

        Raises:
            InvalidRow: An id is not a UUID, or bytes are not Base64.
        """
        converted = [row.copy() for row in rows] if self._is_sqlite else rows
        for index in self._ids:
            for row in converted:
                value = row[index]
                if value is not None:
                    content = _id_bytes(value)
                    if self._is_sqlite:
                        row[index] = content
        for index in self._bytes:
            for row in converted:
                row[index] = _read_bytes(row[index])
        return converted


def _id_bytes(value: object) -> bytes:
    try:
        content = bytes.fromhex(value.replace("-", ""))  # type: ignore[attr-defined] # looked at below
    except (AttributeError, ValueError):
        content = b""
    if len(content) != _ID_BYTES:
        raise InvalidRow(f"{value!r} is not an id")
    return content


def _read_bytes(value: object) -> bytes:
    try:
        return binascii.a2b_base64(value, strict_mode=True)  # type: ignore[arg-type] # looked at below
    except (TypeError, ValueError):
        raise InvalidRow(f"{str(value)[:40]!r} is not Base64") from None
