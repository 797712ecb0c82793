"""The one HTTP client: sends JSON, and sees a request through rate limits, failures and cut connections."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import os
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urljoin, urlsplit

from dokimos.errors import JudgeUnavailableError
from dokimos.http.answer import Answer, NoAnswer, Oversized, Unsendable
from dokimos.http.backoff import rate_limit_pause, retry_after
from dokimos.http.body import LIMIT_VARIABLE, reply_limit
from dokimos.http.breaker import Breaker, Trouble, current_breakers
from dokimos.http.refusal import (
    UNREADABLE,
    Complaint,
    RequestRefused,
    complaint_in,
    complaint_of,
    phrase_of,
    shown_content,
    status_inside,
)
from dokimos.http.retries import ATTEMPTS, Retries
from dokimos.http.secret import Secret, scrubbed, shown_url, without_credentials
from dokimos.http.throttle import Limits, Throttle

if TYPE_CHECKING:
    from dokimos.http.session import Session

OFFLINE: Final = "DOKIMOS_OFFLINE"
_DENIED: Final = frozenset({401, 403})
_RATE_LIMITED: Final = 429
_FAILED: Final = 500
_OVERLOADED: Final = frozenset({503, 529})
_ELSEWHERE: Final = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where requests go, and how patiently."""

    base_url: str
    """Names the endpoint: all who use it share its connections and limits."""
    label: str
    """Provider and model, with which every error message starts."""
    limits: Limits = field(default_factory=Limits)
    timeout: float = 300.0
    attempts: int = ATTEMPTS
    is_application: bool = False
    """Whether a 500 says that a request could not be done, and not that the server is failing."""
    most_bytes: int = field(default_factory=reply_limit)
    """The most bytes of an answer, decompressed."""


class Reply(NamedTuple):
    """The JSON that was answered, and how long the successful attempt took."""

    data: Any
    latency_ms: float


async def post_json(
    target: Target,
    url: str,
    content: bytes,
    *,
    headers: Mapping[str, str],
    secrets: tuple[Secret, ...] = (),
    tokens: int = 0,
) -> Reply:
    """Send JSON and return the JSON of the reply, trying again where that may help.

    Args:
        target: The endpoint and how patient to be with it.
        url: Where to send it.
        content: The JSON to send.
        headers: Headers, the key among them.
        secrets: What must not appear in an error.
        tokens: An estimate of the tokens it will take, for a ceiling on them.

    Raises:
        RequestRefused: when the server says that the request itself is wrong.
        JudgeUnavailableError: when there is no answer, after all attempts; in a run it is an
            `EndpointDownError` where that is the endpoint's fault.
    """
    line = await _line_to(target)
    breaker = _breaker_of(target, secrets)
    return await _Sending(line, breaker, target, url, content, headers, secrets, tokens).reply()


def error_of_refusal(
    target: Target, refusal: RequestRefused, secrets: tuple[Secret, ...]
) -> JudgeUnavailableError:
    """Return the error for a refusal that taught nothing.

    Credentials that an endpoint never accepted are its fault, and count for its circuit breaker.
    """
    breaker = _breaker_of(target, secrets)
    if refusal.status not in _DENIED or breaker.has_answered:
        breaker.is_there()
        return JudgeUnavailableError(str(refusal))
    cause = str(refusal).removeprefix(f"{target.label}: ")
    breaker.failed(Trouble.DENIED, cause, started=refusal.sent_at)
    return breaker.error(str(refusal))


def _breaker_of(target: Target, secrets: tuple[Secret, ...]) -> Breaker:
    return current_breakers().of((target.base_url, target.label, secrets), target.label)


def tokens_used(target: Target, tokens: int, *, estimate: int) -> None:
    """Correct the estimate that `post_json` was given, where there is a ceiling on tokens."""
    if target.limits.tokens_per_minute is None:
        return
    lines = _lines.get(asyncio.get_running_loop())
    if lines is not None and target.base_url in lines.by_url:
        lines.by_url[target.base_url].throttle.pace.used(tokens, estimate)


async def close_sessions() -> None:
    """Close the connections of this event loop that are not in use; the next request opens new ones.

    They are closed by themselves where the loop is ended by `asyncio.run` or by dokimos.
    """
    lines = _lines.get(asyncio.get_running_loop())
    for line in [] if lines is None else list(lines.by_url.values()):
        if not line.throttle.in_flight:
            await line.close()


