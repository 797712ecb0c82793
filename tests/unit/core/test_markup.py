from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from dokimos._core.markup import (
    Html,
    data_element,
    document,
    isolate_text,
    join,
    render_preformatted,
    script_element,
    style_element,
    tag,
    text_element,
)

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "--><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "</title></style></textarea><b>",
    "<!--<script>",
    "&lt;b&gt; &amp; &#60;",
    "nul \x00, escape \x1b[2J, delete \x7f, next line \x85",
    "override \u202e isolate \u2066 mark \u200f",
    "separators \u2028 and \u2029",
    "lone surrogate \ud800 and \udfff",
    "emoji 🧪, combining e\u0301",
    "`${x}` {{y}}",
)


class Page(HTMLParser):
    """What a browser makes of markup: its elements, attributes and texts."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("element", [lambda t: tag("p", t), isolate_text, lambda t: tag("p", [t, None])])
def test_text_stays_text(element, text):
    page = Page(element(text).markup)
    assert len(page.tags) == 1
    assert page.attributes == []
    inside = element(text).markup.partition(">")[2].rpartition("<")[0]
    assert "<" not in inside
    if text.isprintable():
        assert page.text == text


@pytest.mark.parametrize("text", HOSTILE)
def test_an_attribute_keeps_what_is_in_it(text):
    page = Page(tag("p", "x", title=text, data_key=text).markup)
    assert page.tags == ["p"]
    assert [name for name, _ in page.attributes] == ["title", "data-key"]
    assert page.text == "x"


def test_text_reads_as_it_was_written():
    text = "a < b & \"c\" > 'd'\n\t&amp; 🧪 \u2028"
    assert Page(tag("p", text).markup).text == text
    assert Page(isolate_text("\u202eevil\u2066").markup).text == "\u202eevil\u2066"


def test_the_first_line_break_of_a_preformatted_text_is_not_lost():
    assert render_preformatted("\nx").markup == "<pre>\n\nx</pre>"
    assert render_preformatted(tag("ins", "<")).markup == "<pre>\n<ins>&lt;</ins></pre>"


@pytest.mark.parametrize(
    ("text", "shown"),
    [("\x00", "\\u0000"), ("\x1b", "\\u001b"), ("\x85", "\\u0085"), ("\ud800", "\\ud800")],
)
def test_what_no_page_can_hold_is_shown_as_an_escape(text, shown):
    assert Page(tag("p", text).markup).text == shown
    assert Page(isolate_text(text).markup).text == shown
    tag("p", text, title=text).markup.encode()


def test_only_isolated_text_may_turn_its_direction():
    assert "\u202e" not in tag("p", "\u202e", title="\u202e").markup
    assert isolate_text("\u202e").markup == "<bdi>\u202e</bdi>"


def test_markup_and_strings_cannot_be_joined():
    html = tag("b", "x")
    with pytest.raises(TypeError):
        "<p>" + html
    with pytest.raises(TypeError):
        html + "<p>"
    with pytest.raises(TypeError):
        "".join([html])
    with pytest.raises(TypeError, match="pass it to tag"):
        f"<p>{html}</p>"


def test_a_string_of_markup_is_text_again():
    assert tag("p", tag("b", "x").markup).markup == "<p>&lt;b&gt;x&lt;/b&gt;</p>"


def test_content_nests_and_nothing_is_left_out_but_nothing():
    content = ["a", (tag("b", "c"), None, ["d"]), (letter for letter in "ef")]
    assert join(content).markup == "a<b>c</b>def"
    assert not join(None, "")
    assert join("a") == Html("a") != "a"
    assert len({join("a"), join("a")}) == 1


def test_attributes_are_named_as_in_html():
    element = tag(
        "svg", class_="a b", aria_label='"', viewBox="0 0 1 1", hidden=True, title=None, x=0, open=False
    )
    assert element.markup == '<svg class="a b" aria-label="&quot;" viewBox="0 0 1 1" hidden x="0"></svg>'


@pytest.mark.parametrize(
    "attributes",
    [
        {"onclick": "x"},
        {"onLoad": "x"},
        {"style": "x"},
        {"srcdoc": "x"},
        {"href": "javascript:alert(1)"},
        {"href": "https://example.org"},
        {"src": "x.png"},
        {"a b": "x"},
        {"a>": "x"},
    ],
)
def test_nothing_that_runs_or_loads_is_an_attribute(attributes):
    with pytest.raises(ValueError, match=r"attribute|links to its own parts"):
        tag("a", **attributes)


@pytest.mark.parametrize("name", ["script", "style", "a b", "p>", "", "1"])
def test_not_every_name_is_an_element(name):
    with pytest.raises(ValueError, match="does not know the element"):
        tag(name)


@pytest.mark.parametrize("text", HOSTILE)
def test_data_cannot_break_out_of_its_script(text):
    element = data_element("data", {text: [text]}).markup
    inside = element.partition(">")[2].rpartition("</script>")[0]
    assert "<" not in inside
    assert "\u2028" not in inside
    assert json.loads(inside) == {text: [text]}


@pytest.mark.parametrize("make", [script_element, style_element, lambda text: text_element("x", text)])
@pytest.mark.parametrize("text", ["</script>", "</STYLE >", "<!-- x", "a <script b"])
def test_code_that_would_end_its_element_is_refused(make, text):
    with pytest.raises(ValueError, match="would end it"):
        make(text)


def test_a_page_has_a_head_and_a_body():
    page = document(tag("title", "<"), "&")
    assert page.startswith(
        '<!doctype html>\n<html lang="en">\n<head>\n<title>&lt;</title></head>\n<body>\n&amp;'
    )
    assert page.endswith("</body>\n</html>\n")
