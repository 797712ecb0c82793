"""smolagents, with real agents and a model."""

import story
from smolagents import CodeAgent, OpenAIModel, PythonInterpreterTool, ToolCallingAgent, tool
from story import ANSWER, QUESTION, SECOND_ANSWER
from tool_calling import ToolCallingServer, Turn

from contract import FrameworkContract
from dokimos import Example
from dokimos._runtime.concurrency import run_sync
from dokimos.integrations import smolagents


@tool
def get_weather(city: str) -> str:
    """Tell the weather in a city.

    Args:
        city: The city.
    """
    return story.get_weather(city)


@tool
def book_flight(to: str) -> str:
    """Book a flight to a city.

    Args:
        to: The city.
    """
    return story.book_flight(to)


def model(base_url):
    return OpenAIModel("scripted", api_base=base_url, api_key="none", client_kwargs={"max_retries": 0})


def answer(text):
    return Turn(calls=(("final_answer", {"answer": text}),))


class TestSmolagents(FrameworkContract):
    name = "smolagents"
    package = "smolagents"
    bridge = smolagents
    guide_script = (
        *story.first_turn()[:2],
        answer(ANSWER),
    ) * 3
    example_script = (
        *story.first_turn()[:2],
        answer(ANSWER),
    )

    def agent(self, base_url):
        return ToolCallingAgent(
            tools=[get_weather, book_flight], model=model(base_url), verbosity_level=0, name="traveller"
        )

    def run(self, agent, question):
        return agent.run(question, return_full_result=True)

    def scenarios(self):
        return {"managed agents": self.managing, "code": self.coding, "an interpreter": self.interpreting}

    def managing(self, base_url):
        inner = ToolCallingAgent(
            tools=[get_weather], model=model(base_url), name="meteo", description="Knows.", verbosity_level=0
        )
        agent = ToolCallingAgent(
            tools=[book_flight], managed_agents=[inner], model=model(base_url), verbosity_level=0
        )
        calls = [("meteo", {"task": "Rome?"})]
        within = [Turn(calls=(("get_weather", {"city": "Rome"}),)), answer("25 degrees")]
        return agent, [Turn(calls=tuple(calls)), *within, answer(ANSWER)], calls

    def coding(self, base_url):
        agent = CodeAgent(tools=[get_weather], model=model(base_url), verbosity_level=0)
        codes = ["print(get_weather('Rome'))", "final_answer('25')"]
        calls = [("python_interpreter", {"code": code}) for code in codes]
        return agent, [Turn(f"I look.\n<code>\n{code}\n</code>") for code in codes], calls

    def interpreting(self, base_url):
        agent = ToolCallingAgent(tools=[PythonInterpreterTool()], model=model(base_url), verbosity_level=0)
        calls = [("python_interpreter", {"code": "1 + 1"})]
        return agent, [Turn(calls=tuple(calls)), answer("2")], calls

    def first_turn(self):
        return [*story.first_turn()[:2], answer(ANSWER)]

    def second_turn(self):
        return [story.second_turn()[0], answer(SECOND_ANSWER)]

    def answered(self, text):
        return [answer(text)]

    def test_the_guide_page_runs(self, server, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(tmp_path)  # the page writes a module there

        super().test_the_guide_page_runs(server, tmp_path, monkeypatch)

        assert "travel_tools" in {path.stem for path in tmp_path.glob("*.py")}

    def record(self, result):
        kept = ("step_number", "tool_calls", "error", "model_output", "observations", "token_usage")
        steps = [
            {
                **{key: step[key] for key in kept},
                "model_output_message": {"tool_calls": step["model_output_message"]["tool_calls"]},
            }
            for step in result.steps
            if "step_number" in step
        ]
        return {"steps": steps, "output": result.output, "token_usage": result.token_usage}


def test_a_stream_distinguishes_calls_of_one_step_whatever_they_return():
    contract = TestSmolagents()

    @tool
    def get_forecast(city: str) -> str:
        """Tell the weather of the next days.

        Args:
            city: The city.
        """
        return f"{city}\nsun" if city == "Paris" else "rain"

    both = (("get_forecast", {"city": "Paris"}), ("get_forecast", {"city": "Rome"}))
    with ToolCallingServer([Turn(calls=both), answer("Sun."), Turn(calls=both), answer("Sun.")]) as server:
        agent = ToolCallingAgent(tools=[get_forecast], model=model(server.base_url), verbosity_level=0)
        streamed = smolagents.run_and_trace(agent, QUESTION)
        whole = smolagents.to_agent_trace(contract.run(agent, QUESTION))

    assert [call.result for call in streamed.tool_calls] == ["Paris\nsun", "rain"]
    assert [call.result for call in whole.tool_calls] == ["Paris\nsun\nrain"] * 2


def test_the_last_step_at_the_limit_is_counted_once():
    script = [Turn(calls=(("get_weather", {"city": city}),)) for city in ("Paris", "Rome")]
    with ToolCallingServer([*script, Turn("I had to stop.")] * 2) as server:
        agent = ToolCallingAgent(
            tools=[get_weather], model=model(server.base_url), verbosity_level=0, max_steps=2
        )
        task = run_sync(smolagents.as_task(agent)(Example.of(QUESTION)))
        steps = list(agent.run(QUESTION, stream=True))

    calls = task.outputs["toolCalls"]
    assert [call.arguments["city"] for call in calls] == ["Paris", "Rome"]
    assert task.outputs["output"] == "I had to stop."
    assert task.metrics.tokens_in == 60
    assert len(smolagents.to_agent_trace(steps).tool_calls) == 2


def test_code_is_the_call_of_the_interpreter():
    code = "Thought: I look it up.\n<code>\nfinal_answer(get_weather('Rome'))\n</code>"
    with ToolCallingServer([Turn(code)]) as server:
        agent = CodeAgent(tools=[get_weather], model=model(server.base_url), verbosity_level=0)
        trace = smolagents.run_and_trace(agent, QUESTION)

    assert trace.final_response == "25 degrees"
    assert [call.name for call in trace.tool_calls] == ["python_interpreter"]
    assert trace.tool_calls[0].arguments == {"code": "final_answer(get_weather('Rome'))"}
    assert "25 degrees" in trace.tool_calls[0].result
    assert trace.reasoning_steps[0].startswith("Thought: I look it up.")


def test_an_answer_that_is_not_text_is_the_output():
    with ToolCallingServer([answer({"degrees": 25})]) as server:
        agent = ToolCallingAgent(tools=[], model=model(server.base_url), verbosity_level=0)
        result = run_sync(smolagents.as_task(agent)(Example.of(QUESTION)))

    assert result.outputs["output"] == {"degrees": 25}


def test_a_model_alone_is_a_task():
    with ToolCallingServer([Turn(ANSWER)]) as server:
        result = run_sync(smolagents.as_task(model(server.base_url))(Example.of(QUESTION)))

    assert (result.outputs["output"], result.metrics.tokens_in) == (ANSWER, 20)
