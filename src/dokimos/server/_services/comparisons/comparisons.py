"""Compare runs: each pair once, however many ask for it, and the automatic pair when a run ends.

Within this process, equal requests share a task; of all servers on one database, one computes a pair, which
it claims, and the others wait for what it stores.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import OrderedDict
from contextlib import AsyncExitStack
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection, Row, select

from dokimos.server._db.claims import wait_until_free
from dokimos.server._db.database import Database, DatabaseUnavailable, ReadTooSlow
from dokimos.server._db.ids import new_id
from dokimos.server._db.tables import EXPERIMENTS, RUNS
from dokimos.server._services.accounts.principal import Principal, Role
from dokimos.server._services.alerts.alert_outbox import queue_alerts
from dokimos.server._services.comparisons.baselines import (
    Baseline,
    BaselineSource,
    check_is_whole,
    find_baseline,
    find_candidate,
)
from dokimos.server._services.comparisons.comparison_jobs import (
    Comparer,
    ComparisonJob,
    ComparisonOutcome,
    state_of,
)
from dokimos.server._services.comparisons.comparison_turns import MOST_WAITING, ComparisonTurns, Lane
from dokimos.server._services.comparisons.gate_options import DEFAULTS, GateOptions
from dokimos.server._services.comparisons.stored_comparisons import (
    StoredComparison,
    find_comparison,
    find_result,
    keep_longest,
    split_outcome,
    store_part,
    store_verdict,
)
from dokimos.server._services.errors import ConflictError, UnavailableError
from dokimos.server._services.metrics import Histogram, Metrics
from dokimos.server._services.runs.maintenance import find_runs_without_verdict
from dokimos.server._services.runs.run_parts import evaluators_of_run
from dokimos.server._services.runs.runs import COMPARABLE, RunStatus, describe_part

_LOGGER: Final = logging.getLogger("dokimos.server")
_MOST_TRIED: Final = 10_000
"""Runs without a verdict that are remembered, so that it is not computed again for each gate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRequest:
    """Which runs a caller wants to compare."""

    experiment_id: str
    candidate_id: str
    baseline_id: str | None = None
    branch: str | None = None
    options: GateOptions = DEFAULTS
    skip_failed_baselines: bool = False
    """Whether the automatic baseline must not have failed the gate itself."""
    refuse_changed_evaluators: bool = False
    refuse_parts: bool = False
    """Whether runs of part of their data set are refused, which a verdict says nothing about."""
    needed_role: Role = Role.VIEWER
    """The role in the project that the caller must have."""

    @property
    def is_automatic(self) -> bool:
        """Whether it is what the server asks for by itself when a run ends."""
        chosen = self.baseline_id or self.branch or self.skip_failed_baselines
        return not chosen and self.options == DEFAULTS


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """A candidate with its baseline, and the comparison; both None where there is no baseline."""

    candidate: Row[Any]
    baseline: Baseline
    comparison: StoredComparison | None


