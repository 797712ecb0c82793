"""Optional packages: imported where they are needed, and asked for in one way where they are missing."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Final

from dokimos.errors import MissingExtraError

_PACKAGES: Final = {
    "agent_framework": "agent-framework-core",
    "agents": "openai-agents",
    "bs4": "beautifulsoup4",
    "genai_prices": "genai-prices",
    "google.adk": "google-adk",
    "google.genai": "google-genai",
    "grpc": "grpcio",
    "haystack": "haystack-ai",
    "langchain_classic": "langchain-classic",
    "langchain_core": "langchain-core",
    "llama_index": "llama-index-core",
    "opentelemetry": "opentelemetry-sdk",
    "pptx": "python-pptx",
    "pydantic_ai": "pydantic-ai-slim",
    "pydantic_evals": "pydantic-evals",
    "ruamel": "ruamel.yaml",
    "strands": "strands-agents",
}
"""What packages are installed as whose modules are called otherwise."""


def require(module: str, extra: str) -> ModuleType:
    """Import `module`, which the optional dependencies named `extra` bring.

    Raises:
        MissingExtraError: when it is not installed, saying how to install it; or when its import fails.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = _package_of(error.name or module, module)
        raise MissingExtraError(f"{missing} is not installed. {_how_to_install(extra)}") from error
    except ImportError as error:
        raise MissingExtraError(
            f"{module} is installed but cannot be imported ({error}). {_how_to_install(extra)}"
        ) from error


def _package_of(missing: str, module: str) -> str:
    """Return the package that has a missing module: that of the whole module where only its top is named."""
    names = [module, missing] if module.startswith(f"{missing}.") else [missing]
    known = (
        package for name in names for top, package in _PACKAGES.items() if f"{name}.".startswith(f"{top}.")
    )
    return next(known, missing.partition(".")[0])


def _how_to_install(extra: str) -> str:
    return f'Install it with: pip install "dokimos[{extra}]"'
