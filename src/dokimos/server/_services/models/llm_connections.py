"""Connections to models: created, listed, changed, removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, Row, and_, delete, func, not_, or_, select, update

from dokimos._http.address import find_url_fault, has_login
from dokimos._http.address_policy import AddressPolicy
from dokimos.server._db.clock import now
from dokimos.server._db.connection_tables import LLM_CONNECTIONS
from dokimos.server._db.ids import new_id
from dokimos.server._db.inserts import insert_if_absent
from dokimos.server._db.judge_tables import JUDGE_JOBS
from dokimos.server._services.accounts.principal import Principal
from dokimos.server._services.audit.audit_targets import describe_target
from dokimos.server._services.encryption.secret_vault import SecretVault
from dokimos.server._services.errors import ConflictError, InvalidRequestError, NotFoundError
from dokimos.server._services.events import Event, EventKind, announce
from dokimos.server._services.judging.judge_jobs import release_connection
from dokimos.server._services.judging.judged_runs import ACTIVE
from dokimos.server._services.list_pages import ListPage, SortKeys, read_page
from dokimos.server._services.models.credential_references import check_reference
from dokimos.server._services.models.model_origins import origin_of
from dokimos.server._services.online.rule_connections import check_no_rule_uses
from dokimos.server._services.projects.names import check_name
from dokimos.server._services.projects.projects import contains
from dokimos.server._services.row_versions import Expected, check_version, version_of

MAX_CONNECTIONS: Final = 500
"""Of one tenant, and of those that are shared."""
MAX_URL: Final = 512
_MAX_KEY: Final = 4096
_Settings = Mapping[str, float | int | None]
_TABLE: Final = LLM_CONNECTIONS.c


class ModelProtocol(StrEnum):
    """What an endpoint speaks."""

    RESPONSES = "RESPONSES"
    CHAT_COMPLETIONS = "CHAT_COMPLETIONS"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionChange:
    """What a caller says about a connection."""

    name: str
    base_url: str
    model: str
    protocol: ModelProtocol | None = None
    """None keeps that of a connection that exists; a new one has RESPONSES."""
    api_key: str | None = None
    credential_ref: str | None = None
    """One of the two; where there is none of them, a connection that exists keeps what it has."""
    settings: _Settings = field(default_factory=dict)
    """The prices and limits that the caller names, by their columns; None removes one, others stay."""


@dataclass(frozen=True, slots=True)
class ConnectionRules:
    """By what a change is checked: where requests may go, and how keys are kept."""

    policy: AddressPolicy
    vault: SecretVault


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionDraft:
    """A connection that is not stored, with what a row of it would hold."""

    id: str
    name: str
    base_url: str
    model: str
    protocol: str
    api_key: str | None
    credential_ref: str | None
    input_price: float | None = None
    output_price: float | None = None
    max_output_tokens: int | None = None
    requests_per_minute: int | None = None
    max_concurrency: int | None = None
    temperature: float | None = None
    updated_at: int = 0


def create_connection(
    connection: Connection, principal: Principal, change: ConnectionChange, rules: ConnectionRules
) -> Row[Any]:
    """Store a connection and return its row.

    Raises:
        InvalidRequestError: A value cannot be used, or there is not exactly one credential.
        ConflictError: The name is taken, there are too many, or the server has no passphrase for the key.
        ForbiddenError: The caller may not use this credential with this host.
    """
    draft = draft_connection(principal, change, rules)
    _check_count(connection, principal.tenant)
    moment = now()
    values = _values_of(draft)
    is_new = insert_if_absent(
        connection,
        LLM_CONNECTIONS,
        **values,
        id=draft.id,
        tenant_id=principal.tenant,
        created_by=principal.id,
        created_at=moment,
        updated_at=moment,
    )
    if not is_new:
        raise _is_taken(change.name)
    row = find_connection(connection, principal, draft.id)
    _announce(connection, EventKind.CONNECTION_CHANGED, row)
    return row


CONNECTION_ORDERS: Final = SortKeys(
    {
        "createdAt": _TABLE.created_at,
        "updatedAt": _TABLE.updated_at,
        "name": func.lower(_TABLE.name),
        "model": func.lower(_TABLE.model),
    },
    ties=(_TABLE.id,),
    default="createdAt",
)


def list_connections(
    connection: Connection, principal: Principal, page: ListPage, *, search: str | None = None
) -> Sequence[Row[Any]]:
    """Return a page of the connections that the caller sees."""
    visible = select(LLM_CONNECTIONS).where(principal.sees(LLM_CONNECTIONS))
    conditions = [or_(contains(_TABLE.name, search), contains(_TABLE.model, search))] if search else []
    return read_page(connection, visible, page, _TABLE.id, *conditions)


def find_connection(
    connection: Connection, principal: Principal, connection_id: str, *, for_update: bool = False
) -> Row[Any]:
    """Return a connection; with `for_update`, locked until the transaction ends.

    Raises:
        NotFoundError: There is none that the caller sees.
    """
    query = select(LLM_CONNECTIONS).where(_TABLE.id == connection_id, principal.sees(LLM_CONNECTIONS))
    row = connection.execute(query.with_for_update() if for_update else query).first()
    if row is None:
        raise NotFoundError(f"LLM connection not found: {connection_id}")
    return row


def select_connection(connection: Connection, connection_id: str) -> Row[Any] | None:
    """Return a connection for the server's own work, None where it has been removed."""
    return connection.execute(select(LLM_CONNECTIONS).where(_TABLE.id == connection_id)).first()


