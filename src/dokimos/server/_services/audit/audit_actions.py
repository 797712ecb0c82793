"""What the audit log calls an action and its target, derived from the method and the path of a route.

Derived, so that no new route can be without: `DELETE /api/v1/runs/{runId}/comments/{commentId}` is
`run.comment.delete`, and its target a `comment`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final
from uuid import UUID

_VERBS: Final = {"POST": "create", "PUT": "set", "PATCH": "update", "DELETE": "delete"}
_NAMED: Final = {
    ("POST", "/api/v1/session"): "session.begin",
    ("DELETE", "/api/v1/session"): "session.end",
    ("GET", "/api/v1/session/oidc/callback"): "session.begin",
    ("POST", "/api/v1/session/oidc/sign-out"): "session.end",
    ("POST", "/api/v1/projects/{name}/runs"): "run.create",
}
"""Where the derived name would not be what one looks for."""
ITEMS_ACTION: Final = "run.item.create"
"""Sending items, of which a run gets thousands of batches."""
UNKNOWN_ACTION: Final = "unknown"
"""What was refused before a route was matched."""


@dataclass(frozen=True, slots=True)
class Target:
    """What an action is about."""

    kind: str | None = None
    id: str | None = None
    name: str | None = None


NO_TARGET: Final = Target()


@cache
def action_of(method: str, route: str | None) -> str:
    """Return the name of what a route does, such as `run.comment.delete`.

    Example:
        >>> action_of("POST", "/api/v1/api-keys/{keyId}/disable")
        'api-key.disable'
    """
    named = _NAMED.get((method, route or ""))
    if named is not None:
        return named
    parts = [part for part in (route or "").split("/") if part and part not in ("api", "v1")]
    nouns = [part for part in parts if not part.startswith("{")]
    if not nouns:
        return UNKNOWN_ACTION
    verb = _VERBS.get(method, "read")
    if method == "POST" and not _is_collection(nouns[-1]):
        verb = nouns.pop()  # a word for what is done, as in `/api-keys/{keyId}/disable`
    return ".".join([*map(_singular, nouns), verb])


def target_of(route: str | None, parameters: Mapping[str, object]) -> Target:
    """Return what the last parameter of a path names."""
    kind, name = _last_parameter(route or "")
    if name is None or name not in parameters:
        return Target(kind)
    value = str(parameters[name])[:_LONGEST].replace("\x1f", "/")
    if name.endswith("Id"):
        return Target(kind, id=_canonical(value))
    return Target(kind, name=value)


_LONGEST: Final = 255


@cache
def _last_parameter(route: str) -> tuple[str | None, str | None]:
    """The kind of thing that the last parameter of a path stands for, and the parameter."""
    parts = route.split("/")
    for place in range(len(parts) - 1, 0, -1):
        if parts[place].startswith("{"):
            return _singular(parts[place - 1]), parts[place][1:-1]
    nouns = [part for part in parts if part and part not in ("api", "v1")]
    return (_singular(nouns[0]) if nouns else None), None


def _canonical(value: str) -> str:
    """An id as the tables have it, in whichever of the forms it was written that routes accept."""
    try:
        return str(UUID(value))
    except ValueError:
        return value


def _is_collection(noun: str) -> bool:
    return noun.endswith("s") and noun != "settings"


def _singular(noun: str) -> str:
    if not _is_collection(noun):
        return noun
    return f"{noun[:-3]}y" if noun.endswith("ies") else noun[:-1]
