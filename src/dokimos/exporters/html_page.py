"""The parts that every HTML report is made of: the page, its policy, and text that is only ever text."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib.resources import files


def page(title: str, body: str, *, style: str, script: str = "", skip: str = "", data: str = "") -> str:
    """Return a whole page that loads nothing, and runs no style and script but these.

    Args:
        title: The title, as it is.
        body: The content of `main`, in HTML.
        style: The style sheet.
        script: The script, if there is one.
        skip: A link to skip to the content, in HTML.
        data: What stands before the script, in HTML.
    """
    code = f"{data}<script>{script}</script>\n" if script else data
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(style, script)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{safe(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f"{skip}<main>\n{body}</main>\n{code}</body>\n</html>\n"
    )


def asset(name: str, package: str = "dokimos.exporters") -> str:
    """Return a file that belongs to a package of ours."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def bundled(*scripts: str) -> str:
    """Return scripts as one, which leaves nothing in the page's namespace."""
    body = "\n".join(scripts)
    return f'"use strict";\n(() => {{\n{body}}})();\n'


def _policy(style: str, script: str) -> str:
    """Nothing is loaded, and only our own style and script run."""
    scripts = _digest(script) if script else "'none'"
    return (
        f"default-src 'none'; style-src {_digest(style)}; script-src {scripts}; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def safe(text: str) -> str:
    """Return text with nothing in it that could be markup."""
    return escape(text, quote=True)


def foreign(text: str) -> str:
    """Return text that is not ours: escaped, and kept from turning around what stands beside it."""
    return f"<bdi>{safe(text)}</bdi>"


def card(label: str, value: str, note: str, extra: str = "") -> str:
    """Return one of the figures at the top; all of it is HTML."""
    return (
        f'<div class="card"><h2>{label}</h2><p class="value">{value}</p>{extra}'
        f'<p class="note">{note}</p></div>\n'
    )


def number_cell(value: float | None, text: str, kind: str = "") -> str:
    """Return a cell of a table that sorts by its number."""
    return f'<td class="num {kind}" data-sort="{"" if value is None else value}">{text}</td>'
