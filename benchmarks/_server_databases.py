"""The databases that benchmarks of the server run on: SQLite, and PostgreSQL where it is installed."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

POSTGRES_URL: Final = "DOKIMOS_TEST_POSTGRES_URL"
"""Names a PostgreSQL to create databases in; without it one of their own is started."""


@dataclass(frozen=True)
class Place:
    """An empty database."""

    kind: str
    """`sqlite` or `postgresql`."""
    address: str
    """The file, or the URL."""

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that name it to the server."""
        if self.kind == "sqlite":
            return {"DOKIMOS_DATA_DIR": str(Path(self.address).parent)}
        parts = urlsplit(self.address)
        return {
            "DB_HOST": parts.hostname or "127.0.0.1",
            "DB_PORT": str(parts.port or 5432),
            "DB_NAME": parts.path.strip("/"),
            "DB_USERNAME": parts.username or "postgres",
            "DB_PASSWORD": parts.password or "none",
        }


def add_database_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that chooses a database."""
    parser.add_argument("--database", choices=("sqlite", "postgresql"), help="only this one")


def make_places(chosen: str | None, count: int = 1) -> Iterator[list[Place]]:
    """Yield some empty databases of each kind, or of the chosen one; they are removed afterwards."""
    if chosen != "postgresql":
        with ExitStack() as stack:
            folders = [stack.enter_context(tempfile.TemporaryDirectory()) for _ in range(count)]
            yield [Place("sqlite", f"{folder}/server.db") for folder in folders]
    if chosen != "sqlite":
        with ExitStack() as stack:
            server = stack.enter_context(_postgres())
            if server is None:
                print(f"postgresql not measured: neither initdb is installed nor {POSTGRES_URL} set")
                return
            urls = [stack.enter_context(_postgres_database(server)) for _ in range(count)]
            yield [Place("postgresql", url) for url in urls]


@contextmanager
def _postgres() -> Iterator[str | None]:
    """The address of a PostgreSQL that keeps what it acknowledges; None where it is not installed."""
    named = os.environ.get(POSTGRES_URL)
    if named:
        yield named.rstrip("/")
        return
    pg_ctl = shutil.which("pg_ctl")
    folders = [Path(pg_ctl).resolve().parent] if pg_ctl else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    programs = next((folder for folder in folders if (folder / "initdb").exists()), None)
    if programs is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        yield from _run_postgres(programs, Path(folder))


def _run_postgres(programs: Path, folder: Path) -> Iterator[str]:
    is_root = os.geteuid() == 0
    if is_root:  # PostgreSQL refuses to run as root
        shutil.chown(folder, "postgres")

    def run(program: str, *arguments: str) -> None:
        command = [str(programs / program), "-D", str(folder / "data"), *arguments]
        user = ["runuser", "-u", "postgres", "--"] if is_root and getpass.getuser() == "root" else []
        subprocess.run([*user, *command], check=True, stdout=subprocess.DEVNULL, cwd=folder)

    port = _free_port()
    run("initdb", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-U", "postgres")
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1"
    run("pg_ctl", "-o", options, "-l", str(folder / "log"), "-w", "start")
    try:
        yield f"postgresql://postgres@127.0.0.1:{port}"
    finally:
        run("pg_ctl", "-m", "fast", "stop")


@contextmanager
def _postgres_database(server: str) -> Iterator[str]:
    """The address of a new database, removed afterwards."""
    import asyncpg

    name = f"dokimos_bench_{time.time_ns()}"

    async def execute(statement: str) -> None:
        connection = await asyncpg.connect(f"{server}/postgres")
        await connection.execute(statement)
        await connection.close()

    asyncio.run(execute(f"CREATE DATABASE {name}"))
    try:
        yield f"{server}/{name}"
    finally:
        asyncio.run(execute(f"DROP DATABASE {name} WITH (FORCE)"))


def _free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
