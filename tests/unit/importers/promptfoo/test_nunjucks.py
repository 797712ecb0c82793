"""Templates of Nunjucks: what is rendered is what Nunjucks 3.2 renders, and everything else is refused."""

import pytest

from dokimos.importers._promptfoo.conversion_notes import Notes
from dokimos.importers._promptfoo.nunjucks.rendering import render_nunjucks
from dokimos.importers._promptfoo.nunjucks.values import TemplateRefused
from dokimos.importers._promptfoo.templates import join_texts, render_program, render_text, resolve_nested

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
    "ordered": {"b": 1, "10": "x", "2": "y"},
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
STATEMENTS = {
    "{% for q in empty %}{% else %}[{{ q }}]{% endfor %}{{ q }}": "[]What?",
    "{% set x = 0 %}{% for i in items %}{% set x = x + 1 %}{% endfor %}{{ x }}": "3",
    "{% for i in items %}{% set y = i %}{{ y }}{% endfor %}[{{ y }}]": "abc[]",
    "{% for i in items %}{% set n = n + 1 %}{{ n }}{% endfor %}[{{ n }}]": "456[3]",
    "{% set x, y = 4 %}{{ x }}{{ y }}": "44",
    "{% set x %} {{ q }} {% endset %}[{{ x | trim }}]": "[What?]",
    "{% filter upper %}a{{ q }}{% endfilter %}": "AWHAT?",
    "{% for k, v in ordered %}{{ k }}{{ v }}{% endfor %}": "2y10xb1",
    "{% for a, b in [[1, 2], [3]] %}{{ a }}-{{ b }};{% endfor %}": "1-2;3-;",
    "{% for i in items %}{{ loop.revindex0 }}{{ loop.last }}{% endfor %}": "2false1false0true",
    "{% for i in items %}{{ loop.length }}{{ loop.previtem }}{{ loop.depth }}{% endfor %}": "333",
    "{% for i in 'ab' %}{{ i }}.{% endfor %}{% for i in 5 %}{% else %}none{% endfor %}": "a.b.none",
    "{% for i in range(1, 6, 2) %}{{ i }}{% endfor %}": "135",
    "{% for i in range(2, 0, -1) %}{{ i }}{% endfor %}": "21",
    "{% switch n %}{% case 1 %}one{% case 2 %}{% case 3 %}few{% default %}many{% endswitch %}": "few",
    "{% switch one %}{% case 1 %}number{% default %}text{% endswitch %}": "text",
    "{% raw %}{{ x }}{% if %}{% endraw %}": "{{ x }}{% if %}",
    "{% verbatim %}{# a #}{% endverbatim %}": "{# a #}",
    "{% macro m(a, b=2) %}<{{ a }}{{ b }}>{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=3) }}": "<12><13><3>",
    "{% macro m(a, b=2) %}<{{ a }}{{ b }}{{ q }}>{% endmacro %}{{ m(1, 3, 4) }}": "<13What?>",
    "{% macro m() %}{% endmacro %}{% if m() %}true{% endif %}": "true",
    "a \n{{- q -}}\n b \n{%- if q -%} c {%- endif %}\n{#- d -#} e\r\n": "aWhat?bce\r\n",
    "{% if zero %}a{% elseif blank %}b{% elif empty %}c{% else %}d{% endif %}": "c",
}

REFUSED = {
    "{% include 'other.txt' %}": "the tag 'include' is not rendered",
    "{% block a %}{% endblock %}": "the tag 'block' is not rendered",
    "{% call m() %}{% endcall %}": "the tag 'call' is not rendered",
    "{% with a = 1 %}{% endwith %}": "the tag 'with' is not rendered",
    "{% if x %}": "ends in the middle",
    "{{ q": "ends in the middle",
    "{{ 'a }}": "in quotes is not closed",
    "{{ q }} {# a": "a comment is not closed",
    "{{ q }} #}": "closes a comment that is not open",
    "{% raw %}{{ x }}": "a block raw is not closed",
    "{{ q | replace(r/a/, 'b') }}": "a regular expression",
    "{{ (n, q) }}": "wrong place",
    "{{ items[0:1] }}": "wrong place",
    "{{ items.0 }}": "wrong place",
    "{{ a@b }}": "'a@b' is not a name",
    "{{ --n }}": "another operator in JavaScript",
    "{% for i in items %}{% macro m() %}{% endmacro %}{% endfor %}": "within another block",
    "{% for i in items %}{% set z = missing %}{% endfor %}": "a value that is not there",
    "{% for a, b in q %}{% endfor %}": "what has not as many",
    "{% for a, b in [none] %}{% endfor %}": "an entry that is null",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}": "nested too deeply",
    "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}": "nested too deeply",
    "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}": "300,000 steps",
    "{% for a in range(9999) %}{{ range(99999) | length }}{% endfor %}": "300,000 steps",
    "{% set x = q %}" + "{% set x = x ~ x %}" * 40 + "{{ x }}": "5,000,000 characters",
}
ENVIRONMENT = {
    "{{ env.NAME }} {{ q }} ${HOME}": "${NAME:-} What? $${HOME}",
    "{% if q %}{{ env.NAME }}{% endif %}": "${NAME:-}",
    "{{ 'a' ~ env.NAME ~ 'b' }}": "a${NAME:-}b",
    "{{ env['NAME'] }}": "${NAME:-}",
    "{{ env.NAME | default('other') }}": "${NAME:-other}",
    "{% set x = env.NAME %}[{{ x }}]": "[${NAME:-}]",
    "{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(env.NAME) }}": "<${NAME:-}>",
    "{{ '$' }}{{ '{' }}a}": "$${a}",
}
NOT_IN_A_SUITE = (
    "{% if env.MODE %}x{% endif %}",
    "{% if env.MODE == 'a' %}x{% endif %}",
    "{% if 'a' in env.MODE %}x{% endif %}",
    "{% if env.MODE < 'b' %}x{% endif %}",
    "{% for c in env.MODE %}{{ c }}{% endfor %}",
    "{{ env.MODE is defined }}",
    "{{ env.MODE | upper }}",
    "{{ env.MODE | length }}",
    "{{ q | replace('W', env.MODE) }}",
    "{{ [env.MODE] | dump }}",
    "{{ [env.MODE] }}",
    "{{ env.MODE.length }}",
    "{{ env.MODE or 'a' }}",
    "{{ env }}",
    "{{ env.MODE | default('a', true) }}",
    "{{ env.MODE | default('}') }}",
    "{{ env['A-B'] }}",
    "${{ env.MODE }}",
    "{{ '$' }}{{ env.MODE }}",
)


