import json

import pytest

from dokimos import ConversationTrajectory, Dataset, Example, Message, ToolCall, ToolDefinition, evaluate
from dokimos._core.conversation import Role, parse_trajectory
from dokimos._core.wire import from_json, to_json
from dokimos.errors import EvaluationError
from dokimos.evaluators import ToolErrors

WEATHER = ToolCall("get_weather", {"city": "Paris"}, result="18C, sunny")
HOTEL = ToolCall("book_hotel", {"city": "Paris"})
TRIP = ConversationTrajectory(
    [
        Message.system("You are a travel agent."),
        Message.user("What's the weather in Paris?"),
        Message.assistant("It's 18C and sunny.", [WEATHER]),
        Message.user("Book me a hotel there."),
        Message.assistant("Booked the Hotel Le Marais.", [HOTEL]),
        Message.user("Thanks!"),
        Message.assistant("You're all set!"),
    ],
    "A trip to Paris",
)


class TestMessage:
    def test_the_factories_give_the_three_roles(self):
        made = (Message.user("a"), Message.assistant("b"), Message.system("c"))

        assert [message.role for message in made] == [Role.USER, Role.ASSISTANT, Role.SYSTEM]

    def test_a_role_may_be_text(self):
        assert Message("user", "Hi") == Message.user("Hi")

    @pytest.mark.parametrize("content", [None, 5, ["Hi"]])
    def test_the_content_is_text(self, content):
        with pytest.raises(ValueError, match="content of a message must be text"):
            Message.user(content)

    def test_another_role_is_refused(self):
        with pytest.raises(ValueError, match="moderator"):
            Message("moderator", "Hi")

    def test_tool_calls_are_tool_calls(self):
        with pytest.raises(ValueError, match="must be ToolCalls"):
            Message.assistant("Hi", [{"name": "search"}])

    def test_other_keywords_are_metadata(self):
        assert Message.user("Hi", language="en").metadata == {"language": "en"}


class TestTrajectory:
    def test_messages_are_found_by_who_said_them(self):
        assert [m.content for m in TRIP.user_messages][-1] == "Thanks!"
        assert len(TRIP.assistant_messages) == 3
        assert TRIP.system_messages == TRIP.messages[:1]
        assert TRIP.system_prompt == "You are a travel agent."
        assert TRIP.last_message == TRIP.last_assistant_message == TRIP.messages[-1]
        assert TRIP.last_user_message == TRIP.messages[-2]

    def test_an_empty_conversation_has_no_last_message(self):
        empty = ConversationTrajectory()

        assert (empty.last_message, empty.last_user_message, empty.last_assistant_message) == (None,) * 3
        assert (empty.turn_count, empty.turns(), empty.to_text(), empty.system_prompt) == (0, (), "", "")

    def test_appending_leaves_the_conversation_as_it_was(self):
        longer = TRIP.with_message(Message.user("One more thing."))

        assert (len(TRIP.messages), len(longer.messages)) == (7, 8)
        assert (longer.scenario, longer.last_message.content) == (TRIP.scenario, "One more thing.")

    def test_a_turn_needs_both_sides(self):
        assert TRIP.turn_count == 3
        assert TRIP.with_message(Message.user("And?")).turn_count == 3
        assert ConversationTrajectory([Message.assistant("Hello!")]).turn_count == 0

    def test_messages_are_messages(self):
        with pytest.raises(ValueError, match="consists of Messages"):
            ConversationTrajectory([{"role": "user", "content": "Hi"}])

    def test_tool_calls_are_grouped_by_the_assistants_messages(self):
        assert TRIP.tool_calls_by_turn() == ((WEATHER,), (HOTEL,), ())
        assert TRIP.tool_calls == (WEATHER, HOTEL)

    def test_calls_of_others_than_the_assistant_do_not_count(self):
        odd = ConversationTrajectory([Message("user", "Hi", tool_calls=(WEATHER,))])

        assert odd.tool_calls == ()

    def test_a_turn_holds_all_that_the_user_said_since_the_last_reply(self):
        talk = ConversationTrajectory(
            [Message.assistant("Hello!"), Message.user("A"), Message.user("B"), Message.assistant("C")]
        )

        first, second = talk.turns()

        assert (first.user, first.reply.content, first.before) == (None, "Hello!", ())
        assert (second.index, second.user, second.before) == (1, "A\n\nB", talk.messages[:3])


class TestText:
    def test_the_transcript_has_scenario_roles_and_tool_calls(self):
        assert TRIP.to_text() == (
            "Scenario: A trip to Paris\n\n"
            "SYSTEM: You are a travel agent.\n\n"
            "USER: What's the weather in Paris?\n\n"
            'ASSISTANT: It\'s 18C and sunny.\n  [tool: get_weather({"city":"Paris"})]\n\n'
            "USER: Book me a hotel there.\n\n"
            'ASSISTANT: Booked the Hotel Le Marais.\n  [tool: book_hotel({"city":"Paris"})]\n\n'
            "USER: Thanks!\n\n"
            "ASSISTANT: You're all set!"
        )

    def test_tools_can_be_named_only_or_left_out(self):
        assert "\n  [tool: book_hotel]\n" in TRIP.to_text(tool_calls="names")
        assert "[tool" not in TRIP.to_text(tool_calls="none")

    def test_without_scenario_the_transcript_starts_with_the_first_message(self):
        assert ConversationTrajectory([Message.user("Hi \n")]).to_text() == "USER: Hi"

    def test_the_json_form_is_the_documented_one(self):
        tree = json.loads(TRIP.to_json())

        assert (tree["scenario"], tree["turnCount"], tree["metadata"]) == ("A trip to Paris", 3, {})
        assert tree["messages"][1] == {
            "role": "user",
            "content": "What's the weather in Paris?",
            "metadata": {},
        }
        assert tree["messages"][2]["toolCalls"] == [
            {"name": "get_weather", "arguments": {"city": "Paris"}, "result": "18C, sunny"}
        ]
        assert '\n  "messages"' in TRIP.to_json()

    def test_both_json_forms_are_read_back(self):
        assert from_json(ConversationTrajectory, TRIP.to_json()) == TRIP
        assert from_json(ConversationTrajectory, to_json(TRIP)) == TRIP


