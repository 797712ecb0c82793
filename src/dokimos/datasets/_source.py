"""Sources of a data set's bytes; every source can be opened more than once."""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, Literal, cast

from dokimos._runtime.file_access import files_read
from dokimos.datasets._limits import open_gzip, read_bounded_lines
from dokimos.datasets._spool import Spool
from dokimos.errors import ConfigurationError, DatasetError

FileFormat = Literal["json", "jsonl", "csv", "tsv", "parquet"]

_FORMATS: Final[dict[str, FileFormat]] = {
    ".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv",
    ".tsv": "tsv", ".parquet": "parquet",
}  # fmt: skip
# So much, since a whole data set may be one line of JSON.
_FIRST_LINE: Final = 16 << 20
"""Bytes of the first line that are enough to tell a format."""
_GZIP_MAGIC: Final = b"\x1f\x8b"
_PARQUET_MAGIC: Final = b"PAR1"


@dataclass(frozen=True, slots=True)
class Source:
    """Named bytes."""

    label: str | None
    """What error messages call it: the path, or None for text given in the program."""
    name: str
    """What a data set from it is called unless it says so itself."""
    raw: Callable[[], BinaryIO]
    waits: bool = False
    """Whether it is a pipe, of which the next bytes may take long to come."""

    @classmethod
    def of_path(cls, path: str | os.PathLike[str]) -> Source:
        """Raises `DatasetError` unless there is a file to read."""
        if not isinstance(path, str | os.PathLike):
            raise ConfigurationError(f"Give the path of a file, not {path!r:.80}.")
        file = Path(path)
        try:
            _require_file(file)
        except OSError as error:
            raise DatasetError(f"Cannot be read: {error.strerror or error}", path=_short(path)) from error
        if not file.is_file():
            return cls(
                str(path), stem(file.name), Spool(lambda: file.open("rb", buffering=0), ours=True).open, True
            )
        files_read.record_data(file)
        return cls(str(path), stem(file.name), lambda: file.open("rb", buffering=1 << 18))

    @classmethod
    def of_text(cls, text: str) -> Source:
        # Lone surrogates become bytes that are not UTF-8, and are reported as such.
        data = text.encode("utf-8", "surrogatepass")
        return cls(None, "unnamed", lambda: io.BytesIO(data))

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open for reading, decompressing what is gzip; what fails on the way is a `DatasetError`."""
        try:
            with self.raw() as stream:
                buffered = cast("io.BufferedReader", stream)
                if not _is_gzip(buffered):
                    yield stream
                    return
                with gzip.open(buffered) as unzipped:
                    yield open_gzip(stream, unzipped, self.label)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DatasetError(f"Damaged gzip data: {error}", path=self.label) from error
        except OSError as error:
            raise DatasetError(f"Cannot be read: {error.strerror or error}", path=self.label) from error

    def utf8_error(self) -> DatasetError:
        """Say where the first byte is that is not UTF-8."""
        with self.open() as stream:
            for number, line in enumerate(read_bounded_lines(stream, self.label), 1):
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    return bad_utf8(error, self.label, number)
        return DatasetError("Not valid UTF-8.", path=self.label)


def bad_utf8(error: UnicodeDecodeError, label: str | None, line: int) -> DatasetError:
    """Describe a line that is not UTF-8."""
    byte = error.object[error.start]
    return DatasetError(
        f"Not valid UTF-8: byte 0x{byte:02x} at position {error.start + 1} of the line. "
        "Save the file in the encoding UTF-8.",
        path=label,
        line=line,
    )


def stem(file_name: str) -> str:
    """Return the file name without `.gz` and without the extension before it."""
    name, extension = os.path.splitext(file_name)
    return os.path.splitext(name)[0] if extension.lower() == ".gz" else name


def format_or_json(file_name: str) -> FileFormat:
    """Return the format that the extension says, `.gz` left aside; JSON for an unknown one."""
    return find_format(file_name) or "json"


def find_format(file_name: str) -> FileFormat | None:
    """Return the format that the extension says, `.gz` left aside."""
    lowered = file_name.lower().removesuffix(".gz")
    return _FORMATS.get(os.path.splitext(lowered)[1])


def standard_input() -> Source:
    """Return standard input as a source that can be read more than once."""
    pipe = getattr(sys.stdin, "buffer", None)
    if pipe is None:
        raise DatasetError("There is no standard input to read from.", path="-")
    # Unbuffered where that can be had: a thread left waiting in a buffered read would hold up the exit.
    unbuffered = getattr(pipe, "raw", pipe)
    return Source("<stdin>", "stdin", Spool(lambda: unbuffered, ours=False).open, True)


def sniff(source: Source) -> FileFormat:
    """Tell the formats apart by the first line that is not blank."""
    import json

    with source.open() as stream:
        # Limited, as a line may be gigabytes long.
        pieces = iter(partial(stream.readline, _FIRST_LINE), b"")
        first = next((piece for piece in pieces if piece.strip(b"\xef\xbb\xbf \t\r\n")), b"")
    if first.startswith(_PARQUET_MAGIC):
        return "parquet"
    text = first.decode("utf-8", "replace").lstrip("\ufeff").strip()
    if text.startswith("["):
        return "json"
    if not text.startswith("{"):
        return "csv"
    if len(first) == _FIRST_LINE:
        return "json" if '"examples"' in text else "jsonl"
    try:
        return "json" if "examples" in json.loads(text) else "jsonl"
    except (ValueError, RecursionError):
        # An object over several lines is one document; a broken one-line object is a broken JSONL row.
        return "jsonl" if text.endswith("}") else "json"


def _is_gzip(stream: io.BufferedReader) -> bool:
    """Look at the first two bytes without consuming them."""
    if hasattr(stream, "peek"):
        return stream.peek(2)[:2] == _GZIP_MAGIC
    return False


def _short(path: str | os.PathLike[str]) -> str:
    name = os.fspath(path)
    return name if len(name) <= 200 else f"{name[:200]}…"


def _require_file(path: Path) -> None:
    if path.is_file() or (path.exists() and not path.is_dir()):
        return
    if path.is_dir():
        raise DatasetError("This is a folder; name a file in it.", path=path)
    files_read.record_missing(path)
    raise DatasetError(f"No such file.{_nearest(path)}", path=path)


def _nearest(path: Path) -> str:
    from difflib import get_close_matches

    folder = path.parent
    if not folder.is_dir():
        return f" The folder {str(folder)!r} does not exist either."
    try:
        names = os.listdir(folder)
    except OSError:
        return ""
    close = get_close_matches(path.name, names, n=1, cutoff=0.6)
    if not close:
        close = [name for name in sorted(names) if stem(name) == stem(path.name)][:1]
    return f" Did you mean {str(folder / close[0])!r}?" if close else ""
