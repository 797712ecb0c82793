"""Sends a finished result to a server, as if it had been reported while it ran."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from dokimos._core.results import ExperimentResult, RunStatus
from dokimos._http.api_client import ApiClient, encode_segment
from dokimos._http.credentials import Secret
from dokimos._http.server_api import DEFAULT_VERSION, open_server_api
from dokimos._runtime.concurrency import run_sync
from dokimos.client._bodies import Escapes, encode_item, run_body
from dokimos.client._delivery import Delivery
from dokimos.client._run_api import create_run, set_status
from dokimos.client._server_run import ServerRun
from dokimos.errors import ServerRefusedError
from dokimos.reporting._reported_run import ReportedStatus, RunStart

_MAX_FLUSH_SECONDS: Final = 24 * 3600.0
_STATUS: Final = {
    RunStatus.COMPLETED: ReportedStatus.SUCCESS,
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

    The same result is one run of the project, however often it is sent. A run that was reported to this
    project while it ran is completed: items that are missing there are added, the others replaced.

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
    api = open_server_api(server_url, api_key=api_key, api_version=api_version)
    run = ServerRun(id=run_sync(_open_run(api, result, project_name, escapes)))
    delivery = Delivery(
        server_url=server_url,
        api_key=api_key,
        api_version=api_version,
        attempts=api.attempts,
        spool=None,
        on_failure=None,
    )
    for content in _encode_items(result, escapes):
        delivery.add(run, content)
    delivery.end(run, _STATUS.get(result.status, ReportedStatus.FAILED))
    try:
        delivery.flush(_MAX_FLUSH_SECONDS)
    finally:
        delivery.close(0.0)
    return run.id


async def _open_run(api: ApiClient, result: ExperimentResult, project: str, escapes: Escapes) -> str:
    async with api:
        for known in result.server_run_ids:
            try:
                reply = await api.request("GET", f"/runs/{encode_segment(known)}", query={"size": 1})
            except ServerRefusedError as refusal:
                if refusal.status != HTTPStatus.NOT_FOUND:
                    raise
                continue  # it is on another server
            match reply.json():
                case {"projectName": str(name)} if name != project:
                    continue
            await set_status(api, known, "RUNNING")
            return known
        body = run_body(_describe_start(result), escapes)
        opened = {
            "projectName": project,
            "idempotencyKey": _key_of(result, body, project),
            "run": body,
        }
        run_id = await create_run(api, opened, escapes.note)
        await set_status(api, run_id, "RUNNING")  # where it was sent before
        return run_id


def _describe_start(result: ExperimentResult) -> RunStart:
    return RunStart(
        run_id=result.run_id or result.name,
        name=result.name,
        description=result.description,
        metadata=result.metadata,
        planned_items=sum(len(run.item_results) for run in result.runs),
        evaluators=tuple(result.evaluators),
        provenance=result.provenance,
    )


def _key_of(result: ExperimentResult, body: object, project: str) -> str:
    """Return a key that is the same whenever the same result is sent to the same project."""
    digest = hashlib.sha256(json.dumps([project, body], sort_keys=True).encode())
    if result.run_id is None:  # then only its content tells it from others
        for content in _encode_items(result, Escapes()):
            digest.update(content)
    return digest.hexdigest()


def _encode_items(result: ExperimentResult, escapes: Escapes) -> Iterator[bytes]:
    for run in result.runs:
        for item in run.item_results:
            yield encode_item(item, run.index, escapes)
