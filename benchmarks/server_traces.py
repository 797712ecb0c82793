"""Traces sent to the server over HTTP: its CPU beside that of a limit script, throughput, memory and disk.

Run with `python benchmarks/server_traces.py [--rounds N] [--spans N]`. Four clients send exports of about
100 spans each, of agents with growing histories (`_trace_exports.py`), to `dokimos serve` and to
`_server_limit_traces.py` in turns: on SQLite, on disk before the answer. The figure is the CPU of the
server's own process per 1,000 spans, the middle one of the rounds; the ratio is taken for each pair of
rounds, since a loaded machine slows both. Then many more spans show how memory and disk grow, and the p95 of
items is measured alone and beside 2,000 spans a second, by turns. The budget of the memory is for
`--spans 500000`.
"""

from __future__ import annotations

import argparse
import http.client
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from _server_process import ServerProcess, percentile, request, start_dokimos
from _trace_exports import TraceMaker, make_exports, write_json
from server_ingestion import Clients, start_runs

CLIENTS: Final = 4
CPU_BUDGET: Final = {"protobuf": 75, "json": 100}
"""Milliseconds of CPU per 1,000 spans."""
RATE_BUDGET: Final = 5000
MEMORY_BUDGET: Final = 150
"""Megabytes."""
DISK_BUDGET: Final = 3.5
"""Times the protobuf that was sent."""
SPANS_PER_ROUND: Final = 3000
BESIDE_RATE: Final = 2000
"""Spans per second beside which items are measured."""
ITEM_RATE: Final = 400
"""Items per second of four clients, ten in each request."""
P95_BUDGET: Final = 1.5
LIMIT: Final = str(Path(__file__).with_name("_server_limit_traces.py"))
_TYPES: Final = {"protobuf": "application/x-protobuf", "json": "application/json"}


class TraceClients:
    """Four clients, each with a connection of its own to a server."""

    def __init__(self, server: ServerProcess) -> None:
        self._connections = [server.connect() for _ in range(CLIENTS)]

    def send(self, bodies: list[bytes], encoding: str) -> None:
        """Send exports, each client the next one after an answer."""
        waiting = iter(bodies)
        lock = threading.Lock()

        def work(connection: http.client.HTTPConnection) -> None:
            while True:
                with lock:
                    body = next(waiting, None)
                if body is None:
                    return
                send(connection, body, encoding)

        threads = [threading.Thread(target=work, args=(each,)) for each in self._connections]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def send(connection: http.client.HTTPConnection, body: bytes, encoding: str) -> None:
    """Send one export; raises where it is refused."""
    connection.request("POST", "/api/v1/traces", body, {"Content-Type": _TYPES[encoding]})
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 200:
        raise SystemExit(f"An export was refused: {answer.status} {content[:500]!r}")


def measure_cpu(limit: ServerProcess, dokimos: ServerProcess, maker: TraceMaker, rounds: int) -> None:
    """Print what exports of both encodings cost."""
    servers = (limit, dokimos)
    clients = [TraceClients(server) for server in servers]
    for encoding in ("protobuf", "json"):
        pairs, rates = [], []
        for number in range(rounds + 1):
            exports = list(make_exports(maker, SPANS_PER_ROUND))
            spans = sum(count for _, count in exports)
            bodies = [
                each.SerializeToString() if encoding == "protobuf" else write_json(each)
                for each, _ in exports
            ]
            spent = []
            for server, process in enumerate(servers):
                cpu, start = process.cpu(), time.perf_counter()
                clients[server].send(bodies, encoding)
                rate = spans / (time.perf_counter() - start)
                spent.append((process.cpu() - cpu) / spans * 1e6)
            if number:  # the first round fills caches
                pairs.append(spent)
                rates.append(rate)
        ratio = statistics.median(ours / least for least, ours in pairs)
        least, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(
            f"{encoding:<9} {ours:.0f} ms of CPU per 1,000 spans (budget {CPU_BUDGET[encoding]}), "
            f"limit {least:.0f}, x{ratio:.2f}; {statistics.median(rates):,.0f} spans/s "
            f"(budget {RATE_BUDGET:,} on a quiet machine)"
        )