class _Sending:
    """One request until its reply, over several attempts."""

    __slots__ = ("_breaker", "_content", "_headers", "_line", "_retries", "_secrets", "_target",
                 "_tokens", "_url")  # fmt: skip

    def __init__(
        self,
        line: _Line,
        breaker: Breaker,
        target: Target,
        url: str,
        content: bytes,
        headers: Mapping[str, str],
        secrets: tuple[Secret, ...],
        tokens: int,
    ) -> None:
        self._line = line
        self._breaker = breaker
        self._target = target
        self._url = url
        self._content = content
        self._headers = headers
        self._secrets = secrets
        self._tokens = tokens
        self._retries = Retries(breaker, attempts=target.attempts, timeout=target.timeout)

    async def reply(self) -> Reply:
        while True:
            if self._breaker.is_failing:
                await self._breaker.admit()
            outcome = await self._attempt()
            if isinstance(outcome, Reply):
                return outcome
            if outcome:
                await self._breaker.sleep(outcome)

    async def _attempt(self) -> Reply | float:
        """Return the reply, or the seconds to wait before the next attempt."""
        throttle = self._line.throttle
        round_sent = await throttle.enter(self._tokens)
        start = time.perf_counter()
        self._retries.begin()
        try:
            session = self._line.session()
            answer = await session.post(
                self._url, self._content, self._headers, self._target.timeout, most=self._target.most_bytes
            )
            latency_ms = (time.perf_counter() - start) * 1000
            answer = answer._replace(content=without_credentials(answer.content, self._secrets))
            return self._judged(answer, latency_ms, round_sent)
        except Unsendable as fault:
            raise JudgeUnavailableError(self._message(f"the request cannot be sent ({fault})")) from None
        except Oversized:
            raise JudgeUnavailableError(self._message(self._too_large())) from None
        except NoAnswer as failure:
            if failure.timed_out:
                throttle.was_refused(round_sent, wait=None, rate_limited=False)
            return self._failed(str(failure), Trouble.UNREACHABLE if failure.unsent else Trouble.FAILING)
        finally:
            throttle.leave()

    def _too_large(self) -> str:
        megabytes = f"{self._target.most_bytes / 2**20:g} MB"
        return f"the answer is larger than {megabytes}; max_reply_mb or {LIMIT_VARIABLE} allows more"

    def _judged(self, answer: Answer, latency_ms: float, round_sent: int) -> Reply | float:
        throttle = self._line.throttle
        if 200 <= answer.status < 300:
            try:
                data = json.loads(answer.content)
            except UNREADABLE:
                shown = shown_content(answer.content) or "it is empty"
                return self._failed(f"the answer is no JSON: {shown}", Trouble.FAILING)
            status = status_inside(data)
            if status is None:
                throttle.went_well(round_sent)
                self._breaker.went_well()
                self._look_ahead(answer.headers)
                return Reply(data, latency_ms)
            return self._refused(status, complaint_in(data), answer.headers, round_sent)
        return self._refused(answer.status, self._complaint(answer), answer.headers, round_sent)

    def _complaint(self, answer: Answer) -> Complaint:
        if answer.status in _ELSEWHERE and "Location" in answer.headers:
            with contextlib.suppress(ValueError):  # it is no URL
                place = shown_url(urljoin(self._url, answer.headers["Location"]))
                return Complaint(f"the API is at {place} instead; give the base_url that leads there")
        return complaint_of(answer.content)

    def _look_ahead(self, headers: Mapping[str, str]) -> None:
        pause = rate_limit_pause(headers, self._line.throttle.in_flight)
        if pause:
            self._line.throttle.pace.pause(pause)

    def _refused(
        self, status: int, complaint: Complaint, headers: Mapping[str, str], round_sent: int
    ) -> float:
        reason = f"{phrase_of(status)}: {complaint.message or 'no message'}"
        if complaint.is_final(status):
            raise RequestRefused(
                self._message(reason), status=status, complaint=complaint, sent_at=self._retries.sent_at
            )
        if status == _FAILED and self._target.is_application:
            self._breaker.is_there()
            raise JudgeUnavailableError(self._message(reason))
        wait = retry_after(headers)
        limited = status == _RATE_LIMITED
        if limited or status in _OVERLOADED:
            self._line.throttle.was_refused(round_sent, wait=wait, rate_limited=limited)
        return self._failed(reason, Trouble.LIMITED if limited else Trouble.FAILING, wait)

    def _failed(self, reason: str, trouble: Trouble, wait: float | None = None) -> float:
        """Return how long to wait before the next attempt. Raises when there is none."""
        return self._retries.failed(trouble, scrubbed(reason, self._secrets), wait)

    def _message(self, problem: str) -> str:
        return scrubbed(f"{self._target.label}: {problem}", self._secrets)


class _Line:
    """The connections to one endpoint from one event loop, and the throttle before them."""

    def __init__(self, base_url: str) -> None:
        self.throttle = Throttle()
        self._base_url = base_url
        self._session: Session | None = None

    def session(self) -> Session:
        """Return the connections, new ones where the last have been closed."""
        if self._session is None:
            from dokimos.http.session import Session

            self._session = Session(self._base_url)
        return self._session

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


class _LoopLines:
    """All lines of one event loop; closed when the loop ends."""

    def __init__(self) -> None:
        self.by_url: dict[str, _Line] = {}
        self.closing: AsyncGenerator[None, None] | None = None

    async def close_at_end(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None, None]:
        """Wait, as a generator, for the loop to shut its generators down: that is when it ends."""
        try:
            yield
        finally:
            _lines.pop(loop, None)
            for line in self.by_url.values():
                await line.close()


_lines: dict[asyncio.AbstractEventLoop, _LoopLines] = {}


async def _line_to(target: Target) -> _Line:
    refuse_when_offline(target.base_url, target.label)
    loop = asyncio.get_running_loop()
    lines = _lines.get(loop)
    if lines is None:
        lines = await _lines_of(loop)
    line = lines.by_url.get(target.base_url)
    if line is None:
        line = lines.by_url[target.base_url] = _Line(target.base_url)
    line.throttle.hold_to(target.limits)
    return line


async def _lines_of(loop: asyncio.AbstractEventLoop) -> _LoopLines:
    for other in [each for each in _lines if each.is_closed()]:
        _lines.pop(other, None)
    lines = _lines[loop] = _LoopLines()
    lines.closing = lines.close_at_end(loop)
    await anext(lines.closing)
    return lines


def refuse_when_offline(url: str, label: str) -> None:
    """Raise where `DOKIMOS_OFFLINE` is set and the URL is not on this machine."""
    if is_local(url) or os.environ.get(OFFLINE, "") in ("", "0"):
        return
    raise JudgeUnavailableError(
        f"{label}: {shown_url(url)} was not called because {OFFLINE} is set; unset it, or replay a cassette."
    )


@cache
def is_local(url: str) -> bool:
    """Say whether a URL stays on this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
