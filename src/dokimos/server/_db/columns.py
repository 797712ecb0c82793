"""Column types that mean the same on SQLite (in STRICT tables) and on PostgreSQL."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import REAL, BigInteger, Boolean, Double, Integer, LargeBinary, Uuid
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine


class Id(TypeDecorator[str]):
    """A UUID: text in Python, 16 bytes on SQLite, `uuid` on PostgreSQL."""

    impl = LargeBinary
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(Uuid(as_uuid=False))
        return dialect.type_descriptor(LargeBinary(16))

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | bytes | None:
        return self.to_driver(value, dialect.name)

    @staticmethod
    def to_driver(value: str | None, dialect: str) -> str | bytes | None:
        """Return an identifier as the driver of a dialect takes it."""
        if value is None or dialect == "postgresql":
            return value
        return bytes.fromhex(value.replace("-", ""))

    def process_result_value(self, value: str | bytes | None, dialect: Dialect) -> str | None:
        return value if value is None else self.from_driver(value)

    @staticmethod
    def from_driver(value: object) -> str:
        """Return an identifier that a driver has returned as text."""
        if not isinstance(value, bytes):
            return str(value)
        digits = value.hex()
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


class Flag(TypeDecorator[bool]):
    """A truth value: 0 or 1 on SQLite, `boolean` on PostgreSQL."""

    impl = Boolean
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(Boolean())
        return dialect.type_descriptor(Integer())

    def process_result_value(self, value: object, dialect: Dialect) -> bool | None:
        return None if value is None else bool(value)


LONG: Final = BigInteger().with_variant(Integer(), "sqlite")
"""A whole number of 64 bits."""
NUMBER: Final[TypeEngine[float]] = Double().with_variant(REAL(), "sqlite")
"""A floating-point number of 64 bits."""
TIME: Final = LONG
"""Microseconds since 1970, UTC: exact, small, and without the time zones of a driver."""
