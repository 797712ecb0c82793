"""Keeps the database of a view in step with the runs on disk: new ones, running ones, deleted ones."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, update

from dokimos._http.api_client import encode_segment
from dokimos._runtime.concurrency import call_in_thread
from dokimos.client._item_refusals import find_culprit, is_divisible
from dokimos.client._run_api import Api, create_run, post_items, set_status
from dokimos.errors import DokimosError, ServerRefusedError, ServerUnavailableError
from dokimos.experiment._run_folders import list_run_folders
from dokimos.server._db.database import Database, DatabaseUnavailable
from dokimos.server._db.tables import RUNS
from dokimos.server._view.folder_run import FolderRun
from dokimos.server._view.read_marks import ReadMark, ReadMarks
from dokimos.server._view.run_sources import Batch, Ending, RunSource

POLL_SECONDS: Final = 0.4
_PATIENCE: Final = 10
"""After a round of looking comes a rest of so many times its length: it takes a tenth of a core at most."""
_SLICE_SECONDS: Final = 1.0
"""How long one run is read before others have their turn: those that go on must not wait for a large one."""
_SAVE_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 5.0
_RUNNING: Final = "RUNNING"
_DELETED: Final = "DELETED"
"""The status of a run that somebody deleted in the interface: its folder is not read until it changes."""
_ORIGIN: Final = {
    "gitSha": "git_sha",
    "gitBranch": "git_branch",
    "triggeredBy": "triggered_by",
    "pullRequest": "pull_request",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedListener:
    """Who is told what the feed does; called on its event loop."""

    problem: Callable[[str], None]
    """A run, or an item of it, cannot be shown."""
    progress: Callable[[int, int, int], None]
    """So many of so many runs have been read, and so many items have been stored by this process."""
    up_to_date: Callable[[int], None]
    """All that is there has been read: so many runs. Called once."""
    named: Callable[[str | None], None]
    """The run that was named first has this id in the database, or cannot be read. Called once."""


@dataclass(eq=False, kw_only=True)
class RunFeed:
    """Reads the runs of a folder, and those named beside it, into the database of an application."""

    root: Path
    named: Sequence[RunSource]
    """What was named, first of all."""
    project: str
    marks: ReadMarks
    listener: FeedListener
    api: Api
    database: Database
    poll_seconds: float = POLL_SECONDS
    _sources: dict[str, RunSource] = field(default_factory=dict)
    _open: set[str] = field(default_factory=set)
    """Sources that have begun and are not finished."""
    _stamps: dict[str, list[int]] = field(default_factory=dict)
    _saved_at: float = 0.0
    _item_count: int = 0
    _is_up_to_date: bool = False
    _has_told_named: bool = False

    async def follow(self) -> None:
        """Follow the runs until it is cancelled."""
        self._sources = {source.key: source for source in self.named}
        for mark in self.marks.marks.values():
            if mark.problem:  # to be told by this process, too
                mark.stamp = []
        while True:
            began_at = time.monotonic()
            try:
                is_busy = await self._look()
            except (ServerUnavailableError, DatabaseUnavailable, OSError) as error:
                self.listener.problem(f"The runs cannot be read at the moment: {error}")
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            self._save(is_forced=not is_busy)
            if not is_busy:
                spent = time.monotonic() - began_at
                await asyncio.sleep(max(self.poll_seconds, _PATIENCE * spent))

    def close(self) -> None:
        """Keep how far everything has been read."""
        self._save(is_forced=True)
        for source in self._sources.values():
            source.close()

    async def _look(self) -> bool:
        """Look at all runs once; return whether there is more to do at once."""
        due = await call_in_thread(self._find_due)
        await self._remove_gone()
        deadline = time.monotonic() + _SLICE_SECONDS
        for source in due:
            if time.monotonic() > deadline:
                return True  # there may be new ones, which come first
            await self._try_to_advance(source)
            self._tell_progress()
            self._tell_named()
        if self._open:
            return True
        if not self._is_up_to_date:
            self._is_up_to_date = True
            self._tell_named()
            self.listener.up_to_date(self._count_read())
        return False

    def _find_due(self) -> list[RunSource]:
        """Return the sources that have something new.

        Those that go on come first, then the named, then the newest; what takes long comes after all others.
        """
        for folder in list_run_folders(self.root):
            key = str(folder.resolve())
            if key not in self._sources:
                self._sources[key] = FolderRun(folder)
        self._stamps = {key: source.stamp() for key, source in self._sources.items()}
        names = {source.key for source in self.named}
        due = [source for key, source in self._sources.items() if self._is_due(key)]
        due.sort(key=lambda source: source.name, reverse=True)
        due.sort(
            key=lambda source: (
                source.key in self._open,
                self.marks[source.key].status != _RUNNING,
                source.key not in names,
            )
        )
        return due

    def _is_due(self, key: str) -> bool:
        mark, stamp = self.marks[key], self._stamps[key]
        return bool(stamp) and (key in self._open or mark.status == _RUNNING or mark.stamp != stamp)

    async def _remove_gone(self) -> None:
        """Remove from the database what is not on disk any more, or not named any more."""
        for key in [key for key in self.marks.marks if not self._stamps.get(key)]:
            mark = self.marks.marks.pop(key)
            source = self._sources.pop(key, None)
            if source is not None:
                self._close(source)
            if mark.run_id and all(mark.run_id != other.run_id for other in self.marks.marks.values()):
                await self._delete(mark.run_id)

    async def _delete(self, run_id: str) -> None:
        with contextlib.suppress(ServerRefusedError):  # it was deleted in the interface
            await self.api.request("DELETE", f"/runs/{encode_segment(run_id)}")

    async def _try_to_advance(self, source: RunSource) -> None:
        """Read on in a run; whatever is wrong with it is its problem alone."""
        stamp = self._stamps[source.key]
        try:
            await self._advance(source, stamp)
        except (ServerUnavailableError, DatabaseUnavailable):
            self._close(source)  # what was planned last may not be stored: it begins once more
            raise
        except Exception as error:
            self._close(source)
            mark = self.marks[source.key]
            mark.stamp, mark.status = stamp, _DELETED
            if isinstance(error, ServerRefusedError) and error.status == HTTPStatus.NOT_FOUND:
                return
            is_ours = isinstance(error, DokimosError)
            mark.problem = str(error) if is_ours else f"{type(error).__name__}: {error}"
            mark.status = ""
            self.listener.problem(f"{source.name}: {mark.problem}")

    def _close(self, source: RunSource) -> None:
        source.close()
        self._open.discard(source.key)

    async def _advance(self, source: RunSource, stamp: list[int]) -> None:
        mark = self.marks[source.key]
        if source.key not in self._open:
            if mark.run_id and mark.stamp and mark.stamp[:2] != stamp[:2]:
                # What the run is has changed, as by a forced resume: not all of its items need be right.
                await self._delete(mark.run_id)
                source.close()
                mark = self.marks.marks[source.key] = ReadMark()
            await call_in_thread(source.begin, mark)
            self._open.add(source.key)
            mark.stamp = stamp
            if not mark.run_id:
                await self._create(source, mark)
        if await self._send_items(source, mark):
            await self._finish(source, mark)

    async def _create(self, source: RunSource, mark: ReadMark) -> None:
        opened = await call_in_thread(source.describe, self.project)
        mark.run_id = await create_run(self.api, opened)
        self._tell_named()

    async def _send_items(self, source: RunSource, mark: ReadMark) -> bool:
        """Store items for as long as its turn lasts; return whether all of them are stored."""
        deadline = time.monotonic() + _SLICE_SECONDS
        batch = await call_in_thread(source.take)
        while batch is not None:
            if time.monotonic() > deadline:
                await self._send(source, mark, batch)
                return False
            # The next ones are read and encoded while these are stored.
            following = asyncio.ensure_future(call_in_thread(source.take))
            try:
                await self._send(source, mark, batch)
            finally:
                await asyncio.wait([following])  # nobody else reads the source meanwhile
            batch = following.result()
            self._save()
        return True

    async def _send(self, source: RunSource, mark: ReadMark, batch: Batch) -> None:
        """Store a batch; where an item of it cannot be stored, the others are stored without it."""
        if batch.items and mark.status != _RUNNING:
            await set_status(self.api, mark.run_id, _RUNNING)
            mark.status = _RUNNING
        parts = [batch.items] if batch.items else []
        while parts:
            part = parts.pop()
            try:
                await post_items(self.api, mark.run_id, part, uuid.uuid4().hex)
                self._item_count += len(part)
            except ServerRefusedError as error:
                culprit = find_culprit(error, len(part))
                if culprit is None and not is_divisible(error):
                    raise
                if culprit is None and len(part) > 1:
                    parts += [part[len(part) // 2 :], part[: len(part) // 2]]
                    continue
                self.listener.problem(f"{source.name}: an item is missing: {error}")
                culprit = culprit or 0
                parts += [rest] if (rest := part[:culprit] + part[culprit + 1 :]) else []
        mark.last = batch.last

    async def _finish(self, source: RunSource, mark: ReadMark) -> None:
        ending = await call_in_thread(source.finish, mark)
        self._open.discard(source.key)
        mark.problem = ""
        if ending is None:
            if mark.status != _RUNNING:
                await set_status(self.api, mark.run_id, _RUNNING)
                mark.status = _RUNNING
            return
        source.close()
        if mark.status != ending.status:
            await self.database.write(lambda connection: _store_origin(connection, mark.run_id, ending))
            await set_status(
                self.api, mark.run_id, ending.status, ending.evaluators, completed_at=ending.completed_at
            )
            mark.status = ending.status

    def _tell_progress(self) -> None:
        if not self._is_up_to_date:
            self.listener.progress(self._count_read(), len(self._sources), self._item_count)

    def _tell_named(self) -> None:
        if self._has_told_named or not self.named:
            return
        mark = self.marks[self.named[0].key]
        if mark.run_id or mark.problem or self._is_up_to_date:
            self._has_told_named = True
            self.listener.named(mark.run_id or None)

    def _count_read(self) -> int:
        """How many runs are in the database, as far as they are on disk."""
        return sum(mark.status not in ("", _DELETED) for mark in self.marks.marks.values())

    def _save(self, *, is_forced: bool = False) -> None:
        moment = time.monotonic()
        if is_forced or moment - self._saved_at > _SAVE_SECONDS:
            self.marks.save()
            self._saved_at = moment


def _store_origin(connection: Connection, run_id: str, ending: Ending) -> None:
    """Store where a run comes from, of which its folder says little until it has ended."""
    values: dict[str, Any] = {column: ending.body.get(name) for name, column in _ORIGIN.items()}
    provenance = ending.body.get("provenance")
    values["provenance"] = None if provenance is None else json.dumps(provenance, ensure_ascii=False)
    connection.execute(update(RUNS).where(RUNS.c.id == run_id).values(**values))


@contextlib.asynccontextmanager
async def feeding(feed: RunFeed) -> AsyncIterator[None]:
    """Have a feed follow its runs inside the block."""
    task = asyncio.create_task(feed.follow(), name="dokimos run feed")
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        feed.close()
