"""Production traces as a stream: a file that is written and read line by line, whatever its size.

Lines of JSON, compressed by gzip. The first one says what the file is, and names the projects; the last one
how much is in it, so that a file that was cut is noticed. Between them are

    {"source": 1, "encoding": "protobuf", "resource": "...", "scope": "...", ...}
    {"trace": "...", "traceId": "...", "tenant": "", "createdAt": ..., "updatedAt": ..., "spans": [...]}

in which spans name their source, which comes before them. A large trace has several lines. Resources, scopes,
spans and log records are messages of OTLP as they were sent, in Base64; times are microseconds since 1970.
"""

from __future__ import annotations

import binascii
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, cast

from dokimos._version import __version__
from dokimos.errors import ArchiveError
from dokimos.server._db.clock import format_time, now
from dokimos.server._services.traces.new_spans import ENCODINGS, is_text
from dokimos.traces._otlp_records import RecordOrigin

FORMAT: Final = "dokimos-traces"
FORMAT_VERSION: Final = 1
_MAGIC: Final = b"\x1f\x8b"
_MAX_LINE: Final = 1 << 30
_MAX_SOURCES: Final = 10_000
"""That the reader has to remember; then their numbers begin again."""
_LEVEL: Final = 1
"""Of gzip, as of the archives: a higher one takes several times as long."""


@dataclass(frozen=True, slots=True)
class ExportedProject:
    """A project that spans of a file are in."""

    id: str
    name: str
    tenant: str | None


@dataclass(frozen=True, slots=True)
class FileCounts:
    """How much is in a file of traces."""

    traces: int
    spans: int
    logs: int


@dataclass(frozen=True, slots=True)
class TraceLine:
    """A trace, or a part of it, as a line has it."""

    number: int
    """Of the line."""
    id: str
    trace_id: str
    tenant: str
    created_at: int
    updated_at: int
    spans: Sequence[tuple[str | None, RecordOrigin, bytes]]
    """Of each its project in the source, its origin and its body."""
    logs: Sequence[tuple[RecordOrigin, bytes]]

    @property
    def key(self) -> tuple[str, str]:
        """What the trace is known by."""
        return (self.tenant, self.trace_id)

    @property
    def size(self) -> int:
        return sum(len(body) for _, _, body in self.spans) + sum(len(body) for _, body in self.logs)


