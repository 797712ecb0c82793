"""Optional packages: imported where they are needed, and asked for in one way where they are missing."""

from __future__ import annotations

import importlib
from types import ModuleType

from dokimos.errors import MissingExtraError


def require(module: str, extra: str) -> ModuleType:
    """Import `module`, which the optional dependencies named `extra` bring.

    Raises:
        MissingExtraError: when it is not installed, saying how to install it; or when its import fails.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or module).partition(".")[0]
        raise MissingExtraError(f"{missing} is not installed. {_how_to_install(extra)}") from error
    except ImportError as error:
        raise MissingExtraError(
            f"{module} is installed but cannot be imported ({error}). {_how_to_install(extra)}"
        ) from error


def _how_to_install(extra: str) -> str:
    return f'Install it with: pip install "dokimos[{extra}]"'
