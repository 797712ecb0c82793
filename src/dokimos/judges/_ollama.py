"""Ollama's own protocol."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from dokimos.judges._body_encoder import holds_prompt_as_text
from dokimos.judges._capabilities import Capabilities, Mode
from dokimos.judges._completion import Completion, TokenCounts, count, part, parts, token_logprobs
from dokimos.judges._model_request import ModelRequest, chat_messages, omit_none
from dokimos.judges._openai import no_answer_in
from dokimos.judges._provider import HttpJudge

OLLAMA_URL: Final = "http://127.0.0.1:11434"
OLLAMA_PORT: Final = 11434


@dataclass(frozen=True, kw_only=True, repr=False)
class OllamaNative(HttpJudge):
    """A model that Ollama serves, at `OLLAMA_HOST` or on this machine."""

    num_ctx: int | None = None
    """Tokens of context. Ollama silently cuts longer prompts off, and its own default is small."""

    provider: ClassVar[str] = "ollama"
    modes: ClassVar[tuple[Mode, ...]] = (Mode.SCHEMA, Mode.JSON, Mode.TEXT)
    own_settings: ClassVar[tuple[str, ...]] = ("num_ctx",)

    def default_url(self) -> str:
        return ollama_url(os.environ.get("OLLAMA_HOST", ""))

    def enforces_schemas(self) -> bool:
        return False  # models that think, and old versions, ignore the format

    def key_variable(self) -> str | None:
        return None

    def path(self) -> str:
        return f"{self.url}/api/chat"

    def settings(self, capabilities: Capabilities) -> Mapping[str, Any]:
        if self.top_logprobs is None:
            return {}
        return {"logprobs": True, "top_logprobs": self.top_logprobs}

    @holds_prompt_as_text
    def body(self, request: ModelRequest) -> dict[str, Any]:
        shape = None if request.mode is Mode.TEXT else request.schema
        return {
            "model": self.model,
            "messages": chat_messages(request),
            "stream": False,
            "options": self._options(),
            **request.settings,
            **omit_none(format=shape and ("json" if request.mode is Mode.JSON else shape)),
        }

    def read(self, data: object) -> Completion:
        content = part(data, "message", "content")
        if not isinstance(content, str):
            raise no_answer_in(data, self.label)
        return Completion(
            content,
            "length" if part(data, "done_reason") == "length" else "stop",
            token_logprobs(parts(data, "logprobs")),
        )

    def tokens(self, data: object) -> TokenCounts:
        return TokenCounts(
            tokens_in=count(part(data, "prompt_eval_count")), tokens_out=count(part(data, "eval_count"))
        )

    def _options(self) -> dict[str, Any]:
        return omit_none(
            temperature=self.temperature,
            top_p=self.top_p,
            seed=self.seed,
            num_predict=self.max_tokens,
            num_ctx=self.num_ctx,
        )


def ollama_url(host: str) -> str:
    """Return the URL that `OLLAMA_HOST` means: `box`, `box:11434`, `0.0.0.0` or a whole URL."""
    host = host.strip().rstrip("/")
    if not host:
        return OLLAMA_URL
    if "://" not in host:
        name, _, port = host.partition(":")
        host = f"http://{name or '127.0.0.1'}:{port or OLLAMA_PORT}"
    return host.replace("//0.0.0.0", "//127.0.0.1")  # an address to listen on, not to call
