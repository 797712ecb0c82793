"""LangChain and LangGraph, with a real agent, graph, chain and model."""

import pytest
import story
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_classic.evaluation import load_evaluator
from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import StructuredTool, ToolException
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from openevals.exact import exact_match
from openevals.llm import create_llm_as_judge
from pydantic import BaseModel
from story import ANSWER, QUESTION, SECOND_ANSWER, SECOND_QUESTION
from tool_calling import ToolCallingServer, Turn

from contract import FrameworkContract
from dokimos import Dataset, Example, evaluate
from dokimos._core.agent import AgentTrace
from dokimos._core.conversation import ConversationTrajectory, Message
from dokimos._runtime.concurrency import run_sync
from dokimos.errors import EvaluationError, IntegrationError
from dokimos.evaluators import Contains, ExactMatch
from dokimos.integrations import langchain, langchain_evaluators


def model(base_url, **options):
    return ChatOpenAI(model="scripted", base_url=base_url, api_key="none", max_retries=0, **options)


def book_flight(to: str) -> str:
    """Book a flight to a city."""
    raise ToolException(story.NO_SEATS)


class City(BaseModel):
    name: str


class TestLangChain(FrameworkContract):
    name = "langchain"
    package = "langchain"
    bridge = langchain
    guide_script = (*story.first_turn(), *story.first_turn(), Turn("We refund within 30 days."))
    example_script = story.first_turn()

    def agent(self, base_url, **options):
        weather = StructuredTool.from_function(story.get_weather)
        flight = StructuredTool.from_function(book_flight, handle_tool_error=True)
        return create_agent(model(base_url), [weather, flight], system_prompt="Help.", **options)

    def limited(self, base_url):
        return self.agent(base_url), {"run_options": {"config": {"recursion_limit": 3}}}

    def scenarios(self):
        return {"structured": self.structured, "a graph in a graph": self.nested, "asking": self.asking}

    def structured(self, base_url):
        agent = create_agent(model(base_url), [story.get_weather], response_format=ToolStrategy(City))
        calls = [("get_weather", {"city": "Rome"})]
        gives = [Turn(calls=(("City", given),)) for given in ({"nam": "?"}, {"name": "Rome"})]
        return agent, [Turn(calls=tuple(calls)), *gives], calls

    def nested(self, base_url):
        graph = StateGraph(MessagesState)
        graph.add_node("traveller", create_agent(model(base_url), [story.get_weather]))
        graph.add_edge(START, "traveller")
        calls = [("get_weather", {"city": "Rome"})]
        return graph.compile(), [Turn(calls=tuple(calls)), Turn(ANSWER)], calls

    def asking(self, base_url):
        inner = create_agent(model(base_url), [story.get_weather])

        def ask(question: str) -> str:
            """Ask a traveller."""
            return inner.invoke({"messages": [("user", question)]})["messages"][-1].content

        calls = [("ask", {"question": "Rome?"})]
        within = [Turn(calls=(("get_weather", {"city": "Rome"}),)), Turn("25 degrees")]
        script = [Turn(calls=tuple(calls)), *within, Turn(ANSWER)]
        return create_agent(model(base_url), [ask]), script, calls

    def run(self, agent, question):
        return agent.invoke({"messages": [{"role": "user", "content": question}]})

    def record(self, result):
        keys = (
            "type",
            "content",
            "tool_calls",
            "usage_metadata",
            "tool_call_id",
            "status",
            "response_metadata",
        )
        messages = [
            {key: getattr(message, key) for key in keys if getattr(message, key, None)}
            for message in result["messages"]
        ]
        answer = result.get("structured_response")
        return (
            {"messages": messages}
            if answer is None
            else {"messages": messages, "structured_response": answer}
        )


class TestLangGraphThatRemembers(TestLangChain):
    def agent(self, base_url):
        return super().agent(base_url, checkpointer=InMemorySaver())

    def run(self, agent, question):
        config = {"configurable": {"thread_id": "1"}}
        return agent.invoke({"messages": [{"role": "user", "content": question}]}, config)

    def write_record(self, result):
        """The results of the other one are recorded."""


