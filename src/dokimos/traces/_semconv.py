"""The names of attributes in the semantic conventions.

Supported are OpenTelemetry's GenAI conventions of all ages (messages as structures, JSON text or events; the
older `gen_ai.prompt` and `gen_ai.completion`, plain and indexed), OpenInference, OpenLLMetry, Vercel's AI SDK
and Langfuse. A span may mix them: each value is taken from the first of its names that is there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Names(tuple[str, ...]):
    """The names that one value has in the conventions, in order of precedence.

    Equal to itself alone, so that finding what is known of a value needs no comparison of its names.
    """

    __slots__ = ()

    def __new__(cls, *names: str) -> Names:
        return super().__new__(cls, names)

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


class SpanRole(StrEnum):
    """What a span stands for."""

    MODEL = "model"
    TOOL = "tool"
    AGENT = "agent"
    RETRIEVAL = "retrieval"
    STEP = "step"
    """A workflow, chain or task: it holds others."""
    OTHER = "other"


OPERATIONS: Final = {
    "chat": SpanRole.MODEL,
    "completion": SpanRole.MODEL,
    "text_completion": SpanRole.MODEL,
    "generate_content": SpanRole.MODEL,
    "execute_tool": SpanRole.TOOL,
    "invoke_agent": SpanRole.AGENT,
    "invoke_workflow": SpanRole.STEP,
    "retrieval": SpanRole.RETRIEVAL,
    "vector_db_retrieve": SpanRole.RETRIEVAL,
    "embeddings": SpanRole.OTHER,
    "create_agent": SpanRole.OTHER,
}
OPENINFERENCE_KIND: Final = "openinference.span.kind"
OPENINFERENCE_KINDS: Final = {
    "LLM": SpanRole.MODEL,
    "TOOL": SpanRole.TOOL,
    "AGENT": SpanRole.AGENT,
    "CHAIN": SpanRole.STEP,
    "RETRIEVER": SpanRole.RETRIEVAL,
}
TRACELOOP_KINDS: Final = {
    "tool": SpanRole.TOOL,
    "agent": SpanRole.AGENT,
    "workflow": SpanRole.STEP,
    "task": SpanRole.STEP,
}
REQUEST_TYPES: Final = {"chat": SpanRole.MODEL, "completion": SpanRole.MODEL}

AI_SDK_OPERATIONS: Final = {
    **dict.fromkeys(
        ("ai.generateText", "ai.streamText", "ai.generateObject", "ai.streamObject"), SpanRole.AGENT
    ),
    "ai.generateText.doGenerate": SpanRole.MODEL,
    "ai.streamText.doStream": SpanRole.MODEL,
    "ai.generateObject.doGenerate": SpanRole.MODEL,
    "ai.streamObject.doStream": SpanRole.MODEL,
    "ai.toolCall": SpanRole.TOOL,
    "ai.embed": SpanRole.OTHER,
    "ai.embed.doEmbed": SpanRole.OTHER,
    "ai.embedMany": SpanRole.OTHER,
    "ai.embedMany.doEmbed": SpanRole.OTHER,
}
"""What Vercel's AI SDK does; its outer functions call models and tools in turns, as agents do."""
LANGFUSE_TYPES: Final = {
    "generation": SpanRole.MODEL,
    "tool": SpanRole.TOOL,
    "agent": SpanRole.AGENT,
    "retriever": SpanRole.RETRIEVAL,
    "chain": SpanRole.STEP,
    **dict.fromkeys(("span", "event", "embedding", "evaluator", "guardrail"), SpanRole.OTHER),
}

FLATTENED: Final = re.compile(
    r"(?:llm\.(?:input_messages|output_messages|prompts|completions|tools|request\.functions)"
    r"|gen_ai\.(?:prompt|completion)|retrieval\.documents)\."
)
INPUT_MESSAGES: Final = Names("gen_ai.input.messages", "pydantic_ai.all_messages", "all_messages_events")
INSTRUCTIONS: Final = Names("gen_ai.system_instructions")
OUTPUT_MESSAGES: Final = Names("gen_ai.output.messages")
FLAT_INPUTS: Final = ("llm.input_messages.", "gen_ai.prompt.", "llm.prompts.")
FLAT_OUTPUTS: Final = ("llm.output_messages.", "gen_ai.completion.", "llm.completions.")
PLAIN_INPUTS: Final = Names("gen_ai.prompt", "llm.input_messages", "llm.prompts")
PLAIN_OUTPUTS: Final = Names("gen_ai.completion", "llm.output_messages", "llm.completions")

INPUT_TEXT: Final = Names("dokimos.input", "input.value", "gen_ai.prompt", "llm.input", "input", "prompt")
"""Where any span may have its input as text, in the order in which they are looked up."""
OUTPUT_TEXT: Final = Names(
    "dokimos.output",
    "output.value",
    "gen_ai.completion",
    "llm.output",
    "output",
    "completion",
)
FINAL_RESULT: Final = "final_result"
ENTITY_INPUT: Final = "traceloop.entity.input"
"""What a traced function took; likewise what it returned."""
ENTITY_OUTPUT: Final = "traceloop.entity.output"

