"""What datasets look like on the wire; items are assembled from the JSON texts of the tables."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable
from typing import Any
from urllib.parse import quote

from pydantic_core import to_json
from sqlalchemy import Row

from dokimos.server._api.http.json_text import dump_json
from dokimos.server._db.clock import format_time
from dokimos.server._services.datasets.dataset_diff import CaseDifference
from dokimos.server._services.datasets.datasets import DatasetSummary


def dataset_path(name: str) -> str:
    """Return the path of a dataset, for a Location header."""
    return f"/api/v1/datasets/{quote(name, safe='')}"


def summarize_dataset(dataset: DatasetSummary) -> dict[str, Any]:
    """Return a dataset as the list shows it."""
    return {
        "id": dataset.id,
        "name": dataset.name,
        "description": dataset.description,
        "latestVersion": dataset.latest_version,
        "latestItemCount": dataset.latest_item_count,
        "createdAt": format_time(dataset.created_at),
        "updatedAt": format_time(dataset.updated_at),
    }


def describe_version(name: str, row: Row[Any]) -> dict[str, Any]:
    """Return a version of the dataset of that name."""
    return {
        "id": row.id,
        "datasetName": name,
        "version": row.version,
        "description": row.description,
        "itemCount": row.item_count,
        "createdAt": format_time(row.created_at),
        "createdBy": row.created_by,
        "contentHash": row.content_hash,
        "baseVersion": row.base_version,
    }


def items_json(rows: Iterable[Row[Any]], hidden_runs: Container[str]) -> str:
    """Return items of a version as a JSON list, without the runs that the caller does not see."""
    return f"[{','.join(_item_json(row, hidden_runs) for row in rows)}]"


def differences_json(differences: Iterable[CaseDifference], hidden_runs: Container[str]) -> str:
    """Return cases that differ as a JSON list, without the runs that the caller does not see."""
    return f"[{','.join(_difference_json(each, hidden_runs) for each in differences)}]"


def annotation_json(row: Row[Any]) -> str:
    """Return an annotation."""
    return (
        f'{{"id":"{row.id}","verdict":"{row.verdict}",'
        f'"overriddenExpectedOutput":{row.overridden_expected_output or "null"},"note":{row.note or "null"},'
        f'"createdBy":{json.dumps(row.created_by)},"createdAt":"{format_time(row.created_at)}",'
        f'"updatedAt":"{format_time(row.updated_at)}"}}'
    )


def example_json(row: Row[Any]) -> str:
    """Return an item as files of datasets hold it; its id is the same in all versions."""
    parts = [f'"id":{_text(row.external_id or row.lineage_id)}', f'"inputs":{row.inputs}']
    if row.expected_outputs is not None:
        parts.append(f'"expectedOutputs":{row.expected_outputs}')
    if row.metadata is not None:
        parts.append(f'"metadata":{row.metadata}')
    return f"{{{','.join(parts)}}}"


def optional_json(value: object, path: str) -> str | None:
    """Return a parsed value as JSON text, None for None."""
    return None if value is None else dump_json(value, path)


def _item_json(row: Row[Any], hidden_runs: Container[str]) -> str:
    source = "null"
    if row.source_item_id is not None and row.source_run_id not in hidden_runs:
        source = f'{{"itemResultId":"{row.source_item_id}","runId":{_text(row.source_run_id)}}}'
    return (
        f'{{"id":"{row.id}","ordinal":{row.ordinal},"inputs":{row.inputs},'
        f'"expectedOutputs":{row.expected_outputs or "null"},"metadata":{row.metadata or "null"},'
        f'"lineageId":"{row.lineage_id}","externalId":{_text(row.external_id)},'
        f'"contentHash":"{row.content_hash.replace("-", "")}","source":{source}}}'
    )


def _difference_json(difference: CaseDifference, hidden_runs: Container[str]) -> str:
    before, after = difference.before, difference.after
    changed: list[str] = []
    if before is not None and after is not None:
        names = {"inputs": "inputs", "expected_outputs": "expectedOutputs", "metadata": "metadata"}
        changed = [wire for name, wire in names.items() if getattr(before, name) != getattr(after, name)]
    return (
        f'{{"status":"{difference.status}","lineageId":"{difference.lineage_id}",'
        f'"changedFields":{to_json(changed).decode()},'
        f'"from":{"null" if before is None else _item_json(before, hidden_runs)},'
        f'"to":{"null" if after is None else _item_json(after, hidden_runs)}}}'
    )


def _text(value: str | None) -> str:
    return "null" if value is None else json.dumps(value)
