"""The one way to a judge: what is known already is not asked for again, and every call is counted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from dokimos.core.metrics import CallMetrics
from dokimos.errors import EndpointDownError, JudgeReplyError
from dokimos.judges.fencing import with_marker
from dokimos.judges.protocol import JsonSchemaDict, JudgeLM, JudgeReply, as_reply, identity_of
from dokimos.judges.run_scope import RunScope, coalesce, current_scope, current_usage

if TYPE_CHECKING:
    from dokimos.judges.budget import Reservation


class CallStore(Protocol):
    """Keeps replies by the key of their call.

    One that keeps replies of other runs gives them without metrics: they cost this run nothing. Replies to
    calls of this run have some, if only empty ones.
    """

    async def get(self, key: str, request: CallRequest) -> JudgeReply | None:
        """Return a known reply; for a call that is made `again`, only one that is newer.

        Raises:
            JudgeReplyError: when the reply is known to be of no use.
            JudgeUnavailableError: instead of returning None, when the store lets no calls through.
        """
        ...

    async def put(self, key: str, request: CallRequest, reply: JudgeReply) -> None:
        """Keep a reply; returns once it cannot be lost any more."""
        ...

    async def reject(self, key: str, request: CallRequest, unusable: JudgeReplyError) -> None:
        """Note that a reply was of no use. Unless it was put before, `unusable` says what it cost."""
        ...


_outer: ContextVar[tuple[tuple[CallStore, ...], ...]] = ContextVar("dokimos_outer_calls", default=())
"""The own stores of the judges inside whose calls this code runs, the innermost last."""


class CallRequest:
    """A call in its canonical form: what makes two calls the same call."""

    __slots__ = ("again", "identity", "key", "prompt", "repeat", "sample", "schema", "schema_text")

    def __init__(
        self, judge: JudgeLM, prompt: str, schema: JsonSchemaDict | None, *, repeat: int, sample: int
    ) -> None:
        self.identity = identity_of(judge)
        self.prompt = prompt
        self.schema = schema
        self.repeat = repeat
        self.sample = sample
        self.schema_text = _schema_text(schema)
        canonical = f"[{_json(self.identity)}, {_json(prompt)}, {self.schema_text}, {repeat}, {sample}]"
        self.key = hashlib.sha256(canonical.encode("ascii")).hexdigest()[:32]
        self.again = False
        """Whether to ask although there is a reply: it was of no use."""


def _schema_text(schema: JsonSchemaDict | None) -> str:
    """Return a schema as canonical JSON; the same few schemas come again with every call."""
    known = _schema_texts.get(id(schema))
    if known is not None and known[0] is schema:
        return known[1]
    text = json.dumps(schema, sort_keys=True)
    if len(_schema_texts) >= MOST_SCHEMAS:
        _schema_texts.clear()
    _schema_texts[id(schema)] = (schema, text)
    return text


MOST_SCHEMAS: Final = 256
_json: Final = json.JSONEncoder().encode
_schema_texts: dict[int, tuple[JsonSchemaDict | None, str]] = {}


async def complete(
    judge: JudgeLM, prompt: str, *, schema: JsonSchemaDict | None = None, sample: int = 0
) -> JudgeReply:
    """Ask a judge through its own and the run's call stores, and count what it costs.

    A call that a store knows is answered from there, and equal calls in flight are coalesced into one. A
    call that has been sent goes on when the one who waits for it is cancelled, so that its answer is kept.

    Raises:
        BudgetExceededError: when the run's budget does not allow the call.
        JudgeReplyError: when the reply is of no use; it is paid for and not asked for again all the same.
        JudgeUnavailableError: when the judge cannot be reached, or the cassette that is replayed lacks it.
    """
    scope = current_scope()
    request = CallRequest(judge, prompt, schema, repeat=scope.run_index, sample=sample)
    in_flight = scope.in_flight
    if in_flight is None:
        return await _known_or_called(judge, request, scope)
    # Shared at one depth only: one further out may wait for the call inside which this one is made.
    key = f"{len(_outer.get())} {request.key}"

    async def call() -> JudgeReply:
        try:
            return await _known_or_called(judge, request, scope)
        finally:
            in_flight.pop(key, None)

    return await coalesce(in_flight, key, call)


async def reject(
    judge: JudgeLM,
    prompt: str,
    unusable: JudgeReplyError,
    *,
    schema: JsonSchemaDict | None = None,
    sample: int = 0,
) -> None:
    """Note that what `complete` returned was of no use, so that a run that repeats its errors asks again."""
    scope = current_scope()
    request = CallRequest(judge, prompt, schema, repeat=scope.run_index, sample=sample)
    await _reject((*_own_stores(judge), *scope.call_stores), request, unusable)


async def _known_or_called(judge: JudgeLM, request: CallRequest, scope: RunScope) -> JudgeReply:
    own_stores = _own_stores(judge)
    stores = (*own_stores, *scope.call_stores)
    request.again = request.key in scope.ask_again
    known = await known_reply(stores, request)
    if known is not None:
        return known
    try:
        reply = await _called(judge, own_stores, request, scope)
    except JudgeReplyError as unusable:
        await _reject(stores, request, unusable)
        raise
    else:
        await keep(stores, request, reply)
        return reply
    finally:
        scope.ask_again.discard(request.key)


async def known_reply(stores: Sequence[CallStore], request: CallRequest) -> JudgeReply | None:
    """Return what the first of the stores that knows a reply says, and tell it to those before."""
    usage = current_usage()
    for place, store in enumerate(stores):
        try:
            reply = await store.get(request.key, request)
        except JudgeReplyError as unusable:
            if usage is not None and unusable.metrics is not None:
                usage.add(unusable.metrics)
            raise
        if reply is not None:
            await keep(stores[:place], request, reply)
            if usage is not None and reply.metrics is not None:
                usage.add(reply.metrics)
            return reply
    return None


async def _reject(stores: tuple[CallStore, ...], request: CallRequest, unusable: JudgeReplyError) -> None:
    for store in stores:
        await store.reject(request.key, request, unusable)


async def keep(stores: Iterable[CallStore], request: CallRequest, reply: JudgeReply) -> None:
    """Let all stores keep a reply."""
    for store in stores:
        await store.put(request.key, request, reply)


async def _called(
    judge: JudgeLM, own_stores: tuple[CallStore, ...], request: CallRequest, scope: RunScope
) -> JudgeReply:
    async def call() -> JudgeReply:
        token = _outer.set((*_outer.get(), own_stores))
        try:
            return as_reply(await judge.complete(with_marker(request.prompt), schema=request.schema), judge)
        finally:
            _outer.reset(token)

    reply = await paid(call, request.identity, scope)
    # None would say that this run did not make the call.
    return reply if reply.metrics is not None else replace(reply, metrics=CallMetrics())


class _Answer(Protocol):
    @property
    def metrics(self) -> CallMetrics | None: ...


_AnswerT = TypeVar("_AnswerT", bound=_Answer)


async def paid(call: Callable[[], Awaitable[_AnswerT]], identity: str, scope: RunScope) -> _AnswerT:
    """Make a call to a model as far as the run's budget allows it, and count what it costs.

    Raises:
        BudgetExceededError: when it does not.
    """
    nested = bool(_outer.get())
    reservation = None if scope.budget is None else await scope.budget.reserve(identity, nested=nested)
    try:
        answer = await call()
    except JudgeReplyError as unusable:
        if not isinstance(unusable.metrics, CallMetrics):
            unusable.metrics = CallMetrics()  # it is paid for like any other
        _count(unusable.metrics, reservation)
        raise
    except EndpointDownError:
        if reservation is not None:
            reservation.cancel()
        raise
    except BaseException:
        if reservation is not None:
            reservation.fail()
        raise
    _count(answer.metrics, reservation)
    return answer


def _count(metrics: CallMetrics | None, reservation: Reservation | None) -> None:
    """Take up what a call cost, as far as it is known."""
    if reservation is not None:
        reservation.settle(metrics)
    usage = current_usage()
    if usage is not None:
        usage.add(metrics)


def _own_stores(judge: JudgeLM) -> tuple[CallStore, ...]:
    """The stores of a judge and of those that it wraps: a wrapper has the other one as `judge`."""
    found: list[CallStore] = []
    inner: Any = judge
    while inner is not None:
        found += getattr(inner, "call_stores", ())
        inner = getattr(inner, "judge", None)
    return tuple(found)


def was_asked(store: CallStore) -> bool:
    """Tell whether the call that is being made has been looked for in a judge's own store."""
    outer = _outer.get()
    return bool(outer) and any(asked is store for asked in outer[-1])
