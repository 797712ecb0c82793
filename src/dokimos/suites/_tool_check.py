"""What is wrong with the tools that a turn expects, as far as the suite says which tools there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from dokimos.errors import ConfigurationError
from dokimos.suites._invalid_values import is_placeholder
from dokimos.suites._problems import Steps, suggest
from dokimos.suites._retrieval.schema import RetrievalTool
from dokimos.suites._tool_schema import McpTool, name_search_tool

if TYPE_CHECKING:
    from dokimos.suites._schema import ExpectedTool, SuiteFile, Turn

TOOL_SEARCH: Final = "search_tools"
"""What the framework calls the tool with which a model looks for others."""
_MAX_LISTED_TOOLS: Final = 20


def list_tool_names(file: SuiteFile) -> tuple[str, ...] | None:
    """Return what a declared agent's tools are called, None where only a run tells."""
    tools = file.tools
    # Nobody can say of a name that it is unknown while a server or a faulty tool may still have it.
    is_open = any(isinstance(tool, McpTool) or is_placeholder(tool.name) for tool in tools)
    if file.agent is not None or not tools or is_open:
        return None
    # As the model calls them: a search in `docs` is the tool `docs_search`.
    names = [name_search_tool(tool.name) if isinstance(tool, RetrievalTool) else tool.name for tool in tools]
    return (*names, TOOL_SEARCH) if any(tool.defer_loading for tool in tools) else tuple(names)


def find_tool_faults(turn: Turn, known: Sequence[str] | None) -> Iterator[tuple[Steps, str]]:
    """Yield what is wrong with the tools that a turn expects, each with its place in the turn.

    Args:
        turn: The turn.
        known: The names of all tools, None where they are unknown.
    """
    from dokimos.suites._argument_matchers import build_argument_check  # most suites expect no tools

    for index, tool in enumerate(turn.expected_tools.tools if turn.expected_tools else []):
        steps: Steps = ("expected_tools", "tools", index)
        for name, expected in (tool.args or {}).items():
            try:
                build_argument_check(expected)
            except ConfigurationError as error:
                yield (*steps, "args", name), str(error)
        if known is not None and not is_placeholder(tool.name) and not _is_among(tool, known):
            more = f" and {len(known) - _MAX_LISTED_TOOLS} more" if len(known) > _MAX_LISTED_TOOLS else ""
            listed = ", ".join(known[:_MAX_LISTED_TOOLS]) + more
            message = (
                f"no tool of this suite is called {tool.name!r}.{suggest(tool.name, known)} Tools: {listed}."
            )
            yield steps, message


def warnings_of(turn: Turn, known: Sequence[str] | None) -> Iterator[tuple[Steps, str]]:
    """Yield names of forbidden tools that look misspelt: nothing could ever be called so."""
    for index, name in enumerate(turn.forbidden_tools if known is not None else []):
        hint = suggest(name, known or ())
        if hint and not any(name in tool for tool in known or ()):
            yield ("forbidden_tools", index), f"no tool of this suite is called {name!r}.{hint}"


def _is_among(expected: ExpectedTool, known: Sequence[str]) -> bool:
    if expected.match == "exact":
        return expected.name in known
    return any(expected.name in name for name in known)
