"""OpenAI's two protocols, Responses and Chat Completions, and the servers that speak the latter."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from urllib.parse import quote

from dokimos._core.text import shorten
from dokimos.errors import ConfigurationError, JudgeReplyError
from dokimos.judges._body_encoder import holds_prompt_as_text
from dokimos.judges._capabilities import Capabilities, Mode
from dokimos.judges._completion import Completion, Finish, TokenCounts, count, part, parts, token_logprobs
from dokimos.judges._model_request import Home, ModelRequest, chat_messages, is_within, omit_none
from dokimos.judges._protocol import JsonSchemaDict
from dokimos.judges._provider import HttpJudge
from dokimos.judges._provider_schemas import ANSWER, schema_for_mode

OPENAI: Final = Home(
    url="https://api.openai.com/v1",
    domain="openai.com",
    url_variable="OPENAI_BASE_URL",
    key_variable="OPENAI_API_KEY",
)
AZURE_API_VERSION: Final = "2024-10-21"

_FINISH: Final[dict[str, Finish]] = {"length": "length", "model_length": "length", "content_filter": "filter"}


def is_openai(url: str) -> bool:
    """Say whether a URL is OpenAI's own API."""
    return OPENAI.owns(url)


@dataclass(frozen=True, kw_only=True, repr=False)
class ChatCompletions(HttpJudge):
    """The protocol Chat Completions, wherever it is spoken; a provider adds its `provider` and its `home`."""

    @property
    def takes_newest_names(self) -> bool:
        """Whether to try the newest names of parameters first."""
        return False

    def path(self) -> str:
        return f"{self.url}/chat/completions"

    def settings(self, capabilities: Capabilities) -> Mapping[str, Any]:
        settings = omit_none(
            seed=self.seed,
            top_p=self.top_p,
            temperature=self.temperature,
            logprobs=None if self.top_logprobs is None else True,
            top_logprobs=self.top_logprobs,
        )
        if self.max_tokens is not None:
            # OpenAI's reasoning models refuse the old name, and most other servers do not know the new one.
            names = ("max_completion_tokens", "max_tokens")
            in_turn = names if self.takes_newest_names else names[::-1]
            accepted = [name for name in in_turn if name not in capabilities.refused]
            settings |= {name: self.max_tokens for name in accepted[:1]}
        return settings

    @holds_prompt_as_text
    def body(self, request: ModelRequest) -> dict[str, Any]:
        shape = _chat_shape(request.schema, request.mode)
        return {"model": self.model, "messages": chat_messages(request), **request.settings, **shape}

    def read(self, data: object) -> Completion:
        choices = parts(data, "choices")
        message = choices[0].get("message") if choices else None
        if type(message) is not dict:
            raise no_answer_in(data, self.label)
        refusal = message.get("refusal")
        calls = parts(message, "tool_calls") if "tool_calls" in message else ()
        called = [part(call, "function", "arguments") for call in calls]
        # In the mode of tools the arguments are the answer, whatever stands beside them.
        content = called[0] if called and called[0] else message.get("content")
        likely = choices[0].get("logprobs")
        return Completion(
            _plain(content) or str(refusal or ""),
            "refusal" if refusal else _FINISH.get(str(choices[0].get("finish_reason")), "stop"),
            token_logprobs(parts(likely, "content")) if likely else None,
        )

    def tokens(self, data: object) -> TokenCounts:
        return _tokens(part(data, "usage"), "prompt_tokens", "completion_tokens")


@dataclass(frozen=True, kw_only=True, repr=False)
class OpenAIChat(ChatCompletions):
    """A model behind Chat Completions: OpenAI, vLLM, llama.cpp, LM Studio, Ollama, and proxies.

    `OPENAI_API_KEY` is sent to OpenAI and to the `OPENAI_BASE_URL` of the environment; another `base_url`
    gets the key that it is given as `api_key`, or none.
    """

    provider: ClassVar[str] = "openai"
    home: ClassVar[Home] = OPENAI

    @property
    def takes_newest_names(self) -> bool:
        return is_openai(self.url)


@dataclass(frozen=True, kw_only=True, repr=False)
class AzureOpenAI(ChatCompletions):
    """A deployment of Azure OpenAI: `model` is its name and `base_url` the resource's endpoint."""

    api_version: str | None = None

    provider: ClassVar[str] = "azure"
    own_settings: ClassVar[tuple[str, ...]] = ("api_version",)

    @property
    def takes_newest_names(self) -> bool:
        return True

    def default_url(self) -> str:
        url = os.environ.get("AZURE_OPENAI_ENDPOINT")
        if not url:
            raise ConfigurationError(
                f"{self.label} needs its endpoint: set AZURE_OPENAI_ENDPOINT, or give base_url='https://...'."
            )
        return url

    def enforces_schemas(self) -> bool:
        return is_within(self.url, "azure.com")

    def key_variable(self) -> str | None:
        return "AZURE_OPENAI_API_KEY"

    def authorization(self, key: str) -> Mapping[str, str]:
        return {"api-key": key}

    def path(self) -> str:
        version = self.api_version or os.environ.get("AZURE_OPENAI_API_VERSION") or AZURE_API_VERSION
        deployment = quote(self.model, safe="")
        return f"{self.url}/openai/deployments/{deployment}/chat/completions?api-version={quote(version)}"

    @holds_prompt_as_text
    def body(self, request: ModelRequest) -> dict[str, Any]:
        body = super().body(request)
        del body["model"]  # the path names the deployment
        return body


