"""Replies of judges, as the table of calls keeps them: JSON without secrets, compressed where it is long."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from dataclasses import replace
from typing import Final

from dokimos._core.jsonable import jsonable
from dokimos._core.metrics import CallMetrics
from dokimos._core.wire import from_json
from dokimos._runtime.redaction import Redactor
from dokimos.judges import JudgeReply
from dokimos.judges._recording import redact_reply

_COMPRESSED: Final = "z"
"""How a compressed reply begins; JSON begins with a brace."""
_SHORT: Final = 1024
"""A shorter text is not worth compressing."""
_LEVEL: Final = 1
"""Takes a fifth of the time of the usual level, for a tenth more bytes."""

_encode: Final = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps makes a new one for every call


def encode_reply(reply: JudgeReply, clean: Redactor) -> str:
    """Return a reply as text that both databases take, with its metrics, without secrets."""
    kept = redact_reply(reply, clean)
    if kept.metrics is None:
        kept = replace(kept, metrics=CallMetrics())  # None would say that it cost nothing
    # In ASCII, so that neither NUL nor half a surrogate pair stands in the text.
    text = _encode(jsonable(kept))
    if len(text) < _SHORT:
        return text
    return _COMPRESSED + b64encode(zlib.compress(text.encode(), _LEVEL)).decode()


def decode_reply(text: str) -> JudgeReply:
    """Return the reply of a text that `encode_reply` returned."""
    if text.startswith(_COMPRESSED):
        text = zlib.decompress(b64decode(text.removeprefix(_COMPRESSED))).decode()
    return from_json(JudgeReply, json.loads(text))
