"""Google ADK, by what its objects look like."""

from types import SimpleNamespace

import pytest

from dokimos.integrations import google_adk


def event(*parts, author="helper", **more):
    return {"author": author, "content": {"parts": list(parts)}, **more}


def call(identity, **args):
    return {"function_call": {"id": identity, "name": "get", "args": args}}


def response(identity, value):
    return {"function_response": {"id": identity, "name": "get", "response": value}}


@pytest.mark.parametrize(
    ("value", "result", "error"),
    [
        ({"result": "warm"}, "warm", None),
        ({"result": {"n": 1}}, '{"n":1}', None),
        ({"error": "no"}, '{"error":"no"}', "no"),
        ({"error": None, "n": 1}, '{"error":null,"n":1}', None),
        ({"a": 1, "result": 2}, '{"a":1,"result":2}', None),
    ],
)
def test_responses_are_read_in_every_form(value, result, error):
    (made,) = google_adk.to_agent_trace([event(call("1")), event(response("1", value))]).tool_calls

    assert (made.result, made.metadata.get("error")) == (result, error)


def test_pieces_of_a_stream_and_the_words_of_the_user_are_left_out():
    session = {
        "events": [
            event({"text": "Why?"}, author="user"),
            event({"text": "Be"}, partial=True, usage_metadata={"prompt_token_count": 9}),
            event({"text": "Hm.", "thought": True}, {"text": "Because."}),
        ]
    }
    trace = google_adk.to_agent_trace(session)

    assert (trace.final_response, trace.reasoning_steps) == ("Because.", ("Hm.",))
    assert google_adk.to_call_metrics(session) is None


def test_thoughts_are_written_tokens_whether_or_not_they_are_counted_apart():
    apart = {
        "prompt_token_count": 10,
        "candidates_token_count": 5,
        "thoughts_token_count": 3,
        "total_token_count": 18,
    }
    within = {**apart, "candidates_token_count": 8}

    for usage in (apart, within):
        metrics = google_adk.to_call_metrics([event(usage_metadata=usage)])
        assert (metrics.tokens_out, metrics.reasoning_tokens_out) == (8, 3)
    assert google_adk.to_call_metrics([event(usage_metadata={"candidates_token_count": 5})]).tokens_out == 5


def test_schemas_of_gemini_become_json_schema():
    schema = {"type": "OBJECT", "properties": {"days": {"type": "ARRAY", "items": {"type": "INTEGER"}}}}
    value = SimpleNamespace(model_dump=lambda **options: {"name": "get", "parameters": schema})
    tool = SimpleNamespace(name="get", description="Get.", _get_declaration=lambda: value)
    hosted = SimpleNamespace(name="search", description="Find.", _get_declaration=lambda: None)

    (get, search) = google_adk.to_tool_definitions([tool, hosted])

    assert get.schema_of("days") == {"type": "array", "items": {"type": "integer"}}
    assert search.parameters == ()
