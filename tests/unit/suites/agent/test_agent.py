"""A declared agent with a scripted model: tools, turns, forms of replies, limits, what is counted."""

import asyncio
import json

import pytest
from pydantic_ai.messages import NativeToolSearchCallPart, NativeToolSearchReturnPart

from dokimos.errors import AgentError
from dokimos.judges._budget import Budget
from dokimos.judges._run_scope import current_scope
from dokimos.suites._agent import application

TOOLS = """
import asyncio
import threading
from pathlib import Path

def subtract(a: float, b: float) -> float:
    '''Take b from a.'''
    return a - b

async def slow(text: str) -> str:
    await asyncio.sleep(0)
    return text.upper()

def broken(text: str = "") -> str:
    raise ZeroDivisionError("nothing is divided by 0")

def found(query: str) -> list[str]:
    return [query, "more"]

def hangs(released: str) -> str:
    never = threading.Event()
    for _ in range(1200):
        if Path(released).exists() or never.wait(0.05):
            break
    Path(released).with_name("came-to-its-end").touch()
    return "late"
"""
EQUAL = "evaluations: {metrics: [{type: standard, metric: equality}]}\n"
CASE = EQUAL + "test_cases: [{input: question, ground_truth: reply}]\n"


@pytest.fixture(autouse=True)
def tools(folder):
    folder.write("tools.py", TOOLS)


def function(name, **more):
    return json.dumps({"name": name, "type": "function", "file": "tools.py", "function": name, **more})


def test_the_reply_is_the_output_and_its_tokens_are_counted(script, item):
    script.then("reply")

    found = item(CASE)

    assert found.success is True
    assert found.actual_outputs["output"] == "reply"
    assert (found.metrics.tokens_in, found.metrics.tokens_out) == (20, 8)
    assert found.metrics.model == "scripted"
    assert found.metrics.latency_ms > 0


def test_the_model_is_told_the_instructions_without_front_matter(script, item, folder):
    folder.write("prompt.md", "---\nversion: 7\n---\nBe kind.\n")
    head = 'model: {provider: openai, name: m, base_url: "http://x/v1"}\ninstructions: {file: prompt.md}\n'
    script.then("reply")

    item(CASE, head)

    assert script.asked[0][0].instructions == "Be kind."


def test_the_run_keeps_model_and_version_of_the_instructions(script, run, folder):
    folder.write("prompt.md", "---\nversion: 7\nauthor: me\n---\nBe kind.\n")
    head = 'model: {provider: openai, name: m, base_url: "http://x/v1"}\ninstructions: {file: prompt.md}\n'
    script.then("reply")

    metadata = run(CASE, head).metadata

    assert metadata["promptVersion"] == "7"
    assert metadata["model"] == "openai:m"
    assert metadata["prompt"] == {"author": "me"}


def test_tools_are_called_and_told(script, item):
    script.then([("subtract", {"a": 3, "b": 1}), ("slow", {"text": "x"})], "reply")

    found = item(f"tools: [{function('subtract')}, {function('slow')}]\n{CASE}")

    calls = found.actual_outputs["toolCalls"]
    assert [(call.name, call.result) for call in calls] == [("subtract", "2.0"), ("slow", "X")]
    assert script.parameters[0].function_tools[0].description == "Take b from a."
    assert found.metrics.tokens_in == 40


VALID = "evaluations: {metrics: [{type: evaluator, name: tool_call_validity}]}\n"


@pytest.mark.parametrize(("arguments", "score"), [({"a": 3, "b": 1}, 1.0), ({"a": 3}, 0.0)])
def test_evaluators_know_the_tools_of_the_agent(script, item, arguments, score):
    script.then([("subtract", arguments)], "reply")

    found = item(f"tools: [{function('subtract')}]\n{VALID}test_cases: [{{input: question}}]\n")

    assert found.error is None
    assert found.eval_results[0].score == score
    (tool,) = found.actual_outputs["tools"]
    assert (tool.name, tool.description, tool.required) == ("subtract", "Take b from a.", ("a", "b"))


