"""A framework's agent as a task, an application and a judge."""

import asyncio

import pytest

from dokimos import Dataset, Example, evaluate
from dokimos._core.agent import AgentTrace, ToolCall
from dokimos._core.conversation import ConversationTrajectory, Message
from dokimos._core.metrics import CallMetrics
from dokimos._core.tool_definition import ToolDefinition
from dokimos._runtime.concurrency import run_sync
from dokimos.errors import EndpointDownError, EvaluationError, IntegrationError, JudgeUnavailableError
from dokimos.evaluators import Contains, Correctness, ToolCallValidity
from dokimos.integrations._agent_runs import AgentRun, AgentRunner, build_identity
from dokimos.integrations._agent_task import AgentApplication, AgentJudge, AgentTask
from dokimos.integrations._foreign_evaluators import ForeignEvaluator, average_scores, parse_score

TRACE = AgentTrace((ToolCall("search", {"q": "x"}, result="found"),), "The answer.", reasoning_steps=("a",))


def runner(run=None, **changes):
    given = AgentRun(trace=TRACE, usage=CallMetrics(10, 5, model="m")) if run is None else run

    async def answer(*_):
        if isinstance(given, Exception):
            raise given
        return given

    return AgentRunner(**{"identity": "fake:agent", "run": answer, "converse": answer, **changes})


def outputs_of(run, **options):
    return AgentTask(runner(run), **options).result_of(run).outputs


def test_a_task_gives_answer_calls_reasoning_and_what_it_cost():
    task = AgentTask(runner(), price_table=lambda model, i, o: 0.5 if model == "m" else None)

    result = run_sync(task(Example.of("question")))

    assert result.outputs == {
        "output": "The answer.",
        "toolCalls": list(TRACE.tool_calls),
        "reasoningSteps": ["a"],
    }
    assert result.metrics == CallMetrics(10, 5, model="m", cost_usd=0.5)


def test_keys_are_those_that_are_asked_for():
    seen = []

    async def run(value):
        seen.append(value)
        return AgentRun(trace=TRACE, documents=("chunk",))

    keys = {"input_key": "question", "output_key": "answer", "contexts_key": "chunks"}
    task = AgentTask(runner_of(run), **keys, metadata_key="sources")
    outputs = run_sync(task(Example({"question": "Why?"}))).outputs

    assert seen == ["Why?"]
    assert outputs["answer"] == "The answer."
    assert outputs["chunks"] == ["chunk"]
    assert outputs["sources"] == [{"text": "chunk", "metadata": {}}]
    assert "output" not in outputs


def runner_of(run):
    return AgentRunner(identity="fake", run=run, converse=run)


def test_an_example_without_the_input_is_an_error():
    with pytest.raises(EvaluationError, match="'question'"):
        run_sync(AgentTask(runner(), input_key="question")(Example.of("x")))


def test_an_object_is_the_output_where_the_agent_gives_one():
    assert outputs_of(AgentRun(trace=TRACE, output={"n": 1}))["output"] == {"n": 1}


@pytest.mark.parametrize("reply", [None, "", " \n"])
def test_a_blank_reply_is_an_error_unless_it_is_allowed(reply):
    run = AgentRun(trace=AgentTrace((ToolCall("a", result="r"),), reply))

    result = AgentTask(runner(run)).result_of(run)
    assert result.error.startswith("IntegrationError: The agent gave a blank reply")
    assert [call.name for call in result.outputs["toolCalls"]] == ["a"]
    assert outputs_of(run, allow_blank=True)["output"] == (reply or "")


def test_a_reply_that_leaves_a_call_to_the_caller_is_not_blank():
    assert outputs_of(AgentRun(trace=AgentTrace((ToolCall("a"),))))["output"] == ""


def test_missing_sources_are_an_error_where_they_are_needed():
    run = AgentRun(trace=TRACE, hint='under "context"')

    task = AgentTask(runner(run), needs_context=True)
    assert 'Return the retrieved documents under "context"' in task.result_of(run).error
    task = AgentTask(runner(run), needs_context=True, context_tools=("lookup",))
    result = task.result_of(run)
    assert "none of the tools lookup was called" in result.error
    assert result.outputs["toolCalls"] == list(TRACE.tool_calls)
    assert "contexts" not in outputs_of(run)


def test_no_sources_found_is_not_the_same_as_no_sources_carried():
    assert outputs_of(AgentRun(trace=TRACE, documents=()), needs_context=True)["contexts"] == []


def test_results_of_tools_join_the_documents_of_the_result():
    run = AgentRun(trace=TRACE, documents=("first",))

    assert outputs_of(run, context_tools="search")["contexts"] == ["first", "found"]


def test_a_failing_agent_is_an_error_of_the_item():
    task = AgentTask(runner(RuntimeError("out of order")))

    result = evaluate(Dataset([Example.of("x")]), task, [Contains(values="x")])

    item = result.runs[0].item_results[0]
    assert item.error.startswith("RuntimeError: out of order")
    assert item.error_detail.place.endswith(" in answer")
    assert result.average_score("Contains") is None


def test_a_run_that_was_cut_off_is_an_error_beside_what_was_done():
    error = RuntimeError("out of order")
    run = AgentRun.of_failure(error, TRACE, CallMetrics(10, 5, model="m"))
    task = AgentTask(runner(run), price_table=lambda *_: 0.5)

    item = evaluate(Dataset([Example.of("x")]), task, [Contains(values="answer")]).runs[0].item_results[0]

    assert item.error == "RuntimeError: out of order"
    assert item.eval_results == ()
    assert item.actual_outputs == {"toolCalls": list(TRACE.tool_calls), "reasoningSteps": ["a"]}
    assert (item.metrics.tokens_in, item.metrics.cost_usd) == (10, 0.5)


