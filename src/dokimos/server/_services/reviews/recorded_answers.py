"""What traces in the review queue answered: where people found it correct, it is what is expected."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, select

from dokimos._core.jsonable import compact_json
from dokimos._core.keys import OUTPUT
from dokimos.server._db.batches import in_batches
from dokimos.server._db.review_tables import TRACE_REVIEWS
from dokimos.server._db.tables import ITEMS
from dokimos.server._services.reviews.reviews import Verdict


def read_correct_answers(connection: Connection, annotations: Mapping[str, Row[Any]]) -> dict[str, str]:
    """Return, as outputs in JSON, the answer of each item that was made of a trace and found to be correct.

    Tool calls and whatever else was recorded beside the answer are left out.

    Args:
        connection: Where they are read.
        annotations: What people say, by the ids of items.
    """
    item_ids = [item_id for item_id, said in annotations.items() if said.verdict == Verdict.CORRECT]
    query = select(ITEMS.c.id, ITEMS.c.actual_output).join(
        TRACE_REVIEWS, TRACE_REVIEWS.c.item_id == ITEMS.c.id
    )
    answers: dict[str, str] = {}
    for batch in in_batches(item_ids):
        for item_id, text in connection.execute(query.where(ITEMS.c.id.in_(batch))):
            outputs = None if text is None else json.loads(text)
            if isinstance(outputs, dict) and outputs.get(OUTPUT) is not None:
                answers[item_id] = compact_json({OUTPUT: outputs[OUTPUT]})
    return answers
