"""The requests about one run: it is created, it gets items, it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Protocol

from dokimos._http.api_client import ApiReply, encode_segment
from dokimos.errors import ServerRefusedError, ServerReplyError


class Api(Protocol):
    """What requests go through: an `ApiClient`, or a server in this process."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        content: bytes | None = None,
        query: Mapping[str, str | int | None] | None = None,
        headers: Mapping[str, Any] | None = None,
        repeatable: bool | None = None,
    ) -> ApiReply:
        """Send a request; raises what `ApiClient.request` does."""
        ...


async def create_run(api: Api, opened: Mapping[str, Any], note: Callable[[str], None] | None = None) -> str:
    """Create a run, once for its key, and return its id.

    Args:
        api: The server.
        opened: `projectName`, `idempotencyKey` and `run`, the body.
        note: Learns that the run could not be linked to its data set.
    """
    try:
        return await _post_run(api, opened)
    except ServerRefusedError as refusal:
        if refusal.status != HTTPStatus.NOT_FOUND or "datasetName" not in opened["run"]:
            raise
        # The data set is of another server, or was deleted there: a run is worth more than its link.
        if note is not None:
            note(f"the run has no link to its data set ({refusal})")
        run = {name: value for name, value in opened["run"].items() if not name.startswith("dataset")}
        return await _post_run(api, {**opened, "run": run})


async def _post_run(api: Api, opened: Mapping[str, Any]) -> str:
    reply = await api.request(
        "POST",
        f"/projects/{encode_segment(opened['projectName'])}/runs",
        json=opened["run"],
        headers={"Idempotency-Key": opened["idempotencyKey"]},
    )
    match reply.json():
        case {"runId": str(run_id)} if run_id:
            return run_id
    raise ServerReplyError(f"{reply.url}: the answer has no runId; is this a dokimos server?")


async def read_status(api: Api, run_id: str) -> tuple[str, str | None]:
    """Return the status of a run, and when it ended; None while it goes on."""
    reply = await api.request("GET", f"/runs/{encode_segment(run_id)}", query={"size": 1})
    match reply.json():
        case {"status": str(status), **more}:
            completed_at = more.get("completedAt")
            return status, completed_at if isinstance(completed_at, str) else None
    raise ServerReplyError(f"{reply.url}: the answer has no status; is this a dokimos server?")


async def post_items(api: Api, run_id: str, items: Sequence[bytes], key: str) -> None:
    """Send encoded items to a run."""
    await api.request(
        "POST",
        f"/runs/{encode_segment(run_id)}/items",
        content=b'{"items":[' + b",".join(items) + b"]}",
        headers={"Content-Type": "application/json", "Idempotency-Key": key},
    )


async def set_status(
    api: Api,
    run_id: str,
    status: str,
    evaluators: Sequence[Mapping[str, Any]] = (),
    completed_at: str | None = None,
) -> None:
    """Set the status of a run; doing it twice changes nothing.

    Args:
        api: The server.
        run_id: The run.
        status: Its new status.
        evaluators: What is known of its evaluators now.
        completed_at: When it ended, where that was not now.
    """
    body: dict[str, Any] = {"status": status}
    if evaluators:
        body["evaluators"] = list(evaluators)
    if completed_at is not None:
        body["completedAt"] = completed_at
    await api.request("PATCH", f"/runs/{encode_segment(run_id)}", json=body, repeatable=True)
