"""Anthropic's Messages protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from dokimos.judges._body_encoder import holds_prompt_as_text
from dokimos.judges._capabilities import Capabilities, Mode
from dokimos.judges._completion import Completion, Finish, TokenCounts, count, part, parts
from dokimos.judges._model_request import Home, ModelRequest, omit_none
from dokimos.judges._openai import no_answer_in
from dokimos.judges._protocol import JsonSchemaDict
from dokimos.judges._provider import HttpJudge
from dokimos.judges._provider_schemas import ANSWER, without_bounds

ANTHROPIC: Final = Home(
    url="https://api.anthropic.com",
    domain="anthropic.com",
    url_variable="ANTHROPIC_BASE_URL",
    key_variable="ANTHROPIC_API_KEY",
)
PROTOCOL_VERSION: Final = "2023-06-01"
DEFAULT_MAX_TOKENS: Final = 4096
"""The protocol wants a limit."""

_FINISH: Final[dict[str, Finish]] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class AnthropicMessages(HttpJudge):
    """A model behind Anthropic's Messages API."""

    provider: ClassVar[str] = "anthropic"
    home: ClassVar[Home] = ANTHROPIC
    modes: ClassVar[tuple[Mode, ...]] = (Mode.SCHEMA, Mode.TOOL, Mode.TEXT)
    lacks: ClassVar[tuple[str, ...]] = ("seed", "top_logprobs")
    fixed_headers: ClassVar[Mapping[str, str]] = {"anthropic-version": PROTOCOL_VERSION}

    def path(self) -> str:
        # Base URLs are written with and without the version: Anthropic's own clients append it, OpenAI's do
        # not.
        return f"{self.url.removesuffix('/v1')}/v1/messages"

    def authorization(self, key: str) -> Mapping[str, str]:
        return {"x-api-key": key}

    def settings(self, capabilities: Capabilities) -> Mapping[str, Any]:
        return omit_none(top_p=self.top_p, temperature=self.temperature)

    @holds_prompt_as_text
    def body(self, request: ModelRequest) -> dict[str, Any]:
        return {
            "model": self.model,
            "max_tokens": self.max_tokens or DEFAULT_MAX_TOKENS,
            "messages": [{"role": "user", "content": request.prompt}],
            **omit_none(system=request.system),
            **request.settings,
            **_shape(request.schema, request.mode),
        }

    def read(self, data: object) -> Completion:
        if not isinstance(part(data, "content"), list):
            raise no_answer_in(data, self.label)
        content = parts(data, "content")
        called = [block.get("input") for block in content if block.get("type") == "tool_use"]
        text = "".join(str(block.get("text", "")) for block in content if block.get("type") == "text")
        return Completion(
            json.dumps(called[0], ensure_ascii=False) if called else text,
            _FINISH.get(str(part(data, "stop_reason")), "stop"),
        )

    def tokens(self, data: object) -> TokenCounts:
        return _tokens(part(data, "usage"))


def _shape(schema: JsonSchemaDict | None, mode: Mode) -> dict[str, Any]:
    if schema is None or mode is Mode.TEXT:
        return {}
    if mode is Mode.TOOL:
        tool = {"name": ANSWER, "description": "Give the answer.", "input_schema": schema}
        return {"tools": [tool], "tool_choice": {"type": "tool", "name": ANSWER}}
    # The API refuses a schema with bounds, and replies are checked against them here anyway.
    return {"output_config": {"format": {"type": "json_schema", "schema": without_bounds(schema)}}}


def _tokens(usage: object) -> TokenCounts:
    """Add up what was read: the protocol counts cached tokens apart."""
    cached = count(part(usage, "cache_read_input_tokens"))
    read = [count(part(usage, "input_tokens")), cached, count(part(usage, "cache_creation_input_tokens"))]
    counted = [each for each in read if each is not None]
    return TokenCounts(
        tokens_in=sum(counted) if counted else None,
        tokens_out=count(part(usage, "output_tokens")),
        cached=cached,
    )
