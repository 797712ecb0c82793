"""Conversations in the message forms of providers: what is written, and what is read."""

import json

import pytest

from dokimos import ConversationTrajectory, Message, ToolCall

CALLS = [
    ToolCall("weather", {"city": "Paris"}, result="18C"),
    ToolCall("news", result="no such city", metadata={"error": True}),
]
TALK = ConversationTrajectory(
    [
        Message.system("Be brief."),
        Message.user("Weather?"),
        Message.assistant("It is 18C.", CALLS),
        Message.user("Thanks"),
        Message.assistant("", [ToolCall("wave")]),
    ],
    "Never part of the messages",
)
EVERY = ["openai", "openai-responses", "anthropic", "gemini", "bedrock", "langchain", "otel"]


def test_openai_has_calls_then_results_then_the_text():
    _, _, called, first, second, said, *_ = TALK.to_messages()

    assert called == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "weather", "arguments": '{"city": "Paris"}'},
            },
            {"id": "call_2", "type": "function", "function": {"name": "news", "arguments": "{}"}},
        ],
    }
    assert first == {"role": "tool", "tool_call_id": "call_1", "content": "18C"}
    assert second["tool_call_id"] == "call_2"
    assert said == {"role": "assistant", "content": "It is 18C."}


def test_a_message_that_only_calls_tools_has_no_empty_text_after_it():
    assert TALK.to_messages("openai")[-2:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_3", "type": "function", "function": {"name": "wave", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "call_3", "content": ""},
    ]


def test_an_empty_message_without_calls_is_kept():
    assert ConversationTrajectory([Message.user("")]).to_messages() == [{"role": "user", "content": ""}]


def test_responses_has_calls_as_items():
    items = TALK.to_messages("openai-responses")

    assert items[2] == {
        "type": "function_call",
        "call_id": "call_1",
        "name": "weather",
        "arguments": '{"city": "Paris"}',
    }
    assert items[4] == {"type": "function_call_output", "call_id": "call_1", "output": "18C"}


def test_anthropic_has_blocks_and_the_system_prompt_elsewhere():
    messages = TALK.to_messages("anthropic")

    assert [message["role"] for message in messages] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert messages[1]["content"][0] == {
        "type": "tool_use",
        "id": "call_1",
        "name": "weather",
        "input": {"city": "Paris"},
    }
    assert messages[2]["content"][1] == {
        "type": "tool_result",
        "tool_use_id": "call_2",
        "content": "no such city",
        "is_error": True,
    }
    assert TALK.system_prompt == "Be brief."


def test_gemini_has_parts():
    messages = TALK.to_messages("gemini")

    assert messages[0] == {"role": "user", "parts": [{"text": "Weather?"}]}
    assert messages[1]["parts"][0]["functionCall"]["args"] == {"city": "Paris"}
    assert messages[2]["parts"][0]["functionResponse"]["response"] == {"output": "18C"}
    assert messages[2]["parts"][1]["functionResponse"]["response"] == {"error": "no such city"}


def test_bedrock_has_statuses():
    messages = TALK.to_messages("bedrock")

    assert messages[0] == {"role": "user", "content": [{"text": "Weather?"}]}
    assert [block["toolResult"]["status"] for block in messages[2]["content"]] == ["success", "error"]


def test_langchain_has_its_own_roles():
    messages = TALK.to_messages("langchain")

    assert [message["role"] for message in messages[:6]] == ["system", "human", "ai", "tool", "tool", "ai"]
    assert messages[2]["tool_calls"][0]["args"] == {"city": "Paris"}
    assert (messages[3].get("status"), messages[4]["status"]) == (None, "error")


def test_otel_has_parts_with_types():
    messages = TALK.to_messages("otel")

    assert messages[1] == {"role": "user", "parts": [{"type": "text", "content": "Weather?"}]}
    assert messages[3]["parts"] == [{"type": "tool_call_response", "id": "call_1", "result": "18C"}]


@pytest.mark.parametrize("form", EVERY)
def test_every_form_is_json_without_the_scenario(form):
    assert "Never" not in json.dumps(TALK.to_messages(form))


def test_an_unknown_form_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="Unknown message format 'cohere'; the formats are openai"):
        TALK.to_messages("cohere")


def read(*messages):
    return ConversationTrajectory.from_messages(messages).messages


def test_results_find_their_calls_by_id_and_not_by_order():
    calls = [{"id": name, "function": {"name": name, "arguments": "{}"}} for name in ("a", "b")]

    (message,) = read(
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "b", "content": "of b"},
        {"role": "tool", "tool_call_id": "nobody", "content": "lost"},
    )

    assert [call.result for call in message.tool_calls] == [None, "of b"]


