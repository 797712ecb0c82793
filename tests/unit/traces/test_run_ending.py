"""How runs end: with an answer, by a failure, or in a way that nobody recorded."""

import json
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dokimos import Dataset, Experiment
from dokimos.datasets._answer_replay import recorded_task
from dokimos.evaluators import Contains, Evaluator, Tokens, ToolErrors
from dokimos.traces import (
    Span,
    SpanEvent,
    load_spans,
    to_agent_trace,
    to_agent_traces,
    to_conversation,
    to_conversations,
    to_examples,
    to_test_case,
)

CRASHED = {
    "openai-v2": "RateLimitError: Error code: 429 - Rate limit reached",
    "openinference": "RateLimitError: Error code: 429 - Rate limit reached",
    "openllmetry": "RateLimitError: Error code: 429 - Rate limit reached",
    "pydantic-ai": "ModelRateLimitError: status_code: 429, model_name: scripted, body: {'message': "
    "'Rate limit reached', 'type': 'invalid_request_error', 'code': None}",
}
CALLS = ["get_weather", "get_weather", "search_guides", "book_taxi"]


@dataclass(frozen=True, kw_only=True)
class Lenient(Evaluator):
    """One that a user wrote, and that likes everything."""

    def score(self, case):
        return True


EVALUATORS = (ToolErrors(), Tokens(max_tokens=10**9), Lenient(), Contains(values=["x"]))


def user(text):
    return {"role": "user", "content": text}


def answer(text):
    return {"role": "assistant", "content": text}


LOOK = {
    "role": "assistant",
    "parts": [{"type": "tool_call", "id": "c0", "name": "look", "arguments": {}}],
}
FOUND = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c0", "response": "A"}]}


@pytest.fixture
def chat(span):
    """Make the span of a call of a model; without an answer where `gave` is None."""

    def make(given, gave=None, **options):
        recorded = {} if gave is None else {"gen_ai__output__messages": json.dumps([gave])}
        return span(
            **options, **recorded, gen_ai__operation__name="chat", gen_ai__input__messages=json.dumps(given)
        )

    return make


@pytest.fixture
def agent(span):
    def make(**options):
        return span("invoke_agent", gen_ai__operation__name="invoke_agent", **options)

    return make


def failed(span, message="TimeoutError: too slow", **fields):
    return replace(span, status="error", status_message=message, **fields)


def around(span, *spans):
    """Return a span as one that ends after others."""
    return replace(span, end_ns=max(each.end_ns for each in (span, *spans)) + 1)


def raised(kind, message):
    return SpanEvent("exception", {"exception.type": kind, "exception.message": message})


@pytest.mark.parametrize("name", CRASHED)
def test_a_crashed_run_of_a_real_instrumentation_is_an_errored_item(recordings, name):
    rows = to_examples(load_spans(recordings / f"{name}-crash.json.gz"))

    result = Experiment(Dataset(rows), recorded_task(), EVALUATORS).run(journal=False, progress=False)

    (item,) = result.item_results
    assert item.error == CRASHED[name]
    assert (item.eval_results, result.error_count, result.pass_rate) == ((), 1, 0.0)
    assert "output" not in item.actual_outputs
    assert [call.name for call in item.actual_outputs["toolCalls"]] == ["get_weather"] * 2
    assert item.metrics.tokens == 15


@pytest.mark.parametrize("name", CRASHED)
def test_no_evaluator_scores_the_case_of_a_crashed_run(recordings, name):
    case = to_test_case(load_spans(recordings / f"{name}-crash.json.gz"))

    for each in EVALUATORS:
        result = each.evaluate(case)
        assert (result.score, result.success) == (None, None)
        assert CRASHED[name] in result.error


@pytest.mark.parametrize("name", CRASHED)
def test_the_trace_of_a_crashed_run_says_what_was_done(recordings, name):
    trace = to_agent_trace(load_spans(recordings / f"{name}-crash.json.gz"))

    assert (trace.error, trace.errors, trace.final_response) == (CRASHED[name], (), None)
    assert [call.result for call in trace.tool_calls] == ['{"celsius":11}', '{"error":"no station"}']
    assert trace.to_test_case().error == CRASHED[name]


