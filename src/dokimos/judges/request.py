"""What is asked of a model, whichever protocol carries it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from dokimos.judges.capabilities import Mode
from dokimos.judges.protocol import JsonSchemaDict


class ModelRequest(NamedTuple):
    """A prompt, and how it is to be answered."""

    prompt: str
    system: str | None
    schema: JsonSchemaDict | None
    mode: Mode
    settings: Mapping[str, Any]
    """The parameters that the model might refuse, as the protocol spells them."""


def chat_messages(request: ModelRequest) -> list[dict[str, str]]:
    """Return the messages of a chat, the system's first where there is one."""
    user = {"role": "user", "content": request.prompt}
    return [user] if request.system is None else [{"role": "system", "content": request.system}, user]


def given(**settings: Any) -> dict[str, Any]:
    """Return the settings that are not None."""
    return {name: value for name, value in settings.items() if value is not None}


@cache
def is_at(url: str, domain: str) -> bool:
    """Say whether a URL is a provider's own."""
    return (urlsplit(url).hostname or "").endswith(domain)


def trusted_key(url: str, *, domain: str, url_variable: str, key_variable: str) -> str | None:
    """Name the variable with the key, for the provider itself and the endpoint that stands in for it.

    No other endpoint gets a key from the environment.
    """
    if is_at(url, domain):
        return key_variable
    trusted = os.environ.get(url_variable, "").rstrip("/") == url
    return key_variable if trusted and os.environ.get(key_variable) else None
