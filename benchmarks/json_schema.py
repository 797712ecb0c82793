"""What it costs to validate one arguments object against a compiled JSON Schema.

python benchmarks/json_schema.py
"""

from __future__ import annotations

from timeit import repeat

from dokimos._core.test_case import EvalTestCase
from dokimos.evaluators._json_schema import JsonSchema, compile_schema, find_violations, schema_text

LIMIT_MS = 0.01
CALLS = 20_000

SCHEMA = {
    "type": "object",
    "properties": {
        "location": {"type": "string", "minLength": 2},
        "unit": {"enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "include": {"type": "array", "items": {"type": "string"}},
        "address": {"type": "object", "properties": {"zip": {"type": "string", "pattern": "^[0-9]{5}$"}}},
    },
    "required": ["location", "days"],
    "additionalProperties": False,
}
VALID = {
    "location": "Zürich",
    "unit": "celsius",
    "days": 3,
    "include": ["wind", "rain"],
    "address": {"zip": "80331"},
}
INVALID = {**VALID, "days": 30, "unit": "kelvin"}


def milliseconds(call: object) -> float:
    """Return the best of five rounds, per call."""
    return min(repeat("call()", globals={"call": call}, number=CALLS, repeat=5)) / CALLS * 1_000


def main() -> None:
    validator = compile_schema(schema_text(SCHEMA))
    evaluator = JsonSchema(schema=SCHEMA)
    case = EvalTestCase.of("question", VALID)
    rows = [
        (
            "valid arguments, compiled schema",
            milliseconds(lambda: find_violations(validator, VALID)),
            LIMIT_MS,
        ),
        ("invalid arguments, with messages", milliseconds(lambda: find_violations(validator, INVALID)), None),
        ("the evaluator, result included", milliseconds(lambda: evaluator.evaluate(case)), None),
    ]
    for what, measured, limit in rows:
        verdict = (
            "" if limit is None else f"   at most {limit} ms: {'ok' if measured <= limit else 'TOO SLOW'}"
        )
        print(f"{what:34} {measured:.5f} ms{verdict}")


if __name__ == "__main__":
    main()
