"""Trees that we wrote are read without pydantic, into what pydantic would make of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from dokimos import (
    AgentTrace,
    CallMetrics,
    ErrorDetail,
    EvalResult,
    Example,
    ExperimentResult,
    ItemResult,
    ToolCall,
    evaluate,
)
from dokimos._core import tree_reader
from dokimos._core.convert import adapter
from dokimos._core.fast_constructor import Member, compile_reader
from dokimos._core.tree_reader import UnusualTree, read_plain_tree
from dokimos._core.wire import from_json, to_tree
from dokimos.errors import TypeConversionError
from dokimos.evaluators._text import ExactMatch

DETAIL = ErrorDetail.of(KeyError("a"))
VALUES: tuple[Any, ...] = (
    Example({"input": "q", "n": [1, {"a": None}]}, {"output": "é\ud800"}, metadata={"k": 1.5}, id="x"),
    Example({}, actual_outputs={}, metrics=CallMetrics(1, 2, cost_usd=0.5, model="m")),
    EvalResult("A", 0.25, threshold=0.5, success=False, reason="no", metadata={"a": {"b": []}}, label="l"),
    EvalResult("A", 3.0, score_range=(1.0, 5.0), decides=False, part_of="B"),
    EvalResult("A", error="KeyError: a", error_kind="contested", fail_on_error=False, error_detail=DETAIL),
    EvalResult("A", parts=(EvalResult("A.x", 1.0, part_of="A"), EvalResult("A.y", skipped="none"))),
    ItemResult(3, Example.of("a"), actual_outputs={"output": 1}, error="E", error_detail=DETAIL),
    ItemResult(0, Example.of("a"), eval_results=(EvalResult("A", 1.0), EvalResult("B", 0.0))),
    evaluate([Example.of("a", "A")], str.upper, [ExactMatch()], runs=2, quiet=True, journal=False),
)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_what_we_wrote_reads_as_pydantic_reads_it(value: Any) -> None:
    tree = to_tree(value)
    found = read_plain_tree(type(value), tree)

    assert found == adapter(type(value)).validate_python(tree)
    assert to_tree(found) == tree
    assert type(found) is type(value)


def test_what_is_not_known_is_ignored_and_whole_numbers_are_floats() -> None:
    result = read_plain_tree(EvalResult, {"name": "A", "score": 1, "ofANewerVersion": {"x": 1}})

    assert result == EvalResult("A", 1.0)
    assert type(result.score) is float


def test_a_payload_is_not_shared_with_the_tree() -> None:
    tree: dict[str, Any] = {"name": "A", "metadata": {"a": 1}}
    result = read_plain_tree(EvalResult, tree)
    tree["metadata"]["a"] = 2

    assert result.metadata == {"a": 1}


@pytest.mark.parametrize(
    ("target", "tree"),
    [
        (EvalResult, {}),
        (EvalResult, {"name": 1}),
        (EvalResult, {"name": "A", "score": True}),
        (EvalResult, {"name": "A", "score": "0.5"}),
        (EvalResult, {"name": "A", "score": 2.0}),
        (EvalResult, {"name": "A", "score": 10**400}),
        (EvalResult, {"name": "A", "metadata": {1: 1}}),
        (EvalResult, {"name": "A", "parts": {}}),
        (EvalResult, {"name": "A", "parts": [1]}),
        (EvalResult, {"name": "A", "scoreRange": [1]}),
        (EvalResult, {"name": "A", "error_kind": "contested"}),
        (EvalResult, {"name": "A", "errorKind": "x", "error_kind": "x"}),
        (Example, []),
        (ItemResult, {"index": True, "example": {}}),
        (ExperimentResult, {"status": "no such"}),
        (ExperimentResult, {"status": 1}),
        (tuple[int, ...], [1]),
    ],
)
def test_anything_else_is_left_to_pydantic(target: Any, tree: Any) -> None:
    with pytest.raises(UnusualTree):
        read_plain_tree(target, tree)


def test_types_with_other_fields_are_read_too() -> None:
    trace = AgentTrace([ToolCall("search", {"q": "Rome"}, result="a")])

    assert from_json(AgentTrace, to_tree(trace)) == trace


def test_errors_name_the_place_as_before() -> None:
    tree = {"index": 0, "example": {}, "evalResults": [{"name": "A"}, {"name": "B", "score": "x"}]}

    with pytest.raises(TypeConversionError, match=r"evalResults\.1\.score"):
        from_json(ItemResult, tree)


def test_each_selection_of_keys_in_each_order_is_read() -> None:
    tree = {"name": "A", "score": 0.5, "success": True, "label": "l", "later": {"x": 1}, "metadata": {"a": 1}}
    draw = random.Random(7)
    for _ in range(300):
        keys = draw.sample(list(tree), draw.randrange(len(tree) + 1))
        selected = {key: tree[key] for key in keys}
        if "name" in keys:
            assert read_plain_tree(EvalResult, selected) == adapter(EvalResult).validate_python(selected)
        else:
            with pytest.raises(UnusualTree, match="name"):
                read_plain_tree(EvalResult, selected)


def test_any_number_of_selections_of_keys_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may have keys of its own in each object; no more than some get a function of their own."""
    compiled = []

    def compile_one(kind: type, members: Sequence[Member | None]) -> Callable[[Any], Any]:
        compiled.append(members)
        return compile_reader(kind, members)

    monkeypatch.setattr(tree_reader, "_MOST_READERS", 3)
    monkeypatch.setattr(tree_reader, "compile_reader", compile_one)
    tree_reader._reader.cache_clear()
    try:
        for number in range(20):
            tree = {"name": "A", f"key{number}": 1, "score": 1}
            assert read_plain_tree(EvalResult, tree) == EvalResult("A", 1.0)
            with pytest.raises(UnusualTree):
                read_plain_tree(EvalResult, {**tree, "score": "1"})
    finally:
        tree_reader._reader.cache_clear()
    assert len(compiled) == 3
