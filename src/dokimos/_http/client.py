"""Calls to models: sends JSON and retries through rate limits (429), failures and cut connections.

Each attempt passes three things that all calls to an endpoint share: its `Breaker` (is it down?), its
`Throttle` (how many at once, how fast?) and its open connections. `Retries` belongs to one call and says how
long to wait before the next attempt.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urljoin

from dokimos._core.json_parsing import parse_json
from dokimos._http.address_policy import AddressPolicy, current_address_policy
from dokimos._http.answer import Answer, Forbidden, NoAnswer, Oversized, Unsendable
from dokimos._http.backoff import rate_limit_pause, retry_after
from dokimos._http.body import LIMIT_VARIABLE, max_reply_bytes
from dokimos._http.breaker import Breaker, FailureKind, current_breakers
from dokimos._http.credentials import Secret, redact, redact_credentials, redact_url
from dokimos._http.offline import refuse_when_offline
from dokimos._http.refusal import (
    JSON_ERRORS,
    ErrorReply,
    RequestRefused,
    excerpt_of_content,
    find_error_reply,
    find_status,
    format_status,
    parse_error_reply,
)
from dokimos._http.repeats import ask_before_repeat
from dokimos._http.retries import ATTEMPTS, Retries
from dokimos._http.throttle import Limits, Throttle
from dokimos.errors import JudgeUnavailableError

if TYPE_CHECKING:
    from dokimos._http.session import Session

_DENIED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_OVERLOADED: Final = frozenset({HTTPStatus.SERVICE_UNAVAILABLE, 529})
_OUTCOME_UNKNOWN: Final = frozenset({408, 502, 504, 520, 524})
"""What gateways answer for a model that was too slow for them, or was cut off: it may have answered."""
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


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
    most_bytes: int = field(default_factory=max_reply_bytes)
    """The most bytes of an answer, decompressed."""
    policy: AddressPolicy | None = None
    """Where requests may go; None for what the context says."""
    owner: str = ""
    """Whose connections and limits they use: those of others at the same URL are apart."""

    @property
    def endpoint_key(self) -> tuple[str, str, AddressPolicy | None]:
        """What tells its endpoint from others."""
        return (self.base_url, self.owner, self.policy or current_address_policy())


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
    refuse_when_offline(target.base_url, target.label)
    endpoint = _find_endpoint(target) or await _open_endpoint(target)
    breaker = _breaker_of(target, secrets)
    call = _ModelCall(endpoint, breaker, target, url, content, headers, secrets, tokens)
    try:
        while True:
            if breaker.is_failing:
                await breaker.admit()
            if call.may_be_billed:
                call.may_be_billed = False
                await ask_before_repeat()
            outcome = await call.attempt()
            if isinstance(outcome, Reply):
                return outcome
            if outcome:
                await breaker.sleep(outcome)
    except JudgeUnavailableError as error:
        error.may_be_billed = call.may_be_billed
        raise


def error_of_refusal(
    target: Target, refusal: RequestRefused, secrets: tuple[Secret, ...]
) -> JudgeUnavailableError:
    """Return the error for a refusal that taught nothing.

    Credentials that an endpoint never accepted are its fault, and count for its circuit breaker.
    """
    breaker = _breaker_of(target, secrets)
    if refusal.status not in _DENIED or breaker.has_answered:
        breaker.record_contact()
        error = JudgeUnavailableError(str(refusal))
    else:
        cause = str(refusal).removeprefix(f"{target.label}: ")
        breaker.record_failure(FailureKind.DENIED, cause, started=refusal.sent_at)
        error = breaker.error(str(refusal))
    error.status = refusal.status
    return error


def _breaker_of(target: Target, secrets: tuple[Secret, ...]) -> Breaker:
    return current_breakers().of((target.base_url, target.label, secrets), target.label)


def tokens_used(target: Target, tokens: int, *, estimate: int) -> None:
    """Correct the estimate that `post_json` was given, where there is a ceiling on tokens."""
    if target.limits.tokens_per_minute is None:
        return
    endpoints = _endpoints.get(asyncio.get_running_loop())
    endpoint = None if endpoints is None else endpoints.by_key.get(target.endpoint_key)
    if endpoint is not None:
        endpoint.throttle.pace.correct_estimate(tokens, estimate)


async def close_sessions() -> None:
    """Close the connections of this event loop that are not in use; the next request opens new ones.

    They are closed by themselves where the loop is ended by `asyncio.run` or by dokimos.
    """
    endpoints = _endpoints.get(asyncio.get_running_loop())
    for endpoint in [] if endpoints is None else list(endpoints.by_key.values()):
        if not endpoint.throttle.in_flight:
            await endpoint.close()


class _ModelCall:
    """One call, from its first attempt to its last."""

    __slots__ = (
        "_breaker",
        "_content",
        "_endpoint",
        "_headers",
        "_retries",
        "_secrets",
        "_target",
        "_tokens",
        "_url",
        "may_be_billed",
    )  # fmt: skip

    def __init__(
        self,
        endpoint: _Endpoint,
        breaker: Breaker,
        target: Target,
        url: str,
        content: bytes,
        headers: Mapping[str, str],
        secrets: tuple[Secret, ...],
        tokens: int,
    ) -> None:
        self._endpoint = endpoint
        self._breaker = breaker
        self._target = target
        self._url = url
        self._content = content
        self._headers = headers
        self._secrets = secrets
        self._tokens = tokens
        self._retries = Retries(breaker, attempts=target.attempts, timeout=target.timeout)
        self.may_be_billed = False
        """Whether the last attempt was sent and had no answer that says what became of it."""

    async def attempt(self) -> Reply | float:
        """Return the reply, or the seconds to wait before the next attempt."""
        throttle = self._endpoint.throttle
        round_sent = await throttle.acquire(self._tokens)
        start = time.perf_counter()
        self._retries.begin()
        try:
            session = self._endpoint.session()
            answer = await session.send(
                "POST",
                self._url,
                self._content,
                self._headers,
                self._target.timeout,
                most=self._target.most_bytes,
            )
            latency_ms = (time.perf_counter() - start) * 1000
            # Before anything parses it or quotes it in an error: some servers echo the request's key.
            redacted = redact_credentials(answer.content, self._secrets)
            if redacted is not answer.content:
                answer = answer._replace(content=redacted)
            return self._read_answer(answer, latency_ms, round_sent)
        except Unsendable as fault:
            raise JudgeUnavailableError(self._message(f"the request cannot be sent ({fault})")) from None
        except Forbidden as fault:
            raise JudgeUnavailableError(self._message(f"the request was not sent: its URL {fault}")) from None
        except Oversized:
            self.may_be_billed = True
            raise JudgeUnavailableError(self._message(self._too_large())) from None
        except NoAnswer as failure:
            self.may_be_billed = not failure.unsent
            if failure.timed_out:
                # A server that takes too long is overloaded, as one that answers 503.
                throttle.on_overload(round_sent, retry_after=None, rate_limited=False)
            return self._retry_delay(
                str(failure), FailureKind.UNREACHABLE if failure.unsent else FailureKind.SERVER_ERROR
            )
        finally:
            throttle.release()

    def _too_large(self) -> str:
        megabytes = f"{self._target.most_bytes / 2**20:g} MB"
        return f"the answer is larger than {megabytes}; max_reply_mb or {LIMIT_VARIABLE} allows more"

    def _read_answer(self, answer: Answer, latency_ms: float, round_sent: int) -> Reply | float:
        throttle = self._endpoint.throttle
        if 200 <= answer.status < 300:
            try:
                data = parse_json(answer.content)
            except JSON_ERRORS:
                self.may_be_billed = True
                content_excerpt = excerpt_of_content(answer.content) or "it is empty"
                return self._retry_delay(
                    f"the answer is not JSON: {content_excerpt}", FailureKind.SERVER_ERROR
                )
            status = find_status(data)  # gateways send errors with status 200
            if status is None:
                throttle.on_success(round_sent)
                self._breaker.record_success()
                self._look_ahead(answer.headers)
                return Reply(data, latency_ms)
            return self._retry_refusal(status, find_error_reply(data), answer.headers, round_sent)
        return self._retry_refusal(answer.status, self._parse_refusal(answer), answer.headers, round_sent)

    def _parse_refusal(self, answer: Answer) -> ErrorReply:
        if answer.status in _REDIRECTS and "Location" in answer.headers:
            with contextlib.suppress(ValueError):  # it is not a URL
                new_url = redact_url(urljoin(self._url, answer.headers["Location"]))
                return ErrorReply(f"the API is at {new_url} instead; give the base_url that leads there")
        return parse_error_reply(answer.content)

    def _look_ahead(self, headers: Mapping[str, str]) -> None:
        pause = rate_limit_pause(headers, self._endpoint.throttle.in_flight)
        if pause:
            self._endpoint.throttle.pace.pause(pause)

    def _retry_refusal(
        self, status: int, error_reply: ErrorReply, headers: Mapping[str, str], round_sent: int
    ) -> float:
        reason = f"{format_status(status)}: {error_reply.message or 'no message'}"
        self.may_be_billed = status in _OUTCOME_UNKNOWN
        if not error_reply.is_retryable(status):
            raise RequestRefused(
                self._message(reason), status=status, error_reply=error_reply, sent_at=self._retries.sent_at
            )
        # Of an application under test, a 500 is an answer to this request, and a retry would hide its bug.
        if status == HTTPStatus.INTERNAL_SERVER_ERROR and self._target.is_application:
            self._breaker.record_contact()
            raise JudgeUnavailableError(self._message(reason))
        wait = retry_after(headers)
        limited = status == HTTPStatus.TOO_MANY_REQUESTS
        if limited or status in _OVERLOADED:
            self._endpoint.throttle.on_overload(round_sent, retry_after=wait, rate_limited=limited)
        return self._retry_delay(
            reason, FailureKind.RATE_LIMITED if limited else FailureKind.SERVER_ERROR, wait
        )

    def _retry_delay(self, reason: str, kind: FailureKind, wait: float | None = None) -> float:
        """Return the seconds to wait before the next attempt. Raises when there is none."""
        return self._retries.next_delay(kind, redact(reason, self._secrets), wait)

    def _message(self, problem: str) -> str:
        return redact(f"{self._target.label}: {problem}", self._secrets)


class _Endpoint:
    """The connections to one endpoint from one event loop, and its throttle."""

    def __init__(self, base_url: str, policy: AddressPolicy | None) -> None:
        self.throttle = Throttle()
        self._base_url = base_url
        self._policy = policy
        self._session: Session | None = None

    def session(self) -> Session:
        """Return the connections, new ones where the last have been closed."""
        if self._session is None:
            from dokimos._http.session import Session

            # A policy is for addresses that others have entered.
            self._session = Session(self._base_url, self._policy, is_of_stranger=self._policy is not None)
        return self._session

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


class _LoopEndpoints:
    """All endpoints that one event loop calls; closed when the loop ends."""

    def __init__(self) -> None:
        self.by_key: dict[tuple[str, str, AddressPolicy | None], _Endpoint] = {}
        self.closing: AsyncGenerator[None, None] | None = None

    async def close_at_end(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None, None]:
        """Wait, as a generator, for the loop to shut its generators down: that is when it ends."""
        try:
            yield
        finally:
            _endpoints.pop(loop, None)
            for endpoint in self.by_key.values():
                await endpoint.close()


_endpoints: dict[asyncio.AbstractEventLoop, _LoopEndpoints] = {}


def _find_endpoint(target: Target) -> _Endpoint | None:
    """Return what this event loop has open for a target, None where it has not called it yet."""
    endpoints = _endpoints.get(asyncio.get_running_loop())
    if endpoints is None:
        return None
    endpoint = endpoints.by_key.get(target.endpoint_key)
    if endpoint is not None:
        endpoint.throttle.apply_limits(target.limits)
    return endpoint


async def _open_endpoint(target: Target) -> _Endpoint:
    loop = asyncio.get_running_loop()
    endpoints = _endpoints.get(loop) or await _register_loop(loop)
    key = target.endpoint_key
    endpoint = endpoints.by_key.setdefault(key, _Endpoint(target.base_url, key[-1]))
    endpoint.throttle.apply_limits(target.limits)
    return endpoint


async def _register_loop(loop: asyncio.AbstractEventLoop) -> _LoopEndpoints:
    # Whoever closes a loop by hand does not shut its generators down, and its entry stays.
    for other in [each for each in _endpoints if each.is_closed()]:
        _endpoints.pop(other, None)
    endpoints = _endpoints[loop] = _LoopEndpoints()
    endpoints.closing = endpoints.close_at_end(loop)
    # A loop shuts down only the asynchronous generators that have begun.
    await anext(endpoints.closing)
    return endpoints