@pytest.mark.parametrize("raised", [IntegrationError("no agent"), EndpointDownError("gone")])
def test_an_error_of_dokimos_is_raised_and_not_an_error_of_the_agent(raised):
    with pytest.raises(type(raised)):
        run_sync(AgentTask(runner(raised))(Example.of("x")))
    behind = RuntimeError("it failed")
    behind.__cause__ = raised
    if isinstance(raised, EndpointDownError):
        with pytest.raises(RuntimeError):
            AgentRun.of_failure(behind)


async def test_a_run_that_is_cancelled_is_cancelled():
    async def run(_):
        await asyncio.Event().wait()

    task = asyncio.ensure_future(AgentTask(runner_of(run))(Example.of("x")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_the_tools_of_the_agent_are_handed_over_to_the_evaluators():
    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    run = AgentRun(trace=TRACE, tools=(ToolDefinition("search", input_schema=schema),))
    result = evaluate(Dataset([Example.of("x")]), AgentTask(runner(run)), [ToolCallValidity()])

    assert result.average_score("Tool Call Validity") == 1.0
    assert "tools" not in outputs_of(AgentRun(trace=TRACE))
    assert outputs_of(AgentRun(trace=TRACE, tools=()))["tools"] == []


def test_the_replies_of_an_application_do_not_repeat_its_tools():
    run = AgentRun(trace=TRACE, tools=(ToolDefinition("search"),))
    conversation = ConversationTrajectory((Message.user("Hello"),))

    assert "tools" not in run_sync(AgentApplication(AgentTask(runner(run)))(conversation)).outputs


def test_two_agents_are_two_tasks():
    assert AgentTask(runner()).__qualname__ == "as_task(fake:agent)"


def test_an_application_replies_with_calls_and_context():
    run = AgentRun(trace=TRACE, documents=("chunk",), usage=CallMetrics(1, 2))
    conversation = ConversationTrajectory((Message.user("Hello"),))

    reply = run_sync(AgentApplication(AgentTask(runner(run)))(conversation))

    assert reply.outputs["output"] == "The answer."
    assert reply.outputs["contexts"] == ["chunk"]
    assert reply.metrics.tokens == 3


def test_a_judge_gives_text_and_what_it_cost():
    reply = run_sync(AgentJudge(runner(), "m", lambda *_: 0.5).complete("?"))

    assert (reply.text, reply.metrics.cost_usd) == ("The answer.", 0.5)


def test_a_judge_is_asked_in_the_schema_where_it_can_be_held_to_one():
    requests = []

    async def judge(prompt, schema):
        requests.append((prompt, schema))
        return AgentRun(trace=AgentTrace((), '{"reason": "So.", "score": 5}'))

    result = Correctness(judge=AgentJudge(runner(judge=judge))).evaluate(
        Example.of("Capital?", "Rome").to_test_case("Rome")
    )

    assert result.score == 1.0
    assert requests[0][1]["type"] == "object"


def test_a_judge_that_fails_is_unavailable_and_says_why():
    with pytest.raises(JudgeUnavailableError, match="fake:agent gave no answer: RuntimeError: out of order"):
        run_sync(AgentJudge(runner(RuntimeError("out of order"))).complete("?"))


def test_an_error_of_dokimos_passes_a_judge_as_it_is():
    with pytest.raises(IntegrationError, match="no agent"):
        run_sync(AgentJudge(runner(IntegrationError("no agent"))).complete("?"))


def test_long_parts_of_an_identity_are_hashed():
    short = build_identity("x", "agent", None, "Help.")
    long = build_identity("x", "agent", "Help. " * 50)

    assert short == "x:agent:Help."
    assert len(long) < 30
    assert long != build_identity("x", "agent", "Help! " * 50)


def test_an_evaluator_of_others_scores_and_errs_like_ours():
    async def ask(case):
        return parse_score(case.actual_output == "y", "Because.")

    evaluator = ForeignEvaluator(name="Theirs", threshold=0.5, ask=ask)

    assert evaluator.evaluate(Example.of("x").to_test_case("y")).success is True
    assert evaluator.evaluate(Example.of("x").to_test_case("z")).success is False


@pytest.mark.parametrize("value", [None, "good", 4, -0.1, float("nan")])
def test_what_is_not_a_score_is_an_error(value):
    with pytest.raises(EvaluationError, match=r"not a number in 0\.\.1: why"):
        parse_score(value, "why")


def test_several_scores_are_their_mean_and_none_is_an_error():
    score = average_scores({"a": parse_score(True), "b": parse_score(0.5, "Half.")})

    assert (score.value, score.metadata) == (0.75, {"scores": {"a": 1.0, "b": 0.5}})
    assert score.reason == "a: 1\nb: 0.5 Half."
    assert average_scores({name: parse_score(0.7) for name in "abc"}).value == 0.7
    with pytest.raises(EvaluationError, match="no score"):
        average_scores({})


def test_judges_that_hold_something_else_are_distinguished_and_the_same_ones_are_not():
    def judge_of(text):
        async def run(prompt):
            return AgentRun(trace=AgentTrace((), text))

        return AgentJudge(runner_of(run))

    assert judge_of("yes").identity == judge_of("yes").identity
    assert judge_of("yes").identity != judge_of("no").identity