@pytest.mark.parametrize("name", CRASHED)
def test_nothing_is_made_up_where_no_content_was_captured(recordings, name):
    (row,) = to_examples(load_spans(recordings / f"{name}-silent.json.gz"))

    assert (row.inputs, row.actual_error) == ({}, None)
    assert {"output", "contexts"}.isdisjoint(row.actual_outputs)
    calls = row.actual_outputs["toolCalls"]
    assert [call.name for call in calls][:4] == CALLS
    assert all(call.has_unknown_arguments and call.result is None for call in calls)
    assert Contains(values=["x"]).evaluate(row.to_test_case(row.actual_outputs)).score is None


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"message": "ValueError: no"}, "ValueError: no"),
        ({"message": "no", "attributes": {"error.type": "ValueError"}}, "ValueError: no"),
        ({"message": "", "attributes": {"error.type": "app.errors.NoSuchCity"}}, "NoSuchCity"),
        ({"message": "", "events": (raised("app.Broken", "no"),)}, "Broken: no"),
        ({"message": "", "events": (raised("Earlier", "x"), raised("app.Broken", "no"))}, "Broken: no"),
        ({"message": "", "events": (raised("app.Broken", ""),)}, "Broken"),
        ({"message": "", "events": (SpanEvent("exception"),)}, "message"),
        ({"message": " \n"}, "message"),
    ],
)
def test_an_error_has_the_type_and_message_of_the_status_or_the_exception(span, fields, error):
    case = to_test_case([failed(span("app"), **fields)])

    assert case.error == (
        "The span 'app' has the status ERROR, without a message." if error == "message" else error
    )
    assert "output" not in case.actual_outputs


def test_a_model_that_failed_without_an_answer_ends_the_run_also_below_a_root_that_did_not(span, chat):
    root = span("app")
    spans = [around(root, failed(chat([user("x")], parent=root))), failed(chat([user("x")], parent=root))]

    assert to_test_case(spans).error == "TimeoutError: too slow"


def test_a_failed_call_beside_a_good_answer_is_in_the_trace(span, chat):
    root = span("app")
    spans = [
        root,
        failed(chat([user("x")], parent=root)),
        failed(chat([user("x")], parent=root)),
        chat([user("x")], answer("y"), parent=root),
    ]

    trace = to_agent_trace(spans)
    (row,) = to_examples(spans)
    result = Experiment(Dataset([row]), recorded_task(), [Lenient()]).run(journal=False, progress=False)

    assert (trace.final_response, trace.error) == ("y", None)
    assert trace.errors == ("TimeoutError: too slow", "TimeoutError: too slow")
    assert row.actual_outputs["errors"] == list(trace.errors)
    assert (result.pass_rate, result.error_count) == (1.0, 0)


def test_a_failure_that_was_passed_on_counts_once(span, agent, chat):
    root, first = span("app"), agent()
    first = replace(first, parent_id=root.span_id)
    retried, last = chat([user("x")], parent=first), chat([user("x")], parent=first)
    first = failed(around(first, retried, last), "AgentError: TimeoutError: too slow")

    trace = to_agent_trace([failed(around(root, first)), first, failed(retried), failed(last)])

    assert trace.error == "AgentError: TimeoutError: too slow"
    assert trace.errors == ("TimeoutError: too slow",)


@pytest.fixture
def broken(chat):
    """Make the span of a model whose answer broke off: by its status, or by its finish reason alone."""

    def make(how, given, text, **options):
        recorded = {"finish_reason": "error", **answer(text)} if how == "message" else answer(text)
        reasons = {"gen_ai__response__finish_reasons": ["error"]} if how == "attribute" else {}
        span = chat(given, recorded, **options, **reasons)
        return failed(span, "APIConnectionError: reset") if how == "status" else span

    return make


@pytest.mark.parametrize("how", ["status", "message", "attribute"])
def test_an_answer_that_was_cut_off_is_an_error_that_keeps_what_was_said(span, broken, how):
    root = span("POST /chat", http__request__method="POST")
    spans = [root, broken(how, [user("x")], "The capital of Fra", parent=root)]

    trace, (row,) = to_agent_trace(spans), to_examples(spans)
    result = Experiment(Dataset([row]), recorded_task(), EVALUATORS).run(journal=False, progress=False)

    assert trace.final_response is None
    assert trace.error == (
        "APIConnectionError: reset"
        if how == "status"
        else "The answer of the model was cut off: its finish reason is 'error'."
    )
    assert trace.outputs_so_far()["partialResponse"] == "The capital of Fra"
    (item,) = result.item_results
    assert (item.error, item.eval_results) == (trace.error, ())
    assert item.actual_outputs["partialResponse"] == "The capital of Fra"
    assert to_conversation(spans).messages[-1].content == "The capital of Fra"


