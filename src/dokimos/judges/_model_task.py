"""A bare model as the task of an experiment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dokimos._core.example import Example
from dokimos._core.jsonable import text_form
from dokimos._core.keys import INPUT, OUTPUT
from dokimos._core.task_marker import takes_example
from dokimos._core.task_result import TaskResult
from dokimos.errors import EvaluationError
from dokimos.judges._factory import judge
from dokimos.judges._provider import HttpJudge


def model_task(
    model: str | HttpJudge,
    *,
    system: str | None = None,
    input_key: str = INPUT,
    output_key: str = OUTPUT,
    **settings: Any,
) -> ModelTask:
    """Return a task that sends an input to a model and gives back its answer, with tokens, cost and latency.

    Args:
        model: A name as for `judge`, or one of its classes.
        system: A system message.
        input_key: Which of an example's inputs to send; what is not text is sent as JSON.
        output_key: Under which key the answer goes into the outputs.
        settings: As for `judge`; the temperature is the provider's own unless given.

    An answer that is cut off or declined is an output like any other. The task raises `JudgeUnavailableError`
    where the model cannot be reached.

    Example:
        >>> task = model_task("ollama:qwen3:4b", system="Answer in one word.")  # sends nothing yet
    """
    if isinstance(model, str):
        given = settings if system is None else {"system": system, **settings}
        return ModelTask(judge(model, **{"temperature": None, **given}), input_key, output_key)
    changes = settings if system is None else {"system": system, **settings}
    return ModelTask(model.with_settings(**changes), input_key, output_key)


@dataclass(frozen=True)
class ModelTask:
    """A model as a task; made by `model_task`."""

    model: HttpJudge
    input_key: str = INPUT
    output_key: str = OUTPUT

    def __post_init__(self) -> None:
        # Two models are two tasks: a run of one is not resumed with the other.
        object.__setattr__(self, "__qualname__", f"model_task({self.model.identity})")

    @takes_example
    async def __call__(self, example: Example) -> TaskResult:
        if self.input_key not in example.inputs:
            raise EvaluationError(
                f"The model needs {self.input_key!r} in the inputs, which this example lacks."
            )
        completion, metrics = await self.model.answer(text_form(example.inputs[self.input_key]) or "")
        return TaskResult({self.output_key: completion.text}, metrics)
