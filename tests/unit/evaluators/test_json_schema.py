from __future__ import annotations

import pickle
from typing import Any

import pytest

from dokimos._core.test_case import EvalTestCase
from dokimos.errors import ConfigurationError
from dokimos.evaluators._json_schema import JsonSchema, compile_schema, find_violations, schema_text

ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "status": {"enum": ["open", "paid"]},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "due": {"type": "string", "format": "date"},
    },
    "required": ["id"],
    "additionalProperties": False,
    "$defs": {"line": {"type": "object", "properties": {"price": {"type": "number", "minimum": 0}}}},
}


def result(output: Any, schema: dict[str, Any] = ORDER, **options: Any):
    return JsonSchema(schema=schema, **options).evaluate(EvalTestCase.of("q", output))


@pytest.mark.parametrize(
    "output",
    [{"id": 1}, '{"id": 1}', {"id": 3.0}, {"id": 1, "lines": [{"price": 2}]}, {"id": 10**30}, ' {"id": 1}\n'],
)
def test_valid_outputs_pass(output):
    assert result(output).score == 1.0


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ({}, '"id" is a required property'),
        ({"id": True}, "$.id: true is not of type"),
        ({"id": "1"}, "$.id: "),
        ({"id": 1, "lines": [{"price": 1}, {"price": -1}]}, "$.lines[1].price: "),
        ({"id": 1, "x": 2}, "'x' was unexpected"),
        ({"id": 1, "status": "lost"}, "$.status: "),
        ({"id": 1, "due": "tomorrow"}, "$.due: "),
        ("[1]", "is not of type"),
    ],
)
def test_invalid_outputs_score_0_with_the_path(output, why):
    found = result(output)
    assert (found.score, found.success, found.error) == (0.0, False, None)
    assert why in found.reason
    assert found.metadata["errors"]


@pytest.mark.parametrize(
    "output", ["not JSON", "", "{'id': 1}", '{"id": NaN}', '{"id": 1} and more', "[" * 100_000]
)
def test_an_output_that_is_not_json_scores_0_and_says_so(output):
    found = result(output)
    assert (found.score, found.error) == (0.0, None)
    assert "The output is not JSON" in found.reason


def test_many_errors_are_counted():
    found = result([f"{i}" for i in range(9)], {"type": "array", "items": {"type": "integer"}})
    assert "and 4 more errors" in found.reason
    assert len(found.metadata["errors"]) == 9


def test_formats_can_be_left_unchecked():
    assert result({"id": 1, "due": "tomorrow"}, check_formats=False).score == 1.0


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "objct"}, r"\$\.type"),
        ({"pattern": "("}, "regex"),
        ({"$ref": "http://example.com/other.json"}, "schemas are never fetched"),
        ({"$ref": "file:///etc/hostname"}, "schemas are never fetched"),
        ({"$ref": "#/definitions/absent"}, "does not exist"),
        ("a text", "must be a map"),
    ],
)
def test_a_wrong_schema_is_refused_at_once_and_nothing_is_fetched(schema, why):
    with pytest.raises(ConfigurationError, match=why):
        JsonSchema(schema=schema)


def test_equal_schemas_are_compiled_once():
    first = compile_schema(schema_text({"type": "integer", "minimum": 1}))
    assert compile_schema(schema_text({"minimum": 1, "type": "integer"})) is first
    assert find_violations(first, 0)
    assert find_violations(first, 1) == ()


def test_the_evaluator_can_be_sent_to_another_process():
    evaluator = pickle.loads(pickle.dumps(JsonSchema(schema=ORDER)))
    assert evaluator.evaluate(EvalTestCase.of("q", {"id": 1})).score == 1.0