def test_an_application_that_passes_on_an_answer_that_was_cut_off_has_none(span, broken):
    root = span("app", output="The capital of Fra\n")
    spans = [root, broken("status", [user("x")], "The capital of Fra", parent=root)]

    assert to_agent_trace(spans).error == "APIConnectionError: reset"


def test_an_application_that_answers_otherwise_after_its_model_was_cut_off_has_answered(span, broken):
    root = span("app", output="Paris, as the cache says.")
    spans = [root, broken("status", [user("x")], "The capital of Fra", parent=root)]

    trace = to_agent_trace(spans)

    assert (trace.final_response, trace.error) == ("Paris, as the cache says.", None)
    assert trace.errors == ("APIConnectionError: reset",)


def test_an_answer_that_was_cut_off_and_was_asked_for_again_does_no_harm(broken, chat):
    spans = [broken("status", [user("x")], "The cap"), chat([user("x")], answer("Paris."))]

    trace = to_agent_trace(spans)

    assert (trace.final_response, trace.errors) == ("Paris.", ("APIConnectionError: reset",))
    assert "partialResponse" not in trace.metadata


def test_a_model_that_failed_while_it_called_a_tool_has_not_ended_with_a_call(chat):
    trace = to_agent_trace([failed(chat([user("x")], LOOK))])

    assert (trace.error, [call.name for call in trace.tool_calls]) == ("TimeoutError: too slow", ["look"])


def test_the_text_of_an_agent_that_failed_may_have_broken_off(agent):
    one = agent(gen_ai__output__messages=json.dumps([answer("The capital of Fra")]))

    trace = to_agent_trace([failed(one)])

    assert (trace.final_response, trace.error) == (None, "TimeoutError: too slow")
    assert trace.metadata["partialResponse"] == "The capital of Fra"


def test_the_text_of_a_root_that_failed_is_an_answer_only_where_its_model_gave_one(span, chat):
    alone = failed(span("app", output="Sorry, no."))
    assert to_agent_trace([alone]).error == "TimeoutError: too slow"
    assert to_agent_trace([alone]).metadata["partialResponse"] == "Sorry, no."

    root = span("app", output="Answer: y")
    said = chat([user("x")], answer("y"), parent=root)
    trace = to_agent_trace([failed(around(root, said)), said])
    assert (trace.final_response, trace.errors) == ("Answer: y", ("TimeoutError: too slow",))


def test_an_answer_cut_at_the_limit_of_tokens_is_an_answer(chat):
    cut = chat([user("x")], answer("The capital"), gen_ai__response__finish_reasons=["length"])

    assert to_agent_trace([cut]).final_response == "The capital"


def test_what_was_answered_in_an_earlier_turn_is_not_an_answer_to_this_one(chat):
    history = [user("one"), answer("done one"), user("two")]

    crashed, silent = failed(chat(history)), chat(history)

    assert to_test_case([crashed]).error == "TimeoutError: too slow"
    assert (to_test_case([silent]).input, to_agent_trace([silent]).final_response) == ("two", None)
    assert "output" not in to_test_case([silent]).actual_outputs


def test_a_second_turn_that_crashed_is_not_covered_by_the_first(agent, chat):
    first, second = agent(gen_ai__output__messages=json.dumps([answer("done one")])), agent()
    asked = failed(chat([user("one"), answer("done one"), user("two")], parent=second))

    case = to_test_case([first, failed(around(second, asked)), asked])

    assert case.error == "TimeoutError: too slow"


def test_what_an_agent_said_before_it_failed_is_not_its_answer(agent, chat):
    one = agent()
    plan = chat([user("x")], answer("First I look around."), parent=one)

    assert to_test_case([failed(around(one, plan)), plan]).error == "TimeoutError: too slow"


def test_what_an_agent_that_failed_said_beside_a_call_is_not_its_answer(agent):
    step = {"role": "assistant", "parts": [{"type": "text", "content": "Let me look."}, *LOOK["parts"]]}
    one = agent(gen_ai__input__messages=json.dumps([user("x")]), gen_ai__output__messages=json.dumps([step]))

    assert to_test_case([failed(one, "ValueError: boom")]).error == "ValueError: boom"


def test_an_agent_that_takes_over_from_one_that_failed_answers(agent, chat):
    first = failed(agent())
    second = agent()
    said = chat([user("x")], answer("y"), parent=second)

    trace = to_agent_trace([first, around(second, said), said])

    assert (trace.final_response, trace.error, trace.errors) == ("y", None, ("TimeoutError: too slow",))


