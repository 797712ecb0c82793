"""A server in a process of its own, which tests kill, and its database, which they look into."""

import asyncio
import http.client
import json
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import closing

from tests.server.forked_process import IS_POSSIBLE, ForkedProcess

PATIENCE = 60
PATIENT = {"read_timeout": 600.0, "pool_timeout": 300.0}
"""Settings of servers in tests: a loaded machine may take long, and only tests of time limits end reads."""


class Process:
    """A server in a process of its own."""

    def __init__(self, settings, before="", patches=""):
        """Start it.

        `before` is code that runs before anything is imported, such as what sets the clock; `patches` changes
        modules of the server.
        """
        code = (
            f"{before}\n{patches}\n"
            "import sys, pathlib, json; from dokimos.server import ServerSettings; "
            "from dokimos.server._serve import serve; "
            "settings = json.loads(sys.argv[1]); "
            "folder = settings.pop('data_dir', None); "
            "folder and settings.update(data_dir=pathlib.Path(folder)); "
            "judging = settings.pop('judging', None); "
            "from dokimos.server._judge_settings import JudgeSettings; "
            "judging and settings.update(judging=JudgeSettings(**judging)); "
            "online = settings.pop('online', None); "
            "from dokimos.server._online_settings import OnlineSettings; "
            "online and settings.update(online=OnlineSettings(**online)); "
            "traces = settings.pop('traces', None); "
            "from dokimos.server._trace_settings import TraceSettings; "
            "traces and settings.update(traces=TraceSettings(**traces)); "
            "serve(ServerSettings(**settings), on_start=lambda address: print(address, flush=True))"
        )
        settings = {"host": "127.0.0.1", "port": 0, **PATIENT, **settings}
        text = json.dumps(settings, default=str)
        if IS_POSSIBLE and not before:
            self.process = ForkedProcess(code, text)
        else:
            self.process = subprocess.Popen(
                [sys.executable, "-c", code, text],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        self.address = self.process.stdout.readline().strip()
        assert self.address, self.process.communicate()[1]

    @property
    def pid(self):
        return self.process.pid

    @property
    def port(self):
        return int(self.address.rpartition(":")[2])

    def kill(self):
        """End it where it still runs, and close its pipes."""
        self.process.kill()
        self.process.communicate()

    def stop(self):
        """Ask it to stop; return its exit code and what it logged."""
        self.process.send_signal(signal.SIGTERM)
        _, log = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, log

    def call(self, method, path, body=None, *, key=None, headers=None, root="/api/v1"):
        """Return status and parsed answer; raises OSError where the server does not answer."""
        content = None if body is None else json.dumps(body).encode()
        return self.send(method, path, content, "application/json", key=key, headers=headers, root=root)

    def send(self, method, path, content, kind, *, key=None, headers=None, root="/api/v1"):
        """Send a body of any type; return and raise what `call` does."""
        request = urllib.request.Request(
            f"{self.address}{root}{path}",
            method=method,
            data=content,
            headers={"Content-Type": kind, **({"Idempotency-Key": key} if key else {}), **(headers or {})},
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                content = answer.read()
                return answer.status, json.loads(content) if content else None
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())
        except http.client.HTTPException as error:  # killed in the middle of an answer
            raise ConnectionResetError("The answer was cut off.") from error


def execute(settings, statement):
    """Run a statement on the database of those settings, beside a server; return the rows."""
    if "data_dir" in settings:
        with closing(sqlite3.connect(settings["data_dir"] / "server.db", timeout=PATIENCE)) as connection:
            rows = connection.execute(statement).fetchall()
            connection.commit()
            return rows
    import asyncpg

    async def run():
        connection = await asyncpg.connect(settings["database_url"])
        try:
            return [tuple(row) for row in await connection.fetch(statement)]
        finally:
            await connection.close()

    return asyncio.run(run())


def wait_until(is_reached, what):
    """Wait for something that another process does and tells nobody of; it is asked again and again."""
    deadline = time.monotonic() + PATIENCE
    while not is_reached():
        assert time.monotonic() < deadline, f"not within {PATIENCE} seconds: {what}"
        time.sleep(0.002)  # only so that asking leaves the processor to the process that is waited for
