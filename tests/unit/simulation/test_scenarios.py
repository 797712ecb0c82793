import asyncio
import json

import pytest

from dokimos import ConversationTrajectory, Dataset, Example, Experiment, TaskResult, evaluator
from dokimos._core.metrics import CallMetrics
from dokimos.errors import ConfigurationError, SimulationError
from dokimos.experiment._task import task_name
from dokimos.judges._protocol import JudgeReply
from dokimos.simulation import GoalDrivenUser, LLMSimulatedUser, Scenario, ScriptedUser, Simulation


def model(prompt):
    return "Hm."


def echo(trajectory):
    return f"Reply {len(trajectory.assistant_messages) + 1}"


@evaluator
def two_turns(outputs) -> bool:
    return outputs["trajectory"].turn_count == 2


class TestScenario:
    def test_a_script_makes_a_scripted_user_without_a_model(self):
        assert Scenario(script=["One"]).user(None) == ScriptedUser(("One",))

    def test_a_goal_makes_a_user_driven_by_it(self):
        user = Scenario(goal="A refund", facts={"order": 5}, persona="a sailor").user(model)

        assert isinstance(user, GoalDrivenUser)
        assert (user.goal, user.facts, user.persona) == ("A refund", {"order": 5}, "a sailor")

    def test_a_persona_is_a_name_or_a_description(self):
        ready = Scenario(persona="impatient_user", guidelines="- Write in French.").user(model)
        other = Scenario(persona="a sailor").user(model)

        assert isinstance(ready, LLMSimulatedUser)
        assert "in a great hurry" in ready.persona
        assert ready.guidelines.endswith("\n- Write in French.")
        assert (other.persona, other.guidelines) == ("a sailor", "")

    def test_a_user_played_by_a_model_needs_one(self):
        with pytest.raises(ConfigurationError, match="needs a judge"):
            Scenario(persona="a sailor").user(None)

    def test_a_scenario_is_read_back_from_its_example(self):
        scenario = Scenario(
            description="A late parcel", goal="Know when", facts={"order": "A-17"}, max_turns=3,
            initial_message="Hi", fixed_responses=["Well?"],
        )  # fmt: skip
        example = scenario.to_example({"output": "Monday"}, id="late", level="easy")

        assert example.inputs == {
            "input": "A late parcel",
            "goal": "Know when",
            "facts": {"order": "A-17"},
            "maxTurns": 3,
            "initialMessage": "Hi",
            "fixedResponses": ["Well?"],
        }
        assert (example.id, example.metadata, example.expected_output) == (
            "late",
            {"level": "easy"},
            "Monday",
        )
        assert Scenario.of(example) == scenario
        assert Scenario.of(Example(json.loads(json.dumps(example.inputs)))) == scenario

    def test_both_spellings_are_read(self):
        assert Scenario.of(Example({"input": "x", "initial_message": "Hi"})).initial_message == "Hi"


