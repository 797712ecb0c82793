"""The application under test: a Python callable, an HTTP endpoint or a command, asked turn by turn."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dokimos._core.conversation import ConversationTrajectory
from dokimos._core.example import Example
from dokimos._core.keys import INPUT, OUTPUT, TOOL_CALLS
from dokimos._core.metrics import CallMetrics
from dokimos._core.task_result import TaskResult
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import shorten
from dokimos._runtime.file_access import files_read
from dokimos._runtime.user_calls import is_async
from dokimos.errors import (
    AgentError,
    ConfigurationError,
    DokimosError,
    EndpointDownError,
    JudgeUnavailableError,
)
from dokimos.experiment._task_parameters import Parameters, keyword_of, read_parameters
from dokimos.suites._problems import suggest
from dokimos.suites._python_references import load_callable

if TYPE_CHECKING:
    from dokimos.suites._schema import Agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an application gets in one turn."""

    input: str
    conversation: ConversationTrajectory = field(default_factory=ConversationTrajectory)
    """What was said before."""
    session_id: str = ""
    """The same in all turns of a case."""
    session: dict[str, Any] = field(default_factory=dict)
    """Kept from turn to turn, for an application that wants to remember something."""
    turn_index: int = 0
    files: tuple[Mapping[str, Any], ...] = ()
    sample: int = 0
    """Tells the repeats of a case apart, and its attempts."""
    example: Example = field(default_factory=Example)
    """The case as an example of a data set; in a conversation, its turn."""

    @property
    def messages(self) -> list[dict[str, Any]]:
        """What was said so far, this input included, in the form of Chat Completions."""
        said = self.conversation.to_messages("openai")
        return [*said, {"role": "user", "content": self.input}]

    def to_json(self) -> dict[str, Any]:
        """Return what an endpoint or a command is sent."""
        body: dict[str, Any] = {"input": self.input, "messages": self.messages}
        body |= {"session_id": self.session_id, "turn_index": self.turn_index}
        return {**body, "files": [dict(file) for file in self.files]} if self.files else body


Reply: TypeAlias = Callable[[Request], Any]
"""Answers one turn, sync or async."""
Application: TypeAlias = Callable[[], Reply | Awaitable[Reply]]
"""Opens a session: gives what answers the turns of one case; what it awaits does not count as reply time."""

EXAMPLE: Final = "example"
_PARTS: Final[dict[str, Callable[[Request], Any]]] = {
    INPUT: lambda request: request.input,
    EXAMPLE: lambda request: request.example,
    "messages": lambda request: request.messages,
    "conversation": lambda request: request.conversation,
    "session": lambda request: request.session,
    "session_id": lambda request: request.session_id,
    "turn_index": lambda request: request.turn_index,
    "files": lambda request: request.files,
    "request": lambda request: request,
}
_KEYS: Final = {"tool_calls": TOOL_CALLS}
_METRICS: Final = ("tokens_in", "tokens_out", "cost_usd", "latency_ms", "model")
_STDERR: Final = 500


def build_application(agent: Agent, folder: Path, timeout: float) -> Application:
    """Return the application that a suite names; a command is ended after `timeout` seconds.

    Raises:
        ConfigurationError: where it cannot be used.
    """
    if agent.function is not None:
        return _callable(agent.function, folder, agent.params)
    if agent.url is not None:
        endpoint = Endpoint.of(agent)
        return lambda: endpoint
    command = Command.of(agent, folder, timeout)
    return lambda: command


def _callable(reference: str, folder: Path, params: Mapping[str, Any]) -> Application:
    loaded = load_callable(reference, folder)
    files_read.record_application(reference)
    _check_params(loaded, reference, params)
    if not inspect.isclass(loaded):
        with_parts = _with_parts(partial(loaded, **params) if params else loaded, reference)
        return lambda: with_parts
    call = getattr(loaded, "__call__", None)  # noqa: B004 - the method is wanted, not whether there is one
    if call is None or not inspect.isfunction(call):
        raise ConfigurationError(f"{reference!r} is a class whose objects cannot be called.")
    # An object is made for each case, so a parameter that cannot be filled is reported now, from the class.
    _with_parts(call, reference, method=True)
    return lambda: _with_parts(loaded(**params), reference)


