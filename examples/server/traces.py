"""The recorded answers of the demo as traces of an application that has been running for two days.

They are sent as any exporter of OpenTelemetry does: OTLP over HTTP, as JSON.
"""

from __future__ import annotations

import hashlib
import json
import time
import urllib.request
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parents[1] / "quickstart" / "data" / "support_answers.jsonl"
HOURS = 48
TURNS_IN_SESSION = 3
SECOND = 1_000_000_000


def send_traces(address: str, project: str) -> list[str]:
    """Send a trace for each recorded answer, and return the ids of those without the expected words."""
    cases = [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]
    hour = int(time.time()) // 3600 * 3600
    step = HOURS * 3600 // len(cases)
    spans: list[dict[str, Any]] = []
    wrong = []
    for number, case in enumerate(cases):
        began_at = (hour - (len(cases) - number) * step) * SECOND
        trace_id = digest(f"{case['id']} {hour}", 32)
        spans += trace_of(case, trace_id, began_at, f"visitor-{number // TURNS_IN_SESSION + 1}")
        if case["expectedOutputs"]["output"].casefold() not in case["actualOutputs"]["output"].casefold():
            wrong.append(trace_id)
    resource = {"attributes": attributes({"dokimos.project": project, "service.name": "library desk"})}
    body = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}
    post(f"{address}/v1/traces", body)
    return wrong


def queue_for_review(address: str, trace_ids: list[str]) -> None:
    """Put traces into the review queue, as items that wait for a person's verdict."""
    post(f"{address}/api/v1/review-queue/traces", {"items": [{"traceId": each} for each in trace_ids]})


def trace_of(case: dict[str, Any], trace_id: str, began_at: int, session: str) -> list[dict[str, Any]]:
    """The spans of one answer: the agent, what it looked up, and what the model said."""
    question, outputs, metrics = case["inputs"]["input"], case["actualOutputs"], case["metrics"]
    took = metrics["latencyMs"] * SECOND // 1000
    found_at = began_at + took // 10
    documents = [
        {"id": name, "content": text}
        for name, text in zip(outputs["retrieved"], outputs["context"], strict=True)
    ]
    agent = digest(f"{trace_id} agent", 16)

    def span(name: str, start: int, end: int, facts: dict[str, Any], parent: str = agent) -> dict[str, Any]:
        return {
            "traceId": trace_id,
            "spanId": digest(f"{trace_id} {name}", 16),
            "parentSpanId": parent,
            "name": name,
            "startTimeUnixNano": str(start),
            "endTimeUnixNano": str(end),
            "attributes": attributes(facts),
        }

    root = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "library desk",
        "gen_ai.conversation.id": session,
        "input": question,
        "output": outputs["output"],
    }
    retrieval = {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.retrieval.query.text": question,
        "gen_ai.retrieval.documents": json.dumps(documents),
    }
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": metrics["model"],
        "gen_ai.usage.input_tokens": metrics["tokensIn"],
        "gen_ai.usage.output_tokens": metrics["tokensOut"],
        "gen_ai.input.messages": messages("user", question),
        "gen_ai.output.messages": messages("assistant", outputs["output"]),
    }
    return [
        {**span("invoke_agent library desk", began_at, began_at + took, root, parent=""), "spanId": agent},
        span("retrieval knowledge base", began_at, found_at, retrieval),
        span(f"chat {metrics['model']}", found_at, began_at + took, chat),
    ]


def messages(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def attributes(facts: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for key, value in facts.items()
    ]


def digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def post(address: str, body: dict[str, Any]) -> None:
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()
