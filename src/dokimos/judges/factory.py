"""Judges by name: `openai:gpt-5-mini`, `anthropic:...`, `ollama:...`, `azure:...`, `http://host:port/v1#model`."""

from __future__ import annotations

import difflib
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, Final, overload

from dokimos.errors import ConfigurationError
from dokimos.judges.cassette import CassetteJudge, with_cassette
from dokimos.judges.mode import CassetteMode
from dokimos.judges.provider import HttpJudge

_CLASSES: Final = {
    "openai-chat": ("openai", "OpenAIChat"),
    "openai-responses": ("openai", "OpenAIResponses"),
    "anthropic": ("anthropic", "AnthropicMessages"),
    "azure": ("openai", "AzureOpenAI"),
    "ollama": ("ollama", "OllamaNative"),
}
"""Module and class of each provider."""
EXAMPLES: Final = "'openai:gpt-5-mini', 'anthropic:claude-sonnet-5' or 'http://localhost:8000/v1#my-model'"


@overload
def judge(name: str, *, cassette: None = None, mode: CassetteMode = "auto", **settings: Any) -> HttpJudge: ...


@overload
def judge(
    name: str, *, cassette: str | Path, mode: CassetteMode = "auto", **settings: Any
) -> CassetteJudge: ...


def judge(
    name: str, *, cassette: str | Path | None = None, mode: CassetteMode = "auto", **settings: Any
) -> HttpJudge | CassetteJudge:
    """Return the judge that a name stands for.

    Names are `openai:MODEL` (Responses at OpenAI itself, Chat Completions at any other base URL),
    `openai-chat:MODEL`, `openai-responses:MODEL`, `anthropic:MODEL`, `azure:DEPLOYMENT`, `ollama:MODEL`, or
    the URL of a server that speaks Chat Completions with the model after a `#`.

    Args:
        name: Which provider and model.
        cassette: A file with its replies, see `with_cassette`.
        mode: `record` asks anew, `replay` never asks, `auto` asks what the cassette lacks.
        settings: What the judge's class takes: `base_url`, `api_key`, `temperature`, `prices` ...

    Raises:
        ConfigurationError: for a name or setting that does not exist.
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


def _class_of(kind: str, settings: dict[str, Any]) -> type[HttpJudge]:
    if kind == "openai":
        from dokimos.judges.openai import OPENAI

        kind += "-responses" if OPENAI.owns(settings.get("base_url") or OPENAI.root()) else "-chat"
    elif kind not in _CLASSES:
        known = ("openai", *_CLASSES)
        near = difflib.get_close_matches(kind, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ConfigurationError(
            f"Unknown provider {kind!r}; there are {', '.join(known)} and http://host:port/v1#model.{hint}"
        )
    module, name = _CLASSES[kind]
    found: type[HttpJudge] = getattr(import_module(f"dokimos.judges.{module}"), name)
    return found


def _check_settings(made: type[HttpJudge], settings: dict[str, Any]) -> None:
    known = [f.name for f in fields(made) if f.init and f.name != "model"]
    for name in settings:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else f" It has {', '.join(known)}."
            raise ConfigurationError(f"{made.__name__} has no setting {name!r}.{hint}")
