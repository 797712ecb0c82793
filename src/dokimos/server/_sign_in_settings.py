"""The settings of sign-in: an identity provider, headers of a proxy, and which role somebody has."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from dokimos._http.address import find_url_fault
from dokimos._http.address_policy import ALLOWED_HOSTS, AddressPolicy
from dokimos.errors import ConfigurationError
from dokimos.server._environment import Variables

ROLES: Final = ("NONE", "VIEWER", "EDITOR", "ADMIN")
"""The global roles that somebody who signs in can have, the lowest first."""
ALL_TENANTS: Final = "*"
"""What stands for no tenant where people have one: such people see all tenants."""
_WIDEST_PREFIX: Final = 7
"""Of the private networks, fc00::/7 is the widest."""
OWN_PATHS: Final = frozenset(
    (
        "actuator", "api", "api-keys", "assets", "audit-log", "datasets", "experiments", "llm-connections",
        "login", "mcp", "metrics", "openapi.json", "projects", "review-queue", "runs", "sessions", "settings",
        "trace-alerts", "trace-eval-rules", "traces", "v1", "v3", "validity",
    )
)  # fmt: skip
"""The first part of each path that the server and its web interface have."""
_PATH_PART: Final = re.compile(r"[\w.~-]+", re.ASCII)
_OIDC: Final = "DOKIMOS_OIDC"
_HEADER: Final = "DOKIMOS_TRUSTED_HEADER"
_OIDC_PARTS: Final = (
    "CLIENT_ID", "CLIENT_SECRET", "SCOPES", "ROLE_CLAIM", "ROLE_MAP", "DEFAULT_ROLE", "TENANT_CLAIM",
    "ALLOWED_DOMAINS",
)  # fmt: skip
_HEADER_PARTS: Final = ("EMAIL", "NAME", "GROUPS", "TENANT", "ROLE_MAP", "DEFAULT_ROLE", "ALLOWED_DOMAINS")


@dataclass(frozen=True, kw_only=True)
class RoleRules:
    """Who may sign in, and with which role.

    Example:
        >>> rules = RoleRules(role_map={"platform": "ADMIN", "ml": "EDITOR"})
        >>> rules.find_role(["ml", "platform"]), rules.find_role(["sales"])
        ('ADMIN', None)
    """

    role_map: Mapping[str, str] = field(default_factory=dict)
    """The role of the members of each group."""
    default_role: str | None = None
    """The role of whoever is in none of these groups; None refuses them."""
    allowed_domains: tuple[str, ...] = ()
    """Domains in one of which somebody must have a verified email address; any where it is empty."""

    @property
    def makes_administrators(self) -> bool:
        """Whether somebody can sign in as an `ADMIN`."""
        return "ADMIN" in (self.default_role, *self.role_map.values())

    def find_role(self, groups: Iterable[str]) -> str | None:
        """Return the highest role of some groups, None where somebody may not sign in."""
        roles = [self.role_map[group] for group in groups if group in self.role_map]
        return max(roles, key=ROLES.index, default=self.default_role)

    def allows_address(self, email: str | None) -> bool:
        """Whether somebody with this verified address may sign in."""
        if not self.allowed_domains:
            return True
        _, sign, domain = (email or "").rpartition("@")
        return bool(sign) and domain.lower() in self.allowed_domains


@dataclass(frozen=True, kw_only=True)
class OidcSettings:
    """The identity provider with which people sign in (OpenID Connect)."""

    issuer: str
    """Its address exactly as its tokens name it; `/.well-known/openid-configuration` is below it."""
    client_id: str
    """What this server is called there."""
    client_secret: str | None = field(default=None, repr=False)
    """The secret of this server there; None for a public client."""
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    """What is asked for."""
    role_claim: str = "groups"
    """The claim that names somebody's groups; dots lead into objects, as in `realm_access.roles`."""
    tenant_claim: str | None = None
    """The claim that names somebody's tenant; None where nobody has one."""
    rules: RoleRules
    """Who may sign in, and with which role."""
    policy: AddressPolicy = field(default_factory=AddressPolicy)
    """The private addresses that the server may call."""


