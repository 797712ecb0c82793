"""Which rows go into an archive, as queries whose rows are read one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    ForeignKey,
    FromClause,
    Select,
    Table,
    and_,
    case,
    inspect,
    literal,
    null,
    or_,
    select,
)

from dokimos.server._admin.table_contents import CONTENTS, FILTERS, SECRET_COLUMNS, Content
from dokimos.server._db.schema import METADATA
from dokimos.server._db.tables import DATASET_VERSIONS, DATASETS, PROJECTS, RUNS


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What to put into an archive."""

    is_backup: bool = False
    """Whether it is everything as it is, with keys and secrets, to be restored."""
    projects: tuple[str, ...] | None = None
    """The ids of the projects to export, None for all of them and all datasets."""
    with_keys: bool = False
    """Whether an export has the keys, people and memberships of the server."""
    with_comparisons: bool = False
    """Whether an export has the comparisons that were computed."""

    def includes(self, table: Table) -> bool:
        """Whether rows of a table are taken at all."""
        content = CONTENTS[table.name]
        if self.is_backup:
            return content is not Content.TRANSIENT
        if content is Content.DATA:
            return self.projects is None or leads_to_project(table) or is_of_dataset(table)
        if content is Content.COMPARISON:
            return self.with_comparisons
        return content is Content.ACCESS and self.with_keys


def select_tables(connection: Connection, selection: Selection) -> list[tuple[Table, list[Column[Any]]]]:
    """Return the tables to archive, those first that others refer to, with the columns that there are.

    A database that no newer server has migrated yet has fewer.
    """
    inspector = inspect(connection)
    there = set(inspector.get_table_names())
    chosen = []
    for table in METADATA.sorted_tables:
        if table.name in there and selection.includes(table):
            names = {each["name"] for each in inspector.get_columns(table.name)}
            chosen.append((table, [each for each in table.columns if each.name in names]))
    return chosen


def select_rows(
    table: Table, columns: Sequence[Column[Any]], selection: Selection, *, has_gone: bool = True
) -> Select[Any]:
    """Return the query of the rows of a table.

    Args:
        table: The table.
        columns: What to read of each row.
        selection: Which rows.
        has_gone: Whether anything is deleted or unfinished, to which rows that stay may refer.
    """
    if selection.is_backup:
        return select(*columns)
    source, conditions = _join_parents(table, table, table, selection)
    own = _own_status() if RUNS.c.own_status in columns else {}
    read = [own.get(each.name, _read_column(each, has_gone=has_gone)) for each in columns]
    return select(*read).select_from(source).where(*conditions)


def has_gone_rows(connection: Connection) -> bool:
    """Whether there are rows to which others refer, and which readers do not see."""
    is_gone = (
        (DATASETS, DATASETS.c.deleted_at.is_not(None)),
        (DATASET_VERSIONS, DATASET_VERSIONS.c.version.is_(None)),
    )
    return any(connection.execute(select(table.c.id).where(gone).limit(1)).first() for table, gone in is_gone)


def leads_to_project(table: Table) -> bool:
    """Whether each row of a table belongs to a project."""
    return table is PROJECTS or any(leads_to_project(key.column.table) for key in parent_keys(table))


def is_of_dataset(table: Table) -> bool:
    """Whether each row of a table belongs to a dataset."""
    return table is DATASETS or any(is_of_dataset(key.column.table) for key in parent_keys(table))


def parent_keys(table: Table) -> Iterator[ForeignKey]:
    """Return the references to the rows with which a row is deleted: to what it belongs."""
    for each in table.columns:
        for key in each.foreign_keys:
            if key.ondelete == "CASCADE" and key.column.table is not table:
                yield key


def _join_parents(
    table: Table, named: FromClause, source: FromClause, selection: Selection
) -> tuple[FromClause, list[ColumnElement[bool]]]:
    """Join what rows belong to, up to the projects; return that, and the conditions on all of it."""
    conditions = _own_conditions(table, named, selection)
    for key in parent_keys(table):
        parent = key.column.table
        alias = parent.alias()
        own = named.c[key.parent.name]
        source = source.join(alias, alias.c[key.column.name] == own, isouter=bool(key.parent.nullable))
        source, above = _join_parents(parent, alias, source, selection)
        # A row that may belong to nothing is seen without a parent, but not in the export of a project.
        is_free = bool(key.parent.nullable) and selection.projects is None
        conditions.append(or_(own.is_(None), and_(*above)) if is_free and above else and_(*above))
    return source, conditions


def _own_conditions(table: Table, named: FromClause, selection: Selection) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if "deleted_at" in table.c:
        conditions.append(named.c.deleted_at.is_(None))
    if table.name in FILTERS:
        name, condition = FILTERS[table.name]
        conditions.append(condition(named.c[name]))
    if selection.projects is None:
        return conditions
    if table is PROJECTS:
        conditions.append(named.c.id.in_(selection.projects))
    elif table is DATASET_VERSIONS:
        conditions.append(named.c.id.in_(_select_referred(RUNS.c.dataset_version_id, selection)))
    elif table is DATASETS:
        referred = _select_referred(RUNS.c.dataset_version_id, selection)
        of_versions = select(DATASET_VERSIONS.c.dataset_id).where(DATASET_VERSIONS.c.id.in_(referred))
        conditions.append(named.c.id.in_(of_versions))
    return conditions


def _select_referred(reference: Column[Any], selection: Selection) -> Select[Any]:
    """What rows of the projects refer to: each version of a dataset on which one of their runs ran."""
    table = reference.table
    assert isinstance(table, Table)
    alias = table.alias()
    source, conditions = _join_parents(table, alias, alias, selection)
    return (
        select(alias.c[reference.name])
        .select_from(source)
        .where(*conditions, alias.c[reference.name].is_not(None))
    )


def _read_column(each: Column[Any], *, has_gone: bool) -> ColumnElement[Any]:
    """A column as exports have it: without secrets, and without references to what nobody sees any more."""
    table = each.table
    assert isinstance(table, Table)
    if each.name in SECRET_COLUMNS.get(table.name, ()):
        return null().label(each.name)
    loose = next((key for key in each.foreign_keys if key.ondelete == "SET NULL"), None)
    if loose is None or not has_gone:
        return each
    target = loose.column.table
    alias = target.alias()
    source, conditions = _join_parents(target, alias, alias, _EVERYTHING)
    found = select(literal(1)).select_from(source).where(alias.c[loose.column.name] == each, *conditions)
    return case((found.correlate(table).exists(), each)).label(each.name)


def _own_status() -> dict[str, ColumnElement[Any]]:
    """Columns of runs: one that is being scored is exported as what it is without its judge jobs."""
    names = {"status": "own_status", "status_reason": "own_status_reason"}
    is_scored = and_(RUNS.c.status == "EVALUATING", RUNS.c.own_status.is_not(None))
    own = {name: case((is_scored, RUNS.c[held]), else_=RUNS.c[name]) for name, held in names.items()}
    empty = {held: case((is_scored, null()), else_=RUNS.c[held]) for held in names.values()}
    return {name: column.label(name) for name, column in {**own, **empty}.items()}


_EVERYTHING: Final = Selection()
