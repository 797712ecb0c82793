"""What the audit log counts: what changed nothing, such as a refusal, and the batches of items of a run.

It is counted in memory and written every few seconds: a flood of wrong keys costs some memory, and a bounded
number of rows. What changes something has a row of its own, in its transaction
(`dokimos.server._services.audit.audited_database`).
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import Connection

from dokimos.server._db.audit_tables import AUDIT_LOG
from dokimos.server._db.clock import MINUTE, now
from dokimos.server._db.database import Database
from dokimos.server._db.ids import new_id
from dokimos.server._db.inserts import INSERTS
from dokimos.server._services.accounts.principal import ANONYMOUS
from dokimos.server._services.audit.audit_actions import ITEMS_ACTION, NO_TARGET, action_of, target_of
from dokimos.server._services.audit.audit_log import AuditEntry, Outcome, dump_details, row_of
from dokimos.server._services.request_context import RequestContext

_MAX_STRANGERS: Final = 100
"""Different refusals of callers without a key in a minute; further ones are counted together."""
_MAX_OF_ADDRESS: Final = 20
"""Of those, how many may come from one address."""
_MAX_KNOWN: Final = 1000
"""The same of callers with a key."""
_MAX_RUNS: Final = 5_000
"""Runs that get items, with who sends them, of which it is known that they have a row."""
_MANY: Final = "*"
"""Instead of an action or an address, where several are counted together."""
_READ_REFUSALS: Final = frozenset((401, 403, 429))
"""The statuses of a read that was refused because of who asked; others say only that it found nothing."""
_HOST: Final = "host"
HUNG_UP: Final = 499
"""The status in logs and metrics of a request whose client hung up before it was answered."""


@dataclass(slots=True)
class _Counted:
    """An entry that is counted, and what of it is on disk."""

    entry: AuditEntry
    row_id: str
    request_id: str | None
    first: int
    last: int
    times: int = 1
    times_on_disk: int = 0


class AuditTrail:
    """Counts what the audit log has no row of its own for; everything here runs in the event loop."""

    def __init__(self) -> None:
        self._counted: dict[AuditEntry, _Counted] = {}
        self._strangers: Counter[str | None] = Counter()
        """How many entries of callers without a key there are, by their addresses."""
        self._flushing = asyncio.Lock()
        self._runs: OrderedDict[tuple[object, ...], _Counted] = OrderedDict()

    @property
    def waiting_count(self) -> int:
        """How many entries are counted in memory at the moment."""
        return len(self._counted) + len(self._runs)

    def has_row(self, context: RequestContext) -> bool:
        """Whether it is a batch of items of a run whose sender has a row already.

        The batches of a run come by the thousand: the first one of a sender has a row in its transaction,
        and the others are counted in that.
        """
        return _is_batch(context) and _sender(context) in self._runs

    def count_batch(self, context: RequestContext) -> None:
        """Count a batch of items that was stored in the row that its sender has."""
        counted = self._runs.get(_sender(context))
        if counted is not None:
            counted.times += 1
            counted.last = now()

    def note_row(self, context: RequestContext, row_id: str, entry: AuditEntry) -> None:
        """Note the row that the first batch of a sender has got."""
        if not _is_batch(context):
            return
        moment = now()
        self._runs[_sender(context)] = _Counted(
            entry, row_id, context.request_id, moment, moment, times_on_disk=1
        )
        if len(self._runs) > _MAX_RUNS:
            self._runs.popitem(last=False)

    def note_answer(self, context: RequestContext, status: int) -> None:
        """Count a request that was answered and has no row of its own, where it asked for a change.

        Args:
            context: The request.
            status: The status of its answer.
        """
        if status < 400:
            if not context.is_change or context.is_recorded or _is_batch(context):
                return
            outcome = Outcome.OK
        elif context.is_change or status in _READ_REFUSALS or context.reason == _HOST:
            outcome = Outcome.REFUSED if status < HUNG_UP else Outcome.FAILED
        else:
            return
        principal = context.principal
        entry = AuditEntry(
            principal_kind=principal.kind,
            principal_id=principal.id,
            principal_name=principal.name,
            tenant=principal.tenant,
            address=context.address,
            action=action_of(context.method, context.route),
            target=target_of(context.route, context.parameters),
            outcome=outcome,
            status=status,
            details=None if context.reason is None else dump_details({"reason": context.reason}),
        )
        self.count(entry, context.request_id)

    def count(self, entry: AuditEntry, request_id: str | None = None) -> None:
        """Count something in the row of the current minute that is equal except for the time."""
        moment = now()
        counted = self._counted.get(entry)
        if counted is None:
            entry = self._merge(entry)
            counted = self._counted.get(entry)
        if counted is None:
            self._counted[entry] = _Counted(entry, new_id(), request_id, moment, moment)
            if _is_of_stranger(entry):
                self._strangers[entry.address] += 1
            return
        counted.times += 1
        counted.last = moment

    async def flush(self, database: Database) -> None:
        """Write what was counted since the last time.

        Raises:
            DatabaseUnavailable: It could not be written; the next time it is tried again.
        """
        async with self._flushing:
            changed = [
                counted
                for counted in (*self._counted.values(), *self._runs.values())
                if counted.times > counted.times_on_disk
            ]
            if changed:
                states = [replace(counted) for counted in changed]
                await database.write(lambda connection: _write_counts(connection, states))
                for counted, state in zip(changed, states, strict=True):
                    counted.times_on_disk = state.times
            self._forget(now())

    def _forget(self, moment: int) -> None:
        """Let go of what is written and will not be counted any more."""
        self._counted = {
            entry: counted
            for entry, counted in self._counted.items()
            # In both directions: a clock that was set back must not keep them for as long.
            if counted.times > counted.times_on_disk or abs(moment - counted.first) < MINUTE
        }
        self._strangers = Counter(entry.address for entry in self._counted if _is_of_stranger(entry))

    def _merge(self, entry: AuditEntry) -> AuditEntry:
        """Return the entry to count one in that is new: a common one, where there are too many already."""
        of_address = replace(entry, action=_MANY, target=NO_TARGET, status=None, details=None)
        of_all = replace(of_address, address=_MANY)
        strangers = self._strangers.total()
        if not _is_of_stranger(entry):
            return entry if len(self._counted) - strangers < _MAX_KNOWN else of_all
        if self._strangers[entry.address] >= _MAX_OF_ADDRESS:
            entry = of_address
        return entry if strangers < _MAX_STRANGERS or entry in self._counted else of_all


def _is_of_stranger(entry: AuditEntry) -> bool:
    return entry.principal_kind == ANONYMOUS.kind


def _is_batch(context: RequestContext) -> bool:
    return action_of(context.method, context.route) == ITEMS_ACTION


def _sender(context: RequestContext) -> tuple[object, ...]:
    return context.parameters.get("runId"), context.principal.id, context.address


def _write_counts(connection: Connection, states: list[_Counted]) -> None:
    rows = [
        row_of(
            state.entry,
            state.row_id,
            state.first,
            state.last,
            request_id=state.request_id,
            times=state.times,
        )
        for state in states
    ]
    # One statement for what is new and what is known: whether a write that was cancelled has reached the disk
    # is not known.
    added = INSERTS[connection.dialect.name](AUDIT_LOG)
    counted = {name: added.excluded[name] for name in ("times", "last_at")}
    connection.execute(added.on_conflict_do_update(index_elements=["id"], set_=counted), rows)
