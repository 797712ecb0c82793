"""The Model Context Protocol: JSON-RPC messages in, JSON-RPC messages out, whatever carries them.

Written here and not taken from the package `mcp`, whose import alone takes 0.8 s of CPU: a client starts this
process anew for each of its sessions. What a server with tools needs of the protocol is four methods. It
speaks the versions with a handshake, which clients of the later ones fall back to.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final

from dokimos._core.text import error_text
from dokimos._mcp.answers import render_answer, render_problem
from dokimos._mcp.tool import Tool, ToolError
from dokimos._runtime.redaction import secret_redactor
from dokimos._runtime.terminal_text import print_line
from dokimos._version import __version__
from dokimos.errors import DokimosError
from dokimos.judges._fencing import neutralize

VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
REQUEST_CANCELLED: Final = -32800

Message = dict[str, Any]
Notify = Callable[[Message], None]
_progress: ContextVar[Callable[[int, int | None], None] | None] = ContextVar(
    "dokimos_mcp_progress", default=None
)


class ProtocolError(Exception):
    """A message that is not a request that can be carried out."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def report_progress(done: int, total: int | None) -> None:
    """Tell the client of the call that is going on how far it is, where it wants to know."""
    report = _progress.get()
    if report is not None:
        report(done, total)


def parse_message(content: bytes | str) -> Message:
    """Return a message. Raises `ProtocolError` where it is not a JSON-RPC one."""
    try:
        message = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(PARSE_ERROR, f"The message is not JSON: {error}") from None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise ProtocolError(INVALID_REQUEST, "A message must be one JSON object with jsonrpc 2.0.")
    return message


def encode_message(message: Message) -> bytes:
    """Return a message as one line."""
    return json.dumps(message, separators=(",", ":")).encode()


def error_reply(id_: object, error: ProtocolError) -> Message:
    """Return the answer to what could not be carried out."""
    return {"jsonrpc": "2.0", "id": id_, "error": {"code": error.code, "message": str(error)}}


def is_request(message: Message) -> bool:
    """Whether a message wants an answer."""
    return isinstance(message.get("method"), str) and "id" in message


class Endpoint:
    """Answers the requests of clients with a set of tools; keeps nothing between them."""

    def __init__(self, tools: Iterable[Tool], *, instructions: str) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._instructions = instructions

    def spends(self, message: Message) -> bool:
        """Whether a request may cost money."""
        params = message.get("params")
        if message.get("method") != "tools/call" or not isinstance(params, Mapping):
            return False
        tool = self._tools.get(str(params.get("name")))
        return tool is not None and tool.spends

    async def answer(self, message: Message, notify: Notify | None = None) -> Message:
        """Return the answer to a request; what happens meanwhile goes to `notify`."""
        id_ = message["id"]
        if isinstance(id_, bool) or not isinstance(id_, str | int):
            return error_reply(None, ProtocolError(INVALID_REQUEST, "The id must be text or a whole number."))
        params = message.get("params", {})
        try:
            if not isinstance(params, dict):
                raise ProtocolError(INVALID_PARAMS, "params must be an object.")
            result = await self._carry_out(message["method"], params, notify)
        except ProtocolError as error:
            return error_reply(id_, error)
        return {"jsonrpc": "2.0", "id": id_, "result": result}

    async def _carry_out(self, method: str, params: Message, notify: Notify | None) -> Message:
        match method:
            case "initialize":
                return self._initialize(params)
            case "ping":
                return {}
            case "tools/list":
                return {"tools": [tool.describe() for tool in self._tools.values()]}
            case "tools/call":
                with _reporting_to(notify, params.get("_meta")):
                    return await self._call(params.get("name"), params.get("arguments"))
        raise ProtocolError(METHOD_NOT_FOUND, f"There is no method {method[:80]!r}.")

    def _initialize(self, params: Message) -> Message:
        asked = params.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in VERSIONS else VERSIONS[-1],
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": {"name": "dokimos", "version": __version__},
            "instructions": self._instructions,
        }

    async def _call(self, name: object, arguments: object) -> Message:
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise ProtocolError(
                INVALID_PARAMS, f"There is no tool {name!r:.80}; the tools are {', '.join(self._tools)}."
            )
        # What goes wrong is an answer for the agent, which can correct its call, not a protocol error.
        try:
            text, is_error = render_answer(await tool.call(tool.check(arguments))), False
        except ToolError as error:
            text, is_error = f"{tool.name} failed: {neutralize(str(error))}", True
        except DokimosError as error:
            text, is_error = f"{tool.name} failed: {render_problem(_redact(str(error)))}", True
        except Exception as error:  # a data set, a suite or a plugin may bring about any
            print_line(f"{tool.name}: {_redact(error_text(error))}")
            text, is_error = f"{tool.name} failed: {render_problem(_redact(error_text(error)))}", True
        return {"content": [{"type": "text", "text": _encodable(text)}], "isError": is_error}


_MOST_ERROR: Final = 2_000


def _redact(text: str) -> str:
    return secret_redactor()(text)[:_MOST_ERROR]


def _encodable(text: str) -> str:
    """Write lone surrogates as escapes: clients refuse them, and the whole message with them."""
    return text.encode("utf-8", "backslashreplace").decode()


@contextlib.contextmanager
def _reporting_to(notify: Notify | None, meta: object) -> Iterator[None]:
    """Let `report_progress` reach the client inside the block, where it gave a token for that."""
    token = meta.get("progressToken") if isinstance(meta, Mapping) else None
    if notify is None or token is None:
        yield
        return

    def report(done: int, total: int | None) -> None:
        params = {"progressToken": token, "progress": done} | ({} if total is None else {"total": total})
        notify({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

    before = _progress.set(report)
    try:
        yield
    finally:
        _progress.reset(before)
