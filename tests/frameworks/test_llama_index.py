"""LlamaIndex, with real agents, engines, a model and evaluators."""

import pytest
import story
from llama_index.core import Document, SummaryIndex
from llama_index.core.agent.workflow import (
    AgentOutput,
    AgentWorkflow,
    FunctionAgent,
    ReActAgent,
    ToolCallResult,
)
from llama_index.core.evaluation import CorrectnessEvaluator, EvaluationResult, FaithfulnessEvaluator
from llama_index.core.tools import QueryEngineTool
from llama_index.llms.openai_like import OpenAILike
from story import ANSWER, QUESTION
from tool_calling import ToolCallingServer, Turn

from contract import FrameworkContract
from dokimos import Dataset, Example, evaluate
from dokimos._core.test_case import EvalTestCase
from dokimos._runtime.concurrency import run_sync
from dokimos.evaluators import ExactMatch
from dokimos.integrations import llama_index
from dokimos.simulation import ConversationSimulator, ScriptedUser

CASE = EvalTestCase(
    {"input": "Capital of Italy?"},
    {"output": "Rome", "context": ["Rome is the capital of Italy."]},
    expected_outputs={"output": "Rome"},
)
REFUNDS = [{"text": "A refund takes 30 days.", "metadata": {"source": "refunds.md"}}]


def llm(base_url):
    return OpenAILike(
        model="scripted", api_base=base_url, api_key="none", max_retries=0, context_window=8000,
        is_chat_model=True, is_function_calling_model=True,
    )  # fmt: skip


def index():
    return SummaryIndex.from_documents(
        [Document(text="A refund takes 30 days.", metadata={"source": "refunds.md"})]
    )


class TestLlamaIndex(FrameworkContract):
    name = "llama_index"
    package = "llama-index-core"
    bridge = llama_index
    streaming = True
    guide_script = (
        *story.first_turn(),
        *story.first_turn(),
        Turn("30 days."),
        Turn("YES"),
    )
    example_script = story.first_turn()

    def agent(self, base_url):
        return FunctionAgent(
            name="traveller",
            system_prompt="Help.",
            tools=[story.get_weather, story.book_flight],
            llm=llm(base_url),
            streaming=self.streaming,
        )

    def limited(self, base_url):
        return self.agent(base_url), {"run_options": {"max_iterations": 2}}

    def scenarios(self):
        return {"handoffs": self.handing_over, "text": self.reasoning}

    def handing_over(self, base_url):
        names = ("greeter", "traveller")
        agents = [
            FunctionAgent(
                name=name, description="Helps.", tools=tools, llm=llm(base_url), streaming=self.streaming
            )
            for name, tools in zip(names, ([story.book_flight], [story.get_weather]), strict=True)
        ]
        hands = ("handoff", {"to_agent": "traveller", "reason": "Weather."})
        calls = [hands, ("get_weather", {"city": "Rome"})]
        workflow = AgentWorkflow(agents=agents, root_agent="greeter")
        return workflow, [*(Turn(calls=(call,)) for call in calls), Turn(ANSWER)], calls

    def reasoning(self, base_url):
        agent = ReActAgent(tools=[story.get_weather], llm=llm(base_url), streaming=False)
        asks = 'Thought: I look.\nAction: get_weather\nAction Input: {"city": "Rome"}'
        script = [Turn(asks), Turn(f"Thought: I know.\nAnswer: {ANSWER}")]
        return agent, script, [("get_weather", {"city": "Rome"})]

    def run(self, agent, question):
        async def events():
            handler = agent.run(question)
            found = [event async for event in handler.stream_events()]
            await handler
            return found

        return run_sync(events())

    def record(self, result):
        return [recorded(event) for event in result if isinstance(event, AgentOutput | ToolCallResult)]


def recorded(event):
    if isinstance(event, ToolCallResult):
        kept = {"blocks", "is_error"}
        return {
            "tool_name": event.tool_name,
            "tool_kwargs": event.tool_kwargs,
            "tool_id": event.tool_id,
            "tool_output": event.tool_output.model_dump(include=kept),
        }
    raw = event.raw if isinstance(event.raw, dict) else event.raw.model_dump()
    calls = [
        recorded(call) if isinstance(call, ToolCallResult) else call.model_dump() for call in event.tool_calls
    ]
    return {
        "current_agent_name": event.current_agent_name,
        "response": event.response.model_dump(include={"blocks"}, exclude_none=True),
        "tool_calls": calls,
        "raw": {"model": raw["model"], "usage": raw["usage"]},
    }


class TestWithoutStreaming(TestLlamaIndex):
    streaming = False

    def write_record(self, server):
        """The results of the other one are recorded."""


class TestWorkflow(TestLlamaIndex):
    def agent(self, base_url):
        return AgentWorkflow(agents=[super().agent(base_url)], root_agent="traveller")

    def write_record(self, server):
        """The results of the other one are recorded."""


def test_the_output_alone_has_the_calls_too():
    contract = TestLlamaIndex()
    with ToolCallingServer(story.first_turn()) as server:
        agent = contract.agent(server.base_url)

        async def run():
            return await agent.run(QUESTION)

        trace = llama_index.to_agent_trace(run_sync(run()))

    contract.check_first(trace)
    assert trace.metadata == {"agent": "traveller"}


