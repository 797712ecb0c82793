"""Values changed inside the text of a file."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dokimos._core.yaml_scalars import load_yaml, make_loader
from dokimos.errors import ConfigurationError
from dokimos.optimizer._yaml_edits import edit_yaml, format_scalar
from dokimos.suites._document import read_yaml
from dokimos.suites._value_paths import replace_values


def changed_lines(before, after):
    return [
        (old, new) for old, new in zip(before.splitlines(), after.splitlines(), strict=True) if old != new
    ]


BLOCK = """\
# top
instructions:
  inline: |
    Answer briefly.

      - indented

  # about the tools
tools:
- name: docs
  top_k: 4
- {name: sums, top_k: 2}
quoted: 'one line'   # kept
"""


def test_only_the_line_of_the_value_differs():
    after = edit_yaml(BLOCK, {("tools", 0, "top_k"): 9})

    assert changed_lines(BLOCK, after) == [("  top_k: 4", "  top_k: 9")]


def test_a_value_between_braces_is_changed_in_its_place():
    after = edit_yaml(BLOCK, {("tools", 1, "top_k"): 9})

    assert changed_lines(BLOCK, after) == [("- {name: sums, top_k: 2}", "- {name: sums, top_k: 9}")]


def test_several_values_are_changed_at_once():
    after = edit_yaml(BLOCK, {("tools", 0, "top_k"): 9, ("quoted",): "two", ("tools", 1, "name"): "a, b: c"})

    assert yaml.safe_load(after)["tools"] == [{"name": "docs", "top_k": 9}, {"name": "a, b: c", "top_k": 2}]
    assert "quoted: two   # kept" in after


def test_a_block_of_text_stays_a_block_and_what_stands_around_it_stays():
    after = edit_yaml(BLOCK, {("instructions", "inline"): "First.\n\n  Second.\n"})

    assert "  inline: |\n    First.\n\n      Second.\n\n  # about the tools\n" in after
    assert yaml.safe_load(after)["instructions"]["inline"] == "First.\n\n  Second.\n"


def test_a_line_becomes_a_block_where_the_new_text_has_several():
    after = edit_yaml("a:\n  b: one line\n", {("a", "b"): "one\ntwo"})

    assert after == "a:\n  b: |-\n    one\n    two\n"


def test_a_comment_behind_a_value_never_becomes_a_part_of_it():
    after = edit_yaml(BLOCK, {("quoted",): "one\ntwo"})

    assert after.endswith('quoted: "one\\ntwo"   # kept\n')
    commented = "a: |  # why\n  one\n  two\nb: 1\n"
    assert edit_yaml(commented, {("a",): "three\n"}) == "a: |  # why\n  three\nb: 1\n"


def test_a_missing_key_is_added_to_its_map():
    after = edit_yaml(BLOCK, {("tools", 0, "min_score"): 0.5, ("tools", 1, "min_score"): 0.25})

    assert yaml.safe_load(after)["tools"] == [
        {"min_score": 0.5, "name": "docs", "top_k": 4},
        {"min_score": 0.25, "name": "sums", "top_k": 2},
    ]


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("a: &x\n  k: 1\n", "a: &x\n  new: 2\n  k: 1\n"),
        ("a: &x  # why\n  # what\n  k: 1\n", "a: &x  # why\n  # what\n  new: 2\n  k: 1\n"),
        ("a: &x {k: 1}\n", "a: &x {new: 2, k: 1}\n"),
        ("a: {}\n", "a: {new: 2}\n"),
    ],
)
def test_a_missing_key_is_added_behind_the_anchor_of_its_map(source, after):
    assert edit_yaml(source, {("a", "new"): 2}) == after


def test_a_block_in_a_map_with_an_anchor_is_indented_like_its_neighbours():
    after = edit_yaml("a: &x\n  k: 1\n  t: one\n", {("a", "t"): "one\ntwo\n"})

    assert after == "a: &x\n  k: 1\n  t: |\n    one\n    two\n"


def test_lines_that_end_in_the_way_of_windows_go_on_to():
    source = BLOCK.replace("\n", "\r\n")

    after = edit_yaml(source, {("instructions", "inline"): "A\nB\n", ("tools", 0, "x"): 1})

    assert after.replace("\r\n", "").count("\n") == 0


@pytest.mark.parametrize(
    "around",
    [
        "# head\r\na: 1  # one\r\nb:\r\n  -   y\r\nx: {}\r\nc: 2\r\n",
        "a:    1  # aligned\nlonger: 2   # with its comment\nx:     {}     # kept\n\n\n# end",
        "base: &b {{k: 1,   j:  2}}\nagent:\n  <<: *b\n  y:   &t  1\nx: {}\n",
        "tools: [ {{name: a ,k: 4}},   # first\n  {{name: b}},\n]\nx: {}\n",
        "a: 0x1F\nb: 1_000\nc: 1.50\nd: yes\ne: ~\nf: 012\nx: {}\n",
        "a: 'it''s'\nb: \"x\\u00e9 \\\n  y\"\nx: {}\nc: \"é 日本語 🙂\"\n",
        "a: one\n  two\n\n  three\nb: |2+\n    four\n   five\n\nx: {}\nc: >-\n  six\n  seven\n",
        "%YAML 1.2\n---\n# head\nx: {}\n...\n",
        "a:\n    b:\n        - x\n        -  - y\nx: {}",
        "? a\n: !!str 12\nx: {}\n",
    ],
)
def test_all_around_a_value_stays_to_the_byte(around):
    assert edit_yaml(around.format("old"), {("x",): 12.5}) == around.format("12.5")


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("a: &x 1\nb: 2\n", "a: &x 9\nb: 2\n"),
        ("a: &x\nb: 2\n", "a: &x 9\nb: 2\n"),
        ("a: &x [1,  2]   # why\n", "a: &x 9   # why\n"),
        ("a: !!str 1\n", "a: 9\n"),
    ],
)
def test_the_anchor_of_a_value_stays_and_its_tag_does_not(source, after):
    assert edit_yaml(source, {("a",): 9}) == after


def test_a_key_without_a_value_is_not_edited():
    for source in ("a:\nb: 1\n", "{a, b: 1}", "- \n- 1"):
        with pytest.raises(ConfigurationError, match="has no value in this file; write null for it"):
            edit_yaml(source, {(0 if source.startswith("-") else "a",): 2})


def test_what_only_our_reader_reads_is_an_error_that_says_so():
    with pytest.raises(
        ConfigurationError, match=r"ruamel\.yaml, .* cannot read it: .*'\\t'.* line 1, column 5"
    ):
        edit_yaml("a: 1\t# behind a tab\n", {("a",): 2})


def test_variables_in_a_text_are_read_as_they_are_written():
    assert format_scalar('a: "x ${Y} z"', ("a",)) == "x ${Y} z"
    assert format_scalar("a: [1]", ("a",)) is None


@pytest.mark.parametrize(
    ("source", "steps"),
    [
        ("base: &b {k: 1}\nagent: *b\n", ("agent", "k")),
        ("base: &b 1\nagent: {k: *b}\n", ("agent", "k")),
        ("list: [&b 1, *b]\n", ("list", 1)),
    ],
)
def test_what_stands_behind_an_alias_cannot_be_changed_alone(source, steps):
    with pytest.raises(ConfigurationError, match="is written through an alias"):
        edit_yaml(source, {steps: 2})


def test_a_key_that_was_merged_in_is_written_where_it_counts():
    after = edit_yaml("base: &b {k: 1}\nagent:\n  <<: *b\n  x: 1\n", {("agent", "k"): 2})

    assert yaml.safe_load(after) == {"base": {"k": 1}, "agent": {"k": 2, "x": 1}}


def test_a_map_that_is_not_there_is_not_made_up():
    with pytest.raises(ConfigurationError, match="is not in this file"):
        edit_yaml(BLOCK, {("model", "temperature"): 1})


ODD = st.sampled_from("ab \n\t:#-'\"|{},é\u2028\x85")
TEXTS = st.text(ODD | st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)
SCALARS = TEXTS | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False)
PLACES = [
    ("instructions", "inline"),
    ("tools", 0, "name"),
    ("tools", 1, "name"),
    ("quoted",),
    ("tools", 1, "new"),
]


@given(st.dictionaries(st.sampled_from(PLACES), SCALARS, min_size=1))
def test_whatever_is_written_reads_back_and_nothing_else_changes(changes):
    after = edit_yaml(BLOCK, changes)

    assert yaml.safe_load(after) == replace_values(yaml.safe_load(BLOCK), changes)


def values_of(node, steps=()):
    """Yield the steps of each value that is not a list or map, and where it begins and ends for PyYAML."""
    if node.id == "scalar":
        yield steps, node.start_mark.index, node.end_mark.index
    elif node.id == "sequence":
        for index, child in enumerate(node.value):
            yield from values_of(child, (*steps, index))
    else:
        for key, value in node.value:
            yield from values_of(value, (*steps, key.value))


ROOT = Path(__file__).parents[3]
FILES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for pattern in (".github/**/*.yml", "examples/**/*.y*ml", ".pre-commit-config.yaml")
    for path in sorted(ROOT.glob(pattern))
}
LINES = st.lists(TEXTS | st.just(""), min_size=1, max_size=3).map("\n".join)


@pytest.mark.parametrize("name", FILES)
@given(st.data())
def test_each_value_of_a_real_file_can_be_changed_and_the_rest_stays_to_the_byte(name, data):
    before = FILES[name]
    values = values_of(make_loader(before).get_single_node())
    steps, start, end = data.draw(st.sampled_from([value for value in values if value[1] < value[2]]))
    new = data.draw(SCALARS | LINES)

    after = edit_yaml(before, {steps: new})

    assert after.startswith(before[:start])
    assert after.endswith(before[start + len(before[start:end].rstrip()) :])
    assert load_yaml(after) == replace_values(load_yaml(before), {steps: new})


@given(st.lists(SCALARS, max_size=3) | st.dictionaries(TEXTS, SCALARS, max_size=3))
def test_lists_and_maps_are_written_on_one_line(value):
    assert yaml.safe_load(edit_yaml(BLOCK, {("quoted",): value}))["quoted"] == value


@pytest.mark.parametrize(
    "value",
    [
        "no",
        "1e-6",
        "1e5",
        "012",
        "18:30",
        "1_000",
        "0o7",
        "-.5",
        "y",
        "Off",
        "2026-11-23",
        "9" * 5000,
        "~",
        "null",
        "=",
        "What?",
        1e-6,
        1e21,
        12,
        True,
        None,
        float("inf"),
    ],
)
def test_what_is_written_reads_back_as_the_same_value_of_yaml_1_2(value, tmp_path):
    after = edit_yaml("a: {b: x}\nc: y\n", {("a", "b"): value, ("c",): [value]})

    assert read_yaml(tmp_path / "a.yaml", {}.get, text=after).value == {"a": {"b": value}, "c": [value]}
    assert load_yaml(after) == yaml.safe_load(after)


def test_a_key_is_found_and_written_as_what_it_is():
    assert edit_yaml("012: a\nno: b\n", {(12,): "x", ("no",): "y"}) == "012: x\nno: 'y'\n"
    assert load_yaml(edit_yaml("a: {b: 1}", {("a", "no"): 2, ("a", "x: y"): 3})) == {
        "a": {"b": 1, "no": 2, "x: y": 3}
    }