@dataclass(frozen=True, kw_only=True, repr=False)
class OpenAIResponses(HttpJudge):
    """A model behind OpenAI's Responses API. Replies are not stored there."""

    provider: ClassVar[str] = "openai"
    home: ClassVar[Home] = OPENAI
    lacks: ClassVar[tuple[str, ...]] = ("seed",)

    def path(self) -> str:
        return f"{self.url}/responses"

    def settings(self, capabilities: Capabilities) -> Mapping[str, Any]:
        include = None if self.top_logprobs is None else ["message.output_text.logprobs"]
        return omit_none(
            top_p=self.top_p,
            temperature=self.temperature,
            max_output_tokens=self.max_tokens,
            top_logprobs=self.top_logprobs,
            include=include,
        )

    @holds_prompt_as_text
    def body(self, request: ModelRequest) -> dict[str, Any]:
        return {
            "model": self.model,
            "input": request.prompt,
            "store": False,
            **omit_none(instructions=request.system),
            **request.settings,
            **_responses_shape(request.schema, request.mode),
        }

    def read(self, data: object) -> Completion:
        output = parts(data, "output")
        whole = part(data, "output_text")  # some servers give the text only in one piece
        if not output and not whole and part(data, "status") not in ("incomplete", "completed"):
            raise no_answer_in(data, self.label)
        contents = [each for item in output for each in parts(item, "content")]
        refusal = "".join(str(each["refusal"]) for each in contents if each.get("refusal"))
        written = _of_type("output_text", contents)
        called = _of_type("function_call", output)
        text = str(called[0].get("arguments")) if called else "".join(str(t.get("text", "")) for t in written)
        return Completion(
            text or _plain(whole) or refusal,
            "refusal" if refusal else _responses_finish(data),
            token_logprobs(entry for each in written for entry in parts(each, "logprobs")),
        )

    def tokens(self, data: object) -> TokenCounts:
        return _tokens(part(data, "usage"), "input_tokens", "output_tokens")


def no_answer_in(data: object, label: str) -> JudgeReplyError:
    """Return the error for a reply of another shape than the protocol's."""
    shown = shorten(json.dumps(data, ensure_ascii=False), 200)
    return JudgeReplyError(f"{label}: the server's reply holds no answer: {shown}")


def _chat_shape(schema: JsonSchemaDict | None, mode: Mode) -> dict[str, Any]:
    if schema is None or mode is Mode.TEXT:
        return {}
    if mode is Mode.JSON:
        return {"response_format": {"type": "json_object"}}
    if mode is Mode.TOOL:
        function = {"name": ANSWER, "description": "Give the answer.", "parameters": schema}
        choice = {"type": "function", "function": {"name": ANSWER}}
        return {"tools": [{"type": "function", "function": function}], "tool_choice": choice}
    named = {"name": ANSWER, "schema": schema_for_mode(schema, mode), "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def _responses_shape(schema: JsonSchemaDict | None, mode: Mode) -> dict[str, Any]:
    if schema is None or mode is Mode.TEXT:
        return {}
    if mode is Mode.JSON:
        return {"text": {"format": {"type": "json_object"}}}
    if mode is Mode.TOOL:
        # Strict unless it says otherwise, and this mode is for what has refused a strict schema.
        tool = {"type": "function", "name": ANSWER, "parameters": schema, "strict": False}
        return {"tools": [tool], "tool_choice": {"type": "function", "name": ANSWER}}
    named = {"type": "json_schema", "name": ANSWER, "schema": schema_for_mode(schema, mode), "strict": True}
    return {"text": {"format": named}}


def _plain(content: object) -> str:
    """Return the text of a message's content, which some servers give in pieces and some as an object."""
    if type(content) is str:
        return content
    if isinstance(content, list):
        return "".join(str(piece.get("text", "")) for piece in content if isinstance(piece, Mapping))
    if isinstance(content, Mapping):
        return json.dumps(content, ensure_ascii=False)
    return ""


def _tokens(usage: object, read: str, written: str) -> TokenCounts:
    """Read the usage of either protocol: they differ in what they call the tokens read and written."""
    if type(usage) is not dict:
        return TokenCounts()
    of_read, of_written = usage.get(f"{read}_details"), usage.get(f"{written}_details")
    return TokenCounts(
        count(usage.get(read)),
        count(usage.get(written)),
        count(of_read.get("cached_tokens")) if type(of_read) is dict else None,
        count(of_written.get("reasoning_tokens")) if type(of_written) is dict else None,
    )


def _of_type(kind: str, entries: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [entry for entry in entries if entry.get("type") == kind]


def _responses_finish(data: object) -> Finish:
    if part(data, "status") != "incomplete":
        return "stop"
    return "filter" if part(data, "incomplete_details", "reason") == "content_filter" else "length"