def measure_growth(dokimos: ServerProcess, folder: Path, maker: TraceMaker, spans: int) -> None:
    """Print the memory and the disk that many spans take."""
    clients = TraceClients(dokimos)
    before, sent = size_of(folder), 0
    began_at = dokimos.megabytes()
    dokimos.reset_peak()
    for bodies in divide_exports(maker, spans):
        clients.send(bodies, "protobuf")
        sent += sum(map(len, bodies))
    print(
        f"{spans:,} spans of {sent / spans:,.0f} bytes: memory at most {dokimos.peak_megabytes():.0f} MB "
        f"(budget {MEMORY_BUDGET}; {began_at:.0f} before), "
        f"disk x{(size_of(folder) - before) / sent:.2f} of the protobuf (budget {DISK_BUDGET})"
    )


def divide_exports(maker: TraceMaker, spans: int) -> Iterator[list[bytes]]:
    """Yield exports in parts, so that they are never all in memory."""
    part: list[bytes] = []
    for export, _ in make_exports(maker, spans):
        part.append(export.SerializeToString())
        if len(part) == 50:
            yield part
            part = []
    yield part


def size_of(folder: Path) -> int:
    """Return the bytes of the file of the traces; its log is emptied into it again and again."""
    return (folder / "traces.db").stat().st_size


def measure_items(dokimos: ServerProcess, maker: TraceMaker, rounds: int) -> None:
    """Print the p95 of items alone and beside spans at a steady rate, by turns."""
    clients = Clients([dokimos], [start_runs(dokimos)])
    clients.send(0, 10, 800)
    pairs: list[tuple[float, float]] = []
    for _ in range(rounds):
        alone = percentile(clients.send(0, 10, 2000, rate=ITEM_RATE), 0.95)
        with send_steadily(dokimos, maker) as sent:
            beside = percentile(clients.send(0, 10, 2000, rate=ITEM_RATE), 0.95)
        pairs.append((alone, beside))
    alone, beside = (statistics.median(column) * 1000 for column in zip(*pairs, strict=True))
    ratios = sorted(beside / alone for alone, beside in pairs)
    print(
        f"p95 of 10 items: {alone:.1f} ms alone, {beside:.1f} ms beside {sent():,.0f} spans/s, "
        f"x{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}; budget {P95_BUDGET})"
    )


@contextmanager
def send_steadily(dokimos: ServerProcess, maker: TraceMaker) -> Iterator[Callable[[], float]]:
    """Send spans at `BESIDE_RATE` meanwhile; yield what says how many were sent a second."""
    exports = [(each.SerializeToString(), count) for each, count in make_exports(maker, 20 * BESIDE_RATE)]
    is_over = threading.Event()
    sent, seconds = 0, 1.0

    def keep_sending() -> None:
        nonlocal sent, seconds
        connection, began_at = dokimos.connect(), time.perf_counter()
        for body, count in exports:
            pause = began_at + sent / BESIDE_RATE - time.perf_counter()
            if is_over.wait(max(0.0, pause)):
                break
            send(connection, body, "protobuf")
            sent += count
        seconds = time.perf_counter() - began_at

    thread = threading.Thread(target=keep_sending)
    thread.start()
    yield lambda: sent / seconds
    is_over.set()
    thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="turns of both servers")
    parser.add_argument(
        "--spans", type=int, default=50_000, help="spans that memory and disk are measured with"
    )
    arguments = parser.parse_args()
    maker = TraceMaker(seed=os.getpid())
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        prepared = start_dokimos(DOKIMOS_DATA_DIR=first)
        request(prepared.connect(), "GET", "/api/v1/projects")
        prepared.stop()
        limit = ServerProcess(LIMIT, f"{first}/traces.db")
        dokimos = start_dokimos(DOKIMOS_DATA_DIR=second, LOG_LEVEL="WARN")
        try:
            measure_cpu(limit, dokimos, maker, arguments.rounds)
            measure_growth(dokimos, Path(second), maker, arguments.spans)
            measure_items(dokimos, maker, arguments.rounds)
        finally:
            limit.stop()
            dokimos.stop()


if __name__ == "__main__":
    main()
