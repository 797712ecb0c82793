"""Asking a judge for an answer of a given shape: ask, complete, parse, and repair once.

The steps and where they are:

1. `ask` adds the JSON Schema of the shape to the prompt.
2. `complete` (`judge_calls`) finds the reply in a cache, or makes the call within the budget.
3. `parse_reply` (`reply_parser`) finds the judge's own verdict in the reply; `lenient_json` parses JSON as
   models write it, repairing commas, quotes and fences on the way.
4. An unusable reply is sent back to the judge once, with what is wrong with it (`_repair_prompt`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from typing import Any, Final, Generic, NamedTuple, TypeVar

from dokimos._core.results import CONTESTED, HARD_ERRORS, worst_kind
from dokimos._core.text import shorten
from dokimos.errors import JudgeReplyError, RunError
from dokimos.judges._fencing import fence
from dokimos.judges._judge_calls import complete, reject
from dokimos.judges._judged_text import JudgedText
from dokimos.judges._protocol import JudgeLM, JudgeReply
from dokimos.judges._reasoning import without_reasoning
from dokimos.judges._reply_parser import UnusableReply, parse_reply
from dokimos.judges._reply_schema import schema_of

T = TypeVar("T")

MAX_QUOTED_REPLY: Final = 500
JUDGES_REPLY: Final = "The judge's reply"


async def ask(
    judge: JudgeLM,
    prompt: str,
    shape: type[T],
    *,
    check: Callable[[T], None] | None = None,
    parse: Callable[[str], T | None] | None = None,
    sample: int = 0,
    reply_name: str = JUDGES_REPLY,
) -> T:
    """Ask a judge and return its answer as `shape`, a dataclass.

    The prompt shows the judge the shape, and providers that can enforce a JSON Schema do so. A reply that
    cannot be parsed, lacks a field, has a value that the shape does not allow, or that `check` refuses (by
    raising `ValueError`) is sent back once for repair, with what is wrong with it. So is a reply that leaves
    open which of its JSON is the judge's own answer and which it quotes from the fenced text of the prompt.

    Args:
        judge: The judge to ask.
        prompt: The question; may contain fenced text.
        shape: A dataclass whose field types say what is allowed, such as `Annotated[float, Field(ge=0)]`.
        check: Validates what the types cannot express.
        parse: Parses a plain reply, without its reasoning, that need not be JSON; returns None if it must be.
        sample: Distinguishes independent samples of one question.
        reply_name: What error messages call the reply, where the model is asked for something else than a
            verdict.

    Raises:
        JudgeReplyError: if the repaired reply is unusable too.
        JudgeUnavailableError: if there is no reply.
    """
    answer = await ask_with_reply(
        judge, prompt, shape, check=check, parse=parse, sample=sample, reply_name=reply_name
    )
    return answer.value


class Answer(NamedTuple, Generic[T]):
    """A parsed answer, with the reply that it comes from."""

    value: T
    reply: JudgeReply
    start: int
    """Where the JSON of the answer begins in the text of the reply."""


async def ask_with_reply(
    judge: JudgeLM,
    prompt: str,
    shape: type[T],
    *,
    check: Callable[[T], None] | None = None,
    parse: Callable[[str], T | None] | None = None,
    sample: int = 0,
    reply_name: str = JUDGES_REPLY,
) -> Answer[T]:
    """Like `ask`, but return the reply too, for its token probabilities."""
    form: Any = shape  # to a type checker, a class is not hashable
    schema = schema_of(form)
    judged = JudgedText(prompt)

    question = f"{prompt}\n\n{_schema_instruction(form)}"
    reply = await complete(judge, question, schema=schema, sample=sample)
    try:
        return _parse_answer(reply, shape, check, judged, parse)
    except UnusableReply as problem:
        first = problem
    repair = _repair_prompt(question, reply.text, first)
    try:
        reply = await complete(judge, repair, schema=schema, sample=sample)
        return _parse_answer(reply, shape, check, judged, parse)
    except UnusableReply as problem:
        unusable = _unusable_reply_error(reply_name, reply, first, problem)
    except JudgeReplyError as cut_off:
        # A reply that may be an attack stays one, whatever happens to its repair: that error cannot be
        # softened.
        if cut_off.kind == first.kind or first.kind != CONTESTED:
            raise
        raise JudgeReplyError(str(cut_off), metrics=cut_off.metrics, kind=first.kind) from cut_off
    for sent_prompt in (question, repair):
        # Both calls, or a run that retries its errors would get the same first reply from its store.
        await reject(judge, sent_prompt, unusable, schema=schema, sample=sample)
    raise unusable


def _parse_answer(
    reply: JudgeReply,
    shape: type[T],
    check: Callable[[T], None] | None,
    judged: JudgedText,
    parse: Callable[[str], T | None] | None,
) -> Answer[T]:
    if parse is not None and not reply.schema_enforced:
        without_thoughts = without_reasoning(reply.text, may_begin_inside=not judged.closes_reasoning)
        plain = parse(without_thoughts.text)
        if plain is not None:
            return Answer(plain, reply, 0)
    parsed = parse_reply(reply.text, shape, check, judged=judged, enforced=reply.schema_enforced)
    return Answer(parsed.answer, reply, parsed.start)


def _unusable_reply_error(
    reply_name: str, reply: JudgeReply, first: UnusableReply, last: UnusableReply
) -> JudgeReplyError:
    kind = worst_kind([first.kind, last.kind]) or last.kind
    contested = [problem for problem in (first, last) if problem.kind == CONTESTED]
    what = ""
    # Who writes a text instead of a verdict is not attacked by what it was shown.
    if contested and reply_name == JUDGES_REPLY:
        # An endpoint that ignores the schema is far more common than a text that changes the keys.
        is_misfit = all(problem.is_misfit for problem in contested)
        what = "does not have the form that was asked for and " if is_misfit else _CONTESTED
    return JudgeReplyError(
        f"{reply_name} {what}could not be used after one repair: {last}. It was: "
        f"{shorten(reply.text, MAX_QUOTED_REPLY)!r}",
        kind=kind,
    )


_CONTESTED: Final = "is contested, which may be an attack, and "


async def gather_answers(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Await several questions to judges, and raise the most severe of the errors that occur.

    A reply that may be an attack must not hide behind an endpoint that happens to fail at the same time.
    """
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if errors:
        raise min(errors, key=_softness)
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


def _softness(error: BaseException) -> int:
    if isinstance(error, JudgeReplyError):
        return 1 + HARD_ERRORS.index(error.kind) if error.kind in HARD_ERRORS else len(HARD_ERRORS) + 1
    ends_all = isinstance(error, RunError) or not isinstance(error, Exception)
    return 0 if ends_all else len(HARD_ERRORS) + 1


@cache
def _schema_instruction(shape: object) -> str:
    return f"Reply with one JSON object only, valid under this JSON Schema:\n{json.dumps(schema_of(shape))}"


def _repair_prompt(question: str, reply: str, problem: ValueError) -> str:
    # The reply may repeat instructions from the judged text, so it is fenced like the rest of the material.
    return (
        f"{question}\n\nYour last reply could not be used: {problem}.\n"
        f"{fence('Last Reply', reply[:2000])}\n\n"
        "Reply again with the JSON object only, and nothing before or after it."
    )