class TestCases:
    def test_the_agent_trace_has_all_calls_and_the_last_reply(self):
        trace = TRIP.to_agent_trace()

        assert (trace.tool_calls, trace.final_response) == ((WEATHER, HOTEL), "You're all set!")
        assert trace.metadata == {"scenario": "A trip to Paris", "turnCount": 3}
        assert ConversationTrajectory().to_agent_trace().final_response == ""

    def test_the_outputs_of_a_task_are_the_agents_and_the_conversation(self):
        assert TRIP.to_outputs() == {**TRIP.to_agent_outputs(), "trajectory": TRIP}
        assert TRIP.to_agent_outputs()["toolCalls"] == [WEATHER, HOTEL]

    def test_the_case_for_rules_has_the_last_user_message_as_input(self):
        case = TRIP.to_test_case()

        assert (case.input, case.actual_output, case.tool_calls) == (
            "Thanks!",
            "You're all set!",
            (WEATHER, HOTEL),
        )
        assert case.metadata == {}
        assert ConversationTrajectory().to_test_case().input is None

    def test_tools_go_into_the_metadata(self):
        tools = [ToolDefinition("get_weather")]

        assert TRIP.to_test_case(tools).metadata == {"tools": tools}

    def test_the_case_for_judges_names_tools_without_their_arguments(self):
        tools = [ToolDefinition("get_weather")]

        case = TRIP.to_test_case(tools, ["Check the weather"])

        assert case.input == TRIP.to_text(tool_calls="names")
        assert case.actual_outputs == {"toolCalls": [WEATHER, HOTEL]}
        assert case.metadata == {"tools": tools, "tasks": ["Check the weather"]}


class TestReading:
    @pytest.mark.parametrize(
        "value",
        [
            TRIP,
            json.loads(TRIP.to_json()),
            json.loads(to_json(TRIP)),
            {"messages": TRIP.messages, "scenario": TRIP.scenario},
        ],
    )
    def test_a_conversation_is_read_in_all_its_forms(self, value):
        assert parse_trajectory(value, key="talk") == TRIP

    @pytest.mark.parametrize("told", [to_json, ConversationTrajectory.to_json])
    def test_an_empty_conversation_is_read_back(self, told):
        empty = ConversationTrajectory(scenario="Nobody came")
        assert parse_trajectory(json.loads(told(empty)), key="talk") == empty
        assert parse_trajectory({}, key="talk") == ConversationTrajectory()

    def test_a_list_of_messages_is_a_conversation(self):
        assert parse_trajectory(TRIP.to_messages("openai")[1:2], key="talk").messages == TRIP.messages[1:2]

    @pytest.mark.parametrize(
        ("value", "problem"),
        [
            ("USER: Hi", "'talk' must be a conversation"),
            (5, "'talk' must be a conversation"),
            ({"messages": 5}, "'talk' must be a conversation"),
            ({"turns": []}, "'talk' must be a conversation"),
            ([{"role": "assistant", "content": "", "tool_calls": ["a"]}], "A tool call must be a map"),
            ([{"role": "assistant", "content": "", "tool_calls": "a"}], "'tool_calls' must be a list"),
            ([5], r"'talk': messages\[0\] must be a map"),
            ([{"role": "user", "content": "a"}, {"role": "boss", "content": "b"}], r"'talk': messages\[1\]"),
            ([{"role": "user", "content": 5}], "content must be text"),
            ([{"role": "assistant", "content": "", "tool_calls": [{"name": ""}]}], "needs a name"),
        ],
    )
    def test_anything_else_is_an_error_that_names_the_key(self, value, problem):
        with pytest.raises(EvaluationError, match=problem):
            parse_trajectory(value, key="talk")


@pytest.mark.parametrize("tasks", [None, "Book it"])
@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        ({"endReason": "error", "error": "ValueError: boom"}, "ValueError: boom"),
        ({"endReason": "timeout"}, "the conversation broke off (timeout)"),
        ({"endReason": "satisfied"}, None),
        ({}, None),
    ],
)
def test_a_conversation_that_broke_off_is_scored_by_nobody(metadata, error, tasks):
    talk = ConversationTrajectory((Message.user("Hi"), Message.assistant("Let me see")), metadata=metadata)
    assert talk.to_test_case(tasks=tasks).error == error
    result = evaluate(
        Dataset([Example.of("x")]), lambda example: talk, [ToolErrors()], journal=False, quiet=True
    )
    assert result.error_count == (error is not None)
    assert result.item_results[0].error == error
