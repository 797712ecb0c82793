"""`TaskCompletion`: whether an agent completed its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dokimos._core.jsonable import text_form
from dokimos._core.keys import CONSTRAINTS, INPUT, TASKS, TOOL_CALLS, input_of
from dokimos._core.results import Score
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import format_list, pluralize
from dokimos.errors import EvaluationError
from dokimos.evaluators._agent.base import read_calls, require_keys, texts_under
from dokimos.evaluators._agent.prompt_sections import calls_section
from dokimos.evaluators._llm.base import JudgedEvaluator
from dokimos.evaluators._llm.case_sections import number_lines, render_value, section
from dokimos.evaluators._llm.verdicts import check_numbers, in_order, verdict_prompt
from dokimos.evaluators._setting_checks import check_text
from dokimos.judges._ask import ask


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskVerdict:
    """Whether one task was completed."""

    number: int = 0
    task: str = ""
    reason: str = ""
    completed: bool


@dataclass(frozen=True, slots=True)
class TaskVerdicts:
    """What the judge replies."""

    tasks: list[TaskVerdict]


@dataclass(frozen=True, kw_only=True)
class TaskCompletion(JudgedEvaluator):
    """Share of the tasks that the agent completed, by a judge who reads the dialog.

    A case that names no tasks has one: its input. An empty list of tasks scores 1. The judge is shown the
    input, the final response, the tool calls where there are some, and the constraints, which a completed
    task must keep. One call.

    Example:
        >>> reply = '{"tasks": [{"reason": "Booked.", "completed": true}]}'
        >>> case = EvalTestCase.of("Book a table for two.", "Done: Friday at eight.")
        >>> TaskCompletion(judge=lambda prompt: reply).evaluate(case).reason
        '1 of 1 task completed.'
    """

    method_source = "Defined by dokimos."
    judge_calls = "1; 0 where the list of tasks is empty"

    requires: ClassVar[tuple[str, ...]] = ("input",)

    dialog_key: str = INPUT
    """The key of what the user said in the inputs."""
    tasks_key: str = TASKS
    """The key of the tasks in the metadata: a list of texts. Without it, the input is the only task."""
    constraints_key: str = CONSTRAINTS
    """The key of the constraints in the metadata, if there are any."""
    tool_calls_key: str = TOOL_CALLS
    """The key of the calls in the actual outputs, if there are any."""
    threshold: float | None = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require_keys(self, inputs="dialog_key")
        check_text(self, "tasks_key", self.tasks_key)

    async def judge_case(self, case: EvalTestCase, *, sample: int) -> Score:
        tasks = self._tasks(case)
        if not tasks:
            return Score(1.0, "There are no tasks to complete.", metadata={"taskResults": []})
        reply = await ask(
            self.lm,
            self._prompt(case, tasks),
            TaskVerdicts,
            check=lambda verdicts: check_numbers(verdicts.tasks, len(tasks)),
            sample=sample,
        )
        verdicts = in_order(reply.tasks)
        open_tasks = [task for task, verdict in zip(tasks, verdicts, strict=True) if not verdict.completed]
        done = len(tasks) - len(open_tasks)
        results = [
            {"task": task, "completed": verdict.completed, "reason": verdict.reason}
            for task, verdict in zip(tasks, verdicts, strict=True)
        ]
        share = f"{done} of {pluralize(len(tasks), 'task')} completed"
        reason = f"{share}; not: {format_list(open_tasks, limit=3)}." if open_tasks else f"{share}."
        return Score(done / len(tasks), reason, metadata={"taskResults": results})

    def _tasks(self, case: EvalTestCase) -> tuple[str, ...]:
        tasks = case.metadata.get(self.tasks_key)
        if tasks is not None:
            return texts_under(tasks, self.tasks_key)
        task = text_form(input_of(case.inputs, self.dialog_key)) or ""
        if not task.strip():
            raise EvaluationError(
                f"There is no task: the case has no {self.tasks_key!r}, and its input is blank."
            )
        return (task,)

    def _prompt(self, case: EvalTestCase, tasks: tuple[str, ...]) -> str:
        constraints = case.metadata.get(self.constraints_key)
        question = (
            "An agent was given tasks by a user. For each task, say whether the agent completed it, by what "
            "the dialog shows and nothing else. What the agent only promises, asks about or reports as "
            "failed is not completed. Judge each task on its own, whatever became of the others."
        )
        if constraints:
            question += " A task that was done against the constraints is not completed."
        return verdict_prompt(
            question,
            section("Dialog", _dialog(case, self.dialog_key)),
            self._calls(case),
            section("Constraints", render_value(constraints)) if constraints else "",
            number_lines("Tasks", tasks),
            count=len(tasks),
            noun="task",
            contents="the task, a reason of a few words, and whether it was completed (true or false)",
        )

    def _calls(self, case: EvalTestCase) -> str:
        if case.actual_outputs.get(self.tool_calls_key) is None:
            return ""
        return calls_section(read_calls(case, self.tool_calls_key))


def _dialog(case: EvalTestCase, key: str) -> str:
    user_input = text_form(input_of(case.inputs, key)) or ""
    answer = case.actual_output
    return f"User: {user_input}\nAgent: {answer}" if answer and answer.strip() else user_input
