"""The record of a run on disk, as the runner sees it: started, or resumed with its finished items."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dokimos._core.provenance import Provenance
from dokimos._core.results import ExperimentResult
from dokimos.errors import JournalError, TypeConversionError
from dokimos.experiment._code_record import CodeRecord
from dokimos.experiment._fail_fast import NOT_RUN
from dokimos.experiment._finished_items import FinishedItems
from dokimos.experiment._item_errors import describe_error
from dokimos.experiment._redaction import Redaction
from dokimos.experiment._reuse import resumes_same_code
from dokimos.experiment._run_description import Launch, RunDescription
from dokimos.experiment._run_folders import create_run_folder, find_run, new_run_id, runs_root
from dokimos.experiment._run_identity import RunIdentity, check_examples, check_same_run
from dokimos.experiment._run_journal import Journal
from dokimos.experiment._run_lock import RunLock
from dokimos.experiment._run_manifest import MANIFEST_FILE, write_manifest
from dokimos.experiment._run_origin import RunOrigin
from dokimos.experiment._run_writer import RunWriter
from dokimos.experiment._stored_run import StoredRun, truncate_torn_line

if TYPE_CHECKING:
    from array import array

    from dokimos.experiment._experiment import Experiment
    from dokimos.experiment._run_options import RunOptions


class RunRecord:
    """The folder of a run: opened or resumed, and closed with what became of it.

    `finished` has what earlier processes left there, `writer` adds to it. Without a journal there is no
    folder, and both do nothing.
    """

    def __init__(self, plan: Experiment, options: RunOptions, launch: Launch | None) -> None:
        self.warnings: list[str] = []
        self.seed = options.seed
        self.redact = None if options.redact is None else Redaction(options.redact)
        self.description = RunDescription(plan, launch, self.redact)
        self.launch = launch
        self.earlier = None if launch is None else launch.reuse
        self.journal_problem: str | None = None
        """Why there is no journal although one was requested."""
        self.example_hashes: array[int] | None = None
        """The content hash of each example, where resuming has computed them."""
        self._plan = plan
        self._options = options
        self._origin = RunOrigin(plan, self.description, self.redact)
        self._journal: Journal | None = None
        self._stored_run: StoredRun | None = None
        self._is_same_code = True
        """Whether all outputs come from the same code, also those from before the run was resumed."""
        self._take_parts()

    @property
    def needs_hashes(self) -> bool:
        """Whether examples are identified by a hash of their content."""
        return self._journal is not None or self.earlier is not None

    @property
    def is_resumed(self) -> bool:
        return self._stored_run is not None

    @property
    def run_id(self) -> str | None:
        return None if self._journal is None else self._journal.run_id

    @cached_property
    def lasting_run_id(self) -> str:
        """The id of the run, also where it has no folder."""
        return self.run_id or new_run_id(self._origin.process_started)

    @property
    def folder(self) -> Path | None:
        return None if self._journal is None else self._journal.folder

    @property
    def shard(self) -> tuple[int, int] | None:
        """The shard to run; a resumed run keeps the shard that it was started with."""
        return self._options.shard

    @property
    def given_up(self) -> str | None:
        """Why the journal was given up during the run, None where it was not."""
        return None if self._journal is None else self._journal.problem

    def open(self) -> None:
        """Start a journal, or open the one to resume. Raises `JournalError` or `RunLockedError`."""
        root = runs_root(self._options.run_dir)
        if self._options.resume is not None:
            self._resume(find_run(self._options.resume, root))
        elif self._options.journal:
            self._start(root)
        self._take_parts()

    def provenance(self) -> Provenance:
        """Describe where the result comes from, as of now."""
        return self._origin.describe(
            run_id=self.lasting_run_id if self.journal_problem is None else None,
            seed=self.seed,
            shard=self.shard,
            is_resumed=self.is_resumed,
            seen_examples=self.writer.seen_examples,
        )

    def close(self, result: ExperimentResult) -> None:
        """Write how the run ended, and release its lock."""
        self.finished.close()
        if self._journal is not None:
            code = None if self.launch is None or not self._is_same_code else CodeRecord.now()
            not_run = result.metadata.get(NOT_RUN)
            self._journal.close(
                status=result.status,
                warnings=result.warnings,
                provenance=result.provenance,
                evaluators=result.evaluators,
                **({} if code is None else {"code": code}),
                **({} if not_run is None else {NOT_RUN: not_run}),
            )

    def _take_parts(self) -> None:
        """Hand the journal, or that there is none, to the parts that read and write it."""
        self.finished = FinishedItems(
            self._stored_run,
            self.earlier,
            retry_errors=self._options.retry_errors,
            is_redacted=self.redact is not None,
        )
        self.writer = RunWriter(
            self._plan.dataset, journal=self._journal, stored=self._stored_run, redact=self.redact
        )

    def _start(self, root: Path) -> None:
        try:
            folder = create_run_folder(root, new_run_id(self._origin.process_started))
            lock = RunLock(folder)
            try:
                manifest = self.description.to_manifest(
                    folder.name, started_at=self._origin.started_at, seed=self.seed, shard=self._options.shard
                )
                write_manifest(folder, manifest)
                self._journal = Journal(folder, lock)
            except OSError:
                lock.release()
                shutil.rmtree(folder, ignore_errors=True)  # nothing has run yet
                raise
        except OSError as error:
            self.journal_problem = f"The run cannot be resumed: nothing could be written in {root} ({error})."
            self.warnings.append(self.journal_problem)

    def _resume(self, folder: Path) -> None:
        lock = RunLock(folder)
        try:
            self._stored_run = stored = StoredRun(folder)
            self._is_same_code = resumes_same_code(folder, self.description.identity.task)
            try:
                void = self._adopt_manifest(stored)
            except (LookupError, TypeError, ValueError, AttributeError, TypeConversionError) as error:
                problem = f"{folder / MANIFEST_FILE} is damaged: {describe_error(error)}."
                raise JournalError(problem) from error
            # From here on the folder is changed: all checks of whether this plan may continue the run come
            # before.
            truncate_torn_line(folder, stored.intact_size)
            self._journal = Journal(folder, lock)
            if void:
                self._journal.write_void(void)
                stored.close()
                self._stored_run = stored = StoredRun(folder)
            updated = self.description.update_manifest(stored.manifest, void)
            if updated != stored.manifest:
                write_manifest(stored.folder, updated)
        except BaseException:
            if self._stored_run is not None:
                self._stored_run.close()
            lock.release()
            raise

    def _adopt_manifest(self, stored: StoredRun) -> frozenset[str]:
        """Check that the run belongs to the plan; return the evaluators whose results are void."""
        manifest = stored.manifest
        earlier = RunIdentity.from_manifest(manifest)
        force = self._options.force
        void = check_same_run(earlier, self.description.identity, run=stored.folder.name, force=force)
        self._check_shard(manifest)
        if not force:
            self.example_hashes = check_examples(self._plan.dataset, stored)
        self.warnings.extend(earlier.source_warnings(self.description.identity))
        self.warnings.extend(stored.warnings())
        self.seed = manifest.get("seed") if self._options.seed is None else self._options.seed
        self._origin.started_at = manifest.get("startedAt", self._origin.started_at)
        return void

    def _check_shard(self, manifest: Mapping[str, Any]) -> None:
        recorded = manifest.get("shard")
        now = self._options.shard
        if recorded is not None and now is None:
            self._options = replace(self._options, shard=(recorded[0], recorded[1]))
        elif recorded != (None if now is None else list(now)):
            raise JournalError(f"The run was started with shard={recorded}, not {now}.")
