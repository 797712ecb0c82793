"""The messages that spans repeat, of which only new ones are looked at."""

from hypothesis import given
from hypothesis import strategies as st

from dokimos._messages.neutral import NeutralMessage
from dokimos.traces._transcript import History

ROLES = st.sampled_from(["system", "user", "assistant"])
MESSAGES = st.tuples(ROLES, st.sampled_from("ab")).map(lambda fields: NeutralMessage(*fields))


@given(st.lists(st.lists(MESSAGES, max_size=5).map(tuple), max_size=6))
def test_a_history_is_split_as_if_it_were_new(histories):
    history = History()
    for inputs in histories:
        assert history.split(inputs) == History().split(inputs)
        assert history.messages == [message for message in inputs if message.role != "system"]
