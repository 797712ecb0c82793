"""What a run has done so far, from LangChain's callbacks: one that breaks off returns nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from dokimos.core.extras import require
from dokimos.core.text import error_text
from dokimos.integrations.reading import get

EXTRA: Final = "langchain"
_OF_THE_RUN: Final = ("ai", "AIMessageChunk", "tool")
"""The types of messages that tell what an agent did."""


class RunWatch:
    """The messages that the nodes of one run gave, and what became of its calls of tools.

    Nodes of graphs within the graph count; what runs within a tool does not, since its call tells of it. Of a
    chain, whose parts may give anything, the messages are those of its models and tools.
    """

    def __init__(self, mark: str | None = None, *, of_models: bool = False) -> None:
        """`mark` is the id of the message that the run answers: those up to it are not the run's."""
        self._mark = mark
        self._of_models = of_models
        self._hidden: set[Any] = set()
        """The runs of tools, and those within them."""
        self._given: dict[Any, Any] = {}
        self._results: dict[str, Any] = {}

    def options(self, target: Any, run_options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the options of a run with this watch among its callbacks, where its target has such."""
        runnables = sys.modules.get("langchain_core.runnables")
        if runnables is None or not isinstance(target, runnables.Runnable):
            return run_options
        config = dict(run_options.get("config") or {})
        theirs = config.get("callbacks")
        handler = self._handler()
        if theirs is None or isinstance(theirs, list | tuple):
            config["callbacks"] = [*(theirs or ()), handler]
        else:
            config["callbacks"] = theirs.copy()
            config["callbacks"].add_handler(handler)
        return {**run_options, "config": config}

    def messages(self) -> list[Any]:
        """Return the messages so far; results that did not come to be in the state are the last of them."""
        given = list(self._given.values())
        told = {get(message, "tool_call_id") for message in given}
        asked = [get(call, "id") for message in given for call in get(message, "tool_calls", default=())]
        late = [self._results[each] for each in asked if each not in told and each in self._results]
        return [*given, *late]

    def _hide(self, run_id: Any, parent: Any, *, is_tool: bool) -> None:
        if is_tool or parent in self._hidden:
            self._hidden.add(run_id)

    def _add(self, messages: list[Any]) -> None:
        """Add messages that a node gave; a graph within tells again what its nodes told."""
        marked = [
            place for place, message in enumerate(messages) if self._mark == get(message, "id", default="")
        ]
        for message in messages[marked[-1] + 1 if marked else 0 :]:
            if get(message, "type") in _OF_THE_RUN:
                self._given.setdefault(get(message, "id", default=id(message)), message)

    def _end_model(self, response: Any, parent: Any) -> None:
        if self._of_models and parent not in self._hidden:
            given = [each for each in get(response, "generations", default=()) if each]
            self._add([get(each[0], "message") for each in given])

    def _end_tools(self, output: Any) -> None:
        for result in _messages_in(output):
            if get(result, "type") == "tool":
                self._end_tool(result)

    def _end_tool(self, result: Any) -> None:
        identity = get(result, "tool_call_id", default="")
        if self._of_models:  # in the order of time, as nobody else tells it
            self._given.setdefault(("result", identity), result)
        else:
            self._results[identity] = result

    def _handler(self) -> Any:
        base = require("langchain_core.callbacks", EXTRA).BaseCallbackHandler
        watch = self

        class Handler(base):  # type: ignore[misc,valid-type] # known only where it is installed
            run_inline = True  # else the order of what happens would be that of threads

            def on_chain_start(self, *args: Any, run_id: Any, parent_run_id: Any = None, **kw: Any) -> None:
                watch._hide(run_id, parent_run_id, is_tool=False)

            def on_llm_end(self, response: Any, *, parent_run_id: Any = None, **kwargs: Any) -> None:
                watch._end_model(response, parent_run_id)

            def on_chain_end(self, outputs: Any, *, run_id: Any, **kwargs: Any) -> None:
                if run_id not in watch._hidden and not watch._of_models:
                    watch._add(list(_messages_in(outputs)))

            def on_tool_start(self, *args: Any, run_id: Any, parent_run_id: Any = None, **kw: Any) -> None:
                watch._hide(run_id, parent_run_id, is_tool=True)

            def on_tool_end(self, output: Any, *, parent_run_id: Any = None, **kwargs: Any) -> None:
                if parent_run_id not in watch._hidden:
                    watch._end_tools(output)

            def on_tool_error(self, error: BaseException, *, tool_call_id: Any = None, **kwargs: Any) -> None:
                failed = {"type": "tool", "tool_call_id": tool_call_id, "status": "error"}
                watch._end_tool({**failed, "content": error_text(error)})

        return Handler()


def _messages_in(given: Any) -> Iterator[Any]:
    """Yield the messages in what a node or a tool gave: an update, a command, a message, or several."""
    if isinstance(given, list | tuple):
        for each in given:
            yield from _messages_in(each)
    elif isinstance(given, Mapping) and "type" not in given:
        yield from _messages_in(given.get("messages"))
    elif get(given, "update") is not None:
        yield from _messages_in(get(given, "update"))
    elif get(given, "type") is not None:
        yield given
