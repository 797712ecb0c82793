"""However a simulated conversation goes, it has the shape of one, and what was said is kept."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from dokimos.simulation import ConversationSimulator, EndReason, ScriptedUser

scripts = st.lists(st.sampled_from(["a", "b", ""]), max_size=6)
limits = st.none() | st.integers(0, 10)


def held(script, max_turns, initial, stop_at, fail_at):
    async def application(trajectory):
        if trajectory.turn_count == fail_at:
            raise ValueError("no")
        return f"reply {trajectory.turn_count}"

    simulator = ConversationSimulator(
        user=ScriptedUser(script),
        application=application,
        max_turns=max_turns,
        initial_message=initial,
        stopping_condition=lambda trajectory: len(trajectory.messages) == stop_at,
    )
    return asyncio.run(simulator.simulate_async())


@given(scripts, st.integers(1, 5), st.sampled_from(["", "Hi"]), limits, limits)
def test_the_sides_alternate_and_the_end_has_its_reason(script, max_turns, initial, stop_at, fail_at):
    talk = held(script, max_turns, initial, stop_at, fail_at)

    roles = [str(message.role) for message in talk.messages]
    assert roles == (["user", "assistant"] * max_turns)[: len(roles)]
    said = ([initial] if initial else []) + script
    assert [message.content for message in talk.user_messages] == said[: len(talk.user_messages)]
    expected = {
        EndReason.MAX_TURNS: len(roles) == 2 * max_turns,
        EndReason.STOPPING_CONDITION: len(roles) == stop_at,
        EndReason.USER_DONE: len(talk.user_messages) == len(said),
        EndReason.ERROR: talk.turn_count == fail_at and roles[-1:] == ["user"],
    }
    assert expected[EndReason(talk.metadata["endReason"])]
    assert ("error" in talk.metadata) is (talk.metadata["endReason"] == "error")
