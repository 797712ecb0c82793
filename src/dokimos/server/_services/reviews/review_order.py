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

from sqlalchemy import Connection, Select, and_, false, func, select, true

from dokimos.server._db.batches import in_batches
from dokimos.server._db.tables import EVALUATIONS, ITEMS, RUN_EVALUATORS
from dokimos.server._services.reviews.review_filter import OF_SCORE, distance_to_threshold
from dokimos.server._services.reviews.review_queue import Queue, QueuePart, QueuePlace, Waiting

POOL: Final = 300
"""Items that are ranked: those that wait in the runs that began last."""
_POOL_RUNS: Final = 100
_NEAR: Final = 0.2
"""The share of a score's range within which a score is close to its threshold."""
_DISAGREEMENT, _CLOSENESS, _UNJUDGED = 0.5, 0.3, 0.2
"""What each of the three parts of the informativeness weighs."""


def choose_informative(
    queue: Queue, limit: int, *, random_share: float, random: Random, offset: int = 0
) -> QueuePart:
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
    return QueuePart(_mix(informative, drawn), min(offset, len(pool)))


def draw_items(queue: Queue, count: int, random: Random) -> list[Waiting]:
    """Draw items of a queue, each with the same probability, which they tell."""
    places: dict[str, list[QueuePlace]] = defaultdict(list)
    for found in queue.find_places([random.random() for _ in range(count)]):
        places[found.run.id].append(found)
    drawn: dict[str, Waiting] = {}
    for of_run in places.values():
        probability = min(1.0, count / of_run[0].total)
        for each in queue.read_places(of_run[0].run, [found.place for found in of_run]):
            drawn[each.item_id] = replace(each, sampled=True, probability=probability)
    shuffled = list(drawn.values())
    random.shuffle(shuffled)  # so that the first of them are a sample of all, too
    return shuffled


def _read_pool(queue: Queue) -> list[Waiting]:
    pool: list[Waiting] = []
    for run in queue.read_latest_runs(_POOL_RUNS):
        pool += queue.read_run(run, POOL - len(pool))
        if len(pool) >= POOL:
            break
    return pool


def _rank(connection: Connection, pool: Sequence[Waiting]) -> dict[str, float]:
    ranks = dict.fromkeys((each.item_id for each in pool), informativeness(0, 0, 0, None))
    for batch in in_batches(pool):
        for row in connection.execute(_summarize_scores(connection, batch)):
            ranks[row.item_id] = informativeness(
                row.score_count,
                row.judged,
                row.content,
                None if row.distance is None else float(row.distance),
            )
    return ranks


def _summarize_scores(connection: Connection, items: Sequence[Waiting]) -> Select[Any]:
    """The query of what decides about the informativeness of items, a row for each one with scores."""
    # Named, since PostgreSQL reads the evaluators of all runs for so many scores otherwise.
    is_of_runs = RUN_EVALUATORS.c.run_id.in_(sorted({each.run.id for each in items}))
    columns = EVALUATIONS.c
    is_judged = and_(columns.judged.is_not(false()), columns.error_detail.is_(None))
    distance = distance_to_threshold(connection)
    return (
        select(
            columns.item_id,
            func.count().label("score_count"),
            func.count().filter(is_judged).label("judged"),
            func.count().filter(is_judged, columns.success.is_(true())).label("content"),
            func.min(distance).filter(is_judged, columns.threshold.is_not(None)).label("distance"),
        )
        .select_from(EVALUATIONS)
        .join(ITEMS, ITEMS.c.id == columns.item_id)
        .join(RUN_EVALUATORS, and_(OF_SCORE, is_of_runs), isouter=True)
        .where(columns.item_id.in_([each.item_id for each in items]))
        .group_by(columns.item_id)
    )


def informativeness(count: int, judged: int, content: int, distance: float | None) -> float:
    """Return how much a verdict on an item would teach, from 0 to 1.

    Half of it is how far the evaluators disagree (`4 * p * (1 - p)` for the share p that is content), three
    tenths how close the closest score is to its threshold (1 at it, 0 from a fifth of the range away), and
    two tenths the share of the scores without a verdict; an item without scores counts as one with none.

    Args:
        count: The scores of the item.
        judged: Those with a verdict.
        content: Those that pass.
        distance: From the closest score to its threshold, as a share of the range; None for none.
    """
    if not count:
        return _UNJUDGED
    share = content / judged if judged else 0.0
    closeness = 0.0 if distance is None else max(0.0, 1 - distance / _NEAR)
    return _DISAGREEMENT * 4 * share * (1 - share) + _CLOSENESS * closeness + _UNJUDGED * (1 - judged / count)


def _mix(informative: Sequence[Waiting], drawn: Sequence[Waiting]) -> list[Waiting]:
    """Spread the drawn items evenly, so that whoever stops early has seen some of them."""
    mixed = list(informative)
    step = (len(informative) + len(drawn)) / len(drawn) if drawn else 0
    for number, each in enumerate(drawn):
        mixed.insert(round((number + 0.5) * step), each)
    return mixed