def _check_params(callable_: Any, reference: str, params: Mapping[str, Any]) -> None:
    """Refuse keyword arguments that a callable does not take."""
    try:
        parameters = inspect.signature(callable_).parameters.values()
    except (TypeError, ValueError):
        return
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [parameter.name for parameter in parameters if parameter.kind in kinds]
    if not inspect.isclass(callable_):
        names = [name for name in names[1:] if name not in _PARTS]  # those come with the turn
    for name in params:
        if name not in names:
            raise ConfigurationError(
                f"{reference!r} has no parameter {name!r}.{suggest(name, names)}", setting=name
            )


def _with_parts(function: Any, reference: str, *, method: bool = False) -> Reply:
    """Return the function of a request that gives a callable the parts that it names.

    A first parameter that is not called like a part gets the input, or the example where it asks for that
    as the first parameter of a task does.
    """
    first, named = _parts_of_parameters(function, reference, method=method)

    def arguments(request: Request) -> tuple[list[Any], dict[str, Any]]:
        return [_PARTS[name](request) for name in first], {name: _PARTS[name](request) for name in named}

    def ask(request: Request) -> Any:
        positional, rest = arguments(request)
        return function(*positional, **rest)

    async def ask_async(request: Request) -> Any:
        positional, rest = arguments(request)
        return await function(*positional, **rest)

    return ask_async if is_async(function) else ask


