"""Where a base URL leads, however it is spelled: a key that is stored for one place goes to no other."""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import urlsplit

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """Scheme, host and port of a URL."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        is_default = self.port == _DEFAULT_PORTS.get(self.scheme)
        return f"{self.scheme}://{host}" + ("" if is_default else f":{self.port}")


def origin_of(url: str) -> Origin:
    """Return where a URL leads.

    Two URLs of one origin lead to the same place. The reverse does not hold: names that are not ASCII are
    compared as they are written, since programs differ in how they translate them (`straße` is two hosts).

    Example:
        >>> origin_of("https://API.example.com:443/v1") == origin_of("https://api.example.com./v2")
        True
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # stored before it was checked
        return Origin("", url, 0)
    scheme = parts.scheme.lower()
    host = _host_of(parts.netloc)
    if host.isascii():
        host = host.lower().removesuffix(".")
    return Origin(scheme, host, port or _DEFAULT_PORTS.get(scheme, 0))


def _host_of(netloc: str) -> str:
    """The host as it is written; `hostname` of the standard library translates its letters."""
    place = netloc.rpartition("@")[2]
    if place.startswith("["):
        return place.partition("]")[0].removeprefix("[")
    return place.partition(":")[0]
