from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field

from dokimos import ToolDefinition

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
GEMINI_SCHEMA = {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}, "required": ["city"]}
WEATHER = ToolDefinition("get_weather", "The weather now.", input_schema=SCHEMA)


def book(
    city: str,
    nights: int = 2,
    *,
    stars: Literal[3, 4, 5] = 4,
    title: Annotated[str | None, "Of the guest"] = None,
    **extras: str,
):
    """Book a room
    in a hotel.

    Fails when none is free.

    Args:
        city: Where the hotel is,
            as in "Paris".
        nights (int): How many nights.
        extras: Anything else.

    Returns:
        The confirmation.
    """


class TestFromFunction:
    def test_the_docstring_before_its_first_section_is_the_description(self):
        tool = ToolDefinition.from_function(book)
        assert tool.name == "book"
        assert tool.description == "Book a room in a hotel.\n\nFails when none is free."

    def test_annotations_defaults_and_descriptions_become_the_schema(self):
        tool = ToolDefinition.from_function(book)
        assert tool.input_schema["properties"] == {
            "city": {"type": "string", "description": 'Where the hotel is, as in "Paris".'},
            "nights": {"type": "integer", "description": "How many nights.", "default": 2},
            "stars": {"enum": [3, 4, 5], "type": "integer", "default": 4},
            "title": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "Of the guest"},
        }
        assert tool.required == ("city",)
        assert tool.input_schema["additionalProperties"] is True

    def test_a_function_without_keywords_takes_nothing_else(self):
        assert (
            ToolDefinition.from_function(lambda x: x, name="f").input_schema["additionalProperties"] is False
        )

    def test_name_and_description_can_be_given(self):
        tool = ToolDefinition.from_function(book, name="book_room", description="Books.")
        assert (tool.name, tool.description) == ("book_room", "Books.")

    def test_a_bound_method_leaves_its_object_out(self):
        class Desk:
            def ring(self, times: int) -> None:
                """Ring the bell."""

        assert ToolDefinition.from_function(Desk().ring).parameters == ("times",)

    def test_structured_parameters_bring_their_definitions(self):
        class Guest(BaseModel):
            name: str

        def register(guests: list[Guest]) -> None:
            """Register."""

        schema = ToolDefinition.from_function(register).input_schema
        assert schema["properties"]["guests"] == {"items": {"$ref": "#/$defs/Guest"}, "type": "array"}
        assert schema["$defs"]["Guest"]["properties"] == {"name": {"type": "string"}}

    def test_a_default_without_a_json_form_is_left_out_but_the_parameter_stays_optional(self):
        def search(query: str, key=print) -> None:
            """Search."""

        schema = ToolDefinition.from_function(search).input_schema
        assert schema["required"] == ["query"]
        assert "default" not in schema["properties"]["key"]

    def test_a_parameter_without_a_json_form_is_refused(self):
        def search(stop: type[int] | slice) -> None:
            """Search."""

        with pytest.raises(ValueError, match="search cannot be described as a tool"):
            ToolDefinition.from_function(search)


def numpy_style(a, b, c):
    """Add.

    Parameters
    ----------
    a, b : int
        The numbers
        to add.
    c
        Ignored.

    Returns
    -------
    int
        The sum.
    """


def sphinx_style(a, b):
    """Add.

    :param a: The first
        number.
    :param int b: The second.
    :returns: The sum.
    """


def undocumented(a):
    pass


@pytest.mark.parametrize(
    ("function", "described"),
    [
        (numpy_style, {"a": "The numbers to add.", "b": "The numbers to add.", "c": "Ignored."}),
        (sphinx_style, {"a": "The first number.", "b": "The second."}),
        (undocumented, {}),
    ],
)
def test_other_docstring_styles_are_read(function, described):
    tool = ToolDefinition.from_function(function)
    found = {name: tool.schema_of(name).get("description") for name in tool.parameters}
    assert {name: text for name, text in found.items() if text} == described
    assert tool.description == ("Add." if described else "")


class TestFromModel:
    def test_a_pydantic_model_is_described_by_its_fields(self):
        class Booking(BaseModel):
            """Book a room."""

            city: str = Field(description="Where")
            nights: int = Field(default=1, ge=1)

        tool = ToolDefinition.from_model(Booking, name="book")
        assert (tool.name, tool.description) == ("book", "Book a room.")
        assert tool.schema_of("nights") == {"default": 1, "minimum": 1, "type": "integer"}
        assert tool.required == ("city",)

    def test_a_dataclass_is_described_too(self):
        @dataclass
        class Query:
            title: str

        tool = ToolDefinition.from_object(Query)
        assert (tool.name, tool.parameters) == ("Query", ("title",))
        assert tool.schema_of("title") == {"type": "string"}


class TestFromOthers:
    @pytest.mark.parametrize(
        "told",
        [
            WEATHER,
            WEATHER.to_openai(),
            WEATHER.to_openai("responses"),
            WEATHER.to_anthropic(),
            WEATHER.to_mcp(),
            {"name": "get_weather", "description": "The weather now.", "inputSchema": SCHEMA},
            {"name": "get_weather", "description": "The weather now.", "input_schema": SCHEMA},
            {"name": "get_weather", "description": "The weather now.", "parametersJsonSchema": SCHEMA},
            {"name": "get_weather", "description": "The weather now.", "parameters": GEMINI_SCHEMA},
        ],
    )
    def test_every_dialect_reads_back(self, told):
        assert ToolDefinition.from_object(told) == WEATHER

    def test_an_object_is_read_by_its_attributes(self):
        class Tool:
            name = "get_weather"
            description = "The weather now."
            inputSchema = SCHEMA

        assert ToolDefinition.from_object(Tool()) == WEATHER

    @pytest.mark.parametrize(
        "thing", [5, "search", None, {"description": "x"}, {"name": "a", "parameters": 3}]
    )
    def test_anything_else_is_refused(self, thing):
        with pytest.raises(ValueError, match="tool"):
            ToolDefinition.from_object(thing)


class TestOutward:
    def test_openai_nests_for_chat_and_is_flat_for_responses(self):
        function = {"name": "get_weather", "description": "The weather now.", "parameters": SCHEMA}
        assert WEATHER.to_openai() == {"type": "function", "function": function}
        assert WEATHER.to_openai("responses", strict=True) == {"type": "function", **function, "strict": True}

    def test_an_empty_schema_is_written_as_that_of_an_object(self):
        tool = ToolDefinition("ping")
        expected = {"type": "object", "properties": {}}
        assert tool.to_openai()["function"]["parameters"] == expected
        assert tool.to_anthropic() == {"name": "ping", "description": "", "input_schema": expected}
        assert tool.to_mcp()["inputSchema"] == expected

    def test_an_unknown_api_is_refused(self):
        with pytest.raises(ValueError, match='"chat" or "responses"'):
            WEATHER.to_openai("grpc")


def test_nothing_is_known_about_an_undeclared_parameter():
    tool = ToolDefinition("a", input_schema={"properties": {"x": True}, "required": ["x", "y"]})
    assert (tool.parameters, tool.required) == (("x",), ("x", "y"))
    assert tool.schema_of("x") == tool.schema_of("y") == {}
    assert ToolDefinition("a", input_schema={"properties": None}).parameters == ()


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_tool_of_bedrock_is_read(wrapped):
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    spec = {"name": "weather", "description": "Tell it.", "inputSchema": {"json": schema}}

    tool = ToolDefinition.from_map({"toolSpec": spec} if wrapped else spec)

    assert tool == ToolDefinition("weather", "Tell it.", input_schema=schema)
