"""Which addresses requests may go to: public ones, and private ones that are allowed by name.

Whoever sends requests to URLs that others enter (webhooks, connections to models) would otherwise let them
reach what only this machine can reach: the metadata service of a cloud, a database, a router. A policy looks
at the addresses that a host resolves to, and the connection goes to those very addresses: a name that
resolves differently a moment later (DNS rebinding) gains nothing. The library's own calls have no policy
unless `use_address_policy` says so.
"""

from __future__ import annotations

import ipaddress
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Self
from urllib.parse import urlsplit

from dokimos._http.address import find_url_fault
from dokimos.errors import ConfigurationError

ALLOWED_HOSTS: Final = "DOKIMOS_ALLOWED_PRIVATE_HOSTS"

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

# From IANA's registries of special-purpose addresses. Python's `is_global` differs between its versions, and
# calls some addresses global that lead to private ones (NAT64, 6to4).
_RESERVED: Final = tuple(
    (ipaddress.ip_network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "a local address"),
        ("10.0.0.0/8", "a private address"),
        ("100.64.0.0/10", "a private address of a carrier"),
        ("127.0.0.0/8", "a loopback address"),
        ("168.63.129.16/32", "a metadata address of a cloud"),
        ("169.254.0.0/16", "a link-local address, as metadata services have"),
        ("172.16.0.0/12", "a private address"),
        ("192.0.0.0/24", "a reserved address"),
        ("192.0.2.0/24", "a reserved address"),
        ("192.88.99.0/24", "a relay of a tunnel"),
        ("192.168.0.0/16", "a private address"),
        ("198.18.0.0/15", "a reserved address"),
        ("198.51.100.0/24", "a reserved address"),
        ("203.0.113.0/24", "a reserved address"),
        ("224.0.0.0/4", "a multicast address"),
        ("240.0.0.0/4", "a reserved address"),
        ("::1/128", "a loopback address"),
        ("fc00::/7", "a private address"),
        ("fe80::/10", "a link-local address"),
        ("fec0::/10", "a private address"),
        ("ff00::/8", "a multicast address"),
        ("2001::/32", "an address of a tunnel"),
        ("2001::/23", "a reserved address"),
        ("2001:db8::/32", "a reserved address"),
        ("2002::/16", "an address of a tunnel"),
        ("3fff::/20", "a reserved address"),
    )
)
_GLOBAL_UNICAST: Final = ipaddress.ip_network("2000::/3")
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_IPV4_BITS: Final = 32
_LAST_IPV4: Final = 2**_IPV4_BITS - 1
_IPV4_PARTS: Final = 4
_NUMBER: Final = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")
_HOST: Final = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")
_FULL_STOPS: Final = str.maketrans({"。": ".", "．": ".", "｡": "."})
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class AllowedHost:
    """An entry of the list of allowed private hosts: a name or a range of addresses, and a port or None."""

    host: str | IPNetwork
    port: int | None = None

    def __str__(self) -> str:
        host = str(self.host)
        if self.port is None:
            return host
        return f"[{host.partition('/')[0]}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def matches(self, host: str, port: int, addresses: Iterable[IPAddress] = ()) -> bool:
        """Say whether a host is allowed by its name, or at one of the forms of its address."""
        if self.port is not None and self.port != port:
            return False
        network = self.host
        if isinstance(network, str):
            return network == host
        return any(address.version == network.version and address in network for address in addresses)


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """Lets requests go to public addresses, and to private ones that are allowed.

    Example:
        >>> policy = AddressPolicy.parse("ollama:11434, 10.1.0.0/16")
        >>> policy.find_fault("http://10.1.2.3/hook") is None
        True
        >>> policy.find_fault("http://127.0.0.1:8080/")
        'names 127.0.0.1, a loopback address; DOKIMOS_ALLOWED_PRIVATE_HOSTS=127.0.0.1:8080 allows it'
    """

    allowed: tuple[AllowedHost, ...] = ()
    allows_all: bool = False

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a list: hosts, `host:port`, addresses and ranges such as `10.0.0.0/8`, with commas; or `*`.

        Raises:
            ConfigurationError: for an entry that is none of these.
        """
        entries = [entry for part in text.split(",") if (entry := part.strip())]
        allowed = tuple(_parse_entry(entry) for entry in entries if entry != "*")
        return cls(allowed, allows_all="*" in entries)

    def __str__(self) -> str:
        """The list that `parse` reads."""
        return "*" if self.allows_all else ",".join(map(str, self.allowed))

    @classmethod
    def from_environment(cls) -> Self:
        """Return the policy with the hosts that `DOKIMOS_ALLOWED_PRIVATE_HOSTS` allows."""
        return cls.parse(os.environ.get(ALLOWED_HOSTS, ""))

    def find_fault(self, url: str) -> str | None:
        """Say what keeps requests from a URL as it is written, None where nothing does.

        It asks no name server: what a name resolves to is checked whenever a request is sent.
        """
        fault = find_url_fault(url)
        if fault is not None:
            return fault
        if "\\" in url:
            return "has a backslash in it, which some programs read as a slash"
        parts = urlsplit(url)
        return self.find_host_fault(parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme.lower()])

    def find_host_fault(self, host: str, port: int) -> str | None:
        """Say what is wrong with a host that is an address, in whatever spelling; None for other names."""
        name = normalize_host(host)
        if self.allows_all or any(entry.matches(name, port) for entry in self.allowed):
            return None
        if name == "localhost" or name.endswith(".localhost"):
            return f"names {name}, a loopback address; {_advice(name, port)}"
        address = _parse_address(name)
        if address is not None:
            kind = self._kind_of(address, port)
            return None if kind is None else f"names {name}, {kind}; {_advice(name, port)}"
        spelled = parse_odd_ipv4(name)
        if spelled is not None:
            return f"names {host!r:.60}, which spells an address in an unusual way; write {spelled}"
        # What looks like an address to the HTTP library is not resolved, and so not looked at again.
        looks_like_one = ":" in name or name.replace(".", "").isdigit()
        return f"names {host!r:.60}, which is not an address" if looks_like_one else None

    def find_resolved_fault(self, host: str, port: int, addresses: Iterable[str]) -> str | None:
        """Say what is wrong with the addresses of a host, None where all of them are allowed."""
        name = normalize_host(host)
        if self.allows_all or any(entry.matches(name, port) for entry in self.allowed):
            return None
        for text in addresses:
            address = _parse_address(text)
            kind = "at an unreadable address" if address is None else self._kind_of(address, port)
            if kind is not None:
                # Not the address itself: it would tell strangers about the network in which this runs.
                return f"names {name!r:.100}, which has {kind}; {_advice(name, port)}"
        return None

    def _kind_of(self, address: IPAddress, port: int) -> str | None:
        """Name the kind of an address that is not allowed, None for one that is."""
        forms = tuple(_forms_of(address))
        if any(entry.matches("", port, forms) for entry in self.allowed):
            return None
        return next((kind for form in forms if (kind := _find_reserved_kind(form)) is not None), None)


_current: ContextVar[AddressPolicy | None] = ContextVar("dokimos_address_policy", default=None)


def current_address_policy() -> AddressPolicy | None:
    """Return the policy of the context that is calling, None where requests may go anywhere."""
    return _current.get()


@contextmanager
def use_address_policy(policy: AddressPolicy | None) -> Iterator[None]:
    """Hold all requests of this context, and of tasks and threads that it starts, to a policy."""
    token = _current.set(policy)
    try:
        yield
    finally:
        _current.reset(token)


def normalize_host(host: str) -> str:
    """Return a host as names are compared: in lower case, in ASCII, without the dot of the root."""
    name = unicodedata.normalize("NFKC", host).translate(_FULL_STOPS).lower().removesuffix(".")
    if name.isascii():
        return name.strip("[]")
    try:
        return name.encode("idna").decode("ascii")
    except UnicodeError:
        return name


def parse_odd_ipv4(host: str) -> ipaddress.IPv4Address | None:
    """Read an address as C's `inet_aton` does: `2130706433`, `0x7f.1`, `0177.0.0.1`, `127.1`."""
    parts = host.split(".")
    if len(parts) > _IPV4_PARTS or not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    *first, last = map(_parse_number, parts)
    if any(number > 255 for number in first) or last >= 256 ** (_IPV4_PARTS - len(first)):
        return None
    value = last
    for place, number in enumerate(first):
        value |= number << (8 * (_IPV4_PARTS - 1 - place))
    return ipaddress.IPv4Address(value)


