"""Who is at which item: claims that expire, and what somebody was assigned.

Two people never get the same item, except those items that two are to review; and what nobody continues with
is free again as soon as its claim has expired.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, Select, and_, delete, exists, or_, select, true, update

from dokimos.server._db.batches import in_batches
from dokimos.server._db.clock import now
from dokimos.server._db.database import Database, Lane, ReadersBusy, ReadTooSlow
from dokimos.server._db.ids import parse_id
from dokimos.server._db.inserts import INSERTS
from dokimos.server._db.key_tables import API_KEYS
from dokimos.server._db.review_tables import REVIEW_CLAIMS, REVIEWS
from dokimos.server._db.tables import ITEMS, PROJECTS, RUNS
from dokimos.server._db.user_tables import USERS
from dokimos.server._services.accounts.principal import SYSTEM, Principal, Role
from dokimos.server._services.errors import NotFoundError
from dokimos.server._services.events import EventKind, announce_run
from dokimos.server._services.projects.project_settings import DEFAULTS, read_settings
from dokimos.server._services.reviews.review_filter import (
    QueueFilter,
    is_active,
    is_claimed_by_nobody,
    is_free_for,
    is_in_share,
    is_unreviewed_by,
)
from dokimos.server._services.reviews.review_order import choose_informative
from dokimos.server._services.reviews.review_queue import Queue, Waiting
from dokimos.server._services.reviews.reviews import sees_tenants, tenant_of
from dokimos.server._services.runs.runs import select_described_runs

_SECOND: Final = 1_000_000
_ROUNDS: Final = 20
"""How often more candidates are searched for where others have claimed those before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """What a reviewer asks for."""

    chosen: QueueFilter
    count: int
    seconds: int
    """How long the claims hold."""
    is_informative: bool = False
    """Whether the most informative items come first."""


@dataclass(frozen=True, slots=True)
class _Candidates:
    """What a search has found; whether it may be claimed is decided in the transaction that claims it."""

    own: Sequence[Waiting]
    """What the caller has claimed already."""
    second: Sequence[Waiting]
    """What one person has reviewed and two are to review."""
    first: Sequence[Waiting]


async def claim_items(
    database: Database, principal: Principal, request: ClaimRequest, random: Random
) -> list[Waiting]:
    """Claim the next items of the queue, those first that the caller has claimed already.

    A filter may have to look at many items. That is a read, and the write after it claims those of its items
    that still wait, so that nobody else's write waits for the search.

    Raises:
        NotFoundError: The project, the experiment or the run is not there.
        RoleError: The caller may review nothing of what it asks for.
        ReadTooSlow: The search takes longer than a read may.
    """
    lane = Lane.SEARCH if request.chosen.is_narrowed else Lane.PAGE
    claimed: list[Waiting] = []
    for turn in range(_ROUNDS):
        rest = replace(request, count=request.count - len(claimed))
        search = partial(_search, principal=principal, request=rest, random=random, is_first=turn == 0)
        try:
            found = await database.read(search, lane)
        except (ReadTooSlow, ReadersBusy):
            if not claimed:
                raise
            break  # what is claimed already counts more than that there is no more of it
        offered = len(found.own) + len(found.second) + len(found.first)
        if not offered:
            break
        taken = await database.write(partial(_take, principal=principal, request=rest, found=found))
        claimed += taken
        if len(claimed) >= request.count or len(taken) == offered < rest.count:
            break
    return claimed


