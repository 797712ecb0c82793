"""Evaluation data sets and results of Ragas.

Source: `EvaluationDataset.to_jsonl` and `to_csv`, and `EvaluationResult.to_pandas`, of Ragas 0.2 and 0.3;
the names of columns of 0.1 too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isfinite
from pathlib import Path
from typing import Any, Final

from dokimos._core.conversation import ConversationTrajectory
from dokimos._core.example import Example
from dokimos._core.keys import CONTEXTS, INPUT, OUTPUT, TOOL_CALLS
from dokimos.importers._exports.record_reader import read_records
from dokimos.importers._exports.row import Row
from dokimos.importers._promptfoo.conversion_notes import Notes

_ROLES: Final = {"human": "user", "ai": "assistant", "tool": "tool"}
_METADATA: Final = ("reference_contexts", "rubric", "rubrics", "reference_topics", "synthesizer_name")


def read_examples(path: Path, notes: Notes) -> Iterator[Example]:
    """Yield the samples of a file. Raises `DatasetError`."""
    for record in read_records(path, lists=("samples",)):
        yield _read_sample(Row(record), notes)


def _read_sample(row: Row, notes: Notes) -> Example:
    user_input = row.take_container("user_input", "question", or_text=True)
    if user_input is None:
        row.fail("There is no 'user_input' (or 'question', its name before version 0.2).")
    expected = _take_expected(row)
    if isinstance(user_input, list):
        outputs = _read_messages(row, user_input).to_outputs()
        inputs = {INPUT: outputs["trajectory"].user_messages[0].content}
    elif isinstance(user_input, str):
        outputs, inputs = {}, {INPUT: user_input}
    else:
        row.fail(f"'user_input' must be a text or a list of messages, not {user_input!r:.60}.")
    response = row.take_text("response", "answer")
    contexts = row.take_texts("retrieved_contexts", "contexts")
    if response is not None:
        outputs[OUTPUT] = response
    metadata = _take_metadata(row, notes)
    if contexts is not None:
        # Without a response nothing was recorded; evaluators find contexts in the metadata too.
        (outputs if outputs else metadata)[CONTEXTS] = contexts
    return Example(inputs, expected, metadata=metadata, actual_outputs=outputs or None)


def _take_expected(row: Row) -> dict[str, Any]:
    reference = row.take_text("reference", "ground_truth")
    expected: dict[str, Any] = {} if reference is None else {OUTPUT: reference}
    calls = row.take_list("reference_tool_calls")
    if calls is not None:
        expected[TOOL_CALLS] = [_read_call(row, call, "reference_tool_calls") for call in calls]
    return expected


def _read_messages(row: Row, messages: list[Any]) -> ConversationTrajectory:
    converted = [
        _read_message(row.nest(each, "user_input"), number) for number, each in enumerate(messages, 1)
    ]
    # Messages of tools have no ids: they answer the calls before them in their order.
    waiting: list[str] = []
    for message in converted:
        waiting.extend(call["id"] for call in message.get("tool_calls", ()))
        if message["role"] == "tool":
            if not waiting:
                row.fail("'user_input' has a message of a tool that no call comes before.")
            message["tool_call_id"] = waiting.pop(0)
    conversation = ConversationTrajectory.from_messages(converted)
    if not conversation.user_messages:
        row.fail("'user_input' has no message of the user (type 'human').")
    return conversation


def _read_message(message: Row, number: int) -> dict[str, Any]:
    kind, content = message.take_text("type"), message.take("content")
    if kind not in _ROLES or not isinstance(content, str):
        message.fail(
            f"Message {number} of 'user_input' must have a text as content and the type human, ai or tool."
        )
    calls = message.take_list("tool_calls") or []
    if not calls:
        return {"role": _ROLES[kind], "content": content}
    read = [_read_call(message, call, "tool_calls") for call in calls]
    numbered = [call | {"id": f"{number}.{place}"} for place, call in enumerate(read)]
    return {"role": _ROLES[kind], "content": content, "tool_calls": numbered}


def _read_call(row: Row, values: object, field: str) -> dict[str, Any]:
    call = row.nest(values, field)
    name, arguments = call.take_text("name"), call.take_map("args")
    if name is None or arguments is None:
        row.fail(f"A call in {field!r} must have a 'name' and 'args'.")
    return {"name": name, "arguments": arguments}


def _take_metadata(row: Row, notes: Notes) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        name: row.take_container(name, or_text=True) for name in _METADATA if name in row.fields
    }
    responses = row.take_list("multi_responses")
    if responses is not None:
        notes.lose("'multi_responses': an item has one response")
    read = float if row.record.has_texts_only else _as_number
    scores = {
        name: score for name, value in row.fields.items() if (score := _as_score(value, read)) is not None
    }
    if scores:
        notes.change("columns of numbers are the scores of metrics, in the metadata as 'scores'")
        metadata["scores"] = scores
    return metadata | {name: value for name, value in row.fields.items() if name not in scores}


def _as_score(value: Any, read: Callable[[Any], float]) -> float | None:
    try:
        score = read(value)
    except (TypeError, ValueError):
        return None
    return score if isfinite(score) else None


def _as_number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return value
