"""Providers that speak Chat Completions at an address of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from dokimos.judges._capabilities import Capabilities
from dokimos.judges._model_request import Home
from dokimos.judges._openai import ChatCompletions

SEED: Final = "seed"


def _home(url: str, domain: str, name: str) -> Home:
    return Home(url=url, domain=domain, url_variable=f"{name}_BASE_URL", key_variable=f"{name}_API_KEY")


@dataclass(frozen=True, kw_only=True, repr=False)
class Mistral(ChatCompletions):
    """A model of Mistral AI: `MISTRAL_API_KEY`."""

    provider: ClassVar[str] = "mistral"
    home: ClassVar[Home] = _home("https://api.mistral.ai/v1", "mistral.ai", "MISTRAL")
    lacks: ClassVar[tuple[str, ...]] = ("top_logprobs",)

    def settings(self, capabilities: Capabilities) -> Mapping[str, Any]:
        return {
            "random_seed" if name == SEED else name: value
            for name, value in super().settings(capabilities).items()
        }


@dataclass(frozen=True, kw_only=True, repr=False)
class _Hosted(ChatCompletions):
    """Models of many makers; whether a schema is enforced depends on the model."""

    def enforces_schemas(self) -> bool:
        return False


@dataclass(frozen=True, kw_only=True, repr=False)
class OpenRouter(_Hosted):
    """A model behind OpenRouter, such as `openrouter:qwen/qwen3-32b`: `OPENROUTER_API_KEY`."""

    provider: ClassVar[str] = "openrouter"
    home: ClassVar[Home] = _home("https://openrouter.ai/api/v1", "openrouter.ai", "OPENROUTER")


@dataclass(frozen=True, kw_only=True, repr=False)
class Groq(_Hosted):
    """A model that Groq serves: `GROQ_API_KEY`."""

    provider: ClassVar[str] = "groq"
    home: ClassVar[Home] = _home("https://api.groq.com/openai/v1", "groq.com", "GROQ")


@dataclass(frozen=True, kw_only=True, repr=False)
class Together(_Hosted):
    """A model that Together AI serves: `TOGETHER_API_KEY`."""

    provider: ClassVar[str] = "together"
    home: ClassVar[Home] = _home("https://api.together.xyz/v1", "together.xyz", "TOGETHER")
