"""Pydantic AI, with a real agent, and the evaluators of pydantic-evals."""

import story
from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, UsageLimits
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.toolsets import FunctionToolset
from pydantic_evals.evaluators import EqualsExpected, EvaluationReason, Evaluator
from story import ANSWER, QUESTION
from tool_calling import ToolCallingServer, Turn

from contract import FrameworkContract
from dokimos import Dataset, Example, evaluate
from dokimos._core.metrics import CallMetrics
from dokimos._core.test_case import EvalTestCase
from dokimos._runtime.concurrency import run_sync
from dokimos.evaluators import ExactMatch
from dokimos.integrations import pydantic_ai, pydantic_evals


def book_flight(to: str) -> str:
    """Book a flight to a city."""
    raise ModelRetry(story.NO_SEATS)


def model(base_url):
    return OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=base_url, api_key="none"))


class TestPydanticAI(FrameworkContract):
    name = "pydantic_ai"
    package = "pydantic-ai-slim"
    bridge = pydantic_ai
    guide_script = story.first_turn()
    example_script = story.first_turn()

    def agent(self, base_url):
        return Agent(
            model(base_url), name="traveller", instructions="Help.", tools=[story.get_weather, book_flight]
        )

    def limited(self, base_url):
        return self.agent(base_url), {"run_options": {"usage_limits": UsageLimits(request_limit=1)}}

    def scenarios(self):
        return {"structured": self.structured, "toolsets": self.prefixed, "asking": self.asking}

    def structured(self, base_url):
        agent = Agent(model(base_url), tools=[story.get_weather], output_type=City)
        calls = [("get_weather", {"city": "Rome"})]
        gives = Turn(calls=(("final_result", {"name": "Rome", "country": "Italy"}),))
        return agent, [Turn(calls=tuple(calls)), gives], calls

    def prefixed(self, base_url):
        agent = Agent(model(base_url), toolsets=[FunctionToolset([story.get_weather]).prefixed("eu")])
        calls = [("eu_get_weather", {"city": "Rome"})]
        return agent, [Turn(calls=tuple(calls)), Turn(ANSWER)], calls

    def asking(self, base_url):
        inner = self.agent(base_url)

        async def ask(question: str) -> str:
            """Ask a traveller."""
            return (await inner.run(question)).output

        calls = [("ask", {"question": "Rome?"})]
        within = [Turn(calls=(("get_weather", {"city": "Rome"}),)), Turn("25 degrees")]
        return Agent(model(base_url), tools=[ask]), [Turn(calls=tuple(calls)), *within, Turn(ANSWER)], calls

    def run(self, agent, question):
        return run_sync(agent.run(question))

    def record(self, result):
        return {
            "new_messages": result.new_messages(),
            "output": result.output,
            "usage": result.usage,
            "output_tool_name": result._output_tool_name,
        }

    def test_a_model_is_a_judge(self, server):
        server.turns.extend(self.answered("Yes."))

        judge = pydantic_ai.as_judge(model(server.base_url))

        assert run_sync(judge.complete("Is it?")).text == "Yes."


class City(BaseModel):
    name: str
    country: str


def test_a_structured_output_is_the_output_and_no_tool_call():
    script = [Turn(calls=(("final_result", {"name": "Rome", "country": "Italy"}),))]
    with ToolCallingServer(script) as server:
        agent = Agent(model(server.base_url), output_type=City)
        result = run_sync(agent.run(QUESTION))

    trace = pydantic_ai.to_agent_trace(result)

    assert trace.tool_calls == ()
    assert trace.final_response == '{"name":"Rome","country":"Italy"}'


def test_the_messages_of_a_run_can_be_read_alone():
    contract = TestPydanticAI()
    with ToolCallingServer(story.first_turn()) as server:
        result = run_sync(contract.agent(server.base_url).run(QUESTION))

    trace = pydantic_ai.to_agent_trace(result.all_messages())

    contract.check_first(trace)
    assert trace.final_response == ANSWER


def a_case():
    return EvalTestCase(
        {"input": "Capital of Italy?"},
        {"output": "Rome", "contexts": ["Rome is the capital."]},
        expected_outputs={"output": "Rome"},
        metrics=CallMetrics(3, 4, latency_ms=20.0),
        id="italy",
    )


class Kind(Evaluator):
    """Gives several values about what it is shown."""

    def evaluate(self, ctx):
        return {"right": ctx.output == ctx.expected_output, "long": EvaluationReason(0.5, "It is short.")}


def test_their_evaluator_becomes_one_of_dokimos():
    equals = pydantic_evals.as_evaluator(EqualsExpected())

    result = evaluate(
        Dataset([Example.of("Italy", "Rome"), Example.of("France", "Paris")]),
        lambda example: "Rome",
        [equals],
    )

    assert result.pass_rate == 0.5
    assert result.average_score("EqualsExpected") == 0.5


def test_several_foreign_values_are_their_mean():
    result = pydantic_evals.as_evaluator(Kind(), name="Kind").evaluate(a_case())

    assert (result.name, result.score, result.success) == ("Kind", 0.75, True)
    assert result.metadata["scores"] == {"right": 1.0, "long": 0.5}
    assert "It is short." in result.reason


def test_their_label_is_an_error_and_no_score():
    class Label(Evaluator):
        def evaluate(self, ctx):
            return "good"

    result = pydantic_evals.as_evaluator(Label()).evaluate(a_case())

    assert result.score is None
    assert "'good'" in result.error


def test_their_context_and_our_case_hold_the_same():
    context = pydantic_evals.to_context(a_case())

    assert (context.inputs, context.output, context.expected_output) == ("Capital of Italy?", "Rome", "Rome")
    assert (context.name, context.duration) == ("italy", 0.02)
    assert pydantic_evals.to_test_case(context) == a_case()


async def test_our_evaluator_becomes_one_of_theirs():
    from pydantic_evals import Case
    from pydantic_evals import Dataset as TheirDataset

    exact = pydantic_evals.from_evaluator(ExactMatch(name="Exact"))
    dataset = TheirDataset(
        name="capitals",
        cases=[
            Case(name="it", inputs="Italy", expected_output="Rome"),
            Case(name="fr", inputs="France", expected_output="Paris"),
        ],
        evaluators=[exact],
    )

    report = await dataset.evaluate(lambda country: "Rome", progress=False)

    assert [case.scores["Exact"].value for case in report.cases] == [1.0, 0.0]
    assert [case.assertions["Exact passed"].value for case in report.cases] == [True, False]
    assert "Rome" in report.cases[1].scores["Exact"].reason


async def test_an_error_of_our_evaluator_is_an_evaluator_failure_of_theirs():
    from pydantic_evals import Case
    from pydantic_evals import Dataset as TheirDataset

    dataset = TheirDataset(
        name="d",
        cases=[Case(name="it", inputs="Italy")],
        evaluators=[pydantic_evals.from_evaluator(ExactMatch())],
    )

    report = await dataset.evaluate(lambda country: "Rome", progress=False)

    assert report.cases[0].scores == {}
    assert "requires an expected output" in report.cases[0].evaluator_failures[0].error_message


def test_agents_of_other_instructions_are_other_judges():
    def judge(text):
        return pydantic_ai.as_judge(Agent(model("http://localhost"), instructions=text))

    assert judge("Help.").identity == judge("Help.").identity
    assert judge("Help.").identity != judge("Judge.").identity
