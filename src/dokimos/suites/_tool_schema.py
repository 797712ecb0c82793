"""What a suite file may say about the tools of a declared agent: one block for each kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Discriminator, Field, SecretStr, StringConstraints, Tag, model_validator

from dokimos._core.yaml_scalars import read_boolean
from dokimos.suites._metric_schema import TOOL_NAME, URL, ModelBlock, Text
from dokimos.suites._retrieval.schema import HierarchicalDocumentTool, VectorstoreTool
from dokimos.suites._tool_block import ToolBlock

MOST_TOOLS: Final = 50
Seconds = Annotated[float, Field(gt=0)]


def _texts(value: object) -> Any:
    """Let numbers and switches in a map be texts: variables of the environment have no types."""
    if not isinstance(value, Mapping):
        return value
    return {key: _plain(part) for key, part in value.items()}


def _plain(value: object) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Secrets = Annotated[dict[str, SecretStr], BeforeValidator(_texts)]


class FunctionTool(ToolBlock):
    """A Python function, sync or async; if it raises, the model gets the error."""

    type: Literal["function"] = "function"
    """A Python function."""
    file: Text | None = None
    """The Python file with the function, relative to the suite."""
    function: Text
    """The function's name in the file, or `module:attribute`."""
    parameters: dict[str, Any] | None = None
    """A JSON Schema of the arguments, or of each argument by name; by default the signature."""
    timeout: Seconds | None = None
    """Seconds for one call."""

    @model_validator(mode="after")
    def _require_location(self) -> FunctionTool:
        if self.file is None and ":" not in self.function:
            raise ValueError("a function is in a file:, or is named as module:attribute.")
        return self

    @property
    def reference(self) -> str:
        """`file.py:attribute` or `module:attribute`."""
        return self.function if self.file is None else f"{self.file}:{self.function}"


class McpTool(ToolBlock):
    """An MCP server (Model Context Protocol), whose tools the agent gets."""

    type: Literal["mcp"] = "mcp"
    """An MCP server."""
    transport: Literal["stdio", "http", "sse", "websocket"] | None = None
    """How the server is reached; by default `http` for a URL, and `sse` if the URL ends in /sse."""
    command: Text | None = None
    """The program to start, which speaks MCP over standard input and output."""
    args: list[str] = Field(default_factory=list)
    """The program's arguments."""
    env: Secrets = Field(default_factory=dict)
    """The program's environment variables."""
    env_file: Text | None = None
    """A file with more variables, relative to the suite."""
    url: Annotated[str, StringConstraints(pattern=URL)] | None = None
    """The server's URL, instead of a command."""
    headers: Secrets = Field(default_factory=dict)
    """Headers of the requests, such as a key; never stored."""
    timeout: Seconds | None = None
    """Seconds for connecting."""
    request_timeout: Seconds | None = None
    """Seconds for one call; 30 by default."""
    is_retrieval: bool = False
    """Whether the results of its tools are retrieved context."""
    prefix: Annotated[str, StringConstraints(pattern=TOOL_NAME)] | None = None
    """Put before the names of its tools, if two servers have tools of the same name."""
    load_tools: bool = True
    """Whether the agent gets the server's tools."""
    load_prompts: bool | None = None
    """Accepted for old files; has no effect."""
    encoding: str | None = None
    """Accepted for old files; has no effect."""
    sse_read_timeout: Seconds | None = None
    """Seconds that an SSE connection may wait for the next event."""
    terminate_on_close: bool | None = None
    """Accepted for old files; has no effect."""
    config: dict[str, Any] | None = None
    """Accepted for old files; has no effect."""

    WITHOUT_EFFECT: ClassVar = ("load_prompts", "encoding", "terminate_on_close", "config")

    @model_validator(mode="after")
    def _one_way(self) -> McpTool:
        if (self.command is None) == (self.url is None):
            raise ValueError("an MCP server has either a command: or a url:.")
        if self.transport == "websocket":
            raise ValueError("MCP over websocket is not supported; use http, sse or stdio.")
        if (self.transport == "stdio") != (self.command is not None) and self.transport is not None:
            raise ValueError("the transport stdio needs a command:, http and sse need a url:.")
        if self.url is None and self.headers:
            raise ValueError("headers are for a server with a url.")
        return self


class PromptTool(ToolBlock):
    """A prompt with parameters that the agent fills in, and a model answers."""

    type: Literal["prompt"] = "prompt"
    """A prompt."""
    template: Text | None = None
    """The prompt, with `{{name}}` for each parameter."""
    file: Text | None = None
    """The file with the prompt, relative to the suite."""
    parameters: Annotated[dict[str, Any], Field(min_length=1)]
    """A JSON Schema of each parameter by its name, or of all of them."""
    model: ModelBlock | None = None
    """The model that answers the prompt, instead of the agent's model."""

    @model_validator(mode="after")
    def _one_source(self) -> PromptTool:
        if (self.template is None) == (self.file is None):
            raise ValueError("a prompt has either a template or a file.")
        return self


def _kind(value: object) -> str | None:
    """Return the mark of a tool's kind; it is not a key of any block, so that places of errors stay clear."""
    type_name = value.get("type") if isinstance(value, Mapping) else getattr(value, "type", None)
    return f"tool:{type_name}" if isinstance(type_name, str) else None


AnyTool = Annotated[
    Annotated[FunctionTool, Tag("tool:function")]
    | Annotated[McpTool, Tag("tool:mcp")]
    | Annotated[PromptTool, Tag("tool:prompt")]
    | Annotated[VectorstoreTool, Tag("tool:vectorstore")]
    | Annotated[HierarchicalDocumentTool, Tag("tool:hierarchical_document")],
    Discriminator(
        _kind,
        custom_error_type="tool_type",
        custom_error_message=(
            "invalid tool type; valid types are function (with file: and function:), mcp (with command: or "
            "url:), prompt (with template: or file:, and parameters:), vectorstore and hierarchical_document "
            "(with source:)."
        ),
    ),
]


def name_search_tool(tool: str) -> str:
    """Return what the model calls a tool that searches documents, to distinguish those of one name."""
    return tool if "search" in tool else f"{tool}_search"


def build_parameters_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments.

    A map of schemas by name becomes one schema; an argument is required unless it says `required: false` or
    has a default. Raises `ValueError` for what is neither.
    """
    if parameters.get("type") == "object" and isinstance(parameters.get("properties", {}), Mapping):
        return dict(parameters)
    properties: dict[str, Any] = {}
    required = []
    for name, given in parameters.items():
        described = {"type": given} if isinstance(given, str) else given
        if not isinstance(described, Mapping):
            raise ValueError(f"the parameter {name!r} must be a schema such as {{type: string}}.")
        # A flag in our short form; in JSON Schema the list of what an object requires, which is not a flag.
        asked = read_boolean(described.get("required", "default" not in described))
        properties[name] = {key: part for key, part in described.items() if not _is_flag(key, part)}
        if asked is True or isinstance(asked, list):
            required.append(name)
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _is_flag(key: str, value: object) -> bool:
    return key == "required" and isinstance(read_boolean(value), bool)
