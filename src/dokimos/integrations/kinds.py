"""Which of several kinds of things to run something is, told by its methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dokimos.errors import IntegrationError


def method_of(thing: Any, methods: Sequence[str]) -> str | None:
    """Return the first of these methods that it has."""
    if isinstance(thing, type):
        return None
    return next((method for method in methods if hasattr(thing, method)), None)


def made_one_of(agent_or_factory: Any, methods: Sequence[str]) -> Any:
    """Return what has one of these methods; anything else is called to make a fresh one.

    Raises:
        IntegrationError: for what has none, and makes nothing that has.
    """
    if method_of(agent_or_factory, methods) is not None:
        return agent_or_factory
    one_of = " or ".join(repr(method) for method in methods)
    if not callable(agent_or_factory):
        raise IntegrationError(
            f"Something with {one_of}, or a function without parameters that makes it, is needed, "
            f"not {agent_or_factory!r:.80}."
        )
    fresh = agent_or_factory()
    if method_of(fresh, methods) is None:
        raise IntegrationError(f"{agent_or_factory!r:.80} made {fresh!r:.80}, which has no {one_of}.")
    return fresh
