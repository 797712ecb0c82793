"""Spans of real frameworks, as `tests/frameworks/export_run.py` exports them, read as the run of an agent."""

from pathlib import Path

import pytest

from dokimos.traces import Span, call_metrics, load_spans, to_agent_trace, to_conversation

FOLDER = Path(__file__).parents[2] / "data" / "frameworks" / "spans"
ANSWER = "Rome is warmer, but there is no flight."


@pytest.mark.parametrize(("name", "tokens"), [("llama_index", (60, 24)), ("crewai", (None, None))])
def test_recorded_spans_read_as_the_run(name, tokens):
    spans = load_spans(FOLDER / f"{name}.json.gz")
    trace = to_agent_trace(spans)
    assert [(call.name, call.arguments) for call in trace.tool_calls] == [
        ("get_weather", {"city": "Paris"}),
        ("get_weather", {"city": "Rome"}),
        ("book_flight", {"to": "Rome"}),
    ]
    assert [call.result for call in trace.tool_calls[:2]] == ["21 degrees", "25 degrees"]
    assert "no seats left" in trace.tool_calls[2].metadata["error"]
    assert trace.final_response == ANSWER
    metrics = call_metrics(spans)
    assert (metrics.tokens_in, metrics.tokens_out) == tokens
    assert to_conversation(spans).messages[-1].content == ANSWER


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("RunResult(output='It\\'s \"warm\".', state='success', steps=[])", 'It\'s "warm".'),
        ('RunResult(output="It\'s warm.", state=', "It's warm."),
        ("RunResult(output=None, state='max_steps')", None),
        ("StopEvent(result=AgentOutput(response=ChatMessage(...", None),
        ('{"raw": "warm", "tasks_output": []}', "warm"),
        ('{"raw": "warm"}', None),
        ("Rome(warm) is fine", "Rome(warm) is fine"),
    ],
)
def test_the_answer_is_found_in_the_result_of_a_framework(output, answer):
    attributes = {"openinference.span.kind": "AGENT", "output.value": output}
    model = {"openinference.span.kind": "LLM", "input.value": '["ChatMessage(role=<MessageRole.USER>)"]'}
    spans = [
        Span("t", "1", name="run", attributes=attributes),
        Span("t", "2", name="chat", parent_id="1", attributes=model),
    ]
    assert to_agent_trace(spans).final_response == answer
