"""A conversation survives its JSON form and the messages of every form that can tell it whole."""

from hypothesis import given
from hypothesis import strategies as st

from dokimos import AgentTrace, ConversationTrajectory, Message, ToolCall
from dokimos._core.conversation import parse_trajectory
from dokimos._core.json_object import parse_object
from dokimos._core.keys import CALL_ERROR
from dokimos._core.wire import from_json, to_json, to_tree

FORMS = ["openai", "openai-responses", "anthropic", "gemini", "bedrock", "langchain", "otel"]
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
said = texts.filter(str.strip)
payloads = st.dictionaries(texts, st.none() | st.booleans() | st.integers() | texts, max_size=2)
valid_calls = st.builds(ToolCall, said, payloads, result=texts)
no_objects = texts.filter(str.strip).filter(lambda text: parse_object(text) is None)
invalid_calls = st.builds(ToolCall.of_text, said, no_objects, result=texts)
calls = valid_calls | invalid_calls
messages = st.one_of(
    st.builds(Message.user, said),
    st.builds(Message.system, said),
    st.builds(Message.assistant, said, st.lists(calls, max_size=3)),
)
conversations = st.builds(ConversationTrajectory, st.lists(messages, max_size=6), texts, metadata=payloads)


@given(conversations)
def test_a_conversation_is_read_back_from_its_json(conversation):
    assert from_json(ConversationTrajectory, to_json(conversation)) == conversation
    assert from_json(ConversationTrajectory, conversation.to_json()) == conversation
    assert parse_trajectory(to_tree(conversation), key="trajectory") == conversation


@given(conversations, st.sampled_from(["openai", "openai-responses", "langchain", "otel"]))
def test_messages_are_read_back_from_every_form_that_holds_them_all(conversation, form):
    read = ConversationTrajectory.from_messages(conversation.to_messages(form))

    assert read.messages == conversation.messages


@given(conversations, st.sampled_from(["anthropic", "gemini", "bedrock"]))
def test_forms_without_system_messages_lose_nothing_else(conversation, form):
    read = ConversationTrajectory.from_messages(conversation.to_messages(form))

    assert read.messages == tuple(m for m in conversation.messages if m.role != "system")


def failed(call):
    return ToolCall(
        call.name, call.arguments, result=call.result, metadata={**call.metadata, CALL_ERROR: True}
    )


@given(
    st.lists(calls | calls.map(failed), max_size=4),
    st.sampled_from(["anthropic", "gemini", "bedrock", "langchain"]),
)
def test_failures_are_read_back_from_every_form_that_tells_them(made, form):
    talk = ConversationTrajectory([Message.assistant("Done", made)])

    assert ConversationTrajectory.from_messages(talk.to_messages(form)) == talk


@given(conversations, st.sampled_from(FORMS))
def test_a_trace_has_the_calls_of_the_conversation(conversation, form):
    trace = AgentTrace.from_messages(conversation.to_messages(form))

    assert trace.tool_calls == conversation.tool_calls


@given(conversations)
def test_every_call_belongs_to_one_turn(conversation):
    turns = conversation.turns()

    assert [turn.reply for turn in turns] == list(conversation.assistant_messages)
    assert conversation.tool_calls == tuple(call for turn in turns for call in turn.reply.tool_calls)
    assert all(turn.before == conversation.messages[: len(turn.before)] for turn in turns)
