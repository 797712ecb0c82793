"""OpenAI's two protocols, Responses and Chat Completions, and the servers that speak the latter."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from urllib.parse import quote

from dokimos.core.text import shortened
from dokimos.errors import ConfigurationError, JudgeReplyError
from dokimos.judges.capabilities import Capabilities, Mode
from dokimos.judges.completion import Completion, Finish, TokenCounts, count, part, parts, token_logprobs
from dokimos.judges.protocol import JsonSchemaDict
from dokimos.judges.provider import HttpJudge
from dokimos.judges.request import ModelRequest, chat_messages, given, is_at, trusted_key
from dokimos.judges.schemas import ANSWER, sent_schema

OPENAI_URL: Final = "https://api.openai.com/v1"
OPENAI_DOMAIN: Final = "openai.com"
OPENAI_KEY: Final = "OPENAI_API_KEY"
AZURE_API_VERSION: Final = "2024-10-21"

_FINISH: Final[dict[str, Finish]] = {"length": "length", "content_filter": "filter"}
_STRICTEST_FIRST: Final = (Mode.SCHEMA, Mode.SIMPLE_SCHEMA, Mode.TOOL, Mode.JSON, Mode.TEXT)


def openai_url() -> str:
    """Return the root of the API that the environment names, OpenAI's own by default."""
    return os.environ.get("OPENAI_BASE_URL") or OPENAI_URL


def is_openai(url: str) -> bool:
    """Say whether a URL is OpenAI's own API."""
    return is_at(url, OPENAI_DOMAIN)


@dataclass(frozen=True, kw_only=True, repr=False)
class _OpenAI(HttpJudge):
    """Where OpenAI is, and which key it gets, whichever of its protocols is spoken."""

    provider: ClassVar[str] = "openai"
    modes: ClassVar[tuple[Mode, ...]] = _STRICTEST_FIRST

    def default_url(self) -> str:
        return openai_url()

    def key_variable(self) -> str | None:
        return trusted_key(
            self.url, domain=OPENAI_DOMAIN, url_variable="OPENAI_BASE_URL", key_variable=OPENAI_KEY
        )

    def authorization(self, key: str) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {key}"}


@dataclass(frozen=True, kw_only=True, repr=False)
class OpenAIChat(_OpenAI):
    """A model behind Chat Completions: OpenAI, vLLM, llama.cpp, LM Studio, Ollama, and proxies.

    `OPENAI_API_KEY` is sent to OpenAI and to the `OPENAI_BASE_URL` of the environment; another `base_url`
    gets the key that it is given as `api_key`, or none.
    """

    def path(self) -> str:
        return f"{self.url}/chat/completions"

    def settings(self, known: Capabilities) -> Mapping[str, Any]:
        return _chat_settings(self, known, newest=is_openai(self.url))

    def body(self, request: ModelRequest) -> dict[str, Any]:
        return {"model": self.model, **_chat_body(request)}

    def read(self, data: Any) -> Completion:
        return _read_chat(data, self.label)

    def tokens(self, data: Any) -> TokenCounts:
        return _chat_tokens(part(data, "usage"))


@dataclass(frozen=True, kw_only=True, repr=False)
class AzureOpenAI(HttpJudge):
    """A deployment of Azure OpenAI: `model` is its name and `base_url` the resource's endpoint."""

    api_version: str | None = None

    provider: ClassVar[str] = "azure"
    modes: ClassVar[tuple[Mode, ...]] = _STRICTEST_FIRST
    own_settings: ClassVar[tuple[str, ...]] = ("api_version",)

    def default_url(self) -> str:
        url = os.environ.get("AZURE_OPENAI_ENDPOINT")
        if not url:
            raise ConfigurationError(
                f"{self.label} needs its endpoint: set AZURE_OPENAI_ENDPOINT, or give base_url='https://...'."
            )
        return url

    def key_variable(self) -> str | None:
        return "AZURE_OPENAI_API_KEY"

    def path(self) -> str:
        version = self.api_version or os.environ.get("AZURE_OPENAI_API_VERSION") or AZURE_API_VERSION
        deployment = quote(self.model, safe="")
        return f"{self.url}/openai/deployments/{deployment}/chat/completions?api-version={quote(version)}"

    def authorization(self, key: str) -> Mapping[str, str]:
        return {"api-key": key}

    def settings(self, known: Capabilities) -> Mapping[str, Any]:
        return _chat_settings(self, known, newest=True)

    def body(self, request: ModelRequest) -> dict[str, Any]:
        return _chat_body(request)

    def read(self, data: Any) -> Completion:
        return _read_chat(data, self.label)

    def tokens(self, data: Any) -> TokenCounts:
        return _chat_tokens(part(data, "usage"))


