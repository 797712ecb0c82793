"""What the instrumentation of a framework exports to a running server reads back as what its agent did."""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from story import ANSWER, QUESTION

NAME = os.environ["DOKIMOS_FRAMEWORK"]
OVER_GRPC = ("pydantic_ai", "strands")
WITHOUT_RESULTS = ("haystack",)
"""Their spans have no results of tools."""
WITHOUT_USAGE = ("crewai",)
"""Their spans have no calls of models, which another instrumentation records."""
ANSWERING_BY_CALL = ("smolagents",)
"""Their models answer with a call of a tool, which is not a message."""
REASONING_APART = ("google_adk",)
"""They add the tokens of reasoning to those of the answer, which has them already."""

if "DOKIMOS_TRACE_SERVER" not in os.environ:
    pytest.skip("no server for exports was started", allow_module_level=True)


@pytest.fixture(scope="module")
def run():
    """What the framework and the library say of a run that was exported."""
    protocol = "grpc" if NAME in OVER_GRPC else "http"
    endpoint = os.environ["DOKIMOS_TRACE_GRPC" if protocol == "grpc" else "DOKIMOS_TRACE_SERVER"]
    script = Path(__file__).with_name("export_run.py")
    environment = {**os.environ, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY"}
    environment.pop("OTEL_SDK_DISABLED", None)  # which the tests of CrewAI set against its telemetry
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, NAME, endpoint, protocol],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def get(path):
    with urllib.request.urlopen(f"{os.environ['DOKIMOS_TRACE_SERVER']}/api/v1/traces/{path}") as answer:
        return json.load(answer)


def test_the_server_reads_what_the_library_reads_of_the_same_spans(run):
    assert run["traces"]
    for trace, local in run["traces"].items():
        stored = get(f"{trace}/agent-trace")
        assert stored["agentTrace"] == local["agentTrace"]
        assert stored["metrics"] == local["metrics"]
        assert get(f"{trace}/conversation")["conversation"] == local["conversation"]
        assert get(trace)["spanCount"] == local["spans"]


def test_the_spans_say_what_the_agent_did(run):
    main = max(run["traces"].values(), key=lambda each: each["spans"])
    read, own = main["agentTrace"], run["agent"]
    calls = [call for call in describe_calls(read) if call[0] != "final_answer"]  # of smolagents
    assert calls == describe_calls(own)
    results = {call.get("result") for call in read["toolCalls"] if call["name"] == "get_weather"}
    assert results == ({None} if NAME in WITHOUT_RESULTS else {"21 degrees", "25 degrees"})
    assert read["finalResponse"] == own["finalResponse"] == ANSWER
    messages = main["conversation"]["messages"]
    assert any(each["role"] == "user" and QUESTION in each["content"] for each in messages)
    assert messages[-1]["content"] == ("" if NAME in ANSWERING_BY_CALL else ANSWER)


def test_the_usage_of_all_calls_of_models_is_counted(run):
    metrics = max(run["traces"].values(), key=lambda each: each["spans"])["metrics"]
    expected = (None, None) if NAME in WITHOUT_USAGE else (60, 24)
    if NAME in REASONING_APART:
        expected = (60, 24 + metrics["reasoningTokensOut"])
    assert (metrics.get("tokensIn"), metrics.get("tokensOut")) == expected


def describe_calls(trace):
    """The calls of a run; those of one answer may have run at the same time, in any order."""
    return sorted((call["name"], json.dumps(call["arguments"])) for call in trace["toolCalls"])
