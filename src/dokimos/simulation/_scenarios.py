"""Many conversations through an ordinary experiment: each example is a scenario, the task simulates it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, cast

from dokimos._core.conversation import Application, ConversationTrajectory
from dokimos._core.example import Example
from dokimos._core.jsonable import camel_case
from dokimos._core.keys import INPUT
from dokimos._core.task_marker import takes_example
from dokimos._core.task_result import TaskResult
from dokimos._core.text import shorten
from dokimos.errors import ConfigurationError, SimulationError
from dokimos.experiment._task import Task, task_name
from dokimos.judges._protocol import JudgeLike, JudgeLM, as_judge, identity_of
from dokimos.simulation._personas import PERSONAS, Persona
from dokimos.simulation._sides import SimulatedUser
from dokimos.simulation._simulator import ERROR, ConversationSimulator, StoppingCondition
from dokimos.simulation._users import ORDINARY, Facts, GoalDrivenUser, LLMSimulatedUser, ScriptedUser

MAX_QUOTED_TRANSCRIPT: Final = 1500


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One conversation to simulate, as data: what it is about and who the user is.

    With a script the user is a `ScriptedUser`, with a goal a `GoalDrivenUser`, else an `LLMSimulatedUser`.
    """

    description: str = ""
    """What the conversation is about; in an example, its input."""
    persona: str = ""
    """The name of a built-in persona, or a description of another one."""
    guidelines: str = ""
    goal: str = ""
    facts: Facts = ()
    script: tuple[str, ...] = ()
    fixed_responses: tuple[str, ...] = ()
    initial_message: str = ""
    max_turns: int | None = None
    """The limit of the simulation unless given."""

    def __post_init__(self) -> None:
        # YAML and JSON have lists; the value is frozen, and is compared and shared between conversations.
        for name in ("facts", "script", "fixed_responses"):
            if isinstance(getattr(self, name), list):
                object.__setattr__(self, name, tuple(getattr(self, name)))

    @classmethod
    def of(cls, example: Example) -> Scenario:
        """Read the scenario from an example's inputs, whose keys are field names in snake or camel case."""
        values: dict[str, Any] = {"description": example.input or ""}
        for name in (f.name for f in fields(cls)):
            value = example.inputs.get(camel_case(name), example.inputs.get(name))
            if value is not None:
                values[name] = value
        return cls(**values)

    def to_example(
        self, expected_outputs: Mapping[str, Any] | None = None, *, id: str | None = None, **metadata: object
    ) -> Example:
        """Return the scenario as an example for a data set."""
        inputs: dict[str, Any] = {INPUT: self.description}
        for name in (f.name for f in fields(self) if f.name != "description"):
            value = getattr(self, name)
            # What is not set is not written, so that a new field changes no fingerprint of existing data
            # sets.
            if value:
                inputs[camel_case(name)] = list(value) if isinstance(value, tuple) else value
        return Example(inputs, expected_outputs or {}, metadata=metadata, id=id)

    def user(self, judge: JudgeLike | None) -> SimulatedUser:
        """Return the user of this scenario. Raises `ConfigurationError` if a judge is missing."""
        if self.script:
            return ScriptedUser(self.script)
        if judge is None:
            raise ConfigurationError(
                "A user without a script needs a judge, such as judge='openai:gpt-5-mini'."
            )
        character = PERSONAS.get(self.persona) or Persona(self.persona or ORDINARY, "")
        guidelines = "\n".join(part for part in (character.guidelines, self.guidelines) if part)
        settings: dict[str, Any] = {
            "judge": judge,
            "persona": character.description,
            "guidelines": guidelines,
            "fixed_responses": self.fixed_responses,
        }
        if self.goal:
            return GoalDrivenUser(goal=self.goal, facts=self.facts, **settings)
        return LLMSimulatedUser(**settings)


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """A task of an experiment that simulates a conversation for each example.

    Its outputs are those of an agent, over the whole conversation, and the conversation under "trajectory".
    If the conversation fails, the task raises `SimulationError`, which holds the conversation until then.
    """

    application: Application | None = None
    """The application under test. Give this or `application_for`."""
    application_for: Callable[[Example], Application] | None = None
    """Returns an application for each conversation, if it keeps state."""
    judge: JudgeLike | None = None
    """The model that plays the users that the examples describe."""
    user: SimulatedUser | None = None
    """One user for all examples, instead of those that they describe."""
    user_for: Callable[[Example], SimulatedUser] | None = None
    """Returns a user for each example."""
    max_turns: int = 10
    """The most turns of a conversation whose scenario sets no limit."""
    stopping_condition: StoppingCondition | None = None
    reply_timeout: float | None = None
    """Seconds that either side may take for one message."""
    timeout: float | None = None
    """Seconds that a conversation may take; unlike the experiment's timeout it keeps the messages so far."""

    def __post_init__(self) -> None:
        if (self.application is None) == (self.application_for is None):
            raise ConfigurationError("A simulation needs either an application or application_for.")
        if self.user is not None and self.user_for is not None:
            raise ConfigurationError("A simulation takes either a user or user_for, not both.")
        # Two applications, or two models as the user, are two tasks: a run of one cannot resume the other.
        parts = [task_name(cast("Task", self.application or self.application_for))]
        if self.judge is not None:
            object.__setattr__(self, "judge", as_judge(self.judge))
            parts.append(identity_of(cast("JudgeLM", self.judge)))
        object.__setattr__(self, "__qualname__", f"Simulation({', '.join(parts)})")

    @takes_example
    async def __call__(self, example: Example) -> TaskResult:
        """Simulate the conversation of an example. Raises `SimulationError` if it fails."""
        outcome = await self.simulator(example).play()
        if ERROR in outcome.trajectory.metadata:
            raise SimulationError(_describe_break(outcome.trajectory), outcome.trajectory) from outcome.cause
        return TaskResult(outcome.trajectory.to_outputs(), outcome.metrics)

    def simulator(self, example: Example) -> ConversationSimulator:
        """Return the simulator of an example's conversation."""
        scenario = Scenario.of(example)
        application = self.application_for(example) if self.application_for else self.application
        assert application is not None, "checked when the simulation was made"
        return ConversationSimulator(
            user=self._user(example, scenario),
            application=application,
            max_turns=self.max_turns if scenario.max_turns is None else scenario.max_turns,
            scenario=scenario.description,
            initial_message=scenario.initial_message,
            stopping_condition=self.stopping_condition,
            reply_timeout=self.reply_timeout,
            timeout=self.timeout,
        )

    def _user(self, example: Example, scenario: Scenario) -> SimulatedUser:
        if self.user_for is not None:
            return self.user_for(example)
        return self.user or scenario.user(self.judge)


def _describe_break(trajectory: ConversationTrajectory) -> str:
    """Return what ended a conversation early, with its transcript."""
    problem = trajectory.metadata[ERROR]
    if not trajectory.messages:
        return f"{problem}\nNothing had been said."
    return f"{problem}\nThe conversation until then:\n{shorten(trajectory.to_text(), MAX_QUOTED_TRANSCRIPT)}"
