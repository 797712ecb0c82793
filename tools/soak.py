"""Put a server under mixed load, and see whether its memory or its handles grow.

    python tools/soak.py [20m] [--database sqlite|postgresql]

`dokimos serve` runs as a process of its own, with the limits of the documented deployment: no process of it
may take more than 1 GiB, and all of them together must stay below that. Clients send items and spans, read
pages, review items and follow events, all at once and at a steady pace; runs that end are compared by the
server. Its memory must grow by less than 2 MB in the last 15 minutes, in forms of an hour or more by less
than 2 MB in an hour, and its handles not at all. Exits with 1 where it does, or where a request fails. Of
less than 20 minutes, the growth is shown and not judged: caches are still being filled.

It reads the memory where the system keeps it, so it needs Linux.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import resource
import statistics
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from _server_databases import add_database_option, make_places
from _server_process import ServerProcess, start_dokimos
from _trace_exports import TraceMaker, make_exports
from server_ingestion import item

LIMIT_MEGABYTES: Final = 1024
GROWTH_BUDGET: Final = 2.0
"""Megabytes."""
WINDOW_SECONDS: Final = 900.0
LONG_SECONDS: Final = 3600.0
JUDGED_SECONDS: Final = 1200.0
SAMPLE_SECONDS: Final = 5.0
SHOW_SECONDS: Final = 30.0
PROJECT: Final = "soak"
SETTINGS: Final = {"DOKIMOS_COMPARISON_MEMORY_MIB": "512", "DOKIMOS_TRACES_CREATE_PROJECTS": "true"}
FILL: Final = 20_000
"""Items, and spans, that are there from the start."""
PROTOBUF: Final = "application/x-protobuf"
_UNITS: Final = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True)
class Sample:
    """What the server held at a moment."""

    at: float
    megabytes: float
    handles: int
    all_megabytes: float
    """Of the server and the processes that it has started."""


class Client:
    """A connection that is opened again when it breaks, and waits where the server asks it to."""

    def __init__(self, server: ServerProcess, counts: Counter[str]) -> None:
        self._connection = server.connect()
        self._counts = counts

    def call(self, method: str, path: str, body: Any = None, *, kind: str = "application/json") -> Any:
        """Send a request and return the parsed answer."""
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        while True:
            headers = {"Content-Type": kind, "Accept": "text/html" if path == "/" else "*/*"}
            self._connection.request(method, path, content, headers)
            answer = self._connection.getresponse()
            text = answer.read()
            if answer.status == 503:
                self._counts["asked to wait"] += 1
                time.sleep(float(answer.headers.get("Retry-After", "1")))
                continue
            if answer.status >= 300:
                raise RuntimeError(f"{method} {path}: {answer.status} {text[:300]!r}")
            is_json = (answer.headers.get("Content-Type") or "").startswith("application/json")
            return json.loads(text) if is_json and text else text

    def close(self) -> None:
        self._connection.close()


class Load:
    """Clients that use a server all at once until they are stopped."""

    def __init__(self, server: ServerProcess) -> None:
        self.counts: Counter[str] = Counter()
        self.failure: BaseException | None = None
        self._server = server
        self._stop = threading.Event()
        works = (self._send_items, self._send_spans, self._read_pages, self._review, self._watch_events)
        self._threads = [threading.Thread(target=self._run, args=(work,), daemon=True) for work in works]

    def start(self) -> None:
        """Start all clients, once there is enough for them to read."""
        self._fill()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _fill(self) -> None:
        """Store more than the caches of the server hold, and read it with all connections to its database.

        Else both would be filled by and by, which looks like growth.
        """
        client = Client(self._server, self.counts)
        run = client.call("POST", f"/api/v1/projects/{PROJECT}/runs", {"experimentName": "items"})["runId"]
        for number in range(0, FILL, 100):
            items = [item(each) for each in range(number, number + 100)]
            client.call("POST", f"/api/v1/runs/{run}/items", {"items": items})
        for export, _ in make_exports(TraceMaker(seed=2, projects=(PROJECT,)), FILL):
            client.call("POST", "/api/v1/traces", export.SerializeToString(), kind=PROTOBUF)
        client.close()
        paths = [
            f"/api/v1/runs/{run}?sort=latencyMs",
            f"/api/v1/runs/{run}?search=country%20{FILL}",
            f"/api/v1/traces?project={PROJECT}&size=200",
            f"/api/v1/traces?project={PROJECT}&search=order",
        ]
        threads = [threading.Thread(target=self._read, args=(paths,)) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _read(self, paths: list[str]) -> None:
        client = Client(self._server, self.counts)
        for path in paths * 3:
            client.call("GET", path)
        client.close()

    def _run(self, work: Callable[[Client], None]) -> None:
        client = Client(self._server, self.counts)
        try:
            work(client)
        except BaseException as error:
            self.failure = self.failure or error
        finally:
            client.close()

    def _turns(self, seconds: float) -> Iterator[int]:
        """Count turns, one in so many seconds, until the load ends."""
        for number in itertools.count():
            if self._stop.wait(seconds if number else 0):
                return
            yield number

    def _send_items(self, client: Client) -> None:
        """Send runs of 200 items, 100 items in a second."""
        body, run = {"items": [item(number) for number in range(10)]}, ""
        for number in self._turns(0.1):
            if number % 20 == 0:
                started = client.call("POST", f"/api/v1/projects/{PROJECT}/runs", {"experimentName": "items"})
                run = started["runId"]
            client.call("POST", f"/api/v1/runs/{run}/items", body)
            self.counts["items"] += 10
            if number % 20 == 19:
                client.call("PATCH", f"/api/v1/runs/{run}", {"status": "SUCCESS"})

    def _send_spans(self, client: Client) -> None:
        """Send traces, about 100 spans in a second."""
        maker = TraceMaker(projects=(PROJECT,))
        for _ in self._turns(1.0):
            for export, spans in make_exports(maker, 100):
                client.call("POST", "/api/v1/traces", export.SerializeToString(), kind=PROTOBUF)
                self.counts["spans"] += spans

    def _read_pages(self, client: Client) -> None:
        """Read what pages show, the latest and the oldest, and what monitoring asks for."""
        for number in self._turns(0.05):
            experiments = client.call("GET", f"/api/v1/projects/{PROJECT}/experiments")
            runs = client.call("GET", f"/api/v1/experiments/{experiments[0]['id']}/runs?limit=50")
            traces = client.call("GET", f"/api/v1/traces?project={PROJECT}&size=50")
            paths = [
                "/api/v1/projects",
                f"/api/v1/experiments/{experiments[0]['id']}/trends",
                f"/api/v1/runs/{runs[number % len(runs)]['id']}?size=50",
                *(f"/api/v1/traces/{each['traceId']}" for each in traces["content"][:1]),
                f"/api/v1/review-queue?projectName={PROJECT}&size=20",
                "/",
                "/metrics",
                "/actuator/health",
            ]
            for path in paths:
                client.call("GET", path)
            self.counts["pages"] += 3 + len(paths)

    def _review(self, client: Client) -> None:
        """Claim items and give a verdict on each."""
        for _ in self._turns(0.5):
            claim = {"projectName": PROJECT, "count": 5}
            for each in client.call("POST", "/api/v1/review-queue/claim", claim)["items"]:
                path = f"/api/v1/runs/{each['runId']}/items/{each['itemId']}/review"
                client.call("PUT", path, {"verdict": "CORRECT", "note": "seen"})
                self.counts["reviews"] += 1

    def _watch_events(self, client: Client) -> None:
        """Follow what changes, with a new connection again and again."""
        for _ in self._turns(0.5):
            connection = self._server.connect()
            connection.request("GET", f"/api/v1/events?project={PROJECT}")
            answer = connection.getresponse()
            if answer.status == 200:
                for _ in range(20):
                    self.counts["events"] += answer.readline().startswith(b"event:")
            answer.close()
            connection.close()


def main() -> int:
    """Run the load, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("duration", nargs="?", default="20m", type=parse_duration, help="such as 20m or 2h")
    add_database_option(parser)
    arguments = parser.parse_args()
    for [place] in make_places(arguments.database or "sqlite"):
        with start_limited(place.variables) as server:
            return soak(server, arguments.duration)
    return 1  # the database is not installed, which has been said