def _parse_number(text: str) -> int:
    if text[:2].lower() == "0x":
        return int(text[2:] or "0", 16)
    is_octal = len(text) > 1 and text[0] == "0" and not set(text) & {"8", "9"}
    return int(text, 8 if is_octal else 10)


def _parse_address(host: str) -> IPAddress | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _forms_of(address: IPAddress) -> Iterator[IPAddress]:
    """Return an address, and the IPv4 address that it stands for where it is one in the form of IPv6."""
    if isinstance(address, ipaddress.IPv4Address):
        yield address
        return
    number = int(address)
    if number >> _IPV4_BITS == 0 and number > 1:  # "compatible" (RFC 4291), out of use
        yield address
    elif address.ipv4_mapped is None and address not in _NAT64:
        yield address
        return
    yield ipaddress.IPv4Address(number & _LAST_IPV4)


def _find_reserved_kind(address: IPAddress) -> str | None:
    for network, kind in _RESERVED:
        if address.version == network.version and address in network:
            return kind
    if address.version == 6 and address not in _GLOBAL_UNICAST:
        return "a reserved address"
    return None


def _parse_entry(entry: str) -> AllowedHost:
    host, port = _split_port(entry)
    try:
        return AllowedHost(ipaddress.ip_network(host, strict=False), port)
    except ValueError:
        name = normalize_host(host)
    if "/" in entry or not _HOST.fullmatch(name) or parse_odd_ipv4(name) is not None:
        raise _bad_entry(entry)
    return AllowedHost(name, port)


def _split_port(entry: str) -> tuple[str, int | None]:
    """Split `host:port`, `[::1]:port`, `host` or `::1`."""
    if entry.count(":") > 1 and not entry.startswith("["):
        return entry, None
    match = re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?", entry)
    if match is None:
        raise _bad_entry(entry)
    port = None if match[2] is None else int(match[2])
    if port is not None and not 0 < port < 2**16:
        raise _bad_entry(entry)
    return match[1].strip("[]"), port


def _bad_entry(entry: str) -> ConfigurationError:
    return ConfigurationError(
        f"{ALLOWED_HOSTS} names {entry!r:.80}, which is not a host, host:port, an address or a range. "
        "Write for example: ollama:11434, 10.0.0.0/8"
    )


def _advice(host: str, port: int) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"{ALLOWED_HOSTS}={shown}:{port} allows it"
