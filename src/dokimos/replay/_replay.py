"""Answers the calls of a candidate from what one trace recorded."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, TypeVar

from dokimos._core.agent import ToolCall
from dokimos._core.example import Example
from dokimos._core.json_object import parse_if_container
from dokimos._core.metrics import CallMetrics
from dokimos._core.test_case import EvalTestCase
from dokimos._core.text import format_list, pluralize
from dokimos.errors import RecordedCallError, ReplayMissError
from dokimos.judges import JudgeReply
from dokimos.judges._protocol import JsonSchemaDict
from dokimos.replay import _anthropic_messages as anthropic_messages
from dokimos.replay import _responses as responses
from dokimos.replay._anthropic_messages import to_events as to_message_events
from dokimos.replay._chat_completions import to_chat_completion, to_chunks
from dokimos.replay._endpoint import Protocol, ReplayEndpoint
from dokimos.replay._recordings import RecordedModelCall, failure_of, read_recordings
from dokimos.replay._request_matching import (
    canonical_json,
    describe_difference,
    describe_request_difference,
    find_closest,
    find_tool_difference,
    key_of,
    read_tools,
)
from dokimos.replay._responses import to_events as to_response_events
from dokimos.replay._tool_replay import ArgumentBinder, wrap_tool

F = TypeVar("F", bound=Callable[..., Any])

_ADVICE: Final = "Replay(..., allow_repeats=True) gives it again"


class Replay:
    """Answers calls of models and tools from the recordings of one item, each recording once.

    A call is found by its content: messages and tools of a model's call, name and arguments of a tool's. Of
    equal calls, the first recorded is given first. Anything else is a `ReplayMissError`; nothing is ever
    called. It may be used by several threads. Each run of an item needs a `Replay` of its own, and
    `replay_task` makes one.

    Example:
        >>> recorded = {"modelCalls": [], "toolCalls": [
        ...     {"name": "find_city", "arguments": {"name": "Trevi"}, "result": "Rome"}]}
        >>> replay = Replay(Example.of("Where is Trevi?", recorded=recorded))
        >>> replay.call_tool("find_city", {"name": "Trevi"})
        'Rome'
        >>> replay.unused
        ()
    """

    def __init__(
        self, source: Example | EvalTestCase | Mapping[str, Any], *, allow_repeats: bool = False
    ) -> None:
        """Read the recordings.

        Args:
            source: An example, a case, or the JSON of an item of a dataset.
            allow_repeats: Whether a call that is made more often than it was recorded gets the last answer
                again, instead of being a miss.

        Raises:
            DatasetError: It has no recordings.
        """
        recordings = read_recordings(source)
        self._allow_repeats = allow_repeats
        self._model_calls = recordings.model_calls
        self._keys = [key_of(call.messages) for call in recordings.model_calls]
        self._tool_calls = recordings.tool_calls
        self._used_models: set[int] = set()
        self._used_tools: set[int] = set()
        self._replies = 0
        self._responses: dict[str, list[Any]] = {}
        """By the ids of the responses that were given, what a request that continues one begins with."""
        self._misses: list[ReplayMissError] = []
        self._mutex = threading.Lock()
        self._endpoint: ReplayEndpoint | None = None

    @property
    def misses(self) -> tuple[ReplayMissError, ...]:
        """The calls that were not recorded, also where the application went on after the error."""
        with self._mutex:
            return tuple(self._misses)

    @property
    def unused(self) -> tuple[str, ...]:
        """The recorded calls that nothing has asked for, as texts."""
        with self._mutex:
            models = [call.name for call in self._model_calls if call.index not in self._used_models]
            tools = [
                _describe_call(call)
                for index, call in enumerate(self._tool_calls)
                if index not in self._used_tools
            ]
        return (*models, *tools)

    @property
    def base_url(self) -> str:
        """The address of an OpenAI-compatible endpoint that answers from the recordings.

        It answers Chat Completions and Responses, streamed or not, for any client on this machine, until
        `close`.
        """
        return f"{self.anthropic_base_url}/v1"

    @property
    def anthropic_base_url(self) -> str:
        """The address of the same endpoint as clients of Anthropic take it, whose Messages it answers."""
        with self._mutex:
            if self._endpoint is None:
                protocols = {
                    "/v1/chat/completions": Protocol("messages", self.complete_chat, to_chunks),
                    "/v1/responses": Protocol("input", self.create_response, to_response_events),
                    "/v1/messages": Protocol("messages", self.create_message, to_message_events),
                }
                self._endpoint = ReplayEndpoint(protocols, self._miss)
            return self._endpoint.url

    def complete_chat(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the recorded answer to a request of Chat Completions, in that protocol's form.

        Only `messages` and `tools` count: neither the model nor its settings are compared.

        Raises:
            ReplayMissError: The request was not recorded.
            RecordedCallError: The recorded call failed.
        """
        return self._answer(body.get("messages") or (), body)

    def create_response(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the recorded answer to a request of OpenAI's Responses, in that protocol's form.

        `previous_response_id` stands for the messages of a response that this replay has given. Summaries of
        reasoning and tools that the provider ran itself are not given again.

        Raises:
            ReplayMissError: The request was not recorded, or names what only the provider has.
            RecordedCallError: The recorded call failed.
        """
        try:
            items = responses.read_request(body)
        except ValueError as problem:
            raise self._miss(f"{problem}, and a replay has only what the trace recorded") from None
        whole = [*self._find_earlier(body), *items]
        system = responses.read_instructions(body)
        # A trace has either all messages or, as the request, the new ones alone.
        reply = responses.to_response(self._answer([*system, *whole], body, [*system, *items]), body)
        with self._mutex:
            self._responses[reply["id"]] = [*whole, *reply["output"]]
        return reply

    def _find_earlier(self, body: Mapping[str, Any]) -> Sequence[Any]:
        """Return the items that the response which a request continues stands for."""
        earlier = body.get("previous_response_id")
        if earlier is None:
            return ()
        with self._mutex:
            items = self._responses.get(str(earlier))
        if items is None:
            raise self._miss(f"this replay has given no response {earlier!r}")
        return items

    def create_message(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the recorded answer to a request of Anthropic's Messages, in that protocol's form.

        Raises:
            ReplayMissError, RecordedCallError: as in `complete_chat`.
        """
        return anthropic_messages.to_message(self._answer(anthropic_messages.read_request(body), body))

    def _answer(
        self, messages: Sequence[Any], body: Mapping[str, Any], otherwise: Sequence[Any] | None = None
    ) -> dict[str, Any]:
        """Return the recorded answer to messages of any form, as Chat Completions have it.

        Args:
            otherwise: Messages that the request may have been recorded with instead.
        """
        call, number = self._take_model_call(messages, body, messages if otherwise is None else otherwise)
        if call.error is not None:
            raise RecordedCallError(call.error)
        return to_chat_completion(call, number, body)

    async def complete(self, prompt: str, *, schema: JsonSchemaDict | None = None) -> JudgeReply:
        """Return the recorded answer to one message of the user: a `Replay` can be used as a model.

        Raises:
            ReplayMissError, RecordedCallError: as in `complete_chat`.
        """
        reply = self.complete_chat({"messages": [{"role": "user", "content": prompt}]})
        usage = reply["usage"]
        metrics = CallMetrics(usage["prompt_tokens"], usage["completion_tokens"], model=reply["model"])
        return JudgeReply(reply["choices"][0]["message"]["content"] or "", metrics)

    def call_tool(self, name: str, arguments: Mapping[str, Any] | str | None = None) -> Any:
        """Return the recorded result of a call of a tool: text, or what its JSON holds.

        Args:
            arguments: A map, or JSON text as models write it.

        Raises:
            ReplayMissError: The call was not recorded.
            RecordedCallError: The recorded call failed.
        """
        return parse_if_container(self.take_tool_result(name, arguments or {}))

    def tool(self, function: F, *, name: str | None = None) -> F:
        """Return a function with the signature of a tool that gives its recorded results.

        The tool itself is never called. Arguments that are left to their defaults are the same call as if
        they were given. Results are what their JSON holds, or text where the function is annotated so.

        Args:
            name: The name of the tool, where it is not that of the function.
        """
        return wrap_tool(self, function, name or function.__name__)

    def take_tool_result(
        self, name: str, arguments: Mapping[str, Any] | str, bind: ArgumentBinder | None = None
    ) -> str:
        """Return the text that a recorded call of a tool gave. Raises what `call_tool` does."""
        normalize = bind or _as_map
        requested = canonical_json(normalize(arguments))
        with self._mutex:
            same = [index for index, call in enumerate(self._tool_calls) if call.name == name]
            found = [
                index
                for index in same
                if not self._tool_calls[index].has_unknown_arguments
                and canonical_json(normalize(_arguments_of(self._tool_calls[index]))) == requested
            ]
            index = self._choose(found, self._used_tools)
        if index is None:
            raise self._miss(self._describe_tool_miss(name, requested, found, same, normalize))
        call = self._tool_calls[index]
        error = failure_of(call)
        if error is not None:
            raise RecordedCallError(error)
        if call.result is None:
            raise self._miss(f"the result of {_describe_call(call)} was not recorded")
        return call.result

    def close(self) -> None:
        """Stop the endpoint, where there is one."""
        with self._mutex:
            endpoint, self._endpoint = self._endpoint, None
        if endpoint is not None:
            endpoint.close()

    def __enter__(self) -> Replay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close it and raise the first miss, in the place of the error that came of it."""
        self.close()
        if error is None or isinstance(error, Exception):
            misses = self.misses
            if misses and error is not misses[0]:
                raise misses[0] from error

    def _take_model_call(
        self, messages: Sequence[Any], body: Mapping[str, Any], otherwise: Sequence[Any]
    ) -> tuple[RecordedModelCall, int]:
        key, other = key_of(messages), key_of(otherwise)
        tools = read_tools(body.get("tools"))
        with self._mutex:
            found = [
                call.index
                for selected in dict.fromkeys((key, other))
                for call in self._model_calls
                if self._keys[call.index] == selected and find_tool_difference(call.tools, tools) is None
            ]
            index = self._choose(found, self._used_models)
            self._replies += 1
            number = self._replies
        if index is None:
            raise self._miss(self._describe_model_miss(key, tools, found))
        call = self._model_calls[index]
        if call.answer is None and call.error is None:
            raise self._miss(f"the answer of {call.name} was not recorded")
        return call, number

    def _choose(self, found: list[int], used: set[int]) -> int | None:
        """Return the first recording that was not given yet, and note that it is."""
        index = next((each for each in found if each not in used), None)
        if index is None and found and self._allow_repeats:
            index = found[-1]
        if index is not None:
            used.add(index)
        return index

    def _miss(self, why: str) -> ReplayMissError:
        error = ReplayMissError(f"The call was not recorded: {why}.")
        with self._mutex:
            self._misses.append(error)
        return error

    def _describe_model_miss(self, key: Any, tools: list[Any], found: list[int]) -> str:
        if found:
            return f"{self._model_calls[found[-1]].name} is the same, and was given already; {_ADVICE}"
        closest = find_closest(key, self._keys, self._model_calls)
        if closest is None:
            return "the trace has no calls of models"
        call = self._model_calls[closest]
        if self._keys[closest] == key:
            difference = find_tool_difference(call.tools, tools) or "the tools differ"
        else:
            difference = describe_request_difference(self._keys[closest], key)
        return f"{call.name} of {len(self._model_calls)} is the closest; {difference}"

    def _describe_tool_miss(
        self, name: str, requested: str, found: list[int], same: list[int], normalize: ArgumentBinder
    ) -> str:
        if found:
            times = pluralize(len(found), "time")
            return f"{name}({requested}) was called {times}, and was given already; {_ADVICE}"
        if not same:
            names = sorted({call.name for call in self._tool_calls})
            recorded = f"; recorded are {format_list(names)}" if names else " or of any other tool"
            return f"the trace has no call of the tool {name!r}{recorded}"
        calls = [self._tool_calls[index] for index in same]
        if all(call.has_unknown_arguments for call in calls):
            return f"the arguments of {name!r} were not recorded"
        texts = [canonical_json(normalize(_arguments_of(call))) for call in calls]
        closest = max(texts, key=lambda text: difflib.SequenceMatcher(None, text, requested).ratio())
        return f"the closest call of {name!r} has other arguments: {describe_difference(closest, requested)}"


def _as_map(arguments: Mapping[str, Any] | str) -> Any:
    return parse_if_container(arguments) or {}


def _arguments_of(call: ToolCall) -> Mapping[str, Any] | str:
    return call.arguments if call.invalid_arguments is None else call.invalid_arguments


def _describe_call(call: ToolCall) -> str:
    return f"{call.name}({canonical_json(_arguments_of(call))})"
