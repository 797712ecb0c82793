"""Who is at which item: claims that expire, and what somebody was assigned.

Two people never get the same item, except those items that two are to review; and what nobody continues with
is free again as soon as its claim has expired.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, exists, or_, select, update

from dokimos.server._db.batches import in_batches
from dokimos.server._db.clock import now
from dokimos.server._db.ids import parse_id
from dokimos.server._db.inserts import INSERTS
from dokimos.server._db.review_tables import REVIEW_CLAIMS, REVIEWS
from dokimos.server._db.tables import API_KEYS, ITEMS, PROJECTS, RUNS
from dokimos.server._db.user_tables import USERS
from dokimos.server._services.errors import NotFoundError
from dokimos.server._services.events import EventKind, announce_run
from dokimos.server._services.principal import SYSTEM, Principal, Role
from dokimos.server._services.project_settings import DEFAULTS, ProjectSettings, read_settings
from dokimos.server._services.review_filter import (
    QueueFilter,
    is_active,
    is_free_for,
    is_in_share,
    is_unreviewed_by,
)
from dokimos.server._services.review_order import choose_informative
from dokimos.server._services.review_queue import Queue, Waiting
from dokimos.server._services.reviews import sees_tenants, tenant_of
from dokimos.server._services.runs import select_described_runs

_SECOND: Final = 1_000_000
_ROUNDS: Final = 20
"""How often more candidates are read where others have claimed those before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """What a reviewer asks for."""

    chosen: QueueFilter
    count: int
    seconds: int
    """How long the claims hold."""
    is_informative: bool = False
    """Whether the most informative items come first."""


def claim_items(
    connection: Connection, principal: Principal, request: ClaimRequest, random: Random
) -> list[Waiting]:
    """Claim the next items of the queue, those first that the caller has claimed already.

    Raises:
        NotFoundError: The project, the experiment or the run is not there.
        RoleError: The caller may review nothing of what it asks for.
    """
    claiming = _Claiming(connection, principal, request)
    claiming.repeat_own()
    claiming.take_second_reviews()
    queue = Queue(
        connection,
        principal,
        request.chosen,
        (is_unreviewed_by(principal.id), is_free_for(principal)),
        is_for_editors=True,
    )
    if request.is_informative:
        settings = claiming.settings
        share = settings.review_random_share
        needed = request.count - len(claiming.claimed)
        claiming.take(choose_informative(queue, needed, random_share=share, random=random) if needed else [])
    else:
        after: str | None = None
        for _ in range(_ROUNDS):
            needed = request.count - len(claiming.claimed)
            page = queue.read(needed, after=after) if needed else []
            claiming.take(page)
            if not page:
                break
            after = page[-1].item_id
    claiming.announce()
    return claiming.claimed


