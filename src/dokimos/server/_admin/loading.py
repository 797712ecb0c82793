"""Load the rows of an archive into tables: all of them, or only those that are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Column, Connection, Table, select

from dokimos.errors import ArchiveError
from dokimos.server._admin.archive import Archive, Progress, TableEntry
from dokimos.server._admin.existing_rows import ExistingRows
from dokimos.server._admin.row_text import InvalidRow, Row, RowText
from dokimos.server._admin.table_contents import CONTENTS, UNITS, Content
from dokimos.server._db.bulk_rows import RowsRefused, insert_in_bulk
from dokimos.server._db.migrate import HEAD
from dokimos.server._db.schema import METADATA

_ROWS: Final = 2000
_CHECKED_ROWS: Final = 500
"""Rows that are looked for at a time, where a table has some already."""


@dataclass
class LoadReport:
    """What became of the rows of an archive."""

    added: Counter[str] = field(default_factory=Counter)
    """Rows that were inserted, by table."""
    equal: Counter[str] = field(default_factory=Counter)
    """Rows that were there already."""
    different: Counter[str] = field(default_factory=Counter)
    """Rows that are there with other values, and were left as they are, with what belongs to them."""


def check_schema(archive: Archive) -> None:
    """Raise `ArchiveError` for an archive of a newer server, or with tables that no server has."""
    manifest = archive.manifest
    if manifest.schema > HEAD or not manifest.schema.isdecimal():
        raise ArchiveError(
            f"{archive.path} was written by dokimos {manifest.dokimos_version}, whose tables "
            f"({manifest.schema}) are newer than those of this one ({HEAD}). Use that version or a newer one."
        )
    names = [entry.name for entry in manifest.tables]
    for place, entry in enumerate(manifest.tables):
        if CONTENTS.get(entry.name, Content.TRANSIENT) is Content.TRANSIENT or entry.name in names[:place]:
            raise archive.damage(f"its manifest names a table '{entry.name}' that no archive has, or twice")
        referred = {key.column.table.name for key in METADATA.tables[entry.name].foreign_keys}
        if referred & set(names[place:]):
            raise archive.damage(f"in its manifest, {entry.name} comes before what it refers to")
        columns = METADATA.tables[entry.name].columns
        if len(set(entry.columns)) < len(entry.columns) or not set(entry.columns) <= set(columns.keys()):
            raise archive.damage(f"its manifest names columns that the table {entry.name} does not have")


def load_rows(
    connection: Connection,
    archive: Archive,
    *,
    contents: Collection[Content],
    skips_different: bool = False,
    progress: Progress = lambda table, rows: None,
) -> LoadReport:
    """Insert the rows of an archive that are missing, in the transaction of the connection.

    Args:
        connection: Of a database that has all tables.
        archive: What to load.
        contents: What to load of it.
        skips_different: Whether rows that exist with other values are left as they are.
        progress: Hears how far it is.

    Raises:
        ArchiveError: A row exists with other values, or the archive is damaged.
    """
    report = LoadReport()
    skipped: dict[str, set[str]] = {name: set() for name in UNITS}
    for entry in archive.manifest.tables:
        if CONTENTS[entry.name] in contents:
            _TableLoader(connection, archive, entry, report, skipped, skips_different).load(progress)
    return report


class _TableLoader:
    """Loads the rows of one table."""

    def __init__(
        self,
        connection: Connection,
        archive: Archive,
        entry: TableEntry,
        report: LoadReport,
        skipped: dict[str, set[str]],
        skips_different: bool,
    ) -> None:
        self._connection = connection
        self._archive = archive
        self._entry = entry
        self._report = report
        self._skipped = skipped
        self._skips_different = skips_different
        self._table: Table = METADATA.tables[entry.name]
        self._columns: list[Column[Any]] = [self._table.c[name] for name in entry.columns]
        self._text = RowText(self._columns, connection.dialect.name)
        self._has_rows = connection.execute(select(*self._table.primary_key).limit(1)).first() is not None
        self._existing = ExistingRows(connection, self._table, self._columns, self._text)

    def load(self, progress: Progress) -> None:
        """Read the lines and insert their rows."""
        done = 0
        progress(self._table.name, done)
        for lines in self._archive.read_lines(self._entry, _CHECKED_ROWS if self._has_rows else _ROWS):
            try:
                rows = self._text.parse(lines)
                missing = self._drop_existing(rows) if self._has_rows or self._is_below_skipped() else rows
                if missing:
                    insert_in_bulk(
                        self._connection, self._table, self._entry.columns, self._text.to_driver(missing)
                    )
            except (InvalidRow, RowsRefused) as error:
                first = done + 1
                raise ArchiveError(
                    f"{self._archive.path}: {self._entry.member}, lines {first} to {done + len(lines)}, "
                    f"cannot be loaded: {error}. Nothing was changed."
                ) from error
            self._report.added[self._table.name] += len(missing)
            done += len(lines)
            progress(self._table.name, done)

    def _is_below_skipped(self) -> bool:
        return any(self._skipped.values())

    def _drop_existing(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows that the database lacks.

        Raises:
            ArchiveError: It has one with other values, or another one with the same name.
        """
        if self._is_below_skipped():
            kept = self._existing.drop_below(rows, self._skipped)
            self._report.different[self._table.name] += len(rows) - len(kept)
            rows = kept
        if not self._has_rows or not rows:
            return list(rows)
        found = self._existing.find(rows)
        missing = [row for row, stored in zip(rows, found, strict=True) if stored is None]
        for row, stored in zip(rows, found, strict=True):
            if stored is None:
                continue
            names = self._existing.find_differences(row, stored)
            if not names:
                self._report.equal[self._table.name] += 1
            elif self._skips_different:
                self._skip(row)
            else:
                raise ArchiveError(self._describe_difference(row, names))
        problem = self._existing.find_conflict(missing)
        if problem is not None:
            raise ArchiveError(f"{self._archive.path}: {problem}. Nothing was changed.")
        return missing

    def _skip(self, row: Row) -> None:
        self._report.different[self._table.name] += 1
        if self._table.name in UNITS:
            self._skipped[self._table.name].add(row[self._entry.columns.index("id")])

    def _describe_difference(self, row: Row, names: Sequence[str]) -> str:
        what = UNITS.get(self._table.name, f"row of {self._table.name}")
        return (
            f"The {what} {self._existing.describe(row)} exists already, with another {', '.join(names)} than "
            f"in {self._archive.path}. Nothing was changed. To import what is missing and leave such rows as "
            "they are, give --skip-existing."
        )
