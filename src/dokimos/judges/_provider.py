"""What all judges behind an HTTP protocol share: configuration, identity, adaptation and cost."""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Final, Self

from dokimos._core.fast_constructor import fast_factory
from dokimos._core.metrics import CallMetrics, PriceTable
from dokimos._http.address import find_url_fault, has_login
from dokimos._http.body import max_reply_bytes
from dokimos._http.client import (
    Reply,
    Target,
    close_sessions,
    error_of_refusal,
    post_json,
    tokens_used,
)
from dokimos._http.credentials import Secret, redact_url, secrets_of_headers
from dokimos._http.refusal import RequestRefused
from dokimos._http.retries import ATTEMPTS
from dokimos._http.throttle import Limits
from dokimos._runtime.redaction import register_secret
from dokimos._runtime.terminal_text import escape_control_characters
from dokimos.errors import ConfigurationError, JudgeReplyError, JudgeUnavailableError
from dokimos.judges._body_encoder import BodyEncoder
from dokimos.judges._capabilities import SYSTEM, Attempt, Capabilities, Mode, capabilities_of
from dokimos.judges._completion import Completion, TokenCounts, explain_incomplete
from dokimos.judges._model_request import Home, ModelRequest
from dokimos.judges._prices import cost_of
from dokimos.judges._protocol import JsonSchemaDict, JudgeReply

MAX_ADAPTATIONS: Final = 10
ASSUMED_REPLY: Final = 300
"""Tokens that a reply is assumed to take where `max_tokens` does not say, for a ceiling on tokens."""
_new_metrics: Final = fast_factory(CallMetrics)
_new_reply: Final = fast_factory(JudgeReply)
_SETTINGS: Final = ("temperature", "max_tokens", "top_p", "seed", "top_logprobs", "system")


