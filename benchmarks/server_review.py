"""The review queue of a server with years of runs in it, a fifth of whose items people have decided: the p95.

Run with `python benchmarks/server_review.py [--items 5000000] [--database sqlite|postgresql]`; a tenth of
five million items by default. The oldest runs are decided, so that a page begins behind all of them.
Then the largest run is opened again: its queue begins with 100,000 items that nobody has decided.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import time
from typing import Final

from _server_databases import Place, add_database_option, make_places
from _server_fill import LARGE_RUN, Filled
from _server_process import ServerProcess, percentile, request, start_dokimos
from server_pages import P95_BUDGET, REQUESTS, fill

_DECIDED: Final = 5
"""One of so many runs is decided, the oldest ones."""


def decide_oldest(count: int, true: str, author: str) -> tuple[str, ...]:
    """The statements that let people have decided all items of the oldest runs."""
    oldest = f"SELECT id FROM runs ORDER BY started_at, id LIMIT {count}"
    return (
        f"UPDATE items SET reviewed = {true} WHERE run_id IN ({oldest})",
        "INSERT INTO annotations (item_id, tenant_id, id, verdict, created_by, created_at, updated_at) "
        f"SELECT id, '', id, 'CORRECT', '{author}', created_at, created_at FROM items "
        "WHERE reviewed IS NOT NULL",
        f"UPDATE runs SET reviewed_count = item_count, reviewed_failed_count = item_count - passed_count "
        f"WHERE id IN ({oldest})",
    )


def decide(place: Place, filled: Filled) -> None:
    """Decide the oldest items in the tables; over HTTP a million verdicts would take an hour."""
    runs = max(1, (filled.items // _DECIDED - LARGE_RUN) // 1000)
    # The many short runs are the oldest behind the large one.
    execute(place, decide_oldest(1001 + runs, "1" if place.kind == "sqlite" else "true", "system"))


def reopen_large_run(place: Place, filled: Filled) -> None:
    """Let nobody have decided the items of the large run, which is the oldest of all."""
    run = f"x'{filled.large_run.hex}'" if place.kind == "sqlite" else f"'{filled.large_run}'"
    execute(
        place,
        (
            f"UPDATE items SET reviewed = NULL WHERE run_id = {run}",
            f"DELETE FROM annotations WHERE item_id IN (SELECT id FROM items WHERE run_id = {run})",
            f"UPDATE runs SET reviewed_count = 0, reviewed_failed_count = 0 WHERE id = {run}",
        ),
    )


def execute(place: Place, statements: tuple[str, ...]) -> None:
    """Execute statements in a database that no server uses."""
    if place.kind == "sqlite":
        connection = sqlite3.connect(place.address, isolation_level=None)
        for statement in statements:
            connection.execute(statement)
        connection.close()
        return
    asyncio.run(_execute_postgres(place.address, statements))


async def _execute_postgres(url: str, statements: tuple[str, ...]) -> None:
    import asyncpg

    connection = await asyncpg.connect(url)
    for statement in (*statements, "VACUUM ANALYZE"):
        await connection.execute(statement, timeout=1800)
    await connection.close()


def pages(filled: Filled, last: str) -> dict[str, str]:
    """The requests by what they show."""
    queue = "/api/v1/review-queue"
    project = filled.project.replace(" ", "%20")
    return {
        "oldest": queue,
        "of a project": f"{queue}?projectName={project}",
        "of a run": f"{queue}?runId={filled.small_run}",
        "failed": f"{queue}?outcome=failed",
        "evaluators disagree": f"{queue}?disagree=true",
        "a sample of a tenth": f"{queue}?sample=0.1",
        "near a threshold": f"{queue}?near=0.1",
        "assigned to nobody": f"{queue}?assigned=nobody",
        "behind an item": f"{queue}?after={last}",
        "page 1,000": f"{queue}?page=1000",
        "most informative": f"{queue}?sort=informative",
    }


def pages_of_large_run(filled: Filled) -> dict[str, str]:
    """The requests for the one run of 100,000 items, of which none is decided."""
    queue = f"/api/v1/review-queue?runId={filled.large_run}"
    return {
        "of a large run": queue,
        "its failed": f"{queue}&outcome=failed",
        "its disagreeing": f"{queue}&disagree=true",
        "its sample of a tenth": f"{queue}&sample=0.1",
        "its near a threshold": f"{queue}&near=0.1",
        "its most informative": f"{queue}&sort=informative",
    }


def measure(name: str, server: ServerProcess, filled: Filled) -> None:
    """Print the p95 of each page of the queue, and of claims."""
    connection = server.connect()
    page = request(connection, "GET", "/api/v1/review-queue?page=100")
    print(f"{name}: {filled.items:,} items, of which {page['totalElements']:,} wait")
    measure_pages(server, pages(filled, page["content"][-1]["itemId"]))
    measure_claims(server)


def measure_pages(server: ServerProcess, paths: dict[str, str]) -> None:
    """Print the p95 of each page."""
    connection = server.connect()
    for what, path in paths.items():
        request(connection, "GET", path)
        times, cpu = [], server.cpu()
        for _ in range(REQUESTS):
            start = time.perf_counter()
            request(connection, "GET", path)
            times.append((time.perf_counter() - start) * 1000)
        spent = (server.cpu() - cpu) / REQUESTS * 1000
        p95 = percentile(times, 0.95)
        print(f"  {what:<22} p95 {p95:6.1f} ms (budget {P95_BUDGET}), {spent:6.1f} ms of CPU each")


CLAIMS: Final[dict[str, dict[str, object]]] = {
    "claim the oldest": {},
    "claim failed ones": {"outcome": "failed"},
    "claim a sample": {"sample": 0.1},
    "claim most informative": {"order": "informative"},
}


def measure_claims(server: ServerProcess) -> None:
    """Print the p95 of claiming ten items, which are given back each time."""
    connection = server.connect()
    for what, body in CLAIMS.items():
        times: list[float] = []
        for _ in range(REQUESTS):
            start = time.perf_counter()
            content = json.dumps({"count": 10, **body}).encode()
            claimed = request(connection, "POST", "/api/v1/review-queue/claim", content)
            times.append((time.perf_counter() - start) * 1000)
            assert len(claimed["items"]) == 10
            request(connection, "POST", "/api/v1/review-queue/release", b"{}")
        print(f"  {what:<22} p95 {percentile(times, 0.95):6.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=500_000, help="items in the store")
    add_database_option(parser)
    arguments = parser.parse_args()
    for (place,) in make_places(arguments.database):
        filled = fill(place, arguments.items)
        decide(place, filled)
        server = start_dokimos(**place.variables)
        try:
            measure(place.kind, server, filled)
        finally:
            server.stop()
        reopen_large_run(place, filled)
        server = start_dokimos(**place.variables)
        try:
            measure_pages(server, pages_of_large_run(filled))
        finally:
            server.stop()


if __name__ == "__main__":
    main()
