"""CrewAI, by what its objects look like."""

from types import SimpleNamespace

import pytest

from dokimos._core.metrics import CallMetrics
from dokimos.integrations import _crewai_meter as crewai_meter
from dokimos.integrations import crewai
from dokimos.integrations._crewai_meter import meter_run

FAILURE = {"tool_name": "pay", "tool_args": {"amount": 3}}


def asks(identity, name, arguments):
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": identity, "function": {"name": name, "arguments": arguments}}],
    }


def answers(identity, text):
    return {"role": "tool", "tool_call_id": identity, "content": text}


def test_the_calls_of_all_tasks_are_read_in_turn_and_their_ids_may_come_again():
    tasks = [
        {"messages": [asks("1", "get", "{}"), answers("1", "first")], "agent": "One"},
        {"messages": [asks("1", "get", "{}"), answers("1", "second")], "agent": "Two"},
    ]
    trace = crewai.to_agent_trace({"tasks_output": tasks, "raw": "Done."})

    assert [call.result for call in trace.tool_calls] == ["first", "second"]
    assert (trace.final_response, trace.metadata) == ("Done.", {"agent": "Two"})


def test_only_the_call_that_failed_is_marked():
    messages = [
        asks("1", "pay", '{"amount": 2}'),
        answers("1", "paid"),
        asks("2", "pay", '{"amount": 3}'),
        answers("2", "no money"),
        asks("2", "pay", '{"amount": 3}'),
        answers("2", "paid"),
    ]
    calls = crewai.to_agent_trace({"messages": messages, "tool_failures": [FAILURE], "raw": "."}).tool_calls

    assert [bool(call.metadata.get("error")) for call in calls] == [False, True, False]


def test_a_call_written_as_text_is_read_with_what_it_gave():
    text = 'Thought: Pay.\nAction: pay\nAction Input: {"amount": 3}\nObservation: no money\nleft'
    output = {"messages": [{"role": "assistant", "content": text}], "tool_failures": [FAILURE], "raw": "."}
    (call,) = crewai.to_agent_trace(output).tool_calls

    assert (call.name, call.arguments, call.result) == ("pay", {"amount": 3}, "no money\nleft")
    assert call.metadata == {"error": True}


def test_arguments_that_are_not_json_are_kept():
    output = {"messages": [asks("1", "pay", "three"), answers("1", "what?")], "raw": "."}

    assert crewai.to_agent_trace(output).tool_calls[0].invalid_arguments == "three"


def test_tools_of_agents_and_tasks_are_those_of_a_crew_each_once():
    schema = SimpleNamespace(model_json_schema=lambda: {"type": "object"})
    pay, get = (SimpleNamespace(name=name, description="D.", args_schema=schema) for name in ("pay", "get"))
    crew = SimpleNamespace(
        kickoff=print, agents=[SimpleNamespace(tools=[pay])], tasks=[SimpleNamespace(tools=[pay, get])]
    )

    assert [tool.name for tool in crewai.to_tool_definitions(crew)] == ["pay", "get"]


class Bus:
    """CrewAI's event bus, which calls who listens at once."""

    def __init__(self):
        self.listeners = {}

    def on(self, kind):
        def listen(function):
            self.listeners[kind] = function

        return listen

    def flush(self):
        """Wait for nothing."""

    def tell(self, agent_id=None, source=None, tokens=20):
        usage = {"prompt_tokens": tokens, "completion_tokens": 8}
        self.listeners["answered"](source, SimpleNamespace(agent_id=agent_id, usage=usage, model="m"))


@pytest.fixture
def bus(monkeypatch):
    bus = Bus()
    events = SimpleNamespace(
        crewai_event_bus=bus,
        LLMCallCompletedEvent="answered",
        LLMCallStartedEvent="asked",
        ToolUsageErrorEvent="failed",
    )
    monkeypatch.setattr(crewai_meter, "require", lambda module, extra: events)
    crewai_meter._meter.cache_clear()
    yield bus
    crewai_meter._meter.cache_clear()


def test_only_calls_of_the_agents_of_a_run_are_counted(bus):
    crew = SimpleNamespace(agents=[SimpleNamespace(id="a"), SimpleNamespace(id="b")], manager_agent=None)

    def run():
        for agent_id in ("a", "b", "else", "a"):
            bus.tell(agent_id)
        return "done"

    came = meter_run(crew, run)
    assert (came.result, came.usage, came.error) == ("done", CallMetrics(60, 24, model="m"), None)


def test_a_model_is_known_by_itself(bus):
    model, other = SimpleNamespace(), SimpleNamespace()

    def run():
        bus.tell(source=model)
        bus.tell(source=other)

    assert meter_run(model, run).usage == CallMetrics(20, 8, model="m")


def test_what_comes_between_runs_or_is_not_measured_is_not_counted(bus):
    agent = SimpleNamespace(id="a")
    assert meter_run(agent, lambda: None).usage is None
    bus.tell("a")

    def run():
        bus.listeners["answered"](None, SimpleNamespace(agent_id="a", usage=None))

    assert meter_run(agent, run).usage is None


def test_a_run_that_fails_leaves_nothing_behind(bus):
    agent = SimpleNamespace(id="a")

    def fail():
        bus.tell("a")
        raise ValueError("no")

    came = meter_run(agent, fail)
    assert (str(came.error), came.result, came.usage.tokens_in) == ("no", None, 20)
    assert meter_run(agent, lambda: None).usage is None


def test_a_run_that_fails_has_the_last_messages_of_its_tasks_whatever_the_order_of_events(bus):
    crew = SimpleNamespace(agents=[SimpleNamespace(id="a")], tasks=[SimpleNamespace(id="t")])
    printed = {**asks("1", "'get'", "'{\"n\": 1}'"), "content": None}
    long, short = [printed, answers("1", "one")], []

    def fail():
        for task, messages in (("t", long), ("t", short), ("of a coworker", [{"role": "user"}])):
            event = SimpleNamespace(agent_id="a", task_id=task, messages=messages, tools=None)
            bus.listeners["asked"](None, event)
        bus.listeners["failed"](None, SimpleNamespace(agent_id="a", tool_name="get", tool_args={"n": 1}))
        raise ValueError("no")

    came = meter_run(crew, fail)
    trace = crewai.to_agent_trace(crewai._partial_output(came))

    (call,) = trace.tool_calls
    assert (call.name, call.arguments, call.result) == ("get", {"n": 1}, "one")
    assert call.metadata == {"id": "1", "error": True}
