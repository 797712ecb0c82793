"""Sends what a spool holds, and keeps what cannot be sent yet."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from dokimos._core.jsonable import compact_json
from dokimos._http.api_client import ApiClient
from dokimos._http.credentials import Secret
from dokimos._http.server_api import open_server_api
from dokimos._runtime.concurrency import run_sync
from dokimos._runtime.file_lock import hold_exclusively, hold_lock
from dokimos.client._run_api import create_run, post_items, read_status, set_status
from dokimos.client._spool import FILE, REPLAYED, append_lines, lock_path, parse_line, run_of_line
from dokimos.errors import (
    DokimosError,
    ReporterError,
    ServerRefusedError,
    ServerUnavailableError,
)

_RUNNING: Final = "RUNNING"
_PART: Final = 100
"""Items of one request: other clients' lines may hold any number."""


@dataclass(slots=True)
class SpoolReplay:
    """What a replay of a spool did.

    Example:
        >>> SpoolReplay(sent_items=10).is_complete
        True
    """

    sent_items: int = 0
    kept_items: int = 0
    started_runs: int = 0
    ended_runs: int = 0
    problems: list[str] = field(default_factory=list)
    """Why lines were kept, each reason once."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing was kept."""
        return not self.kept_items and not self.problems


def replay_spool(
    folder: str | os.PathLike[str],
    *,
    server_url: str | None = None,
    api_key: str | Secret | None = None,
    api_version: str | None = None,
) -> SpoolReplay:
    """Send what a `ServerReporter` could not send, and keep what still cannot be sent.

    Nothing is doubled, however often and whenever a replay is stopped: each line has a key by which the
    server recognizes it. A run that has ended meanwhile is opened for its items, and then ended as it was.

    Args:
        folder: The `spool_directory` of the reporter.
        server_url: The server; None for that of DOKIMOS_SERVER_URL.
        api_key: Its key; None for that of DOKIMOS_API_KEY.
        api_version: The version of its API.

    Raises:
        ConfigurationError: where no server is named.
        ReporterError: where another process replays the same folder.
        OSError: where the folder cannot be read or written.

    Example:
        >>> import tempfile
        >>> replay_spool(tempfile.mkdtemp(), server_url="http://localhost:8080").sent_items
        0
    """
    api = open_server_api(server_url, api_key=api_key, api_version=api_version)
    path = Path(folder)
    if not path.is_dir():
        return SpoolReplay()
    guard = path / ".replay.lock"
    with hold_exclusively(guard, error=ReporterError):
        replay = run_sync(_Replay(path, api).run())
    return replay