class _Claiming:
    """One request of a reviewer, while it is carried out."""

    def __init__(self, connection: Connection, principal: Principal, request: ClaimRequest) -> None:
        self._connection = connection
        self._principal = principal
        self._request = request
        self._moment = now()
        self._expires_at = self._moment + request.seconds * _SECOND
        self.claimed: list[Waiting] = []
        self._new_runs: dict[str, Row[Any]] = {}
        self._own = Queue(connection, principal, request.chosen)
        self._scope_project = self._find_project()
        self.settings: ProjectSettings = (
            DEFAULTS if self._scope_project is None else read_settings(self._scope_project)
        )

    def repeat_own(self) -> None:
        """Return what the caller has claimed already, whose claims hold longer from now on."""
        own = self._read_own()
        claims = claims_of(self._connection, self._principal, [each.item_id for each in own])
        for each in own:
            claim = claims[each.item_id]
            self.claimed.append(
                Waiting(
                    each.created_at, each.item_id, each.run, bool(claim.sampled), claim.selection_probability
                )
            )
        extend_claims(
            self._connection, self._principal, self._request.seconds, [each.item_id for each in own]
        )

    def _read_own(self) -> list[Waiting]:
        """The claims of the caller that are asked for: found from the claims, since the queue may be long."""
        columns = REVIEW_CLAIMS.c
        query = select(columns.run_id, columns.item_id)
        item_ids: defaultdict[str, list[str]] = defaultdict(list)
        for row in self._connection.execute(query.where(columns.reviewer == self._principal.id, is_active())):
            item_ids[row.run_id].append(row.item_id)
        own: list[Waiting] = []
        for batch in in_batches(sorted(item_ids)):
            for run in self._own.read_runs(ids=batch):
                own += self._own.read_items(run, item_ids[run.id])
        return sorted(own)[: self._request.count]

    def take_second_reviews(self) -> None:
        """Claim items that one person has reviewed and two are to review, as half of what is asked for."""
        overlap, needed = self.settings.review_overlap, (self._request.count - len(self.claimed) + 1) // 2
        if not overlap or needed <= 0 or self._scope_project is None or self._request.chosen.is_narrowed:
            return
        runs = select_described_runs().subquery()
        other = REVIEWS.alias()
        query = (
            select(runs, REVIEWS.c.item_id, ITEMS.c.created_at)
            .join(REVIEWS, REVIEWS.c.run_id == runs.c.id)
            .join(ITEMS, ITEMS.c.id == REVIEWS.c.item_id)
            .where(
                REVIEWS.c.project_id == self._scope_project.id,
                REVIEWS.c.reviewer != self._principal.id,
                is_in_share(self._connection, REVIEWS.c.item_id, overlap),
                runs.c.id.in_(select(RUNS.c.id).where(self._principal.sees(RUNS), *self._own.scope())),
                ~exists().where(
                    other.c.item_id == REVIEWS.c.item_id,
                    other.c.tenant_id == REVIEWS.c.tenant_id,
                    other.c.id != REVIEWS.c.id,
                ),
                is_free_for(self._principal),
            )
            .order_by(REVIEWS.c.created_at, REVIEWS.c.id)
            .limit(needed)
        )
        if self._principal.is_restricted:
            query = query.where(REVIEWS.c.tenant_id == (self._principal.tenant or ""))
        rows = self._connection.execute(query).all()
        self.take([Waiting(row.created_at, row.item_id, row) for row in rows], place=1)

    def take(self, candidates: Iterable[Waiting], *, place: int = 0) -> None:
        """Claim those of some items that nobody else has claimed meanwhile."""
        known = {each.item_id for each in self.claimed}
        for each in candidates:
            if len(self.claimed) >= self._request.count:
                return
            if each.item_id in known:
                continue
            if self._principal.role_in(each.run.project_id) >= Role.EDITOR and self._claim(each, place):
                self.claimed.append(each)
                self._new_runs[each.run.id] = each.run

    def announce(self) -> None:
        """Tell of the claims that were made."""
        for run in self._new_runs.values():
            tenant = tenant_of(self._principal, run) or None
            announce_run(self._connection, EventKind.CLAIMS_CHANGED, run, tenants=(tenant,))

    def _claim(self, each: Waiting, place: int) -> bool:
        values = {
            "run_id": each.run.id,
            "project_id": each.run.project_id,
            "reviewer": self._principal.id,
            "claimed_at": self._moment,
            "expires_at": self._expires_at,
            "assigned_by": None,
            "sampled": each.sampled,
            "selection_probability": each.probability,
        }
        tenant = tenant_of(self._principal, each.run)
        statement = INSERTS[self._connection.dialect.name](REVIEW_CLAIMS).values(
            item_id=each.item_id, tenant_id=tenant, place=place, **values
        )
        # Of two that claim it at once, the second waits for the first, and then finds a claim that holds.
        columns = REVIEW_CLAIMS.c
        is_own = and_(columns.reviewer == self._principal.id, columns.expires_at.is_not(None))
        statement = statement.on_conflict_do_update(
            index_elements=["item_id", "tenant_id", "place"],
            set_=values,
            where=or_(columns.expires_at <= self._moment, is_own),
        )
        return bool(self._connection.execute(statement).rowcount == 1)

    def _find_project(self) -> Row[Any] | None:
        """The project that the request is about; None where it is about all of them."""
        if not (
            self._request.chosen.project or self._request.chosen.experiment_id or self._request.chosen.run_id
        ):
            return None
        of_runs = select(RUNS.c.project_id).where(self._principal.sees(RUNS), *self._own.scope()).limit(1)
        query = select(PROJECTS).where(PROJECTS.c.id.in_(of_runs))
        row: Row[Any] | None = self._connection.execute(query).first()
        if row is not None:
            self._principal.check_role(row.id)
        return row


def extend_claims(
    connection: Connection, principal: Principal, seconds: int, item_ids: Sequence[str] | None
) -> list[str]:
    """Have claims of the caller hold longer from now on; return the items of those that still held."""
    held = and_(REVIEW_CLAIMS.c.reviewer == principal.id, is_active())
    kept: list[str] = []
    for condition in _each_batch(item_ids):
        kept += connection.execute(select(REVIEW_CLAIMS.c.item_id).where(held, condition)).scalars()
        timed = and_(held, REVIEW_CLAIMS.c.expires_at.is_not(None), condition)
        connection.execute(update(REVIEW_CLAIMS).where(timed).values(expires_at=now() + seconds * _SECOND))
    return kept


