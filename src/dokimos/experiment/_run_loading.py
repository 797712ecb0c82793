"""Loading runs from their folders, listing them, and deleting old ones."""

from __future__ import annotations

import contextlib
import math
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from dokimos._core.provenance import EvaluatorInfo, Provenance
from dokimos._core.results import ExperimentResult, ItemResult, RunResult, RunStatus
from dokimos._core.wire import from_json
from dokimos.errors import JournalError, RunLockedError
from dokimos.experiment._fail_fast import NOT_RUN
from dokimos.experiment._item_loading import ItemLoader
from dokimos.experiment._journal_lines import CHECKSUM
from dokimos.experiment._run_folders import list_run_folders
from dokimos.experiment._run_journal import Journal
from dokimos.experiment._run_lock import RunLock
from dokimos.experiment._run_manifest import MANIFEST_FILE, read_manifest
from dokimos.experiment._run_part import Part
from dokimos.experiment._stored_run import StoredRun, truncate_torn_line

UNFINISHED = "The run has not ended: it is still going on, or its process was killed."


def load_run(folder: Path) -> ExperimentResult:
    """Return the result of a run from its journal, also of a run that has not ended.

    Raises:
        JournalError: if the folder does not hold a readable run.
    """
    stored = StoredRun(folder)
    try:
        check_manifest(stored)
        return _result(stored)
    finally:
        stored.close()


def load_items(folder: Path) -> Iterator[tuple[str, ItemResult]]:
    """Yield the items of every repeat of a run, each with the content hash of its example.

    Raises:
        JournalError: if the folder does not hold a readable run.
    """
    stored = StoredRun(folder)
    try:
        for position, item in ItemLoader(stored, {}).load_all():
            if item is not None:
                yield stored.hash_of(position), item
    finally:
        stored.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunListing:
    """One line about a run."""

    run_id: str
    folder: Path
    name: str
    started_at: str
    status: RunStatus | None
    """None while it is going on or where its process was killed."""
    size_bytes: int
    problem: str = ""
    """Why the run cannot be read, empty where it can be."""


def list_runs(root: Path) -> list[RunListing]:
    """Return the runs in a folder, oldest first; a run that cannot be read has a `problem`."""
    return [_listing(folder) for folder in list_run_folders(root)]


def prune_runs(folders: Sequence[Path]) -> list[Path]:
    """Delete run folders except those in use by a process. Return the deleted folders."""
    deleted = []
    for folder in folders:
        try:
            lock = RunLock(folder)
        except (RunLockedError, OSError):
            continue
        # Under its lock: no process can resume the run while it is being deleted.
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()
        deleted.append(folder)
    return deleted


def record_server_run(folder: Path, server_run_id: str) -> None:
    """Record which run on a server a run that has ended was sent to, so that its result names it.

    Nothing is recorded where another process works on the run, or where the folder cannot be written: the run
    is on the server in any case.
    """
    try:
        lock = RunLock(folder)
    except (RunLockedError, OSError):
        return
    journal = None
    try:
        stored = StoredRun(folder)
        stored.close()
        known = stored.reporters.server_run_ids
        missing = [index for index in sorted(stored.seen) if server_run_id not in known.get(index, ())]
        if stored.outcome is None or not missing:
            return
        truncate_torn_line(folder, stored.intact_size)
        journal = Journal(folder, lock)
        for index in missing:
            journal.write_server_runs(index, [server_run_id])
        # Once more, since the last line of a journal says whether the run has ended.
        journal.close(**{key: value for key, value in stored.outcome.items() if key not in ("t", CHECKSUM)})
    except OSError:
        return
    finally:
        if journal is None:  # which releases it when it is closed
            lock.release()


def _listing(folder: Path) -> RunListing:
    manifest: dict[str, Any] = {}
    status, problem = None, ""
    try:
        manifest = read_manifest(folder)
        # Not the whole journal: a list of runs reads hundreds of them.
        outcome = last_record(folder / "journal.jsonl")
        status = None if outcome is None else RunStatus(str(outcome.get("status")))
    except (JournalError, ValueError, OSError) as error:
        problem = str(error)
    return RunListing(
        run_id=folder.name,
        folder=folder,
        name=str(manifest.get("name", "unnamed")),
        started_at=str(manifest.get("startedAt", "")),
        status=status,
        size_bytes=_size(folder),
        problem=problem,
    )


