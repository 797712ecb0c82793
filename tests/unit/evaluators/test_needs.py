"""What is said of all that an evaluator needs, and the case that has it."""

from __future__ import annotations

import ast

import pytest

from dokimos._core.metrics import CallMetrics
from dokimos._core.test_case import EvalTestCase
from dokimos.evaluators import registry
from dokimos.evaluators._needs import example_case, example_code, needs_of


class Asked(Exception):
    """The judge or embedder was asked: the case had all that was needed."""


def judge(prompt):
    raise Asked


def embed(texts):
    raise Asked


SETTINGS = {
    "regex": {"pattern": "days"},
    "contains": {"values": ["days"]},
    "length": {"max": 50},
    "json_schema": {"schema": {}},
    "injection_resistance": {"marker": "BANANA"},
    "latency": {"max_ms": 1000},
    "cost": {"max_usd": 1},
    "tokens": {"max_tokens": 100},
    "forbidden_tools": {"tools": ["delete"]},
    "max_tool_calls": {"max": 2},
    "tool_graph": {"start": ["refund_policy"]},
    "jury": {"judges": [judge], "criteria": "Is it right?"},
    "trajectory": {"criteria": ["clarity"]},
    "per_turn": {"evaluator": {"length": {"max": 50}}},
    "function": {"function": lambda actual_output: True},
}


def built(name):
    doc = registry.describe(name)
    names = {parameter.name for parameter in doc.parameters}
    params = {"judge": judge, "embedder": embed, "criteria": "Is it right?"}
    params = {key: value for key, value in params.items() if key in names} | SETTINGS.get(name, {})
    return doc, registry.find(name)(**params)


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_the_example_of_every_evaluator_lacks_nothing(name):
    doc, evaluator = built(name)
    parts = example_case(doc)
    case = EvalTestCase(
        parts.get("inputs", {}),
        parts.get("outputs", {}),
        expected_outputs=parts.get("expected_outputs", {}),
        metadata=parts.get("metadata", {}),
        metrics=CallMetrics(latency_ms=850.0, tokens_in=20, tokens_out=9, cost_usd=0.001),
    )

    error = evaluator.evaluate(case).error
    assert error is None or "Asked" in error or "not installed" in error or "WordNet" in error, error


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_the_needs_of_every_evaluator_say_where_they_come_from(name):
    doc = registry.describe(name)

    assert all(need.name and need.how for need in needs_of(doc))
    assert len({need.name for need in needs_of(doc)}) == len(needs_of(doc))
    ast.parse(example_code(doc))


@pytest.mark.parametrize(
    ("name", "needs"),
    [
        ("faithfulness", ["output", "contexts", "judge"]),
        ("recall", ["contexts", "relevant"]),
        ("tool_correctness", ["tool calls", "expected calls"]),
        ("plan_adherence", ["input", "tool calls", "plan", "judge"]),
        ("bleu", ["output", "expected output", "extra `nlp`"]),
        ("embedding_similarity", ["output", "expected output", "embedder"]),
        ("tool_name_reliability", ["tools"]),
    ],
)
def test_needs_are_parts_then_models_then_packages(name, needs):
    assert [need.name for need in needs_of(registry.describe(name))] == needs
