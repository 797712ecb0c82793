"""Read the body of a response as a stream, up to a limit that also holds after decompression."""

from __future__ import annotations

import os
import zlib
from collections.abc import AsyncGenerator, AsyncIterable
from typing import Final

from dokimos.errors import ConfigurationError

DEFAULT_MEGABYTES: Final = 16.0
LIMIT_VARIABLE: Final = "DOKIMOS_MAX_REPLY_MB"
ENCODINGS: Final = "gzip, deflate"
"""What we accept and can decode."""
MOST_MEMBERS: Final = 1000
"""Compressed streams in one answer: empty ones take time, and never reach the limit on its size."""
_MEGABYTE: Final = 2**20
_DEFLATE: Final = 8
_GZIP_BITS: Final = 16 + zlib.MAX_WBITS


class TooLarge(Exception):
    """An answer is larger than is allowed; `beginning` is what was read of it."""

    def __init__(self, beginning: bytes = b"") -> None:
        self.beginning = beginning
        super().__init__()


class Undecodable(Exception):
    """An answer is not compressed as it says."""


def max_reply_bytes(megabytes: float | None = None) -> int:
    """Return the most bytes of an answer: as given, as the environment says, or 16 MB.

    Raises:
        ConfigurationError: where the environment gives no number above 0.
    """
    if megabytes is not None:
        return int(megabytes * _MEGABYTE)
    text = os.environ.get(LIMIT_VARIABLE)
    if not text:
        return int(DEFAULT_MEGABYTES * _MEGABYTE)
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ConfigurationError(f"{LIMIT_VARIABLE} must be a number above 0, not {text!r:.80}.")
    return int(value * _MEGABYTE)


async def read_body(chunks: AsyncIterable[bytes], encoding: str, most: int) -> bytes:
    """Read an answer to its end and decompress it on the way.

    Args:
        chunks: What comes over the line.
        encoding: The header `Content-Encoding`.
        most: The bytes that it may have, before and after decompression.

    Raises:
        TooLarge: as soon as it has more.
        Undecodable: where it is not encoded as it says.
    """
    parts: list[bytes] = []
    try:
        async for part in decode_body(chunks, encoding, most):
            parts.append(part)
    except TooLarge:
        raise TooLarge(b"".join(parts)) from None
    return b"".join(parts)


async def decode_body(chunks: AsyncIterable[bytes], encoding: str, most: int) -> AsyncGenerator[bytes, None]:
    """Decompress an answer as it comes. Arguments and errors are those of `read_body`."""
    decoder = _decoder_of(encoding, most)
    received = 0
    async for chunk in chunks:
        received += len(chunk)
        if received > most:
            raise TooLarge
        yield chunk if decoder is None else decoder.decode(chunk)
    if decoder is not None:
        decoder.end()


def _decoder_of(encoding: str, most: int) -> _Decoder | None:
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return None
    if name in ("gzip", "x-gzip", "deflate"):
        return _Decoder(name, most)
    raise Undecodable(f"it is encoded as {name[:40]!r}, which was not requested")


class _Decoder:
    """Decompresses no further than to the limit, however little it takes to say much."""

    def __init__(self, name: str, most: int) -> None:
        self._name = name
        self._left = most
        self._members = 0
        self._stream: zlib._Decompress | None = None

    def decode(self, data: bytes) -> bytes:
        parts = []
        try:
            while data:
                stream = self._stream or self._next(data)
                # One byte more than is left tells "exactly at the limit" from "above it".
                part = stream.decompress(data, self._left + 1)
                self._left -= len(part)
                if self._left < 0:
                    raise TooLarge
                parts.append(part)
                data = stream.unconsumed_tail
                if stream.eof:
                    data, self._stream = stream.unused_data, None
        except zlib.error:
            raise Undecodable(f"it is not valid {self._name}") from None
        return b"".join(parts)

    def end(self) -> None:
        """Raise where the last stream is not whole."""
        if self._stream is not None:
            raise Undecodable("it is cut off")

    def _next(self, data: bytes) -> zlib._Decompress:
        self._members += 1
        if self._members > MOST_MEMBERS:
            raise Undecodable("it has too many parts")
        bits = _GZIP_BITS
        if self._name == "deflate":  # with or without the header that it should have
            bits = zlib.MAX_WBITS if data[0] & 0x0F == _DEFLATE else -zlib.MAX_WBITS
        self._stream = zlib.decompressobj(bits)
        return self._stream
