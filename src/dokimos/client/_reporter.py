"""Reports runs to a dokimos server while they go on."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Self

from dokimos._http.api_client import ATTEMPTS, ApiClient, encode_segment
from dokimos._http.credentials import Secret, redact_url
from dokimos._http.server_api import API_KEY, API_VERSION, DEFAULT_VERSION, SERVER_URL, open_server_api
from dokimos._runtime.concurrency import run_sync
from dokimos.client._bodies import Escapes, encode_item, evaluator_bodies
from dokimos.client._delivery import Delivery
from dokimos.client._run_api import create_run, set_status
from dokimos.client._run_start import describe_opening, key_of_run
from dokimos.client._server_run import ItemDeliveryFailure, ServerRun
from dokimos.client._spool import MAX_SPOOL_MIB
from dokimos.errors import (
    ConfigurationError,
    DokimosError,
    ServerRefusedError,
)
from dokimos.reporting._protocol import BaseReporter, RunHandle
from dokimos.reporting._reported_run import ReportedItem, ReportedStatus, RunEnd, RunOutcome, RunStart

PROJECT_NAME: Final = "DOKIMOS_PROJECT_NAME"
START_SECONDS: Final = 10.0
"""How long a run waits for the server when it begins."""
EXIT_SECONDS: Final = 2.0
DEFAULT_SPOOL_BYTES: Final = 2**30
_RUN_ID: Final = "run id"
_LATEST_LOCK: Final = threading.Lock()
_latest = 0


class ServerReporter(BaseReporter):
    """Sends runs and their items to a dokimos server, in the background and in batches.

    All repeats of a run are one run of the server, and a run that is resumed continues it. A server that is
    not available never breaks a run: what could not be sent is counted, named in the result's warnings, and
    kept in `spool_directory`, from which `dokimos spool replay` sends it later.

    Args:
        server_url: The server, such as `https://dokimos.example.com`.
        project_name: The project that the experiment belongs to; created where it is missing.
        api_key: A key that may write; None for that of DOKIMOS_API_KEY, if set.
        api_version: The version of the API.
        spool_directory: A folder for what could not be sent; None keeps nothing.
        max_spool_bytes: How large the spool may become; items beyond that are lost, which is logged at once
            and said in the result's warnings. None for DOKIMOS_MAX_SPOOL_MIB, else 1 GiB.
        on_item_delivery_failure: Called with an `ItemDeliveryFailure` for each batch that failed, from the
            reporter's thread: it must not call the reporter.
        attempts: How often a request is sent at most. A server that is busy (429) or fails (5xx) is asked
            again after 0.1 s, 0.2 s and so on, or after the time that it asks for.

    Raises:
        ConfigurationError: for a URL or a project name that cannot be used.

    Example:
        >>> reporter = ServerReporter(server_url="http://localhost:8080", project_name="support-bot")
        >>> reporter.failed_item_count
        0
    """

    def __init__(
        self,
        *,
        server_url: str,
        project_name: str,
        api_key: str | Secret | None = None,
        api_version: str = DEFAULT_VERSION,
        spool_directory: str | os.PathLike[str] | None = None,
        max_spool_bytes: int | None = None,
        on_item_delivery_failure: Callable[[ItemDeliveryFailure], None] | None = None,
        attempts: int = ATTEMPTS,
    ) -> None:
        if not server_url.strip():
            raise ConfigurationError("ServerReporter needs the URL of a server in server_url.")
        if attempts < 1:
            raise ConfigurationError(f"attempts must be at least 1, not {attempts}.")
        encode_segment(project_name)  # refuses names that no path can hold
        self.server_url: str = redact_url(server_url.strip().rstrip("/"))
        self.project_name = project_name
        self.identity: str = f"dokimos server {self.server_url}, project {project_name}"
        self._url, self._key, self._version = server_url, api_key, api_version
        self._attempts = attempts
        self._open_api()  # refuses a URL that is not one
        self._delivery = Delivery(
            server_url=server_url,
            api_key=api_key,
            api_version=api_version,
            attempts=attempts,
            spool=None if spool_directory is None else Path(spool_directory),
            most_spool_bytes=_spool_limit(max_spool_bytes),
            on_failure=on_item_delivery_failure,
        )
        self._escapes = Escapes()
        self._runs: dict[RunHandle, tuple[ServerRun, RunStart]] = {}
        self._server_runs: dict[int, ServerRun] = {}
        self._reported_again: list[tuple[ServerRun, str]] = []
        """Resumed runs that have been reported whole, with their keys."""
        self._lock = threading.Lock()
        atexit.register(_close_at_exit, weakref.ref(self))

    @classmethod
    def from_environment(cls, **settings: Any) -> Self:
        """Make a reporter from DOKIMOS_SERVER_URL, DOKIMOS_PROJECT_NAME, and if set DOKIMOS_API_KEY and
        DOKIMOS_API_VERSION; `settings` are arguments of the class.

        Raises:
            ConfigurationError: naming the variables that are not set.
        """
        values = {"server_url": os.environ.get(SERVER_URL), "project_name": os.environ.get(PROJECT_NAME)}
        names = {"server_url": SERVER_URL, "project_name": PROJECT_NAME}
        missing = [names[key] for key, value in values.items() if not settings.get(key) and not value]
        if missing:
            raise ConfigurationError(
                f"Set {' and '.join(missing)} to report to a dokimos server; the key, if it needs one, is "
                f"read from {API_KEY}."
            )
        version = os.environ.get(API_VERSION) or DEFAULT_VERSION
        return cls(**{**values, "api_version": version, **settings})

    @property
    def failed_item_count(self) -> int:
        """How many items the server has not got after all attempts: those in the spool, and lost ones."""
        return self._delivery.failed_count

    def begin(self, start: RunStart) -> RunHandle:
        """Start the run on the server, or continue it; waits 10 seconds for the server at most."""
        with self._lock:
            run = self._server_runs.get(id(start.state))
        if run is None:
            run = self._open_run(start)
            with self._lock:
                # By the state, which all repeats of a run share and no other run has; kept alive below.
                self._server_runs[id(start.state)] = run
        name = run.id if start.repeat_count == 1 else f"{run.id}/{start.repeat_index}"
        handle = RunHandle(name, server_run_id=None if run.problem else run.id)
        with self._lock:
            self._runs[handle] = (run, start)
        return handle

    def start_run(self, name: str, metadata: Mapping[str, Any]) -> RunHandle:
        """Start a run of which only the name and the metadata are known."""
        return self.begin(RunStart(run_id=uuid.uuid4().hex, name=name, metadata=metadata))

    def report_item(self, handle: RunHandle, item: ReportedItem) -> None:
        """Queue an item; it is sent in the background."""
        run, _ = self._runs[handle]
        repeat_index = getattr(item, "repeat_index", 0)
        self._delivery.add(run, encode_item(item, repeat_index, self._escapes))

    def end(self, handle: RunHandle, end: RunEnd) -> None:
        """Set the status of the run once its items are sent, after its last repeat."""
        run, start = self._runs[handle]
        is_last = start.repeat_index + 1 >= start.repeat_count
        if is_last or end.outcome is not RunOutcome.FINISHED:
            with self._lock:
                self._server_runs.pop(id(start.state), None)
            if end.outcome is RunOutcome.FINISHED and start.is_resumed:
                self._reported_again.append((run, key_of_run(start)))
            is_news = end.evaluators != start.evaluators
            self._delivery.end(
                run, end.status, evaluator_bodies(end.evaluators, self._escapes) if is_news else ()
            )

    def complete_run(self, handle: RunHandle, status: ReportedStatus) -> None:
        """Set the status of the run once its items are sent."""
        self._delivery.end(self._runs[handle][0], status)

    def flush(self) -> None:
        """Wait up to 30 seconds until everything is sent.

        Raises:
            ReporterError: where the server has not got some items; a run lists it in its warnings.
        """
        try:
            self._delivery.flush()
        finally:
            with self._lock:
                runs, self._reported_again = self._reported_again, []
            for run, key in runs:
                self._delivery.discard_earlier(run, key)

    def close(self) -> None:
        """Send what is waiting and stop the thread; what could not be sent in 30 seconds has failed."""
        self._delivery.close()

    def _open_api(self, **settings: Any) -> ApiClient:
        return open_server_api(
            self._url, api_key=self._key, api_version=self._version, attempts=self._attempts, **settings
        )

    def _open_run(self, start: RunStart) -> ServerRun:
        try:
            return ServerRun(id=run_sync(self._start_or_continue(start)))
        except (DokimosError, TimeoutError) as error:
            seconds = f"{START_SECONDS:.0f}"
            late = f"{self.server_url} did not answer within {seconds} s"
            problem = late if isinstance(error, TimeoutError) else str(error)
            opened = describe_opening(start, self.project_name, self._escapes)
            run = ServerRun(id=_local_id(), start=opened, problem=f"the run could not be started: {problem}")
            self._delivery.spool_start(run)
            return run

    async def _start_or_continue(self, start: RunStart) -> str:
        async with asyncio.timeout(START_SECONDS), self._open_api() as api:
            known = start.state.get(_RUN_ID)
            if known is not None:
                try:
                    await set_status(api, known, "RUNNING")  # it has ended when the run was interrupted
                except ServerRefusedError as refusal:
                    if refusal.status != HTTPStatus.NOT_FOUND:
                        raise
                else:
                    return str(known)
            return await self._start(api, start)

    async def _start(self, api: ApiClient, start: RunStart) -> str:
        opened = describe_opening(start, self.project_name, self._escapes)
        if not start.is_resumed:
            # It begins now, which the server's clock says for all clients alike.
            del opened["run"]["startedAt"]
        run_id = await create_run(api, opened, self._escapes.note)
        if start.is_resumed:  # and was replayed or pushed meanwhile
            await set_status(api, run_id, "RUNNING")
        start.state.keep(_RUN_ID, run_id)
        return run_id


def _spool_limit(given: int | None) -> int:
    """Return how many bytes a spool may have."""
    if given is not None:
        if given < 0:
            raise ConfigurationError(f"max_spool_bytes must be 0 or more, not {given}.")
        return given
    text = os.environ.get(MAX_SPOOL_MIB, "").strip()
    if not text:
        return DEFAULT_SPOOL_BYTES
    try:
        mebibytes = int(text)
    except ValueError:
        mebibytes = -1
    if mebibytes < 0:
        raise ConfigurationError(f"{MAX_SPOOL_MIB} must be a whole number of 0 or more, not {text!r}.")
    return mebibytes * 2**20


def _local_id() -> str:
    """Return `local-` and the time in milliseconds, or a little later where two runs start at once."""
    global _latest  # no two runs of a process may share an id
    with _LATEST_LOCK:
        _latest = max(_latest + 1, time.time_ns() // 1_000_000)
        return f"local-{_latest}"


def _close_at_exit(reporter: weakref.ref[ServerReporter]) -> None:
    alive = reporter()
    if alive is not None:
        # Not long: each repeat was flushed before its run returned.
        alive._delivery.close(EXIT_SECONDS)
