"""What is known about the request that is being answered: for logs, metrics and the audit log.

It is a `ContextVar`, so it goes wherever the request goes: into the tasks that it starts, and into the
threads of the database, which run each change and each read in the context of whoever asked for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from dokimos.server._services.accounts.principal import ANONYMOUS, Principal

_SAFE_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))
_SANE_ID: Final = re.compile(r"[\w.:=@/+-]{1,128}", re.ASCII)


@dataclass(slots=True)
class RequestContext:
    """A request, from its first byte to the end of its answer."""

    request_id: str
    method: str
    address: str
    """Where it comes from, as a trusted proxy before the server reports it."""
    principal: Principal = ANONYMOUS
    """Who calls; nobody who is known until the key has been looked up."""
    route: str | None = None
    """The template of the path, such as `/api/v1/runs/{runId}`; None where no route was matched."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    """The parts of the path that the template names."""
    status: int = 0
    """The status of the answer; until there is one, that of the route's success."""
    reason: str | None = None
    """Why it was refused, in a word, such as `role`."""
    ignored_parameters: Sequence[str] = ()
    """Names in its query that the route does not know; any texts."""
    begins_session: bool = False
    """Whether somebody signs in: the identity provider leads the browser here with a GET."""
    is_recorded: bool = False
    """Whether the audit log has it, as a part of what it changed."""

    @property
    def is_change(self) -> bool:
        """Whether it asks for a change: by its method, or because it signs somebody in."""
        return self.begins_session or self.method not in _SAFE_METHODS


_CURRENT: Final[ContextVar[RequestContext | None]] = ContextVar("dokimos_request", default=None)


def current_request() -> RequestContext | None:
    """Return the request that is being answered; None in the server's own work."""
    return _CURRENT.get()


def begin_request(context: RequestContext) -> None:
    """Make it the current request of this task, and of what it starts."""
    _CURRENT.set(context)


def enter_route(route: str, parameters: Mapping[str, object], status: int) -> None:
    """Note which route answers the current request.

    Args:
        route: The template of its path.
        parameters: The parts of the path that the template names.
        status: What it answers when all goes well.
    """
    context = _CURRENT.get()
    if context is not None:
        context.route = route
        context.parameters = parameters
        context.status = status


def note_principal(principal: Principal) -> None:
    """Note who sends the current request."""
    context = _CURRENT.get()
    if context is not None:
        context.principal = principal


def note_ignored_parameters(names: Sequence[str]) -> None:
    """Note which parameters of the current request mean nothing to its route."""
    context = _CURRENT.get()
    if context is not None:
        context.ignored_parameters = names


def note_sign_in() -> None:
    """Note that the current request signs somebody in, although its method asks for no change."""
    context = _CURRENT.get()
    if context is not None:
        context.begins_session = True


def note_reason(reason: str) -> None:
    """Note why the current request is refused, in a word that quotes nothing of it."""
    context = _CURRENT.get()
    if context is not None:
        context.reason = reason


def is_sane_id(text: str) -> bool:
    """Whether a request id that a client sent can be kept: short, and of letters, digits and few signs."""
    return _SANE_ID.fullmatch(text) is not None
