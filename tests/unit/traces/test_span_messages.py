"""Messages in the shapes of all providers and frameworks."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos._messages.neutral import NeutralCall, NeutralMessage, NeutralResult
from dokimos.traces._span_messages import MessageCache, parse_messages, render_result

CALL = NeutralCall("add", {"a": 1}, "c1")
ASKED = NeutralMessage("user", "1 + 2?")
CALLED = NeutralMessage("assistant", calls=(CALL,))


def result(value="3", identity="c1", name="", failed=False):
    return NeutralMessage("tool", result=NeutralResult(value, identity, name, failed))


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "1 + 2?"},
        {"role": "user", "content": [{"type": "text", "text": "1 + 2?"}]},
        {"role": "user", "content": ["1 + 2?"]},
        {"role": "user", "content": '[{"text": "1 + 2?"}]'},
        {"role": "user", "parts": [{"type": "text", "content": "1 + 2?"}]},
        {"role": "user", "parts": [{"text": "1 + 2?"}]},
        {"role": "human", "content": "1 + 2?"},
        {"type": "human", "content": "1 + 2?"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "1 + 2?"}]},
        {"type": "human", "data": {"content": "1 + 2?", "type": "human"}},
        {"lc": 1, "type": "constructor", "kwargs": {"content": "1 + 2?", "type": "human"}},
        {"message": {"role": "user", "contents": [{"message_content": {"type": "text", "text": "1 + 2?"}}]}},
        "1 + 2?",
    ],
)
def test_a_text_is_read_in_every_shape(message):
    assert parse_messages([message]) == (ASKED,)
    assert parse_messages(json.dumps([message])) == (ASKED,)


@pytest.mark.parametrize(
    "message",
    [
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "add", "arguments": {"a": 1}}],
        },
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}}],
        },
        {
            "role": "assistant",
            "content": [{"toolUse": {"toolUseId": "c1", "name": "add", "input": {"a": 1}}}],
        },
        {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "add", "args": {"a": 1}}}]},
        {"role": "model", "parts": [{"function_call": {"id": "c1", "name": "add", "args": {"a": 1}}}]},
        {
            "role": "assistant",
            "tool_calls": [{"id": "c1", "function": {"name": "add", "arguments": {"a": 1}}}],
        },
        {"role": "ai", "content": "", "tool_calls": [{"id": "c1", "name": "add", "args": {"a": 1}}]},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": {"a": 1}},
        {"type": "tool_call", "id": "c1", "name": "add", "arguments": {"a": 1}},
        {"type": "function", "id": "c1", "function": {"name": "add", "arguments": {"a": 1}}},
        {"tool_calls": [{"tool_call": {"id": "c1", "function": {"name": "add", "arguments": {"a": 1}}}}]},
        {
            "role": "assistant",
            "parts": [
                {
                    "type": "server_tool_call",
                    "id": "c1",
                    "name": "add",
                    "server_tool_call": {"type": "sum", "a": 1},
                }
            ],
        },
    ],
)
def test_a_call_is_read_in_every_shape(message):
    assert parse_messages([message], "assistant") == (CALLED,)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "3"}]},
        {"role": "user", "parts": [{"type": "tool_call_response", "id": "c1", "result": "3"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "3"},
        {"role": "tool", "id": "c1", "content": "3"},
        {"type": "tool", "tool_call_id": "c1", "content": "3", "status": "success"},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "3"}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": "3"}}]},
        {"role": "user", "parts": [{"functionResponse": {"id": "c1", "response": "3"}}]},
        {"type": "function_call_output", "call_id": "c1", "output": "3"},
    ],
)
def test_a_result_is_read_in_every_shape(message):
    assert parse_messages([message]) == (result(),)


@pytest.mark.parametrize(
    "failed",
    [
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "3", "is_error": True}],
        },
        {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": "3", "status": "error"}}]},
        {"type": "tool", "tool_call_id": "c1", "content": "3", "status": "error"},
    ],
)
def test_a_result_that_says_so_has_failed(failed):
    assert parse_messages([failed]) == (result(failed=True),)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "parts": [{"type": "reasoning", "content": "Add them."}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Add them."}]},
        {"role": "assistant", "content": [{"reasoningContent": {"reasoningText": {"text": "Add them."}}}]},
        {"role": "assistant", "content": None, "reasoning_content": "Add them."},
        {"role": "thinking", "content": "Add them."},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Add them."}]},
    ],
)
def test_reasoning_is_read_in_every_shape(message):
    assert parse_messages([message]) == (NeutralMessage("assistant", reasoning=("Add them.",)),)


@pytest.mark.parametrize(
    "wrapper",
    [
        {"messages": [{"role": "user", "content": "1 + 2?"}]},
        {"choices": [{"index": 0, "message": {"role": "user", "content": "1 + 2?"}}]},
        {"message": "1 + 2?"},
        [[{"role": "user", "content": "1 + 2?"}]],
    ],
)
def test_wrappers_are_looked_into(wrapper):
    assert parse_messages(wrapper) == (ASKED,)


def test_results_in_a_message_of_the_user_come_before_what_the_user_says():
    content = [
        {"type": "tool_result", "tool_use_id": "c1", "content": "3"},
        {"type": "text", "text": "1 + 2?"},
    ]

    assert parse_messages([{"role": "user", "content": content}]) == (result(), ASKED)


def test_what_the_assistant_says_in_pieces_is_one_message():
    pieces = [
        {"type": "reasoning", "summary": [{"text": "Add them."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me add."}]},
        {"type": "function_call", "call_id": "c1", "name": "add", "arguments": {"a": 1}},
        {"type": "function_call", "call_id": "c2", "name": "add", "arguments": "{}"},
    ]
    calls = (CALL, NeutralCall("add", "{}", "c2"))

    assert parse_messages(pieces, "assistant") == (
        NeutralMessage("assistant", "Let me add.", calls, reasoning=("Add them.",)),
    )


@pytest.mark.parametrize("text", ['{"question": 1}', "[1, 2]", "[draft] a letter", "{not json", "true"])
def test_a_text_that_looks_like_json_stays_a_text(text):
    assert parse_messages(text) == (NeutralMessage("user", text),)


def test_json_that_somebody_said_stays_what_was_said():
    message = {"role": "assistant", "content": '[{"city": "Paris"}]'}

    assert parse_messages([message]) == (NeutralMessage("assistant", '[{"city": "Paris"}]'),)


@pytest.mark.parametrize("nothing", [None, "", " ", [], {}, 3, [None, 3], [{"role": "user"}], b"bytes"])
def test_an_empty_value_is_not_a_message(nothing):
    assert parse_messages(nothing) == ()


def test_unknown_parts_and_calls_without_a_name_are_left_out():
    parts = [
        {"type": "blob", "content": "aGk="},
        {"type": "tool_call", "id": "c1"},
        {"type": "text", "content": "Hi"},
    ]

    assert parse_messages([{"role": "user", "parts": parts}]) == (NeutralMessage("user", "Hi"),)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("booked", "booked"),
        ("", ""),
        ({"b": 1, "a": [1.5]}, '{"b":1,"a":[1.5]}'),
        ('{ "b": 1,\n "a": [1.5] }', '{"b":1,"a":[1.5]}'),
        ("{broken", "{broken"),
        ("12", "12"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ([{"type": "text", "text": '{"a": 1}'}], '{"a":1}'),
        ([{"city": "Paris"}], '[{"city":"Paris"}]'),
        (True, "true"),
    ],
)
def test_a_result_has_one_text_whether_it_was_recorded_as_structure_or_as_json(value, expected):
    assert render_result(value) == expected


HISTORY = [
    {"role": "user", "parts": [{"type": "text", "content": "Hi"}]},
    {"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "find", "arguments": {"q": 1}}]},
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": [1, 2]}]},
    {"role": "assistant", "parts": [{"type": "text", "content": "Done"}], "finish_reason": "stop"},
    {"role": "user", "parts": [{"type": "text", "content": "Thanks ]"}]},
]


@given(
    st.lists(st.tuples(st.integers(0, len(HISTORY)), st.integers(0, len(HISTORY))), max_size=6),
    st.sampled_from([None, 2]),
    st.sampled_from(["", " ", "\n"]),
)
def test_a_history_that_grows_shrinks_or_changes_is_parsed_as_if_it_were_new(slices, indent, end):
    cache = MessageCache()
    for start, stop in slices:
        text = json.dumps(HISTORY[start:stop], indent=indent) + end
        assert parse_messages(text, cache=cache) == parse_messages(text)


@pytest.mark.parametrize(
    "text", ['[{"role": "user", "content": "a"},]', '[{"role": "user", "content": "a"}, {]']
)
def test_a_continuation_that_is_not_json_is_no_history(text):
    cache = MessageCache()
    parse_messages('[{"role": "user", "content": "a"}]', cache=cache)
    assert parse_messages(text, cache=cache) == parse_messages(text)


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "content": "", "more": 1},
        {"type": "text", "content": ["a"]},
        {"type": "tool_call", "id": None, "name": "find", "arguments": None},
        {"type": "tool_call", "id": "1", "name": " ", "arguments": {}},
        {"type": "tool_call", "id": "1", "name": "find", "arguments": "{}", "error": "no"},
        {"type": "tool_call_response", "id": "1", "response": None},
        {"type": "reasoning", "content": "hm"},
        "text",
    ],
)
@pytest.mark.parametrize("role", ["user", "assistant", "tool", "model", "developer", "judge"])
def test_parts_of_conventional_messages_mean_the_same_beside_a_key_that_is_unknown(role, part):
    message = {"role": role, "parts": [{"type": "text", "content": "Hi"}, part]}
    assert parse_messages([message]) == parse_messages([{**message, "unknown": None}])


def test_thoughts_are_no_answer_in_any_form():
    message = {"role": "thinking", "parts": [{"type": "text", "content": "hidden"}]}
    [parsed] = parse_messages([message])
    assert (parsed.text, parsed.reasoning) == ("", ("hidden",))


def test_a_history_ends_where_json_does():
    cache = MessageCache()
    parse_messages("[1]", cache=cache)
    assert cache.load("[1]\u00a0") == "[1]\u00a0"
