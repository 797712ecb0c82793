"""The server's start and its memory: CPU to the first answer, megabytes idle and under load.

Run with `python benchmarks/server_start.py`. The store is SQLite, and migrated already: the first start,
which makes the tables, is not what a restart costs.
"""

from __future__ import annotations

import json
import sys
import tempfile
from typing import Final

from _server_process import ServerProcess, request, start_dokimos
from server_ingestion import CLIENTS, MEMORY_BUDGET, Clients, start_runs

CPU_BUDGET: Final = 1.5
"""Seconds."""
IDLE_BUDGET: Final = 120
"""Megabytes."""
STARTS: Final = 5
ITEMS: Final = 20_000
PAGES: Final = 100


def start(folder: str) -> tuple[ServerProcess, float]:
    """Start a server; return it with the CPU that it took to its first answer of 200."""
    server = start_dokimos(DOKIMOS_DATA_DIR=folder)
    request(server.connect(), "GET", "/actuator/health")
    return server, server.cpu()


def load(server: ServerProcess) -> float:
    """Send items and read pages; return the memory that the server then holds."""
    runs = start_runs(server)
    clients = Clients([server], [runs])
    for size in (10, 100):
        clients.send(0, size, ITEMS // 2)
    connection = server.connect()
    for number in range(PAGES):
        run = runs[number % CLIENTS]
        page = request(connection, "GET", f"/api/v1/runs/{run}?size=500&page={number % 10}")
        if len(page["items"]["content"]) != 500:
            raise SystemExit(f"A page is not what was sent: {json.dumps(page)[:300]}")
    return server.megabytes()


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        start(folder)[0].stop()
        spent, idle = [], []
        for _ in range(STARTS):
            server, cpu = start(folder)
            spent.append(cpu)
            idle.append(server.megabytes())
            server.stop()
        server, _ = start(folder)
        loaded = load(server)
        server.stop()
    print(f"start to the first 200  {min(spent):6.2f} s of CPU (budget {CPU_BUDGET})")
    print(f"memory, idle            {max(idle):6.0f} MB (budget {IDLE_BUDGET})")
    print(f"memory, under load      {loaded:6.0f} MB (budget {MEMORY_BUDGET})")
    return int(min(spent) > CPU_BUDGET or max(idle) > IDLE_BUDGET or loaded > MEMORY_BUDGET)


if __name__ == "__main__":
    sys.exit(main())