class TestSimulation:
    def test_scenarios_run_through_an_experiment(self):
        scenarios = [Scenario(description=f"Case {n}", script=("One", "Two")).to_example() for n in range(20)]

        result = Experiment(scenarios, Simulation(application=echo), [two_turns], parallelism=8).run(
            journal=False
        )

        assert result.pass_rate == 1.0
        item = result.runs[0].item_results[7]
        assert item.actual_outputs["output"] == "Reply 2"
        assert item.actual_outputs["trajectory"].scenario == "Case 7"

    def test_scenarios_come_from_a_file(self):
        rows = {"examples": [{"inputs": {"input": "A late parcel", "script": ["One", "Two"]}}]}

        result = Experiment(
            Dataset.from_json(text=json.dumps(rows)), Simulation(application=echo), [two_turns]
        ).run(journal=False)

        assert result.pass_rate == 1.0

    def test_the_scenario_says_how_long_to_go_on(self):
        simulation = Simulation(application=echo, judge=model, max_turns=4)

        assert simulation.simulator(Example({"input": "x"})).max_turns == 4
        assert simulation.simulator(Example({"input": "x", "maxTurns": 2})).max_turns == 2

    def test_the_metrics_are_those_of_the_application(self):
        def application(trajectory):
            return TaskResult({"output": "Hello"}, CallMetrics(7, 3, latency_ms=5.0))

        def costly(prompt):
            return JudgeReply("Hi", CallMetrics(1000, 1000))

        simulation = Simulation(application=application, judge=costly, max_turns=2)
        result = asyncio.run(simulation(Example.of("x")))

        assert result.metrics == CallMetrics(14, 6, latency_ms=10.0)
        assert result.outputs["trajectory"].metadata["userMetrics"] == {"tokensIn": 2000, "tokensOut": 2000}

    def test_one_user_or_one_for_each_example_replaces_the_data(self):
        def user_for(example):
            return ScriptedUser((f"I am {example.input}",))

        fixed = Simulation(application=echo, user=ScriptedUser(("Always me",)))
        made = Simulation(application=echo, user_for=user_for)

        def first(simulation):
            result = asyncio.run(simulation(Example.of("Ada")))
            return result.outputs["trajectory"].messages[0].content

        assert (first(fixed), first(made)) == ("Always me", "I am Ada")

    def test_each_conversation_can_have_an_application_of_its_own(self):
        def application_for(example):
            said = []

            def remembering(trajectory):
                said.append(trajectory.last_user_message.content)
                return f"{example.input}: {len(said)}"

            return remembering

        scenarios = [Scenario(description=name, script=("a", "b")).to_example() for name in "xyz"]
        result = Experiment(
            scenarios, Simulation(application_for=application_for), [two_turns], parallelism=3
        ).run(journal=False)

        assert [item.actual_outputs["output"] for item in result.runs[0].item_results] == [
            "x: 2",
            "y: 2",
            "z: 2",
        ]

    def test_a_conversation_that_breaks_off_is_an_errored_item_that_tells_what_was_said(self):
        def application(trajectory):
            if trajectory.turn_count == 1:
                raise ValueError("no connection")
            return "Hello"

        scenario = Scenario(script=("One", "Two")).to_example()
        result = Experiment([scenario], Simulation(application=application), [two_turns]).run(journal=False)

        (item,) = result.runs[0].item_results
        assert item.eval_results == ()
        assert item.error == (
            "SimulationError: The application failed in turn 2: ValueError: no connection\n"
            "The conversation until then:\nUSER: One\n\nASSISTANT: Hello\n\nUSER: Two"
        )

    def test_the_error_holds_the_conversation_and_its_cause(self):
        def application(trajectory):
            raise ValueError("no connection")

        simulation = Simulation(application=application, user=ScriptedUser(("One",)))
        with pytest.raises(SimulationError) as failure:
            asyncio.run(simulation(Example.of("x")))

        assert [message.content for message in failure.value.trajectory.messages] == ["One"]
        assert isinstance(failure.value.__cause__, ValueError)

    def test_a_user_that_fails_at_once_leaves_nothing_said(self):
        simulation = Simulation(application=echo, user=lambda trajectory: 1 / 0)

        with pytest.raises(SimulationError, match=r"division by zero\nNothing had been said\.$"):
            asyncio.run(simulation(Example.of("x")))

    def test_a_resumed_run_keeps_its_conversations(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        calls = []

        def application(trajectory):
            calls.append(1)
            return "Hello"

        seen = []

        @evaluator
        def turns(outputs) -> bool:
            seen.append(outputs["trajectory"])
            return True

        scenario = Scenario(script=("One", "Two")).to_example()
        plan = Experiment([scenario], Simulation(application=application), [turns])
        first = plan.run()
        Experiment([scenario], Simulation(application=application), [turns]).run(
            resume=first.provenance.run_id
        )

        assert len(calls) == 2
        assert isinstance(seen[0], ConversationTrajectory)

    def test_two_applications_or_two_judges_are_two_tasks(self):
        def other(said):
            return "Hello"

        simulations = [
            Simulation(application=echo),
            Simulation(application=other),
            Simulation(application=echo, judge=model),
            Simulation(application=echo, judge=other),
        ]

        assert len({task_name(simulation) for simulation in simulations}) == 4
        assert "echo" in task_name(simulations[0])

    @pytest.mark.parametrize(
        ("settings", "problem"),
        [
            ({}, "either an application or application_for"),
            ({"application": echo, "application_for": echo}, "either an application or application_for"),
            ({"application": echo, "user": echo, "user_for": echo}, "either a user or user_for"),
            ({"application": echo, "judge": 5}, "A judge must be a model"),
        ],
    )
    def test_wrong_settings_are_refused(self, settings, problem):
        with pytest.raises(ConfigurationError, match=problem):
            Simulation(**settings)


def test_a_task_may_return_a_conversation():
    talk = ConversationTrajectory.from_messages([{"role": "assistant", "content": "Hello"}])

    result = Experiment([Example.of("x")], lambda example: talk, [two_turns]).run(journal=False)

    assert result.runs[0].item_results[0].actual_outputs == talk.to_outputs()
