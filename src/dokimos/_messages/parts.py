"""Parse the parts of messages in the shapes of all providers: text, reasoning, tool calls and results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from dokimos._core.text import quote
from dokimos._messages.neutral import NeutralCall, NeutralMessage, NeutralResult

Part: TypeAlias = Mapping[str, Any]

_ARGUMENT_KEYS: Final = ("arguments", "args", "input", "server_tool_call")
_CALL_IDS: Final = ("call_id", "toolUseId", "tool_call_id", "id")
_RESULT_IDS: Final = ("tool_call_id", "tool_use_id", "toolUseId", "call_id", "id")
_TEXT_KEYS: Final = ("content", "text", "thinking", "reasoning", "summary", "refusal")
_WRAPPED_CALLS: Final = ("toolUse", "functionCall", "function_call")
_WRAPPED_RESPONSES: Final = ("functionResponse", "function_response")
_FAILED: Final = frozenset({"error", "failed"})

RESULT_KEYS: Final = ("response", "result", "output", "content", "tools", "server_tool_call_response")
"""Under which keys results of tools have what was returned."""
ASIDES: Final = frozenset(
    {
        "additional_tools",
        "compaction",
        "compaction_trigger",
        "item_reference",
        "mcp_approval_request",
        "mcp_approval_response",
        "mcp_list_tools",
    }
)
"""Items of OpenAI's Responses that nobody said and that call nothing."""
CODE_TOOL: Final = "code_execution"
"""What the tool is called with which Gemini runs code."""


@dataclass(slots=True)
class Draft:
    """A message while its parts are read."""

    strict: bool = False
    """Whether a call that cannot be understood is an error; else it is left out."""
    texts: list[str] = field(default_factory=list)
    calls: list[NeutralCall] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    messages: list[NeutralMessage] = field(default_factory=list)
    """What comes before: results of tools, and the calls of those that ran while the message was written."""

    def finish(self, role: str, metadata: Mapping[str, Any]) -> list[NeutralMessage]:
        """Return the message after the results in it, each of which is a message of its own."""
        text = "\n".join(self.texts)
        if text or self.calls or self.reasoning:
            spoken = "assistant" if self.calls or self.reasoning else role
            calls, reasoning = tuple(self.calls), tuple(self.reasoning)
            self.messages.append(NeutralMessage(spoken, text, calls, None, reasoning, metadata))
        return self.messages

    def add_call(self, name: object, arguments: object, data: Part) -> None:
        """Add a call, with what its map says besides. Raises `ValueError` where drafts are strict."""
        if not isinstance(name, str) or not name.strip():
            if self.strict:
                raise ValueError(f"A tool call needs a name that is not blank, not {name!r}.")
            return
        if self.strict and not (arguments is None or isinstance(arguments, str | Mapping)):
            kind = type(arguments).__name__
            raise ValueError(
                f"The arguments of tool call {name!r} must be a mapping or JSON text, not {kind}."
            )
        metadata = data.get("metadata")
        details = metadata if isinstance(metadata, Mapping) else {}
        if data.get("error") or data.get("status") in _FAILED:
            details = {**details, "error": data.get("error") or True}
        call_id = first_value(data, _CALL_IDS)
        result = first_value(data, ("output", "result"))
        self.calls.append(NeutralCall(name, arguments, str(call_id or ""), result, details))

    def add_result(self, data: Part, value: object) -> None:
        """Add a result, with the id and the name under which its map has it."""
        failed = data.get("is_error") is True or data.get("status") in _FAILED
        call_id, name = str(first_value(data, _RESULT_IDS) or ""), data.get("name")
        result = NeutralResult(value, call_id, name if isinstance(name, str) else "", failed)
        # Of a tool that the provider ran: its result stands in the same message, between call and answer.
        if self.calls:
            self.finish("assistant", {})
            self.texts, self.calls, self.reasoning = [], [], []
        self.messages.append(NeutralMessage("tool", result=result))


PartParser: TypeAlias = Callable[[Part, Draft], None]


def find_part_parser(part: Part) -> PartParser | None:
    """Return the parser of a part, found by its type or by a key of its own; None where it is not a part."""
    kind = part.get("type")
    if isinstance(kind, str):
        parser = _PARSER_BY_TYPE.get(kind)
        if parser is _parse_function and not isinstance(part.get("function"), dict):
            return None  # a description of a tool, which has the same type in the Responses API
        return parser or _find_hosted_parser(kind)
    inner = part.get("message_content")
    if isinstance(inner, dict):
        return find_part_parser(inner)
    if not _NO_PARTS.isdisjoint(part):
        return None
    for key, parser in _PARSER_BY_KEY.items():
        if part.get(key):
            return parser
    return None


