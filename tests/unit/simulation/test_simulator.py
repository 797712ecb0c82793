import asyncio
import threading

import pytest

from dokimos import AgentTrace, CallMetrics, ConversationTrajectory, Message, TaskResult, ToolCall
from dokimos.errors import BudgetExceededError, ConfigurationError
from dokimos.judges._budget import Budget, MemoryLedger
from dokimos.judges._run_scope import RunScope, enter_scope
from dokimos.simulation import ConversationSimulator, LLMSimulatedUser, ScriptedUser

ENDLESS = ScriptedUser(tuple(f"Question {number}" for number in range(1, 100)))


def echo(trajectory):
    return f"You said: {trajectory.last_user_message.content}"


def simulated(user=ENDLESS, application=echo, **settings):
    return ConversationSimulator(user=user, application=application, **settings).simulate()


def contents(trajectory):
    return [message.content for message in trajectory.messages]


class TestTurns:
    def test_the_user_begins_and_the_sides_take_turns(self):
        talk = simulated(max_turns=2, scenario="A test")

        assert talk.to_text() == (
            "Scenario: A test\n\nUSER: Question 1\n\nASSISTANT: You said: Question 1\n\n"
            "USER: Question 2\n\nASSISTANT: You said: Question 2"
        )
        assert talk.metadata == {"endReason": "max_turns"}

    def test_ten_turns_are_the_most_unless_said_otherwise(self):
        assert simulated().turn_count == 10

    def test_an_initial_message_takes_the_place_of_the_first_turn_of_the_user(self):
        talk = simulated(initial_message="Hello!", max_turns=2)

        assert contents(talk)[::2] == ["Hello!", "Question 1"]
        assert talk.messages[0].metadata == {"initial": True}

    def test_an_empty_initial_message_is_none(self):
        assert contents(simulated(initial_message="", max_turns=1))[0] == "Question 1"

    def test_both_sides_see_everything_said_so_far(self):
        seen = []

        def user(trajectory):
            seen.append(len(trajectory.messages))
            return "Hi"

        def application(trajectory):
            seen.append(len(trajectory.messages))
            return "Hello"

        simulated(user, application, max_turns=2)

        assert seen == [0, 1, 2, 3]

    def test_a_user_with_nothing_more_to_say_ends_the_conversation(self):
        talk = simulated(ScriptedUser(("One", "Two")))

        assert (talk.turn_count, talk.metadata["endReason"]) == (2, "user_done")

    def test_a_user_who_says_nothing_leaves_an_empty_conversation(self):
        talk = simulated(lambda trajectory: None)

        assert (talk.messages, talk.metadata) == ((), {"endReason": "user_done"})


