"""Records what an agent does while it runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, ParamSpec, TypeVar, cast
from weakref import WeakKeyDictionary

from dokimos._core.agent import AgentTrace, ToolCall
from dokimos._core.jsonable import jsonable, text_form
from dokimos._core.keys import CALL_ERROR
from dokimos._core.metrics import CallMetrics, PriceTable
from dokimos._core.text import error_text
from dokimos._core.tool_definition import ToolDefinition

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(slots=True, eq=False)
class _Recording:
    """What one run of the agent did so far."""

    calls: list[ToolCall] = field(default_factory=list)
    open_calls: dict[str, ToolCall] = field(default_factory=dict)
    """The call of each id that waits for its result."""
    final_response: str | None = None
    reasoning_steps: list[str] = field(default_factory=list)
    usage: CallMetrics | None = None
    outer: _Recording | None = None
    """The recording around this one, of the same collector."""

    def clear(self) -> None:
        self.calls, self.open_calls, self.reasoning_steps = [], {}, []
        self.final_response = self.usage = None

    def complete(self, open_call: ToolCall, call: ToolCall) -> None:
        calls = self.calls
        for index in range(len(calls) - 1, -1, -1):
            if calls[index] is open_call:  # by identity: threads add calls, and may clear the recording
                calls[index] = call
                return


_current: ContextVar[Mapping[TraceCollector, _Recording]] = ContextVar("dokimos_recordings")


class TraceCollector:
    """Builds an `AgentTrace` while an agent runs: hand its methods to a framework's callbacks or hooks.

    `with collector:` begins a new recording that belongs to this asyncio task (and those it starts) or thread
    alone, so that one collector serves many runs at once; it can be read inside the block and after it.
    Without `with`, everything goes to one recording. A callback that comes from a thread of the framework's
    own, which belongs to no known run, is recorded in the recording that is open, if there is only one.

    Example::

        >>> collector = TraceCollector()
        >>> collector.add_tool_call("search", {"q": "Rome"}, result="It is in Italy.")
        >>> collector.final_response = "Rome is in Italy."
        >>> collector.trace().tool_calls[0].result
        'It is in Italy.'
    """

    def __init__(self, tools: Iterable[ToolDefinition] = ()) -> None:
        """`tools` are those that the agent has; tools that are only observed are known by name."""
        self._tools: dict[str, ToolDefinition] = {tool.name: tool for tool in tools}
        self._shared = _Recording()
        self._open: list[_Recording] = []

    def __enter__(self) -> TraceCollector:
        recording = _Recording(outer=self._find_recording())
        self._open.append(recording)
        self._enter(recording)
        return self

    def __exit__(self, *exception: object) -> None:
        recording = self._find_recording()
        if recording is None:
            return
        self._open = [other for other in self._open if other is not recording]
        if recording.outer in self._open:
            self._enter(recording.outer)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls so far, in the order in which they began."""
        return tuple(self._recording.calls)

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools called, each once, in the order of their first call."""
        return tuple(dict.fromkeys(call.name for call in self._recording.calls))

    @property
    def final_response(self) -> str | None:
        """What the agent answered in the end; may be set."""
        return self._recording.final_response

    @final_response.setter
    def final_response(self, text: str | None) -> None:
        self._recording.final_response = text

    def add_tool_call(
        self,
        name: str | ToolCall,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        result: object = None,
        call_id: str | None = None,
        error: str | bool | None = None,
    ) -> None:
        """Record a call; its result may follow, by its id.

        Args:
            name: The tool's name, or a whole call.
            arguments: A map, or JSON text as models write it.
            result: Text as it is; any other value as compact JSON.
            call_id: By which `add_tool_result` finds the call.
            error: What went wrong, or True.
        """
        recording = self._recording
        call = name if isinstance(name, ToolCall) else _call(name, arguments)
        open_call = _with_result(call, call.result if result is None else result, error)
        if call_id is not None:
            recording.open_calls[call_id] = open_call
        recording.calls.append(open_call)

    def add_tool_result(self, call_id: str, result: object, *, error: str | bool | None = None) -> None:
        """Record the result of a call; an id without an open call is ignored."""
        recording = self._recording
        open_call = recording.open_calls.pop(call_id, None)
        if open_call is not None:
            recording.complete(open_call, _with_result(open_call, result, error))

    def add_reasoning_step(self, text: str) -> None:
        """Record a step of reasoning."""
        self._recording.reasoning_steps.append(text)

    def add_usage(self, usage: CallMetrics) -> None:
        """Add what a model call cost."""
        recording = self._recording
        recording.usage = usage if recording.usage is None else recording.usage + usage

    def add_tools(self, *tools: ToolDefinition | Callable[..., Any] | Mapping[str, Any]) -> None:
        """Add tools that the agent has, of any form that `ToolDefinition.from_object` parses."""
        for tool in tools:
            definition = ToolDefinition.from_object(tool)
            self._tools[definition.name] = definition

    def observe(self, function: Callable[P, R]) -> Callable[P, R]:
        """Wrap a tool, sync or async, so that its calls, results and errors are recorded.

        The tool is described by its signature and docstring, where that can be done.
        """
        self._describe(function)
        if inspect.iscoroutinefunction(function):
            return cast("Callable[P, R]", self._observe_async(function))

        @functools.wraps(function)
        def call_observed(*args: P.args, **kwargs: P.kwargs) -> R:
            with self._observing(function, args, kwargs) as finish:
                result = function(*args, **kwargs)
                finish(result)
                return result

        return call_observed

    def trace(self) -> AgentTrace:
        """Return the recording as a trace."""
        recording = self._recording
        return AgentTrace(
            tuple(recording.calls), recording.final_response, reasoning_steps=tuple(recording.reasoning_steps)
        )

    def tool_definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the tools that the agent has; one that was only observed has an empty schema."""
        by_name = {name: ToolDefinition(name) for name in self.tool_names}
        return tuple({**by_name, **self._tools}.values())

    def call_metrics(
        self, model: str | None = None, price_table: PriceTable | None = None
    ) -> CallMetrics | None:
        """Return the usage and cost of all model calls together; None where nothing was measured.

        Usage of only zeros was not measured. A reported cost is kept; else it comes from the price table.
        """
        usage = self._recording.usage
        if usage is None or not _is_measured(usage):
            return None
        usage = replace(usage, model=model or usage.model)
        if usage.cost_usd:
            return usage
        price = None if price_table is None else price_table(usage.model, usage.tokens_in, usage.tokens_out)
        return replace(usage, cost_usd=price)

    def reset(self) -> None:
        """Clear the current recording."""
        self._recording.clear()

    @property
    def _recording(self) -> _Recording:
        current = self._find_recording()
        if current is not None:
            return current
        return self._open[0] if len(self._open) == 1 else self._shared

    def _find_recording(self) -> _Recording | None:
        """Return the recording of the context that is calling."""
        return _current.get({}).get(self)

    def _enter(self, recording: _Recording) -> None:
        # Weak keys: what a collector recorded goes when the collector goes.
        recordings: WeakKeyDictionary[TraceCollector, _Recording] = WeakKeyDictionary(_current.get({}))
        recordings[self] = recording
        _current.set(recordings)

    def _describe(self, function: Callable[..., Any]) -> None:
        try:
            self.add_tools(function)
        except (ValueError, NameError, TypeError):  # a signature that has no JSON form
            self.add_tools(
                ToolDefinition(_name_of(function), (inspect.getdoc(function) or "").partition("\n")[0])
            )

    def _observe_async(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        async def call_observed(*args: Any, **kwargs: Any) -> Any:
            with self._observing(function, args, kwargs) as finish:
                result = await function(*args, **kwargs)
                finish(result)
                return result

        return call_observed

    @contextmanager
    def _observing(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Iterator[Callable[[Any], None]]:
        """Record the call at its start, and its result or error when it comes."""
        recording = self._recording
        call = ToolCall(_name_of(function), _bind_arguments(function, args, kwargs))
        recording.calls.append(call)

        def finish(result: object, error: str | None = None) -> None:
            text = "" if result is None and error is None else result
            recording.complete(call, _with_result(call, text, error))

        try:
            yield finish
        except BaseException as error:
            finish(error_text(error), error_text(error))
            raise


def _call(name: str, arguments: Mapping[str, Any] | str | None) -> ToolCall:
    if isinstance(arguments, str):
        return ToolCall.of_text(name, arguments)
    return ToolCall(name, arguments or {})


def _with_result(call: ToolCall, result: object, error: str | bool | None) -> ToolCall:
    metadata = {**call.metadata, CALL_ERROR: error} if error else call.metadata
    return replace(call, result=text_form(result), metadata=metadata)


def _bind_arguments(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments by name as JSON, taken before the call, which may change them."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return dict(jsonable(dict(kwargs)))  # the call itself raises the same error
    arguments = dict(bound.arguments)
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            arguments |= arguments.pop(name, {})
    return dict(jsonable(arguments))


def _name_of(function: Callable[..., Any]) -> str:
    """Return a function's name, that of the inner one for a partial, else that of its type."""
    inner = function.func if isinstance(function, functools.partial) else function
    return getattr(inner, "__name__", type(inner).__name__)


def _is_measured(usage: CallMetrics) -> bool:
    return any((usage.tokens_in, usage.tokens_out, usage.cost_usd))
