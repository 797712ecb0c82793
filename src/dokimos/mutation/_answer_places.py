"""Where the outputs of an item hold its answer and its tool calls, and the outputs with others there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

from dokimos._core.agent import ToolCall
from dokimos._core.contexts import NAMES as CONTEXT_NAMES
from dokimos._core.conversation import ConversationTrajectory, Role, parse_trajectory
from dokimos._core.keys import ERRORS, OUTPUT, REASONING_STEPS, TOOL_CALLS, TOOLS, TRAJECTORY
from dokimos._core.tool_lists import tool_calls_from, tool_definitions_from
from dokimos.errors import EvaluationError

T = TypeVar("T")

TURNS: Final = "turns"
"""Where the outputs of a suite's conversation have its turns, each with its own outputs."""
_NOT_ANSWERS: Final = frozenset({TOOL_CALLS, REASONING_STEPS, TOOLS, TRAJECTORY, TURNS, ERRORS})


@dataclass(frozen=True, slots=True)
class Place(Generic[T]):
    """A value in the outputs of an item."""

    value: T
    put: Callable[[T], Mapping[str, Any]]
    """Returns the outputs with another value in this place."""


def find_answer(outputs: Mapping[str, Any]) -> Place[Any] | None:
    """Return where the answer is: the output, of a conversation its last reply; None where there is none."""
    turn = _last_turn(outputs, lambda one: one.get(OUTPUT) is not None)
    if turn is not None:
        index, content = turn
        return Place(content[OUTPUT], lambda new: _with_turn(outputs, index, {**content, OUTPUT: new}))
    talk = _find_trajectory(outputs)
    if outputs.get(OUTPUT) is not None:
        return Place(outputs[OUTPUT], lambda new: _with_output(outputs, talk, new))
    reply = None if talk is None else _last_reply(talk)
    if talk is not None and reply is not None:
        return _reply_place(outputs, talk, reply)
    return _find_other_answer(outputs)


def find_tool_calls(outputs: Mapping[str, Any]) -> Place[tuple[ToolCall, ...]] | None:
    """Return where the tool calls are; None where nothing was called."""
    turn = _last_turn(outputs, lambda one: bool(one.get(TOOL_CALLS)))
    if turn is not None:
        index, content = turn
        called = _read_calls(content[TOOL_CALLS])
        if not called:
            return None
        return Place(called, lambda new: _with_turn(outputs, index, {**content, TOOL_CALLS: list(new)}))
    talk = _find_trajectory(outputs)
    calls = _read_calls(outputs.get(TOOL_CALLS))
    if calls:
        return Place(calls, lambda new: _with_calls(outputs, talk, calls, new))
    return None if talk is None or not talk.tool_calls else _talk_calls_place(outputs, talk)


def find_tool_names(outputs: Mapping[str, Any], metadata: Mapping[str, Any]) -> list[str]:
    """Return the names of the tools that an agent has, as far as the item tells."""
    for source in (outputs, metadata):
        if source.get(TOOLS):
            try:
                return [tool.name for tool in tool_definitions_from(source[TOOLS], key=TOOLS)]
            except EvaluationError:
                continue
    return []


def _find_other_answer(outputs: Mapping[str, Any]) -> Place[Any] | None:
    """Return the answer of an application that names its outputs otherwise: the only one, or all of them."""
    others = {key: one for key, one in outputs.items() if key not in _NOT_ANSWERS and one is not None}
    # What was retrieved beside an answer is not said to anybody; of a retriever it is the answer.
    others = {key: one for key, one in others.items() if key not in CONTEXT_NAMES} or others
    if len(others) == 1:
        [(key, value)] = others.items()
        return Place(value, lambda new: {**outputs, key: new})
    if not others:
        return None
    return Place(others, lambda new: {**outputs, **_as_outputs(outputs, others, new)})


