"""What a declared agent is made of, looked up before anything is run; nothing of a framework yet."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_origin, get_type_hints

from dokimos._core.jsonable import text_form
from dokimos._core.yaml_scalars import load_yaml
from dokimos.errors import ConfigurationError
from dokimos.suites._agent.models import Endpoint
from dokimos.suites._environment import parse_dotenv
from dokimos.suites._instructions import Prompt
from dokimos.suites._problems import at_setting, suggest
from dokimos.suites._python_references import load_callable
from dokimos.suites._tool_schema import (
    FunctionTool,
    McpTool,
    PromptTool,
    build_parameters_schema,
    name_search_tool,
)

if TYPE_CHECKING:
    from dokimos.judges._embeddings import Embedder
    from dokimos.suites._retrieval.collection import Collection, Passage
    from dokimos.suites._retrieval.documents import AnyRetrievalTool

BLANK: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")
MOST_TURNS: Final = 20
_PYTHON: Final = ("python", "python3")
_DEFINITIONS: Final = ("$defs", "definitions")
QUERY_SCHEMA: Final = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What to look for."}},
    "required": ["query"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFunction:
    """A Python function as a tool."""

    name: str
    function: Callable[..., Any]
    description: str | None = None
    schema: Mapping[str, Any] | None = None
    """Of its arguments; None leaves it to the signature."""
    timeout: float | None = None
    is_deferred: bool = False
    """Whether the model has to search for it before it gets its description."""

    @classmethod
    def of(cls, block: FunctionTool, folder: Path) -> PlannedFunction:
        """Import the function.

        Raises:
            ConfigurationError: where it is not there, or its arguments cannot be described to a model.
        """
        with at_setting("parameters"):
            schema = None if block.parameters is None else parse_argument_schema(block.parameters)
        with at_setting("function"):
            function = load_callable(block.reference, folder)
            if schema is None:
                _check_signature(function, block.reference)
        return cls(
            name=block.name,
            function=function,
            description=block.description,
            schema=schema,
            timeout=block.timeout,
            is_deferred=bool(block.defer_loading),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPrompt:
    """A prompt with blanks as a tool."""

    name: str
    template: str
    schema: Mapping[str, Any]
    description: str | None = None
    endpoint: Endpoint | None = None
    """What answers it, where that is not the agent's model."""
    is_deferred: bool = False

    @classmethod
    def of(cls, block: PromptTool, folder: Path) -> PlannedPrompt:
        """Read the template. Raises `ConfigurationError` where a blank in it has no parameter."""
        with at_setting("file"):
            template = block.template or _read(folder / str(block.file))
        with at_setting("parameters"):
            schema = parse_argument_schema(block.parameters)
        parameters = schema.get("properties", {})
        setting = "template" if block.template else "file"
        for blank in BLANK.findall(template):
            if blank not in parameters:
                raise ConfigurationError(
                    f"no parameter is called {blank!r}.{suggest(blank, parameters)}", setting=setting
                )
        return cls(
            name=block.name,
            template=template,
            schema=schema,
            description=block.description,
            endpoint=None if block.model is None else Endpoint.of(block.model),
            is_deferred=bool(block.defer_loading),
        )

    def render(self, arguments: Mapping[str, Any]) -> str:
        """Return the prompt with its blanks filled in."""
        return BLANK.sub(lambda blank: text_form(arguments.get(blank[1])) or "", self.template)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSearch:
    """A search in documents as a tool."""

    block: AnyRetrievalTool
    folder: Path
    embedder: Embedder | None
    cache_dir: Path

    @property
    def name(self) -> str:
        """What the model calls it, so that it can distinguish documents of one name."""
        return name_search_tool(self.block.name)

    async def open(self) -> Collection:
        """Open the documents; what is not in the cache yet is read and embedded."""
        from dokimos.suites._retrieval.collection import open_collection

        return await open_collection(
            self.block, self.folder, embedder=self.embedder, cache_dir=self.cache_dir
        )


