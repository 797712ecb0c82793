"""Compare two stored runs by the library's gate. Runs in the process that compares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Row, select

from dokimos.comparison._config import Pairing
from dokimos.comparison._warnings import IDS_PAIR
from dokimos.errors import ConfigurationError
from dokimos.gate._decision import Decision, Guard, GuardFinding, decide
from dokimos.gate._gate import build_verdict
from dokimos.gate._gate_config import GateConfig
from dokimos.gate._verdict import GateVerdict
from dokimos.server._db.tables import RUNS
from dokimos.server._services.comparisons.comparison_answers import case_lines, summary_json
from dokimos.server._services.comparisons.comparison_jobs import (
    CHUNK,
    ComparisonJob,
    ComparisonOutcome,
    pack_lines,
    state_of,
)
from dokimos.server._services.comparisons.gate_options import GateOptions
from dokimos.server._services.errors import ConflictError, InvalidRequestError, NotFoundError
from dokimos.server._services.runs.run_snapshots import ItemKey, StoredSide, choose_key, read_side
from dokimos.server._services.runs.runs import COMPARABLE, RunStatus, describe_failure


def compare_stored_runs(connection: Connection, job: ComparisonJob) -> ComparisonOutcome:
    """Read two runs, on one snapshot of the data, and compare them.

    Raises:
        ConflictError: One of them has been opened again.
        InvalidRequestError: They cannot be compared with these options.
        NotFoundError: One of them has been deleted.
    """
    baseline, candidate = (_find(connection, run_id) for run_id in (job.baseline_id, job.candidate_id))
    sides = read_sides(connection, baseline, candidate, job)
    verdict = judge(sides, job.options, job.name)
    lines = list(case_lines(verdict.decision, sides)) if verdict.decision is not None else []
    return ComparisonOutcome(
        state=state_of(baseline, candidate),
        summary=summary_json(verdict, sides),
        chunks=tuple(pack_lines(lines[start : start + CHUNK]) for start in range(0, len(lines), CHUNK)),
        case_count=len(lines),
    )


@dataclass(frozen=True, slots=True)
class Sides:
    """Two runs, read."""

    baseline_run: Row[Any]
    candidate_run: Row[Any]
    baseline: StoredSide
    candidate: StoredSide
    key: ItemKey


def read_sides(connection: Connection, baseline: Row[Any], candidate: Row[Any], job: ComparisonJob) -> Sides:
    """Read both runs as sides of a comparison."""
    key = choose_key(connection, baseline, candidate, job.options.pairing)
    if key is ItemKey.ORDINAL and job.options.pairing == "dataset_item_id":
        raise InvalidRequestError(
            "the runs cannot be paired by dataset item: both need versions of one dataset, and all of their "
            "items links to it",
            field="pairing",
        )
    before, now = (read_side(connection, run, job.name, key) for run in (baseline, candidate))
    return Sides(baseline, candidate, before, now, key)


def judge(sides: Sides, options: GateOptions, name: str) -> GateVerdict:
    """Return the verdict of the library's gate, with what the server's defaults make of it."""
    config = GateConfig(
        alpha=options.alpha,
        correction=options.correction,
        seed=options.seed,
        permutation_iterations=options.permutation_iterations,
        bootstrap_iterations=options.bootstrap_iterations,
        severity=options.severity,
        severity_margin=options.severity_margin,
        fail_on_regression=options.fail_on_regression,
        fail_on_removed_items=options.fail_on_removed_items,
        on_removed_evaluator=options.on_removed_evaluator,
        require_power=options.require_power,
        detect_drop=options.detect_drop,
    )
    pairing = Pairing.POSITIONAL if sides.key is ItemKey.ORDINAL else Pairing.DATASET_ITEM_ID
    try:
        decision = decide(
            sides.baseline.snapshot, sides.candidate.snapshot, config, pairing=pairing, can_rerun=False
        )
    except ConfigurationError as error:
        raise InvalidRequestError(str(error)) from error
    of_status = tuple(_warn_of_statuses(sides))
    decision = replace(
        decision,
        findings=tuple(_find_all(decision, sides, options)),
        warnings=(*map(_say_what_pairs, decision.warnings), *of_status),
        baseline_warnings=(*of_status, *decision.baseline_warnings),
    )
    return build_verdict(decision, config, name=name, baseline=sides.baseline_run.id)


def _find(connection: Connection, run_id: str) -> Row[Any]:
    run = connection.execute(select(RUNS).where(RUNS.c.id == run_id, RUNS.c.deleted_at.is_(None))).first()
    if run is None:
        raise NotFoundError(f"Run not found: {run_id}")
    if run.status not in COMPARABLE:
        raise ConflictError(f"The run {run_id} is {run.status}; only runs that have ended are compared")
    return run


def _find_all(decision: Decision, sides: Sides, options: GateOptions) -> Iterator[GuardFinding]:
    run = sides.candidate_run
    if run.status == RunStatus.FAILED:
        yield GuardFinding(Guard.INCOMPLETE, describe_failure(run))
    is_empty = not sides.candidate.snapshot.items
    for finding in decision.findings:
        # Without items nothing was measured, whatever the options; the library's other signs of trouble are
        # asked for.
        is_reported_only = finding.guard is Guard.ERRORS and not is_empty and not options.fail_on_errors
        yield replace(finding, fails=False) if is_reported_only else finding


def _say_what_pairs(warning: str) -> str:
    """Return a warning with what pairs items here, where the ids of examples do not."""
    return warning.replace(
        IDS_PAIR, "Items of versions of one dataset (dataset://NAME@VERSION) are paired by it."
    )


def _warn_of_statuses(sides: Sides) -> Iterator[str]:
    if sides.baseline_run.status == RunStatus.FAILED:
        yield "The baseline's run failed, so what it measured may not be whole."
