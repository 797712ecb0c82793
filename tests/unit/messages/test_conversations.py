"""What each provider's messages tell: as a trace, as a conversation, and what is refused."""

import pytest

from dokimos import AgentTrace, ConversationTrajectory, Message, ToolCall

SUNNY = ToolCall("weather", {"city": "Paris"}, result="18C")
FAILED = ToolCall("news", {"city": "Rome"}, result="no such city", metadata={"error": True})
TALK = (Message.user("Weather?"), Message.assistant("It is 18C.", [SUNNY, FAILED]))


def read(*messages):
    return ConversationTrajectory.from_messages(messages).messages


def calls_of(*messages):
    trace = AgentTrace.from_messages(messages)
    assert trace.tool_calls == ConversationTrajectory.from_messages(messages).tool_calls
    return trace.tool_calls


def gemini(call="functionCall", response="functionResponse", **identity):
    """Write the conversation as Gemini does, in the spelling of its JSON or of its SDK."""
    first, second = (({"id": name} if identity.get("ids") else {}) for name in ("c1", "c2"))
    return [
        {"role": "user", "parts": [{"text": "Weather?"}]},
        {
            "role": "model",
            "parts": [
                {"text": "The user asks for two things.", "thought": True},
                {call: {**first, "name": "weather", "args": {"city": "Paris"}}, "thoughtSignature": "x"},
                {call: {**second, "name": "news", "args": {"city": "Rome"}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {response: {**second, "name": "news", "response": {"error": "no such city"}}},
                {response: {**first, "name": "weather", "response": {"output": "18C"}}},
            ],
        },
        {"role": "model", "parts": [{"text": "It is 18C."}]},
    ]


@pytest.mark.parametrize(
    "messages",
    [gemini(), gemini(ids=True), gemini("function_call", "function_response", ids=True)],
    ids=["without ids", "with ids", "as the SDK spells it"],
)
def test_gemini_is_read(messages):
    assert read(*messages) == TALK
    trace = AgentTrace.from_messages(messages)
    assert (trace.tool_calls, trace.final_response) == ((SUNNY, FAILED), "It is 18C.")
    assert trace.reasoning_steps == ("The user asks for two things.",)


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"result": {"degrees": 18}}, '{"degrees":18}'),
        ({"degrees": 18, "output": "x"}, '{"degrees":18,"output":"x"}'),
        ("18C", "18C"),
        ({}, "{}"),
    ],
)
def test_a_response_of_gemini_is_unwrapped_where_it_is_wrapped(response, text):
    (call,) = calls_of(
        {"role": "model", "parts": [{"functionCall": {"name": "a"}}]},
        {"role": "function", "parts": [{"functionResponse": {"name": "a", "response": response}}]},
    )
    assert call == ToolCall("a", result=text)


def test_code_that_gemini_runs_is_a_call():
    code = {"language": "PYTHON", "code": "1 / 0"}
    (call,) = calls_of(
        {
            "role": "model",
            "parts": [
                {"executableCode": code},
                {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "ZeroDivisionError"}},
            ],
        },
    )
    assert call == ToolCall("code_execution", code, result="ZeroDivisionError", metadata={"error": True})


def test_bedrock_is_read():
    messages = [
        {"role": "user", "content": [{"text": "Weather?"}]},
        {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Ask both."}}},
                {"toolUse": {"toolUseId": "c1", "name": "weather", "input": {"city": "Paris"}}},
                {"toolUse": {"toolUseId": "c2", "name": "news", "input": {"city": "Rome"}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "toolResult": {
                        "toolUseId": "c2",
                        "content": [{"text": "no such city"}],
                        "status": "error",
                    }
                },
                {"toolResult": {"toolUseId": "c1", "content": [{"text": "18C"}]}},
            ],
        },
        {"role": "assistant", "content": [{"text": "It is 18C."}, {"cachePoint": {"type": "default"}}]},
    ]
    assert read(*messages) == TALK
    assert AgentTrace.from_messages(messages).reasoning_steps == ("Ask both.",)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"json": {"degrees": 18}}], '{"degrees":18}'),
        ([{"text": "18"}, {"text": "C"}], "18\nC"),
        ([{"text": "18"}, {"json": {}}], '[{"text":"18"},{"json":{}}]'),
        ([], "[]"),
    ],
)
def test_blocks_of_a_result_become_text(content, text):
    (call,) = calls_of(
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "1", "name": "a", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "1", "content": content}}]},
    )
    assert call.result == text


