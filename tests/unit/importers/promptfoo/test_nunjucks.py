"""Templates of Nunjucks: what is rendered is what Nunjucks 3.2 renders, and everything else is refused."""

import sys

import pytest

from dokimos.importers._promptfoo.conversion_notes import Notes
from dokimos.importers._promptfoo.nunjucks import TemplateRefused, render_nunjucks
from dokimos.importers._promptfoo.templates import render_text

VARIABLES = {
    "q": "What?",
    "items": ["a", "b", "c"],
    "none": None,
    "empty": [],
    "no_keys": {},
    "n": 3,
    "f": 2.0,
    "h": 2.5,
    "flag": True,
    "off": False,
    "user": {"name": "Zoë", "age": 40},
    "text": "hello big world",
    "zero": 0,
    "blank": "",
    "one": "1",
    "rows": [{"n": "p", "v": 1}, {"n": "q", "v": 2}],
}
RENDERED = {
    "{% if q %}yes{% endif %}": "yes",
    "{% if empty %}yes{% else %}no{% endif %}": "yes",
    "{% if no_keys %}yes{% else %}no{% endif %}": "yes",
    "{% if not empty %}yes{% else %}no{% endif %}": "no",
    "{% if zero %}a{% elseif n > 2 %}b{% else %}c{% endif %}": "b",
    "{% if zero %}a{% elif n > 2 %}b{% else %}c{% endif %}": "b",
    "{% if n === 3 %}three{% endif %}": "three",
    "{% if n !== 3 %}x{% else %}y{% endif %}": "y",
    "{% if none == missing %}same{% endif %}": "same",
    "{% if blank == none %}same{% else %}not{% endif %}": "not",
    "{% if '===' == \"===\" %}text{% endif %}": "text",
    "{% for i in items %}{{ loop.index }}{{ i }}{% if not loop.last %},{% endif %}{% endfor %}": "1a,2b,3c",
    "{% for k, v in user %}{{ k }}={{ v }};{% endfor %}": "name=Zoë;age=40;",
    "{% for x in user %}x{% else %}none{% endfor %}": "none",
    "{% for x in missing %}x{% else %}none{% endfor %}": "none",
    "{% for a, b in [[1, 2], [3, 4]] %}{{ a }}-{{ b }};{% endfor %}": "1-2;3-4;",
    "{% for row in rows %}{{ row.n }}{{ row.v }}{% endfor %}": "p1q2",
    '{{ items | join(", ") }}': "a, b, c",
    '{{ rows | join(",", "n") }}': "p,q",
    "{{ items.length }} {{ text.length }}": "3 15",
    "{{ flag }} {{ off }} {{ none }} {{ missing }} {{ missing.a.b }}": "true false   ",
    "{{ f }} {{ h }} {{ n / 2 }} {{ 4 / 2 }}": "2 2.5 1.5 2",
    "{{ user | dump }}": '{"name":"Zoë","age":40}',
    '{{ h | round }} {{ -2.5 | round }} {{ 2.567 | round(1) }} {{ 2.5 | round(0, "floor") }}': "3 -2 2.6 2",
    "{{ text | truncate(9) }} {{ text | truncate(8) }} {{ text | truncate(9, true) }}": (
        "hello big... hello... hello big..."
    ),
    '{{ text | replace("big", "small") | upper }}': "HELLO SMALL WORLD",
    "{# a note #}a": "a",
    "{% set x = n + 1 %}{{ x }}": "4",
    '{{ "a" if empty else "b" }}': "a",
    '{{ none or "d" }} {{ blank or "d" }} {{ (empty or "d") | length }}': "d d 0",
    '{{ missing | default("d") }} {{ blank | default("d", true) }}': "d d",
    '{{ user["name"] }} {{ items[1] }} {{ items[9] }} {{ text[0] }}': "Zoë b  h",
    "{{ user.items }}{{ user.keys }}": "",
    '{{ text.toUpperCase() }} {{ text.split(" ") | join("-") }}': "HELLO BIG WORLD hello-big-world",
    '{{ items.includes("a") }} {{ "a" in items }} {{ "name" in user }}': "true true true",
    '{{ "x" + n }} {{ "x" ~ flag ~ f }}': "x3 xtrue2",
    '{{ "3.7 kg" | int }} {{ "3.7 kg" | float }} {{ "x" | int }}': "3 3.7 ",
    '{{ "a b&c" | urlencode }} {{ "<a>" | escape }}': "a%20b%26c &lt;a&gt;",
    '{{ ["B", "a", "C"] | sort | join }} {{ items | reverse | join }}': "aBC cba",
    "{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m('x') }}": "<x>",
    "a\n{%- if q %}\n b\n{% endif -%}\n c\n": "a\n b\nc\n",
    "{{ n > 2 }} {{ n == 3 }} {{ not n }}": "true true false",
}
REFUSED = {
    "{% if one == 1 %}x{% endif %}": "compares '1' with 1",
    "{% if items == empty %}x{% endif %}": "compares a list or a map",
    "{% if 1 < n < 5 %}x{% endif %}": "chains comparisons",
    "{% switch n %}{% case 3 %}x{% endswitch %}": "unknown tag 'switch'",
    "{% raw %}{{ x }}{% endraw %}": "raw block",
    "{% include 'other.txt' %}": "loader",
    "{{ q | shout }}": "shout",
    "{{ items | random }}": "random",
    "{{ items.push('d') }}": "'push'",
    "{{ q.__class__ }}": "'__class__'",
    "{{ n | upper }}": "not a text",
    "{{ missing() }}": "missing",
    "{% if x %}": "Unexpected end of template",
    "{% if env.MODE %}x{% endif %}": "a variable of the environment",
    "{% if env.MODE == 'a' %}x{% endif %}": "a variable of the environment",
    "{{ range(100000000) | join }}": "Range too big",
}


@pytest.mark.parametrize("template", RENDERED)
def test_what_both_languages_share_is_rendered(template):
    assert render_nunjucks(template, VARIABLES) == RENDERED[template]


@pytest.mark.parametrize("template", REFUSED)
def test_what_they_do_not_share_is_refused(template):
    with pytest.raises(TemplateRefused, match=REFUSED[template]):
        render_nunjucks(template, VARIABLES)


def test_variables_of_the_environment_become_those_of_the_suite():
    text = render_text("{% if q %}{{ env.NAME }} {{ q }} ${HOME}{% endif %}", VARIABLES, Notes())

    assert text == "${NAME:-} What? $${HOME}"


def test_templates_that_values_bring_are_rendered_once_more():
    variables = {"q": "{% if name %}Hello {{ name }}{% endif %}", "name": "Zoë"}

    assert render_text("{% if q %}{{ q }}{% endif %}", variables, Notes()) == "Hello Zoë"


def test_names_and_simple_filters_need_no_jinja(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)

    assert render_text("{{ q | upper }}: {{ user.name }}", VARIABLES, Notes()) == "WHAT?: Zoë"


def test_without_jinja_a_condition_is_refused_with_what_to_install(monkeypatch):
    from dokimos.importers._promptfoo import nunjucks

    monkeypatch.setitem(sys.modules, "jinja2", None)
    nunjucks._environment.cache_clear()

    with pytest.raises(TemplateRefused, match=r"dokimos\[promptfoo\]"):
        render_nunjucks("{% if q %}x{% endif %}", VARIABLES)
