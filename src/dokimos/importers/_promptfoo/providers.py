"""Providers of promptfoo as models and applications of a suite."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from dokimos.importers._promptfoo.conversion_notes import Notes
from dokimos.importers._promptfoo.nunjucks.values import TemplateRefused
from dokimos.importers._promptfoo.programs import Programs
from dokimos.importers._promptfoo.shapes import ENDPOINT, PROVIDER, check_shape
from dokimos.importers._promptfoo.templates import escape, render

_MODES: Final = frozenset(
    {"chat", "responses", "completion", "messages", "completions", "embedding", "embeddings"}
)
_OWN: Final = {"openai": "openai", "anthropic": "anthropic", "azure": "azure_openai",
        "azureopenai": "azure_openai", "ollama": "ollama"}  # fmt: skip
_COMPATIBLE: Final = {
    "groq": ("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "togetherai": ("https://api.together.xyz/v1", "TOGETHER_API_KEY"),
    "mistral": ("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "deepseek": ("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
    "xai": ("https://api.x.ai/v1", "XAI_API_KEY"),
    "google": ("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "localai": ("http://localhost:8080/v1", "LOCALAI_API_KEY"),
    "vllm": ("http://localhost:8000/v1", "VLLM_API_KEY"),
}
"""Others whose servers speak the protocol of OpenAI: where, and which variable holds the key."""
_SETTINGS: Final = {"temperature": "temperature", "max_tokens": "max_tokens",
             "max_completion_tokens": "max_tokens", "top_p": "top_p",
             "maxTokens": "max_tokens", "topP": "top_p"}  # fmt: skip
_ADDRESSES: Final = ("apiBaseUrl", "apiHost", "baseUrl")
_VARIABLE: Final = re.compile(r"\$\{\w+(:-[^}]*)?\}")
_LEAF: Final = re.compile(r"(?:json|data)\.([A-Za-z_][\w.\[\]-]*)")


def convert_provider(provider: object, notes: Notes, programs: Programs) -> dict[str, Any]:
    """Return what a suite says of the application under test: `model` or `agent`, and its label."""
    name, config, label = _parts(provider)
    try:
        target = _application(name, config, notes, programs)
    except TemplateRefused as refused:
        notes.lose(f"the provider {name!r}: {refused}")
        target = {"agent": _ENDPOINT}
    if target is None:
        block = build_model_block(provider, notes)
        target = {"model": block} if block is not None else {"agent": _ENDPOINT}
    return {"label": label or name, **target}


_ENDPOINT: Final = {"url": "http://localhost:8000/chat"}
"""Asked where a provider has no counterpart: the place of an application that speaks JSON."""


def build_model_block(provider: object, notes: Notes) -> dict[str, Any] | None:
    """Return a provider as a model of a suite; None, with a note, where it has no counterpart."""
    name, config, _ = _parts(provider)
    vendor, _, rest = name.partition(":")
    mode, _, model = rest.partition(":")
    # `openai:chat:gpt-5` and `openai:gpt-5` mean the same, but `ollama:llama3:8b` has a tag and no mode.
    model = model if mode in _MODES and model else rest
    if not model or (vendor not in _OWN and vendor not in _COMPATIBLE):
        notes.lose(f"the provider {name!r}: it has no counterpart")
        return None
    block: dict[str, Any] = {"provider": _OWN.get(vendor, "openai"), "name": model}
    if vendor in _COMPATIBLE:
        address, variable = _COMPATIBLE[vendor]
        block |= {"base_url": address, "api_key": f"${{{variable}:-}}"}
    block |= _settings(name, config, notes)
    if block["provider"] == "azure_openai" and "base_url" not in block:
        # The schema asks for an address; with a default, the suite is valid before the variable is set.
        block["base_url"] = "${AZURE_OPENAI_ENDPOINT:-https://example.openai.azure.com}"
    return block


def _parts(provider: object) -> tuple[str, Mapping[str, Any], str]:
    """Return the id, the configuration and the label of a provider."""
    if not isinstance(provider, dict):
        return str(provider), {}, ""
    name, block = "", provider
    if "id" not in provider and len(provider) == 1:
        ((name, block),) = provider.items()
    block = check_shape(block or {}, PROVIDER, f"the provider {name}".rstrip())
    return str(block.get("id", name)), block.get("config") or {}, str(block.get("label") or "")


def _settings(name: str, config: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    block: dict[str, Any] = {}
    left = []
    for key, value in config.items():
        if key in _SETTINGS:
            block[_SETTINGS[key]] = value
        elif key in _ADDRESSES:
            block |= _address(name, str(value), notes)
        elif key == "apiKey":
            block |= _key(str(value), notes)
        elif key == "apiKeyEnvar":
            block["api_key"] = f"${{{value}:-}}"
        else:
            left.append(key)
    if left:
        notes.lose(f"the provider {name!r}: its settings {', '.join(sorted(left))}")
    return block


def _address(name: str, value: str, notes: Notes) -> dict[str, Any]:
    try:
        address = str(render(value, {}, notes))
    except TemplateRefused as refused:
        notes.lose(f"the provider {name!r}: {refused}")
        return {}
    return {"base_url": address if "://" in address or address.startswith("${") else f"https://{address}"}


def _key(value: str, notes: Notes) -> dict[str, Any]:
    """Return a key that is named; one that stands there is not written down again."""
    try:
        text = str(render(value, {}, notes))
    except TemplateRefused:
        text = ""
    # A suite is committed to a repository, so a key in the clear is left out of it.
    if _VARIABLE.fullmatch(text):
        return {"api_key": text}
    notes.lose("an apiKey that stands in the file: keys belong in the environment")
    return {}


def _application(
    name: str, config: Mapping[str, Any], notes: Notes, programs: Programs
) -> dict[str, Any] | None:
    if name.startswith(("http://", "https://")) or name in ("http", "https"):
        return {"agent": _endpoint(str(config.get("url") or name), config, notes)}
    if name.startswith("exec:"):
        notes.change("an exec provider: the program reads the prompt from its standard input")
        return {"agent": {"command": escape(name.removeprefix("exec:").strip())}}
    program = name.removeprefix("python:").removeprefix("file://")
    if ".py" in program and (name.startswith(("python:", "file://")) or program.endswith(".py")):
        notes.change("a Python provider: it runs in the process of the suite")
        return {"agent": programs.provider(program, dict(config))}
    return None


def _endpoint(url: str, config: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    check_shape(config, ENDPOINT, f"the provider {url}")
    agent: dict[str, Any] = {"url": render(url, {}, notes)}
    if config.get("headers"):
        agent["headers"] = {key: render(str(value), {}, notes) for key, value in config["headers"].items()}
    if config.get("body") or config.get("request"):
        notes.change("an http provider: its body is the JSON of suites, {input, messages, session_id}")
    transform = config.get("transformResponse") or config.get("responseParser")
    if transform:
        leaf = _LEAF.fullmatch(str(transform).strip())
        if leaf:
            agent["output_path"] = leaf[1]
        else:
            notes.lose("an http provider: its transformResponse is a program")
    return agent
