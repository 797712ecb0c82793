"""What the real frameworks gave of runs that did what is right is valid by the agents' own tools."""

import importlib
import json
from pathlib import Path

import pytest

from dokimos._core.agent import ToolCall
from dokimos._core.test_case import EvalTestCase
from dokimos._core.tool_definition import ToolDefinition
from dokimos.evaluators import ToolCallValidity, ToolErrors, ToolTrajectory

FOLDER = Path(__file__).parents[2] / "data" / "frameworks"
RUNS = [
    (path.stem, name, run)
    for path in sorted((FOLDER / "correct").glob("*.json"))
    for name, run in json.loads(path.read_text(encoding="utf-8")).items()
]


def test_each_framework_has_a_recording():
    assert {stem for stem, _, _ in RUNS} == {path.stem for path in FOLDER.glob("*.json")}


@pytest.mark.parametrize(
    ("module", "run"), [(m, r) for m, _, r in RUNS], ids=[f"{m}: {n}" for m, n, _ in RUNS]
)
def test_a_correct_run_is_valid_and_as_expected(module, run):
    trace = importlib.import_module(f"dokimos.integrations.{module}").to_agent_trace(run["result"])
    tools = [ToolDefinition.from_map(tool) for tool in run["tools"]]
    expected = [ToolCall(call["name"], call["arguments"]) for call in run["calls"]]
    case = EvalTestCase(
        {"input": "?"},
        {**trace.to_outputs(), "tools": tools},
        expected_outputs={"toolCalls": expected},
    )

    scores = [
        evaluator.evaluate(case).score
        for evaluator in (ToolCallValidity(), ToolTrajectory(mode="strict"), ToolErrors())
    ]

    assert scores == [1.0] * 3
    if module != "mcp":  # whose calls have no ids
        ids = [call.metadata["id"] for call in trace.tool_calls]
        assert len(set(ids)) == len(ids) == len(expected)
