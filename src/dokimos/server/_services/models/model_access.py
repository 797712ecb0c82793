"""From a stored connection to a model that answers: its key, its prices, and where its requests may go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, Final

from sqlalchemy import Connection, Row

from dokimos._core.metrics import CallMetrics, PriceTable
from dokimos._http.address_policy import AddressPolicy
from dokimos._http.client import Target
from dokimos._http.credentials import Secret
from dokimos.errors import ConfigurationError, MissingExtraError
from dokimos.judges._model_request import ModelRequest
from dokimos.judges._openai import OpenAIChat, OpenAIResponses
from dokimos.judges._prices import Prices, Rate, cost_of, from_genai_prices
from dokimos.server._db.database import Database, Lane
from dokimos.server._services.alerts.alert_webhooks import outgoing_policy
from dokimos.server._services.encryption.secret_vault import SecretLost, SecretVault
from dokimos.server._services.models.credential_references import ReferenceProblem, read_reference
from dokimos.server._services.models.llm_connections import ConnectionDraft, ModelProtocol, select_connection
from dokimos.server._settings import ServerSettings

REPLY_MEGABYTES: Final = 4.0
"""The most that a reply of a model may have, decompressed: a long text has a hundredth of it."""
REQUEST_SECONDS: Final = 60.0
"""How long a model may take for a reply, where the caller does not say it."""


class ProblemKind(StrEnum):
    """What keeps a connection from working."""

    GONE = "GONE"
    """It was removed."""
    KEY_LOST = "KEY_LOST"
    """The stored key cannot be decrypted."""
    REFERENCE_UNUSABLE = "REFERENCE_UNUSABLE"
    """The environment variable is not set, may not be used, or not with this host."""
    ADDRESS_REFUSED = "ADDRESS_REFUSED"
    """The server sends no requests there."""
    NAME_NOT_RESOLVED = "NAME_NOT_RESOLVED"
    UNREACHABLE = "UNREACHABLE"
    """Nobody listens there, or the connection was cut."""
    TLS = "TLS"
    """There is no secure connection."""
    TIMEOUT = "TIMEOUT"
    KEY_REFUSED = "KEY_REFUSED"
    """401 or 403."""
    NOT_FOUND = "NOT_FOUND"
    """404: of the path, or of the model."""
    RATE_LIMITED = "RATE_LIMITED"
    """429: too many requests, or no money left."""
    REDIRECTED = "REDIRECTED"
    REFUSED = "REFUSED"
    """Another 4xx: the request itself is wrong for this endpoint."""
    SERVER_ERROR = "SERVER_ERROR"
    """5xx."""
    TOO_LARGE = "TOO_LARGE"
    NOT_JSON = "NOT_JSON"
    NO_ANSWER = "NO_ANSWER"
    """JSON in which no answer is found."""
    WRONG_PROTOCOL = "WRONG_PROTOCOL"
    """The endpoint speaks the other protocol."""
    UNUSABLE = "UNUSABLE"
    """What is stored makes no request."""


class ConnectionProblem(Exception):
    """A connection cannot be used; the message says why and what to do."""

    def __init__(self, kind: ProblemKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, kw_only=True, repr=False)
class ConnectedChat(OpenAIChat):
    """Chat Completions behind a connection, with no key but that of the connection."""

    policy: AddressPolicy
    owner: str

    provider: ClassVar[str] = "model"

    def key_variable(self) -> str | None:
        return None

    def _target_at(self, url: str) -> Target:
        return replace(super()._target_at(url), policy=self.policy, owner=self.owner)


@dataclass(frozen=True, kw_only=True, repr=False)
class ConnectedResponses(OpenAIResponses):
    """Responses behind a connection, with no key but that of the connection."""

    policy: AddressPolicy
    owner: str

    provider: ClassVar[str] = "model"

    def key_variable(self) -> str | None:
        return None

    def body(self, request: ModelRequest) -> dict[str, Any]:
        text = {"type": "input_text", "text": request.prompt}
        message = {"type": "message", "role": "user", "content": [text]}
        return {**super().body(request), "input": [message]}

    def _target_at(self, url: str) -> Target:
        return replace(super()._target_at(url), policy=self.policy, owner=self.owner)


ConnectedJudge = ConnectedChat | ConnectedResponses


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """A model behind a connection."""

    id: str
    name: str
    judge: ConnectedJudge
    """Its requests go only where the address policy lets them, whatever policy its callers are under."""
    has_prices: bool
    """Whether the cost of its calls in US dollars is known."""
    max_output_tokens: int | None
    """The most tokens that a reply may have, None where nobody has set a limit."""


async def load_model(
    database: Database,
    vault: SecretVault,
    settings: ServerSettings,
    connection_id: str,
) -> ModelAccess:
    """Return the model behind a connection as it is at the moment; nothing is sent to it yet.

    Args:
        database: Where it is stored.
        vault: Decrypts its key.
        settings: Of the server.
        connection_id: The connection.

    Raises:
        ConnectionProblem: It has been removed, has no key at the moment, or leads where no request may go.
    """

    def read(connection: Connection) -> tuple[Row[Any] | None, AddressPolicy]:
        return select_connection(connection, connection_id), outgoing_policy(connection, settings)

    row, policy = await database.read(read, Lane.WORK)
    if row is None:
        raise ConnectionProblem(ProblemKind.GONE, "The LLM connection has been removed.")
    await vault.learn_keys_of(database, [row.api_key])
    return open_model(row, vault, policy, timeout=settings.judging.request_seconds)


def open_model(
    row: Row[Any] | ConnectionDraft,
    vault: SecretVault,
    policy: AddressPolicy,
    *,
    timeout: float = REQUEST_SECONDS,
) -> ModelAccess:
    """Return the model behind a connection; nothing is sent to it yet.

    Args:
        row: The connection.
        vault: Decrypts its key; it must have learnt that of another server (`learn_keys_of`).
        policy: Where requests may go, which each request is held to.
        timeout: Seconds that a request may take.

    Raises:
        ConnectionProblem: It has no key at the moment, or leads where no request may go.
    """
    key = _read_key(row, vault)
    fault = policy.find_fault(row.base_url)
    if fault is not None:
        raise _problem(ProblemKind.ADDRESS_REFUSED, row, f"its base URL {fault}")
    prices = prices_of(row)
    made: type[ConnectedJudge] = (
        ConnectedResponses if row.protocol == ModelProtocol.RESPONSES else ConnectedChat
    )
    try:
        judge = made(
            row.model,
            base_url=row.base_url,
            api_key=Secret(key),
            temperature=row.temperature,
            max_tokens=row.max_output_tokens,
            timeout=timeout,
            max_reply_mb=REPLY_MEGABYTES,
            prices=prices,
            requests_per_minute=row.requests_per_minute,
            max_concurrency=row.max_concurrency,
            policy=policy,
            # Changed limits hold at once, and those of one connection slow down no other.
            owner=f"{row.id} {row.updated_at}",
        )
    except ConfigurationError as error:
        raise _problem(ProblemKind.UNUSABLE, row, str(error)) from None
    return ModelAccess(row.id, row.name, judge, _has_price(prices, row.model), row.max_output_tokens)


def find_credential_problem(row: Row[Any], vault: SecretVault) -> str | None:
    """Say why a connection has no key at the moment, None where it has one; nothing is decrypted."""
    if row.credential_ref is None:
        return vault.find_problem(row.api_key)
    try:
        read_reference(row.credential_ref, row.base_url)
    except ReferenceProblem as problem:
        return str(problem)
    return None


def _read_key(row: Row[Any] | ConnectionDraft, vault: SecretVault) -> str:
    try:
        if row.credential_ref is not None:
            return read_reference(row.credential_ref, row.base_url)
        return vault.unseal(row.api_key or "", row.id)
    except SecretLost as problem:
        raise _problem(ProblemKind.KEY_LOST, row, str(problem)) from None
    except ReferenceProblem as problem:
        raise _problem(ProblemKind.REFERENCE_UNUSABLE, row, str(problem)) from None


def _problem(kind: ProblemKind, row: Row[Any] | ConnectionDraft, reason: str) -> ConnectionProblem:
    ending = "" if reason.endswith(".") else "."
    return ConnectionProblem(kind, f"LLM connection '{row.name}': {reason}{ending}")


def prices_of(row: Row[Any] | ConnectionDraft) -> PriceTable | None:
    """Return what the model of a connection costs, as that says, or else the list of the library."""
    if row.input_price is None or row.output_price is None:
        return _library_prices()
    rates: Mapping[str, Rate] = {row.model: Rate(row.input_price, row.output_price)}
    return Prices(rates)


@cache
def _library_prices() -> PriceTable | None:
    """The prices of the library, where they are installed."""
    try:
        return from_genai_prices()
    except MissingExtraError:
        return None


def _has_price(prices: PriceTable | None, model: str) -> bool:
    return prices is not None and cost_of(prices, CallMetrics(1, 1, model=model)) is not None
