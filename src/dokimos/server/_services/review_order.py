"""The items of a queue from which a verdict teaches most, with some that chance chose among them.

What only the informative items say about a run would be wrong: they are the hard ones. So a share is drawn
from all that wait, and marked with the probability of the draw, for estimates that count these alone, or
count the others as known and these as a sample of the rest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, select

from dokimos.server._db.batches import in_batches
from dokimos.server._db.tables import EVALUATIONS, RUN_EVALUATORS
from dokimos.server._services.review_queue import Queue, Waiting

POOL: Final = 500
"""Items that are ranked: those that wait in the runs that began last."""
_POOL_RUNS: Final = 100
_NEAR: Final = 0.2
"""The share of a score's range within which a score is close to its threshold."""
_DISAGREEMENT, _CLOSENESS, _UNJUDGED = 0.5, 0.3, 0.2
"""What each of the three parts of the informativeness weighs."""


def choose_informative(
    queue: Queue, limit: int, *, random_share: float, random: Random, offset: int = 0
) -> list[Waiting]:
    """Return items of a queue, the most informative first, with random ones spread evenly among them.

    Args:
        queue: What is asked for. Where the contents of items decide that, chance chooses none of them.
        limit: How many items at most.
        random_share: The share of them that chance chooses, from 0 to 1.
        random: Where chance comes from.
        offset: How many informative ones to skip.
    """
    needed = 0 if queue.chosen.is_narrowed else round(random_share * limit)
    drawn = draw_items(queue, needed, random)
    known = {each.item_id for each in drawn}
    pool = _read_pool(queue) if len(drawn) < limit else []
    ranks = _rank(queue.connection, pool)
    ranked = sorted(pool, key=lambda each: (-ranks[each.item_id], each))[offset:]
    informative = [each for each in ranked if each.item_id not in known][: limit - len(drawn)]
    return _mix(informative, drawn)


def draw_items(queue: Queue, count: int, random: Random) -> list[Waiting]:
    """Draw items of a queue, each with the same probability, which they tell."""
    counts = queue.count_by_run() if count else {}
    total = sum(counts.values())
    if not total:
        return []
    chosen = random.choices(list(counts), list(counts.values()), k=count)
    runs = {run.id: run for run in queue.read_runs(ids=sorted(set(chosen)))}
    drawn: dict[str, Waiting] = {}
    for run in (runs[run_id] for run_id in chosen if run_id in runs):
        place = random.randrange(run.pending_count)
        for each in queue.read_run(run, 1, offset=place):
            drawn[each.item_id] = replace(each, sampled=True, probability=min(1.0, count / total))
    return list(drawn.values())


def _read_pool(queue: Queue) -> list[Waiting]:
    pool: list[Waiting] = []
    for run in queue.read_latest_runs(_POOL_RUNS):
        pool += queue.read_run(run, POOL - len(pool))
        if len(pool) >= POOL:
            break
    return pool


def _rank(connection: Connection, pool: Sequence[Waiting]) -> dict[str, float]:
    run_ids = sorted({each.run.id for each in pool})
    ranges = {
        (row.run_id, row.name): row
        for batch in in_batches(run_ids)
        for row in connection.execute(select(RUN_EVALUATORS).where(RUN_EVALUATORS.c.run_id.in_(batch)))
    }
    ranks = {}
    for batch in in_batches(pool):
        scores = _read_scores(connection, [each.item_id for each in batch])
        for each in batch:
            widths = {
                row.evaluator: _width(ranges.get((each.run.id, row.evaluator)))
                for row in scores.get(each.item_id, ())
            }
            ranks[each.item_id] = informativeness(scores.get(each.item_id, ()), widths)
    return ranks


def _read_scores(connection: Connection, item_ids: Sequence[str]) -> dict[str, list[Row[Any]]]:
    """The scores of items, without their long texts."""
    columns = EVALUATIONS.c
    query: Select[Any] = select(
        columns.item_id, columns.evaluator, columns.score, columns.threshold, columns.success,
        columns.judged, columns.error_detail.is_not(None).label("is_error"),
    ).where(columns.item_id.in_(item_ids))  # fmt: skip
    scores: dict[str, list[Row[Any]]] = defaultdict(list)
    for row in connection.execute(query):
        scores[row.item_id].append(row)
    return scores


def informativeness(scores: Sequence[Row[Any]], widths: dict[str, float]) -> float:
    """Return how much a verdict on an item would teach, from 0 to 1.

    Half of it is how far the evaluators disagree (`4 * p * (1 - p)` for the share p that is content), three
    tenths how close the closest score is to its threshold (1 at it, 0 from a fifth of the range away), and
    two tenths the share of the scores without a verdict; an item without scores counts as one with none.

    Args:
        scores: Of the item.
        widths: The width of the range of each evaluator.
    """
    if not scores:
        return _UNJUDGED
    judged = [score for score in scores if score.judged is not False and not score.is_error]
    content = sum(bool(score.success) for score in judged) / len(judged) if judged else 0.0
    closeness = max(
        (
            1 - abs(score.score - score.threshold) / (_NEAR * widths[score.evaluator])
            for score in judged
            if score.threshold is not None
        ),
        default=0.0,
    )
    return (
        _DISAGREEMENT * 4 * content * (1 - content)
        + _CLOSENESS * max(0.0, closeness)
        + _UNJUDGED * (1 - len(judged) / len(scores))
    )


def _width(evaluator: Row[Any] | None) -> float:
    """The width of an evaluator's range; one that nobody named counts as 1."""
    if evaluator is None or evaluator.range_low is None or evaluator.range_high is None:
        return 1.0
    return float(evaluator.range_high - evaluator.range_low) or 1.0


def _mix(informative: Sequence[Waiting], drawn: Sequence[Waiting]) -> list[Waiting]:
    """Spread the drawn items evenly, so that whoever stops early has seen some of them."""
    mixed = list(informative)
    step = (len(informative) + len(drawn)) / len(drawn) if drawn else 0
    for number, each in enumerate(drawn):
        mixed.insert(round((number + 0.5) * step), each)
    return mixed
