"""Building traces from calls and results, reading documents, usage and cost."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos._core.agent import AgentTrace, ToolCall
from dokimos._core.metrics import CallMetrics
from dokimos.integrations._document_texts import (
    extract_texts,
    extract_texts_with_metadata,
    find_tool_documents,
)
from dokimos.integrations._framework_objects import get, join_text
from dokimos.integrations._token_usage import add_cost, make_usage, sum_usage
from dokimos.integrations._trace_builder import TraceBuilder, render_result


def test_results_find_their_calls_by_id_and_not_by_order():
    builder = TraceBuilder()
    builder.begin_turn()
    builder.add_call("a", {"n": 1}, "1")
    builder.add_call("b", {"n": 2}, "2")
    builder.add_result("2", "second")
    builder.add_result("1", "first")

    assert [call.result for call in builder.build().tool_calls] == ["first", "second"]


def test_an_id_that_comes_again_in_a_later_turn_is_another_call():
    builder = TraceBuilder()
    for result in ("one", None, "three"):
        builder.begin_turn()
        builder.add_call("a", {}, "1")
        if result is not None:
            builder.add_result("1", result)

    assert [call.result for call in builder.build().tool_calls] == ["one", None, "three"]


def test_a_result_that_comes_a_turn_too_late_answers_nothing():
    builder = TraceBuilder()
    builder.begin_turn()
    builder.add_call("a", {}, "1")
    builder.begin_turn()
    builder.add_result("1", "too late")

    assert builder.build().tool_calls[0].result is None


def test_calls_of_one_turn_that_share_an_id_are_answered_in_order():
    builder = TraceBuilder()
    builder.begin_turn()
    builder.add_call("a", {"n": 1}, "1")
    builder.add_call("a", {"n": 2}, "1")
    builder.add_result("1", "first")
    builder.add_result("1", "second")
    builder.add_result("1", "nobody asked")

    assert [call.result for call in builder.build().tool_calls] == ["first", "second"]


@given(
    st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True), max_size=5), st.randoms()
)
def test_every_answered_call_has_its_own_result_whatever_the_order(turns, random):
    builder = TraceBuilder()
    for number, ids in enumerate(turns):
        builder.begin_turn()
        for each in ids:
            builder.add_call("tool", {"turn": number, "id": each}, each)
        answered = list(ids)
        random.shuffle(answered)
        for each in answered:
            builder.add_result(each, f"{number} {each}")

    for call in builder.build().tool_calls:
        assert call.result == f"{call.arguments['turn']} {call.arguments['id']}"


def test_only_what_is_said_after_the_last_call_is_the_final_response():
    builder = TraceBuilder()
    builder.add_text("Let me look.")
    builder.add_call("a", None, "1")
    assert builder.build().final_response is None

    builder.add_text("Done.")
    assert builder.build().final_response == "Done."
    assert builder.build("Given").final_response == "Given"


def test_steps_of_reasoning_and_known_metadata_are_kept():
    builder = TraceBuilder()
    builder.add_reasoning("First.")
    builder.add_reasoning(None)
    trace = builder.build(None, agent="a", other=None)

    assert (trace.reasoning_steps, trace.metadata) == (("First.",), {"agent": "a"})


@pytest.mark.parametrize(
    ("given", "arguments", "invalid"),
    [
        (None, {}, None),
        ('{"a": 1}', {"a": 1}, None),
        ("not json", {}, "not json"),
        (SimpleNamespace(), {}, "namespace()"),
        ([1, 2], {}, "[1,2]"),
    ],
)
def test_arguments_are_read_in_every_form(given, arguments, invalid):
    builder = TraceBuilder()
    builder.add_call("a", given)

    call = builder.build().tool_calls[0]
    assert (call.arguments, call.invalid_arguments) == (arguments, invalid)


def test_a_call_without_a_name_is_kept_under_a_name_that_no_tool_has():
    builder = TraceBuilder()
    builder.add_call("", {})

    assert builder.build().tool_calls == (ToolCall("(unnamed)"),)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        (None, "null"),
        ({"a": 1}, '{"a":1}'),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
        ([{"type": "image", "data": "x"}], '[{"type":"image","data":"x"}]'),
        (["a", "b"], '["a","b"]'),
        ([], "[]"),
    ],
)
def test_a_result_is_text(content, text):
    assert render_result(content) == text


def test_only_text_in_the_parts_of_a_message_counts():
    parts = [
        "a",
        {"type": "text", "text": "b"},
        {"type": "image_url", "text": "no"},
        SimpleNamespace(text="c"),
    ]

    assert join_text(parts) == "a\nb\nc"
    assert join_text(None) == ""


def test_attributes_and_keys_are_read_alike():
    assert get({"a": None, "b": 2}, "a", "b") == 2
    assert get(SimpleNamespace(a=1), "a") == 1
    assert get(SimpleNamespace(), "a", default="none") == "none"


def test_documents_of_every_framework_have_text_and_metadata():
    node = SimpleNamespace(node=SimpleNamespace(text="llama", metadata={"page": 1}), score=0.5)
    documents = [
        SimpleNamespace(page_content="lang", metadata={"page": 2}),
        SimpleNamespace(content="hay", meta={"page": 3}),
        node,
        (SimpleNamespace(page_content="scored", metadata={}), 0.9),
        "text",
        {"text": "map"},
    ]

    assert extract_texts(documents) == ["lang", "hay", "llama", "scored", "text", "map"]
    assert [each["metadata"].get("page") for each in extract_texts_with_metadata(documents)] == [
        2, 3, 1, None, None, None,
    ]  # fmt: skip
    assert extract_texts(None) == []


def test_results_of_retrieving_tools_are_documents():
    calls = [
        ToolCall("search", result='[{"text": "a"}, {"text": "b"}]'),
        ToolCall("search", result='{"documents": ["c"]}'),
        ToolCall("search", result="plain text"),
        ToolCall("search", result='{"other": 1}'),
        ToolCall("search"),
        ToolCall("else", result="no"),
    ]

    documents = find_tool_documents(AgentTrace(calls), ("search",))

    assert extract_texts(documents) == ["a", "b", "c", "plain text", '{"other":1}']
    assert find_tool_documents(AgentTrace(calls), ("unused",)) is None


def test_a_result_nested_too_deep_for_json_is_one_document():
    deep = "[" * 200_000

    assert find_tool_documents(AgentTrace([ToolCall("search", result=deep)]), ("search",)) == (deep,)


def test_a_cost_of_the_framework_wins_and_the_price_table_is_asked_otherwise():
    prices = {"m": 0.25}.get

    def table(model, tokens_in, tokens_out):
        return prices(model)

    assert add_cost(CallMetrics(1, 1, cost_usd=0.5), "m", table).cost_usd == 0.5
    assert add_cost(CallMetrics(1, 1, cost_usd=0.0), "m", table).cost_usd == 0.25
    assert add_cost(CallMetrics(1, 1, model="m"), None, table).cost_usd == 0.25
    assert add_cost(CallMetrics(1, 1), "unknown", table).cost_usd is None


def test_usage_that_is_zero_throughout_was_not_measured():
    assert add_cost(CallMetrics(0, 0, cost_usd=0.0), "m", lambda *_: 1.0) is None
    assert add_cost(None) is None


def test_counts_that_are_not_counts_are_unknown():
    assert make_usage("12", -1, cached=True, reasoning=3) == CallMetrics(reasoning_tokens_out=3)


def test_usage_is_summed_where_there_is_any():
    assert sum_usage([None, CallMetrics(1, 2), CallMetrics(3, 4)]) == CallMetrics(4, 6)
    assert sum_usage([None]) is None
