"""What the model calls of one run of CrewAI cost and were given, from its events.

Its own totals do not tell runs apart, and of a run that breaks off it tells nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from threading import Lock
from typing import Any, Generic, TypeVar

from dokimos.core.extras import require
from dokimos.core.metrics import CallMetrics
from dokimos.integrations.reading import get, summed, usage_of

R = TypeVar("R")

EXTRA = "crewai"


@dataclass(frozen=True, slots=True)
class Metered(Generic[R]):
    """What came of a run."""

    result: R | None
    usage: CallMetrics | None
    messages: tuple[tuple[Any, ...], ...]
    """Those of each of its tasks, as the last call of a model was given them."""
    failures: tuple[Any, ...]
    """The calls of tools that failed."""
    tools: tuple[str, ...]
    """The names of those that models were offered."""
    error: Exception | None = None


def metered(runner: Any, run: Callable[[], R]) -> Metered[R]:
    """Call `run` and return what it gives or raises, and what the models of `runner`'s agents did meanwhile.

    `runner` is a crew, an agent or a model that nobody else uses at the same time.
    """
    meter = _meter()
    meter.start()
    result, error = None, None
    try:
        try:
            result = run()
        except Exception as raised:
            error = raised
        require("crewai.events", EXTRA).crewai_event_bus.flush()
        return _metered(runner, [meter.take(key) for key in _keys_of(runner)], result, error)
    finally:
        meter.end()


def seen_so_far(runner: Any) -> Metered[Any]:
    """Return what the models of a runner's agents have done, while it is still running."""
    return _metered(runner, [_meter().peek(key) for key in _keys_of(runner)], None, None)


def _metered(runner: Any, seen: list[_Seen], result: Any, error: Exception | None) -> Metered[Any]:
    own = {str(task.id) for task in get(runner, "tasks", default=())}
    asked = [(task, each) for one in seen for task, each in one.messages.items()]
    return Metered(
        result,
        summed(one.usage for one in seen),
        tuple(each for task, each in asked if not own or task in own),
        tuple(failure for one in seen for failure in one.failures),
        tuple(name for one in seen for name in one.tools),
        error,
    )


@dataclass(slots=True)
class _Seen:
    """What the events of one agent, or of a model without an agent, told."""

    usage: CallMetrics | None = None
    messages: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    """What the longest call of a model was given, by task: the last one, in whichever order events come."""
    failures: list[Any] = field(default_factory=list)
    tools: dict[str, None] = field(default_factory=dict)


class _Meter:
    """Gathers what CrewAI's events tell of each agent, or model without an agent, while runs go on."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running = 0
        self._seen: dict[str, _Seen] = {}

    def start(self) -> None:
        with self._lock:
            self._running += 1

    def end(self) -> None:
        with self._lock:
            self._running -= 1
            if not self._running:
                self._seen.clear()  # of agents that are not ours

    def add(self, source: Any, event: Any) -> None:
        usage = _usage(event)
        with self._lock:
            if usage is not None and self._running:
                seen = self._of(source, event)
                seen.usage = usage if seen.usage is None else seen.usage + usage

    def ask(self, source: Any, event: Any) -> None:
        messages, task = get(event, "messages"), get(event, "task_id", default="")
        with self._lock:
            if self._running and isinstance(messages, list):
                seen = self._of(source, event)
                if len(messages) >= len(seen.messages.get(task, ())):
                    seen.messages[task] = tuple(map(_with_calls, messages))
                offered = get(event, "tools", default=())
                names = (get(get(tool, "function"), "name") for tool in offered)
                seen.tools |= dict.fromkeys(name for name in names if isinstance(name, str) and name)

    def fail(self, source: Any, event: Any) -> None:
        with self._lock:
            if self._running:
                failure = {"tool_name": get(event, "tool_name"), "tool_args": get(event, "tool_args")}
                self._of(source, event).failures.append(failure)

    def take(self, key: str) -> _Seen:
        with self._lock:
            return self._seen.pop(key, None) or _Seen()

    def peek(self, key: str) -> _Seen:
        with self._lock:
            seen = self._seen.get(key) or _Seen()
            return _Seen(seen.usage, dict(seen.messages), list(seen.failures), dict(seen.tools))

    def _of(self, source: Any, event: Any) -> _Seen:
        return self._seen.setdefault(get(event, "agent_id") or _key_of_model(source), _Seen())


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


def _keys_of(runner: Any) -> Iterator[str]:
    agents = [*get(runner, "agents", default=[runner]), get(runner, "manager_agent")]
    yield from (str(agent.id) for agent in agents if get(agent, "id") is not None)
    yield _key_of_model(runner)


def _key_of_model(model: Any) -> str:
    return f"model {id(model)}"


def _with_calls(message: Any) -> Any:
    """Return a message with its calls as they were: what is deep in an event is as Python prints it."""
    calls = get(message, "tool_calls")
    if not calls:
        return message
    told = [
        {
            **call,
            "function": {
                key: _text_behind(value) for key, value in get(call, "function", default={}).items()
            },
        }
        for call in calls
    ]
    return {**message, "tool_calls": told}


def _text_behind(printed: Any) -> Any:
    if not isinstance(printed, str) or printed[:1] not in ("'", '"'):
        return printed
    try:
        return ast.literal_eval(printed)
    except (ValueError, SyntaxError):
        return printed


def _usage(event: Any) -> CallMetrics | None:
    usage = get(event, "usage")
    if usage is None:
        return None
    return usage_of(
        get(usage, "prompt_tokens", "input_tokens", "prompt_token_count"),
        get(usage, "completion_tokens", "output_tokens", "candidates_token_count"),
        cached=get(usage, "cached_prompt_tokens")
        or get(get(usage, "prompt_tokens_details"), "cached_tokens"),
        reasoning=get(usage, "reasoning_tokens")
        or get(get(usage, "completion_tokens_details"), "reasoning_tokens"),
        model=get(event, "model"),
    )