def test_an_intermediate_step_of_a_run_that_failed_is_not_an_answer(span, chat):
    root = span("app")
    query = chat([user("x")], answer("select 1"), parent=root)
    ran = span(
        "execute_tool db", parent=root, gen_ai__operation__name="execute_tool", gen_ai__tool__name="db"
    )

    assert to_test_case([failed(around(root, ran)), query, ran]).error == "TimeoutError: too slow"
    assert to_test_case([around(root, ran), query, ran]).actual_output == "select 1"


def test_a_root_that_failed_after_the_answer_takes_nothing_from_it(span, chat):
    root = span("app")
    said = chat([user("x")], answer("y"), parent=root)

    trace = to_agent_trace([failed(around(root, said)), said])

    assert (trace.final_response, trace.error, trace.errors) == ("y", None, ("TimeoutError: too slow",))


def test_a_root_that_answers_has_dealt_with_what_failed(span, chat):
    root = span("app", output="Sorry, try again later.")

    trace = to_agent_trace([root, failed(chat([user("x")], parent=root))])

    assert (trace.final_response, trace.error) == ("Sorry, try again later.", None)
    assert trace.errors == ("TimeoutError: too slow",)


def test_what_fails_within_a_tool_is_the_tools(span, chat):
    made, tool = chat([user("x")], LOOK), span("t", gen_ai__tool__name="look", gen_ai__tool__call__id="c0")
    within = failed(chat([user("summarize")], parent=tool), "KeyError: 'a'")
    tool = failed(around(tool, within), "ToolError: KeyError: 'a'")

    answered = to_agent_trace([made, tool, within, chat([user("x"), LOOK, FOUND], answer("y"))])
    handed_over = to_agent_trace([made, tool, within])

    assert (answered.final_response, answered.error, answered.errors) == ("y", None, ())
    assert answered.tool_calls[0].metadata["error"] == "ToolError: KeyError: 'a'"
    assert (handed_over.error, handed_over.to_outputs()["output"]) == (None, "")


def test_a_tool_that_is_the_whole_trace_can_crash_it(span):
    tool = failed(span("tools/call", mcp__method__name="tools/call", gen_ai__tool__name="look"))

    assert to_test_case([tool]).error == "TimeoutError: too slow"


def test_an_answer_is_missing_where_the_model_was_asked_again_after_what_it_said(chat):
    said, silent = chat([user("x")], answer("First I look around.")), chat([user("y")])

    trace = to_agent_trace([said, silent])

    assert (trace.final_response, trace.has_unknown_response) == (None, True)


@pytest.mark.parametrize("operation", ["invoke_agent", "execute_tool", "invoke_workflow", "retrieval"])
def test_an_answer_is_missing_where_no_call_of_a_model_was_recorded(span, operation):
    (row,) = to_examples([span("x", gen_ai__operation__name=operation)])
    trace = to_agent_trace([span("x", gen_ai__operation__name=operation)])

    assert "output" not in row.actual_outputs
    assert "output" not in trace.outputs_so_far()
    assert "unknownResponse" not in row.metadata


def test_an_answer_that_was_recorded_as_empty_is_empty(chat):
    assert to_test_case([chat([user("x")], answer(""))]).actual_outputs["output"] == ""


@pytest.mark.parametrize(
    "recorded",
    [
        {"role": "assistant"},
        {"role": "assistant", "parts": [{"type": "text"}], "finish_reason": "stop"},
        {"role": "assistant", "parts": []},
        {"role": "assistant", "content": None},
    ],
)
def test_a_message_without_its_content_is_not_an_answer(chat, recorded):
    case = to_test_case([chat([user("x")], recorded)])

    assert "output" not in case.actual_outputs


def test_a_trace_that_only_makes_an_agent_is_not_a_row(span):
    made = span(
        "create_agent helper",
        gen_ai__operation__name="create_agent",
        gen_ai__system_instructions='[{"type": "text", "content": "Help."}]',
    )
    http = span("POST /assistants", parent=made)
    setup = span("setup")
    below = replace(made, parent_id=setup.span_id)

    for spans in ([made], [made, http], [setup, below], [failed(made)], [failed(setup), failed(below)]):
        assert to_examples(spans) == []
        assert to_agent_traces(spans) == {}
        assert to_conversations(spans) == {}


def test_a_trace_that_makes_an_agent_and_runs_it_is_a_row(span, chat):
    made = span("create_agent helper", gen_ai__operation__name="create_agent")

    (row,) = to_examples([made, chat([user("x")], answer("y"))])

    assert row.actual_outputs["output"] == "y"


