"""The ledger of a judge job: each call is a row before it is made, and its reply is stored with its cost.

So nothing that was answered is asked again, whatever happens to the server, and budgets hold on all servers
of one database.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from sqlalchemy import Connection

from dokimos._core.metrics import CallMetrics
from dokimos._runtime.redaction import secret_redactor
from dokimos.errors import ConfigurationError, JudgeError, JudgeReplyError, JudgeUnavailableError
from dokimos.judges import JudgeReply
from dokimos.judges._judge_calls import CallRequest
from dokimos.server._db.database import Database, Lane
from dokimos.server._services.judging import judge_call_queries as queries
from dokimos.server._services.judging.judge_budgets import Amount, JudgeBudgetExceeded, Limits
from dokimos.server._services.judging.judge_call_bounds import CallBounds
from dokimos.server._services.judging.judge_call_writer import CallWriter, insist
from dokimos.server._services.judging.judge_calls import CallStatus, EndedCall, ModelAccount, NewCall
from dokimos.server._services.judging.judge_leases import (
    LeasedJob,
    LeaseLost,
    give_up_calls,
    take_over,
)
from dokimos.server._services.judging.judge_replies import decode_reply, encode_reply
from dokimos.server._services.judging.key_filter import KeyFilter

T = TypeVar("T")
_LOGGER: Final = logging.getLogger("dokimos.server")
_OTHERS_SECONDS: Final = 60.0
"""How long a call waits for the calls of other jobs and servers, which may leave enough of a budget."""
_POLL_SECONDS: Final = 0.25
_KEYS_AT_ONCE: Final = 5000
_CLOSE_SECONDS: Final = 10.0
_MAX_PROBLEM: Final = 500


class JudgeLedger:
    """The calls of one job on this server: a `CallLedger` and a `CallStore` of the library.

    It belongs to the event loop that opens it.

    Args:
        database: Where the job is.
        job: The job, and the lease under which it is worked on.
        limits: What it may cost.
        bounds: What its model costs.
    """

    def __init__(self, database: Database, job: LeasedJob, limits: Limits, bounds: CallBounds) -> None:
        self._database = database
        self._job = job
        self._limits = limits
        self._bounds = bounds
        self._clean = secret_redactor()
        self._writer = CallWriter(database, job, limits, self._clean)
        self._keys = KeyFilter()
        """The calls that may have been answered; all others are not looked up."""
        self._put_early: set[str] = set()
        """Keys of calls whose replies were stored with their costs, until they are put."""
        self._accounts: dict[str, ModelAccount] = {}
        self._in_flight = 0
        self._ended = _Signal()
        """That what became of a call is stored, which may leave more of a budget."""
        self._first_over = _Signal()
        """That a call is over, or was not made after all: others may wait for the first one of a model."""

    @property
    def problem(self) -> LeaseLost | None:
        """Why nothing more is stored: the job is another server's, or over. None as long as it is not."""
        return self._writer.problem

    async def open(self) -> None:
        """Take over what was done of the job before.

        Calls that a server was making which has lost the job count as spent from now on.

        Raises:
            LeaseLost: The job is not this worker's.
        """
        job = self._job

        lost = await insist(partial(self._database.write, partial(take_over, job=job)))
        if lost:
            _LOGGER.warning(
                "Job %s: nobody knows how %d calls to its model ended; they count as spent.", job.job_id, lost
            )
        await self._load_keys(CallStatus.ANSWERED)
        await self._load_keys(CallStatus.UNUSABLE)
        query = partial(queries.largest_by_identity, job_id=job.job_id, calls=job.tables.calls)
        for identity, calls, tokens, nano_usd in await self._read(query):
            account = self._account(identity)
            account.answered = calls
            account.largest = Amount(1, tokens, nano_usd)

    async def close(self) -> None:
        """Store what is not stored yet, and give up calls that are still being made: they count as spent.

        Before the end of the job is stored: afterwards it is not this worker's any more.
        """
        await self._writer.close(_CLOSE_SECONDS)
        if self._in_flight and self.problem is None:
            with contextlib.suppress(LeaseLost):  # then whoever has the job does it
                await self._database.write(partial(give_up_calls, job=self._job))

    async def reserve(
        self, identity: str, *, nested: bool = False, request: CallRequest | None = None
    ) -> Reservation:
        """Reserve what a call may cost, in all budgets, and store that it is made.

        That is the most that it can cost, where the model has a price and its replies have a limit; else the
        most that an earlier call took. The first one then goes alone, and reserves what its request and a
        long reply may have, or all that is left. A call that does not fit waits for those in flight, which
        mostly cost less than was reserved for them.

        Raises:
            JudgeBudgetExceeded: Too little is left.
            LeaseLost: The job is not this worker's any more.
        """
        input_tokens = None if request is None else self._bounds.most_input_tokens(request)
        upper = self._upper_bound(identity, input_tokens)
        account = self._account(identity)
        waits_until = time.monotonic() + _OTHERS_SECONDS
        while True:
            while upper is None and not nested and self._must_go_alone(account):
                await self._first_over.wait()
            call = NewCall(
                key=None if request is None else request.key,
                identity=self._clean(identity),
                amount=upper or account.largest or self._bounds.assume(input_tokens),
                is_priced=self._bounds.prices is not None,
                is_assumed=upper is None and account.largest is None,
            )
            reservation = Reservation(self, identity, account, call, request, input_tokens)
            await self._store_new(reservation)
            exceeded = call.exceeded
            if exceeded is None:
                return reservation
            is_over = exceeded.is_final and (upper is not None or not self._in_flight)
            if nested or is_over or time.monotonic() > waits_until:
                raise exceeded.error(call.identity)
            if self._in_flight:
                await self._ended.wait()
                waits_until = time.monotonic() + _OTHERS_SECONDS
            else:  # what is reserved is for the calls of others
                await asyncio.sleep(_POLL_SECONDS)

    async def get(self, key: str, request: CallRequest) -> JudgeReply | None:
        """Return the stored reply to a call, None if there is none."""
        if not self._keys.may_have(key):
            return None
        job = self._job
        find = partial(queries.find_reply, job_id=job.job_id, key=key, calls=job.tables.calls)
        found = await self._read(find)
        if found is None:
            return None
        text, problem = found
        reply = decode_reply(text)
        if problem is not None:
            raise JudgeReplyError(problem, metrics=reply.metrics)
        return reply

    async def put(self, key: str, request: CallRequest, reply: JudgeReply) -> None:
        """Store a reply, unless it was stored with its cost."""
        if key in self._put_early:
            self._put_early.discard(key)
            return
        self._keys.add(key)
        text = encode_reply(reply, self._clean)
        await asyncio.shield(self._writer.add_reply(key, self._clean(request.identity), text))

    async def reject(self, key: str, request: CallRequest, unusable: JudgeReplyError) -> None:
        """Record that a reply was unusable, unless that was stored with its cost."""
        if key in self._put_early:
            self._put_early.discard(key)
        else:
            await asyncio.shield(self._writer.add_rejected(key))

    def settle(
        self, reservation: Reservation, metrics: CallMetrics | None, outcome: object
    ) -> asyncio.Future[None]:
        """Store the reply to a call, and what it cost."""
        call = reservation.call
        reply = outcome if isinstance(outcome, JudgeReply) else None
        spent, is_priced = self._bounds.measure(metrics, reservation.input_tokens, reply)
        reservation.account.count(spent)
        ended = EndedCall(
            call=call,
            status=CallStatus.ANSWERED,
            spent=spent,
            is_priced=is_priced,
            outcome=reply,
        )
        if isinstance(outcome, JudgeReplyError):
            ended.status = CallStatus.UNUSABLE
            ended.outcome = JudgeReply("", metrics)
            ended.problem = self._clean(str(outcome))
        if call.key is not None:
            self._put_early.add(call.key)
            self._keys.add(call.key)
        return self._end(reservation, ended)

    def fail(self, reservation: Reservation, error: BaseException | None) -> asyncio.Future[None]:
        """Store that a call was not answered."""
        call = reservation.call
        ended = EndedCall(call=call, status=CallStatus.FAILED, spent=Amount(1))
        is_cut_off = not isinstance(error, JudgeError | ConfigurationError)
        if is_cut_off or (isinstance(error, JudgeUnavailableError) and error.may_be_billed):
            # The model may have gone on, and its provider bill it.
            ended = EndedCall(call=call, status=CallStatus.LOST, spent=call.amount, is_priced=call.is_priced)
        if error is not None:
            ended.problem = self._clean(f"{type(error).__name__}: {error}")[:_MAX_PROBLEM]
        return self._end(reservation, ended)

    def cancel(self, reservation: Reservation) -> asyncio.Future[None]:
        """Remove the row of a call that was not made."""
        return self._end(reservation, EndedCall(call=reservation.call, status=None))

    async def repeat(self, reservation: Reservation) -> NewCall:
        """Store that an attempt may be billed, and reserve the next one, which is a call of its own.

        Raises:
            JudgeUnavailableError: It does not fit now. It does not wait: others may wait for its reply.
        """
        unanswered = JudgeUnavailableError("No answer; it was sent again.")
        unanswered.may_be_billed = True
        settlement = reservation.fail(unanswered)
        if settlement is not None:
            await settlement
        request = reservation.request
        try:
            return (await self.reserve(reservation.identity, nested=True, request=request)).call
        except JudgeBudgetExceeded as refusal:
            raise JudgeUnavailableError(f"No answer, and no further attempt: {refusal}") from refusal

    def _end(self, reservation: Reservation, ended: EndedCall) -> asyncio.Future[None]:
        self._in_flight -= 1
        self._leave(reservation)
        stored = self._writer.add_ended(ended)
        # Not before it is stored: who waits reads the budgets again.
        stored.add_done_callback(self._ended.notify)
        return asyncio.shield(stored)

    async def _store_new(self, reservation: Reservation) -> None:
        """Reserve what a call may cost; if it fits, it is in flight from then on."""
        reservation.account.in_flight += 1
        stored = self._writer.add_new(reservation.call)
        try:
            # Shielded, since the future is that of all calls of the group.
            await asyncio.shield(stored)
        except asyncio.CancelledError:
            stored.add_done_callback(lambda _: self._withdraw(reservation))
            raise
        except BaseException:
            self._leave(reservation)
            raise
        if reservation.call.exceeded is None:
            self._in_flight += 1
        else:
            self._leave(reservation)

    def _withdraw(self, reservation: Reservation) -> None:
        """Remove a call that nobody makes any more."""
        call = reservation.call
        if call.created_at and call.exceeded is None and self.problem is None:
            self._in_flight += 1
            self.cancel(reservation)
        else:
            self._leave(reservation)

    def _leave(self, reservation: Reservation) -> None:
        reservation.account.in_flight -= 1
        self._first_over.notify()

    def _must_go_alone(self, account: ModelAccount) -> bool:
        return self._limits.by_size and account.in_flight > 0 and not account.answered

    def _upper_bound(self, identity: str, input_tokens: int | None) -> Amount | None:
        limits = self._limits
        scope = limits.scope_in_dollars
        if scope is not None and (self._bounds.prices is None or input_tokens is None):
            raise JudgeBudgetExceeded(
                f"The budget of this {scope.value} is in dollars, and the price of {identity} is not known: "
                "a call whose cost cannot be counted is not made.",
                scope,
                never_fits=True,
            )
        if input_tokens is None:
            return None
        return self._bounds.upper_bound(input_tokens, in_dollars=scope is not None)

    def _account(self, identity: str) -> ModelAccount:
        return self._accounts.setdefault(identity, ModelAccount())

    async def _load_keys(self, status: CallStatus) -> None:
        after = ""
        while True:
            query = partial(
                queries.list_keys,
                job_id=self._job.job_id,
                status=status,
                after=after,
                most=_KEYS_AT_ONCE,
                calls=self._job.tables.calls,
            )
            keys = await self._read(query)
            for key in keys:
                self._keys.add(key)
            if len(keys) < _KEYS_AT_ONCE:
                return
            after = keys[-1]

    async def _read(self, query: Callable[[Connection], T]) -> T:
        return await insist(partial(self._database.read, query, Lane.WORK))


