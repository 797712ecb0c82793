"""Whether a browser sent a request from a page of this server."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from dokimos.server._services.errors import ForeignOriginError

_SAFE_METHODS: Final = ("GET", "HEAD", "OPTIONS")


def check_same_origin(request: Request, *, has_cookie: bool) -> None:
    """Refuse a change that a page of another site had a browser ask for.

    Browsers say where a request comes from in `Sec-Fetch-Site`, older ones in `Origin`. Other clients say
    neither; they have no business with a cookie.

    Raises:
        ForeignOriginError: The request comes from another site, or brings a cookie without saying where it
            comes from.
    """
    if request.method in _SAFE_METHODS:
        return
    fault = "The request comes from a page of another site"
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        is_own = site == "same-origin" or (site == "none" and not has_cookie)
    elif origin is not None:
        is_own = urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower()
    else:
        is_own = not has_cookie
        fault = (
            "The request does not say in Origin or Sec-Fetch-Site which page it comes from, as browsers do"
        )
    if not is_own:
        raise ForeignOriginError(f"{fault}; programs send 'Authorization: Bearer <key>'.")
