"""How long the pages of traces take, with a month of traces in the tables.

Run with `python benchmarks/server_trace_pages.py [--traces N] [--folder F] [--delete]`. It fills a store
(`_server_fill_traces.py`) with 100,000 traces of about 18 spans, or with `--traces 560000` with as many as
the budgets are for, and reads lists, searches and the dashboard over HTTP, one after another. A page that the
server does not have is left out. With `--delete`, the older half of the traces expires: the lists are read
again while the server removes it and afterwards, and the file has to become shorter. With `--folder` the
store is kept there, and is used as it is if it is there already, so that a large one is filled once.
"""

from __future__ import annotations

import argparse
import http.client
import sqlite3
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

from _server_fill_traces import DAYS, PROJECTS, fill
from _server_process import ServerProcess, percentile, start_dokimos
from _trace_exports import make_vocabulary

REQUESTS: Final = 60
BUDGETS: Final = {"list": 80, "text search": 150, "common words": 150, "long past": 150, "dashboard": 60}
"""Milliseconds, the p95; without one for the others."""
LISTS: Final = ("list", "list of a week")
DELETE_BUDGET: Final = 1.5
"""Times the p95 of a list while half of the spans is removed, and afterwards."""
SWEEP_MILLISECONDS: Final = 1000
WARM_UPS: Final = 5
"""Rounds of lists that are read first, to fill caches: a large store is not in memory yet."""
PATIENCE: Final = 120
"""Seconds in which something has to be removed."""


def pages(number: int) -> dict[str, str]:
    """Return the paths that are measured, a little different each time."""
    project = PROJECTS[number % len(PROJECTS)]
    now = datetime.now(UTC)
    week = {"from": (now - timedelta(days=7)).isoformat(), "to": now.isoformat()}
    month = {"from": (now - timedelta(days=DAYS)).isoformat(), "to": now.isoformat()}
    past = {"from": (now - timedelta(days=21)).isoformat(), "to": (now - timedelta(days=14)).isoformat()}
    words = make_vocabulary()
    word, common = words[100 + number * 17], words[number]
    filters: tuple[dict[str, str], ...] = (
        {},
        {"sessionId": f"session {number}"},
        {"minCostUsd": "0.01"},
        {"status": "error"},
    )
    return {
        "list": "/api/v1/traces?" + urlencode({"project": project} | filters[number % 4]),
        "list of a week": "/api/v1/traces?" + urlencode({"project": project, **week}),
        "page by number": "/api/v1/traces?" + urlencode({"page": 1000 - number}),
        "text search": "/api/v1/traces?" + urlencode({"project": project, "search": word, **week}),
        "common words": "/api/v1/traces?" + urlencode({"project": project, "search": common, **week}),
        "long past": "/api/v1/traces?" + urlencode({"project": project, "search": common, **past}),
        "sessions": "/api/v1/trace-sessions?" + urlencode({"project": project}),
        "dashboard": f"/api/v1/projects/{quote(project)}/trace-stats?" + urlencode(month),
    }


def measure(connection: http.client.HTTPConnection) -> None:
    """Print the p95 of each page."""
    for name in pages(0):
        times = []
        for number in range(REQUESTS):
            seconds, failure = read_page(connection, pages(number)[name])
            times.append(seconds)
            if failure is not None:
                print(f"{name:<15} not measured: {failure}")
                break
        else:
            budget = f" (budget {BUDGETS[name]})" if name in BUDGETS else ""
            middle, slow = percentile(times, 0.5) * 1000, percentile(times, 0.95) * 1000
            print(f"{name:<15} p50 {middle:.0f} ms, p95 {slow:.0f} ms{budget}")


def read_page(connection: http.client.HTTPConnection, path: str) -> tuple[float, str | None]:
    """Return how long a page took, and what the server said where it did not answer with one."""
    start = time.perf_counter()
    connection.request("GET", path)
    answer = connection.getresponse()
    content = answer.read()
    failure = None if answer.status == 200 else f"{answer.status} {content[:200]!r}"
    return time.perf_counter() - start, failure


def measure_lists(connection: http.client.HTTPConnection) -> list[float]:
    """Return how long each of some lists took."""
    times = []
    for number in range(REQUESTS):
        for name in LISTS:
            seconds, failure = read_page(connection, pages(number)[name])
            if failure is not None:
                raise SystemExit(f"{name} was not read: {failure}")
            times.append(seconds)
    return times


