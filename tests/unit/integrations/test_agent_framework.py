"""Microsoft Agent Framework, by what its objects look like."""

from types import SimpleNamespace

from dokimos.integrations import agent_framework


def message(*contents, **more):
    return {"contents": list(contents), **more}


def test_calls_of_tools_that_a_provider_hosts_are_calls():
    response = {
        "messages": [
            message(
                {"type": "text_reasoning", "text": "Hm."},
                {
                    "type": "mcp_server_tool_call",
                    "tool_name": "search",
                    "arguments": {"q": "x"},
                    "call_id": "1",
                },
                {"type": "code_interpreter_tool_call", "inputs": {"code": "1 + 1"}, "call_id": "2"},
                {"type": "code_interpreter_tool_result", "outputs": "2", "call_id": "2"},
                {
                    "type": "mcp_server_tool_result",
                    "output": [{"type": "text", "text": "found"}],
                    "call_id": "1",
                },
                {"type": "text", "text": "Done."},
                author_name="helper",
            )
        ]
    }
    trace = agent_framework.to_agent_trace(response)

    assert [(call.name, call.arguments, call.result) for call in trace.tool_calls] == [
        ("search", {"q": "x"}, "found"),
        ("code_interpreter", {"code": "1 + 1"}, "2"),
    ]
    assert (trace.final_response, trace.reasoning_steps, trace.metadata) == (
        "Done.", ("Hm.",), {"agent": "helper"},
    )  # fmt: skip


def test_only_what_is_said_last_is_the_final_response():
    call = {"type": "function_call", "name": "a", "arguments": "{}", "call_id": "1"}
    response = {"messages": [message({"type": "text", "text": "Let me look."}, call)]}

    assert agent_framework.to_agent_trace(response).final_response is None


def test_usage_is_read_with_its_details():
    usage = {
        "input_token_count": 20,
        "output_token_count": 8,
        "cache_read_input_token_count": 4,
        "reasoning_output_token_count": 3,
    }
    metrics = agent_framework.to_call_metrics({"usage_details": usage, "model": "m"})

    assert (metrics.cached_tokens_in, metrics.reasoning_tokens_out, metrics.model) == (4, 3, "m")
    assert agent_framework.to_call_metrics({}) is None


def test_tools_of_the_agent_and_of_its_servers_are_described():
    def tool(name):
        return SimpleNamespace(name=name, description=" D. ", parameters=lambda: {"type": "object"})

    agent = SimpleNamespace(
        run=print,
        default_options={"tools": [tool("own"), {"type": "web_search"}]},
        mcp_tools=[SimpleNamespace(functions=[tool("theirs")])],
    )
    tools = agent_framework.to_tool_definitions(agent)

    assert [(each.name, each.description) for each in tools] == [("own", "D."), ("theirs", "D.")]
