"""Items sent to the server over HTTP: its CPU beside that of a limit script, throughput, and p95.

Run with `python benchmarks/server_ingestion.py [--rounds N] [--database sqlite|postgresql]`. Four
clients send batches of 10 items, as documented clients do, and of 100, to `dokimos serve` and to
`_server_limit.py` in turns: the same rows into the same tables, on disk before the answer. The figure is the
CPU of the server's own process per 1,000 items; with PostgreSQL that is without what the database takes,
which is the same for both. The ratio is taken for each pair of rounds, since a loaded machine slows
both; the middle one has the budget. The p95 is that of requests at the rate of the budget, one after another
from each client at even times: at full speed it would only say how many clients wait for each other.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import statistics
import threading
import time
from pathlib import Path
from typing import Any, Final

from _server_databases import Place, add_database_option, make_places
from _server_process import ServerProcess, percentile, request, start_dokimos

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
PACED_ITEMS: Final = 10_000
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
        self._connections = [[open_connection(server) for server in servers] for _ in range(CLIENTS)]
        self._runs = runs
        self._sent = 0

    def send(self, server: int, size: int, total: int, *, rate: float | None = None) -> list[float]:
        """Send items to a server; return how long each request took.

        Args:
            size: Items of a request.
            total: Items of all clients.
            rate: Items per second of all clients; by default each sends the next request after the answer.
                A request that could not be sent in time counts from when it should have been.
        """
        times: list[float] = []
        self._sent += 1
        body = json.dumps({"items": [item(number) for number in range(size)]}).encode()
        pause = 0.0 if rate is None else size * CLIENTS / rate
        began = time.perf_counter()

        def work(client: int) -> None:
            connection = self._connections[client][server]
            path = f"/api/v1/runs/{self._runs[server][client]}/items"
            for number in range(total // size // CLIENTS):
                due = began + (number + client / CLIENTS) * pause
                time.sleep(max(0.0, due - time.perf_counter()))
                start = time.perf_counter() if rate is None else due
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


def open_connection(server: ServerProcess) -> http.client.HTTPConnection:
    connection = server.connect()
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def measure(places: list[Place], rounds: int) -> None:
    """Print the figures of one kind of database.

    Args:
        places: The databases of the limit script and of the server.
        rounds: How often both servers take their turn.
    """
    kind = places[0].kind
    prepared = start_dokimos(**places[0].variables)
    runs = [start_runs(prepared)]
    prepared.stop()
    limit = ServerProcess(LIMIT, kind, places[0].address)
    dokimos = start_dokimos(**places[1].variables)
    runs.append(start_runs(dokimos))
    try:
        clients = Clients([limit, dokimos], runs)
        for size in (10, 100):
            _measure_size(kind, size, rounds, clients)
            _measure_latency(size, clients)
    finally:
        limit.stop()
        dokimos.stop()


def _measure_size(kind: str, size: int, rounds: int, clients: Clients) -> None:
    for server in (0, 1):
        clients.send(server, size, 800)  # the first requests fill caches
    pairs, rates = [], []
    for _ in range(rounds):
        spent = []
        for server, process in enumerate(clients.servers):
            cpu, start = process.cpu(), time.perf_counter()
            clients.send(server, size, ITEMS_PER_ROUND)
            rate = ITEMS_PER_ROUND / (time.perf_counter() - start)
            spent.append((process.cpu() - cpu) / ITEMS_PER_ROUND * 1e6)
        pairs.append(spent)
        rates.append(rate)
    ratio = statistics.median(ours / least for least, ours in pairs)
    least, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(
        f"{kind:<10} batches of {size:>3}: {ours:.0f} ms of CPU per 1,000 items (budget {CPU_BUDGET[kind]}), "
        f"limit {least:.0f}, x{ratio:.2f} (budget {RATIO_BUDGET})\n"
        f"           {statistics.median(rates):,.0f} items/s (budget {RATE_BUDGET:,}), "
        f"memory {clients.servers[1].megabytes():.0f} MB (budget {MEMORY_BUDGET})"
    )


def _measure_latency(size: int, clients: Clients) -> None:
    times = clients.send(1, size, PACED_ITEMS, rate=RATE_BUDGET)
    print(
        f"           at {RATE_BUDGET:,} items/s: p95 of a request {percentile(times, 0.95) * 1000:.0f} ms "
        f"(budget {P95_BUDGET})"
    )


def start_runs(dokimos: ServerProcess) -> list[str]:
    """Start a run for each client."""
    connection = dokimos.connect()
    body = json.dumps({"experimentName": "ingestion"}).encode()
    path = "/api/v1/projects/benchmark/runs"
    return [request(connection, "POST", path, body)["runId"] for _ in range(CLIENTS)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="turns of both servers")
    add_database_option(parser)
    arguments = parser.parse_args()
    for places in make_places(arguments.database, 2):
        measure(places, arguments.rounds)


if __name__ == "__main__":
    main()
