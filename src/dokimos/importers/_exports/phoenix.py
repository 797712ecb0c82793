"""Data sets and spans that Phoenix exports.

Source: its downloads of data sets (CSV, JSON of the API, JSONL for OpenAI), `get_spans_dataframe` written to
Parquet, JSONL or CSV, and the spans of its API.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from dokimos._core.example import Example
from dokimos._core.keys import INPUT, OUTPUT
from dokimos.importers._exports.options import ImportOptions
from dokimos.importers._exports.record_reader import read_records
from dokimos.importers._exports.row import Row
from dokimos.importers._exports.spans import read_traces, take_time
from dokimos.importers._promptfoo.conversion_notes import Notes
from dokimos.traces import Span
from dokimos.traces._span import SpanEvent, SpanStatus

_SECTIONS: Final = ("input", "output", "metadata")
_ATTRIBUTES: Final = "attributes."
_COUNTS: Final = "llm.token_count."
_KIND: Final = "openinference.span.kind"
_STATUS: Final[dict[str, SpanStatus]] = {"OK": "ok", "ERROR": "error", "UNSET": "unset"}


def read_examples(path: Path, notes: Notes, options: ImportOptions) -> Iterator[Example]:
    """Yield the examples or the traces of a file. Raises `DatasetError`."""
    spans: list[Span] = []
    for record in read_records(path, lists=("examples", "data"), wrappers=("data",)):
        row = Row(record)
        if "context.trace_id" in row.fields or "context" in row.fields:
            spans.append(_read_span(row, notes))
        elif "messages" in row.fields:
            yield _read_messages(row, notes)
        elif any(
            name == each or name.startswith(f"{each}_") for name in row.fields for each in ("input", "output")
        ):
            yield _read_example(row, notes, options)
        else:
            names = ", ".join(sorted(row.fields)[:8])
            row.fail(f"This is neither an example of a data set nor a span: it has {names}.")
    yield from read_traces(spans, notes)


def _read_example(row: Row, notes: Notes, options: ImportOptions) -> Example:
    id = row.take_text("example_id", "id")
    sections = {name: _take_section(row, name) for name in _SECTIONS}
    inputs = options.name_inputs(row, sections["input"])
    expected = options.name_expected(row, sections["output"], notes)
    if not inputs:
        row.fail("The example has no input.")
    for name in [each for each in row.fields if each != "updated_at"]:
        notes.lose(f"the field {name!r}")
    return Example(inputs, expected, metadata=sections["metadata"], id=id)


def _take_section(row: Row, name: str) -> dict[str, Any]:
    """Take an object, in a CSV file from its columns `input_question`, `input_language`, and so on."""
    values = dict(row.take_map(name) or {}) if name in row.fields else {}
    prefix = f"{name}_"
    for column in [each for each in row.fields if each.startswith(prefix)]:
        values[column.removeprefix(prefix)] = row.take_container(column, or_text=True)
    return values


def _read_messages(row: Row, notes: Notes) -> Example:
    messages = row.take_list("messages") or []
    ideal = row.take_text("ideal")
    if (
        ideal is None
        and messages
        and isinstance(messages[-1], dict)
        and messages[-1].get("role") == "assistant"
    ):
        notes.change("the last message, of the assistant, is the expected output")
        *messages, last = messages
        ideal = last.get("content")
    if not messages:
        row.fail("'messages' has no message before the answer.")
    for name in row.fields:
        notes.lose(f"the field {name!r}")
    return Example({INPUT: messages}, {} if ideal is None else {OUTPUT: ideal})


def _read_span(row: Row, notes: Notes) -> Span:
    context = row.take_map("context") or {}
    trace_id = row.take_text("context.trace_id") or context.get("trace_id")
    span_id = row.take_text("context.span_id") or context.get("span_id")
    if not isinstance(trace_id, str) or not isinstance(span_id, str):
        row.fail(
            "A span must have 'context.trace_id' and 'context.span_id'; export the index of the frame too."
        )
    attributes = dict(row.take_map("attributes") or {})
    for column in [each for each in row.fields if each.startswith(_ATTRIBUTES)]:
        attributes[column.removeprefix(_ATTRIBUTES)] = _take_attribute(row, column)
    kind = row.take_text("span_kind")
    if kind is not None:
        attributes.setdefault(_KIND, kind)
    status = str(row.take("status_code") or "UNSET").upper()
    if status not in _STATUS:
        row.fail(f"'status_code' must be OK, ERROR or UNSET, not {status!r}.")
    span = Span(
        trace_id, span_id, name=row.take_text("name") or "span", parent_id=row.take_text("parent_id"),
        start_ns=take_time(row, "start_time"), end_ns=take_time(row, "end_time"), status=_STATUS[status],
        status_message=row.take_text("status_message") or "", attributes=attributes,
        events=tuple(_read_event(row.nest(event, "events")) for event in row.take_list("events") or ()),
    )  # fmt: skip
    for name in [each for each in row.fields if each != "id"]:
        notes.lose(f"the field {name!r} of spans")
    return span


def _read_event(event: Row) -> SpanEvent:
    return SpanEvent(
        event.take_text("name") or "",
        event.take_map("attributes") or {},
        time_ns=take_time(event, "timestamp"),
    )


def _take_attribute(row: Row, column: str) -> Any:
    """Take an attribute; a table has lists of messages and numbers of tokens as texts."""
    if not row.record.has_texts_only:
        return row.take(column)
    if _COUNTS in column:
        text = row.take_text(column) or ""
        try:
            return int(float(text))  # pandas writes 10.0 where another row has none
        except (ValueError, OverflowError):
            row.fail(f"{column!r} must be a number, not {text!r:.60}.")
    is_list = row.fields[column].startswith("[{")
    return row.take_container(column, or_text=True) if is_list else row.take(column)
