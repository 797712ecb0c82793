"""Bodies and answers of the routes of connections to models."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dokimos.server._api.http.json_body import WireModel
from dokimos.server._api.http.text_types import Name

Protocol = Literal["RESPONSES", "CHAT_COMPLETIONS"]
_Price = Annotated[float | None, Field(ge=0, le=1_000_000)]
_Url = Annotated[str, Field(min_length=1, max_length=512, examples=["https://models.example.com/v1"])]
_Reference = Annotated[str | None, Field(max_length=255, examples=["OPENAI_API_KEY"])]


class _Settings(WireModel):
    input_price_per_million: _Price = None
    """US dollars for a million tokens that the model reads. Without prices, those of the library count."""
    output_price_per_million: _Price = None
    """The same for tokens that it writes; both, or none of them."""
    max_output_tokens: Annotated[int | None, Field(ge=1, le=10_000_000)] = None
    """The most tokens that a reply may have; null leaves it to the model."""
    requests_per_minute: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    """Requests that each server sends in a minute at most; null for as many as the endpoint takes."""
    max_concurrency: Annotated[int | None, Field(ge=1, le=1000)] = None
    """Requests that each server has under way at once at most; null for as many as the endpoint takes."""
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    """Null sends none, and leaves it to the model."""


class ConnectionBody(_Settings):
    """A connection, as it should be; prices and limits that are left out stay as they are."""

    name: Name
    base_url: _Url
    model: Name
    protocol: Protocol | None = None
    """Null means `RESPONSES`, and for a connection that exists the one it has."""
    api_key: Annotated[str | None, Field(max_length=4096)] = None
    """The key itself, which is encrypted and never shown."""
    credential_ref: _Reference = None
    """Instead of it, the environment variable of the server that holds the key."""


class ConnectionTestBody(_Settings):
    """What to try instead of what is stored; what is left out is as it is stored."""

    base_url: _Url | None = None
    model: Name | None = None
    protocol: Protocol | None = None
    api_key: Annotated[str | None, Field(max_length=4096)] = None
    credential_ref: _Reference = None


class ConnectionAnswer(WireModel):
    """A connection, without its key."""

    id: str
    name: str
    base_url: str
    model: str
    protocol: Protocol
    credential_ref: str | None
    """For callers without a key, where keys exist, `...` instead of the name."""
    has_inline_key: bool
    created_at: str
    input_price_per_million: float | None
    output_price_per_million: float | None
    max_output_tokens: int | None
    requests_per_minute: int | None
    max_concurrency: int | None
    temperature: float | None
    updated_at: str
    version: str
    """What `If-Match` takes: it is another one after each change."""
    problem: str | None
    """Why it has no key at the moment, such as one that cannot be decrypted; null where it has one."""


class ConnectionTestAnswer(WireModel):
    """What came of trying a connection with one tiny request."""

    ok: bool
    problem: str | None
    """What kind of problem there is, such as `KEY_REFUSED`; null where the model answered."""
    message: str
    """The same as a sentence."""
    status_code: int | None
    """What the endpoint answered, null where it did not."""
    protocol: Protocol | None
    """Where the problem is `WRONG_PROTOCOL`, the one that the endpoint speaks."""
    latency_ms: float | None
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None
    """What the request cost, null where that is not known."""
