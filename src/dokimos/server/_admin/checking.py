"""Check a database: what a server needs of it, and whether what it holds is whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import Final

from sqlalchemy import Connection, func, select

from dokimos._core.text import format_size, pluralize
from dokimos.server._admin.databases import (
    describe_database,
    hold_database,
    read_database,
    record_command,
    write_database,
)
from dokimos.server._db.data_folder import describe_unfinished_restore
from dokimos.server._db.migrate import HEAD, read_version
from dokimos.server._db.schema import METADATA
from dokimos.server._db.tables import EXPERIMENTS, RUNS
from dokimos.server._services.kept_counts import CountDifference, find_differences, repair_counts
from dokimos.server._services.server_info import describe_engine
from dokimos.server._settings import MEBIBYTE, ServerSettings

_MIN_FREE_BYTES: Final = 512 * MEBIBYTE
_NAMED: Final = 20
"""Problems of one kind that are named; the others are counted."""
_REPAIRED: Final = 100_000
"""Counts that one call repairs at most; the next call repairs the rest."""


class CheckOutcome(Enum):
    """How a check ended."""

    OK = "ok"
    PROBLEM = "problem"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found."""

    subject: str
    outcome: CheckOutcome
    text: str
    details: tuple[str, ...] = ()


@dataclass(slots=True)
class CheckReport:
    """What all checks found."""

    findings: list[Finding] = field(default_factory=list)
    differences: list[CountDifference] = field(default_factory=list)
    """Kept counts that are wrong, which `repair_database` sets right."""

    @property
    def has_problems(self) -> bool:
        """Whether any check found a problem."""
        return any(finding.outcome is CheckOutcome.PROBLEM for finding in self.findings)

    def add(self, subject: str, problems: list[str], fine: str) -> None:
        """Add what a check found: its problems, or that there is none."""
        if not problems:
            self.findings.append(Finding(subject, CheckOutcome.OK, fine))
            return
        named = tuple(problems[:_NAMED])
        more = (f"and {len(problems) - _NAMED:,} more",) if len(problems) > _NAMED else ()
        text = pluralize(len(problems), "problem")
        self.findings.append(Finding(subject, CheckOutcome.PROBLEM, text, named + more))


def check_database(
    settings: ServerSettings, *, progress: Callable[[str], None] = lambda subject: None
) -> CheckReport:
    """Check a database on one snapshot, also while servers run; nothing is changed.

    Raises:
        ConfigurationError: There is no database, or it cannot be used at all.
    """
    return read_database(settings, lambda connection: _check(connection, settings, progress))


def repair_database(settings: ServerSettings, report: CheckReport) -> int:
    """Set the counts that a check found wrong to what their rows give; return how many.

    Raises:
        ConfigurationError: The database cannot be used, or a server is running on the SQLite file.
    """
    if not report.differences:
        return 0

    def repair(connection: Connection) -> None:
        repair_counts(connection, report.differences)
        record_command(connection, "db.repair", {"counts": len(report.differences)})

    with hold_database(settings, "A repair"):
        write_database(settings, repair)
    return len(report.differences)


def _check(connection: Connection, settings: ServerSettings, progress: Callable[[str], None]) -> CheckReport:
    report = CheckReport()
    is_sqlite = connection.dialect.name == "sqlite"
    report.add("connection", [], f"{describe_engine(connection)}, {describe_database(settings)}")
    is_current = _check_schema(connection, report)
    progress("permissions")
    _check_permissions(connection, settings, report)
    progress("disk space")
    _check_space(connection, settings, report)
    if unfinished := describe_unfinished_restore(settings):
        report.add("restore", [unfinished], "")
    progress("integrity")
    if is_sqlite:
        _check_sqlite_integrity(connection, report)
    else:
        _check_postgres_constraints(connection, report)
    if not is_current:
        text = "not counted again: the schema is not the one of this version"
        report.findings.append(Finding("counts", CheckOutcome.SKIPPED, text))
        return report
    _check_references(connection, report)
    progress("counts")
    report.differences = list(islice(find_differences(connection), _REPAIRED))
    report.add(
        "counts", [str(each) for each in report.differences], "all kept counts are what their rows give"
    )
    return report