def test_they_know_them_in_each_turn_of_a_conversation_and_they_are_kept_once(script, item):
    script.then([("subtract", {"a": 3, "b": 1})], "one", [("subtract", {"a": 3})], "two")

    turns = "test_cases: [{turns: [{input: first}, {input: second}]}]\n"
    found = item(f"tools: [{function('subtract')}]\n{VALID}{turns}")

    (validity,) = (result for result in found.eval_results if result.name == "Tool Call Validity")
    assert (validity.score, validity.error) == (0.5, None)
    assert 'turn 2: 1 of 1 tool call not valid: subtract: $: "b" is a required property' in validity.reason
    assert [tool.name for tool in found.actual_outputs["tools"]] == ["subtract"]
    assert not any("tools" in turn for turn in found.actual_outputs["turns"])


def test_an_agent_without_tools_hands_none_over(script, item):
    script.then("reply")

    assert "tools" not in item(CASE).actual_outputs


def test_a_tool_that_fails_is_told_to_the_model_and_marked(script, item):
    script.then([("broken", {})], "reply")

    found = item(f"tools: [{function('broken')}]\n{CASE}")

    (call,) = found.actual_outputs["toolCalls"]
    assert found.success is True
    assert call.metadata["error"] is True
    assert "ZeroDivisionError: nothing is divided by 0" in call.result
    assert "ZeroDivisionError" in script.text()


@pytest.mark.parametrize(
    ("limits", "seconds", "success"),
    [('"timeout": 0.05', 60, True), ('"description": "It hangs."', 1, False)],
)
def test_a_tool_that_hangs_holds_nothing_up(script, item, folder, limits, seconds, success):
    released = folder.path / "released"
    tool = json.dumps({**json.loads(function("hangs")), **json.loads("{" + limits + "}")})
    script.then([("hangs", {"released": str(released)})], "reply")
    try:
        found = item(f"tools: [{tool}]\nexecution: {{llm_timeout: {seconds}}}\n{CASE}")
        assert not (folder.path / "came-to-its-end").exists()
    finally:
        released.touch()

    assert found.success is success
    assert found.error is None or "no reply within 1 s" in found.error


def test_arguments_that_the_schema_refuses_are_mended_by_the_model(script, item):
    parameters = {"a": {"type": "number"}, "b": {"type": "number"}}
    script.then([("subtract", {"a": "three", "b": 1})], [("subtract", {"a": 3, "b": 1})], "reply")

    found = item(f"tools: [{function('subtract', parameters=parameters)}]\n{CASE}")

    assert "not of type" in script.text(1)
    assert [call.result for call in found.actual_outputs["toolCalls"]][-1] == "2"


def test_a_prompt_tool_asks_the_agents_model_and_is_paid_for(script, item):
    tool = {"name": "define", "type": "prompt", "template": "Define {{word}}.",
            "parameters": {"word": {"type": "string"}}}  # fmt: skip
    script.then([("define", {"word": "love"})], "a feeling", "reply")

    found = item(f"tools: [{json.dumps(tool)}]\n{CASE}")

    assert script.text(1) == "Define love."
    assert found.actual_outputs["toolCalls"][0].result == "a feeling"
    assert found.metrics.tokens_in == 60


@pytest.mark.parametrize("has_schemas", [True, False])
def test_a_reply_of_a_form_is_given_to_graders_as_json(script, item, has_schemas):
    shape = {"type": "object", "properties": {"answer": {"type": "number"}}, "required": ["answer"]}
    calls = [[("final_result", {"answer": value})] for value in ("many", 60.94)]
    script.has_schemas = has_schemas
    script.then(*(['{"answer": "many"}', '{"answer": 60.94}'] if has_schemas else calls))
    metric = "{type: standard, metric: numeric, response_path: answer}"

    found = item(
        f"response_format: {json.dumps(shape)}\nevaluations: {{metrics: [{metric}]}}\n"
        "test_cases: [{input: q, ground_truth: 60.94}]\n"
    )

    assert found.actual_outputs["output"] == '{"answer": 60.94}'
    assert found.success is True
    assert not found.actual_outputs["toolCalls"]
    assert "not of type" in script.text()


