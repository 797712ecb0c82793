"""The connections to one endpoint; the only module that knows aiohttp."""

from __future__ import annotations

import io
import os
import socket
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from dokimos._http.address_policy import AddressPolicy
from dokimos._http.answer import Answer, Cause, Forbidden, NoAnswer, Oversized, Unsendable
from dokimos._http.body import ENCODINGS, TooLarge, Undecodable, decode_body, read_body
from dokimos._http.deadlines import Deadlines
from dokimos._http.name_lookup import NameLookup

CONNECT_SECONDS: Final = 15.0
_FIRST_GOOD: Final = 200
_FIRST_ELSEWHERE: Final = 300
_FIRST_ERROR: Final = 400
_MAX_CACHED_URLS: Final = 256
_MAX_CACHED_LIMITS: Final = 64
_LOOKUPS: Final = NameLookup(64)
_STRANGE_LOOKUPS: Final = NameLookup(64)
"""For names that anybody may have entered, such as those of webhooks: they keep no others waiting. Webhooks
that fail are called four at a time for five seconds each, so at most 48 names hang for a minute."""
_STREAMED_FROM_BYTES: Final = 2**20
"""aiohttp wants a larger body as a file."""


class _Request(
    AbstractAsyncContextManager[aiohttp.ClientResponse], Awaitable[aiohttp.ClientResponse], Protocol
):
    """What aiohttp returns of a request: the response, awaited, or a context that releases it."""


