"""How long the pages of traces take, with a month of traces in the tables.

Run with `python benchmarks/server_trace_pages.py [--traces N]`. It fills a store (`_server_fill_traces.py`)
with 100,000 traces of about 18 spans, or with `--traces 1000000` with as many as the budgets are for, and
reads lists, searches and the dashboard over HTTP, one after another. A page that the server does not have is
left out.
"""

from __future__ import annotations

import argparse
import http.client
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

from _server_fill_traces import DAYS, PROJECTS, fill
from _server_process import percentile, start_dokimos
from _trace_exports import make_vocabulary

REQUESTS: Final = 60
BUDGETS: Final = {"list": 80, "text search": 150, "dashboard": 60}
"""Milliseconds, the p95; without one for the others."""


def pages(number: int) -> dict[str, str]:
    """Return the paths that are measured, a little different each time."""
    project = PROJECTS[number % len(PROJECTS)]
    now = datetime.now(UTC)
    week = {"from": (now - timedelta(days=7)).isoformat(), "to": now.isoformat()}
    month = {"from": (now - timedelta(days=DAYS)).isoformat(), "to": now.isoformat()}
    word = make_vocabulary()[100 + number * 17]
    filters = ({}, {"sessionId": f"session {number}"}, {"minCostUsd": "0.01"}, {"status": "error"})
    return {
        "list": "/api/v1/traces?" + urlencode({"project": project} | filters[number % 4]),
        "list of a week": "/api/v1/traces?" + urlencode({"project": project, **week}),
        "text search": "/api/v1/traces?" + urlencode({"project": project, "search": word, **week}),
        "sessions": "/api/v1/trace-sessions?" + urlencode({"project": project}),
        "dashboard": f"/api/v1/projects/{quote(project)}/trace-stats?" + urlencode(month),
    }


def measure(connection: http.client.HTTPConnection) -> None:
    """Print the p95 of each page."""
    for name in pages(0):
        times = []
        for number in range(REQUESTS):
            start = time.perf_counter()
            connection.request("GET", pages(number)[name])
            answer = connection.getresponse()
            content = answer.read()
            times.append(time.perf_counter() - start)
            if answer.status != 200:
                print(f"{name:<15} not measured: {answer.status} {content[:200]!r}")
                break
        else:
            budget = f" (budget {BUDGETS[name]})" if name in BUDGETS else ""
            middle, slow = percentile(times, 0.5) * 1000, percentile(times, 0.95) * 1000
            print(f"{name:<15} p50 {middle:.0f} ms, p95 {slow:.0f} ms{budget}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=100_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        spans = fill(Path(folder), arguments.traces)
        size = (Path(folder) / "traces.db").stat().st_size
        print(
            f"{arguments.traces:,} traces of {spans:,} spans stored in {time.process_time() - start:.0f} s "
            f"of CPU, {size / 1e9:.2f} GB"
        )
        server = start_dokimos(DOKIMOS_DATA_DIR=folder, DOKIMOS_PUBLIC_TRACES="true", LOG_LEVEL="WARN")
        try:
            measure(server.connect())
            print(f"memory {server.megabytes():.0f} MB")
        finally:
            server.stop()


if __name__ == "__main__":
    main()
