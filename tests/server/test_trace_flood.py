"""A flood of exports, ten times as many as may wait: what is acknowledged is there, and pages answer."""

import http.client
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.server.server_process import PATIENCE
from tests.server.test_trace_pressure import query
from tests.server.trace_exports import PROTOBUF, export, span, to_message

IS_LONG = "DOKIMOS_LONG_TESTS" in os.environ
SECONDS = 300
EXPORTS = 15
"""Exports that are to be acknowledged at least, where the flood does not last for some time."""
CLIENTS = 20
SPANS, LIMIT = (100, 1024 * 1024) if IS_LONG else (30, 128 * 1024)
MARK = "ab" * 16
MOST_MEGABYTES = 200
"""By which the memory may grow, however long the flood lasts."""


def make_export():
    """An export of half of what may wait, whose trace is at a mark."""
    size = LIMIT // 2 // SPANS - 150
    text = ("a word and " * size)[:size]
    spans = (span(number, {"input": text}, trace=MARK) for number in range(1, SPANS + 1))
    return to_message(export(*spans, service="app")).SerializeToString()


class Flood:
    """Clients that send exports of their own one after the other, without waiting when they are refused."""

    def __init__(self, port):
        self._port = port
        self._export = make_export()
        self._lock = threading.Lock()
        self._ends_at = time.monotonic() + SECONDS
        self.acknowledged = set()
        self.refused_count = 0

    @property
    def goes_on(self):
        if IS_LONG:
            return time.monotonic() < self._ends_at
        return len(self.acknowledged) < EXPORTS or not self.refused_count

    def send(self, client):
        """Send exports until the flood ends."""
        number = 0
        connection = self._connect()
        while self.goes_on:
            number += 1
            trace = f"{client + 1:08x}{number:024x}"
            body = self._export.replace(bytes.fromhex(MARK), bytes.fromhex(trace))
            try:
                status = self._post(connection, body)
            except (OSError, http.client.HTTPException):  # refused before it was sent whole
                connection.close()
                connection, status = self._connect(), 503
            assert status in (200, 503)
            with self._lock:
                if status == 200:
                    self.acknowledged.add(trace)
                else:
                    self.refused_count += 1
        connection.close()

    def read_pages(self):
        """Read pages until the flood ends; return how long each took."""
        seconds = []
        connection = self._connect()
        while self.goes_on:
            for path in ("/api/v1/traces?size=20", "/api/v1/projects", "/actuator/health/readiness"):
                began = time.monotonic()
                connection.request("GET", path)
                answer = connection.getresponse()
                content = answer.read()
                assert answer.status == 200, content
                seconds.append(time.monotonic() - began)
        connection.close()
        return seconds

    def _connect(self):
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)

    def _post(self, connection, body):
        connection.request("POST", "/v1/traces", body, {"Content-Type": PROTOBUF})
        answer = connection.getresponse()
        answer.read()
        return answer.status


def memory_of(server, name):
    """The memory of a server's process in megabytes, None where the system does not say."""
    status = Path(f"/proc/{server.pid}/status")
    if not status.exists():
        return None
    return next(
        int(line.split()[1]) / 1024 for line in status.read_text().splitlines() if line.startswith(name)
    )


@pytest.mark.timeout(3 * SECONDS)
def test_a_flood_of_ten_times_what_may_wait(process, database_settings):
    server = process(traces={"max_waiting_bytes": LIMIT}, access_log_level="CRITICAL")
    before = memory_of(server, "VmRSS")
    flood = Flood(server.port)
    with ThreadPoolExecutor(CLIENTS + 1) as threads:
        pages = threads.submit(flood.read_pages)
        for sending in [threads.submit(flood.send, client) for client in range(CLIENTS)]:
            sending.result()
        seconds = sorted(pages.result())
    most = memory_of(server, "VmHWM")
    stored = dict(query(database_settings, "SELECT trace_id, span_count FROM traces"))
    assert {trace for trace, count in stored.items() if count == SPANS} >= flood.acknowledged
    assert set(stored.values()) == {SPANS}
    assert flood.refused_count
    assert before is None or most - before < MOST_MEGABYTES
    if IS_LONG:
        middle, p95, last = (seconds[int(len(seconds) * share)] for share in (0.5, 0.95, 0.9999))
        print(
            f"{len(flood.acknowledged)} exports of {SPANS} spans stored, {flood.refused_count} refused; "
            f"memory {before:.0f} to {most:.0f} MB; {len(seconds)} pages in {middle * 1000:.0f} ms (middle), "
            f"{p95 * 1000:.0f} ms (p95), {last * 1000:.0f} ms (longest)",
            file=sys.stderr,
        )