def is_part(value: object) -> bool:
    """Say whether a value is a part that stands alone, outside a message."""
    return isinstance(value, dict) and "role" not in value and find_part_parser(value) is not None


def is_text_part(part: Part) -> bool:
    """Say whether a part is text, of which only its message knows who said it."""
    return find_part_parser(part) is _parse_text


def is_assistant_part(part: Part) -> bool:
    """Say whether a part is what only a model says."""
    return find_part_parser(part) not in (None, _parse_text, *_RESULT_PARSERS)


def has_results(content: object) -> bool:
    """Say whether there is a result of a tool among parts."""
    return any(
        isinstance(part, dict) and find_part_parser(part) in _RESULT_PARSERS for part in as_sequence(content)
    )


def parse_part(part: Any, draft: Draft) -> None:
    """Parse a part into a draft; unknown parts, such as images, are skipped."""
    if isinstance(part, str):
        draft.texts.append(part)
    elif isinstance(part, dict):
        part = part.get("message_content", part)
        parser = find_part_parser(part) if isinstance(part, dict) else None
        if parser is not None:
            parser(part, draft)


def parse_call(call: Any, draft: Draft) -> None:
    """Parse a tool call as messages list them beside their content."""
    if not isinstance(call, dict):
        if draft.strict:
            raise ValueError(f"A tool call must be a map, not {quote(call)}.")
        return
    call = call.get("tool_call", call)
    if isinstance(call.get("function"), dict):
        _parse_function(call, draft)
    elif isinstance(custom := call.get("custom"), dict):
        _parse_custom_call({**call, **custom}, draft)
    else:
        _parse_call(call, draft)


def first_value(data: Part, keys: Iterable[str]) -> Any:
    """Return the first value that is there, also a blank one."""
    for key in keys:
        value = data.get(key)
        if value is not None:
            return value
    return None


def as_sequence(value: object) -> Sequence[Any]:
    """Return a list as it is, a map alone as a list of it, and () for anything else."""
    if isinstance(value, dict):
        return (value,)
    return value if isinstance(value, list | tuple) else ()


def extract_text(value: object) -> str:
    """Return the text in a text, a part or a list of parts."""
    if isinstance(value, str):
        return value
    parts = (part if isinstance(part, str) else _text_of(part) for part in as_sequence(value))
    return "\n".join(text for text in parts if text)


def _text_of(part: object) -> str:
    value = first_value(part, _TEXT_KEYS) if isinstance(part, dict) else None
    return value if isinstance(value, str) else ""


def _parse_text(part: Part, draft: Draft) -> None:
    text = first_value(part, ("content", "text", "refusal"))
    if isinstance(text, str) and text:
        (draft.reasoning if part.get("thought") is True else draft.texts).append(text)


def _parse_reasoning(part: Part, draft: Draft) -> None:
    inner = part.get("reasoningContent")
    if isinstance(inner, dict):
        part = inner.get("reasoningText", inner)
    text = extract_text(first_value(part, _TEXT_KEYS))
    if text:
        draft.reasoning.append(text)


def _parse_function(call: Part, draft: Draft) -> None:
    function = call["function"]
    draft.add_call(function.get("name"), first_value(function, _ARGUMENT_KEYS), call)


def _parse_call(call: Part, draft: Draft) -> None:
    """Read a call as OpenAI, Anthropic, Bedrock (`toolUse`) and Gemini (`functionCall`) have it."""
    call = next((call[key] for key in _WRAPPED_CALLS if isinstance(call.get(key), dict)), call)
    arguments = first_value(call, _ARGUMENT_KEYS)
    served = call.get("server_tool_call")
    if isinstance(served, dict) and arguments is served:
        arguments = {key: value for key, value in served.items() if key != "type"}
    draft.add_call(call.get("name"), arguments, call)


def _parse_sdk_call(part: Part, draft: Draft) -> None:
    """Read a call as Vercel's AI SDK has it: with `args`, and since version 5 `input`."""
    draft.add_call(part.get("toolName"), first_value(part, ("input", "args")), {"id": part.get("toolCallId")})


def _parse_custom_call(call: Part, draft: Draft) -> None:
    """Read a call of a tool that takes free text, which is not JSON."""
    draft.add_call(call.get("name"), {"input": call.get("input")}, call)


