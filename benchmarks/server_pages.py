"""Pages of a server with years of runs in it: the p95 of lists, of runs and of their items.

Run with `python benchmarks/server_pages.py [--items 5000000] [--database sqlite|postgresql]`; a tenth of five
million items by default, all of them under `make bench-server`. `_server_fill.py` writes them to the tables.
One client asks, one request after another, over HTTP.

With 5 million items, on two quiet cores, p95 in ms on SQLite and on PostgreSQL: projects and experiments 6
and 9, 1,000 runs 38 and 27, 50 of them 4 and 7, searched 10 and 7, a page of a run of 1,000 items 15 and 14,
the first and the last page of a run of 100,000 items 10 to 21 and 11 to 28, its failed items 13 and 19, those
of one evaluator 64 and 52. Over the budget: a text searched in 100,000 items, 252 and 639, which no index
serves; and the outline of 100,000 items, which is no page: 725 and 915. PostgreSQL took 6,380 for that, when
it read the 15 million scores of all runs to find the 300,000 of one.

The outline of the large run is measured beside the bare driver, which fetches the same scores. With 20,000
items and 100,000 scores: 0.23 s of CPU on SQLite, where objects for the rows took 0.76 and the driver takes
0.09 to 0.15; and 0.05 s on PostgreSQL, which makes the arrays, where objects for the rows took 0.71.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import time
from contextlib import closing
from typing import Final

from _server_databases import Place, add_database_option, make_places
from _server_fill import LARGE_RUN, Filled, fill_postgres, fill_sqlite
from _server_process import ServerProcess, percentile, request, start_dokimos

P95_BUDGET: Final = 80
"""Milliseconds."""
REQUESTS: Final = 40
_SIZE: Final = 50


def pages(filled: Filled) -> dict[str, str]:
    """The requests by what they show."""
    large = f"/api/v1/runs/{filled.large_run}"
    busy = f"/api/v1/experiments/{filled.busy_experiment}"
    last = LARGE_RUN // _SIZE - 1
    return {
        "projects": "/api/v1/projects",
        "experiments": f"/api/v1/projects/{filled.project.replace(' ', '%20')}/experiments",
        "1,000 runs": f"{busy}/runs",
        "runs, 50 of them": f"{busy}/runs?limit=50",
        "runs, of a branch": f"{busy}/runs?branch=main&limit=50",
        "runs, searched": f"{busy}/runs?search=feature-30&limit=50",
        "trends, 20 runs": f"{busy}/trends",
        "run of 1,000 items": f"/api/v1/runs/{filled.small_run}",
        "large run, first page": large,
        "large run, middle page": f"{large}?page={last // 2}",
        "large run, last page": f"{large}?page={last}",
        "large run, failed items": f"{large}?outcome=failed",
        "large run, one evaluator": f"{large}?failedEvaluator=faithfulness",
        "large run, searched": f"{large}?search=country%209999%3F",
        "large run, outline": f"{large}/outline",
    }


def measure(name: str, server: ServerProcess, filled: Filled) -> None:
    """Print the p95 of each page."""
    print(f"{name}: {filled.items:,} items")
    connection = server.connect()
    for what, path in pages(filled).items():
        request(connection, "GET", path)
        times = []
        cpu = server.cpu()
        for _ in range(REQUESTS):
            start = time.perf_counter()
            request(connection, "GET", path)
            times.append((time.perf_counter() - start) * 1000)
        p95 = percentile(times, 0.95)
        spent = (server.cpu() - cpu) / REQUESTS * 1000
        print(f"  {what:<26} p95 {p95:6.1f} ms (budget {P95_BUDGET}), {spent:6.1f} ms of CPU each")


_SCORES: Final = """SELECT e.item_id, e.evaluator, e.score, e.success, e.judged
FROM evaluations e JOIN items i ON i.id = e.item_id WHERE i.run_id = {run}
ORDER BY i.ordinal, i.repetition, e.position"""


def measure_yardstick(place: Place, filled: Filled) -> None:
    """Print what the bare driver takes for the scores of the outline."""
    cpu = time.process_time()
    if place.kind == "sqlite":
        with closing(sqlite3.connect(place.address)) as connection:
            query = _SCORES.format(run="?")
            count = len(connection.execute(query, (filled.large_run.bytes,)).fetchall())
    else:
        count = asyncio.run(_fetch_scores(place.address, filled))
    spent = (time.process_time() - cpu) * 1000
    print(f"  the bare driver fetches the {count:,} scores of that outline in {spent:.1f} ms of CPU")


async def _fetch_scores(url: str, filled: Filled) -> int:
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        return len(await connection.fetch(_SCORES.format(run="$1"), filled.large_run))
    finally:
        await connection.close()


def fill(place: Place, items: int) -> Filled:
    """Fill an empty database."""
    start_dokimos(**place.variables).stop()
    if place.kind == "sqlite":
        return fill_sqlite(place.address, items)
    return asyncio.run(fill_postgres(place.address, items))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=500_000, help="items in the store")
    add_database_option(parser)
    arguments = parser.parse_args()
    for (place,) in make_places(arguments.database):
        filled = fill(place, arguments.items)
        server = start_dokimos(**place.variables)
        try:
            measure(place.kind, server, filled)
            measure_yardstick(place, filled)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