@dataclass(frozen=True, kw_only=True, repr=False)
class OpenAIResponses(_OpenAI):
    """A model behind OpenAI's Responses API. Replies are not stored there."""

    lacks: ClassVar[tuple[str, ...]] = ("seed",)

    def path(self) -> str:
        return f"{self.url}/responses"

    def settings(self, known: Capabilities) -> Mapping[str, Any]:
        include = None if self.top_logprobs is None else ["message.output_text.logprobs"]
        return given(
            top_p=self.top_p,
            temperature=self.temperature,
            max_output_tokens=self.max_tokens,
            top_logprobs=self.top_logprobs,
            include=include,
        )

    def body(self, request: ModelRequest) -> dict[str, Any]:
        return {
            "model": self.model,
            "input": request.prompt,
            "store": False,
            **given(instructions=request.system),
            **request.settings,
            **_responses_shape(request.schema, request.mode),
        }

    def read(self, data: Any) -> Completion:
        output = parts(data, "output")
        if not output and part(data, "status") not in ("incomplete", "completed"):
            raise no_answer_in(data, self.label)
        contents = [each for item in output for each in parts(item, "content")]
        refusal = "".join(str(each["refusal"]) for each in contents if each.get("refusal"))
        written = [each for each in contents if each.get("type") == "output_text"]
        called = [item.get("arguments") for item in output if item.get("type") == "function_call"]
        text = str(called[0]) if called else "".join(str(each.get("text", "")) for each in written)
        return Completion(
            text or refusal,
            "refusal" if refusal else _responses_finish(data),
            token_logprobs(entry for each in written for entry in parts(each, "logprobs")),
        )

    def tokens(self, data: Any) -> TokenCounts:
        return _responses_tokens(part(data, "usage"))


def no_answer_in(data: Any, label: str) -> JudgeReplyError:
    """Return the error for a reply of another shape than the protocol's."""
    shown = shortened(json.dumps(data, ensure_ascii=False), 200)
    return JudgeReplyError(f"{label}: the server's reply holds no answer: {shown}")


def _chat_settings(judge: HttpJudge, known: Capabilities, *, newest: bool) -> dict[str, Any]:
    names = ("max_completion_tokens", "max_tokens") if newest else ("max_tokens", "max_completion_tokens")
    accepted = [name for name in names if name not in known.refused]
    return given(
        seed=judge.seed,
        top_p=judge.top_p,
        temperature=judge.temperature,
        logprobs=None if judge.top_logprobs is None else True,
        top_logprobs=judge.top_logprobs,
        **{name: judge.max_tokens for name in accepted[:1]},
    )


def _chat_body(request: ModelRequest) -> dict[str, Any]:
    shape = _chat_shape(request.schema, request.mode)
    return {"messages": chat_messages(request), **request.settings, **shape}


def _chat_shape(schema: JsonSchemaDict | None, mode: Mode) -> dict[str, Any]:
    if schema is None or mode is Mode.TEXT:
        return {}
    if mode is Mode.JSON:
        return {"response_format": {"type": "json_object"}}
    if mode is Mode.TOOL:
        function = {"name": ANSWER, "description": "Give the answer.", "parameters": schema}
        choice = {"type": "function", "function": {"name": ANSWER}}
        return {"tools": [{"type": "function", "function": function}], "tool_choice": choice}
    named = {"name": ANSWER, "schema": sent_schema(schema, mode), "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def _responses_shape(schema: JsonSchemaDict | None, mode: Mode) -> dict[str, Any]:
    if schema is None or mode is Mode.TEXT:
        return {}
    if mode is Mode.JSON:
        return {"text": {"format": {"type": "json_object"}}}
    if mode is Mode.TOOL:
        tool = {"type": "function", "name": ANSWER, "parameters": schema, "strict": False}
        return {"tools": [tool], "tool_choice": {"type": "function", "name": ANSWER}}
    named = {"type": "json_schema", "name": ANSWER, "schema": sent_schema(schema, mode), "strict": True}
    return {"text": {"format": named}}


def _read_chat(data: Any, label: str) -> Completion:
    choices = parts(data, "choices")
    message = choices[0].get("message") if choices else None
    if type(message) is not dict:
        raise no_answer_in(data, label)
    refusal = message.get("refusal")
    called = [part(call, "function", "arguments") for call in parts(message, "tool_calls")]
    content = called[0] if called and called[0] else message.get("content")
    likely = choices[0].get("logprobs")
    return Completion(
        _plain(content) or str(refusal or ""),
        "refusal" if refusal else _FINISH.get(str(choices[0].get("finish_reason")), "stop"),
        token_logprobs(parts(likely, "content")) if likely else None,
    )


def _plain(content: Any) -> str:
    """Return the text of a message's content, which some servers give in pieces and some as an object."""
    if type(content) is str:
        return content
    if isinstance(content, list):
        return "".join(str(piece.get("text", "")) for piece in content if isinstance(piece, Mapping))
    if isinstance(content, Mapping):
        return json.dumps(content, ensure_ascii=False)
    return ""


def _chat_tokens(usage: Any) -> TokenCounts:
    if type(usage) is not dict:
        return TokenCounts()
    return TokenCounts(
        tokens_in=count(usage.get("prompt_tokens")),
        tokens_out=count(usage.get("completion_tokens")),
        cached=count(part(usage, "prompt_tokens_details", "cached_tokens")),
        reasoning=count(part(usage, "completion_tokens_details", "reasoning_tokens")),
    )


def _responses_tokens(usage: Any) -> TokenCounts:
    return TokenCounts(
        tokens_in=count(part(usage, "input_tokens")),
        tokens_out=count(part(usage, "output_tokens")),
        cached=count(part(usage, "input_tokens_details", "cached_tokens")),
        reasoning=count(part(usage, "output_tokens_details", "reasoning_tokens")),
    )


def _responses_finish(data: Any) -> Finish:
    if part(data, "status") != "incomplete":
        return "stop"
    return "filter" if part(data, "incomplete_details", "reason") == "content_filter" else "length"
