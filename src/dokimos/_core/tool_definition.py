"""A tool that an agent may call: its name, its description and the JSON Schema of its arguments.

The dialects in which providers describe tools are a layer above, and are imported where they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal

from dokimos._core.jsonable import WIRE_CONFIG


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool that an agent may call; `input_schema` is a JSON Schema of its arguments.

    Example:
        >>> def get_weather(city: str) -> str:
        ...     "Return the weather of a city."
        >>> tool = ToolDefinition.from_function(get_weather)
        >>> tool.name, tool.required
        ('get_weather', ('city',))
    """

    name: str
    description: str = ""
    _: KW_ONLY
    input_schema: Mapping[str, Any] = field(default_factory=dict)

    __pydantic_config__ = WIRE_CONFIG

    def __post_init__(self) -> None:
        check_name("tool definition", self.name)

    @classmethod
    def from_map(cls, data: Mapping[str, Any]) -> ToolDefinition:
        """Read a description of a tool: ours, or that of OpenAI (both), Anthropic, MCP, Bedrock or Gemini.

        Raises `ValueError` where there is no name, or the schema is not a map.
        """
        from dokimos._messages import tool_definitions

        return tool_definitions.from_map(data)

    @classmethod
    def from_function(
        cls, function: Callable[..., Any], *, name: str = "", description: str = ""
    ) -> ToolDefinition:
        """Describe a Python function as a tool by its signature, annotations and docstring.

        Descriptions of parameters are read from the docstring (Google, NumPy or Sphinx style) and from
        `Annotated[type, "text"]`. Raises `ValueError` for a parameter without a JSON form.
        """
        from dokimos._messages import tool_definitions

        return tool_definitions.from_function(function, name=name, description=description)

    @classmethod
    def from_model(cls, model: type, *, name: str = "", description: str = "") -> ToolDefinition:
        """Describe a tool whose arguments are the fields of a pydantic model, dataclass or TypedDict."""
        from dokimos._messages import tool_definitions

        return tool_definitions.from_model(model, name=name, description=description)

    @classmethod
    def from_object(cls, tool: object) -> ToolDefinition:
        """Describe whatever stands for a tool: a definition, map, function, model, or another's object.

        An object of somebody else's, such as MCP's `Tool`, is read by its attributes `name`, `description`
        and `inputSchema`, `input_schema` or `parameters`. Raises `ValueError`.
        """
        from dokimos._messages import tool_definitions

        return tool_definitions.from_object(tool)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the declared parameters."""
        return tuple(self._properties)

    @property
    def required(self) -> tuple[str, ...]:
        """The names of the parameters that must be there, those included that are not declared."""
        return tuple(self.input_schema.get("required") or ())

    def schema_of(self, parameter: str) -> Mapping[str, Any]:
        """Return the schema of a parameter, {} where nothing is known about it."""
        schema = self._properties.get(parameter)
        return schema if isinstance(schema, Mapping) else {}

    def to_openai(
        self, api: Literal["chat", "responses"] = "chat", *, strict: bool | None = None
    ) -> dict[str, Any]:
        """Return the tool as OpenAI's Chat Completions (and compatible servers) or Responses take it."""
        from dokimos._messages import tool_definitions

        return tool_definitions.to_openai(self, api, strict=strict)

    def to_anthropic(self) -> dict[str, Any]:
        """Return the tool as Anthropic's Messages take it."""
        from dokimos._messages import tool_definitions

        return tool_definitions.to_anthropic(self)

    def to_mcp(self) -> dict[str, Any]:
        """Return the tool as an MCP server lists it."""
        from dokimos._messages import tool_definitions

        return tool_definitions.to_mcp(self)

    @property
    def _properties(self) -> Mapping[str, Any]:
        properties = self.input_schema.get("properties")
        return properties if isinstance(properties, Mapping) else {}


def check_name(what: str, name: object) -> None:
    """Raise `ValueError` unless a tool, or a call of one, has a name."""
    if type(name) is str and name and not name.isspace():
        return
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"A {what} needs a name that is not blank, not {name!r}.")
