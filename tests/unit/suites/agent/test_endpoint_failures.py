"""What errors of providers' clients say about their endpoint."""

import errno

import pytest

from dokimos._http.breaker import FailureKind
from dokimos.suites._agent.endpoint_failures import classify_failure, describe_connection_error, find_status


class APIError(Exception):
    def __init__(self, status_code=None, body=None):
        self.status_code = status_code
        self.body = body
        super().__init__(f"status {status_code}")


class APIConnectionError(Exception): ...


class ConnectError(Exception): ...


class ReadTimeout(Exception): ...


def raised_from(error, *causes):
    current = error
    for cause in causes:
        current.__cause__ = cause
        current = cause
    return error


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (APIError(401), FailureKind.DENIED),
        (APIError(403), FailureKind.DENIED),
        (APIError(429), FailureKind.RATE_LIMITED),
        (APIError(429, {"error": {"code": "insufficient_quota"}}), None),
        (APIError(429, {"code": "insufficient_quota"}), None),
        (APIError(408), FailureKind.SERVER_ERROR),
        (APIError(500), FailureKind.SERVER_ERROR),
        (APIError(503), FailureKind.SERVER_ERROR),
        (APIError(400), None),
        (APIError(404), None),
        (raised_from(APIConnectionError(), ConnectError(), OSError()), FailureKind.UNREACHABLE),
        (raised_from(APIConnectionError(), ReadTimeout()), FailureKind.SERVER_ERROR),
        (raised_from(RuntimeError("wrapped"), APIError(429)), FailureKind.RATE_LIMITED),
        (ValueError("a reply that cannot be read"), None),
    ],
)
def test_an_error_says_what_is_wrong_with_its_endpoint(error, trouble):
    assert classify_failure(error) is trouble


def test_a_ring_of_causes_ends():
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one

    assert classify_failure(one) is None
    assert find_status(one) is None


def test_the_reason_is_that_of_the_system():
    refused = raised_from(
        APIConnectionError("Connection error."),
        ConnectError("All connection attempts failed"),
        OSError(errno.ECONNREFUSED, "Connect call failed"),
    )

    assert describe_connection_error(refused) == "cannot connect (Connection refused)"
    assert describe_connection_error(raised_from(APIConnectionError("x"), ConnectError("no such host"))) == (
        "cannot connect (no such host)"
    )
