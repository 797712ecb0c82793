"""What a PostgreSQL takes of disk and CPU for items and spans, beside the same on SQLite.

Run with `python benchmarks/server_database_costs.py [--spans N] [--requests N] [--database NAME]`.
`dokimos serve` on each database gets spans as protobuf, in exports of 100, then batches of 10 items with
three scores. Disk is that of the database, without its write-ahead log, before anything is removed. The CPU
of PostgreSQL is that of all its processes, for each second of CPU of the server. `dokimos size` has the
figures.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path
from typing import Any, Final

from _server_databases import Place, add_database_option, make_places
from _server_process import ServerProcess, start_dokimos
from _trace_exports import TraceMaker
from server_traces import TraceClients, divide_exports
from sizing import BATCH, Sender

from dokimos._sizing.answer_time import CLIENTS

_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Database:
    """The database of a server: its size, and the CPU of its processes."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def measure_bytes(self) -> int:
        """Return the bytes on disk, once what is in the log is in the files."""
        if self._place.kind == "sqlite":
            folder = Path(self._place.address).parent
            return sum(file.stat().st_size for file in folder.glob("*.db"))
        self._query("CHECKPOINT")
        return int(self._query("SELECT pg_database_size(current_database())"))

    def measure_cpu(self) -> float:
        """Return the CPU seconds of PostgreSQL; 0 for SQLite, which is in the server."""
        if self._place.kind == "sqlite":
            return 0.0
        first = Path(self._query("SHOW data_directory"), "postmaster.pid").read_text().split()[0]
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        # Of those that have ended, the first process has the times.
        own, *others = (_read_times(pid) for pid in (first, *children))
        return (sum(own) + sum(sum(times[:2]) for times in others)) / _TICKS

    def _query(self, statement: str) -> Any:
        import asyncpg

        async def ask() -> Any:
            connection = await asyncpg.connect(self._place.address)
            try:
                return await connection.fetchval(statement)
            finally:
                await connection.close()

        return asyncio.run(ask())


def _read_times(pid: str) -> list[int]:
    """Return the ticks of a process in user and system mode, then those of its ended children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [int(field) for field in fields[11:15]]


def measure_spans(server: ServerProcess, database: Database, kind: str, spans: int) -> None:
    """Print what spans take."""
    clients, maker = TraceClients(server), TraceMaker(seed=1)
    before, cpu, of_database = database.measure_bytes(), server.cpu(), database.measure_cpu()
    sent = 0
    for bodies in divide_exports(maker, spans):
        clients.send(bodies, "protobuf")
        sent += sum(map(len, bodies))
    cpu, of_database = server.cpu() - cpu, database.measure_cpu() - of_database
    print(
        f"{kind:<10} {spans:,} spans: disk x{(database.measure_bytes() - before) / sent:.2f} of the "
        f"protobuf, {cpu / spans * 1e6:.0f} ms of CPU per 1,000 spans, "
        f"database x{of_database / cpu:.2f} of that"
    )


def measure_items(server: ServerProcess, database: Database, kind: str, requests: int) -> None:
    """Print what items take."""
    sender = Sender(server)
    sender.send_at_capacity(10 * CLIENTS)
    before, cpu, of_database = database.measure_bytes(), server.cpu(), database.measure_cpu()
    text, items = sender.text_bytes, sender.sent_items
    sender.send_at_capacity(requests)
    text, items = sender.text_bytes - text, sender.sent_items - items
    cpu, of_database = server.cpu() - cpu, database.measure_cpu() - of_database
    beside = (database.measure_bytes() - before - text) / items
    print(
        f"{kind:<10} {items:,} items in batches of {BATCH}: {beside:,.0f} bytes beside their texts, "
        f"{cpu / items * 1e6:.0f} ms of CPU per 1,000 items, database x{of_database / cpu:.2f} of that"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=20_000, help="spans that are sent")
    parser.add_argument("--requests", type=int, default=2_000, help="batches of items that are sent")
    add_database_option(parser)
    arguments = parser.parse_args()
    for [place] in make_places(arguments.database):
        server = start_dokimos(**place.variables, LOG_LEVEL="WARN")
        try:
            measure_spans(server, Database(place), place.kind, arguments.spans)
            measure_items(server, Database(place), place.kind, arguments.requests)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
