"""Items sent to the server over HTTP: its CPU beside that of a limit script, throughput, and p95.

Run with `python benchmarks/server_ingestion.py [--rounds N] [--database sqlite|postgresql]`. Four
clients send batches of 10 items, as documented clients do, and of 100, to `dokimos serve` and to
`_server_limit.py` in turns: the same rows into the same tables, on disk before the answer. The figure is the
CPU of the server's own process per 1,000 items; with PostgreSQL that is without what the database takes,
which is the same for both. The ratio is taken for each pair of rounds, since a loaded machine slows
both; the middle one has the budget.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

from _server_process import (
    POSTGRES_URL,
    ServerProcess,
    database_variables,
    percentile,
    postgres,
    postgres_database,
    request,
    start_dokimos,
)

CLIENTS: Final = 4
RATIO_BUDGET: Final = 1.5
CPU_BUDGET: Final = {"sqlite": 225, "postgresql": 300}
"""Milliseconds of CPU per 1,000 items."""
RATE_BUDGET: Final = 1000
P95_BUDGET: Final = 60
"""Milliseconds."""
MEMORY_BUDGET: Final = 250
"""Megabytes."""
ITEMS_PER_ROUND: Final = 2000
LIMIT: Final = str(Path(__file__).with_name("_server_limit.py"))


def item(number: int) -> dict[str, Any]:
    """Make an item with three scores, as a documented client sends it."""
    return {
        "inputs": {"question": f"What is the capital of country {number}? " * 5},
        "expectedOutputs": {"answer": "Paris"},
        "actualOutputs": {"answer": "Paris is the capital " * 10},
        "metadata": {"number": number},
        "evalResults": [
            {"name": name, "score": 0.5, "threshold": 0.5, "success": True, "reason": "because " * 10}
            for name in ("faithfulness", "relevance", "exact match")
        ],
        "success": True,
        "latencyMs": 12,
    }


class Clients:
    """Four clients, each with a connection to both servers and a run of its own."""

    def __init__(self, servers: list[ServerProcess], runs: list[list[str]]) -> None:
        self.servers = servers
        self._connections = [[_open(server) for server in servers] for _ in range(CLIENTS)]
        self._runs = runs
        self._sent = 0

    def send(self, server: int, size: int, total: int) -> list[float]:
        """Send items to a server; return how long each request took."""
        times: list[float] = []
        self._sent += 1
        body = json.dumps({"items": [item(number) for number in range(size)]}).encode()

        def work(client: int) -> None:
            connection = self._connections[client][server]
            path = f"/api/v1/runs/{self._runs[server][client]}/items"
            for number in range(total // size // CLIENTS):
                start = time.perf_counter()
                request(connection, "POST", path, body, key=f"{self._sent}-{number}")
                times.append(time.perf_counter() - start)

        threads = [threading.Thread(target=work, args=(client,)) for client in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if len(times) != total // size // CLIENTS * CLIENTS:
            raise SystemExit("A client failed; the figures mean nothing.")
        return times


def _open(server: ServerProcess) -> http.client.HTTPConnection:
    connection = server.connect()
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def measure(kind: str, rounds: int, places: list[str]) -> None:
    """Print the figures of one database.

    Args:
        kind: The database.
        rounds: How often both servers take their turn.
        places: Two folders, or two addresses of databases: for the limit script, and for the server.
    """
    variables = [_variables(kind, place) for place in places]
    prepared = start_dokimos(**variables[0])
    runs = [start_runs(prepared)]
    prepared.stop()
    place = f"{places[0]}/server.db" if kind == "sqlite" else places[0]
    limit = ServerProcess(LIMIT, kind, place)
    dokimos = start_dokimos(**variables[1])
    runs.append(start_runs(dokimos))
    try:
        clients = Clients([limit, dokimos], runs)
        for size in (10, 100):
            _measure_size(kind, size, rounds, clients)
    finally:
        limit.stop()
        dokimos.stop()


def _measure_size(kind: str, size: int, rounds: int, clients: Clients) -> None:
    for server in (0, 1):
        clients.send(server, size, 800)  # the first requests fill caches
    pairs, times, rates = [], [], []
    for _ in range(rounds):
        spent = []
        for server, process in enumerate(clients.servers):
            cpu, start = process.cpu(), time.perf_counter()
            times_of_round = clients.send(server, size, ITEMS_PER_ROUND)
            rate = ITEMS_PER_ROUND / (time.perf_counter() - start)
            spent.append((process.cpu() - cpu) / ITEMS_PER_ROUND * 1e6)
        pairs.append(spent)
        times += times_of_round
        rates.append(rate)
    ratio = statistics.median(ours / least for least, ours in pairs)
    least, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(
        f"{kind:<10} batches of {size:>3}: {ours:.0f} ms of CPU per 1,000 items (budget {CPU_BUDGET[kind]}), "
        f"limit {least:.0f}, x{ratio:.2f} (budget {RATIO_BUDGET})\n"
        f"           {statistics.median(rates):,.0f} items/s (budget {RATE_BUDGET:,}), "
        f"p95 of a request {percentile(times, 0.95) * 1000:.0f} ms (budget {P95_BUDGET}), "
        f"memory {clients.servers[1].megabytes():.0f} MB (budget {MEMORY_BUDGET})"
    )


def start_runs(dokimos: ServerProcess) -> list[str]:
    """Start a run for each client."""
    connection = dokimos.connect()
    body = json.dumps({"experimentName": "ingestion"}).encode()
    path = "/api/v1/projects/benchmark/runs"
    return [request(connection, "POST", path, body)["runId"] for _ in range(CLIENTS)]


def _variables(kind: str, place: str) -> dict[str, str]:
    return {"DOKIMOS_DATA_DIR": place} if kind == "sqlite" else database_variables(place)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="turns of both servers")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), help="only this one")
    arguments = parser.parse_args()
    if arguments.database != "postgresql":
        with tempfile.TemporaryDirectory() as limit, tempfile.TemporaryDirectory() as ours:
            measure("sqlite", arguments.rounds, [limit, ours])
    if arguments.database != "sqlite":
        with postgres() as server:
            if server is None:
                print(f"postgresql not measured: neither initdb is installed nor {POSTGRES_URL} set")
                return
            with postgres_database(server) as limit, postgres_database(server) as ours:
                measure("postgresql", arguments.rounds, [limit, ours])


if __name__ == "__main__":
    main()
