"""What could not be sent to a server, one JSON object a line, in `failed-items.ndjson`.

A line is one of these:

- `{"runId": ..., "items": [...], "idempotencyKey": ...}`: a batch of a run; other clients of a server write
  it too, without the key;
- `{"start": {"runId": "local-...", "projectName": ..., "idempotencyKey": ..., "run": {...}}}`: a run that
  could not be started, before its items, which name it by this id;
- `{"end": {"runId": ..., "status": ..., "completedAt": ...}}`: the end of a run that the server does not
  know of.

`process` says in each of them which reporter wrote it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from dokimos._runtime.file_lock import hold_lock

FILE: Final = "failed-items.ndjson"
MAX_SPOOL_MIB: Final = "DOKIMOS_MAX_SPOOL_MIB"
REPLAYED: Final = "replaying-*.ndjson"
"""The names of what is being replayed."""


def items_line(run_id: str, items: Sequence[bytes], key: str, process: str = "") -> bytes:
    """Return a batch of encoded items as a line."""
    names = {"runId": run_id, "idempotencyKey": key, "process": process}
    about = f'{json.dumps(names)[:-1]}, "items": ['
    return b"".join((about.encode(), b",".join(items), b"]}"))


def start_line(run_id: str, opening: Mapping[str, object], process: str = "") -> bytes:
    """Return a run that could not be started as a line: its local id and what `describe_opening` made."""
    return json.dumps({"start": {"runId": run_id, **opening}, "process": process}).encode()


def end_line(
    run_id: str,
    status: str,
    completed_at: str | None = None,
    evaluators: Sequence[object] = (),
    process: str = "",
) -> bytes:
    """Return the end of a run as a line."""
    end: dict[str, object] = {"runId": run_id, "status": status}
    if completed_at is not None:
        end["completedAt"] = completed_at
    if evaluators:
        end["evaluators"] = list(evaluators)
    return json.dumps({"end": end, "process": process}).encode()


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


def discard_run(folder: Path, run_id: str, key: str, *, process: str = "") -> None:
    """Remove the lines about a run that was sent whole after they had been written.

    Sent later, they would undo what has happened since.

    Args:
        folder: The folder of the spool.
        run_id: The run on the server.
        key: The key that it was or would be created with.
        process: The reporter whose lines stay: what it could not send is the latest.

    Raises:
        OSError: The spool cannot be written.
    """
    path = folder / FILE
    if not path.exists():
        return
    with hold_lock(lock_path(folder)):
        lines = path.read_bytes().splitlines(keepends=True)
        trees = [parse_line(line) for line in lines]
        starts = (
            tree["start"] for tree in trees if isinstance(tree, dict) and isinstance(tree.get("start"), dict)
        )
        ids = {run_id, *(start.get("runId") for start in starts if start.get("idempotencyKey") == key)}
        kept = [
            line
            for line, tree in zip(lines, trees, strict=True)
            if run_of_line(tree) not in ids or (process and tree.get("process") == process)
        ]
        if len(kept) < len(lines):
            replacement = folder / f".{FILE}.new"
            with replacement.open("wb") as file:
                file.writelines(kept)
                file.flush()
                os.fsync(file.fileno())
            os.replace(replacement, path)


def parse_line(line: bytes) -> Any:
    """Return the JSON of a line, None where it is damaged."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def run_of_line(tree: object) -> str | None:
    """Return the id of the run that a parsed line is about, None for one that is not of a spool."""
    match tree:
        case {"start": {"runId": str(run_id)}} | {"end": {"runId": str(run_id)}} | {"runId": str(run_id)}:
            return run_id
    return None


def _size_of(folder: Path) -> int:
    """Return the bytes of a spool, with those that a replay is sending or has left."""
    return sum(path.stat().st_size for path in (folder / FILE, *folder.glob(REPLAYED)))


def lock_path(folder: Path) -> Path:
    """Return the lock that guards the spool while it is written or moved."""
    return folder / f".{FILE}.lock"


def _ends_a_line(file: Any) -> bool:
    file.seek(-1, os.SEEK_END)
    return bool(file.read(1) == b"\n")