def test_a_run_that_failed_before_it_asked_anything_is_a_row(span):
    assert to_examples([span("GET /health")]) == []
    (row,) = to_examples([failed(span("plan a journey"))])
    assert row.actual_error == "TimeoutError: too slow"


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("server", {"http.request.method": "GET", "http.response.status_code": 503}),
        (None, {"http.method": "GET", "http.status_code": 503}),
        ("client", {}),
        ("internal", {"db.system": "postgresql"}),
    ],
)
def test_a_request_that_failed_with_no_model_or_agent_below_it_is_not_a_run(span, chat, kind, attributes):
    health = replace(failed(span("GET /health")), kind=kind, attributes=attributes)
    below = failed(span("check", parent=health))

    assert to_examples([health]) == to_examples([health, below]) == []
    assert to_conversations([health]) == to_agent_traces([health]) == {}
    (row,) = to_examples([health, failed(chat([user("x")], parent=health))])
    assert row.actual_error == "TimeoutError: too slow"


def test_what_was_only_sent_to_langfuse_is_not_a_run(span):
    assert to_examples([span("GET /health", langfuse__environment="prod", langfuse__release="7")]) == []


def test_an_error_of_langfuse_needs_no_status(span):
    recorded = {
        "langfuse__observation__level": "ERROR",
        "langfuse__observation__status_message": "RateLimitError: slow down",
    }
    run = span("answer", langfuse__observation__type="agent", langfuse__observation__input="x", **recorded)
    warned = span("answer", langfuse__observation__output="y", langfuse__observation__level="WARNING")

    assert to_test_case([run]).error == "RateLimitError: slow down"
    assert to_test_case([warned]).error is None
    assert to_test_case([warned]).actual_output == "y"


def test_an_ai_sdk_run_whose_stream_was_cut_off_is_an_error(span):
    root = span(
        "ai.streamText",
        ai__operationId="ai.streamText",
        ai__prompt=json.dumps({"prompt": "x"}),
        ai__response__text="The cap",
        ai__response__finishReason="error",
    )

    case = to_test_case([root])

    assert (case.input, case.error) == (
        "x",
        "The answer of the model was cut off: its finish reason is 'error'.",
    )
    assert case.actual_outputs["partialResponse"] == "The cap"


def test_a_conversation_whose_last_turn_failed_is_not_evaluated(chat):
    first, second = chat([user("one")], answer("A")), failed(chat([user("one"), answer("A"), user("two")]))
    second = replace(second, trace_id="b" * 32)

    whole, broken = to_conversation([first]), to_conversation([first, second])

    assert "endReason" not in whole.metadata
    assert (broken.metadata["endReason"], broken.metadata["error"]) == ("error", "TimeoutError: too slow")


def test_times_that_are_missing_do_no_harm(span, chat):
    spans = [failed(span("app")), chat([user("x")], answer("y")), failed(chat([user("x")]))]
    spans = [replace(each, start_ns=None, end_ns=None) for each in spans]

    assert to_agent_trace(spans).errors or to_agent_trace(spans).error


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["chat", "invoke_agent", "execute_tool", "create_agent", ""]),
            st.integers(0, 9),
            st.booleans(),
            st.sampled_from([None, "", "text", "calls"]),
            st.integers(0, 5),
            st.integers(0, 5),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_a_run_has_an_answer_or_an_error_or_none_of_both(drawn):
    spans = [_drawn_span(place, *each) for place, each in enumerate(drawn)]

    trace = to_agent_trace(spans)
    rows = to_examples(spans)

    assert trace.final_response is None or trace.error is None
    assert trace.error is None or any(each.status == "error" for each in spans)
    assert ("output" in trace.outputs_so_far()) == (trace.error is None and not trace.has_unknown_response)
    assert [row.actual_error for row in rows] in ([], [trace.error])
    assert to_conversation(spans).metadata.get("error") == trace.error


def _drawn_span(place, operation, parent, fails, said, start, length):
    message = {"text": [answer("y")], "calls": [LOOK], "": [answer("")]}.get(said)
    recorded = {} if message is None else {"gen_ai.output.messages": json.dumps(message)}
    return Span(
        "a" * 32,
        f"{place + 1:016x}",
        name=operation or "app",
        parent_id=f"{parent:016x}",
        start_ns=start or None,
        end_ns=start + length or None,
        status="error" if fails else "unset",
        attributes={"gen_ai.operation.name": operation, **recorded},
    )
