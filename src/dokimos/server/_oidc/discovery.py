"""What an identity provider says about itself below `/.well-known/`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dokimos._http.address import find_url_fault
from dokimos._http.address_policy import AddressPolicy
from dokimos.server._sign_in_settings import is_safe_endpoint

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512")
"""Signatures that are accepted, where the provider announces them: never `none`, and never one with a secret
that both sides share."""
_DEFAULT_ALGORITHMS: Final = ["RS256"]
_DEFAULT_METHODS: Final = ["client_secret_basic"]


class UnusableProvider(Exception):
    """What a provider says about itself cannot be used; the text says why, for the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """An identity provider."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    end_session_endpoint: str | None
    algorithms: tuple[str, ...]
    """Signatures of ID tokens that it announces, of those that are accepted."""
    takes_basic_login: bool
    """Whether it takes the secret of a client in a header; in the body otherwise."""
    names_itself: bool
    """Whether each of its answers names it (RFC 9207)."""


def well_known_url(issuer: str) -> str:
    """Return where a provider describes itself."""
    return issuer.rstrip("/") + "/.well-known/openid-configuration"


def parse_metadata(document: object, issuer: str, policy: AddressPolicy) -> Metadata:
    """Read what a provider says about itself.

    Raises:
        UnusableProvider: It is another provider than the settings name, or something in it cannot be used.
    """
    if not isinstance(document, dict):
        raise UnusableProvider("its description is not an object")
    if document.get("issuer") != issuer:
        # Exactly, as its tokens name it: otherwise one provider could speak for another.
        raise UnusableProvider(
            f"it calls itself {document.get('issuer')!r:.200}; DOKIMOS_OIDC_ISSUER must be exactly the same"
        )

    def endpoint(name: str) -> str:
        url = document.get(name)
        if not isinstance(url, str) or find_url_fault(url) is not None:
            raise UnusableProvider(f"its {name} is not a URL: {url!r:.200}")
        if not is_safe_endpoint(url, policy):
            raise UnusableProvider(f"its {name} does not begin with https://: {url!r:.200}")
        return url

    def optional_endpoint(name: str) -> str | None:
        return None if document.get(name) is None else endpoint(name)

    announced = document.get("id_token_signing_alg_values_supported", _DEFAULT_ALGORITHMS)
    algorithms = tuple(each for each in ALGORITHMS if isinstance(announced, list) and each in announced)
    if not algorithms:
        raise UnusableProvider(f"it signs with none of {', '.join(ALGORITHMS)}: {announced!r:.200}")
    methods = document.get("token_endpoint_auth_methods_supported", _DEFAULT_METHODS)
    return Metadata(
        issuer=issuer,
        authorization_endpoint=endpoint("authorization_endpoint"),
        token_endpoint=endpoint("token_endpoint"),
        jwks_uri=endpoint("jwks_uri"),
        userinfo_endpoint=optional_endpoint("userinfo_endpoint"),
        end_session_endpoint=optional_endpoint("end_session_endpoint"),
        algorithms=algorithms,
        takes_basic_login=isinstance(methods, list) and "client_secret_basic" in methods,
        names_itself=document.get("authorization_response_iss_parameter_supported") is True,
    )
