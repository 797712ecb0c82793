"""Whether calls may leave this machine: `DOKIMOS_OFFLINE` forbids it, for tests and CI."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from dokimos._http.credentials import redact_url
from dokimos.errors import DokimosError, JudgeUnavailableError

OFFLINE: Final = "DOKIMOS_OFFLINE"


def refuse_when_offline(url: str, label: str, error: type[DokimosError] = JudgeUnavailableError) -> None:
    """Raise an error where `DOKIMOS_OFFLINE` is set and a URL is not on this machine.

    Args:
        url: What is to be called.
        label: What the message calls it.
        error: The error to raise.
    """
    if is_offline_for(url):
        raise error(
            f"{label}: {redact_url(url)} was not called because {OFFLINE} is set; "
            "unset it, or replay a cassette."
        )


def is_offline_for(url: str) -> bool:
    """Say whether `DOKIMOS_OFFLINE` keeps a URL from being called."""
    return not is_local(url) and is_offline(os.environ)


def is_offline(environment: Mapping[str, str]) -> bool:
    """Say whether `DOKIMOS_OFFLINE` is set: to anything but `0`, `false`, `no` or `off`."""
    return environment.get(OFFLINE, "").strip().lower() not in ("", "0", "false", "no", "off")


@lru_cache(1024)
def is_local(url: str) -> bool:
    """Say whether a URL stays on this machine."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
