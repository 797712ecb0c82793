"""Archives of a database: ZIP files with a member for each table and a manifest.

    manifest.json           what is in it: version of the format and of the schema, columns, counts, checksums
    tables/projects.jsonl   a line for each row, a JSON array with a value for each column of the manifest

The manifest is written last, when counts and checksums are known, and found first, since the directory of a
ZIP file is at its end; a file that was cut has none. Tables come in an order in which rows refer only to
earlier ones.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any, Final, Literal, Self
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo

from pydantic import TypeAdapter, ValidationError

from dokimos._runtime.file_lock import hold_exclusively
from dokimos.errors import ArchiveError
from dokimos.server._db.bulk_rows import PART_BYTES

Progress = Callable[[str, int], None]
"""Called now and then with a table and how many of its rows are done."""
FORMAT: Final = "dokimos-archive"
FORMAT_VERSION: Final = 1
TRACES_VERSION: Final = 2
"""Of an archive with traces: a dokimos that would leave them out refuses it."""
_DAMAGED: Final = (BadZipFile, RuntimeError)
"""What `zipfile` raises for damage; a changed bit may ask for a password or another version of ZIP."""
_MANIFEST: Final = "manifest.json"
_MAX_MANIFEST: Final = 64 * 1024 * 1024
_MAX_LINE: Final = 1024 * 1024 * 1024
"""No row comes near: the largest body of a request is far below."""
_CHUNK: Final = 1024 * 1024
_COMPRESSION: Final = 1
"""Of 1 to 9: a higher level takes several times as long, for files that are a fifth smaller."""
_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""The time of each member, the first that ZIP knows: equal rows make equal members."""


@dataclass(frozen=True, kw_only=True)
class TableEntry:
    """What the manifest says about a table."""

    name: str
    columns: tuple[str, ...]
    rows: int = 0
    sha256: str = ""

    @property
    def member(self) -> str:
        """The name of the file in the archive."""
        return f"tables/{self.name}.jsonl"


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What is in an archive."""

    format: str = FORMAT
    format_version: int = FORMAT_VERSION
    kind: Literal["backup", "export"]
    dokimos_version: str
    schema: str
    """The migration that the database had."""
    created_at: str
    projects: tuple[str, ...] | None = None
    """The projects that were asked for, None for everything."""
    with_keys: bool = False
    with_comparisons: bool = False
    with_traces: bool = False
    """Whether production traces are in it, which are in a database of their own."""
    trace_schema: str | None = None
    """The migration that their database had; None where there was none."""
    tables: tuple[TableEntry, ...] = ()
    trace_tables: tuple[TableEntry, ...] = ()

    @property
    def row_count(self) -> int:
        """The rows of all tables."""
        return sum(table.rows for table in (*self.tables, *self.trace_tables))


_MANIFESTS: Final = TypeAdapter(Manifest)


class ArchiveWriter:
    """Writes an archive, inside a `with`: table by table, then `finish`."""

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = ZipFile(file, "w", ZIP_DEFLATED, compresslevel=_COMPRESSION)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        # What was not finished would be written when it is collected, to a file that is closed by then.
        with contextlib.suppress(OSError, ValueError):
            self._zip.close()

    def write_member(
        self, name: str, columns: Sequence[str], parts: Iterator[tuple[bytes, int]]
    ) -> TableEntry:
        """Write a table from parts, each the lines of some rows and their number; return its entry."""
        entry = TableEntry(name=name, columns=tuple(columns))
        digest = hashlib.sha256()
        count = 0
        with self._zip.open(_member(entry.member), "w", force_zip64=True) as member:
            for lines, rows in parts:
                member.write(lines)
                digest.update(lines)
                count += rows
        return replace(entry, rows=count, sha256=digest.hexdigest())

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest and the directory."""
        text = json.dumps(asdict(manifest), indent=1, ensure_ascii=False)
        with self._zip.open(_member(_MANIFEST), "w") as member:
            member.write(text.encode("utf-8"))
        self._zip.close()


def _member(name: str) -> ZipInfo:
    info = ZipInfo(name, date_time=_TIME)
    info.compress_type = ZIP_DEFLATED
    info.external_attr = 0o600 << 16
    return info


