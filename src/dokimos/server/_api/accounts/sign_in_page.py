"""The page that somebody sees whose sign-in has failed: plain, since the web interface may be elsewhere."""

from __future__ import annotations

from fastapi.responses import HTMLResponse
from starlette.requests import Request

from dokimos._core.markup import document, join, link_to_path, tag


def wants_page(request: Request) -> bool:
    """Whether a browser has asked, which shows a page rather than JSON."""
    return "text/html" in request.headers.get("accept", "")


def sign_in_error_page(status: int, message: str, again: str, headers: dict[str, str]) -> HTMLResponse:
    """Return a page that says why a sign-in has failed, with a link to the beginning."""
    head = join(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width"),
        tag("title", "Sign-in failed"),
    )
    body = tag(
        "main",
        tag("h1", "Sign-in failed"),
        tag("p", message),
        tag("p", link_to_path(again, "Sign in again")),
    )
    return HTMLResponse(document(head, body), status, headers)
