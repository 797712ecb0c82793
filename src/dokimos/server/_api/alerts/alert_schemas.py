"""Bodies and answers of the routes of alerts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from dokimos.server._api.http.json_body import WireModel
from dokimos.server._services.alerts.alert_payload import Fact

Format = Literal["dokimos", "slack", "generic"]
Status = Literal["PENDING", "DELIVERED", "DEAD"]


class WebhookBody(WireModel):
    """A webhook to register, or as it should be. Only `url` is required."""

    url: Annotated[str, Field(min_length=1, max_length=2048, examples=["https://hooks.example.com/dokimos"])]
    secret: Annotated[str | None, Field(max_length=1024)] = None
    """What to sign with; where there is one already, null or blank keeps it. It is never shown."""
    enabled: bool | None = None
    """Null means true."""
    format: Format | None = None
    """What the body looks like: null means `dokimos`, and for a webhook that exists the one it has."""
    fields: Annotated[dict[str, Fact] | None, Field(max_length=30)] = None
    """For the format `generic`: by each key of the body the fact that it holds."""


class WebhookAnswer(WireModel):
    """A webhook."""

    id: str
    project_id: str
    url: str
    """For callers without a key, where keys exist, no more than its host."""
    tenant_id: str | None
    """Whose it is; null for everybody's."""
    has_secret: bool
    enabled: bool
    created_at: str
    format: Format
    fields: dict[str, str] | None
    disabled_reason: str | None
    """Why the server disabled it, null where it did not."""
    problem: str | None
    """What keeps everything from being sent to it, such as a secret that cannot be decrypted."""
    failing_since: str | None
    """When the first attempt failed since the last that succeeded."""
    version: str | None
    """What `If-Match` takes: it is another one after each change. Null for callers without a key."""


class DeliveryAnswer(WireModel):
    """Something that was sent to a webhook, or is to be."""

    id: str
    """Sent as `webhook-id`, and the same for each attempt."""
    webhook_id: str
    run_id: str | None
    """Null for a test call, and for an alert on traces."""
    firing_id: str | None
    """Of an alert on traces: the firing that it tells of."""
    status: Status
    attempts: int
    last_status_code: int | None
    last_error: str | None
    next_attempt_at: str | None
    """Null where there is none."""
    created_at: str
    finished_at: str | None