@dataclass(frozen=True, kw_only=True, repr=False)
class HttpJudge(ABC):
    """A model behind an HTTP protocol."""

    model: str = field(kw_only=False)
    """The model's name, as its provider spells it."""
    base_url: str | None = None
    """The root of the API; the provider's own, or the one that the environment names, unless given."""
    api_key: str | Secret | None = field(default=None, compare=False)
    """Taken from the environment at the first call unless given; never shown."""
    temperature: float | None = 0.0
    """None leaves the choice to the provider."""
    max_tokens: int | None = None
    """The most tokens that a reply may have, reasoning included."""
    top_p: float | None = None
    seed: int | None = None
    top_logprobs: int | None = None
    """How many likely tokens to ask for in the place of each; None asks for no probabilities."""
    system: str | None = None
    """A system message that goes before every prompt."""
    timeout: float = 300.0
    """Seconds that one attempt may take."""
    attempts: int = ATTEMPTS
    """How often a request is sent at most where the endpoint fails; 1 never tries again."""
    max_reply_mb: float | None = None
    """The most megabytes that a reply may have, decompressed; 16, or as DOKIMOS_MAX_REPLY_MB says."""
    headers: Mapping[str, str | Secret] = field(default_factory=dict, compare=False)
    """Extra headers; their values are never shown."""
    prices: PriceTable | None = field(default=None, compare=False)
    """What tokens cost; without it the cost is not known."""
    max_concurrency: int | None = None
    """The most calls at once to this endpoint; found out by trying, up to 64, unless given."""
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None

    provider: ClassVar[str]
    home: ClassVar[Home]
    """Of a provider that has one place."""
    modes: ClassVar[tuple[Mode, ...]] = tuple(Mode)
    """How a reply can be held to a shape, the strictest way first."""
    fixed_headers: ClassVar[Mapping[str, str]] = {}
    lacks: ClassVar[tuple[str, ...]] = ()
    """Settings that the protocol does not have."""
    own_settings: ClassVar[tuple[str, ...]] = ()
    """Settings of this protocol alone that change replies."""

    identity: str = field(init=False, compare=False)
    """What tells this judge from another: protocol, endpoint, model and parameters, never the key."""
    _target: Target = field(init=False, compare=False)
    _capabilities_key: tuple[str, str] = field(init=False, compare=False)
    _encoder: BodyEncoder = field(init=False, compare=False)

    def __post_init__(self) -> None:
        for name in self.lacks:
            if getattr(self, name) is not None:
                raise ConfigurationError(
                    f"{type(self).__name__} has no {name}; its protocol does not have it."
                )
        _check_numbers(self)
        url = (self.base_url or self.default_url()).rstrip("/")
        self._check_url(url)
        for name, value in (
            ("base_url", url),
            ("api_key", None if self.api_key is None else _key_of(self.api_key)),
            ("headers", {name: Secret(value) for name, value in self.headers.items()}),
            ("identity", self._identity(url)),
            ("_target", self._target_at(url)),
            ("_capabilities_key", (f"{type(self).__name__} {url}", self.model)),
            ("_encoder", BodyEncoder()),
        ):
            object.__setattr__(self, name, value)

    def _check_url(self, url: str) -> None:
        fault = find_url_fault(url, is_root=True)
        if fault is None and self.api_key and has_login(url) and "Authorization" in self.authorization(""):
            fault = (
                "holds a user and password, which would go into the same header as the api_key; "
                "leave one of them out"
            )
        if fault is not None:
            raise ConfigurationError(f"{self.label}: base_url {fault}; it is {redact_url(url)!r}.")

    @property
    def label(self) -> str:
        """Provider and model, as errors name them."""
        return f"{self.provider} {self.model}"

    @property
    def url(self) -> str:
        """The root of the API."""
        assert self.base_url is not None
        return self.base_url

    def __repr__(self) -> str:
        return f"<{self.identity}>"

    def with_settings(self, **settings: Any) -> Self:
        """Return this judge with other settings."""
        return replace(self, **settings)

    def with_logprobs(self, top: int = 5) -> Self:
        """Return this judge asking for token probabilities; the same one where its protocol has none."""
        return self if "top_logprobs" in self.lacks else replace(self, top_logprobs=top)

    async def complete(self, prompt: str, *, schema: JsonSchemaDict | None = None) -> JudgeReply:
        """Answer a prompt.

        Raises:
            JudgeUnavailableError: when there is no answer; says provider, model, status and why.
            JudgeReplyError: when the reply was cut off, filtered or declined; still says what it cost.
            ConfigurationError: when the key is missing.
        """
        completion, metrics = await self.answer(prompt, schema=schema)
        problem = explain_incomplete(completion, self.max_tokens)
        if problem is not None:
            raise JudgeReplyError(f"{self.label}: {problem}", metrics=metrics)
        return _new_reply(completion.text, metrics, completion.logprobs, self._is_held_to(schema))

    def answer(
        self, prompt: str, *, schema: JsonSchemaDict | None = None
    ) -> Coroutine[Any, Any, tuple[Completion, CallMetrics]]:
        """Answer a prompt, also where the answer is cut off or declined, as `finish` says."""
        capabilities = self._capabilities()
        if capabilities.is_known_to_work(schema is not None):
            return self._answer_adapting(prompt, schema, capabilities)
        call = partial(self._answer_adapting, prompt, schema, capabilities)
        return capabilities.probe_first(schema is not None, call)

    def _is_held_to(self, schema: JsonSchemaDict | None) -> bool:
        """Say whether the server is known to hold replies to a schema."""
        if schema is None or not self.enforces_schemas():
            return False
        mode = self._capabilities().mode(self.modes, schema)
        return mode in (Mode.SCHEMA, Mode.SIMPLE_SCHEMA)

    async def aclose(self) -> None:
        """Close the connections of this event loop that nobody is using."""
        await close_sessions()

    def _capabilities(self) -> Capabilities:
        return capabilities_of(self._capabilities_key)

    async def _answer_adapting(
        self, prompt: str, schema: JsonSchemaDict | None, capabilities: Capabilities
    ) -> tuple[Completion, CallMetrics]:
        """Ask, leaving out what the model refuses."""
        for _ in range(MAX_ADAPTATIONS):
            content, attempt = self._build_request(prompt, schema, capabilities)
            try:
                reply = await self.send(self.path(), content, tokens=self._estimate(prompt))
            except RequestRefused as refusal:
                self._learn(capabilities, refusal, attempt)
                continue
            return self._read(reply, prompt)
        raise JudgeUnavailableError(f"{self.label}: the endpoint refuses every form of the request.")

    def _build_request(
        self, prompt: str, schema: JsonSchemaDict | None, capabilities: Capabilities
    ) -> tuple[bytes, Attempt]:
        """Return the request as JSON, and what it contains besides its prompt."""
        mode = capabilities.mode(self.modes, schema)
        accepted = self.settings(capabilities)
        if capabilities.refused:
            accepted = {name: value for name, value in accepted.items() if name not in capabilities.refused}
        text, system = self._messages(prompt, capabilities)
        content = self._encoder.encode(self.body, ModelRequest(text, system, schema, mode, accepted))
        optional = (*accepted, *((SYSTEM,) if self.system else ()))
        return content, Attempt(mode, optional, schema)

    def _read(self, reply: Reply, prompt: str) -> tuple[Completion, CallMetrics]:
        metrics = self.metrics_of(self.tokens(reply.data), reply.latency_ms)
        if self.tokens_per_minute is not None:
            tokens_used(self._target, metrics.tokens or 0, estimate=self._estimate(prompt))
        try:
            return self.read(reply.data), metrics
        except JudgeReplyError as unusable:
            unusable.metrics = metrics  # it was paid for
            raise

    def _learn(self, capabilities: Capabilities, refusal: RequestRefused, attempt: Attempt) -> None:
        concession = capabilities.learn(refusal, attempt)
        if concession is None:
            raise self.error_of(refusal) from None
        if concession.is_a_loss:
            how = "goes into the prompt" if concession.parameter == SYSTEM else "is left out"
            warnings.warn(
                escape_control_characters(
                    f"{self.label} does not take {concession.parameter}; it {how} from now on."
                ),
                stacklevel=2,
            )

    def _messages(self, prompt: str, capabilities: Capabilities) -> tuple[str, str | None]:
        if self.system and SYSTEM in capabilities.refused:
            return f"{self.system}\n\n{prompt}", None
        return prompt, self.system or None

    def send(self, url: str, content: bytes, *, tokens: int) -> Coroutine[Any, Any, Reply]:
        """Post JSON to the endpoint with its key, as patiently as the settings say.

        Raises:
            RequestRefused: when the request itself is wrong.
            JudgeUnavailableError: when there is no answer.
            ConfigurationError: when the key is missing.
        """
        key = self._key()
        headers = {"Content-Type": "application/json", **self.fixed_headers}
        if key is not None:
            headers.update(self.authorization(key.reveal()))
        if self.headers:
            headers.update((name, Secret(value).reveal()) for name, value in self.headers.items())
        return post_json(
            self._target, url, content, headers=headers, secrets=self._secrets(key), tokens=tokens
        )

    def error_of(self, refusal: RequestRefused) -> JudgeUnavailableError:
        """Return the error for a refusal from which nothing is learnt."""
        return error_of_refusal(self._target, refusal, self._secrets(self._key()))

    def _secrets(self, key: Secret | None) -> tuple[Secret, ...]:
        secrets = secrets_of_headers(self.headers) if self.headers else ()
        return secrets if key is None else (*secrets, key)

    def metrics_of(self, tokens: TokenCounts, latency_ms: float) -> CallMetrics:
        """Return what a call cost, in dollars too where there is a price."""
        metrics = _new_metrics(
            tokens.tokens_in,
            tokens.tokens_out,
            latency_ms=latency_ms,
            model=self.model,
            cached_tokens_in=tokens.cached,
            reasoning_tokens_out=tokens.reasoning,
        )
        return metrics if self.prices is None else replace(metrics, cost_usd=cost_of(self.prices, metrics))

    def _estimate(self, prompt: str) -> int:
        # About four characters to a token, in English; the reply says how many there were.
        return len(prompt) // 4 + (self.max_tokens or ASSUMED_REPLY)

    def _key(self) -> Secret | None:
        if isinstance(self.api_key, Secret):
            return self.api_key
        variable = self.key_variable()
        if variable is None:
            return None
        value = os.environ.get(variable)
        if not value:
            raise ConfigurationError(f"{self.label} needs a key: set {variable}, or pass api_key='...'.")
        return _key_of(value)

    def _identity(self, url: str) -> str:
        given = {name: getattr(self, name) for name in (*_SETTINGS, *self.own_settings)}
        settings = ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)
        return f"{type(self).__name__} {self.model} at {redact_url(url)} ({settings})"

    def _target_at(self, url: str) -> Target:
        limits = Limits(
            max_concurrency=self.max_concurrency,
            requests_per_minute=self.requests_per_minute,
            tokens_per_minute=self.tokens_per_minute,
        )
        return Target(
            base_url=url,
            label=self.label,
            limits=limits,
            timeout=self.timeout,
            attempts=self.attempts,
            most_bytes=max_reply_bytes(self.max_reply_mb),
        )

    def default_url(self) -> str:
        """Return the root of the API where none is given."""
        return self.home.root()

    def enforces_schemas(self) -> bool:
        """Say whether a schema that the endpoint takes is known to be enforced.

        At the provider's own endpoint it is. Others that speak its protocol may take it and ignore it.
        """
        return self.home.owns(self.url)

    def key_variable(self) -> str | None:
        """Return the environment variable with the key, None where the endpoint needs none."""
        return self.home.key_for(self.url)

    def authorization(self, key: str) -> Mapping[str, str]:
        """Return the headers that carry the key."""
        return {"Authorization": f"Bearer {key}"}

    @abstractmethod
    def path(self) -> str:
        """Return the URL that prompts go to."""

    @abstractmethod
    def settings(self, capabilities: Capabilities) -> Mapping[str, Any]:
        """Return the parameters of the request that the model might refuse."""

    @abstractmethod
    def body(self, request: ModelRequest) -> dict[str, Any]:
        """Return the request."""

    @abstractmethod
    def read(self, data: object) -> Completion:
        """Read the reply. Raises `JudgeReplyError` where it is none."""

    @abstractmethod
    def tokens(self, data: object) -> TokenCounts:
        """Read what the reply cost, also where it is of no use."""


_POSITIVE: Final = (
    "max_tokens", "top_logprobs", "timeout", "attempts", "max_concurrency", "requests_per_minute",
    "tokens_per_minute", "max_reply_mb",
)  # fmt: skip


def _key_of(value: str | Secret) -> Secret:
    """Return a key without the line break at its end that files leave, known from now on as a secret."""
    key = Secret(Secret(value).reveal().strip())
    register_secret(key.reveal())
    return key


def _check_numbers(judge: HttpJudge) -> None:
    for name in _POSITIVE:
        value = getattr(judge, name)
        # Not `value <= 0`, which NaN is not either.
        if value is not None and not value > 0:
            raise ConfigurationError(f"{judge.label}: {name} must be above 0, not {value!r}.")
