"""The base of all bridges: agents, functions that make them, and the functions that derive from a bridge."""

import asyncio
import importlib
import inspect

import pytest

from dokimos._core.agent import AgentTrace, ToolCall
from dokimos._core.conversation import ConversationTrajectory, Message
from dokimos._core.example import Example
from dokimos._core.metrics import CallMetrics
from dokimos._runtime.concurrency import run_sync
from dokimos.errors import IntegrationError
from dokimos.integrations._agent_runs import finish_run
from dokimos.integrations._framework import Framework, find_method, resolve_agent

METHODS = ("generate", "run")
MODULES = (
    "agent_framework", "anthropic", "crewai", "google_adk", "haystack", "langchain", "llama_index", "mcp",
    "openai", "openai_agents", "pydantic_ai", "smolagents", "strands",
)  # fmt: skip
FUNCTIONS = (
    "to_agent_trace", "to_tool_definitions", "to_call_metrics", "run_and_trace", "run_and_trace_async",
    "as_task", "as_application", "as_judge",
)  # fmt: skip


class Model:
    def generate(self):
        """Answer."""


class Agent:
    def run(self):
        """Run."""


def test_the_first_method_decides():
    assert [find_method(each, METHODS) for each in (Model(), Agent(), object())] == ["generate", "run", None]


def test_a_class_is_not_an_agent_but_makes_one():
    assert find_method(Agent, METHODS) is None
    assert isinstance(resolve_agent(Agent, METHODS), Agent)


def test_an_agent_stays_itself_and_a_function_makes_a_fresh_one():
    agent = Agent()

    assert resolve_agent(agent, METHODS) is agent
    assert resolve_agent(lambda: Model(), METHODS) is not resolve_agent(lambda: Model(), METHODS)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "An agent must have 'generate' or 'run', .*; 3 is neither"),
        ("gpt-5", "'gpt-5' is neither"),
        (lambda: 3, "made 3, which has no"),
    ],
)
def test_anything_else_is_refused(given, message):
    with pytest.raises(IntegrationError, match=message):
        resolve_agent(given, METHODS)


class Counter:
    """An agent that counts its runs and the most that went on at a time."""

    name = "counter"

    def __init__(self, error=None):
        self.runs = self.at_once = self.most = 0
        self.error = error

    async def run(self, text, calls, loud=False):
        self.runs += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        calls.append(ToolCall("count", {"n": self.runs}, result="done"))
        await asyncio.sleep(0)
        self.at_once -= 1
        if self.error:
            raise self.error
        return {"calls": calls, "text": text.upper() if loud else text, "tokens": 7}


class Counters(Framework):
    name = "counters"

    def __init__(self, stateful=False):
        self.stateful = stateful

    def to_agent_trace(self, result):
        return AgentTrace(tuple(result["calls"]), result.get("text"))

    def to_tool_definitions(self, agent):
        return ()

    def parse_usage(self, result):
        return CallMetrics(result["tokens"], 0)

    async def run_agent(self, agent, inputs, options):
        calls = []

        async def attempt():
            return self.parse_run(await agent.run(inputs, calls, **options))

        return await finish_run(attempt(), lambda: (self.to_agent_trace({"calls": calls}), CallMetrics(3, 0)))

    async def converse(self, agent, conversation, options):
        return await self.run_agent(agent, conversation.messages[-1].content, options)

    def is_stateful(self, agent):
        return self.stateful


def test_a_task_an_application_and_a_judge_derive_from_a_bridge():
    bridge, agent = Counters(), Counter()
    conversation = ConversationTrajectory((Message.user("Hello"),))

    result = run_sync(bridge.as_task(agent, price_table=lambda *_: 0.5)(Example.of("question")))
    reply = run_sync(bridge.as_application(agent)(conversation))
    verdict = run_sync(bridge.as_judge(agent).complete("prompt"))

    assert (result.outputs["output"], result.metrics.cost_usd) == ("question", 0.5)
    assert reply.outputs["output"] == "Hello"
    assert (verdict.text, verdict.metrics.tokens_in) == ("prompt", 7)
    assert bridge.run_and_trace(agent, "text").final_response == "text"


def test_options_of_a_run_reach_it_from_every_function():
    bridge, options = Counters(), {"loud": True}
    conversation = ConversationTrajectory((Message.user("Hello"),))

    task = bridge.as_task(Counter(), run_options=options)
    assert run_sync(task(Example.of("a"))).outputs["output"] == "A"
    application = bridge.as_application(Counter(), run_options=options)
    assert run_sync(application(conversation)).outputs["output"] == "HELLO"
    judge = bridge.as_judge(Counter(), run_options=options)
    assert run_sync(judge.complete("a")).text == "A"
    assert bridge.run_and_trace(Counter(), "a", loud=True).final_response == "A"


def test_a_run_that_fails_keeps_its_calls_and_tokens():
    task = Counters().as_task(Counter(ValueError("out of order")))

    result = run_sync(task(Example.of("x")))

    assert result.error == "ValueError: out of order"
    assert [call.result for call in result.outputs["toolCalls"]] == ["done"]
    assert result.metrics.tokens_in == 3


@pytest.mark.parametrize(("stateful", "most"), [(True, 1), (False, 5)])
async def test_calls_of_an_agent_that_remembers_wait_for_one_another(stateful, most):
    agent = Counter()
    task = Counters(stateful).as_task(agent)

    await asyncio.gather(*(task(Example.of("x")) for _ in range(5)))

    assert agent.most == most


async def test_agents_that_a_function_makes_do_not_wait():
    made = []

    def make():
        made.append(Counter())
        return made[-1]

    task = Counters(stateful=True).as_task(make)
    await asyncio.gather(*(task(Example.of("x")) for _ in range(3)))

    assert [agent.runs for agent in made] == [1, 1, 1]


def test_agents_and_functions_that_make_them_have_identities():
    assert Counters().runner(Counter()).identity == "counters:counter"
    assert Counters().runner(Counter).identity == "counters:Counter"


def test_judges_with_different_agents_and_options_have_different_identities():
    bridge = Counters()
    judges = [
        bridge.as_judge(Counter()),
        bridge.as_judge(Counter(), run_options={"loud": True}),
        bridge.as_judge(Counter(error="x")),
    ]

    assert len({judge.identity for judge in judges}) == 3
    assert judges[0].identity == bridge.as_judge(Counter()).identity


@pytest.mark.parametrize("module", MODULES)
def test_every_bridge_publishes_the_same_functions_with_types_and_help(module):
    bridge = importlib.import_module(f"dokimos.integrations.{module}")

    assert set(FUNCTIONS) <= set(bridge.__all__)
    for name in bridge.__all__:
        function = getattr(bridge, name)
        assert inspect.getdoc(function), name
        signature = inspect.signature(function)
        untyped = [each.name for each in signature.parameters.values() if each.annotation is each.empty]
        assert not untyped, name
