"""Embedders by name: `openai:text-embedding-3-small`, `azure:...`, `ollama:...`, `http://host:port/v1#model`."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from dokimos._http.credentials import redact_url
from dokimos._http.refusal import RequestRefused
from dokimos.errors import ConfigurationError, JudgeReplyError
from dokimos.judges._completion import TokenCounts, count, part, parts
from dokimos.judges._embeddings import BATCH_SIZE, Embeddings
from dokimos.judges._factory import judge
from dokimos.judges._ollama import OllamaNative
from dokimos.judges._openai import no_answer_in
from dokimos.judges._provider import HttpJudge

EXAMPLES: Final = (
    "'openai:text-embedding-3-small', 'ollama:nomic-embed-text' or 'http://localhost:8000/v1#my-model'"
)
KINDS: Final = {"openai": "openai-chat", "azure": "azure", "ollama": "ollama"}
_SETTINGS: Final = (
    "base_url", "api_key", "api_version", "timeout", "attempts", "headers", "prices", "max_concurrency",
    "requests_per_minute", "tokens_per_minute", "max_reply_mb",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, repr=False)
class HttpEmbedder:
    """A model behind an HTTP protocol; made by `embedder`."""

    endpoint: HttpJudge
    """Where the model is, with its key, limits and prices."""
    dimensions: int | None = None
    """How long the vectors are to be, where the model can make them shorter."""
    batch_size: int = BATCH_SIZE
    """How many texts go into one request."""

    concurrency: ClassVar[int] = 8

    def __post_init__(self) -> None:
        for name in ("dimensions", "batch_size"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ConfigurationError(f"{self.endpoint.label}: {name} must be at least 1, not {value!r}.")

    @property
    def identity(self) -> str:
        """What tells this embedder from another: protocol, endpoint, model and dimensions, never the key."""
        made = "" if self.dimensions is None else f" (dimensions={self.dimensions})"
        return f"embeddings of {self.endpoint.label} at {redact_url(self.endpoint.url)}{made}"

    def __repr__(self) -> str:
        return f"<{self.identity}>"

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return one vector for each text.

        Raises:
            JudgeUnavailableError: when there is no answer; says provider, model, status and why.
            JudgeReplyError: when the answer is none.
            ConfigurationError: when the key is missing.
        """
        body: dict[str, Any] = {"model": self.endpoint.model, "input": list(texts)}
        if self.dimensions is not None:
            body["dimensions"] = self.dimensions
        if self._is_ollama:
            body["truncate"] = False  # or a text that is too long would be cut off silently
        content, tokens = json.dumps(body).encode(), sum(map(len, texts)) // 4
        try:
            reply = await self.endpoint.send(self._url(), content, tokens=tokens)
        except RequestRefused as refusal:
            raise self.endpoint.error_of(refusal) from None
        metrics = self.endpoint.metrics_of(self._tokens(reply.data), reply.latency_ms)
        return Embeddings(self._vectors(reply.data), metrics)

    @property
    def _is_ollama(self) -> bool:
        return isinstance(self.endpoint, OllamaNative)

    def _url(self) -> str:
        path = self.endpoint.path()
        if self._is_ollama:
            return path.replace("/api/chat", "/api/embed")
        return path.replace("/chat/completions", "/embeddings")

    def _vectors(self, data: object) -> list[Any]:
        if self._is_ollama:
            vectors = part(data, "embeddings")
        else:
            entries = sorted(enumerate(parts(data, "data")), key=lambda each: each[1].get("index", each[0]))
            vectors = [entry.get("embedding") for _, entry in entries]
        if not (isinstance(vectors, list) and vectors and all(isinstance(each, list) for each in vectors)):
            raise no_answer_in(data, self.endpoint.label)
        wrong = next((len(each) for each in vectors if len(each) != (self.dimensions or len(each))), None)
        if wrong is not None:
            raise JudgeReplyError(
                f"{self.endpoint.label}: asked for {self.dimensions} dimensions, it gave {wrong}; leave "
                "dimensions out where the model cannot change them."
            )
        return vectors

    def _tokens(self, data: object) -> TokenCounts:
        if self._is_ollama:
            return TokenCounts(count(part(data, "prompt_eval_count")), 0)
        return TokenCounts(count(part(data, "usage", "prompt_tokens")), 0)


def embedder(
    name: str, *, dimensions: int | None = None, batch_size: int = BATCH_SIZE, **settings: Any
) -> HttpEmbedder:
    """Return the embedder that a name stands for.

    Names are `openai:MODEL`, `azure:DEPLOYMENT`, `ollama:MODEL`, or the URL of a server that speaks OpenAI's
    protocol with the model after a `#`. Settings are those of `judge` that concern the endpoint:
    `base_url`, `api_key`, `api_version`, `timeout`, `attempts`, `headers`, `prices`, `max_concurrency`,
    `requests_per_minute`, `tokens_per_minute` and `max_reply_mb`.

    Args:
        name: Which provider and model.
        dimensions: How long the vectors are to be, where the model can make them shorter.
        batch_size: How many texts go into one request.
        settings: See above.

    Raises:
        ConfigurationError: for a name or setting that does not exist.
    """
    for setting in settings:
        if setting not in _SETTINGS:
            raise ConfigurationError(
                f"An embedder has no setting {setting!r}.{_near(setting, _SETTINGS)} "
                f"It has dimensions, batch_size, {', '.join(_SETTINGS)}."
            )
    kind, _, model = name.partition(":")
    if not name.startswith(("http://", "https://")):
        if kind not in KINDS:
            reason = "Anthropic offers no embeddings" if kind == "anthropic" else f"Unknown provider {kind!r}"
            raise ConfigurationError(
                f"{reason}; an embedder is named like {EXAMPLES}.{_near(kind, tuple(KINDS))}"
            )
        name = f"{KINDS[kind]}:{model}"
        named = bool(model)
    else:
        named = bool(name.partition("#")[2])
    if not named:
        raise ConfigurationError(f"{name!r} does not name a model; an embedder is named like {EXAMPLES}.")
    return HttpEmbedder(endpoint=judge(name, **settings), dimensions=dimensions, batch_size=batch_size)


def _near(name: str, names: Sequence[str]) -> str:
    similar = difflib.get_close_matches(name, names, n=1)
    return f" Did you mean {similar[0]!r}?" if similar else ""
