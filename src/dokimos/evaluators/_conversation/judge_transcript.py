"""A conversation as a judge reads it: one line for each message, so that none can pass for another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dokimos._core.conversation import ConversationTrajectory, Message, Role, call_text
from dokimos._core.jsonable import text_form
from dokimos.evaluators._llm.case_sections import one_line, section


def transcript(
    trajectory: ConversationTrajectory, *, tool_calls: bool = False, first: int = 0, end: int | None = None
) -> str:
    """Return the scenario and the conversation, fenced, with the assistant's replies numbered from 1.

    Args:
        trajectory: The conversation.
        tool_calls: Whether calls are shown, each under its message, with its result.
        first: How many replies come before the one that is number 1; they have no number.
        end: How many replies there are to see; all unless given.
    """
    messages = trajectory.messages if end is None else _until(trajectory.messages, end)
    lines = "\n".join(_lines(messages, tool_calls, first))
    scenario = section("Scenario", trajectory.scenario) if trajectory.scenario else ""
    conversation = section("Conversation", lines)
    return f"{scenario}\n{conversation}" if scenario else conversation


def _until(messages: Sequence[Message], replies: int) -> Sequence[Message]:
    """Return the messages up to the given reply."""
    reply_indexes = [index for index, message in enumerate(messages) if message.role is Role.ASSISTANT]
    return messages[: reply_indexes[replies - 1] + 1] if replies < len(reply_indexes) else messages


def _lines(messages: Sequence[Message], tool_calls: bool, first: int) -> Iterator[str]:
    reply = -first
    for message in messages:
        reply += message.role is Role.ASSISTANT
        number = f"[{reply}] " if message.role is Role.ASSISTANT and reply > 0 else ""
        yield f"{number}{message.role.upper()}: {one_line(message.content)}"
        for call in message.tool_calls if tool_calls else ():
            result = "" if call.result is None else f" -> {text_form(call.result)}"
            yield f"    tool call: {one_line(call_text(call) + result)}"
