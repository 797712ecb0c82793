"""The cookie of a session, and where a request with which one begins comes from."""

from __future__ import annotations

from typing import Final

from fastapi.responses import Response
from starlette.requests import Request

from dokimos.server._api.http.access import SESSION_COOKIE, address_of
from dokimos.server._settings import ServerSettings

_HOUR: Final = 3600


def set_session(request: Request, response: Response, token: str) -> None:
    """Have the browser keep the token of a session."""
    settings: ServerSettings = request.app.state.settings
    response.set_cookie(
        SESSION_COOKIE,
        token,
        max_age=round(settings.session_hours * _HOUR),
        httponly=True,
        samesite="lax",
        secure=is_https(request),
    )


def clear_session(request: Request, response: Response) -> None:
    """Have the browser forget the token of its session."""
    response.delete_cookie(SESSION_COOKIE, httponly=True, samesite="lax", secure=is_https(request))


def describe_place(request: Request) -> dict[str, str]:
    """Return where a session begins: the address and the program, as its list shows them."""
    return {"address": address_of(request), "user_agent": request.headers.get("user-agent", "")}


def is_https(request: Request) -> bool:
    """Whether the browser speaks TLS, with this server or with a proxy before it."""
    forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return request.url.scheme == "https" or forwarded == "https"
