import asyncio
import gc
import threading
import weakref
from functools import partial

import pytest

from dokimos import AgentTrace, CallMetrics, ToolCall, ToolDefinition
from dokimos.traces._collector import TraceCollector


@pytest.fixture
def collector():
    return TraceCollector()


def in_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


class TestRecording:
    def test_a_trace_is_what_was_written_down(self, collector):
        collector.add_reasoning_step("Search first.")
        collector.add_tool_call("search", {"q": "x"}, result=["a"])
        collector.add_tool_call(ToolCall("book", {"id": 1}, result="ok"))
        collector.final_response = "Booked."
        calls = (ToolCall("search", {"q": "x"}, result='["a"]'), ToolCall("book", {"id": 1}, result="ok"))
        assert collector.trace() == AgentTrace(calls, "Booked.", reasoning_steps=("Search first.",))
        assert collector.tool_calls == calls
        assert collector.tool_names == ("search", "book")

    def test_results_find_their_call_by_id(self, collector):
        collector.add_tool_call("a", '{"n": 1}', call_id="1")
        collector.add_tool_call("b", call_id="2")
        collector.add_tool_result("2", "late", error="timeout")
        collector.add_tool_result("1", 5)
        collector.add_tool_result("1", "again")
        collector.add_tool_result("9", "nobody's")
        first, second = collector.tool_calls
        assert (first.arguments, first.result) == ({"n": 1}, "5")
        assert (second.result, second.metadata) == ("late", {"error": "timeout"})

    def test_reset_forgets_everything_but_the_tools(self, collector):
        collector.add_tools({"name": "search"})
        collector.add_tool_call("search", call_id="1")
        collector.final_response = "x"
        collector.add_usage(CallMetrics(1, 2))
        collector.reset()
        collector.add_tool_result("1", "late")
        assert collector.trace() == AgentTrace()
        assert collector.call_metrics() is None
        assert collector.tool_definitions() == (ToolDefinition("search"),)

    def test_tools_that_are_only_observed_are_known_by_name(self):
        known = ToolDefinition("search", "Searches.", input_schema={"type": "object"})
        collector = TraceCollector([known])
        collector.add_tool_call("search")
        collector.add_tool_call("book")
        assert collector.tool_definitions() == (known, ToolDefinition("book"))


class TestObservedTools:
    def test_calls_results_and_errors_are_written_down(self, collector):
        @collector.observe
        def divide(a: int, b: int = 2) -> float:
            """Divide."""
            return a / b

        assert divide(3) == 1.5
        with pytest.raises(ZeroDivisionError):
            divide(1, b=0)
        good, bad = collector.tool_calls
        assert good == ToolCall("divide", {"a": 3}, result="1.5")
        assert (bad.arguments, bad.metadata) == (
            {"a": 1, "b": 0},
            {"error": "ZeroDivisionError: division by zero"},
        )
        assert bad.result == "ZeroDivisionError: division by zero"
        assert collector.tool_definitions() == (ToolDefinition.from_function(divide),)

    async def test_async_tools_too(self, collector):
        @collector.observe
        async def fetch(url: str) -> dict:
            """Fetch."""
            await asyncio.sleep(0)
            return {"url": url}

        await asyncio.gather(fetch("a"), fetch("b"))
        assert [call.result for call in collector.tool_calls] == ['{"url":"a"}', '{"url":"b"}']

    def test_arguments_are_those_at_the_time_of_the_call(self, collector):
        @collector.observe
        def take(items: list):
            items.clear()

        take([1, 2])
        assert collector.tool_calls == (ToolCall("take", {"items": [1, 2]}, result=""),)

    def test_a_wrong_call_is_written_down_and_raises(self, collector):
        @collector.observe
        def one(a):
            """One."""

        with pytest.raises(TypeError):
            one(b=1)
        assert collector.tool_calls[0].arguments == {"b": 1}

    def test_a_tool_that_cannot_be_described_is_known_by_name(self, collector):
        @collector.observe
        def cut(part: slice):
            """Cut.

            More.
            """

        assert collector.tool_definitions() == (ToolDefinition("cut", "Cut."),)
        assert cut(slice(1)) is None


