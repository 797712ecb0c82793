"""What an endpoint and model were found to refuse, remembered for the rest of the process.

A request that is refused is sent again with a fallback: another way to enforce the shape, or without the
parameter that the endpoint does not support.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from http import HTTPStatus
from typing import Final, NamedTuple, TypeVar

from dokimos._http.refusal import ErrorReply, RequestRefused
from dokimos._runtime.time_limits import give_extra_time
from dokimos.judges._protocol import JsonSchemaDict

T = TypeVar("T")


class Mode(IntEnum):
    """How the shape of a reply is enforced, the strictest way first."""

    SCHEMA = 0
    SIMPLE_SCHEMA = 1
    """Without the bounds and patterns that some providers do not allow in a schema."""
    TOOL = 2
    JSON = 3
    TEXT = 4


SYSTEM: Final = "system"
_LOGPROBS: Final = ("logprobs", "top_logprobs", "include", "responseLogprobs")
_TOKEN_LIMITS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")

# Providers and local servers share no code for it: these are the words of their messages. Where one is
# missing here, the call fails instead of falling back; one too many costs a repeated request.
_UNSUPPORTED: Final = re.compile(
    r"unsupported|not support|n't support|unknown|unrecogni[sz]ed|unexpected|not allowed|not permitted"
    r"|extra inputs|extra fields|deprecated|cannot (both )?be|can't be|not available|not enabled"
    r"|only the default|not implemented|not valid for|invalid param|incompatible|is not a valid"
    r"|does not take|no longer|not accept",
    re.IGNORECASE,
)
_ABOUT_SHAPE: Final = re.compile(
    r"response_?format|json_?\s?schema|json[_ ]object|structured[_ ]output|text\.format|output_?config"
    r"|json mode|response_?mime_?type|output_format|guided|grammar|\bschema\b|\bstrict\b"
    r"|\bformat\b|\btools?\b|tool_choice|\bfunctions?\b",
    re.IGNORECASE,
)
_ABOUT_ONE_SCHEMA: Final = re.compile(
    r"invalid[ _](json[ _])?schema|schema[^.]{0,40}(is|was) (invalid|not valid|too)|minimum|maximum"
    r"|min_?length|max_?length|min_?items|max_?items|\bpattern\b|multiple_?of|additional_?properties|\bkeywords?\b",
    re.IGNORECASE,
)
_ABOUT_SYSTEM: Final = re.compile(
    r"\bsystem\b|\bdeveloper\b|messages\[0\]\.role|\binstructions?\b", re.IGNORECASE
)
_LOOK_SECONDS: Final = 0.5
_SAYS_NOTHING: Final = frozenset({"", "bad request", "invalid request", "unprocessable entity", "no message"})
_REFUSALS: Final = frozenset({400, 404, 405, 415, 422, 500, 501})
"""Also the status of models without token probabilities; it counts only if it names a parameter."""


class Attempt(NamedTuple):
    """What a request contained besides its prompt."""

    mode: Mode
    optional: Sequence[str]
    """Names of its parameters that can be left out."""
    schema: JsonSchemaDict | None = None


@dataclass(frozen=True, slots=True)
class Concession:
    """The fallback after a refusal; `parameter` names what is left out from now on, if anything."""

    parameter: str = ""

    @property
    def is_a_loss(self) -> bool:
        """Whether something that the user asked for is left out from now on."""
        return bool(self.parameter) and self.parameter not in _TOKEN_LIMITS


class Capabilities:
    """What one model at one endpoint supports."""

    def __init__(self) -> None:
        self.refused: frozenset[str] = frozenset()
        self._floor = Mode.SCHEMA
        self._floor_of: dict[str, Mode] = {}
        self._answered_kinds: set[bool] = set()
        self._probe: asyncio.Future[None] | None = None

    def mode(self, modes: Sequence[Mode], schema: JsonSchemaDict | None) -> Mode:
        """Return the strictest of a provider's modes that the model has not refused."""
        if schema is None:
            return Mode.TEXT
        floor = self._floor
        if self._floor_of:
            floor = max(floor, self._floor_of.get(_key(schema), floor))
        for mode in modes:
            if mode >= floor:
                return mode
        return Mode.TEXT  # the last mode of each provider

    def is_known_to_work(self, structured: bool) -> bool:
        """Say whether a call of this kind has been answered."""
        return structured in self._answered_kinds

    async def probe_first(self, structured: bool, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call. While the very first call finds out what works, the others wait for it, once."""
        probe = self._probe
        loop = asyncio.get_running_loop()
        if probe is not None and not probe.done() and probe.get_loop() is loop:
            while not probe.done():
                give_extra_time(_LOOK_SECONDS)  # nothing was sent yet
                await asyncio.wait((probe,), timeout=_LOOK_SECONDS)
            return await call()
        probe = self._probe = loop.create_future()
        try:
            result = await call()
            self._answered_kinds.add(structured)
            return result
        finally:
            probe.set_result(None)

    def learn(self, refusal: RequestRefused, attempt: Attempt) -> Concession | None:
        """Remember what a refusal is about and return the fallback, None if there is none."""
        if refusal.status not in (*_REFUSALS, HTTPStatus.FORBIDDEN):
            return None
        reply = refusal.error_reply
        parameter = _find_refused_parameter(reply, attempt.optional)
        if parameter is not None:
            group = _LOGPROBS if parameter in _LOGPROBS else (parameter,)
            was_known = self.refused.issuperset(group)  # by another call that was sent at the same time
            self.refused |= frozenset(group)
            return Concession("" if was_known else group[0])
        if refusal.status == HTTPStatus.FORBIDDEN:
            return None
        if attempt.mode is not Mode.TEXT and _is_about_shape(reply):
            self._step_down(reply, attempt)
            return Concession()
        return None

    def _step_down(self, reply: ErrorReply, attempt: Attempt) -> None:
        text = f"{reply.message} {reply.code}"
        following = Mode(attempt.mode + 1)
        if attempt.schema is not None and _ABOUT_ONE_SCHEMA.search(text):
            self._floor_of[_key(attempt.schema)] = following
        else:
            # Nothing says that this schema is at fault, so a simpler one would be refused as well.
            self._floor = max(self._floor, Mode.TOOL if attempt.mode is Mode.SCHEMA else following)


_capabilities: dict[tuple[str, str], Capabilities] = {}


def capabilities_of(key: tuple[str, str]) -> Capabilities:
    """Return what this process knows about a model: an endpoint and the model's name make the key."""
    capabilities = _capabilities.get(key)
    if capabilities is None:
        capabilities = _capabilities.setdefault(key, Capabilities())
    return capabilities


def forget_capabilities() -> None:
    """Forget the capabilities of all models, as if the process had just started."""
    _capabilities.clear()


def _find_refused_parameter(reply: ErrorReply, optional: Iterable[str]) -> str | None:
    text = f"{reply.message} {reply.code}"
    if not _UNSUPPORTED.search(text):
        return None
    for name in optional:
        if reply.param == name or re.search(rf"\b{name}\b", reply.message, re.IGNORECASE):
            return name
        if name == SYSTEM and (_ABOUT_SYSTEM.search(f"{reply.param} {reply.message}")):
            return name
    return None


def _is_about_shape(reply: ErrorReply) -> bool:
    if reply.message.lower().strip(" .") in _SAYS_NOTHING:
        return True  # of all parts of a request, servers most often lack the schema
    return _ABOUT_SHAPE.search(f"{reply.message} {reply.param} {reply.code}") is not None


def _key(schema: JsonSchemaDict) -> str:
    return json.dumps(schema, sort_keys=True)
