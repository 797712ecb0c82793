"""`dokimos db`: the database of a server: upgrade, check, back up, move."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from dokimos._cli.db_traces import load_traces, read_times, write_traces
from dokimos._cli.echo import echo, overwrite_line
from dokimos._cli.exit_codes import EXIT_BELOW
from dokimos._core.text import format_size, pluralize

if TYPE_CHECKING:
    from collections import Counter

    from dokimos.server._admin.archive import Manifest
    from dokimos.server._admin.checking import Finding
    from dokimos.server._admin.loading import LoadReport
    from dokimos.server._settings import ServerSettings

C = TypeVar("C", bound=Callable[..., Any])
_SHOW_SECONDS: Final = 0.2
_ROWS: Final = {
    "alert_deliveries": ("alert_delivery", "alert_deliveries"),
    "api_keys": ("API_key", "API_keys"),
    "audit_log": ("audit_log_entry", "audit_log_entries"),
    "ingested_batches": ("ingested_batch", "ingested_batches"),
    "trace_eval_batches": ("trace_eval_batch", "trace_eval_batches"),
    "trace_latencies": ("trace_latency", "trace_latencies"),
}
"""What the rows of tables are called whose names do not say that by themselves."""


@click.group()
def db() -> None:
    """Upgrade, check, back up and move the database of a server.

    It is the database that `dokimos serve` would use: PostgreSQL where DOKIMOS_DATABASE_URL, DB_HOST,
    DB_NAME, DB_USERNAME or DB_PASSWORD is set, else the SQLite file in DOKIMOS_DATA_DIR.

    \b
    dokimos db check                       what is wrong with it, if anything
    dokimos db backup backup.zip           everything as it is now, while the server runs
    dokimos db restore backup.zip          into an empty database
    dokimos db export --project chat FILE  what people work with, without keys and secrets
    dokimos db import FILE                 into a database that is in use, SQLite or PostgreSQL
    dokimos db export --only-traces FILE   production traces, from any store, for `import`
    dokimos db rotate-key                  encrypt its secrets with a new passphrase
    """


def _data_dir_option(command: C) -> C:
    return click.option(
        "--data-dir", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
        help="The folder of the SQLite files.  [default: DOKIMOS_DATA_DIR or ~/.dokimos]",
    )(command)  # fmt: skip


_FILE: Final = click.Path(dir_okay=False, path_type=Path)
_force_option: Final = click.option("--force", is_flag=True, help="Replace a file that is there.")


@db.command()
@click.option(
    "--check", "--dry-run", "only_check", is_flag=True,
    help="Say what is to be done and change nothing; the exit code is 1 where there is something.",
)  # fmt: skip
@click.option("--contract", is_flag=True, help="Also remove what no version in use needs any more.")
@_data_dir_option
def upgrade(only_check: bool, contract: bool, data_dir: Path | None) -> int:
    """Bring the tables up to date.

    A server does the same when it starts. Upgrades only add tables, columns and indexes, so servers of the
    version before can go on running on the same PostgreSQL. What they no longer need is removed only with
    --contract, once all servers are upgraded.
    """
    settings = _settings(data_dir)
    from dokimos.server._admin.databases import describe_database
    from dokimos.server._admin.upgrading import find_upgrade, upgrade_database
    from dokimos.server._db.migrate import HEAD

    found = find_upgrade(settings) if only_check else upgrade_database(settings)
    now = "no tables" if found.version is None else f"schema {found.version}"
    echo(f"{describe_database(settings)}: {now}, this version has {HEAD}")
    for step in found.pending:
        echo(f"  {'to do' if only_check else 'done'}  {step.version}  {step.purpose}")
    if not found.pending:
        echo("It is up to date.")
    needs_traces = _upgrade_traces(settings, only_check)
    if contract:
        echo("There is nothing to remove: no version has left anything behind yet.")
    return EXIT_BELOW if only_check and (found.pending or needs_traces) else 0


def _upgrade_traces(settings: ServerSettings, only_check: bool) -> bool:
    from dokimos.server._admin.trace_database import describe_traces, has_traces, upgrade_traces
    from dokimos.server._db.migrate import TRACE_HEAD

    if not has_traces(settings):
        return False
    version, is_old = upgrade_traces(settings, only_check=only_check)
    now = "no tables" if version is None else f"schema {version}"
    what = ("to do" if only_check else "done") if is_old else "up to date"
    echo(f"traces: {describe_traces(settings)}: {now}, this version has {TRACE_HEAD}: {what}")
    return is_old


@db.command()
@click.option("--repair", is_flag=True, help="Set kept counts that are wrong to what their rows give.")
@_data_dir_option
def check(repair: bool, data_dir: Path | None) -> int:
    """Check that the database is sound.

    That is: connection, schema, permissions, disk space, integrity and counts. It reads one snapshot and may
    run beside a server. The counts that pages show are kept with the rows; here they are counted again, and
    each one that differs is named. Exit code: 0 where all is well, 1 where something is not, 2 where the
    database cannot be used at all.
    """
    settings = _settings(data_dir)
    from dokimos.server._admin.checking import check_database, repair_database
    from dokimos.server._admin.trace_database import check_traces

    with _line_on_terminal() as show:
        report = check_database(settings, progress=lambda subject: show(f"checking {subject}"))
        show("checking traces")
        check_traces(settings, report)
    for finding in report.findings:
        _show_finding(finding)
    if not repair:
        if report.differences:
            echo("To set the counts right: dokimos db check --repair")
        return EXIT_BELOW if report.has_problems else 0
    repaired = repair_database(settings, report)
    echo(f"{pluralize(repaired, 'count')} repaired." if repaired else "There was no count to repair.")
    return EXIT_BELOW if check_database(settings).has_problems else 0


@db.command()
@click.argument("file", type=_FILE)
@click.option(
    "--traces", type=_FILE, metavar="COPY", help="Also copy the file of production traces (SQLite)."
)
@click.option("--with-traces", is_flag=True, help="Also production traces, which may be much larger.")
@_force_option
@_data_dir_option
def backup(file: Path, traces: Path | None, with_traces: bool, force: bool, data_dir: Path | None) -> int:
    """Write the whole database to FILE, for `restore`.

    It is written as it is now, to a ZIP archive, also while servers run. It holds keys (as hashes) and
    secrets: keep it as safe as the database. FILE appears when it is whole.

    Production traces are in a database of their own and are in FILE only with --with-traces. With SQLite,
    --traces copies their file instead, which is quicker, and is restored by putting it back as traces.db.
    """
    settings = _settings(data_dir)
    from dokimos.server._admin.selection import Selection
    from dokimos.server._admin.trace_database import copy_traces, describe_traces, has_traces

    code = _write(settings, file, Selection(is_backup=True), (), force, with_traces=with_traces)
    if traces is not None:
        size = copy_traces(settings, traces, replaces=force)
        echo(f"wrote {traces} ({format_size(size)}): the traces")
    elif has_traces(settings) and not with_traces:
        where = describe_traces(settings)
        echo(f"Production traces are not in it: they are in {where}. --with-traces adds them.")
    return code


@db.command()
@click.argument("file", type=_FILE)
@click.option("--replace", "replaces", is_flag=True, help="Give up what the database holds now.")
@_data_dir_option
def restore(file: Path, replaces: bool, data_dir: Path | None) -> int:
    """Make the database what a backup holds.

    All of it is restored, or nothing changes. The database must be empty, or is replaced with --replace.
    Stop its servers first. A backup of an older version is brought up to date; one of a newer version is
    refused. SQLite and PostgreSQL restore each other's backups.
    """
    settings = _settings(data_dir)
    from dokimos.server._admin.restoring import restore_archive

    with _progress() as progress:
        report = restore_archive(settings, file, replaces=replaces, progress=progress)
    echo(f"restored {file}: {_list_counts(report.added)}")
    if report.added["api_keys"]:
        echo("Keys are as they were when it was written: revoke again those that were revoked since then.")
    return 0


@db.command("export")
@click.argument("file", type=_FILE)
@click.option(
    "--project", "projects", multiple=True, metavar="NAME",
    help="A project, with the dataset versions of its runs; may be repeated.  [default: everything]",
)  # fmt: skip
@click.option("--with-comparisons", is_flag=True, help="Also the comparisons that were computed.")
@click.option("--with-keys", is_flag=True, help="Also keys (as hashes) and people, of the whole server.")
@click.option("--only-traces", is_flag=True, help="Production traces, and nothing else.")
@click.option("--from", "start", metavar="TIME", help="Traces that were received then or later.")
@click.option("--to", "end", metavar="TIME", help="Traces that were received before.")
@_force_option
@_data_dir_option
def export_(
    file: Path,
    projects: Sequence[str],
    with_comparisons: bool,
    with_keys: bool,
    only_traces: bool,
    start: str | None,
    end: str | None,
    force: bool,
    data_dir: Path | None,
) -> int:
    """Write projects, or all of them, to FILE, for `import`.

    Servers may run meanwhile. Runs, items, scores, comments, annotations and datasets go along with their
    ids. Secrets never do.

    With --only-traces it writes production traces instead, compressed by gzip: spans and log records as they
    were sent, from SQLite, PostgreSQL or ClickHouse. A TIME is such as 2026-11-01 or 2026-11-01T12:00:00Z.

    \b
    dokimos db export --project chat chat.zip
    DOKIMOS_DATABASE_URL=postgresql://... dokimos db import chat.zip
    dokimos db export --only-traces --project chat --from 2026-11-01 traces.jsonl.gz
    """
    if only_traces:
        if with_comparisons or with_keys:
            raise click.UsageError("--only-traces exports neither comparisons nor keys.")
        with _progress() as progress:
            return write_traces(_settings(data_dir), file, projects, read_times(start, end), force, progress)
    if start is not None or end is not None:
        raise click.UsageError("--from and --to choose traces: give --only-traces with them.")
    if projects and with_keys:
        raise click.UsageError("Keys belong to the whole server: give either --project or --with-keys.")
    settings = _settings(data_dir)
    from dokimos.server._admin.selection import Selection

    selection = Selection(with_keys=with_keys, with_comparisons=with_comparisons)
    return _write(settings, file, selection, tuple(dict.fromkeys(projects)), force)


@db.command("import")
@click.argument("file", type=_FILE)
@click.option(
    "--skip-existing", is_flag=True,
    help="Leave rows that the database has with other values as they are, runs and dataset versions as a "
    "whole, instead of importing nothing.",
)  # fmt: skip
@click.option("--with-keys", is_flag=True, help="Also keys and people, where FILE has them.")
@_data_dir_option
def import_(file: Path, skip_existing: bool, with_keys: bool, data_dir: Path | None) -> int:
    """Add what FILE holds to the database.

    FILE is an export or a backup. All of it is added, under the same ids, or nothing. What the database has
    already with the same values is skipped, so an import can be repeated. Servers on PostgreSQL may run
    meanwhile; one on SQLite must be stopped.

    Or it is an export of production traces, which are added part by part: one that is interrupted can be
    repeated, and skips the spans that are there. Redaction rules and the retention of the target hold.
    """
    settings = _settings(data_dir)
    from dokimos.server._admin.trace_file import is_trace_file

    if is_trace_file(file):
        if skip_existing or with_keys:
            raise click.UsageError("FILE has traces: --skip-existing and --with-keys are not for these.")
        with _progress() as progress:
            return load_traces(settings, file, progress)
    from dokimos.server._admin.importing import import_archive

    with _progress() as progress:
        report = import_archive(
            settings, file, with_keys=with_keys, skips_different=skip_existing, progress=progress
        )
    _show_load(file, report)
    return 0


@db.command("rotate-key")
@_data_dir_option
def rotate_key(data_dir: Path | None) -> int:
    """Encrypt all secrets with the passphrase in DOKIMOS_ENCRYPTION_KEY.

    The one that it replaces is in DOKIMOS_FORMER_ENCRYPTION_KEYS. Servers on PostgreSQL may run meanwhile, if
    they know both; one on SQLite must be stopped. The command can be repeated, and continues where it was
    interrupted. Exit code: 0 where the former passphrase is no longer needed, 1 where a secret cannot be
    read, which is named and stays as it is.
    """
    settings = _settings(data_dir)
    from dokimos.server._admin.rotating import rotate_keys

    with _progress() as progress:
        rotation = rotate_keys(settings, progress=progress)
    changed, current = rotation.changed.total(), rotation.current.total()
    listed = ", ".join(pluralize(count, kind) for kind, count in rotation.changed.items() if count)
    echo(f"encrypted anew: {listed or 'nothing'}" + (f"; {current:,} already were" if current else ""))
    for lost in rotation.lost:
        echo(f"cannot be read: {lost.owner}: {lost.reason}")
    if not rotation.lost and changed + current:
        echo("The former passphrases are no longer needed.")
    return EXIT_BELOW if rotation.lost else 0


def _settings(data_dir: Path | None) -> ServerSettings:
    from dokimos._core.extras import require

    require("fastapi", extra="server")
    from dokimos.server._settings import ServerSettings

    settings = ServerSettings.from_environment()
    return settings if data_dir is None else replace(settings, data_dir=data_dir)


def _write(
    settings: ServerSettings,
    file: Path,
    selection: Any,
    projects: Sequence[str],
    force: bool,
    *,
    with_traces: bool = False,
) -> int:
    from dokimos.server._admin.export import write_archive

    with _progress() as progress:
        manifest = write_archive(
            settings,
            file,
            selection,
            project_names=projects,
            with_traces=with_traces,
            replaces=force,
            progress=progress,
        )
    _show_manifest(file, manifest)
    return 0


def _show_manifest(file: Path, manifest: Manifest) -> None:
    counts = {table.name: table.rows for table in (*manifest.tables, *manifest.trace_tables)}
    echo(f"wrote {file} ({format_size(file.stat().st_size)}): {_list_counts(counts)}")


def _show_load(file: Path, report: LoadReport) -> None:
    echo(f"imported {file}: {_list_counts(report.added)}")
    for counts, what in ((report.equal, "were there already"), (report.different, "differ and were skipped")):
        if counts.total():
            echo(f"  {what}: {_list_counts(counts)}")


def _list_counts(counts: Counter[str] | dict[str, int]) -> str:
    return ", ".join(_count_rows(count, name) for name, count in counts.items() if count) or "nothing"


def _count_rows(count: int, table: str) -> str:
    """Return a number of rows with what these are: `1 project`, `3 audit log entries`."""
    one, several = _ROWS.get(table, (table.removesuffix("s"), table))
    return f"{count:,} {one if count == 1 else several}".replace("_", " ")


def _show_finding(finding: Finding) -> None:
    echo(f"{finding.outcome.value:8} {finding.subject:13} {finding.text}")
    for detail in finding.details:
        echo(f"{'':8} {'':13} {detail}")


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str, int], None]]:
    """Show which table is being read or written, and how far it is, on a terminal."""
    with _line_on_terminal() as show:
        yield lambda table, rows: show(f"{table.replace('_', ' ')} {rows:,}")


@contextlib.contextmanager
def _line_on_terminal() -> Iterator[Callable[[str], None]]:
    """A line on a terminal's error output that is written over, and removed at the end."""
    if not (sys.stderr and sys.stderr.isatty()):
        yield lambda text: None
        return
    shown_at = 0.0

    def show(text: str) -> None:
        nonlocal shown_at
        if time.monotonic() - shown_at >= _SHOW_SECONDS:
            shown_at = time.monotonic()
            overwrite_line(text)

    try:
        yield show
    finally:
        overwrite_line("")
