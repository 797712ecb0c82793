"""Templates of promptfoo: those that only put values in, and others by way of Jinja2."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from dokimos.importers._promptfoo.conversion_notes import Notes
from dokimos.importers._promptfoo.nunjucks import TemplateRefused, render_nunjucks, restore_environment

_OTHER_TAGS: Final = re.compile(r"\{%|\{#.*?#\}", re.DOTALL)
_HOLE: Final = re.compile(r"\{\{-?\s*(.+?)\s*-?\}\}", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:\.\w+|\[(?:\d+|\"[^\"]*\"|'[^']*')\])*")
_STEP: Final = re.compile(r"\w+")
_FILTERS: Final[dict[str, Callable[[str], str]]] = {
    "trim": str.strip,
    "upper": str.upper,
    "lower": str.lower,
    "safe": str,
    "dump": json.dumps,
    "capitalize": str.capitalize,
}
_ENV: Final = "env."
MOST_PASSES: Final = 5


def render(value: object, variables: Mapping[str, Any], notes: Notes) -> Any:
    """Return a value with the templates in all its texts filled in, ready to stand in a suite.

    Raises:
        TemplateRefused: One of them cannot be filled in as promptfoo does.
    """
    if isinstance(value, str):
        return render_text(value, variables, notes)
    if isinstance(value, Mapping):
        return {str(key): render(entry, variables, notes) for key, entry in value.items()}
    if isinstance(value, list):
        return [render(entry, variables, notes) for entry in value]
    return value


def render_text(text: str, variables: Mapping[str, Any], notes: Notes) -> str:
    """Return a text with its templates filled in; `env.NAME` becomes a variable of the suite.

    Raises:
        TemplateRefused: They cannot be filled in as promptfoo does.
    """
    if not _is_template(text):
        return escape(text)
    if _OTHER_TAGS.search(text) or not all(map(_is_simple, _HOLE.findall(text))):
        return _render_program(text, variables)
    parts, end = [], 0
    for hole in _HOLE.finditer(text):
        parts += [escape(text[end : hole.start()]), _fill(hole, variables, notes)]
        end = hole.end()
    return "".join([*parts, escape(text[end:])])


def _render_program(text: str, variables: Mapping[str, Any]) -> str:
    """Return a template with conditions, loops or expressions filled in."""
    try:
        rendered = render_nunjucks(text, variables)
        if _is_template(rendered):  # promptfoo renders once more what values have brought
            rendered = render_nunjucks(rendered, variables)
    except TemplateRefused as refused:
        start = f"{' '.join(text.split())!r:.60}"
        raise TemplateRefused(f"the template {start} cannot be rendered: {refused}") from None
    return restore_environment(escape(rendered))


def _is_template(text: str) -> bool:
    return "{{" in text or _OTHER_TAGS.search(text) is not None


def _is_simple(expression: str) -> bool:
    """Whether an expression is the name of a value, with filters that need no Jinja2."""
    name, *filters = (part.strip() for part in expression.split("|"))
    if _NAME.fullmatch(name) is None or name.endswith(".length"):
        return False
    return all(one in _FILTERS for one in filters) and not (name.startswith(_ENV) and filters)


def resolve_nested(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return variables with those filled in that others name."""
    resolved = dict(variables)
    # With an end, since variables may name each other in a circle.
    for _ in range(MOST_PASSES):
        filled = {name: _with_others(value, resolved) for name, value in resolved.items()}
        if filled == resolved:
            break
        resolved = filled
    return resolved


def _with_others(value: object, variables: Mapping[str, Any]) -> Any:
    if not isinstance(value, str) or "{{" not in value:
        return value

    def fill(hole: re.Match[str]) -> str:
        other = _look_up(hole[1], variables) if _NAME.fullmatch(hole[1]) else None
        return other if isinstance(other, str) and other != value else hole[0]

    return _HOLE.sub(fill, value)


def render_or_escape(value: Any) -> Any:
    """Return variables as programs read them, ready to stand in a suite; what is not a template stays."""
    if isinstance(value, Mapping):
        return {str(key): render_or_escape(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [render_or_escape(entry) for entry in value]
    try:
        return render(value, {}, Notes())  # losses were noted before
    except TemplateRefused:
        return escape(value)


def escape(text: str) -> str:
    """Return a text in which a suite sees no variable of its own."""
    return text.replace("${", "$${")


def _fill(hole: re.Match[str], variables: Mapping[str, Any], notes: Notes) -> str:
    name, *filters = (part.strip() for part in hole[1].split("|"))
    if name.startswith(_ENV):
        # With an empty default, as in promptfoo, where a variable that is not set is empty.
        return f"${{{name.removeprefix(_ENV)}:-}}"
    value = _look_up(name, variables)
    if value is None:
        notes.lose(f"the template {hole[0]} has no value and is left empty")
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    for one in filters:
        text = _FILTERS[one](text)
    return escape(text)


def _look_up(name: str, variables: Mapping[str, Any]) -> Any:
    value: Any = variables
    for step in _STEP.findall(name):
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value