@pytest.mark.parametrize("template", RENDERED)
def test_templates_that_people_write_are_rendered(template):
    assert render_nunjucks(template, VARIABLES) == RENDERED[template]


@pytest.mark.parametrize("template", STATEMENTS)
def test_statements_do_what_those_of_nunjucks_do(template):
    assert render_nunjucks(template, VARIABLES) == STATEMENTS[template]


@pytest.mark.parametrize("template", REFUSED)
def test_what_is_not_rendered_is_refused(template):
    with pytest.raises(TemplateRefused, match=REFUSED[template]):
        render_nunjucks(template, VARIABLES)


@pytest.mark.parametrize("template", ENVIRONMENT)
def test_variables_of_the_environment_become_those_of_the_suite(template):
    assert render_text(template, VARIABLES, Notes()) == ENVIRONMENT[template]


@pytest.mark.parametrize("template", NOT_IN_A_SUITE)
def test_more_than_writing_a_variable_of_the_environment_is_refused(template):
    with pytest.raises(TemplateRefused):
        render_text(template, VARIABLES, Notes())


def test_a_program_is_not_given_the_environment():
    assert render_program("output === '{{ q }}${x}'", VARIABLES, Notes()) == "output === 'What?${x}'"
    with pytest.raises(TemplateRefused, match="into a program"):
        render_program("output === '{{ env.A }}'", VARIABLES, Notes())


NESTED = {
    "q": "{% if name %}Hello {{ name }}{% endif %}",
    "name": "Zoë",
    "home": "in {{ env.CITY }}",
    "map": {"a": "{{ name }}"},
    "open": "use {{ to begin",
}


def test_templates_in_variables_are_rendered_in_prompts_and_only_there():
    assert render_text("{% if q %}{{ q }}{% endif %}", NESTED, Notes(), nested=True) == "Hello Zoë"
    assert render_text("{{ q }}", NESTED, Notes()) == NESTED["q"]
    assert render_text("{{ home }}", NESTED, Notes()) == "in ${CITY:-}"
    assert render_text("{{ map.a }} {{ open }}", NESTED, Notes(), nested=True) == "{{ name }} use {{ to begin"


def test_variables_that_name_others_are_filled_in_as_texts():
    variables = {"a": "{{ b }} {{n}}{{ map.k }}", "b": "b{{ c }}\n", "c": "c$$\n", "n": 2.0, "map": {"k": 1}}

    resolved = resolve_nested({**variables, "d": "{{ map }}{{ c }}", "e": "{{ missing }}{{ c }}"})

    assert (resolved["a"], resolved["b"], resolved["c"]) == ("bc$ 2{{ map.k }}", "bc$", "c$$")
    assert (resolved["d"], resolved["e"]) == ("{{ map }}{{ c }}", "{{ missing }}{{ c }}")


def test_private_characters_in_a_value_are_characters():
    assert (
        render_text("{{ q }}{% if q %}{% endif %}", {"q": "\ue0f0HOME\ue0f1"}, Notes()) == "\ue0f0HOME\ue0f1"
    )


def test_a_text_whose_tag_does_not_end_on_its_line_is_plain_or_refused():
    assert render_text("${x} {{ and\n", VARIABLES, Notes()) == "$${x} {{ and\n"
    with pytest.raises(TemplateRefused, match="does not end on its line"):
        render_text("{{ q |\n upper }}", VARIABLES, Notes())


def test_a_tag_that_names_no_value_is_noted():
    notes = Notes()

    assert render_text("{{ missing }}{{ q }}{{ user.nothing }}", VARIABLES, notes) == "What?"
    assert list(notes.lost) == [
        "the template {{ missing }} has no value and is left empty",
        "the template {{ user.nothing }} has no value and is left empty",
    ]


def test_rendered_texts_are_joined_without_a_new_variable():
    assert join_texts(["a$", "{b}"]) == "a$${b}"
    assert join_texts(["a$", "$${b}"]) == "a$$${b}"
    with pytest.raises(TemplateRefused):
        join_texts(["a$", "${B:-}"])
