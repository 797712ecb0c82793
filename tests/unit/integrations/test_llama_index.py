"""LlamaIndex, by what its objects look like."""

from types import SimpleNamespace

import pytest

from dokimos import Example
from dokimos._core.results import EvalResult
from dokimos._core.test_case import EvalTestCase
from dokimos._runtime.concurrency import run_sync
from dokimos.integrations import llama_index

NODE = SimpleNamespace(node=SimpleNamespace(text="a", metadata={"page": 1}), score=0.5)
CASE = EvalTestCase({"input": "q"}, {"output": "r", "context": ["c"]}, expected_outputs={"output": "e"})


def output(text, *calls, **more):
    response = {"blocks": [{"block_type": "text", "text": text}]}
    return {"current_agent_name": "helper", "response": response, "tool_calls": list(calls), **more}


def call_event(identity):
    return {"tool_name": "get", "tool_kwargs": {}, "tool_id": identity}


def answered(identity, text, raw=None):
    tool_output = {"blocks": [{"text": text}], "is_error": False, "raw_output": raw}
    return {**call_event(identity), "tool_output": tool_output}


def test_results_come_in_any_order_and_pieces_of_a_stream_are_left_out():
    piece = {**output("", call_event("a")), "delta": ""}
    events = [
        piece,
        output("", call_event("a"), call_event("b")),
        answered("b", "second"),
        answered("a", "first"),
        output("Done."),
    ]
    trace = llama_index.to_agent_trace(events)

    assert [call.result for call in trace.tool_calls] == ["first", "second"]
    assert trace.final_response == "Done."


def test_an_output_that_was_given_all_results_in_the_end_made_none_of_the_calls():
    done = answered("a", "first")
    events = [output("", call_event("a")), done, output("Done.", done)]

    assert len(llama_index.to_agent_trace(events).tool_calls) == 1
    assert llama_index.to_agent_trace(events[-1]).tool_calls == llama_index.to_agent_trace(events).tool_calls


def test_what_stops_a_handler_has_the_final_answer():
    events = [output("", call_event("a")), answered("a", "direct"), {"result": output("direct")}]

    assert llama_index.to_agent_trace(events).final_response == "direct"


def test_what_a_chat_engine_itself_retrieved_is_not_a_call():
    sources = [
        {"tool_name": "retriever", "raw_input": {}, "raw_output": [NODE], "content": "a"},
        {"tool_name": "get", "raw_input": {"kwargs": {"n": 1}}, "raw_output": "x", "content": "x"},
    ]
    trace = llama_index.to_agent_trace({"response": "Yes.", "sources": sources, "source_nodes": [NODE]})

    assert [(call.name, call.arguments, call.result) for call in trace.tool_calls] == [("get", {"n": 1}, "x")]


class QueryEngine:
    async def aquery(self, text):
        return SimpleNamespace(response="Yes.", source_nodes=[NODE] if text == "known" else [])


@pytest.mark.parametrize(("text", "context"), [("known", ["a"]), ("unknown", [])])
def test_a_response_without_source_nodes_has_an_empty_context(text, context):
    task = llama_index.as_task(QueryEngine(), needs_context=True)

    assert run_sync(task(Example.of(text))).outputs["contexts"] == context


def test_tokens_of_all_models_are_read():
    usages = [
        {"usage": {"prompt_tokens": 20, "completion_tokens": 8}, "model": "m"},
        {"usage": {"input_tokens": 20, "output_tokens": 8}},
        {"usage_metadata": {"prompt_token_count": 20, "candidates_token_count": 8}},
    ]
    for raw in usages:
        assert llama_index.to_call_metrics(output("x", raw=raw)).tokens == 28
    assert llama_index.to_call_metrics(output("x", raw={"usage": None})) is None


def test_a_chat_message_of_dokimos_needs_no_query():
    case = llama_index.to_test_case({"response": "r", "contexts": ["c"]}, query="q")

    assert (case.input, case.actual_output, case.contexts) == ("q", "r", ("c",))
    assert llama_index.to_test_case({"response": "r"}).contexts is None


def test_their_evaluator_is_given_what_the_case_has():
    given = {}

    class Theirs:
        async def aevaluate(self, **kwargs):
            given.update(kwargs)
            return SimpleNamespace(score=4.0, passing=True, feedback="Good.", invalid_result=False)

    result = llama_index.as_evaluator(Theirs(), scale=(1, 5)).evaluate(CASE)

    assert given == {"query": "q", "response": "r", "contexts": ("c",), "reference": "e"}
    assert (result.name, result.score, result.reason) == ("Theirs", 0.75, "Good.")


@pytest.mark.parametrize(
    ("ours", "passing", "score", "fault"),
    [
        (EvalResult.of("x", 0.8, 0.5, "Fine."), True, 0.8, None),
        (EvalResult("x", error="ValueError: no"), None, None, "ValueError: no"),
        (EvalResult("x", skipped="nothing to do"), None, None, "nothing to do"),
    ],
)
def test_our_results_become_theirs(monkeypatch, ours, passing, score, fault):
    evaluation = SimpleNamespace(EvaluationResult=lambda **fields: fields)
    monkeypatch.setattr(llama_index, "require", lambda module, extra: evaluation)

    converted = llama_index.from_eval_result(ours, CASE)

    assert (converted["passing"], converted["score"]) == (passing, score)
    assert (converted["invalid_result"], converted["invalid_reason"]) == (fault is not None, fault)
    assert (converted["query"], converted["response"], converted["contexts"]) == ("q", "r", ("c",))