class Session:
    """Keeps the connections to one endpoint open.

    Args:
        url: The endpoint; the proxy for it is looked up in the environment.
        policy: Where requests may go, None for anywhere. Requests under a policy use no proxy, which would
            resolve the host by itself.
        is_of_stranger: Whether anybody may have entered the URL: its name is looked up apart from others.
    """

    def __init__(
        self, url: str, policy: AddressPolicy | None = None, *, is_of_stranger: bool = False
    ) -> None:
        self._policy = policy
        lookups = _LookupResolver(_STRANGE_LOOKUPS if is_of_stranger else _LOOKUPS)
        resolver = None if policy is None else PolicyResolver(policy, lookups)
        # The throttle limits connections. Not `trust_env`, which would also send passwords from ~/.netrc.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300, resolver=resolver),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": ENCODINGS},
            auto_decompress=False,  # which knows no limit
            proxy=_proxy_for(url) if policy is None else None,
        )
        self._urls: dict[str, URL] = {}
        self._limits: dict[float, tuple[aiohttp.ClientTimeout, Deadlines]] = {}
        """By seconds: the limits of making a connection, and of all of a request."""

    async def send(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str],
        seconds: float,
        *,
        most: int,
    ) -> Answer:
        """Send a request and read its whole answer, of `most` bytes.

        Raises `NoAnswer`, `Unsendable`, `Forbidden` or `Oversized`.
        """
        timeout, deadlines = self._limits.get(seconds) or self._add_limits(seconds)
        try:
            with deadlines.limit_time():
                # Not as a context manager, which would release once more what is released at its end.
                response = await self._request(method, url, body, headers, timeout)
                try:
                    content = await _read_content(response, most)
                except BaseException:
                    response.close()
                    raise
                return Answer(response.status, response.headers, content)
        except (aiohttp.ClientError, Undecodable, OSError, ValueError) as error:
            raise self._translate(error, url, seconds) from (
                error if isinstance(error, aiohttp.ClientError) else None
            )

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        seconds: float,
        connect_seconds: float,
    ) -> Answer:
        """Send a request and return status and headers of the answer, whose body is not read.

        Raises `NoAnswer`, `Unsendable` or `Forbidden`.
        """
        timeout = aiohttp.ClientTimeout(total=seconds, connect=connect_seconds, sock_connect=connect_seconds)
        try:
            async with self._request("POST", url, body, headers, timeout) as response:
                response.close()  # the connection with it: nobody waits for the rest
                return Answer(response.status, response.headers, b"")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise self._translate(error, url, seconds, connect_seconds) from (
                error if isinstance(error, aiohttp.ClientError) else None
            )

    async def download(
        self,
        url: str,
        headers: Mapping[str, str],
        seconds: float,
        *,
        most: int,
        write: Callable[[bytes], object],
    ) -> Answer:
        """Pass an answer on as it comes, of `most` bytes; that of an error is returned instead.

        `seconds` limits each wait for the next piece, not the whole. What `write` raises must not be an
        `OSError`, which would count as one of the connection. Raises as `send` does.
        """
        connect = min(CONNECT_SECONDS, seconds)
        timeout = aiohttp.ClientTimeout(total=None, connect=connect, sock_connect=connect, sock_read=seconds)
        try:
            async with self._request("GET", url, None, headers, timeout) as response:
                if not _is_good(response.status):
                    return Answer(response.status, response.headers, await _read_content(response, most))
                encoding = response.headers.get("Content-Encoding", "")
                async with aclosing(decode_body(response.content.iter_any(), encoding, most)) as parts:
                    async for part in parts:
                        write(part)
                return Answer(response.status, response.headers, b"")
        except TooLarge:
            raise Oversized from None
        except (aiohttp.ClientError, Undecodable, OSError, ValueError) as error:
            raise self._translate(error, url, seconds) from (
                error if isinstance(error, aiohttp.ClientError) else None
            )

    async def close(self) -> None:
        for _, deadlines in self._limits.values():
            deadlines.close()
        await self._session.close()

    def _request(
        self,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
    ) -> _Request:
        place = self._url(url)
        if self._policy is not None:
            _check_host(self._policy, place)
        data = body if body is None or len(body) < _STREAMED_FROM_BYTES else io.BytesIO(body)
        return self._session.request(
            method,
            place,
            data=data,
            headers=headers,
            timeout=timeout,
            # A redirected POST may become a GET, and takes the key along to wherever the server says.
            allow_redirects=False,
        )

    def _translate(
        self, error: Exception, url: str, seconds: float, connect_seconds: float = CONNECT_SECONDS
    ) -> Exception:
        """Return the error of ours for one of the connection."""
        if isinstance(error, aiohttp.ClientConnectorError):
            return NoAnswer(_explain_error(error), unsent=True, cause=_cause_of(error))
        # A TimeoutError too, and must come before it: nothing was sent.
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            place = self._url(url)
            waited = f"within {min(connect_seconds, seconds):g} s"
            reason = f"cannot connect to {place.host}:{place.port} {waited}"
            return NoAnswer(reason, unsent=True, cause=Cause.TIME)
        if isinstance(error, Undecodable):
            return NoAnswer(f"the answer cannot be decompressed ({error})", cause=Cause.CONTENT)
        if isinstance(error, TimeoutError):
            return NoAnswer(f"no answer within {seconds:g} s", timed_out=True, cause=Cause.TIME)
        if isinstance(error, aiohttp.ClientError | OSError):
            return NoAnswer(_explain_error(error), cause=_cause_of(error))
        return Unsendable(_explain_unsendable(error))

    def _url(self, url: str) -> URL:
        parsed = self._urls.get(url)
        if parsed is None:
            if len(self._urls) >= _MAX_CACHED_URLS:
                self._urls.clear()
            parsed = self._urls[url] = URL(url)
        return parsed

    def _add_limits(self, seconds: float) -> tuple[aiohttp.ClientTimeout, Deadlines]:
        if len(self._limits) >= _MAX_CACHED_LIMITS:
            self._limits.clear()  # those that are in use go on
        connect = min(CONNECT_SECONDS, seconds)
        timeout = aiohttp.ClientTimeout(total=None, connect=connect, sock_connect=connect)
        limits = self._limits[seconds] = timeout, Deadlines(seconds)
        return limits


