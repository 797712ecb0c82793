"""The record of a run on disk, as the runner sees it: started, or resumed with its finished items."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dokimos._core.metrics import CallMetrics
from dokimos._core.provenance import Provenance
from dokimos._core.results import UNAVAILABLE, EvalResult, ExperimentResult
from dokimos._runtime.concurrency import start_in_thread
from dokimos._version import __version__
from dokimos.datasets._dataset import Dataset
from dokimos.errors import JournalError, TypeConversionError
from dokimos.experiment._code_record import CodeRecord
from dokimos.experiment._example_source import ExampleSource, SourcedExample
from dokimos.experiment._fail_fast import NOT_RUN
from dokimos.experiment._item_errors import describe_error
from dokimos.experiment._item_writer import ItemWriter
from dokimos.experiment._redaction import Redaction
from dokimos.experiment._reuse import resumes_same_code
from dokimos.experiment._run_description import Launch, RunDescription
from dokimos.experiment._run_folders import create_run_folder, find_run, new_run_id, runs_root
from dokimos.experiment._run_identity import RunIdentity, check_examples, check_same
from dokimos.experiment._run_journal import Journal, Position, StoredRun, truncate_torn_line
from dokimos.experiment._run_lock import RunLock
from dokimos.experiment._run_manifest import MANIFEST_FILE, write_manifest
from dokimos.experiment._run_provenance import CodeOrigin, code_origin, python_version, scrub_source
from dokimos.experiment._task_calls import ItemSink, TaskOutcome
from dokimos.reporting._reporter_state import ReporterState

if TYPE_CHECKING:
    from dokimos.experiment._experiment import Experiment
    from dokimos.experiment._run_options import RunOptions

ResultSink = Callable[[tuple[EvalResult, ...]], None]


class RunRecord:
    """The journal of a run as the runner sees it; does nothing where there is no journal."""

    def __init__(self, plan: Experiment, options: RunOptions, launch: Launch | None) -> None:
        self.warnings: list[str] = []
        self.seed = options.seed
        self.redact = None if options.redact is None else Redaction(options.redact)
        self.description = RunDescription(plan, launch, self.redact)
        self._plan = plan
        self._options = options
        self._launch = launch
        self.earlier = None if launch is None else launch.reuse
        self._journal: Journal | None = None
        self._writer: ItemWriter | None = None
        self._stored_run: StoredRun | None = None
        self._started = datetime.datetime.now().astimezone()
        self._started_at = self._started.isoformat(timespec="milliseconds")
        self._seen: int | None = None
        self._is_same_code = True
        """Whether all outputs come from the same code, also those from before the run was resumed."""
        self._journal_problem: str | None = None
        """Why there is no journal although one was requested."""
        # In a thread: git takes seconds in a large repository, and what it says is needed only at the end.
        self._code_origin: Future[CodeOrigin] = start_in_thread(code_origin)

    @property
    def has_journal(self) -> bool:
        return self._journal is not None

    @property
    def needs_hashes(self) -> bool:
        """Whether examples are identified by a hash of their content."""
        return self.has_journal or self.earlier is not None

    def describe_reuse(self, total: int) -> list[str]:
        """Return sentences about the outputs that were reused from earlier runs."""
        if self.earlier is None:
            return []
        if self.redact is not None:
            return ["No output was reused: with a redact=, a run keeps none as it was."]
        return list(filter(None, [self.earlier.sentence(total)]))

    @property
    def is_resumed(self) -> bool:
        return self._stored_run is not None

    @property
    def run_id(self) -> str | None:
        return None if self._journal is None else self._journal.run_id

    @cached_property
    def lasting_run_id(self) -> str:
        """The id of the run, also where it has no folder."""
        return self.run_id or new_run_id(self._started)

    @property
    def folder(self) -> Path | None:
        return None if self._journal is None else self._journal.folder

    @property
    def shard(self) -> tuple[int, int] | None:
        """The shard to run; a resumed run keeps the shard that it was started with."""
        return self._options.shard

    @property
    def problem(self) -> str | None:
        """Why the journal was given up during the run, or is incomplete."""
        if self._journal is not None and self._journal.problem is not None:
            return self._journal.problem
        return None if self._writer is None else self._writer.problem

    def how_to_resume(self, *, retry_errors: bool = False, larger_budget: bool = False) -> str:
        """Return a sentence that says how to resume the run, or why it cannot be; "" without a journal."""
        if self._journal is None:
            return self._journal_problem or ""
        if self._journal.problem is not None:
            return (
                f"The run cannot be resumed: {self._journal.problem} "
                f"To see what was written until then: dokimos show {self.run_id}"
            )
        if self._launch is not None and self._launch.is_sample:
            return ""
        if self._launch is not None:
            flags = " --retry-errors" * retry_errors + " --budget-usd ..." * larger_budget
            return f"To continue: dokimos resume {self.run_id}{flags}"
        keywords = ", retry_errors=True" * retry_errors + ", budget=..." * larger_budget
        resume = f"resume={self.run_id!r}{keywords}"
        return f"To continue: experiment.run({resume}), or evaluate(..., {resume})"

    def open(self) -> None:
        """Start a journal, or open the one to resume. Raises `JournalError` or `RunLockedError`."""
        root = runs_root(self._options.run_dir)
        if self._options.resume is not None:
            self._resume(find_run(self._options.resume, root))
        elif self._options.journal:
            self._start(root)

    def load_finished(
        self, position: Position, sourced: SourcedExample
    ) -> tuple[TaskOutcome, dict[str, EvalResult]] | None:
        """Return the outcome and the results of an item that an earlier process finished.

        A resumed run skips finished items. None means that the task has to run: the item is not finished, its
        example has changed, or its error is to be retried. Results that are to be retried are left out.
        """
        if self._stored_run is None or position not in self._stored_run:
            return None
        item = self._stored_run.item(position)
        if item is None or item.example_hash != sourced.hash:
            return None
        if item.error is not None:
            if self._should_retry(item.error_kind):
                return None
            return TaskOutcome(item.outputs or {}, item.metrics, item.error, detail=item.error_detail), {}
        evaluators_to_retry = {
            r.evaluator
            for r in item.results.values()
            if r.error is not None and self._should_retry(r.error_kind)
        }
        results = {
            name: result
            for name, result in item.results.items()
            if result.evaluator not in evaluators_to_retry
        }
        return TaskOutcome(item.outputs or {}, item.metrics), results

    def reuse_output(self, position: Position, sourced: SourcedExample) -> TaskOutcome | None:
        """Return the output of an item from an earlier run, None if its task has to run."""
        if self.earlier is None or self.redact is not None:  # what was kept under a `redact` is not whole
            return None
        outcome = self.earlier.take(position[0], sourced.hash)
        if outcome is not None and (sink := self.item_sink(position, sourced)) is not None:
            sink(outcome)
        return outcome

    def _should_retry(self, error_kind: str | None) -> bool:
        """Say whether an error is retried: where asked for, and always if an endpoint was down."""
        return self._options.retry_errors or error_kind == UNAVAILABLE

    def was_stored(self, position: Position) -> bool:
        """Say whether an earlier process of this run had got the output of an item."""
        return self._stored_run is not None and position in self._stored_run

    def open_state(self, reporter: str) -> ReporterState:
        """Return what a reporter has kept with this run, and keeps from now on."""
        kept = {} if self._stored_run is None else self._stored_run.reporters.kept.get(reporter, {})
        journal = self._journal
        return ReporterState(kept, None if journal is None else partial(journal.write_kept, reporter))

    def add_server_runs(self, run_index: int, ids: tuple[str, ...]) -> tuple[str, ...]:
        """Record the runs on servers that a repeat is sent to; return all of them, with earlier ones."""
        earlier = (
            () if self._stored_run is None else self._stored_run.reporters.server_run_ids.get(run_index, ())
        )
        if self._journal is not None and not set(ids) <= set(earlier):
            self._journal.write_server_runs(run_index, ids)
        return tuple(dict.fromkeys([*earlier, *ids]))

    def earlier_metrics(self) -> Iterator[CallMetrics]:
        """Return the cost of the task's calls in earlier processes of this run."""
        return iter(()) if self._stored_run is None else self._stored_run.metrics()

    def item_sink(self, position: Position, sourced: SourcedExample) -> ItemSink | None:
        """Return a function that writes a task's outcome to the journal, None without a journal."""
        writer = self._writer
        return None if writer is None else partial(writer.write_item, position, sourced)

    def result_sink(self, position: Position) -> ResultSink | None:
        """Return a function that writes evaluators' results to the journal, None without a journal."""
        writer = self._writer
        return None if writer is None else partial(writer.write_results, position)

    def end_repeat(self, run_index: int, source: ExampleSource) -> None:
        """Record that a repeat has gone through the whole data set."""
        self._seen = source.seen
        if self._journal is not None:
            self._journal.write_repeat_end(
                run_index,
                seen=source.seen,
                fingerprint=self._plan.dataset.fingerprint,
                duplicate_ids=self._duplicate_ids(),
            )

    def provenance(self) -> Provenance:
        """Describe where the result comes from, as of now."""
        shard = self.shard
        dataset = self._plan.dataset
        source = dataset.source
        return Provenance(
            run_id=self.lasting_run_id if self._journal_problem is None else None,
            dokimos_version=__version__,
            python_version=python_version(),
            dataset_name=dataset.name,
            dataset_uri=self._redact(None if source is None else scrub_source(source.uri)),
            dataset_version=None if source is None else source.version,
            dataset_fingerprint=dataset.fingerprint,
            dataset_size=len(dataset) if isinstance(dataset, Dataset) else self._seen,
            duplicate_ids=self._duplicate_ids(),
            task_name=self.description.identity.task,
            seed=self.seed,
            shard=None if shard is None else f"{shard[0]}/{shard[1]}",
            partial=None if self.description.part is None else str(self.description.part),
            parallelism=self._plan.parallelism,
            started_at=self._started_at,
            resumed_at=None if self._stored_run is None else self._started.isoformat(timespec="milliseconds"),
            ended_at=datetime.datetime.now().astimezone().isoformat(timespec="milliseconds"),
            command=self.description.command,
            **self._origin(),
        )

    def close(self, result: ExperimentResult) -> None:
        """Write how the run ended, and release its lock."""
        for stored in (self._stored_run, self.earlier):
            if stored is not None:
                stored.close()
        if self._journal is not None:
            code = None if self._launch is None or not self._is_same_code else CodeRecord.now()
            not_run = result.metadata.get(NOT_RUN)
            self._journal.close(
                status=result.status,
                warnings=result.warnings,
                provenance=result.provenance,
                evaluators=result.evaluators,
                **({} if code is None else {"code": code}),
                **({} if not_run is None else {NOT_RUN: not_run}),
            )

    def _start(self, root: Path) -> None:
        try:
            folder = create_run_folder(root, new_run_id(self._started))
            lock = RunLock(folder)
            try:
                manifest = self.description.to_manifest(
                    folder.name, started_at=self._started_at, seed=self.seed, shard=self._options.shard
                )
                write_manifest(folder, manifest)
                self._journal = Journal(folder, lock)
                self._start_writing(self._journal)
            except OSError:
                lock.release()
                shutil.rmtree(folder, ignore_errors=True)  # nothing has run yet
                raise
        except OSError as error:
            self._journal_problem = (
                f"The run cannot be resumed: nothing could be written in {root} ({error})."
            )
            self.warnings.append(self._journal_problem)

    def _start_writing(self, journal: Journal) -> None:
        # A stream is read anew for each repeat, so a repeat's examples need not be those of the first.
        may_change_order = not isinstance(self._plan.dataset, Dataset)
        self._writer = ItemWriter(journal, self.redact, every_example=may_change_order)

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
            self._start_writing(self._journal)
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
        void = check_same(earlier, self.description.identity, run=stored.folder.name, force=force)
        self._check_shard(manifest)
        if not force:
            check_examples(self._plan.dataset, stored)
        self.warnings.extend(earlier.source_warnings(self.description.identity))
        self.warnings.extend(stored.warnings())
        self.seed = manifest.get("seed") if self._options.seed is None else self._options.seed
        self._started_at = manifest.get("startedAt", self._started_at)
        return void

    def _check_shard(self, manifest: Mapping[str, Any]) -> None:
        recorded = manifest.get("shard")
        now = self._options.shard
        if recorded is not None and now is None:
            self._options = replace(self._options, shard=(recorded[0], recorded[1]))
        elif recorded != (None if now is None else list(now)):
            raise JournalError(f"The run was started with shard={recorded}, not {now}.")

    def _duplicate_ids(self) -> int:
        return getattr(self._plan.dataset, "duplicate_ids", 0)

    def _origin(self) -> CodeOrigin:
        try:
            origin = self._code_origin.result(timeout=10).copy()
        except Exception:
            return CodeOrigin()
        if self.redact is not None:
            origin["git_branch"] = self._redact(origin.get("git_branch"))
            origin["target_branch"] = self._redact(origin.get("target_branch"))
            origin["build_url"] = self._redact(origin.get("build_url"))
        return origin

    def _redact(self, text: str | None) -> str | None:
        return text if text is None or self.redact is None else self.redact(text)
