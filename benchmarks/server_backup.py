"""What backup, restore, export and import take, beside a raw copy of the same rows.

Each command runs as a process of its own, on a store that is filled directly. The raw copy of SQLite is
SQLite's own (`VACUUM INTO`); that of PostgreSQL takes the rows of all tables out and in with COPY, in the
driver. Memory is the peak of the process of the command.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from _server_databases import Place, add_database_option, make_places
from _server_fill import fill_postgres, fill_sqlite

ITEMS: Final = 500_000
"""A tenth of what the budgets are for."""
MAX_MEGABYTES: Final = 400.0


@dataclass(frozen=True)
class Cost:
    """What a command took."""

    wall: float
    cpu: float
    megabytes: float


def run(place: Place, *arguments: str, may_find: bool = False) -> Cost:
    """Run `dokimos db` on a database; the counts that the filled store has are not all right."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DOKIMOS_", "DB_"))}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "dokimos", "db", *arguments]
    began = time.perf_counter()
    process = subprocess.Popen(command, env={**kept, **place.variables}, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode and not (may_find and process.returncode == 1):
        raise SystemExit(f"{' '.join(arguments)}: exit code {process.returncode}")
    scale = 1024 * 1024 if sys.platform == "darwin" else 1024
    return Cost(time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / scale)


def measure(action: Callable[[], object]) -> Cost:
    """Run something in this process."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    action()
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(time.perf_counter() - began, cpu, 0.0)


def copy_sqlite(place: Place, folder: Path) -> None:
    connection = sqlite3.connect(place.address)
    connection.execute("VACUUM INTO ?", (str(folder / "copy.db"),))
    connection.close()


async def copy_postgres(source: Place, target: Place, folder: Path) -> None:
    import asyncpg

    async def tables(connection: Any) -> list[str]:
        from dokimos.server._db.schema import METADATA

        return [table.name for table in METADATA.sorted_tables]

    out, into = await asyncpg.connect(source.address), await asyncpg.connect(target.address)
    for name in await tables(out):
        await out.copy_from_table(name, output=str(folder / name), format="binary")
    async with into.transaction():
        for name in await tables(into):
            await into.copy_to_table(name, source=str(folder / name), format="binary")
    await out.close()
    await into.close()


def show(name: str, rows: int, cost: Cost) -> None:
    memory = f"{cost.megabytes:6.0f} MB" if cost.megabytes else " " * 9
    print(
        f"  {name:24} {cost.wall:7.1f} s  {cost.cpu:7.1f} CPU s  {rows / cost.wall:10,.0f} rows/s {memory}",
        flush=True,
    )


def measure_place(places: list[Place], items: int, folder: Path) -> bool:
    source, target, copy, moved = places
    run(source, "upgrade")
    if source.kind == "sqlite":
        fill_sqlite(source.address, items)
        raw = measure(lambda: copy_sqlite(source, folder))
    else:
        asyncio.run(fill_postgres(source.address, items))
        run(copy, "upgrade")
        raw = measure(lambda: asyncio.run(copy_postgres(source, copy, folder)))
    archive, export, project = (str(folder / name) for name in ("backup.zip", "export.zip", "project.zip"))
    backup = run(source, "backup", archive)
    from dokimos.server._admin.archive import Archive

    with Archive(Path(archive)) as opened:
        rows = opened.manifest.row_count
    size = Path(archive).stat().st_size / 1e6
    print(f"{source.kind}, {items:,} items, {rows:,} rows, backup of {size:,.0f} MB")
    show("raw copy", rows, raw)
    show("backup", rows, backup)
    peak = backup.megabytes
    for name, place, arguments in (
        ("export", source, ["export", export]),
        ("export of a project", source, ["export", "--project", "project 0", project]),
        ("restore", target, ["restore", archive]),
        ("import", moved, ["import", export]),
        ("import again", moved, ["import", export]),
        ("check", target, ["check"]),
    ):
        cost = run(place, *arguments, may_find=name == "check")
        show(name, rows, cost)
        peak = max(peak, cost.megabytes)
    return peak < MAX_MEGABYTES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=ITEMS)
    add_database_option(parser)
    options = parser.parse_args()
    fits = True
    for places in make_places(options.database, 4):
        with tempfile.TemporaryDirectory() as folder:
            fits &= measure_place(places, options.items, Path(folder))
    if not fits:
        raise SystemExit(f"a command took more than {MAX_MEGABYTES:.0f} MB")


if __name__ == "__main__":
    main()