class Comparisons:
    """Compares runs, each pair once as long as neither changes."""

    def __init__(
        self,
        database: Database,
        comparer: Comparer,
        *,
        most_waiting: int = MOST_WAITING,
        durations: Histogram | None = None,
    ) -> None:
        self._durations = durations or Metrics().comparisons
        self._database = database
        self._comparer = comparer
        self._turns = ComparisonTurns(most_waiting)
        self._running: dict[tuple[str, ...], asyncio.Task[StoredComparison]] = {}
        self._to_judge: dict[str, None] = {}
        """Runs that ended, in the order in which they get their verdicts."""
        self._judged: dict[str, asyncio.Task[None]] = {}
        """Those whose verdict is being computed."""
        self._tried: OrderedDict[tuple[str, int], None] = OrderedDict()
        """Runs whose verdict failed here, or which a gate waited for, with when they last changed."""
        self._judging: asyncio.Task[None] | None = None

    async def compare(
        self, principal: Principal, request: ComparisonRequest, lane: Lane = Lane.GATE
    ) -> ComparedRuns:
        """Return a comparison, computed unless it is stored.

        Raises:
            ServiceError: The runs cannot be compared, too many others wait to be, or the process that
                compares was interrupted.
        """
        found = await self._database.read(lambda connection: _find(connection, principal, request))
        while (
            request.skip_failed_baselines and (verdict := self._verdict_to_come(found.baseline)) is not None
        ):
            # Whether a run failed the gate must be known before it is taken for one that did not.
            await asyncio.shield(verdict)
            found = await self._database.read(lambda connection: _find(connection, principal, request))
        comparison = found.comparison
        if comparison is None and found.baseline.run is not None:
            comparison = await self._compute(found, found.baseline.run, request.options, lane)
        return ComparedRuns(found.candidate, found.baseline, comparison)

    def judge_soon(self, run_id: str) -> None:
        """Compare a run that has ended with its automatic baseline, and keep the verdict; returns at once.

        What fails is logged. The next request for the gate of the run tries again.
        """
        self._to_judge[run_id] = None
        if self._judging is None:
            # In a context of its own: what it logs does not belong to the request that began it.
            self._judging = asyncio.create_task(self._judge_all(), name="dokimos verdicts", context=Context())

    async def judge_missing(self, quiet_seconds: float, seconds: float) -> None:
        """Compute the verdicts of runs that ended at least and at most so long ago and have none."""
        runs = await self._database.read(
            lambda connection: find_runs_without_verdict(connection, quiet_seconds, seconds)
        )
        for run_id, changed_at in runs:
            if (run_id, changed_at) not in self._tried:
                self.judge_soon(run_id)

    @property
    def waiting(self) -> dict[str, float]:
        """How many comparisons wait to be computed, by what they are for."""
        return self._turns.waiting

    @property
    def running_count(self) -> int:
        """How many are being computed."""
        return int(self._turns.is_taken)

    async def wait_until_idle(self) -> None:
        """Wait for the verdicts that `judge_soon` was asked for."""
        while self._judging is not None:
            await asyncio.wait([self._judging])

    async def close(self) -> None:
        """Cancel what is under way, and end the process."""
        tasks: list[asyncio.Task[Any]] = [*self._running.values(), *self._judged.values()]
        if self._judging is not None:
            tasks.append(self._judging)
        for task in tasks:
            task.cancel()
        await self._comparer.close()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _compute(
        self, found: _Found, baseline: Row[Any], options: GateOptions, lane: Lane
    ) -> StoredComparison:
        candidate = found.candidate
        key = (baseline.id, candidate.id, options.configuration, state_of(baseline, candidate))
        task = self._running.get(key)
        if task is None:
            self._turns.reserve(lane)
            job = ComparisonJob(
                baseline_id=baseline.id, candidate_id=candidate.id, name=found.name, options=options
            )
            task = self._running[key] = asyncio.create_task(self._compare_once(job, lane))
            task.add_done_callback(lambda done: self._finish(key, done))
        # Shielded: a caller that hangs up does not take the answer from the others.
        return await asyncio.shield(task)

    async def _compare_once(self, job: ComparisonJob, lane: Lane) -> StoredComparison:
        """Return the comparison that this server computes, or that another one does."""
        name = f"comparison {job.baseline_id} {job.candidate_id} {job.options.configuration}"
        stored = await self._compare_if_free(job, lane, name)
        while stored is None:
            await wait_until_free(self._database, name)
            stored = await self._find_result(job)
            if stored is None:  # the other server has ended, or could not compare them
                self._turns.reserve(lane, is_again=True)
                stored = await self._compare_if_free(job, lane, name)
        return stored

    async def _compare_if_free(self, job: ComparisonJob, lane: Lane, name: str) -> StoredComparison | None:
        """Compute a comparison when its turn comes; return None where another server does that."""
        async with AsyncExitStack() as claimed:
            async with self._turns.take(lane):
                if not await claimed.enter_async_context(self._database.claim(name)):
                    return None
                stored = await self._find_result(job)
                if stored is not None:
                    return stored
                began_at = time.perf_counter()
                try:
                    outcome = await self._comparer.compare(job)
                finally:
                    self._durations.add((), time.perf_counter() - began_at)
            return await self._store(job, outcome)  # while the next one is computed

    async def _find_result(self, job: ComparisonJob) -> StoredComparison | None:
        return await self._database.read(partial(find_result, job=job))

    async def _store(self, job: ComparisonJob, outcome: ComparisonOutcome) -> StoredComparison:
        comparison_id = new_id()
        for part in split_outcome(outcome):
            await self._database.write(
                partial(store_part, job=job, outcome=outcome, comparison_id=comparison_id, part=part)
            )
        return StoredComparison(comparison_id, outcome.summary, outcome.case_count)

    def _finish(self, key: tuple[str, ...], task: asyncio.Task[StoredComparison]) -> None:
        self._running.pop(key, None)
        if not task.cancelled():
            task.exception()  # looked at, also where nobody waits for it any more

    def _verdict_to_come(self, baseline: Baseline) -> asyncio.Task[None] | None:
        """Return what computes the verdict on an automatic baseline, None where that is known."""
        if baseline.run is None or baseline.source is not BaselineSource.AUTOMATIC:
            return None
        run = baseline.run
        if run.id in self._judged:
            return self._judged[run.id]
        if run.id in self._to_judge:
            return self._start_judging(run.id)
        if run.verdict is not None or (run.id, run.last_activity_at) in self._tried:
            return None
        # Another server may be about to compute it. Where there is none after that, there will be none.
        self._note_try(run)
        return self._start_judging(run.id)

    def _note_try(self, run: Row[Any]) -> None:
        self._tried[run.id, run.last_activity_at] = None
        if len(self._tried) > _MOST_TRIED:
            self._tried.popitem(last=False)

    def _start_judging(self, run_id: str) -> asyncio.Task[None]:
        # Before it is judged: a run that is opened again and ends meanwhile is judged again.
        self._to_judge.pop(run_id, None)
        task = asyncio.create_task(self._judge_or_log(run_id), name=f"dokimos verdict on {run_id}")
        self._judged[run_id] = task
        task.add_done_callback(lambda _: self._judged.pop(run_id, None))
        return task

    async def _judge_all(self) -> None:
        try:
            while self._to_judge or self._judged:
                tasks = [*self._judged.values()] or [self._start_judging(next(iter(self._to_judge)))]
                await asyncio.wait(tasks)
        finally:
            self._judging = None

    async def _judge_or_log(self, run_id: str) -> None:
        try:
            await self._judge(run_id)
        except (DatabaseUnavailable, ReadTooSlow, UnavailableError) as error:  # it is tried again
            _LOGGER.error("The verdict on run %s could not be computed: %s", run_id, error)
        except Exception as error:
            is_missed = await self._note_failure(run_id)
            level = logging.ERROR if is_missed else logging.DEBUG
            _LOGGER.log(level, "The verdict on run %s could not be computed: %s", run_id, error)

    async def _note_failure(self, run_id: str) -> bool:
        """Do not try a run again; return False where it was deleted or opened again meanwhile."""
        try:
            run = await self._database.read(lambda connection: _find_waiting_run(connection, run_id))
        except (DatabaseUnavailable, ReadTooSlow):
            return True
        if run is not None:
            self._note_try(run)
        return run is not None

    async def _judge(self, run_id: str) -> None:
        run = await self._database.read(lambda connection: _find_waiting_run(connection, run_id))
        if run is None or describe_part(run) is not None:
            return
        # The baseline is one that the tenant of the run sees: nobody else's results decide on it.
        principal = Principal("system", Role.ADMIN, tenant=run.tenant_id, is_restricted=True)
        request = ComparisonRequest(experiment_id=run.experiment_id, candidate_id=run_id)
        compared = await self.compare(principal, request, Lane.VERDICT)

        def keep(connection: Connection) -> None:
            verdict = verdict_of(compared)
            if store_verdict(connection, run, verdict):
                summary = None if compared.comparison is None else json.loads(compared.comparison.summary)
                queue_alerts(connection, run, verdict, summary)
            if compared.comparison is not None:
                keep_longest(connection, compared.comparison.id)

        await self._database.write(keep)


