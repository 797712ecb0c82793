"""The optional packages that a declared agent needs, and which key of the suite needs each."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple

from dokimos.errors import MissingExtraError
from dokimos.suites._problems import format_path
from dokimos.suites._tool_schema import McpTool, PromptTool

if TYPE_CHECKING:
    from dokimos.suites._document import Document
    from dokimos.suites._problems import Steps
    from dokimos.suites._schema import SuiteFile

OF_PROVIDERS: Final = {
    "openai": ("openai", "agents-openai"),
    "azure_openai": ("openai", "agents-openai"),
    "ollama": ("openai", "agents-openai"),
    "anthropic": ("anthropic", "agents-anthropic"),
}
"""Of each provider the package of its client, and the extra that brings it together with Pydantic AI."""
OF_MCP: Final = ("fastmcp", "agents-mcp")


class Requirement(NamedTuple):
    """A package that something in a suite needs."""

    module: str
    extra: str
    steps: Steps
    """What needs it."""


def check_packages(document: Document, file: SuiteFile) -> None:
    """Look for the packages that the declared agent of a suite needs, and import none.

    Raises:
        MissingExtraError: where some are missing: with the place of each key that needs one, and what to
            install.
    """
    # find_spec() looks without importing: Pydantic AI takes seconds, and `dokimos validate` needs none of it.
    missing = [each for each in _requirements(file) if find_spec(each.module) is None]
    if not missing:
        return
    faults = {
        each.module: f"{document.location(each.steps)}: {format_path(each.steps)} needs {each.module}, "
        "which is not installed."
        for each in reversed(missing)
    }
    extras = ",".join(dict.fromkeys(each.extra for each in missing))
    raise MissingExtraError(
        " ".join([*reversed(faults.values()), f'Install with: pip install "dokimos[{extras}]"'])
    )


def _requirements(file: SuiteFile) -> Iterator[Requirement]:
    assert file.model is not None, "the schema asks for a model where no agent is named"
    client, extra = OF_PROVIDERS[file.model.provider]
    yield Requirement("pydantic_ai", extra, ("model", "provider"))
    yield Requirement(client, extra, ("model", "provider"))
    for index, tool in enumerate(file.tools):
        if isinstance(tool, PromptTool) and tool.model is not None:
            yield Requirement(*OF_PROVIDERS[tool.model.provider], ("tools", index, "model", "provider"))
        if isinstance(tool, McpTool):
            yield Requirement(*OF_MCP, ("tools", index, "type"))
