"""What the benchmarks of the server share: its process, requests, figures.

They start the server as a process of its own, as `dokimos serve` is, and read its CPU and its memory where
the system keeps them; so they need Linux.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

_PREFIXES: Final = ("DOKIMOS_", "DB_", "PYTHONDONTWRITEBYTECODE")


class ServerProcess:
    """A server that a program runs, which prints its address once it answers."""

    def __init__(self, *command: str, **variables: str) -> None:
        # Nothing of this environment, and compiled modules: without them the start takes twice as long.
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_PREFIXES)}
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 # closed by stop()
        self._process = subprocess.Popen(
            [sys.executable, *command],
            env={**kept, **variables},
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if "http://" not in line:
            self._log.seek(0)
            raise SystemExit(f"{' '.join(command)} did not start: {line}{self._log.read()}")
        self.port = int(line.rpartition(":")[2].split()[0].rstrip("/"))

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid

    def count_handles(self) -> int:
        """Return how many files and connections it has open."""
        return sum(1 for _ in Path(f"/proc/{self._process.pid}/fd").iterdir())

    def cpu(self) -> float:
        """Return the CPU seconds that its threads have taken since they started."""
        tasks = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    def megabytes(self) -> float:
        """Return the memory that it holds."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def reset_peak(self) -> None:
        """Count the peak of its memory from now on."""
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")

    def peak_megabytes(self) -> float:
        """Return the most memory that it held since the last reset."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def start_dokimos(**variables: str) -> ServerProcess:
    """Start `dokimos serve` on a free port."""
    return ServerProcess("-m", "dokimos", "serve", "--host", "127.0.0.1", "-p", "0", **variables)


def request(
    connection: http.client.HTTPConnection, method: str, path: str, body: bytes | None = None, key: str = ""
) -> Any:
    """Send a request and return the parsed answer."""
    headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status >= 300:
        raise SystemExit(f"{method} {path}: {answer.status} {content[:500]!r}")
    return json.loads(content)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of them lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
