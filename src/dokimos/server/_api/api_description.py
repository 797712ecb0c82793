"""The OpenAPI description: what the framework derives from the routes, and what only this server knows."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from dokimos._version import __version__
from dokimos.server._api.http.access import SESSION_COOKIE, Access, rule_of
from dokimos.server._api.http.error_responses import list_routes
from dokimos.server._api.http.json_body import BODY_SCHEMAS

_TEXT: Final = {"type": "string"}
_ERROR: Final = {
    "type": "object",
    "description": "Why a request was refused.",
    "properties": {
        "error": _TEXT,
        "message": _TEXT,
        "timestamp": {"type": "string", "format": "date-time"},
        "requestId": {"type": "string", "description": "With 500 alone: what the log has its reason under."},
    },
    "required": ["error", "message", "timestamp"],
}
_OTLP_STATUS: Final = {
    "type": "object",
    "properties": {"code": {"type": "integer"}, "message": _TEXT},
    "required": ["code", "message"],
}
_ACCESS_ERROR: Final = {
    "type": "object",
    "description": "That a key is missing, or that its role is too low.",
    "properties": {"error": _TEXT},
    "required": ["error"],
}
_SECURITY: Final = {
    "key": {"type": "http", "scheme": "bearer"},
    "session": {"type": "apiKey", "in": "cookie", "name": SESSION_COOKIE},
}
_OPTIONAL: Final[list[dict[str, list[str]]]] = [{}, {"key": []}, {"session": []}]
"""An open server asks for no key, and reading needs none unless the settings say so."""

_DATASETS: Final = "/api/v1/datasets"
_CREATED: Final[dict[tuple[str, str, str], dict[str, str]]] = {
    ("/api/v1/projects/{name}/runs", "post", "201"): {"runId": "$response.body#/runId"},
    ("/api/v1/runs/{runId}/comments", "post", "201"): {
        "commentId": "$response.body#/id",
        "runId": "$request.path.runId",
    },
    (_DATASETS, "post", "201"): {"name": "$response.body#/name"},
    (f"{_DATASETS}/{{name}}/versions", "post", "201"): {
        "version": "$response.body#/version",
        "name": "$response.body#/datasetName",
    },
    ("/api/v1/views", "post", "201"): {"viewId": "$response.body#/id"},
    ("/api/v1/api-keys", "post", "201"): {"keyId": "$response.body#/apiKey/id"},
}
"""What an answer creates, and where in it the parameters of other routes are, the new one first."""


_NAMING: Final = (
    "/promote",
    "/views",
    "/review-queue",
    "/claim",
    "/assign",
    "/progress",
    "/traces",
    "/trace-sessions",
)
"""Ends of paths without parameters whose requests still name something."""


def describe_api(app: FastAPI, root_path: str = "") -> dict[str, Any]:
    """Return the OpenAPI description of an application, below a path of another site where it has one."""
    servers = [{"url": root_path}] if root_path else None
    schema = get_openapi(title="dokimos", version=__version__, routes=app.routes, servers=servers)
    components = schema.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name, describe in BODY_SCHEMAS.items():
        body = describe()
        schemas.update(body.pop("$defs", {}))
        schemas[name] = body
    for name in ("HTTPValidationError", "ValidationError"):  # of the framework; our answers are others
        schemas.pop(name, None)
    schemas |= {"Error": _ERROR, "AccessError": _ACCESS_ERROR, "OtlpStatus": _OTLP_STATUS}
    components["securitySchemes"] = _SECURITY
    rules = {
        (route.path_format, method): rule_of(route.endpoint)
        for route in list_routes(app)
        for method in route.methods or ()
    }
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            rule = rules[path, method.upper()]
            if rule is not Access.PUBLIC:
                operation["security"] = _OPTIONAL
            operation["responses"].pop("422", None)
            operation["responses"] |= _errors(path, method, rule, has_body="requestBody" in operation)
            if any(each["name"].lower() == "if-match" for each in operation.get("parameters", ())):
                operation["responses"]["412"] = _describe_error(412, "It has another version by now.")
    _link(schema["paths"])
    return schema


def _link(paths: dict[str, Any]) -> None:
    """Say which routes take what another one has created."""
    for (creator, method, code), known in _CREATED.items():
        links = {}
        for path, operations in paths.items():
            needed = {part[1:-1] for part in path.split("/") if part.startswith("{")}
            is_of_datasets = path.startswith(_DATASETS) == creator.startswith(_DATASETS)
            if needed and needed <= known.keys() and next(iter(known)) in needed and is_of_datasets:
                for operation in operations.values():
                    links[operation["operationId"]] = {
                        "operationId": operation["operationId"],
                        "parameters": {name: known[name] for name in needed},
                    }
        paths[creator][method]["responses"][code]["links"] = links


def _errors(path: str, method: str, rule: Access | None, *, has_body: bool) -> dict[str, Any]:
    """The errors that a route may answer, by their codes."""
    if path.startswith("/actuator/"):
        return {"503": {"description": "It is down, or not ready."}} if "health" in path else {}
    codes = {
        400: "A value cannot be used; the message names it.",
        431: "The address or the headers are too long.",
        500: "The server failed.",
        503: "It cannot be done at the moment; Retry-After says when to try again.",
    }
    if rule is not Access.PUBLIC or "session" in path:
        codes |= {
            401: "A key is needed, or the one given is wrong.",
            403: "The role of the key is too low.",
            429: "Too many requests with this key, or wrong keys from this address; Retry-After says when "
            "to try again.",
        }
    names_something = path.endswith(_NAMING)
    if "{" in path or names_something or "/oidc/" in path:
        codes[404] = "Something that the request names does not exist."
    if method != "get" or path.endswith(("/diff", "/agent-trace", "/conversation")):
        codes[409] = "The state of things forbids it, or another request was quicker."
    if has_body:
        codes |= {
            408: "The body did not arrive in time.",
            413: "The body is too large.",
            415: "The body is neither declared as JSON nor sent with a key.",
        }
    if path.endswith("/export"):
        codes[415] = "The server lacks what writes such files."
    if path.startswith("/v1/"):  # whoever exports to it reads errors as OTLP has them
        content = {
            "application/json": {"schema": {"$ref": "#/components/schemas/OtlpStatus"}},
            "application/x-protobuf": {"schema": {"type": "string", "format": "binary"}},
        }
        return {str(code): {"description": text, "content": content} for code, text in sorted(codes.items())}
    return {str(code): _describe_error(code, text) for code, text in sorted(codes.items())}


def _describe_error(code: int, text: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"$ref": "#/components/schemas/Error"}
    if code == 401:
        schema = {"$ref": "#/components/schemas/AccessError"}
    elif code == 403:  # a closed row has the longer one
        schema = {"anyOf": [schema, {"$ref": "#/components/schemas/AccessError"}]}
    return {"description": text, "content": {"application/json": {"schema": schema}}}
