"""Goldens and test runs of DeepEval.

Source: `EvaluationDataset.save_as`, and the models of its test runs, of DeepEval 3; goldens and test cases of
single questions have had these names since version 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from dokimos._core.conversation import ConversationTrajectory
from dokimos._core.example import Example
from dokimos._core.keys import CONTEXTS, INPUT, OUTPUT, TOOL_CALLS
from dokimos.importers._exports.record_reader import read_records
from dokimos.importers._exports.row import Row, merge_metadata
from dokimos.importers._promptfoo.conversion_notes import Notes

_LISTS: Final = (
    "goldens", "conversationalGoldens", "conversational_goldens",
    "testCases", "test_cases", "conversationalTestCases", "conversational_test_cases",
)  # fmt: skip
_OF_THE_RUN: Final = (
    "success", "runDuration", "evaluationCost", "order", "trace", "metricCollection", "multimodal",
    "imagesMapping", "completionTime", "tokenCost",
)  # fmt: skip
"""What DeepEval records about its own evaluation of a test case, and what has no unit."""


def read_examples(path: Path, notes: Notes) -> Iterator[Example]:
    """Yield the goldens or the test cases of a file. Raises `DatasetError`."""
    for record in read_records(path, lists=_LISTS, wrappers=("testRunData",)):
        row = Row(record)
        is_conversation = (
            "scenario" in row.fields or "turns" in row.fields or "onversational" in record.member
        )
        yield _read_conversation(row, notes) if is_conversation else _read_golden(row, notes)


def _read_golden(row: Row, notes: Notes) -> Example:
    question = row.take_text("input")
    if question is None:
        row.fail("There is no 'input'. Goldens have one, and conversational goldens a 'scenario'.")
    answer = row.take_text("actual_output", "actualOutput")
    expected = _present({
        OUTPUT: row.take_text("expected_output", "expectedOutput"),
        TOOL_CALLS: _take_calls(row, notes, "expected_tools", "expectedTools"),
    })  # fmt: skip
    recorded = _present({
        OUTPUT: answer,
        CONTEXTS: row.take_texts("retrieval_context", "retrievalContext", delimiter="|"),
        TOOL_CALLS: _take_calls(row, notes, "tools_called", "toolsCalled", "toolsUsed"),
    })  # fmt: skip
    metadata = _take_metadata(row, notes)
    if answer is None:
        # Without an answer nothing was recorded; evaluators find contexts in the metadata too.
        metadata |= recorded
    return Example(
        {INPUT: question}, expected, metadata=metadata, actual_outputs=None if answer is None else recorded
    )


def _read_conversation(row: Row, notes: Notes) -> Example:
    turns = row.take_list("turns")
    scenario = row.take_text("scenario")
    if scenario is None and not turns:
        row.fail("There is neither a 'scenario' nor 'turns'.")
    inputs = _present({INPUT: scenario, "persona": row.take_text("user_description", "userDescription")})
    outcome = row.take_text("expected_outcome", "expectedOutcome")
    conversation = _read_turns(row, turns, scenario or "", notes) if turns else None
    return Example(
        inputs or {INPUT: conversation.user_messages[0].content if conversation else ""},
        _present({OUTPUT: outcome}),
        metadata=_take_metadata(row, notes),
        actual_outputs=None if conversation is None else conversation.to_outputs(),
    )


def _read_turns(row: Row, turns: list[Any], scenario: str, notes: Notes) -> ConversationTrajectory:
    messages = []
    for number, values in enumerate(turns, 1):
        turn = row.nest(values, "turns")
        role, content = turn.take_text("role"), turn.take_text("content")
        if role not in ("user", "assistant") or content is None:
            row.fail(f"Turn {number} of 'turns' must have a content and the role user or assistant.")
        calls = _take_calls(turn, notes, "tools_called", "toolsCalled")
        messages.append({"role": role, "content": content, **({"toolCalls": calls} if calls else {})})
        for name in turn.fields.keys() - {"order"}:
            notes.lose(f"{name!r} of turns")
    conversation = ConversationTrajectory.from_messages(messages, scenario)
    if not conversation.user_messages:
        row.fail("'turns' has no message of the user.")
    return conversation


def _take_calls(row: Row, notes: Notes, *names: str) -> list[dict[str, Any]] | None:
    calls = row.take_list(*names)
    return (
        None if calls is None else [_read_call(row.nest(call, names[0]), names[0], notes) for call in calls]
    )


def _read_call(call: Row, field: str, notes: Notes) -> dict[str, Any]:
    name = call.take_text("name")
    if name is None:
        call.fail(f"A call in {field!r} has no 'name'.")
    arguments = call.take_map("input_parameters", "inputParameters") or {}
    result = call.take("output")
    for other in call.fields:
        notes.lose(f"{other!r} of calls of tools")
    return {"name": name, "arguments": arguments} | ({} if result is None else {"result": result})


def _take_metadata(row: Row, notes: Notes) -> dict[str, Any]:
    scores = _take_scores(row)
    if scores:
        notes.change("scores of metrics are in the metadata, as 'scores'")
    additional = row.take_map("additional_metadata", "additionalMetadata", "metadata")
    custom = row.take_map("custom_column_key_values", "customColumnKeyValues")
    context = row.take_texts("context", delimiter="|")
    for name in [name for name in _OF_THE_RUN if name in row.fields]:
        row.take(name)
        notes.lose(f"{name!r} of test cases")
    metadata = _present({"context": context, "scores": scores}) | row.fields
    metadata = merge_metadata(metadata, additional, "additional_metadata")
    return merge_metadata(metadata, custom, "custom_column_key_values")


def _take_scores(row: Row) -> dict[str, dict[str, Any]] | None:
    results = row.take_list("metricsData", "metrics_data", "metricsMetadata")
    scores: dict[str, dict[str, Any]] = {}
    for values in results or ():
        result = row.nest(values, "metricsData")
        name = result.take_text("name", "metric")
        if name is None:
            row.fail("A result in 'metricsData' has no 'name'.")
        kept = ("score", "threshold", "success", "reason", "error")
        scores[name] = _present({key: result.take(key) for key in kept})
    return scores or None


def _present(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
