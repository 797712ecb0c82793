"""The items of a run as a file, written while they are read: one batch of them is in memory at a time."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from fastapi.responses import StreamingResponse
from sqlalchemy import Connection, Row

from dokimos._core.jsonable import text_form
from dokimos._core.keys import INPUT, OUTPUT
from dokimos.exporters._csv import escape_formula, name_column
from dokimos.exporters._item_runs import render_value
from dokimos.server._api.runs.item_answers import items_json
from dokimos.server._db.database import Database, Lane
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.datasets.dataset_items import in_text_batches
from dokimos.server._services.judging.judge_jobs import errors_of_items
from dokimos.server._services.list_pages import ListPage
from dokimos.server._services.reviews.annotations import visible_annotations
from dokimos.server._services.runs.item_pages import (
    ITEM_ORDERS,
    ItemFilter,
    ItemPage,
    measure_item_page,
    read_item_page,
)
from dokimos.server._services.runs.item_scores import list_evaluators
from dokimos.server._services.runs.runs import find_described_run

ExportFormat = Literal["csv", "jsonl", "json"]
_TYPES: Final = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "json": "application/json",
}
ITEM_EXPORT_CONTENT: Final[dict[str, dict[str, Any]]] = {
    kind.partition(";")[0]: {"schema": {"type": "array"} if name == "json" else {"type": "string"}}
    for name, kind in _TYPES.items()
}
"""What the description of the API says about the files."""
_ITEMS: Final = 500
"""Items that are read at a time, at most: fewer where their texts are long."""
_COLUMNS: Final = (
    "ordinal", "repetition", "item_id", "input", "expected_output", "actual_output", "outcome", "success",
    "error", "latency_ms", "tokens_in", "tokens_out", "cost_usd", "metadata",
)  # fmt: skip
_OUTCOMES: Final = {True: "passed", False: "failed", None: "unjudged"}


@dataclass(frozen=True, slots=True)
class MetadataValue:
    """A value under a key of an item's metadata, as a text, by which items are chosen."""

    key: str
    value: str

    def matches(self, stored: str | None) -> bool:
        """Whether metadata has it: numbers and booleans in the way in which the web interface writes them."""
        metadata = json.loads(stored or "{}")
        value = metadata.get(self.key) if isinstance(metadata, dict) else None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return _is_number(self.value, value)  # JavaScript writes 5e-05 as 0.00005
        return isinstance(value, (bool, str)) and _script_text(value) == self.value


@dataclass(frozen=True, slots=True)
class _Batch:
    page: ItemPage
    annotations: Mapping[str, Row[Any]]
    failures: Mapping[str, Sequence[Row[Any]]]
    last_id: str | None
    """The item behind which there may be more, None at the end."""


_Batches = AsyncIterator[_Batch]


async def export_items(
    database: Database,
    caller: Principal,
    run_id: str,
    chosen: ItemFilter,
    metadata: MetadataValue | None,
    format: ExportFormat,
) -> StreamingResponse:
    """Return the items of a run that the filters choose as a file, in the order of their ordinals.

    Raises:
        NotFoundError: The caller sees no such run.
    """

    def read_evaluators(connection: Connection) -> dict[str, bool]:
        find_described_run(connection, caller, run_id)
        return list_evaluators(connection, run_id) if format == "csv" else {}

    evaluators = await database.read(read_evaluators, Lane.WORK)
    batches = _read_batches(database, caller, run_id, chosen, metadata)
    writers: dict[str, Callable[[], AsyncIterator[bytes]]] = {
        "csv": lambda: _write_csv(batches, evaluators),
        "jsonl": lambda: _write_jsonl(batches),
        "json": lambda: _write_json(batches),
    }
    headers = {"Content-Disposition": f'attachment; filename="run-{run_id}.{format}"'}
    return StreamingResponse(writers[format](), media_type=_TYPES[format], headers=headers)


async def _read_batches(
    database: Database, caller: Principal, run_id: str, chosen: ItemFilter, metadata: MetadataValue | None
) -> _Batches:
    after: str | None = None
    while True:
        # Raises where the run or the item has gone: the connection is cut, so that the client notices.
        batch = await database.read(_reader(caller, run_id, chosen, metadata, after), Lane.WORK)
        if batch.page.items:
            yield batch
        if batch.last_id is None:
            return
        after = batch.last_id