class TraceFileWriter:
    """Writes a file of traces: its head, then traces, then `finish`."""

    def __init__(self, file: IO[bytes], projects: Sequence[ExportedProject]) -> None:
        self._file = gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=_LEVEL, mtime=0)
        self._sources: dict[RecordOrigin, int] = {}
        self._write(
            {
                "format": FORMAT,
                "formatVersion": FORMAT_VERSION,
                "dokimosVersion": __version__,
                "createdAt": format_time(now()),
                "projects": [{"id": each.id, "name": each.name, "tenant": each.tenant} for each in projects],
            }
        )

    def write_trace(
        self,
        trace: Mapping[str, Any],
        spans: Sequence[tuple[str | None, RecordOrigin, bytes]] = (),
        logs: Sequence[tuple[RecordOrigin, bytes]] = (),
    ) -> None:
        """Write a trace or a part of it: `trace` has what identifies it."""
        if len(self._sources) >= _MAX_SOURCES:  # never within a line, whose spans name them
            self._sources.clear()
        line = dict(trace)
        if spans:
            line["spans"] = [
                {"project": project, "source": self._number(origin), "body": _write_bytes(body)}
                for project, origin, body in spans
            ]
        if logs:
            line["logs"] = [
                {"source": self._number(origin), "body": _write_bytes(body)} for origin, body in logs
            ]
        self._write(line)

    def finish(self, counts: FileCounts) -> None:
        """Write the last line."""
        self._write({"end": {"traces": counts.traces, "spans": counts.spans, "logs": counts.logs}})
        self._file.close()

    def _number(self, origin: RecordOrigin) -> int:
        number = self._sources.get(origin)
        if number is None:
            number = self._sources[origin] = len(self._sources) + 1
            self._write(
                {
                    "source": number,
                    "encoding": origin.encoding,
                    "resource": _write_bytes(origin.resource),
                    "resourceSchemaUrl": origin.resource_schema_url,
                    "scope": _write_bytes(origin.scope),
                    "schemaUrl": origin.schema_url,
                }
            )
        return number

    def _write(self, line: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")


def is_trace_file(path: Path) -> bool:
    """Whether a file is one of traces and not an archive, as far as its first bytes say."""
    try:
        with open(path, "rb") as file:
            start = file.read(len(FORMAT) + 32)
    except OSError:
        return False
    return start.startswith(_MAGIC) or FORMAT.encode() in start


class TraceFileReader:
    """Reads a file of traces, compressed or not.

    Args:
        path: The file.
        file: It, open.

    Raises:
        ArchiveError: It is not one, or one of a newer version.
    """

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path = path
        self._file = file
        self.line = 0
        """The number of the line that was read last."""
        self._sources: dict[int, RecordOrigin] = {}
        self._counts = {"traces": 0, "spans": 0, "logs": 0}
        self._last: tuple[str, str] | None = None
        self.projects: Final = self._read_head()

    def fault(self, what: str) -> ArchiveError:
        """Return the error that says what is wrong with the line that was read last, and what to do."""
        return ArchiveError(
            f"{self._path}, line {self.line}: {what}. The import ends there. Copy or export the file again, "
            "and repeat the import: what is there already is skipped."
        )

    def __iter__(self) -> Iterator[TraceLine]:
        """Yield the traces; raises `ArchiveError` for what cannot be read, and where the end is missing."""
        while True:
            line = self._read_line()
            if line is None:
                raise self.fault("the file ends before its last line; it was cut off")
            try:
                if "source" in line:
                    self._sources[int(line["source"])] = _read_origin(line)
                elif "end" in line:
                    if line["end"] != self._counts:
                        raise self.fault(f"the file has {self._counts} and should have {line['end']}")
                    # gzip compares its checksum only once something asks for what comes behind the last line.
                    if self._read_line() is not None:
                        raise self.fault("there is something behind the last line")
                    return
                else:
                    yield self._count(self._read_trace(line))
            except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
                raise self.fault(f"it is not a line of a file of traces ({error!r:.200})") from None

    def _count(self, trace: TraceLine) -> TraceLine:
        self._counts["traces"] += trace.key != self._last
        self._counts["spans"] += len(trace.spans)
        self._counts["logs"] += len(trace.logs)
        self._last = trace.key
        return trace

    def _read_trace(self, line: Mapping[str, Any]) -> TraceLine:
        return TraceLine(
            self.line,
            _read_text(line["trace"]),
            _read_text(line["traceId"]),
            _read_text(line["tenant"]),
            int(line["createdAt"]),
            int(line["updatedAt"]),
            [
                (
                    _read_optional_text(each["project"]),
                    self._sources[each["source"]],
                    _read_bytes(each["body"]),
                )
                for each in line.get("spans", ())
            ],
            [(self._sources[each["source"]], _read_bytes(each["body"])) for each in line.get("logs", ())],
        )

    def _read_head(self) -> tuple[ExportedProject, ...]:
        head = self._read_line()
        if head is None or head.get("format") != FORMAT:
            raise ArchiveError(
                f"{self._path} is not a file of traces, which 'dokimos db export --only-traces' writes."
            )
        version = head.get("formatVersion")
        if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
            raise ArchiveError(
                f"{self._path} has version {version} of the format, and this dokimos knows {FORMAT_VERSION}: "
                f"it was written by dokimos {head.get('dokimosVersion')}; use that version or a newer one."
            )
        try:
            return tuple(
                ExportedProject(
                    _read_text(each["id"]), _read_text(each["name"]), _read_optional_text(each["tenant"])
                )
                for each in head["projects"]
            )
        except (KeyError, TypeError, ValueError) as error:
            raise self.fault(f"it names no projects ({error!r:.200})") from None

    def _read_line(self) -> dict[str, Any] | None:
        self.line += 1
        try:
            text = self._file.readline(_MAX_LINE)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self.fault(f"the file is damaged or was cut off ({error})") from None
        except OSError as error:
            raise ArchiveError(f"{self._path} cannot be read: {error.strerror or error}.") from error
        if not text:
            return None
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            line = None
        if not isinstance(line, dict):
            if self.line == 1:
                return {}
            raise self.fault("it is not a JSON object")
        return line


@contextmanager
def open_trace_file(path: Path) -> Iterator[TraceFileReader]:
    """The reader of a file of traces.

    Raises:
        ArchiveError: It cannot be read, is not one, or one of a newer version.
    """
    try:
        file = open(path, "rb")  # noqa: SIM115 # closed below
    except OSError as error:
        raise ArchiveError(f"{path} cannot be read: {error.strerror or error}.") from error
    with file:
        is_compressed = file.read(len(_MAGIC)) == _MAGIC
        file.seek(0)
        lines = cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if is_compressed else file
        yield TraceFileReader(path, lines)


def _read_origin(line: Mapping[str, Any]) -> RecordOrigin:
    encoding = line["encoding"]
    if encoding not in ENCODINGS:
        raise ValueError(f"the encoding {encoding!r} is unknown")
    return RecordOrigin(
        encoding,
        _read_bytes(line["resource"]),
        _read_schema(line["resourceSchemaUrl"]),
        _read_bytes(line["scope"]),
        _read_schema(line["schemaUrl"]),
    )


def _read_text(value: object) -> str:
    """Return a text that every database holds."""
    if not isinstance(value, str) or not is_text(value):
        raise ValueError(f"{value!r:.80} is not a text, or has NUL or half a character")
    return value


def _read_optional_text(value: object) -> str | None:
    return None if value is None else _read_text(value)


def _read_schema(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.80} is not a text")
    return value


def _write_bytes(content: bytes) -> str:
    return binascii.b2a_base64(content, newline=False).decode()


def _read_bytes(text: str) -> bytes:
    return binascii.a2b_base64(text, strict_mode=True)