class TestStopping:
    def test_the_condition_is_asked_after_each_message(self):
        seen = []

        def condition(trajectory):
            seen.append(len(trajectory.messages))
            return False

        simulated(stopping_condition=condition, max_turns=2)

        assert seen == [1, 2, 3, 4]

    @pytest.mark.parametrize("length", [1, 2, 3])
    def test_the_conversation_may_end_on_either_side(self, length):
        talk = simulated(stopping_condition=lambda trajectory: len(trajectory.messages) == length)

        assert len(talk.messages) == length
        assert talk.metadata == {"endReason": "stopping_condition"}

    def test_the_condition_is_asked_after_an_initial_message_too(self):
        talk = simulated(initial_message="Bye", stopping_condition=lambda trajectory: True)

        assert contents(talk) == ["Bye"]

    def test_the_condition_may_be_async(self):
        async def condition(trajectory):
            await asyncio.sleep(0)
            return len(trajectory.messages) == 2

        assert simulated(stopping_condition=condition).turn_count == 1

    def test_a_condition_that_blocks_holds_up_no_other_conversation(self):
        both_look = threading.Barrier(2)

        def condition(trajectory):
            both_look.wait(60)
            return True

        async def two_at_once():
            simulator = ConversationSimulator(user=ENDLESS, application=echo, stopping_condition=condition)
            return await asyncio.gather(simulator.simulate_async(), simulator.simulate_async())

        ends = [talk.metadata for talk in asyncio.run(two_at_once())]

        assert ends == [{"endReason": "stopping_condition"}] * 2

    def test_a_condition_has_as_long_as_a_reply(self):
        forever = threading.Event()

        talk = simulated(
            stopping_condition=lambda trajectory: forever.wait(30), initial_message="Hi", reply_timeout=0.1
        )

        forever.set()
        assert talk.metadata["endReason"] == "timeout"
        assert "stopping condition gave no answer within 0.1 s" in talk.metadata["error"]

    @pytest.mark.parametrize(
        ("state", "reason"), [("reached", "goal_reached"), ("given_up", "gave_up"), ("open", "max_turns")]
    )
    def test_a_message_that_settles_the_goal_is_the_last(self, state, reason):
        talk = simulated(lambda trajectory: Message.user("Well.", goal=state), max_turns=2)

        assert talk.metadata["endReason"] == reason
        assert len(talk.messages) == (4 if state == "open" else 1)

    def test_a_goal_can_be_settled_without_a_word(self):
        talk = simulated(lambda trajectory: Message.user("", goal="reached"), initial_message="Hi")

        assert contents(talk) == ["Hi", "You said: Hi"]
        assert talk.metadata["endReason"] == "goal_reached"

    def test_other_metadata_called_goal_do_no_harm(self):
        assert simulated(lambda trajectory: Message.user("Hi", goal=["x"]), max_turns=1).turn_count == 1


class TestSides:
    def test_sides_may_be_async(self):
        async def user(trajectory):
            await asyncio.sleep(0)
            return "Hi"

        async def application(trajectory):
            await asyncio.sleep(0)
            return "Hello"

        assert contents(simulated(user, application, max_turns=1)) == ["Hi", "Hello"]

    def test_sync_sides_run_in_threads_and_may_return_awaitables(self):
        names = []

        async def later(text):
            return text

        def user(trajectory):
            names.append(threading.current_thread().name)
            return later("Hi")

        def application(trajectory):
            names.append(threading.current_thread().name)
            return later("Hello")

        talk = simulated(user, application, max_turns=1)

        assert contents(talk) == ["Hi", "Hello"]
        assert all(name.startswith("dokimos-call") for name in names)

    @pytest.mark.parametrize(
        "reply",
        [
            "Sunny.",
            Message.assistant("Sunny."),
            AgentTrace((), "Sunny."),
            TaskResult({"output": "Sunny."}, CallMetrics(5, 2)),
            {"output": "Sunny.", "toolCalls": []},
        ],
    )
    def test_a_reply_is_text_or_anything_that_a_task_returns(self, reply):
        talk = simulated(application=lambda trajectory: reply, max_turns=1)

        assert talk.messages[1] == Message.assistant("Sunny.")

    def test_a_streamed_reply_is_joined(self):
        assert simulated(application=lambda trajectory: iter(["Sun", "ny."]), max_turns=1).messages[1] == (
            Message.assistant("Sunny.")
        )

    def test_tool_calls_and_other_outputs_stay_with_the_reply(self):
        calls = [{"name": "weather", "arguments": {"city": "Oslo"}}]
        talk = simulated(
            application=lambda trajectory: {"output": "Rain.", "toolCalls": calls, "context": ["Wet."]},
            max_turns=1,
        )

        assert talk.messages[1] == Message.assistant(
            "Rain.", [ToolCall("weather", {"city": "Oslo"})], context=["Wet."]
        )

    def test_a_message_of_the_user_is_taken_with_its_metadata(self):
        talk = simulated(lambda trajectory: Message.user("Hi", mood="good"), max_turns=1)

        assert talk.messages[0].metadata == {"mood": "good"}

    def test_simulating_works_where_a_loop_is_running(self):
        async def main():
            inside = simulated(max_turns=1)
            simulator = ConversationSimulator(user=ENDLESS, application=echo, max_turns=1)
            return inside == await simulator.simulate_async()

        assert asyncio.run(main())


