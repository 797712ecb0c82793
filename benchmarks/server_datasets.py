"""Uploading and downloading a large dataset: time, memory, and how long other requests wait meanwhile.

Run with `python benchmarks/server_datasets.py [--rows 100000 1000000] [--database sqlite|postgresql]
[--format jsonl|csv|parquet]`. For each size a fresh server receives a file, receives it again with every row
known (each finds its case in the version before), compares the two versions, and sends one back; a second
client sends an item to a run every 20 ms, as an evaluation that goes on would. The memory is the largest that
the server's process held at any moment, so it must not grow with the rows.
"""

from __future__ import annotations

import argparse
import http.client
import json
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from _server_databases import add_database_option, make_places
from _server_process import ServerProcess, percentile, request, start_dokimos

SECONDS_BUDGET: Final = 100
"""For an upload of a million rows, on a machine that does nothing else."""
P95_BUDGET: Final = 100
"""Milliseconds of another client's write meanwhile."""
MEMORY_BUDGET: Final = 250
"""Megabytes."""
TYPES: Final = {
    "jsonl": "application/x-ndjson",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
}
_PAUSE: Final = 0.02
_CHUNK: Final = 1 << 20
_DATASET: Final = "/api/v1/datasets/large"


def row(number: int) -> dict[str, Any]:
    """Make a question with an answer and two keys of metadata, about 270 characters."""
    return {
        "inputs": {"question": f"What is the capital of country {number}, and since when? " * 2},
        "expectedOutputs": {"answer": f"City {number}, since {number % 2000}"},
        "metadata": {"category": f"c{number % 50}", "difficulty": number % 5},
    }


def write_file(path: Path, rows: int, kind: str) -> None:
    """Write the rows as a file of one of the formats."""
    if kind == "parquet":
        _write_parquet(path, rows)
        return
    with path.open("w") as file:
        if kind == "csv":
            file.write("inputs.question,expectedOutputs.answer,category,difficulty\n")
        for number in range(rows):
            made = row(number)
            if kind == "jsonl":
                file.write(json.dumps(made) + "\n")
            else:
                question, answer = made["inputs"]["question"], made["expectedOutputs"]["answer"]
                file.write(f'"{question}","{answer}",c{number % 50},{number % 5}\n')


def _write_parquet(path: Path, rows: int) -> None:
    import pyarrow
    import pyarrow.parquet

    names = ("inputs", "expectedOutputs", "metadata")
    schema = pyarrow.schema([(name, pyarrow.string()) for name in names])
    with pyarrow.parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, 10_000):
            made = [row(number) for number in range(start, min(rows, start + 10_000))]
            columns = {name: [json.dumps(each[name]) for each in made] for name in names}
            writer.write_table(pyarrow.table(columns, schema=schema))


class OtherClient:
    """Sends an item every 20 ms, and knows how long each took."""

    def __init__(self, server: ServerProcess) -> None:
        self._connection = server.connect()
        body = json.dumps({"experimentName": "meanwhile"}).encode()
        run = request(self._connection, "POST", "/api/v1/projects/benchmark/runs", body)["runId"]
        self._path = f"/api/v1/runs/{run}/items"
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.times: list[float] = []

    def __enter__(self) -> OtherClient:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _work(self) -> None:
        item = {"inputs": {"q": "x"}, "expectedOutputs": {}, "actualOutputs": {"a": "y"}, "evalResults": []}
        body = json.dumps({"items": [item]}).encode()
        while True:  # at least once, however short the step
            start = time.perf_counter()
            request(self._connection, "POST", self._path, body)
            self.times.append(time.perf_counter() - start)
            if self._ended.wait(_PAUSE):
                return


class Step:
    """What one step took."""

    def __init__(self, server: ServerProcess, name: str, rows: int) -> None:
        self._server = server
        self._name = name
        self._rows = rows

    def measure(self, action: Callable[[], object]) -> float:
        """Run the step beside another client, and print its figures; return its seconds."""
        self._server.reset_peak()
        cpu, start = self._server.cpu(), time.perf_counter()
        with OtherClient(self._server) as other:
            action()
        seconds, spent = time.perf_counter() - start, self._server.cpu() - cpu
        waits = [1000 * wait for wait in other.times]
        print(
            f"  {self._name:<22} {seconds:7.1f} s  {1000 * seconds / self._rows:6.3f} ms a row  "
            f"CPU {spent:6.1f} s  memory {self._server.peak_megabytes():4.0f} MB  other writes: "
            f"p50 {percentile(waits, 0.5):4.0f}, p95 {percentile(waits, 0.95):4.0f}, "
            f"most {max(waits, default=0):5.0f} ms",
            flush=True,
        )
        return seconds


def upload(server: ServerProcess, path: Path, kind: str) -> None:
    """Send a file as the next version."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=3600)
    headers = {"Content-Type": TYPES[kind], "Content-Length": str(path.stat().st_size)}
    with path.open("rb") as file:
        connection.request("POST", f"{_DATASET}/versions", file, headers)
        answer = connection.getresponse()
        content = answer.read()
    if answer.status != 201:
        raise SystemExit(f"The upload failed: {answer.status} {content[:500]!r}")


def download(server: ServerProcess, kind: str) -> int:
    """Read a version as a file; return its size."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=3600)
    connection.request("GET", f"{_DATASET}/versions/1/export?format={kind}")
    answer = connection.getresponse()
    size = 0
    while part := answer.read(_CHUNK):
        size += len(part)
    return size


def measure(variables: Mapping[str, str], rows: int, kind: str, file: Path) -> None:
    """Print the figures of one size."""
    write_file(file, rows, kind)
    server = start_dokimos(**variables)
    try:
        print(
            f"{rows:,} rows of {kind}, {file.stat().st_size / 1e6:,.0f} MB "
            f"(idle: {server.megabytes():.0f} MB)"
        )
        request(server.connect(), "POST", "/api/v1/datasets", b'{"name": "large"}')

        def step(name: str, action: Callable[[], object]) -> None:
            Step(server, name, rows).measure(action)

        step("upload", lambda: upload(server, file, kind))
        step("upload of known rows", lambda: upload(server, file, kind))
        step("difference", lambda: request(server.connect(), "GET", f"{_DATASET}/diff"))
        step("download", lambda: download(server, kind))
    finally:
        server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--format", choices=TYPES, default="jsonl")
    add_database_option(parser)
    arguments = parser.parse_args()
    print(
        f"budget: {SECONDS_BUDGET} s for a million rows, other writes p95 {P95_BUDGET} ms, "
        f"memory {MEMORY_BUDGET} MB"
    )
    for places in make_places(arguments.database, len(arguments.rows)):
        print(places[0].kind)
        for place, rows in zip(places, arguments.rows, strict=True):
            with tempfile.TemporaryDirectory() as folder:
                measure(place.variables, rows, arguments.format, Path(folder) / "rows")


if __name__ == "__main__":
    main()