@pytest.mark.parametrize("mode", ["values", "updates", ["updates", "values"]])
def test_a_stream_of_states_or_updates_reads_like_the_state(mode):
    contract = TestLangChain()
    with ToolCallingServer(story.first_turn() * 2) as server:
        agent = contract.agent(server.base_url)
        task = langchain.as_task(agent, run_options={"stream_mode": mode})
        outputs = run_sync(task(Example.of(QUESTION))).outputs
        chunks = list(agent.stream({"messages": [("user", QUESTION)]}, stream_mode=mode))

    contract.check_first(AgentTrace(outputs["toolCalls"], outputs["output"]))
    contract.check_first(langchain.to_agent_trace(chunks))
    assert langchain.to_call_metrics(chunks).tokens_in == 60


@pytest.mark.parametrize("mode", ["messages", "debug", "tasks", "checkpoints"])
def test_any_other_stream_is_refused(mode):
    with ToolCallingServer(story.first_turn()) as server:
        agent = create_agent(model(server.base_url), [story.get_weather], checkpointer=InMemorySaver())
        with pytest.raises(IntegrationError, match='Use stream_mode="values" or "updates"'):
            langchain.as_task(agent, run_options={"stream_mode": mode})
        config = {"configurable": {"thread_id": "1"}}
        server.turns.popleft()
        chunks = list(agent.stream({"messages": [("user", QUESTION)]}, config, stream_mode=mode))
        with pytest.raises(IntegrationError, match='Use stream_mode="values" or "updates"'):
            langchain.to_agent_trace(chunks)


def test_a_tool_that_raises_breaks_the_run_off_and_is_a_failed_call():
    def explode(to: str) -> str:
        """Explode."""
        raise RuntimeError(story.NO_SEATS)

    calls = (("get_weather", {"city": "Paris"}), ("explode", {"to": "Rome"}))
    with ToolCallingServer([Turn(calls=calls)]) as server:
        agent = create_agent(model(server.base_url), [story.get_weather, explode])
        trace = langchain.run_and_trace(agent, QUESTION)

    assert [call.result for call in trace.tool_calls] == ["21 degrees", f"RuntimeError: {story.NO_SEATS}"]
    assert [bool(call.metadata.get("error")) for call in trace.tool_calls] == [False, True]
    assert trace.error == f"RuntimeError: {story.NO_SEATS}"


def test_a_graph_in_a_graph_that_breaks_off_keeps_its_calls_and_not_those_before():
    conversation = ConversationTrajectory(
        (Message.user("Hello"), Message.assistant("Hello"), Message.user(QUESTION))
    )
    with ToolCallingServer([story.first_turn()[0], Turn(status=400)]) as server:
        graph, _, _ = TestLangChain().nested(server.base_url)
        result = run_sync(langchain.as_application(graph)(conversation))

    assert [call.result for call in result.outputs["toolCalls"]] == ["21 degrees", "25 degrees"]
    assert "out of order" in result.error
    assert "output" not in result.outputs


def test_a_thread_that_goes_on_gives_each_run_its_own_calls():
    contract = TestLangGraphThatRemembers()
    options = {"config": {"configurable": {"thread_id": "the same"}}}
    with ToolCallingServer([*story.first_turn(), *story.second_turn()]) as server:
        agent = contract.agent(server.base_url)
        first = langchain.run_and_trace(agent, QUESTION, **options)
        second = langchain.run_and_trace(agent, SECOND_QUESTION, **options)
        state = agent.get_state(options["config"]).values

    contract.check_first(first)
    assert [call.arguments for call in second.tool_calls] == [{"city": "Oslo"}]
    assert len(langchain.to_agent_trace(state).tool_calls) == 4
    conversation = langchain.to_trajectory(state)
    assert [len(calls) for calls in conversation.tool_calls_by_turn()] == [3, 1]
    contract.check_first(AgentTrace(conversation.tool_calls_by_turn()[0], ANSWER))


