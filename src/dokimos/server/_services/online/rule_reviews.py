"""Scores of rules in the review queue: which ones go there, and what people say of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, and_, func, or_, select, true, update

from dokimos._core.jsonable import compact_json
from dokimos.server._db.clock import DAY, now
from dokimos.server._db.inserts import insert_if_absent
from dokimos.server._db.tables import PROJECTS
from dokimos.server._db.trace_rule_tables import TRACE_EVAL_REVIEWS, TRACE_EVAL_RULES
from dokimos.server._db.trace_tables import TRACE_EVAL_JOBS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.online.estimates import RuleEstimate, estimate_mean
from dokimos.server._services.online.review_sampling import ReviewSampling, is_chosen, parse_review_sampling
from dokimos.server._services.online.trace_jobs import NewEvalJob
from dokimos.server._services.reviews.annotations import visible_annotations
from dokimos.server._services.reviews.reviews import Verdict
from dokimos.server._services.traces.trace_reviews import Snapshot, store_snapshots

QUEUED_BY: Final = "queuedBy"
"""In the metadata of an item: the rule that put it into the queue, and with which probability."""
MAX_REVIEWS: Final = 20_000
"""Of a rule, that its figures are made of; the latest ones."""
_REVIEW: Final = TRACE_EVAL_REVIEWS.c
_RULE: Final = TRACE_EVAL_RULES.c
_JOB: Final = TRACE_EVAL_JOBS.c


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewStats:
    """What people said of scores in the queue."""

    queued: int
    reviewed: int
    correct_rate: RuleEstimate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleReviews:
    """What people said of the scores of a rule."""

    failed: ReviewStats
    other: ReviewStats
    correct_rate: RuleEstimate | None
    """Over all that the rule matches; None unless some of both are queued, and were reviewed."""
    limited_days: int
    """Days of which as many scores are in the queue as may be now: what came later on them had no chance."""


@dataclass(frozen=True, slots=True)
class QueuedScore:
    """A score in the queue, with the probability that it has by now."""

    target: str
    item_id: str
    failed: bool
    probability: float
    created_at: int


@dataclass(frozen=True, slots=True)
class _Reviewed:
    trace: str
    is_correct: bool
    probability: float


def has_review(connection: Connection, rule_id: str) -> bool:
    """Say whether people look at scores of a rule."""
    rule = _find_rule(connection, rule_id)
    return rule is not None and rule.review is not None


def read_scored_jobs(connection: Connection, batch: str) -> Sequence[Row[Any]]:
    """Return the jobs of a batch that have a score, the oldest first."""
    query = select(TRACE_EVAL_JOBS).where(_JOB.batch == batch, _JOB.status == "SUCCEEDED")
    return connection.execute(query.order_by(_JOB.completed_at, _JOB.id)).all()


def choose_jobs(
    connection: Connection, rule_id: str, jobs: Sequence[Row[Any]], leased_at: int
) -> list[Row[Any]]:
    """Return jobs that may be queued; `queue_job` decides on each, when those before it are in the queue.

    Args:
        connection: In a transaction that reads.
        rule_id: Whose jobs they are.
        jobs: Those of one batch.
        leased_at: Since when the server works on the batch. What was scored in an attempt before that has had
            its chance, and gets no second one with the rates of a rule that was changed since.
    """
    rule = _find_rule(connection, rule_id)
    sampling = None if rule is None else _read_sampling(rule)
    if rule is None or sampling is None:
        return []
    jobs = [job for job in jobs if job.completed_at >= min(leased_at, rule.updated_at)]
    known = _find_known(connection, rule_id, [job.target for job in jobs])
    queued = {day: _count(connection, rule_id, day) for day in {_day_of(job) for job in jobs}}
    return [
        job
        for job in jobs
        if job.target not in known and _probability(rule_id, sampling, job, queued[_day_of(job)])
    ]


def queue_job(
    connection: Connection, principal: Principal, rule_id: str, job: Row[Any], snapshot: Snapshot
) -> bool:
    """Put what a job has scored into the queue, unless it is there or enough of its day are; say whether.

    Whoever does it again, after a crash, decides alike: the probability only falls as a day's scores come in,
    so what was not chosen before is not chosen later.
    """
    rule = _find_rule(connection, rule_id, for_update=True)  # of two servers, the second counts anew
    sampling = None if rule is None else _read_sampling(rule)
    if rule is None or sampling is None or snapshot.project_id != rule.project_id:
        return False
    if _find_known(connection, rule_id, [job.target]):
        return False
    probability = _probability(rule_id, sampling, job, _count(connection, rule_id, _day_of(job)))
    if not probability:
        return False
    whole = probability * job.probability
    metadata = json.loads(snapshot.item.metadata or "{}")
    metadata[QUEUED_BY] = {"ruleId": rule_id, "rule": rule.name, "probability": whole}
    snapshot.item.metadata = compact_json(metadata)
    (item,) = store_snapshots(connection, principal, [snapshot])
    insert_if_absent(
        connection,
        TRACE_EVAL_REVIEWS,
        rule_id=rule_id,
        target=job.target,
        item_id=item.item_id,
        project_id=rule.project_id,
        tenant_id=snapshot.tenant,
        day=_day_of(job),
        failed=job.success is False,
        probability=whole,
        chosen_probability=probability,
        observed_at=job.observed_at,
        created_at=now(),
    )
    return True


def raise_reviews(connection: Connection, jobs: Sequence[NewEvalJob]) -> None:
    """Raise the probabilities in the queue of jobs that were given a higher one.

    What is scored only with the higher one comes into the queue with it. The others would stand for it too.
    """
    for job in jobs:
        raised = _REVIEW.chosen_probability * job.probability
        is_lower = (
            _REVIEW.rule_id == job.rule_id,
            _REVIEW.target == job.target,
            _REVIEW.probability < raised,
        )
        connection.execute(update(TRACE_EVAL_REVIEWS).where(*is_lower).values(probability=raised))


def summarize_reviews(
    connection: Connection,
    principal: Principal,
    rule: Row[Any],
    times: tuple[int, int],
    jobs: Iterable[Row[Any]] = (),
) -> RuleReviews:
    """Return what people said of the scores of a rule whose spans came within some time.

    Args:
        connection: In a transaction that reads.
        principal: Who asks.
        rule: The rule.
        times: From when to when the spans came.
        jobs: Those of the rule that are there, with the probabilities that they have by now.
    """
    query = (
        select(TRACE_EVAL_REVIEWS)
        .where(
            _REVIEW.rule_id == rule.id,
            _REVIEW.observed_at >= times[0],
            _REVIEW.observed_at < times[1],
            principal.sees(TRACE_EVAL_REVIEWS),
        )
        .order_by(_REVIEW.observed_at.desc())
        .limit(MAX_REVIEWS)
    )
    sampled = {job.target: job.probability for job in jobs}
    rows = [_weigh_anew(row, sampled.get(row.target)) for row in connection.execute(query)]
    said = visible_annotations(connection, principal, rule.project_id, [row.item_id for row in rows])
    decided = {item: row for item, row in said.items() if row.verdict != Verdict.UNSURE}
    stats: list[ReviewStats] = []
    for queued in _split(rows):
        reviewed = _weight(queued, decided)
        stats.append(
            ReviewStats(queued=len(queued), reviewed=len(reviewed), correct_rate=_estimate(reviewed))
        )
    return RuleReviews(
        failed=stats[0],
        other=stats[1],
        correct_rate=estimate_correct_rate(rows, decided, rule, times[1]),
        limited_days=_count_limited_days(connection, rule, times),
    )


def _weigh_anew(row: Row[Any], sampled: float | None) -> QueuedScore:
    probability = row.probability
    if sampled is not None and row.chosen_probability is not None:
        # A server that was killed may have raised the one and not the other.
        probability = max(probability, row.chosen_probability * sampled)
    return QueuedScore(row.target, row.item_id, bool(row.failed), probability, row.created_at)


def estimate_correct_rate(
    queued: Sequence[QueuedScore], decided: dict[str, Row[Any]], rule: Row[Any], until: int
) -> RuleEstimate | None:
    """Return how much of all that a rule matches people would find correct; None where that is not known.

    Args:
        queued: Scores of the rule in the review queue.
        decided: What people said of items of the queue, by their ids.
        rule: As it is now.
        until: Before when the spans of these scores came.
    """
    kinds = [_weight(each, decided) for each in _split(_select_comparable(queued, rule, until))]
    return _estimate([each for kind in kinds for each in kind]) if all(kinds) else None


def _split(rows: Sequence[QueuedScore]) -> tuple[list[QueuedScore], list[QueuedScore]]:
    """Return the scores that had failed, and the others."""
    return [row for row in rows if row.failed], [row for row in rows if not row.failed]


def _select_comparable(rows: Sequence[QueuedScore], rule: Row[Any], until: int) -> list[QueuedScore]:
    """Return the scores from times in which failed ones and others had a chance of being queued.

    Each has the probability with which it was chosen, whatever the rates are now. But what was chosen before
    the last change of the rule may be from a time at which one of the rates was 0, and nothing says so of
    scores that were not queued. So of those before it, the ones between the first and the last of either
    kind count; not these themselves, on which the borders depend.
    """
    sampling = _read_sampling(rule)
    has_both = sampling is not None and sampling.failed_rate > 0 and sampling.other_rate > 0
    if not has_both and until > rule.updated_at:
        return []
    since = [row for row in rows if row.created_at >= rule.updated_at] if has_both else []
    before = [row for row in rows if row.created_at < rule.updated_at]
    times = [[row.created_at for row in kind] for kind in _split(before)]
    if not all(times):
        return since
    start, end = max(map(min, times)), min(map(max, times))
    return since + [row for row in before if start < row.created_at < end]


def _count_limited_days(connection: Connection, rule: Row[Any], times: tuple[int, int]) -> int:
    """Count the days with as many scores in the queue as the rule may queue now.

    The limit is one of all tenants together, so all scores count, whoever sees them, and all of a day.
    """
    sampling = _read_sampling(rule)
    if sampling is None:
        return 0
    is_observed = and_(_REVIEW.observed_at >= times[0], _REVIEW.observed_at < times[1])
    is_scored = and_(_REVIEW.day >= times[0] // DAY, _REVIEW.day <= (times[1] - 1) // DAY)
    of_rule = _REVIEW.rule_id == rule.id
    days = select(_REVIEW.day).where(of_rule, or_(is_observed, is_scored))
    full = (
        select(_REVIEW.day)
        .where(of_rule, _REVIEW.day.in_(days))
        .group_by(_REVIEW.day)
        .having(func.count() >= sampling.max_per_day)
    )
    return len(connection.execute(full).all())


def _weight(queued: Sequence[QueuedScore], decided: dict[str, Row[Any]]) -> list[_Reviewed]:
    """Return what was reviewed; it also stands for what of its kind waits, which people may come to later."""
    reviewed = [row for row in queued if row.item_id in decided]
    in_all = sum(1 / row.probability for row in queued)
    share = sum(1 / row.probability for row in reviewed) / in_all if in_all else 0.0
    return [
        _Reviewed(
            _trace_of(row.target),
            decided[row.item_id].verdict == Verdict.CORRECT,
            min(1.0, row.probability * share),
        )
        for row in reviewed
    ]


def _trace_of(target: str) -> str:
    """Return what scores depend on each other by: the trace, or for a session the session."""
    return target if target.startswith("session/") else target.partition("/")[0]


def _estimate(reviewed: Iterable[_Reviewed]) -> RuleEstimate | None:
    return estimate_mean(
        ((each.trace, float(each.is_correct), each.probability) for each in reviewed), within=(0.0, 1.0)
    )


def _find_rule(connection: Connection, rule_id: str, *, for_update: bool = False) -> Row[Any] | None:
    query = (
        select(TRACE_EVAL_RULES)
        .join(PROJECTS, PROJECTS.c.id == _RULE.project_id)
        .where(_RULE.id == rule_id, _RULE.enabled.is_(true()), PROJECTS.c.deleted_at.is_(None))
    )
    return connection.execute(query.with_for_update(of=TRACE_EVAL_RULES) if for_update else query).first()


def _read_sampling(rule: Row[Any]) -> ReviewSampling | None:
    return None if rule.review is None else parse_review_sampling(json.loads(rule.review))


def _find_known(connection: Connection, rule_id: str, targets: Sequence[str]) -> set[str]:
    query = select(_REVIEW.target).where(_REVIEW.rule_id == rule_id, _REVIEW.target.in_(targets))
    return set(connection.execute(query).scalars())


def _count(connection: Connection, rule_id: str, day: int) -> int:
    is_of_day = (_REVIEW.rule_id == rule_id, _REVIEW.day == day)
    query = select(func.count()).select_from(TRACE_EVAL_REVIEWS).where(*is_of_day)
    return int(connection.execute(query).scalar_one())


def _day_of(job: Row[Any]) -> int:
    # Of its score and not of now: who does it again the next day counts as was counted then.
    return int(job.completed_at // DAY)


def _probability(rule_id: str, sampling: ReviewSampling, job: Row[Any], queued: int) -> float:
    """Return with which probability a score was chosen, 0 where it was not."""
    probability = sampling.probability_of(has_failed=job.success is False, queued=queued)
    return probability if is_chosen(rule_id, job.target, probability) else 0.0
