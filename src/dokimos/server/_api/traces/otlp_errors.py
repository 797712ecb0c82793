"""Errors below `/v1`, as exporters of OTLP read them: a `Status` in the encoding of the request."""

from __future__ import annotations

import json
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PROTOBUF: Final = ("application/x-protobuf", "application/protobuf")
_PATH: Final = "/v1/"
_UNKNOWN: Final = 2
_CODES: Final = {
    400: 3,
    401: 16,
    403: 7,
    404: 5,
    405: 12,
    408: 4,
    409: 10,
    413: 3,
    415: 3,
    429: 8,
    500: 13,
    503: 14,
}
"""The codes of gRPC, by the status of HTTP."""


class OtlpErrorMiddleware:
    """Rewrites the documented body of an error, whichever part of the server has written it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(_PATH):
            await self._app(scope, receive, send)
            return
        content_type = Headers(scope=scope).get("content-type", "").partition(";")[0].strip().lower()
        start: Message | None = None
        parts: list[bytes] = []

        async def send_status(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and message["status"] >= 400:
                start = message
            elif start is None:
                await send(message)
            else:
                parts.append(message.get("body", b""))
                if not message.get("more_body", False):
                    answer = _write_status(start, b"".join(parts), is_protobuf=content_type in PROTOBUF)
                    await send(start)
                    await send({"type": "http.response.body", "body": answer})

        await self._app(scope, receive, send_status)


def _write_status(start: Message, body: bytes, *, is_protobuf: bool) -> bytes:
    """Return the body of a status, and describe it in the headers."""
    try:
        content = json.loads(body)
        message = str(content.get("message") or content.get("error"))
    except (ValueError, AttributeError):  # an answer without a body, as to HEAD
        message = ""
    code = _CODES.get(start["status"], _UNKNOWN)
    if is_protobuf:
        answer = encode_status(code, message)
    else:
        answer = json.dumps({"code": code, "message": message}).encode()
    start["headers"] = list(start.get("headers", ()))
    headers = MutableHeaders(raw=start["headers"])
    headers["content-type"] = PROTOBUF[0] if is_protobuf else "application/json"
    headers["content-length"] = str(len(answer))
    return answer


def encode_status(code: int, message: str) -> bytes:
    """Return a `google.rpc.Status`: a code and a message, which need no generated class."""
    return b"\x08" + bytes([code]) + encode_field(2, message.encode("utf-8", "replace"))


def decode_status(status: bytes) -> tuple[int, str]:
    """Return the code and the message of what `encode_status` has written."""
    if status[:1] != b"\x08" or status[2:3] != b"\x12":
        return _UNKNOWN, ""
    text = 3
    while status[text] > 0x7F:
        text += 1
    return status[1], status[text + 1 :].decode("utf-8", "replace")


def encode_field(number: int, content: bytes) -> bytes:
    """Return a field of protobuf: a text, bytes, or another message."""
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])
