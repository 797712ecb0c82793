"""Judges by name: `openai:gpt-5-mini`, `http://host:port/v1#model`, and those of other packages."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import fields
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast, overload

from dokimos._runtime.start_collector import start_collector
from dokimos.errors import ConfigurationError
from dokimos.judges._cassette import CassetteJudge, with_cassette
from dokimos.judges._cassette_mode import CassetteMode
from dokimos.judges._provider import HttpJudge

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from dokimos.judges._model_request import Home

ENTRY_POINTS: Final = "dokimos.judges"
"""The entry point group of packages that bring a provider: `name = "module:Class"`, an `HttpJudge`."""

_CLASSES: Final = {
    "openai-chat": ("openai", "OpenAIChat"),
    "openai-responses": ("openai", "OpenAIResponses"),
    "anthropic": ("anthropic", "AnthropicMessages"),
    "azure": ("openai", "AzureOpenAI"),
    "ollama": ("ollama", "OllamaNative"),
    "gemini": ("gemini", "Gemini"),
    "mistral": ("openai_compatible", "Mistral"),
    "openrouter": ("openai_compatible", "OpenRouter"),
    "groq": ("openai_compatible", "Groq"),
    "together": ("openai_compatible", "Together"),
}
"""Module and class of each provider."""
EXAMPLES: Final = "'openai:gpt-5-mini', 'anthropic:claude-sonnet-5' or 'http://localhost:8000/v1#my-model'"


@overload
def judge(
    name: str, *, cassette: None = None, mode: CassetteMode = "auto", **settings: object
) -> HttpJudge: ...


@overload
def judge(
    name: str, *, cassette: str | Path, mode: CassetteMode = "auto", **settings: object
) -> CassetteJudge: ...


def judge(
    name: str, *, cassette: str | Path | None = None, mode: CassetteMode = "auto", **settings: Any
) -> HttpJudge | CassetteJudge:
    """Return the judge that a name stands for.

    Names are `openai:MODEL` (Responses at OpenAI itself, Chat Completions at any other base URL),
    `openai-chat:MODEL`, `openai-responses:MODEL`, `anthropic:MODEL`, `gemini:MODEL`, `mistral:MODEL`,
    `openrouter:MODEL`, `groq:MODEL`, `together:MODEL`, `azure:DEPLOYMENT`, `ollama:MODEL`, or the URL of a
    server that speaks Chat Completions with the model after a `#`. An installed package can add providers
    through the entry point group `dokimos.judges`.

    Args:
        name: Which provider and model.
        cassette: A file with its replies, see `with_cassette`.
        mode: `record` asks anew, `replay` never asks, `auto` asks what the cassette lacks.
        settings: What the judge's class takes: `base_url`, `api_key`, `temperature`, `prices` ...

    Raises:
        ConfigurationError: for a name or setting that does not exist.

    Example:
        >>> tester = judge("openai:gpt-5-mini", api_key="sk-...")  # sends nothing yet
        >>> tester.model
        'gpt-5-mini'
    """
    if name.startswith(("http://", "https://")):
        url, _, model = name.partition("#")
        settings = {"base_url": url, **settings}
        kind = "openai-chat"
    else:
        kind, _, model = name.partition(":")
    if not model:
        raise ConfigurationError(f"{name!r} does not name a model; a judge is named like {EXAMPLES}.")
    made = _class_of(kind, settings)
    _check_settings(made, settings)
    named = made(model, **settings)
    return named if cassette is None else with_cassette(named, cassette, mode)


def key_variables() -> dict[str, str]:
    """Return the variables of the environment that hold keys, each with the provider that it is for."""
    providers = {home.key_variable: kind.partition("-")[0] for kind, home in _homes()}
    return {**providers, "AZURE_OPENAI_API_KEY": "azure"}


def is_home_of_key(variable: str, url: str) -> bool:
    """Say whether a URL is the provider's whose key a variable of the environment holds.

    That is its own API, or the endpoint that the environment names instead of it.
    """
    return any(home.key_variable == variable and home.key_for(url) == variable for _, home in _homes())


def url_variables() -> tuple[str, ...]:
    """Return the variables of the environment that name endpoints."""
    variables = dict.fromkeys(home.url_variable for _, home in _homes())
    return (*variables, "AZURE_OPENAI_ENDPOINT", "OLLAMA_HOST")


def _homes() -> Iterator[tuple[str, Home]]:
    for kind in _CLASSES:
        home = getattr(_class_of(kind, {}), "home", None)
        if home is not None:
            yield kind, home


def _class_of(kind: str, settings: dict[str, Any]) -> type[HttpJudge]:
    if kind == "openai":
        from dokimos.judges._openai import OPENAI

        # Only OpenAI itself surely has Responses; servers that copy its API have Chat Completions.
        kind += "-responses" if OPENAI.owns(settings.get("base_url") or OPENAI.root()) else "-chat"
    if kind in _CLASSES:
        module, name = _CLASSES[kind]
        return cast("type[HttpJudge]", getattr(import_module(f"dokimos.judges._{module}"), name))
    if kind in _plugins():
        return _load(_plugins()[kind])
    kinds = ("openai", *_CLASSES, *_plugins())
    similar = difflib.get_close_matches(kind, kinds, n=1)
    hint = f" Did you mean {similar[0]!r}?" if similar else ""
    raise ConfigurationError(
        f"Unknown provider {kind!r}; the providers are {', '.join(kinds)} and http://host:port/v1#model.{hint}"
    )


@lru_cache(maxsize=1)
def _plugins() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


def _load(plugin: EntryPoint) -> type[HttpJudge]:
    package = f" of the package {plugin.dist.name}" if plugin.dist else ""
    provider = f"The provider {plugin.name!r}{package}"
    start_collector.before_user_code()
    try:
        loaded = plugin.load()
    except Exception as error:  # a plugin is somebody else's code
        raise ConfigurationError(
            f"{provider} ({plugin.value}) cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not (isinstance(loaded, type) and issubclass(loaded, HttpJudge)):
        raise ConfigurationError(
            f"{provider} ({plugin.value}) is not a subclass of dokimos.judges.HttpJudge. "
            "A judge of another kind is given as an object or a function."
        )
    return loaded


def _check_settings(made: type[HttpJudge], settings: dict[str, Any]) -> None:
    available = [f.name for f in fields(made) if f.init and f.name != "model"]
    for name in settings:
        if name not in available:
            similar = difflib.get_close_matches(name, available, n=1)
            hint = f" Did you mean {similar[0]!r}?" if similar else f" It has {', '.join(available)}."
            raise ConfigurationError(f"{made.__name__} has no setting {name!r}.{hint}")
