"""HTTP/1.1 as uvicorn reads it, except that a request which offers another protocol keeps its body."""

from __future__ import annotations

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class IgnoreUpgradeProtocol(HttpToolsProtocol):
    """Ignores `Upgrade`, as RFC 9110 (section 7.8) lets a server do.

    The HTTP client of the JVM offers `h2c` with each first request over plain HTTP, also with a POST. The
    parser of uvicorn ends such a request after its headers and takes what follows for the other protocol: the
    body would be lost. Here a second parser goes on where the first one stopped.
    """

    _goes_on = False
    """Whether the parser is being told about headers that were handled already."""

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
                self._go_on_after_headers()
                continue
            except httptools.HttpParserError:
                self.send_400_response("Invalid HTTP request received.")
            return

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
            super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        if not self._goes_on:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._goes_on:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if not self._goes_on:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        # The first parser calls this after the headers; the body is still to come.
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def _should_upgrade(self) -> bool:
        return False
