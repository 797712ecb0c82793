"""Every core type is read back from its JSON as it was, for all payloads that are JSON values."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dokimos import (
    AgentTrace,
    CallMetrics,
    EvalResult,
    EvalTestCase,
    Example,
    ExperimentResult,
    ItemResult,
    RunResult,
    Score,
    TaskResult,
    ToolCall,
    ToolDefinition,
)
from dokimos._core import keys
from dokimos._core.jsonable import jsonable, pretty_json
from dokimos._core.provenance import EvaluatorInfo, Provenance
from dokimos._core.results import RunStatus
from dokimos._core.wire import from_json, to_json, to_tree

CONVENTIONAL = [value for name, value in vars(keys).items() if name.isupper() and isinstance(value, str)]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
payload_keys = texts | st.sampled_from(
    [*CONVENTIONAL, "expected_outputs", "expectedOutputs", "toolCalls", "id"]
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(payload_keys, inner, max_size=3),
    max_leaves=6,
)
payloads = st.dictionaries(payload_keys, values, max_size=3)
maybe_text = st.none() | texts
counts = st.none() | st.integers(0, 10**12)
amounts = st.none() | st.floats(0, 1e9)
scores = st.none() | st.floats(0, 1)
names = texts.filter(str.strip)

metrics = st.builds(
    CallMetrics,
    counts,
    counts,
    cost_usd=amounts,
    latency_ms=amounts,
    first_chunk_ms=amounts,
    model=maybe_text,
    cached_tokens_in=counts,
    reasoning_tokens_out=counts,
)
examples = st.builds(
    Example,
    payloads,
    payloads,
    metadata=payloads,
    id=maybe_text,
    actual_outputs=st.none() | payloads,
    metrics=st.none() | metrics,
)
cases = st.builds(
    EvalTestCase,
    payloads,
    payloads,
    expected_outputs=payloads,
    metadata=payloads,
    id=maybe_text,
    metrics=st.none() | metrics,
    run_index=st.integers(0, 9),
)
tool_calls = st.builds(ToolCall, names, payloads, result=maybe_text, metadata=payloads)
eval_results = st.builds(
    EvalResult,
    st.sampled_from(["A", "B", "ä"]),
    scores,
    threshold=scores,
    success=st.none() | st.booleans(),
    reason=texts,
    metadata=payloads,
    metrics=st.none() | metrics,
    error=maybe_text,
    skipped=maybe_text,
    fail_on_error=st.booleans(),
)
items = st.builds(
    ItemResult,
    st.integers(0, 10**6),
    examples,
    actual_outputs=payloads,
    eval_results=st.lists(eval_results, max_size=2).map(tuple),
    metrics=st.none() | metrics,
    error=maybe_text,
)
runs = st.builds(
    RunResult,
    index=st.integers(0, 9),
    item_results=st.lists(items, max_size=2),
    server_run_ids=st.lists(texts, max_size=2).map(tuple),
)
evaluator_infos = st.builds(
    EvaluatorInfo,
    name=texts,
    registry_name=maybe_text,
    parameters=payloads,
    threshold=scores,
    direction=st.sampled_from(["higher_is_better", "lower_is_better"]),
    deterministic=st.booleans(),
    fingerprint=texts,
)
provenances = st.builds(
    Provenance,
    run_id=maybe_text,
    git_dirty=st.none() | st.booleans(),
    git_branch=st.none() | texts,
    pull_request=st.none() | texts,
    trigger=st.none() | texts,
    build_url=st.none() | texts,
    dataset_uri=st.none() | texts,
    dataset_version=st.none() | st.integers(0, 9),
    seed=counts,
    command=st.lists(texts).map(tuple),
)
results = st.builds(
    ExperimentResult,
    name=texts,
    description=texts,
    metadata=payloads,
    runs=st.lists(runs, max_size=2),
    provenance=provenances,
    evaluators=st.lists(evaluator_infos, max_size=2).map(tuple),
    status=st.sampled_from(RunStatus),
    warnings=st.lists(texts, max_size=2).map(tuple),
)

STRATEGIES = {
    CallMetrics: metrics,
    Example: examples,
    EvalTestCase: cases,
    ToolCall: tool_calls,
    ToolDefinition: st.builds(ToolDefinition, names, texts, input_schema=payloads),
    AgentTrace: st.builds(
        AgentTrace,
        st.lists(tool_calls, max_size=2),
        maybe_text,
        reasoning_steps=st.lists(texts, max_size=2),
        metadata=payloads,
    ),
    Score: st.builds(Score, st.floats(0, 1), texts, metadata=payloads),
    EvalResult: eval_results,
    ItemResult: items,
    RunResult: runs,
    EvaluatorInfo: evaluator_infos,
    Provenance: provenances,
    TaskResult: st.builds(TaskResult, payloads, st.none() | metrics),
    ExperimentResult: results,
}


@pytest.mark.parametrize("kind", STRATEGIES, ids=lambda kind: kind.__name__)
@settings(max_examples=40)
@given(data=st.data())
def test_a_value_is_read_back_as_it_was(kind, data):
    value = data.draw(STRATEGIES[kind])

    assert from_json(kind, to_json(value)) == value


@given(examples)
def test_reading_both_spellings_gives_the_same(example):
    tree = to_tree(example)
    snake = {
        {"expectedOutputs": "expected_outputs", "actualOutputs": "actual_outputs"}.get(k, k): v
        for k, v in tree.items()
    }

    assert from_json(Example, snake) == from_json(Example, tree) == example


@given(values)
def test_a_json_value_is_its_own_json_form(value):
    assert jsonable(value) == value


hostile = st.recursive(
    leaves | st.floats() | st.text() | st.binary() | st.integers(10**5000, 10**5001) | st.builds(object),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.integers() | st.none(), inner) | st.tuples(inner)
    ),
    max_leaves=8,
)


@given(hostile)
def test_any_value_has_a_json_form_that_can_be_written_and_read(value):
    text = json.dumps(jsonable(value), allow_nan=False, ensure_ascii=False)

    assert json.loads(text.encode()) == jsonable(value)


any_texts = st.text(st.characters(), max_size=12)
any_trees = st.recursive(
    leaves | any_texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_texts, inner, max_size=3),
    max_leaves=8,
)


@given(any_trees)
def test_pretty_json_is_what_the_standard_library_writes(value):
    tree = jsonable(value)

    assert pretty_json(tree) == json.dumps(tree, ensure_ascii=False, indent=2)
