"""A request to a model in a common form for all provider protocols."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from dokimos.judges._capabilities import Mode
from dokimos.judges._protocol import JsonSchemaDict


class ModelRequest(NamedTuple):
    """A prompt, and how the model is to answer it."""

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


def omit_none(**settings: object) -> dict[str, Any]:
    """Return the settings that are not None."""
    return {name: value for name, value in settings.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """The address of a provider's own API, and the environment variables for it."""

    url: str
    domain: str
    url_variable: str
    key_variable: str

    def root(self) -> str:
        """Return the root URL of the API: from the environment variable, else the provider's own."""
        return os.environ.get(self.url_variable) or self.url

    def owns(self, url: str) -> bool:
        """Say whether a URL is at the provider's domain, or below it."""
        return is_within(url, self.domain)

    def key_for(self, url: str) -> str | None:
        """Return the environment variable with the key for a URL, None if the URL must not get a key.

        Only the provider itself, and the endpoint that the environment names instead, get a key from there.
        """
        if self.owns(url):
            return self.key_variable
        if self.url_variable not in os.environ:  # asked at each call, and quicker than `get`
            return None
        trusted = os.environ.get(self.url_variable, "").rstrip("/") == url
        return self.key_variable if trusted and os.environ.get(self.key_variable) else None


@lru_cache(1024)
def is_within(url: str, domain: str) -> bool:
    """Say whether a URL is at a domain, or below it."""
    return f".{host_of(url)}".endswith(f".{domain}")


@lru_cache(1024)
def host_of(url: str) -> str:
    """Return the host of a URL, "" if the URL cannot be called."""
    try:
        parts = urlsplit(url)
        return parts.hostname or "" if parts.port != 0 else ""
    except ValueError:
        return ""
