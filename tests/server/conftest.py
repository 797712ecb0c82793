"""A server on each database, and what tests do with it."""

import asyncio
import os
import shutil
import subprocess
import tempfile
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")

import asyncpg
from starlette.testclient import TestClient
from tests.server.clickhouse import MISSING, new_clickhouse_database, start_clickhouse
from tests.server.db_command import fill, open_server
from tests.server.server_process import PATIENT, Process
from tests.servers.ports import find_port

from dokimos.server import ServerSettings, create_app
from dokimos.server._db import clickhouse_spans
from dokimos.server._db.database import open_database, open_trace_database
from dokimos.server._serve import Server, configure_uvicorn, listen
from dokimos.server._trace_settings import TraceSettings

POSTGRES_URL = "DOKIMOS_TEST_POSTGRES_URL"
TRACE_STORE = "DOKIMOS_TEST_TRACE_STORE"


@pytest.fixture(scope="session")
def postgres():
    """The address of a PostgreSQL for tests to create databases in: their own one where none is named."""
    named = os.environ.get(POSTGRES_URL)
    if named:
        yield named.rstrip("/")
        return
    with _start_postgres(f"neither initdb is installed nor {POSTGRES_URL} set") as cluster:
        yield cluster.server_url


@pytest.fixture
def own_postgres():
    """A PostgreSQL of one test, which may `stop()` and `start()` it; its `url` names an empty database."""
    with _start_postgres("initdb is not installed") as cluster:
        yield cluster


@pytest.fixture
def postgres_database(postgres):
    """The address of a database without tables."""
    with _new_database(postgres) as address:
        yield address


@pytest.fixture(scope="session")
def clickhouse():
    """The address of a ClickHouse for tests to create databases in."""
    with start_clickhouse() as address:
        if address is None:
            pytest.skip(MISSING)
        yield address


@pytest.fixture
def clickhouse_database(clickhouse):
    """The address of a database without tables."""
    with new_clickhouse_database(clickhouse) as address:
        yield address


@pytest.fixture(autouse=True)
def trace_store(request, monkeypatch):
    """Let all tests keep their spans in ClickHouse, where a variable says so (`make test-clickhouse`)."""
    if os.environ.get(TRACE_STORE) != "clickhouse":
        return
    url = request.getfixturevalue("clickhouse_database")
    defaults = {**TraceSettings.__init__.__kwdefaults__, "clickhouse_url": url}
    monkeypatch.setattr(TraceSettings.__init__, "__kwdefaults__", defaults)
    monkeypatch.setenv("DOKIMOS_TRACE_DATABASE_URL", url)
    # Some tests have several databases, all of whose spans are in this one.
    monkeypatch.setattr(clickhouse_spans, "_has_had_traces", lambda connection: True)


@pytest.fixture(scope="session")
def migrated_postgres(postgres):
    """The name of a database that new ones are copied from: migrating takes longer than most tests."""
    with _new_database(postgres) as address:
        _migrate(database_url=address)
        yield address.rpartition("/")[2]


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory):
    """The folder of the databases that new ones are copied from."""
    folder = tmp_path_factory.mktemp("migrated")
    _migrate(data_dir=folder)
    return folder


def _migrate(**settings):
    databases = (open_database(ServerSettings(**settings)), open_trace_database(ServerSettings(**settings)))

    async def migrate():
        for database in databases:
            await database.open()
            await database.close()

    asyncio.run(migrate())


@contextmanager
def _new_database(postgres, template="template1"):
    name = f"dokimos_{uuid4().hex[:12]}"

    async def execute(statement):
        connection = await asyncpg.connect(f"{postgres}/postgres")
        await connection.execute(statement)
        await connection.close()

    asyncio.run(execute(f"CREATE DATABASE {name} TEMPLATE {template}"))
    yield f"{postgres}/{name}"
    asyncio.run(execute(f"DROP DATABASE {name} WITH (FORCE)"))


@pytest.fixture(params=["sqlite", "postgresql"])
def database_settings(request, tmp_path):
    """Settings of a server on each kind of database, migrated and without rows."""
    if request.param == "sqlite":
        _copy_sqlite(request.getfixturevalue("migrated_sqlite"), tmp_path)
        yield {"data_dir": tmp_path}
        return
    template = request.getfixturevalue("migrated_postgres")
    with _new_database(request.getfixturevalue("postgres"), template) as address:
        yield {"database_url": address}


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_database_settings(request, tmp_path):
    """Settings of a server on each kind of database, which has no tables yet."""
    if request.param == "sqlite":
        return {"data_dir": tmp_path}
    return {"database_url": request.getfixturevalue("postgres_database")}


@pytest.fixture(scope="session")
def filled_postgres(postgres):
    """The name of a database with two projects in it: filling one takes longer than most tests of it."""
    with _new_database(postgres) as address:
        _fill(database_url=address)
        yield address.rpartition("/")[2]


@pytest.fixture(scope="session")
def filled_sqlite(tmp_path_factory):
    """The folder of the same databases of SQLite."""
    folder = tmp_path_factory.mktemp("filled")
    _fill(data_dir=folder)
    return folder


def _fill(**settings):
    with open_server(settings) as api:
        fill(api)
        fill(api, "other/project")


def _copy_sqlite(source, target):
    for file in source.glob("*.db"):
        shutil.copy(file, target)


