"""Limits on data files: how long a line, record or value may be, and no gzip or Parquet bombs."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from functools import partial
from typing import IO, TYPE_CHECKING, Any, AnyStr, BinaryIO, Final, NamedTuple

from dokimos.errors import DatasetError

if TYPE_CHECKING:
    import gzip

MAX_RECORD_BYTES: Final = 256 << 20
"""Bytes (of text: characters) of a line, of a record of CSV and of an example in a JSON document."""
UNPACKED_FREELY: Final = 64 << 20
"""Bytes that gzip data may become, however small it is."""
LARGEST_RATIO: Final = 200
"""How many times as large it may become beyond that: text becomes 3 to 20 times as large, a bomb 1,000."""

MANY_LINES: Final = 8
"""Lines that are worth to be read together."""
_BLOCK: Final = 1 << 15
"""Bytes that are read at once."""
_LONG_LINES: Final = 64
"""Lines that are read one by one where a block had few: long ones cost twice as much out of blocks."""


def read_bounded_lines(stream: IO[AnyStr], label: str | None) -> Iterator[AnyStr]:
    """Yield the lines of a stream. Raises `DatasetError` for one that is too long, before it is all read."""
    longest = MAX_RECORD_BYTES
    # One more than allowed, so that a line that is too long is noticed without being read to its end.
    for number, line in enumerate(iter(partial(stream.readline, longest + 1), stream.read(0)), 1):
        if len(line) > longest:
            raise line_too_long("The line", label, number)
        yield line


class LineBlock(NamedTuple):
    """Whole lines of a file."""

    text: bytes
    """A single line may be with its end, of several ones the last is without it."""
    line_count: int

    def split(self) -> Sequence[bytes]:
        """Return the lines one by one, with or without their ends."""
        return (self.text,) if self.line_count == 1 else self.text.split(b"\n")


def read_line_blocks(stream: BinaryIO, label: str | None) -> Iterator[LineBlock]:
    """Yield the lines of a file, many short ones at a time and long ones singly.

    Raises `DatasetError` for a line that is too long, before it is all read, and after the lines before it.
    """
    read = getattr(stream, "read1", stream.read)  # gives what is there before it raises
    number, rest = 1, b""
    while block := read(_BLOCK):
        text, end, rest = (rest + block).rpartition(b"\n")
        count = count_byte(text, b"\n") + 1 if end else 0
        if count:
            yield LineBlock(text, count)
            number += count
        if count >= MANY_LINES:
            continue
        for _ in range(_LONG_LINES):
            # One more than allowed, so that a line that is too long is noticed without being read to its end.
            rest += stream.readline(MAX_RECORD_BYTES + 1 - len(rest))
            if len(rest) > MAX_RECORD_BYTES:
                raise line_too_long("The line", label, number)
            if not rest.endswith(b"\n"):
                break  # the end of the file
            yield LineBlock(rest, 1)
            number, rest = number + 1, b""
    if rest:
        yield LineBlock(rest, 1)


def count_byte(text: bytes, byte: bytes) -> int:
    """Return how often a text has a byte; this takes half as long as `text.count` for one that is rare."""
    return len(text) - len(text.replace(byte, b""))


def line_too_long(what: str, label: str | None, line: int) -> DatasetError:
    """Return the error about something that is longer than we read at once."""
    return DatasetError(
        f"{what} is longer than {_megabytes(MAX_RECORD_BYTES)}, so this is hardly a data set. Keep such a "
        "value in a file of its own, and name that file in the row.",
        path=label,
        line=line,
    )


def open_gzip(packed: BinaryIO, unzipped: gzip.GzipFile, label: str | None) -> BinaryIO:
    """Return a reader of gzip data that refuses a bomb: little data that becomes very much."""
    return io.BufferedReader(_GzipReader(packed, unzipped, label), 1 << 18)


def check_parquet(metadata: Any, label: str | None) -> None:
    """Raise `DatasetError` where a Parquet file says that it is a bomb."""
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    columns = [group.column(index) for group in groups for index in range(group.num_columns)]
    size = sum(column.total_uncompressed_size for column in columns)
    packed = sum(column.total_compressed_size for column in columns)
    if _is_bomb(size, packed):
        raise _bomb("Parquet data", size, packed, label, None)


class _GzipReader(io.RawIOBase):
    def __init__(self, packed: BinaryIO, unzipped: gzip.GzipFile, label: str | None) -> None:
        self._packed = packed
        self._unzipped = unzipped
        self._label = label
        self._size = 0
        self._lines = 1

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._size = int(self._unzipped.seek(offset, whence))
        return self._size

    def readinto(self, buffer: Any) -> int:
        count = int(self._unzipped.readinto(buffer))
        self._size += count
        self._lines += bytes(buffer[:count]).count(b"\n")
        # While it is unpacked, since the size that gzip states at its end is modulo 4 GB and may be forged.
        if _is_bomb(self._size, self._packed.tell()):
            raise _bomb("gzip data", self._size, self._packed.tell(), self._label, self._lines)
        return count


def _is_bomb(size: int, packed: int) -> bool:
    return size > UNPACKED_FREELY and size > LARGEST_RATIO * packed


def _bomb(what: str, size: int, packed: int, label: str | None, line: int | None) -> DatasetError:
    return DatasetError(
        f"The {what} becomes more than {LARGEST_RATIO} times as large: {_megabytes(size)} from "
        f"{_megabytes(packed)}. If that is meant, unpack it and name the plain file.",
        path=label,
        line=line,
    )


def _megabytes(size: int) -> str:
    return f"{size / (1 << 20):,.1f} MB".replace(".0 MB", " MB")
