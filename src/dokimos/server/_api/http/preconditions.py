"""The header `If-Match`: a change that is meant for one version of what it changes."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Depends, Header

from dokimos.server._services.row_versions import Expected

_ANY: Final = "*"
_DESCRIPTION: Final = (
    "The `version` that the change is meant for, in quotes; 412 where it has another one by now. Without it, "
    "the last change wins."
)


async def _read_if_match(
    if_match: Annotated[str | None, Header(description=_DESCRIPTION, max_length=1000)] = None,
) -> Expected:
    if if_match is None or if_match.strip() == _ANY:
        return None
    # A weak tag matches no version, as RFC 9110 has it; quotes may be left out.
    return frozenset(tag.strip().strip('"') for tag in if_match.split(","))


IfMatch = Annotated[Expected, Depends(_read_if_match)]
"""The versions that a change is meant for, None where it does not say."""