def test_ids_that_repeat_from_turn_to_turn_are_distinguished():
    script = [
        Turn(calls=(("get_weather", {"city": "Paris"}),), ids=("1",)),
        Turn(calls=(("get_weather", {"city": "Rome"}),), ids=("1",)),
        Turn(SECOND_ANSWER),
    ]
    with ToolCallingServer(script) as server:
        trace = langchain.run_and_trace(TestLangChain().agent(server.base_url), QUESTION)

    assert [call.result for call in trace.tool_calls] == ["21 degrees", "25 degrees"]


def test_a_chain_that_gives_text_is_a_task():
    with ToolCallingServer([Turn("Rome, of course.")]) as server:
        prompt = ChatPromptTemplate.from_template("Answer: {question}")
        chain = prompt | model(server.base_url) | StrOutputParser()
        task = langchain.as_task(RunnableLambda(lambda text: {"question": text}) | chain)
        result = evaluate(Dataset([Example.of("Capital of Italy?", "Rome")]), task, [Contains(values="Rome")])
        asked = server.received[0].body["messages"][0]["content"]

    assert result.pass_rate == 1.0
    assert asked == "Answer: Capital of Italy?"


def test_a_chain_that_breaks_off_keeps_what_its_models_and_tools_did():
    with ToolCallingServer([story.first_turn()[0], Turn(status=400)]) as server:
        tools = [StructuredTool.from_function(story.get_weather)]
        asked, said = model(server.base_url), []

        def ask(text):
            said.append(asked.bind_tools(tools).invoke(text))
            return said[-1].tool_calls

        def run(calls):
            return [tools[0].invoke({**call, "type": "tool_call"}) for call in calls]

        def answer(results):
            return asked.invoke([QUESTION, said[-1], *results]).content

        chain = RunnableLambda(ask) | RunnableLambda(run) | RunnableLambda(answer)
        trace = langchain.run_and_trace(chain, QUESTION)

    assert trace.error
    assert [(call.name, dict(call.arguments), call.result) for call in trace.tool_calls] == [
        ("get_weather", {"city": "Paris"}, "21 degrees"),
        ("get_weather", {"city": "Rome"}, "25 degrees"),
    ]


def test_a_list_of_records_is_the_output_of_a_chain_and_no_stream():
    records = [{"city": "Paris"}, {"city": "Rome", "id": 2, "name": "r", "result": 3}]
    task = langchain.as_task(RunnableLambda(lambda text: records))
    result = evaluate(Dataset([Example.of("Which?")]), task, [Contains(values="Paris")], journal=False)

    assert result.item_results[0].error is None
    assert result.item_results[0].actual_outputs["output"] == records


def test_the_documents_of_a_chain_are_the_context():
    documents = [Document("30 days to refund", metadata={"page": 5}), Document("Write to us")]
    chain = RunnableLambda(lambda text: {"answer": "We refund.", "context": documents})

    task = langchain.as_task(chain, needs_context=True, metadata_key="sources")
    result = evaluate(Dataset([Example.of("Refunds?")]), task, [Contains(values="refund")])

    outputs = result.runs[0].item_results[0].actual_outputs
    assert outputs["output"] == "We refund."
    assert outputs["contexts"] == ["30 days to refund", "Write to us"]
    assert outputs["sources"][0] == {"text": "30 days to refund", "metadata": {"page": 5}}


def test_the_artifacts_of_a_retriever_tool_are_the_context():
    def search(query: str):
        """Search the handbook."""
        return "one document", [Document("30 days to refund")]

    tool = StructuredTool.from_function(search, response_format="content_and_artifact")
    script = [Turn(calls=(("search", {"query": "refund"}),)), Turn("30 days.")]
    with ToolCallingServer(script) as server:
        task = langchain.as_task(create_agent(model(server.base_url), [tool]), needs_context=True)
        result = evaluate(Dataset([Example.of("Refunds?")]), task, [Contains(values="30")])

    assert result.runs[0].item_results[0].actual_outputs["contexts"] == ["30 days to refund"]


