"""Comparisons that were computed: kept, found again, read page by page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)

from dokimos.server._db.batches import in_batches
from dokimos.server._db.clock import now
from dokimos.server._db.tables import COMPARISON_CASES, COMPARISONS, EXPERIMENTS, ITEMS, RUNS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.comparisons.comparison_jobs import (
    CHUNK,
    ComparisonJob,
    ComparisonOutcome,
    state_of,
    unpack_lines,
)
from dokimos.server._services.errors import NotFoundError, UnavailableError
from dokimos.server._services.events import RUN_COLUMNS, EventKind, announce_run

_MAX_CONFIGURATIONS: Final = 10
"""Comparisons of one pair of runs that are kept, each with other options."""
_PART_BYTES: Final = 256 * 1024
"""What one transaction stores of a comparison: other writers wait no longer than that takes."""
_SMALL: Final = 50 * CHUNK
"""Cases of a comparison that is removed at once; the purge removes larger ones in small transactions."""
UNFINISHED: Final = ""
"""The state of a comparison that is not whole: nobody finds it."""
GIVEN_UP: Final = 0
"""When a comparison was begun that the purge removes: at this time, so that its age shows it."""


class ComparisonGone(Exception):
    """A comparison that was found has been removed meanwhile."""


@dataclass(frozen=True, slots=True)
class StoredComparison:
    """A comparison whose cases are in the tables."""

    id: str
    summary: str
    """JSON."""
    case_count: int


def find_comparison(
    connection: Connection, baseline: Row[Any], candidate: Row[Any], configuration: str
) -> StoredComparison | None:
    """Return the comparison of two runs as they are now, None where there is none."""
    query = select(COMPARISONS).where(
        _is_of(baseline.id, candidate.id),
        COMPARISONS.c.configuration == configuration,
        COMPARISONS.c.state == state_of(baseline, candidate),
    )
    row = connection.execute(query).first()
    return None if row is None else StoredComparison(row.id, row.summary, row.case_count)


def find_result(connection: Connection, job: ComparisonJob) -> StoredComparison | None:
    """Return what came out of a job, for the runs as they are now; None where that is not stored."""
    ids = (job.baseline_id, job.candidate_id)
    query = select(RUNS).where(RUNS.c.id.in_(ids), RUNS.c.deleted_at.is_(None))
    runs = {run.id: run for run in connection.execute(query)}
    if len(runs) < len(ids):
        return None
    baseline, candidate = (runs[each] for each in ids)
    return find_comparison(connection, baseline, candidate, job.options.configuration)


@dataclass(frozen=True, slots=True)
class ComparisonPart:
    """What one transaction stores of a comparison."""

    first_chunk: int
    chunks: Sequence[str]
    is_last: bool


def split_outcome(outcome: ComparisonOutcome) -> Iterator[ComparisonPart]:
    """Cut an outcome into parts that are stored one after the other; at least one."""
    start = size = 0
    for end, chunk in enumerate(outcome.chunks):
        if end > start and size + len(chunk) > _PART_BYTES:
            yield ComparisonPart(start, outcome.chunks[start:end], is_last=False)
            start, size = end, 0
        size += len(chunk)
    yield ComparisonPart(start, outcome.chunks[start:], is_last=True)


def store_part(
    connection: Connection,
    job: ComparisonJob,
    outcome: ComparisonOutcome,
    comparison_id: str,
    part: ComparisonPart,
) -> None:
    """Store a part of a comparison; with the last one it is found, in place of what the runs were before.

    Raises:
        NotFoundError: One of the runs has been deleted meanwhile.
        UnavailableError: The purge took the comparison for one that was left, and removes it.
    """
    runs = _lock_runs(connection, job)
    if part.first_chunk:
        _give_sign_of_life(connection, comparison_id)
    else:
        connection.execute(
            insert(COMPARISONS).values(
                id=comparison_id,
                baseline_run_id=job.baseline_id,
                candidate_run_id=job.candidate_id,
                configuration=comparison_id,
                state=UNFINISHED,
                summary=outcome.summary,
                case_count=outcome.case_count,
                created_at=now(),
            )
        )
    rows = [
        {"comparison_id": comparison_id, "chunk": chunk, "lines": lines}
        for chunk, lines in enumerate(part.chunks, part.first_chunk)
    ]
    if rows:
        connection.execute(insert(COMPARISON_CASES), rows)
    if part.is_last:
        _replace_others(connection, job, outcome)
        values = {"configuration": job.options.configuration, "state": outcome.state, "created_at": now()}
        connection.execute(update(COMPARISONS).where(COMPARISONS.c.id == comparison_id).values(values))
        announce_run(
            connection,
            EventKind.COMPARISON_READY,
            runs[job.candidate_id],
            {"baselineRunId": job.baseline_id},
            tenants=(runs[job.baseline_id].tenant_id,),
        )


def _give_sign_of_life(connection: Connection, comparison_id: str) -> None:
    is_being_stored = (COMPARISONS.c.id == comparison_id, COMPARISONS.c.created_at != GIVEN_UP)
    change = update(COMPARISONS).where(*is_being_stored).values(created_at=now())
    if not connection.execute(change).rowcount:
        raise UnavailableError(
            "The comparison was given up, since the clock of the server was set forward; ask again."
        )


def _replace_others(connection: Connection, job: ComparisonJob, outcome: ComparisonOutcome) -> None:
    """Discard what is stored of a pair, but the latest comparisons with other options."""
    pair = _is_of(job.baseline_id, job.candidate_id)
    configuration = job.options.configuration
    kept = (
        select(COMPARISONS.c.id)
        .where(pair, COMPARISONS.c.configuration != configuration, COMPARISONS.c.state == outcome.state)
        .order_by(COMPARISONS.c.created_at.desc())
        .limit(_MAX_CONFIGURATIONS - 1)
    )
    others = (pair, COMPARISONS.c.id.not_in(kept), COMPARISONS.c.state != UNFINISHED)
    connection.execute(delete(COMPARISONS).where(*others, COMPARISONS.c.case_count <= _SMALL))
    discard(connection, connection.execute(select(COMPARISONS.c.id).where(*others)).scalars().all())


def discard(connection: Connection, comparison_ids: Sequence[str]) -> None:
    """Have comparisons not found any more; the purge removes them."""
    if not comparison_ids:
        return
    change = (
        update(COMPARISONS)
        .where(COMPARISONS.c.id == bindparam("comparison", type_=COMPARISONS.c.id.type))
        # A name of its own, so that the pair can be compared again meanwhile.
        .values(state=UNFINISHED, configuration=bindparam("name"), created_at=GIVEN_UP)
    )
    connection.execute(change, [{"comparison": each, "name": each} for each in comparison_ids])


def keep_longest(connection: Connection, comparison_id: str) -> None:
    """Keep a comparison longer than those that were only asked for."""
    change = update(COMPARISONS).where(COMPARISONS.c.id == comparison_id)
    connection.execute(change.values(automatic=True))


def read_cases(connection: Connection, comparison_id: str, start: int, end: int) -> list[dict[str, Any]]:
    """Return the cases from `start` to before `end`, each with the text of its input.

    Raises:
        ComparisonGone: They have been removed.
    """
    query = (
        select(COMPARISON_CASES.c.lines)
        .where(
            COMPARISON_CASES.c.comparison_id == comparison_id,
            COMPARISON_CASES.c.chunk.between(start // CHUNK, max(start, end - 1) // CHUNK),
        )
        .order_by(COMPARISON_CASES.c.chunk)
    )
    lines = [line for packed in connection.execute(query).scalars() for line in unpack_lines(packed)]
    first = start - start // CHUNK * CHUNK
    cases = [line.split("\t", 1) for line in lines[first : first + max(0, end - start)]]
    if len(cases) < end - start:
        raise ComparisonGone(comparison_id)
    inputs = read_inputs(connection, [item_id for item_id, _ in cases])
    return [{**json.loads(case), "input": inputs.get(item_id)} for item_id, case in cases]


def store_verdict(connection: Connection, run: Row[Any], verdict: str) -> bool:
    """Keep the verdict on a run, and on its experiment where no later run has one.

    A run that changed meanwhile keeps none: this verdict is about what it was. One that has a verdict
    already keeps that: of several servers that judge a run, the first stores the verdict and tells of it.

    Returns:
        Whether the verdict was stored.
    """
    is_same = [RUNS.c[name] == getattr(run, name) for name in ("id", "status", "last_activity_at")]
    is_open = (RUNS.c.verdict.is_(None), RUNS.c.deleted_at.is_(None))
    change = update(RUNS).where(*is_same, *is_open).values(verdict=verdict)
    if not connection.execute(change).rowcount:
        return False
    later = (
        select(RUNS.c.id)
        .where(
            RUNS.c.id == EXPERIMENTS.c.verdict_run_id,
            RUNS.c.started_at > run.started_at,
            RUNS.c.verdict.is_not(None),
            RUNS.c.deleted_at.is_(None),
        )
        .exists()
    )
    connection.execute(
        update(EXPERIMENTS).where(EXPERIMENTS.c.id == run.experiment_id, ~later).values(verdict_run_id=run.id)
    )
    announce_run(connection, EventKind.VERDICT_READY, run, {"verdict": verdict})
    return True


def verdicts_of_projects(
    connection: Connection, principal: Principal, project_ids: Sequence[str]
) -> dict[str, list[Row[Any]]]:
    """Return the last verdict of each experiment of projects, the latest run first.

    The rows have `project_id`, `experiment_id`, `experiment_name`, `run_id`, `verdict` and `started_at`.
    """
    shown = RUNS.alias("shown")
    query: Select[Any] = (
        select(
            EXPERIMENTS.c.project_id,
            EXPERIMENTS.c.id.label("experiment_id"),
            EXPERIMENTS.c.name.label("experiment_name"),
            shown.c.id.label("run_id"),
            shown.c.verdict,
            shown.c.started_at,
        )
        .select_from(EXPERIMENTS)
        .join(shown, shown.c.id == _run_with_verdict(principal))
        .where(principal.sees(EXPERIMENTS))
        .where(EXPERIMENTS.c.verdict_run_id.is_not(None))
        .order_by(shown.c.started_at.desc(), shown.c.id.desc())
    )
    verdicts: dict[str, list[Row[Any]]] = {project_id: [] for project_id in project_ids}
    for batch in in_batches(project_ids):
        for row in connection.execute(query.where(EXPERIMENTS.c.project_id.in_(batch))):
            verdicts[row.project_id].append(row)
    return verdicts


def _run_with_verdict(principal: Principal) -> ColumnElement[str]:
    """The newest run of an experiment whose verdict the caller sees: the kept one, or one looked for."""
    runs = select(RUNS.c.id).where(RUNS.c.verdict.is_not(None), principal.sees(RUNS)).correlate(EXPERIMENTS)
    kept = runs.where(RUNS.c.id == EXPERIMENTS.c.verdict_run_id)
    newest = runs.where(RUNS.c.experiment_id == EXPERIMENTS.c.id)
    newest = newest.order_by(RUNS.c.started_at.desc(), RUNS.c.id.desc()).limit(1)
    return func.coalesce(kept.scalar_subquery(), newest.scalar_subquery())


def _is_of(baseline_id: str, candidate_id: str) -> ColumnElement[bool]:
    return and_(COMPARISONS.c.baseline_run_id == baseline_id, COMPARISONS.c.candidate_run_id == candidate_id)


def _lock_runs(connection: Connection, job: ComparisonJob) -> dict[str, Row[Any]]:
    """Lock both runs in the order of their ids: two servers that store one comparison take turns."""
    ids = sorted((job.baseline_id, job.candidate_id))
    query = select(*RUN_COLUMNS).where(RUNS.c.id.in_(ids), RUNS.c.deleted_at.is_(None)).order_by(RUNS.c.id)
    runs = {run.id: run for run in connection.execute(query.with_for_update())}
    if len(runs) < len(ids):
        raise NotFoundError("One of the runs has been deleted")
    return runs


def read_inputs(connection: Connection, item_ids: Sequence[str]) -> dict[str, str]:
    """Return the text of the input of each of these items."""
    query = select(ITEMS.c.id, ITEMS.c.input).where(ITEMS.c.id.in_(item_ids))
    return {row.id: _input_text(row.input) for row in connection.execute(query)}


def _input_text(stored: str) -> str:
    """What stands under the key `input`, else all inputs, as text."""
    inputs = json.loads(stored)
    value = inputs.get("input", inputs) if isinstance(inputs, dict) else inputs
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
