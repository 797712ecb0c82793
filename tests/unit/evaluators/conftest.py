"""A judge for tests: it tells the questions apart by the shape of the reply that is asked for."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest

from dokimos.judges._protocol import JudgeReply
from dokimos.judges._run_scope import RunScope, enter_scope, sharing_within_item

SUMMARY = "summary"


class ScriptedJudge:
    """Answers each kind of question as told: a value, a `deque` of values, or a function of the prompt.

    The kind is the last field of the shape ("score", "winner", "statements" ...), or "summary" where
    plain text is asked for. A string is the reply as it stands, anything else is put into JSON.
    """

    def __init__(self, identity: str = "scripted", **answers: Any) -> None:
        self.identity = identity
        self.answers: dict[str, Any] = {SUMMARY: "In short.", **answers}
        self.asked: list[str] = []
        self.prompts: list[str] = []

    async def complete(self, prompt: str, *, schema: Mapping[str, Any] | None = None) -> JudgeReply:
        kind = SUMMARY if schema is None else list(schema["properties"])[-1]
        self.asked.append(kind)
        self.prompts.append(prompt)
        await asyncio.sleep(0)
        answer = self.answers[kind]
        if isinstance(answer, deque):
            answer = answer.popleft()
        if callable(answer):
            answer = answer(prompt)
        if isinstance(answer, JudgeReply):
            return answer
        if isinstance(answer, str):
            return JudgeReply(answer)
        return JudgeReply(json.dumps(answer if isinstance(answer, dict) else {kind: answer}))


def run_with_scope(work: Callable[[], Coroutine[Any, Any, Any]], *, one_item: bool = False) -> Any:
    async def main() -> Any:
        enter_scope(RunScope(in_flight={}))
        if not one_item:
            return await work()
        with sharing_within_item():
            return await work()

    return asyncio.run(main())


@pytest.fixture
def scripted() -> type[ScriptedJudge]:
    return ScriptedJudge


@pytest.fixture
def in_run() -> Callable[..., Any]:
    """Runs async work as the runner would: inside a run, and with `one_item=True` inside one of its items."""
    return run_with_scope