def test_a_reply_that_stays_of_another_form_is_an_error(script, item):
    shape = {"type": "object", "properties": {"answer": {"type": "number"}}, "required": ["answer"]}
    script.answer = lambda messages: '{"answer": "many"}'

    found = item(f"response_format: {json.dumps(shape)}\n{CASE}")

    assert found.error is not None
    assert found.metrics.tokens_in == 20 * len(script.asked)
    assert "response" in found.error or "retries" in found.error


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("[1]", "response_format"),
        ("{type: array}", "the JSON Schema of an object"),
        ("{type: object, properties: {a: {type: numbr}}}", "not a JSON Schema"),
        ("none.json", "there is no file"),
    ],
)
def test_a_response_format_that_is_none_is_refused_at_once(declare, given, why):
    with pytest.raises(Exception, match="response_format") as error:
        declare(f"response_format: {given}\n{CASE}")
    assert why in str(error.value)


def test_a_conversation_remembers_its_turns(script, item):
    script.then("one", "two")

    found = item("test_cases: [{turns: [{input: first}, {input: second}]}]\n" + EQUAL)

    assert script.text(1) == "first\none\nsecond"
    assert [turn["output"] for turn in found.actual_outputs["turns"]] == ["one", "two"]
    assert found.metrics.tokens_in == 40


def test_a_turn_without_a_reply_is_forgotten_and_the_next_one_is_sent(script, item):
    script.then("one", ConnectionError("down"), "three")

    found = item("test_cases: [{turns: [{input: first}, {input: second}, {input: third}]}]\n" + EQUAL)

    turns = found.actual_outputs["turns"]
    assert "ConnectionError: down" in turns[1]["error"]
    assert turns[2]["output"] == "three"
    assert script.text() == "first\none\nthird"
    assert found.success is False


def test_two_cases_share_nothing(script, run):
    script.answer = lambda messages: str(len(messages))

    found = run("test_cases: [{input: a}, {input: b}]\n" + EQUAL)

    assert [item.actual_outputs["output"] for item in found.item_results] == ["1", "1"]


def test_an_agent_that_only_calls_tools_is_stopped(script, item):
    script.answer = lambda messages: [("subtract", {"a": 1, "b": len(messages)})]

    found = item(f"execution: {{max_turns: 3}}\ntools: [{function('subtract')}]\n{CASE}")

    assert "no reply after 3 calls of the model (execution.max_turns)" in found.error
    assert len(script.asked) == 3
    assert found.metrics.tokens_in == 60


def test_max_turns_of_the_block_openai_are_kept(script, item, declare):
    text = f"openai: {{max_turns: 2, effort: low}}\ntools: [{function('subtract')}]\n{CASE}"
    script.answer = lambda messages: [("subtract", {"a": 1, "b": len(messages)})]

    assert any("has no effect, except max_turns" in warning for warning in declare(text).warnings)
    assert "after 2 calls" in item(text).error


def test_a_model_that_fails_is_an_error_of_the_case(script, item):
    script.then(ConnectionError("down"))

    found = item(CASE)

    assert found.error == "AgentError: scripted at http://nowhere.invalid/v1: ConnectionError: down"


def test_a_blank_reply_is_graded_like_any_other(script, item):
    script.then("")

    found = item(CASE)

    assert found.error is None
    assert found.success is False


def test_repeats_and_attempts_are_drawn_apart(script, run):
    drawn = iter(range(10))
    script.answer = lambda messages: str(next(drawn))

    found = run("test_cases: [{input: a, repeats: 3}]\n" + EQUAL)

    assert sorted(item.actual_outputs["output"] for item in found.item_results) == ["0", "1", "2"]


def test_a_case_that_is_repeated_after_an_error_asks_anew(script, item):
    shape = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    script.then('{"n": "a"}', '{"n": "b"}', '{"n": "c"}', '{"n": 4}')

    found = item(
        f"response_format: {json.dumps(shape)}\nexecution: {{retries: 1}}\n"
        f"{EQUAL}test_cases: [{{input: q}}]\n"
    )

    assert found.actual_outputs["output"] == '{"n": 4}'
    assert len(script.asked) == 4


