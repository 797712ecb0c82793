"""Which embedder a suite means: a model of a provider, or a Python function of its own."""

from __future__ import annotations

import hashlib
import inspect
import re
from pathlib import Path
from typing import Any, Final

from dokimos.errors import ConfigurationError
from dokimos.judges._embedding_models import EXAMPLES, KINDS, embedder
from dokimos.judges._embeddings import Embedder, FunctionEmbedder, as_embedder
from dokimos.suites._metric_schema import ModelBlock
from dokimos.suites._python_references import load_callable
from dokimos.suites._retrieval.collection import needs_vectors
from dokimos.suites._retrieval.documents import AnyRetrievalTool

USUAL_MODELS: Final = {"openai": "text-embedding-3-small", "ollama": "nomic-embed-text"}
"""The model of each provider that embeds where none is named."""
_PYTHON_FILE: Final = re.compile(r"[^:]+\.py:[\w.]+")
_PYTHON_MODULE: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def embedder_for(
    block: AnyRetrievalTool, folder: Path, *, provider: ModelBlock | str | None, model: ModelBlock | None
) -> Embedder | None:
    """Return the embedder of a tool, None where it needs none or none is named.

    Args:
        block: The tool; its `embedding_model` names a model, `provider:model` or a Python function.
        folder: Where Python files are looked for.
        provider: The suite's `embedding_provider`.
        model: The agent's model, whose provider embeds where no other is named.

    Raises:
        ConfigurationError: for a name that means nothing, or a function that cannot be imported.
    """
    if not needs_vectors(block):
        return None
    return embedder_named(
        block.embedding_model, folder, provider=provider, model=model, dimensions=block.embedding_dimensions
    )


def embedder_named(
    name: str | None,
    folder: Path,
    *,
    provider: ModelBlock | str | None = None,
    model: ModelBlock | None = None,
    dimensions: int | None = None,
) -> Embedder | None:
    """Return the embedder that a name means together with a provider, None where neither is given."""
    # `embedding_provider` may be a name, which a name in the tool or metric replaces.
    if isinstance(provider, str):
        name, provider = name or provider, None
    endpoint = provider or model
    if name is not None and _is_complete(name):
        return embedder(name, dimensions=dimensions)
    if name is not None and _is_python(name, endpoint):
        if dimensions is not None:
            raise ConfigurationError(
                f"embedding_dimensions are for models; {name} decides them itself.",
                setting="embedding_dimensions",
            )
        return _own(name, folder)
    if provider is None and model is not None and model.provider == "anthropic":
        endpoint = None  # it offers no embeddings
    if endpoint is None:
        if name is None:
            return None
        raise ConfigurationError(
            f"the embedding model {name!r} needs a provider: give embedding_provider, or name it like "
            f"{EXAMPLES}."
        )
    own = endpoint.name if provider is not None else USUAL_MODELS.get(endpoint.provider)
    if name is None and own is None:
        raise ConfigurationError("name the embedding_model: the deployment of Azure OpenAI that embeds.")
    return embedder_of(endpoint, name or own or "", dimensions)


def embedder_of(block: ModelBlock, name: str, dimensions: int | None = None) -> Embedder:
    """Return the embedder `name` of the provider that a model block describes."""
    settings: dict[str, Any] = {
        "base_url": block.base_url or block.endpoint,
        "api_key": None if block.api_key is None else block.api_key.get_secret_value() or None,
        "api_version": block.api_version if block.provider == "azure_openai" else None,
    }
    keywords = {key: value for key, value in settings.items() if value is not None}
    provider = "azure" if block.provider == "azure_openai" else block.provider
    return embedder(f"{provider}:{name}", dimensions=dimensions, **keywords)


def _own(reference: str, folder: Path) -> Embedder:
    """Return a function of the suite; its vectors are kept until anything in its file changes."""
    function = load_callable(reference, folder)
    wrapped = as_embedder(function)
    if not isinstance(wrapped, FunctionEmbedder):
        return wrapped
    source = inspect.getsourcefile(
        inspect.unwrap(function if inspect.isroutine(function) else type(function))
    )
    text = "" if source is None else Path(source).read_text(encoding="utf-8", errors="replace")
    return FunctionEmbedder(function, f"{reference}#{hashlib.sha256(text.encode()).hexdigest()[:8]}")


def _is_complete(name: str) -> bool:
    return name.startswith(("http://", "https://")) or name.partition(":")[0] in (*KINDS, "anthropic")


def _is_python(name: str, endpoint: ModelBlock | None) -> bool:
    """Tell `file.py:embed` and `module:embed` from models; Ollama has models such as `name:tag`."""
    if endpoint is not None and endpoint.provider == "ollama":
        return _PYTHON_FILE.fullmatch(name) is not None
    return any(form.fullmatch(name) for form in (_PYTHON_FILE, _PYTHON_MODULE))