class TestFailures:
    def test_a_failing_application_ends_the_conversation_which_is_kept(self):
        def application(trajectory):
            if trajectory.turn_count == 1:
                raise ValueError("no connection")
            return "Hello"

        talk = simulated(application=application)

        assert contents(talk) == ["Question 1", "Hello", "Question 2"]
        assert talk.metadata == {
            "endReason": "error",
            "error": "The application failed in turn 2: ValueError: no connection",
        }

    def test_a_failing_user_ends_the_conversation_which_is_kept(self):
        def user(trajectory):
            return "Hi" if not trajectory.messages else 1 / 0

        talk = simulated(user)

        assert contents(talk) == ["Hi", "You said: Hi"]
        assert talk.metadata["error"].startswith(
            "The simulated user failed in turn 2: ZeroDivisionError: division"
        )

    def test_a_failing_stopping_condition_ends_the_conversation_which_is_kept(self):
        talk = simulated(stopping_condition=lambda trajectory: {}["key"])

        assert contents(talk) == ["Question 1"]
        assert talk.metadata["error"] == "The stopping condition failed in turn 1: KeyError: 'key'"

    @pytest.mark.parametrize("error", [TimeoutError("upstream"), SystemExit(3), asyncio.CancelledError()])
    @pytest.mark.parametrize("timeout", [None, 60])
    def test_whatever_a_side_raises_is_its_failure(self, error, timeout):
        async def application(trajectory):
            raise error

        talk = simulated(application=application, reply_timeout=timeout)

        assert talk.metadata["endReason"] == "error"
        assert type(error).__name__ in talk.metadata["error"]

    @pytest.mark.parametrize(
        ("reply", "problem"),
        [
            (None, "returned None"),
            (Message.user("Hi"), "a message of the assistant, not of the user"),
            ({}, "text or a message"),
            ({"toolCalls": 5}, "must be a list of tool calls"),
        ],
    )
    def test_what_is_no_reply_is_a_failure_of_the_application(self, reply, problem):
        talk = simulated(application=lambda trajectory: reply)

        assert len(talk.messages) == 1
        assert problem in talk.metadata["error"]

    @pytest.mark.parametrize("said", [5, Message.assistant("Hi"), {"output": "Hi"}])
    def test_what_a_user_cannot_say_is_a_failure_of_the_user(self, said):
        talk = simulated(lambda trajectory: said)

        assert "must return text, a user message or None" in talk.metadata["error"]

    def test_a_spent_budget_is_no_failure_of_a_side(self):
        async def main():
            enter_scope(RunScope(budget=MemoryLedger(Budget(max_calls=1))))
            user = LLMSimulatedUser(judge=lambda prompt: "Hi")
            simulator = ConversationSimulator(user=user, application=echo, reply_timeout=60)
            return await simulator.simulate_async()

        with pytest.raises(BudgetExceededError):
            asyncio.run(main())


