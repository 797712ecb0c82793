"""HTTP providers of promptfoo as endpoints of a suite, or as programs that send their requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from dokimos.importers._promptfoo.conversion_notes import Notes
from dokimos.importers._promptfoo.nunjucks.rendering import is_template, render_nunjucks
from dokimos.importers._promptfoo.nunjucks.values import EnvironmentText, TemplateRefused
from dokimos.importers._promptfoo.programs import Programs
from dokimos.importers._promptfoo.shapes import ENDPOINT, check_shape
from dokimos.importers._promptfoo.templates import render

_LEAF: Final = re.compile(r"(?:json|data)\.([A-Za-z_][\w.\[\]-]*)")
_READ: Final = frozenset(
    {"url", "method", "headers", "body", "queryParams", "transformResponse", "responseParser", "request"}
)
_SECRET: Final = re.compile(r"authorization|cookie|secret|token|api-?key|password", re.IGNORECASE)
"""Names of headers whose values are keys."""


def convert_endpoint(url: str, config: Mapping[str, Any], notes: Notes, programs: Programs) -> dict[str, Any]:
    """Return an HTTP provider as the agent of a suite.

    One that posts no body of its own becomes an endpoint, which gets the JSON of suites.

    Raises:
        TemplateRefused: A template in it cannot be filled in, or needs a variable of the test.
        ConfigurationError: A part of it has the wrong shape.
    """
    check_shape(config, ENDPOINT, f"the provider {url}")
    left = sorted(set(config) - _READ)
    if left:
        notes.lose(f"an http provider: its settings {', '.join(left)}")
    if config.get("request"):
        notes.lose(
            "an http provider: a raw request; it gets the JSON of suites, {input, messages, session_id}"
        )
    headers = _headers(config.get("headers") or {}, notes)
    method, body, query = config.get("method"), config.get("body"), config.get("queryParams")
    reply = _reply_settings(config)
    if body is None and not query and method in (None, "POST") and "transform" not in reply:
        written = {name: render(value, {}, notes) for name, value in headers.items()}
        return {"url": render(url, {}, notes), **({"headers": written} if written else {}), **reply}
    for template in (url, headers, body, query):
        _check_templates(template)
    notes.change("an http provider: a program beside the suite sends its requests")
    method = None if method is None else str(method).upper()
    return programs.http_provider(
        url, method=method, headers=headers or None, body=body, query=query, **reply
    )


def _reply_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the reply is taken out of an answer."""
    program = str(config.get("transformResponse") or config.get("responseParser") or "").strip()
    if not program:
        return {}
    leaf = _LEAF.fullmatch(program)
    return {"transform": program} if leaf is None else {"output_path": leaf[1]}


def _headers(headers: Mapping[str, Any], notes: Notes) -> dict[str, str]:
    kept = {}
    for name, value in headers.items():
        # A suite is committed to a repository, so a key in the clear is left out of it.
        if _SECRET.search(str(name)) and not _names_environment(str(value)):
            notes.lose(f"the header {name} of an http provider, whose value stands in the file: "
                       f"write {{{{env.NAME}}}} there, and the key into the environment")  # fmt: skip
        else:
            kept[str(name)] = str(value)
    return kept


def _names_environment(text: str) -> bool:
    try:
        return is_template(text) and isinstance(render_nunjucks(text, {}), EnvironmentText)
    except TemplateRefused:
        return False


def _check_templates(value: Any) -> None:
    """Refuse what cannot be filled in when a request is sent, which knows only the prompt."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            _check_templates(each)
    elif isinstance(value, str) and is_template(value):
        unknown: list[str] = []
        render_nunjucks(value, {"prompt": "prompt"}, unknown.append)
        if unknown:
            raise TemplateRefused(
                f"its request needs {unknown[0]}, and knows only the prompt and the environment"
            )
