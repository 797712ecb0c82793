"""What a declared agent is made of, looked up before anything is run; nothing of a framework yet."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dokimos.core.jsonable import text_form
from dokimos.errors import ConfigurationError
from dokimos.suites.declared.models import Endpoint
from dokimos.suites.environment import parsed_dotenv
from dokimos.suites.instructions import Prompt
from dokimos.suites.modules import load_callable
from dokimos.suites.problems import near
from dokimos.suites.tool_schema import FunctionTool, McpTool, PromptTool, parameters_schema

if TYPE_CHECKING:
    from dokimos.judges.embeddings import Embedder
    from dokimos.suites.retrieval.documents import AnyRetrievalTool
    from dokimos.suites.retrieval.tool import Collection, Passage

BLANK: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}")
MOST_TURNS: Final = 20
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

    @classmethod
    def of(cls, block: FunctionTool, folder: Path) -> PlannedFunction:
        """Import the function. Raises `ConfigurationError` where it is not there."""
        schema = None if block.parameters is None else checked_schema(block.parameters)
        return cls(
            name=block.name,
            function=load_callable(block.reference, folder),
            description=block.description,
            schema=schema,
            timeout=block.timeout,
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

    @classmethod
    def of(cls, block: PromptTool, folder: Path) -> PlannedPrompt:
        """Read the template. Raises `ConfigurationError` where a blank in it has no parameter."""
        template = block.template or _read(folder / str(block.file))
        schema = checked_schema(block.parameters)
        known = schema.get("properties", {})
        for blank in BLANK.findall(template):
            if blank not in known:
                raise ConfigurationError(f"no parameter is called {blank!r}.{near(blank, known)}")
        return cls(
            name=block.name,
            template=template,
            schema=schema,
            description=block.description,
            endpoint=None if block.model is None else Endpoint.of(block.model),
        )

    def filled(self, given: Mapping[str, Any]) -> str:
        """Return the prompt with its blanks filled in."""
        return BLANK.sub(lambda blank: text_form(given.get(blank[1])) or "", self.template)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSearch:
    """A search in documents as a tool."""

    block: AnyRetrievalTool
    folder: Path
    embedder: Embedder | None
    cache_dir: Path

    @property
    def name(self) -> str:
        """What the model calls it; documents of one name are told apart from what is found in them."""
        return self.block.name if "search" in self.block.name else f"{self.block.name}_search"

    async def opened(self) -> Collection:
        """Open the documents; what is not in the cache yet is read and embedded."""
        from dokimos.suites.retrieval.tool import open_collection

        return await open_collection(
            self.block, self.folder, embedder=self.embedder, cache_dir=self.cache_dir
        )


def told(passages: Sequence[Passage]) -> str:
    """Return what the model is told of passages."""
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
    def label(self) -> str:
        """Provider and model."""
        return f"{self.endpoint.provider}:{self.endpoint.name}"

    @property
    def identity(self) -> str:
        """What tells this agent from another: model, settings, instructions, tools, form of the reply."""
        held = json.dumps(
            [self.prompt.text, self.blocks, self.response_schema, self.max_turns], default=str, sort_keys=True
        )
        return f"{self.endpoint.identity} #{hashlib.sha256(held.encode('utf-8', 'replace')).hexdigest()[:12]}"

    def command_of(self, server: McpTool) -> tuple[str, list[str]]:
        """Return program and arguments of a server; `python` is the one that runs the suite."""
        command = str(server.command)
        return (sys.executable if command in ("python", "python3") else command), list(server.args)

    def environment_of(self, server: McpTool) -> dict[str, str]:
        """Return the variables of a server: those of its file, then its own."""
        found: dict[str, str] = {}
        if server.env_file is not None:
            found |= parsed_dotenv(_read(self.folder / server.env_file))
        found |= {name: value.get_secret_value() for name, value in server.env.items()}
        return {"PATH": os.environ.get("PATH", ""), **found}


def checked_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of arguments. Raises `ConfigurationError` where it is none."""
    try:
        schema = parameters_schema(parameters)
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
        raise ConfigurationError(f"this is no JSON Schema: {getattr(error, 'message', error)}") from None


def response_schema(given: Mapping[str, Any] | str | None, folder: Path) -> dict[str, Any] | None:
    """Return the schema of the reply, which may be in a file.

    Raises:
        ConfigurationError: where it cannot be read, or describes something else than an object.
    """
    if given is None:
        return None
    schema = _schema_in(folder / given) if isinstance(given, str) else dict(given)
    if not isinstance(schema, dict) or not (schema.get("type") == "object" or "properties" in schema):
        raise ConfigurationError("the response format must be the JSON Schema of an object (type: object).")
    check_json_schema(schema)
    return {"type": "object", **schema}


def _schema_in(path: Path) -> Any:
    import yaml

    try:
        return yaml.safe_load(_read(path))  # JSON is YAML
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path} is no valid JSON or YAML: {error}") from None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigurationError(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None
