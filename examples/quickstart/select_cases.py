"""Write data/function_calling_cases.jsonl: 70 single-call cases of the Berkeley function-calling data.

The rows come from the package `bfcl-eval` (Apache-2.0), which this script reads without importing it:

    pip download --no-deps bfcl-eval -d wheels
    python select_cases.py wheels/bfcl_eval-*.whl

Every fifth row of "simple_python" (40) and every third of "multiple" (30) whose prompt is short enough for
a small local model, so that the choice depends on nothing but the file.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LONGEST_CASE = 1700  # characters of JSON; a longer prompt takes a small model half a minute to read
TYPES = {"dict": "object", "float": "number", "tuple": "array", "list": "array", "any": None}


def read_jsonl(wheel: zipfile.ZipFile, name: str) -> Iterator[dict[str, Any]]:
    for line in wheel.read(f"bfcl_eval/data/{name}").decode().splitlines():
        yield json.loads(line)


def json_schema(parameters: Any) -> Any:
    """The Python-like type names of the data (dict, float, tuple, any) as JSON Schema."""
    if isinstance(parameters, list):
        return [json_schema(item) for item in parameters]
    if not isinstance(parameters, dict):
        return parameters
    schema = {key: json_schema(value) for key, value in parameters.items() if key != "optional"}
    if isinstance(schema.get("type"), str) and schema["type"] in TYPES:
        schema["type"] = TYPES[schema["type"]]
        if schema["type"] is None:
            del schema["type"]
    return schema


def first_accepted(value: Any) -> Any:
    """Nested arguments hold lists of accepted values too: take the first of each."""
    if isinstance(value, dict):
        return {key: first_accepted(options[0]) for key, options in value.items() if options[0] != ""}
    if isinstance(value, list):
        return [first_accepted(element) for element in value]
    return value


def to_case(row: dict[str, Any], truth: dict[str, Any], category: str) -> dict[str, Any]:
    [(name, accepted)] = truth["ground_truth"][0].items()
    tools = [
        {"name": f["name"], "description": f["description"], "inputSchema": json_schema(f["parameters"])}
        for f in row["function"]
    ]
    return {
        "id": row["id"],
        "inputs": {"input": row["question"][0][0]["content"]},
        "expectedOutputs": {
            "output": {"name": name, "arguments": first_accepted(accepted)},
            "accepted": accepted,
        },
        "metadata": {"category": category, "tools": tools},
    }


def select(wheel: zipfile.ZipFile, category: str, step: int, count: int) -> list[dict[str, Any]]:
    name = f"BFCL_v4_{category}.json"
    truths = {row["id"]: row for row in read_jsonl(wheel, f"possible_answer/{name}")}
    short = [row for row in read_jsonl(wheel, name) if len(json.dumps(row)) <= LONGEST_CASE]
    return [to_case(row, truths[row["id"]], category) for row in short[::step][:count]]


def main(path: str) -> None:
    with zipfile.ZipFile(path) as wheel:
        cases = select(wheel, "simple_python", 5, 40) + select(wheel, "multiple", 3, 30)
    lines = (json.dumps(case, ensure_ascii=False) + "\n" for case in cases)
    (HERE / "data" / "function_calling_cases.jsonl").write_text("".join(lines), encoding="utf-8")
    print(f"{len(cases)} cases")


if __name__ == "__main__":
    main(sys.argv[1])
