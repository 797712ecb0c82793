"""The tools of a declared agent as toolsets of Pydantic AI.

Imported only where an agent runs, since it loads Pydantic AI.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic_ai import FunctionToolset, RunContext, Tool
from pydantic_ai.exceptions import ModelRetry, ToolFailed
from pydantic_ai.messages import ModelRequest
from pydantic_ai.models import Model
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset

from dokimos._core.jsonable import text_form
from dokimos._core.text import error_text
from dokimos._http.offline import refuse_when_offline
from dokimos.errors import AgentError, DokimosError
from dokimos.suites._agent.agent_plan import (
    QUERY_SCHEMA,
    AgentPlan,
    PlannedFunction,
    PlannedPrompt,
    PlannedSearch,
    render_passages,
)
from dokimos.suites._agent.models import Endpoint
from dokimos.suites._agent.recording_model import Meter, RecordedModel
from dokimos.suites._tool_schema import McpTool

if TYPE_CHECKING:
    from dokimos.suites._retrieval.collection import Collection

CONNECT_SECONDS: Final = 60.0
"""How long a server may take to start unless it says otherwise; some are downloaded first."""
REQUEST_SECONDS: Final = 30.0
"""How long a call of a tool on a server may take unless it says otherwise."""
CONNECTION_CLOSED: Final = -32000
"""The code of an error for a connection that is there no more."""
_SIGNALS: Final = (ModelRetry, ToolFailed, DokimosError)
"""What a tool raises on purpose, and what no model can do anything about."""


class Searched:
    """Documents that are opened once for all cases."""

    def __init__(self, planned: PlannedSearch) -> None:
        self.planned = planned
        self._collection: Collection | None = None

    async def open(self) -> Collection:
        """Open the documents, or return them."""
        if self._collection is None:
            self._collection = await self.planned.open()
        return self._collection

    def close(self) -> None:
        """Let go of the documents."""
        if self._collection is not None:
            self._collection.close()
            self._collection = None


@dataclass(slots=True)
class Deps:
    """What belongs to one reply of the agent."""

    model: RecordedModel
    meter: Meter
    sample: int = 0
    retrieved: dict[str, list[str]] = field(default_factory=dict)
    """What tools that retrieve have found, by the id of the call."""

    def keep(self, call: str | None, found: Iterable[str]) -> None:
        """Note what a call has retrieved."""
        self.retrieved.setdefault(call or "", []).extend(found)

    def in_order(self, calls: Iterable[str]) -> list[str]:
        """Return what was retrieved in the order of the calls, whichever of them ended first."""
        # What is left belongs to calls without an id.
        call_ids = dict.fromkeys((*calls, *self.retrieved))
        return [text for call in call_ids for text in self.retrieved.get(call, ())]

    def wrap_model(self, model: Model, endpoint: Endpoint) -> RecordedModel:
        """Return another model whose calls are part of this reply."""
        return RecordedModel(model, endpoint, self.meter, sample=self.sample)


def build_toolsets(plan: AgentPlan, searches: Sequence[Searched], logs: Path) -> list[AbstractToolset[Deps]]:
    """Return the tools of an agent; those of MCP servers are known once the server has been asked.

    What servers write to their standard error goes to files in `logs`.
    """
    tools = [*map(_function, plan.functions), *map(_prompt, plan.prompts), *map(_search, searches)]
    toolsets: list[AbstractToolset[Deps]] = [Guarded(FunctionToolset(tools))] if tools else []
    return [*toolsets, *(_server(block, plan, logs) for block in plan.servers if block.load_tools)]


@dataclass
class Guarded(WrapperToolset[Deps]):
    """Tells the model of a tool what went wrong in it."""

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Deps], tool: ToolsetTool[Deps]
    ) -> Any:
        try:
            return await super().call_tool(name, tool_args, ctx, tool)
        except _SIGNALS:
            raise
        except Exception as error:  # tools are somebody else's code
            raise ToolFailed(error_text(error)) from error


class ServerGone(AgentError):
    """A server that cannot be reached, which is not an answer of its tools."""


@dataclass
class Served(WrapperToolset[Deps]):
    """Tells a server that is gone from a tool that failed, and keeps what was retrieved."""

    name: str = ""
    url: str | None = None
    """Of a server that is not a program of this machine."""
    is_retrieval: bool = False

    async def __aenter__(self) -> Self:
        if self.url is not None:
            refuse_when_offline(self.url, f"the server of {self.name}", ServerGone)
        try:
            return await super().__aenter__()
        except Exception as error:  # whatever a program or its transport raises
            raise ServerGone(f"the server of {self.name}: {error_text(error)}") from error

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Deps], tool: ToolsetTool[Deps]
    ) -> Any:
        try:
            result = await super().call_tool(name, tool_args, ctx, tool)
        except ModelRetry as refused:
            # Errors of the protocol are a ModelRetry whatever `tool_error_behavior` says. A closed connection
            # is not the model's to mend.
            if getattr(refused.__cause__, "code", None) != CONNECTION_CLOSED:
                raise
            raise ServerGone(f"the server of {self.name} has stopped") from refused
        except _SIGNALS:
            raise
        except Exception as error:  # of the connection: what tools raise comes as an answer
            raise ServerGone(f"the server of {self.name} does not answer: {error_text(error)}") from error
        if self.is_retrieval:
            ctx.deps.keep(ctx.tool_call_id, _chunks(result))
        return result


def _chunks(result: object) -> Iterator[str]:
    """Return the texts in what a server has found: a list is as many, anything else is one."""
    if isinstance(result, Mapping):
        lists = [result[key] for key in ("result", "documents", "results", "chunks") if key in result]
        result = lists[0] if len(lists) == 1 else [result]
    for each in result if isinstance(result, list | tuple) else [result]:
        text = each.get("text", each.get("content")) if isinstance(each, Mapping) else each
        chunk = text if isinstance(text, str) else text_form(each)
        if chunk:
            yield chunk


def _function(planned: PlannedFunction) -> Tool[Deps]:
    if planned.schema is None:
        return Tool(
            planned.function,
            name=planned.name,
            description=planned.description,
            timeout=planned.timeout,
            defer_loading=planned.is_deferred,
        )
    tool: Tool[Deps] = Tool.from_schema(
        planned.function,
        planned.name,
        planned.description,
        dict(planned.schema),
        args_validator=_validator(planned.schema),
    )
    tool.timeout = planned.timeout
    tool.defer_loading = planned.is_deferred
    return tool


def _prompt(planned: PlannedPrompt) -> Tool[Deps]:
    own = None if planned.endpoint is None else (planned.endpoint.model(), planned.endpoint)

    async def ask(ctx: RunContext[Deps], **arguments: Any) -> str:
        from pydantic_ai.direct import model_request

        model = ctx.deps.model if own is None else ctx.deps.wrap_model(*own)
        request = ModelRequest.user_text_prompt(planned.render(arguments))
        settings: Any = dict(model.endpoint.settings)
        response = await model_request(model, [request], model_settings=settings)
        return response.text or ""

    tool = _build_tool(ask, planned.name, planned.description, planned.schema)
    tool.defer_loading = planned.is_deferred
    return tool


def _search(found: Searched) -> Tool[Deps]:
    async def search(ctx: RunContext[Deps], query: str) -> str:
        passages = await (await found.open()).search(query)
        ctx.deps.keep(ctx.tool_call_id, [passage.text for passage in passages])
        return render_passages(passages)

    tool = _build_tool(search, found.planned.name, found.planned.block.description, QUERY_SCHEMA)
    tool.defer_loading = bool(found.planned.block.defer_loading)
    return tool


def _build_tool(
    function: Callable[..., Awaitable[str]], name: str, description: str | None, schema: Mapping[str, Any]
) -> Tool[Deps]:
    return Tool.from_schema(
        function, name, description, dict(schema), takes_ctx=True, args_validator=_validator(schema)
    )


def _validator(schema: Mapping[str, Any]) -> Callable[..., None]:
    """Return what sends arguments back to the model that are not as the schema says."""
    import jsonschema_rs

    check = jsonschema_rs.validator_for(dict(schema))

    def validate(ctx: RunContext[Deps], **arguments: Any) -> None:
        faults = [f"{_place(error)}{error.message}" for error in check.iter_errors(arguments)]
        if faults:
            raise ModelRetry("; ".join(faults))

    return validate


def _place(error: Any) -> str:
    path = ".".join(map(str, error.instance_path))
    return f"{path}: " if path else ""


def _server(block: McpTool, plan: AgentPlan, logs: Path) -> AbstractToolset[Deps]:
    from pydantic_ai.mcp import MCPToolset

    server: AbstractToolset[Deps] = MCPToolset(
        _transport(block, plan, logs),
        id=block.name,
        tool_error_behavior="failed",
        init_timeout=block.timeout or CONNECT_SECONDS,
        read_timeout=block.request_timeout or REQUEST_SECONDS,
    )
    served: AbstractToolset[Deps] = Served(
        server, name=block.name, url=block.url, is_retrieval=block.is_retrieval
    )
    if block.prefix is not None:
        served = served.prefixed(block.prefix)
    return served.defer_loading() if block.defer_loading else served


def _transport(block: McpTool, plan: AgentPlan, logs: Path) -> Any:
    from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport

    # addFilter() takes the same function only once, however many servers there are.
    logging.getLogger("mcp.client.stdio").addFilter(_brief)
    if block.url is not None:
        headers = {name: value.get_secret_value() for name, value in block.headers.items()}
        if block.transport == "sse" or (block.transport is None and block.url.rstrip("/").endswith("/sse")):
            return SSETransport(block.url, headers=headers, sse_read_timeout=block.sse_read_timeout)
        return StreamableHttpTransport(block.url, headers=headers)
    command, arguments = plan.build_command(block)
    return StdioTransport(
        command,
        arguments,
        env=plan.build_environment(block),
        cwd=str(plan.folder),
        # By default FastMCP leaves the program running when the connection is closed.
        keep_alive=False,
        log_file=logs / f"{block.name}.log",
    )


def _brief(record: logging.LogRecord) -> bool:
    """Let a line that a server prints and that is none of the protocol be a line of the log, no traceback."""
    record.exc_info = None
    return True