def _search(
    connection: Connection, *, principal: Principal, request: ClaimRequest, random: Random, is_first: bool
) -> _Candidates:
    scope = Queue(connection, principal, request.chosen)
    project = _find_project(scope)
    settings = DEFAULTS if project is None else read_settings(project)
    own = _read_own(scope, request.count) if is_first else []
    needed = request.count - len(own)
    second: Sequence[Waiting] = []
    overlap = settings.review_overlap
    if is_first and needed and overlap and project is not None and not request.chosen.is_narrowed:
        query = _select_second(scope, overlap).where(REVIEWS.c.project_id == project.id)
        rows = connection.execute(query.limit((needed + 1) // 2)).all()
        second = [Waiting(row.created_at, row.item_id, row) for row in rows]
        needed -= len(second)
    queue = _open_queue(scope)
    if not needed:
        first: Sequence[Waiting] = []
    elif request.is_informative:
        share = settings.review_random_share
        first = choose_informative(queue, needed, random_share=share, random=random).items
    else:
        first = queue.read(needed).items
    known = {each.item_id for each in (*own, *second)}
    return _Candidates(own, second, [each for each in first if each.item_id not in known])


def _take(
    connection: Connection, *, principal: Principal, request: ClaimRequest, found: _Candidates
) -> list[Waiting]:
    """Claim what was found, as far as it still waits and nobody else has claimed it meanwhile."""
    scope = Queue(connection, principal, request.chosen)
    held = set(extend_claims(connection, principal, request.seconds, [each.item_id for each in found.own]))
    own = [each for each in found.own if each.item_id in held]
    second = _check_second(scope, found.second)
    first = _check_first(_open_queue(scope), found.first)
    new = [each for each in second if _claim(connection, principal, request, each, place=1)]
    new += [each for each in first if _claim(connection, principal, request, each, place=0)]
    for run in {each.run.id: each.run for each in new}.values():
        tenant = tenant_of(principal, run) or None
        announce_run(connection, EventKind.CLAIMS_CHANGED, run, tenants=(tenant,))
    return own + new


def _open_queue(scope: Queue) -> Queue:
    """What of a queue the caller could claim."""
    conditions = (is_unreviewed_by(scope.principal.id), is_claimed_by_nobody(scope.principal))
    return replace(scope, conditions=conditions, is_for_editors=True)


def _read_own(scope: Queue, count: int) -> list[Waiting]:
    """The claims of the caller that are asked for: found from the claims, since the queue may be long."""
    columns = REVIEW_CLAIMS.c
    query = select(columns.run_id, columns.item_id)
    item_ids: defaultdict[str, list[str]] = defaultdict(list)
    for row in scope.connection.execute(query.where(columns.reviewer == scope.principal.id, is_active())):
        item_ids[row.run_id].append(row.item_id)
    own: list[Waiting] = []
    for batch in in_batches(sorted(item_ids)):
        for run in scope.read_runs(ids=batch):
            own += scope.read_items(run, item_ids[run.id])
    own = sorted(own)[:count]
    claims = claims_of(scope.connection, scope.principal, [each.item_id for each in own])
    return [
        replace(each, sampled=bool(claim.sampled), probability=claim.selection_probability)
        for each in own
        if (claim := claims.get(each.item_id)) is not None
    ]


def _select_second(scope: Queue, overlap: float) -> Select[Any]:
    """The query of items that one other person has reviewed and two are to review."""
    runs = select_described_runs().subquery()
    other = REVIEWS.alias()
    principal = scope.principal
    query = (
        select(runs, REVIEWS.c.item_id, ITEMS.c.created_at)
        .join(REVIEWS, REVIEWS.c.run_id == runs.c.id)
        .join(ITEMS, ITEMS.c.id == REVIEWS.c.item_id)
        .where(
            REVIEWS.c.reviewer != principal.id,
            is_in_share(scope.connection, REVIEWS.c.item_id, overlap),
            runs.c.id.in_(select(RUNS.c.id).where(principal.sees(RUNS), *scope.scope())),
            ~exists().where(
                other.c.item_id == REVIEWS.c.item_id,
                other.c.tenant_id == REVIEWS.c.tenant_id,
                other.c.id != REVIEWS.c.id,
            ),
            is_free_for(principal),
        )
        .order_by(REVIEWS.c.created_at, REVIEWS.c.id)
    )
    return query.where(REVIEWS.c.tenant_id == (principal.tenant or "")) if principal.is_restricted else query


def _check_second(scope: Queue, found: Sequence[Waiting]) -> list[Waiting]:
    if not found:
        return []
    query = _select_second(scope, 1.0).where(REVIEWS.c.item_id.in_([each.item_id for each in found]))
    still = {row.item_id for row in scope.connection.execute(query)}
    return [each for each in found if each.item_id in still]


def _check_first(queue: Queue, found: Sequence[Waiting]) -> list[Waiting]:
    of_run: defaultdict[str, list[str]] = defaultdict(list)
    for each in found:
        of_run[each.run.id].append(each.item_id)
    still: set[str] = set()
    for run in queue.read_runs(ids=sorted(of_run)):
        still |= {each.item_id for each in queue.read_items(run, of_run[run.id])}
    return [each for each in found if each.item_id in still]


def _claim(
    connection: Connection, principal: Principal, request: ClaimRequest, each: Waiting, *, place: int
) -> bool:
    if principal.role_in(each.run.project_id) < Role.EDITOR:
        return False
    moment = now()
    values = {
        "run_id": each.run.id,
        "project_id": each.run.project_id,
        "reviewer": principal.id,
        "claimed_at": moment,
        "expires_at": moment + request.seconds * _SECOND,
        "assigned_by": None,
        "sampled": each.sampled,
        "selection_probability": each.probability,
    }
    tenant = tenant_of(principal, each.run)
    statement = INSERTS[connection.dialect.name](REVIEW_CLAIMS).values(
        item_id=each.item_id, tenant_id=tenant, place=place, **values
    )
    # Of two that claim it at once, the second waits for the first, and then finds a claim that holds.
    columns = REVIEW_CLAIMS.c
    is_own = and_(columns.reviewer == principal.id, columns.expires_at.is_not(None))
    statement = statement.on_conflict_do_update(
        index_elements=["item_id", "tenant_id", "place"],
        set_=values,
        where=or_(columns.expires_at <= moment, is_own),
    )
    return bool(connection.execute(statement).rowcount == 1)


def _find_project(scope: Queue) -> Row[Any] | None:
    """The project that a request is about; None where it is about all of them."""
    chosen = scope.chosen
    if not (chosen.project or chosen.experiment_id or chosen.run_id):
        return None
    of_runs = select(RUNS.c.project_id).where(scope.principal.sees(RUNS), *scope.scope()).limit(1)
    query = select(PROJECTS).where(PROJECTS.c.id.in_(of_runs))
    row: Row[Any] | None = scope.connection.execute(query).first()
    if row is not None:
        scope.principal.check_role(row.id)
    return row


def extend_claims(
    connection: Connection, principal: Principal, seconds: int, item_ids: Sequence[str] | None
) -> list[str]:
    """Have claims of the caller hold longer from now on; return the items of those that still held."""
    held = and_(REVIEW_CLAIMS.c.reviewer == principal.id, is_active(), _may_review(principal))
    kept: list[str] = []
    for condition in _each_batch(item_ids):
        kept += connection.execute(select(REVIEW_CLAIMS.c.item_id).where(held, condition)).scalars()
        timed = and_(held, REVIEW_CLAIMS.c.expires_at.is_not(None), condition)
        connection.execute(update(REVIEW_CLAIMS).where(timed).values(expires_at=now() + seconds * _SECOND))
    return kept


def _may_review(principal: Principal) -> ColumnElement[bool]:
    """The condition that a claim is in a project in which the caller may still review.

    One that has lost its role there since it claimed something keeps nobody else from that.
    """
    if principal.role >= Role.EDITOR:
        return true()
    projects = [each for each, role in principal.project_roles.items() if role >= Role.EDITOR]
    is_in_one = (RUNS.c.id == REVIEW_CLAIMS.c.run_id, RUNS.c.project_id.in_(projects))
    return exists().where(*is_in_one).correlate(REVIEW_CLAIMS)


def release_claims(connection: Connection, principal: Principal, item_ids: Sequence[str] | None) -> int:
    """Give items back that the caller has claimed, or those that it was assigned and that are named."""
    own = and_(REVIEW_CLAIMS.c.reviewer == principal.id, _may_review(principal))
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
