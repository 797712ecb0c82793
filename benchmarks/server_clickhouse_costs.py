"""What spans take of disk and CPU where they are in ClickHouse, and their traces beside it.

Run with `python benchmarks/server_clickhouse_costs.py [--spans N] [--database NAME]`. `dokimos serve` gets
spans as protobuf, in exports of 100. ClickHouse is the engine of the tests (`tools/test_clickhouse.py
--engine`), in a process of its own; its CPU includes that of the few lines that speak HTTP there, and of
merging what was inserted. Disk is that of the active parts of the table, as they were merged by themselves
and as one; then that of the database of the traces. `dokimos size` has the figures.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from _server_databases import Place, add_database_option, make_places
from _server_process import ServerProcess, start_dokimos
from _trace_exports import TraceMaker
from server_database_costs import Database
from server_traces import TraceClients, divide_exports

from dokimos.server._clickhouse_address import parse_clickhouse_url
from dokimos.server._db.clickhouse_client import ClickHouseClient
from dokimos.server._db.clickhouse_parameters import Statement

ROOT: Final = Path(__file__).parents[1]
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_IS_ACTIVE: Final = "database = currentDatabase() AND table = 'spans' AND active"
_QUIET_SECONDS: Final = 5.0
"""For merges in the background, after the last span."""


@dataclass(frozen=True)
class Engine:
    """A ClickHouse, and its process."""

    url: str
    pid: int

    def cpu(self) -> float:
        """Return the CPU seconds that it has taken, those of threads that have ended included."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def read(self, text: str) -> tuple[int, ...]:
        """Return the first row of a query."""
        client = ClickHouseClient(parse_clickhouse_url(self.url))
        try:
            return client.submit(client.read(Statement(text), seconds=600)).result()[0]
        finally:
            client.close()

    def execute(self, text: str) -> None:
        """Run a statement."""
        client = ClickHouseClient(parse_clickhouse_url(self.url))
        try:
            client.submit(client.execute(Statement(text), seconds=600)).result()
        finally:
            client.close()

    def measure_bytes(self) -> tuple[int, int]:
        """Return the bytes of the spans on disk, and in how many parts they are."""
        size, parts = self.read(f"SELECT sum(bytes_on_disk), count() FROM system.parts WHERE {_IS_ACTIVE}")
        return size, parts


@contextmanager
def start_engine(python: str) -> Iterator[Engine]:
    """The engine of the tests with an empty database, in a folder that is removed afterwards."""
    script = ROOT / "tests" / "server" / "embedded_clickhouse.py"
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [python, str(script), folder],
            stdout=subprocess.PIPE,
            text=True,
            env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        )
        assert process.stdout is not None
        try:
            port = process.stdout.readline().strip()
            server = f"clickhouse://default:{quote('secret%word')}@127.0.0.1:{port}"
            Engine(f"{server}/default", process.pid).execute("CREATE DATABASE traces")
            yield Engine(f"{server}/traces", process.pid)
        finally:
            process.kill()
            process.wait()


def measure(place: Place, engine: Engine, spans: int) -> None:
    """Print what spans take."""
    server = start_dokimos(**place.variables, DOKIMOS_TRACE_DATABASE_URL=engine.url, LOG_LEVEL="WARN")
    try:
        _send_and_print(server, Database(place), engine, place.kind, spans)
    finally:
        server.stop()


def _send_and_print(server: ServerProcess, rows: Database, engine: Engine, kind: str, spans: int) -> None:
    clients, maker = TraceClients(server), TraceMaker(seed=1)
    before = (server.cpu(), rows.measure_cpu(), engine.cpu(), rows.measure_bytes())
    began, sent = time.monotonic(), 0
    for bodies in divide_exports(maker, spans):
        clients.send(bodies, "protobuf")
        sent += sum(map(len, bodies))
    seconds = time.monotonic() - began
    time.sleep(_QUIET_SECONDS)
    cpu, of_rows, of_engine = (
        after - first
        for after, first in zip((server.cpu(), rows.measure_cpu(), engine.cpu()), before[:3], strict=True)
    )
    count = engine.read("SELECT count() FROM spans")[0]
    size, parts = engine.measure_bytes()
    engine.execute("OPTIMIZE TABLE spans FINAL")
    merged, _ = engine.measure_bytes()
    beside = rows.measure_bytes() - before[3]
    print(
        f"clickhouse beside {kind}: {count:,} spans of {sent / count:,.0f} bytes as protobuf, "
        f"{count / seconds:,.0f} spans/s\n"
        f"  ClickHouse: {size / count:,.0f} bytes per span in {parts} parts (x{size / sent:.3f} of the "
        f"protobuf), {merged / count:,.0f} merged into one (x{merged / sent:.3f}), "
        f"{of_engine / count * 1e6:.0f} ms of CPU per 1,000 spans, x{of_engine / cpu:.2f} of the server's\n"
        f"  beside it: {beside / count:,.0f} bytes per span (x{beside / sent:.3f} of the protobuf), "
        f"{of_rows / count * 1e6:.0f} ms of CPU per 1,000 spans, x{of_rows / cpu:.2f} of the server's\n"
        f"  server: {cpu / count * 1e6:.0f} ms of CPU per 1,000 spans"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=20_000, help="spans that are sent")
    add_database_option(parser)
    arguments = parser.parse_args()
    build = [sys.executable, str(ROOT / "tools" / "test_clickhouse.py"), "--engine"]
    built = subprocess.run(build, check=False, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        print("clickhouse not measured: its engine cannot be installed")
        return
    python = built.stdout.split()[-1]
    for [place] in make_places(arguments.database):
        with start_engine(python) as engine:
            measure(place, engine, arguments.spans)


if __name__ == "__main__":
    main()