@dataclass(frozen=True, kw_only=True)
class TrustedHeader:
    """The headers in which a proxy before the server says who calls, once it has checked that."""

    user: str
    """The header with the name of the account."""
    email: str | None = None
    """The header with the email address."""
    name: str | None = None
    """The header with the name that is displayed."""
    groups: str | None = None
    """The header with the groups, separated by commas."""
    tenant: str | None = None
    """The header with the tenant."""
    rules: RoleRules
    """Who may come in, and with which role."""


def read_oidc(variables: Variables) -> OidcSettings | None:
    """Read the identity provider, None where none is named.

    Raises:
        ConfigurationError: A variable is missing or cannot be used.
    """
    issuer = variables.text(f"{_OIDC}_ISSUER")
    if issuer is None:
        _refuse_parts(variables, _OIDC, _OIDC_PARTS, f"{_OIDC}_ISSUER")
        return None
    client_id = variables.text(f"{_OIDC}_CLIENT_ID")
    if client_id is None:
        raise _wrong(f"{_OIDC}_CLIENT_ID", "is missing: it is what this server is called at the provider")
    policy = AddressPolicy.parse(variables.text(ALLOWED_HOSTS) or "")
    _check_issuer(issuer, policy)
    scopes = (variables.text(f"{_OIDC}_SCOPES") or "openid profile email").replace(",", " ").split()
    return OidcSettings(
        issuer=issuer,
        client_id=client_id,
        client_secret=variables.text(f"{_OIDC}_CLIENT_SECRET"),
        scopes=tuple(dict.fromkeys(["openid", *scopes])),
        role_claim=variables.text(f"{_OIDC}_ROLE_CLAIM") or "groups",
        tenant_claim=variables.text(f"{_OIDC}_TENANT_CLAIM"),
        rules=_read_rules(variables, _OIDC),
        policy=policy,
    )


def read_trusted_header(variables: Variables) -> TrustedHeader | None:
    """Read the headers of a proxy, None where none is named.

    Raises:
        ConfigurationError: A variable is missing or cannot be used.
    """
    user = _read_header(variables, "USER")
    if user is None:
        _refuse_parts(variables, _HEADER, _HEADER_PARTS, f"{_HEADER}_USER")
        return None
    return TrustedHeader(
        user=user,
        email=_read_header(variables, "EMAIL"),
        name=_read_header(variables, "NAME"),
        groups=_read_header(variables, "GROUPS"),
        tenant=_read_header(variables, "TENANT"),
        rules=_read_rules(variables, _HEADER),
    )


def refuse_any_proxy(proxies: Iterable[str]) -> None:
    """Raise `ConfigurationError` where everybody counts as the proxy that says who calls."""
    if any(map(_is_too_wide, proxies)):
        raise _wrong(
            "DOKIMOS_TRUSTED_PROXIES",
            f"allows every address, or far too many, and {_HEADER}_USER would let each of them be anybody: "
            "name the proxy",
        )


def _is_too_wide(proxy: str) -> bool:
    """Whether an entry allows strangers, however its network is written: no private one is as wide."""
    try:
        return ipaddress.ip_network(proxy, strict=False).prefixlen < _WIDEST_PREFIX
    except ValueError:
        return proxy == "*"


def read_public_url(variables: Variables) -> str | None:
    """Read the address at which browsers reach the server, without a slash at its end.

    Raises:
        ConfigurationError: It is not the address of a server.
    """
    url = variables.text("DOKIMOS_PUBLIC_URL")
    if url is None:
        return None
    fault = find_url_fault(url, is_root=True) or _find_path_fault(urlsplit(url).path.rstrip("/"))
    if fault is not None:
        raise _wrong(
            "DOKIMOS_PUBLIC_URL",
            f"{fault}; write for example https://dokimos.example.com or https://tools.example.com/dokimos",
        )
    return url.rstrip("/")


