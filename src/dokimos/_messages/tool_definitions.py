"""Build tool definitions from Python code and from providers' schemas, and convert them back."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, NotRequired, Required, get_args, get_origin, get_type_hints

from dokimos._core.jsonable import jsonable
from dokimos._core.tool_definition import ToolDefinition
from dokimos._messages.docstrings import parse_parameter_descriptions, parse_purpose

_SCHEMA_KEYS: Final = (
    "inputSchema",
    "input_schema",
    "parameters",
    "parametersJsonSchema",
    "parameters_json_schema",
)
"""Ours and MCP's, Anthropic's and ours in Python, OpenAI's, Gemini's on the wire and in Python."""

_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def from_map(data: Mapping[str, Any]) -> ToolDefinition:
    """Read a description in our form or that of OpenAI, Anthropic, MCP, Bedrock or Gemini.

    Raises `ValueError`.
    """
    inner = data.get("function") or data.get("toolSpec")
    if isinstance(inner, Mapping):
        data = inner
    schema: Any = next((data[key] for key in _SCHEMA_KEYS if data.get(key) is not None), {})
    if isinstance(schema, Mapping) and schema.keys() == {"json"}:
        schema = schema["json"]  # how Bedrock wraps it
    if not isinstance(schema, Mapping):
        raise ValueError(
            f"The schema of tool {data.get('name')!r} must be a map, not {type(schema).__name__}."
        )
    if schema.get("type") == "OBJECT":
        schema = _lower_types(schema)
    return ToolDefinition(data.get("name") or "", data.get("description") or "", input_schema=schema)


def _lower_types(schema: object) -> Any:
    """Return a schema of Gemini's, which writes its types in capitals, as JSON Schema."""
    if isinstance(schema, list):
        return [_lower_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: value.lower() if key == "type" and isinstance(value, str) else _lower_types(value)
        for key, value in schema.items()
    }


def from_object(tool: object) -> ToolDefinition:
    """Describe whatever stands for a tool. Raises `ValueError`."""
    if isinstance(tool, ToolDefinition):
        return tool
    if isinstance(tool, Mapping):
        return from_map(tool)
    if isinstance(tool, type):
        return from_model(tool)
    if isinstance(getattr(tool, "name", None), str):
        return _from_attributes(tool)
    if callable(tool):
        return from_function(tool)
    raise ValueError(f"A tool must be a ToolDefinition, a map, a function or a model, not {tool!r:.80}.")


def from_function(function: Callable[..., Any], *, name: str = "", description: str = "") -> ToolDefinition:
    """Describe a function by its signature, annotations and docstring. Raises `ValueError`."""
    text = inspect.getdoc(function) or ""
    return ToolDefinition(
        name or getattr(function, "__name__", ""),
        description or parse_purpose(text),
        input_schema=_arguments_schema(function, parse_parameter_descriptions(text)),
    )


def from_model(model: type, *, name: str = "", description: str = "") -> ToolDefinition:
    """Describe a tool whose arguments are the fields of a model, dataclass or TypedDict."""
    schema = _schema_of(model)
    text = schema.pop("description", "")
    return ToolDefinition(name or model.__name__, description or text, input_schema=schema)


def to_openai(
    tool: ToolDefinition, api: Literal["chat", "responses"], *, strict: bool | None
) -> dict[str, Any]:
    """Return the tool in OpenAI's form: nested for Chat Completions, flat for Responses."""
    function: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": _object_schema(tool.input_schema),
    }
    if strict is not None:
        function["strict"] = strict
    if api == "chat":
        return {"type": "function", "function": function}
    if api == "responses":
        return {"type": "function", **function}
    raise ValueError(f'api must be "chat" or "responses", not {api!r}.')


def to_anthropic(tool: ToolDefinition) -> dict[str, Any]:
    """Return the tool in Anthropic's form."""
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": _object_schema(tool.input_schema),
    }


def to_mcp(tool: ToolDefinition) -> dict[str, Any]:
    """Return the tool in the form of MCP's `tools/list`."""
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": _object_schema(tool.input_schema),
    }


def _object_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema of an object, which all of them insist on, also where nothing is declared."""
    tree = jsonable(schema)
    return tree if "type" in tree else {"type": "object", "properties": {}, **tree}


def _from_attributes(tool: object) -> ToolDefinition:
    attributes = {key: getattr(tool, key, None) for key in ("name", "description", *_SCHEMA_KEYS)}
    return from_map({key: value for key, value in attributes.items() if isinstance(value, str | Mapping)})


def _arguments_schema(function: Callable[..., Any], described: Mapping[str, str]) -> dict[str, Any]:
    signature = inspect.signature(function)
    hints = get_type_hints(function, include_extras=True) if hasattr(function, "__annotations__") else {}
    declared = {p.name: p for p in signature.parameters.values() if p.kind not in _VARIADIC}
    fields = {
        parameter.name: _field(parameter, hints.get(parameter.name, Any), described.get(parameter.name, ""))
        for parameter in declared.values()
    }
    schema = _schema_of(_build_typed_dict(getattr(function, "__name__", "arguments"), fields))
    schema.pop("description", None)
    for parameter in declared.values():
        _put_default(schema, parameter)
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.parameters.values())
    return {**schema, "additionalProperties": open_ended}


def _field(parameter: inspect.Parameter, hint: object, description: str) -> Any:
    """Return a field's annotation: whether it must be there, and what is said about it."""
    text = _add_description(hint) or description
    if text:
        from pydantic import Field

        hint = Annotated[hint, Field(description=text)]
    return Required[hint] if parameter.default is parameter.empty else NotRequired[hint]


def _add_description(hint: object) -> str:
    texts = [extra for extra in get_args(hint)[1:] if isinstance(extra, str)]
    return texts[0] if get_origin(hint) is Annotated and texts else ""


def _build_typed_dict(name: str, fields: Mapping[str, Any]) -> Any:
    from typing_extensions import TypedDict

    return TypedDict(name, fields)  # type: ignore[operator] # known only when it runs


def _schema_of(target: Any) -> dict[str, Any]:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        schema = TypeAdapter(target).json_schema()
    except PydanticUserError as error:
        what = getattr(target, "__name__", target)
        raise ValueError(f"{what} cannot be described as a tool: {error.message}") from None
    tree = _without_titles(schema)
    assert isinstance(tree, dict)
    return {"type": "object", "properties": {}, **tree}


def _without_titles(node: object, *, of_names: bool = False) -> Any:
    """Drop the titles that repeat each name; a parameter that is called "title" stays."""
    if isinstance(node, list):
        return [_without_titles(element) for element in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _without_titles(value, of_names=not of_names and key in ("properties", "$defs"))
        for key, value in node.items()
        if of_names or key != "title"
    }


def _put_default(schema: dict[str, Any], parameter: inspect.Parameter) -> None:
    if parameter.default in (parameter.empty, None):
        return
    try:
        json.dumps(parameter.default, allow_nan=False)
    except (TypeError, ValueError):
        return
    schema["properties"][parameter.name].setdefault("default", parameter.default)
