"""What the model calls of one run of CrewAI cost, which its own totals do not tell apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from threading import Lock
from typing import Any, TypeVar

from dokimos.core.extras import require
from dokimos.core.metrics import CallMetrics
from dokimos.integrations.reading import get, summed, usage_of

R = TypeVar("R")

EXTRA = "crewai"


def metered(runner: Any, run: Callable[[], R]) -> tuple[R, CallMetrics | None]:
    """Call `run` and return what it gives, and the usage of the model calls of `runner`'s agents meanwhile.

    `runner` is a crew, an agent or a model that nobody else uses at the same time.
    """
    meter = _meter()
    meter.start()
    try:
        result = run()
        require("crewai.events", EXTRA).crewai_event_bus.flush()
        return result, summed(meter.take(key) for key in _keys_of(runner))
    finally:
        meter.end()


class _Meter:
    """Adds up the usage in CrewAI's events for each agent, or model without an agent, while runs go on."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running = 0
        self._usages: dict[str, CallMetrics] = {}

    def start(self) -> None:
        with self._lock:
            self._running += 1

    def end(self) -> None:
        with self._lock:
            self._running -= 1
            if not self._running:
                self._usages.clear()  # of agents that are not ours

    def add(self, source: Any, event: Any) -> None:
        usage = _usage(event)
        key = get(event, "agent_id") or _key_of_model(source)
        with self._lock:
            if usage is not None and self._running:
                known = self._usages.get(key)
                self._usages[key] = usage if known is None else known + usage

    def take(self, key: str) -> CallMetrics | None:
        with self._lock:
            return self._usages.pop(key, None)


@cache
def _meter() -> _Meter:
    """Return the meter of this process, which listens from the first run on."""
    events = require("crewai.events", EXTRA)
    meter = _Meter()
    events.crewai_event_bus.on(events.LLMCallCompletedEvent)(meter.add)
    return meter


def _keys_of(runner: Any) -> Iterator[str]:
    agents = [*get(runner, "agents", default=[runner]), get(runner, "manager_agent")]
    yield from (str(agent.id) for agent in agents if get(agent, "id") is not None)
    yield _key_of_model(runner)


def _key_of_model(model: Any) -> str:
    return f"model {id(model)}"


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
