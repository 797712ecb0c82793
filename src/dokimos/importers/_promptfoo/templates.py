"""Templates of promptfoo, rendered for suites."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from dokimos.importers._promptfoo.conversion_notes import Notes
from dokimos.importers._promptfoo.nunjucks.rendering import (
    is_template,
    is_unfinished,
    names_environment_only,
    render_nunjucks,
)
from dokimos.importers._promptfoo.nunjucks.values import (
    EnvironmentText,
    FileMap,
    TemplateRefused,
    from_data,
    to_text,
)

_CLOSING: Final = re.compile(r"\}\}|%\}|#\}")
_HOLE: Final = re.compile(r"\{\{\s*(\w+)\s*\}\}", re.ASCII)
_PART: Final = re.compile(r"\$[$&`']")
_PLACEHOLDER: Final = re.compile(r"\$\$\{|(\$\{)")
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


def render_text(text: str, variables: Mapping[str, Any], notes: Notes, *, nested: bool = False) -> str:
    """Return a text with its templates filled in; `env.NAME` becomes a variable of the suite.

    In a prompt (`nested`), variables that are templates are filled in before.

    Raises:
        TemplateRefused: They cannot be filled in as promptfoo does.
    """
    rendered = _fill(text, variables, notes, nested=nested)
    joined, pending = "", ""
    for part in (rendered,) if isinstance(rendered, str) else rendered.parts:
        if isinstance(part, str):
            pending += part  # escaped together: `$` and `{` may come from two values
            continue
        if pending.endswith("$"):
            raise _refuse(
                text,
                "a $ stands before a variable of the environment, and a suite would take both for a text",
            )
        # With an empty default, as in promptfoo, where a variable that is not set is empty.
        joined += f"{escape(pending)}${{{part.name}:-{part.default}}}"
        pending = ""
    return joined + escape(pending)


def render_program(text: str, variables: Mapping[str, Any], notes: Notes) -> str:
    """Return a program with its templates filled in.

    Raises:
        TemplateRefused: They cannot be filled in, or need the environment, which programs are not given.
    """
    rendered = _fill(text, variables, notes, nested=False)
    if isinstance(rendered, EnvironmentText):
        raise _refuse(text, "it puts a variable of the environment into a program")
    return rendered


def _fill(text: str, variables: Mapping[str, Any], notes: Notes, *, nested: bool) -> str | EnvironmentText:
    if not is_template(text):
        return text
    if is_unfinished(text):
        if _CLOSING.search(text) is None:
            return text
        raise _refuse(text, "a tag does not end on its line, and promptfoo may take the text for plain")
    empty: list[str] = []
    try:
        rendered = render_nunjucks(text, variables, empty.append, nested=nested)
    except TemplateRefused as refused:
        raise _refuse(text, str(refused)) from None
    for tag in empty:
        notes.lose(f"the template {tag} has no value and is left empty")
    return rendered


def _refuse(text: str, why: str) -> TemplateRefused:
    start = f"{' '.join(text.split())!r:.60}"
    return TemplateRefused(f"the template {start} cannot be rendered: {why}")


def resolve_nested(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return variables with those filled in that others name, and without the newline that a text ends in.

    As promptfoo does: in each pass the first name of each text, and not more than five times.

    Raises:
        TemplateRefused: A list that is named holds what cannot be written.
    """
    resolved = {name: _without_newline(value) for name, value in variables.items()}
    for _ in range(MOST_PASSES):
        before = dict(resolved)
        for name, value in before.items():
            resolved[name] = _with_first(value, resolved)
        if resolved == before:
            break
    return resolved


def _without_newline(value: object) -> object:
    return value.removesuffix("\n") if isinstance(value, str) else value


def _with_first(value: object, variables: Mapping[str, Any]) -> object:
    hole = _HOLE.search(value) if isinstance(value, str) else None
    if hole is None or hole[1] not in variables:
        return value
    other = variables[hole[1]]
    if isinstance(other, Mapping) and not isinstance(other, FileMap):
        return value
    before, after = hole.string[: hole.start()], hole.string[hole.end() :]
    # What replaces a text in JavaScript may name parts of it.
    parts = {"$$": "$", "$&": hole[0], "$`": before, "$'": after}
    return before + _PART.sub(lambda part: parts[part[0]], to_text(from_data(other))) + after


def render_or_escape(value: Any) -> Any:
    """Return variables as programs read them, ready to stand in a suite; what is not a template stays."""
    if isinstance(value, Mapping):
        return {str(key): render_or_escape(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [render_or_escape(entry) for entry in value]
    if not isinstance(value, str):
        return value
    # Of its templates, promptfoo has filled in those of the environment before programs see a variable.
    try:
        return render_text(value, {}, Notes()) if names_environment_only(value) else escape(value)
    except TemplateRefused:
        return escape(value)


def escape(text: str) -> str:
    """Return a text in which a suite sees no variable of its own."""
    return text.replace("${", "$${")


def escape_all(value: Any) -> Any:
    """Return a value in whose texts a suite sees no variable of its own."""
    if isinstance(value, Mapping):
        return {str(key): escape_all(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [escape_all(entry) for entry in value]
    return escape(value) if isinstance(value, str) else value


def unescape(text: str) -> str:
    """Return a text before it was made safe for a suite; patterns are made of it.

    Raises:
        TemplateRefused: It has a variable of the suite, of which no pattern can be made.
    """
    if any(found[1] for found in _PLACEHOLDER.finditer(text)):
        raise TemplateRefused("a variable of the environment cannot become part of a pattern")
    return text.replace("$${", "${")


def join_texts(texts: Iterable[str]) -> str:
    """Return rendered texts as one, in which a suite sees no variable that is in none of them.

    Raises:
        TemplateRefused: A `$` at the end of one would take a variable of the next for a text.
    """
    joined = ""
    for text in texts:
        if joined.endswith("$") and text.startswith("{"):
            joined += "$"
        elif joined.endswith("$") and text.startswith("${"):
            raise TemplateRefused("a $ stands before a variable of the environment")
        joined += text
    return joined
