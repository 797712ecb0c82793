"""Error replies of servers: what they say, and whether the request is worth a retry."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from dokimos._core.text import shorten
from dokimos.errors import JudgeUnavailableError

SHOWN: Final = 300
_MOST_SHOWN: Final = 100_000
UNREADABLE: Final = (ValueError, RecursionError)
"""What the JSON reader raises; the second one where lists are nested very deeply."""
_FAILURE: Final = 500
_NOT_IMPLEMENTED: Final = 501
_RETRYABLE: Final = frozenset({408, 409, 425, 429})
"""Client errors that pass: timeout, conflict, too early, rate limit. Server errors (5xx) are retried too."""

_STATUS_OF_CODE: Final = {"server_error": 500, "rate_limit_exceeded": 429, "insufficient_quota": 429}
_SPENT: Final = ("insufficient_quota", "billing_hard_limit_reached")
_BLAMES_REQUEST: Final = re.compile(
    r"\bgrammar\b|json[_ ]schema|response_format|not (?:implemented|supported)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Complaint:
    """The provider's own words, and the parameter and code that it names."""

    message: str
    param: str = ""
    code: str = ""

    @property
    def is_quota_exhausted(self) -> bool:
        """Whether the account is out of money, so that waiting does not help."""
        return self.code in _SPENT

    def is_retryable(self, status: int) -> bool:
        """Say whether the same request may succeed later: for 429, 5xx and a few others."""
        if self.is_quota_exhausted or status == _NOT_IMPLEMENTED:
            return False
        if status == _FAILURE:  # local servers also answer so to what they cannot do at all
            return _BLAMES_REQUEST.search(self.message) is None
        return status > _FAILURE or status in _RETRYABLE


class RequestRefused(JudgeUnavailableError):
    """A request was refused; retrying it unchanged would not help."""

    def __init__(self, message: str, *, status: int, complaint: Complaint, sent_at: float = 0.0) -> None:
        self.status = status
        self.sent_at = sent_at
        """When the request was sent, by the clock of the run."""
        self.complaint = complaint
        super().__init__(message)


def parse_complaint(content: bytes) -> Complaint:
    """Parse an error reply, in any of the forms that providers and local servers use."""
    try:
        tree = json.loads(content.decode("utf-8", "replace"))
    except UNREADABLE:
        return Complaint(excerpt_of_content(content))
    return find_complaint(tree)


def excerpt_of_content(content: bytes) -> str:
    """Return the beginning of a body that is not JSON, on one line."""
    return shorten(" ".join(content[:_MOST_SHOWN].decode("utf-8", "replace").split()), SHOWN)


def find_complaint(tree: object) -> Complaint:
    """Find the provider's words in the JSON of an error; Gemini's comes in a list."""
    if isinstance(tree, list) and len(tree) == 1:
        tree = tree[0]
    if not isinstance(tree, Mapping):
        return Complaint(_text(tree))
    error = tree.get("error") or tree
    if not isinstance(error, Mapping):
        return Complaint(_text(error))
    message = next((error[key] for key in ("message", "detail", "error") if error.get(key)), error)
    code = error.get("code") or error.get("type") or ""
    return Complaint(_text(message), str(error.get("param") or ""), str(code))


def find_status(tree: object) -> int | None:
    """Return the status of an error that came with status 200, as some gateways send them."""
    error = tree.get("error") if isinstance(tree, Mapping) else None
    if not error:
        return None
    code = error.get("code") if isinstance(error, Mapping) else None
    if isinstance(code, int) and 400 <= code < 600:
        return code
    return _STATUS_OF_CODE.get(str(code), 400)


def format_status(status: int) -> str:
    """Return `429 Too Many Requests`."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return "529 Overloaded" if status == 529 else str(status)


def _text(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return shorten(" ".join(text.split()), SHOWN)