@pytest.fixture
def copy_filled(request, tmp_path):
    """A function that returns settings of a database of a kind with two projects in it, and no server."""
    with ExitStack() as databases:

        def copy(kind):
            if kind == "postgresql":
                template = request.getfixturevalue("filled_postgres")
                database = _new_database(request.getfixturevalue("postgres"), template)
                return {"database_url": databases.enter_context(database)}
            folder = tmp_path / "filled"
            folder.mkdir()
            _copy_sqlite(request.getfixturevalue("filled_sqlite"), folder)
            return {"data_dir": folder}

        yield copy


@pytest.fixture(params=["sqlite", "postgresql"])
def filled_database(request, copy_filled):
    """Settings of a database of each kind with two projects in it, and no server."""
    return copy_filled(request.param)


@pytest.fixture
def new_database(request, tmp_path):
    """A function that returns settings of one more empty database, of a kind."""
    with ExitStack() as stack:

        def make(kind):
            if kind == "postgresql":
                return {
                    "database_url": stack.enter_context(_new_database(request.getfixturevalue("postgres")))
                }
            folder = tmp_path / f"data-{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            return {"data_dir": folder}

        yield make


@pytest.fixture
def serve(database_settings):
    """A function that starts a server on the database, with settings of its own, and returns a client."""
    clients = []

    def start(**settings):
        settings = {"host": "127.0.0.1", **PATIENT, **database_settings, **settings}
        client = TestClient(create_app(ServerSettings(**settings)), raise_server_exceptions=False)
        client.__enter__()
        clients.append(client)
        return client

    yield start
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def process(database_settings):
    """A function that starts a server in a process of its own."""
    started = []

    def start(**settings):
        started.append(Process({**database_settings, **settings}))
        return started[-1]

    yield start
    for each in started:
        each.kill()


@pytest.fixture
def api(serve):
    """A client of an open server."""
    return serve()


@pytest.fixture
def listen_on_database(database_settings):
    """A function that starts a server which listens on a socket, with settings, and returns its port."""
    # It has ended before the database is removed, which it would miss.
    with ExitStack() as running:
        yield lambda **settings: running.enter_context(_listening_server(**database_settings, **settings))


@pytest.fixture
def listening(tmp_path):
    """The same on SQLite alone, where the database does not matter."""
    with ExitStack() as running:
        yield lambda **settings: running.enter_context(
            _listening_server(**{"data_dir": tmp_path, **settings})
        )


@pytest.fixture
def port(listen_on_database):
    """The port of an open server that listens."""
    return listen_on_database()


@contextmanager
def _listening_server(**settings):
    settings = ServerSettings(**{"host": "127.0.0.1", "port": 0, **PATIENT, **settings})
    app = create_app(settings)
    started = threading.Event()
    with listen(settings) as listener:
        server = Server(configure_uvicorn(app, settings), app, started.set)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            assert started.wait(60), "the server did not start"
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shared_server(request, tmp_path_factory):
    """A client of an open server that the tests of a module share, where starting one is what takes long."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            settings = {"data_dir": tmp_path_factory.mktemp("server")}
            _copy_sqlite(request.getfixturevalue("migrated_sqlite"), settings["data_dir"])
        else:
            template = request.getfixturevalue("migrated_postgres")
            database = _new_database(request.getfixturevalue("postgres"), template)
            settings = {"database_url": stack.enter_context(database)}
        app = create_app(ServerSettings(**{"host": "127.0.0.1", **PATIENT, **settings}))
        yield stack.enter_context(TestClient(app, raise_server_exceptions=False))


@contextmanager
def _start_postgres(lack):
    """Start a PostgreSQL in a folder of its own; where there are no programs for it, the test is skipped."""
    programs = _postgres_programs()
    if programs is None:
        pytest.skip(f"needs PostgreSQL: {lack}")
    # Not below pytest's folder, which no other user may enter.
    with tempfile.TemporaryDirectory() as folder, _PostgresCluster(programs, Path(folder)) as cluster:
        yield cluster


def _postgres_programs():
    """The folder of initdb and pg_ctl, None where PostgreSQL is not installed or cannot be run."""
    if _is_root() and not (shutil.which("runuser") and Path("/etc/passwd").read_text().count("\npostgres:")):
        return None  # PostgreSQL refuses to run as root, and there is no other account for it
    on_path = shutil.which("pg_ctl")
    folders = [Path(on_path).resolve().parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def _is_root():
    return getattr(os, "geteuid", lambda: 1)() == 0


class _PostgresCluster:
    """A PostgreSQL of its own, on a port that nobody else is given, also while it is stopped.

    It writes without fsync: what it keeps need not survive the tests.
    """

    def __init__(self, programs, folder):
        self._programs = programs
        self._folder = folder
        self._port = find_port()
        self.server_url = f"postgresql://postgres@127.0.0.1:{self._port}"
        self.url = f"{self.server_url}/postgres"

    def __enter__(self):
        data = self._folder / "data"
        if _is_root():
            shutil.chown(self._folder, "postgres")
        self._run("initdb", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C", "-U", "postgres", data)
        self.start()
        return self

    def __exit__(self, *error):
        self.stop()

    def start(self):
        options = f"-p {self._port} -k {self._folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        log = self._folder / "log"
        self._run("pg_ctl", "-D", self._folder / "data", "-o", options, "-l", log, "-w", "start")

    def stop(self):
        self._run("pg_ctl", "-D", self._folder / "data", "-m", "immediate", "stop")

    def _run(self, program, *arguments):
        command = [self._programs / program, *arguments]
        if _is_root():
            command = ["runuser", "-u", "postgres", "--", *command]
        subprocess.run(command, check=True, capture_output=True, cwd=self._folder)
