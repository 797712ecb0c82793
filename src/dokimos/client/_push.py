"""Sends a finished result to a server, as if it had been reported while it ran."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Final

from dokimos._core.results import ExperimentResult, RunStatus
from dokimos._http.api_client import ApiClient, encode_segment
from dokimos._http.credentials import Secret
from dokimos._http.server_api import DEFAULT_VERSION, open_server_api
from dokimos._runtime.concurrency import run_sync
from dokimos.client._bodies import Escapes, encode_item, evaluator_bodies, run_body
from dokimos.client._delivery import MOST_BATCH_BYTES, MOST_IN_BATCH, Delivery
from dokimos.client._run_api import create_run, post_items, read_status, set_status
from dokimos.client._run_start import describe_opening, format_utc, key_of_run
from dokimos.client._server_run import ServerRun
from dokimos.client._spool import discard_run
from dokimos.errors import ServerRefusedError
from dokimos.reporting._reported_run import ReportedStatus, RunStart

_RUNNING: Final = "RUNNING"
_EVALUATING: Final = "EVALUATING"
_MAX_FLUSH_SECONDS: Final = 24 * 3600.0
_STATUS: Final = {
    RunStatus.COMPLETED: ReportedStatus.SUCCESS,
    RunStatus.BROKEN: ReportedStatus.SUCCESS,  # it went through, as it says where it is reported live
    RunStatus.INTERRUPTED: ReportedStatus.CANCELLED,
}


def push_result(
    result: ExperimentResult,
    *,
    server_url: str,
    project_name: str,
    api_key: str | Secret | None = None,
    api_version: str = DEFAULT_VERSION,
) -> str:
    """Send a result to a server and return the id of its run there.

    A run is one run of the project, however often it is sent: reported while it ran, replayed from a spool or
    pushed. Where the server has all of it already, nothing changes; else the run is opened again, items that
    are missing are added, and the others replaced. It began when it began, not when it is sent. What was made
    of a result, such as a part of it or new scores, is a run of its own.

    Args:
        result: What `run()`, `load_run` or `load_result` returned, with its items.
        server_url: The server.
        project_name: The project that the experiment belongs to; created where it is missing.
        api_key: A key that may write; None for that of DOKIMOS_API_KEY, if set.
        api_version: The version of the API.

    Raises:
        ServerError: where the server cannot be reached or refuses the run.
        ReporterError: where it has not got all items, naming the reason.

    Example:
        >>> result = evaluate([Example.of("a", "A")], str.upper, [ExactMatch()], quiet=True, journal=False)
        >>> push_result(result, server_url="http://localhost:8080", project_name="demo")  # doctest: +SKIP
        '0199f3a2-...'
    """
    escapes = Escapes()
    status = describe_status(result.status)
    api = open_server_api(server_url, api_key=api_key, api_version=api_version)
    run_id, is_there = run_sync(_open_run(api, result, project_name, status, escapes))
    if is_there:
        return run_id
    run = ServerRun(id=run_id, completed_at=format_utc(result.provenance.ended_at))
    delivery = Delivery(
        server_url=server_url, api_key=api_key, api_version=api_version, attempts=api.attempts,
        spool=None, on_failure=None,
    )  # fmt: skip
    for content in encode_items(result, escapes):
        delivery.add(run, content)
    delivery.end(run, status, evaluator_bodies(result.evaluators, escapes))
    try:
        delivery.flush(_MAX_FLUSH_SECONDS)
    finally:
        delivery.close(0.0)
    return run.id


def describe_status(status: RunStatus) -> ReportedStatus:
    """Return how a server is told that a run ended."""
    return _STATUS.get(status, ReportedStatus.FAILED)


def discard_spooled(folder: Path, result: ExperimentResult, run_id: str) -> None:
    """Remove what a spool has of a run whose stored result was pushed: it is older, or the same.

    Raises:
        OSError: The spool cannot be written.
    """
    discard_run(folder, run_id, key_of_run(describe_start(result)))


async def _open_run(
    api: ApiClient, result: ExperimentResult, project: str, status: ReportedStatus, escapes: Escapes
) -> tuple[str, bool]:
    """Return the run on the server, and whether it has ended there with all that would be sent."""
    start = describe_start(result)
    completed_at = format_utc(result.provenance.ended_at)
    async with api:
        run_id = await _find_reported(api, result, project)
        if run_id is None:
            opened = describe_opening(start, project, escapes, key_of_content(result))
            run_id = await create_run(api, opened, escapes.note)
        stored_status, _ = await read_status(api, run_id)
        if stored_status == _RUNNING:
            return run_id, False
        if await _has_items(api, run_id, encode_items(result, escapes)):
            if stored_status != _EVALUATING:  # then its judge says how it ended
                await set_status(api, run_id, status, completed_at=completed_at)
            return run_id, True
        await set_status(api, run_id, _RUNNING)
        return run_id, False


async def _find_reported(api: ApiClient, result: ExperimentResult, project: str) -> str | None:
    """Return the run of a result without an id of its own, such as one whose journal could not be written."""
    for known in result.server_run_ids if result.run_id is None else ():
        try:
            reply = await api.request("GET", f"/runs/{encode_segment(known)}", query={"size": 1})
        except ServerRefusedError as refusal:
            if refusal.status != HTTPStatus.NOT_FOUND:
                raise
            continue  # it is on another server
        match reply.json():
            case {"projectName": str(name)} if name == project:
                return known
    return None


async def _has_items(api: ApiClient, run_id: str, contents: Iterable[bytes]) -> bool:
    """Say whether a run that has ended has these very items: the server acknowledges no others then."""
    try:
        for batch in _cut_batches(contents):
            await post_items(api, run_id, batch, uuid.uuid4().hex)
    except ServerRefusedError:
        return False
    return True


def _cut_batches(contents: Iterable[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for content in contents:
        if batch and (len(batch) == MOST_IN_BATCH or size + len(content) > MOST_BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(content)
        size += len(content)
    if batch:
        yield batch


def describe_start(result: ExperimentResult) -> RunStart:
    """Return how the run of a result would have been reported when it began."""
    return RunStart(
        run_id=result.run_id or result.name,
        name=result.name,
        description=result.description,
        metadata=result.metadata,
        planned_items=sum(len(run.item_results) for run in result.runs),
        evaluators=tuple(result.evaluators),
        provenance=result.provenance,
    )


def key_of_content(result: ExperimentResult) -> str | None:
    """Return a key of what is not the run's own result: the same for equal content. None for what is."""
    if result.run_id is not None and result.provenance.derivation is None:
        return None
    body = run_body(describe_start(result), Escapes())
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode())
    for content in encode_items(result, Escapes()):
        digest.update(content)
    return digest.hexdigest()


def encode_items(
    result: ExperimentResult, escapes: Escapes, *, has_tracebacks: bool = False
) -> Iterator[bytes]:
    """Yield all items of a result as a server takes them."""
    for run in result.runs:
        for item in run.item_results:
            yield encode_item(item, run.index, escapes, has_tracebacks=has_tracebacks)
