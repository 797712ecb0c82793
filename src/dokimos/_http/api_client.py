"""Calls the HTTP API of a server: all methods, a few retries, a limit on replies, downloads into a file.

Judges are called through `client.py`, which shares what is learnt about an endpoint among all calls of a run.
An `ApiClient` belongs to the one who opened it.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets as random_names
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, Self
from urllib.parse import quote, urlencode, urljoin, urlsplit

from dokimos._http.address import find_url_fault
from dokimos._http.address_policy import AddressPolicy, current_address_policy
from dokimos._http.answer import Answer, Forbidden, NoAnswer, Oversized, Unsendable
from dokimos._http.backoff import retry_after
from dokimos._http.body import max_reply_bytes
from dokimos._http.credentials import Secret, redact, redact_url, secrets_of_headers, words_of
from dokimos._http.offline import OFFLINE, is_offline_for
from dokimos._http.refusal import JSON_ERRORS, excerpt_of_content, find_error_reply, format_status
from dokimos.errors import (
    AddressRefusedError,
    ConfigurationError,
    ServerRefusedError,
    ServerReplyError,
    ServerUnavailableError,
)

if TYPE_CHECKING:
    from dokimos._http.session import Session

ATTEMPTS: Final = 3
FIRST_BACKOFF: Final = 0.1
LONGEST_WAIT: Final = 60.0
"""A server that asks for a longer wait is given up at once."""
MOST_DOWNLOAD_BYTES: Final = 2**30
_IDEMPOTENT: Final = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS"})
_KEY_HEADER: Final = "idempotency-key"
_NOT_PROCESSED: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
"""What a server answers before it has done anything: also a POST can be sent again."""
_FIRST_GOOD, _FIRST_ELSEWHERE, _FIRST_REFUSED, _FIRST_FAILED = 200, 300, 400, 500
_JSON: Final = "application/json"
_ACCEPT: Final = {"Accept": _JSON}
_JSON_CONTENT: Final = {"Content-Type": _JSON}
_Query = Mapping[str, str | int | float | bool | None]


class ApiReply(NamedTuple):
    """The answer to a request that a server accepted (2xx)."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    url: str
    """Where it came from, as errors name it."""

    def json(self) -> Any:
        """Return the JSON of the answer, None for an empty one.

        Raises:
            ServerReplyError: where it is not JSON.
        """
        if not self.content:
            return None
        try:
            return json.loads(self.content)
        except JSON_ERRORS:
            excerpt = excerpt_of_content(self.content)
            raise ServerReplyError(f"{self.url}: the answer is not JSON: {excerpt}") from None


