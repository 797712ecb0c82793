"""Which version of a row a change was made for: who comes second is told, and overwrites nothing unseen."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Row

from dokimos.server._services.errors import OutdatedError

Expected = Collection[str] | None
"""The versions for which a change was made; None for whatever the row is."""


def version_of(row: Row[Any]) -> str:
    """Return the version of a row that says when it was changed last."""
    return str(row.updated_at)


def version_of_webhook(row: Row[Any]) -> str:
    """Return the version of a webhook; one that was never changed has no time of its last change."""
    return str(row.created_at if row.updated_at is None else row.updated_at)


def check_version(expected: Expected, version: str, what: str) -> None:
    """Raise where a change was made for another version of a row, which the transaction has locked.

    Args:
        expected: Those that it was made for.
        version: That of the row as it is now.
        what: The row as the message names it, such as `The webhook`.

    Raises:
        OutdatedError: It has been changed since.
    """
    if expected is not None and version not in expected:
        raise OutdatedError(f"{what} was changed after it was read; read it again before you change it")
