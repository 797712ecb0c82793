"""The parsed and checked body of a request, as a dependency of a route."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel
from starlette.requests import Request

from dokimos.server._api.http.access import bearer_token
from dokimos.server._api.http.error_responses import describe_problem
from dokimos.server._api.http.json_text import parse_json
from dokimos.server._api.http.request_body import check_is_json, read_body
from dokimos.server._services.errors import InvalidRequestError

M = TypeVar("M", bound="WireModel")


class WireModel(BaseModel):
    """A body or an answer, camelCase on the wire; unknown fields are ignored: newer clients may send them."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, strict=True, allow_inf_nan=False
    )
    texts_as_json: ClassVar[tuple[str, ...]] = ()
    """Fields whose text is stored as JSON, which holds NUL and half a character escaped."""


class StrictBody(WireModel):
    """A body that only this server has: an unknown field is a mistake, which must not go unseen."""

    model_config = ConfigDict(extra="forbid")


_THREAD_BYTES: Final = 1024 * 1024
"""Bytes from which a body is parsed in a thread: looking for a fault in it can take a second."""
BODY_SCHEMAS: Final[dict[str, Callable[[], dict[str, Any]]]] = {}
"""The schemas of all bodies by name; the framework does not see them, so `api_description` adds them."""


def json_body(model: type[M], *, may_be_empty: bool = False) -> Callable[[Request], Awaitable[M]]:
    """Return a dependency that reads the body of a request as `model`; an empty one as `{}`, if it may be so.

    Raises:
        InvalidRequestError: The body is not JSON, or not such JSON; the message names the first field at
        fault. BodyTooLargeError: It is over the limit of the settings. UnsupportedMediaError: It is not
        declared as JSON, and a browser could have been made to send it.
    """

    async def read(request: Request) -> M:
        value = await read_json(request, may_be_empty=may_be_empty)
        try:
            body = model.model_validate(value)
        except ValidationError as error:
            raise InvalidRequestError(describe_problem(error.errors(include_url=False)[0])) from None
        _check_texts(body, "")
        return body

    return read


async def read_json(request: Request, *, may_be_empty: bool = False) -> Any:
    """Return the body of a request as parsed JSON; `{}` for an empty one, where it may be so."""
    if not may_be_empty:
        check_is_json(request, has_bearer=bearer_token(request) is not None)
    body = await read_body(request, request.app.state.settings.max_body_bytes)
    if may_be_empty:
        if not body:
            return {}
        check_is_json(request, has_bearer=bearer_token(request) is not None)
    if len(body) < _THREAD_BYTES:
        return parse_json(body)
    return await asyncio.to_thread(parse_json, body)


def describe_body(
    model: type[WireModel] | TypeAdapter[Any], name: str = "", *, may_be_empty: bool = False
) -> dict[str, Any]:
    """Return the `openapi_extra` of a route whose body is `model`; an adapter needs a name."""
    template = "#/components/schemas/{model}"
    if isinstance(model, TypeAdapter):
        BODY_SCHEMAS[name] = partial(model.json_schema, ref_template=template)
    else:
        name = model.__name__
        BODY_SCHEMAS[name] = partial(model.model_json_schema, ref_template=template)
    reference = {"$ref": template.format(model=name)}
    return {
        "requestBody": {"required": not may_be_empty, "content": {"application/json": {"schema": reference}}}
    }


def _check_texts(value: object, path: str) -> None:
    """Refuse texts that a column of text cannot hold; what is stored as JSON holds them escaped."""
    if isinstance(value, str):
        if "\0" in value or any("\ud800" <= sign <= "\udfff" for sign in value):
            raise InvalidRequestError("must not contain NUL or half a character", field=path)
    elif isinstance(value, WireModel):
        for name, part in value:
            if name in value.texts_as_json:
                continue
            alias = type(value).model_fields[name].alias or name
            _check_texts(part, f"{path}.{alias}" if path else alias)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            _check_texts(part, f"{path}[{index}]")
