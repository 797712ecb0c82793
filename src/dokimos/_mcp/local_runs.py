"""The runs of this machine: those in the run store, and those that agents have made."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dokimos._core.results import ExperimentResult
from dokimos._mcp.answers import clean_name
from dokimos._mcp.result_store import Record, ResultStore, model_of, result_of, run_of
from dokimos._mcp.tool import ToolError
from dokimos.errors import JournalError
from dokimos.experiment._run_folders import list_run_folders
from dokimos.experiment._run_loading import load_run
from dokimos.experiment._run_manifest import read_manifest

_RUN_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
"""Never a path, which could lead out of the run store."""


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run in a list; its result is read only for those that are shown."""

    run_id: str
    started_at: str
    dataset: str | None
    record: Record | None = None
    folder: Path | None = None

    def load(self) -> ExperimentResult:
        """Read the result. Raises `JournalError` where the folder does not hold a readable run."""
        if self.folder is not None:
            return load_run(self.folder)
        assert self.record is not None, "a run is in a folder or in the file of results"
        return result_of(self.record)


@dataclass(frozen=True, slots=True)
class LocalRuns:
    """Both places, as one list. A run that is in both has the id that its agent was told."""

    store: ResultStore
    root: Path

    def list(self) -> list[ListedRun]:
        """Return all runs, the newest first."""
        runs = list(self._list_recorded())
        known = {run.folder.name for run in runs if run.folder is not None}
        for folder in list_run_folders(self.root):
            if folder.name not in known and (run := _read_folder(folder)) is not None:
                runs.append(run)
        return sorted(runs, key=lambda run: _moment(run.started_at), reverse=True)

    def load(self, run_id: str) -> ExperimentResult:
        """Return the result of a run: by its id, the start of its id, or `latest`.

        Raises:
            ToolError: where there is no such run.
        """
        return self.find(run_id).load()

    def find(self, run_id: str) -> ListedRun:
        """Return a run by its id, the start of its id, or `latest`. Raises `ToolError`."""
        if not _RUN_ID.fullmatch(run_id):
            raise ToolError(f"{run_id[:80]!r} is not the id of a run; list_experiments lists them.")
        if run_id == "latest":
            runs = self.list()
            if not runs:
                raise ToolError("There is no run yet.")
            return runs[0]
        recorded = next((run for run in self._list_recorded() if run.run_id == run_id), None)
        if recorded is not None:
            return recorded
        folders = [one for one in list_run_folders(self.root) if one.name.startswith(run_id)]
        exact = [one for one in folders if one.name == run_id] or folders
        if len(exact) == 1:
            return ListedRun(exact[0].name, "", None, folder=exact[0])
        what = "Several runs start with" if exact else "Run not found:"
        raise ToolError(f"{what} {run_id}. list_experiments lists the runs.")

    def _list_recorded(self) -> Iterator[ListedRun]:
        for record in self.store.records():
            run = run_of(record)
            folder = None if run is None or not _RUN_ID.fullmatch(run) else self.root / run
            if folder is not None and not folder.is_dir():
                folder = None  # pruned: what the record holds is left
            dataset = record.get("datasetName")
            yield ListedRun(
                record["id"],
                str(record.get("timestamp") or ""),
                None if dataset is None else str(dataset),
                record,
                folder,
            )


def _moment(started_at: str) -> float:
    """Return when that was; what cannot be read was long ago."""
    try:
        return datetime.datetime.fromisoformat(started_at).astimezone(datetime.UTC).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _read_folder(folder: Path) -> ListedRun | None:
    try:
        manifest = read_manifest(folder)
    except (JournalError, OSError):
        return None
    dataset = manifest.get("dataset")
    name = dataset.get("name") if isinstance(dataset, dict) else None
    started = str(manifest.get("startedAt") or "")
    return ListedRun(folder.name, started, None if name is None else str(name), folder=folder)


def summarize(run: ListedRun, result: ExperimentResult) -> dict[str, Any]:
    """Return a run as lists and comparisons show it."""
    record, started = run.record, run.started_at or result.provenance.started_at
    model = result.metadata.get("model") or (None if record is None else model_of(record))
    return {
        "run_id": clean_name(run.run_id),
        "timestamp": None if started is None else clean_name(started),
        "experiment_name": clean_name(result.name),
        "dataset": None if run.dataset is None else clean_name(run.dataset),
        "model": clean_name(model or result.metrics.model or "unknown"),
        "status": result.status.value,
        **counts_of(result),
    }


def counts_of(result: ExperimentResult) -> dict[str, Any]:
    """Return what a run found, in numbers."""
    names = result.evaluator_names
    counts: dict[str, Any] = {
        "total_examples": result.total_count,
        "pass_rate": result.pass_rate,
        "pass_count": result.pass_count,
        "fail_count": result.fail_count,
        "error_count": result.error_count,
        "average_scores": {clean_name(name): result.average_score(name) for name in names},
    }
    return counts
