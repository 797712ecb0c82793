"""What an operator should know about how the server was started."""

from __future__ import annotations

from collections.abc import Iterator

from dokimos.server._settings import ServerSettings


def warn_of_ignored_variables(settings: ServerSettings) -> Iterator[str]:
    """Yield a sentence for each variable that is set and has no effect."""
    for name in settings.ignored_variables:
        yield f"{name} is set, but means nothing to this server."


def warn_of_access(settings: ServerSettings, *, is_keyed: bool) -> Iterator[str]:
    """Yield a sentence where others than the owners of keys can do something.

    Args:
        is_keyed: Whether there is any key, so that writing needs one.
    """
    if settings.is_loopback:
        return
    if not is_keyed:
        yield (
            f"Anyone who reaches port {settings.port} can read, write and create keys: set DOKIMOS_API_KEY, "
            "or bind to 127.0.0.1."
        )
    elif not settings.require_auth_for_reads:
        yield "Reading needs no key; DOKIMOS_REQUIRE_AUTH_FOR_READS=true closes it."
        if settings.public_traces:
            yield (
                "DOKIMOS_PUBLIC_TRACES=true: anyone who reaches the server reads what users wrote to your "
                "applications, and what these answered."
            )