def change_connection(
    connection: Connection,
    principal: Principal,
    connection_id: str,
    change: ConnectionChange,
    rules: ConnectionRules,
    expected: Expected = None,
) -> Row[Any]:
    """Change a connection and return it as it is then.

    Raises:
        NotFoundError: There is none that the caller sees.
        InvalidRequestError: A value cannot be used, or the key must be given again.
        ConflictError: The name is taken, or the server has no passphrase for the key.
        ForbiddenError: It is shared and closed to this caller, or it may not use this credential so.
        OutdatedError: It was changed since the version that the change is for.
    """
    row = find_writable(connection, principal, connection_id)
    check_version(expected, version_of(row), f"The LLM connection '{row.name}'")
    draft = draft_connection(principal, change, rules, row)
    _check_name_is_free(connection, row, change.name)
    values = {**_values_of(draft), "updated_at": now()}
    connection.execute(update(LLM_CONNECTIONS).where(_TABLE.id == connection_id).values(values))
    changed = find_connection(connection, principal, connection_id)
    _announce(connection, EventKind.CONNECTION_CHANGED, changed)
    return changed


def delete_connection(
    connection: Connection, principal: Principal, connection_id: str, *, force: bool = False
) -> None:
    """Delete a connection with its jobs; what they scored stays.

    Args:
        connection: Of a transaction that writes.
        principal, connection_id: The connection, and who deletes it.
        force: Whether jobs of other tenants that have not ended are ended, too.

    Raises:
        NotFoundError: There is none that the caller sees.
        ForbiddenError: It is shared, and closed to this caller.
        ConflictError: Other tenants are using it, or rules of online evaluation are.
    """
    row = find_writable(connection, principal, connection_id)
    check_no_rule_uses(connection, principal, row)
    _check_others(connection, principal, row, force=force)
    release_connection(connection, connection_id)  # their runs are not EVALUATING any more
    connection.execute(delete(LLM_CONNECTIONS).where(_TABLE.id == connection_id))
    _announce(connection, EventKind.CONNECTION_DELETED, row)


def _check_others(connection: Connection, principal: Principal, row: Row[Any], *, force: bool) -> None:
    """Refuse to end jobs of other tenants by accident; who does not see these can never end them.

    Nor to remove those that failed: without them, the run that they failed would count as a success again.
    """
    job = JUDGE_JOBS.c
    is_of_others = and_(job.tenant_id.is_not(None), job.tenant_id.is_distinct_from(principal.tenant))
    if principal.is_restricted:
        is_of_others = not_(principal.sees(JUDGE_JOBS))
    query = select(func.count()).where(
        job.connection_id == row.id, job.status.in_((*ACTIVE, "FAILED")), is_of_others
    )
    count: int = connection.execute(query.select_from(JUDGE_JOBS)).scalar_one()
    if not count or (force and not principal.is_restricted):
        return
    if principal.is_restricted:
        raise ConflictError(
            f"Judge jobs of other tenants are using the LLM connection '{row.name}'; delete it when they "
            "have succeeded, or ask an administrator without a tenant to do so"
        )
    jobs = "1 judge job of another tenant uses" if count == 1 else f"{count} judge jobs of other tenants use"
    raise ConflictError(
        f"{jobs} the LLM connection '{row.name}'; delete it when they have succeeded, or remove "
        "them as well with ?force=true"
    )


def find_writable(connection: Connection, principal: Principal, connection_id: str) -> Row[Any]:
    """Return a connection that the caller may change, locked until the transaction ends.

    Raises:
        NotFoundError: There is none that the caller sees.
        ForbiddenError: It is shared, and closed to this caller.
    """
    row = find_connection(connection, principal, connection_id, for_update=True)
    principal.check_may_write(row.tenant_id, f"The LLM connection '{row.name}'", project=None)
    return row