def _parse_hosted_call(call: Part, draft: Draft) -> None:
    """Read a call of a tool that the provider ran itself, such as `web_search_call`."""
    action = first_value(call, ("action", "operation"))
    arguments = action if isinstance(action, dict) else _select_keys(call, ("actions", "queries", "code"))
    name = call.get("name") or str(call["type"]).removesuffix("_call")
    # What it found or printed is in the same item, under one of these names.
    output = first_value(call, ("output", "results", "outputs"))
    draft.add_call(name, first_value(call, ("arguments",)) or arguments, {**call, "output": output})


def _select_keys(data: Part, keys: Iterable[str]) -> dict[str, Any]:
    return {key: data[key] for key in keys if data.get(key) is not None}


def _parse_code(part: Part, draft: Draft) -> None:
    code = first_value(part, ("executableCode", "executable_code"))
    draft.add_call(CODE_TOOL, _select_keys(code, ("language", "code")), code)


def _parse_code_result(part: Part, draft: Draft) -> None:
    inner = first_value(part, ("codeExecutionResult", "code_execution_result"))
    worked = str(inner.get("outcome", "OUTCOME_OK")).endswith("OUTCOME_OK")
    status = "success" if worked else "error"
    draft.add_result({"name": CODE_TOOL, "status": status, "id": inner.get("id")}, inner.get("output"))


def _parse_result(part: Part, draft: Draft) -> None:
    part = part["toolResult"] if isinstance(part.get("toolResult"), dict) else part
    draft.add_result(part, first_value(part, RESULT_KEYS))


def _parse_sdk_result(part: Part, draft: Draft) -> None:
    """Read a result as Vercel's AI SDK has it: a value, since version 5 with its type around it."""
    value, kind = first_value(part, ("output", "result")), ""
    if "output" in part and isinstance(value, dict) and isinstance(value.get("type"), str):
        kind, value = value["type"], first_value(value, ("value", "reason"))
    failed = part.get("isError") is True or kind.startswith(("error", "execution-denied"))
    status = "error" if failed else "success"
    draft.add_result({"id": part.get("toolCallId"), "name": part.get("toolName"), "status": status}, value)


def _parse_function_response(part: Part, draft: Draft) -> None:
    """Read what Gemini was told: all of it, or what is under the one key "output", "result" or "error"."""
    inner = first_value(part, _WRAPPED_RESPONSES)
    inner = inner if isinstance(inner, dict) else {}
    value = inner.get("response")
    if isinstance(value, dict):
        if value.get("error") or value.keys() == {"error"}:
            inner = {**inner, "status": "error"}
        if len(value) == 1 and value.keys() <= {"output", "result", "error"}:
            (value,) = value.values()
    draft.add_result(inner, value)


def _find_hosted_parser(kind: str) -> PartParser | None:
    """Return what reads the tools that providers run, each of which has types of its own."""
    if kind.endswith(("_call_output", "tool_result")):
        return _parse_result
    return _parse_hosted_call if kind.endswith("_call") else None


_RESULT_PARSERS: Final = (_parse_result, _parse_sdk_result, _parse_function_response)
_NO_PARTS: Final = frozenset({"content", "tool_calls", "message", "messages"})

_PARSER_BY_TYPE: Final[dict[str, PartParser]] = {
    "text": _parse_text,
    "input_text": _parse_text,
    "output_text": _parse_text,
    "refusal": _parse_text,
    "reasoning": _parse_reasoning,
    "thinking": _parse_reasoning,
    "tool_call": _parse_call,
    "tool_use": _parse_call,
    "mcp_tool_use": _parse_call,
    "server_tool_use": _parse_call,
    "server_tool_call": _parse_call,
    "function_call": _parse_call,
    "function": _parse_function,
    "custom_tool_call": _parse_custom_call,
    "program": _parse_hosted_call,
    "program_output": _parse_result,
    "tool_call_response": _parse_result,
    "server_tool_call_response": _parse_result,
    "tool_result": _parse_result,
    "tool_search_output": _parse_result,
    "tool-call": _parse_sdk_call,
    "tool-result": _parse_sdk_result,
}
# Text comes last: what has a call or a result beside its text is that.
_PARSER_BY_KEY: Final[dict[str, PartParser]] = {
    "toolUse": _parse_call,
    "functionCall": _parse_call,
    "function_call": _parse_call,
    "executableCode": _parse_code,
    "executable_code": _parse_code,
    "codeExecutionResult": _parse_code_result,
    "code_execution_result": _parse_code_result,
    "toolResult": _parse_result,
    "functionResponse": _parse_function_response,
    "function_response": _parse_function_response,
    "reasoningContent": _parse_reasoning,
    "text": _parse_text,
}
