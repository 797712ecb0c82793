"""HTTP/1.1 as uvicorn reads it, except that a request which offers another protocol keeps its body."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from dokimos.server._api.event_stream import ABORT
from dokimos.server._api.http.error_responses import error_response

_MAX_HEAD_BYTES: Final = 64 * 1024
"""Of the request line and the headers, as other servers have it; what is read at once may be more."""

_MAX_ADDRESS_BYTES: Final = 2**16 - 1
"""Of the request line alone, where all of it came at once; the parser reads no longer one."""


class IgnoreUpgradeProtocol(HttpToolsProtocol):
    """Ignores `Upgrade`, as RFC 9110 (section 7.8) lets a server do.

    The HTTP client of the JVM offers `h2c` with each first request over plain HTTP, also with a POST. The
    parser of uvicorn ends such a request after its headers and takes what follows for the other protocol: the
    body would be lost. Here a second parser goes on where the first one stopped.
    """

    _goes_on = False
    """Whether the parser is being told about headers that were handled already."""
    _reads_head = False
    _head_bytes = 0
    """Bytes that arrived of a head that is not complete."""
    _head_deadline: asyncio.TimerHandle | None = None
    """When the connection is closed unless a head has arrived."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's
        super().connection_made(transport)
        self._expect_head(self.timeout_keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_expecting_head()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.timeout_keep_alive_task is not None:  # no other request waits behind this one
            # Idle it is closed sooner. This is for what drips: another head, or a body that nobody reads.
            self._expect_head(2 * self.timeout_keep_alive)

    def _expect_head(self, seconds: float) -> None:
        self._stop_expecting_head()
        self._head_deadline = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def _stop_expecting_head(self) -> None:
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._head_bytes > _MAX_HEAD_BYTES:
            return  # refused already; the connection is about to close
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
                self._go_on_after_headers()
                continue
            except httptools.HttpParserError:
                self.send_400_response("Invalid HTTP request received.")
            break
        if self._reads_head:
            self._count_head(len(data))

    def _count_head(self, size: int) -> None:
        """Refuse a head without end: the parser would keep it in memory as long as it grows."""
        self._head_bytes += size
        if self._head_bytes > _MAX_HEAD_BYTES and not self.transport.is_closing():
            size = _MAX_HEAD_BYTES // 1024
            self._refuse(431, f"The address and the headers of a request may have {size} KiB together.")

    def send_400_response(self, msg: str) -> None:
        if len(self.url or b"") > _MAX_ADDRESS_BYTES:
            self._refuse(431, f"The address is longer than {_MAX_ADDRESS_BYTES} bytes.")
        else:
            self._refuse(400, "This is not a request of HTTP/1.1.")

    def _refuse(self, status: int, message: str) -> None:
        """Answer in the form of all errors, and close the connection: what follows has no known beginning."""
        response = error_response(status, message, {"Connection": "close"})
        fields = b"".join(b"%s: %s\r\n" % field for field in response.raw_headers)
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()
        self.transport.write(head + fields + b"\r\n" + bytes(response.body))
        self.transport.close()

    def _go_on_after_headers(self) -> None:
        framing = [
            b"%s: %s\r\n" % (name, value)
            for name, value in self.headers
            if name in (b"content-length", b"transfer-encoding")
        ]
        self.parser = httptools.HttpRequestParser(self)
        self._goes_on = True
        try:
            self.parser.feed_data(b"POST / HTTP/1.1\r\n" + b"".join(framing) + b"\r\n")
        finally:
            self._goes_on = False

    def on_message_begin(self) -> None:
        if not self._goes_on:
            self._reads_head, self._head_bytes = True, 0
            super().on_message_begin()
            self.scope["extensions"] = {ABORT: self.transport.abort}  # type: ignore[dict-item] # ours

    def on_url(self, url: bytes) -> None:
        if not self._goes_on:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._goes_on:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if not self._goes_on:
            self._reads_head = False
            self._stop_expecting_head()
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        # The first parser calls this after the headers; the body is still to come.
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def _should_upgrade(self) -> bool:
        return False
