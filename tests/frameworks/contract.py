"""What the integration of every framework must do, as tests that a framework's own class inherits."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

import pytest
import story
from scripted import Misbehaviour
from story import ANSWER, QUESTION, SECOND_ANSWER, SECOND_QUESTION
from tool_calling import ToolCallingServer, Turn

from dokimos import Dataset, Example, evaluate
from dokimos._core.agent import AgentTrace, ToolCall
from dokimos._core.jsonable import jsonable
from dokimos._runtime.concurrency import run_sync
from dokimos.evaluators import Correctness, ToolCallValidity, ToolErrors, ToolTrajectory
from dokimos.simulation import ConversationSimulator, ScriptedUser
from dokimos.testing.contracts import BridgeContract

ROOT = Path(__file__).parents[2]
GIVEN_UP_AFTER = 8.0
"""Seconds; long enough for what comes before, on a slow machine too."""
VERDICT = '{"reason": "It says so.", "score": 5, "verdict": "yes"}'


class FrameworkContract(BridgeContract):
    """A framework's class sets these, and may override single tests with a reason.

    What every bridge must do, also those of others, is tested with the real framework here.
    """

    calls = (
        ("get_weather", {"city": "Paris"}),
        ("get_weather", {"city": "Rome"}),
        ("book_flight", {"to": "Rome"}),
    )
    final_response = ANSWER

    name: str
    """Of the module, the recorded result, the guide page and the example."""
    package: str
    """Whose version is recorded."""
    failure = story.NO_SEATS
    """What the result of the failing tool says."""
    failure_is_flagged = True
    """Whether the framework says which results are failures."""
    measured = True
    """Whether results carry token counts."""
    model_calls = 3
    """How many model calls the first turn takes."""
    guide_script = ()
    example_script = ()

    def agent(self, base_url):
        raise NotImplementedError

    def factory(self, base_url):
        """Return a function that makes a fresh agent for each prompt."""
        return lambda: self.agent(base_url)

    def run(self, agent, question):
        """Run the agent without dokimos and return what the framework gives."""
        raise NotImplementedError

    def record(self, result):
        """Return the parts of a result that the module reads, as a plain tree."""
        raise NotImplementedError

    def tools(self, agent):
        """Return what `to_tool_definitions` takes."""
        return agent

    def first_turn(self):
        return story.first_turn()

    def second_turn(self):
        return story.second_turn()

    def answered(self, text):
        """Return the script of an answer without calls."""
        return [Turn(text)]

    @property
    def results(self):
        return "21 degrees", "25 degrees", self.failure

    @property
    def failed(self):
        return (2,) if self.failure_is_flagged else ()

    @property
    def tokens(self):
        return (20 * self.model_calls, 8 * self.model_calls) if self.measured else None

    @cached_property
    def result(self):
        """What the framework returned for a run."""
        self.running.turns.extend(self.first_turn())
        return self.run(self.agent(self.running.base_url), QUESTION)

    def make_agent(self):
        self.running.turns.extend(turn for _ in range(12) for turn in self.answered("Fine."))
        return self.fresh(self.running)

    def make_failing_agent(self):
        self.running.turns.extend([Turn(status=400)] * 40)
        return self.fresh(self.running)

    @pytest.fixture(autouse=True)
    def server(self, monkeypatch):
        with ToolCallingServer() as running:
            monkeypatch.setenv("OPENAI_BASE_URL", running.base_url)
            monkeypatch.setenv("OPENAI_API_KEY", "none")
            monkeypatch.setenv("ANTHROPIC_BASE_URL", running.url)
            monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
            self.running = running
            yield running

    def check_first(self, trace: AgentTrace):
        called = [(call.name, dict(call.arguments)) for call in trace.tool_calls]
        assert called == [
            ("get_weather", {"city": "Paris"}),
            ("get_weather", {"city": "Rome"}),
            ("book_flight", {"to": "Rome"}),
        ]
        assert [call.result for call in trace.tool_calls[:2]] == ["21 degrees", "25 degrees"]
        assert self.failure in trace.tool_calls[2].result
        assert bool(trace.tool_calls[2].metadata.get("error")) is self.failure_is_flagged
        assert not any(call.metadata.get("error") for call in trace.tool_calls[:2])
        assert trace.final_response == ANSWER

    def test_a_run_becomes_a_trace(self, server):
        server.turns.extend(self.first_turn())

        result = self.run(self.agent(server.base_url), QUESTION)

        self.check_first(self.bridge.to_agent_trace(result))
        if os.environ.get("DOKIMOS_RECORD"):
            self.write_record(result)

    def write_record(self, result):
        tree = {
            "framework": f"{self.package} {version(self.package)}",
            "failure": self.failure,
            "failureIsFlagged": self.failure_is_flagged,
            "modelCalls": self.model_calls if self.measured else 0,
            "result": steady(jsonable(self.record(result)), {}),
        }
        self.write("", tree)

    def write(self, folder, tree):
        path = ROOT / "tests" / "data" / "frameworks" / folder / f"{self.name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(tree, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def test_what_is_recorded_reads_like_the_result(self, server):
        server.turns.extend(self.first_turn())
        result = self.run(self.agent(server.base_url), QUESTION)

        recorded = json.loads(json.dumps(jsonable(self.record(result))))

        assert (
            self.bridge.to_agent_trace(recorded).tool_calls == self.bridge.to_agent_trace(result).tool_calls
        )
        assert self.bridge.to_call_metrics(recorded) == self.bridge.to_call_metrics(result)

    def test_the_usage_of_all_model_calls_is_counted_and_priced(self, server):
        server.turns.extend(self.first_turn())
        result = self.run(self.agent(server.base_url), QUESTION)

        metrics = self.bridge.to_call_metrics(result, "some-model", lambda model, i, o: (i + o) / 1e6)

        if not self.measured:
            assert metrics is None
            return
        assert (metrics.tokens_in, metrics.tokens_out) == (20 * self.model_calls, 8 * self.model_calls)
        assert metrics.cost_usd == pytest.approx(28 * self.model_calls / 1e6)

    def test_the_tools_are_described(self, server):
        tools = self.bridge.to_tool_definitions(self.tools(self.agent(server.base_url)))

        weather = next(tool for tool in tools if tool.name == "get_weather")
        assert {"get_weather", "book_flight"} <= {tool.name for tool in tools}
        assert "Tell the weather in a city" in weather.description
        assert weather.parameters == ("city",)
        assert weather.required == ("city",)
        assert weather.schema_of("city")["type"] == "string"

    def test_run_and_trace_works_from_sync_code_again_and_again(self, server):
        agent = self.fresh(server)
        for _ in range(2):
            server.turns.extend(self.first_turn())
            self.check_first(self.bridge.run_and_trace(agent, QUESTION))

    async def test_run_and_trace_works_on_a_running_loop(self, server):
        server.turns.extend(self.first_turn())

        self.check_first(await self.bridge.run_and_trace_async(self.fresh(server), QUESTION))

    def fresh(self, server):
        """Return an agent for several runs: a factory where agents remember."""
        return self.agent(server.base_url)

    def test_it_is_the_task_of_several_experiments(self, server):
        task = self.bridge.as_task(
            self.fresh(server), input_key="question", output_key="answer",
            model="some-model", price_table=lambda model, i, o: 0.25,
        )  # fmt: skip
        examples = Dataset([Example({"question": QUESTION}, {"answer": ANSWER})])

        for _ in range(2):
            server.turns.extend(self.first_turn())
            result = evaluate(examples, task, [ToolErrors(threshold=None)])
            item = result.runs[0].item_results[0]

            assert item.error is None
            assert item.actual_outputs["answer"] == ANSWER
            self.check_first(AgentTrace(item.actual_outputs["toolCalls"], ANSWER))
            assert item.metrics.latency_ms > 0
            if self.measured:
                assert item.metrics.cost_usd == 0.25
                assert item.metrics.tokens_in == 20 * self.model_calls

    def scenarios(self):
        """Return functions of a base URL by name, each of which gives an agent, a script and the right calls.

        They are runs in which more is called than the tools of one agent: other agents, a structured answer.
        """
        return {}

    def limited(self, base_url):
        """Return an agent that may ask its model once, and options of its task; None where none can be."""
        return None

    def check_correct(self, agent, script, calls, server):
        """Check that a run which does what is right is valid by the agent's own tools, and as expected."""
        server.turns.extend(script)
        expected = {"toolCalls": [ToolCall(name, arguments) for name, arguments in calls]}
        evaluators = [ToolCallValidity(), ToolTrajectory(mode="strict"), ToolErrors()]
        result = evaluate(
            Dataset([Example({"input": QUESTION}, expected)]), self.bridge.as_task(agent), evaluators
        )
        item = result.runs[0].item_results[0]
        assert item.error is None
        assert [(each.score, each.error) for each in item.eval_results] == [(1.0, None)] * 3, item
        ids = [call.metadata.get("id") for call in item.actual_outputs["toolCalls"]]
        assert all(ids)
        assert len(set(ids)) == len(ids)
        assert item.actual_outputs["output"]
        return item

    def plain(self, base_url):
        both = [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"})]
        again = [("get_weather", {"city": "Rome"})]
        script = [Turn(calls=tuple(both)), Turn(calls=tuple(again)), *self.answered(ANSWER)]
        return self.agent(base_url), script, [*both, *again]

    def test_a_correct_run_is_valid_by_the_agents_own_tools(self, server):
        """Also one in which other agents are called, or a structured answer is given."""
        recorded = {}
        for name, make in {"plain": self.plain, **self.scenarios()}.items():
            agent, script, calls = make(server.base_url)
            item = self.check_correct(agent, script, calls, server)
            server.turns.extend(script)
            result = self.run(make(server.base_url)[0], QUESTION)
            recorded[name] = {
                "calls": [{"name": name, "arguments": arguments} for name, arguments in calls],
                "tools": jsonable(item.actual_outputs["tools"]),
                "result": steady(jsonable(self.record(result)), {}),
            }
            trace = self.bridge.to_agent_trace(recorded[name]["result"])
            assert [(call.name, dict(call.arguments)) for call in trace.tool_calls] == calls
        assert not server.turns
        if os.environ.get("DOKIMOS_RECORD") and type(self).write_record is FrameworkContract.write_record:
            self.write("correct", recorded)

    def test_the_tools_that_a_task_hands_over_are_those_of_the_agent(self, server):
        server.turns.extend(self.answered(ANSWER))

        outputs = run_sync(self.bridge.as_task(self.fresh(server))(Example.of(QUESTION))).outputs

        tools = self.bridge.to_tool_definitions(self.tools(self.agent(server.base_url)))
        # Some clients complete the schemas of their tools in place when they are used.
        assert [(tool.name, tool.required) for tool in outputs["tools"]] == [
            (tool.name, tool.required) for tool in tools
        ]

    def check_broken_off(self, task, **options):
        result = evaluate(
            Dataset([Example.of(QUESTION)]), task, [ToolErrors(), ToolCallValidity()], **options
        )
        item = result.runs[0].item_results[0]
        assert item.error
        assert item.eval_results == ()
        calls = item.actual_outputs["toolCalls"]
        assert [(call.name, dict(call.arguments), call.result) for call in calls[:2]] == [
            ("get_weather", {"city": "Paris"}, "21 degrees"),
            ("get_weather", {"city": "Rome"}, "25 degrees"),
        ]
        assert "output" not in item.actual_outputs
        if self.measured:
            assert item.metrics.tokens_in >= 20
        return item

    def test_a_run_that_breaks_off_keeps_what_was_done_until_then(self, server):
        server.turns.extend([self.first_turn()[0], *[Turn(status=400)] * 20])

        self.check_broken_off(self.bridge.as_task(self.fresh(server)))

    def test_a_run_that_is_given_up_keeps_what_was_done_until_then(self, server):
        task = self.bridge.as_task(self.fresh(server))
        server.turns.extend([*self.first_turn(), *self.first_turn()])
        run_sync(task(Example.of(QUESTION)))  # which loads what the framework loads late
        server.script.extend([None, Misbehaviour(delay=600)])  # the model never answers a second time

        item = self.check_broken_off(task, timeout=GIVEN_UP_AFTER)

        assert item.error.startswith("TimeoutError: no answer within")

    def test_a_run_that_breaks_off_is_a_trace_with_an_error(self, server):
        server.turns.extend([self.first_turn()[0], *[Turn(status=400)] * 20])

        trace = self.bridge.run_and_trace(self.fresh(server), QUESTION)

        assert trace.error
        assert trace.final_response is None
        assert len(trace.tool_calls) == 2
        assert ToolErrors().evaluate(trace.to_test_case(QUESTION)).score is None

    def test_a_run_that_reaches_its_limit_keeps_what_was_done_until_then(self, server):
        limited = self.limited(server.base_url)
        if limited is None:
            pytest.skip("it gives an answer of its own at its limit, or has none")
        agent, options = limited
        server.turns.extend([self.first_turn()[0]] * 2 + [Turn(ANSWER)])

        item = self.check_broken_off(self.bridge.as_task(agent, **options))

        assert "limit" in item.error.lower() or "max" in item.error.lower()

    def test_many_inputs_at_once_are_kept_apart(self, server):
        server.turns.extend(turn for _ in range(6) for turn in self.answered("Fine."))
        examples = Dataset([Example.of(f"Question {number}") for number in range(6)])

        result = evaluate(
            examples, self.bridge.as_task(self.fresh(server)), [ToolErrors(threshold=None)], parallelism=6
        )

        items = result.runs[0].item_results
        assert [(item.error, item.actual_outputs.get("output")) for item in items] == [(None, "Fine.")] * 6
        asked = sorted(json.dumps(each.body).count("Question ") for each in server.received)
        assert asked == [1] * len(server.received)

    def test_results_of_retrieving_tools_are_the_context(self, server):
        server.turns.extend(self.first_turn())
        task = self.bridge.as_task(self.fresh(server), context_tools=("get_weather",), needs_context=True)

        result = evaluate(Dataset([Example.of(QUESTION)]), task, [ToolErrors(threshold=None)])

        outputs = result.runs[0].item_results[0].actual_outputs
        assert outputs["contexts"] == ["21 degrees", "25 degrees"]

    def test_missing_sources_are_an_error_that_says_what_to_return(self, server):
        server.turns.extend(self.answered("Without looking."))
        task = self.bridge.as_task(self.fresh(server), needs_context=True)

        result = evaluate(Dataset([Example.of(QUESTION)]), task, [ToolErrors()])

        assert "The result carries no sources. Return" in result.runs[0].item_results[0].error

    def test_a_blank_reply_is_an_error_unless_allowed(self, server):
        errors = []
        for allow_blank in (False, True):
            server.turns.extend(self.answered(" "))
            task = self.bridge.as_task(self.fresh(server), allow_blank=allow_blank)
            result = evaluate(Dataset([Example.of(QUESTION)]), task, [ToolErrors()])
            errors.append(result.runs[0].item_results[0].error)

        assert "blank reply" in errors[0]
        assert errors[1] is None

    def test_it_is_the_application_of_a_conversation(self, server):
        server.turns.extend([*self.first_turn(), *self.second_turn()])
        simulator = ConversationSimulator(
            user=ScriptedUser([QUESTION, SECOND_QUESTION]),
            application=self.bridge.as_application(self.fresh(server)),
            max_turns=2,
        )

        conversation = simulator.simulate()

        assert "error" not in conversation.metadata
        assert [message.content for message in conversation.assistant_messages] == [ANSWER, SECOND_ANSWER]
        first, second = conversation.tool_calls_by_turn()
        self.check_first(AgentTrace(first, ANSWER))
        assert [(call.name, call.arguments, call.result) for call in second] == [
            ("get_weather", {"city": "Oslo"}, "3 degrees")
        ]
        request_body = json.dumps(server.received[self.model_calls].body)
        assert ANSWER in request_body
        assert "21 degrees" in request_body
        assert SECOND_QUESTION in request_body

    @pytest.mark.parametrize("from_factory", [False, True])
    def test_it_is_a_judge(self, server, from_factory):
        server.turns.extend(self.answered(VERDICT))
        agent = self.factory(server.base_url) if from_factory else self.agent(server.base_url)
        judge = self.bridge.as_judge(agent, model="m", price_table=lambda model, i, o: 0.5)
        case = Example.of("Capital of Italy?", "Rome").to_test_case("Rome")

        result = Correctness(judge=judge).evaluate(case)

        assert result.error is None
        assert result.score == 1.0
        if self.measured:
            assert result.metrics.cost_usd == 0.5
        assert isinstance(judge.identity, str)

    def test_a_judge_that_cannot_be_asked_is_an_error(self, server):
        server.turns.extend([Turn(status=400)] * 20)
        case = Example.of("Capital of Italy?", "Rome").to_test_case("Rome")

        result = Correctness(judge=self.bridge.as_judge(self.fresh(server))).evaluate(case)

        assert result.score is None
        assert "gave no answer" in result.error

    def test_the_guide_page_runs(self, server, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        server.turns.extend(self.guide_script)
        guide(self.name, tmp_path)

        assert not server.turns

    def test_the_example_runs(self, server, tmp_path):
        server.turns.extend(self.example_script)

        outcome = subprocess.run(
            [sys.executable, str(ROOT / "examples" / "frameworks" / f"{self.name}_agent.py")],
            cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

        assert outcome.returncode == 0, outcome.stdout + outcome.stderr
        assert not server.turns


UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)")
LOCAL_URL = re.compile(r"http://127\.0\.0\.1:\d+")


def steady(tree, ids):
    """Return a recording without what is different in every run: ids, times, the port of the server."""
    if isinstance(tree, dict):
        return {key: steady(value, ids) for key, value in tree.items()}
    if isinstance(tree, list):
        return [steady(value, ids) for value in tree]
    if not isinstance(tree, str):
        return tree
    tree = UUID.sub(lambda found: ids.setdefault(found[0], f"id-{len(ids) + 1}"), tree)
    return LOCAL_URL.sub("http://model.test", MOMENT.sub("2026-01-01T00:00:00+00:00", tree))


def guide(name, folder):
    """Run a framework's page of the guide, with the blocks that need it; return the names it leaves."""
    page = ROOT / "docs" / "guide" / "frameworks" / f"{name}.md"
    text = re.sub(r"<!-- not executed: needs [^>]+ -->\n", "", page.read_text(encoding="utf-8"))
    return _snippets().run_page(page, text, folder)


def _snippets():
    """Load the tests of the documentation, which know how to run a page."""
    path = ROOT / "tests" / "docs" / "test_snippets.py"
    spec = importlib.util.spec_from_file_location("snippets", path)
    module = sys.modules["snippets"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
