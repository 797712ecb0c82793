"""Credential references: the keys in environment variables that connections may use, and where they may go.

A connection names a variable, and its key goes to the host of the connection. Without rules, whoever may
create connections could have any variable of the server sent to a host of their own. So only names that are
meant for keys of models can be used, and each key only where its provider, the operator or an administrator
says.
"""

from __future__ import annotations

import os
import re
from typing import Final
from urllib.parse import urlsplit

from dokimos.judges._factory import is_home_of_key
from dokimos.server._services.accounts.principal import Principal, Role
from dokimos.server._services.errors import ForbiddenError, InvalidRequestError
from dokimos.server._services.models.model_origins import Origin, origin_of

HOSTS_SUFFIX: Final = "_HOSTS"
"""`OPENAI_API_KEY_HOSTS` names the hosts to which the key in `OPENAI_API_KEY` may be sent."""
_ALLOWED: Final = re.compile(r"[A-Z_][A-Z0-9_]*_API_KEY|DOKIMOS_CRED_[A-Z0-9_]+", re.IGNORECASE)
_REFUSED: Final = re.compile(
    rf"DOKIMOS_API_KEY|DOKIMOS_ENCRYPTION_KEY|DB_.*|DOKIMOS_CRED_.*{HOSTS_SUFFIX}", re.IGNORECASE
)


class ReferenceProblem(Exception):
    """A reference gives no key at the moment; the message says why and what to do."""


def check_reference(principal: Principal, name: str, base_url: str) -> None:
    """Check that a caller may have the key of a reference sent to a URL.

    Raises:
        InvalidRequestError: The variable may not be named, or its key not be sent there.
        ForbiddenError: Only an ADMIN without a tenant may have it sent there.
    """
    fault = _find_name_fault(name) or _find_host_fault(name, base_url)
    if fault is not None:
        raise InvalidRequestError(fault, field="credentialRef")
    if _hosts_of(name) is not None or _is_home(name, base_url):
        return
    if principal.is_restricted or principal.role < Role.ADMIN:
        raise ForbiddenError(
            f"{name} holds a key of the server. Only an ADMIN without a tenant may have it sent to "
            f"{origin_of(base_url)}, unless {name}{HOSTS_SUFFIX} names that host."
        )


def read_reference(name: str, base_url: str) -> str:
    """Return the key that a reference stands for, to be sent to a URL.

    Raises:
        ReferenceProblem: There is none, or it may not be sent there.
    """
    problem = find_reference_problem(name, base_url)
    if problem is not None:
        raise ReferenceProblem(problem)
    return os.environ[name].strip()


def find_reference_problem(name: str, base_url: str) -> str | None:
    """Say why a reference gives no key, None where it does."""
    fault = _find_name_fault(name) or _find_host_fault(name, base_url)
    if fault is not None:
        return f"The credential reference {fault}."
    if not os.environ.get(name, "").strip():
        return f"The environment variable {name} of the server is not set."
    return None


def _find_name_fault(name: str) -> str | None:
    if _ALLOWED.fullmatch(name) is None or _REFUSED.fullmatch(name) is not None:
        return (
            "must name an environment variable that ends with _API_KEY or begins with DOKIMOS_CRED_, and "
            "none of the server's own"
        )
    return None


def _find_host_fault(name: str, base_url: str) -> str | None:
    hosts, origin = _hosts_of(name), origin_of(base_url)
    if hosts is None or origin in hosts:
        return None
    return (
        f"names {name}, whose key may not be sent to {origin}: {name}{HOSTS_SUFFIX} does not name that host"
    )


def _hosts_of(name: str) -> frozenset[Origin] | None:
    """The places to which a key may be sent, None where nobody has named any."""
    text = os.environ.get(f"{name}{HOSTS_SUFFIX}", "")
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    if not entries:
        return None
    return frozenset(origin_of(entry if "://" in entry else f"https://{entry}") for entry in entries)


def _is_home(name: str, base_url: str) -> bool:
    """Whether a URL is the provider's whose key a variable holds, reached by TLS."""
    return urlsplit(base_url).scheme.lower() == "https" and is_home_of_key(name, base_url)