def _as_outputs(outputs: Mapping[str, Any], before: Mapping[str, Any], new: Any) -> dict[str, Any]:
    if isinstance(new, Mapping):
        return {key: new.get(key) for key in before}
    return {**dict.fromkeys(before), OUTPUT: new}


def _last_turn(
    outputs: Mapping[str, Any], has: Callable[[Mapping[str, Any]], bool]
) -> tuple[int, Mapping[str, Any]] | None:
    turns = outputs.get(TURNS)
    if not isinstance(turns, Sequence) or isinstance(turns, str):
        return None
    for index in reversed(range(len(turns))):
        if isinstance(turns[index], Mapping) and has(turns[index]):
            return index, turns[index]
    return None


def _with_turn(outputs: Mapping[str, Any], index: int, turn: Mapping[str, Any]) -> dict[str, Any]:
    turns = list(outputs[TURNS])
    before = turns[index].get(OUTPUT)
    turns[index] = turn
    changed = {**outputs, TURNS: turns}
    # The whole case has the last reply as its output, too.
    if OUTPUT in outputs and outputs[OUTPUT] == before:
        changed[OUTPUT] = turn.get(OUTPUT)
    return changed


def _find_trajectory(outputs: Mapping[str, Any]) -> ConversationTrajectory | None:
    if outputs.get(TRAJECTORY) is None:
        return None
    try:
        return parse_trajectory(outputs[TRAJECTORY], key=TRAJECTORY)
    except EvaluationError:
        return None


def _reply_place(outputs: Mapping[str, Any], talk: ConversationTrajectory, index: int) -> Place[Any]:
    return Place(
        talk.messages[index].content, lambda new: {**outputs, TRAJECTORY: _with_reply(talk, index, new)}
    )


def _talk_calls_place(
    outputs: Mapping[str, Any], talk: ConversationTrajectory
) -> Place[tuple[ToolCall, ...]]:
    return Place(talk.tool_calls, lambda new: {**outputs, TRAJECTORY: _with_talk_calls(talk, new)})


def _last_reply(talk: ConversationTrajectory) -> int | None:
    indexes = (i for i in reversed(range(len(talk.messages))) if talk.messages[i].role is Role.ASSISTANT)
    return next(indexes, None)


def _with_output(outputs: Mapping[str, Any], talk: ConversationTrajectory | None, new: Any) -> dict[str, Any]:
    changed = {**outputs, OUTPUT: new}
    index = None if talk is None else _last_reply(talk)
    # A fault in one of two copies of a reply would be found by whoever compares them.
    if talk is not None and index is not None and talk.messages[index].content == outputs[OUTPUT]:
        changed[TRAJECTORY] = _with_reply(talk, index, new)
    return changed


def _with_reply(talk: ConversationTrajectory, index: int, text: Any) -> ConversationTrajectory:
    messages = list(talk.messages)
    messages[index] = replace(messages[index], content=str(text))
    return replace(talk, messages=tuple(messages))


def _read_calls(value: Any) -> tuple[ToolCall, ...] | None:
    if not value:
        return None
    try:
        return tool_calls_from(value, key=TOOL_CALLS)
    except EvaluationError:
        return None


def _with_calls(
    outputs: Mapping[str, Any],
    talk: ConversationTrajectory | None,
    before: Sequence[ToolCall],
    calls: Sequence[ToolCall],
) -> dict[str, Any]:
    changed = {**outputs, TOOL_CALLS: list(calls)}
    if talk is not None and tuple(talk.tool_calls) == tuple(before):
        changed[TRAJECTORY] = _with_talk_calls(talk, calls)
    return changed


def _with_talk_calls(talk: ConversationTrajectory, calls: Sequence[ToolCall]) -> ConversationTrajectory:
    left = iter(calls)
    messages = tuple(
        replace(message, tool_calls=tuple(next(left) for _ in message.tool_calls))
        for message in talk.messages
    )
    return replace(talk, messages=messages)
