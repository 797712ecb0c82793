"""Asking a judge for an answer of a given shape."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from dokimos.core.text import shortened
from dokimos.errors import JudgeReplyError
from dokimos.judges.calls import complete, reject
from dokimos.judges.fencing import fenced
from dokimos.judges.lenient_json import candidates
from dokimos.judges.protocol import JudgeLM, JudgeReply

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

SHOWN_REPLY: Final = 500


async def ask(
    judge: JudgeLM,
    prompt: str,
    shape: type[T],
    *,
    check: Callable[[T], None] | None = None,
    sample: int = 0,
) -> T:
    """Ask a judge and return its answer as `shape`, a dataclass.

    The judge is shown the shape and held to it where it can be. A reply that cannot be read, lacks a field,
    has a value that the shape does not allow, or that `check` refuses (by raising `ValueError`), is sent back
    once with what is wrong with it.

    Args:
        judge: Whom to ask.
        prompt: What to ask; may hold fenced text.
        shape: A dataclass whose field types say what is allowed, such as `Annotated[float, Field(ge=0)]`.
        check: Looks at what the types cannot say.
        sample: Tells independent samples of one question apart.

    Raises:
        JudgeReplyError: when the second reply cannot be used either.
        JudgeUnavailableError: when there was no reply.
    """
    answer, _ = await ask_with_reply(judge, prompt, shape, check=check, sample=sample)
    return answer


async def ask_with_reply(
    judge: JudgeLM,
    prompt: str,
    shape: type[T],
    *,
    check: Callable[[T], None] | None = None,
    sample: int = 0,
) -> tuple[T, JudgeReply]:
    """Do what `ask` does, and return the reply too, for its token probabilities."""
    form: Any = shape  # to a type checker, a class is not hashable
    schema = schema_of(form)
    question = f"{prompt}\n\n{_shape_request(form)}"
    reply = await complete(judge, question, schema=schema, sample=sample)
    try:
        return read_reply(reply.text, shape, check), reply
    except ValueError as problem:
        repair = _repair_request(question, reply.text, problem)
    reply = await complete(judge, repair, schema=schema, sample=sample)
    try:
        return read_reply(reply.text, shape, check), reply
    except ValueError as problem:
        unusable = JudgeReplyError(
            f"The judge's reply could not be used after one repair: {problem}. It was: "
            f"{shortened(reply.text, SHOWN_REPLY)!r}"
        )
    for asked in (question, repair):
        await reject(judge, asked, unusable, schema=schema, sample=sample)
    raise unusable


def read_reply(text: str, shape: type[T], check: Callable[[T], None] | None = None) -> T:
    """Read a reply as `shape`: the first of the JSON values in it that fits.

    Raises:
        ValueError: saying what is wrong with the likeliest one.
    """
    form: Any = shape
    problem: ValueError | None = None
    for value in candidates(text):
        try:
            answer: T = _adapter(form).validate_python(_as_object(value, form))
            if check is not None:
                check(answer)
            return answer
        except ValueError as error:
            problem = problem or error
    if problem is None:
        return _read_bare(text, form, check)
    raise ValueError(_explain(problem))


def _read_bare(text: str, shape: Any, check: Callable[[T], None] | None) -> T:
    """Read a reply without JSON, such as `yes`: it can stand for the only field of a shape."""
    if len(fields(shape)) == 1:
        with contextlib.suppress(ValueError):
            answer: T = _adapter(shape).validate_python({fields(shape)[0].name: text})
            if check is not None:
                check(answer)
            return answer
    raise ValueError("there is no JSON in it")


@cache
def schema_of(shape: Any) -> dict[str, Any]:
    """Return the JSON Schema of a reply, with all fields required and no others allowed."""
    schema = _adapter(shape).json_schema()
    definitions = schema.pop("$defs", {})
    inlined = _inlined(schema, definitions)
    assert isinstance(inlined, dict)
    return inlined


def _inlined(node: Any, definitions: Mapping[str, Any]) -> Any:
    """Put definitions in the place of their references: small models and some servers do not follow them."""
    if isinstance(node, list):
        return [_inlined(element, definitions) for element in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _inlined(definitions[node["$ref"].rpartition("/")[2]], definitions)
    found = {
        key: _inlined(value, definitions) for key, value in node.items() if key not in ("title", "default")
    }
    if found.get("type") == "object" and "properties" in found:
        found["required"] = list(found["properties"])
        found["additionalProperties"] = False
    return found


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(shape)


def _as_object(value: Any, shape: type[Any]) -> Any:
    """A bare list stands for an object whose only field is that list."""
    if isinstance(value, list) and is_dataclass(shape) and len(fields(shape)) == 1:
        return {fields(shape)[0].name: value}
    return value


@cache
def _shape_request(shape: Any) -> str:
    return f"Reply with one JSON object only, valid under this JSON Schema:\n{json.dumps(schema_of(shape))}"


def _repair_request(question: str, reply: str, problem: ValueError) -> str:
    # The reply may repeat orders from the judged text, so it is material like the rest.
    return (
        f"{question}\n\nYour last reply could not be used: {problem}.\n"
        f"{fenced('Last Reply', reply[:2000])}\n\n"
        "Reply again with the JSON object only."
    )


def _explain(problem: ValueError) -> str:
    errors = getattr(problem, "errors", None)
    if not callable(errors):
        return str(problem)
    return "; ".join(f"{'.'.join(map(str, e['loc'])) or 'reply'}: {e['msg']}" for e in errors()[:3])