@pytest.mark.parametrize(
    ("names", "answered", "results"),
    [
        (["a"], {}, ["18C"]),
        (["a"], {"name": "a"}, ["18C"]),
        (["a"], {"name": "b"}, [None]),
        (["a", "b"], {}, [None, None]),
        (["a", "b"], {"name": "b"}, [None, "18C"]),
        (["a", "a"], {"name": "a"}, [None, None]),
    ],
)
def test_a_result_without_an_id_goes_to_the_only_call_that_it_can_belong_to(names, answered, results):
    (message,) = read(
        {"role": "assistant", "content": "", "tool_calls": [{"name": name, "args": {}} for name in names]},
        {"role": "tool", "content": "18C", **answered},
    )

    assert [call.result for call in message.tool_calls] == results


def test_a_result_without_an_id_answers_no_call_of_an_earlier_turn():
    message, _ = read(
        {"role": "assistant", "content": "", "tool_calls": [{"name": "a", "args": {}}]},
        {"role": "user", "content": "And?"},
        {"role": "tool", "content": "18C"},
    )

    assert message.tool_calls == (ToolCall("a"),)


def test_an_id_that_comes_again_belongs_to_the_latest_call():
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "x", "name": "a", "args": {}}]}
    answer = {"role": "tool", "tool_call_id": "x"}

    first, _, second = read(
        call, {**answer, "content": "1"}, {"role": "user", "content": "?"}, call, {**answer, "content": "2"}
    )

    assert (first.tool_calls[0].result, second.tool_calls[0].result) == ("1", "2")


def test_several_rounds_of_calls_become_one_message_with_its_text():
    def call(name):
        return {"role": "assistant", "content": None, "tool_calls": [{"id": name, "name": name, "args": {}}]}

    (message,) = read(
        call("a"),
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        call("b"),
        {"role": "ai", "content": "Done"},
    )

    assert (message.content, [c.name for c in message.tool_calls]) == ("Done", ["a", "b"])
    assert message.tool_calls[0].result == "1"


def test_text_before_a_call_stays_a_message_of_its_own():
    first, second = read(
        {"role": "assistant", "content": "Let me see.", "tool_calls": [{"id": "a", "name": "a", "args": {}}]},
        {"role": "assistant", "content": "Done"},
    )

    assert (first.content, second.content, second.tool_calls) == ("Let me see.", "Done", ())


def test_parts_of_text_are_joined_and_others_left_out():
    (message,) = read({"role": "user", "content": ["a", {"type": "text", "text": "b"}, {"type": "image"}]})

    assert message.content == "a\nb"


def test_a_result_in_blocks_is_their_text_and_a_structured_one_json():
    calls = [{"type": "tool_use", "id": name, "name": name, "input": {}} for name in ("a", "b")]
    answers = [
        {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "18C"}]},
        {"type": "tool_result", "tool_use_id": "b", "content": {"degrees": 18}},
    ]

    (message,) = read({"role": "assistant", "content": calls}, {"role": "user", "content": answers})

    assert [call.result for call in message.tool_calls] == ["18C", '{"degrees":18}']


def test_what_a_model_thought_is_no_message():
    talk = ConversationTrajectory.from_messages(
        [
            {"role": "user", "content": "Hi"},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]},
        ]
    )
    assert talk.messages == (Message.user("Hi"), Message.assistant("Hello"))


@pytest.mark.parametrize(
    ("given", "returned", "failed"),
    [
        ("args", {"result": {"degrees": 18}}, False),
        ("args", {"result": {"degrees": 18}, "isError": True}, True),
        ("input", {"output": {"type": "json", "value": {"degrees": 18}}}, False),
        ("input", {"output": {"type": "text", "value": '{"degrees":18}'}}, False),
        (
            "input",
            {"output": {"type": "content", "value": [{"type": "text", "text": '{"degrees":18}'}]}},
            False,
        ),
        ("input", {"output": {"type": "error-json", "value": {"degrees": 18}}}, True),
    ],
)
def test_calls_and_results_of_the_ai_sdk_are_read_in_all_versions(given, returned, failed):
    call = {"type": "tool-call", "toolCallId": "c1", "toolName": "weather", given: {"city": "Oslo"}}
    answer = {"type": "tool-result", "toolCallId": "c1", "toolName": "weather", **returned}

    message, last = read(
        {"role": "assistant", "content": [{"type": "text", "text": "Let me see."}, call]},
        {"role": "tool", "content": [answer]},
        {"role": "assistant", "content": [{"type": "text", "text": "18"}]},
    )

    (made,) = message.tool_calls
    assert (made.name, made.arguments, made.result) == ("weather", {"city": "Oslo"}, '{"degrees":18}')
    assert ("error" in made.metadata) is failed
    assert last.content == "18"


def test_a_call_of_the_ai_sdk_that_was_not_allowed_has_failed():
    call = {"type": "tool-call", "toolCallId": "c1", "toolName": "pay", "input": {}}
    denied = {
        "type": "tool-result",
        "toolCallId": "c1",
        "output": {"type": "execution-denied", "reason": "No."},
    }

    (message,) = read({"role": "assistant", "content": [call]}, {"role": "tool", "content": [denied]})

    assert (message.tool_calls[0].result, message.tool_calls[0].metadata["error"]) == ("No.", True)
