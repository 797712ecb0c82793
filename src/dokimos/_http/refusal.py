"""Error replies of servers: what they say, and whether the request is worth a retry."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from dokimos._core.text import shorten
from dokimos.errors import JudgeUnavailableError

MAX_MESSAGE_LENGTH: Final = 300
MAX_EXCERPT_BYTES: Final = 100_000
"""How much of a body that is not JSON is decoded for its excerpt."""
JSON_ERRORS: Final = (ValueError, RecursionError)
"""What the JSON reader raises; the second one where lists are nested very deeply."""
TRANSIENT_REFUSALS: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY})
"""Client errors that pass, beside the rate limit (429)."""
QUOTA_CODES: Final = ("insufficient_quota", "billing_hard_limit_reached")
"""Error codes that say that the account is out of money, so that waiting does not help."""

_HTML: Final = re.compile(r"\s*<(?:!doctype\s+html|html)\b", re.IGNORECASE)
_MARKUP: Final = re.compile(r"<[^<>]*>")

_STATUS_OF_CODE: Final = {
    "server_error": HTTPStatus.INTERNAL_SERVER_ERROR,
    "rate_limit_exceeded": HTTPStatus.TOO_MANY_REQUESTS,
    "insufficient_quota": HTTPStatus.TOO_MANY_REQUESTS,
}
_BLAMES_REQUEST: Final = re.compile(
    r"\bgrammar\b|json[_ ]schema|response_format|not (?:implemented|supported)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """What the body of an error says: the provider's message, and the parameter and code that it names."""

    message: str
    param: str = ""
    code: str = ""

    @property
    def is_quota_exhausted(self) -> bool:
        """Whether the account is out of money, so that waiting does not help."""
        return self.code in QUOTA_CODES

    def is_retryable(self, status: int) -> bool:
        """Say whether the same request may succeed later: for 408, 409, 425, 429 and 5xx, with exceptions.

        An exhausted quota (a 429, too) and 501 are final, and so is a 500 that blames the request: local
        servers answer so to what they cannot do at all.

        Example:
            >>> ErrorReply("The server had an error").is_retryable(500)
            True
            >>> ErrorReply("Failed to parse grammar").is_retryable(500)
            False
            >>> ErrorReply("You exceeded your quota", code="insufficient_quota").is_retryable(429)
            False
        """
        if self.is_quota_exhausted or status == HTTPStatus.NOT_IMPLEMENTED:
            return False
        if status == HTTPStatus.INTERNAL_SERVER_ERROR:
            return _BLAMES_REQUEST.search(self.message) is None
        passes = status == HTTPStatus.TOO_MANY_REQUESTS or status in TRANSIENT_REFUSALS
        return passes or status > HTTPStatus.INTERNAL_SERVER_ERROR


class RequestRefused(JudgeUnavailableError):
    """A request was refused; retrying it unchanged would not help."""

    def __init__(self, message: str, *, status: int, error_reply: ErrorReply, sent_at: float = 0.0) -> None:
        self.status: int = status
        self.sent_at = sent_at
        """When the request was sent, by the clock of the run."""
        self.error_reply = error_reply
        super().__init__(message)


def parse_error_reply(content: bytes) -> ErrorReply:
    """Parse the body of an error, in any of the forms that providers and local servers use."""
    try:
        tree = json.loads(content.decode("utf-8", "replace"))
    except JSON_ERRORS:
        return ErrorReply(excerpt_of_content(content))
    return find_error_reply(tree)


def excerpt_of_content(content: bytes) -> str:
    """Return the beginning of a body that is not JSON, on one line; of an HTML page, what a browser shows."""
    text = content[:MAX_EXCERPT_BYTES].decode("utf-8", "replace")
    if _HTML.match(text):
        text = f"an HTML page: {html.unescape(_MARKUP.sub(' ', text))}"
    return shorten(" ".join(text.split()), MAX_MESSAGE_LENGTH)


def find_error_reply(tree: object) -> ErrorReply:
    """Find what the JSON of an error says; Gemini's comes in a list."""
    if isinstance(tree, list) and len(tree) == 1:
        tree = tree[0]
    if not isinstance(tree, Mapping):
        return ErrorReply(_text(tree))
    error = tree.get("error") or tree
    if not isinstance(error, Mapping):
        return ErrorReply(_text(error))
    message = next((error[key] for key in ("message", "detail", "error") if error.get(key)), error)
    code = error.get("code") or error.get("type") or ""
    return ErrorReply(_text(message), str(error.get("param") or ""), str(code))


def find_status(tree: object) -> int | None:
    """Return the status of an error that came with status 200, as some gateways send them."""
    error = tree.get("error") if isinstance(tree, Mapping) else None
    if not error:
        return None
    code = error.get("code") if isinstance(error, Mapping) else None
    if isinstance(code, int) and 400 <= code < 600:
        return code
    return _STATUS_OF_CODE.get(str(code), HTTPStatus.BAD_REQUEST)


def format_status(status: int) -> str:
    """Return `429 Too Many Requests`."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return "529 Overloaded" if status == 529 else str(status)


def _text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shorten(" ".join(text.split()), MAX_MESSAGE_LENGTH)
