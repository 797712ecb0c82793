"""HTTP providers of promptfoo: requests with a body of their own."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from dokimos._http.body import LIMIT_VARIABLE, TooLarge, Undecodable, max_reply_bytes, read_body
from dokimos._http.credentials import redact, redact_url, secrets_of_headers
from dokimos._http.offline import refuse_when_offline
from dokimos.errors import AgentError, ConfigurationError, EvaluationError
from dokimos.importers._promptfoo.files import folder_of_caller
from dokimos.importers._promptfoo.javascript import transform_by_javascript
from dokimos.importers._promptfoo.nunjucks.rendering import is_template, render_nunjucks
from dokimos.importers._promptfoo.nunjucks.values import EnvironmentText, TemplateRefused
from dokimos.suites._targets import select_leaf

_SHOWN: Final = 300
"""Characters of a refusal that an error quotes."""


def http_provider(
    url: str,
    *,
    method: str | None = None,
    headers: Mapping[str, str] | None = None,
    body: Any = None,
    query: Mapping[str, Any] | None = None,
    output_path: str | None = None,
    transform: str | None = None,
) -> Callable[[str], Any]:
    """Return an application that sends requests as an HTTP provider of promptfoo does.

    `{{prompt}}` and `{{env.NAME}}` are filled in in the texts of its url, headers, body and query.

    Args:
        url: Where requests go.
        method: POST by default where there is a body, else GET.
        headers: Headers of the request.
        body: A text, or a structure that is sent as JSON.
        query: Parameters of the query.
        output_path: Where the reply is in the JSON of an answer, such as `choices[0].text`.
        transform: Instead, a JavaScript expression of `json`, `text` and `context`, or `file://name.js`, that
            makes the reply of an answer. Without both, the reply is the answer.

    Raises:
        ConfigurationError: A template in them cannot be filled in.

    Example:
        >>> ask = http_provider(
        ...     "http://localhost:8000/ask", body={"question": "{{prompt}}"}, output_path="answer"
        ... )
    """
    template = {"url": url, "headers": dict(headers or {}), "body": body, "query": dict(query or {})}
    _fill(template, "")  # what cannot be filled in is said before the run
    method = method or ("GET" if body is None else "POST")
    folder = folder_of_caller()

    async def answer(input: str) -> Any:
        status, text = await _send(method, _fill(template, input))
        if output_path is not None:
            return select_leaf(_read_json(text), output_path)
        return await _make_reply(text, status, transform, folder)

    return answer


async def _make_reply(text: str, status: int, transform: str | None, folder: Path) -> Any:
    data = _read_json(text)
    content = text if data is None else data
    if transform is None:
        return content
    given = {"json": data, "text": text, "context": {"response": {"status": status, "data": content}}}
    try:  # in a thread: Node takes a moment
        return await asyncio.to_thread(transform_by_javascript, transform, folder, given)
    except EvaluationError as error:
        raise AgentError(str(error)) from None


async def _send(method: str, sent: Mapping[str, Any]) -> tuple[int, str]:
    """Return the status and the text of an answer. Raises `AgentError` for a refusal and for none."""
    import aiohttp

    label = f"the agent at {redact_url(sent['url'])}"
    refuse_when_offline(sent["url"], label, AgentError)
    content: dict[str, Any] = {}
    if sent["body"] is not None:
        text = sent["body"] if isinstance(sent["body"], str) else json.dumps(sent["body"], ensure_ascii=False)
        content["data"] = text.encode("utf-8", "backslashreplace")
    headers = dict(sent["headers"])
    secrets = secrets_of_headers(headers)
    if content and "content-type" not in {name.lower() for name in headers}:
        headers["Content-Type"] = _content_type(sent["body"])
    query = {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in sent["query"].items()
    }
    try:
        async with (
            # The task enforces `llm_timeout`, around the whole reply.
            aiohttp.ClientSession(
                trust_env=True, timeout=aiohttp.ClientTimeout(600), auto_decompress=False
            ) as session,
            # Redirects would take the headers, and the keys in them, elsewhere.
            session.request(
                method, sent["url"], headers=headers, params=query or None, allow_redirects=False, **content
            ) as answer,
        ):
            encoding = answer.headers.get("Content-Encoding", "")
            raw = await read_body(answer.content.iter_any(), encoding, max_reply_bytes())
            status, text = answer.status, raw.decode(answer.charset or "utf-8", "replace")
    except (aiohttp.ClientError, OSError, LookupError, ValueError, TooLarge, Undecodable) as error:
        raise AgentError(f"{label} cannot be asked: {redact(_explain(error), secrets)}") from None
    if not 200 <= status < 300:
        raise AgentError(f"{label} answered with status {status}: {redact(text, secrets)[:_SHOWN]}")
    return status, text


def _explain(error: Exception) -> str:
    if isinstance(error, TooLarge):
        return f"its answer is larger than {LIMIT_VARIABLE} allows"
    if isinstance(error, Undecodable):
        return "its answer is not compressed as it says"
    return str(error) or type(error).__name__


def _read_json(text: str) -> Any:
    """Return what a text in JSON says, None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _content_type(body: object) -> str:
    is_json = not isinstance(body, str) or _read_json(body) is not None
    return "application/json" if is_json else "text/plain; charset=utf-8"


def _fill(value: Any, prompt: str) -> Any:
    """Return a value with the templates in its texts filled in."""
    if isinstance(value, Mapping):
        return {key: _fill(each, prompt) for key, each in value.items()}
    if isinstance(value, list):
        return [_fill(each, prompt) for each in value]
    if not isinstance(value, str) or not is_template(value):
        return value
    empty: list[str] = []
    try:
        text = render_nunjucks(value, {"prompt": prompt}, empty.append)
    except TemplateRefused as refused:
        raise ConfigurationError(f"the template {value!r:.80} cannot be filled in: {refused}") from None
    if isinstance(text, EnvironmentText):
        parts = (
            part if isinstance(part, str) else os.environ.get(part.name, part.default) for part in text.parts
        )
        return "".join(parts)
    return text
