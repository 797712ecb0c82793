"""What an error looks like on the wire: `{error, message, timestamp}`, as documented."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from sqlalchemy.exc import IntegrityError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Match
from starlette.types import Scope

from dokimos.server._api.web_pages import answer_page, wants_page
from dokimos.server._db.clock import format_time, now
from dokimos.server._db.database import DatabaseUnavailable, Lane, ReadersBusy, ReadTooSlow
from dokimos.server._services.errors import (
    BodyTooLargeError,
    ConflictError,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    OutdatedError,
    RateLimitError,
    RoleError,
    ServiceError,
    SlowBodyError,
    TooManyFailuresError,
    UnauthorizedError,
    UnavailableError,
    UnsupportedMediaError,
)
from dokimos.server._services.request_context import current_request, note_reason

_LOGGER: Final = logging.getLogger("dokimos.server")
_WORD_START: Final = re.compile("(?<=[a-z])(?=[A-Z])")
_STATUSES: Final = {
    BodyTooLargeError: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    ConflictError: HTTPStatus.CONFLICT,
    ForbiddenError: HTTPStatus.FORBIDDEN,
    InvalidRequestError: HTTPStatus.BAD_REQUEST,
    NotFoundError: HTTPStatus.NOT_FOUND,
    OutdatedError: HTTPStatus.PRECONDITION_FAILED,
    RateLimitError: HTTPStatus.TOO_MANY_REQUESTS,
    SlowBodyError: HTTPStatus.REQUEST_TIMEOUT,
    TooManyFailuresError: HTTPStatus.TOO_MANY_REQUESTS,
    UnauthorizedError: HTTPStatus.UNAUTHORIZED,
    UnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
    UnsupportedMediaError: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
}
_PHRASES: Final = {413: "Payload Too Large", 422: "Unprocessable Content"}  # the same on every Python


def error_response(
    status: int,
    message: str,
    headers: dict[str, str] | None = None,
    more: Mapping[str, str] | None = None,
) -> JSONResponse:
    """Return the documented body of an error, perhaps with `more` fields."""
    phrase = _PHRASES.get(status) or HTTPStatus(status).phrase
    body = {"error": phrase, "message": message, "timestamp": format_time(now()), **(more or {})}
    return JSONResponse(body, status, headers)


def add_error_handlers(app: FastAPI) -> None:
    """Answer the errors of all routes, the framework's own too."""
    app.exception_handler(ServiceError)(_answer_known_error)
    app.exception_handler(DatabaseUnavailable)(_answer_known_error)
    app.exception_handler(ReadTooSlow)(_answer_known_error)
    app.exception_handler(IntegrityError)(_answer_integrity_error)
    app.exception_handler(RequestValidationError)(_answer_validation_error)
    app.exception_handler(HTTPException)(_answer_http_error)


def answer_error(error: Exception) -> JSONResponse:
    """Return the answer to a `ServiceError` or to an error of the database."""
    note_reason(_describe_kind(error))
    if isinstance(error, ReadTooSlow):
        return _answer_slow_read(error)
    if isinstance(error, ReadersBusy):
        message = "The server is busy with other reads of this kind; try again."
        return error_response(503, message, {"Retry-After": "5"})
    if isinstance(error, DatabaseUnavailable):
        _LOGGER.error("The database is not available: %s", error)
        message = "The server cannot reach or write its database at the moment; nothing of this was stored."
        return error_response(503, message, {"Retry-After": "5"})
    status = next(status for kind, status in _STATUSES.items() if isinstance(error, kind))
    if isinstance(error, UnauthorizedError | RoleError):  # their documented bodies have one field
        headers = {"WWW-Authenticate": "Bearer"} if isinstance(error, UnauthorizedError) else None
        return JSONResponse({"error": str(error)}, status, headers)
    return error_response(status, str(error), _headers_of(error))


def _describe_kind(error: Exception) -> str:
    """Return the kind of an error as a word, such as `too-many-failures`: nothing of what it quotes."""
    return _WORD_START.sub("-", type(error).__name__.removesuffix("Error")).lower()


def _headers_of(error: Exception) -> dict[str, str] | None:
    match error:
        case UnavailableError():
            return {"Retry-After": str(error.retry_seconds)}
        case TooManyFailuresError() | RateLimitError():
            return {"Retry-After": str(error.seconds)}
        case SlowBodyError():  # what may still arrive of the body is not waited for
            return {"Connection": "close"}
        case _:
            return None


def _answer_slow_read(error: ReadTooSlow) -> JSONResponse:
    took = f"took longer than {error.seconds:g} seconds and was stopped"
    if error.lane is Lane.SEARCH:  # it would take as long again: nobody should repeat it as it is
        return error_response(
            400,
            f"Searching for this {took}. Narrow what is searched with other filters, or raise "
            "DOKIMOS_READ_TIMEOUT_SECONDS.",
        )
    message = f"Reading this {took}; ask for a smaller page, or try again later."
    return error_response(503, message, {"Retry-After": "5"})