@dataclass(kw_only=True, eq=False)
class ApiClient:
    """Calls one HTTP API, from one event loop.

    `async with ApiClient(base_url="http://localhost:8080") as api: (await api.request("GET", "/x")).json()`

    A request is retried where the server cannot be reached, is overloaded (429, 503) or fails (5xx). One that
    might be carried out twice, a POST or PATCH without an `Idempotency-Key`, is retried only where the server
    has certainly not begun. Redirects are not followed.
    """

    base_url: str
    """The root of the API, to which paths are appended; or one URL, such as a webhook's, for the path ""."""
    headers: Mapping[str, str | Secret] = field(default_factory=dict, repr=False)
    """Sent with each request; their values are never shown."""
    timeout: float = 30.0
    """Seconds for one attempt; of a download, for each piece."""
    attempts: int = ATTEMPTS
    first_backoff: float = FIRST_BACKOFF
    """Seconds before the second attempt; doubled for each further one."""
    max_reply_bytes: int = field(default_factory=max_reply_bytes)
    """The most bytes of an answer, decompressed: 16 MiB, or as DOKIMOS_MAX_REPLY_MB says."""
    policy: AddressPolicy | None = field(default_factory=current_address_policy)
    """Where requests may go; that of the context unless given, None for anywhere."""
    hides_paths: bool = False
    """Whether errors show no more of a URL than its host: that of a webhook is a secret."""
    hints: Mapping[int, str] = field(default_factory=dict)
    """What to do about a refusal with this status; its error ends with it."""
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep, repr=False)
    _session: Session | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self._check_url(find_url_fault(self.base_url))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, place: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; the next request opens new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _check_url(self, fault: str | None) -> None:
        if fault is not None:
            raise ConfigurationError(f"The URL of the server {fault}; it is {self._show(self.base_url)!r}.")

    async def request(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        content: bytes | None = None,
        query: _Query | None = None,
        headers: Mapping[str, str | Secret] | None = None,
        repeatable: bool | None = None,
    ) -> ApiReply:
        """Send a request and return the answer to it.

        Args:
            method: GET, POST, PUT, PATCH or DELETE.
            path: Appended to the base URL, unless "", which stands for the base URL as it is; names in it
                are percent-encoded already (`encode_segment`).
            json: A tree to send as JSON, unless None.
            content: Bytes to send as they are, with their `Content-Type` in `headers`.
            query: Parameters of the URL; those that are None are left out.
            headers: More headers, for this request.
            repeatable: Whether it may be sent twice; by its method and `Idempotency-Key` unless given.

        Raises:
            ServerUnavailableError: when there is no answer, after all attempts.
            ServerRefusedError: when the server refuses it, with the status.
            ServerReplyError: when the answer is larger than `max_reply_bytes`.
            AddressRefusedError: when the policy does not let it go there.
            ConfigurationError: when it cannot be sent as it is, such as with a line break in a header.
            ValueError: when `json` holds NaN or an infinity.
        """
        if json is not None:
            content = _encode_json(json)
            headers = {**_JSON_CONTENT, **(headers or {})}
        call = self._call(method, path, query, headers, repeatable)
        return await self._until_answered(call, lambda session: self._send(session, call, content))

    async def download(
        self,
        path: str,
        target: str | os.PathLike[str],
        *,
        query: _Query | None = None,
        headers: Mapping[str, str | Secret] | None = None,
        most_bytes: int = MOST_DOWNLOAD_BYTES,
    ) -> ApiReply:
        """Write what a GET answers into a file, which appears whole or not at all; memory stays flat.

        `most_bytes` is the most that may be written. Raises as `request` does, and `OSError` for the file.
        """
        call = self._call("GET", path, query, headers, None)
        call.most_bytes = most_bytes
        draft = Path(target)
        draft = draft.with_name(f".{draft.name}.{random_names.token_hex(4)}.part")
        try:
            with draft.open("xb") as file:
                reply = await self._until_answered(call, lambda session: self._fetch(session, call, file))
            os.replace(draft, target)
        finally:
            draft.unlink(missing_ok=True)
        return reply

    def _call(
        self,
        method: str,
        path: str,
        query: _Query | None,
        headers: Mapping[str, str | Secret] | None,
        repeatable: bool | None,
    ) -> _Call:
        url = self.base_url
        if path:
            self._check_url(find_url_fault(url, is_root=True))
            url = url.rstrip("/") + path
        pairs = {name: _query_text(value) for name, value in (query or {}).items() if value is not None}
        if pairs:
            url += ("&" if "?" in url else "?") + urlencode(pairs)
        given = _merge_headers(_ACCEPT, self.headers, headers or {})
        plain = {name: Secret(value).reveal() for name, value in given.items()}
        if repeatable is None:
            repeatable = method in _IDEMPOTENT or _KEY_HEADER in plain
        secrets = words_of(secrets_of_headers(given))
        return _Call(method, url, self._show, plain, secrets, repeatable, self.max_reply_bytes)

    def _show(self, url: str) -> str:
        return _show_host(url) if self.hides_paths else redact_url(url)

    async def _until_answered(self, call: _Call, attempt: Callable[[Session], Awaitable[Answer]]) -> ApiReply:
        if is_offline_for(call.url):
            raise ServerUnavailableError(f"{call.shown} was not sent because {OFFLINE} is set; unset it.")
        count = 1
        while True:
            outcome = await self._try(call, attempt)
            if isinstance(outcome, ApiReply):
                return outcome
            delay = self.first_backoff * 2 ** (count - 1) if outcome.wait is None else outcome.wait
            if count >= self.attempts or not outcome.may_retry or delay > LONGEST_WAIT:
                asked = f", it asks to wait {delay:.0f} s" if delay > LONGEST_WAIT else ""
                tried = f" (tried {count} times{asked})" if count > 1 or asked else ""
                raise ServerUnavailableError(call.message(f"{outcome.problem}{tried}"))
            count += 1
            await self.sleep(delay)

    async def _try(self, call: _Call, attempt: Callable[[Session], Awaitable[Answer]]) -> ApiReply | _Failure:
        try:
            answer = await attempt(self._open())
        except NoAnswer as failure:
            return _Failure(str(failure), may_retry=failure.unsent or call.repeatable)
        except Oversized:
            raise ServerReplyError(
                call.message(f"the answer is larger than {call.most_bytes:,} bytes, which is the limit")
            ) from None
        except Forbidden as fault:
            raise AddressRefusedError(call.message(f"not sent: the URL {fault}")) from None
        except Unsendable as fault:
            raise ConfigurationError(call.message(f"the request cannot be sent ({fault})")) from None
        return _read(call, answer, self.hints)

    def _open(self) -> Session:
        if self._session is None:
            from dokimos._http.session import Session

            self._session = Session(self.base_url, self.policy)
        return self._session

    async def _send(self, session: Session, call: _Call, content: bytes | None) -> Answer:
        return await session.send(
            call.method, call.url, content, call.headers, self.timeout, most=call.most_bytes
        )

    async def _fetch(self, session: Session, call: _Call, file: BinaryIO) -> Answer:
        file.seek(0)
        file.truncate()  # what an attempt before this one wrote

        def write(part: bytes) -> None:
            try:
                file.write(part)
            except OSError as error:  # the session would take it for one of the connection
                raise _Unwritable(error) from error

        try:
            return await session.download(
                call.url, call.headers, self.timeout, most=call.most_bytes, write=write
            )
        except _Unwritable as fault:
            raise fault.error from None