def parse_duration(text: str) -> float:
    """Return the seconds of `90s`, `20m` or `2h`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text)
    if match is None or float(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration; write 20m or 2h")
    return float(match[1]) * _UNITS[match[2]]


@contextmanager
def start_limited(variables: dict[str, str]) -> Iterator[ServerProcess]:
    """Start a server whose processes can take no more than the limit."""
    server = start_dokimos(**SETTINGS, **variables)
    try:
        limit = LIMIT_MEGABYTES * 2**20
        resource.prlimit(server.pid, resource.RLIMIT_DATA, (limit, limit))
        yield server
    finally:
        server.stop()


def soak(server: ServerProcess, duration: float) -> int:
    """Load a server for so many seconds, show how it goes, and return the exit code."""
    load = Load(server)
    load.start()
    began = time.monotonic()
    samples: list[Sample] = []
    try:
        shown = 0.0
        while (passed := time.monotonic() - began) < duration and load.failure is None:
            time.sleep(min(SAMPLE_SECONDS, duration - passed))
            samples.append(take_sample(server, time.monotonic() - began))
            if samples[-1].at - shown >= SHOW_SECONDS:
                shown = samples[-1].at
                print(describe(samples[-1], load.counts), flush=True)
    finally:
        load.stop()
    if load.failure is not None:
        print(f"A client failed: {load.failure}")
        return 1
    return judge_samples(samples, duration)


def take_sample(server: ServerProcess, at: float) -> Sample:
    """Measure a server and the processes that it has started."""
    others = sum(megabytes_of(process) for process in list_children(server.pid))
    own = server.megabytes()
    return Sample(at, own, server.count_handles(), own + others)


def list_children(process: int) -> list[int]:
    """Return the ids of the processes that a process has started."""
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def megabytes_of(process: int) -> float:
    """Return the memory that a process holds; 0 where it has just ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"VmRSS:\s+(\d+)", status)
    return int(found[1]) / 1024 if found else 0.0


