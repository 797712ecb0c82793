"""From a suite file to the plan of its agent: all that it names is looked up, every fault reported."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from dokimos._runtime.static_imports import may_import
from dokimos.errors import ConfigurationError, MissingExtraError
from dokimos.suites._agent.agent_plan import (
    MOST_TURNS,
    AgentPlan,
    PlannedFunction,
    PlannedPrompt,
    PlannedSearch,
    check_server,
    response_schema,
)
from dokimos.suites._agent.application import DeclaredAgent
from dokimos.suites._agent.inputs import DOWNLOAD_SECONDS, FILE_SECONDS, Files
from dokimos.suites._agent.models import Endpoint, find_key_variable
from dokimos.suites._agent.requirements import check_packages
from dokimos.suites._instructions import Prompt, read_instructions
from dokimos.suites._problems import Problem, Steps, at_setting
from dokimos.suites._tool_check import TOOL_SEARCH
from dokimos.suites._tool_schema import FunctionTool, McpTool, PromptTool

if TYPE_CHECKING:
    from dokimos.suites._document import Document
    from dokimos.suites._metric_schema import ModelBlock
    from dokimos.suites._retrieval.documents import AnyRetrievalTool
    from dokimos.suites._schema import SuiteFile

T = TypeVar("T")
Planned: TypeAlias = PlannedFunction | PlannedPrompt | PlannedSearch | McpTool

CACHE_DIR: Final = ".dokimos/cache"


class AgentBuilder:
    """Looks up what a declared agent is made of, and collects what cannot be found."""

    def __init__(self, document: Document, file: SuiteFile, warn: Callable[[str], None]) -> None:
        self.problems: list[Problem] = []
        self._document = document
        self._file = file
        self._warn = warn

    def build(self, timeout: float) -> DeclaredAgent | None:
        """Return the agent, None where there are problems."""
        # First, without importing anything: a missing package would otherwise appear as a fault of a tool.
        self._check_packages()
        plan = self._plan(timeout)
        if self.problems or plan is None:
            return None
        execution = self._file.execution
        files = Files(
            reads_pdf=plan.endpoint.reads_pdf,
            file_timeout=execution.file_timeout or FILE_SECONDS,
            download_timeout=execution.download_timeout or DOWNLOAD_SECONDS,
            cache_dir=None if execution.cache_enabled is False else self._cache_dir,
        )
        return DeclaredAgent(plan=plan, files=files)

    def _check_packages(self) -> None:
        """Refuse an agent whose packages are missing; warn where a suite is only looked at, not run."""
        try:
            check_packages(self._document, self._file)
        except MissingExtraError as error:
            if may_import():
                raise
            self._warn(str(error))

    def keys(self) -> Iterator[tuple[str, str]]:
        """Return the environment variables that must hold keys, each with what needs it."""
        models = [self._file.model, *(t.model for t in self._file.tools if isinstance(t, PromptTool))]
        for block in models:
            needed = None if block is None else find_key_variable(block)
            if needed is not None:
                yield needed

    @property
    def _cache_dir(self) -> Path:
        return Path(self._file.execution.cache_dir or CACHE_DIR)

    @property
    def _model(self) -> ModelBlock:
        assert self._file.model is not None, "the schema asks for a model where no agent is named"
        return self._file.model

    def _plan(self, timeout: float) -> AgentPlan | None:
        prompt = self._look_up(("instructions", "file"), self._instructions)
        endpoint = self._look_up(("model",), lambda: Endpoint.of(self._model))
        shape = self._look_up(("response_format",), self._response_schema)
        tools = [
            self._look_up(("tools", index), self._tool_at(index)) for index in range(len(self._file.tools))
        ]
        if prompt is None or endpoint is None or self.problems:
            return None
        self._warn_of_login()
        plan = AgentPlan(
            endpoint=endpoint,
            prompt=prompt,
            folder=self._document.file.resolve().parent,
            functions=tuple(each for each in tools if isinstance(each, PlannedFunction)),
            prompts=tuple(each for each in tools if isinstance(each, PlannedPrompt)),
            searches=tuple(each for each in tools if isinstance(each, PlannedSearch)),
            servers=tuple(each for each in tools if isinstance(each, McpTool)),
            response_schema=shape,
            timeout=timeout,
            max_turns=self._most_turns(),
            # Part of the agent's identity: a run is not resumed with other tools.
            blocks=self._dump_tools(),
        )
        self._check_search(plan)
        return plan

    def _check_search(self, plan: AgentPlan) -> None:
        """Keep the name free under which a model looks for tools."""
        if plan.searches_tools:
            for index, tool in enumerate(self._file.tools):
                # The framework adds a tool of this name, and two tools of one name are an error of the run.
                if tool.name == TOOL_SEARCH:
                    message = f"{TOOL_SEARCH} finds the tools with defer_loading; choose another name."
                    self.problems.append(self._document.problem(("tools", index, "name"), message))

    def _look_up(self, steps: Steps, lookup: Callable[[], T]) -> T | None:
        try:
            return lookup()
        except ConfigurationError as error:
            self.problems.append(self._document.problem_in(steps, error))
            return None

    def _instructions(self) -> Prompt:
        assert self._file.instructions is not None, "the schema asks for instructions where no agent is named"
        return read_instructions(self._file.instructions, self._folder(("instructions", "file")))

    def _response_schema(self) -> Mapping[str, Any] | None:
        return response_schema(self._file.response_format, self._folder(("response_format",)))

    def _tool_at(self, index: int) -> Callable[[], Planned]:
        def lookup() -> Planned:
            folder = self._folder(("tools", index))
            match self._file.tools[index]:
                case FunctionTool() as block:
                    return PlannedFunction.of(block, folder)
                case PromptTool() as block:
                    return PlannedPrompt.of(block, folder)
                case McpTool() as block:
                    return self._server(block, index)
                case block:
                    return self._search(block, index, folder)

        return lookup

    def _search(self, block: AnyRetrievalTool, index: int, folder: Path) -> PlannedSearch:
        from dokimos.suites._retrieval.collection import warnings_of
        from dokimos.suites._retrieval.documents import source_files
        from dokimos.suites._retrieval.embedders import embedder_for

        provider = self._file.embedding_provider
        with at_setting("embedding_model"):
            embedder = embedder_for(block, folder, provider=provider, model=self._file.model)
        with at_setting("source"):
            source_files(block.source, folder)
        for warning in warnings_of(block, embedder):
            self._warn(f"{self._document.location(('tools', index))}: {warning}")
        return PlannedSearch(
            block=block, folder=folder, embedder=embedder, cache_dir=self._cache_dir / "collections"
        )

    def _server(self, block: McpTool, index: int) -> McpTool:
        ignored = [key for key in block.WITHOUT_EFFECT if key in block.model_fields_set]
        if ignored:
            location = self._document.location(("tools", index))
            self._warn(f"{location}: {', '.join(ignored)} of the tool {block.name} has no effect.")
        check_server(block, self._document.file.resolve().parent)
        return block

    def _warn_of_login(self) -> None:
        value = self._model.auth_provider
        if value not in (None, "api_key"):
            location = self._document.location(("model", "auth_provider"))
            self._warn(f"{location}: auth_provider {value} has no effect; the key of the API is used.")

    def _most_turns(self) -> int:
        if self._file.execution.max_turns is not None:
            return self._file.execution.max_turns
        # HoloDeck has the limit in the blocks of its backends, which mean nothing else here.
        for block in (self._file.openai, self._file.claude):
            value = block.get("max_turns") if isinstance(block, Mapping) else None
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
        return MOST_TURNS

    def _dump_tools(self) -> str:
        """Return the tools as the file has them; secrets are masked by their type."""
        return json.dumps([tool.model_dump(mode="json") for tool in self._file.tools], sort_keys=True)

    def _folder(self, steps: Steps) -> Path:
        """Return the folder of the file that says something: what it names is relative to it."""
        return self._document.location(steps).file.resolve().parent
