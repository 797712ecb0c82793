"""Statements that are compiled once and given to the driver, with values as it takes them.

For each execution SQLAlchemy builds a context and converts each value, which is half of what storing an item
costs (`benchmarks/server_ingestion.py`). The hot route does without; all others use SQLAlchemy as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ClauseElement, Connection, CursorResult
from sqlalchemy.engine import Dialect


class DriverStatement:
    """A statement with named parameters that changes rows.

    Args:
        build: Makes the statement for a dialect, `sqlite` or `postgresql`.
    """

    def __init__(self, build: Callable[[str], ClauseElement]) -> None:
        self._build: Final = build
        self._compiled: Final[dict[str, tuple[str, tuple[str, ...]]]] = {}

    def execute(self, connection: Connection, values: Mapping[str, object]) -> CursorResult[Any]:
        """Run it with a value for each parameter, as the driver takes it."""
        text, names = self._compile(connection.dialect)
        return connection.exec_driver_sql(text, tuple([values[name] for name in names]))

    def execute_many(self, connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
        """Run it once for each row."""
        text, names = self._compile(connection.dialect)
        connection.exec_driver_sql(text, [tuple([row[name] for name in names]) for row in rows])

    def _compile(self, dialect: Dialect) -> tuple[str, tuple[str, ...]]:
        known = self._compiled.get(dialect.name)
        if known is None:
            compiled = self._build(dialect.name).compile(dialect=dialect)
            names = tuple(compiled.positiontup or ())  # type: ignore[attr-defined] # that of its subclass
            known = self._compiled[dialect.name] = (str(compiled), names)
        return known
