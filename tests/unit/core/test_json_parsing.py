"""The fast parser gives what `json.loads` gives, values and errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from dokimos._core.json_parsing import parse_json

TEXTS = [
    '{"a": 1, "b": [2.50, true, null], "a": 3}', "-0", "1e400", "NaN", "[Infinity, -Infinity]", "5e-324",
    "9007199254740993.0", "123456789012345678901234567890", "1" * 5000, '"\\ud83d\\ude00 \\ud83d"',
    '"\x01"', '"a\tb"', "[1,]", "", " 1 ", "1 2", "01", "1.", "nan", "\ufeff1", '"é\ud800"', "[" * 100_000,
]  # fmt: skip


def parse(loads: Callable[[Any], Any], text: str | bytes) -> str:
    try:
        return repr(loads(text))
    except (ValueError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"


BYTES = [
    b'\xef\xbb\xbf{"a": 1}', '{"ä": "é"}'.encode("utf-16"), '{"a": 1}'.encode("utf-16-le"),
    '"a"'.encode("utf-32"), b'"\xff"', b'"\xc0\x80"', b'"\xf4\x90\x80\x80"', b"\x00", b"1\x00",
    b"[" * 300 + b"]" * 300, b'{"a": 1}\x0b',
]  # fmt: skip
"""What servers may answer."""


@pytest.mark.parametrize("content", BYTES, ids=lambda content: ascii(content[:12]))
def test_it_reads_what_json_loads_reads_of_bytes(content: bytes) -> None:
    assert parse(parse_json, content) == parse(json.loads, content)


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: ascii(text[:20]))
def test_it_reads_what_json_loads_reads(text: str) -> None:
    assert parse(parse_json, text) == parse(json.loads, text)
    encoded = text.encode("utf-8", "surrogatepass")
    assert parse(parse_json, encoded) == parse(json.loads, encoded)
