"""What a rule has scored, put into the review queue as the rule says."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Row

from dokimos.server._db.database import Database, Lane
from dokimos.server._services.accounts.principal import worker
from dokimos.server._services.errors import ServiceError
from dokimos.server._services.online.rule_reviews import (
    choose_jobs,
    has_review,
    queue_job,
    read_scored_jobs,
)
from dokimos.server._services.traces.trace_reviews import ReviewedTrace, take_snapshot

_LOGGER: Final = logging.getLogger("dokimos.server")
_REVIEWER: Final = worker("Queueing traces for review")
Insist = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Does something with a database as soon as that is there."""


async def queue_scores(database: Database, traces: Database, batch: Row[Any], insist: Insist) -> None:
    """Put the scores of a batch that people are to look at into the review queue; those that are there stay.

    It is done before a batch ends, so that another server does it where this one is killed.
    """
    if not await insist(lambda: database.read(partial(has_review, rule_id=batch.rule_id), Lane.WORK)):
        return
    jobs = await insist(lambda: traces.read(partial(read_scored_jobs, batch=batch.id), Lane.WORK))
    choose = partial(choose_jobs, rule_id=batch.rule_id, jobs=jobs, leased_at=batch.leased_at)
    for job in await insist(lambda: database.read(choose, Lane.WORK)):
        is_span = job.target == f"{job.trace}/{job.span_id}"
        chosen = ReviewedTrace(trace=UUID(job.trace), span_id=job.span_id if is_span else None)
        take = partial(take_snapshot, traces, _REVIEWER, chosen, f"job {job.id}")
        try:
            snapshot = await insist(take)
            queue = partial(queue_job, principal=_REVIEWER, rule_id=batch.rule_id, job=job, snapshot=snapshot)
            await insist(partial(database.write, queue))
        except ServiceError as problem:  # such as a trace that was removed meanwhile, or has no input
            _LOGGER.info("A trace of rule %s is not put into the review queue: %s", batch.rule_id, problem)
