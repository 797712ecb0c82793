"""Combines the chunks that a graph of LangGraph streams into its final state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from dokimos.errors import IntegrationError
from dokimos.integrations._framework_objects import get

VALUES: Final = "values"
UPDATES: Final = "updates"
_EVENT_KEYS: Final = (
    {"payload"},
    {"id", "name", "triggers"},
    {"id", "name", "result"},
    {"config", "values"},
)
"""Keys of chunks about debugging, tasks (begun and done) and checkpoints, which are not states."""


def check_stream_mode(mode: str | Sequence[str] | None) -> None:
    """Refuse a mode of streaming from which a trace cannot be parsed.

    Raises:
        IntegrationError: if neither `values` nor `updates` is among the modes.
    """
    modes = [mode] if isinstance(mode, str) else mode or [VALUES]
    if not {VALUES, UPDATES}.intersection(modes):
        raise IntegrationError(_describe_mode(", ".join(map(str, modes))))


def parse_stream(result: object) -> Any:
    """Return the final state of a list of a graph's chunks; anything else is returned as it is.

    Of the chunks of several modes the states are used, or else the updates; those of subgraphs are skipped,
    since the graph itself repeats their results.

    Raises:
        IntegrationError: for chunks of another mode.
    """
    if not isinstance(result, list | tuple) or not result:
        return result
    chunks = list(_select_chunks(result))
    if not chunks or not all(_is_chunk(chunk) for chunk in chunks):
        return result
    if any(_is_event(chunk) for chunk in chunks):
        raise IntegrationError(_describe_mode("of tasks, checkpoints or debugging"))
    return _merge(chunks) if all(_is_update(chunk) for chunk in chunks) else chunks[-1]


def _describe_mode(mode: str) -> str:
    return (
        f"The tool calls of a graph cannot be read from this stream ({mode}). "
        f'Use stream_mode="values" or "updates", or none.'
    )


def _select_chunks(result: Sequence[Any]) -> Iterator[Any]:
    """Yield chunks without the names of their modes and subgraphs."""
    chunks = [_split_chunk(each) for each in result]
    modes = {mode for mode, _ in chunks}
    selected = next((mode for mode in (VALUES, UPDATES) if mode in modes), None)
    yield from (chunk for mode, chunk in chunks if mode in (selected, None))


def _split_chunk(each: object) -> tuple[str | None, Any]:
    """Return the mode of a chunk, None if it has none, and its content."""
    if not isinstance(each, tuple):
        return None, each
    # LangGraph puts the path of a subgraph and the mode before a chunk, each only if it was asked for.
    *prefix, chunk = each
    if prefix and isinstance(prefix[0], tuple):
        namespace, *prefix = prefix
        if namespace:
            return "of a subgraph", chunk
    # The mode "messages" gives pairs of a piece of a message and its metadata.
    if len(each) == 2 and get(each[0], "type") is not None and isinstance(each[1], Mapping):
        raise IntegrationError(_describe_mode("of messages"))
    return (prefix[0] if prefix and isinstance(prefix[0], str) else None), chunk


def _is_chunk(chunk: object) -> bool:
    return isinstance(chunk, Mapping) and ("payload" in chunk or not {"role", "type"} & chunk.keys())


def _is_event(chunk: Mapping[str, Any]) -> bool:
    return "messages" not in chunk and any(chunk.keys() >= keys for keys in _EVENT_KEYS)


def _is_update(chunk: Mapping[str, Any]) -> bool:
    """Say whether a chunk has the changes of nodes by their names, and is not a state."""
    return all(
        name.startswith("__") or change is None or isinstance(change, Mapping) or _are_maps(change)
        for name, change in chunk.items()
    )


def _are_maps(change: object) -> bool:
    """Say whether this is a list of the changes of one node, and not the messages of a state."""
    return isinstance(change, list) and all(
        isinstance(each, Mapping) and not {"role", "type"} & each.keys() for each in change
    )


def _merge(updates: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge updates into a state; a message with an id that was there before replaces the earlier one."""
    state: dict[str, Any] = {}
    messages: dict[Any, Any] = {}
    for update in updates:
        for name, changes in update.items():
            for change in changes if isinstance(changes, list) else [changes]:
                # Names such as `__interrupt__` are not those of nodes.
                if isinstance(change, Mapping) and not name.startswith("__"):
                    state |= change
                    messages |= _by_id(change.get("messages"), len(messages))
    return {**state, "messages": list(messages.values())}


def _by_id(messages: object, offset: int) -> dict[Any, Any]:
    several = messages if isinstance(messages, list | tuple) else [] if messages is None else [messages]
    return {get(each, "id") or (offset, index): each for index, each in enumerate(several)}