def render_passages(passages: Sequence[Passage]) -> str:
    """Return the text of passages that the model gets."""
    if not passages:
        return "Nothing was found."
    return "\n\n".join(f"[{number}] {found.source}\n{found.text}" for number, found in enumerate(passages, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPlan:
    """A declared agent."""

    endpoint: Endpoint
    prompt: Prompt
    folder: Path
    functions: tuple[PlannedFunction, ...] = ()
    prompts: tuple[PlannedPrompt, ...] = ()
    searches: tuple[PlannedSearch, ...] = ()
    servers: tuple[McpTool, ...] = ()
    response_schema: Mapping[str, Any] | None = None
    timeout: float = 60.0
    max_turns: int = MOST_TURNS
    blocks: str = field(default="", repr=False)
    """What the file says of the tools, without secrets."""

    @property
    def searches_tools(self) -> bool:
        """Whether there are tools that the model has to look for."""
        deferred = [function.is_deferred for function in self.functions]
        deferred += [prompt.is_deferred for prompt in self.prompts]
        deferred += [bool(search.block.defer_loading) for search in self.searches]
        return any(deferred) or any(server.defer_loading for server in self.servers)

    @property
    def label(self) -> str:
        """Provider and model."""
        return f"{self.endpoint.provider}:{self.endpoint.name}"

    @property
    def identity(self) -> str:
        """What tells this agent from another: model, settings, instructions, tools, form of the reply."""
        content = json.dumps(
            [self.prompt.text, self.blocks, self.response_schema, self.max_turns], default=str, sort_keys=True
        )
        return (
            f"{self.endpoint.identity} #{hashlib.sha256(content.encode('utf-8', 'replace')).hexdigest()[:12]}"
        )

    def build_command(self, server: McpTool) -> tuple[str, list[str]]:
        """Return program and arguments of a server; `python` is the one that runs the suite."""
        command = str(server.command)
        return (sys.executable if command in _PYTHON else command), list(server.args)

    def build_environment(self, server: McpTool) -> dict[str, str]:
        """Return the variables of a server: those of its file, then its own."""
        return build_environment(server, self.folder)


def build_environment(server: McpTool, folder: Path) -> dict[str, str]:
    """Return the variables of a server in a folder. Raises `ConfigurationError` without its `env_file`."""
    found: dict[str, str] = {}
    if server.env_file is not None:
        found |= parse_dotenv(_read(folder / server.env_file))
    found |= {name: value.get_secret_value() for name, value in server.env.items()}
    # Of our own environment the PATH alone: keys of providers are in it, too, and servers are foreign code.
    return {"PATH": os.environ.get("PATH", ""), **found}


def check_server(server: McpTool, folder: Path) -> None:
    """Raise `ConfigurationError` where a server's program or file of variables is not there."""
    with at_setting("env_file"):
        variables = build_environment(server, folder)
    program = server.command
    if program is None or program in _PYTHON:
        return
    is_path = Path(program).name != program
    if not (folder / program).exists() if is_path else shutil.which(program, path=variables["PATH"]) is None:
        missing = folder / program if is_path else f"{program} on the PATH"
        raise ConfigurationError(
            f"the server of {server.name} cannot be started: there is no {missing}", setting="command"
        )


def _check_signature(function: Callable[..., Any], reference: str) -> None:
    """Raise `ConfigurationError` where a model cannot be told what the arguments of a function are."""
    from pydantic import PydanticUserError, TypeAdapter

    help = "annotate it with types that JSON has, or give their schema as parameters"
    if isinstance(function, type) or not hasattr(function, "__name__"):
        kind_name = "a class" if isinstance(function, type) else f"a {type(function).__name__}"
        raise ConfigurationError(
            f"{reference!r} is {kind_name}; name a function, or give its schema as parameters"
        )
    try:
        names = list(inspect.signature(function).parameters)
        hints = get_type_hints(function, include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{reference!r} cannot be described to the model: {error}; {help}") from None
    for index, name in enumerate(names):
        kind = hints.get(name, Any)
        # The framework passes its context itself; the model is not told of that argument.
        if index == 0 and _is_context(kind):
            continue
        try:
            TypeAdapter(kind).json_schema()
        except (PydanticUserError, NameError):
            type_name = getattr(kind, "__name__", kind)
            raise ConfigurationError(
                f"the argument {name!r} of {reference!r} cannot be described to the model: "
                f"its type is {type_name}; {help}"
            ) from None


def _is_context(kind: object) -> bool:
    """Whether a first argument is what the framework itself gives."""
    return str(getattr(get_origin(kind) or kind, "__module__", "")).startswith("pydantic_ai.")


def parse_argument_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of arguments. Raises `ConfigurationError` where it is none."""
    try:
        schema = build_parameters_schema(parameters)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    check_json_schema(schema)
    return schema


def check_json_schema(schema: Mapping[str, Any]) -> None:
    """Raise `ConfigurationError` where something is no JSON Schema."""
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for(dict(schema))
    except (ValueError, jsonschema_rs.ValidationError) as error:
        raise ConfigurationError(f"this is not a JSON Schema: {getattr(error, 'message', error)}") from None


def response_schema(response_format: Mapping[str, Any] | str | None, folder: Path) -> dict[str, Any] | None:
    """Return the schema of the reply, which may be in a file, with what it refers to put in its place.

    Raises:
        ConfigurationError: where it cannot be read, describes something else than an object, or itself.
    """
    if response_format is None:
        return None
    schema = (
        _schema_in(folder / response_format) if isinstance(response_format, str) else dict(response_format)
    )
    if not isinstance(schema, dict) or not (schema.get("type") == "object" or "properties" in schema):
        raise ConfigurationError("the response format must be the JSON Schema of an object (type: object).")
    check_json_schema(schema)
    whole = {
        key: _inline_references(part, schema, ("#",))
        for key, part in schema.items()
        if key not in _DEFINITIONS
    }
    return {"type": "object", **whole}


def _inline_references(part: object, whole: Mapping[str, Any], above: tuple[str, ...]) -> Any:
    """Return a part of a schema without references; `above` are those that it stands under."""
    if isinstance(part, list):
        return [_inline_references(each, whole, above) for each in part]
    if not isinstance(part, Mapping):
        return part
    inner = {key: _inline_references(each, whole, above) for key, each in part.items()}
    reference = part.get("$ref")
    if not isinstance(reference, str):
        return inner
    del inner["$ref"]
    if reference in above:
        raise ConfigurationError(
            f"the response format contains itself ({reference}), and models take no recursive schema; "
            "write it out as deep as you need it."
        )
    resolved = _inline_references(_resolve_pointer(reference, whole), whole, (*above, reference))
    # Keywords beside a $ref hold as well (JSON Schema 2020-12), and win, such as a description.
    return {**resolved, **inner} if isinstance(resolved, Mapping) else resolved


def _resolve_pointer(reference: str, whole: object) -> Any:
    """Return what a JSON Pointer such as `#/$defs/price` refers to."""
    value = whole
    start, *steps = reference.split("/")
    for step in steps:
        # In this order (RFC 6901): ~01 is ~1, and not a slash.
        key = step.replace("~1", "/").replace("~0", "~")
        value = value.get(key) if isinstance(value, Mapping) else None
    if start != "#" or value is None:
        raise ConfigurationError(f"the response format refers to {reference}, which is not in it.")
    return value


def _schema_in(path: Path) -> Any:
    """Return the schema in a file: YAML, or JSON where the name says so."""
    import yaml

    text = _read(path)
    if path.suffix.lower() == ".json":
        from dokimos.suites._json_values import read_json

        return read_json(path, text)
    try:
        return load_yaml(text)
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigurationError(f"{path} is not valid YAML: {error}") from None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigurationError(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None
