"""What a graph has done so far, from LangChain's callbacks: a run that breaks off returns nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dokimos.core.extras import require
from dokimos.core.text import error_text
from dokimos.integrations.reading import get

EXTRA: Final = "langchain"
_OF_THE_RUN: Final = ("ai", "AIMessageChunk", "tool")
"""The types of messages that tell what an agent did."""


class GraphWatch:
    """The messages that the nodes of one run gave, and what became of its calls of tools.

    Nodes of graphs within the graph count; what runs within a tool does not, since its call tells of it.
    """

    def __init__(self, mark: str | None = None) -> None:
        """`mark` is the id of the message that the run answers: those up to it are not the run's."""
        self._mark = mark
        self._hidden: set[Any] = set()
        """The runs of tools, and those within them."""
        self._given: dict[Any, Any] = {}
        self._results: dict[str, Any] = {}

    def options(self, run_options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a run with this watch among its callbacks."""
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

    def _handler(self) -> Any:
        base = require("langchain_core.callbacks", EXTRA).BaseCallbackHandler
        watch = self

        class Handler(base):  # type: ignore[misc,valid-type] # known only where it is installed
            run_inline = True  # else the order of what happens would be that of threads

            def on_chain_start(self, *args: Any, run_id: Any, parent_run_id: Any = None, **kw: Any) -> None:
                watch._hide(run_id, parent_run_id, is_tool=False)

            def on_chain_end(self, outputs: Any, *, run_id: Any, **kwargs: Any) -> None:
                if run_id not in watch._hidden:
                    watch._add(list(_messages_in(outputs)))

            def on_tool_start(self, *args: Any, run_id: Any, parent_run_id: Any = None, **kw: Any) -> None:
                watch._hide(run_id, parent_run_id, is_tool=True)

            def on_tool_end(self, output: Any, *, parent_run_id: Any = None, **kwargs: Any) -> None:
                if parent_run_id not in watch._hidden:
                    results = [each for each in _messages_in(output) if get(each, "type") == "tool"]
                    watch._results |= {get(each, "tool_call_id", default=""): each for each in results}

            def on_tool_error(self, error: BaseException, *, tool_call_id: Any = None, **kwargs: Any) -> None:
                failed = {"type": "tool", "tool_call_id": tool_call_id, "status": "error"}
                watch._results[tool_call_id or ""] = {**failed, "content": error_text(error)}

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
