"""How good an agent's plan was, whether it kept to it, and whether it took needless steps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from dokimos._core.keys import INPUT, PLAN, TOOL_CALLS, TOOLS, input_of
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos.evaluators._agent.base import find_tools, read_calls, require_keys
from dokimos.evaluators._agent.prompt_sections import calls_section, output_section, plan_of, tools_section
from dokimos.evaluators._llm.base import JudgedEvaluator
from dokimos.evaluators._llm.case_sections import render_value, section
from dokimos.evaluators._llm.rating import Scale, rate, rating_prompt
from dokimos.evaluators._setting_checks import check_text


@dataclass(frozen=True, kw_only=True)
class RatedRun(JudgedEvaluator):
    """The base of the evaluators that have a judge rate a run from 1 to 5, which becomes 0..1. One call."""

    method_source = "Questions and levels defined by dokimos; rated as in Zheng et al. (2023)."

    requires: ClassVar[tuple[str, ...]] = ("input",)
    question: ClassVar[str]
    """What the judge is asked."""
    levels: ClassVar[tuple[str, str, str, str, str]]
    """What the scores from 1 to 5 mean."""

    input_key: str = INPUT
    """The key of what the user said in the inputs."""
    include_reason: bool = True
    """Whether to ask for a reason; without one, replies are shorter and judged less carefully."""
    threshold: float | None = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require_keys(self, inputs="input_key")

    async def judge_case(self, case: EvalTestCase, *, sample: int) -> Score:
        user_input = section("User Input", render_value(input_of(case.inputs, self.input_key)))
        material = "\n".join(part for part in (user_input, *self.material(case)) if part)
        prompt = rating_prompt(self.question, material, self._scale, reasoned=self.include_reason)
        return await rate(self.lm, prompt, self._scale, reasoned=self.include_reason, sample=sample)

    def material(self, case: EvalTestCase) -> tuple[str, ...]:
        """Return what the judge is shown beside the user's input."""
        raise NotImplementedError(f"{type(self).__name__} must implement material(case).")

    @cached_property
    def _scale(self) -> Scale:
        return Scale(1, 5, levels=dict(enumerate(self.levels, 1)))


@dataclass(frozen=True, kw_only=True)
class PlanQuality(RatedRun):
    """How good the agent's plan is for what the user asked and the tools that there are.

    Example:
        >>> judge = lambda prompt: '{"reason": "Good, with a vague step.", "score": 4}'
        >>> case = EvalTestCase({"input": "Book a trip."}, {"plan": ["Find flights.", "Book one."]})
        >>> PlanQuality(judge=judge).evaluate(case).score
        0.75
    """

    # Questions and levels are parts of prompts: with another word cached replies do not match, and
    # calibrations no longer hold.
    question = (
        "Is the plan of the agent a good plan for what the user asked: complete, in a workable order, "
        "without needless steps, and possible with the available tools (where they are shown)? Whether it "
        "was carried out does not count."
    )
    levels: ClassVar[tuple[str, str, str, str, str]] = (
        "would not lead to what was asked",
        "misses most of it, or cannot be carried out",
        "leaves out something important, or has steps in an order that does not work",
        "good, with a needless or vague step",
        "complete, workable and no longer than needed",
    )

    looks_for: ClassVar[tuple[str, ...]] = (f"outputs.{PLAN}",)

    plan_key: str = PLAN
    """The key of the plan in the actual outputs; without it, the reasoning steps are taken for the plan."""
    tools_key: str = TOOLS
    """The key of the tools in the metadata or the outputs, if they are there."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_text(self, "plan_key", self.plan_key)

    def material(self, case: EvalTestCase) -> tuple[str, ...]:
        tools = find_tools(case, self.tools_key) or ()
        return (tools_section(tools), section("Plan", plan_of(case, self.plan_key)))


@dataclass(frozen=True, kw_only=True)
class PlanAdherence(RatedRun):
    """Whether the agent did what it had planned, and nothing else.

    Example:
        >>> judge = lambda prompt: '{"reason": "Good, with a vague step.", "score": 4}'
        >>> case = EvalTestCase({"input": "Fly?"}, {"plan": "Find it.", "toolCalls": [{"name": "find"}]})
        >>> PlanAdherence(judge=judge).evaluate(case).score
        0.75
    """

    question = (
        "Did the agent carry out its plan: every step, in the order of the plan, and nothing that was not "
        "planned? A change that a failed or surprising result forces is no fault. Whether the plan is good "
        "does not count."
    )
    levels: ClassVar[tuple[str, str, str, str, str]] = (
        "did something else",
        "carried out little of the plan",
        "left out or added an important step",
        "carried out the plan with a small deviation",
        "carried out the plan",
    )

    requires: ClassVar[tuple[str, ...]] = ("input", f"outputs.{TOOL_CALLS}")
    looks_for: ClassVar[tuple[str, ...]] = (f"outputs.{PLAN}",)

    plan_key: str = PLAN
    """The key of the plan in the actual outputs; without it, the reasoning steps are taken for the plan."""
    tool_calls_key: str = TOOL_CALLS
    """The key of the calls in the actual outputs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_text(self, "plan_key", self.plan_key)
        require_keys(self, inputs="input_key", outputs="tool_calls_key")

    def material(self, case: EvalTestCase) -> tuple[str, ...]:
        plan = section("Plan", plan_of(case, self.plan_key))
        return (plan, calls_section(read_calls(case, self.tool_calls_key)), output_section(case))


@dataclass(frozen=True, kw_only=True)
class StepEfficiency(RatedRun):
    """Whether the agent took no more steps than it needed, as a judge sees it; see also `ToolEfficiency`.

    Example:
        >>> judge = lambda prompt: '{"reason": "Good, with a vague step.", "score": 4}'
        >>> case = EvalTestCase({"input": "Weather in Rome?"}, {"toolCalls": [{"name": "get_weather"}]})
        >>> StepEfficiency(judge=judge).evaluate(case).score
        0.75
    """

    question = (
        "Did the agent do what the user asked without needless steps: no call that repeats another without "
        "reason, whose result is not used, or that a single other call would have made needless? Retrying "
        "after an error is no fault. Whether the result is right does not count."
    )
    levels: ClassVar[tuple[str, str, str, str, str]] = (
        "almost all steps are needless",
        "more needless steps than needed ones",
        "several needless steps",
        "one needless step",
        "every step was needed",
    )

    requires: ClassVar[tuple[str, ...]] = ("input", f"outputs.{TOOL_CALLS}")

    tool_calls_key: str = TOOL_CALLS
    """The key of the calls in the actual outputs."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_keys(self, inputs="input_key", outputs="tool_calls_key")

    def material(self, case: EvalTestCase) -> tuple[str, ...]:
        return (calls_section(read_calls(case, self.tool_calls_key)), output_section(case))
