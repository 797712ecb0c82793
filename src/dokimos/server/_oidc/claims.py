"""Who somebody is and what that means here, from the claims of an identity provider."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any, Final

from dokimos.server._services.accounts.users import Identity
from dokimos.server._services.errors import ForbiddenError, InvalidRequestError
from dokimos.server._services.projects.names import check_name
from dokimos.server._sign_in_settings import ALL_TENANTS, OidcSettings

_MAX_LENGTH: Final = 255


def read_identity(claims: Mapping[str, Any], settings: OidcSettings) -> Identity:
    """Return who signs in.

    Raises:
        ForbiddenError: They may not; the message says why.
    """
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _MAX_LENGTH or "\0" in subject:
        raise ForbiddenError("The identity provider does not say who you are.")
    rules = settings.rules
    email = _clean(claims.get("email"))
    # As text from providers that know no truth values.
    is_verified = claims.get("email_verified") in (True, "true")
    if not rules.allows_address(email if is_verified else None):
        raise ForbiddenError(
            "Only people with a verified address of certain mail domains may use this server; the identity "
            "provider names none of yours."
        )
    role = rules.find_role(list_groups(find_claim(claims, settings.role_claim)))
    if role is None:
        raise ForbiddenError("None of your groups has a role on this server; ask who runs it for one.")
    return Identity(
        issuer=settings.issuer,
        subject=subject,
        name=_clean(claims.get("name")) or _clean(claims.get("preferred_username")) or email or subject,
        email=email,
        role=role,
        tenant=_read_tenant(claims, settings.tenant_claim),
    )


def lacks_claims(claims: Mapping[str, Any], settings: OidcSettings) -> bool:
    """Whether something is missing that decides who may sign in: the provider may say it elsewhere."""
    rules = settings.rules
    required = [settings.tenant_claim] if settings.tenant_claim else []
    required += [settings.role_claim] if rules.role_map else []
    required += ["email", "email_verified"] if rules.allowed_domains else []
    return any(find_claim(claims, name) is None for name in required)


def find_claim(claims: Mapping[str, Any], path: str) -> Any:
    """Return a claim by its name, or by names with dots between them that lead into objects."""
    if path in claims:  # names may be addresses, with dots in them
        return claims[path]
    found: Any = claims
    for name in path.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(name)
    return found


def list_groups(claim: Any) -> list[str]:
    """Return the groups of a claim: a text, a list of texts, or an object with groups as its names."""
    if isinstance(claim, str):
        return [claim]
    if isinstance(claim, list | Mapping):
        return [each for each in claim if isinstance(each, str)]
    return []


def _read_tenant(claims: Mapping[str, Any], path: str | None) -> str | None:
    if path is None:
        return None
    names = list_groups(find_claim(claims, path))
    # Without a tenant somebody sees all of them, so that must be said, and not be what is left.
    if len(names) != 1:
        raise ForbiddenError("The identity provider does not say which tenant you belong to.")
    if names[0] == ALL_TENANTS:
        return None
    try:
        return check_name(names[0], "tenant")
    except InvalidRequestError:
        raise ForbiddenError("The tenant that the identity provider names cannot be one.") from None


def _clean(text: object) -> str | None:
    """A text to be displayed, without control characters; None where there is none."""
    if not isinstance(text, str):
        return None
    return (
        "".join(sign for sign in text if unicodedata.category(sign)[0] != "C").strip()[:_MAX_LENGTH] or None
    )