class PolicyResolver(aiohttp.abc.AbstractResolver):
    """Resolves names to addresses that a policy allows; the connection goes to these very addresses."""

    def __init__(self, policy: AddressPolicy, resolver: aiohttp.abc.AbstractResolver | None = None) -> None:
        self._policy = policy
        self._resolver = resolver or _LookupResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[aiohttp.abc.ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        fault = self._policy.find_resolved_fault(host, port, [each["host"] for each in found])
        if fault is not None:
            raise Forbidden(fault)
        return found

    async def close(self) -> None:
        await self._resolver.close()


class _LookupResolver(aiohttp.abc.AbstractResolver):
    """Resolves names in threads of its own.

    Under a policy, names come from others. One whose name server never answers keeps a thread for minutes; a
    few of them must not keep those that everything else in the process shares (`asyncio.to_thread`).
    """

    def __init__(self, lookup: NameLookup = _LOOKUPS) -> None:
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[aiohttp.abc.ResolveResult]:
        found = await self._lookup.look_up(host, port, family)
        return [
            aiohttp.abc.ResolveResult(
                hostname=host,
                host=_with_scope(address),
                port=port,
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        pass


def _with_scope(address: tuple[Any, ...]) -> str:
    """An address as text, a link-local one of IPv6 with its interface."""
    host = str(address[0])
    return f"{host}%{address[3]}" if len(address) > 3 and address[3] and "%" not in host else host


def _check_host(policy: AddressPolicy, url: URL) -> None:
    """Raise `Forbidden` where a policy forbids the address that a URL names, which is not resolved."""
    # Of the URL object that is sent, so that no second parser can read another host.
    fault = policy.find_host_fault(url.raw_host or "", url.port or 0)
    if fault is not None:
        raise Forbidden(fault)


def _is_good(status: int) -> bool:
    return _FIRST_GOOD <= status < _FIRST_ELSEWHERE


async def _read_content(response: aiohttp.ClientResponse, most: int) -> bytes:
    """Read an answer; of an error that is too large only the beginning."""
    encoding = response.headers.get("Content-Encoding", "")
    length = response.content_length
    if not encoding and length is not None and length <= most:
        return await response.read()
    try:
        return await read_body(response.content.iter_any(), encoding, most)
    except TooLarge as large:
        response.close()  # the rest is not wanted
        if response.status < _FIRST_ERROR:
            raise Oversized from None
        return large.beginning


def _proxy_for(url: str) -> URL | None:
    """Return the proxy that the environment or the system names for a URL. Raises `Unsendable`."""
    parts = urlsplit(url)
    proxies = urllib.request.getproxies()
    named = proxies.get(parts.scheme) or proxies.get("all")
    if not named or any(map(urllib.request.proxy_bypass, (parts.hostname or "", parts.netloc))):
        return None
    try:
        proxy = URL(named if "://" in named else f"http://{named}")
    except ValueError:
        raise Unsendable("the proxy that the environment names is not a URL") from None
    if proxy.scheme not in ("http", "https"):
        raise Unsendable(
            f"the proxy that the environment names speaks {proxy.scheme}; only HTTP proxies are supported"
        )
    return proxy


def _cause_of(error: Exception) -> Cause:
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return Cause.NAME
    if isinstance(error, aiohttp.ClientSSLError):
        return Cause.TLS
    return Cause.CONTENT if isinstance(error, aiohttp.ClientResponseError) else Cause.CONNECTION


def _explain_unsendable(error: Exception) -> str:
    if "credentials encoded in URL" in str(error):
        return "its URL holds a user and password, which go into the same header as the key; leave one out"
    return str(error)


def _explain_connection_error(error: aiohttp.ClientConnectorError) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return str(error.certificate_error)
    system = error.os_error
    if isinstance(system, ConnectionError) and system.errno:
        return os.strerror(system.errno)  # without the address once more
    return system.strerror or str(system)


def _explain_error(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        address = f"{error.host}:{error.port}"  # the proxy's, where there is one
        return f"cannot connect to {address} ({_explain_connection_error(error)})"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy refuses with {error.status} {error.message}"
    if isinstance(error, aiohttp.ClientResponseError):  # the status that it has is not the server's
        return f"the answer cannot be read as HTTP ({' '.join(error.message.split())})"
    text = str(error)
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError | ConnectionError):
        return "the connection was cut"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