def _check_schema(connection: Connection, report: CheckReport) -> bool:
    version = read_version(connection)
    problems = []
    if version is None:
        problems.append("there are no tables; a server makes them when it starts, or 'dokimos db upgrade'")
    elif version.isdecimal() and version > HEAD:
        problems.append(f"it is {version}, of a newer dokimos than this one, which knows {HEAD}")
    elif version != HEAD:
        problems.append(f"it is {version} and should be {HEAD}: run 'dokimos db upgrade', or start a server")
    report.add("schema", problems, f"{HEAD}, which is the one of this version")
    return version == HEAD


def _check_permissions(connection: Connection, settings: ServerSettings, report: CheckReport) -> None:
    if connection.dialect.name == "sqlite":
        problems = [
            f"{path} cannot be written by this account"
            for path in (settings.data_dir, settings.sqlite_path)
            if not os.access(path, os.W_OK)
        ]
        report.add("permissions", problems, "the file and its folder can be written")
        return
    problems = list(_missing_privileges(connection))
    report.add("permissions", problems, "the account may read and write all tables, and create tables")


def _missing_privileges(connection: Connection) -> Iterator[str]:
    account = connection.exec_driver_sql("SELECT current_user").scalar_one()
    schema = connection.exec_driver_sql("SELECT current_schema()").scalar()
    if schema is None:
        yield f"no schema is on the search path of {account}, or it may use none of them"
        return
    for privilege in ("USAGE", "CREATE"):
        query = select(func.has_schema_privilege(schema, privilege))
        if not connection.execute(query).scalar():
            yield f"missing {privilege} on the schema: GRANT ALL ON SCHEMA {schema} TO {account}"
    rows = connection.exec_driver_sql(
        "SELECT tablename, tableowner FROM pg_tables WHERE schemaname = current_schema()"
    ).all()
    for name, owner in rows:
        if name not in METADATA.tables:
            continue
        for privilege in ("SELECT", "INSERT", "UPDATE", "DELETE"):
            if not connection.execute(select(func.has_table_privilege(name, privilege))).scalar():
                yield f"missing {privilege} on {name}: GRANT ALL ON {name} TO {account}"
        if not connection.execute(select(func.pg_has_role(owner, "USAGE"))).scalar():
            yield f"{name} belongs to {owner}, so this account cannot upgrade it: ALTER TABLE ... OWNER TO"


def _check_space(connection: Connection, settings: ServerSettings, report: CheckReport) -> None:
    if connection.dialect.name != "sqlite":
        size = connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one()
        report.add("disk space", [], f"{format_size(size)} used; what is free only its machine knows")
        return
    size = sum(path.stat().st_size for path in settings.data_dir.glob("server.db*"))
    free = shutil.disk_usage(settings.data_dir).free
    problems = [f"{format_size(free)} free"] if free < _MIN_FREE_BYTES else []
    report.add("disk space", problems, f"{format_size(size)} used, {format_size(free)} free")


def _check_sqlite_integrity(connection: Connection, report: CheckReport) -> None:
    texts = [row[0] for row in connection.exec_driver_sql(f"PRAGMA integrity_check({_NAMED + 1})")]
    report.add("integrity", [text for text in texts if text != "ok"], "the file is sound")
    broken = [
        f"{table} row {row_id} refers to a row of {parent} that is not there"
        for table, row_id, parent, _ in connection.exec_driver_sql("PRAGMA foreign_key_check")
    ]
    report.add("foreign keys", broken, "every reference leads to a row")


def _check_postgres_constraints(connection: Connection, report: CheckReport) -> None:
    rows = connection.exec_driver_sql(
        "SELECT conrelid::regclass::text, conname FROM pg_constraint "
        "WHERE connamespace = current_schema()::regnamespace AND NOT convalidated"
    )
    report.add(
        "foreign keys",
        [f"{table}: the constraint {name} is not validated" for table, name in rows],
        "all constraints are in force",
    )
    rows = connection.exec_driver_sql(
        "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
        "WHERE c.relnamespace = current_schema()::regnamespace AND NOT i.indisvalid"
    )
    report.add("indexes", [f"{name} is not valid: REINDEX INDEX {name}" for (name,) in rows], "all are valid")


def _check_references(connection: Connection, report: CheckReport) -> None:
    """References that no constraint of the database guards."""
    foreign = select(RUNS.c.id).join(EXPERIMENTS, EXPERIMENTS.c.id == RUNS.c.experiment_id)
    rows = connection.execute(foreign.where(RUNS.c.project_id != EXPERIMENTS.c.project_id).limit(_NAMED + 1))
    problems = [f"the run {row.id} is in another project than its experiment" for row in rows]
    report.add("references", problems, "runs and experiments agree on their project")
