"""Answers that are read with a limit."""

import gzip
import zlib

import pytest

from dokimos._http.body import TooLarge, Undecodable, max_reply_bytes, read_body
from dokimos.errors import ConfigurationError

MEGABYTE = 2**20
TEXT = b'{"verdict": "yes", "reason": "\xc3\xa4 and more"}'


def raw_deflate(data):
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


async def in_pieces(data, size):
    for start in range(0, len(data), size):
        yield data[start : start + size]


ENCODED = {
    "": TEXT,
    "identity": TEXT,
    "gzip": gzip.compress(TEXT),
    "x-gzip": gzip.compress(TEXT),
    " GZip ": gzip.compress(TEXT[:9]) + gzip.compress(TEXT[9:]),
    "deflate": zlib.compress(TEXT),
    "Deflate": raw_deflate(TEXT),
}


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize("encoding", ENCODED)
async def test_an_answer_is_read_however_it_comes(encoding, size):
    assert await read_body(in_pieces(ENCODED[encoding], size), encoding, MEGABYTE) == TEXT


@pytest.mark.parametrize("encoding", ENCODED)
async def test_the_limit_is_that_of_the_text(encoding):
    data = ENCODED[encoding]
    room = max(len(data), len(TEXT))
    assert await read_body(in_pieces(data, 8), encoding, room) == TEXT
    with pytest.raises(TooLarge):
        await read_body(in_pieces(data, 8), encoding, len(TEXT) - 1)


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress, raw_deflate])
async def test_what_says_much_with_little_is_left_at_the_limit(pack):
    bomb = pack(bytes(200 * MEGABYTE))
    assert len(bomb) < MEGABYTE
    given = []

    async def chunks():
        async for piece in in_pieces(bomb, 4096):
            given.append(piece)
            yield piece

    with pytest.raises(TooLarge) as large:
        await read_body(chunks(), "gzip" if pack is gzip.compress else "deflate", MEGABYTE)
    assert len(given) <= 2
    assert len(large.value.beginning) <= MEGABYTE


async def test_many_empty_parts_end():
    with pytest.raises(Undecodable, match="too many parts"):
        await read_body(in_pieces(gzip.compress(b"") * 2000, 65_536), "gzip", MEGABYTE)


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (b"not compressed", "gzip"),
        (gzip.compress(TEXT)[:-3], "gzip"),
        (gzip.compress(TEXT) + b"rest", "gzip"),
        (zlib.compress(bytes(range(50)))[:-9], "deflate"),
        (TEXT, "br"),
        (TEXT, "gzip, gzip"),
    ],
    ids=["plain", "cut gzip", "rest after gzip", "cut deflate", "brotli", "gzip twice"],
)
async def test_what_is_not_encoded_as_it_says_is_named(data, encoding):
    with pytest.raises(Undecodable):
        await read_body(in_pieces(data, 1000), encoding, MEGABYTE)


async def test_nothing_is_an_answer_too():
    assert await read_body(in_pieces(b"", 10), "gzip", MEGABYTE) == b""


def test_the_limit_is_sixteen_megabytes_unless_said_otherwise(monkeypatch):
    monkeypatch.delenv("DOKIMOS_MAX_REPLY_MB", raising=False)
    assert max_reply_bytes() == 16 * MEGABYTE
    monkeypatch.setenv("DOKIMOS_MAX_REPLY_MB", "2.5")
    assert max_reply_bytes() == 2.5 * MEGABYTE
    assert max_reply_bytes(1) == MEGABYTE


@pytest.mark.parametrize("text", ["much", "0", "-1", "inf", "nan"])
def test_a_limit_that_is_no_number_is_refused(monkeypatch, text):
    monkeypatch.setenv("DOKIMOS_MAX_REPLY_MB", text)
    with pytest.raises(ConfigurationError, match="DOKIMOS_MAX_REPLY_MB must be a number above 0"):
        max_reply_bytes()
