"""The parts that every HTML page is made of: the page, its policy, cards and cells."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Final

from dokimos._core.markup import (
    Content,
    Html,
    document,
    isolate_text,
    join,
    script_element,
    style_element,
    tag,
)

LIST_SCRIPTS: Final = ("report_parts.js", "report_text.js", "report_list.js")
"""What a page with a list of items builds on."""


def page(
    title: str, body: Content, *, style: str, script: str = "", skip: Content = None, data: Content = None
) -> str:
    """Return a whole page that loads nothing, and runs no style and script but these.

    Args:
        title: The title.
        body: The content of `main`.
        style: The style sheet.
        script: The script, if there is one.
        skip: A link to skip to the content.
        data: What stands before the script.
    """
    head = join(
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        style_element(style),
    )
    code = script_element(script) if script else None
    return document(head, join(skip, tag("main", "\n", body), "\n", data, code))


def asset(name: str, package: str = "dokimos.exporters") -> str:
    """Return a file that belongs to a package of ours."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def bundle_scripts(*scripts: str) -> str:
    """Bundle scripts into one that adds nothing to the page's global namespace."""
    body = "\n".join(scripts)
    return f'"use strict";\n(() => {{\n{body}}})();\n'


def _policy(style: str, script: str) -> str:
    """Nothing is loaded, only our own style and script run, and none of it makes elements of text."""
    scripts = _digest(script) if script else "'none'"
    return (
        f"default-src 'none'; style-src {_digest(style)}; script-src {scripts}; "
        # What default-src does not cover, and no HTML from text: foreign texts are shown, never parsed.
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def card(label: str, value: str, note: Content, extra: Content = None) -> Html:
    """Return one of the figures at the top."""
    return tag(
        "div",
        tag("h2", label),
        tag("p", value, class_="value"),
        extra,
        tag("p", note, class_="note"),
        class_="card",
    )


def cards(*card_elements: Html) -> Html:
    """Return the figures at the top."""
    return tag("section", *card_elements, class_="cards", aria_label="Summary")


def head_cell(label: Content, kind: str | None = None, title: str | None = None) -> Html:
    """Return the head of a column."""
    return tag("th", label, scope="col", class_=kind, title=title)


def number_cell(value: float | None, text: Content, kind: str = "") -> Html:
    """Return a cell of a table that sorts by its number."""
    return tag("td", text, class_=f"num {kind}".rstrip(), data_sort="" if value is None else value)


def notices(texts: tuple[str, ...] | list[str]) -> Html | None:
    """Return the warnings, None where there are none."""
    if not texts:
        return None
    lines = [tag("li", isolate_text(text)) for text in texts]
    return tag("section", tag("h2", "Warnings"), tag("ul", lines), class_="warnings")