@pytest.mark.parametrize(
    ("item", "call"),
    [
        (
            {"type": "web_search_call", "id": "1", "status": "completed", "action": {"query": "Paris"}},
            ToolCall("web_search", {"query": "Paris"}),
        ),
        (
            {
                "type": "file_search_call",
                "id": "1",
                "queries": ["a", "b"],
                "results": [{"text": "Found."}],
                "status": "completed",
            },
            ToolCall("file_search", {"queries": ["a", "b"]}, result="Found."),
        ),
        (
            {
                "type": "code_interpreter_call",
                "id": "1",
                "code": "1 / 0",
                "outputs": [{"type": "logs", "logs": "ZeroDivisionError"}],
                "status": "failed",
            },
            ToolCall(
                "code_interpreter",
                {"code": "1 / 0"},
                result='[{"type":"logs","logs":"ZeroDivisionError"}]',
                metadata={"error": True},
            ),
        ),
        (
            {
                "type": "mcp_call",
                "id": "1",
                "name": "roll",
                "arguments": '{"sides": 6}',
                "server_label": "dice",
                "output": "4",
            },
            ToolCall("roll", {"sides": 6}, result="4"),
        ),
        (
            {"type": "mcp_call", "id": "1", "name": "roll", "arguments": "{}", "error": "gone"},
            ToolCall("roll", metadata={"error": "gone"}),
        ),
        (
            {"type": "custom_tool_call", "call_id": "1", "name": "sql", "input": "SELECT 1"},
            ToolCall("sql", {"input": "SELECT 1"}),
        ),
        (
            {"type": "image_generation_call", "id": "1", "result": "aGk="},
            ToolCall("image_generation", result="aGk="),
        ),
        (
            {"type": "local_shell_call", "call_id": "1", "action": {"type": "exec", "command": ["ls"]}},
            ToolCall("local_shell", {"type": "exec", "command": ["ls"]}),
        ),
    ],
)  # fmt: skip
def test_a_tool_that_openai_hosts_is_a_call(item, call):
    assert calls_of({"role": "user", "content": "?"}, item) == (call,)


@pytest.mark.parametrize(
    ("call", "output"),
    [
        ("computer_call", "computer_call_output"),
        ("local_shell_call", "local_shell_call_output"),
        ("apply_patch_call", "apply_patch_call_output"),
        ("custom_tool_call", "custom_tool_call_output"),
        ("function_call", "function_call_output"),
    ],
)
def test_items_that_answer_a_call_find_it_by_id(call, output):
    (made,) = calls_of(
        {"type": call, "call_id": "1", "id": "i", "name": "it", "action": {"type": "click"}},
        {"type": output, "call_id": "1", "id": "o", "output": "done"},
    )
    assert made.result == "done"


def test_items_that_call_nothing_and_say_nothing_are_left_out():
    items = [
        {"type": "mcp_list_tools", "id": "1", "server_label": "dice", "tools": []},
        {"type": "mcp_approval_request", "id": "2", "name": "roll", "arguments": "{}"},
        {"type": "item_reference", "id": "3"},
        {"type": "reasoning", "id": "4", "summary": []},
    ]
    assert read(*items) == ()


