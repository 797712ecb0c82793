"""Data sets, traces and observations that Langfuse exports, and scores that belong to traces.

Source: its exports of tables (CSV, JSON, JSONL), "Download JSON" of a trace and of a session, and its
public API.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from dokimos._core.example import Example
from dokimos._core.keys import INPUT, OUTPUT
from dokimos._core.metrics import CallMetrics
from dokimos.importers._exports.options import ImportOptions
from dokimos.importers._exports.record_reader import read_records
from dokimos.importers._exports.row import Row, as_map, merge_metadata
from dokimos.importers._exports.spans import read_traces, take_time, text_of
from dokimos.importers._promptfoo.conversion_notes import Notes
from dokimos.traces import Span, to_examples

_LISTS: Final = ("data", "traces")
_OF_THE_TABLE: Final = (
    "bookmarked", "public", "htmlPath", "htmlSourcePath", "projectId", "datasetId", "createdAt", "updatedAt",
    "externalId", "observationCount", "observations",
)  # fmt: skip
_LOST_OF_SPANS: Final = (
    "metadata",
    "modelParameters",
    "promptName",
    "completionStartTime",
    "toolDefinitions",
)
_OF_SPANS: Final = {
    "langfuse.observation.type": ("type",),
    "langfuse.observation.input": ("input",),
    "langfuse.observation.output": ("output",),
    "langfuse.observation.level": ("level",),
    "langfuse.observation.status_message": ("statusMessage",),
    "langfuse.observation.model.name": ("model", "providedModelName"),
    "langfuse.observation.usage_details": ("usageDetails", "usage"),
    "langfuse.observation.cost_details": ("costDetails",),
}


def read_examples(path: Path, notes: Notes, options: ImportOptions) -> Iterator[Example]:
    """Yield the items or the traces of a file. Raises `DatasetError`."""
    spans: list[Span] = []
    for record in read_records(path, lists=_LISTS):
        row = Row(record)
        if "expectedOutput" in row.fields or "datasetName" in row.fields or "datasetId" in row.fields:
            yield from _read_item(row, notes, options)
        elif isinstance(row.fields.get("trace"), dict) or _has_observations(row):
            yield _with_scores(_read_whole_trace(row, notes, options), options)
        elif "traceId" in row.fields and "startTime" in row.fields:
            spans.append(_read_observation(row, None, notes))
        elif "traceId" in row.fields and ("value" in row.fields or "stringValue" in row.fields):
            row.fail(
                "This is a score, which has no input. Give the file of its traces, and this with --scores."
            )
        elif "timestamp" in row.fields and ("input" in row.fields or "output" in row.fields):
            yield _with_scores(_read_trace(row, notes, options), options)
        else:
            names = ", ".join(sorted(row.fields)[:8])
            row.fail(f"This is neither an item of a data set nor a trace nor an observation: it has {names}.")
    for example in read_traces(spans, notes):
        yield _with_scores(example, options)


def read_scores(path: Path, notes: Notes) -> dict[str, dict[str, Any]]:
    """Return the scores of a file by the id of their trace, and in it by name."""
    scores: dict[str, dict[str, Any]] = {}
    for record in read_records(path, lists=("data", "scores")):
        row = Row(record)
        trace, name = row.take_text("traceId"), row.take_text("name")
        if trace is None:
            notes.lose("a score that does not belong to a trace")
            continue
        if name is None:
            row.fail("A score has no 'name'.")
        _add_score(scores.setdefault(trace, {}), name, row, notes)
    return scores


def _add_score(scores: dict[str, Any], name: str, row: Row, notes: Notes) -> None:
    """Add a score of a trace to those of the trace; the first of a name stays."""
    fields = row.fields
    if fields.get("observationId"):
        notes.lose("a score of an observation")
        return
    kind, value = str(fields.get("dataType") or "").upper(), fields.get("value")
    if kind == "CATEGORICAL" or value in (None, ""):
        value = fields.get("stringValue", value)
    if value is None or value == "":
        row.fail(f"The score {name!r} has no value.")
    value = _number(value)
    if kind == "BOOLEAN" and value in (0, 1):
        value = bool(value)
    comment = fields.get("comment")
    entry = {"value": value} | ({"comment": comment} if comment else {})
    if scores.setdefault(name, entry) != entry:
        notes.lose(f"a second score {name!r} of one trace")


def _read_item(row: Row, notes: Notes, options: ImportOptions) -> Iterator[Example]:
    if str(row.take("status") or "ACTIVE").upper() == "ARCHIVED":
        notes.lose("an archived item")
        return
    inputs = options.name_inputs(row, as_map(row.take_container("input", or_text=True), INPUT))
    if not inputs:
        row.fail("The item has no 'input'.")
    expected = as_map(row.take_container("expectedOutput", or_text=True), OUTPUT)
    expected = options.name_expected(row, expected, notes)
    yield Example(inputs, expected, metadata=_take_metadata(row, notes), id=row.take_text("id"))


def _read_trace(row: Row, notes: Notes, options: ImportOptions) -> Example:
    id = row.take_text("id")
    inputs = options.name_inputs(row, as_map(row.take_container("input", or_text=True), INPUT))
    outputs = options.name_outputs(row, as_map(row.take_container("output", or_text=True), OUTPUT))
    metrics, level, error = _take_metrics(row), row.take("level"), None
    if level == "ERROR" and not outputs:
        notes.change("a trace with the level ERROR and without an output is a call that failed")
        error = "The trace has the level ERROR, and no output."
    metadata = _take_metadata(row, notes) | ({} if level is None else {"level": level})
    return Example(
        inputs, metadata=metadata, id=id, actual_outputs=outputs or None, metrics=metrics, actual_error=error
    )


def _read_whole_trace(row: Row, notes: Notes, options: ImportOptions) -> Example:
    """Read a trace with its observations, which tell the calls of tools, the tokens and the cost."""
    observations = row.take_list("observations") or []
    trace = row.nest(row.take("trace"), "trace") if "trace" in row.fields else row
    observations += trace.take_list("observations") or []
    id = str(trace.fields.get("id"))
    spans = [_read_observation(row.nest(each, "observations"), id, notes) for each in observations]
    trace.fields.setdefault("scores", row.take("scores"))
    trace.fields = {name: value for name, value in trace.fields.items() if value is not None}
    own = _read_trace(trace, notes, options)
    ran = to_examples(spans)
    if not ran:
        return own
    # What the trace itself says counts: an observation at its root may have another input.
    outputs = {**(ran[0].actual_outputs or {}), **(own.actual_outputs or {})}
    return replace(
        own, inputs=own.inputs or ran[0].inputs, actual_outputs=outputs or None,
        metadata={**ran[0].metadata, **own.metadata}, metrics=ran[0].metrics or own.metrics,
        actual_error=own.actual_error or ran[0].actual_error,
    )  # fmt: skip


def _has_observations(row: Row) -> bool:
    observations = row.fields.get("observations")
    return isinstance(observations, list) and all(isinstance(each, dict) for each in observations)


def _read_observation(row: Row, trace: str | None, notes: Notes) -> Span:
    id, name = row.take_text("id"), row.take_text("name")
    trace_id = row.take_text("traceId") or trace
    start = take_time(row, "startTime")
    if id is None or trace_id is None or start is None:
        row.fail("An observation must have an 'id', a 'traceId' and a 'startTime'.")
    for name in [each for each in _LOST_OF_SPANS if row.fields.get(each)]:
        notes.lose(f"the field {name!r} of observations")
    values = {key: row.take_container(*names, or_text=True) for key, names in _OF_SPANS.items()}
    return Span(
        trace_id, id, name=name or "observation", start_ns=start, end_ns=take_time(row, "endTime"),
        parent_id=row.take_text("parentObservationId"),
        attributes={key: text_of(value) for key, value in values.items() if value is not None},
    )  # fmt: skip


def _take_metrics(row: Row) -> CallMetrics | None:
    usage = row.take_map("usage") or {}
    cost = row.take("totalCost")
    tokens_in = usage.get("promptTokens", usage.get("input"))
    tokens_out = usage.get("completionTokens", usage.get("output"))
    if cost is None and tokens_in is None and tokens_out is None:
        return None
    try:
        return CallMetrics(
            None if tokens_in is None else int(tokens_in), None if tokens_out is None else int(tokens_out),
            cost_usd=None if cost is None else float(cost),
        )  # fmt: skip
    except (TypeError, ValueError) as error:
        row.fail(f"'usage' and 'totalCost' must have numbers: {error}")


def _take_metadata(row: Row, notes: Notes) -> dict[str, Any]:
    own = row.take_container("metadata", or_text=True)
    names = ("datasetName", "sourceTraceId", "sourceObservationId", "name", "userId", "sessionId", "release",
             "version", "environment", "timestamp", "latency")  # fmt: skip
    metadata = {name: row.take(name) for name in names if name in row.fields}
    tags = row.take_container("tags", or_text=True)
    scores = _scores_of(row.take_container("scores"), row, notes)
    scores |= _take_score_columns(row, notes)
    metadata |= ({"tags": tags} if tags else {}) | ({"scores": scores} if scores else {})
    return merge_metadata(metadata, as_map(own, "metadata"), "metadata")


def _take_score_columns(row: Row, notes: Notes) -> dict[str, Any]:
    """Take the columns that exports of traces add for scores, which are the only unnamed ones with lists."""
    scores = {}
    for name in [each for each in row.fields if each != "id"]:
        value = row.take_container(name, or_text=True)
        if name in _OF_THE_TABLE:
            continue
        if isinstance(value, list) and value and not isinstance(value[0], list | dict):
            notes.change(f"the column {name!r}, which has lists, is a score in the metadata, under 'scores'")
            scores[name] = {"value": _only(value)}
        elif value != []:
            notes.lose(f"the field {name!r}")
    return scores


def _only(values: Any) -> Any:
    return values[0] if isinstance(values, list) and len(values) == 1 else values


def _scores_of(scores: Any, row: Row, notes: Notes) -> dict[str, Any]:
    """Return scores by name: a table has lists of values by name, the API objects or their ids."""
    if isinstance(scores, dict):
        return {name: {"value": _only(value)} for name, value in scores.items()}
    if scores is not None and not isinstance(scores, list):
        row.fail(f"'scores' must be a list or an object, not {scores!r:.60}.")
    found: dict[str, Any] = {}
    for score in scores or ():
        if isinstance(score, str):
            notes.lose("scores of which only the ids are there (give them with --scores)")
        else:
            each = row.nest(score, "scores")
            _add_score(found, str(each.fields.get("name")), each, notes)
    return found


def _with_scores(example: Example, options: ImportOptions) -> Example:
    scores = options.scores.get(example.id or "")
    if not scores:
        return example
    known = example.metadata.get("scores", {})
    return replace(example, metadata={**example.metadata, "scores": {**known, **scores}})


def _number(value: object) -> object:
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value
