"""Import users' code by its import string, `module:attribute`, as files name it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from dokimos._runtime.start_collector import start_collector
from dokimos._runtime.static_imports import find_in_module, may_import
from dokimos.errors import ConfigurationError


def import_object(reference: str, what: str) -> Any:
    """Return what stands at `module:attribute`, or a placeholder for it while nothing may be imported.

    Raises:
        ConfigurationError: starting with `what`, where it cannot be imported.
    """
    module, colon, attribute = reference.partition(":")
    if not (module and colon and attribute):
        raise ConfigurationError(f"{what} {reference!r} must be of the form 'module:attribute'.")
    try:
        # Files are validated without running the code that they name.
        if not may_import():
            return find_in_module(module, attribute)
        start_collector.before_user_code()
        target: Any = import_module(module)
        for name in attribute.split("."):
            target = getattr(target, name)
    except (ImportError, AttributeError, SyntaxError) as error:
        raise ConfigurationError(f"{what} {reference!r} cannot be imported: {error}.") from error
    return target
