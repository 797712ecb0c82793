"""Traces as agents leave them: 10 to 30 spans, calls of models with growing histories, and tools."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from typing import Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

_MODELS: Final = ("gpt-5-mini", "gpt-5", "claude-sonnet-5", "gemini-3-flash")
_TOOLS: Final = ("search_orders", "get_weather", "look_up_customer", "send_mail")


def make_vocabulary(size: int = 6000) -> list[str]:
    """Return words, of which the first are meant to be frequent."""
    pick = random.Random(3)
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    return ["".join(pick.choices(letters, k=pick.randint(2, 10))) for _ in range(size)]


_WORDS: Final = make_vocabulary()


class TraceMaker:
    """Makes traces, each time the same for one seed.

    Args:
        seed: Of the texts and ids.
        projects: The names of projects that take turns.
    """

    def __init__(self, seed: int = 1, projects: tuple[str, ...] = ("shop",)) -> None:
        self._pick = random.Random(seed)
        self._projects = projects
        self._count = 0

    def make_text(self, words: int) -> str:
        """Return a text in which few words are frequent, as in a language."""
        size = len(_WORDS)
        return " ".join(_WORDS[int(size * self._pick.random() ** 3)] for _ in range(words))

    def make_trace(self, moment_ns: int | None = None) -> ExportTraceServiceRequest:
        """Return the export of one trace."""
        request = ExportTraceServiceRequest()
        group = request.resource_spans.add()
        project = self._projects[self._count % len(self._projects)]
        _put(group.resource.attributes, {"dokimos.project": project, "service.name": "agent"})
        part = group.scope_spans.add()
        part.scope.name, part.scope.version = "opentelemetry.instrumentation.agents", "1.4.0"
        self._fill(part, time.time_ns() if moment_ns is None else moment_ns)
        self._count += 1
        return request

    def _fill(self, part: Any, moment: int) -> None:
        trace_id = self._pick.randbytes(16)
        root = self._add_span(part, trace_id, None, "invoke_agent support", moment)
        question = self.make_text(20)
        history = [
            {"role": "system", "parts": [{"type": "text", "content": self.make_text(40)}]},
            {"role": "user", "parts": [{"type": "text", "content": question}]},
        ]
        turns = self._pick.randint(4, 14)
        for turn in range(turns):
            moment += self._pick.randrange(200_000_000, 2_000_000_000)
            is_last = turn == turns - 1
            self._add_turn(part, trace_id, root.span_id, moment, history, is_last=is_last)
        answer = history[-1]["parts"][0].get("content", "")
        root.end_time_unix_nano = moment + 1_000_000_000
        _put(
            root.attributes,
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": "support",
                "gen_ai.conversation.id": f"session-{self._count // 3}",
                "user.id": f"user-{self._count % 500}",
                "input.value": question,
                "output.value": answer,
            },
        )

    def _add_turn(
        self,
        part: Any,
        trace_id: bytes,
        parent: bytes,
        moment: int,
        history: list[dict[str, Any]],
        *,
        is_last: bool,
    ) -> None:
        """Add a call of a model, and of the tool that it asks for."""
        model = self._pick.choice(_MODELS)
        span = self._add_span(part, trace_id, parent, f"chat {model}", moment)
        call_id, tool = f"call_{self._pick.getrandbits(48):x}", self._pick.choice(_TOOLS)
        arguments = {"query": self.make_text(4)}
        call = {"type": "tool_call", "id": call_id, "name": tool, "arguments": arguments}
        said = {"type": "text", "content": self.make_text(50)} if is_last else call
        reply = {"role": "assistant", "parts": [said], "finish_reason": "stop" if is_last else "tool_call"}
        text = json.dumps(history)
        _put(
            span.attributes,
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": model,
                "gen_ai.response.model": f"{model}-2026-08-01",
                "gen_ai.response.id": f"resp_{self._pick.getrandbits(64):x}",
                "gen_ai.request.temperature": 0.2,
                "gen_ai.usage.input_tokens": len(text) // 4,
                "gen_ai.usage.output_tokens": self._pick.randint(20, 200),
                "gen_ai.usage.cost": round(len(text) * 1e-6, 6),
                "gen_ai.input.messages": text,
                "gen_ai.output.messages": json.dumps([reply]),
            },
        )
        history.append(reply)
        if not is_last:
            result = self.make_text(15)
            self._add_tool(part, trace_id, parent, moment, call, result)
            response = {"type": "tool_call_response", "id": call_id, "result": result}
            history.append({"role": "tool", "parts": [response]})

    def _add_tool(
        self, part: Any, trace_id: bytes, parent: bytes, moment: int, call: dict[str, Any], result: str
    ) -> None:
        span = self._add_span(part, trace_id, parent, f"execute_tool {call['name']}", moment + 1_000_000)
        _put(
            span.attributes,
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": call["name"],
                "gen_ai.tool.call.id": call["id"],
                "gen_ai.tool.call.arguments": json.dumps(call["arguments"]),
                "gen_ai.tool.call.result": result,
            },
        )
        if self._pick.random() < 0.02:
            span.status.code, span.status.message = 2, "TimeoutError: the service did not answer"

    def _add_span(self, part: Any, trace_id: bytes, parent: bytes | None, name: str, moment: int) -> Any:
        span = part.spans.add()
        span.trace_id, span.span_id, span.name = trace_id, self._pick.randbytes(8), name
        if parent is not None:
            span.parent_span_id = parent
        span.kind, span.flags = 3, 257
        span.start_time_unix_nano = moment
        span.end_time_unix_nano = moment + self._pick.randrange(50_000_000, 900_000_000)
        return span


def make_exports(
    maker: TraceMaker, spans: int, *, per_export: int = 100
) -> Iterator[tuple[ExportTraceServiceRequest, int]]:
    """Yield exports of about so many spans each, with their numbers of spans, until there are enough."""
    request, count = ExportTraceServiceRequest(), 0
    while spans > 0:
        trace = maker.make_trace()
        request.MergeFrom(trace)
        added = len(trace.resource_spans[0].scope_spans[0].spans)
        count, spans = count + added, spans - added
        if count >= per_export or spans <= 0:
            yield request, count
            request, count = ExportTraceServiceRequest(), 0


def write_json(request: ExportTraceServiceRequest) -> bytes:
    """Return an export as JSON, as exporters write it: with ids in hexadecimal."""
    groups = []
    for group in request.resource_spans:
        parts = [
            {"scope": {"name": part.scope.name}, "spans": [_span_map(span) for span in part.spans]}
            for part in group.scope_spans
        ]
        groups.append(
            {"resource": {"attributes": _attribute_maps(group.resource.attributes)}, "scopeSpans": parts}
        )
    return json.dumps({"resourceSpans": groups}).encode()


def _span_map(span: Any) -> dict[str, Any]:
    tree = {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        "name": span.name,
        "kind": span.kind,
        "flags": span.flags,
        "startTimeUnixNano": str(span.start_time_unix_nano),
        "endTimeUnixNano": str(span.end_time_unix_nano),
        "attributes": _attribute_maps(span.attributes),
        "status": {"code": span.status.code, "message": span.status.message} if span.status.code else {},
    }
    return tree | ({"parentSpanId": span.parent_span_id.hex()} if span.parent_span_id else {})


def _attribute_maps(attributes: Any) -> list[dict[str, Any]]:
    maps = []
    for each in attributes:
        kind = each.value.WhichOneof("value")
        value = getattr(each.value, kind)
        name = {"string_value": "stringValue", "int_value": "intValue", "double_value": "doubleValue"}[kind]
        maps.append({"key": each.key, "value": {name: str(value) if kind == "int_value" else value}})
    return maps


def _put(attributes: Any, values: dict[str, Any]) -> None:
    for key, value in values.items():
        pair = attributes.add()
        pair.key = key
        if isinstance(value, str):
            pair.value.string_value = value
        elif isinstance(value, int):
            pair.value.int_value = value
        else:
            pair.value.double_value = value
