"""What items look like on the wire: assembled from the JSON texts of the tables, without parsing them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sqlalchemy import Row

from dokimos.server._api.datasets.dataset_answers import annotation_json
from dokimos.server._db.clock import format_time
from dokimos.server._db.ids import shift_id
from dokimos.server._services.runs.item_pages import ItemPage


def items_json(
    page: ItemPage,
    annotations: Mapping[str, Row[Any]] = MappingProxyType({}),
    failures: Mapping[str, Sequence[Row[Any]]] = MappingProxyType({}),
) -> str:
    """Return the items of a page as a JSON list.

    Args:
        page: The items, with their scores.
        annotations: By the ids of items, those that there are.
        failures: Likewise, why judge jobs could not score them.
    """
    items = (
        _item_json(
            item,
            page.evaluations.get(item.id, []),
            annotations.get(item.id),
            failures.get(item.id, ()),
        )
        for item in page.items
    )
    return f"[{','.join(items)}]"


def evaluations_json(item_id: str, evaluations: Sequence[Row[Any]]) -> str:
    """Return the scores of an item as a JSON list."""
    return f"[{','.join(_evaluation_json(item_id, row) for row in evaluations)}]"


def _item_json(
    item: Row[Any],
    evaluations: list[Row[Any]],
    annotation: Row[Any] | None,
    failures: Sequence[Row[Any]],
) -> str:
    errors = ",".join(map(_failure_json, failures))
    return (
        f'{{"id":"{item.id}","input":{item.input},"expectedOutput":{item.expected_output or "null"},'
        f'"actualOutput":{item.actual_output},"metadata":{item.metadata or "null"},'
        f'"evalResults":{evaluations_json(item.id, evaluations)},'
        f'"createdAt":"{format_time(item.created_at)}","datasetItemId":{_text(item.dataset_item_id)},'
        f'"annotation":{"null" if annotation is None else annotation_json(annotation)},'
        f'"tokensIn":{_number(item.tokens_in)},"tokensOut":{_number(item.tokens_out)},'
        f'"costUsd":{_number(item.cost_usd)},"latencyMs":{_number(item.latency_ms)},'
        f'"ordinal":{item.ordinal},"repetition":{item.repetition},"error":{item.error or "null"},'
        f'"judgeErrors":[{errors}]}}'
    )


def _evaluation_json(item_id: str, row: Row[Any]) -> str:
    return (
        f'{{"id":"{shift_id(item_id, row.position)}","evaluatorName":{json.dumps(row.evaluator)},'
        f'"score":{_number(row.score)},"threshold":{_number(row.threshold)},'
        f'"success":{_verdict(row)},"reason":{row.reason or "null"},'
        f'"label":{row.label or "null"},"metadata":{row.metadata or "null"},'
        f'"errorDetail":{row.error_detail or "null"}}}'
    )


def _failure_json(row: Row[Any]) -> str:
    return (
        f'{{"jobId":"{row.job_id}","evaluatorName":{json.dumps(row.evaluator_name)},'
        f'"kind":{json.dumps(row.kind)},"message":{row.message},"createdAt":"{format_time(row.created_at)}"}}'
    )


def _verdict(row: Row[Any]) -> str:
    if row.judged is False:
        return "null"
    return "true" if row.success else "false"


def _text(value: str | None) -> str:
    return "null" if value is None else f'"{value}"'


def _number(value: float | None) -> str:
    return "null" if value is None else repr(value)
