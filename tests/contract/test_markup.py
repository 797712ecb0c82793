"""Markup is made in one module; every other one gives it text.

`dokimos._core.markup` escapes each `str`, and is the only module that may take one as it is. These tests look
for ways round it in all sources.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import dokimos

SOURCES = Path(dokimos.__file__).parent
ROOT = SOURCES.parents[1]
FRONTEND = ROOT / "frontend" / "src"
BUILDER = SOURCES / "_core" / "markup.py"
MARKDOWN = {"exporters/_markdown.py", "gate/_verdict_markdown.py", "comparison/_markdown.py"}
"""They write Markdown, which has elements of its own and escapes in its own way."""
HOSTILE = {"testing/contracts/_exporter_contract.py", "evaluators/_injections.py"}
"""They have texts that exporters have to escape, and that try to take an application over."""
PROMPTS = {"importers/_promptfoo/nunjucks/filters.py"}
"""Its filter `nl2br` puts an element into the text of a prompt, as Nunjucks does."""

ELEMENT = re.compile(
    r"</?(a|b|bdi|body|br|button|code|dd|del|details|div|dl|dt|em|form|h[1-6]|head|header|html|i|iframe|img|input|"
    r"ins|li|link|main|meta|noscript|ol|option|p|path|pre|rect|script|section|select|small|span|strong|style|"
    r"summary|svg|table|tbody|td|th|thead|title|tr|ul)(\s[^<>]*)?/?>|<!doctype|<!--",
    re.IGNORECASE,
)
SINKS = re.compile(
    r"innerHTML|dangerouslySet|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc|"
    r"\beval\(|new Function|setTimeout\(\s*[\"'`]|setHTMLUnsafe|javascript:|\.src\s*=|\.href\s*="
)


def modules():
    return sorted(path for path in SOURCES.rglob("*.py") if path != BUILDER)


def scripts():
    """All scripts that run in a page; of the web interface the sources, without tests and libraries."""
    built = SOURCES / "server" / "static"
    written = [path for path in SOURCES.rglob("*.js") if not path.is_relative_to(built)]
    interface = [*FRONTEND.rglob("*.ts"), *FRONTEND.rglob("*.tsx")]
    return sorted([*written, *(path for path in interface if not path.name.endswith(".test.ts"))])


def texts_of(tree):
    """The strings of a module, docstrings left out."""
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node.lineno, node.value


def markup_in(source):
    return [(line, text) for line, text in texts_of(ast.parse(source)) if ELEMENT.search(text)]


def constructions_in(source):
    """Where `Html` is made of a string that nobody escaped."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and (getattr(node.func, "id", None) == "Html" or getattr(node.func, "attr", None) == "Html")
    ]


def test_no_module_but_one_holds_markup_in_its_strings():
    found = {
        f"{path.relative_to(SOURCES)}:{line}": text
        for path in modules()
        if str(path.relative_to(SOURCES)) not in MARKDOWN | HOSTILE | PROMPTS
        for line, text in markup_in(path.read_text(encoding="utf-8"))
    }
    assert found == {}


def test_no_module_but_one_takes_a_string_as_markup():
    found = [
        f"{path.relative_to(SOURCES)}:{line}"
        for path in modules()
        for line in constructions_in(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    ['x = f"<td>{name}</td>"', 'x = "<p>" + name', "x = \"<svg viewBox='0 0 1 1'>\"", 'x = "</script>"'],
)
def test_the_search_finds_markup_that_is_put_together(source):
    assert markup_in(source)


def test_the_search_finds_markup_that_is_taken_as_it_is():
    assert constructions_in("import m\nx = m.Html(name)\ny = Html(name)") == [2, 3]


def test_no_script_makes_elements_of_text():
    found = [
        f"{path.relative_to(ROOT)}: {hit[0]}"
        for path in scripts()
        for hit in SINKS.finditer(path.read_text(encoding="utf-8"))
    ]
    assert {".js", ".tsx"} <= {path.suffix for path in scripts()}
    assert found == []