@contextlib.contextmanager
def create_file(path: Path, *, replaces: bool) -> Iterator[IO[bytes]]:
    """Write a file that only its owner may read: under another name, until it is whole and on disk.

    Raises:
        ArchiveError: There is a file of that name and it is not to be replaced, or it cannot be written.
    """
    if path.exists() and not replaces:
        raise ArchiveError(f"{path} exists already; choose another name, or give --force to replace it.")
    partial = path.with_name(f"{path.name}.partial")
    try:
        # A file that a killed process left is written over; one that another process writes is not.
        with hold_exclusively(partial, error=ArchiveError):
            try:
                with open(partial, "r+b") as file:
                    file.truncate()
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
        partial.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise cannot_be_written(path, error) from error


def cannot_be_written(path: Path, error: OSError) -> ArchiveError:
    """Return the error that says why a file is not there."""
    return ArchiveError(f"{path} cannot be written: {error.strerror or error}.")


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class Archive:
    """An archive that is read. What it returns has been compared with the checksums once a table is whole.

    Raises:
        ArchiveError: The file is not an archive, or one that this version does not know.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._zip = ZipFile(path)
        except FileNotFoundError:
            raise ArchiveError(f"{path} does not exist.") from None
        except _DAMAGED as error:
            raise ArchiveError(
                f"{path} is not an archive of dokimos, or was cut off while it was copied ({error})."
            ) from None
        except OSError as error:
            raise ArchiveError(f"{path} cannot be read: {error.strerror or error}.") from error
        try:
            self.manifest: Final = self._read_manifest()
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._zip.close()

    @property
    def path(self) -> Path:
        """The file."""
        return self._path

    def read_lines(self, table: TableEntry, count: int) -> Iterator[list[bytes]]:
        """Yield the lines of a table, some at a time: so many, fewer where they are large.

        Raises:
            ArchiveError: What was read is not what was written; earlier lines have been returned by then.
        """
        digest = hashlib.sha256()
        rows = 0
        try:
            with self._zip.open(table.member) as member:
                for lines in _split_lines(member, digest, count):
                    rows += len(lines)
                    yield lines
        except (*_DAMAGED, KeyError, EOFError, zlib.error, OSError) as error:
            raise self.damage(f"{table.member}: {error}") from error
        if digest.hexdigest() != table.sha256 or rows != table.rows:
            raise self.damage(f"{table.member} is not what was written; its checksum or count differs")

    def damage(self, what: str) -> ArchiveError:
        """Return the error that says what is wrong with the file."""
        return ArchiveError(f"{self._path} is damaged: {what}.")

    def _read_manifest(self) -> Manifest:
        try:
            info = self._zip.getinfo(_MANIFEST)
            if info.file_size > _MAX_MANIFEST:
                raise self.damage("its manifest is too large")
            text = self._zip.read(info)
        except KeyError:
            raise ArchiveError(f"{self._path} is a ZIP file, but not an archive of dokimos.") from None
        except (*_DAMAGED, EOFError, zlib.error, OSError) as error:
            raise self.damage(f"its manifest cannot be read ({error})") from error
        try:
            parsed: Any = json.loads(text)
            version = parsed["format_version"] if parsed["format"] == FORMAT else None
        except (ValueError, KeyError, TypeError):
            version = None
        if type(version) is not int:
            raise ArchiveError(f"{self._path} is a ZIP file, but not an archive of dokimos.")
        if version > TRACES_VERSION:
            raise ArchiveError(
                f"{self._path} has version {version} of the format, and this dokimos knows {TRACES_VERSION}: "
                f"it was written by dokimos {parsed.get('dokimos_version')}; use that version or a newer one."
            )
        try:
            return _MANIFESTS.validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise self.damage(f"its manifest cannot be used ({where}: {first['msg']})") from None


def _split_lines(member: IO[bytes], digest: Any, count: int) -> Iterator[list[bytes]]:
    lines: list[bytes] = []
    size = 0
    rest = b""
    while chunk := member.read(_CHUNK):
        digest.update(chunk)
        if len(rest) + len(chunk) > _MAX_LINE:
            raise BadZipFile("a line is too long")
        if b"\n" not in chunk:
            rest += chunk
            continue
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            lines.append(line)
            size += len(line)
            if len(lines) >= count or size >= PART_BYTES:
                yield lines
                lines, size = [], 0
    if rest:
        raise EOFError("its last line has no end")
    if lines:
        yield lines
