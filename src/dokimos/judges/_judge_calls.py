"""The one way to a judge: cached replies, coalesced calls, the budget, and the cost of every call."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from json.encoder import encode_basestring_ascii as _quoted
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from dokimos._core.metrics import CallMetrics
from dokimos._http.repeats import asking_before_repeats
from dokimos.errors import EndpointDownError, JudgeReplyError
from dokimos.judges._fencing import with_marker
from dokimos.judges._protocol import JsonSchemaDict, JudgeLM, JudgeReply, as_reply, identity_of
from dokimos.judges._run_scope import RunScope, coalesce, current_scope, current_usage

if TYPE_CHECKING:
    from dokimos.judges._call_ledger import CallReservation


class CallStore(Protocol):
    """A cache of replies by the key of their call.

    A store that holds replies of other runs returns them without metrics: they cost this run nothing. Replies
    to calls of this run have metrics, if only empty ones.
    """

    async def get(self, key: str, request: CallRequest) -> JudgeReply | None:
        """Return the cached reply, None if there is none; for a retry, only a reply that is newer.

        Raises:
            JudgeReplyError: if the reply is recorded as unusable.
            JudgeUnavailableError: instead of returning None, if the store allows no calls.
        """
        ...

    async def put(self, key: str, request: CallRequest, reply: JudgeReply) -> None:
        """Store a reply; return once it can no longer be lost."""
        ...

    async def reject(self, key: str, request: CallRequest, unusable: JudgeReplyError) -> None:
        """Record that a reply was unusable. Unless it was put before, `unusable` says what it cost."""
        ...


_outer: ContextVar[tuple[tuple[CallStore, ...], ...]] = ContextVar("dokimos_outer_calls", default=())
"""The own stores of the judges inside whose calls this code runs, innermost last."""


class CallRequest:
    """A call in its canonical form: what makes two calls the same call."""

    __slots__ = ("_key", "identity", "is_retry", "prompt", "repeat", "sample", "schema", "schema_text")

    def __init__(
        self, judge: JudgeLM, prompt: str, schema: JsonSchemaDict | None, *, repeat: int, sample: int
    ) -> None:
        self.identity: str = identity_of(judge)
        self.prompt: str = prompt
        self.schema: JsonSchemaDict | None = schema
        self.repeat: int = repeat
        self.sample: int = sample
        self.schema_text: str = _schema_text(schema)
        self._key = ""
        self.is_retry: bool = False
        """Whether to ask although there is a reply, because that reply was unusable."""

    @property
    def key(self) -> str:
        """The key under which stores have its reply; a run without a store never computes it."""
        if not self._key:
            identity, prompt = _quoted(self.identity), _quoted(self.prompt)
            canonical = f"[{identity}, {prompt}, {self.schema_text}, {self.repeat}, {self.sample}]"
            self._key = hashlib.sha256(canonical.encode("ascii")).hexdigest()[:32]
        return self._key

    def flight_key(self) -> Hashable:
        """Return what is equal for calls that are coalesced; quicker than `key`, which is for files.

        Coalesced at one depth only, or it could deadlock: a call further out may wait for the very call
        inside which this one is made.
        """
        depth = len(_outer.get())
        return depth, self.prompt, self.identity, self.schema_text, self.repeat, self.sample


def _schema_text(schema: JsonSchemaDict | None) -> str:
    """Return a schema as canonical JSON, from a cache: every call has one of the same few schemas."""
    # By identity, as a mapping has no hash. The entry holds the schema, so its id cannot go to another one.
    cached = _schema_texts.get(id(schema))
    if cached is not None and cached[0] is schema:
        return cached[1]
    text = json.dumps(schema, sort_keys=True)
    if len(_schema_texts) >= MOST_SCHEMAS:
        _schema_texts.clear()
    _schema_texts[id(schema)] = (schema, text)
    return text


MOST_SCHEMAS: Final = 256
_schema_texts: dict[int, tuple[JsonSchemaDict | None, str]] = {}


def complete(
    judge: JudgeLM, prompt: str, *, schema: JsonSchemaDict | None = None, sample: int = 0
) -> Coroutine[Any, Any, JudgeReply]:
    """Ask a judge through its own and the run's call stores, and count what the call costs.

    A call that is in a store is not made again. Identical calls that are made at the same time are coalesced
    (single-flight): the first one is sent, and the others wait for its reply and share it. A call that has
    been sent continues if the caller that waits for it is cancelled, so that its reply is stored.

    Raises:
        BudgetExceededError: if the run's budget does not allow the call.
        JudgeReplyError: if the reply is unusable; it is paid for, and still not asked for again.
        JudgeUnavailableError: if the judge cannot be reached, or a replayed cassette lacks the call.
    """
    scope = current_scope()
    request = CallRequest(judge, prompt, schema, repeat=scope.run_index, sample=sample)
    if scope.in_flight is None:
        return _look_up_or_call(judge, request, scope)
    flight_key = request.flight_key()
    return coalesce(scope.in_flight, flight_key, _look_up_or_call, judge, request, scope, flight_key)


async def reject(
    judge: JudgeLM,
    prompt: str,
    unusable: JudgeReplyError,
    *,
    schema: JsonSchemaDict | None = None,
    sample: int = 0,
) -> None:
    """Record that the reply of `complete` was unusable, so that a run that retries its errors asks again."""
    scope = current_scope()
    request = CallRequest(judge, prompt, schema, repeat=scope.run_index, sample=sample)
    await _reject((*_find_own_stores(judge), *scope.call_stores), request, unusable)


async def _look_up_or_call(
    judge: JudgeLM, request: CallRequest, scope: RunScope, flight_key: Hashable = None
) -> JudgeReply:
    try:
        own_stores = _find_own_stores(judge)
        stores = (*own_stores, *scope.call_stores)
        request.is_retry = bool(scope.retry_keys) and request.key in scope.retry_keys
        cached = await find_cached_reply(stores, request) if stores else None
        if cached is not None:
            return cached
        try:
            call = partial(_call_judge, judge, own_stores, request)
            reply = await call_within_budget(call, request.identity, scope, request)
            if reply.metrics is None:
                # None would mean that the reply came from another run, and cost this one nothing.
                reply = replace(reply, metrics=CallMetrics())
        except JudgeReplyError as unusable:
            await _reject(stores, request, unusable)
            raise
        else:
            if stores:
                await store_reply(stores, request, reply)
            return reply
        finally:
            if request.is_retry:
                scope.retry_keys.discard(request.key)
    finally:
        if scope.in_flight is not None:
            scope.in_flight.pop(flight_key, None)


async def find_cached_reply(stores: Sequence[CallStore], request: CallRequest) -> JudgeReply | None:
    """Return the reply of the first store that has one, and copy it to the stores before that."""
    usage = current_usage()
    for index, store in enumerate(stores):
        try:
            reply = await store.get(request.key, request)
        except JudgeReplyError as unusable:
            if usage is not None and unusable.metrics is not None:
                usage.add(unusable.metrics)
            raise
        if reply is not None:
            await store_reply(stores[:index], request, reply)
            if usage is not None and reply.metrics is not None:
                usage.add(reply.metrics)
            return reply
    return None


async def _reject(stores: tuple[CallStore, ...], request: CallRequest, unusable: JudgeReplyError) -> None:
    for store in stores:
        await store.reject(request.key, request, unusable)


async def store_reply(stores: Iterable[CallStore], request: CallRequest, reply: JudgeReply) -> None:
    """Put a reply into all stores."""
    for store in stores:
        await store.put(request.key, request, reply)


async def _call_judge(judge: JudgeLM, own_stores: tuple[CallStore, ...], request: CallRequest) -> JudgeReply:
    token = _outer.set((*_outer.get(), own_stores))
    try:
        return as_reply(await judge.complete(with_marker(request.prompt), schema=request.schema), judge)
    finally:
        _outer.reset(token)


class _Answer(Protocol):
    @property
    def metrics(self) -> CallMetrics | None: ...


_AnswerT = TypeVar("_AnswerT", bound=_Answer)


async def call_within_budget(
    call: Callable[[], Awaitable[_AnswerT]],
    identity: str,
    scope: RunScope,
    request: CallRequest | None = None,
) -> _AnswerT:
    """Make a call to a model if the run's budget allows it, and count what it costs.

    Raises:
        BudgetExceededError: if the budget does not allow it.
    """
    reservation = None
    if scope.budget is not None:
        reservation = await scope.budget.reserve(identity, nested=bool(_outer.get()), request=request)
    try:
        if reservation is None:
            answer = await call()
        else:
            with asking_before_repeats(reservation.repeat):
                answer = await call()
    except BaseException as error:
        await _record_failure(error, reservation)
        raise
    _count_usage(answer.metrics)
    if reservation is not None:
        settlement = reservation.settle(answer.metrics, answer)
        if settlement is not None:
            await settlement
    return answer


async def _record_failure(error: BaseException, reservation: CallReservation | None) -> None:
    """Count a call that ended with an error."""
    settlement = None
    if isinstance(error, JudgeReplyError):
        if not isinstance(error.metrics, CallMetrics):
            error.metrics = CallMetrics()  # it is paid for like any other
        _count_usage(error.metrics)
        if reservation is not None:
            settlement = reservation.settle(error.metrics, error)
    elif reservation is not None:
        # A call that no endpoint accepted was not made.
        is_made = not isinstance(error, EndpointDownError) or error.may_be_billed
        settlement = reservation.fail(error) if is_made else reservation.cancel()
    if settlement is not None:
        await settlement


def _count_usage(metrics: CallMetrics | None) -> None:
    """Add what a call cost, as far as it is known, to the evaluation's usage."""
    usage = current_usage()
    if usage is not None:
        usage.add(metrics)


def _find_own_stores(judge: JudgeLM) -> tuple[CallStore, ...]:
    """Return the stores of a judge and of those it wraps: a wrapper holds the inner judge as `judge`."""
    stores: list[CallStore] = []
    inner: Any = judge
    while inner is not None:
        # `HasCallStores` and `WrapsJudge`: isinstance takes some microseconds, and every call comes here.
        stores += getattr(inner, "call_stores", ())
        inner = getattr(inner, "judge", None)
    return tuple(stores)


def is_inside_call_of(store: CallStore) -> bool:
    """Say whether this code runs inside a call that has already been looked up in a judge's own store."""
    outer = _outer.get()
    return bool(outer) and any(asked is store for asked in outer[-1])