def encode_segment(name: str) -> str:
    """Return a name as a segment of a path: percent-encoded except for letters, digits and `-_.~`.

    Raises:
        ConfigurationError: for a name that no path can hold: empty, `.`, `..` or with half a character.
    """
    try:
        encoded = quote(name, safe="")
    except UnicodeEncodeError:  # a lone surrogate
        encoded = ""
    if encoded in ("", ".", ".."):
        raise ConfigurationError(f"A name of the server cannot be {name!r:.300}.")
    return encoded


class _Unwritable(Exception):
    def __init__(self, error: OSError) -> None:
        self.error = error
        super().__init__(str(error))


@dataclass(slots=True)
class _Call:
    """One request, over all its attempts."""

    method: str
    url: str
    show: Callable[[str], str]
    """Makes of a URL what errors may show of it."""
    headers: dict[str, str]
    secrets: tuple[Secret, ...]
    repeatable: bool
    most_bytes: int

    @property
    def shown(self) -> str:
        return f"{self.method} {self.show(self.url)}"

    def message(self, problem: str) -> str:
        return redact(f"{self.shown}: {problem}", self.secrets)


class _Failure(NamedTuple):
    """An attempt without an answer that can be used."""

    problem: str
    may_retry: bool
    wait: float | None = None
    """The seconds that the server asks to wait."""


def _read(call: _Call, answer: Answer, hints: Mapping[int, str]) -> ApiReply | _Failure:
    status = answer.status
    if _FIRST_GOOD <= status < _FIRST_ELSEWHERE:
        return ApiReply(status, answer.headers, answer.content, call.shown)
    details, words = _read_problem(answer.content)
    problem = f"{format_status(status)}{f': {words}' if words else ''}"
    is_failure = status >= _FIRST_FAILED and status != HTTPStatus.NOT_IMPLEMENTED
    if is_failure or status == HTTPStatus.TOO_MANY_REQUESTS:
        may_retry = call.repeatable or status in _NOT_PROCESSED
        return _Failure(problem, may_retry, retry_after(answer.headers))
    if status < _FIRST_REFUSED and "Location" in answer.headers:
        place = call.show(urljoin(call.url, answer.headers["Location"]))
        problem = f"{format_status(status)}: redirects are not followed; this one leads to {place}"
    if status in hints:
        problem += f"; {hints[status]}"
    raise ServerRefusedError(call.message(problem), status=status, details=details)


def _read_problem(content: bytes) -> tuple[object, str]:
    """Return the JSON of an error, None where it is not JSON, and what it says."""
    try:
        tree = json.loads(content)
    except JSON_ERRORS:
        return None, excerpt_of_content(content)
    message = tree.get("message") if isinstance(tree, Mapping) else None
    if isinstance(message, str) and message:
        return tree, excerpt_of_content(message.encode("utf-8", "replace"))
    return tree, find_error_reply(tree).message


def _merge_headers(*several: Mapping[str, str | Secret]) -> dict[str, str | Secret]:
    """Join headers, in lower case so that none is sent twice; the last one with a name counts."""
    return {name.lower(): value for headers in several for name, value in headers.items()}


def _show_host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/..."


def _encode_json(tree: object) -> bytes:
    return json.dumps(tree, allow_nan=False, separators=(",", ":")).encode()


def _query_text(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
