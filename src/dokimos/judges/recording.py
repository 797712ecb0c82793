"""A judge call with its reply, as a line of JSON that holds no secrets."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias

from dokimos.core.jsonable import jsonable
from dokimos.core.wire import from_json
from dokimos.judges.protocol import JudgeReply

Clean: TypeAlias = Callable[[str], str]
"""Takes out of a text what must not be written down."""

UNUSABLE: Final = "unusable"
"""Comes right after the key, where it is there at all."""
HIDDEN: Final = "[secret]"
SHORTEST_SECRET: Final = 16
"""The value of an environment variable that is shorter is no key, and could be an ordinary word."""

_KEY_STARTS: Final = (
    "sk-", "sk_", "pk_", "hf_", "glpat-", "github_pat_", "xai-", *(f"gh{kind}_" for kind in "pousr"),
    *(f"xox{kind}-" for kind in "abeprs"),
)  # fmt: skip
_OTHER_MARKS: Final = ("AKIA", "AIza", "eyJ", "earer ")
_KEY_LIKE: Final = re.compile(
    rf"\b(?:{'|'.join(_KEY_STARTS)}|gsk_|AKIA|AIza|eyJ)(?=[\w.-]*\d)[\w.-]{{16,}}"
    r"|(?<=earer )[\w.~+/=-]{20,}"
)
_SECRET_NAME: Final = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)

_encoded: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_encoded_sorted: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(", ", ": ")).encode


class Request(Protocol):
    """What a recording keeps of a call."""

    @property
    def key(self) -> str: ...
    @property
    def identity(self) -> str: ...
    @property
    def prompt(self) -> str: ...
    @property
    def schema_text(self) -> str: ...
    @property
    def repeat(self) -> int: ...
    @property
    def sample(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One call that was answered."""

    key: str
    judge: str
    """The identity of the judge that was asked."""
    prompt: str
    schema: str | None
    """A short hash of the JSON Schema; the prompt says it in full."""
    repeat: int
    sample: int
    reply: JudgeReply
    unusable: str | None = None
    """Why there is no reply, only what it cost; None where there is one."""

    @classmethod
    def of(
        cls, request: Request, reply: JudgeReply, clean: Clean, *, unusable: str | None = None
    ) -> Recording:
        return cls(
            key=request.key,
            judge=clean(request.identity),
            prompt=clean(request.prompt),
            schema=schema_hash(request.schema_text),
            repeat=request.repeat,
            sample=request.sample,
            reply=cleaned_reply(reply, clean),
            unusable=None if unusable is None else clean(unusable),
        )

    def to_line(self, *, stable: bool = False) -> bytes:
        """Return the line; a `stable` one has only what does not change from one recording to the next."""
        reply = jsonable(self.reply)
        assert isinstance(reply, dict), "a reply has fields"
        if stable:
            reply.pop("metrics", None)
        tree = {
            "key": self.key,
            **({} if self.unusable is None else {UNUSABLE: self.unusable}),
            "judge": self.judge,
            "repeat": self.repeat,
            "sample": self.sample,
            "schema": self.schema,
            "prompt": self.prompt,
            "reply": reply,
        }
        text = _encoded_sorted(tree) if stable else _encoded(tree)
        # Half a surrogate pair cannot be encoded; its escape is valid JSON and reads back as the same.
        return text.encode("utf-8", "backslashreplace") + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Recording:
        """Read a line. Raises `ValueError` where it is none of ours."""
        try:
            tree: dict[str, Any] = json.loads(line)
            return cls(
                key=tree["key"],
                judge=tree["judge"],
                prompt=tree["prompt"],
                schema=tree["schema"],
                repeat=tree["repeat"],
                sample=tree["sample"],
                reply=from_json(JudgeReply, tree["reply"]),
                unusable=tree.get(UNUSABLE),
            )
        except (KeyError, TypeError) as problem:
            raise ValueError(f"it is no recording: {problem!r}") from None


@lru_cache(maxsize=256)
def schema_hash(schema_text: str) -> str | None:
    """Return eight hex digits that tell schemas apart, None for none."""
    return None if schema_text == "null" else hashlib.sha256(schema_text.encode()).hexdigest()[:8]


def cleaned_reply(reply: JudgeReply, clean: Clean) -> JudgeReply:
    """Return a reply with a clean text; one that is JSON stays so. Token by token it could not be cleaned."""
    text = _cleaned_text(reply.text, clean)
    if text == reply.text:
        return reply
    return JudgeReply(text, reply.metrics)


def without_secrets() -> Clean:
    """Return what cuts out API keys: the ones in the environment, and whatever looks like one."""
    values = {
        value
        for name, value in os.environ.items()
        if _SECRET_NAME.search(name) and len(value) >= SHORTEST_SECRET
    }

    def clean(text: str) -> str:
        for value in values:
            if value in text:
                text = text.replace(value, HIDDEN)
        return _KEY_LIKE.sub(HIDDEN, text) if _may_hold_key(text) else text

    return clean


def _may_hold_key(text: str) -> bool:
    """Look for the start of a key, a tenth as long as the pattern takes: every prompt is looked at."""
    for separator in "-_":
        place = text.find(separator)
        while place >= 0:
            if text.endswith(_KEY_STARTS, 0, place + 1):
                return True
            place = text.find(separator, place + 1)
    return any(mark in text for mark in _OTHER_MARKS)


def _cleaned_text(text: str, clean: Clean) -> str:
    cleaned = clean(text)
    if cleaned == text:
        return text
    try:
        tree = json.loads(text)
    except ValueError:
        return cleaned
    return _encoded(_cleaned_strings(tree, clean))


def _cleaned_strings(tree: Any, clean: Clean) -> Any:
    if isinstance(tree, str):
        return clean(tree)
    if isinstance(tree, list):
        return [_cleaned_strings(element, clean) for element in tree]
    if isinstance(tree, dict):
        return {key: _cleaned_strings(element, clean) for key, element in tree.items()}
    return tree
