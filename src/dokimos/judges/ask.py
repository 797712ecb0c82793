"""Asking a judge for an answer of a given shape."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Generic, TypeVar

from dokimos.core.results import CONTESTED, HARD_ERRORS, ErrorKind, worst_kind
from dokimos.core.text import shorten
from dokimos.errors import JudgeReplyError, RunError
from dokimos.judges.calls import complete, reject
from dokimos.judges.fencing import fenced
from dokimos.judges.judged_text import JudgedText
from dokimos.judges.protocol import JudgeLM, JudgeReply
from dokimos.judges.reasoning import without_reasoning
from dokimos.judges.replies import UnusableReply, read_reply
from dokimos.judges.reply_schema import schema_of

T = TypeVar("T")

SHOWN_REPLY: Final = 500


async def ask(
    judge: JudgeLM,
    prompt: str,
    shape: type[T],
    *,
    check: Callable[[T], None] | None = None,
    read: Callable[[str], T | None] | None = None,
    sample: int = 0,
) -> T:
    """Ask a judge and return its answer as `shape`, a dataclass.

    The judge is shown the shape and held to it where it can be. A reply that cannot be read, lacks a field,
    has a value that the shape does not allow, or that `check` refuses (by raising `ValueError`), is sent back
    once with what is wrong with it; so is one that leaves open which of its JSON is the judge's own answer
    and which it quotes from what is fenced in the prompt.

    Args:
        judge: Whom to ask.
        prompt: What to ask; may hold fenced text.
        shape: A dataclass whose field types say what is allowed, such as `Annotated[float, Field(ge=0)]`.
        check: Looks at what the types cannot say.
        read: Reads a reply, without its reasoning, that need not be JSON; None where it has to be.
        sample: Tells independent samples of one question apart.

    Raises:
        JudgeReplyError: when the second reply cannot be used either.
        JudgeUnavailableError: when there was no reply.
    """
    return (await ask_with_reply(judge, prompt, shape, check=check, read=read, sample=sample)).value


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What a judge answered, and the reply that says so."""

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
    read: Callable[[str], T | None] | None = None,
    sample: int = 0,
) -> Answer[T]:
    """Do what `ask` does, and return the reply too, for its token probabilities."""
    form: Any = shape  # to a type checker, a class is not hashable
    schema = schema_of(form)
    judged = JudgedText(prompt)

    question = f"{prompt}\n\n{_shape_request(form)}"
    reply = await complete(judge, question, schema=schema, sample=sample)
    try:
        return _read(reply, shape, check, judged, read)
    except UnusableReply as problem:
        first = problem
    repair = _repair_request(question, reply.text, first)
    try:
        reply = await complete(judge, repair, schema=schema, sample=sample)
        return _read(reply, shape, check, judged, read)
    except UnusableReply as problem:
        unusable = _unusable(reply, problem, worst_kind([first.kind, problem.kind]) or problem.kind)
    except JudgeReplyError as cut_off:
        if cut_off.kind == first.kind or first.kind != CONTESTED:
            raise
        raise JudgeReplyError(str(cut_off), metrics=cut_off.metrics, kind=first.kind) from cut_off
    for asked in (question, repair):
        await reject(judge, asked, unusable, schema=schema, sample=sample)
    raise unusable


def _read(
    reply: JudgeReply,
    shape: type[T],
    check: Callable[[T], None] | None,
    judged: JudgedText,
    read: Callable[[str], T | None] | None,
) -> Answer[T]:
    if read is not None and not reply.schema_enforced:
        spoken = without_reasoning(reply.text, may_begin_inside=not judged.closes_reasoning)
        plain = read(spoken.text)
        if plain is not None:
            return Answer(plain, reply, 0)
    found = read_reply(reply.text, shape, check, judged=judged, enforced=reply.schema_enforced)
    return Answer(found.answer, reply, found.start)


def _unusable(reply: JudgeReply, problem: UnusableReply, kind: ErrorKind) -> JudgeReplyError:
    what = "is contested, which may be an attack, and " if kind == CONTESTED else ""
    return JudgeReplyError(
        f"The judge's reply {what}could not be used after one repair: {problem}. It was: "
        f"{shorten(reply.text, SHOWN_REPLY)!r}",
        kind=kind,
    )


async def gather_answers(calls: Iterable[Awaitable[T]]) -> list[T]:
    """Await all of several questions to judges, and raise the error that is the hardest of all that occur.

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
def _shape_request(shape: Any) -> str:
    return f"Reply with one JSON object only, valid under this JSON Schema:\n{json.dumps(schema_of(shape))}"


def _repair_request(question: str, reply: str, problem: ValueError) -> str:
    # The reply may repeat orders from the judged text, so it is material like the rest.
    return (
        f"{question}\n\nYour last reply could not be used: {problem}.\n"
        f"{fenced('Last Reply', reply[:2000])}\n\n"
        "Reply again with the JSON object only, and nothing before or after it."
    )
