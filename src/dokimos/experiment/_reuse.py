"""Reusing outputs of earlier runs, for items whose row, task and code have not changed."""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dokimos._core.text import format_list, pluralize
from dokimos._core.wire import from_json
from dokimos._runtime.file_access import files_read
from dokimos.errors import DokimosError, JournalError
from dokimos.experiment._code_record import CodeRecord, is_project_file
from dokimos.experiment._item_index import Position
from dokimos.experiment._run_loading import last_record
from dokimos.experiment._run_manifest import read_manifest
from dokimos.experiment._stored_run import StoredRun
from dokimos.experiment._task_calls import TaskOutcome
from dokimos.judges._run_call_store import CALLS_FILE, EarlierCallStore

MOST_RUNS: Final = 10
"""How many of the last runs are considered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """A run of the same target, with the record of its code."""

    folder: Path
    task: str
    target: str | None
    """The target on the command line, None for a run from Python."""
    record: CodeRecord | None

    @classmethod
    def of(cls, folder: Path) -> EarlierRun:
        """Read the code record of a run. Raises `JournalError` if the run cannot be read."""
        outcome = last_record(folder / "journal.jsonl") or {}
        tree = outcome.get("code")
        record = None
        with contextlib.suppress(DokimosError):
            # A record that cannot be read is as good as none: the task is called.
            record = None if tree is None else from_json(CodeRecord, tree)
        manifest = read_manifest(folder)
        target = (manifest.get("launch") or {}).get("target")
        return cls(folder=folder, task=str(manifest.get("task")), target=target, record=record)

    def mark_files_as_read(self) -> None:
        """Count the files it read as read by this run, which uses its outputs and may not call the task."""
        if self.record is not None:
            files_read.record_earlier(self.record.code, self.record.programs)

    def why_not(self, task: str, *, target: str | None = None, is_requested: bool = False) -> str | None:
        """Return why its outputs cannot be reused for a task, None if they can.

        Whoever asks for them by name answers for programs that the application starts.
        """
        if self.task != task:
            return f"its task was {self.task}"
        if target is not None and self.target != target:
            return f"it was a run of {self.target or 'an experiment in Python'}"
        if self.record is None:
            return "it has no record of the files that its application was made of"
        changes = self.record.code_changes()
        if changes:
            return f"changed since: {format_list([Path(each).name for each in changes])}"
        if self.record.programs and not is_requested:
            programs = format_list(list(self.record.programs))
            return f"it started {programs}, and what a program reads is not recorded"
        return None


def resumes_same_code(folder: Path, task: str) -> bool:
    """Say whether the code of a resumed run is unchanged; if so, count its files as read by this process."""
    run = EarlierRun.of(folder)
    if run.why_not(task, is_requested=True) is not None:
        return False
    run.mark_files_as_read()
    return True


@dataclass
class EarlierOutputs:
    """Hands out the outputs of earlier runs, newest first, each once."""

    folders: Sequence[Path]
    """Folders of runs with the same code as now."""
    replies: Mapping[Path, bool] = field(default_factory=dict)
    """Runs whose replies of models may be used, with whether the code is that of now: else not those of
    judges that the project has written itself."""
    note: str = ""
    """Why no outputs can be used."""
    taken: dict[str, int] = field(default_factory=dict, init=False)
    """The number of outputs handed out, by run."""
    _runs: dict[str, StoredRun] = field(default_factory=dict, init=False)
    _unreadable: int = field(default=0, init=False)
    _positions: dict[tuple[int, str], deque[tuple[str, Position]]] = field(default_factory=dict, init=False)

    def take(self, run_index: int, mark: str) -> TaskOutcome | None:
        """Return the output of an example in a repeat, None if the task has to be called."""
        key = (run_index, mark)
        while True:
            positions = self._positions.get(key)
            while positions:
                name, position = positions.popleft()
                item = self._runs[name].item(position)
                if item is not None and item.error is None:
                    self.taken[name] = self.taken.get(name, 0) + 1
                    return TaskOutcome(item.outputs or {}, item.metrics)
            if not self._open_next():
                return None

    def _open_next(self) -> bool:
        """Index the outputs of the next run; False if there is none. An unreadable run has no outputs."""
        if len(self._runs) + self._unreadable == len(self.folders):
            return False
        folder = self.folders[len(self._runs) + self._unreadable]
        try:
            stored = self._runs[folder.name] = StoredRun(folder)
        except (JournalError, OSError):
            self._unreadable += 1
            return True
        for position in stored.positions:
            positions = self._positions.setdefault((position[0], stored.hash_of(position)), deque())
            positions.append((folder.name, position))
        return True

    def call_stores(self) -> list[EarlierCallStore]:
        """Return the call stores of those runs."""
        return [
            EarlierCallStore(
                folder / CALLS_FILE, is_usable=(lambda _: True) if is_same else _is_library_judge
            )
            for folder, is_same in self.replies.items()
            if (folder / CALLS_FILE).is_file()
        ]

    def sentence(self, total: int) -> str:
        """Return a sentence about how many of `total` outputs were reused, "" if there is nothing to say."""
        reused = sum(self.taken.values())
        if not reused:
            return f"No output was reused: {self.note}." if self.note else ""
        return (
            f"{reused:,} of {pluralize(total, 'output')} reused from {format_list(list(self.taken))}, with "
            "the cost and latency measured there: neither the application nor their rows have changed since."
        )

    def close(self) -> None:
        for stored in self._runs.values():
            stored.close()


def _is_library_judge(identity: str) -> bool:
    """Say whether a judge is not a function or class of the project, as far as its identity shows.

    One that begins like `module:name` and is not of an installed package is taken for the project's.
    """
    name = identity.partition(":")[0]
    if not name.replace(".", "_").isidentifier():
        return True
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is not None and not is_project_file(file)
