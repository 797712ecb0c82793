import pickle
from copy import copy, deepcopy
from dataclasses import FrozenInstanceError, replace

import pytest

from dokimos import AgentTrace, ToolCall

CALLS = (
    ToolCall("search", {"q": "a"}, result="3 found"),
    ToolCall("search", {"q": "b"}, result="none"),
    ToolCall("book", {"id": 3}),
)


def openai_call(identity, name, arguments):
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


CHAT = [
    {"role": "system", "content": "Help."},
    {"role": "user", "content": "Book it."},
    {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [openai_call("1", "search", '{"q": "a"}'), openai_call("2", "search", '{"q": "b"}')],
    },
    {"role": "tool", "tool_call_id": "2", "content": "none"},
    {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "3 found"}]},
    {"role": "assistant", "content": None, "tool_calls": [openai_call("3", "book", '{"id": 3}')]},
    {"role": "assistant", "content": "Done."},
]
RESPONSES = [
    {"role": "user", "content": "Book it."},
    {"type": "function_call", "call_id": "1", "id": "fc", "name": "search", "arguments": '{"q": "a"}'},
    {"type": "function_call", "call_id": "2", "id": "fd", "name": "search", "arguments": '{"q": "b"}'},
    {"type": "function_call_output", "call_id": "2", "output": "none"},
    {"type": "function_call_output", "call_id": "1", "output": "3 found"},
    {"type": "function_call", "call_id": "3", "name": "book", "arguments": '{"id": 3}'},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
]
ANTHROPIC = [
    {"role": "user", "content": "Book it."},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Let me see."},
            {"type": "tool_use", "id": "1", "name": "search", "input": {"q": "a"}},
            {"type": "tool_use", "id": "2", "name": "search", "input": {"q": "b"}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "2", "content": "none"},
            {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "3 found"}]},
        ],
    },
    {"role": "assistant", "content": [{"type": "tool_use", "id": "3", "name": "book", "input": {"id": 3}}]},
    {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
]


@pytest.mark.parametrize("messages", [CHAT, RESPONSES, ANTHROPIC], ids=["chat", "responses", "anthropic"])
def test_each_dialect_tells_the_same_trace_with_results_by_id(messages):
    assert AgentTrace.from_messages(messages) == AgentTrace(CALLS, "Done.")


def test_text_before_the_last_call_is_no_final_response():
    assert AgentTrace.from_messages(CHAT[:-1]).final_response is None


def test_an_id_that_a_later_turn_repeats_belongs_to_the_latest_call():
    messages = [
        {"role": "assistant", "tool_calls": [openai_call("1", "a", "{}")]},
        {"role": "tool", "tool_call_id": "1", "content": "first"},
        {"role": "assistant", "tool_calls": [openai_call("1", "b", "{}")]},
        {"role": "assistant", "tool_calls": [openai_call("1", "c", "{}")]},
        {"role": "tool", "tool_call_id": "1", "content": "third"},
        {"role": "tool", "tool_call_id": "1", "content": "of nobody"},
    ]
    assert [call.result for call in AgentTrace.from_messages(messages).tool_calls] == ["first", None, "third"]


@pytest.mark.parametrize("flag", [{"is_error": True}, {"status": "error"}])
def test_a_reported_error_is_kept_in_the_metadata(flag):
    messages = [
        {"role": "assistant", "tool_calls": [openai_call("1", "a", "{}")]},
        {"role": "tool", "tool_call_id": "1", "content": "no such id", **flag},
    ]
    (call,) = AgentTrace.from_messages(messages).tool_calls
    assert (call.result, call.metadata) == ("no such id", {"error": True})


def test_a_structured_result_becomes_compact_json():
    messages = [
        {"role": "assistant", "tool_calls": [openai_call("1", "a", "{}")]},
        {"role": "tool", "tool_call_id": "1", "content": {"rows": [1, 2]}},
    ]
    assert AgentTrace.from_messages(messages).tool_calls[0].result == '{"rows":[1,2]}'


def test_no_messages_are_an_empty_trace():
    assert AgentTrace.from_messages([]) == AgentTrace()


def test_tool_names_are_each_told_once():
    assert AgentTrace.from_messages(CHAT).tool_names == ("search", "book")


@pytest.mark.parametrize("text", ["{city: Paris", "[1]", "Paris", '"Paris"', "null", "[" * 5000])
def test_arguments_that_are_no_json_object_are_kept_as_they_are(text):
    call = ToolCall.of_text("a", text)
    assert (call.arguments, call.invalid_arguments) == ({}, text)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        (" \n", {}),
        ("{}", {}),
        (' {"a": 1.0, "b": [true, null]} ', {"a": 1.0, "b": [True, None]}),
        (r'{"a": "\ud83d\ude00 \ud800"}', {"a": "😀 \ud800"}),
        ('{"n": 123456789012345678901234567890}', {"n": 123456789012345678901234567890}),
    ],
)
def test_arguments_are_read_from_json_text(text, arguments):
    call = ToolCall.of_text("a", text)
    assert (call.arguments, call.invalid_arguments) == (arguments, None)


def test_a_call_without_a_name_is_refused():
    with pytest.raises(ValueError, match="needs a name"):
        ToolCall.of_text(" ", "{}")


@pytest.mark.parametrize(
    "told",
    [
        {"name": "search", "arguments": {"q": "a"}},
        {"name": "search", "arguments": '{"q": "a"}'},
        {"name": "search", "args": {"q": "a"}, "id": "1"},
        {"type": "tool_use", "name": "search", "input": {"q": "a"}},
        openai_call("1", "search", '{"q": "a"}'),
    ],
)
def test_a_call_is_read_from_every_dialect(told):
    assert ToolCall.from_map(told) == ToolCall("search", {"q": "a"})


class TestToldAlike:
    def test_calls_read_from_one_text_are_told_alike(self):
        first, second = ToolCall.of_text("a", '{"n": 1}'), ToolCall.of_text("b", '{"n": 1}')
        assert first.has_same_arguments_text(second)
        assert first.arguments is not second.arguments

    @pytest.mark.parametrize(
        "other",
        [
            ToolCall.of_text("a", '{"n":1}'),
            ToolCall("a", {"n": 1}),
            replace(ToolCall.of_text("a", '{"n": 1}')),
        ],
    )
    def test_any_other_call_says_nothing(self, other):
        call = ToolCall.of_text("a", '{"n": 1}')
        assert not call.has_same_arguments_text(other)
        assert not other.has_same_arguments_text(call)
        assert call == other

    @pytest.mark.parametrize("result", [None, "x"])
    def test_the_text_is_no_part_of_the_call(self, result):
        call = ToolCall.of_text("a", '{"n": 1}', result=result, metadata={"m": 1})
        plain = ToolCall("a", {"n": 1}, result=result, metadata={"m": 1})
        assert type(call) is ToolCall
        for same in (copy(call), deepcopy(call), pickle.loads(pickle.dumps(call))):
            assert (same, repr(same)) == (plain, repr(plain))
        with pytest.raises(FrozenInstanceError):
            call.name = "b"

    def test_a_subclass_can_be_made_of_text(self):
        class Traced(ToolCall):
            span = "1"

        assert type(Traced.of_text("a", '{"n": 1}')) is Traced


def test_a_call_that_is_no_map_is_refused():
    with pytest.raises(ValueError, match="A tool call must be a map"):
        AgentTrace.from_messages([{"role": "assistant", "content": "", "tool_calls": ["search"]}])
