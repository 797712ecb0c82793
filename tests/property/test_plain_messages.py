"""Messages told the way most are take a shorter way through the readers, to the same end."""

import json

from hypothesis import given
from hypothesis import strategies as st

from dokimos import AgentTrace, ConversationTrajectory

IDS = st.sampled_from(["", "1", "2", "3"])
ARGUMENTS = st.one_of(
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2).map(json.dumps),
    st.sampled_from(["", "[1]", "no JSON"]),
)
CALLS = st.builds(
    lambda identity, name, arguments: {
        "id": identity,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    },
    IDS,
    st.sampled_from(["search", "book"]),
    ARGUMENTS,
)
MESSAGES = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {"role": st.sampled_from(["user", "assistant", "system"]), "content": st.text(max_size=5)}
        ),
        st.fixed_dictionaries(
            {"role": st.just("tool"), "tool_call_id": IDS, "content": st.sampled_from(["", "fine", "[]"])}
        ),
        st.fixed_dictionaries(
            {
                "role": st.just("assistant"),
                "content": st.sampled_from([None, ""]),
                "tool_calls": st.lists(CALLS, min_size=1, max_size=3),
            }
        ),
    ),
    max_size=8,
)


def more(message):
    """Say the same with keys that readers know nothing of, so that it is not told the way most are."""
    return {**message, "logprobs": None, "annotations": None}


@given(MESSAGES)
def test_a_trace_does_not_depend_on_the_way_it_is_read(messages):
    assert AgentTrace.from_messages(messages) == AgentTrace.from_messages(map(more, messages))


@given(MESSAGES)
def test_a_conversation_does_not_depend_on_the_way_it_is_read(messages):
    plain, longer = (ConversationTrajectory.from_messages(m) for m in (messages, list(map(more, messages))))
    assert plain == longer
