"""Records what a run does through LangChain's callbacks: a run that fails returns nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from dokimos._core.extras import require
from dokimos._core.text import error_text
from dokimos.integrations._framework_objects import get

EXTRA: Final = "langchain"
_RECORDED_TYPES: Final = ("ai", "AIMessageChunk", "tool")
"""The types of messages that an agent and its tools produce."""


class MessageRecorder:
    """Records the messages that the nodes of one run produced, and the results of its tool calls.

    Nodes of graphs within the graph count; what runs within a tool does not, since the call of the tool
    stands for it. Of a chain, whose parts may return anything, the messages are those of its models and
    tools.
    """

    def __init__(self, request_id: str | None = None, *, of_models: bool = False) -> None:
        """`request_id` is the id of the message that the run answers: those up to it are not recorded."""
        self._request_id = request_id
        self.of_models = of_models
        self.hidden_runs: set[Any] = set()
        """The ids of runs of tools, and of those within them."""
        self._messages: dict[Any, Any] = {}
        self._results: dict[str, Any] = {}

    def add_to_options(self, target: object, run_options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the options of a run with this recorder among its callbacks, if the target has callbacks."""
        runnables = sys.modules.get("langchain_core.runnables")
        if runnables is None or not isinstance(target, runnables.Runnable):
            return run_options
        config = dict(run_options.get("config") or {})
        callbacks = config.get("callbacks")
        handler = self._handler()
        if callbacks is None or isinstance(callbacks, list | tuple):
            config["callbacks"] = [*(callbacks or ()), handler]
        else:
            config["callbacks"] = callbacks.copy()
            config["callbacks"].add_handler(handler)
        return {**run_options, "config": config}

    def messages(self) -> list[Any]:
        """Return the messages so far; results that did not reach the state come last."""
        messages = list(self._messages.values())
        answered = {get(message, "tool_call_id") for message in messages}
        requested = [
            get(call, "id") for message in messages for call in get(message, "tool_calls", default=())
        ]
        late = [self._results[i] for i in requested if i not in answered and i in self._results]
        return [*messages, *late]

    def hide_run(self, run_id: object, parent: object, *, is_tool: bool) -> None:
        if is_tool or parent in self.hidden_runs:
            self.hidden_runs.add(run_id)

    def add_messages(self, messages: list[Any]) -> None:
        """Add the messages of a node; a graph within the graph repeats those of its own nodes."""
        requests = [
            i for i, message in enumerate(messages) if self._request_id == get(message, "id", default="")
        ]
        for message in messages[requests[-1] + 1 if requests else 0 :]:
            if get(message, "type") in _RECORDED_TYPES:
                self._messages.setdefault(get(message, "id", default=id(message)), message)

    def end_model(self, response: object, parent: object) -> None:
        if self.of_models and parent not in self.hidden_runs:
            generations = [each for each in get(response, "generations", default=()) if each]
            self.add_messages([get(each[0], "message") for each in generations])

    def add_tool_results(self, output: object) -> None:
        for result in _iterate_messages(output):
            if get(result, "type") == "tool":
                self.add_tool_result(result)

    def add_tool_result(self, result: object) -> None:
        call_id = get(result, "tool_call_id", default="")
        if self.of_models:  # keeps the order of time, which is known nowhere else
            self._messages.setdefault(("result", call_id), result)
        else:
            self._results[call_id] = result

    def _handler(self) -> Any:
        base = require("langchain_core.callbacks", EXTRA).BaseCallbackHandler
        recorder = self

        class Handler(base):  # type: ignore[misc,valid-type] # known only where it is installed
            run_inline = True  # callbacks in threads would come in any order

            def on_chain_start(
                self, *args: Any, run_id: object, parent_run_id: object = None, **kw: Any
            ) -> None:
                recorder.hide_run(run_id, parent_run_id, is_tool=False)

            def on_llm_end(self, response: object, *, parent_run_id: object = None, **kwargs: Any) -> None:
                recorder.end_model(response, parent_run_id)

            def on_chain_end(self, outputs: object, *, run_id: object, **kwargs: Any) -> None:
                if run_id not in recorder.hidden_runs and not recorder.of_models:
                    recorder.add_messages(list(_iterate_messages(outputs)))

            def on_tool_start(
                self, *args: Any, run_id: object, parent_run_id: object = None, **kw: Any
            ) -> None:
                recorder.hide_run(run_id, parent_run_id, is_tool=True)

            def on_tool_end(self, output: object, *, parent_run_id: object = None, **kwargs: Any) -> None:
                if parent_run_id not in recorder.hidden_runs:
                    recorder.add_tool_results(output)

            def on_tool_error(
                self, error: BaseException, *, tool_call_id: object = None, **kwargs: Any
            ) -> None:
                failed = {"type": "tool", "tool_call_id": tool_call_id, "status": "error"}
                recorder.add_tool_result({**failed, "content": error_text(error)})

        return Handler()


def _iterate_messages(output: object) -> Iterator[Any]:
    """Yield the messages in the output of a node or a tool: an update, a command, a message, or several."""
    if isinstance(output, list | tuple):
        for each in output:
            yield from _iterate_messages(each)
    elif isinstance(output, Mapping) and "type" not in output:
        yield from _iterate_messages(output.get("messages"))
    elif get(output, "update") is not None:
        yield from _iterate_messages(get(output, "update"))
    elif get(output, "type") is not None:
        yield output
