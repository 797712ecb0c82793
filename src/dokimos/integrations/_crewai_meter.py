"""Meters one run of CrewAI by its events: tokens, messages, failed calls and offered tools.

CrewAI's own totals do not separate runs, and a run that fails returns nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import Any, Generic, TypeVar

from dokimos._core.extras import require
from dokimos._core.metrics import CallMetrics
from dokimos.integrations._framework_objects import FrameworkObject, get
from dokimos.integrations._token_usage import make_usage, sum_usage

R = TypeVar("R")

EXTRA = "crewai"


@dataclass(frozen=True, slots=True)
class MeteredRun(Generic[R]):
    """The result of a run, and what its models and tools did."""

    result: R | None
    usage: CallMetrics | None
    messages: tuple[tuple[Any, ...], ...]
    """The messages of each of its tasks, as the last model call got them."""
    failures: tuple[Any, ...]
    """The tool calls that failed."""
    tools: tuple[str, ...]
    """The names of the tools that models were offered."""
    error: Exception | None = None


def meter_run(runner: object, run: Callable[[], R]) -> MeteredRun[R]:
    """Call `run` and return its result or error, and what the models of `runner`'s agents did meanwhile.

    `runner` is a crew, an agent or a model that nobody else uses at the same time.
    """
    meter = _meter()
    meter.start()
    result, error = None, None
    try:
        try:
            result = run()
        except Exception as exception:
            error = exception
        # The bus calls its listeners in threads: events of this run may still be on their way.
        require("crewai.events", EXTRA).crewai_event_bus.flush()
        return _collect_run(runner, [meter.take(key) for key in _keys_of(runner)], result, error)
    finally:
        meter.end()


def read_meter(runner: object) -> MeteredRun[Any]:
    """Return what the models of a runner's agents have done so far; the runner may still be running."""
    return _collect_run(runner, [_meter().peek(key) for key in _keys_of(runner)], None, None)


def _collect_run(
    runner: object, records: list[_Record], result: object, error: Exception | None
) -> MeteredRun[Any]:
    task_ids = {str(task.id) for task in get(runner, "tasks", default=())}
    messages = [(task, each) for one in records for task, each in one.messages.items()]
    return MeteredRun(
        result,
        sum_usage(one.usage for one in records),
        tuple(each for task, each in messages if not task_ids or task in task_ids),
        tuple(failure for one in records for failure in one.failures),
        tuple(name for one in records for name in one.tools),
        error,
    )


@dataclass(slots=True)
class _Record:
    """The events of one agent, or of a model without an agent."""

    usage: CallMetrics | None = None
    messages: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """The messages of the longest model call of each task: the last one, in whichever order events come."""
    failures: list[Any] = field(default_factory=list)
    tools: dict[str, None] = field(default_factory=dict)


class _Meter:
    """Collects CrewAI's events by agent, or by model without an agent, while runs go on."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running = 0
        self._records: dict[str, _Record] = {}

    def start(self) -> None:
        with self._lock:
            self._running += 1

    def end(self) -> None:
        with self._lock:
            self._running -= 1
            if not self._running:
                self._records.clear()  # those of agents that nobody meters

    def add(self, source: object, event: object) -> None:
        usage = _usage(event)
        with self._lock:
            if usage is not None and self._running:
                record = self._of(source, event)
                record.usage = usage if record.usage is None else record.usage + usage

    def ask(self, source: object, event: object) -> None:
        messages, task = get(event, "messages"), get(event, "task_id", default="")
        with self._lock:
            if self._running and isinstance(messages, list):
                record = self._of(source, event)
                if len(messages) >= len(record.messages.get(task, ())):
                    record.messages[task] = tuple(map(_with_calls, messages))
                offered = get(event, "tools", default=())
                names = (get(get(tool, "function"), "name") for tool in offered)
                record.tools |= dict.fromkeys(name for name in names if isinstance(name, str) and name)

    def fail(self, source: object, event: object) -> None:
        with self._lock:
            if self._running:
                failure = {"tool_name": get(event, "tool_name"), "tool_args": get(event, "tool_args")}
                self._of(source, event).failures.append(failure)

    def take(self, key: str) -> _Record:
        with self._lock:
            return self._records.pop(key, None) or _Record()

    def peek(self, key: str) -> _Record:
        with self._lock:
            record = self._records.get(key) or _Record()
            return _Record(record.usage, dict(record.messages), list(record.failures), dict(record.tools))

    def _of(self, source: object, event: object) -> _Record:
        return self._records.setdefault(get(event, "agent_id") or _key_of_model(source), _Record())


@cache
def _meter() -> _Meter:
    """Return the meter of this process, which listens from the first run on."""
    events = require("crewai.events", EXTRA)
    meter = _Meter()
    bus = events.crewai_event_bus
    bus.on(events.LLMCallCompletedEvent)(meter.add)
    bus.on(events.LLMCallStartedEvent)(meter.ask)
    bus.on(events.ToolUsageErrorEvent)(meter.fail)
    return meter


def _keys_of(runner: object) -> Iterator[str]:
    agents = [*get(runner, "agents", default=[runner]), get(runner, "manager_agent")]
    yield from (str(agent.id) for agent in agents if get(agent, "id") is not None)
    yield _key_of_model(runner)


def _key_of_model(model: object) -> str:
    return f"model {id(model)}"


def _with_calls(message: FrameworkObject) -> Any:
    """Return a message with its calls restored: texts deep in an event are as Python prints them."""
    calls = get(message, "tool_calls")
    if not calls:
        return message
    restored = [
        {
            **call,
            "function": {key: _unquote(value) for key, value in get(call, "function", default={}).items()},
        }
        for call in calls
    ]
    return {**message, "tool_calls": restored}


def _unquote(printed: object) -> Any:
    if not isinstance(printed, str) or printed[:1] not in ("'", '"'):
        return printed
    try:
        return ast.literal_eval(printed)
    except (ValueError, SyntaxError):
        return printed


def _usage(event: object) -> CallMetrics | None:
    usage = get(event, "usage")
    if usage is None:
        return None
    return make_usage(
        get(usage, "prompt_tokens", "input_tokens", "prompt_token_count"),
        get(usage, "completion_tokens", "output_tokens", "candidates_token_count"),
        cached=get(usage, "cached_prompt_tokens")
        or get(get(usage, "prompt_tokens_details"), "cached_tokens"),
        reasoning=get(usage, "reasoning_tokens")
        or get(get(usage, "completion_tokens_details"), "reasoning_tokens"),
        model=get(event, "model"),
    )
