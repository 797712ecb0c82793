"""Who calls, as the headers of a trusted proxy say."""

from __future__ import annotations

import logging
import time
import unicodedata
from typing import Final

from starlette.requests import Request

from dokimos.server._api.http.proxy import IS_FROM_PROXY
from dokimos.server._services.accounts.users import TRUSTED_PROXY, Identity
from dokimos.server._services.errors import ForbiddenError
from dokimos.server._sign_in_settings import ALL_TENANTS, TrustedHeader

_LOGGER: Final = logging.getLogger("dokimos.server")
_MAX_LENGTH: Final = 255
_MAX_GROUPS_LENGTH: Final = 8192
_LOG_SECONDS: Final = 60.0
_WARNED_AT: Final = "header_warned_at"


def read_identity(request: Request) -> Identity | None:
    """Return whom a trusted proxy names, None where none does.

    The headers count only on connections that a trusted proxy has made itself. Anybody else could set them;
    from there they mean nothing.

    Raises:
        ForbiddenError: The headers cannot be used, or whom they name may not come in.
    """
    headers: TrustedHeader | None = request.app.state.settings.trusted_header
    if headers is None or headers.user not in request.headers:
        return None
    if not request.scope.get(IS_FROM_PROXY):
        _warn(request, headers.user)
        return None
    user = _read(request, headers.user)
    if user is None:
        return None
    email = _read(request, headers.email)
    groups = _read(request, headers.groups, most=_MAX_GROUPS_LENGTH)
    rules = headers.rules
    if not rules.allows_address(email):
        raise ForbiddenError("Only people of certain mail domains may use this server, and you are not one.")
    role = rules.find_role([group.strip() for group in (groups or "").split(",")])
    if role is None:
        raise ForbiddenError("None of your groups has a role on this server; ask who runs it for one.")
    return Identity(
        issuer=TRUSTED_PROXY,
        subject=user,
        name=_read(request, headers.name) or user,
        email=email,
        role=role,
        tenant=_read_tenant(request, headers.tenant),
    )


def _read_tenant(request: Request, name: str | None) -> str | None:
    if name is None:
        return None
    tenant = _read(request, name)
    if tenant is None:
        raise ForbiddenError("The proxy does not say which tenant you belong to.")
    return None if tenant == ALL_TENANTS else tenant


def _read(request: Request, name: str | None, *, most: int = _MAX_LENGTH) -> str | None:
    """The value of a header that the proxy sets, None for an empty one."""
    values = [] if name is None else request.headers.getlist(name)
    if len(values) > 1:  # one of them may be the client's own, which the proxy should have removed
        raise ForbiddenError(f"The proxy has sent the header {name} more than once.")
    try:
        value = values[0].encode("latin-1").decode().strip() if values else ""
    except UnicodeDecodeError:
        raise ForbiddenError(f"The header {name} of the proxy is not UTF-8.") from None
    if len(value) > most or any(unicodedata.category(sign) == "Cc" for sign in value):
        raise ForbiddenError(f"The header {name} of the proxy is too long, or has control characters.")
    return value or None


def _warn(request: Request, header: str) -> None:
    """Log that a header is ignored, once a minute: whoever sends it must not be able to fill the log."""
    moment, state = time.monotonic(), request.app.state
    if moment - getattr(state, _WARNED_AT, float("-inf")) < _LOG_SECONDS:
        return
    setattr(state, _WARNED_AT, moment)
    address = request.client.host if request.client is not None else "an unknown address"
    _LOGGER.warning(
        "A request from %s has the header %s, but does not come from a proxy of DOKIMOS_TRUSTED_PROXIES; "
        "the header is ignored.",
        address,
        header,
    )