def draft_connection(
    principal: Principal, change: ConnectionChange, rules: ConnectionRules, row: Row[Any] | None = None
) -> ConnectionDraft:
    """Return what a connection would be after a change, or a new one.

    Args:
        principal: Whose change it is.
        change: What is to be.
        rules: By what it is checked.
        row: The connection that exists, None for a new one.

    Raises:
        InvalidRequestError: A value cannot be used, or the key must be given again.
        ConflictError: The server has no passphrase for the key.
        ForbiddenError: The caller may not use this credential with this host.
    """
    check_name(change.name, "name")
    _check_url(change.base_url, rules.policy)
    check_name(change.model, "model")
    owner = new_id() if row is None else row.id
    key, reference = _credential_of(principal, change, rules, owner, row)
    kept: _Settings = {name: None if row is None else getattr(row, name) for name in SETTING_COLUMNS}
    settings = {**kept, **change.settings}
    if (settings["input_price"] is None) != (settings["output_price"] is None):
        missing = "input" if settings["input_price"] is None else "output"
        raise InvalidRequestError(
            "is missing: a price needs both, for input and for output", field=f"{missing}PricePerMillion"
        )
    former = ModelProtocol.RESPONSES if row is None else ModelProtocol(row.protocol)
    return ConnectionDraft(
        id=owner,
        name=change.name,
        base_url=change.base_url,
        model=change.model,
        protocol=change.protocol or former,
        api_key=key,
        credential_ref=reference,
        updated_at=now(),
        **settings,  # type: ignore[arg-type] # whole numbers where the body has them
    )


SETTING_COLUMNS: Final = (
    "input_price", "output_price", "max_output_tokens", "requests_per_minute", "max_concurrency",
    "temperature",
)  # fmt: skip
"""What a connection may have beside what is documented."""
_COLUMNS: Final = (
    "name", "base_url", "model", "protocol", "api_key", "credential_ref", *SETTING_COLUMNS,
)  # fmt: skip


def _values_of(draft: ConnectionDraft) -> dict[str, Any]:
    return {name: getattr(draft, name) for name in _COLUMNS}


def _check_url(url: str, policy: AddressPolicy) -> None:
    if len(url) > MAX_URL:
        raise InvalidRequestError(f"must be at most {MAX_URL} characters", field="baseUrl")
    fault = find_url_fault(url, is_root=True) or policy.find_fault(url)
    if fault is None and has_login(url):
        fault = "holds a user and password, which would go into the same header as the key; leave them out"
    if fault is not None:
        raise InvalidRequestError(fault, field="baseUrl")


def _credential_of(
    principal: Principal,
    change: ConnectionChange,
    rules: ConnectionRules,
    owner: str,
    row: Row[Any] | None,
) -> tuple[str | None, str | None]:
    """The key as it is stored and the reference, of which there is exactly one."""
    key, reference = (change.api_key or "").strip(), (change.credential_ref or "").strip()
    if key and reference:
        raise InvalidRequestError("must not be given together with credentialRef", field="apiKey")
    if key:
        _check_key(key)
        if not rules.vault.encrypts:
            raise ConflictError(
                "The server cannot encrypt an inline apiKey: start it with DOKIMOS_ENCRYPTION_KEY, or name "
                "an environment variable of the server as credentialRef"
            )
        return rules.vault.seal(key, owner), None
    if reference:
        check_reference(principal, reference, change.base_url)
        return None, reference
    if row is None:
        raise InvalidRequestError("or credentialRef is needed, exactly one of them", field="apiKey")
    if origin_of(row.base_url) != origin_of(change.base_url):
        field = "credentialRef" if row.api_key is None else "apiKey"
        raise InvalidRequestError(
            f"must be given again: what is stored is for {origin_of(row.base_url)}, and is not sent to "
            f"{origin_of(change.base_url)}",
            field=field,
        )
    return row.api_key, row.credential_ref


def _check_key(key: str) -> None:
    """Refuse what cannot stand in a header; the message never quotes it."""
    if len(key) > _MAX_KEY:
        raise InvalidRequestError(f"must be at most {_MAX_KEY} characters", field="apiKey")
    if not all("!" <= sign <= "~" for sign in key):
        raise InvalidRequestError("must be printable ASCII without blanks", field="apiKey")


def _check_count(connection: Connection, tenant: str | None) -> None:
    own = _TABLE.tenant_id.is_not_distinct_from(tenant)
    count = connection.execute(select(func.count()).select_from(LLM_CONNECTIONS).where(own)).scalar_one()
    if count >= MAX_CONNECTIONS:
        raise ConflictError(f"There are {MAX_CONNECTIONS} LLM connections, which is the limit; delete one")


def _check_name_is_free(connection: Connection, row: Row[Any], name: str) -> None:
    if name == row.name:
        return
    own = _TABLE.tenant_id.is_not_distinct_from(row.tenant_id)
    if connection.execute(select(_TABLE.id).where(own, _TABLE.name == name)).first() is not None:
        raise _is_taken(name)


def _is_taken(name: str) -> ConflictError:
    return ConflictError(f"An LLM connection named '{name}' exists already")


def _announce(connection: Connection, kind: EventKind, row: Row[Any]) -> None:
    """Tell those who see it, and the audit log, which learns where it leads and never its credential."""
    event = Event(kind=kind, tenants=(row.tenant_id,), data={"connectionId": row.id})
    announce(connection, event)
    describe_target(
        connection,
        kind="llm-connection",
        id=row.id,
        name=row.name,
        tenant=row.tenant_id,
        details={
            "host": str(origin_of(row.base_url)),
            "model": row.model,
            "protocol": row.protocol,
            "credential": "apiKey" if row.credential_ref is None else row.credential_ref,
        },
    )