# Of each list the first name counts that a span has: those of the conventions, then those of libraries, and
# last those that any span may have for something else, such as `input`.
TOOL_NAME: Final = Names("gen_ai.tool.name", "tool.name", "tool_call.function.name", "mcp.tool.name")
CALL_ID: Final = Names("gen_ai.tool.call.id", "tool_call.id", "tool.id")
ARGUMENTS: Final = Names(
    "gen_ai.tool.call.arguments",
    "tool_arguments",
    "tool_call.function.arguments",
    "input.value",
    "traceloop.entity.input",
    "mcp.request.argument",
    "dokimos.input",
    "input",
)
RESULT: Final = Names(
    "gen_ai.tool.call.result",
    "tool_response",
    "output.value",
    "traceloop.entity.output",
    "mcp.response.value",
    "dokimos.output",
    "output",
)
AGENT_NAME: Final = Names(
    "gen_ai.agent.name",
    "agent.name",
    "traceloop.entity.name",
    "graph.node.id",
    "ai.telemetry.functionId",
)
CONVERSATION: Final = Names(
    "gen_ai.conversation.id",
    "session.id",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.conversation_id",
    "thread.id",
    "langfuse.session.id",
    "ai.telemetry.metadata.sessionId",
)
USER: Final = Names(
    "user.id",
    "enduser.id",
    "traceloop.association.properties.user_id",
    "langfuse.user.id",
    "ai.telemetry.metadata.userId",
)
# The model that answered before the one that was asked for, which may be an alias.
MODEL_NAME: Final = Names(
    "gen_ai.response.model",
    "llm.response.model_name",
    "llm.model_name",
    "gen_ai.request.model",
    "llm.request.model_name",
    "ai.response.model",
    "ai.model.id",
)
TOKENS_IN: Final = Names(
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "llm.usage.prompt_tokens",
    "gen_ai.aggregated_usage.input_tokens",
    "ai.usage.inputTokens",
    "ai.usage.promptTokens",
)
TOKENS_OUT: Final = Names(
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "llm.usage.completion_tokens",
    "gen_ai.aggregated_usage.output_tokens",
    "ai.usage.outputTokens",
    "ai.usage.completionTokens",
)
CACHED: Final = Names(
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "llm.token_count.prompt_details.cache_read",
    "ai.usage.cachedInputTokens",
    "ai.usage.inputTokenDetails.cacheReadTokens",
)
REASONING: Final = Names(
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "llm.usage.reasoning_tokens",
    "llm.token_count.completion_details.reasoning",
    "ai.usage.reasoningTokens",
    "ai.usage.outputTokenDetails.reasoningTokens",
)
FINISH_REASONS: Final = Names(
    "gen_ai.response.finish_reasons",
    "llm.response.finish_reason",
    "ai.response.finishReason",
    "ai.finishReason",
)
COST: Final = Names("llm.cost.total", "gen_ai.usage.cost", "operation.cost")

QUERY: Final = Names("gen_ai.retrieval.query.text", "input.value", "db.query.text")
DOCUMENTS: Final = Names("gen_ai.retrieval.documents", "retrieval.documents")
DOCUMENT_TEXT: Final = ("content", "text", "page_content", "document", "chunk")
DATABASE_RESULTS: Final = frozenset({"db.query.result", "db.search.result"})

MERGED_TOOLS: Final = "(merged tools)"
"""ADK's name for a span that repeats the results of several tools together."""

EVENT_ROLES: Final = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
CHOICE: Final = "gen_ai.choice"
EVENTS: Final = "events"
"""Where Logfire's instrumentations have events as JSON."""
ERROR_TYPE: Final = "error.type"
ELIDED: Final = "<elided>"
"""What Google's instrumentations write in the place of content that they do not capture."""
REDACTED: Final = "__REDACTED__"
"""What OpenInference's write there."""
CHOICE_COUNT: Final = Names("gen_ai.request.choice.count", "gen_ai.request.n")
DETAILS: Final = frozenset(
    {"gen_ai.client.inference.operation.details", "gen_ai.content.prompt", "gen_ai.content.completion"}
)

ROLE_TABLES: Final[tuple[tuple[str, Mapping[str, SpanRole]], ...]] = (
    ("gen_ai.operation.name", OPERATIONS),
    ("traceloop.span.kind", TRACELOOP_KINDS),
    ("llm.request.type", REQUEST_TYPES),
    ("mcp.method.name", {"tools/call": SpanRole.TOOL}),
    ("ai.operationId", AI_SDK_OPERATIONS),
    ("langfuse.observation.type", LANGFUSE_TYPES),
)
"""The attributes that name the role of a span, after OpenInference's own."""
