"""How a run is created on a server: what the request says, and the key that makes it one run.

A run may reach a server several times: live, by a replay of the spool, by a push of its result, and again
when it is resumed. All of them use the same key, so that it is one run there.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from dokimos.client._bodies import Escapes, run_body
from dokimos.reporting._reported_run import RunStart


def describe_opening(
    start: RunStart, project: str, escapes: Escapes, key: str | None = None
) -> dict[str, Any]:
    """Return `projectName`, `idempotencyKey` and `run`, the body, of the request that creates a run.

    Args:
        start: The run.
        project: The name of its project.
        escapes: Warns about what had to be changed.
        key: The key of what is not the run itself, such as a part of its result.
    """
    began_at = format_utc(start.provenance.started_at) or now_utc()
    body = {**run_body(start, escapes), "startedAt": began_at}
    return {"projectName": project, "idempotencyKey": key or key_of_run(start), "run": body}


def key_of_run(start: RunStart) -> str:
    """Return the key of a run, which is the same for its repeats, when it is resumed, and in its result."""
    # Ids of runs are unique in a run folder; with the time they are so for all who share a project.
    identity = json.dumps([start.run_id, start.provenance.started_at])
    return hashlib.sha256(identity.encode()).hexdigest()


def format_utc(moment: str | None) -> str | None:
    """Return an ISO 8601 time in UTC; None for None, and for a text that is not such a time."""
    try:
        parsed = datetime.fromisoformat(moment or "").astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return f"{parsed.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def now_utc() -> str:
    """Return the time of this machine, in ISO 8601 and UTC."""
    return str(format_utc(datetime.now(UTC).isoformat()))
