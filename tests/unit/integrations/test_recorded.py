"""What the real frameworks gave is read right, without them."""

import importlib
import json
import re
from pathlib import Path

import pytest

NAMES = sorted(path.stem for path in (Path(__file__).parents[2] / "data" / "frameworks").glob("*.json"))
FUNCTIONS = (
    "to_agent_trace", "to_tool_definitions", "to_call_metrics", "run_and_trace", "run_and_trace_async",
    "as_task", "as_judge", "as_application",
)  # fmt: skip


def module_of(name):
    return importlib.import_module(f"dokimos.integrations.{name}")


def test_there_are_recordings():
    assert {"anthropic", "langchain", "mcp", "openai", "openai_agents", "pydantic_ai"} <= set(NAMES)
    assert {
        "agent_framework",
        "crewai",
        "google_adk",
        "haystack",
        "llama_index",
        "smolagents",
        "strands",
    } <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_holds_nothing_that_the_next_one_would_not(name, recorded):
    text = json.dumps(recorded(name)["result"])

    assert re.findall(r"127\.0\.0\.1|localhost|[0-9a-f]{8}-[0-9a-f]{4}-", text) == []
    assert set(re.findall(r"(\d{4}-\d\d-\d\d)T", text)) <= {"2026-01-01"}


@pytest.mark.parametrize("name", NAMES)
def test_every_module_has_the_same_functions(name):
    assert [each for each in FUNCTIONS if not callable(getattr(module_of(name), each, None))] == []


@pytest.mark.parametrize("name", NAMES)
def test_calls_have_their_names_arguments_and_results(name, recorded):
    recording = recorded(name)

    trace = module_of(name).to_agent_trace(recording["result"])

    assert [(call.name, dict(call.arguments)) for call in trace.tool_calls] == [
        ("get_weather", {"city": "Paris"}),
        ("get_weather", {"city": "Rome"}),
        ("book_flight", {"to": "Rome"}),
    ]
    assert [call.result for call in trace.tool_calls[:2]] == ["21 degrees", "25 degrees"]
    assert recording["failure"] in trace.tool_calls[2].result
    flagged = [bool(call.metadata.get("error")) for call in trace.tool_calls]
    assert flagged == [False, False, recording["failureIsFlagged"]]
    if recording.get("finalResponse", True):
        assert trace.final_response == "Rome is warmer, but there is no flight."


@pytest.mark.parametrize("name", NAMES)
def test_the_usage_of_all_model_calls_is_counted_and_priced(name, recorded):
    recording = recorded(name)
    calls = recording["modelCalls"]

    metrics = module_of(name).to_call_metrics(recording["result"], "m", lambda model, i, o: (i + o) / 1000)

    if calls == 0:
        assert metrics is None
        return
    assert (metrics.tokens_in, metrics.tokens_out) == (20 * calls, 8 * calls)
    assert metrics.cost_usd == pytest.approx(28 * calls / 1000)