class TestTimeouts:
    @pytest.mark.parametrize("kind", ["sync", "async", "stubborn"])
    def test_a_reply_that_takes_too_long_ends_the_conversation_which_is_kept(self, kind):
        release = threading.Event()

        def sync(trajectory):
            release.wait(60)

        async def slow(trajectory):
            await asyncio.sleep(60)

        async def stubborn(trajectory):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                await asyncio.sleep(0.05)
                return "At last"

        application = {"sync": sync, "async": slow, "stubborn": stubborn}[kind]
        talk = simulated(application=application, initial_message="Hi", reply_timeout=0.1)
        release.set()

        assert contents(talk) == ["Hi"]
        assert talk.metadata["endReason"] == "timeout"
        assert talk.metadata["error"] == (
            "The application gave no answer within 0.1 s; it ended in turn 1, waiting for the application."
        )

    def test_a_slow_user_is_named(self):
        async def user(trajectory):
            await asyncio.sleep(60)

        assert "The simulated user gave no answer" in simulated(user, reply_timeout=0.1).metadata["error"]

    def test_the_whole_conversation_has_a_limit(self):
        async def application(trajectory):
            await asyncio.sleep(0.05)
            return "Hm"

        talk = simulated(application=application, timeout=0.2, max_turns=100)

        assert talk.metadata["endReason"] == "timeout"
        assert talk.metadata["error"].startswith("The conversation took longer than 0.2 s; it ended in turn ")
        assert talk.turn_count <= 4

    def test_being_cancelled_is_no_failure(self):
        async def application(trajectory):
            await asyncio.sleep(60)

        async def main():
            simulator = ConversationSimulator(user=ENDLESS, application=application, reply_timeout=60)
            call = asyncio.create_task(simulator.simulate_async())
            await asyncio.sleep(0.01)
            call.cancel()
            await call

        with pytest.raises(asyncio.CancelledError):
            asyncio.run(main())


class TestConfiguration:
    @pytest.mark.parametrize(
        ("settings", "problem"),
        [
            ({"max_turns": 0}, "max_turns must be a whole number of at least 1"),
            ({"max_turns": 2.5}, "max_turns must be a whole number"),
            ({"user": None}, "user must be callable"),
            ({"application": "gpt"}, "application must be callable"),
            ({"stopping_condition": True}, "stopping_condition must be callable"),
            ({"timeout": 0}, "timeout must be more than 0 seconds"),
            ({"reply_timeout": True}, "reply_timeout must be more than 0 seconds"),
        ],
    )
    def test_wrong_settings_are_refused(self, settings, problem):
        with pytest.raises(ConfigurationError, match=problem):
            ConversationSimulator(**{"user": ENDLESS, "application": echo, **settings})


class TestCosts:
    def test_replies_add_up_and_the_users_calls_are_counted_apart(self):
        from dokimos.judges._protocol import JudgeReply

        def model(prompt):
            return JudgeReply("Hi", CallMetrics(100, 10, cost_usd=0.001))

        def application(trajectory):
            return TaskResult({"output": "Hello"}, CallMetrics(7, 3, latency_ms=5.0))

        simulator = ConversationSimulator(
            user=LLMSimulatedUser(judge=model), application=application, max_turns=2
        )
        outcome = asyncio.run(simulator.play())

        assert outcome.metrics == CallMetrics(14, 6, latency_ms=10.0)
        assert outcome.trajectory.metadata["userMetrics"] == {
            "tokensIn": 200,
            "tokensOut": 20,
            "costUsd": 0.002,
        }

    def test_a_user_without_a_model_has_no_costs(self):
        assert "userMetrics" not in simulated(max_turns=1).metadata


def test_the_transcript_of_a_simulation_is_read_back_as_json():
    from dokimos._core.wire import from_json

    talk = simulated(max_turns=2, scenario="A test")

    assert from_json(ConversationTrajectory, talk.to_json()) == talk


def test_outputs_of_the_application_may_have_any_names():
    talk = simulated(
        application=lambda talk: {"output": "Hi", "content": "x", "tool_calls": 1, "cls": 2}, max_turns=1
    )

    assert talk.last_message == Message(
        "assistant", "Hi", metadata={"content": "x", "tool_calls": 1, "cls": 2}
    )


def test_a_clock_that_wakes_too_early_does_not_lose_the_conversation(monkeypatch):
    async def early(seconds, call):
        call.close()
        raise TimeoutError

    monkeypatch.setattr("dokimos.simulation._simulator.wait_at_most", early)
    talk = simulated(timeout=60, initial_message="Hello")

    assert contents(talk) == ["Hello"]
    assert talk.metadata["error"].startswith("The conversation took longer than 60 s")
