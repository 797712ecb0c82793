"""Outputs of earlier runs, for items of which nothing has changed that made them."""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dokimos.core.text import format_list, pluralize
from dokimos.core.wire import from_json
from dokimos.errors import DokimosError, JournalError
from dokimos.experiment.code_record import CodeRecord, is_project_file
from dokimos.experiment.run_journal import Position, StoredRun, read_manifest
from dokimos.experiment.run_loading import last_record
from dokimos.experiment.task_calls import TaskOutcome
from dokimos.judges.run_call_store import CALLS_FILE, EarlierCallStore
from dokimos.runtime.file_access import files_read

MOST_RUNS: Final = 10
"""So many of the last runs are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """A run of the same target, with what it was made of."""

    folder: Path
    task: str
    target: str | None
    """What the command line was given, None for a run from Python."""
    record: CodeRecord | None

    @classmethod
    def of(cls, folder: Path) -> EarlierRun:
        """Read what a run says of its code. Raises `JournalError` where it cannot be read."""
        outcome = last_record(folder / "journal.jsonl") or {}
        tree = outcome.get("code")
        record = None
        with contextlib.suppress(DokimosError):
            record = None if tree is None else from_json(CodeRecord, tree)
        manifest = read_manifest(folder)
        target = (manifest.get("launch") or {}).get("target")
        return cls(folder=folder, task=str(manifest.get("task")), target=target, record=record)

    def mark_files_as_read(self) -> None:
        """Count what it had read as read by this run, which takes its outputs and may not call the task."""
        if self.record is not None:
            files_read.record_earlier(self.record.code, self.record.programs)

    def why_not(self, task: str, *, target: str | None = None, is_asked: bool = False) -> str | None:
        """Say why its outputs cannot stand for those of a task now, None where they can.

        Whoever asks for them by name answers for programs that the application starts.
        """
        if self.task != task:
            return f"its task was {self.task}"
        if target is not None and self.target != target:
            return f"it was a run of {self.target or 'an experiment in Python'}"
        if self.record is None:
            return "it does not say of which files its application was made"
        changes = self.record.code_changes()
        if changes:
            return f"changed since: {format_list([Path(each).name for each in changes])}"
        if self.record.programs and not is_asked:
            programs = format_list(list(self.record.programs))
            return f"it started {programs}, and nobody here can see what that has read"
        return None


def resumes_same_code(folder: Path, task: str) -> bool:
    """Say whether a run that is resumed was made of what the files are now, and count those as read again."""
    run = EarlierRun.of(folder)
    if run.why_not(task, is_asked=True) is not None:
        return False
    run.mark_files_as_read()
    return True


@dataclass
class EarlierOutputs:
    """Hands out the outputs of earlier runs, the newest first, each once."""

    folders: Sequence[Path]
    """Runs whose code is that of now."""
    replies: Mapping[Path, bool] = field(default_factory=dict)
    """Runs whose replies of models may be used, with whether the code is that of now: else not those of
    judges that the project has written itself."""
    note: str = ""
    """Why no outputs can be used."""
    taken: dict[str, int] = field(default_factory=dict, init=False)
    """How many were handed out, by run."""
    _runs: dict[str, StoredRun] = field(default_factory=dict, init=False)
    _unreadable: int = field(default=0, init=False)
    _positions: dict[tuple[int, str], deque[tuple[str, Position]]] = field(default_factory=dict, init=False)

    def take(self, run_index: int, mark: str) -> TaskOutcome | None:
        """Return the output of an example in a repeat, None where the task has to be called."""
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
        """Index the outputs of one more run; False where there is none. One that cannot be read has none."""
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
        """Open the replies of models in those runs."""
        return [
            EarlierCallStore(
                folder / CALLS_FILE, is_usable=(lambda _: True) if is_same else _is_library_judge
            )
            for folder, is_same in self.replies.items()
            if (folder / CALLS_FILE).is_file()
        ]

    def sentence(self, total: int) -> str:
        """Say how many outputs of so many were reused, "" where there is nothing to say."""
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
    """Say whether a judge is no function or class of the project, as far as its identity tells.

    One that begins like `module:name` and is not of an installed package is taken for the project's.
    """
    name = identity.partition(":")[0]
    if not name.replace(".", "_").isidentifier():
        return True
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is not None and not is_project_file(file)
