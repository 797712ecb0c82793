"""What a graph of LangGraph streams, put together to the state that it comes to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from dokimos.errors import IntegrationError
from dokimos.integrations.reading import get

VALUES: Final = "values"
UPDATES: Final = "updates"
_ABOUT_THE_RUN: Final = (
    {"payload"},
    {"id", "name", "triggers"},
    {"id", "name", "result"},
    {"config", "values"},
)
"""What tells chunks of debugging, of tasks (begun and done) and of checkpoints from states."""


def check_stream_mode(mode: Any) -> None:
    """Refuse a mode of streaming that does not tell what a graph did.

    Raises:
        IntegrationError: for any mode but `values` and `updates`, alone or among others.
    """
    modes = [mode] if isinstance(mode, str) else mode or [VALUES]
    if not {VALUES, UPDATES}.intersection(modes):
        raise IntegrationError(_unreadable(", ".join(map(str, modes))))


def read_stream(result: Any) -> Any:
    """Return the state that a list of a graph's chunks comes to; what is no such list stays as it is.

    Of the chunks of several modes the states are read, or else the updates; those of subgraphs are left out,
    since the graph itself says what came of them.

    Raises:
        IntegrationError: for chunks of another mode.
    """
    if not isinstance(result, list | tuple) or not result:
        return result
    chunks = list(_chunks_of_mode(result))
    if not chunks or not all(_is_chunk(chunk) for chunk in chunks):
        return result
    if any(_is_about_the_run(chunk) for chunk in chunks):
        raise IntegrationError(_unreadable("of tasks, checkpoints or debugging"))
    return _merge(chunks) if all(_is_update(chunk) for chunk in chunks) else chunks[-1]


def _unreadable(mode: str) -> str:
    return (
        f"A stream ({mode}) does not tell which tools a graph called in a form that can be read; "
        f'use stream_mode="values" or "updates", or none.'
    )


def _chunks_of_mode(result: Sequence[Any]) -> Iterator[Any]:
    """Yield chunks without the names of their modes and subgraphs."""
    told = [_told(each) for each in result]
    modes = {mode for mode, _ in told}
    chosen = next((mode for mode in (VALUES, UPDATES) if mode in modes), None)
    yield from (chunk for mode, chunk in told if mode in (chosen, None))


def _told(each: Any) -> tuple[str | None, Any]:
    """Return the mode of a chunk, None where it does not say, and what it holds."""
    if not isinstance(each, tuple):
        return None, each
    *about, chunk = each
    if about and isinstance(about[0], tuple):
        place, *about = about
        if place:
            return "of a subgraph", chunk
    if len(each) == 2 and get(each[0], "type") is not None and isinstance(each[1], Mapping):
        raise IntegrationError(_unreadable("of messages"))
    return (about[0] if about and isinstance(about[0], str) else None), chunk


def _is_chunk(chunk: Any) -> bool:
    return isinstance(chunk, Mapping) and ("payload" in chunk or not {"role", "type"} & chunk.keys())


def _is_about_the_run(chunk: Mapping[str, Any]) -> bool:
    return "messages" not in chunk and any(chunk.keys() >= keys for keys in _ABOUT_THE_RUN)


def _is_update(chunk: Mapping[str, Any]) -> bool:
    """Tell what nodes changed, by their names, from a state."""
    return all(
        name.startswith("__") or change is None or isinstance(change, Mapping) or _are_maps(change)
        for name, change in chunk.items()
    )


def _are_maps(change: Any) -> bool:
    """Tell the changes of a node that gave several from the messages of a state."""
    return isinstance(change, list) and all(
        isinstance(each, Mapping) and not {"role", "type"} & each.keys() for each in change
    )


def _merge(updates: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Put updates together: messages in order, one that comes again in the place of the first."""
    state: dict[str, Any] = {}
    messages: dict[Any, Any] = {}
    for update in updates:
        for name, given in update.items():
            for change in given if isinstance(given, list) else [given]:
                if isinstance(change, Mapping) and not name.startswith("__"):
                    state |= change
                    messages |= _by_id(change.get("messages"), len(messages))
    return {**state, "messages": list(messages.values())}


def _by_id(messages: Any, before: int) -> dict[Any, Any]:
    several = messages if isinstance(messages, list | tuple) else [] if messages is None else [messages]
    return {get(each, "id") or (before, place): each for place, each in enumerate(several)}