class TestScopes:
    async def test_runs_in_tasks_of_their_own_do_not_mix(self, collector):
        async def agent(name):
            with collector:
                for step in range(3):
                    collector.add_tool_call(name, {"step": step})
                    await asyncio.sleep(0)
                return collector.trace()

        traces = await asyncio.gather(agent("a"), agent("b"))
        assert [trace.tool_names for trace in traces] == [("a",), ("b",)]
        assert all(len(trace.tool_calls) == 3 for trace in traces)

    async def test_tasks_started_inside_belong_to_the_run(self, collector):
        async def tool(name):
            collector.add_tool_call(name)

        with collector:
            await asyncio.gather(tool("a"), tool("b"))
        assert collector.tool_names == ("a", "b")

    def test_a_recording_can_be_read_after_its_block_and_the_next_begins_anew(self, collector):
        with collector:
            collector.add_tool_call("a")
        assert collector.tool_names == ("a",)
        with collector as same:
            assert same is collector
            assert collector.tool_calls == ()

    def test_a_block_inside_another_gives_the_recording_back(self, collector):
        with collector:
            collector.add_tool_call("outer")
            with collector:
                collector.add_tool_call("inner")
            collector.add_tool_call("outer again")
            assert collector.tool_names == ("outer", "outer again")

    def test_a_callback_in_a_thread_of_the_framework_finds_the_only_open_run(self, collector):
        with collector:
            in_thread(lambda: collector.add_tool_call("from a thread"))
            assert collector.tool_names == ("from a thread",)

    def test_where_two_runs_are_open_a_foreign_thread_belongs_to_none(self, collector):
        def second():
            with collector:
                in_thread(lambda: collector.add_tool_call("whose?"))
                assert collector.tool_calls == ()

        with collector:
            in_thread(second)
            assert collector.tool_calls == ()
        without_run = []
        in_thread(lambda: without_run.append(collector.tool_names))
        assert without_run == [("whose?",)]

    def test_two_collectors_are_apart(self, collector):
        other = TraceCollector()
        with collector, other:
            other.add_tool_call("b")
            assert (collector.tool_calls, other.tool_names) == ((), ("b",))

    def test_a_collector_can_go_away(self):
        collector = TraceCollector()
        with collector:
            collector.add_tool_call("a")
        gone = weakref.ref(collector)
        del collector
        gc.collect()
        assert gone() is None


class TestMetrics:
    def test_usage_adds_up_and_the_price_table_is_asked(self, collector):
        collector.add_usage(CallMetrics(10, 5, model="m"))
        collector.add_usage(CallMetrics(1, 1, model="m"))
        found = collector.call_metrics(price_table=lambda model, read, written: read + written)
        assert found == CallMetrics(11, 6, model="m", cost_usd=17)

    def test_a_cost_that_was_reported_stands(self, collector):
        collector.add_usage(CallMetrics(10, 5, cost_usd=0.5))
        assert collector.call_metrics("gpt", lambda *_: 9.0) == CallMetrics(10, 5, cost_usd=0.5, model="gpt")

    def test_usage_of_zero_throughout_was_not_measured(self, collector):
        collector.add_usage(CallMetrics(0, 0, cost_usd=0))
        assert collector.call_metrics("gpt") is None

    def test_an_unknown_price_is_not_a_price(self, collector):
        collector.add_usage(CallMetrics(10, 5, cost_usd=0))
        assert collector.call_metrics("gpt", lambda *_: None).cost_usd is None


class TestObservedToolsInHardCases:
    def test_a_call_that_ends_after_a_reset_changes_nothing(self, collector):
        @collector.observe
        def slow():
            collector.reset()
            collector.add_tool_call("new", result="fresh")
            return "stale"

        slow()

        assert collector.tool_calls == (ToolCall("new", result="fresh"),)

    def test_keyword_arguments_stand_beside_the_others(self, collector):
        def search(query, *sites, **options): ...

        collector.observe(search)("x", "a", "b", limit=3)

        assert collector.tool_calls[0].arguments == {"query": "x", "sites": ["a", "b"], "limit": 3}

    def test_a_partial_is_called_by_the_name_of_its_function(self, collector):
        def search(query, limit):
            return f"{limit} for {query}"

        assert collector.observe(partial(search, limit=3))("x") == "3 for x"
        assert collector.tool_calls[0].name == "search"
        assert [tool.name for tool in collector.tool_definitions()] == ["search"]