def describe_problem(problem: Any, body: str = "") -> str:
    """Return one problem of pydantic as `items[3].evalResults[0].score: must be a finite number`."""
    path = format_path(problem["loc"])
    message = _MESSAGES.get(problem["type"])
    if message is None:
        message = problem["msg"][:1].lower() + problem["msg"][1:]
    elif callable(message):
        message = message(problem.get("ctx") or {})
    return f"{path or body or 'body'}: {message}"


def format_path(location: tuple[int | str, ...]) -> str:
    """Return a location of pydantic as a path, such as `items[3].name`."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
    return path


def _write_number(number: float) -> str:
    """Return `24` for 24.0 too: that a limit is kept as a float is nothing for whoever reads the message."""
    return str(int(number)) if number == int(number) else str(number)


_TIME: Final = "must be a time in ISO 8601, such as 2026-11-22T09:30:00Z"
_MESSAGES: Final[dict[str, Any]] = {
    "missing": "is required",
    "extra_forbidden": "is not a field that is known here",
    "finite_number": "must be a finite number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be a text",
    "string_unicode": "must not contain NUL or half a character",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "list_type": "must be a list",
    "datetime_type": _TIME,
    "datetime_parsing": _TIME,
    "datetime_from_date_parsing": _TIME,
    "uuid_parsing": "must be a UUID",
    "uuid_type": "must be a UUID",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "string_too_long": lambda context: f"must be at most {context['max_length']} characters",
    "too_long": lambda context: f"must have at most {context['max_length']} elements",
    "greater_than_equal": lambda context: f"must be at least {_write_number(context['ge'])}",
    "less_than_equal": lambda context: f"must be at most {_write_number(context['le'])}",
    "less_than": lambda context: f"must be less than {_write_number(context['lt'])}",
    "greater_than": lambda context: f"must be more than {_write_number(context['gt'])}",
    "literal_error": lambda context: f"must be {context['expected']}",
    "value_error": lambda context: str(context["error"]),
    "enum": lambda context: f"must be {context['expected']}",
}


async def _answer_known_error(request: Request, error: Exception) -> JSONResponse:
    return answer_error(error)


async def _answer_integrity_error(request: Request, error: Exception) -> JSONResponse:
    """What two requests that came at once did to each other; documented as a conflict."""
    _LOGGER.warning("%s %s: %s", request.method, request.url.path, error)
    return error_response(409, "The request conflicts with what another one has changed; send it again.")


async def _answer_validation_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    problem = dict(error.errors()[0])
    problem["loc"] = problem["loc"][1:]  # without "query" or "path"
    return error_response(400, describe_problem(problem))


async def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code == 404:
        if wants_page(request):
            return answer_page(request)
        where = ". The API is below /api/v1, and /openapi.json describes it" if path == "/" else ""
        return error_response(404, f"There is no such route: {request.method} {path}{where}")
    if error.status_code == 405:
        allowed = {"Allow": ", ".join(sorted(_methods_of(request)))}
        if request.method == "OPTIONS":
            return Response(status_code=200, headers=allowed)
        return error_response(405, f"{request.method} is not supported for {path}", allowed)
    return error_response(error.status_code, str(error.detail), dict(error.headers or {}))


def _methods_of(request: Request) -> set[str]:
    """The methods of all routes at a path."""
    methods = {"OPTIONS"}
    for route in list_routes(request.app):
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= route.methods or set()
    return methods | {"HEAD"} if "GET" in methods else methods


def list_routes(app: FastAPI) -> list[APIRoute]:
    """Return all routes of an application, those of its routers too."""
    found: list[APIRoute] = []
    waiting: list[Any] = list(app.routes)
    while waiting:
        route = waiting.pop(0)
        if isinstance(route, APIRoute):
            found.append(route)
        else:
            waiting.extend(getattr(getattr(route, "original_router", route), "routes", ()))
    return found


def answer_unexpected_error(scope: Scope, error: Exception) -> JSONResponse:
    """Log an error of the server's own, and return what the caller is told about it."""
    context = current_request()
    request_id = "" if context is None else context.request_id
    # In the message, too, since an application that mounts the server has a log format of its own.
    _LOGGER.error("%s %s failed (request %s)", scope["method"], scope["path"], request_id, exc_info=error)
    # Never the text of the exception: it may quote data, statements or paths.
    return error_response(
        500,
        f"The server failed; its log has the reason under the request id {request_id}.",
        more={"requestId": request_id},
    )
