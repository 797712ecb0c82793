"""The judge protocol: something that completes a prompt."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

from dokimos._core.jsonable import WIRE_CONFIG
from dokimos._core.metrics import CallMetrics
from dokimos._runtime.user_calls import call_user_function
from dokimos.errors import ConfigurationError, JudgeError
from dokimos.judges._judge_identity import identity_of as identity_of

JsonSchemaDict: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token of a reply with its alternatives; natural logarithms."""

    token: str
    logprob: float
    top: Mapping[str, float] = field(default_factory=dict)
    """The most likely tokens in its place, itself included."""

    __pydantic_config__ = WIRE_CONFIG


@dataclass(frozen=True, slots=True)
class JudgeReply:
    """The text of a judge's reply, and what it cost.

    Example:
        >>> JudgeReply('{"score": 1}', CallMetrics(50, 8)).metrics.tokens_in
        50
    """

    text: str
    metrics: CallMetrics | None = None
    logprobs: tuple[TokenLogprob, ...] | None = None
    """From judges that support token probabilities and were asked for them."""
    schema_enforced: bool = False
    """Whether the server is known to enforce the schema that was sent, so that the reply is nothing else."""

    __pydantic_config__ = WIRE_CONFIG


@runtime_checkable
class JudgeLM(Protocol):
    """A language model as a judge.

    An implementation may also have an `identity`, a string that names endpoint, model and parameters:
    replies are cached under it. A judge without one is identified by its class and by the values it holds,
    as far as those look the same in every process. A judge that wraps another one should hold it as `judge`.
    This and what else it may have is in `dokimos.judges`: `Identified`, `WrapsJudge`, `AsyncClosable`, ...

    Example:
        >>> class Echo:
        ...     async def complete(self, prompt, *, schema=None):
        ...         return JudgeReply(prompt)
        >>> isinstance(Echo(), JudgeLM)
        True
    """

    async def complete(self, prompt: str, *, schema: JsonSchemaDict | None = None) -> JudgeReply:
        """Reply to a prompt; `schema` asks for JSON of that shape where the provider can enforce it.

        Raises:
            JudgeUnavailableError: if there is no reply.
        """
        ...


JudgeLike: TypeAlias = (
    JudgeLM | Callable[[str], str | JudgeReply] | Callable[[str], Awaitable[str | JudgeReply]] | str
)
"""A judge, a function of the prompt (sync or async) that returns text, or a model: "openai:gpt-5-mini"."""


@dataclass(frozen=True, slots=True)
class FunctionJudge:
    """A plain function as a judge; a sync function is called in a thread."""

    function: Callable[[str], Any]

    @property
    def identity(self) -> str:
        return identity_of(self.function)

    async def complete(self, prompt: str, *, schema: JsonSchemaDict | None = None) -> JudgeReply:
        return as_reply(await call_user_function(self.function, prompt), self)


def as_reply(answer: object, judge: object) -> JudgeReply:
    """Return a judge's answer, text or `JudgeReply`, as a reply. Raises `JudgeError` for anything else."""
    if isinstance(answer, str):
        return JudgeReply(answer)
    if not isinstance(answer, JudgeReply) or not isinstance(answer.text, str):
        text = answer.text if isinstance(answer, JudgeReply) else answer
        raise JudgeError(f"The judge {identity_of(judge)} returned {type(text).__name__}, not text.")
    check_metrics(answer.metrics, judge)
    return answer


def check_metrics(metrics: object, model: object) -> None:
    """Raise `JudgeError` unless these are `CallMetrics` or None, before anyone counts with them."""
    if metrics is not None and not isinstance(metrics, CallMetrics):
        raise JudgeError(
            f"The metrics of {identity_of(model)} must be CallMetrics or None, not {metrics!r:.80}."
        )


def as_judge(judge: JudgeLike) -> JudgeLM:
    """Return a judge for a model name, a function or a judge.

    Raises:
        ConfigurationError: for anything else.

    Example:
        >>> import asyncio
        >>> judge = as_judge(lambda prompt: "yes")
        >>> asyncio.run(judge.complete("Is 7 prime?")).text
        'yes'
    """
    if isinstance(judge, str):
        from dokimos.judges._factory import judge as from_name

        return from_name(judge)
    if isinstance(judge, type):  # it has the methods of its objects, and would pass for one of them below
        raise ConfigurationError(f"{judge.__name__} is a class; give an instance of it as the judge.")
    if isinstance(judge, JudgeLM):
        return judge
    if callable(judge):
        return FunctionJudge(cast("Callable[[str], Any]", judge))
    raise ConfigurationError(
        f"A judge must be a model such as 'openai:gpt-5-mini', a JudgeLM or a function, not {judge!r:.80}."
    )
