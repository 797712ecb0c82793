"""Sphinx extension: puts all routes of the server, made from its OpenAPI description, where a page asks."""

import json
from collections import Counter
from functools import cache

from generated import add_part
from tables import code, table

MARK = "<!-- http reference -->"
ROLES = {
    "PUBLIC": "none, not even where reading needs a key",
    "READ": "none; a `VIEWER` where reading needs a key",
    "TRACE_READ": "a `VIEWER`; none where traces are public",
    "PRIVATE_READ": "a `VIEWER`",
    "KNOWN": "any, for what is the caller's own",
    "WRITE": "an `EDITOR` of the server",
    "PROJECT_WRITE": "an `EDITOR` of the server or of the project",
    "PROJECT_ADMIN": "an `ADMIN` of the server or of the project",
    "ADMIN": "an `ADMIN` of the server",
}
"""The role that each rule of `Access` asks for, on a server that has keys."""
WORDS = {"string": "text", "integer": "whole number", "object": "map", "boolean": "`true` or `false`"}
JSON = "application/json"
UNSAID = "Successful Response"
"""What the framework says of an answer where the code says nothing."""


def setup(app):
    add_part(app, MARK, reference)
    return {"version": "1", "parallel_read_safe": True}


def reference():
    """Return the routes in groups, each with what it takes and answers, then the shapes that they name."""
    description, rules = describe_server()
    groups = {}
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            tag = operation.get("tags", ["Other"])[0]
            groups.setdefault(tag, []).append(route(path, method, operation, rules[path, method.upper()]))
    sections = [f"## {tag}\n\n" + "\n\n".join(routes) for tag, routes in sorted(groups.items())]
    shapes = [shape(name, schema) for name, schema in sorted(description["components"]["schemas"].items())]
    errors = table(["Status", "Meaning"], [(code(status), text) for status, text in usual_errors().items()])
    return "\n\n".join([errors, *sections, "## Shapes", *shapes])


@cache
def describe_server():
    """Return the OpenAPI description, and the access rule of each route."""
    from dokimos.server import ServerSettings, create_app
    from dokimos.server._api.http.access import rule_of
    from dokimos.server._api.http.error_responses import list_routes

    app = create_app(ServerSettings())
    rules = {
        (route.path_format, method): rule_of(route.endpoint).name
        for route in list_routes(app)
        for method in route.methods or ()
    }
    return app.openapi(), rules


def route(path, method, operation, rule):
    parts = [
        f"### {method.upper()} {code(path)}",
        paragraph(operation.get("description", operation.get("summary", ""))),
        f"Role: {ROLES[rule]}.",
        parameters_of(operation),
        body_of(operation),
        answers_of(operation["responses"]),
    ]
    return "\n\n".join(part for part in parts if part)


def paragraph(text):
    return " ".join(text.replace("<", "&lt;").split())


def parameters_of(operation):
    rows = [
        (
            code(each["name"]),
            each["in"],
            kind_of(each.get("schema", {})) + default_of(each.get("schema", {})),
            "required" if each.get("required") else "",
            paragraph(each.get("description", "")),
        )
        for each in operation.get("parameters", ())
    ]
    return table(["Parameter", "In", "Takes", "", "Meaning"], rows) if rows else ""


def body_of(operation):
    contents = operation.get("requestBody", {}).get("content", {})
    kinds = [f"{kind_of(content.get('schema', {}))} ({media})" for media, content in contents.items()]
    return f"Body: {', or '.join(kinds)}." if kinds else ""


def answers_of(responses):
    """Return what the route answers: the shape of what it has done, and the errors that it can answer."""
    answers = [answer_of(*each) for each in sorted(responses.items()) if each[0] < "400"]
    errors = [error_of(*each) for each in sorted(responses.items()) if each[0] >= "400"]
    lines = [f"Answer: {', '.join(answers)}."]
    return "\n\n".join([*lines, f"Errors: {', '.join(errors)}."] if errors else lines)


def answer_of(status, response):
    text = paragraph(response["description"].replace(UNSAID, "")).rstrip(".")
    return f"{code(status)} {answer_kind(response)}" + (f" ({text})" if text else "")


def error_of(status, response):
    """Return an error, with what it means where that is not the usual."""
    text = response["description"].rstrip(".")
    return (
        code(status) if text == usual_errors()[status].rstrip(".") else f"{code(status)} ({paragraph(text)})"
    )


@cache
def usual_errors():
    """Return what each error means on most routes."""
    counts = {}
    for operations in describe_server()[0]["paths"].values():
        for operation in operations.values():
            for status, response in operation["responses"].items():
                if status >= "400":
                    counts.setdefault(status, Counter())[response["description"]] += 1
    return {status: texts.most_common(1)[0][0] for status, texts in sorted(counts.items())}


def answer_kind(response):
    contents = response.get("content", {})
    schema = contents.get(JSON, {}).get("schema")
    if schema is not None:
        return kind_of(schema)
    return ", ".join(contents) or "empty"


def shape(name, schema):
    required = schema.get("required", ())
    rows = [
        (
            code(key),
            kind_of(value) + default_of(value),
            "required" if key in required else "",
            paragraph(value.get("description", "")),
        )
        for key, value in schema.get("properties", {}).items()
    ]
    fields = table(["Field", "Takes", "", "Meaning"], rows) if rows else f"{kind_of(schema)}"
    return "\n\n".join(
        part for part in (f"### {name}", paragraph(schema.get("description", "")), fields) if part
    )


def kind_of(schema):
    """Say what a value is, with links to the shapes."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{anchor(name)})"
    if "enum" in schema:
        return ", ".join(map(code, without_directions(schema["enum"])))
    if "const" in schema:
        return code(schema["const"])
    options = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if options:
        return " or ".join(dict.fromkeys(map(kind_of, options)))
    if schema.get("type") == "array":
        return f"list of {kind_of(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict) and "properties" not in schema:
        return f"map to {kind_of(schema['additionalProperties'])}"
    return word_of(schema) + bounds(schema)


def without_directions(options):
    """Leave out `name,asc` and `name,desc` beside `name`: what each parameter of this kind says of itself."""
    orders = {f"{option}{direction}" for option in options for direction in (",asc", ",desc")}
    return [option for option in options if option not in orders]


def word_of(schema):
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(WORDS.get(each, each) for each in kind)
    text = WORDS.get(kind, kind or "anything")
    return f"{text} ({schema['format']})" if "format" in schema else text


def bounds(schema):
    low = schema.get("minimum", schema.get("minLength", schema.get("exclusiveMinimum")))
    high = schema.get("maximum", schema.get("maxLength"))
    if low is not None and high is not None:
        return f", {low} to {high}"
    if low is not None:
        return f", at least {low}" if "exclusiveMinimum" not in schema else f", above {low}"
    return "" if high is None else f", at most {high}"


def default_of(schema):
    default = schema.get("default")
    return "" if default in (None, [], {}) else f" (default {code(json.dumps(default))})"


def anchor(name):
    return name.lower().replace(" ", "-")
