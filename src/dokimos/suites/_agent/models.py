"""The models of Pydantic AI for the blocks of a suite; only the provider that is used gets imported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from dokimos._core.extras import require
from dokimos.judges._openai import is_openai
from dokimos.judges._provider import HttpJudge
from dokimos.suites._agent.requirements import OF_PROVIDERS
from dokimos.suites._metrics import build_judge

if TYPE_CHECKING:
    from dokimos.suites._metric_schema import ModelBlock

EXTRA: Final = "agents"
"""What brings Pydantic AI; the extras of providers, in `requirements`, bring it too."""
NO_KEY: Final = "not-needed"
"""In the place of a key, for endpoints without one: the providers' own clients insist on some text."""
SDK_RETRIES: Final = 0
"""A provider's client repeats nothing by itself: it does not know what other calls have found out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a model is, and what it is asked with."""

    provider: str
    name: str
    url: str
    key: str | None = field(default=None, repr=False)
    missing_key: str | None = None
    """The environment variable that should hold the key, where it does not."""
    api_version: str | None = None
    identity: str = ""
    """What tells this model with its settings from another, never the key."""
    settings: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, block: ModelBlock) -> Endpoint:
        """Look up address and key of a model, in the block and in the environment, as for a judge."""
        judge = build_judge(block)
        assert isinstance(judge, HttpJudge), "a block names a provider"
        parameters = {"temperature": block.temperature, "max_tokens": block.max_tokens, "top_p": block.top_p}
        settings = tuple((name, value) for name, value in parameters.items() if value is not None)
        settings_text = "".join(f", {name}={value!r}" for name, value in settings)
        url = _root(block.provider, judge.url)
        key = _key(judge)
        return cls(
            provider=block.provider,
            name=block.name,
            url=url,
            key=key,
            missing_key=None if key or judge.api_key is not None else judge.key_variable(),
            api_version=block.api_version,
            identity=f"agent {block.provider}:{block.name} at {url}{settings_text}",
            settings=settings,
        )

    @property
    def reads_pdf(self) -> bool:
        """Whether PDF files can be sent as they are."""
        return self.provider == "anthropic" or (self.provider == "openai" and is_openai(self.url))

    def model(self) -> Any:
        """Return the model of Pydantic AI. Raises `MissingExtraError` where that is not installed."""
        return _MODELS[self.provider](self)


def find_key_variable(block: ModelBlock) -> tuple[str, str] | None:
    """Return the environment variable that has to hold the key of a model, and what needs it."""
    judge = build_judge(block)
    variable = None if judge.api_key is not None else judge.key_variable()
    return None if variable is None else (variable, f"the agent's model {judge.label}")


def _key(judge: HttpJudge) -> str | None:
    import os

    from dokimos._http.credentials import Secret

    if isinstance(judge.api_key, Secret):
        return judge.api_key.reveal()
    variable = judge.key_variable()
    return os.environ.get(variable) or None if variable else None


def _root(provider: str, url: str) -> str:
    """Return the root that a provider's client wants."""
    # Anthropic's client adds /v1 itself, OpenAI's does not.
    if provider == "anthropic":
        return url.removesuffix("/v1")
    if provider == "ollama":
        return url if url.endswith("/v1") else f"{url}/v1"
    return url


def _extra_of(provider: str) -> str:
    return OF_PROVIDERS[provider][1]


def _openai(endpoint: Endpoint) -> Any:
    models: Any = require("pydantic_ai.models.openai", _extra_of("openai"))
    provider = _openai_provider(endpoint)
    # Servers that imitate OpenAI have Chat Completions; few have the Responses API as well.
    kind = models.OpenAIResponsesModel if is_openai(endpoint.url) else models.OpenAIChatModel
    return kind(endpoint.name, provider=provider)


def _openai_provider(endpoint: Endpoint) -> Any:
    providers: Any = require("pydantic_ai.providers.openai", _extra_of("openai"))
    return providers.OpenAIProvider(base_url=endpoint.url, api_key=endpoint.key or NO_KEY)


def _azure(endpoint: Endpoint) -> Any:
    from dokimos.judges._openai import AZURE_API_VERSION

    models: Any = require("pydantic_ai.models.openai", _extra_of("openai"))
    providers: Any = require("pydantic_ai.providers.azure", _extra_of("azure_openai"))
    # The newer addresses of Azure end in /v1 and know no versions.
    version = None if endpoint.url.endswith("/v1") else endpoint.api_version or AZURE_API_VERSION
    provider = providers.AzureProvider(
        azure_endpoint=endpoint.url, api_version=version, api_key=endpoint.key or NO_KEY
    )
    return models.OpenAIChatModel(endpoint.name, provider=provider)


def _anthropic(endpoint: Endpoint) -> Any:
    models: Any = require("pydantic_ai.models.anthropic", _extra_of("anthropic"))
    providers: Any = require("pydantic_ai.providers.anthropic", _extra_of("anthropic"))
    provider = providers.AnthropicProvider(api_key=endpoint.key or NO_KEY, base_url=endpoint.url)
    return models.AnthropicModel(endpoint.name, provider=provider)


def _ollama(endpoint: Endpoint) -> Any:
    models: Any = require("pydantic_ai.models.ollama", _extra_of("ollama"))
    providers: Any = require("pydantic_ai.providers.ollama", _extra_of("ollama"))
    provider = providers.OllamaProvider(base_url=endpoint.url, api_key=endpoint.key or NO_KEY)
    return models.OllamaModel(endpoint.name, provider=provider)


_MODELS: Final[dict[str, Callable[[Endpoint], Any]]] = {
    "openai": _openai,
    "azure_openai": _azure,
    "anthropic": _anthropic,
    "ollama": _ollama,
}
