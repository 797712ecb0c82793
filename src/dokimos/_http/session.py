"""The connections to one endpoint; the only module that knows aiohttp."""

from __future__ import annotations

import io
import os
import urllib.request
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from dokimos._http.answer import Answer, NoAnswer, Oversized, Unsendable
from dokimos._http.body import ENCODINGS, TooLarge, Undecodable, read_body

CONNECT_SECONDS: Final = 15.0
_FIRST_ERROR: Final = 400
_LARGE: Final = 2**20
"""aiohttp wants a larger body as a file."""


class Session:
    """Keeps the connections to one endpoint open."""

    def __init__(self, url: str) -> None:
        # The throttle limits connections. Not `trust_env`, which would also send passwords from ~/.netrc.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept-Encoding": ENCODINGS},
            auto_decompress=False,  # which knows no limit
            proxy=_proxy_for(url),
        )
        self._urls: dict[str, URL] = {}
        self._timeouts: dict[float, aiohttp.ClientTimeout] = {}

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], seconds: float, *, most: int
    ) -> Answer:
        """Send a request and read its whole answer, of `most` bytes.

        Raises `NoAnswer`, `Unsendable` or `Oversized`.
        """
        data = body if len(body) < _LARGE else io.BytesIO(body)
        try:
            async with self._session.post(
                self._url(url),
                data=data,
                headers=headers,
                timeout=self._timeout(seconds),
                # A redirected POST becomes a GET, and takes the key along to wherever the server says.
                allow_redirects=False,
            ) as response:
                return Answer(response.status, response.headers, await _read_content(response, most))
        except aiohttp.ClientConnectorError as error:
            raise NoAnswer(_explain_error(error), unsent=True) from error
        # A TimeoutError too, and must come before it: nothing was sent.
        except aiohttp.ConnectionTimeoutError:
            address = self._url(url)
            waited = f"within {min(CONNECT_SECONDS, seconds):g} s"
            raise NoAnswer(f"cannot connect to {address.host}:{address.port} {waited}", unsent=True) from None
        except Undecodable as fault:
            raise NoAnswer(f"the answer cannot be decompressed ({fault})") from None
        except TimeoutError:
            raise NoAnswer(f"no answer within {seconds:g} s", timed_out=True) from None
        except (aiohttp.ClientError, OSError) as error:
            raise NoAnswer(_explain_error(error)) from error
        except ValueError as error:
            raise Unsendable(_explain_unsendable(error)) from None

    async def close(self) -> None:
        await self._session.close()

    def _url(self, url: str) -> URL:
        parsed = self._urls.get(url)
        if parsed is None:
            parsed = self._urls[url] = URL(url)
        return parsed

    def _timeout(self, seconds: float) -> aiohttp.ClientTimeout:
        timeout = self._timeouts.get(seconds)
        if timeout is None:
            connect = min(CONNECT_SECONDS, seconds)
            timeout = aiohttp.ClientTimeout(total=seconds, connect=connect, sock_connect=connect)
            self._timeouts[seconds] = timeout
        return timeout


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
        raise Unsendable(f"the proxy that the environment names speaks {proxy.scheme}, not HTTP")
    return proxy


def _explain_unsendable(error: ValueError) -> str:
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