def verdict_of(compared: ComparedRuns) -> str:
    """Return `PASS`, `FAIL` or `NO_BASELINE`."""
    if compared.comparison is None:
        return "FAIL" if compared.candidate.status == RunStatus.FAILED else "NO_BASELINE"
    status: str = json.loads(compared.comparison.summary)["status"]
    return status


@dataclass(frozen=True, slots=True)
class _Found:
    candidate: Row[Any]
    name: str
    baseline: Baseline
    comparison: StoredComparison | None


def _find(connection: Connection, principal: Principal, request: ComparisonRequest) -> _Found:
    experiment, candidate = find_candidate(
        connection, principal, request.experiment_id, request.candidate_id, must_have_ended=True
    )
    principal.check_role(experiment.project_id, request.needed_role)
    baseline = find_baseline(
        connection,
        principal,
        experiment,
        candidate,
        run_id=request.baseline_id,
        branch=request.branch,
        skips_failed=request.skip_failed_baselines,
    )
    if request.refuse_parts:
        check_is_whole(candidate, "candidate")
    if baseline.run is None:
        return _Found(candidate, experiment.name, baseline, None)
    if request.refuse_parts:
        check_is_whole(baseline.run, "baseline")
    if request.refuse_changed_evaluators:
        _check_evaluators(connection, baseline.run, candidate)
    comparison = find_comparison(connection, baseline.run, candidate, request.options.configuration)
    return _Found(candidate, experiment.name, baseline, comparison)


def _find_waiting_run(connection: Connection, run_id: str) -> Row[Any] | None:
    """Return a run that has ended and has no verdict."""
    query = (
        select(RUNS)
        .join(EXPERIMENTS, EXPERIMENTS.c.id == RUNS.c.experiment_id)
        .where(RUNS.c.id == run_id, RUNS.c.status.in_(COMPARABLE), RUNS.c.verdict.is_(None))
        .where(RUNS.c.deleted_at.is_(None), EXPERIMENTS.c.deleted_at.is_(None))
    )
    return connection.execute(query).first()


def _check_evaluators(connection: Connection, baseline: Row[Any], candidate: Row[Any]) -> None:
    """Raise `ConflictError` where evaluators are configured differently than in the baseline."""
    before, now = (
        {row.name: row.fingerprint for row in evaluators_of_run(connection, run.id) if row.fingerprint}
        for run in (baseline, candidate)
    )
    changed = sorted(name for name in before.keys() & now.keys() if before[name] != now[name])
    if changed:
        are = "is" if len(changed) == 1 else "are"
        raise ConflictError(
            f"{', '.join(changed)} {are} configured differently than in the baseline {baseline.id}, so a "
            "change of the scores may be one of the evaluator. Score the stored outputs of the baseline "
            "again with the present evaluators (dokimos rescore), send that as a run, and compare with it; "
            "or ask without refuseChangedEvaluators."
        )
