"""How a dokimos server is reached: its address and key, from the environment or given."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from dokimos._http import api_client
from dokimos._http.address import find_url_fault
from dokimos._http.api_client import ApiClient
from dokimos._http.credentials import Secret, redact_url
from dokimos._runtime.redaction import register_secret
from dokimos.errors import ConfigurationError

SERVER_URL: Final = "DOKIMOS_SERVER_URL"
API_KEY: Final = "DOKIMOS_API_KEY"
API_VERSION: Final = "DOKIMOS_API_VERSION"
DEFAULT_VERSION: Final = "v1"
_HINTS: Final = {
    401: f"set {API_KEY} to a key of this server",
    403: f"set {API_KEY} to a key that may do this",
}


def open_server_api(
    url: str | None = None,
    *,
    api_key: str | Secret | None = None,
    api_version: str | None = None,
    attempts: int = api_client.ATTEMPTS,
    max_reply_bytes: int | None = None,
) -> ApiClient:
    """Return a client for the API of a dokimos server, to be closed by the caller.

    Its paths start after `/api/v1`.

    Args:
        url: The server, unless given that of DOKIMOS_SERVER_URL.
        api_key: Its key, unless given that of DOKIMOS_API_KEY; a server may need none.
        api_version: The version of the API, unless given that of DOKIMOS_API_VERSION, else v1.
        attempts: How often a request is sent at most.
        max_reply_bytes: The most bytes of an answer.

    Raises:
        ConfigurationError: where there is no URL, or it is not one.
    """
    named = (url or os.environ.get(SERVER_URL, "")).strip()
    if not named:
        raise ConfigurationError(f"No server is named: give its URL, or set {SERVER_URL}.")
    # Before a path is appended, so that an error shows what was named.
    if fault := find_url_fault(named, is_root=True):
        raise ConfigurationError(f"The URL of the server {fault}; it is {redact_url(named)!r}.")
    root = named.rstrip("/")
    version = api_version or os.environ.get(API_VERSION) or DEFAULT_VERSION
    client = ApiClient(
        base_url=f"{root}/api/{version}",
        headers=_authorization(api_key),
        attempts=attempts,
        first_backoff=api_client.FIRST_BACKOFF,
        hints=_HINTS,
    )
    if max_reply_bytes is not None:
        client.max_reply_bytes = max_reply_bytes
    return client


def _authorization(api_key: str | Secret | None) -> Mapping[str, Secret]:
    given = os.environ.get(API_KEY, "") if api_key is None else Secret(api_key).reveal()
    key = given.strip()  # files leave a line break at its end
    if not key:
        return {}
    register_secret(key)
    return {"Authorization": Secret(f"Bearer {key}")}
