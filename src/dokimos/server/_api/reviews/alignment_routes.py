"""Routes of what people's verdicts say about the evaluators of a run and about its pass rates."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query

from dokimos.server._api.http.access import Access, Caller, access
from dokimos.server._api.http.parameters import RunId, Store
from dokimos.server._api.reviews.alignment_answers import (
    AlignmentAnswer,
    CorrectedRatesAnswer,
    alignment_answer,
    corrected_rates_answer,
)
from dokimos.server._services.reviews.agreement import measure_alignment, measure_reviewers
from dokimos.server._services.reviews.corrected_rates import LabelChoice, measure_rates
from dokimos.server._services.reviews.label_agreement import measure_labels
from dokimos.server._services.reviews.run_labels import read_labels

ROUTER = APIRouter(prefix="/api/v1/runs/{runId}", tags=["Alignment"])


@ROUTER.get("/alignment", response_model=AlignmentAnswer)
@access(Access.READ)
async def get_alignment(caller: Caller, store: Store, run_id: RunId) -> dict[str, Any]:
    """Return how far each evaluator agrees with people's annotations, and reviewers with one another.

    `labels` has the agreement of reviewers on each label of the project but texts.
    """
    run = await store.read(lambda connection: read_labels(connection, caller, run_id))
    # The figures of ten thousand annotations take a moment, during which other requests go on.
    return await asyncio.to_thread(
        lambda: alignment_answer(run, measure_alignment(run), measure_reviewers(run), measure_labels(run))
    )


@ROUTER.get("/corrected-rates", response_model=CorrectedRatesAnswer)
@access(Access.READ)
async def get_corrected_rates(
    caller: Caller,
    store: Store,
    run_id: RunId,
    half_width: Annotated[float, Query(alias="halfWidth", ge=0.001, le=0.5)] = 0.05,
    labels: LabelChoice = "random",
) -> dict[str, Any]:
    """Return the pass rates that people would give, as few of their annotations and all scores tell.

    `labels=all` says that all annotated items were picked at random.
    """
    run = await store.read(lambda connection: read_labels(connection, caller, run_id))
    rates = await asyncio.to_thread(lambda: measure_rates(run, labels, half_width))
    return corrected_rates_answer(run, rates, labels, half_width)
