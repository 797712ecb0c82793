"""Calls, results, answers and costs out of spans, in the cases that a straightforward run does not have."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos import Dataset, Experiment, ToolCall
from dokimos.datasets._answer_replay import recorded_task
from dokimos.evaluators import Contains
from dokimos.traces import (
    PriceCoverage,
    Span,
    SpanEvent,
    SpanRole,
    SpanTree,
    call_metrics,
    derive_text,
    parse_span,
    price_coverage,
    read_otlp,
    to_agent_trace,
    to_conversation,
    to_conversations,
    to_examples,
    to_test_case,
)


def user(text):
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


def answer(text):
    return {"role": "assistant", "parts": [{"type": "text", "content": text}]}


def calling(*calls):
    parts = [{"type": "tool_call", "id": key, "name": name, "arguments": args} for key, name, args in calls]
    return {"role": "assistant", "parts": parts}


def tool_result(key, response, **more):
    return {
        "role": "tool",
        "parts": [{"type": "tool_call_response", "id": key, "response": response, **more}],
    }


@pytest.fixture
def chat(span):
    """Make the span of a call of a model."""

    def make(given, gave, **options):
        return span(
            **options,
            gen_ai__operation__name="chat",
            gen_ai__input__messages=json.dumps(given),
            gen_ai__output__messages=json.dumps([gave]),
        )

    return make


@pytest.fixture
def tool(span):
    """Make the span of a tool that ran."""

    def make(name, arguments=None, result=None, key=None, **options):
        return span(
            f"execute_tool {name}",
            **options,
            gen_ai__operation__name="execute_tool",
            gen_ai__tool__name=name,
            gen_ai__tool__call__id=key,
            gen_ai__tool__call__arguments=arguments,
            gen_ai__tool__call__result=result,
        )

    return make


def results(trace):
    return [call.result for call in trace.tool_calls]


def test_ids_that_repeat_in_the_next_turn_keep_to_their_turn(chat):
    first, second = calling(("c0", "look", {"at": "a"})), calling(("c0", "look", {"at": "b"}))
    talk = [user("one"), first, tool_result("c0", "A"), answer("done one"), user("two"), second]
    spans = [
        chat(talk[:1], first),
        chat(talk[:3], answer("done one")),
        chat(talk[:5], second),
        chat(talk, answer("gave up")),
    ]

    assert results(to_agent_trace(spans)) == ["A", None]
    assert to_agent_trace(spans).final_response == "gave up"


def test_ids_that_repeat_within_a_turn_answer_the_last_call_before(chat):
    first, second = calling(("c0", "look", {"at": "a"})), calling(("c0", "look", {"at": "b"}))
    spans = [
        chat([user("one")], first),
        chat([user("one"), first, tool_result("c0", "A")], second),
        chat([user("one"), first, tool_result("c0", "A"), second, tool_result("c0", "B")], answer("done")),
    ]

    assert results(to_agent_trace(spans)) == ["A", "B"]


def test_calls_in_the_history_of_an_earlier_trace_are_not_of_this_one(chat):
    history = [
        user("one"),
        calling(("c0", "look", {})),
        tool_result("c0", "A"),
        answer("done one"),
        user("two"),
    ]
    spans = [
        chat(history, calling(("c1", "act", {}))),
        chat([*history, calling(("c1", "act", {}))], answer("ok")),
    ]

    trace = to_agent_trace(spans)

    assert [call.name for call in trace.tool_calls] == ["act"]
    assert [len(message.tool_calls) for message in to_conversation(spans).assistant_messages] == [1, 1]


def test_a_call_whose_model_span_is_lost_is_found_in_the_history(chat):
    made = calling(("c0", "look", {"at": "a"}))

    trace = to_agent_trace([chat([user("one"), made, tool_result("c0", "A")], answer("done"))])

    assert trace.tool_calls == (ToolCall("look", {"at": "a"}, result="A", metadata={"id": "c0"}),)


def test_history_that_was_cut_off_at_its_start_is_still_recognised(chat):
    first, second = calling(("c0", "look", {"at": "a"})), calling(("c1", "look", {"at": "b"}))
    spans = [
        chat([user("one")], first),
        chat([user("one"), first, tool_result("c0", "A")], second),
        chat([second, tool_result("c1", "B")], answer("done")),
    ]

    assert results(to_agent_trace(spans)) == ["A", "B"]


def test_results_without_an_id_go_to_the_only_call_that_they_can_belong_to(chat):
    def unnamed(value, **more):
        return {"role": "tool", "content": value, **more}

    made = calling(("", "look", {}), ("", "act", {}))
    one = [chat([user("x")], made), chat([user("x"), made, unnamed("A", name="act")], answer("y"))]
    assert results(to_agent_trace(one)) == [None, "A"]


def test_results_without_an_id_that_several_calls_could_have_go_to_none(chat):
    made = calling(("", "look", {"at": 1}), ("", "look", {"at": 2}))
    unnamed = {"role": "tool", "content": "A", "name": "look"}

    trace = to_agent_trace([chat([user("x")], made), chat([user("x"), made, unnamed], answer("y"))])

    assert results(trace) == [None, None]


def test_results_are_those_of_the_tools_where_no_model_was_sent_them(chat, tool):
    made = calling(("c0", "look", {"at": "a"}), ("c1", "look", {"at": "b"}))
    spans = [
        chat([user("x")], made),
        tool("look", result='{"is": "B"}', key="c1"),
        tool("look", result="A", key="c0"),
    ]

    assert results(to_agent_trace(spans)) == ["A", '{"is":"B"}']


def test_tools_without_an_id_are_put_to_the_call_with_their_arguments(chat, tool):
    made = calling(("c0", "look", '{"at": "a"}'), ("c1", "look", '{"at": "b"}'))
    spans = [
        chat([user("x")], made),
        tool("look", {"at": "b", "deep": False}, "B"),
        tool("look", {"at": "a"}, "A"),
    ]

    assert results(to_agent_trace(spans)) == ["A", "B"]
    assert len(to_agent_trace(spans).tool_calls) == 2


def test_tools_that_no_model_asked_for_are_calls_too(tool):
    trace = to_agent_trace([tool("look", '{"at": "a"}', "A"), tool("shout", "loud", key="c9"), tool("stop")])

    assert trace.tool_calls == (
        ToolCall("look", {"at": "a"}, result="A"),
        ToolCall("shout", {"input": "loud"}, metadata={"id": "c9"}),
        ToolCall("stop", metadata={"unknownArguments": True}),
    )
    assert trace.final_response is None


def test_a_tool_recorded_by_an_agent_and_by_a_protocol_below_it_is_one_call(tool, span):
    outer = tool("look", {"at": "a"}, "A", key="c0")
    inner = span("tools/call look", parent=outer, mcp__method__name="tools/call", gen_ai__tool__name="look")

    assert len(to_agent_trace([outer, inner]).tool_calls) == 1


def test_arguments_that_are_not_json_are_kept_for_the_evaluators(chat):
    (call,) = to_agent_trace([chat([user("x")], calling(("c0", "look", '{"at": ')))]).tool_calls

    assert (call.arguments, call.invalid_arguments) == ({}, '{"at": ')


def test_arguments_that_are_not_a_map_have_a_name(chat):
    (call,) = to_agent_trace([chat([user("x")], calling(("c0", "look", [1, 2])))]).tool_calls

    assert call.arguments == {"input": [1, 2]}


def test_a_tool_that_failed_says_why(chat, tool):
    made = calling(("c0", "look", {}), ("c1", "look", {"at": 1}))
    failed = replace(tool("look", key="c0"), status="error", status_message="")
    raised = SpanEvent("exception", {"exception.message": "it is dark", "exception.type": "IOError"})
    spans = [
        chat([user("x")], made, at=0),
        replace(failed, events=(raised,)),
        chat([user("x"), made, tool_result("c1", "no", is_error=True)], answer("y")),
    ]

    assert [call.metadata.get("error") for call in to_agent_trace(spans).tool_calls] == ["it is dark", True]


def test_the_calls_of_an_agent_that_is_a_tool_are_there_but_not_in_the_conversation(chat, tool):
    ask = calling(("c0", "researcher", {"about": "rain"}))
    outer = chat([user("pack?")], ask)
    agent = tool("researcher", {"about": "rain"}, "it rains", key="c0")
    dig = calling(("c7", "search", {"q": "rain"}))
    inner = [
        chat([user("about rain")], dig, parent=agent, at=1.2),
        chat([user("about rain"), dig, tool_result("c7", "wet")], answer("it rains"), parent=agent, at=1.3),
    ]
    last = chat([user("pack?"), ask, tool_result("c0", "it rains")], answer("an umbrella"), at=5)
    spans = [*inner, agent, outer, last]

    trace = to_agent_trace(spans)

    assert [call.name for call in trace.tool_calls] == ["researcher", "search"]
    assert trace.final_response == "an umbrella"
    assert [m.content for m in to_conversation(spans).messages] == ["pack?", "an umbrella"]
    assert to_agent_trace(SpanTree(spans).subtree(agent.span_id)).tool_calls[-1].name == "search"


def test_a_model_span_around_another_counts_once(chat):
    outer = chat([user("x")], calling(("c0", "look", {})))
    inner = replace(chat([user("x")], calling(("c0", "look", {})), parent=outer), start_ns=outer.start_ns)

    assert len(to_agent_trace([outer, inner]).tool_calls) == 1


def test_models_that_were_asked_unrelated_things_have_threads_of_their_own(chat):
    spans = [chat([user(f"question {n}")], calling(("", "look", {"at": n}))) for n in range(3000)]

    trace = to_agent_trace(spans)

    assert [call.arguments for call in trace.tool_calls] == [{"at": n} for n in range(3000)]
    assert [m.content for m in to_conversation(spans).user_messages] == ["question 2999"]


def test_of_several_choices_the_first_counts(span):
    one = span(
        gen_ai__operation__name="chat",
        gen_ai__request__choice__count=2,
        gen_ai__output__messages=json.dumps([answer("A"), answer("B")]),
    )

    assert to_agent_trace([one]).final_response == "A"


def test_reasoning_is_kept_apart(chat):
    thought = {
        "role": "assistant",
        "parts": [{"type": "reasoning", "content": "Hm."}, *answer("ok")["parts"]],
    }

    trace = to_agent_trace([chat([user("x")], thought)])

    assert (trace.reasoning_steps, trace.final_response) == (("Hm.",), "ok")


def test_a_run_that_ends_with_a_call_has_no_final_response(chat):
    trace = to_agent_trace([chat([user("x")], calling(("c0", "look", {})))])

    assert trace.final_response is None


def test_an_agent_says_itself_what_it_answers(chat, span):
    agent = span("run", gen_ai__operation__name="invoke_agent", final_result={"city": "Paris"})
    agent_text = replace(agent, attributes={**agent.attributes, "final_result": "Paris"})
    model = chat([user("x")], calling(("c0", "final_result", {"city": "Paris"})), parent=agent)

    assert to_agent_trace([agent_text, model]).final_response == "Paris"


def test_the_state_of_a_program_is_not_an_answer_but_what_the_model_said_is(chat, span):
    root = span("graph", openinference__span__kind="CHAIN", output__value='{"messages": ["..."]}')

    assert to_agent_trace([root, chat([user("x")], answer("ok"), parent=root)]).final_response == "ok"
    assert to_agent_trace([root]).final_response == '{"messages": ["..."]}'


def test_agents_that_tell_all_messages_themselves_need_no_spans_of_models(span):
    talk = [user("one"), calling(("c0", "look", {})), tool_result("c0", "A"), answer("done")]
    agent = span("run", gen_ai__operation__name="invoke_agent", pydantic_ai__all_messages=json.dumps(talk))

    trace = to_agent_trace([agent])

    assert results(trace) == ["A"]
    assert trace.final_response == "done"


def test_a_span_with_plain_texts_is_a_case(span):
    one = span("llm.generate", input="What is the capital of France?", output="Paris.")
    case = to_test_case([one])

    assert (case.input, case.actual_output) == ("What is the capital of France?", "Paris.")
    assert [m.content for m in to_conversation([one]).messages] == [
        "What is the capital of France?",
        "Paris.",
    ]


def test_a_trace_that_says_nothing_is_empty(span):
    case = to_test_case([span("GET /")])

    assert (case.input, case.actual_output, case.tool_calls) == (None, None, ())
    assert to_conversation([span("GET /")]).messages == ()


@pytest.mark.parametrize(
    ("attributes", "given", "gave"),
    [
        ({"input.value": "a", "input": "b", "output.value": "c", "output": "d"}, "a", "c"),
        ({"dokimos.input": " ", "gen_ai.prompt": "a", "completion": "c"}, "a", "c"),
        ({"llm.input": "a", "prompt": "b", "llm.output": "c", "gen_ai.completion": "d"}, "a", "d"),
        ({"input": 3, "output": {"a": 1}}, "3", '{"a":1}'),
        (
            {"traceloop.entity.input": '{"args": ["a"], "kwargs": {}}', "traceloop.entity.output": '"c"'},
            "a",
            "c",
        ),
        ({}, None, None),
    ],
)
def test_the_text_of_a_span_is_under_the_first_name_that_has_one(span, attributes, given, gave):
    assert derive_text(replace(span(), attributes=attributes)) == (given, gave)


@pytest.mark.parametrize(
    ("attributes", "role"),
    [
        ({"gen_ai.operation.name": "chat"}, SpanRole.MODEL),
        ({"gen_ai.operation.name": "create_agent", "gen_ai.request.model": "m"}, SpanRole.OTHER),
        ({"gen_ai.operation.name": "responses", "gen_ai.completion": "a"}, SpanRole.MODEL),
        ({"openinference.span.kind": "Retriever"}, SpanRole.RETRIEVAL),
        ({"openinference.span.kind": "GUARDRAIL", "output.value": "a"}, SpanRole.OTHER),
        ({"traceloop.span.kind": "workflow"}, SpanRole.STEP),
        ({"llm.request.type": "completion"}, SpanRole.MODEL),
        ({"mcp.method.name": "tools/call"}, SpanRole.TOOL),
        ({"gen_ai.tool.call.id": "c0"}, SpanRole.TOOL),
        ({"retrieval.documents.0.document.content": "a"}, SpanRole.RETRIEVAL),
        ({"http.method": "GET"}, SpanRole.OTHER),
    ],
)
def test_what_a_span_stands_for_is_named_by_its_attributes(span, attributes, role):
    assert parse_span(replace(span(), attributes=attributes)).role is role


@pytest.mark.parametrize(
    ("attributes", "arguments", "result"),
    [
        ({"input.value": "{'at': 'a', 'deep': True}", "output.value": "A"}, {"at": "a", "deep": True}, "A"),
        ({"traceloop.entity.input": '{"args": [1], "kwargs": {"b": 2}}'}, {"args": [1], "b": 2}, None),
        ({"traceloop.entity.input": '{"input_str": "{\'at\': 1}", "tags": []}'}, {"at": 1}, None),
        ({"traceloop.entity.input": '{"input_str": "x", "inputs": {"at": 1}}'}, {"at": 1}, None),
        (
            {"traceloop.entity.output": '{"output": {"kwargs": {"content": "A", "tool_call_id": "c"}}}'},
            {},
            "A",
        ),
        ({"tool_arguments": '{"at": 1}', "tool_response": '{"is": "A"}'}, {"at": 1}, '{"is":"A"}'),
        ({"tool.parameters": '{"at": 1}'}, {"at": 1}, None),
        ({"tool.parameters": '{"type": "object", "properties": {}}'}, {}, None),
    ],
)
def test_what_libraries_wrap_around_arguments_and_results_is_taken_off(span, attributes, arguments, result):
    one = replace(span("look"), attributes={"openinference.span.kind": "TOOL", **attributes})
    (call,) = to_agent_trace([one]).tool_calls

    assert (call.name, call.arguments, call.result) == ("look", arguments, result)


def test_costs_that_were_recorded_win_over_the_price_table(span):
    def used(cost=None):
        return span(
            gen_ai__operation__name="chat",
            gen_ai__request__model="m",
            gen_ai__usage__input_tokens=100,
            gen_ai__usage__output_tokens=10,
            gen_ai__usage__cache_read__input_tokens=40,
            gen_ai__usage__reasoning__output_tokens=5,
            llm__cost__total=cost,
        )

    metrics = call_metrics([used(0.5), used(0)], lambda model, tokens_in, tokens_out: tokens_in / 1000)

    assert metrics.cost_usd == pytest.approx(0.6)
    assert (metrics.tokens_in, metrics.cached_tokens_in, metrics.reasoning_tokens_out) == (200, 80, 10)
    assert metrics.latency_ms == pytest.approx(1500.0)


def test_a_cost_has_a_coverage(span):
    def used(model, cost=None, tokens=100, **options):
        usage = {
            "gen_ai__request__model": model,
            "gen_ai__usage__input_tokens": tokens,
            "llm__cost__total": cost,
        }
        return span(gen_ai__operation__name="chat", **usage, **options)

    spans = [used("known"), used("new"), used("new", 0.5), used("failed", tokens=None)]

    assert price_coverage(spans) == PriceCoverage(priced=1, unpriced=2)
    prices = {"known": 0.1}
    assert price_coverage(spans, lambda model, *_: prices.get(model)) == PriceCoverage(priced=2, unpriced=1)
    assert price_coverage([used("failed", tokens=None)]) == PriceCoverage(0, 0)


def test_coverage_counts_the_calls_whose_usage_is_added_up(span):
    agent = span("run", gen_ai__operation__name="invoke_agent", gen_ai__usage__input_tokens=7)
    outer = span(parent=agent, gen_ai__operation__name="chat", gen_ai__usage__input_tokens=5)
    inner = span(parent=outer, gen_ai__operation__name="chat", gen_ai__usage__input_tokens=5)

    assert price_coverage([agent]) == PriceCoverage(0, 1)
    assert price_coverage([agent, outer, inner]) == PriceCoverage(0, 1)


def test_usage_of_nothing_but_zeros_was_not_measured(span):
    one = span(gen_ai__operation__name="chat", gen_ai__usage__input_tokens=0, gen_ai__usage__output_tokens=0)

    assert call_metrics([one]).tokens is None


def test_usage_of_an_agent_counts_where_its_models_say_nothing(span):
    agent = span("run", gen_ai__operation__name="invoke_agent", gen_ai__usage__input_tokens=7)
    silent = span(parent=agent, gen_ai__operation__name="chat")
    wrapped = span(parent=agent, gen_ai__operation__name="chat", gen_ai__usage__input_tokens=5)
    inner = span(parent=wrapped, gen_ai__operation__name="chat", gen_ai__usage__input_tokens=5)

    assert call_metrics([agent, silent]).tokens_in == 7
    assert call_metrics([agent, silent, wrapped, inner]).tokens_in == 5


def test_documents_count_once_although_retrievers_are_nested(span):
    found = json.dumps([{"id": 1, "content": "a"}, {"id": 2, "text": "b"}, "c", {"score": 1}])
    outer = span(gen_ai__operation__name="retrieval", gen_ai__retrieval__documents=found)
    inner = span(parent=outer, gen_ai__operation__name="retrieval", gen_ai__retrieval__documents='["raw"]')

    outputs = to_test_case([outer, inner]).actual_outputs

    assert (outputs["contexts"], outputs["retrieved"]) == (["a", "b", "c"], ["1", "2"])


def test_a_conversation_may_have_a_trace_for_each_turn(chat):
    def turn(given, gave, trace_id, at):
        one = chat(given, gave, at=at)
        return replace(
            one, trace_id=trace_id, attributes={**one.attributes, "gen_ai.conversation.id": "talk"}
        )

    with_history = [
        turn([user("hi")], answer("Hello!"), "a" * 32, 1),
        turn([user("hi"), answer("Hello!"), user("hi")], answer("Hello!"), "b" * 32, 2),
    ]
    without = [
        turn([user("hi")], answer("Hello!"), "a" * 32, 1),
        turn([user("hi")], answer("Hello!"), "b" * 32, 2),
    ]

    for spans in (with_history, without):
        (conversation,) = to_conversations(reversed(spans)).values()
        assert [m.content for m in conversation.messages] == ["hi", "Hello!", "hi", "Hello!"]
    assert list(to_conversations(with_history)) == ["talk"]


def test_traces_are_evaluated_like_any_recorded_data(story):
    spans = [s for n in range(3) for s in read_otlp(story.otlp("openinference", f"{n + 1:032x}")).spans]

    result = Experiment(Dataset(to_examples(spans)), recorded_task(), [Contains(values="taxi")]).run()

    assert (result.pass_rate, len(result.item_results)) == (1.0, 3)
    assert result.item_results[0].metrics.tokens_in == call_metrics(spans[:11]).tokens_in


@pytest.mark.parametrize(
    "attributes",
    [
        {"events": 5},
        {"events": [{"event.name": ["gen_ai.choice"]}]},
        {"gen_ai.operation.name": "chat", "gen_ai.tool.definitions": [{"function": "parameters"}]},
        {"traceloop.entity.input": '{"args": 5}'},
        {"traceloop.entity.input": {"input_str": "{'a': {[]: 1}}"}, "traceloop.span.kind": "tool"},
        {"traceloop.entity.input": "\ud800"},
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": " "},
        {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": [{"id": 1, "score": 10**400}]},
        {"llm.input_messages." + ".".join("a" * 3000): 1},
        {"llm.input_messages." + "9" * 5000 + ".message.role": "user"},
        {"gen_ai.usage.input_tokens": 10**400},
    ],
)
def test_no_attribute_keeps_the_others_from_being_read(span, attributes):
    tool_result = {"gen_ai.output.messages": json.dumps([answer("ok")]), "gen_ai.usage.output_tokens": 5}
    spans = [replace(span("execute_tool "), attributes=attributes), replace(span(), attributes=tool_result)]

    (example,) = to_examples(spans)

    assert example.actual_outputs["output"] == "ok"
    assert example.metrics.tokens_out == 5
    assert to_conversation(spans).assistant_messages[-1].content == "ok"


def test_a_tool_without_any_name_is_a_call_without_one():
    nameless = Span("t", "1", name="", attributes={"gen_ai.operation.name": "execute_tool"})

    assert to_agent_trace([nameless]).tool_names == ("(unnamed)",)


def test_messages_with_half_a_surrogate_pair_are_read(span):
    for half in ("\\ud83d", "\ud83d"):
        tool_result = f'[{{"role": "assistant", "content": "ok {half}"}}]'

        trace = to_agent_trace([span(gen_ai__operation__name="chat", gen_ai__output__messages=tool_result)])

        assert trace.final_response == "ok \ud83d"


def test_an_answer_that_nobody_recorded_is_not_an_empty_answer(chat, span):
    made = calling(("c0", "look", {}))
    asked, silent = chat([user("x")], made), span(gen_ai__operation__name="chat")

    for spans, known in (([asked], True), ([asked, silent], False), ([silent], False)):
        outputs = to_test_case(spans).actual_outputs
        assert outputs.get("output", "not there") == ("" if known else "not there")


def test_arguments_that_nobody_recorded_are_not_known(chat, tool):
    made = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c0", "name": "look"}]}
    silent, filled = chat([user("x")], made), tool("look", {"at": "a"}, key="c0")

    (unknown,) = to_agent_trace([silent]).tool_calls
    (known,) = to_agent_trace([silent, filled]).tool_calls
    (none,) = to_agent_trace([tool("stop", {})]).tool_calls

    assert (unknown.arguments, unknown.has_unknown_arguments) == ({}, True)
    assert (known.arguments, known.has_unknown_arguments) == ({"at": "a"}, False)
    assert none.has_unknown_arguments is False


@given(st.permutations(range(4)), st.sets(st.integers(0, 3)))
def test_results_go_to_their_calls_whatever_their_order(order, missing):
    made = calling(*((f"c{n}", "look", {"at": n}) for n in range(4)))
    given_back = [tool_result(f"c{n}", f"result {n}") for n in order if n not in missing]

    def model(number, given, gave):
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": given}
        attributes["gen_ai.output.messages"] = [gave]
        return Span("t", f"{number}", name="chat", start_ns=number, end_ns=number, attributes=attributes)

    trace = to_agent_trace(
        [model(1, [user("x")], made), model(2, [user("x"), made, *given_back], answer("done"))]
    )

    assert results(trace) == [None if n in missing else f"result {n}" for n in range(4)]


def test_a_span_that_repeats_several_results_is_not_a_call(span):
    """As ADK writes one below the calls of a turn."""
    spans = [
        span(gen_ai__operation__name="execute_tool", gen_ai__tool__name=name, gen_ai__tool__call__id=key)
        for name, key in (("add", "c1"), ("(merged tools)", "e1"))
    ]

    assert to_agent_trace(spans).tool_names == ("add",)


@pytest.mark.parametrize(
    ("response", "result"),
    [
        ('{"result": null}', "null"),
        ('{"result": []}', "[]"),
        ('{"result": 0}', "0"),
        ('{"result": "sunny"}', "sunny"),
        ('{"result": "<not specified>"}', None),
        ('{"at": "a", "result": 1}', '{"at":"a","result":1}'),
        ("{}", None),
    ],
)
def test_what_a_tool_of_adk_returned_is_taken_out_of_its_map(span, response, result):
    ran = span(
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name="look_up",
        gcp__vertex__agent__event_id="e1",
        gcp__vertex__agent__tool_call_args="{}",
        gcp__vertex__agent__tool_response=response,
    )

    assert results(to_agent_trace([ran])) == [result]


def test_a_tool_that_ran_may_describe_itself(span):
    """As those of Strands do, whose agents name their tools only."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    ran = span(
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name="add",
        gen_ai__tool__description="Add.",
        gen_ai__tool__json_schema=json.dumps(schema),
    )

    (tool,) = to_test_case([ran]).metadata["tools"]

    assert (tool.name, tool.description, tool.input_schema) == ("add", "Add.", schema)


def test_the_line_break_at_the_end_of_an_agents_answer_is_left_out(span):
    agent = span(
        gen_ai__operation__name="invoke_agent", gen_ai__output__messages=json.dumps([answer("Three.\n")])
    )

    assert to_agent_trace([agent]).final_response == "Three."
