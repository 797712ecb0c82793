"""What could not be sent to a server, one JSON object a line, in `failed-items.ndjson`.

A line is one of these:

- `{"runId": ..., "items": [...], "idempotencyKey": ...}`: a batch of a run; other clients of a server write
  it too, without the key;
- `{"start": {"runId": "local-...", "projectName": ..., "idempotencyKey": ..., "run": {...}}}`: a run that
  could not be started, before its items, which name it by this id;
- `{"end": {"runId": ..., "status": ...}}`: the end of a run that the server does not know of.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from dokimos._runtime.file_lock import hold_lock

FILE: Final = "failed-items.ndjson"
MAX_SPOOL_MIB: Final = "DOKIMOS_MAX_SPOOL_MIB"
REPLAYED: Final = "replaying-*.ndjson"
"""The names of what is being replayed."""


def items_line(run_id: str, items: Sequence[bytes], key: str) -> bytes:
    """Return a batch of encoded items as a line."""
    about = f'{{"runId":{json.dumps(run_id)},"idempotencyKey":{json.dumps(key)},"items":['
    return b"".join((about.encode(), b",".join(items), b"]}"))


def start_line(run_id: str, project: str, key: str, run: object) -> bytes:
    """Return a run that could not be started as a line."""
    start = {"runId": run_id, "projectName": project, "idempotencyKey": key, "run": run}
    return json.dumps({"start": start}).encode()


def end_line(run_id: str, status: str, evaluators: Sequence[object] = ()) -> bytes:
    """Return the end of a run as a line."""
    end = {"runId": run_id, "status": status, **({"evaluators": list(evaluators)} if evaluators else {})}
    return json.dumps({"end": end}).encode()


class SpoolFullError(Exception):
    """Lines that a spool has no room for; none of them was written."""


def describe_full_spool(folder: Path | None, most_bytes: int | None) -> str:
    """Say that a spool has no room, and what to do."""
    mebibytes = (most_bytes or 0) / 2**20
    return (
        f"The spool {folder} has reached its limit of {mebibytes:,.4g} MiB (max_spool_bytes, or "
        f"{MAX_SPOOL_MIB}); dokimos spool replay {folder} sends and empties it."
    )


def append_lines(folder: Path, lines: Iterable[bytes], most_bytes: int | None = None) -> None:
    """Append lines to the spool of a folder; they are on disk when this returns.

    Args:
        folder: The folder of the spool.
        lines: Without line breaks.
        most_bytes: What the spool may have with them; None for any size.

    Raises:
        SpoolFullError: The spool would be larger.
        OSError: It cannot be written.
    """
    content = b"".join(line + b"\n" for line in lines)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    with hold_lock(lock_path(folder)), path.open("ab+") as file:
        if most_bytes is not None and _size_of(folder) + len(content) > most_bytes:
            raise SpoolFullError
        if file.tell() and not _ends_a_line(file):
            content = b"\n" + content  # a process was killed while it wrote the last one
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _size_of(folder: Path) -> int:
    """Return the bytes of a spool, with those that a replay is sending or has left."""
    return sum(path.stat().st_size for path in (folder / FILE, *folder.glob(REPLAYED)))


def lock_path(folder: Path) -> Path:
    """Return the lock that guards the spool while it is written or moved."""
    return folder / f".{FILE}.lock"


def _ends_a_line(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")
