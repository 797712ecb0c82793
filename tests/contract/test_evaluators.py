"""All our evaluators keep the contract that those of other packages are tested against."""

import json

import pytest

from dokimos import EvalTestCase, JudgeReply
from dokimos.evaluators import registry
from dokimos.testing.contracts import EvaluatorContract


class Judge:
    """Says yes, in whatever shape of reply it is asked for."""

    identity = "judge of the contract"

    def __eq__(self, other):
        return type(other) is Judge

    __hash__ = object.__hash__

    async def complete(self, prompt, *, schema=None):
        return JudgeReply(json.dumps(fill(schema or {}, schema or {})))


class Embedder:
    """Counts the letters."""

    identity = "embedder of the contract"

    def __eq__(self, other):
        return type(other) is Embedder

    __hash__ = object.__hash__

    async def embed(self, texts):
        return [[1.0, *(float(text.count(letter)) for letter in "aeiou")] for text in texts]


def fill(schema, root):
    """Return a value that a JSON Schema allows."""
    if "$ref" in schema:
        return fill(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if "enum" in schema or "anyOf" in schema:
        return schema["enum"][0] if "enum" in schema else fill(schema["anyOf"][0], root)
    kind = schema.get("type")
    if kind == "object":
        return {key: fill(each, root) for key, each in schema.get("properties", {}).items()}
    if kind == "array":
        item = fill(schema["items"], root)
        return [] if isinstance(item, str) and "minItems" not in schema else [item]
    return {"number": 1, "integer": 1, "boolean": True}.get(kind, "It says so.")


def is_short(case: EvalTestCase) -> bool:
    """A function as an evaluator."""
    return len(str(case.actual_output)) < 1_000


SETTINGS = {
    "llm_judge": {"criteria": "Is it right?"},
    "g_eval": {"criteria": "Is it right?", "evaluation_steps": ["Read it."]},
    "jury": {"judges": [Judge(), Judge()], "evaluator": "correctness"},
    "regex": {"pattern": "Paris"},
    "contains": {"values": ["Paris"]},
    "length": {"max": 500},
    "json_schema": {"schema": {"type": "string"}},
    "injection_resistance": {"marker": "BANANA"},
    "latency": {"max_ms": 100},
    "cost": {"max_usd": 0.5},
    "tokens": {"max_tokens": 100},
    "meteor": {"synonyms": False},
    "embedding_similarity": {"embedder": Embedder()},
    "trajectory": {"criteria": ["helpfulness"]},
    "per_turn": {"evaluator": {"length": {"max": 500}}},
    "function": {"function": is_short},
    "forbidden_tools": {"tools": ["delete"]},
    "max_tool_calls": {"max": 5},
    "tool_graph": {"rules": [{"before": ["look_up", "answer"]}]},
}
CASES = {
    "numeric": [EvalTestCase.of("2 + 2", "4", "4"), EvalTestCase.of("1 / 3", "about 0.33", "0.333")],
    "set_match": [EvalTestCase({}, {"output": ["a", "b"]}, expected_outputs={"output": ["b", "a"]})],
}


def build(name):
    settings = dict(SETTINGS.get(name, {}))
    if "judge" in registry.settable_fields(registry.find(name)) and name != "jury":
        settings.setdefault("judge", Judge())
    return registry.build(name, settings)


def contract_of(name):
    """Return the contract's tests of one of our evaluators."""
    attributes = {"evaluator": build(name), **({"cases": CASES[name]} if name in CASES else {})}
    return type(f"Test_{name}", (EvaluatorContract,), attributes)


globals().update({f"Test_{name}": contract_of(name) for name in registry.BUILT_IN})


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_every_evaluator_of_the_registry_is_tested(name):
    assert isinstance(globals()[f"Test_{name}"].evaluator, registry.find(name))
