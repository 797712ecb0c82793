"""Messages of gRPC as they are sent, compressed or not, and the errors that exporters read."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

from dokimos.server._api.traces.otlp_errors import encode_field, encode_status
from dokimos.server._services.errors import InvalidRequestError

_PART: Final = 1024 * 1024
"""Bytes that are decompressed at a time: who counts them can stop before a small message fills the memory."""
_WINDOW_BITS: Final = {b"\x1f\x8b": 31, b"\x78": 15}
"""Of gzip and deflate, by how their data begin; an export begins with its first field, which is neither."""
_RETRY_INFO: Final = b"type.googleapis.com/google.rpc.RetryInfo"
STATUS_KEY: Final = "grpc-status-details-bin"
RETRY_KEY: Final = "google.rpc.retryinfo-bin"


def unpack_message(message: bytes) -> Iterator[bytes]:
    """Yield a message in parts, decompressed.

    Raises:
        InvalidRequestError: Its compression is broken.
    """
    bits = next((bits for start, bits in _WINDOW_BITS.items() if message.startswith(start)), None)
    if bits is None:
        yield message
        return
    unpack = zlib.decompressobj(bits)
    rest = message
    while not unpack.eof:
        try:
            part = unpack.decompress(rest, _PART)
        except zlib.error:
            raise InvalidRequestError("Malformed request body: its compression is broken") from None
        rest = unpack.unconsumed_tail
        if not part and not rest and not unpack.eof:
            raise InvalidRequestError("Malformed request body: the compressed data is cut off")
        yield part


def describe_error(code: int, message: str, retry_seconds: int | None) -> list[tuple[str, bytes]]:
    """Return the trailing metadata of an error: a `google.rpc.Status`, and when to send the call again.

    Exporters look for the second in one of two places.
    """
    status = encode_status(code, message)
    if retry_seconds is None:
        return [(STATUS_KEY, status)]
    delay = encode_field(1, b"\x08" + bytes([min(retry_seconds, 0x7F)]))
    detail = encode_field(1, _RETRY_INFO) + encode_field(2, delay)
    return [(STATUS_KEY, status + encode_field(3, detail)), (RETRY_KEY, delay)]
