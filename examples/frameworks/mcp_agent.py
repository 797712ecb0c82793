"""The tools of an MCP server under test; needs mcp."""

from mcp.server import MCPServer

from dokimos import Dataset, Example, evaluate
from dokimos.evaluators import ExactMatch, ToolCallValidity
from dokimos.integrations import mcp

server = MCPServer("weather")


@server.tool()
def get_weather(city: str) -> str:
    """Tell the weather in a city."""
    return {"Paris": "21 degrees", "Rome": "25 degrees"}.get(city, "unknown")


tools = mcp.to_tool_definitions(server)
examples = Dataset(
    [
        Example({"input": {"city": city}}, {"output": weather}, metadata={"tools": tools})
        for city, weather in (("Rome", "25 degrees"), ("Paris", "21 degrees"), ("Oslo", "unknown"))
    ]
)

result = evaluate(examples, mcp.as_task(server, "get_weather"), [ExactMatch(), ToolCallValidity()])

for tool in tools:
    print(f"{tool.name}: {tool.description}")
print(f"pass rate {result.pass_rate:.0%}")
