"""Read the body of a request: its size, its compression, its content type."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncIterator
from typing import Final

from starlette.requests import ClientDisconnect, Request

from dokimos.server._api.http.admission import LongKind, slot_of
from dokimos.server._services.errors import (
    BodyTooLargeError,
    InvalidRequestError,
    SlowBodyError,
    UnsupportedMediaError,
)
from dokimos.server._settings import MEBIBYTE, ServerSettings

_WINDOW_BITS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_UPLOAD_BYTES: Final = MEBIBYTE
"""Bytes beyond which a body is an upload: of those, few are received at once."""


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body, decompressed.

    Raises:
        BodyTooLargeError: It is larger than `limit` bytes, before or after decompression.
        InvalidRequestError: It is cut off, or not what its Content-Encoding says.
    """
    return b"".join([part async for part in stream_body(request, limit, LongKind.BODY)])


async def stream_body(request: Request, limit: int, kind: LongKind = LongKind.UPLOAD) -> AsyncIterator[bytes]:
    """Yield the body piece by piece, decompressed; raises what `read_body` raises."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limit:
        raise _too_large(limit)
    unpack = _decompressor(request.headers.get("content-encoding", "").strip().lower())
    if length.isdecimal() and int(length) > _UPLOAD_BYTES:
        await slot_of(request).turn_into(kind)
    size = received = 0
    try:
        async for chunk in _chunks(request):
            received += len(chunk)
            part = chunk if unpack is None else unpack.feed(chunk, limit - size + 1)
            size += len(part)
            if size > limit or received > limit:  # chunk by chunk: a bomb of gzip never grows in memory
                raise _too_large(limit)
            if size > _UPLOAD_BYTES:
                await slot_of(request).turn_into(kind)
            yield part
    except TimeoutError:
        raise SlowBodyError("The body of the request did not arrive in time, or too slowly") from None
    except ClientDisconnect:
        raise InvalidRequestError(
            "Malformed request body: the connection ended before the body did"
        ) from None
    if unpack is not None:
        unpack.finish()


async def _chunks(request: Request) -> AsyncIterator[bytes]:
    """The parts of the body as they arrive.

    Raises:
        TimeoutError: Nothing arrived for as long as an idle connection is kept, or so little over a longer
            time that the body could take for ever. Only the time in which the server waited counts.
    """
    settings: ServerSettings = request.app.state.settings
    patience = allowance = settings.keep_alive
    stream = request.stream()
    while True:
        began = time.monotonic()
        async with asyncio.timeout(min(patience, allowance)):
            chunk = await anext(stream, None)
        if chunk is None:
            return
        if settings.min_body_rate:
            allowance += len(chunk) / settings.min_body_rate - (time.monotonic() - began)
        yield chunk


def check_is_json(request: Request, *, has_bearer: bool) -> None:
    """Refuse a body that is not declared as JSON, where a browser could have been made to send it.

    A form of another site can send text with the user's cookie, but neither this content type nor a bearer
    key.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type == "application/json" or content_type.endswith("+json") or has_bearer:
        return
    raise UnsupportedMediaError("Send the body with 'Content-Type: application/json'.")


class _Decompressor:
    """Gzip or deflate, bounded in what it returns."""

    def __init__(self, encoding: str) -> None:
        self._encoding = encoding
        self._zlib = zlib.decompressobj(_WINDOW_BITS[encoding])
        self._started = False

    def feed(self, chunk: bytes, room: int) -> bytes:
        self._started = self._started or bool(chunk)
        try:
            part = self._zlib.decompress(chunk, max(room, 1))
        except zlib.error:
            raise InvalidRequestError(f"Malformed request body: not {self._encoding}") from None
        if self._zlib.unused_data:
            raise InvalidRequestError(
                f"Malformed request body: data follows the end of the {self._encoding} data"
            )
        return part

    def finish(self) -> None:
        if self._started and not self._zlib.eof:
            raise InvalidRequestError(f"Malformed request body: the {self._encoding} data is cut off")


def _decompressor(encoding: str) -> _Decompressor | None:
    if encoding in ("", "identity"):
        return None
    if encoding not in _WINDOW_BITS:
        raise UnsupportedMediaError(f"The Content-Encoding '{encoding}' is not supported; use gzip.")
    return _Decompressor(encoding)


def _too_large(limit: int) -> BodyTooLargeError:
    size = f"{limit // MEBIBYTE} MiB" if limit >= MEBIBYTE else f"{limit} bytes"
    return BodyTooLargeError(f"The body is larger than {size}; send it in smaller parts.")