@pytest.mark.parametrize("kind", ["query engine", "chat engine", "engine that is a tool"])
def test_source_nodes_are_the_context(kind):
    with ToolCallingServer() as server:
        model = llm(server.base_url)
        engine = index().as_query_engine(llm=model)
        if kind == "chat engine":
            engine = index().as_chat_engine(chat_mode="context", llm=model)
        if kind == "engine that is a tool":
            server.turns.append(Turn(calls=(("docs", {"input": "refund"}),)))
            server.turns.append(Turn("It takes 30 days."))
            tools = [QueryEngineTool.from_defaults(engine, name="docs", description="Our rules.")]
            engine = FunctionAgent(tools=tools, llm=model)
        server.turns.append(Turn("30 days."))
        task = llama_index.as_task(engine, metadata_key="sources", needs_context=True)

        result = run_sync(task(Example.of("How long does a refund take?")))

    assert result.outputs["output"] == "30 days."
    assert result.outputs["contexts"] == ["A refund takes 30 days."]
    assert result.outputs["sources"] == REFUNDS
    assert [call.name for call in result.outputs["toolCalls"]] == ["docs"] * (kind == "engine that is a tool")


def test_a_chat_engine_remembers_nothing_of_the_input_before():
    with ToolCallingServer([Turn("30 days."), Turn("30 days.")]) as server:
        engine = index().as_chat_engine(chat_mode="context", llm=llm(server.base_url))
        dataset = Dataset([Example.of("A refund?"), Example.of("A refund?")])
        evaluate(dataset, llama_index.as_task(engine), [ExactMatch(threshold=None)], parallelism=1)
        first, second = (request.body["messages"] for request in server.received)

    assert first == second


def test_a_chat_engine_is_an_application():
    with ToolCallingServer([Turn("30 days."), Turn("Yes.")]) as server:
        application = llama_index.as_application(
            index().as_chat_engine(chat_mode="context", llm=llm(server.base_url))
        )
        users = ScriptedUser(["A refund?", "Really?"])
        ConversationSimulator(user=users, application=application, max_turns=2).simulate()
        roles = [message["role"] for message in server.received[1].body["messages"]]

    assert roles == ["system", "user", "assistant", "user"]


def test_a_model_is_a_task_and_counted():
    with ToolCallingServer([Turn(ANSWER)]) as server:
        result = run_sync(llama_index.as_task(llm(server.base_url))(Example.of(QUESTION)))

    assert (result.outputs["output"], result.metrics.tokens_in, result.metrics.model) == (
        ANSWER, 20, "scripted",
    )  # fmt: skip


def test_their_evaluators_become_evaluators_of_dokimos():
    with ToolCallingServer([Turn("NO"), Turn("4.0\nAlmost.")]) as server:
        model = llm(server.base_url)
        faithful = llama_index.as_evaluator(FaithfulnessEvaluator(llm=model)).evaluate(CASE)
        correct = llama_index.as_evaluator(
            CorrectnessEvaluator(llm=model), name="Right", threshold=0.75, scale=(1, 5)
        ).evaluate(CASE)
        asked = str(server.received[0].body)

    assert (faithful.name, faithful.score, faithful.success) == ("FaithfulnessEvaluator", 0.0, False)
    assert (faithful.reason, faithful.metadata) == ("NO", {"passing": False})
    assert "Rome is the capital of Italy." in asked
    assert (correct.name, correct.score, correct.success, correct.reason) == ("Right", 0.75, True, "Almost.")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (EvaluationResult(invalid_result=True, invalid_reason="no verdict"), "no verdict"),
        (EvaluationResult(score=4.0), "not a number in 0..1"),
        (EvaluationResult(), "not a number in 0..1"),
    ],
)
def test_what_is_not_a_score_is_an_error(given, said):
    class Theirs:
        async def aevaluate(self, **kwargs):
            return given

    result = llama_index.as_evaluator(Theirs()).evaluate(CASE)

    assert result.score is None
    assert said in result.error


def test_a_verdict_without_a_score_decides():
    class Theirs:
        async def aevaluate(self, **kwargs):
            return EvaluationResult(passing=True, feedback="Fine.")

    result = llama_index.as_evaluator(Theirs()).evaluate(CASE)

    assert (result.score, result.success, result.reason) == (1.0, True, "Fine.")


async def test_our_evaluators_become_theirs():
    exact = llama_index.from_evaluator(ExactMatch())

    right = await exact.aevaluate(query="Capital?", response="Rome", contexts=["c"], reference="Rome")
    wrong = await exact.aevaluate(query="Capital?", response="Milan", reference="Rome")
    error = await exact.aevaluate(query="Capital?", response="Rome")

    assert (right.passing, right.score, right.query, right.contexts) == (True, 1.0, "Capital?", ("c",))
    assert (wrong.passing, wrong.score, wrong.contexts) == (False, 0.0, None)
    assert "Milan" in wrong.feedback
    assert (error.passing, error.score, error.invalid_result) == (None, None, True)
    assert "expected output" in error.invalid_reason


def test_what_they_evaluate_is_a_case_of_dokimos():
    request = EvaluationResult(query="q", response="r", contexts=["c"])
    case = llama_index.to_test_case(request, expected="e")

    assert (case.input, case.actual_output, case.expected_output, case.contexts) == ("q", "r", "e", ("c",))


def test_the_response_of_an_engine_is_a_case_too():
    with ToolCallingServer([Turn("30 days.")]) as server:
        engine = index().as_query_engine(llm=llm(server.base_url))

        async def query():
            return await engine.aquery("A refund?")

        case = llama_index.to_test_case(run_sync(query()), query="A refund?")

    assert (case.input, case.actual_output) == ("A refund?", "30 days.")
    assert case.contexts == ("A refund takes 30 days.",)
