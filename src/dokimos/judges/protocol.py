"""What a judge is: something that answers a prompt."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import CellType
from typing import Any, Final, Protocol, TypeAlias, cast, runtime_checkable
from weakref import WeakKeyDictionary

from dokimos.core.concurrency import call_in_thread
from dokimos.core.jsonable import WIRE_CONFIG
from dokimos.core.metrics import CallMetrics
from dokimos.errors import ConfigurationError, JudgeError

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
    """The text that a judge answered, and what it cost."""

    text: str
    metrics: CallMetrics | None = None
    logprobs: tuple[TokenLogprob, ...] | None = None
    """Given by judges that were asked for them and can."""

    __pydantic_config__ = WIRE_CONFIG


@runtime_checkable
class JudgeLM(Protocol):
    """A language model as a judge.

    An implementation may also have `identity`, a text that tells endpoint, model and parameters apart:
    replies are kept under it. One without it is told apart by its class, and by the texts, numbers and bools
    that it holds. A judge that wraps another one should hold it as `judge`.
    """

    async def complete(self, prompt: str, *, schema: JsonSchemaDict | None = None) -> JudgeReply:
        """Answer a prompt; `schema` asks for JSON of that shape where the model can be held to it.

        Raises:
            JudgeUnavailableError: when no answer could be had.
        """
        ...


JudgeLike: TypeAlias = (
    JudgeLM | Callable[[str], str | JudgeReply] | Callable[[str], Awaitable[str | JudgeReply]] | str
)
"""A judge, a function of the prompt (sync or async) that returns text, or a model: "openai:gpt-5-mini"."""


@dataclass(frozen=True, slots=True)
class FunctionJudge:
    """A plain function as a judge; a sync one is called in a thread."""

    function: Callable[[str], Any]

    @property
    def identity(self) -> str:
        return _function_identity(self.function)

    async def complete(self, prompt: str, *, schema: JsonSchemaDict | None = None) -> JudgeReply:
        if _is_async(self.function):
            answer = await self.function(prompt)
        else:
            answer = await call_in_thread(self.function, prompt)
            if inspect.isawaitable(answer):
                answer = await answer
        if isinstance(answer, JudgeReply):
            return answer
        if not isinstance(answer, str):
            raise JudgeError(f"The judge {self.identity} returned {type(answer).__name__}, not text.")
        return JudgeReply(answer)


def as_judge(judge: JudgeLike) -> JudgeLM:
    """Turn whatever people give as a judge into one.

    Raises:
        ConfigurationError: for anything that cannot be asked.
    """
    if isinstance(judge, str):
        from dokimos.judges.factory import judge as from_name

        return from_name(judge)
    if isinstance(judge, type):
        raise ConfigurationError(f"{judge.__name__} is a class; give an instance of it as the judge.")
    if isinstance(judge, JudgeLM):
        return judge
    if callable(judge):
        return FunctionJudge(cast("Callable[[str], Any]", judge))
    raise ConfigurationError(
        f"A judge must be a model such as 'openai:gpt-5-mini', a JudgeLM or a function, not {judge!r:.80}."
    )


def identity_of(judge: JudgeLM) -> str:
    """Return the text under which a judge's replies are kept."""
    identity = getattr(judge, "identity", None)
    return identity if isinstance(identity, str) else _object_identity(judge)


def _function_identity(function: Any) -> str:
    """Module and name, and a hash of what tells functions of one name apart: constants, defaults, closure."""
    inner = inspect.unwrap(getattr(function, "__func__", function))
    code = getattr(inner, "__code__", None)
    if code is None:
        return _object_identity(function)
    cells = [cell.cell_contents for cell in inner.__closure__ or () if _is_filled(cell)]
    values = [*code.co_consts, *(inner.__defaults__ or ()), *(inner.__kwdefaults__ or {}).values()]
    mark = _mark([*sorted(_plain(values)), "closure", *_plain(cells)])
    owner = getattr(function, "__self__", None)
    bound = "" if owner is None else f" of {_object_identity(owner)}"
    return f"{inner.__module__}:{inner.__qualname__}#{mark}{bound}"


def _object_identity(thing: Any) -> str:
    """Class and a hash of the plain values that the object was made with, as they were when first seen."""
    with contextlib.suppress(TypeError):  # what cannot be referred to weakly is looked at anew
        if thing in _identities:
            return _identities[thing]
    kind = thing if isinstance(thing, type) else type(thing)
    names = [*getattr(thing, "__dict__", {}), *getattr(kind, "__slots__", ())]
    values = {name: getattr(thing, name, None) for name in sorted(names) if not _SECRET.search(name)}
    mark = _mark([f"{name}={plain}" for name, value in values.items() for plain in _plain([value])])
    identity = f"{kind.__module__}:{kind.__qualname__}" + (f"#{mark}" if mark else "")
    with contextlib.suppress(TypeError):
        _identities[thing] = identity
    return identity


def _is_async(function: Any) -> bool:
    if inspect.isroutine(function):
        return inspect.iscoroutinefunction(function)
    return inspect.iscoroutinefunction(getattr(type(function), "__call__", None))  # noqa: B004


_SECRET: Final = re.compile("key|token|secret|passw", re.IGNORECASE)
_identities: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def _plain(values: Iterable[Any]) -> list[str]:
    """The values that look the same in every process."""
    return [repr(value) for value in values if isinstance(value, str | int | float | bool)]


def _mark(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:8] if parts else ""


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - reading it tells
    except ValueError:
        return False
    return True