def describe(sample: Sample, counts: Counter[str]) -> str:
    """Return the line that shows how far it is."""
    done = ", ".join(f"{counts[name]:,} {name}" for name in sorted(counts))
    minutes, seconds = divmod(round(sample.at), 60)
    held = f"{sample.megabytes:.1f} MB ({sample.all_megabytes:.0f} MB in all), {sample.handles} handles"
    return f"{minutes:3}:{seconds:02}  {held}; {done}"


def judge_samples(samples: list[Sample], duration: float) -> int:
    """Print how much the server has grown, and return the exit code.

    What it holds at the beginning and at the end of the window is the median of a sixth of it: single samples
    say how many requests were under way.
    """
    window = min(WINDOW_SECONDS, duration * 0.75) if duration < LONG_SECONDS else duration - WINDOW_SECONDS
    late = [sample for sample in samples if sample.at >= duration - window]
    size = max(1, len(late) // 6)
    first, last = late[:size], late[-size:]
    growth = median_of(last, "megabytes") - median_of(first, "megabytes")
    if duration >= LONG_SECONDS:
        growth *= LONG_SECONDS / (last[size // 2].at - first[size // 2].at)
    handles = round(median_of(last, "handles")) - round(median_of(first, "handles"))
    peak = max(sample.all_megabytes for sample in samples)
    print(
        f"memory grew by {growth:+.2f} MB{' an hour' if duration >= LONG_SECONDS else ''} in the last "
        f"{window / 60:.1f} minutes (budget {GROWTH_BUDGET:g}), handles by {handles:+d} (budget 0); "
        f"all processes held {peak:.0f} MB at most (limit {LIMIT_MEGABYTES})"
    )
    if peak >= LIMIT_MEGABYTES:
        print("The server needs more memory than the documented deployment has.")
        return 1
    if duration < JUDGED_SECONDS:
        print("Of less than 20 minutes, growth is not judged: caches are still being filled.")
        return 0
    has_grown = growth >= GROWTH_BUDGET or handles > 0
    print("The server grows." if has_grown else "The server does not grow.")
    return int(has_grown)


def median_of(samples: list[Sample], name: str) -> float:
    """Return the median of a value of samples."""
    return statistics.median(getattr(sample, name) for sample in samples)


if __name__ == "__main__":
    sys.exit(main())
