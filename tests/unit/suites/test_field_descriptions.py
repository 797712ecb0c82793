"""The JSON Schema that editors use: it says what each key means, and takes what the loader takes."""

import re
import runpy
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from dokimos.suites._schema import json_schema

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"<!-- file: \S+\.yaml -->\s*```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
SUITES = [
    text
    for page in sorted((ROOT / "docs" / "guide").glob("*.md"))
    for text in BLOCK.findall(page.read_text(encoding="utf-8"))
    if "test_cases" in text
]


@pytest.fixture(scope="module")
def schema():
    return json_schema()


def test_keys_are_explained_where_the_source_explains_them(schema):
    tool = schema["$defs"]["ExpectedTool"]["properties"]
    assert tool["count"]["description"] == "The smallest number of matching calls."
    assert schema["$defs"]["RagMetric"]["properties"]["threshold"]["description"].startswith(
        "The score to reach"
    )
    assert schema["properties"]["include"]["description"]


def test_each_key_is_explained(schema):
    blocks = {"the suite": schema, **schema["$defs"]}

    assert [
        f"{name}.{key}"
        for name, block in blocks.items()
        for key, value in block.get("properties", {}).items()
        if not value.get("description", "").strip()
    ] == []


def test_only_metrics_are_said_to_take_parameters_of_a_metric(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    reference = runpy.run_path(str(ROOT / "docs" / "suite_reference.py"))["reference"]()
    sections = reference.split("\n## ")

    assert [each.split("\n")[0] for each in sections if "parameters of the metric" in each] == [
        "Standard metric"
    ]


@pytest.mark.parametrize("text", SUITES)
def test_documented_suites_are_valid_for_an_editor(schema, text):
    errors = [
        error.message for error in jsonschema_rs.validator_for(schema).iter_errors(yaml.safe_load(text))
    ]

    assert errors == []


@pytest.mark.parametrize(
    "case",
    [
        {"input": "a", "ground_truth": 60.94, "expected_tools": ["x", {"name": "y", "args": {"a": 1}}]},
        {"input": "a", "expected_tools": {"tools": ["x"], "exact": True}},
        {"turns": [{"input": "a", "ground_truth": True, "expected_tools": []}]},
    ],
)
def test_short_forms_are_valid(schema, case):
    suite = {"name": "n", "agent": "app:answer", "test_cases": [case]}

    assert jsonschema_rs.validator_for(schema).is_valid(suite)


@pytest.mark.parametrize(
    "suite", [{"agent": "a:b"}, {"name": "n", "agnt": "a:b"}, {"name": "n", "agent": {"url": 3}}]
)
def test_mistakes_are_not_valid(schema, suite):
    assert not jsonschema_rs.validator_for(schema).is_valid(suite)
