"""What a project tells its reviewers: a text that is kept among its settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import Connection, Row

from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.projects.project_settings import change_settings
from dokimos.server._services.row_versions import Expected, check_version

MAX_CHARACTERS: Final = 20_000
"""Some ten pages; whoever reads any setting of a project loads them, so they stay short."""
_SETTING: Final = "review_instructions"
_DIGITS: Final = 16


def read_instructions(project: Row[Any]) -> str:
    """Return the instructions of a project, given its row; empty where it has none."""
    # Most projects have none, which shows without parsing what else they have set.
    if project.settings is None or _SETTING not in project.settings:
        return ""
    return _instructions_in(json.loads(project.settings))


def version_of_instructions(text: str) -> str:
    """Return the version of a text, which is a digest of it.

    A number would need a place of its own. With a digest, a text that was changed and changed back has its
    old version again: who read it then overwrites nothing unseen.
    """
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def set_instructions(
    connection: Connection, principal: Principal, name: str, text: str, expected: Expected
) -> None:
    """Set the instructions of a project; a blank text removes them.

    Args:
        expected: The versions of the text that this one may replace; None for whatever it is.

    Raises:
        NotFoundError: There is no project of that name.
        ForbiddenError: It is shared, and closed to this caller.
        OutdatedError: Somebody has changed them since.
    """

    def check(stored: Mapping[str, Any]) -> None:
        version = version_of_instructions(_instructions_in(stored))
        check_version(expected, version, "The text for reviewers")

    change_settings(connection, principal, name, {_SETTING: text if text.strip() else None}, check=check)


def _instructions_in(stored: Mapping[str, Any]) -> str:
    text = stored.get(_SETTING)
    return text if isinstance(text, str) else ""
