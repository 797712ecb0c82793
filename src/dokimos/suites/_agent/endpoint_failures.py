"""What the errors of providers' clients say about their endpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from dokimos._core.error_chain import error_chain
from dokimos._http.breaker import FailureKind
from dokimos._http.refusal import QUOTA_CODES, TRANSIENT_REFUSALS

_NO_CONNECTION: Final = frozenset({"ConnectError", "ConnectTimeout", "ProxyError", "UnsupportedProtocol"})
"""Errors of the HTTP clients below those of providers, for requests that were not sent."""
_NO_REPLY: Final = frozenset(
    {"APIConnectionError", "APITimeoutError", "ModelConnectionError", "ModelTimeoutError", "NetworkError",
     "ReadError", "ReadTimeout", "RemoteProtocolError", "TransportError", "WriteError"}
)  # fmt: skip
_DENIED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})


def classify_failure(error: BaseException) -> FailureKind | None:
    """Return what is wrong with an endpoint, None where an error says nothing about it."""
    status = find_status(error)
    if status is None:
        # By name, so that no provider's client is imported, and over the whole chain: each client wraps the
        # errors of the HTTP client below it in its own.
        names = {cls.__name__ for each in error_chain(error) for cls in type(each).__mro__}
        if names & _NO_CONNECTION:
            return FailureKind.UNREACHABLE
        return FailureKind.SERVER_ERROR if names & _NO_REPLY else None
    if status in _DENIED:
        return FailureKind.DENIED
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return None if _is_quota_exhausted(error) else FailureKind.RATE_LIMITED
    # Providers' own clients retry transient refusals, too.
    is_failing = status in TRANSIENT_REFUSALS or status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return FailureKind.SERVER_ERROR if is_failing else None


def find_status(error: BaseException) -> int | None:
    """Return the HTTP status that an error tells."""
    for each in error_chain(error):
        status = getattr(each, "status_code", None)
        if isinstance(status, int):
            return status
    return None


def describe_connection_error(error: BaseException) -> str:
    """Say why nothing could be sent: what a provider's client says of it is not much."""
    for each in error_chain(error):
        if isinstance(each, OSError) and each.errno:
            return f"cannot connect ({os.strerror(each.errno) if each.errno > 0 else each.strerror})"
    *_, last = error_chain(error)
    return f"cannot connect ({str(last) or type(last).__name__})"


def _is_quota_exhausted(error: BaseException) -> bool:
    """Whether there is no money left, so that waiting does not help."""
    for each in error_chain(error):
        body = getattr(each, "body", None)
        if isinstance(body, Mapping):
            inner = body.get("error")
            details = inner if isinstance(inner, Mapping) else body
            if details.get("code") in QUOTA_CODES or details.get("type") in QUOTA_CODES:
                return True
    return False
