"""The queueing model of `dokimos size` beside a server under load: predicted and measured p95.

Run with `python benchmarks/sizing.py [--rounds N] [--seconds N]`. `dokimos serve` on SQLite gets batches of
10 items, as documented clients send them. In several rounds, of which the middle figures count, it measures
what the model is given:

- a server that has nothing else to do, from one client that pauses between requests: how long a request
  takes, and how much CPU;
- its capacity, from 16 clients that send the next request after an answer. The time between two of their ends
  is the service time there.

After each of that come 20, 50 or 75 % of that capacity, with arrivals of a Poisson process. A request that
could not be sent in time counts from when it was due.

The prediction is that of the command, `predict_p95` with its unit cost of the variation, given the measured
capacity and CPU. It counts waiting and CPU; what a request takes beside its CPU without load (disk, network)
is added. Where other programs take the cores, neither the capacity nor the p95 is that of the server: it says
so. Exits with 1 where a prediction is further from the measured p95 than the budget.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from typing import Final

from _server_process import ServerProcess, percentile, request, start_dokimos
from server_ingestion import item, open_connection, start_runs

from dokimos._sizing.answer_time import CLIENTS, RequestKind, predict_p95
from dokimos._sizing.unit_costs import UnitCosts

LEVELS: Final = (0.2, 0.5, 0.75)
SHARE: Final = 0.95
BUDGET: Final = 0.25
"""How far the prediction may be from what was measured, as a share of it."""
BATCH: Final = 10
CONNECTIONS: Final = 64
"""Of the open loop: requests that may be under way at once."""
QUIET: Final = 0.9
PAUSE: Final = 0.005
UNLOADED_REQUESTS: Final = 200
CAPACITY_REQUESTS: Final = 2400


@dataclass(frozen=True)
class Server:
    """What the model is given of a server."""

    unloaded: list[float]
    """How long requests take that come alone, in seconds."""
    cpu: float
    """The CPU of such a request."""
    service: float
    """What a request takes at the capacity."""
    core_share: float
    """How much of a core the server had then. One that nobody disturbs has more than 0.9."""

    @classmethod
    def of_rounds(cls, rounds: Sequence[Server]) -> Server:
        """Return the middle figures."""
        return cls(
            unloaded=[time for each in rounds for time in each.unloaded],
            cpu=statistics.median(each.cpu for each in rounds),
            service=statistics.median(each.service for each in rounds),
            core_share=min(each.core_share for each in rounds),
        )

    @property
    def lone_factor(self) -> float:
        """The CPU of a request that comes alone, beside one at the capacity."""
        return self.cpu / self.service

    @property
    def variation(self) -> float:
        """The squared coefficient of variation of the time of a request that comes alone."""
        return statistics.pvariance(self.unloaded) / statistics.mean(self.unloaded) ** 2

    @property
    def beside_cpu(self) -> float:
        """What a request takes beside its CPU where nothing else comes: disk, network and the client."""
        return max(0.0, statistics.median(self.unloaded) - self.cpu)

    def predict(self, level: float) -> float:
        """Return the p95 at a share of the capacity."""
        predicted = predict_p95(
            [RequestKind(level / self.service, self.service)],
            lone_factor=self.lone_factor,
            variation=UnitCosts()["service-variation"],
        )
        assert predicted is not None, level
        return predicted + self.beside_cpu


class Sender:
    """Sends batches of items to a server; its runs get them in turns."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._runs = start_runs(server)
        self._body = json.dumps({"items": [item(number) for number in range(BATCH)]}).encode()
        self._numbers = count()
        self.sent_items = 0

    @property
    def text_bytes(self) -> int:
        """The texts of what was sent, as JSON without the names of the documented fields."""
        return self.sent_items * sum(map(len, _texts(item(0))))

    def send(self, connection: HTTPConnection) -> None:
        number = next(self._numbers)
        path = f"/api/v1/runs/{self._runs[number % len(self._runs)]}/items"
        request(connection, "POST", path, self._body, key=f"sizing-{number}")
        self.sent_items += BATCH

    def send_alone(self, requests: int) -> tuple[list[float], float]:
        """Return how long each request took, one after another with pauses, and its CPU at the server."""
        times = []
        with closing(open_connection(self._server)) as connection:
            self.send(connection)
            cpu = self._server.cpu()
            for _ in range(requests):
                time.sleep(PAUSE)
                start = time.perf_counter()
                self.send(connection)
                times.append(time.perf_counter() - start)
        return times, (self._server.cpu() - cpu) / requests

    def send_at_capacity(self, requests: int) -> tuple[list[float], float]:
        """Let clients send the next request after an answer.

        Returns:
            When each request ended, and how much of a core the server had.
        """
        ends: list[float] = []

        def work(connection: HTTPConnection) -> None:
            for _ in range(requests // CLIENTS):
                self.send(connection)
                ends.append(time.perf_counter())

        cpu, start = self._server.cpu(), time.perf_counter()
        self._run_threads(CLIENTS, work)
        share = (self._server.cpu() - cpu) / (time.perf_counter() - start)
        return sorted(ends), share

    def send_poisson(self, rate: float, seconds: float, seed: int) -> list[float]:
        """Return how long each request took from when it was due."""
        arrivals = poisson_arrivals(rate, seconds, seed)
        lock, times, began = threading.Lock(), [], time.perf_counter() + 0.1

        def work(connection: HTTPConnection) -> None:
            while True:
                with lock:
                    arrival = next(arrivals, None)
                if arrival is None:
                    return
                due = began + arrival
                time.sleep(max(0.0, due - time.perf_counter()))
                self.send(connection)
                times.append(time.perf_counter() - due)

        self._run_threads(CONNECTIONS, work)
        return times

    def _run_threads(self, number: int, work: Callable[[HTTPConnection], None]) -> None:
        connections = [open_connection(self._server) for _ in range(number)]
        threads = [threading.Thread(target=work, args=(each,)) for each in connections]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for connection in connections:
            connection.close()


def poisson_arrivals(rate: float, seconds: float, seed: int) -> Iterator[float]:
    """Yield the seconds after the start at which requests are due."""
    source, now = random.Random(seed), 0.0
    while True:
        now += source.expovariate(rate)
        if now > seconds:
            return
        yield now


def measure_server(sender: Sender) -> Server:
    """Measure the server without load and at its capacity."""
    unloaded, cpu = sender.send_alone(UNLOADED_REQUESTS)
    ends, share = sender.send_at_capacity(CAPACITY_REQUESTS)
    steady = ends[CLIENTS:-CLIENTS]  # until all clients are at work, and since some are no more
    return Server(unloaded, cpu, (steady[-1] - steady[0]) / (len(steady) - 1), share)


def print_server(server: Server) -> None:
    """Print what the model is given."""
    print(
        f"capacity {BATCH / server.service:,.0f} items/s: {server.service * 1000:.2f} ms a request, "
        f"with {server.core_share:.2f} of a core\n"
        f"without load {server.cpu * 1000:.2f} ms of CPU a request (x{server.lone_factor:.2f}), "
        f"{server.beside_cpu * 1000:.2f} ms beside it, p95 "
        f"{percentile(server.unloaded, SHARE) * 1000:.1f} ms, "
        f"variation {server.variation:.2f} (unit cost {UnitCosts()['service-variation']:g})"
    )
    if server.core_share < QUIET:
        print("Other programs took the cores: what follows says nothing about the model.")


@dataclass(frozen=True)
class Loaded:
    """A level of load for some seconds, right after the server was measured for it."""

    server: Server
    measured: float
    """The p95, in seconds."""
    predicted: float


def measure_levels(sender: Sender, rounds: int, seconds: float) -> list[list[Loaded]]:
    """Measure each level in some rounds.

    The speed of a machine changes within a minute, and near the capacity the p95 follows it closely: so the
    server is measured anew right before each level.
    """
    loads: list[list[Loaded]] = [[] for _ in LEVELS]
    for number in range(rounds):
        for place, level in enumerate(LEVELS):
            server = measure_server(sender)
            times = sender.send_poisson(level / server.service, seconds, 100 * number + place)
            loads[place].append(Loaded(server, percentile(times, SHARE), server.predict(level)))
    return loads


def print_levels(loads: Sequence[Sequence[Loaded]]) -> bool:
    """Print the middle p95 of each level beside the predicted one.

    Returns:
        Whether all predictions are within the budget.
    """
    is_within = True
    for level, rounds in zip(LEVELS, loads, strict=True):
        measured, predicted = [each.measured for each in rounds], [each.predicted for each in rounds]
        middle, expected = statistics.median(measured), statistics.median(predicted)
        error = abs(expected / middle - 1)
        is_within = is_within and error <= BUDGET
        print(
            f"at {level:.0%}: p95 measured {_describe(measured)}, predicted {_describe(predicted)}; "
            f"off by {error:.0%} (budget {BUDGET:.0%})"
        )
    return is_within


def _describe(seconds: Sequence[float]) -> str:
    middle, low, high = (each(seconds) * 1000 for each in (statistics.median, min, max))
    return f"{middle:.1f} ms ({low:.1f} to {high:.1f})"


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, str):
        yield value


def print_disk(folder: Path, sender: Sender) -> None:
    """Print what an item takes on disk beside its texts, once the log is in the file."""
    stored = (folder / "server.db").stat().st_size
    beside = (stored - sender.text_bytes) / sender.sent_items
    print(f"disk: {beside:,.0f} bytes for an item beside its texts ({sender.sent_items:,} items)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each figure is measured")
    parser.add_argument("--seconds", type=float, default=10, help="how long each level lasts")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = start_dokimos(DOKIMOS_DATA_DIR=folder, LOG_LEVEL="WARN")
        sender = Sender(server)
        try:
            sender.send_at_capacity(800)  # the first requests fill caches
            loads = measure_levels(sender, arguments.rounds, arguments.seconds)
            print_server(Server.of_rounds([each.server for rounds in loads for each in rounds]))
            is_within = print_levels(loads)
        finally:
            server.stop()
        print_disk(Path(folder), sender)
    if not is_within:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
