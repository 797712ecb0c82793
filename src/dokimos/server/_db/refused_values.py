"""Whether an error of a database is about the values that were to be stored."""

from __future__ import annotations

from typing import Final

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, InterfaceError, ProgrammingError

_STATES: Final = ("22", "54", "23502")
"""Of PostgreSQL: wrong data, what is too large for an index, a value that is missing."""
_KINDS: Final = (DataError, IntegrityError, InterfaceError, ProgrammingError)
"""Of SQLite, and of what the driver of PostgreSQL does not send."""


def refuses_values(error: Exception) -> bool:
    """Return whether a database does not take values, and would take others.

    A table that is missing, a damaged page or a database that only reads since a failover say nothing about
    the values: they can be stored later.
    """
    if not isinstance(error, DBAPIError):
        return isinstance(error, (ValueError, OverflowError, TypeError))
    state = getattr(error.orig, "sqlstate", None)
    return isinstance(error, _KINDS) if state is None else str(state).startswith(_STATES)
