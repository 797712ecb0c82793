"""Haystack, with a real agent, generator and pipeline."""

import pytest
import story
from haystack import Document, Pipeline, component
from haystack.components.agents import Agent
from haystack.components.builders import AnswerBuilder, ChatPromptBuilder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.tools import Toolset, create_tool_from_function
from haystack.utils import Secret
from story import ANSWER, QUESTION
from tool_calling import ToolCallingServer, Turn

from contract import FrameworkContract
from dokimos import Example
from dokimos._runtime.concurrency import run_sync
from dokimos.integrations import haystack

TEMPLATE = "{% for document in documents %}{{ document.content }}{% endfor %} {{ query }}"


def generator(base_url):
    return OpenAIChatGenerator(
        Secret.from_token("none"), model="scripted", api_base_url=base_url, max_retries=0
    )


class TestHaystack(FrameworkContract):
    name = "haystack"
    package = "haystack-ai"
    bridge = haystack
    guide_script = (*story.first_turn(), *story.first_turn(), Turn("Within 30 days."))
    example_script = (
        Turn("You get your money back within 30 days."),
        Turn("It takes 5 days."),
    )

    def agent(self, base_url):
        return Agent(
            chat_generator=generator(base_url),
            tools=[create_tool_from_function(tool) for tool in (story.get_weather, story.book_flight)],
            system_prompt="Help.",
            raise_on_tool_invocation_failure=False,
        )

    def limited(self, base_url):
        agent = self.agent(base_url)
        agent.max_agent_steps = 1
        return agent, {}

    def scenarios(self):
        return {"toolsets": self.toolsets, "agents as tools": self.asking}

    def toolsets(self, base_url):
        tools = [Toolset([create_tool_from_function(story.get_weather)])]
        calls = [("get_weather", {"city": "Rome"})]
        agent = Agent(chat_generator=generator(base_url), tools=tools)
        return agent, [Turn(calls=tuple(calls)), Turn(ANSWER)], calls

    def asking(self, base_url):
        inner = self.agent(base_url)

        def ask(question: str) -> str:
            """Ask a traveller."""
            return inner.run(messages=[ChatMessage.from_user(question)])["last_message"].text

        calls = [("ask", {"question": "Rome?"})]
        within = [Turn(calls=(("get_weather", {"city": "Rome"}),)), Turn("25 degrees")]
        agent = Agent(chat_generator=generator(base_url), tools=[create_tool_from_function(ask)])
        return agent, [Turn(calls=tuple(calls)), *within, Turn(ANSWER)], calls

    def run(self, agent, question):
        return agent.run(messages=[ChatMessage.from_user(question)])

    def record(self, result):
        messages = [
            {
                "role": message.role.value,
                "texts": message.texts,
                "tool_calls": message.tool_calls,
                "tool_call_results": message.tool_call_results,
            }
            for message in result["messages"]
        ]
        return {"messages": messages, "token_usage": result["token_usage"]}


def pipeline(base_url, *, with_answer):
    store = InMemoryDocumentStore()
    store.write_documents(
        [
            Document(content="A refund takes 30 days.", meta={"source": "refunds.md"}),
            Document(content="Shipping takes 5 days."),
        ]
    )
    built = Pipeline()
    built.add_component("retriever", InMemoryBM25Retriever(store, top_k=1))
    prompt = ChatPromptBuilder([ChatMessage.from_user(TEMPLATE)], required_variables="*")
    built.add_component("prompt", prompt)
    built.add_component("llm", generator(base_url))
    built.connect("retriever.documents", "prompt.documents")
    built.connect("prompt.prompt", "llm.messages")
    if with_answer:
        built.add_component("answer", AnswerBuilder())
        built.connect("llm.replies", "answer.replies")
        built.connect("retriever.documents", "answer.documents")
    return built


@pytest.mark.parametrize("with_answer", [False, True])
def test_the_documents_of_a_pipeline_are_the_context(with_answer):
    with ToolCallingServer([Turn("Within 30 days.")]) as server:
        rag = pipeline(server.base_url, with_answer=with_answer)
        task = haystack.as_task(rag, metadata_key="sources", needs_context=True)

        result = run_sync(task(Example.of("How long does a refund take?")))

    assert result.outputs["output"] == "Within 30 days."
    assert result.outputs["contexts"] == ["A refund takes 30 days."]
    assert result.outputs["sources"] == [
        {"text": "A refund takes 30 days.", "metadata": {"source": "refunds.md"}}
    ]
    assert (result.metrics.tokens_in, result.metrics.model) == (20, "scripted")


def test_an_input_that_is_a_map_is_the_data_of_a_pipeline():
    with ToolCallingServer([Turn("In 5 days.")]) as server:
        data = {"retriever": {"query": "shipping"}, "prompt": {"query": "When?"}}
        task = haystack.as_task(pipeline(server.base_url, with_answer=False), input_key="data")

        result = run_sync(task(Example({"data": data})))

    assert result.outputs["contexts"] == ["Shipping takes 5 days."]


@component
class ToolRunner:
    @component.output_types(results=list[ChatMessage])
    def run(self, messages: list[ChatMessage]):
        calls = messages[0].tool_calls
        return {
            "results": [ChatMessage.from_user(QUESTION), messages[0]]
            + [ChatMessage.from_tool(story.get_weather(**call.arguments), origin=call) for call in calls]
        }


def test_a_pipeline_that_breaks_off_keeps_what_its_components_did():
    tools = [create_tool_from_function(story.get_weather)]
    with ToolCallingServer([story.first_turn()[0], Turn(status=400)]) as server:
        built = Pipeline()
        built.add_component(
            "asking",
            OpenAIChatGenerator(
                Secret.from_token("none"),
                model="scripted",
                api_base_url=server.base_url,
                max_retries=0,
                tools=tools,
            ),
        )
        built.add_component("running", ToolRunner())
        built.add_component("answering", generator(server.base_url))
        built.connect("asking.replies", "running.messages")
        built.connect("running.results", "answering.messages")
        task = haystack.as_task(built, input_key="data")
        data = {"asking": {"messages": [ChatMessage.from_user(QUESTION)]}}

        result = run_sync(task(Example({"data": data})))

    assert "answering" in result.error
    assert [(call.name, call.result) for call in result.outputs["toolCalls"]] == [
        ("get_weather", "21 degrees"),
        ("get_weather", "25 degrees"),
    ]
    assert result.metrics.tokens_in == 20


def test_a_run_after_earlier_messages_has_only_its_own_calls():
    contract = TestHaystack()
    with ToolCallingServer([*story.first_turn(), *story.second_turn()]) as server:
        agent = contract.agent(server.base_url)
        first = contract.run(agent, QUESTION)
        trace = haystack.run_and_trace(agent, [*first["messages"], ChatMessage.from_user("And in Oslo?")])

    assert [call.arguments for call in trace.tool_calls] == [{"city": "Oslo"}]
