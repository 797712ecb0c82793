"""A ClickHouse for tests: the one that a variable names, or the engine of `chdb` in a process of its own."""

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

from tests.server.embedded_clickhouse import PASSWORD, USER

from dokimos.server._clickhouse_address import parse_clickhouse_url
from dokimos.server._db.clickhouse_client import ClickHouseClient
from dokimos.server._db.clickhouse_parameters import Statement

URL = "DOKIMOS_TEST_CLICKHOUSE_URL"
PYTHON = "DOKIMOS_TEST_CHDB_PYTHON"
MISSING = f"neither {URL} names a ClickHouse nor {PYTHON} an interpreter with chdb"


@contextmanager
def start_clickhouse():
    """Yield the address of a ClickHouse without its database, None where there is none."""
    named, python = os.environ.get(URL), os.environ.get(PYTHON)
    if named:
        yield named.rstrip("/")
        return
    if not python:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        script = Path(__file__).with_name("embedded_clickhouse.py")
        variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with subprocess.Popen(
            [python, str(script), folder], stdout=subprocess.PIPE, text=True, env=variables
        ) as engine:
            port = engine.stdout.readline().strip()
            if not port:
                sys.exit(f"{PYTHON}: {python} cannot run the engine of chdb.")
            try:
                yield f"clickhouse://{USER}:{quote(PASSWORD)}@127.0.0.1:{port}"
            finally:
                engine.kill()


@contextmanager
def new_clickhouse_database(server_url):
    """Yield the address of an empty database."""
    name = f"dokimos_{uuid4().hex[:12]}"
    run_on_clickhouse(f"{server_url}/default", f"CREATE DATABASE {name}")
    yield f"{server_url}/{name}"
    if os.environ.get(URL):  # the embedded engine, which goes with its folder, would wait for itself
        run_on_clickhouse(f"{server_url}/default", f"DROP DATABASE {name}")


def run_on_clickhouse(url, text):
    """Run a statement of a test."""
    client = ClickHouseClient(parse_clickhouse_url(url))
    try:
        client.submit(client.execute(Statement(text), seconds=60)).result()
    finally:
        client.close()


def read_clickhouse(url, text):
    """The rows of a query of a test."""
    client = ClickHouseClient(parse_clickhouse_url(url))
    try:
        return client.submit(client.read(Statement(text), seconds=60)).result()
    finally:
        client.close()
