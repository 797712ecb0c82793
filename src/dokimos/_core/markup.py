"""HTML that cannot be made of text that nobody escaped.

`Html` is a type of its own, not a `str`: whoever joins the two gets a `TypeError`, and mypy says so earlier.
Only the functions here make it, and to them every `str` is text. So forgetting to escape shows as `&lt;` on a
page and never runs. `tests/contract/test_markup.py` looks for markup in the strings of all other modules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, TypeAlias

from dokimos._core.jsonable import JsonValue


class Html:
    """A piece of a page: elements, and text that is escaped."""

    __slots__ = ("_markup",)

    def __init__(self, markup: str) -> None:
        """Take markup as it is, which only this module may do."""
        self._markup = markup

    @property
    def markup(self) -> str:
        """The piece as a string, to be written to a file."""
        return self._markup

    def __bool__(self) -> bool:
        return bool(self._markup)

    def __eq__(self, other: object) -> bool:
        return self._markup == other._markup if isinstance(other, Html) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._markup)

    def __repr__(self) -> str:
        return f"Html({self._markup!r})"

    def __format__(self, spec: str) -> str:
        raise TypeError("HTML cannot be formatted into a string: pass it to tag() or join() as content.")


Content: TypeAlias = "Html | str | Iterable[Content] | None"
"""What an element holds: elements, texts, any nesting of them, and nothing."""
Attribute: TypeAlias = str | int | float | None
"""The value of an attribute: True stands for its name alone; False and None leave it out."""

_VOID: Final = frozenset(("br", "col", "hr", "input", "link", "meta"))
_SHAPES: Final = frozenset(("circle", "line", "path", "rect"))
_RAW: Final = frozenset(("script", "style"))
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(-[A-Za-z0-9]+)*")
_ADDRESSES: Final = frozenset(("action", "formaction", "href", "src", "xlink-href"))
_ACTIVE: Final = frozenset(("style", "srcdoc", "srcset", "background", "ping"))
_CONTROL: Final = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff"
_DIRECTION: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_UNSAFE: Final = re.compile(f'[&<>"{_CONTROL}{_DIRECTION}]')
_UNSAFE_ISOLATED: Final = re.compile(f'[&<>"{_CONTROL}]')
_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}
"""Attributes always stand in double quotes."""
# The brackets could end the element or begin a comment; the last two end a line in older JavaScript.
_JSON_ESCAPES: Final = {
    "<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029",
}  # fmt: skip


def tag(name: str, /, *content: Content, **attributes: Attribute) -> Html:
    """Return an element.

    Args:
        name: Its name.
        content: What is in it; a `str` is text.
        attributes: By name, with `_` for `-` and behind words of Python: `class_="num"`, `aria_label="Rate"`.

    Raises:
        ValueError: for what would run or load something: scripts, styles and handlers in attributes, and
            addresses outside the page.

    Example:
        >>> tag("p", "1 < 2, says ", tag("b", "<script>"), class_="note").markup
        '<p class="note">1 &lt; 2, says <b>&lt;script&gt;</b></p>'
    """
    if name in _RAW or not _NAME.fullmatch(name):
        raise ValueError(f"tag() does not know the element {name!r}.")
    head = name + "".join([_attribute(key, value) for key, value in attributes.items()])
    if name in _VOID:
        return Html(f"<{head}>")
    if name in _SHAPES and not content:
        return Html(f"<{head}/>")
    return Html(f"<{head}>{''.join(map(_markup_of, content))}</{name}>")


def join(*content: Content) -> Html:
    """Return elements and texts one after the other."""
    return Html("".join(map(_markup_of, content)))


def isolate_text(text: str) -> Html:
    """Return a text that is not ours: kept from turning round what stands beside it."""
    return Html(f"<bdi>{_UNSAFE_ISOLATED.sub(_escape, text)}</bdi>")


def render_preformatted(text: Content, **attributes: Attribute) -> Html:
    """Return a foreign text with its line breaks; its style isolates its direction."""
    content = Html(_UNSAFE_ISOLATED.sub(_escape, text)) if isinstance(text, str) else text
    # A parser drops the first line break in it.
    return tag("pre", Html("\n"), content, **attributes)


def link_to_path(path: str, text: str) -> Html:
    """Return a link to another page of the server that sends this one.

    Raises:
        ValueError: The path leads elsewhere, such as `//example.com` or `javascript:...`.
    """
    if not path.startswith("/") or path.startswith("//") or "\\" in path:
        raise ValueError(f"{path!r} is not the path of a page of this server.")
    return Html(f'<a href="{_UNSAFE.sub(_escape, path)}">{_markup_of(text)}</a>')


def style_element(css: str) -> Html:
    """Return a style sheet of ours."""
    return _raw_element("style", css)


def script_element(code: str) -> Html:
    """Return a script of ours."""
    return _raw_element("script", code)


def data_element(name: str, data: JsonValue) -> Html:
    """Return data for a script of ours, as JSON that nothing inside can break out of."""
    return _raw_element("script", script_json(data), type="application/json", id=name)


def text_element(name: str, text: str) -> Html:
    """Return data for a script of ours, as a text without markup, such as Base64."""
    return _raw_element("script", text, type="text/plain", id=name)


def script_json(data: JsonValue) -> str:
    """Return data as JSON that may stand in a script element."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character, escape in _JSON_ESCAPES.items():
        text = text.replace(character, escape)  # one after the other, a tenth of what `translate` takes
    return text


def document(head: Content, body: Content) -> str:
    """Return a whole page."""
    page = tag("html", "\n", tag("head", "\n", head), "\n", tag("body", "\n", body), "\n", lang="en")
    return f"<!doctype html>\n{page.markup}\n"


def _markup_of(content: Content) -> str:
    if isinstance(content, Html):
        return content.markup
    if content is None:
        return ""
    if isinstance(content, str):
        return _UNSAFE.sub(_escape, content)
    return "".join(map(_markup_of, content))


def _attribute(key: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = _attribute_name(key)
    if value is True:
        return f" {name}"
    text = str(value)
    if name in _ADDRESSES and not text.startswith("#"):
        raise ValueError(f"A page only links to its own parts, and {name} is {text!r}.")
    return f' {name}="{_UNSAFE.sub(_escape, text)}"'


@lru_cache(maxsize=512)
def _attribute_name(key: str) -> str:
    name = key.rstrip("_").replace("_", "-")
    if not _NAME.fullmatch(name) or name.lower().startswith("on") or name.lower() in _ACTIVE:
        raise ValueError(f"tag() does not know the attribute {name!r}.")
    return name


def _raw_element(name: str, text: str, **attributes: Attribute) -> Html:
    """Return an element in which nothing is escaped, if nothing in it could end it or begin another."""
    # After `<!--` and `<script` inside a script, a parser no longer ends it at the next `</script>`.
    if re.search(r"</(script|style)|<!--|<script", text, re.IGNORECASE):
        raise ValueError(f"The content of <{name}> would end it.")
    head = name + "".join([_attribute(key, value) for key, value in attributes.items()])
    return Html(f"<{head}>{text}</{name}>\n")


def _escape(match: re.Match[str]) -> str:
    sign = match[0]
    return _ENTITIES.get(sign) or f"\\u{ord(sign):04x}"
