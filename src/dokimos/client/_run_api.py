"""The requests about one run: it is created, it gets items, it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from dokimos._http.api_client import ApiClient, encode_segment
from dokimos.errors import ServerRefusedError, ServerReplyError


async def create_run(
    api: ApiClient, opened: Mapping[str, Any], note: Callable[[str], None] | None = None
) -> str:
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
        key = f"{opened['idempotencyKey']}-unlinked"  # one key stands for one body
        return await _post_run(api, {**opened, "run": run, "idempotencyKey": key})


async def _post_run(api: ApiClient, opened: Mapping[str, Any]) -> str:
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


async def post_items(api: ApiClient, run_id: str, items: Sequence[bytes], key: str) -> None:
    """Send encoded items to a run."""
    await api.request(
        "POST",
        f"/runs/{encode_segment(run_id)}/items",
        content=b'{"items":[' + b",".join(items) + b"]}",
        headers={"Content-Type": "application/json", "Idempotency-Key": key},
    )


async def set_status(
    api: ApiClient, run_id: str, status: str, evaluators: Sequence[Mapping[str, Any]] = ()
) -> None:
    """Set the status of a run, and say what is known of its evaluators; doing it twice changes nothing."""
    body = {"status": status, **({"evaluators": list(evaluators)} if evaluators else {})}
    await api.request("PATCH", f"/runs/{encode_segment(run_id)}", json=body, repeatable=True)
