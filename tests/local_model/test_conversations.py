"""Conversations with a real, small model as the user, and judged by it.

Runs when DOKIMOS_TEST_MODEL_URL holds the base URL of an OpenAI-compatible server; a name after `#` chooses
the model. What is tested is that a weak model keeps the forms; how well it plays, people see with -rP.
"""

from __future__ import annotations

import os

import pytest

from dokimos._core.test_case import EvalTestCase
from dokimos.evaluators import Trajectory
from dokimos.judges._factory import judge as judge_named
from dokimos.simulation import ConversationSimulator, GoalDrivenUser, persona_user

URL = os.environ.get("DOKIMOS_TEST_MODEL_URL", "")
pytestmark = [
    pytest.mark.local_model,
    pytest.mark.skipif(not URL, reason="set DOKIMOS_TEST_MODEL_URL to the base URL of a model server"),
]


@pytest.fixture(scope="module")
def model():
    url, _, name = URL.partition("#")
    return judge_named(f"{url}#{name or 'local'}", temperature=0, max_tokens=200, timeout=900)


def shop(trajectory):
    said = trajectory.last_user_message.content
    if "A-17" in said:
        return "Order A-17 arrives on Monday."
    return "Please tell me your order number."


def test_a_user_with_a_persona_talks(model):
    talk = ConversationSimulator(
        user=persona_user("impatient_user", model),
        application=shop,
        scenario="The user's parcel is late; the assistant works for the shop.",
        initial_message="Where is my parcel?",
        max_turns=2,
    ).simulate()
    print(talk.to_text())

    assert talk.metadata["endReason"] == "max_turns"
    assert all(message.content.strip() for message in talk.user_messages)


def test_a_user_with_a_goal_tells_what_it_is_asked_for(model):
    talk = ConversationSimulator(
        user=GoalDrivenUser(
            judge=model,
            goal="Know on which day the parcel arrives.",
            facts={"order number": "A-17"},
            fixed_responses=("When does my parcel arrive?",),
        ),
        application=shop,
        scenario="The user's parcel is late; the assistant works for the shop.",
        max_turns=4,
    ).simulate()
    print(talk.to_json())

    assert "error" not in talk.metadata
    assert any("A-17" in message.content for message in talk.user_messages)

    result = Trajectory(criteria=("goal_completion",), judge=model).evaluate(
        EvalTestCase({}, {"trajectory": talk})
    )
    print(result.score, result.reason)
    assert result.error is None