def _parts_of_parameters(
    function: Any, reference: str, *, method: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the parts of a request that are given positionally, and those that are given by name.

    Raises:
        ConfigurationError: where a parameter cannot be filled.
    """
    parameters = read_parameters(partial(function, None) if method else function)
    first, taken = parameters.first, _part_for_first(parameters)
    if first is None:
        if parameters.is_known and not parameters.takes_something:
            raise ConfigurationError(
                f"{reference!r} takes no arguments; it needs a first parameter for the input."
            )
        return (taken,), ()
    is_part = first.name in _PARTS and (first.name == EXAMPLE) == (taken == EXAMPLE)
    positional = keyword_of(first) is None and (not is_part or first.kind is first.POSITIONAL_ONLY)
    rest = [parameter for parameter in parameters.all if not (positional and parameter is first)]
    named = tuple(parameter.name for parameter in rest if parameter.name in _PARTS)
    unknown = [p.name for p in rest if p.name not in _PARTS and p.default is p.empty]
    if unknown and parameters.is_wrapped:  # its wrapper may give it something of its own
        return (taken,), ()
    if unknown:
        raise ConfigurationError(
            f"{reference!r}: a turn has no part called {unknown[0]!r}."
            f"{suggest(unknown[0], _PARTS)} There are {', '.join(_PARTS)}."
        )
    return (taken,) if positional else (), named


def _part_for_first(parameters: Parameters) -> str:
    """Return which part a first parameter gets that is not called like one."""
    return EXAMPLE if parameters.takes_example else INPUT


@dataclass(frozen=True)
class Endpoint:
    """An application behind a URL, which takes and answers JSON."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    output_path: str | None = None

    @classmethod
    def of(cls, agent: Agent) -> Endpoint:
        from dokimos._http.address import find_url_fault
        from dokimos._http.credentials import redact_url
        from dokimos.evaluators._response_path import check_response_path

        assert agent.url is not None
        if agent.output_path is not None:
            check_response_path("agent", agent.output_path, setting="output_path")
        fault = find_url_fault(agent.url)
        if fault is not None:
            raise ConfigurationError(
                f"the agent's url {fault}; it is {redact_url(agent.url)!r}.", setting="url"
            )
        headers = {name: value.get_secret_value() for name, value in agent.headers.items()}
        return cls(agent.url, headers, agent.output_path)

    async def __call__(self, request: Request) -> Any:
        from dokimos._http.client import Target, error_of_refusal, post_json
        from dokimos._http.credentials import redact_url, secrets_of_headers
        from dokimos._http.refusal import RequestRefused
        from dokimos._http.throttle import Limits

        label = f"the agent at {redact_url(self.url)}"
        target = Target(
            # One attempt: what an application does may have effects, so only `execution.retries` repeats it.
            # The task enforces `llm_timeout`, around the whole reply.
            base_url=self.url,
            label=label,
            limits=Limits(),
            timeout=600.0,
            attempts=1,
            is_application=True,
        )
        content = json.dumps(request.to_json(), ensure_ascii=False).encode("utf-8", "backslashreplace")
        headers = {"content-type": "application/json", **self.headers}
        secrets = secrets_of_headers(self.headers)
        try:
            answer = await post_json(target, self.url, content, headers=headers, secrets=secrets)
        except RequestRefused as refusal:
            raise _agent_error(error_of_refusal(target, refusal, secrets)) from None
        except JudgeUnavailableError as error:
            raise _agent_error(error) from None
        return answer.data if self.output_path is None else select_leaf(answer.data, self.output_path)


def _agent_error(error: JudgeUnavailableError) -> DokimosError:
    """Return an error of the agent's own, or that of an endpoint that is down, which the run looks for."""
    return error if isinstance(error, EndpointDownError) else AgentError(str(error))


@dataclass(frozen=True)
class Command:
    """An application that is a program: it reads its input and prints its reply."""

    arguments: tuple[str, ...]
    folder: Path
    is_json: bool = False
    timeout: float | None = None

    @classmethod
    def of(cls, agent: Agent, folder: Path, timeout: float) -> Command:
        import shlex

        given = agent.command
        arguments = shlex.split(given) if isinstance(given, str) else list(given or ())
        if arguments[0] in ("python", "python3"):
            # The `python` on the PATH may be another one, without the packages of this environment.
            arguments[0] = sys.executable
        return cls(tuple(arguments), folder, agent.format == "json", timeout)

    def __call__(self, request: Request) -> Any:
        sent = json.dumps(request.to_json(), ensure_ascii=False) if self.is_json else request.input
        try:
            done = subprocess.run(
                self.arguments, input=sent, capture_output=True, cwd=self.folder, encoding="utf-8",
                errors="replace", check=False, timeout=self.timeout,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise AgentError(
                f"the command {self.arguments[0]} did not end within {self.timeout:g} s"
            ) from None
        except OSError as error:
            raise AgentError(f"the command {self.arguments[0]} cannot be run: {error.strerror}") from None
        if done.returncode != 0:
            said = shorten(done.stderr.strip() or "nothing on standard error", _STDERR)
            raise AgentError(f"the command {self.arguments[0]} ended with status {done.returncode}: {said}")
        if not self.is_json:
            # The one line break that print() adds; others belong to the reply.
            return done.stdout.removesuffix("\n")
        try:
            return json.loads(done.stdout)
        except ValueError as error:
            raise AgentError(f"the command {self.arguments[0]} did not print JSON: {error}") from None


def normalize_outputs(value: object) -> Any:
    """Return what an application gave in the form that a task returns.

    A map with `output` is a map of outputs, in either spelling of their keys; any other is the output.
    """
    if not isinstance(value, Mapping):
        return value
    if not {OUTPUT, TOOL_CALLS, "tool_calls"} & set(value):
        return {OUTPUT: value}
    outputs: dict[str, Any] = {
        _KEYS.get(key, str(key)): part for key, part in value.items() if key != "metrics"
    }
    if outputs.get(TOOL_CALLS) is None:
        outputs.pop(TOOL_CALLS, None)
    metrics = value.get("metrics")
    if not isinstance(metrics, Mapping):
        return outputs
    return TaskResult(outputs, CallMetrics(**{name: metrics[name] for name in _METRICS if name in metrics}))


def select_leaf(data: object, path: str) -> Any:
    """Return the value at a path in the answer of an application. Raises `AgentError` where there is none."""
    from dokimos.errors import UnusableOutputError
    from dokimos.evaluators._response_path import with_response_path

    try:
        return with_response_path(EvalTestCase({}, {OUTPUT: data}), path).actual_output
    except UnusableOutputError as error:
        raise AgentError(str(error)) from None