def test_equal_requests_of_two_cases_are_one_call(script, run):
    script.answer = lambda messages: str(len(script.asked))

    found = run("test_cases: [{input: a}, {input: a}]\nexecution: {parallel_test_cases: 2}\n" + EQUAL)

    assert len(script.asked) == 1
    assert {item.actual_outputs["output"] for item in found.item_results} == {"1"}


def test_the_budget_of_a_suite_ends_the_run_between_two_calls(script, run):
    script.answer = lambda messages: "reply"
    cases = ", ".join(f"{{input: q{n}}}" for n in range(10))

    found = run(f"execution: {{budget: {{max_calls: 4}}}}\ntest_cases: [{cases}]\n{EQUAL}")

    assert len(script.asked) == 4
    assert found.status == "budget_spent"
    assert any("max_calls=4 is used up" in warning for warning in found.warnings)


def test_calls_in_one_case_count_each(script, run):
    script.answer = lambda messages: (
        [("subtract", {"a": 1, "b": len(messages)})] if len(messages) < 6 else "x"
    )
    cases = ", ".join(f"{{input: q{n}}}" for n in range(10))
    text = f"tools: [{function('subtract')}]\ntest_cases: [{cases}]\n{EQUAL}"

    found = run(text, budget=Budget(max_tokens=28 * 5))

    assert found.status == "budget_spent"
    assert len(script.asked) == 5


def test_an_agent_knows_nothing_of_the_runs_of_others(script, run):
    scopes = []

    def answer(messages):
        scopes.append(current_scope().run_index)
        return "reply"

    script.answer = answer
    suite = "test_cases: [{input: a}]\n" + EQUAL
    run(suite)
    run(suite)

    assert scopes == [0, 0]


def test_a_deferred_tool_is_told_once_the_model_has_looked_for_it(script, item):
    deferred = function("subtract", defer_loading=True)
    script.then([("search_tools", {"queries": ["subtract"]})], [("subtract", {"a": 3, "b": 1})], "reply")

    found = item(f"tools: [{deferred}, {function('slow')}]\n{CASE}")

    offered = [[tool.name for tool in asked.function_tools] for asked in script.parameters]
    assert "subtract" not in offered[0]
    assert {"slow", "search_tools"} <= set(offered[0])
    assert "subtract" in offered[1]
    assert [call.name for call in found.actual_outputs["toolCalls"]] == ["subtract"]


def test_where_a_provider_looks_for_tools_itself_that_is_no_call_either(script, item):
    deferred = function("subtract", defer_loading=True)
    looked = NativeToolSearchCallPart(args={"queries": ["subtract"]}, tool_call_id="s")
    found = NativeToolSearchReturnPart(content={"discovered_tools": [{"name": "subtract"}]}, tool_call_id="s")
    script.then([looked, found, ("subtract", {"a": 3, "b": 1})], "reply")

    answered = item(f"tools: [{deferred}]\n{CASE}")

    assert [call.name for call in answered.actual_outputs["toolCalls"]] == ["subtract"]


class FakeBackend:
    """What runs an agent, without one."""

    def __init__(self, problem=None):
        self.problem = problem
        self.is_usable = True

    async def start(self):
        if self.problem is not None:
            raise AgentError(self.problem)
        return self


def backends(monkeypatch, declare, *made):
    """Return what an agent of these backends gives to as many cases, or why it gives none."""
    left = list(made)
    monkeypatch.setattr(application, "_build_backend", lambda plan: left.pop(0))
    agent = declare(CASE).application

    async def given():
        for _ in made:
            try:
                backend = await agent._backend()
            except AgentError as error:
                yield str(error)
            else:
                yield backend
                backend.is_usable = False

    async def listed():
        return [each async for each in given()]

    return asyncio.run(listed())


def test_a_server_that_comes_back_is_connected_to_again(monkeypatch, declare):
    first, last = FakeBackend(), FakeBackend()

    assert backends(monkeypatch, declare, first, FakeBackend("down"), FakeBackend("still down"), last) == [
        first, "down", "still down", last,
    ]  # fmt: skip


def test_a_server_that_was_never_there_is_not_waited_for_by_every_case(monkeypatch, declare):
    assert backends(monkeypatch, declare, FakeBackend("down"), FakeBackend()) == ["down", "down"]
