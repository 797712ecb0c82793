"""Providers of promptfoo as models and applications of a suite."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from dokimos.importers._promptfoo.conversion_notes import Notes
from dokimos.importers._promptfoo.endpoints import convert_endpoint
from dokimos.importers._promptfoo.files import read_data_file
from dokimos.importers._promptfoo.nunjucks.values import TemplateRefused
from dokimos.importers._promptfoo.programs import Programs
from dokimos.importers._promptfoo.shapes import PROVIDER, check_shape
from dokimos.importers._promptfoo.templates import escape, escape_all, render
from dokimos.importers._promptfoo.tools import TOOL_KEYS, convert_tools

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
_REPLY_FORMAT: Final = frozenset({"response_format"})
_ADDRESSES: Final = ("apiBaseUrl", "apiHost", "baseUrl")
_VARIABLE: Final = re.compile(r"\$\{\w+(:-[^}]*)?\}")


def convert_provider(provider: object, notes: Notes, programs: Programs, folder: Path) -> dict[str, Any]:
    """Return what a suite says of the application under test, with its label.

    It is a `model`, with a `response_format` where there is one, or an `agent`; `transforms` are the programs
    that change its replies.
    """
    name, config, label, transform = _parts(provider)
    try:
        target = _application(name, config, notes, programs)
    except TemplateRefused as refused:
        notes.lose(f"the provider {name!r}: {refused}")
        target = {"agent": _ENDPOINT}
    if target is None:
        target = _model_target(provider, notes, programs, folder)
    return {"label": label or name, **target, "transforms": (transform,) if transform else ()}


def _model_target(provider: object, notes: Notes, programs: Programs, folder: Path) -> dict[str, Any]:
    name, config, *_ = _parts(provider)
    schema = _reply_schema(config.get("response_format"), folder)
    is_read = frozenset(TOOL_KEYS) | (frozenset() if schema is None else _REPLY_FORMAT)
    block = build_model_block(provider, notes, is_read=is_read)
    if block is None:
        return {"agent": _ENDPOINT}
    target = {"model": block} if schema is None else {"model": block, "response_format": schema}
    tools = convert_tools(name, config, notes, programs, folder)
    return {**target, "tools": tools} if tools else target


def _reply_schema(setting: object, folder: Path) -> dict[str, Any] | None:
    """Return the JSON Schema of replies; None where there is none, as of `json_object`."""
    setting = _read_included(setting, folder)
    if not isinstance(setting, Mapping) or setting.get("type") != "json_schema":
        return None
    # Chat Completions put it one level deeper than Responses.
    block = setting.get("json_schema", setting)
    schema = _read_included(block.get("schema"), folder) if isinstance(block, Mapping) else None
    return escape_all(dict(schema)) if isinstance(schema, Mapping) else None


def _read_included(value: object, folder: Path) -> object:
    if isinstance(value, str) and value.startswith("file://"):
        return read_data_file(folder / value.removeprefix("file://"))
    return value


_ENDPOINT: Final = {"url": "http://localhost:8000/chat"}
"""Asked where a provider has no counterpart: the place of an application that speaks JSON."""


def build_model_block(
    provider: object, notes: Notes, *, is_read: frozenset[str] = frozenset()
) -> dict[str, Any] | None:
    """Return a provider as a model of a suite; None, with a note, where it has no counterpart.

    Args:
        provider: Its id, or a map.
        notes: Where settings are noted that a suite does not have.
        is_read: Settings that the caller has read.
    """
    name, config, *_ = _parts(provider)
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
    block |= _settings(name, {key: value for key, value in config.items() if key not in is_read}, notes)
    if block["provider"] == "azure_openai" and "base_url" not in block:
        # The schema asks for an address; with a default, the suite is valid before the variable is set.
        block["base_url"] = "${AZURE_OPENAI_ENDPOINT:-https://example.openai.azure.com}"
    return block


class _Parts(NamedTuple):
    name: str
    config: Mapping[str, Any] = {}
    label: str = ""
    transform: str = ""
    """A program that changes its replies."""


def _parts(provider: object) -> _Parts:
    if not isinstance(provider, dict):
        return _Parts(str(provider))
    name, block = "", provider
    if "id" not in provider and len(provider) == 1:
        ((name, block),) = provider.items()
    block = check_shape(block or {}, PROVIDER, f"the provider {name}".rstrip())
    return _Parts(
        str(block.get("id", name)),
        block.get("config") or {},
        str(block.get("label") or ""),
        str(block.get("transform") or "").strip(),
    )


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
        return {"agent": convert_endpoint(str(config.get("url") or name), config, notes, programs)}
    if name.startswith("exec:"):
        notes.change("an exec provider: the program reads the prompt from its standard input")
        return {"agent": {"command": escape(name.removeprefix("exec:").strip())}}
    program = name.removeprefix("python:").removeprefix("file://")
    if ".py" in program and (name.startswith(("python:", "file://")) or program.endswith(".py")):
        notes.change("a Python provider: it runs in the process of the suite")
        return {"agent": programs.provider(program, dict(config))}
    return None
