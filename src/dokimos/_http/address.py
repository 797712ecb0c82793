"""Check URLs: find what keeps requests from being sent to them."""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

_BLANK: Final = re.compile(r"[\s\x00-\x1f\x7f]")
_LONGEST_LABEL: Final = 63
_LONGEST_HOST: Final = 253


def find_url_fault(url: str, *, is_root: bool = False) -> str | None:
    """Find what keeps requests from being sent to a URL, None where nothing does.

    Args:
        url: The URL.
        is_root: Whether paths are appended to it, so that it can have neither query nor fragment.
    """
    # Looked for in the text itself: urlsplit silently drops tabs and line breaks.
    if _BLANK.search(url):
        return "has a blank or line break in it"
    if url.lower().rstrip("/") in ("http:", "https:"):
        return "names no host"
    if not url.lower().startswith(("http://", "https://")):
        return "must start with http:// or https://"
    if is_root and ("?" in url or "#" in url):
        return "must end before any '?' or '#': paths are appended to it"
    try:
        parts = urlsplit(url)
    except ValueError:
        return "has a host that cannot be read: an IPv6 address stands in [ ]"
    return _find_port_fault(parts) or _find_host_fault(parts)


def has_login(url: str) -> bool:
    """Say whether a URL holds a user or a password."""
    return "@" in urlsplit(url).netloc


def _find_port_fault(parts: SplitResult) -> str | None:
    try:
        is_port = parts.port != 0
    except ValueError:
        is_port = False
    if is_port:
        return None
    return f"has the port {parts.netloc.rpartition(':')[2]!r:.40}, and a port is a number from 1 to 65535"


def _find_host_fault(parts: SplitResult) -> str | None:
    host = parts.hostname or ""
    if not host:
        return "names no host"
    if ":" in host:
        return None  # an IPv6 address, which urlsplit has looked at
    labels = host.removesuffix(".").split(".")
    too_long = len(host) > _LONGEST_HOST or any(len(label) > _LONGEST_LABEL for label in labels)
    # A percent sign: some programs would decode it to another host.
    if too_long or "%" in host or not all(labels) or _is_odd_number(host, labels):
        return f"names the host {host!r:.60}, which cannot be one"
    return None


def _is_odd_number(host: str, labels: list[str]) -> bool:
    """Whether it looks like an IPv4 address and is not one."""
    if not all(label.isdecimal() for label in labels):
        return False
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return True
    return False