def release_claims(connection: Connection, principal: Principal, item_ids: Sequence[str] | None) -> int:
    """Give items back that the caller has claimed, or those that it was assigned and that are named."""
    own = REVIEW_CLAIMS.c.reviewer == principal.id
    if item_ids is None:
        own = and_(own, REVIEW_CLAIMS.c.expires_at.is_not(None))
    runs: set[str] = set()
    count = 0
    for condition in _each_batch(item_ids):
        runs |= set(connection.execute(select(REVIEW_CLAIMS.c.run_id).where(own, condition)).scalars())
        count += connection.execute(delete(REVIEW_CLAIMS).where(own, condition)).rowcount
    _announce_runs(connection, principal, runs)
    return count


def assign_items(
    connection: Connection, principal: Principal, item_ids: Sequence[str], reviewer: str | None
) -> None:
    """Assign items to a person, whoever has claimed them; with None, to nobody.

    Raises:
        NotFoundError: One of the items, or the reviewer, does not exist or is not visible.
        RoleError: The caller's role in one of the projects is too low.
        ForbiddenError: A run is shared, and closed to this caller.
    """
    if reviewer is not None and not _is_known(connection, principal, reviewer):
        raise NotFoundError(f"Reviewer not found: {reviewer}")
    runs = _find_runs(connection, principal, item_ids)
    for item_id, run in runs.items():
        tenant = tenant_of(principal, run)
        principal.check_role(run.project_id)
        if not tenant:
            principal.check_may_write(None, "The run", project=run.project_id)
        is_of = and_(REVIEW_CLAIMS.c.item_id == item_id, REVIEW_CLAIMS.c.tenant_id == tenant)
        connection.execute(delete(REVIEW_CLAIMS).where(is_of))
        if reviewer is not None:
            connection.execute(
                REVIEW_CLAIMS.insert().values(
                    item_id=item_id,
                    tenant_id=tenant,
                    place=0,
                    run_id=run.id,
                    project_id=run.project_id,
                    reviewer=reviewer,
                    claimed_at=now(),
                    expires_at=None,
                    assigned_by=principal.id,
                )
            )
    _announce_runs(connection, principal, {run.id for run in runs.values()})


def claims_of(connection: Connection, principal: Principal, item_ids: Sequence[str]) -> dict[str, Row[Any]]:
    """Return who is at each of some items, as far as somebody is and the caller may know."""
    claims: dict[str, Row[Any]] = {}
    for batch in in_batches(item_ids):
        query = select(REVIEW_CLAIMS).where(REVIEW_CLAIMS.c.item_id.in_(batch), is_active())
        query = query.where(sees_tenants(principal, REVIEW_CLAIMS)).order_by(REVIEW_CLAIMS.c.place)
        for row in connection.execute(query):
            if row.item_id not in claims or row.reviewer == principal.id:
                claims[row.item_id] = row
    return claims


def _each_batch(item_ids: Sequence[str] | None) -> Iterable[ColumnElement[bool]]:
    if item_ids is None:
        return [REVIEW_CLAIMS.c.item_id.is_not(None)]
    return [REVIEW_CLAIMS.c.item_id.in_(batch) for batch in in_batches(item_ids)]


def _find_runs(connection: Connection, principal: Principal, item_ids: Sequence[str]) -> dict[str, Row[Any]]:
    """The run of each item, in the order of their ids: two that assign the same ones wait for each other."""
    found: dict[str, Row[Any]] = {}
    for batch in in_batches(sorted(set(item_ids))):
        query = (
            select(RUNS, ITEMS.c.id.label("item_id"))
            .join(ITEMS, ITEMS.c.run_id == RUNS.c.id)
            .where(ITEMS.c.id.in_(batch), principal.sees(RUNS))
            .order_by(ITEMS.c.id)
        )
        found |= {row.item_id: row for row in connection.execute(query)}
    for index, item_id in enumerate(item_ids):
        if item_id not in found:
            raise NotFoundError(f"itemIds[{index}]: Item not found: {item_id}")
    return found


def _is_known(connection: Connection, principal: Principal, reviewer: str) -> bool:
    """Whether a caller may assign something to a key or a person: itself, or one of its tenant."""
    if reviewer in (principal.id, SYSTEM.id):
        return True
    if parse_id(reviewer) is None:
        return False
    for table in (API_KEYS, USERS):
        query = select(table.c.id).where(table.c.id == reviewer)
        if principal.is_restricted:
            query = query.where(table.c.tenant_id == principal.tenant)
        if connection.execute(query).first() is not None:
            return True
    return False


def _announce_runs(connection: Connection, principal: Principal, run_ids: set[str]) -> None:
    for batch in in_batches(sorted(run_ids)):
        for run in connection.execute(select(RUNS).where(RUNS.c.id.in_(batch))).all():
            tenant = tenant_of(principal, run) or None
            announce_run(connection, EventKind.CLAIMS_CHANGED, run, tenants=(tenant,))