def _find_path_fault(path: str) -> str | None:
    """Find what keeps a server from being below a path, None where nothing does."""
    if not path:
        return None
    first, *others = path.split("/")[1:]
    if first in OWN_PATHS:
        # Whether a proxy has removed the root path from a request could not be said.
        return f"has the path /{first}, which the server itself answers"
    if not all(_PATH_PART.fullmatch(part) and part.strip(".") for part in (first, *others)):
        return "has a path that is not made of plain names: letters, digits, '-', '_', '.' and '~'"
    return None


def _read_header(variables: Variables, part: str) -> str | None:
    name = variables.text(f"{_HEADER}_{part}")
    if name is not None and not name.replace("-", "").replace("_", "").isalnum():
        raise _wrong(f"{_HEADER}_{part}", f"must be the name of a header, not {name!r}")
    return None if name is None else name.lower()


def _read_rules(variables: Variables, prefix: str) -> RoleRules:
    default = variables.text(f"{prefix}_DEFAULT_ROLE")
    if default is not None:
        default = _parse_role(default, f"{prefix}_DEFAULT_ROLE")
    role_map = _parse_role_map(variables.text(f"{prefix}_ROLE_MAP") or "", f"{prefix}_ROLE_MAP")
    if default is None and not role_map:
        raise _wrong(
            f"{prefix}_ROLE_MAP",
            f"is missing, and so nobody could sign in: say which group has which role, or set "
            f"{prefix}_DEFAULT_ROLE for whoever signs in",
        )
    domains = tuple(name.lower().lstrip("@") for name in variables.names(f"{prefix}_ALLOWED_DOMAINS"))
    return RoleRules(role_map=role_map, default_role=default, allowed_domains=domains)


def _parse_role_map(text: str, variable: str) -> dict[str, str]:
    """Read `group=ADMIN,other=EDITOR`, or for names with commas the same as a JSON object."""
    if text.startswith("{"):
        try:
            pairs = [(str(group), str(role)) for group, role in json.loads(text).items()]
        except ValueError:
            raise _wrong(variable, "is not JSON") from None
    else:
        entries = [entry.strip() for entry in text.split(",") if entry.strip()]
        # The last sign of equality: names of a directory contain more of them.
        pairs = [(entry.rpartition("=")[0].strip(), entry.rpartition("=")[2].strip()) for entry in entries]
    if not all(group for group, _ in pairs):
        raise _wrong(variable, "must look like group=ADMIN,other group=EDITOR")
    return {group: _parse_role(role, variable) for group, role in pairs}


def _parse_role(text: str, variable: str) -> str:
    role = text.upper()
    if role not in ROLES:
        raise _wrong(variable, f"names the role {text!r}, and roles are {', '.join(ROLES)}")
    return role


def _check_issuer(issuer: str, policy: AddressPolicy) -> None:
    variable = f"{_OIDC}_ISSUER"
    fault = find_url_fault(issuer, is_root=True)
    if fault is not None:
        raise _wrong(variable, fault)
    if not is_safe_endpoint(issuer, policy):
        raise _wrong(
            variable,
            f"must begin with https://; without TLS only hosts are called that {ALLOWED_HOSTS} names",
        )


def is_safe_endpoint(url: str, policy: AddressPolicy) -> bool:
    """Whether a secret may be sent to a URL: with TLS, or inside the own network to hosts that are named."""
    parts = urlsplit(url)
    if parts.scheme.lower() == "https":
        return True
    host, port = parts.hostname or "", parts.port or 80
    try:
        addresses = [ipaddress.ip_address(host)]
    except ValueError:
        addresses = []
    is_named = any(entry.matches(host, port, addresses) for entry in policy.allowed)
    return parts.scheme.lower() == "http" and (policy.allows_all or is_named)


def _refuse_parts(variables: Variables, prefix: str, parts: Iterable[str], needed: str) -> None:
    for part in parts:
        if variables.text(f"{prefix}_{part}") is not None:
            raise _wrong(f"{prefix}_{part}", f"is set, but {needed} is not, without which it means nothing")


def _wrong(variable: str, problem: str) -> ConfigurationError:
    return ConfigurationError(f"{variable} {problem}.", setting=variable)