def _size(folder: Path) -> int:
    """Add up the files of a folder in which another process may be at work."""
    total = 0
    for file in folder.iterdir():
        with contextlib.suppress(OSError):
            total += file.stat().st_size if file.is_file() else 0
    return total


def last_record(path: Path) -> dict[str, Any] | None:
    """Return the `done` record if it is the last line; reads only the end of the journal."""
    import json

    try:
        with path.open("rb") as file:
            record = json.loads(_last_line(file, path.stat().st_size))
    except (OSError, ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and record.get("t") == "done" else None


def _last_line(file: BinaryIO, size: int) -> bytes:
    reach = 64 * 1024
    while True:
        file.seek(max(0, size - reach))
        _, newline, last = file.read().rstrip(b"\n").rpartition(b"\n")
        if newline or reach >= size:
            return last
        reach *= 4


def check_manifest(stored: StoredRun) -> None:
    """Raise `JournalError` where a run's manifest has a field of another type."""
    for name, kind in (("name", str), ("description", str), ("metadata", dict), ("dataset", dict)):
        value = stored.manifest.get(name)
        if value is not None and not isinstance(value, kind):
            raise JournalError(f"{stored.folder / MANIFEST_FILE} is damaged: {name!r} is {value!r:.40}.")


def _result(stored: StoredRun) -> ExperimentResult:
    manifest, outcome = stored.manifest, stored.outcome
    infos = read_evaluators(stored)
    order = {info.name: place for place, info in enumerate(infos)}
    items: dict[int, list[ItemResult]] = {}
    lost = 0
    for position, item in ItemLoader(stored, order).load_all():
        if item is None:
            lost += 1
        else:
            items.setdefault(position[0], []).append(item)
    indexes = sorted({*items, *(index for index in stored.seen if index < manifest.get("runs", math.inf))})
    warnings = tuple(outcome.get("warnings", ())) if outcome is not None else (UNFINISHED,)
    warnings += tuple(warning for warning in stored.warnings() if warning not in warnings)
    if lost:
        warnings += (f"{lost} results were left out because the line with their example is damaged.",)
    return ExperimentResult(
        name=manifest.get("name", "unnamed"),
        description=manifest.get("description", ""),
        metadata={**(manifest.get("metadata") or {}), **_items_not_run(outcome)},
        runs=tuple(
            RunResult(
                index=index,
                item_results=tuple(items.get(index, ())),
                server_run_ids=stored.reporters.server_run_ids.get(index, ()),
            )
            for index in indexes
        ),
        provenance=read_provenance(stored),
        evaluators=infos,
        status=RunStatus.INTERRUPTED if outcome is None else RunStatus(outcome["status"]),
        warnings=warnings,
    )


def _items_not_run(outcome: dict[str, Any] | None) -> dict[str, Any]:
    """Return which items the run did not come to, as its result said."""
    return {} if outcome is None or NOT_RUN not in outcome else {NOT_RUN: outcome[NOT_RUN]}


def read_provenance(stored: StoredRun) -> Provenance:
    """Return where a run comes from: all that is known of one that has ended, else what it began with."""
    outcome, manifest = stored.outcome, stored.manifest
    if outcome is not None and outcome.get("provenance"):
        provenance = from_json(Provenance, outcome["provenance"])
    else:
        dataset = manifest.get("dataset") or {}
        source = dataset.get("source")
        source = source if isinstance(source, dict) else {}
        provenance = Provenance(
            dokimos_version=manifest.get("dokimosVersion"),
            dataset_name=dataset.get("name"),
            dataset_uri=source.get("uri"),
            dataset_version=source.get("version"),
            dataset_fingerprint=dataset.get("fingerprint"),
            dataset_size=dataset.get("size"),
            task_name=manifest.get("task"),
            seed=manifest.get("seed"),
            shard="/".join(map(str, manifest["shard"])) if manifest.get("shard") else None,
            partial=str(Part.of_tree(manifest["part"])) if manifest.get("part") else None,
            started_at=manifest.get("startedAt"),
            command=tuple(manifest.get("command", ())),
        )
    return replace(provenance, run_id=stored.folder.name)


def read_evaluators(stored: StoredRun) -> tuple[EvaluatorInfo, ...]:
    """Return the evaluators of a run: as declared, or as seen where each example has its own."""
    trees = (stored.outcome or {}).get("evaluators") or stored.manifest.get("evaluators") or ()
    return tuple(from_json(EvaluatorInfo, tree) for tree in trees)
