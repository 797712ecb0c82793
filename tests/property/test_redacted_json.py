"""Whatever a span in JSON looks like, no text in it escapes a redaction rule, and the rest stays."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")

from dokimos.server._redaction_rules import parse_rules
from dokimos.server._services.traces import redaction
from dokimos.traces._otlp_records import read_records

SECRET = "sword fish"
NAMES = (
    *("attributes", "events", "links", "status", "body", "value", "values", "name", "code", "kind", "flags"),
    *("stringValue", "intValue", "boolValue", "bytesValue", "arrayValue", "kvlistValue", "string_value"),
    *("startTimeUnixNano", "droppedLinksCount", "message", "traceState", "password", "other"),
    *("traceId", "parentSpanId"),
)
SCALARS = st.sampled_from([SECRET, f"a {SECRET}!", "harmless", "5", 7, 1.5, True, None, "SPAN_KIND_CLIENT"])
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
        st.builds(lambda value: {"key": "note", "value": value}, inner),
        st.builds(lambda value: {"key": "my.password", "value": value}, inner),
    ),
    max_leaves=20,
)
RULES = parse_rules(
    [{"name": "fish", "pattern": SECRET, "replacement": "cod"}, {"name": "keys", "keys": ["*password"]}]
)


@pytest.fixture(autouse=True, scope="module")
def _in_this_process():
    """Replace where the test is: a process for each text would take minutes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redaction, "replace_within_limit", replace)
        yield


def replace(pairs, texts, *, limit, process):
    [(pattern, replacement)] = pairs
    return [text.replace(pattern, replacement) for text in texts], [sum(t.count(pattern) for t in texts)]


def redact(fields):
    span = {"traceId": "ab" * 16, "spanId": "cd" * 8, "name": "step", **fields}
    data = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()
    [record] = read_records(data, "json").records
    return span, json.loads(redaction.Redactor(RULES).redact_span(record, redaction.Counter()).body)


@given(st.dictionaries(st.sampled_from([*NAMES[:5], *NAMES[8:11], "status", "newField"]), TREES, max_size=4))
def test_no_text_escapes(fields):
    sent, kept = redact(fields)
    assert SECRET not in json.dumps(kept)
    assert without_keys(kept) == without_keys(json.loads(json.dumps(sent).replace(SECRET, "cod")))


def without_keys(tree):
    """A tree without what stands under a key that the rules name."""
    if isinstance(tree, list):
        return [without_keys(each) for each in tree]
    if not isinstance(tree, dict):
        return tree
    if str(tree.get("key")).endswith("password"):
        return "named"
    return {name: without_keys(each) for name, each in tree.items() if not name.endswith("password")}


@given(TREES)
def test_a_key_that_is_named_keeps_nothing(value):
    _, kept = redact({"attributes": [{"key": "a", "value": {"kvlistValue": {"values": value}}}]})
    for each in maps_in(kept["attributes"]):
        if each.get("key") == "my.password" and "value" in each:
            assert each["value"] in ({"stringValue": "[redacted]"}, "[redacted]")


def maps_in(tree):
    """All maps of a tree."""
    if isinstance(tree, dict):
        yield tree
    for each in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from maps_in(each)
