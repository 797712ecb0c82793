"""What every bridge to an agent framework must do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import pytest

from dokimos._core.agent import AgentTrace
from dokimos._core.example import Example
from dokimos._core.metrics import CallMetrics
from dokimos._core.results import ExperimentResult, ItemResult
from dokimos._core.tool_definition import ToolDefinition
from dokimos._runtime.concurrency import run_sync
from dokimos.evaluators._agent.tool_errors import ToolErrors
from dokimos.experiment._experiment import evaluate
from dokimos.testing.contracts._contract_failure import attempt, check, missing_attribute

_FUNCTIONS: Final = (
    "to_agent_trace", "to_tool_definitions", "to_call_metrics", "run_and_trace", "run_and_trace_async",
    "as_task", "as_judge", "as_application",
)  # fmt: skip
QUESTION: Final = "What is it?"


class BridgeContract:
    """Tests of one bridge: its module or `Framework`, a result of a run, and an agent on a scripted model.

    The run whose result is in `result` calls tools, and one call of it fails, if possible.
    """

    bridge: ClassVar[Any] = None
    """The module, or the instance of the `Framework`."""
    result: ClassVar[Any] = None
    """What the framework returns of a run, or the parts that are read as plain maps."""
    calls: ClassVar[Sequence[tuple[str, Mapping[str, Any]]]] = ()
    """Name and arguments of the calls in `result`, in order."""
    has_ids: ClassVar[bool] = True
    """Whether the framework gives its calls ids."""
    results: ClassVar[Sequence[str]] = ()
    """The text that each of them returned, or a part of it."""
    failed: ClassVar[Sequence[int]] = ()
    """Which of them failed, by their positions."""
    final_response: ClassVar[str | None] = None
    """The text of the last answer in `result`; None where it has none."""
    tokens: ClassVar[tuple[int, int] | None] = None
    """Tokens in and out of all model calls of `result`; None where it counts none."""

    def make_agent(self) -> Any:
        """Return an agent that answers each text without a network; None leaves its tests out."""
        return None

    def make_failing_agent(self) -> Any:
        """Return an agent whose model refuses; None leaves its test out."""
        return None

    @property
    def tested(self) -> Any:
        """The bridge under test."""
        if self.bridge is None:
            missing_attribute(self, "bridge", "bridge = my_package.my_bridge")
        return self.bridge

    @property
    def trace(self) -> AgentTrace:
        """What the bridge makes of `result`."""
        if self.result is None:
            missing_attribute(self, "result", "result = {...}, which the framework returned for a run")
        trace: AgentTrace = attempt(
            lambda: self.tested.to_agent_trace(self.result), "to_agent_trace() must read the result of a run."
        )
        check(
            isinstance(trace, AgentTrace), f"to_agent_trace() must return an AgentTrace, not {trace!r:.80}."
        )
        return trace

    def test_it_has_the_functions_of_all_bridges(self) -> None:
        missing = [name for name in _FUNCTIONS if not callable(getattr(self.tested, name, None))]
        check(
            not missing,
            f"The bridge lacks {', '.join(missing)}: publish the methods of one Framework instance.",
        )

    def test_every_call_is_in_the_trace(self) -> None:
        found = [(call.name, dict(call.arguments)) for call in self.trace.tool_calls]
        expected = [(name, dict(arguments)) for name, arguments in self.calls]
        check(expected, f"Set calls in {type(self).__name__}: a result without tool calls shows little.")
        check(found == expected, f"to_agent_trace() found the calls {found}; the run made {expected}.")

    def test_ids_of_calls_are_there_and_unique(self) -> None:
        if not self.has_ids:
            pytest.skip("the framework gives its calls no ids")
        ids = [call.metadata.get("id") for call in self.trace.tool_calls]
        check(
            all(ids) and len(set(map(str, ids))) == len(ids),
            f"Every call needs an id of its own, not {ids}: pass the framework's id to add_call().",
        )

    def test_results_belong_to_their_calls(self) -> None:
        found = [str(call.result) for call in self.trace.tool_calls]
        belongs = len(found) == len(self.results) and all(
            expected in result for expected, result in zip(self.results, found, strict=True)
        )
        check(
            belongs,
            f"to_agent_trace() gives the calls the results {found}, not {list(self.results)}: match them by "
            "the id of the call, not by their order.",
        )

    def test_failed_calls_are_errors(self) -> None:
        calls = self.trace.tool_calls
        found = [index for index, call in enumerate(calls) if call.metadata.get("error")]
        check(
            found == list(self.failed),
            f"The calls at {found} are marked as errors, those at {list(self.failed)} failed: pass the "
            "framework's flag to add_result().",
        )

    def test_the_answer_is_the_final_response(self) -> None:
        found = self.trace.final_response
        check(found == self.final_response, f"final_response is {found!r}, not {self.final_response!r}.")

    def test_tokens_are_counted_and_priced(self) -> None:
        metrics = self.tested.to_call_metrics(self.result, "some-model", lambda model, read, written: 0.25)
        if self.tokens is None:
            check(metrics is None, f"to_call_metrics() counts {metrics}; the result has no tokens.")
            return
        check(
            isinstance(metrics, CallMetrics) and (metrics.tokens_in, metrics.tokens_out) == self.tokens,
            f"to_call_metrics() returns {metrics}; the run used {self.tokens} tokens in and out.",
        )
        check(metrics.cost_usd is not None, "to_call_metrics() must pass the price table on.")

    def test_reading_changes_nothing_and_is_repeatable(self) -> None:
        check(self.trace == self.trace, "to_agent_trace() must give the same trace for the same result.")

    def test_tools_are_described(self) -> None:
        tools = self.tested.to_tool_definitions(self._agent())
        check(
            isinstance(tools, tuple) and all(isinstance(tool, ToolDefinition) for tool in tools),
            f"to_tool_definitions() must return a tuple of ToolDefinition, not {tools!r:.80}.",
        )

    def test_an_agent_runs_from_sync_and_async_code(self) -> None:
        agent = self._agent()
        advice = "run_and_trace() must run an agent."
        first = attempt(lambda: self.tested.run_and_trace(agent, QUESTION), advice)
        again = attempt(lambda: self.tested.run_and_trace(agent, QUESTION), advice)
        awaited = attempt(lambda: run_sync(self.tested.run_and_trace_async(agent, QUESTION)), advice)
        for trace in (first, again, awaited):
            check(not trace.error, f"A run of the agent failed: {trace.error}")
        check(
            first.final_response == again.final_response == awaited.final_response,
            "Each run must begin anew: an agent that remembers is stateful (is_stateful, save_state).",
        )

    def test_an_agent_is_a_task(self) -> None:
        task = self.tested.as_task(self._agent())
        check(
            inspect.iscoroutinefunction(task) or inspect.iscoroutinefunction(type(task).__call__),
            "as_task() must return an async task.",
        )
        item = _items(_evaluate(task, [QUESTION]))[0]
        check(item.error is None, f"The task of the agent failed: {item.error}")
        check("output" in item.actual_outputs, "The task must hand over the answer as `output`.")
        check("toolCalls" in item.actual_outputs, "The task must hand over the calls as `toolCalls`.")
        latency = item.metrics and item.metrics.latency_ms
        check(latency is not None, "The task must measure its latency.")

    def test_many_inputs_at_once_are_kept_apart(self) -> None:
        task = self.tested.as_task(self._agent())
        questions = [f"Question {number}" for number in range(6)]
        alone = [_answer(self.tested.as_task(self._agent()), question) for question in questions]
        together = [item.actual_outputs.get("output") for item in _items(_evaluate(task, questions, 6))]
        check(
            together == alone,
            f"Inputs that run at the same time get in each other's way: {together} instead of {alone}.",
        )

    def test_an_agent_is_a_judge(self) -> None:
        judge = self.tested.as_judge(self._agent())
        reply = attempt(lambda: run_sync(judge.complete(QUESTION)), "as_judge() must return a judge.")
        check(isinstance(reply.text, str) and reply.text, "The judge must reply with the agent's answer.")

    def test_a_failed_run_is_an_error_of_the_item(self) -> None:
        agent = self.make_failing_agent()
        if agent is None:
            pytest.skip("it does not say how an agent fails")
        item = _items(_evaluate(self.tested.as_task(agent), [QUESTION]))[0]
        check(item.error, "A run that fails must be an error of its item: use finish_run().")
        check(not item.eval_results, "What failed must not be scored.")
        trace = self.tested.run_and_trace(agent, QUESTION)
        check(
            trace.error and trace.final_response is None,
            "The trace of a failed run has an error and no final response: use finish_run().",
        )

    def _agent(self) -> Any:
        agent = self.make_agent()
        if agent is None:
            pytest.skip("it does not say how to make an agent")
        return agent


def _evaluate(task: Callable[..., Any], questions: Sequence[str], parallelism: int = 1) -> ExperimentResult:
    return evaluate(
        [Example.of(question) for question in questions],
        task,
        [ToolErrors(threshold=None)],
        parallelism=parallelism,
        quiet=True,
        journal=False,
    )


def _items(result: ExperimentResult) -> tuple[ItemResult, ...]:
    return result.runs[0].item_results


def _answer(task: Callable[..., Any], question: str) -> object:
    return _items(_evaluate(task, [question]))[0].actual_outputs.get("output")