def measure_deletion(folder: Path) -> None:
    """Print the p95 of lists while half of the traces is removed, while the file shrinks, and afterwards."""
    (before, cpu_before), spans, size = measure_quiet(folder), count_spans(folder), size_of(folder)
    expire_half(folder)
    server = start(folder, DOKIMOS_TRACE_SWEEP_INTERVAL_MS=str(SWEEP_MILLISECONDS))
    try:
        connection = server.connect()
        removing = Phase(server, folder)
        while has_expired(folder):
            removing.measure(connection)
        print(f"{spans - count_spans(folder):,} of {spans:,} spans removed in {removing.describe()}")
        print_change("while removing", removing.times, before)
        shrinking = Phase(server, folder)
        while size_of(folder) > 0.6 * size:
            shrinking.measure(connection)
        print(f"the file got {size_of(folder) / size:.0%} of its size in {shrinking.describe()}")
        if shrinking.times:
            print_change("while it shrinks", shrinking.times, before)
    finally:
        server.stop()
    after, cpu_after = measure_quiet(folder)
    print_change("afterwards", after, before)
    print(
        f"CPU of a list: {cpu_before * 1000:.2f} ms before, {cpu_after * 1000:.2f} ms afterwards, "
        f"x{cpu_after / cpu_before:.2f}"
    )


class Phase:
    """What goes on while the server removes something, which has to get on."""

    def __init__(self, server: ServerProcess, folder: Path) -> None:
        self._server, self._folder = server, folder
        self._cpu, self._began_at = server.cpu(), time.perf_counter()
        self._state, self._changed_at = self._look(), self._began_at
        self.times: list[float] = []

    def measure(self, connection: http.client.HTTPConnection) -> None:
        """Read lists; ends the program where nothing has been removed for too long."""
        self.times += measure_lists(connection)
        last, self._state = self._state, self._look()
        moment = time.perf_counter()
        self._changed_at = moment if self._state != last else self._changed_at
        if moment - self._changed_at > PATIENCE:
            raise SystemExit(f"Nothing was removed for {PATIENCE} s: {self._state[0]:,} spans are left.")

    def describe(self) -> str:
        """Say how long it took."""
        seconds, cpu = time.perf_counter() - self._began_at, self._server.cpu() - self._cpu
        return f"{seconds:.0f} s ({cpu:.0f} s of CPU with the lists)"

    def _look(self) -> tuple[int, int]:
        return count_spans(self._folder), size_of(self._folder)


def print_change(name: str, times: list[float], before: list[float]) -> None:
    """Print the p95 of lists beside that of before."""
    p95, slow = percentile(times, 0.95), percentile(before, 0.95)
    print(
        f"lists {name}: p95 {p95 * 1000:.1f} ms of {len(times)}, {slow * 1000:.1f} before, "
        f"x{p95 / slow:.2f} (budget {DELETE_BUDGET})",
        flush=True,
    )


def measure_quiet(folder: Path) -> tuple[list[float], float]:
    """Return how long lists take while nothing is removed, and the CPU of one."""
    server = start(folder)
    try:
        connection = server.connect()
        for _ in range(WARM_UPS):
            measure_lists(connection)
        cpu = server.cpu()
        times = [each for _ in range(5) for each in measure_lists(connection)]
        return times, (server.cpu() - cpu) / len(times)
    finally:
        server.stop()


def start(folder: Path, **variables: str) -> ServerProcess:
    """Start the server on a folder."""
    return start_dokimos(
        DOKIMOS_DATA_DIR=str(folder), DOKIMOS_PUBLIC_TRACES="true", LOG_LEVEL="WARN", **variables
    )


def expire_half(folder: Path) -> None:
    """Let the older half of the traces be past its retention."""
    with closing(sqlite3.connect(folder / "traces.db")) as connection, connection:
        query = "SELECT id FROM traces ORDER BY id LIMIT 1 OFFSET (SELECT count(*) / 2 FROM traces)"
        (middle,) = connection.execute(query).fetchone()
        connection.execute("UPDATE traces SET expires_at = 1 WHERE id < ?", (middle,))


def has_expired(folder: Path) -> bool:
    """Whether any trace is left that is past its retention."""
    with closing(sqlite3.connect(folder / "traces.db")) as connection:
        query = "SELECT 1 FROM traces WHERE deleted_at IS NOT NULL OR expires_at = 1 LIMIT 1"
        return connection.execute(query).fetchone() is not None


def count_spans(folder: Path) -> int:
    """Return how many spans there are."""
    with closing(sqlite3.connect(folder / "traces.db")) as connection:
        count: int = connection.execute("SELECT sum(span_count) FROM traces").fetchone()[0]
        return count


def size_of(folder: Path) -> int:
    """Return the bytes of the file of the traces."""
    return (folder / "traces.db").stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=100_000)
    parser.add_argument("--delete", action="store_true", help="remove half of the traces afterwards")
    parser.add_argument("--folder", type=Path, help="keep the store here, and use the one that is here")
    parser.add_argument("--fill-only", action="store_true", help="measure nothing")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        if not (folder / "traces.db").exists():
            start_of_cpu = time.process_time()
            spans = fill(folder, arguments.traces)
            print(
                f"{arguments.traces:,} traces of {spans:,} spans stored in "
                f"{time.process_time() - start_of_cpu:.0f} s of CPU, {size_of(folder) / 1e9:.2f} GB"
            )
        if arguments.fill_only:
            return
        server = start(folder)
        try:
            measure(server.connect())
            print(f"memory {server.megabytes():.0f} MB")
        finally:
            server.stop()
        if arguments.delete:
            measure_deletion(folder)


if __name__ == "__main__":
    main()
