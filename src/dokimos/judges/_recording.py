"""A judge call with its reply, as a line of JSON that holds no secrets."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import lru_cache
from json.encoder import encode_basestring as _quoted
from typing import Any, Final, Protocol

from dokimos._core.jsonable import jsonable, wire_writer
from dokimos._core.wire import from_json
from dokimos._runtime.redaction import Redactor
from dokimos.errors import TypeConversionError
from dokimos.judges._protocol import JudgeReply

UNUSABLE: Final = "unusable"
"""Comes right after the key, where it is there at all."""
_encoded: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_write_reply: Final = wire_writer(JudgeReply)
_encoded_sorted: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(", ", ": ")).encode


class Request(Protocol):
    """The parts of a call that a recording keeps."""

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
        cls, request: Request, reply: JudgeReply, clean: Redactor, *, unusable: str | None = None
    ) -> Recording:
        return cls(
            key=request.key,
            judge=clean(request.identity),
            prompt=clean(request.prompt),
            schema=schema_hash(request.schema_text),
            repeat=request.repeat,
            sample=request.sample,
            reply=redact_reply(reply, clean),
            unusable=None if unusable is None else clean(unusable),
        )

    def to_line(self, *, stable: bool = False) -> bytes:
        """Return the line; a `stable` one has only what does not change from one recording to the next."""
        return _encode_line(self._stable_json() if stable else self._json())

    def _json(self) -> str:
        """Return the fields as JSON, the key first."""
        unusable = "" if self.unusable is None else f'"{UNUSABLE}":{_quoted(self.unusable)},'
        return _format_call(self, self.judge, self.schema, self.prompt, self.reply, unusable)

    def _stable_json(self) -> str:
        reply = jsonable(self.reply)
        assert isinstance(reply, dict), "a reply has fields"
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
        return _encoded_sorted(tree)

    @classmethod
    def from_line(cls, line: bytes) -> Recording:
        """Parse a line. Raises `ValueError` if it is not a recording."""
        try:
            tree: dict[str, Any] = json.loads(line)
            recording = cls(
                key=tree["key"],
                judge=tree["judge"],
                prompt=tree["prompt"],
                schema=tree["schema"],
                repeat=tree["repeat"],
                sample=tree["sample"],
                reply=from_json(JudgeReply, tree["reply"]),
                unusable=tree.get(UNUSABLE),
            )
        except (KeyError, TypeError, AttributeError, RecursionError, TypeConversionError) as problem:
            raise ValueError(f"it is not a recording: {problem!s:.200}") from None
        recording._check()
        return recording

    def _check(self) -> None:
        """Raise `ValueError` for a field of the wrong type."""
        texts = (self.key, self.judge, self.prompt, self.schema or "", self.unusable or "")
        counts = (self.repeat, self.sample)
        if not all(isinstance(text, str) for text in texts) or not all(type(n) is int for n in counts):
            raise ValueError("it is not a recording: a field is of another type")


class _Call(Protocol):
    """What a call is told from others by, apart from its texts."""

    @property
    def key(self) -> str: ...
    @property
    def repeat(self) -> int: ...
    @property
    def sample(self) -> int: ...


def _format_call(
    call: _Call, judge: str, schema: str | None, prompt: str, reply: JudgeReply, unusable: str = ""
) -> str:
    """Put the JSON of a call together, which saves a third of the time that encoding a tree takes."""
    schema_json = "null" if schema is None else _quoted(schema)
    return (
        f'{{"key":{_quoted(call.key)},{unusable}"judge":{_quoted(judge)},"repeat":{call.repeat},'
        f'"sample":{call.sample},"schema":{schema_json},"prompt":{_quoted(prompt)},'
        f'"reply":{_write_reply(reply)}}}'
    )


def _encode_line(text: str) -> bytes:
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        # Half a surrogate pair cannot be encoded; its escape is valid JSON and reads back as the same.
        return text.encode("utf-8", "backslashreplace") + b"\n"


def recording_line(request: Request, reply: JudgeReply, clean: Redactor, *, judge: str) -> bytes:
    """Return what `Recording.of(request, reply, clean).to_line()` returns, in four fifths of the time.

    `judge` is the identity of the judge with its secrets redacted: it is the same for many calls.
    """
    prompt, schema = clean(request.prompt), schema_hash(request.schema_text)
    return _encode_line(_format_call(request, judge, schema, prompt, redact_reply(reply, clean)))


@lru_cache(maxsize=256)
def schema_hash(schema_text: str) -> str | None:
    """Return a hash of eight hex digits, None for no schema."""
    return None if schema_text == "null" else hashlib.sha256(schema_text.encode()).hexdigest()[:8]


def redact_reply(reply: JudgeReply, clean: Redactor) -> JudgeReply:
    """Return a reply with secrets redacted; JSON stays JSON. A redaction drops the token probabilities."""
    text = _redact_text(reply.text, clean)
    if text == reply.text:
        return reply
    return replace(reply, text=text, logprobs=None)


def _redact_text(text: str, clean: Redactor) -> str:
    cleaned = clean(text)
    if cleaned == text:
        return text
    try:
        tree = json.loads(text)
    except ValueError:
        return cleaned
    # Text by text: cut out of the JSON, a key could take a quote or a backslash along.
    return _encoded(_redact_strings(tree, clean))


def _redact_strings(tree: object, clean: Redactor) -> Any:
    if isinstance(tree, str):
        return clean(tree)
    if isinstance(tree, list):
        return [_redact_strings(element, clean) for element in tree]
    if isinstance(tree, dict):
        return {key: _redact_strings(element, clean) for key, element in tree.items()}
    return tree