class _Replay:
    """One pass over a folder."""

    def __init__(self, folder: Path, api: ApiClient) -> None:
        self._folder = folder
        self._api = api
        self._done = SpoolReplay()
        self._run_ids: dict[str, str] = {}
        """The runs that were started, by their local ids."""
        self._starts: dict[str, bytes] = {}
        """The lines of runs that were started, by their local ids, until their items are kept."""
        self._refusals: dict[str, str] = {}
        """Why runs could not be started, by their local ids."""
        self._ended: set[str] = set()
        """The runs whose end was in the spool."""
        self._outage: DokimosError | None = None

    async def run(self) -> SpoolReplay:
        async with self._api:
            # Moved away first, so that reporters go on writing; one that is left from a replay that was
            # killed is read again.
            self._take_spool()
            for path in sorted(self._folder.glob(REPLAYED)):
                await self._replay_file(path)
        return self._done

    def _take_spool(self) -> None:
        with hold_lock(lock_path(self._folder)):
            spool = self._folder / FILE
            if spool.exists():
                os.replace(spool, self._folder / f"replaying-{secrets.token_hex(4)}.ndjson")

    async def _replay_file(self, path: Path) -> None:
        kept: list[bytes] = []
        for line in _lines(path):
            try:
                if self._outage is not None:
                    raise self._outage  # one answer is enough to know
                await self._replay_line(line, path)
            except (DokimosError, _Unreadable) as error:
                if isinstance(error, ServerUnavailableError):
                    self._outage = error
                kept += self._keep(line, error)
        if kept:
            append_lines(self._folder, kept)
        path.unlink()

    def _keep(self, line: bytes, error: Exception) -> Iterator[bytes]:
        if str(error) not in self._done.problems:
            self._done.problems.append(str(error))
        tree = parse_line(line)
        if isinstance(tree, dict):
            items = tree.get("items")
            self._done.kept_items += len(items) if isinstance(items, list) else 0
            start = tree.get("start")
            if isinstance(start, dict):
                self._starts.pop(str(start.get("runId")), None)
                self._refusals[str(start.get("runId"))] = str(error)
            elif (first := self._starts.pop(str(run_of_line(tree)), None)) is not None:
                yield first  # its run was started, but the line is needed to find it again
        yield line

    async def _replay_line(self, line: bytes, path: Path) -> None:
        match parse_line(line):
            case {"start": {"runId": str(local), "projectName": str(), "run": dict()} as start}:
                key = start.get("idempotencyKey") or _key_of(line)
                self._run_ids[local] = await create_run(self._api, {**start, "idempotencyKey": key})
                self._starts[local] = line
                self._done.started_runs += 1
            case {"runId": str(run_id), "items": [*items]} as tree:
                key = str(tree.get("idempotencyKey") or _key_of(line))
                await self._send_items(self._find_run(run_id), items, key, path)
                self._done.sent_items += len(items)
            case {"reopened": {"runId": str(run_id), "status": str(status), **more}}:
                if run_id not in self._ended:
                    await set_status(self._api, run_id, status, completed_at=_completion_of(more))
            case {"end": {"runId": str(run_id), "status": str(status), **more}}:
                server_id = self._find_run(run_id)
                evaluators = more.get("evaluators")
                known = evaluators if isinstance(evaluators, list) else ()
                await set_status(self._api, server_id, status, known, _completion_of(more))
                self._ended.add(server_id)
                self._done.ended_runs += 1
            case _:
                raise _Unreadable(f"{self._folder / FILE} has a line that is not one of a spool; it is kept.")

    def _find_run(self, run_id: str) -> str:
        if not run_id.startswith("local-"):
            return run_id
        if run_id not in self._run_ids:
            missing = f"The line that starts the run {run_id} is missing in the spool; its items are kept."
            raise _Unreadable(self._refusals.get(run_id, missing))
        return self._run_ids[run_id]

    async def _send_items(self, run_id: str, items: list[Any], key: str, path: Path) -> None:
        for start in range(0, len(items), _PART):
            part = [compact_json(item).encode() for item in items[start : start + _PART]]
            part_key = key if len(items) <= _PART else f"{key}-{start}"
            try:
                await post_items(self._api, run_id, part, part_key)
            except ServerRefusedError as refusal:
                if refusal.status != HTTPStatus.CONFLICT or not await self._reopen(run_id, path):
                    raise
                await post_items(self._api, run_id, part, part_key)

    async def _reopen(self, run_id: str, path: Path) -> bool:
        """Open a run that has ended for its items; False where it was open."""
        status, completed_at = await read_status(self._api, run_id)
        if status == _RUNNING:
            return False
        # At the end of what is being replayed, so that it is ended again even if this process is killed.
        with path.open("ab") as file:
            # A line break first: what a killed process wrote last may lack one.
            reopened = {"runId": run_id, "status": status, "completedAt": completed_at}
            file.write(b"\n%s\n" % json.dumps({"reopened": reopened}).encode())
            file.flush()
            os.fsync(file.fileno())
        await set_status(self._api, run_id, _RUNNING)
        return True


class _Unreadable(Exception):
    """A line that cannot be sent, whatever the server says."""


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        for line in file:
            if line.strip():
                yield line.rstrip(b"\r\n")


def _completion_of(end: Mapping[Any, Any]) -> str | None:
    """When a run ended, as a line says."""
    completed_at = end.get("completedAt")
    return completed_at if isinstance(completed_at, str) else None


def _key_of(line: bytes) -> str:
    """Return a key for a line without one: the same whenever the line is replayed."""
    return hashlib.sha256(line).hexdigest()
