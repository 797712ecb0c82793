"""Haystack, by what its objects look like."""

import asyncio
from types import SimpleNamespace

import pytest

from dokimos import Dataset, Example, evaluate
from dokimos._runtime.concurrency import run_sync
from dokimos.evaluators import ToolErrors
from dokimos.integrations import haystack

USAGE = {"prompt_tokens": 20, "completion_tokens": 8, "prompt_tokens_details": {"cached_tokens": 4}}


def reply(text, **more):
    return {"role": "assistant", "texts": [text], "meta": {"model": "m", "usage": USAGE}, **more}


class Pipeline:
    """Retrieves, and answers with what it was asked."""

    def __init__(self, result):
        self.result = result
        self.requests = []

    def connect(self):
        """Connect."""

    def walk(self):
        return [("retriever", object()), ("ranker", object()), ("llm", object())]

    def outputs(self, *, include_components_with_connected_outputs):
        return {"retriever": {"documents": {}}, "ranker": {"documents": {}}, "llm": {"replies": {}}}

    def run(self, data, include_outputs_from):
        self.requests.append((data, include_outputs_from))
        return self.result


def test_the_documents_of_what_was_added_last_are_the_context():
    pipeline = Pipeline(
        {
            "llm": {"replies": [reply("Yes.")]},
            "ranker": {"documents": [{"content": "a"}]},
            "retriever": {"documents": [{"content": "b"}, {"content": "a"}]},
        }
    )
    result = run_sync(haystack.as_task(pipeline, pipeline_input="question")(Example.of("Is it?")))

    assert pipeline.requests == [({"question": "Is it?"}, {"retriever", "ranker"})]
    assert (result.outputs["output"], result.outputs["contexts"]) == ("Yes.", ["a"])
    assert (result.metrics.tokens_in, result.metrics.cached_tokens_in, result.metrics.model) == (20, 4, "m")


def test_an_answer_with_its_documents_is_enough():
    answer = {
        "data": "30 days",
        "documents": [{"content": "a", "meta": {"page": 1}}],
        "meta": {"usage": USAGE},
    }
    pipeline = Pipeline({"answer": {"answers": [answer]}})

    result = run_sync(haystack.as_task(pipeline, metadata_key="sources")(Example.of("When?")))

    assert result.outputs["output"] == "30 days"
    assert result.outputs["sources"] == [{"text": "a", "metadata": {"page": 1}}]
    assert result.metrics.tokens_out == 8


def test_the_text_of_a_plain_generator_is_an_answer():
    result = {"llm": {"replies": ["Rome"], "meta": [{"model": "m", "usage": USAGE}]}}

    assert haystack.to_agent_trace(result).final_response == "Rome"
    assert haystack.to_call_metrics(result).tokens_in == 20


def test_a_pipeline_that_gives_no_documents_says_where_they_could_be():
    pipeline = Pipeline({"llm": {"replies": [reply("Yes.")]}})
    task = haystack.as_task(pipeline, needs_context=True)

    assert 'as the "documents" of a retriever' in run_sync(task(Example.of("Is it?"))).error


def test_a_run_that_reached_its_limit_of_steps_has_no_answer_but_an_error():
    call = {"tool_name": "get", "arguments": {}, "id": "1"}
    requests = {"role": "assistant", "tool_calls": [call]}
    result = {"messages": [requests], "exit_reason": "max_agent_steps"}

    trace = haystack.to_agent_trace(result)

    assert trace.error.startswith("max_agent_steps: ")
    assert trace.tool_calls[0].metadata == {"id": "1"}
    assert haystack.to_agent_trace({**result, "messages": [requests, reply("Yes.")]}).error is None


def test_tools_in_toolsets_are_tools():
    get, put = ({"name": name, "description": "D.", "parameters": {}} for name in ("get", "put"))
    tools = [SimpleNamespace(**get), [SimpleNamespace(**put), SimpleNamespace(**get)]]

    named = [tool.name for tool in haystack.to_tool_definitions(SimpleNamespace(run=print, tools=tools))]

    assert named == ["get", "put"]


def test_nothing_that_is_known_is_nothing():
    assert haystack.to_agent_trace({"llm": {}}).final_response is None
    assert haystack.to_call_metrics({"llm": {}}) is None


def test_what_runs_without_a_loop_is_called_in_a_thread():
    class Generator:
        def run(self, messages):
            with pytest.raises(RuntimeError):
                asyncio.get_running_loop()
            return {"replies": [reply("Here.")]}

    task = haystack.as_task(Generator())
    result = evaluate(Dataset([Example({"input": []})]), task, [ToolErrors()])

    assert result.runs[0].item_results[0].actual_outputs["output"] == "Here."


def test_tools_of_all_components_are_those_of_a_pipeline():
    tool = SimpleNamespace(name="search", description="Find.", parameters={"type": "object"})
    pipeline = Pipeline({})
    pipeline.walk = lambda: [("agent", SimpleNamespace(tools=[tool])), ("llm", SimpleNamespace(tools=None))]

    assert [each.name for each in haystack.to_tool_definitions(pipeline)] == ["search"]
