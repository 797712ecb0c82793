"""Answers that contain JSON text of the tables, as it was stored.

Parsing such a text and writing it again could change what a client sent, for example a number that no float
holds; and a page of items is mostly such texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fastapi.responses import Response

from dokimos.server._api.http.json_text import encode_json


@dataclass(frozen=True, slots=True)
class JsonText:
    """A value that is JSON already."""

    text: bytes


def splice_json(members: Mapping[str, object]) -> bytes:
    """Return an object as JSON; members that are `JsonText` stand in it as they are.

    `splice_json({"content": JsonText(b"[1.0]"), "size": 20})` is `{"content":[1.0],"size":20}`.
    """
    texts = (
        b"%b:%b" % (encode_json(name), value.text if isinstance(value, JsonText) else encode_json(value))
        for name, value in members.items()
    )
    return b"{%b}" % b",".join(texts)


def json_response(body: bytes | str, status: int = 200) -> Response:
    """Return an answer whose body is JSON text already."""
    return Response(body, status, media_type="application/json")
