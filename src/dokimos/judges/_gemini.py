"""Google's Gemini API, `generateContent`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final
from urllib.parse import quote

from dokimos.judges._body_encoder import holds_prompt_as_text
from dokimos.judges._capabilities import Capabilities, Mode
from dokimos.judges._completion import Completion, Finish, TokenCounts, count, part, parts
from dokimos.judges._model_request import Home, ModelRequest, omit_none
from dokimos.judges._openai import no_answer_in
from dokimos.judges._protocol import JsonSchemaDict, TokenLogprob
from dokimos.judges._provider import HttpJudge
from dokimos.judges._provider_schemas import ANSWER, schema_for_mode

GEMINI: Final = Home(
    url="https://generativelanguage.googleapis.com",
    domain="googleapis.com",
    url_variable="GOOGLE_GEMINI_BASE_URL",
    key_variable="GEMINI_API_KEY",
)
SECOND_KEY_VARIABLE: Final = "GOOGLE_API_KEY"
"""The other variable that Google's own clients read."""
VERSION: Final = "v1beta"

_FINISH: Final[dict[str, Finish]] = {
    "MAX_TOKENS": "length",
    "SAFETY": "filter",
    "RECITATION": "filter",
    "BLOCKLIST": "filter",
    "PROHIBITED_CONTENT": "filter",
    "SPII": "filter",
}


@dataclass(frozen=True, kw_only=True, repr=False)
class Gemini(HttpJudge):
    """A model behind the Gemini API.

    The key is `GEMINI_API_KEY`, or `GOOGLE_API_KEY` where the first is not set. Models that think count their
    thoughts among the tokens of `max_tokens`.

    Example:
        >>> from dokimos import judge
        >>> judge("gemini:gemini-2.5-flash", seed=7)
        <Gemini gemini-2.5-flash at https://generativelanguage.googleapis.com (temperature=0.0, seed=7)>
    """

    provider: ClassVar[str] = "gemini"
    home: ClassVar[Home] = GEMINI

    def key_variable(self) -> str | None:
        uses_second = not os.environ.get(GEMINI.key_variable) and os.environ.get(SECOND_KEY_VARIABLE)
        home = replace(GEMINI, key_variable=SECOND_KEY_VARIABLE) if uses_second else GEMINI
        return home.key_for(self.url)

    def path(self) -> str:
        model = self.model if "/" in self.model else f"models/{self.model}"
        return f"{self.url.removesuffix(f'/{VERSION}')}/{VERSION}/{quote(model)}:generateContent"

    def authorization(self, key: str) -> Mapping[str, str]:
        return {"x-goog-api-key": key}

    def settings(self, capabilities: Capabilities) -> Mapping[str, Any]:
        return omit_none(
            temperature=self.temperature,
            topP=self.top_p,
            seed=self.seed,
            maxOutputTokens=self.max_tokens,
            responseLogprobs=None if self.top_logprobs is None else True,
            logprobs=self.top_logprobs,
        )

    @holds_prompt_as_text
    def body(self, request: ModelRequest) -> dict[str, Any]:
        system = request.system and {"parts": [{"text": request.system}]}
        tool = _tool(request.schema) if request.schema is not None and request.mode is Mode.TOOL else {}
        return {
            "contents": [{"role": "user", "parts": [{"text": request.prompt}]}],
            **omit_none(systemInstruction=system),
            "generationConfig": {**request.settings, **_format(request.schema, request.mode)},
            **tool,
        }

    def read(self, data: object) -> Completion:
        candidates = parts(data, "candidates")
        if not candidates:
            # A prompt that is blocked has no candidates at all.
            if part(data, "promptFeedback", "blockReason"):
                return Completion("", "filter")
            raise no_answer_in(data, self.label)
        candidate = candidates[0]
        finish = _FINISH.get(str(candidate.get("finishReason")), "stop")
        pieces = parts(candidate, "content", "parts")
        if not pieces and finish == "stop":
            raise no_answer_in(data, self.label)
        called = [part(piece, "functionCall", "args") for piece in pieces if "functionCall" in piece]
        # Summaries of thoughts come among the parts of the answer, told apart by this mark alone.
        text = "".join(str(piece.get("text", "")) for piece in pieces if not piece.get("thought"))
        return Completion(
            json.dumps(called[0], ensure_ascii=False) if called else text,
            finish,
            _logprobs(part(candidate, "logprobsResult")),
        )

    def tokens(self, data: object) -> TokenCounts:
        usage = part(data, "usageMetadata")
        thoughts = count(part(usage, "thoughtsTokenCount"))
        written = count(part(usage, "candidatesTokenCount"))
        return TokenCounts(
            tokens_in=count(part(usage, "promptTokenCount")),
            # Thoughts are counted apart, and paid for like the answer.
            tokens_out=None if written is None and thoughts is None else (written or 0) + (thoughts or 0),
            cached=count(part(usage, "cachedContentTokenCount")),
            reasoning=thoughts,
        )


def _format(schema: JsonSchemaDict | None, mode: Mode) -> dict[str, Any]:
    if schema is None or mode in (Mode.TEXT, Mode.TOOL):
        return {}
    # Not responseSchema, which takes a dialect of its own, without $defs, additionalProperties and more.
    as_json = {"responseMimeType": "application/json"}
    return as_json if mode is Mode.JSON else {**as_json, "responseJsonSchema": schema_for_mode(schema, mode)}


def _tool(schema: JsonSchemaDict) -> dict[str, Any]:
    function = {"name": ANSWER, "description": "Give the answer.", "parametersJsonSchema": schema}
    return {
        "tools": [{"functionDeclarations": [function]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [ANSWER]}},
    }


def _logprobs(result: object) -> tuple[TokenLogprob, ...] | None:
    """Read token probabilities: the chosen tokens, and the likely ones from a list beside them."""
    chosen = parts(result, "chosenCandidates")
    tops = [parts(alternatives, "candidates") for alternatives in parts(result, "topCandidates")]
    tops += [[]] * (len(chosen) - len(tops))
    logprobs = [
        TokenLogprob(
            str(entry.get("token", "")),
            float(entry.get("logProbability", 0.0)),
            {str(each.get("token", "")): float(each.get("logProbability", 0.0)) for each in top},
        )
        for entry, top in zip(chosen, tops, strict=False)
    ]
    return tuple(logprobs) or None
