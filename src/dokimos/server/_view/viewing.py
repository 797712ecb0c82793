"""Serves the runs of a run folder on this machine: its database, its one process, its address."""

from __future__ import annotations

import contextlib
import socket
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fastapi import FastAPI

from dokimos._runtime.file_lock import LockTaken, ProcessLock
from dokimos.client._names import fit_name
from dokimos.errors import ConfigurationError
from dokimos.experiment._run_folders import HOME, keep_out_of_git
from dokimos.server._app import create_app
from dokimos.server._serve import serve
from dokimos.server._settings import ServerSettings
from dokimos.server._view.app_client import AppClient
from dokimos.server._view.read_marks import MARKS_FILE, ReadMarks, is_current
from dokimos.server._view.run_feed import FeedListener, RunFeed, feeding
from dokimos.server._view.run_sources import RunSource

HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8765
_ADDRESS_FILE: Final = "address"
_LOCK_FILE: Final = "view.lock"
_HOSTS: Final = ("localhost", HOST)


class AlreadyViewed(Exception):
    """Another process shows these runs."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder
        """Which process, as in ` (process 4711)`, where that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is to be shown, and how."""

    root: Path
    """The folder that holds the run folders."""
    named: Sequence[RunSource] = ()
    """Runs of other folders, and results in files; also those of `root` that are to be read first."""
    port: int | None = None
    """None for the usual port, or a free one where that is taken."""

    def serve(self, listener: FeedListener, on_start: Callable[[str], None]) -> None:
        """Show the runs until a signal asks to stop.

        Args:
            listener: Is told what is read.
            on_start: Called with the address once the server answers.

        Raises:
            AlreadyViewed: Another process does so.
            ConfigurationError: The port is taken, or the folder cannot be written.
        """
        folder = view_folder(self.root)
        with _hold(folder):
            _discard_outdated(folder)
            marks = ReadMarks(folder)

            def make_app(settings: ServerSettings) -> FastAPI:
                return _make_app(settings, self, marks, listener)

            def start(address: str) -> None:
                (folder / _ADDRESS_FILE).write_text(address)
                on_start(address)

            serve(_settings(folder, self._choose_port()), on_start=start, make_app=make_app)

    def _choose_port(self) -> int:
        if self.port is not None:
            return self.port
        try:
            socket.create_server((HOST, DEFAULT_PORT)).close()
        except OSError:
            return 0
        return DEFAULT_PORT


def view_folder(root: Path) -> Path:
    """Return where the database of a run folder is: beside the runs, in a folder that git does not see."""
    return root.parent / "view" if root.parent.name == HOME else root / ".view"


def read_address(root: Path) -> str | None:
    """Return where the runs of a folder are shown; None where they are not, or not yet."""
    try:
        return (view_folder(root) / _ADDRESS_FILE).read_text() or None
    except OSError:
        return None


def find_run_id(root: Path, source: RunSource) -> str | None:
    """Return the id in the database of a run, None where it has not been read."""
    mark = ReadMarks(view_folder(root)).marks.get(source.key)
    return None if mark is None else mark.run_id or None


def project_name(root: Path) -> str:
    """Return what the one project is called: as the folder that the runs were made in."""
    path = root.resolve()
    folder = path.parents[1] if path.parent.name == HOME else path
    return fit_name(folder.name, empty="runs", note=lambda text: None)


def _settings(folder: Path, port: int) -> ServerSettings:
    """Return settings that no variable of the environment changes: those are meant for a shared server."""
    return ServerSettings(
        host=HOST,
        port=port,
        data_dir=folder,
        allowed_hosts=_HOSTS,
        stale_run_hours=0.0,  # the feed knows which runs go on
        stop_timeout=2.0,
        log_level="ERROR",
    )


def _make_app(settings: ServerSettings, view: View, marks: ReadMarks, listener: FeedListener) -> FastAPI:
    app = create_app(settings)
    feed = RunFeed(
        root=view.root,
        named=view.named,
        project=project_name(view.root),
        marks=marks,
        listener=listener,
        api=AppClient(app),
        database=app.state.database,
    )
    lifespan = app.router.lifespan_context

    @asynccontextmanager
    async def feed_meanwhile(application: FastAPI) -> AsyncIterator[None]:
        async with lifespan(application), feeding(feed):
            yield

    app.router.lifespan_context = feed_meanwhile
    return app


@contextlib.contextmanager
def _hold(folder: Path) -> Iterator[None]:
    """Be the one process that shows the runs of a folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        keep_out_of_git(folder.parent)
        lock = ProcessLock(folder / _LOCK_FILE)
    except LockTaken as taken:
        raise AlreadyViewed(taken.holder) from None
    except OSError as error:
        raise ConfigurationError(
            f"The runs cannot be read into {folder}: {error.strerror}. `dokimos view --static -o FILE` needs "
            "no database."
        ) from error
    address = folder / _ADDRESS_FILE
    address.unlink(missing_ok=True)
    try:
        yield
    finally:
        address.unlink(missing_ok=True)
        lock.release()


def _discard_outdated(folder: Path) -> None:
    """Remove a database of another version, and one that is damaged: the runs are read anew."""
    if is_current(folder) and all(_is_database(folder / name) for name in ("server.db", "traces.db")):
        return
    for file in [*folder.glob("*.db"), *folder.glob("*.db-*"), folder / MARKS_FILE]:
        file.unlink(missing_ok=True)


def _is_database(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        with closing(sqlite3.connect(path)) as connection:
            return bool(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
    except sqlite3.Error:
        return False