class Reservation:
    """What is reserved for one call: a `CallReservation` of the library."""

    __slots__ = ("_ledger", "account", "call", "identity", "input_tokens", "is_over", "request")

    def __init__(
        self,
        ledger: JudgeLedger,
        identity: str,
        account: ModelAccount,
        call: NewCall,
        request: CallRequest | None,
        input_tokens: int | None,
    ) -> None:
        self._ledger = ledger
        self.identity = identity
        self.is_over = False
        """Whether it is settled: an attempt was, and none followed it."""
        self.account = account
        self.call = call
        self.request = request
        self.input_tokens = input_tokens

    def settle(self, metrics: CallMetrics | None, outcome: object) -> asyncio.Future[None]:
        """Store the reply and what it cost."""
        return self._ledger.settle(self, metrics, outcome)

    def fail(self, error: BaseException | None = None) -> asyncio.Future[None] | None:
        """Store that there is no reply."""
        if self.is_over:
            return None
        self.is_over = True
        return self._ledger.fail(self, error)

    async def repeat(self) -> None:
        """Reserve one more attempt, which is a row of its own."""
        self.call = await self._ledger.repeat(self)
        self.is_over = False

    def cancel(self) -> asyncio.Future[None] | None:
        """Remove what was stored of the call, which was not made."""
        return None if self.is_over else self._ledger.cancel(self)


class _Signal:
    """Something that happens again and again, and can be waited for."""

    def __init__(self) -> None:
        self._waiter: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        """Wait until it happens the next time."""
        if self._waiter is None:
            self._waiter = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._waiter)

    def notify(self, _: object = None) -> None:
        """Wake all that wait."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.set_result(None)