def test_a_model_alone_is_a_task_and_a_judge():
    with ToolCallingServer([Turn("Rome."), Turn("Yes.")]) as server:
        result = evaluate(
            Dataset([Example.of("Capital of Italy?")]),
            langchain.as_task(model(server.base_url)),
            [Contains(values="Rome")],
        )
        reply = run_sync(langchain.as_judge(model(server.base_url)).complete("Is it?"))

    item = result.runs[0].item_results[0]
    assert result.pass_rate == 1.0
    assert (item.metrics.tokens_in, item.metrics.model) == (20, "scripted")
    assert (reply.text, reply.metrics.tokens_out) == ("Yes.", 8)


def test_what_is_not_a_runnable_is_refused():
    with pytest.raises(IntegrationError, match="ainvoke"):
        langchain.run_and_trace("gpt", QUESTION)


def test_their_string_evaluator_becomes_one_of_dokimos():
    evaluator = langchain_evaluators.as_evaluator(load_evaluator("exact_match"))

    result = evaluate(
        Dataset([Example.of("Italy", "Rome"), Example.of("France", "Paris")]),
        lambda example: "Rome",
        [evaluator],
    )

    assert result.pass_rate == 0.5


def test_an_evaluator_of_openevals_becomes_one_of_dokimos():
    evaluator = langchain_evaluators.as_evaluator(exact_match)

    right = evaluator.evaluate(Example.of("Italy", "Rome").to_test_case("Rome"))
    wrong = evaluator.evaluate(Example.of("Italy", "Rome").to_test_case("Milan"))

    assert (right.name, right.score, right.success) == ("exact_match", 1.0, True)
    assert (wrong.score, wrong.success) == (0.0, False)


def test_a_judge_of_openevals_becomes_one_of_dokimos():
    script = [Turn('{"reasoning": "It is the capital.", "score": true}')]
    with ToolCallingServer(script) as server:
        theirs = create_llm_as_judge(prompt="Right? {inputs} {outputs}", judge=model(server.base_url))
        result = langchain_evaluators.as_evaluator(theirs, name="Right").evaluate(
            Example.of("Capital of Italy?").to_test_case("Rome")
        )

    assert result.error is None
    assert (result.name, result.score) == ("Right", 1.0)
    assert result.reason == "It is the capital."


def test_a_foreign_score_outside_0_to_1_is_an_error():
    result = langchain_evaluators.as_evaluator(lambda outputs: {"key": "stars", "score": 4}).evaluate(
        Example.of("x").to_test_case("y")
    )

    assert result.score is None
    assert "It gave 4 as a score" in result.error


def test_our_evaluator_becomes_one_of_theirs():
    function = langchain_evaluators.from_evaluator(ExactMatch())
    strings = langchain_evaluators.as_string_evaluator(ExactMatch())

    given = function(inputs="Italy", outputs="Milan", reference_outputs="Rome")
    said = strings.evaluate_strings(prediction="Rome", reference="Rome", input="Italy")

    assert (given["key"], given["score"], given["metadata"]["passed"]) == ("Exact Match", 0.0, False)
    assert "Milan" in given["comment"]
    assert (said["score"], said["value"]) == (1.0, "Y")


def test_an_error_of_our_evaluator_is_raised_and_no_score():
    with pytest.raises(EvaluationError, match="expected output"):
        langchain_evaluators.from_evaluator(ExactMatch())(inputs="Italy", outputs="Rome")


def test_text_content_and_documents_become_input_output_and_context():
    case = langchain_evaluators.to_test_case(
        {"input": "Refunds?", "prediction": "30 days.", "context": [Document("30 days to refund")]}
    )

    assert (case.input, case.actual_output, case.contexts) == ("Refunds?", "30 days.", ("30 days to refund",))


def test_chains_and_agents_of_other_prompts_are_other_judges():
    def chain(text):
        return ChatPromptTemplate.from_template(text) | model("http://localhost")

    def agent(text):
        return create_agent(model("http://localhost"), [], system_prompt=text)

    for make in (chain, agent):
        first, again, other = [
            langchain.as_judge(make(text)).identity for text in ("{q}", "{q}", "Judge {q}")
        ]
        assert first == again
        assert first != other