def _reader(
    caller: Principal, run_id: str, chosen: ItemFilter, metadata: MetadataValue | None, after: str | None
) -> Callable[[Connection], _Batch]:
    def read(connection: Connection) -> _Batch:
        run = find_described_run(connection, caller, run_id)
        cursor = ListPage(ITEM_ORDERS.parse(None), _ITEMS, after)
        sizes = measure_item_page(connection, run_id, chosen, cursor, _ITEMS)
        fitting = next(in_text_batches(sizes, int), [])
        page = read_item_page(connection, run_id, chosen, cursor, offset=0, limit=len(fitting))
        is_last = len(fitting) == len(sizes) < _ITEMS
        last_id = None if is_last or not page.items else page.items[-1].id
        items = [item for item in page.items if metadata is None or metadata.matches(item.metadata)]
        ids = [item.id for item in items]
        annotations = visible_annotations(connection, caller, run.project_id, ids)
        failures = errors_of_items(connection, caller, run_id, ids)
        return _Batch(ItemPage(items, page.evaluations), annotations, failures, last_id)

    return read


async def _write_jsonl(batches: _Batches) -> AsyncIterator[bytes]:
    async for batch in batches:
        yield await asyncio.to_thread(_join_items, batch, "\n") + b"\n"


async def _write_json(batches: _Batches) -> AsyncIterator[bytes]:
    opening = b"["
    async for batch in batches:
        yield opening + b"\n" + await asyncio.to_thread(_join_items, batch, ",\n")
        opening = b","
    yield b"\n]\n" if opening == b"," else b"[]\n"


def _join_items(batch: _Batch, separator: str) -> bytes:
    # One at a time: an item's JSON may have commas and breaks, so the list of all cannot be split again.
    lines = (
        items_json(ItemPage([item], batch.page.evaluations), batch.annotations, batch.failures)[1:-1]
        for item in batch.page.items
    )
    return separator.join(lines).encode()


async def _write_csv(batches: _Batches, evaluators: Mapping[str, bool]) -> AsyncIterator[bytes]:
    used = set(_COLUMNS)
    columns = {name_column(name, used): labelled for name, labelled in evaluators.items()}
    scores = [f"{column}_{part}" for column, labelled in columns.items() for part in _parts(labelled)]
    yield _join_records([list(map(escape_formula, [*_COLUMNS, *scores, "verdict", "note"]))])
    async for batch in batches:
        yield await asyncio.to_thread(_records_of, batch, evaluators)


def _parts(labelled: bool) -> Sequence[str]:
    """What a row has of each score: as in the CSV of a result, a label only of evaluators that give some."""
    return ("score", "pass", "label", "reason") if labelled else ("score", "pass", "reason")


def _records_of(batch: _Batch, evaluators: Mapping[str, bool]) -> bytes:
    return _join_records(_cells(item, batch, evaluators) for item in batch.page.items)


def _join_records(records: Iterable[Sequence[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n").writerows(records)
    # Halves of characters, which JSON can escape, have no bytes.
    return text.getvalue().encode(errors="backslashreplace")


def _cells(item: Row[Any], batch: _Batch, evaluators: Mapping[str, bool]) -> list[str]:
    success = item.passed if item.judged else None
    cells: list[object] = [
        item.ordinal,
        item.repetition,
        item.id,
        _render_map(item.input, INPUT),
        _render_map(item.expected_output, OUTPUT),
        _render_map(item.actual_output, OUTPUT),
        "errored" if item.error is not None else _OUTCOMES[success],
        success,
        json.loads(item.error or "null"),
        item.latency_ms,
        item.tokens_in,
        item.tokens_out,
        item.cost_usd,
        item.metadata and text_form(json.loads(item.metadata)),
    ]
    scores = {row.evaluator: row for row in batch.page.evaluations.get(item.id, ())}
    for evaluator, labelled in evaluators.items():
        values = _score_values(scores.get(evaluator))
        cells += [values.get(part) for part in _parts(labelled)]
    annotation = batch.annotations.get(item.id)
    cells += (
        [None, None] if annotation is None else [annotation.verdict, json.loads(annotation.note or "null")]
    )
    return [escape_formula(_cell(cell)) for cell in cells]


def _score_values(row: Row[Any] | None) -> dict[str, object]:
    if row is None:
        return {}
    return {
        "score": row.score,
        "pass": None if row.judged is False else bool(row.success),
        "label": json.loads(row.label or "null"),
        "reason": json.loads(row.reason or "null"),
    }


def _render_map(stored: str | None, key: str) -> str | None:
    values = json.loads(stored or "null")
    return render_value(values, key) if isinstance(values, dict) else stored


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _script_text(value: bool | str) -> str:
    """A word or boolean as JavaScript writes it."""
    return value if isinstance(value, str) else ("true" if value else "false")


def _is_number(text: str, value: float) -> bool:
    """Whether a text is this number, as precisely as JavaScript knows it."""
    try:
        return float(text) == float(value)
    except (ValueError, OverflowError):
        return False