def test_tools_that_anthropic_hosts_are_calls():
    content = [
        {"type": "server_tool_use", "id": "1", "name": "web_search", "input": {"query": "Paris"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "1",
            "content": [{"type": "web_search_result", "url": "u"}],
        },
        {"type": "mcp_tool_use", "id": "2", "name": "roll", "input": {}, "server_name": "dice"},
        {
            "type": "mcp_tool_result",
            "tool_use_id": "2",
            "is_error": True,
            "content": [{"type": "text", "text": "4"}],
        },
        {"type": "text", "text": "Done."},
    ]  # fmt: skip
    (message,) = read({"role": "assistant", "content": content})

    assert AgentTrace.from_messages([{"role": "assistant", "content": content}]).final_response == "Done."
    assert message == Message.assistant(
        "Done.",
        [
            ToolCall("web_search", {"query": "Paris"}, result='[{"type":"web_search_result","url":"u"}]'),
            ToolCall("roll", result="4", metadata={"error": True}),
        ],
    )


def test_tools_of_the_chat_api_that_take_free_text_are_calls():
    call = {"id": "1", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}

    assert calls_of({"role": "assistant", "content": None, "tool_calls": [call]}) == (
        ToolCall("sql", {"input": "SELECT 1"}),
    )


def test_functions_of_the_first_chat_api_are_answered_by_name():
    (call,) = calls_of(
        {"role": "assistant", "content": None, "function_call": {"name": "a", "arguments": "{}"}},
        {"role": "function", "name": "a", "content": "18C"},
    )
    assert call == ToolCall("a", result="18C")


@pytest.mark.parametrize(
    "form", ["openai", "openai-responses", "anthropic", "gemini", "bedrock", "langchain", "otel"]
)
def test_arguments_that_are_no_object_survive_every_form(form):
    talk = ConversationTrajectory(
        [Message.assistant("?", [ToolCall.of_text("a", '{"city": Par', result="x")])]
    )

    assert ConversationTrajectory.from_messages(talk.to_messages(form)) == talk


def test_apis_that_take_only_objects_are_given_one():
    talk = ConversationTrajectory([Message.assistant("", [ToolCall.of_text("a", "{oops")])])
    wrapped = {"INVALID_JSON": "{oops"}

    assert talk.to_messages("anthropic")[0]["content"][0]["input"] == wrapped
    assert talk.to_messages("bedrock")[0]["content"][0]["toolUse"]["input"] == wrapped
    assert talk.to_messages("gemini")[0]["parts"][0]["functionCall"]["args"] == wrapped
    assert talk.to_messages("langchain")[0]["tool_calls"][0]["args"] == wrapped


def test_calls_that_langchain_could_not_parse_are_read():
    call = {"type": "invalid_tool_call", "id": "1", "name": "a", "args": "{oops", "error": "no JSON"}

    (read,) = calls_of({"role": "ai", "content": "", "tool_calls": [], "invalid_tool_calls": [call]})

    assert (read.name, read.invalid_arguments) == ("a", "{oops")


def test_what_somebody_says_is_never_taken_for_parts():
    said = '[{"type": "text", "text": "hidden"}]'

    assert read({"role": "assistant", "content": said}) == (Message.assistant(said),)


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("Hello", "must be a map with role and content"),
        ({"role": "critic"}, "the role must be user, assistant, system or tool, not 'critic'"),
        ({"content": "?"}, "the role must be"),
        ({"type": "text", "text": "?"}, "the role must be"),
        ({"role": "user", "content": 3}, "the content must be text or a list of parts, not 3"),
        ({"role": "assistant", "content": "", "tool_calls": 3}, "'tool_calls' must be a list, not 3"),
        ({"role": "assistant", "content": "", "tool_calls": ["a"]}, "A tool call must be a map, not 'a'"),
        ({"role": "assistant", "content": "", "tool_calls": [{"name": " "}]}, "name that is not blank"),
        ({"role": "assistant", "content": [{"type": "tool_use", "input": {}}]}, "needs a name"),
        (
            {"role": "assistant", "tool_calls": [{"name": "a", "args": [1]}]},
            "The arguments of tool call 'a' must be a mapping or JSON text, not list",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("target", [AgentTrace, ConversationTrajectory])
def test_what_is_no_message_is_refused_with_its_place(message, fault, target):
    with pytest.raises(ValueError, match=r"messages\[1\]:? ") as raised:
        target.from_messages([{"role": "user", "content": "Hi"}, message])
    assert fault in str(raised.value)
