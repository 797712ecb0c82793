"""One run of an agent, told in every dialect of traces: what differs is only how it is written down.

Two turns in one trace. The first calls two tools at once, whose results come back in another order and of
which one fails, then a tool that retrieves. The second calls a tool whose result never comes. The agent's
span says again how many tokens its models used.
"""

import base64
import json
from dataclasses import dataclass, field

TRACE = "0af7651916cd43dd8448eb211c80319c"
SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND
CONVERSATION = "journey-7"
DOCUMENTS = [("guide-0", "Pack light.", 0.9), ("guide-1", "Bring an umbrella.", 0.4)]

TOOL = {
    "name": "get_weather",
    "description": "Weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def call(key, name, **arguments):
    return {"id": key, "name": name, "arguments": arguments}


def said(role, text="", *calls):
    return {"role": role, "text": text, "calls": calls}


def told(key, result):
    return {"role": "tool", "id": key, "result": result}


PARIS = call("call_paris", "get_weather", city="Paris")
ROME = call("call_rome", "get_weather", city="Rome")
GUIDE = call("call_guide", "search_guides", query="rain in Paris")
TAXI = call("call_taxi", "book_taxi", time="08:00")
ANA = call("call_ana", "send_message", to="Ana")
RESULTS = {
    "call_paris": {"celsius": 11},
    "call_rome": {"error": "no station"},
    "call_guide": [text for _, text, _ in DOCUMENTS],
    "call_taxi": "booked for 08:00",
}
SYSTEM = said("system", "You plan journeys.")
STEPS = [
    ("user", said("user", "What shall I pack for Paris and Rome?")),
    ("model", said("assistant", "", PARIS, ROME)),
    ("tool", ROME),
    ("tool", PARIS),
    ("model", said("assistant", "Let me look at the guides.", GUIDE)),
    ("tool", GUIDE),
    ("model", said("assistant", "Take an umbrella to Paris.")),
    ("user", said("user", "Book a taxi for eight and tell Ana.")),
    ("model", said("assistant", "", TAXI, ANA)),
    ("tool", TAXI),
    ("model", said("assistant", "The taxi comes at eight.")),
]
ANSWER = "The taxi comes at eight."


@dataclass
class Told:
    """A span as a dialect writes it."""

    name: str
    id: int
    parent: int | None
    start: int
    end: int
    attributes: dict = field(default_factory=dict)
    events: list = field(default_factory=list)
    logs: list = field(default_factory=list)
    error: str | None = None


def spans(dialect):
    """Tell the story: children before their parents, as spans are exported when they end."""
    root = Told("invoke_agent journeys", 1, None, 0, 100)
    dialect.agent(root)
    found, history, clock = [], [SYSTEM], 0
    for kind, what in STEPS:
        clock += 5
        number = len(found) + 2
        if kind == "user":
            history.append(what)
        elif kind == "model":
            span = Told("chat", number, 1, clock, clock + 4)
            dialect.model(span, list(history), what, 10 * number, number)
            found.append(span)
            history.append(what)
        else:
            failed = "no station" if what is ROME else None
            span = Told(what["name"], number, 1, clock, clock + 4, error=failed)
            dialect.tool(span, what, RESULTS[what["id"]])
            if what is GUIDE:
                below = Told("guides", number + 50, number, clock + 1, clock + 2)
                dialect.retriever(below, what["arguments"]["query"])
                found.append(below)
            found.append(span)
            history.append(told(what["id"], RESULTS[what["id"]]))
    return [*found, root]


def as_text(value):
    return value if isinstance(value, str) else json.dumps(value)


def otel_message(message):
    if message["role"] == "tool":
        part = {"type": "tool_call_response", "id": message["id"], "response": message["result"]}
        return {"role": "tool", "parts": [part]}
    parts = [{"type": "text", "content": message["text"]}] if message["text"] else []
    return {
        "role": message["role"],
        "parts": [*parts, *({"type": "tool_call", **c} for c in message["calls"])],
    }


def openai_message(message):
    if message["role"] == "tool":
        return {"role": "tool", "tool_call_id": message["id"], "content": as_text(message["result"])}
    made = [
        {
            "id": c["id"],
            "type": "function",
            "function": {"name": c["name"], "arguments": json.dumps(c["arguments"])},
        }
        for c in message["calls"]
    ]
    return {"role": message["role"], "content": message["text"] or None} | (
        {"tool_calls": made} if made else {}
    )


class GenAI:
    """OpenTelemetry's conventions, with messages as JSON text in attributes."""

    def write(self, value):
        return json.dumps(value)

    def agent(self, span):
        span.attributes |= {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "journeys",
            "gen_ai.conversation.id": CONVERSATION,
            "gen_ai.usage.input_tokens": 999,
            "gen_ai.usage.output_tokens": 99,
        }
        self.answer(span)

    def answer(self, span):
        span.attributes["gen_ai.output.messages"] = self.write([otel_message(said("assistant", ANSWER))])

    def model(self, span, given, gave, tokens_in, tokens_out):
        span.attributes |= {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "scripted",
            "gen_ai.response.model": "scripted-1",
            "gen_ai.usage.input_tokens": tokens_in,
            "gen_ai.usage.output_tokens": tokens_out,
            "gen_ai.tool.definitions": self.write([{"type": "function", **TOOL}]),
        }
        self.messages(span, given, gave)

    def messages(self, span, given, gave):
        system, *rest = given
        instructions = [{"type": "text", "content": system["text"]}]
        span.attributes["gen_ai.system_instructions"] = self.write(instructions)
        span.attributes["gen_ai.input.messages"] = self.write([otel_message(each) for each in rest])
        chosen = {**otel_message(gave), "finish_reason": "stop"}
        span.attributes["gen_ai.output.messages"] = self.write([chosen])

    def tool(self, span, made, result):
        span.attributes |= {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": made["name"],
            "gen_ai.tool.call.id": made["id"],
            "gen_ai.tool.call.arguments": self.write(made["arguments"]),
            "gen_ai.tool.call.result": self.write(result) if isinstance(result, dict | list) else result,
        }
        if span.error:
            span.attributes["error.type"] = "LookupError"

    def retriever(self, span, query):
        documents = [{"id": key, "content": text, "score": score} for key, text, score in DOCUMENTS]
        span.attributes |= {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.retrieval.query.text": query,
            "gen_ai.retrieval.documents": self.write(documents),
        }


class GenAIStructured(GenAI):
    """The same with structures in attributes, where the SDK allows them."""

    def write(self, value):
        return value


class GenAIDetailsEvent(GenAIStructured):
    """Messages in one event of the span."""

    def messages(self, span, given, gave):
        super().messages(span, given, gave)
        told = {key: span.attributes.pop(key) for key in list(span.attributes) if key.endswith("messages")}
        told["gen_ai.system_instructions"] = span.attributes.pop("gen_ai.system_instructions")
        self.put(span, "gen_ai.client.inference.operation.details", told)

    def put(self, span, name, told):
        span.events.append((name, told))


class GenAIDetailsLog(GenAIDetailsEvent):
    """Messages in a log record that names the span."""

    def put(self, span, name, told):
        span.logs.append((name, told, None))


class GenAIMessageLogs(GenAI):
    """The conventions before: one log record for each message, with a body."""

    def messages(self, span, given, gave):
        for message in given:
            body = openai_message(message)
            if body["role"] == "tool":
                body["id"] = body.pop("tool_call_id")
            span.logs.append((f"gen_ai.{body.pop('role')}.message", {"gen_ai.system": "openai"}, body))
        choice = {"index": 0, "finish_reason": "stop", "message": openai_message(gave)}
        span.logs.append(("gen_ai.choice", {"gen_ai.system": "openai"}, choice))


class GenAIMessageEvents(GenAI):
    """The conventions before those: one event of the span for each message, as JSON in an attribute."""

    def messages(self, span, given, gave):
        for message in given:
            body = openai_message(message)
            name = f"gen_ai.{body['role']}.message"
            span.events.append((name, {"gen_ai.event.content": json.dumps(body)}))
        choice = {"index": 0, "finish_reason": "stop", "message": openai_message(gave)}
        span.events.append(("gen_ai.choice", {"gen_ai.event.content": json.dumps(choice)}))


class PromptAndCompletion(GenAI):
    """`gen_ai.prompt` and `gen_ai.completion`, each one JSON text."""

    def messages(self, span, given, gave):
        span.attributes["gen_ai.prompt"] = json.dumps([openai_message(each) for each in given])
        span.attributes["gen_ai.completion"] = json.dumps([openai_message(gave)])


class PromptEvents(GenAI):
    """The same two in events of the span."""

    def messages(self, span, given, gave):
        prompt, completion = [openai_message(each) for each in given], [openai_message(gave)]
        span.events.append(("gen_ai.content.prompt", {"gen_ai.prompt": json.dumps(prompt)}))
        span.events.append(("gen_ai.content.completion", {"gen_ai.completion": json.dumps(completion)}))


class OpenInference:
    """Everything flattened into dotted keys."""

    def agent(self, span):
        span.attributes |= {
            "openinference.span.kind": "AGENT",
            "agent.name": "journeys",
            "session.id": CONVERSATION,
            "input.value": STEPS[0][1]["text"],
            "output.value": ANSWER,
            "output.mime_type": "text/plain",
            "llm.token_count.prompt": 999,
            "llm.token_count.completion": 99,
        }

    def model(self, span, given, gave, tokens_in, tokens_out):
        span.attributes |= {
            "openinference.span.kind": "LLM",
            "llm.model_name": "scripted-1",
            "llm.token_count.prompt": tokens_in,
            "llm.token_count.completion": tokens_out,
            "llm.tools.0.tool.json_schema": json.dumps({"type": "function", "function": TOOL}),
            "input.value": json.dumps({"messages": [openai_message(each) for each in given]}),
            "input.mime_type": "application/json",
        }
        for place, message in enumerate(given):
            self.message(span, f"llm.input_messages.{place}.message.", message)
        self.message(span, "llm.output_messages.0.message.", gave)

    def message(self, span, prefix, message):
        span.attributes[f"{prefix}role"] = message["role"]
        if message["role"] == "tool":
            span.attributes[f"{prefix}tool_call_id"] = message["id"]
            span.attributes[f"{prefix}content"] = as_text(message["result"])
            return
        if message["text"]:
            content = f"{prefix}contents.0.message_content."
            span.attributes |= {f"{content}type": "text", f"{content}text": message["text"]}
        for place, made in enumerate(message["calls"]):
            below = f"{prefix}tool_calls.{place}.tool_call."
            span.attributes[f"{below}id"] = made["id"]
            span.attributes[f"{below}function.name"] = made["name"]
            span.attributes[f"{below}function.arguments"] = json.dumps(made["arguments"])

    def tool(self, span, made, result):
        span.attributes |= {
            "openinference.span.kind": "TOOL",
            "tool.name": made["name"],
            "tool.parameters": json.dumps(TOOL["parameters"]),
            "input.value": str(made["arguments"]),
            "output.value": as_text(result),
        }

    def retriever(self, span, query):
        span.attributes |= {"openinference.span.kind": "RETRIEVER", "input.value": query}
        for place, (key, text, score) in enumerate(DOCUMENTS):
            prefix = f"retrieval.documents.{place}.document."
            span.attributes |= {f"{prefix}id": key, f"{prefix}content": text, f"{prefix}score": score}


class OpenLLMetryOld:
    """`traceloop.*` around indexed `gen_ai.prompt.N` and `gen_ai.completion.N`."""

    session = "traceloop.association.properties.session_id"

    def agent(self, span):
        span.attributes |= {
            "traceloop.span.kind": "workflow",
            "traceloop.entity.name": "journeys",
            "traceloop.entity.input": json.dumps({"args": [STEPS[0][1]["text"]], "kwargs": {}}),
            "traceloop.entity.output": json.dumps(ANSWER),
            self.session: CONVERSATION,
        }

    def model(self, span, given, gave, tokens_in, tokens_out):
        span.attributes |= {
            "llm.request.type": "chat",
            "gen_ai.system": "openai",
            "gen_ai.request.model": "scripted",
            "gen_ai.response.model": "scripted-1",
            "gen_ai.usage.prompt_tokens": tokens_in,
            "gen_ai.usage.completion_tokens": tokens_out,
            "llm.usage.total_tokens": tokens_in + tokens_out,
            "llm.request.functions.0.name": TOOL["name"],
            "llm.request.functions.0.description": TOOL["description"],
            "llm.request.functions.0.parameters": json.dumps(TOOL["parameters"]),
            self.session: CONVERSATION,
        }
        self.messages(span, given, gave)

    def messages(self, span, given, gave):
        for place, message in enumerate(given):
            self.message(span, f"gen_ai.prompt.{place}.", message)
        self.message(span, "gen_ai.completion.0.", gave)

    def message(self, span, prefix, message):
        span.attributes[f"{prefix}role"] = message["role"]
        if message["role"] == "tool":
            span.attributes[f"{prefix}tool_call_id"] = message["id"]
            span.attributes[f"{prefix}content"] = as_text(message["result"])
            return
        if message["text"]:
            span.attributes[f"{prefix}content"] = message["text"]
        for place, made in enumerate(message["calls"]):
            below = f"{prefix}tool_calls.{place}."
            span.attributes |= {f"{below}id": made["id"], f"{below}name": made["name"]}
            span.attributes[f"{below}arguments"] = json.dumps(made["arguments"])

    def tool(self, span, made, result):
        span.attributes |= {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": made["name"],
            "traceloop.entity.input": json.dumps({"args": [], "kwargs": made["arguments"]}),
            "traceloop.entity.output": json.dumps(result),
        }

    def retriever(self, span, query):
        span.attributes |= {"db.system": "chroma", "db.operation": "query"}
        for key, text, score in DOCUMENTS:
            found = {"db.query.result.id": key, "db.query.result.document": text}
            span.events.append(("db.query.result", {**found, "db.query.result.distance": 1 - score}))


class OpenLLMetry(OpenLLMetryOld):
    """`traceloop.*` around messages of the GenAI conventions."""

    def messages(self, span, given, gave):
        span.attributes["gen_ai.operation.name"] = "chat"
        span.attributes["gen_ai.input.messages"] = json.dumps([otel_message(each) for each in given])
        span.attributes["gen_ai.output.messages"] = json.dumps([otel_message(gave)])


class AISDK(GenAI):
    """Vercel's AI SDK 5 and 6, written by hand after its page on telemetry: it was not run."""

    given, tool_schema, tokens = "input", "inputSchema", ("inputTokens", "outputTokens")

    def agent(self, span):
        prompt = {"system": STEPS[0][1]["text"], "prompt": STEPS[0][1]["text"]}
        span.attributes |= {
            "operation.name": "ai.generateText journeys",
            "ai.operationId": "ai.generateText",
            "ai.model.id": "scripted",
            "ai.prompt": json.dumps(prompt),
            "ai.response.text": ANSWER,
            "ai.response.finishReason": "stop",
            "ai.telemetry.functionId": "journeys",
            "ai.telemetry.metadata.sessionId": CONVERSATION,
            f"ai.usage.{self.tokens[0]}": 999,
            f"ai.usage.{self.tokens[1]}": 99,
        }

    def model(self, span, given, gave, tokens_in, tokens_out):
        tool = {**TOOL, "type": "function"}
        tool[self.tool_schema] = tool.pop("parameters")
        span.attributes |= {
            "operation.name": "ai.generateText.doGenerate journeys",
            "ai.operationId": "ai.generateText.doGenerate",
            "ai.model.id": "scripted",
            "ai.response.model": "scripted-1",
            "ai.response.finishReason": "tool-calls" if gave["calls"] else "stop",
            f"ai.usage.{self.tokens[0]}": tokens_in,
            f"ai.usage.{self.tokens[1]}": tokens_out,
            "ai.prompt.tools": [json.dumps(tool)],
            "ai.prompt.messages": json.dumps([self.message(each) for each in given]),
        }
        if gave["text"]:
            span.attributes["ai.response.text"] = gave["text"]
        if gave["calls"]:
            calls = [{**self.call(each), self.given: json.dumps(each["arguments"])} for each in gave["calls"]]
            span.attributes["ai.response.toolCalls"] = json.dumps(calls)

    def call(self, made):
        return {
            "type": "tool-call",
            "toolCallId": made["id"],
            "toolName": made["name"],
            self.given: made["arguments"],
        }

    def message(self, message):
        if message["role"] == "tool":
            part = {"type": "tool-result", "toolCallId": message["id"], "toolName": "-"}
            return {"role": "tool", "content": [{**part, **self.returned(message["result"])}]}
        if message["role"] == "system":
            return {"role": "system", "content": message["text"]}
        text = [{"type": "text", "text": message["text"]}] if message["text"] else []
        return {"role": message["role"], "content": [*text, *map(self.call, message["calls"])]}

    def returned(self, result):
        return {"output": {"type": "text" if isinstance(result, str) else "json", "value": result}}

    def tool(self, span, made, result):
        span.attributes |= {
            "operation.name": "ai.toolCall journeys",
            "ai.operationId": "ai.toolCall",
            "ai.toolCall.name": made["name"],
            "ai.toolCall.id": made["id"],
            "ai.toolCall.args": json.dumps(made["arguments"]),
            "ai.toolCall.result": json.dumps(result),
        }


class AISDK4(AISDK):
    """The same before version 5, which has other names for arguments, results, schemas and tokens."""

    given, tool_schema, tokens = "args", "parameters", ("promptTokens", "completionTokens")

    def returned(self, result):
        return {"result": result}


class Langfuse:
    """Langfuse's SDKs since version 3, written by hand after its property mapping: they were not run."""

    def agent(self, span):
        span.attributes |= {
            "langfuse.observation.type": "agent",
            "langfuse.observation.input": json.dumps({"args": [STEPS[0][1]["text"]], "kwargs": {}}),
            "langfuse.observation.output": ANSWER,
            "langfuse.trace.name": "journeys",
            "session.id": CONVERSATION,
        }

    def model(self, span, given, gave, tokens_in, tokens_out):
        asked = {"messages": [openai_message(each) for each in given]}
        span.attributes |= {
            "langfuse.observation.type": "generation",
            "langfuse.observation.model.name": "scripted-1",
            "langfuse.observation.input": json.dumps(
                {**asked, "tools": [{"type": "function", "function": TOOL}]}
            ),
            "langfuse.observation.output": json.dumps(openai_message(gave)),
            "langfuse.observation.usage_details": json.dumps({"input": tokens_in, "output": tokens_out}),
        }

    def tool(self, span, made, result):
        span.attributes |= {
            "langfuse.observation.type": "tool",
            "langfuse.observation.input": json.dumps(made["arguments"]),
            "langfuse.observation.output": as_text(result),
        }
        if span.error:  # without a status of the span
            span.attributes["langfuse.observation.level"] = "ERROR"
            span.attributes["langfuse.observation.status_message"] = span.error
            span.error = None

    def retriever(self, span, query):
        found = [{"id": key, "page_content": text, "score": score} for key, text, score in DOCUMENTS]
        span.attributes |= {
            "langfuse.observation.type": "retriever",
            "langfuse.observation.input": query,
            "langfuse.observation.output": json.dumps(found),
        }


DIALECTS = {
    "genai-json": GenAI(),
    "genai-structured": GenAIStructured(),
    "genai-details-event": GenAIDetailsEvent(),
    "genai-details-log": GenAIDetailsLog(),
    "genai-message-logs": GenAIMessageLogs(),
    "genai-message-events": GenAIMessageEvents(),
    "prompt-and-completion": PromptAndCompletion(),
    "prompt-events": PromptEvents(),
    "openinference": OpenInference(),
    "openllmetry": OpenLLMetry(),
    "openllmetry-old": OpenLLMetryOld(),
    "ai-sdk": AISDK(),
    "ai-sdk-4": AISDK4(),
    "langfuse": Langfuse(),
}


def any_value(value):
    """Write a value as OTLP does."""
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case dict():
            return {"kvlistValue": {"values": pairs(value)}}
        case None:
            return {}
    return {"arrayValue": {"values": [any_value(each) for each in value]}}


def pairs(attributes):
    return [{"key": key, "value": any_value(value)} for key, value in attributes.items()]


def span_id(number):
    return f"{number:016x}"


def otlp(name, trace=TRACE):
    """Return the story as an OTLP export, with the log records that belong to it."""
    told = spans(DIALECTS[name])
    scope = {"scope": {"name": name, "version": "1"}}
    resource = {"attributes": pairs({"service.name": "journeys"})}
    tree = {"resourceSpans": [{"resource": resource, "scopeSpans": [{**scope, "spans": [
        otlp_span(span, trace) for span in told
    ]}]}]}  # fmt: skip
    records = [record for span in told for record in log_records(span, trace)]
    if records:
        tree["resourceLogs"] = [{"resource": resource, "scopeLogs": [{**scope, "logRecords": records}]}]
    return tree


def otlp_span(span, trace):
    tree = {
        "traceId": trace,
        "spanId": span_id(span.id),
        "name": span.name,
        "kind": "SPAN_KIND_CLIENT" if span.name == "chat" else "SPAN_KIND_INTERNAL",
        "startTimeUnixNano": str(START + span.start * SECOND),
        "endTimeUnixNano": str(START + span.end * SECOND),
        "attributes": pairs(span.attributes),
        "events": [
            {"name": name, "timeUnixNano": str(START + span.end * SECOND), "attributes": pairs(attributes)}
            for name, attributes in span.events
        ],
        "status": {"code": 2, "message": span.error} if span.error else {},
    }
    return tree if span.parent is None else {**tree, "parentSpanId": span_id(span.parent)}


def log_records(span, trace):
    for place, (name, attributes, body) in enumerate(span.logs):
        yield {
            "timeUnixNano": str(START + span.start * SECOND + place),
            "eventName": name,
            "attributes": pairs(attributes),
            "traceId": trace,
            "spanId": span_id(span.id),
            **({} if body is None else {"body": any_value(body)}),
        }


def snake_case(tree):
    """Return an export with the field names of protobuf, as some encoders write JSON."""
    if isinstance(tree, list):
        return [snake_case(each) for each in tree]
    if not isinstance(tree, dict):
        return tree
    return {
        "".join("_" + c.lower() if c.isupper() else c for c in key): snake_case(value)
        for key, value in tree.items()
    }


def protobuf_json(tree):
    """Return an export with ids in base64, as protobuf's own JSON has them."""
    if isinstance(tree, list):
        return [protobuf_json(each) for each in tree]
    if not isinstance(tree, dict):
        return tree
    ids = ("traceId", "spanId", "parentSpanId")
    return {
        key: base64.b64encode(bytes.fromhex(value)).decode() if key in ids else protobuf_json(value)
        for key, value in tree.items()
    }
