"""Tools of a provider as tools of the agent that a suite declares."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from dokimos.importers._promptfoo.conversion_notes import Notes
from dokimos.importers._promptfoo.files import read_data_file
from dokimos.importers._promptfoo.programs import Programs
from dokimos.importers._promptfoo.templates import escape, escape_all

TOOL_KEYS: Final = ("tools", "functions")
_NAME: Final = re.compile(r"[0-9A-Za-z_]+")  # what a suite allows
_SCHEMA_KEYS: Final = ("parameters", "input_schema", "inputSchema")
"""Where OpenAI, Anthropic and MCP have the schema of the arguments."""


def convert_tools(
    name: str, config: Mapping[str, Any], notes: Notes, programs: Programs, folder: Path
) -> list[dict[str, Any]]:
    """Return the tools of a provider, each with a function that stands in for one of the user's.

    promptfoo ends with the calls of the model. An agent of a suite gets an answer to each and goes on, so
    that there has to be a function.
    """
    tools: dict[str, dict[str, Any]] = {}
    for definition in _definitions(config, folder):
        tool = _convert(definition)
        if tool is None or tool["name"] in tools:
            notes.lose(
                f"the provider {name!r}: a tool that is not a function with a schema and a name of its own"
            )
            continue
        tools[tool["name"]] = {**tool, **programs.tool(tool["name"])}
    if tools:
        notes.change(
            f"the tools {', '.join(tools)}: a suite calls them and lets the model go on, and their functions "
            f"in {programs.module}.py are placeholders; write yours there"
        )
    return list(tools.values())


def _definitions(config: Mapping[str, Any], folder: Path) -> Iterator[object]:
    for key in TOOL_KEYS:
        value = config.get(key)
        if isinstance(value, str) and value.startswith("file://"):
            value = read_data_file(folder / value.removeprefix("file://"))
        yield from value if isinstance(value, list) else () if value is None else (value,)


def _convert(definition: object) -> dict[str, Any] | None:
    if not isinstance(definition, Mapping):
        return None
    # Chat Completions put it one level deeper than Responses, Anthropic and MCP.
    function = definition.get("function", definition)
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name, str) or not _NAME.fullmatch(name):
        return None
    schema = next((function[key] for key in _SCHEMA_KEYS if isinstance(function.get(key), Mapping)), None)
    if schema is None and definition.get("type", "function") != "function":
        return None  # of the provider, such as a search of the web
    tool: dict[str, Any] = {"name": name, "type": "function"}
    if isinstance(function.get("description"), str):
        tool["description"] = escape(function["description"])
    empty = {"type": "object", "properties": {}}
    return {**tool, "parameters": escape_all(dict(schema)) if schema else empty}


def tool_placeholder(name: str) -> Any:
    """Return a function that stands in for a tool until you write one.

    It takes any arguments and says that there is no function yet, so that the calls of a model can be looked
    at. Imported suites use it.

    Example:
        >>> tool_placeholder("get_weather")(city="Rome")
        'There is no function for get_weather yet.'
    """

    def placeholder(**arguments: Any) -> str:
        return f"There is no function for {name} yet."

    placeholder.__name__ = name
    placeholder.__doc__ = f"Stands in for {name}."
    return placeholder
